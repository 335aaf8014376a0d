"""Spectral grammars made non-negative: counts by loops, states that are known, and what the learner makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import f1, made_up_treebank
from learn.spectral.test_learner import MADE_UP, TREES, problem_of, projected_nodes
from sapwood.errors import UsageError
from sapwood.learn.spectral import Spectral
from sapwood.learn.spectral.clustering import observed_counts
from sapwood.learn.spectral.moments import Statistics
from sapwood.learn.spectral.nonnegative import nearest_counts, regularised_inverse, state_means
from sapwood.learn.spectral.projection import ProjectedNodes
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Silent

OTHERS = made_up_treebank(40, seed=7)


def known_states(seed: int) -> tuple[ProjectedNodes, np.ndarray, list[np.ndarray]]:
    """Return vectors that tell states without noise, the state of each node, and the states' mean inside vectors."""
    rng = np.random.default_rng(seed)
    projected = projected_nodes("explicit")
    corpus = projected.corpus
    node_state = np.zeros(corpus.n_nodes, np.int64)
    means, inside, outside = [], [], []
    for symbol, size in enumerate(projected.states.tolist()):
        nodes = np.flatnonzero(corpus.symbol == symbol)
        states = np.append(np.arange(size), rng.integers(size, size=len(nodes) - size))[: len(nodes)]
        node_state[nodes] = states
        mean = rng.normal(size=(size, size)) if size > 1 else np.ones((1, 1))
        share = np.bincount(states, minlength=size) / len(nodes)
        means.append(mean)
        rows = np.empty((2, len(nodes), size))
        rows[0, projected.place[nodes]] = mean[states]
        rows[1, projected.place[nodes]] = np.linalg.inv(mean).T[states] / share[states, None]
        inside.append(rows[0])
        outside.append(rows[1])
    return replace(projected, inside=inside, outside=outside), node_state, means


@pytest.mark.parametrize("seed", range(3))
def test_states_that_are_known_are_counted(seed):
    """If each node's vectors are the means of its state, the counts are those of the states themselves."""
    projected, node_state, means = known_states(seed)
    problem = problem_of("explicit")
    statistics = Statistics.of(projected, None, problem, Threads(1), Silent())
    layout, counts = nearest_counts(problem, statistics, means, 0.0, problem.trees.one_state(), ridge=0.0)
    expected = observed_counts(problem, layout, node_state)
    np.testing.assert_allclose(counts.tensors, expected.tensors, atol=1e-6)
    np.testing.assert_allclose(counts.lexical, expected.lexical, atol=1e-6)
    np.testing.assert_allclose(counts.root, expected.root, atol=1e-6)
    assert int(layout.states.max()) > 1


def test_counts_by_loops():
    projected, problem = projected_nodes("collapsed"), problem_of("collapsed")
    corpus = projected.corpus
    statistics = Statistics.of(projected, None, problem, Threads(1), Silent())
    means = state_means(projected, Threads(1), 0)
    layout, counts = nearest_counts(problem, statistics, means, 0.0, problem.trees.one_state(), ridge=0.2)
    inverses = [regularised_inverse(mean, 0.2) for mean in means]
    shares = []
    for inside, inverse in zip(projected.inside, inverses, strict=True):
        share = np.maximum(inside.mean(axis=0) @ inverse, 1e-6)
        shares.append(share / share.sum())
    negative = 0
    for rule, (a, b, c) in enumerate(corpus.rules.tolist()):
        expected = np.zeros((len(means[a]), len(means[b]), len(means[c])))
        for node in np.flatnonzero(corpus.rule == rule).tolist():
            z = projected.outside[a][projected.place[node]]
            y = projected.inside[b][projected.place[corpus.left[node]]]
            x = projected.inside[c][projected.place[corpus.right[node]]]
            expected += np.einsum("a,b,c->abc", shares[a] * (means[a] @ z), y @ inverses[b], x @ inverses[c])
        negative += int((expected < 0).sum())
        found = counts.tensors[layout.tensor_offsets[rule] : layout.tensor_offsets[rule + 1]]
        np.testing.assert_allclose(found, np.maximum(expected, 0).ravel(), rtol=1e-7, atol=1e-7)
    assert negative


