"""Numbers of states by search: truncated moments against new ones, the search against all settings, and resuming."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from learn.spectral.test_learner import MADE_UP, TREES, problem_of, projected_nodes
from sapwood.errors import ModelError, UsageError
from sapwood.learn.spectral import Spectral
from sapwood.learn.spectral.moments import Statistics
from sapwood.learn.spectral.state_search import LADDER, StateScores, search_states
from sapwood.pipeline.train import train
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Silent


@pytest.mark.parametrize("weighted", [False, True])
def test_truncated_statistics_are_those_of_truncated_vectors(weighted):
    projected, problem = projected_nodes("explicit"), problem_of("explicit")
    corpus, rng = projected.corpus, np.random.default_rng(0)
    weights = rng.integers(0, 3, corpus.n_nodes).astype(float) if weighted else None
    full = Statistics.of(projected, weights, problem, Threads(1), Silent())
    states = rng.integers(1, 6, len(projected.states))
    found = full.truncated(states, corpus.rules)
    expected = Statistics.of(projected.truncated(states), weights, problem, Threads(1), Silent())
    np.testing.assert_array_equal(found.states, expected.states)
    assert found.states.max() > 1
    assert (found.states < projected.states).any()
    for name in ("inside", "outside", "root", "words"):
        for one, other in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.word_sums(), expected.word_sums(), rtol=1e-9, atol=1e-12)
    for one, other in zip(found.tensors(corpus.rules, 5.0), expected.tensors(corpus.rules, 5.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 3))
@examples(20)
def test_one_symbol_after_the_other(seed, beam):
    """What each symbol is worth does not depend on the others, and rises to a peak: then the search finds the best."""
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 14, size=3)
    peaks = rng.integers(1, 14, size=3)
    steepness = rng.random(3) + 0.1

    def worth(states: np.ndarray, *_: object) -> float:
        return -float(steepness @ np.abs(np.log(states) - np.log(peaks)))

    rungs = [[*(count for count in LADDER if count < top), int(top)] for top in most]
    best = max(product(*rungs), key=lambda states: worth(np.array(states)))
    start = np.array([rng.choice(own) for own in rungs])
    found = search_states(StateScores(worth), start, most, [0, 1, 2], beam=beam)
    assert worth(found) == pytest.approx(worth(np.array(best)))


def test_a_beam_sees_further():
    """Two symbols that are worth something together: one step at a time falls short, a beam does not."""

    def worth(states: np.ndarray, *_: object) -> float:
        return {(2, 2): 1.0, (1, 2): 0.5, (1, 1): 2.0, (2, 1): 0.0}.get(tuple(states.tolist()), -1.0)

    narrow, wide = (
        search_states(StateScores(worth), np.array([2, 2]), np.array([2, 2]), [0, 1], beam=b) for b in (1, 2)
    )
    assert (narrow.tolist(), wide.tolist()) == ([2, 2], [1, 1])


def test_of_equals_the_smaller_is_better():
    found = search_states(StateScores(lambda *_: 1.0), np.array([8, 8]), np.array([16, 16]), [0, 1])
    assert found.tolist() == [1, 1]


def test_symbols_without_a_turn_stay():
    found = search_states(StateScores(lambda states, *_: float(states.sum())), np.array([4, 4]), np.array([8, 8]), [1])
    assert found.tolist() == [4, 8]


def test_scores_are_measured_once_and_kept(tmp_path):
    path, measured = tmp_path / "scores", []

    def worth(states: np.ndarray, number: int, symbol: int | None) -> float:
        measured.append((tuple(states.tolist()), number, symbol))
        return -float(np.abs(states - np.array([3, 6])).sum())

    whole = search_states(StateScores(worth, path, {"run": 1}), np.array([4, 4]), np.array([9, 9]), [0, 1])
    assert whole.tolist() == [3, 6]
    assert len(measured) == len({states for states, *_ in measured})
    assert [number for _, number, _ in measured] == list(range(len(measured)))
    assert measured[0][2] is None
    assert {symbol for *_, symbol in measured[1:]} == {0, 1}
    # Interrupted after any number of measurements, it goes on with those that are missing.
    all_of_them = list(measured)
    for stop in range(len(all_of_them)):
        path.unlink()
        measured.clear()
        with pytest.raises(KeyboardInterrupt):
            search_states(
                StateScores(
                    lambda *given, stop=stop: _interrupt() if given[1] == stop else worth(*given), path, {"run": 1},
                ),
                np.array([4, 4]), np.array([9, 9]), [0, 1],
            )  # fmt: skip
        again = StateScores(worth, path, {"run": 1}) if stop else StateScores(worth)
        assert search_states(again, np.array([4, 4]), np.array([9, 9]), [0, 1]).tolist() == [3, 6]
        assert measured == all_of_them
        if not stop:
            search_states(StateScores(worth, path, {"run": 1}), np.array([4, 4]), np.array([9, 9]), [0, 1])
    with pytest.raises(UsageError, match="other settings or trees"):
        StateScores(worth, path, {"run": 2})
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelError, match="remove this checkpoint"):
        StateScores(worth, path, {"run": 1})


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_scores_are_finite(score):
    with pytest.raises(UsageError, match="finite scores; dev gives"):
        search_states(StateScores(lambda *_: score), np.array([4]), np.array([8]), [0])


def _interrupt() -> float:
    raise KeyboardInterrupt


SETTINGS = {"states": "search", "searched": 3, "min_support": 10, "backoff": (20.0, 10.0)}


class Noted:
    """Keeps what is written to a log."""

    def __init__(self) -> None:
        self.lines: list[dict] = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        self.lines.append({"event": event, "step": step, **figures})


def test_the_learner(tmp_path):
    """The grammar is the best that was measured, its states are told, and the log has every measurement."""
    log = Noted()
    learner = Spectral(**SETTINGS)
    dev = made_up_treebank(30, seed=3)
    grammar = learner.fit(MADE_UP, dev=dev, log=log)
    scores = [line["f1"] for line in log.lines if line["event"] == "dev"]
    assert [line["step"] for line in log.lines] == list(range(1, len(scores) + 1))
    searched = [line for line in log.lines if "symbol" in line]
    assert len({line["symbol"] for line in searched}) == 3
    # The search's best, and what another smoothing makes of it.
    last = [line for line in log.lines if "tolerance" in line]
    assert [line["backoff"] for line in last] == [20.0, 10.0]
    assert last[0]["f1"] == max(scores[: -len(last)])
    assert grammar.info["spectral"]["backoff"] in (20.0, 10.0)
    told = {record["symbol"]: record["states"] for record in grammar.info["spectral"]["symbols"]}
    final = {line["symbol"]: line["states"] for line in searched if line["f1"] == last[0]["f1"]}
    assert told
    assert all(told[symbol] == states for symbol, states in list(final.items())[-1:])
    assert learner.fit(MADE_UP, dev=dev) == grammar


def test_resuming_the_learner(tmp_path):
    """A run that is stopped by anything goes on to the same grammar, and measures nothing twice."""
    dev = made_up_treebank(30, seed=3)
    whole = train(TREES, method="spectral", dev=dev, **SETTINGS)
    path = tmp_path / "checkpoint"
    counted = []

    class Stopped(Noted):
        def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
            counted.append(step)
            if len(counted) == 4:
                raise KeyboardInterrupt
            super().write(event, step=step, seconds=seconds, **figures)

    learner = Spectral(**SETTINGS)
    corpus = Spectral.prepare(TREES)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(corpus, dev=dev, log=Stopped(), checkpoint=path)
    log = Noted()
    again = learner.fit(corpus, dev=dev, log=log, checkpoint=path)
    assert again == whole.grammars[0]
    assert log.lines[0]["step"] == 4
    with pytest.raises(UsageError, match="other settings or trees"):
        learner.replace(searched=2).fit(corpus, dev=dev, checkpoint=path)


def test_dev_is_needed():
    with pytest.raises(UsageError, match="search for numbers of states requires dev"):
        Spectral(states="search").fit(MADE_UP)
    for name in ("searched", "beam"):
        with pytest.raises(UsageError, match=f"{name} must be at least 1"):
            Spectral(**{name: 0})
