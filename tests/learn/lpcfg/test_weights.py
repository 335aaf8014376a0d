"""Weights and expected counts over hidden states against enumeration and plain loops."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.latent_twins import (
    Problem,
    by_pair,
    enumerated,
    flat_states,
    flat_tensors,
    flat_words,
    normalised,
    random_problem,
    rule_tensor,
)
from sapwood.learn.lpcfg.weights import EMData, LatentCounts, LatentWeights
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

seeds = st.integers(0, 2**32 - 1)


def log_likelihoods(trees: EMData, weights: LatentWeights) -> np.ndarray:
    return trees.expectations(weights, dtype=np.float64).log_likelihoods


def check_proper(problem: Problem, weights: LatentWeights) -> None:
    """Check that everything below a state, and the root, sums to one."""
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for rule, (a, _, _) in enumerate(weights.rules):
        for state, row in enumerate(rule_tensor(weights, rule)):
            sums[int(a), state] += row.sum()
    for (a, _), vector in by_pair(weights, problem.pairs, weights.lexical).items():
        for state, weight in enumerate(vector):
            sums[a, state] += weight
    assert len(sums) == weights.states.sum()
    np.testing.assert_allclose(list(sums.values()), 1, rtol=1e-6)
    assert weights.root.sum() == pytest.approx(1, rel=1e-12)


@given(seeds)
def test_one_state_is_the_treebank_pcfg(seed):
    problem = random_problem(seed)
    corpus, weights = problem.corpus, problem.trees.one_state()
    assert (weights.states == 1).all()
    symbols = corpus.symbol_counts()
    np.testing.assert_allclose(weights.tensors, corpus.rule_counts() / symbols[corpus.rules[:, 0]], rtol=1e-7)
    np.testing.assert_allclose(weights.root, corpus.root_counts() / corpus.n_trees, rtol=1e-12)
    classes = np.where(corpus.word >= 0, problem.word_class[corpus.word], -1)
    expected = [np.sum((corpus.symbol == a) & (classes == x)) / symbols[a] for a, x in problem.pairs]
    np.testing.assert_allclose(weights.lexical, expected, rtol=1e-12)
    np.testing.assert_array_equal(problem.trees.pair_symbol, [a for a, _ in problem.pairs])


@examples(40)
@given(seeds)
def test_expectations_equal_enumeration(seed):
    problem = random_problem(seed)
    trees, weights = problem.trees, problem.weights
    slow = enumerated(problem)
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-5)):
        found = trees.expectations(weights, dtype=dtype)
        counts = trees.counts(weights, found)
        np.testing.assert_allclose(found.log_likelihoods, slow.log_likelihoods, rtol=tolerance)
        close = {"rtol": tolerance, "atol": tolerance}
        np.testing.assert_allclose(counts.tensors, flat_tensors(weights, slow.rules), **close)
        np.testing.assert_allclose(counts.lexical, flat_words(problem, slow.words), **close)
        np.testing.assert_allclose(counts.root, flat_states(weights, slow.roots), **close)
        np.testing.assert_allclose(found.occupancy, flat_states(weights, slow.states), **close)


@examples(40)
@given(seeds)
def test_an_iteration_equals_enumeration(seed):
    problem = random_problem(seed)
    trees, weights = problem.trees, problem.weights
    slow = normalised(problem, enumerated(problem))
    for dtype, tolerance in ((np.float64, 1e-6), (np.float32, 1e-4)):
        expected = trees.expectations(weights, dtype=dtype)
        found = trees.m_step(weights, trees.counts(weights, expected))
        exact = {"rtol": 1e-9, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-6}
        np.testing.assert_allclose(found.tensors, flat_tensors(weights, slow.rules), rtol=tolerance, atol=1e-6)
        np.testing.assert_allclose(found.lexical, flat_words(problem, slow.words), **exact)
        np.testing.assert_allclose(found.root, flat_states(weights, slow.roots), **exact)
        check_proper(problem, found)
        # And the iteration does what EM does.
        assert log_likelihoods(trees, found).sum() >= log_likelihoods(trees, weights).sum() - 1e-5


def maximised_by_hand(
    problem: Problem, counts: LatentCounts, smoothing: float, lexical_smoothing: float, half_count: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return tensors and lexical vectors, symbol by symbol and rule by rule."""
    weights = problem.weights
    tensors = [rule_tensor(weights, rule, counts.tensors) for rule in range(len(weights.rules))]
    words = by_pair(weights, problem.pairs, counts.lexical)
    new_tensors, new_words = list(tensors), dict(words)
    for symbol, size in enumerate(weights.states.tolist()):
        rules = [rule for rule, above in enumerate(weights.rules[:, 0]) if above == symbol]
        pairs = [pair for pair in words if pair[0] == symbol]
        totals = sum((np.einsum("abc->a", tensors[rule]) for rule in rules), np.zeros(size))
        totals = sum((words[pair] for pair in pairs), totals)
        alive = np.flatnonzero(totals > 0)
        smooth = np.full(size, lexical_smoothing if pairs else smoothing)
        if half_count:
            smooth *= [half_count / (half_count + total) for total in totals]
        smooth = smooth[:, None, None]
        everything: dict = {rule: tensors[rule] for rule in rules} | {
            pair: words[pair][:, None, None] for pair in pairs
        }
        for key, own in everything.items():
            rows = np.zeros(own.shape)
            if len(alive):
                rows[alive] = own[alive] / totals[alive][:, None, None]
                mean = rows[alive].mean(axis=0)
                rows = (1 - smooth) * rows + smooth * mean
                rows[totals <= 0] = mean
            if pairs:
                new_words[key] = rows[:, 0, 0]
            else:
                new_tensors[key] = rows
    return (
        np.concatenate([tensor.ravel() for tensor in new_tensors] or [np.zeros(0)]),
        np.concatenate(list(new_words.values())),
    )