def test_regularised_inverse():
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_allclose(regularised_inverse(matrix, 0.0), np.linalg.inv(matrix), rtol=1e-9)
    c = 0.3 * np.linalg.svd(matrix, compute_uv=False)[0]
    expected = np.linalg.inv(matrix.T @ matrix + c * c * np.eye(5)) @ matrix.T
    np.testing.assert_allclose(regularised_inverse(matrix, 0.3), expected, rtol=1e-9)


def test_means_are_those_of_clusters():
    projected = projected_nodes("explicit")
    means = state_means(projected, Threads(1), 0)
    for mean, inside, size in zip(means, projected.inside, projected.states.tolist(), strict=True):
        assert mean.shape == (size, size)
        # Every mean is a mean of vectors, so it lies within their bounds.
        assert (mean >= inside.min(axis=0) - 1e-9).all()
        assert (mean <= inside.max(axis=0) + 1e-9).all()
    again = state_means(projected, Threads(2), 0)
    assert all(np.array_equal(one, other) for one, other in zip(means, again, strict=True))
    others = state_means(projected, Threads(1), 1)
    assert not all(np.array_equal(one, other) for one, other in zip(means, others, strict=True))


class Noted:
    def __init__(self) -> None:
        self.lines: list[dict] = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        self.lines.append({"event": event, "step": step, **figures})


def test_clusters_lie_along_what_correlates_most():
    """Coordinates count by their singular values, not all alike, and whatever their scale."""
    projected = projected_nodes("explicit")
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * 5)
    for values, along in (([0.9, 0.3], 0), ([0.3, 0.9], 1)):
        made = replace(projected, inside=[signs * [1.0, 50.0]], outside=[signs], singular_values=[np.array(values)])
        (means,) = state_means(made, Threads(1), 0)
        expected = np.zeros((2, 2))
        expected[:, along] = np.array([-1.0, 1.0]) * [1.0, 50.0][along]
        assert means[means[:, along].argsort()] == pytest.approx(expected)


def test_the_learner():
    log = Noted()
    settings = {"states": 4, "min_support": 10, "backoff": (20.0, 10.0), "weights": "non-negative", "polish": 2}
    grammar = Spectral(**settings).fit(MADE_UP, dev=OTHERS, log=log)
    assert grammar.probabilistic
    grammar.validate(1e-3)
    assert [(line["backoff"], line["iteration"]) for line in log.lines] == [
        (backoff, iteration) for backoff in (20.0, 10.0) for iteration in range(3)
    ]
    best = max(log.lines, key=lambda line: line["f1"])
    assert f1(grammar, OTHERS) == pytest.approx(best["f1"])
    assert grammar.info["spectral"]["polished"] == best["iteration"]
    assert f1(grammar, OTHERS) > 80
    # Without dev the first backoff and all iterations.
    alone = Spectral(**settings).fit(MADE_UP)
    assert alone.info["spectral"]["polished"] == 2
    assert alone.info["spectral"]["backoff"] == 20.0
    assert alone.probabilistic
    assert Spectral(**settings).fit(MADE_UP) == alone
    with pytest.raises(UsageError, match="weights must be one of real, non-negative"):
        Spectral(weights="positive")


def test_nothing_is_without_probability():
    """Where the real-valued grammar has sentences without a probability, this one has none."""
    settings = {"states": 4, "min_support": 10, "backoff": 20.0}
    trees = made_up_treebank(80, seed=11)
    figures = {}
    for weights in ("real", "non-negative"):
        Spectral(**settings, weights=weights, polish=0).fit(Spectral.prepare(TREES), dev=trees, log=(log := Noted()))
        figures[weights] = log.lines[0]
    assert figures["real"]["negative_trees"] >= 0
    assert "negative_trees" not in figures["non-negative"]
    assert np.isfinite(figures["non-negative"]["log_likelihood"])
