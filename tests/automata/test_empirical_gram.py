"""Gram matrices of the nodes of a treebank, against a twin that goes through the trees one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from oracles.reference import tree_inside_outside, tree_probability
from sapwood.automata.empirical_gram import node_grams
from sapwood.automata.product_operator import Blocks
from sapwood.automata.svta import singular_states
from sapwood.errors import InputError
from sapwood.grammar.state_ops import change_states
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import TreeEStep
from sapwood.runtime.progress import Silent
from sapwood.testing.grammars import random_bases, random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

SEEDS = st.integers(0, 10_000)


def corpus_of(trees: Iterable[Tree]) -> Corpus:
    """Return skeletal trees, as they are, as a corpus."""
    nodes = [list(tree.nodes()) for tree in trees]
    inner = sorted({node.label for tree in nodes for node in tree if node.word is None})
    leaf = sorted({node.label for tree in nodes for node in tree if node.word is not None})
    words = sorted({node.word for tree in nodes for node in tree if node.word is not None})
    flat = [node for tree in nodes for node in tree]
    return Corpus.from_columns(
        inner + leaf,
        len(inner),
        words,
        np.array(
            [inner.index(n.label) if n.word is None else len(inner) + leaf.index(n.label) for n in flat], np.int32
        ),
        np.array([-1 if node.word is None else words.index(node.word) for node in flat], np.int32),
        np.cumsum([0, *(len(tree) for tree in nodes)]).astype(np.int64),
        Normaliser(),
        TreeTransform(),
    )


def sampled(seed: int, count: int = 40, **options: object) -> tuple[TensorGrammar, list[Tree]]:
    """Return a random grammar and trees that it makes."""
    grammar = random_grammar(np.random.default_rng(seed), **{"states": (1, 3), **options})
    return grammar, grammar.sample(count, random_state=seed, max_words=30)


def slow_grams(grammar: TensorGrammar, trees: Iterable[Tree]) -> tuple[Blocks, Blocks]:
    """Return what `node_grams` does: inside and outside vectors of all nodes, each divided by a number, one by one."""
    inside: list[list[np.ndarray]] = [[] for _ in grammar.symbols]
    outside: list[list[np.ndarray]] = [[] for _ in grammar.symbols]
    for tree in trees:
        found = tree_inside_outside(grammar, tree)
        for symbol, below, above in zip(found.tree.symbol, found.inside, found.outside, strict=True):
            inside[symbol].append(below)
            outside[symbol].append(above)
    contexts, subtrees = [], []
    for symbol, m in enumerate(grammar.states.tolist()):
        begin, count = grammar.state_offsets[symbol], max(len(inside[symbol]), 1)
        below = divided(inside[symbol], grammar.occupancy[begin : begin + m])
        above = divided(outside[symbol], sum(below, np.zeros(m)) / count)
        subtrees.append(sum((np.outer(vector, vector) for vector in below), np.zeros((m, m))) / count)
        contexts.append(sum((np.outer(vector, vector) for vector in above), np.zeros((m, m))) / count)
    return contexts, subtrees


def divided(vectors: list[np.ndarray], measure: np.ndarray) -> list[np.ndarray]:
    """Return vectors over their products with `measure`, whose terms all count as positive."""
    return [vector / sum(abs(vector * measure)) for vector in vectors]


def assert_same(one: tuple[Blocks, Blocks], other: tuple[Blocks, Blocks], rel: float = 1e-9) -> None:
    for mine, its in zip(one, other, strict=True):
        for block, expected in zip(mine, its, strict=True):
            np.testing.assert_allclose(block, expected, rtol=rel, atol=rel * np.abs(expected).max(initial=0.0))


@examples(8)
@given(SEEDS, st.booleans())
def test_against_the_slow_twin(seed: int, real: bool) -> None:
    grammar, trees = sampled(seed)
    if real:
        grammar = grammar.conjugate(random_bases(np.random.default_rng(seed), grammar))
    found = node_grams(grammar, corpus_of(trees))
    assert [block.shape for blocks in found for block in blocks] == [(m, m) for m in grammar.states] * 2
    assert_same(found, slow_grams(grammar, trees))
    assert any(block.any() for block in found[0])


def test_terms_that_cancel_do_not_count_for_more() -> None:
    # In a real basis a product with the measure can be a small part of its terms.
    rng = np.random.default_rng(2)
    grammar, trees = sampled(2, states=(3, 3))
    grammar = grammar.conjugate([rng.normal(size=(3, 3)) for _ in grammar.symbols])
    contexts, subtrees = node_grams(grammar, corpus_of(trees))
    assert_same((contexts, subtrees), slow_grams(grammar, trees), 1e-7)
    for symbol, block in enumerate(subtrees):
        measure = np.abs(grammar.occupancy[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]])
        # No vector is longer than one with all its weight on the state that counts least.
        assert np.trace(block) <= 1 / measure.min() ** 2


@examples(6)
@given(SEEDS)
def test_canonical_correlations(seed: int) -> None:
    grammar, trees = sampled(seed)
    contexts, subtrees = node_grams(grammar, corpus_of(trees))
    found = singular_states((contexts, subtrees))
    seen = {node.label for tree in trees for node in tree.nodes()}
    for symbol, name in enumerate(grammar.symbols):
        if name not in seen:
            assert found.values[symbol].tolist() == [0.0]
            continue
        # Each vector's product with its measure is 1, and the measure of outside vectors is the mean inside vector.
        measure = grammar.occupancy[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]]
        mean = subtrees[symbol] @ measure
        assert measure @ mean == pytest.approx(1.0)
        assert mean @ contexts[symbol] @ mean == pytest.approx(1.0)
        # So there are two unit vectors with a correlation of 1.
        assert found.values[symbol][0] >= 1 - 1e-9
        assert (np.diff(found.values[symbol]) <= 0).all()
        if len(measure) == 1:
            assert found.values[symbol] == pytest.approx([1.0])


def test_correlations_of_a_whole_language() -> None:
    # Of a finite language all trees, each as often as it is probable: no sampling noise, and the largest is 1.
    grammar = TensorGrammar.from_parts(
        root={"S": [0.5, 0.5]},
        rules={
            ("S", "P", "Q"): [[[0.25, 0.0], [0.0, 0.25]], [[0.0, 0.25], [0.25, 0.25]]],
            ("S", "Q", "P"): [[[0.25, 0.25], [0.0, 0.0]], [[0.25, 0.0], [0.0, 0.0]]],
        },
        words={("P", "a"): [0.75, 0.25], ("P", "b"): [0.25, 0.75], ("Q", "a"): [0.5, 0.25], ("Q", "c"): [0.5, 0.75]},
    )
    words = {"P": "ab", "Q": "ac"}
    language = [
        Tree("S", [Tree(left, word=first), Tree(right, word=second)])
        for left, right in ("PQ", "QP")
        for first in words[left]
        for second in words[right]
    ]
    counts = [128 * tree_probability(grammar, tree) for tree in language]
    assert sum(counts) == 128
    assert all(count == int(count) for count in counts)
    trees = [tree for tree, count in zip(language, counts, strict=True) for _ in range(int(count))]
    found = singular_states(node_grams(grammar, corpus_of(trees)))
    assert found.ranks.tolist() == [1, 2, 2]  # there is only one context of a root
    assert [values[0] for values in found.values] == pytest.approx([1.0] * 3, abs=1e-12)
    # What a leaf says of the rest of its tree, by hand: a table of contexts and words.
    table: dict[tuple[str, str], float] = {}
    for tree, count in zip(language, counts, strict=True):
        for at, node in enumerate(tree.children):
            if node.label == "P":
                other = tree.children[1 - at]
                key = f"{at} {other.word}", node.word
                table[key] = table.get(key, 0.0) + count / 128
    rows, columns = (sorted({key[axis] for key in table}) for axis in (0, 1))
    joint = np.array([[table[row, column] for column in columns] for row in rows])
    joint /= joint.sum()
    scaled = joint / np.sqrt(np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    p = grammar.symbol_number("P", preterminal=True)
    np.testing.assert_allclose(found.values[p], np.linalg.svd(scaled)[1], rtol=1e-9)


@examples(6)
@given(SEEDS, st.booleans())
def test_all_states_give_the_same_trees_the_same_weights(seed: int, real: bool) -> None:
    grammar, trees = sampled(seed, states=(2, 3))
    if real:
        grammar = grammar.conjugate(random_bases(np.random.default_rng(seed), grammar))
    found = singular_states(node_grams(grammar, corpus_of(trees)))
    reduced = change_states(grammar, found.inside, found.outside)
    for tree in trees:
        assert tree_probability(reduced, tree) == pytest.approx(tree_probability(grammar, tree), rel=1e-6)
    # Also of trees that it has not seen, as long as their symbols were.
    seen = {node.label for tree in trees for node in tree.nodes()}
    plain, _ = sampled(seed, states=(2, 3))
    if (found.ranks == grammar.states).all():
        for tree in plain.sample(30, random_state=seed + 1, max_words=30):
            assert {node.label for node in tree.nodes()} <= seen
            assert tree_probability(reduced, tree) == pytest.approx(tree_probability(grammar, tree), rel=1e-6)


def test_scales_do_not_matter() -> None:
    # Vectors are divided by what they stand for, so the weights of a symbol's rules against each other are all.
    grammar, trees = sampled(7)
    corpus = corpus_of(trees)
    contexts, subtrees = node_grams(grammar, corpus)
    changed = replace(
        grammar,
        root=grammar.root * 3.0,
        tensors=grammar.tensors * 0.01,
        occupancy=grammar.occupancy * 5.0,
        probabilistic=False,
    )
    other_contexts, other_subtrees = node_grams(changed, corpus)
    for block, other in zip(subtrees, other_subtrees, strict=True):
        np.testing.assert_allclose(other, block / 25.0, rtol=1e-9)
    for block, other in zip(contexts, other_contexts, strict=True):
        np.testing.assert_allclose(other, block * 25.0, rtol=1e-9)


def test_a_treebank_twice_is_a_treebank() -> None:
    grammar, trees = sampled(8)
    assert_same(node_grams(grammar, corpus_of(trees * 2)), node_grams(grammar, corpus_of(trees)))
    some = node_grams(grammar, corpus_of(trees[:20]))
    assert any(not np.allclose(one, other) for one, other in zip(some[1], slow_grams(grammar, trees)[1], strict=True))


def test_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar, trees = sampled(9, 200)
    corpus = corpus_of(trees)
    # Many shards, as a large treebank has.
    honest = TreeEStep.__init__
    monkeypatch.setattr(
        TreeEStep, "__init__", lambda self, corpus, workers: honest(self, corpus, shards=7, workers=workers)
    )
    one, three = (node_grams(grammar, corpus, threads=threads) for threads in (1, 3))
    for mine, its in zip((*one[0], *one[1]), (*three[0], *three[1]), strict=True):
        assert mine.tobytes() == its.tobytes()
    monkeypatch.undo()
    assert_same(one, node_grams(grammar, corpus))


class _Counting(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def stage(self, name: str, total: int | None = None, unit: str = "") -> object:
        self.stages.append((name, total))
        return super().stage(name, total=total, unit=unit)


def test_progress_is_reported_twice() -> None:
    grammar, trees = sampled(1, 5)
    progress = _Counting()
    node_grams(grammar, corpus_of(trees), progress=progress)
    assert progress.stages == [("node vectors", 1)] * 2


def test_what_is_missing_is_said() -> None:
    grammar, _ = sampled(1)
    tag = grammar.symbols[next(s for s in range(3, 6) if grammar.root_vector(s).any())]
    progress = _Counting()
    alone = Tree(tag, word="w0")
    contexts, trees = node_grams(grammar, corpus_of([alone, Tree.parse("(S (N dog) (V barks))")]), progress=progress)
    missing = sorted(set(grammar.symbols) - {tag})
    assert progress.notes == [
        "skipped 1 tree(s) with symbols or rules that the grammar lacks",
        f"5 symbol(s) are not in the trees and keep their most frequent states: {', '.join(missing)}",
    ]
    # States of what is missing matter as often as they are expected.
    for number, name in enumerate(grammar.symbols):
        if name != tag:
            begin, end = grammar.state_offsets[number : number + 2]
            share = grammar.occupancy[begin:end] / grammar.occupancy[begin:end].sum()
            np.testing.assert_allclose(contexts[number], np.diag(share), atol=1e-11)
            np.testing.assert_array_equal(trees[number], np.eye(end - begin))


def test_trees_that_the_grammar_cannot_make() -> None:
    grammar, trees = sampled(3)
    strange = Tree.parse("(S (N dog) (V barks))")
    with pytest.raises(InputError, match=r"none of the trees .*; use the treebank that it was trained on"):
        node_grams(grammar, corpus_of([strange]))
    # Among others they are left out.
    assert_same(node_grams(grammar, corpus_of([strange, *trees, strange])), slow_grams(grammar, trees))
    # A symbol at a place where it has no rule.
    rules = {tuple(rule) for rule in grammar.rules.tolist()}
    missing = next(
        (a, b, c)
        for a in range(grammar.n_interminals)
        for b in range(grammar.n_interminals, len(grammar.symbols))
        for c in range(grammar.n_interminals, len(grammar.symbols))
        if (a, b, c) not in rules
    )
    a, b, c = (grammar.symbols[number] for number in missing)
    unruly = Tree(a, [Tree(b, word="w0"), Tree(c, word="w1")])
    with pytest.raises(InputError, match=r"none of the trees .*; use the treebank that it was trained on"):
        node_grams(grammar, corpus_of([unruly]))


def test_a_treebank_without_weight() -> None:
    grammar, trees = sampled(3)
    nothing = replace(grammar, root=np.zeros_like(grammar.root), probabilistic=False)
    with pytest.raises(InputError, match="gives none of the trees any weight; use the treebank that it was trained on"):
        node_grams(nothing, corpus_of(trees))


def test_trees_without_weight_have_no_contexts() -> None:
    # A root that the grammar does not allow: its nodes have inside vectors, but no outside vectors.
    grammar, trees = sampled(5)
    root = grammar.root.copy()
    root[: grammar.states[0]] = 0
    grammar = replace(grammar, root=root, probabilistic=False)
    possible = [tree for tree in trees if tree_probability(grammar, tree) > 0]
    impossible = [node for tree in possible for node in tree.nodes() if node.label == "A0"]
    assert possible
    assert impossible
    contexts, _ = node_grams(grammar, corpus_of(possible))
    more, subtrees = node_grams(grammar, corpus_of([*possible, *impossible]))
    assert all(np.isfinite(block).all() for block in (*more, *subtrees))
    for block, other in zip(contexts, more, strict=True):
        assert np.linalg.matrix_rank(block) == np.linalg.matrix_rank(other)
    assert singular_states((more, subtrees)).values[0][0] < 1
