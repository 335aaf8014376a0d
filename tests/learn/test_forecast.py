"""What training is said to take beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_helpers import Lines

from made_up import made_up_treebank
from sapwood.evaluate.held_out import HeldOut
from sapwood.learn import forecast as module
from sapwood.learn.em import EM
from sapwood.learn.forecast import Phase, forecast, kept_splits
from sapwood.learn.methods import make_learner
from sapwood.learn.split_merge import SplitMerge
from sapwood.run.progress import Silent
from sapwood.trees.corpus import Corpus

CORPUS = Corpus.from_trees(made_up_treebank(200))


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


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
    learner = SplitMerge(cycles=4, iterations=2, settle=2)
    log = Lines()
    learner.fit(CORPUS, log=log)
    found = [line["states"] for line in log.of("iteration") if line["iteration"] == 1]
    expected = [phase.states.sum() for phase in learner._phases(learner.problem(CORPUS))]
    assert expected == pytest.approx(found, rel=0.15)


def test_memory_is_that_of_the_formula():
    problem = EM().problem(CORPUS)
    states = np.full(len(problem.trees.corpus.symbols), 3)
    weights = int(states[problem.trees.corpus.rules].prod(axis=1).sum())
    nothing = forecast(problem, []).memory
    iterating, making = Phase(states, 5, 0), Phase(states)
    vectors = 3 * problem.trees.corpus.n_nodes
    assert forecast(problem, [iterating, Phase(states * 0)]).memory == nothing + 16 * weights + 8 * vectors
    assert forecast(problem, [making]).memory == nothing + (4 + 4 * 4) * weights
    assert forecast(problem, [making], dev_words=1).memory == nothing + (4 + 8 * 4) * weights
    assert forecast(problem, [iterating, making]).seconds > forecast(problem, [making]).seconds


@pytest.mark.parametrize("method", ["split-merge", "em", "pivot+em", "cluster", "spectral"])
def test_long_runs_are_announced(method, monkeypatch):
    learner = make_learner(method, **({"cycles": 1} if method == "split-merge" else {"states": 2}))
    dev = HeldOut(made_up_treebank(5), CORPUS)
    quick, long = Notes(), Notes()
    learner.fit(CORPUS, dev=dev, progress=quick)
    monkeypatch.setattr(module, "_WORTH_SAYING", 0.0)
    learner.fit(CORPUS, dev=dev, progress=long)
    said = [note for note in long.notes if note not in quick.notes]
    assert len(said) == 1
    assert said[0].startswith(f"{method}: will take about ")
    assert said[0].endswith(" GB (on a machine like that of docs/performance.md)")
