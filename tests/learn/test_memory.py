"""What training holds at once is bounded as docs/performance.md says."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from made_up import made_up_treebank
from sapwood.inference import _places, observed
from sapwood.learn.latent import LatentWeights
from sapwood.learn.problem import LatentProblem
from sapwood.learn.split_merge import SplitMerge
from sapwood.learn.training import TrainingState
from sapwood.run.workers import Threads
from sapwood.trees.corpus import Corpus

CORPUS = Corpus.from_trees(made_up_treebank(60))
# What stays the same however many states there are: offsets, shards, symbols.
SMALL = 400_000


def peak(call: Callable[[], object]) -> int:
    """Return how many bytes are newly held at once while something runs."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def problem_with_states(states: int) -> tuple[LatentProblem, LatentWeights]:
    problem = SplitMerge(threads=2).problem(CORPUS)
    trees = problem.trees
    splits = np.where(problem.splittable(), states, 1)
    weights = trees.split(trees.one_state(), splits, 0.1, np.random.default_rng(0))
    problem.expectations(weights)  # makes the shards
    return problem, weights


def test_an_iteration_holds_sums_and_new_weights():
    problem, weights = problem_with_states(40)
    vectors = 8 * int(weights.states[problem.trees.corpus.symbol].sum())

    def iteration():
        counts = problem.trees.counts(weights, problem.expectations(weights))
        problem.trees.maximise(weights, counts, smoothing=0.1)

    assert len(weights.tensors) > 1_000_000
    assert peak(iteration) < 12 * len(weights.tensors) + vectors + SMALL


def test_splitting_holds_sums_and_new_weights():
    problem, weights = problem_with_states(12)
    twice, rng = np.where(problem.splittable(), 2, 1), np.random.default_rng(1)
    after = len(problem.trees.split(weights, twice, 0.1, rng).tensors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sapwood.learn.latent._RUN", 1 << 12)
        assert peak(lambda: problem.trees.split(weights, twice, 0.1, rng)) < 12 * after + SMALL


def test_merging_holds_sums_before_and_after():
    problem, weights = problem_with_states(40)
    twins = np.arange(int(weights.states.sum())) - weights.state_offsets[weights.symbol_of_state]
    state = TrainingState(weights, levels=(twins // 2,))
    learner = SplitMerge()
    vectors = 8 * int(weights.states[problem.trees.corpus.symbol].sum())
    after = len(learner._merge(problem, state).weights.tensors)
    assert after < len(weights.tensors) / 2
    assert peak(lambda: learner._merge(problem, state)) < 8 * len(weights.tensors) + 8 * after + vectors + SMALL


def test_vectors_are_held_for_some_shards_only(monkeypatch):
    problem, weights = problem_with_states(3)
    trees = observed.ObservedTrees(problem.trees.corpus, shards=8)
    whole = sum(2 * int(weights.states[shard.symbol].sum()) for shard in trees._here.shards)
    lexical = np.ones(int(trees.lexical_offsets(weights)[-1]))
    expected = trees.expectations(weights, lexical=lexical)
    for limit in (1, whole // 3, whole + 1):
        monkeypatch.setattr(_places, "_HELD", limit)
        batches = list(trees._here.batches(trees._weights(weights, lexical, np.float32), trees._here.shards))
        assert [shard for batch in batches for shard in batch] == trees._here.shards
        held = [sum(2 * int(weights.states[shard.symbol].sum()) for shard in batch) for batch in batches]
        assert len(batches) == {1: 8, whole + 1: 1}.get(limit, len(held))
        assert max(held) < limit + whole // 4
        for threads in (1, 3):
            others = observed.ObservedTrees(problem.trees.corpus, shards=8, workers=Threads(threads))
            found = others.expectations(weights, lexical=lexical)
            for name, value in vars(expected).items():
                assert np.array_equal(getattr(found, name), value), name


def test_a_grammar_is_made_one_tensor_at_a_time():
    problem, weights = problem_with_states(40)
    made = problem.grammar(weights, {})
    sums = 8 * len(weights.tensors) + 8 * int(weights.states[problem.trees.corpus.symbol].sum())
    folding = 4 * len(made.tensors) + 10 * 8 * int(np.diff(made.tensor_offsets).max())
    assert peak(lambda: problem.grammar(weights, {})) < max(sums, folding) + SMALL
