"""Merging states: against projections, twins that go node by node, and what must not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from automata.reduce.test_truncation import split_states
from automata.test_empirical_gram import corpus_of, sampled
from helpers.made_up import made_up_treebank
from oracles.reference import tree_inside_outside, tree_probability
from sapwood.automata import merge
from sapwood.automata.reduce.state_merging import all_groups, find_merges, merge_order
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.state_ops import change_states, drop_weights, merge_states, quantise
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.estep.trees import TreeEStep
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.trees.corpus import Corpus


@pytest.fixture(scope="module")
def trained() -> tuple[TensorGrammar, Corpus]:
    corpus = Corpus.from_trees(made_up_treebank(200))
    return SplitMerge(cycles=3, iterations=5, smoothing_iterations=3).fit(corpus), corpus


def random_groups(grammar: TensorGrammar, rng: np.random.Generator) -> np.ndarray:
    """Return groups of states, none empty, the same for preterminals with one emitter."""
    found = []
    for number, m in enumerate(grammar.states.tolist()):
        emitter, leaf = grammar.emissions.emitter, number - grammar.n_interminals
        if emitter is not None and leaf >= 0 and emitter[leaf] != leaf:
            found.append(found[grammar.n_interminals + int(emitter[leaf])])
        else:
            found.append(np.unique(rng.integers(max(1, m // 2 + 1), size=m), return_inverse=True)[1])
    return np.concatenate(found)


@pytest.mark.parametrize("seed", range(5))
def test_joining_is_a_projection(seed):
    """Shares on the inside, sums on the outside: `merge_states` is `change_states` by those matrices."""
    grammar, trees = sampled(seed, states=(2, 5))
    groups = random_groups(grammar, np.random.default_rng(seed))
    bounds = grammar.state_offsets
    inside, outside = [], []
    for a in range(len(grammar.symbols)):
        own, often = groups[bounds[a] : bounds[a + 1]], grammar.occupancy[bounds[a] : bounds[a + 1]]
        sums = (own[:, None] == np.arange(own.max() + 1)).astype(float)
        outside.append(sums)
        inside.append(sums * often[:, None] / (often @ sums))
    found = merge_states(grammar, groups).validate(1e-9)
    expected = change_states(grammar, inside, outside)
    assert found.probabilistic
    for name in ("states", "tensors", "root", "occupancy"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-15)
    for tree in trees[:5]:
        assert tree_probability(found, tree) == pytest.approx(tree_probability(expected, tree), rel=1e-9)


def test_shared_emitters(trained):
    grammar, _ = trained
    assert grammar.emissions.emitter is not None
    groups = random_groups(grammar, np.random.default_rng(0))
    joined = merge_states(grammar, groups).validate(1e-3)
    assert np.array_equal(joined.emissions.emitter, grammar.emissions.emitter)
    np.testing.assert_allclose(joined.emissions.totals(), 1.0, atol=1e-6)
    shared = np.flatnonzero(grammar.emissions.emitter != np.arange(len(grammar.emissions.emitter)))
    at = int(shared[np.argmax(grammar.emissions.states[shared])]) + grammar.n_interminals
    wrong = groups.copy()
    wrong[grammar.state_offsets[at] : grammar.state_offsets[at + 1]] = np.arange(grammar.states[at])
    with pytest.raises(GrammarError, match="share an emitter"):
        merge_states(grammar, wrong)


def test_groups_are_checked(trained):
    grammar, _ = trained
    with pytest.raises(GrammarError, match="none is empty"):
        merge_states(grammar, np.full(int(grammar.states.sum()), 1))


def slow_cost(grammar: TensorGrammar, trees: list, symbol: int, i: int, j: int) -> float:
    """Return what merging two states of a symbol costs, one node at a time."""
    begin = grammar.state_offsets[symbol]
    a, b = grammar.occupancy[begin + i], grammar.occupancy[begin + j]
    cost = 0.0
    for tree in trees:
        passes = tree_inside_outside(grammar, tree)
        for node, at in enumerate(passes.tree.symbol):
            if at == symbol:
                up, down = passes.inside[node], passes.outside[node]
                total = up @ down
                merged = (a * up[i] + b * up[j]) / (a + b) * (down[i] + down[j])
                cost -= np.log((total - up[i] * down[i] - up[j] * down[j] + merged) / total)
    return cost


def test_the_first_merge_is_the_cheapest():
    grammar, trees = sampled(3, states=(3, 3))
    corpus = corpus_of(trees)
    known, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    for found in find_merges(grammar, TreeEStep(known)):
        (symbol,) = found.symbols
        costs = {(i, j): slow_cost(grammar, trees, symbol, i, j) for i in range(3) for j in range(i + 1, 3)}
        if any(costs.values()):
            assert found.losses[0] == pytest.approx(min(costs.values()), rel=1e-3, abs=1e-3)
            assert costs[tuple(found.pairs[0].tolist())] == pytest.approx(min(costs.values()), rel=1e-3, abs=1e-3)
        assert found.groups(3).tolist() == [0, 1, 2]
        assert found.groups(1).tolist() == [0, 0, 0]


def test_copies_are_merged_first_and_for_nothing():
    """States that are copies of others go, and no tree's probability changes."""
    base, trees = sampled(5, states=(2, 2))
    grammar = split_states(base, np.random.default_rng(5))
    assert grammar.states.sum() > base.states.sum()
    known, _ = corpus_of(trees).renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    merges = find_merges(grammar, TreeEStep(known))
    joined = merge_states(grammar, all_groups(grammar, merges, base.states))
    for found, copies in zip(merges, grammar.states - base.states, strict=True):
        assert np.abs(found.losses[:copies]).max(initial=0.0) < 1e-2
    for tree in trees[:10]:
        assert tree_probability(joined, tree) == pytest.approx(tree_probability(base, tree), rel=1e-3)


