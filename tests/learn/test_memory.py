"""Memory of training: its bounds are those of docs/performance.md, and a shortage is noted beforehand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Lines, Notes
from sapwood import train
from sapwood.inference.estep import _backends as _places
from sapwood.inference.estep import trees as observed
from sapwood.learn import memory
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.em_loop import TrainingState
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.split_merge import SplitMerge, kept_splits
from sapwood.learn.lpcfg.weights import LatentWeights
from sapwood.learn.memory import available_memory, estimate_memory
from sapwood.learn.registry import make_learner
from sapwood.pipeline.memory import estimate_run_memory
from sapwood.pipeline.recipe import make_recipe
from sapwood.runtime.executor import Threads
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


def problem_with_states(states: int) -> tuple[LPCFGProblem, LatentWeights]:
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
        problem.trees.m_step(weights, counts, smoothing=0.1)

    assert len(weights.tensors) > 1_000_000
    assert peak(iteration) < 12 * len(weights.tensors) + vectors + SMALL


def test_splitting_holds_sums_and_new_weights():
    problem, weights = problem_with_states(12)
    twice, rng = np.where(problem.splittable(), 2, 1), np.random.default_rng(1)
    after = len(problem.trees.split(weights, twice, 0.1, rng).tensors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sapwood.learn.lpcfg.weights._RUN", 1 << 12)
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
    trees = observed.TreeEStep(problem.trees.corpus, shards=8)
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
            others = observed.TreeEStep(problem.trees.corpus, shards=8, workers=Threads(threads))
            found = others.expectations(weights, lexical=lexical)
            for name, value in vars(expected).items():
                assert np.array_equal(getattr(found, name), value), name


def test_a_grammar_is_made_one_tensor_at_a_time():
    problem, weights = problem_with_states(40)
    made = problem.grammar(weights, {})
    sums = 8 * len(weights.tensors) + 8 * int(weights.states[problem.trees.corpus.symbol].sum())
    folding = 4 * len(made.tensors) + 10 * 8 * int(np.diff(made.tensor_offsets).max())
    assert peak(lambda: problem.grammar(weights, {})) < max(sums, folding) + SMALL


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.sampled_from([0, 1, 2, 8])), min_size=1, max_size=9),
    st.floats(0.1, 1),
)
def test_kept_splits_are_the_part_that_is_asked_for(symbols, part):
    counts, states = np.array(symbols, float).T
    kept = kept_splits(counts, states, part)
    assert (kept >= 0).all()
    assert (kept <= states).all()
    assert kept.sum() == pytest.approx(part * states.sum())
    share = kept[states > 0] / states[states > 0]
    order = np.argsort(counts[states > 0] / states[states > 0])
    assert (np.diff(share[order]) >= -1e-9).all()


def test_states_of_split_merge_are_foreseen():
    learner, log = SplitMerge(cycles=4, iterations=2, smoothing_iterations=2), Lines()
    corpus = Corpus.from_trees(made_up_treebank(200))
    learner.fit(corpus, log=log)
    seen = [line["states"] for line in log.of("iteration") if line["iteration"] == 1]
    states, most = learner._expected_states(learner.problem(corpus))
    assert [most.sum(), states.sum()] == pytest.approx(seen[-2:], rel=0.15)


def test_estimates_follow_the_formula():
    problem = EM().problem(CORPUS)
    states = np.full(len(problem.trees.corpus.symbols), 3)
    weights = int(states[problem.trees.corpus.rules].prod(axis=1).sum())
    nothing = estimate_memory(problem, 0 * states).peak
    vectors = 3 * problem.trees.corpus.n_nodes
    assert estimate_memory(problem, 0 * states, em_states=states).peak == nothing + 16 * weights + 8 * vectors
    assert estimate_memory(problem, states).peak == nothing + (4 + 4 * 4) * weights
    assert estimate_memory(problem, states, measured=True).peak == nothing + (4 + 8 * 4) * weights


def test_estimates_of_runs_add_what_waits_and_forests():
    learner = EM(states=8, iterations=10)

    def peak_of(*given, **settings) -> float:
        estimate = estimate_run_memory(make_recipe(*given, **settings), CORPUS)
        assert estimate is not None
        return estimate.peak

    own = learner.estimate_memory(CORPUS)
    assert peak_of(learner) == own.peak
    assert own.peak < peak_of(learner, ensemble=4) < own.peak + 3 * own.grammar
    one, all_members = (peak_of(learner, ensemble=4, crf=ForestCRFTrainer(members=count)) for count in (1, None))
    assert peak_of(learner, ensemble=4) <= one <= all_members
    assert estimate_run_memory(make_recipe("pcfg", crf=True), CORPUS) is None


@pytest.mark.parametrize("method", ["split-merge", "em", "pivot+em", "cluster", "spectral"])
def test_a_shortage_is_noted(method, monkeypatch):
    learner = make_learner(method, **({"cycles": 1} if method == "split-merge" else {"states": 2}))
    enough, short = Notes(), Notes()
    same = learner.fit(CORPUS, progress=enough)
    monkeypatch.setattr(memory, "available_memory", lambda: 1e8)
    assert learner.fit(CORPUS, progress=short) == same
    (noted,) = [text for text in short.texts if text not in enough.texts]
    assert noted.startswith(f"{method}: needs about 0.2 GB of memory, and 0.1 GB are available")


def test_a_shortage_of_a_whole_run_is_noted_first(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e8)
    notes = Notes()
    train(CORPUS, method="em", states=2, iterations=1, ensemble=2, progress=notes)
    assert [text.partition(":")[0] for text in notes.texts if "of memory" in text] == ["in all", "em", "em"]


def test_available_memory_is_within_the_limit_of_the_container(monkeypatch, tmp_path):
    (tmp_path / "limit").write_text("12345\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(memory, "_CGROUPS", (str(tmp_path / "none"), str(tmp_path / "absent")))
    assert available_memory() > 1e6
    monkeypatch.setattr(memory, "_CGROUPS", (str(tmp_path / "limit"),))
    assert available_memory() == 12345