@given(
    seeds,
    st.sampled_from([0.0, 0.01, 0.5]),
    st.sampled_from([0.0, 0.1, 0.9]),
    st.floats(0, 0.8),
    st.sampled_from([0.0, 0.3, 50.0]),
)
def test_m_step_equals_plain_loops(seed, smoothing, lexical_smoothing, dying, half_count):
    problem = random_problem(seed, most=4)
    weights, rng = problem.weights, np.random.default_rng(seed)
    dead = rng.random(len(weights.root)) < dying
    tensors = rng.gamma(0.3, size=len(weights.tensors)) * (rng.random(len(weights.tensors)) < 0.8)
    begin = 0
    for rule, (a, _, _) in enumerate(weights.rules):
        tensor = rule_tensor(weights, rule)
        rows = np.repeat(dead[weights.state_offsets[a] : weights.state_offsets[a + 1]], tensor[0].size)
        tensors[begin : begin + tensor.size][rows] = 0.0
        begin += tensor.size
    lexical = np.concatenate(
        [
            rng.gamma(0.3, size=weights.states[a]) * ~dead[weights.state_offsets[a] : weights.state_offsets[a + 1]]
            for a, _ in problem.pairs
        ]
    )
    counts = LatentCounts(tensors, lexical, rng.gamma(0.5, size=len(weights.root)))
    found = problem.trees.m_step(
        weights, counts, smoothing=smoothing, lexical_smoothing=lexical_smoothing, smoothing_half_count=half_count
    )
    wanted_tensors, wanted_lexical = maximised_by_hand(problem, counts, smoothing, lexical_smoothing, half_count)
    assert found.tensors.dtype == np.float32
    # Where numbers are below 1e-25 they are dropped.
    np.testing.assert_allclose(found.tensors, wanted_tensors, rtol=2e-7, atol=1e-24)
    np.testing.assert_allclose(found.lexical, wanted_lexical, rtol=1e-12, atol=1e-24)
    np.testing.assert_allclose(found.root, counts.root / counts.root.sum(), rtol=1e-12)
    assert (found.states == weights.states).all()