def test_values_fall_and_say_what_is_lost():
    rng = np.random.default_rng(0)
    inside, outside = rng.random((50, 6)), rng.random((50, 6))
    outside /= (inside * outside).sum(axis=1, keepdims=True)
    pairs, losses = merge_order(inside, outside, np.ones(6))
    assert pairs.shape == (5, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(set(pairs[:, 1].tolist())) == 5
    assert losses.shape == (5,)


@pytest.mark.parametrize("seed", range(3))
def test_losses_add_up_to_those_of_one_state(seed):
    """All states merged are one: with the mean inside and the sum of the outside vectors."""
    rng = np.random.default_rng(seed)
    inside, outside, often = rng.random((20, 3)), rng.random((20, 3)), rng.random(3)
    outside /= (inside * outside).sum(axis=1, keepdims=True)
    _, losses = merge_order(inside, outside, often)
    merged = (inside @ often / often.sum()) * outside.sum(axis=1)
    assert losses.sum() == pytest.approx(-np.log(merged).sum(), rel=1e-4, abs=1e-4)


def test_dropped_weights(trained):
    grammar, _ = trained
    small = drop_weights(grammar, 1e-2).validate(1e-4)
    assert np.count_nonzero(small.tensors) < np.count_nonzero(grammar.tensors)
    for rule in range(len(grammar.rules)):
        old, new = grammar.tensor(rule), small.tensor(rule)
        assert (new[old < min(1e-2, 0.1 * old.max())] == 0).all()
        assert (new[old >= min(1e-2, 0.1 * old.max())] > 0).all() or not old.any()
    np.testing.assert_allclose(drop_weights(grammar, 0.0).tensors, grammar.tensors, rtol=1e-4)


def test_merge(trained, tmp_path):
    grammar, corpus = trained
    found = merge(grammar, corpus, budget=0.5, distances=True)
    small = found.grammar
    assert small.probabilistic
    assert small.states.sum() < grammar.states.sum()
    small.save(tmp_path / "m")
    grammar.save(tmp_path / "before")
    assert TensorGrammar.load(tmp_path / "m") == small
    assert (tmp_path / "m").stat().st_size < 0.6 * (tmp_path / "before").stat().st_size
    assert found.likelihoods[1] < found.likelihoods[0] < 0
    assert found.impossible == 0
    assert found.closeness is not None
    assert 0 < found.closeness.relative < 1
    tree = next(iter(made_up_treebank(1, 7)))
    assert Parser(small).parse_one(tree.words()).status == "parsed"
    # Nothing merged, nothing dropped, nothing rounded: nothing changed.
    same = merge(grammar, corpus, budget=1.0, min_probability=0.0, half_precision=False)
    np.testing.assert_allclose(same.grammar.tensors, grammar.tensors, rtol=1e-6)
    assert same.likelihoods[1] == pytest.approx(same.likelihoods[0], abs=1e-3)
    assert merge(grammar, corpus, budget=0.5, threads=3).grammar == small
    assert quantise(small) == small


def test_what_cannot_be_merged(trained):
    grammar, corpus = trained
    with pytest.raises(UsageError, match="weights are real"):
        merge(replace(grammar, probabilistic=False), corpus)
    with pytest.raises(UsageError, match="at least 0"):
        merge(grammar, corpus, min_probability=-1.0)
    with pytest.raises(UsageError, match="own or base"):
        merge(grammar, corpus, symbols="none")
