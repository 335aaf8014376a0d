"""The coarse pass: what it expects of neighbours, what it leaves out for that, and that it finds the rest."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.made_up import made_up_treebank
from oracles import reference
from sapwood import kernels
from sapwood.inference import Parser
from sapwood.inference.chart import boundary_model
from sapwood.inference.chart.chart import coarse_forest
from sapwood.inference.chart.compiled import compile_grammar
from sapwood.inference.chart.posteriors import Forest, Workspace
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.testing.grammars import random_grammar
from sapwood.trees import Corpus, Tree, TreeTransform

# No symbol is below itself, so all trees can be listed.
FINITE = """
(S (NP (D a) (N b)) (VP (V c) (NP (D a) (N b))))
(S (NP (N b)) (VP (V c) (A d)))
(S (NP (D a) (J e) (N b)) (VP (V c)))
(S (VP (V c) (NP (N b)) (A d)))
(S (NP (D a) (N b)) (VP (V c) (A d) (A d)))
"""


def coarse_grammar(trees):
    corpus = Corpus.from_trees(map(Tree.parse, trees), transform=TreeTransform(1, 0))
    return compile_grammar(PCFG().fit(corpus)).coarse


@pytest.fixture(scope="module")
def finite():
    return coarse_grammar(FINITE.strip().splitlines())


@pytest.fixture(scope="module")
def grammar():
    return PCFG().fit(Corpus.from_trees(made_up_treebank(200), transform=TreeTransform(2, 1)))


@pytest.fixture(scope="module")
def sentences():
    return [tree.words() for tree in made_up_treebank(25, seed=5)]


def listed_trees(coarse):
    """Return all trees of a grammar without recursion: probability, tags, and nodes (symbol, start, end)."""
    rules = defaultdict(list)
    for (a, b, c), weight in zip(coarse.rules.tolist(), coarse.tensors.tolist(), strict=True):
        rules[a].append((b, c, weight))

    def below(symbol):
        if symbol >= coarse.n_interminals:
            return [(1.0, [int(coarse.emissions.tag_of[symbol - coarse.n_interminals])], [(symbol, 0, 1)])]
        found = []
        for b, c, weight in rules[symbol]:
            for p, tags, nodes in below(b):
                for q, more, others in below(c):
                    moved = [(s, i + len(tags), j + len(tags)) for s, i, j in others]
                    found.append(
                        (weight * p * q, tags + more, [(symbol, 0, len(tags + more)), *nodes, *moved]),
                    )
        return found

    roots = np.flatnonzero(coarse.root).tolist()
    return [(coarse.root[a] * p, tags, nodes) for a in roots for p, tags, nodes in below(a)]


def test_neighbours_are_those_of_all_trees(finite, monkeypatch):
    monkeypatch.setattr(boundary_model, "_CHANCE", 0.0)
    found = boundary_model.compute_boundary_model(finite)
    n_tags, n_symbols = len(finite.emissions.tags), len(finite.symbols)
    before, after = np.zeros((n_tags + 1, n_symbols)), np.zeros((n_tags + 1, n_symbols))
    steps = np.zeros((n_tags + 1, n_tags + 1))
    total = 0.0
    for probability, tags, nodes in listed_trees(finite):
        total += probability
        framed = [n_tags, *tags, n_tags]
        for symbol, i, j in nodes:
            before[framed[i], symbol] += probability
            after[framed[j + 1], symbol] += probability
        for one, other in pairwise(framed):
            steps[one, other] += probability
    assert total == pytest.approx(1.0)
    tag_totals = steps.sum(axis=1)
    np.testing.assert_allclose(found.transitions, steps / tag_totals[:, None], atol=1e-4)
    np.testing.assert_allclose(found.left, before / tag_totals[:, None], atol=1e-4)
    np.testing.assert_allclose(found.right, after / after.sum(axis=0), atol=1e-4)
    inner = finite.n_interminals
    np.testing.assert_allclose(
        found.tag_share[inner:], before.sum(axis=0)[inner:] / tag_totals[found.tag[inner:]], atol=1e-4
    )


def slow_fits(words, tables):
    """Forward and backward without scales: fits at all boundaries and the probability; `words (n, S)` are weights."""
    n = len(words)
    n_tags = len(tables.transitions) - 1
    leaves = np.flatnonzero(tables.tag >= 0)
    by_tag = np.zeros((n, n_tags + 1))
    for i in range(n):
        for s in leaves:
            by_tag[i, tables.tag[s]] += tables.tag_share[s] * words[i, s]
    end = np.eye(n_tags + 1)[n_tags]
    forward, backward = [end], [end]
    for i in range(n):
        forward.append((forward[-1] @ tables.transitions) * by_tag[i])
        backward.append(by_tag[n - 1 - i] * (tables.transitions @ backward[-1]))
    left = np.array(forward) @ tables.left
    right = np.array(backward[::-1]) @ tables.right
    return left, right, float(forward[-1] @ tables.transitions[:, n_tags])


def fast_fits(leaves, compiled):
    left, right, *exponents, total, exponent = kernels.estimate_merits(compiled.native_coarse, leaves)
    return left, right, np.array(exponents), total, exponent


def test_fits_equal_the_slow_twin(grammar, sentences):
    parser = Parser(grammar)
    tables = parser.compiled.boundary_model
    for sentence in sentences[:5]:
        _, leaves = parser._lookup.score(sentence[:12])
        words = np.zeros((len(leaves), parser.compiled.n_coarse))
        for row, leaf in zip(words, leaves, strict=True):
            row[leaf.symbols] = leaf.values
        left, right, probability = slow_fits(words, tables)
        found_left, found_right, exponents, total, exponent = fast_fits(leaves, parser.compiled)
        # The tables are kept in single precision.
        np.testing.assert_allclose(np.ldexp(found_left, exponents[0][:, None]), left, rtol=1e-6)
        np.testing.assert_allclose(np.ldexp(found_right, exponents[1][:, None]), right, rtol=1e-6)
        assert np.ldexp(total, exponent) == pytest.approx(probability, rel=1e-9)


def test_fits_of_a_long_sentence_are_numbers(grammar, sentences):
    parser = Parser(grammar)
    _, leaves = parser._lookup.score([word for sentence in sentences * 4 for word in sentence][:500])
    left, right, exponents, total, _ = fast_fits(leaves, parser.compiled)
    assert np.isfinite(left).all()
    assert np.isfinite(right).all()
    assert total > 0
    assert exponents[0, -1] < -1100  # beyond the range of numbers


def test_words_estimates_are_those_of_the_markov_model(monkeypatch):
    # With one preterminal for each tag those of a word add up to the sentence's probability.
    monkeypatch.setattr(boundary_model, "_CHANCE", 0.0)
    flat = [
        line.replace("(NP (N b))", "(NP (D a) (N b))").replace("(VP (V c))", "(VP (V c) (A d))")
        for line in FINITE.strip().splitlines()
        if "(S (VP" not in line
    ]
    tables = boundary_model.compute_boundary_model(coarse_grammar(flat))
    assert len(set(tables.tag[tables.tag >= 0].tolist())) == (tables.tag >= 0).sum()
    rng = np.random.default_rng(0)
    words = np.where(tables.tag >= 0, rng.random((6, len(tables.tag))), 0.0)
    left, right, probability = slow_fits(words, tables)
    for i in range(6):
        assert words[i] @ (left[i] * right[i + 1]) == pytest.approx(probability, rel=1e-4)


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]), st.integers(0, 7))
def test_lanes(seed, dtype, begin):
    rng = np.random.default_rng(seed)
    values, factors = (rng.choice([0.0, 0.5, 1.0, np.nan, np.inf, 1e-30], 16 + 7).astype(dtype) for _ in range(2))
    limit = rng.choice([0.0, 0.25, 0.5])
    mask = kernels.mask_above(values[begin:], factors[begin:], limit)
    with np.errstate(invalid="ignore", under="ignore"):
        expected = (values * factors > dtype(limit))[begin : begin + 16]
    assert [bool(mask >> x & 1) for x in range(32)] == [*expected.tolist(), *[False] * 16]


# How much wider than the threshold the coarse pass's beam is.
BEAM = 10.0


def slow_chart(compiled, leaves, threshold, tables):
    """The inside values of the coarse pass, pruned by its definition, and the posteriors of entries and edges."""
    n, n_symbols, beam = len(leaves), compiled.n_coarse, BEAM * threshold
    words = np.zeros((n, n_symbols))
    for row, leaf in zip(words, leaves, strict=True):
        row[leaf.symbols] = leaf.values
    left, right, probability = slow_fits(words, tables)
    rules = defaultdict(list)
    triples = zip(compiled.rule_left, compiled.rule_right, compiled.rule_parent, compiled.rule_weight, strict=True)
    for b, c, a, weight in triples:
        rules[b, c].append((a, weight))
    inside, edges = {}, {}
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            row, used, floor = defaultdict(float), [], threshold * probability
            if i == j - 1:
                row.update((s, words[i, s]) for s in np.flatnonzero(words[i]))
            totals = {}
            for b, c in rules:
                by_split = {k: inside.get((i, k, b), 0) * inside.get((k, j, c), 0) for k in range(i + 1, j)}
                if any(by_split.values()):
                    totals[b, c] = sum(by_split.values()), by_split
            merit = {
                pair: total * max(weight * compiled.prior[a] for a, weight in rules[pair])
                for pair, (total, _) in totals.items()
            }
            for pair, (total, by_split) in totals.items():
                if merit[pair] > beam * max(merit.values()):
                    for a, weight in rules[pair]:
                        if total * weight * left[i, a] * right[j, a] >= 0.1 * floor:
                            row[a] += total * weight
                            used.append((a, *pair, weight, by_split))
            fits = {s: value * left[i, s] * right[j, s] for s, value in row.items()}
            kept = {s for s in row if fits[s] >= max(floor, beam * max(fits.values()))}
            inside.update(((i, j, s), row[s]) for s in kept)
            edges[i, j] = [edge for edge in used if edge[0] in kept]
    outside = defaultdict(float, {(0, n, s): weight for s, weight in enumerate(compiled.coarse.root)})
    total = sum(inside.get((0, n, s), 0.0) * weight for s, weight in enumerate(compiled.coarse.root))
    posterior = defaultdict(float)
    for j in range(n, 1, -1):
        for i in range(j - 1):
            for a, b, c, weight, by_split in edges[i, j]:
                above = outside[i, j, a] * weight
                for k, value in by_split.items():
                    if value:
                        outside[i, k, b] += above * inside[k, j, c]
                        outside[k, j, c] += above * inside[i, k, b]
                        posterior[i, k, j, a, b, c] += above * value / total
    entries = {key: value * outside[key] / total for key, value in inside.items()}
    return inside, entries, posterior


def fast_chart(compiled, leaves, threshold):
    """The entries of the coarse pass with their inside values and posteriors, and the edges of its forest."""
    _, found, places, values, exponents, posteriors = kernels.coarse_entries(compiled.native_coarse, leaves, threshold)
    forest = Forest(*found.arrays())
    keys = [tuple(place) for place in places.tolist()]
    inside = dict(zip(keys, np.ldexp(values, exponents).tolist(), strict=True))
    entries = dict(zip(keys, posteriors.tolist(), strict=True))
    edges = set()
    end = ((np.sqrt(8.0 * forest.node_cell + 1) + 1) / 2 + 1e-9).astype(int)
    start = forest.node_cell - end * (end - 1) // 2
    for group, (parent, rule) in enumerate(zip(forest.group_parent, forest.group_rule, strict=True)):
        for left, right in forest.children[forest.group_offsets[group] : forest.group_offsets[group + 1]]:
            symbols = [
                int(symbols[rule]) for symbols in (compiled.rule_parent, compiled.rule_left, compiled.rule_right)
            ]
            assert [int(forest.node_symbol[node]) for node in (parent, left, right)] == symbols
            assert (start[left], end[left], end[right]) == (start[parent], start[right], end[parent])
            edges.add((int(start[parent]), int(end[left]), int(end[parent]), *symbols))
    assert len(edges) == len(forest.children)
    return inside, entries, edges


@pytest.mark.parametrize("threshold", [1e-3, 1e-5])
def test_pruned_charts_equal_the_slow_twin(grammar, sentences, threshold):
    parser = Parser(grammar)
    compiled, pruned = parser.compiled, 0
    for sentence in sorted(sentences, key=len)[6:20]:
        _, leaves = parser._lookup.score(sentence)
        inside, entries, edges = fast_chart(compiled, leaves, threshold)
        expected, expected_entries, posterior = slow_chart(compiled, leaves, threshold, compiled.boundary_model)
        assert inside.keys() == expected.keys()
        for key, value in inside.items():
            assert value == pytest.approx(expected[key], rel=1e-4)
        for key, value in entries.items():
            assert value == pytest.approx(expected_entries[key], rel=0.01, abs=2 * threshold)
        # Rules with less than a tenth of the threshold hand nothing down: what is near the threshold may differ.
        assert all(posterior[edge] > 0.5 * threshold for edge in edges)
        assert {edge for edge, value in posterior.items() if value > 2 * threshold} <= edges
        pruned += len(posterior) - len(edges)
    assert pruned > 0


def test_few_and_many_pairs_are_summed_alike(grammar, sentences, monkeypatch):
    parser = Parser(grammar)
    forests = []
    for few in (0, 4, 1000):
        monkeypatch.setattr("sapwood.inference.chart.compiled._FEW", few)
        compiled = compile_grammar(grammar, np.float32)
        assert (compiled.pair_tables.dense_merit.shape[1] > 0) == (few < 1000)
        forests.append([fast_chart(compiled, parser._lookup.score(words)[1], 1e-5) for words in sentences[:8]])
    for other in forests[1:]:
        for (inside, _, edges), (others, _, other_edges) in zip(forests[0], other, strict=True):
            assert inside.keys() == others.keys()
            np.testing.assert_allclose(list(inside.values()), [others[key] for key in inside], rtol=1e-4)
            assert len(edges ^ other_edges) <= 0.01 * len(edges)


@pytest.mark.slow
def test_estimates_lose_little(grammar, sentences):
    # Compared with the exact posteriors of the coarse grammar.
    parser = Parser(grammar)
    compiled = parser.compiled
    exact = Parser(compiled.coarse, threshold=0)
    lost = total = 0.0
    for sentence in sorted(sentences, key=len)[:12]:
        _, leaves = parser._lookup.score(sentence)
        whole = exact.chart(sentence)
        assert whole is not None
        spans = whole.spans()
        _, _, edges = fast_chart(compiled, leaves, 1e-5)
        for group, parent in enumerate(whole.forest.group_parent):
            rule = whole.forest.group_rule[group]
            for edge in range(*whole.forest.group_offsets[group : group + 2]):
                left = whole.forest.children[edge, 0]
                symbols = (whole.compiled.rule_parent, whole.compiled.rule_left, whole.compiled.rule_right)
                key = (spans[parent][0], spans[left][1], spans[parent][1], *(int(column[rule]) for column in symbols))
                total += whole.edge_posterior[edge]
                if key not in edges:
                    lost += whole.edge_posterior[edge]
                    assert whole.edge_posterior[edge] < 1e-3
    assert lost < 1e-3 * total


def test_an_improbable_sentence_is_looked_at_again(grammar):
    # Words in no order: the Markov model over tags thinks more of them than the grammar does.
    rng = np.random.default_rng(1)
    words = [word for tree in made_up_treebank(10, seed=6) for word in tree.words()]
    parser = Parser(grammar)
    again = 0
    for _ in range(20):
        _, leaves = parser._lookup.score(rng.choice(words, 30).tolist())
        forest = coarse_forest(parser.compiled, leaves, 1e-6, Workspace())
        rounds = kernels.coarse_entries(parser.compiled.native_coarse, leaves, 1e-6)[0]
        again += rounds > 1
        assert 1 <= rounds <= 3
        exact = coarse_forest(parser.compiled, leaves, 0.0, Workspace())
        assert (forest is None) == (exact is None)
    assert again > 0


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_contexts_of_any_grammar(seed, real):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(
        rng, interminals=int(rng.integers(1, 5)), preterminals=int(rng.integers(1, 4)), states=(1, 3), real=real
    )
    compiled = compile_grammar(grammar)
    tables = compiled.boundary_model
    for table in (tables.left, tables.right, tables.transitions):
        assert np.isfinite(table).all()
        assert (table >= 0).all()
    assert (tables.transitions.sum(axis=1) <= 1 + 1e-9).all()
    # Little pruning on short sentences leaves a parse where there is one.
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, 7))]
    leaves = [compiled.leaf(grammar.emissions.row(terminal)) for terminal in grammar.lexicon.terminals(words)]
    exact = coarse_forest(compiled, leaves, 0.0, Workspace())
    pruned = coarse_forest(compiled, leaves, 1e-9, Workspace())
    assert (exact is None) == (pruned is None)
    if not real and exact is not None:
        assert reference.inside_outside(compiled.coarse, words).probability > 0