def test_tiny_weights_are_dropped():
    """Numbers too small for single precision make processors slow and say nothing."""
    corpus = Corpus.from_trees([Tree.parse("(S (N a) (N b))"), Tree.parse("(S (N b) (S (N a) (N a)))")])
    trees = EMData(corpus, np.arange(2))
    weights = trees.split(trees.one_state(), np.array([2, 2]), 0.1, np.random.default_rng(0))
    counts = LatentCounts(np.ones(len(weights.tensors)), np.ones(len(weights.lexical)), np.ones(len(weights.root)))
    counts.tensors[0], counts.lexical[0] = 1e-27, 1e-27
    counts.tensors[1], counts.lexical[1] = 1e-20, 1e-20
    found = trees.m_step(weights, counts)
    assert found.tensors[0] == 0
    assert found.lexical[0] == 0
    assert (found.tensors[1:] > 0).all()
    assert (found.lexical[1:] > 0).all()


@examples(40)
@given(seeds)
def test_a_split_without_noise_changes_no_tree(seed):
    problem = random_problem(seed)
    rng = np.random.default_rng(seed)
    splits = rng.integers(1, 4, size=len(problem.corpus.symbols))
    before, weights = problem.weights, problem.trees.split(problem.weights, splits, 0.0, rng)
    np.testing.assert_array_equal(weights.states, before.states * splits)
    np.testing.assert_allclose(
        log_likelihoods(problem.trees, weights), log_likelihoods(problem.trees, before), rtol=1e-6, atol=1e-6
    )
    check_proper(problem, weights)
    # State `z` is now `z k .. z k + k - 1`, and the children's copies share what was one.
    for rule, (a, b, c) in enumerate(before.rules):
        old = rule_tensor(before, rule)
        for axis, symbol in enumerate((a, b, c)):
            old = np.repeat(old, splits[symbol], axis=axis)
        np.testing.assert_allclose(rule_tensor(weights, rule), old / (splits[b] * splits[c]), rtol=1e-6, atol=1e-24)
    old_words = by_pair(before, problem.pairs, before.lexical)
    for pair, vector in by_pair(weights, problem.pairs, weights.lexical).items():
        np.testing.assert_allclose(vector, np.repeat(old_words[pair], splits[pair[0]]), rtol=1e-12)


@given(seeds, st.floats(0.001, 0.9))
def test_noise_is_as_large_as_it_says(seed, noise):
    problem = random_problem(seed)
    splits = np.full(len(problem.corpus.symbols), 2)
    calm = problem.trees.split(problem.weights, splits, 0.0, np.random.default_rng(0))
    noisy = problem.trees.split(problem.weights, splits, noise, np.random.default_rng(seed))
    check_proper(problem, noisy)
    most = (1 + noise) / (1 - noise)  # a factor, divided by the mean of such factors
    for one, other in ((noisy.tensors, calm.tensors), (noisy.lexical, calm.lexical)):
        seen = other > 1e-20
        np.testing.assert_array_equal(one > 1e-20, seen)
        ratio = one[seen].astype(float) / other[seen]
        assert (ratio <= most * 1.0001).all()
        assert (ratio >= 0.9999 / most).all()
    if len(noisy.tensors):
        assert (noisy.tensors != calm.tensors).any()
    again = problem.trees.split(problem.weights, splits, noise, np.random.default_rng(seed))
    np.testing.assert_array_equal(again.tensors, noisy.tensors)
    np.testing.assert_array_equal(again.lexical, noisy.lexical)


def some_merge(rng: np.random.Generator, weights: LatentWeights) -> np.ndarray:
    """Choose for each state whether it goes to the one before it; returns the new number of each."""
    numbers = []
    for size in weights.states.tolist():
        joined = rng.random(size) < 0.5
        joined[0] = False
        numbers.append(np.cumsum(~joined) - 1)
    return np.concatenate(numbers)


