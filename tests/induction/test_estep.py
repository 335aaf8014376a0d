"""The compiled charts of learning without trees, against all trees one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers.enumerate_topologies import binary_trees, projective_trees, spans_of
from sapwood.induction.estep import (
    DenseRule,
    LowRankRule,
    SentenceBatch,
    Shards,
    Valence,
    best_binary,
    best_projective_heads,
    span_ends,
    sum_trees,
)
from sapwood.induction.text import make_text
from sapwood.runtime.executor import Threads

SENTENCES = [[0, 1, 2, 1], [2], [1, 1, 0], [0, 2], [2, 0, 1, 1, 0]]
TERMINALS, STATES, RANK = 3, 2, 4


def as_sentences(rows) -> SentenceBatch:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return SentenceBatch(np.array([word for row in rows for word in row], np.int32), offsets.astype(np.int64))


def numbers_of_spans(length: int) -> dict[tuple[int, int], int]:
    begin, end = span_ends(length)
    return {pair: number for number, pair in enumerate(zip(begin.tolist(), end.tolist(), strict=True))}


def weights_of_spans(rng, rows) -> list[np.ndarray]:
    """Random weights, some of them zero, but never for whole sentences and right-branching trees."""
    found = []
    for row in rows:
        begin, end = span_ends(len(row))
        drawn = rng.uniform(0.2, 3, len(begin))
        found.append(np.where((rng.random(len(begin)) < 0.2) & (end < len(row)), 0.0, drawn))
    return found


def valence_trees(sentence, weights, factors):
    """Yield, for each projective tree, its weight, uses of weights, its spans and its heads."""
    length = len(sentence)
    places = numbers_of_spans(length)
    for heads in projective_trees(length):
        weight, uses, spans = 1.0, Valence(*(np.zeros_like(part) for part in weights)), []
        for head in range(length):
            word = sentence[head]
            right = [m for m in range(head + 1, length) if heads[m] == head]
            left = [m for m in range(head - 1, -1, -1) if heads[m] == head]
            for side, arguments in ((0, left), (1, right)):
                for number, argument in enumerate(arguments):
                    has = int(number > 0)
                    weight *= weights.go[side, word, has] * weights.attach[side, word, sentence[argument]]
                    uses.go[side, word, has] += 1
                    uses.attach[side, word, sentence[argument]] += 1
                weight *= weights.stop[side, word, int(bool(arguments))]
                uses.stop[side, word, int(bool(arguments))] += 1
            # What the head has taken in, argument by argument: first to the right, then to the left.
            begin, end = head, head + 1
            for argument in (*right, *left):
                below = [m for m in range(length) if argument in chain_up(heads, m)]
                begin, end = min(begin, *below), max(end, max(below) + 1)
                spans.append((begin, end))
        root = sentence[heads.index(-1)]
        weight *= weights.root[root]
        uses.root[root] += 1
        if factors is not None:
            weight *= np.prod([factors[places[span]] for span in spans])
        yield weight, uses, spans, heads


def chain_up(heads, word):
    while word >= 0:
        yield word
        word = heads[word]


@pytest.mark.parametrize("weighted", [False, True])
def test_heads(weighted):
    rng = np.random.default_rng(1)
    weights = Valence(
        *(
            rng.uniform(0.1, 1, shape)
            for shape in ((2, TERMINALS, TERMINALS), (2, TERMINALS, 2), (2, TERMINALS, 2), TERMINALS)
        )
    )
    factors = weights_of_spans(rng, SENTENCES) if weighted else [None] * len(SENTENCES)
    found = sum_trees(
        as_sentences(SENTENCES), weights, np.concatenate(factors) if weighted else None, spans=True, edges=True
    )
    wanted = Valence(*(np.zeros_like(part) for part in weights))
    spans, edges, logarithms = [], [], []
    for sentence, factor in zip(SENTENCES, factors, strict=True):
        trees = list(valence_trees(sentence, weights, factor))
        total = sum(weight for weight, *_ in trees)
        logarithms.append(np.log(total))
        places = numbers_of_spans(len(sentence))
        own_spans, own_edges = np.zeros(len(places)), np.zeros((len(sentence), len(sentence)))
        own_spans[[number for (begin, end), number in places.items() if end - begin == 1]] = 1
        for weight, uses, tree_spans, heads in trees:
            for target, part in zip(wanted, uses, strict=True):
                target += weight / total * part
            for span in tree_spans:
                own_spans[places[span]] += weight / total
            for word, head in enumerate(heads):
                own_edges[word, word if head < 0 else head] += weight / total
        spans.append(own_spans)
        edges.append(own_edges.ravel())
    np.testing.assert_allclose(found.logarithms, logarithms)
    for own, other in zip(found.uses, wanted, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-12)
    np.testing.assert_allclose(found.spans, np.concatenate(spans), atol=1e-12)
    np.testing.assert_allclose(found.edges, np.concatenate(edges), atol=1e-12)


def state_trees(sentence, rule, leaf, root, factors):
    """Yield each binary tree with each assignment of states: weight, rule uses, leaf uses, root, spans."""
    places = numbers_of_spans(len(sentence))
    states = range(len(root))

    def labelled(tree):
        """Yield (state, weight, rules, leaves) of all ways to label a tree."""
        if isinstance(tree, int):
            for state in states:
                yield state, leaf[sentence[tree], state], [], [(sentence[tree], state)], []
            return
        span = (min(flat(tree)), max(flat(tree)) + 1)
        factor = 1.0 if factors is None else factors[places[span]]
        for left, right in product(labelled(tree[0]), labelled(tree[1])):
            for state in states:
                used = (state, left[0], right[0])
                yield (
                    state, factor * left[1] * right[1] * rule[used], [used, *left[2], *right[2]],
                    left[3] + right[3], [(span, state), *left[4], *right[4]],
                )  # fmt: skip

    for tree in binary_trees(0, len(sentence)):
        for state, weight, rules, leaves, nodes in labelled(tree):
            yield weight * root[state], rules, leaves, state, nodes, spans_of(tree)


def flat(tree):
    return [tree] if isinstance(tree, int) else flat(tree[0]) + flat(tree[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_states_with_any_rules(weighted):
    rng = np.random.default_rng(2)
    rule = rng.uniform(0.1, 1, (STATES, STATES, STATES))
    leaf, root = rng.uniform(0.1, 1, (TERMINALS, STATES)), rng.uniform(0.1, 1, STATES)
    factors = weights_of_spans(rng, SENTENCES) if weighted else [None] * len(SENTENCES)
    weights = DenseRule(root, rule.reshape(STATES, -1), leaf)
    found = sum_trees(as_sentences(SENTENCES), weights, np.concatenate(factors) if weighted else None, spans=True)
    wanted = DenseRule(*(np.zeros_like(part) for part in weights))
    spans, logarithms, occupancy = [], [], np.zeros(STATES)
    for sentence, factor in zip(SENTENCES, factors, strict=True):
        trees = list(state_trees(sentence, rule, leaf, root, factor))
        total = sum(weight for weight, *_ in trees)
        logarithms.append(np.log(total))
        places = numbers_of_spans(len(sentence))
        own = np.zeros(len(places))
        own[[number for (begin, end), number in places.items() if end - begin == 1]] = 1
        for weight, rules, leaves, top, nodes, tree_spans in trees:
            share = weight / total
            wanted.root[top] += share
            for parent, left, right in rules:
                wanted.rule[parent, left * STATES + right] += share
            for terminal, state in leaves:
                wanted.leaf[terminal, state] += share
            for _, state in nodes:
                occupancy[state] += share
            for span in tree_spans:
                own[places[span]] += share
        spans.append(own)
    np.testing.assert_allclose(found.logarithms, logarithms)
    np.testing.assert_allclose(found.spans, np.concatenate(spans), atol=1e-12)
    np.testing.assert_allclose(found.occupancy, occupancy)
    for ours, other in zip(found.uses, wanted, strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-12)


def random_low_rank(rng, terminals=TERMINALS, states=STATES, rank=RANK) -> LowRankRule:
    shapes = (states, (states, rank), (rank, states), (rank, states), (terminals, rank), (terminals, rank))
    return LowRankRule(*(rng.uniform(0.1, 1, shape) for shape in shapes))


@pytest.mark.parametrize("weighted", [False, True])
def test_low_rank_rules_are_rules(weighted):
    """Words are states of their own; then the two charts must agree, and uses are derivatives."""
    rng = np.random.default_rng(3)
    rows = [row for row in SENTENCES if len(row) > 1]
    weights = random_low_rank(rng)
    factors = np.concatenate(weights_of_spans(rng, rows)) if weighted else None
    found = sum_trees(as_sentences(rows), weights, factors, spans=True)
    every = STATES + TERMINALS
    left = np.concatenate([weights.left, weights.left_leaf.T], axis=1)
    right = np.concatenate([weights.right, weights.right_leaf.T], axis=1)
    rule = np.zeros((every, every, every))
    rule[:STATES] = np.einsum("cr,ra,rb->cab", weights.up, left, right)
    leaf = np.zeros((TERMINALS, every))
    leaf[:, STATES:] = np.eye(TERMINALS)
    dense = DenseRule(np.concatenate([weights.root, np.zeros(TERMINALS)]), rule.reshape(every, -1), leaf)
    other = sum_trees(as_sentences(rows), dense, factors, spans=True)
    np.testing.assert_allclose(found.logarithms, other.logarithms)
    np.testing.assert_allclose(found.spans, other.spans, atol=1e-12)
    np.testing.assert_allclose(found.occupancy, other.occupancy[:STATES])
    np.testing.assert_allclose(found.uses.root, other.uses.root[:STATES])
    for number, part in enumerate(weights):
        for place in list(np.ndindex(part.shape))[:6]:
            changed = [each.copy() for each in weights]
            values = []
            for step in (1e-5, -1e-5):
                changed[number][place] = part[place] * np.exp(step)
                values.append(sum_trees(as_sentences(rows), LowRankRule(*changed), factors).logarithms.sum())
            assert found.uses[number][place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_a_mask_of_spans_leaves_their_trees():
    """With all spans of one tree allowed and no others, what is left is that tree."""
    rng = np.random.default_rng(4)
    weights, sentence = random_low_rank(rng), [0, 1, 2, 1, 0]
    allowed = {(0, 5), (1, 5), (1, 3), (3, 5)}
    places = numbers_of_spans(5)
    mask = np.array([float(span in allowed or span[1] - span[0] == 1) for span in places])
    found = sum_trees(as_sentences([sentence]), weights, mask, spans=True)
    np.testing.assert_allclose(found.spans, mask)
    impossible = np.where(np.array([span == (0, 5) for span in places]), 0.0, 1.0)
    assert sum_trees(as_sentences([sentence]), weights, impossible).logarithms[0] == -np.inf


@pytest.mark.parametrize("kind", ["heads", "any", "low rank"])
def test_long_sentences_and_tiny_weights_neither_vanish_nor_overflow(kind):
    """A factor for each word is a factor for the whole, however small or large."""
    rng = np.random.default_rng(5)
    sentence = rng.integers(0, TERMINALS, 90).tolist()

    def weights(factor):
        local = np.random.default_rng(6)
        if kind == "heads":
            parts = [local.uniform(0.1, 1, shape) for shape in ((2, 3, 3), (2, 3, 2), (2, 3, 2), 3)]
            return Valence(parts[0] * factor, parts[1], parts[2], parts[3] * factor)
        if kind == "any":
            return DenseRule(
                local.uniform(0.1, 1, 2), local.uniform(0.1, 1, (2, 4)), factor * local.uniform(0.1, 1, (3, 2))
            )
        found = random_low_rank(local)
        return found._replace(left_leaf=factor * found.left_leaf, right_leaf=factor * found.right_leaf)

    usual = sum_trees(as_sentences([sentence]), weights(1.0), spans=True)
    for factor in (1e-12, 1e12):
        other = sum_trees(as_sentences([sentence]), weights(factor), spans=True)
        assert other.logarithms[0] == pytest.approx(usual.logarithms[0] + 90 * np.log(factor))
        np.testing.assert_allclose(other.spans, usual.spans, atol=1e-9)
    # Also where wide stretches may be no constituents, so that their cells stay empty.
    begin, end = span_ends(90)
    right = ((end == 90) | (end - begin == 1)).astype(float)
    only = sum_trees(as_sentences([sentence]), weights(1e-12), right, spans=True)
    np.testing.assert_allclose(only.spans[right > 0], 1.0)


def test_best_trees_have_the_largest_sums():
    rng = np.random.default_rng(7)
    offsets = np.array([0, 4, 5, 5, 10, 12], np.int64)
    lengths = np.diff(offsets)
    spans = rng.normal(size=int((lengths * (lengths + 1) // 2).sum()))
    edges = rng.normal(size=int((lengths**2).sum()))
    found, heads = best_binary(offsets, spans), best_projective_heads(offsets, edges)
    assert [len(each) for each in heads] == lengths.tolist()
    for number, length in enumerate(lengths.tolist()):
        first = int((lengths[:number] * (lengths[:number] + 1) // 2).sum())
        own = {span: spans[first + at] for span, at in numbers_of_spans(length).items()}
        trees = [spans_of(tree) for tree in binary_trees(0, length)] if length else [[]]
        assert sorted(found[number]) in [sorted(tree) for tree in trees]
        assert sum(own[span] for span in found[number]) == pytest.approx(
            max(sum(own[span] for span in tree) for tree in trees)
        )
        if not length:
            assert heads[number] == []
            continue
        score = edges[int((lengths[:number] ** 2).sum()) :][: length**2].reshape(length, length)

        def total(tree, score=score):
            return sum(score[word, word if head < 0 else head] for word, head in enumerate(tree))

        assert tuple(heads[number]) in projective_trees(length)
        assert total(heads[number]) == pytest.approx(max(map(total, projective_trees(length))))


def test_shards_give_the_same_sums_on_any_threads():
    rng = np.random.default_rng(8)
    rows = [[str(word) for word in rng.integers(0, 5, length)] for length in rng.integers(1, 130, 40)]
    text = make_text(rows, classes=0)
    weights = random_low_rank(rng, terminals=len(text.terminals))
    alone, together = Shards(text, Threads(1)), Shards(text, Threads(3))
    one, three = (shards.sums(weights, spans=True) for shards in (alone, together))
    assert len(alone._kept) > 3
    for own, other in zip(
        (*one.uses, one.spans, one.logarithms), (*three.uses, three.spans, three.logarithms), strict=True
    ):
        assert np.array_equal(own, other)
    whole = sum_trees(SentenceBatch.of(text), weights, spans=True)
    np.testing.assert_allclose(one.spans, whole.spans)
    np.testing.assert_allclose(one.uses.up, whole.uses.up)
    factors = rng.uniform(0.5, 2, alone.n_spans)
    np.testing.assert_allclose(
        alone.sums(weights, factors).logarithms, sum_trees(SentenceBatch.of(text), weights, factors).logarithms
    )