@given(seeds)
def test_merged_counts_equal_plain_loops(seed):
    problem = random_problem(seed, most=4)
    weights, rng = problem.weights, np.random.default_rng(seed)
    counts = LatentCounts(
        rng.random(len(weights.tensors)), rng.random(len(weights.lexical)), rng.random(len(weights.root))
    )
    new_state = some_merge(rng, weights)
    layout, merged = problem.trees.merge(weights, counts, new_state)
    number = {}
    for symbol, size in enumerate(weights.states.tolist()):
        for state in range(size):
            number[symbol, state] = int(new_state[weights.state_offsets[symbol] + state])
        assert layout.states[symbol] == number[symbol, size - 1] + 1
    rules: dict = defaultdict(float)
    for rule, symbols in enumerate(weights.rules.tolist()):
        for states, count in np.ndenumerate(rule_tensor(weights, rule, counts.tensors)):
            rules[(rule, *(number[pair] for pair in zip(symbols, states, strict=True)))] += count
    words: dict = defaultdict(float)
    for (a, x), vector in by_pair(weights, problem.pairs, counts.lexical).items():
        for state, count in enumerate(vector):
            words[a, x, number[a, state]] += count
    roots: dict = defaultdict(float)
    for key, target in number.items():
        roots[key[0], target] += counts.root[weights.state_offsets[key[0]] + key[1]]
    after = Problem(problem.corpus, problem.word_class, problem.trees, layout)
    np.testing.assert_allclose(merged.tensors, flat_tensors(layout, rules), rtol=1e-12)
    np.testing.assert_allclose(merged.lexical, flat_words(after, words), rtol=1e-12)
    np.testing.assert_allclose(merged.root, flat_states(layout, roots), rtol=1e-12)
    check_proper(after, problem.trees.m_step(layout, merged))


def twins(weights: LatentWeights) -> np.ndarray:
    """Say which states of a grammar split in two have their copy behind them."""
    return np.concatenate([np.arange(size) % 2 == 0 for size in weights.states.tolist()])


@examples(40)
@given(seeds)
def test_merging_copies_costs_nothing(seed):
    problem = random_problem(seed)
    trees = problem.trees
    splits = np.full(len(problem.corpus.symbols), 2)
    weights = trees.split(problem.weights, splits, 0.0, np.random.default_rng(0))
    expected = trees.expectations(weights, dtype=np.float64)
    losses = trees.merge_losses(weights, expected.occupancy, twins(weights))
    np.testing.assert_allclose(losses, 0, atol=1e-5 * problem.corpus.n_nodes)
    # Merging all copies again gives what an iteration gives without them.
    new_state = np.concatenate([np.arange(size) // 2 for size in weights.states.tolist()])
    layout, counts = trees.merge(weights, trees.counts(weights, expected), new_state)
    merged = trees.m_step(layout, counts)
    before = trees.expectations(problem.weights, dtype=np.float64)
    plain = trees.m_step(problem.weights, trees.counts(problem.weights, before))
    np.testing.assert_array_equal(merged.states, problem.weights.states)
    np.testing.assert_allclose(merged.tensors, plain.tensors, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(merged.lexical, plain.lexical, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(merged.root, plain.root, rtol=1e-4, atol=1e-6)


def losses_by_hand(problem: Problem, occupancy: np.ndarray, twin: np.ndarray) -> np.ndarray:
    """Return what merging costs: for each node alone, the tree is computed again as if its two states were one there.

    The parent chooses the one state as often as it chose either, so both have the same inside weight, their average.
    """
    corpus, weights = problem.corpus, problem.weights
    lexical = by_pair(weights, problem.pairs, weights.lexical)
    losses = np.zeros(len(weights.root))

    def probability(index: int, changed: int = -1, state: int = 0) -> float:
        inside: dict[int, np.ndarray] = {}
        first = int(corpus.offsets[index])
        for node in range(int(corpus.offsets[index + 1]) - 1, first - 1, -1):
            if corpus.rule[node] >= 0:
                left, right = inside[int(corpus.left[node])], inside[int(corpus.right[node])]
                inside[node] = np.einsum("abc,b,c->a", rule_tensor(weights, int(corpus.rule[node])), left, right)
            else:
                inside[node] = lexical[int(corpus.symbol[node]), int(problem.word_class[corpus.word[node]])].copy()
            if node == changed:
                begin = weights.state_offsets[corpus.symbol[node]] + state
                often = occupancy[begin : begin + 2]
                inside[node][state : state + 2] = inside[node][state : state + 2] @ often / often.sum()
        begin = weights.state_offsets[corpus.symbol[first]]
        return float(inside[first] @ weights.root[begin : begin + len(inside[first])])

    for index in range(corpus.n_trees):
        whole = probability(index)
        for node in range(int(corpus.offsets[index]), int(corpus.offsets[index + 1])):
            symbol = int(corpus.symbol[node])
            for state in range(weights.states[symbol]):
                at = weights.state_offsets[symbol] + state
                if twin[at]:
                    losses[at] += np.log(whole / probability(index, node, state))
    return losses


@examples(40)
@given(seeds)
def test_merge_losses_equal_the_loss_at_each_node(seed):
    problem = random_problem(seed, most=4)
    weights, rng = problem.weights, np.random.default_rng(seed)
    twin = rng.random(len(weights.root)) < 0.6
    twin[weights.state_offsets[1:] - 1] = False  # the last state of a symbol has none behind it
    occupancy = problem.trees.expectations(weights, dtype=np.float64).occupancy
    found = problem.trees.merge_losses(weights, occupancy, twin)
    wanted = losses_by_hand(problem, occupancy, twin)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * problem.corpus.n_nodes)
    assert (found[~twin] == 0).all()


def test_losses_tell_what_is_worth_keeping():
    """Two uses of a word that are really two cost much to merge; two that are the same cost nothing."""
    corpus = Corpus.from_trees([Tree.parse("(S (D a) (X p))"), Tree.parse("(S (E a) (X q))")] * 10)
    trees = EMData(corpus, np.arange(len(corpus.words)))
    start = trees.one_state()
    name = dict(zip(corpus.symbols, range(len(corpus.symbols)), strict=True))
    weights = trees.split(start, np.where(np.arange(len(corpus.symbols)) == 0, 1, 2), 0.1, np.random.default_rng(1))
    for _ in range(60):
        weights = trees.m_step(weights, trees.counts(weights, trees.expectations(weights)))
    occupancy = trees.expectations(weights).occupancy
    twin = np.zeros(len(occupancy), bool)
    twin[weights.state_offsets[:-1]] = weights.states == 2
    losses = trees.merge_losses(weights, occupancy, twin)
    # Without states X says nothing: p or q is one bit for each of twenty trees.
    assert losses[weights.state_offsets[name["X"]]] == pytest.approx(20 * np.log(2), rel=1e-3)
    assert losses[weights.state_offsets[name["D"]]] == pytest.approx(0, abs=1e-3)
    assert losses[weights.state_offsets[name["E"]]] == pytest.approx(0, abs=1e-3)


def test_states_that_nothing_expects_cost_nothing_to_merge():
    problem = random_problem(5, most=1)
    weights = problem.trees.split(
        problem.weights, np.full(len(problem.corpus.symbols), 2), 0.0, np.random.default_rng(0)
    )
    occupancy = np.zeros(len(weights.root))
    assert (problem.trees.merge_losses(weights, occupancy, twins(weights)) == 0).all()


def test_trees_of_one_word():
    """No rules at all: everything is at the roots and leaves."""
    corpus = Corpus.from_trees([Tree.parse(text) for text in ("(N a)", "(N b)", "(V a)")] * 4)
    trees = EMData(corpus, np.arange(2))
    weights = trees.split(trees.one_state(), np.array([2, 3]), 0.5, np.random.default_rng(0))
    problem = Problem(corpus, np.arange(2), trees, weights)
    slow = enumerated(problem)
    expected = trees.expectations(weights, dtype=np.float64)
    np.testing.assert_allclose(expected.log_likelihoods, slow.log_likelihoods, rtol=1e-12)
    np.testing.assert_allclose(expected.root, flat_states(weights, slow.roots), rtol=1e-12)
    found = trees.m_step(weights, trees.counts(weights, expected))
    np.testing.assert_allclose(found.lexical, flat_words(problem, normalised(problem, slow).words), rtol=1e-12)
