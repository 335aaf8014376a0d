"""Sample complexity: the formula of theorem 3, and its constants from a treebank against sums over its nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import UsageError
from sapwood.learn.spectral import sample_complexity
from sapwood.learn.spectral.learner import Spectral
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import project_nodes
from sapwood.learn.spectral.sample_complexity import SampleBound, bound_from_moments, bound_of_nodes, estimate_bound
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import read_trees


@given(
    st.floats(1e-3, 1), st.floats(1e-4, 1), st.integers(1, 9), st.integers(1, 99), st.integers(1, 40),
    st.floats(1e-3, 3), st.floats(1e-3, 0.9),
)  # fmt: skip
def test_as_printed(sigma, smallest, states, rules, nodes, error, delta):
    bound = SampleBound(sigma, smallest, states, rules)
    root = (1 + error) ** (1 / (2 * nodes + 1))
    printed = 128 * states**2 / ((root - 1) ** 2 * smallest**2 * sigma**4) * np.log(2 * states * rules / delta)
    assert bound.samples(nodes, error, delta) == pytest.approx(printed, rel=1e-6)
    assert bound.error(nodes, bound.samples(nodes, error, delta), delta) == pytest.approx(error, rel=1e-9)
    assert bound.error(nodes + 1, printed, delta) > error > bound.error(nodes, 2 * printed, delta)


@pytest.mark.parametrize(
    "call",
    [
        lambda: SampleBound(0.0, 0.1, 2, 3),
        lambda: SampleBound(0.1, 0.0, 2, 3),
        lambda: SampleBound(0.1, 0.1, 0, 3),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(0, 0.1),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(3, 0.0),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(3, 0.1, 1.0),
        lambda: SampleBound(0.1, 0.1, 2, 3).error(3, 0.0),
    ],
)
def test_what_makes_no_sense(call):
    with pytest.raises(UsageError):
        call()


def test_an_error_beyond_numbers():
    assert SampleBound(1e-6, 1e-6, 2, 3).error(nodes=100, samples=1.0) == np.inf


@given(st.integers(1, 30), st.floats(1e-3, 3))
def test_marginals_are_those_of_trees_of_the_sentence(words, error):
    bound = SampleBound(0.2, 0.05, 3, 17)
    needed = bound.samples_for_marginals(words, error)
    assert needed == bound.samples(2 * words - 1, error)
    assert bound.error_of_marginals(words, needed) == pytest.approx(error, rel=1e-9)


def test_no_words_have_no_marginals():
    with pytest.raises(UsageError, match="at least 1 word"):
        SampleBound(0.2, 0.05, 3, 17).samples_for_marginals(0, 0.1)


@given(st.floats(0.1, 30), st.floats(0.1, 30))
def test_moments_are_at_most_1(inside, outside):
    """Features can have any scale: those that make moments too large are divided, and then all are at most 1."""
    rng = np.random.default_rng(0)
    values = [np.array([0.9, 0.4]), np.array([1.0])]
    root, words, rules = rng.normal(size=1), rng.normal(size=(3, 2)), rng.normal(size=(1, 2, 2))
    scaled = [root * inside, words * outside, rules * inside**2 * outside]
    found = bound_from_moments([each * inside * outside for each in values], *([each] for each in scaled))
    s = max(1.0, float(np.abs(scaled[0]).max()))
    t = found.scale / s
    after = scaled[0] / s, scaled[1] / t, scaled[2] / (s**2 * t), np.concatenate(values) * inside * outside / (s * t)
    assert t >= 1
    assert max(float(np.abs(each).max()) for each in after) <= 1 + 1e-9
    assert found.sigma == pytest.approx(after[-1].min())
    assert found.smallest == pytest.approx(min([np.abs(each).min() for each in after[:3]] + [1 / after[-1].max()]))
    assert (found.states, found.rules) == (2, 4)
    if s > 1 and t > 1:  # no more than needed
        assert np.abs(after[0]).max() == pytest.approx(1)
        assert max(float(np.abs(each).max()) for each in after[1:]) == pytest.approx(1)


def test_moments_without_singular_values():
    one = [np.ones(1)]
    with pytest.raises(UsageError, match="positive singular value"):
        bound_from_moments([np.array([0.5, 0.0])], one, [], [])


def drawn(trees: int) -> Corpus:
    grammar = random_grammar(np.random.default_rng(5), interminals=2, preterminals=2, words=5, states=(2, 3))
    return Corpus.from_trees(grammar.sample(trees, random_state=1, max_words=30))


def by_loops(projected) -> tuple[list, list, list, list]:
    """Return singular values, and `c^1`, `d^inf` and `D` by the definitions of section 7.2, node by node."""
    corpus = projected.corpus
    values = [
        values[:m] if m > 1 else np.ones(1)
        for values, m in zip(projected.singular_values, projected.states.tolist(), strict=True)
    ]
    counts = np.bincount(corpus.symbol, minlength=len(corpus.symbols))
    moments: dict = {}
    for node in range(corpus.n_nodes):
        a = int(corpus.symbol[node])
        z = projected.outside[a][projected.place[node]] * values[a]
        y = projected.inside[a][projected.place[node]]
        if corpus.word[node] >= 0:
            key, value = (a, int(corpus.word[node])), z
        else:
            children = int(corpus.left[node]), int(corpus.right[node])
            below = [projected.inside[int(corpus.symbol[c])][projected.place[c]] for c in children]
            key, value = tuple(corpus.rules[corpus.rule[node]].tolist()), np.einsum("i,j,k->ijk", z, *below)
        moments[key] = moments.get(key, 0) + value / counts[a]
        sigma = np.outer(y, z) / counts[a]
        moments["sigma", a] = moments.get(("sigma", a), 0) + sigma
        if node in corpus.roots:
            moments["root", a] = moments.get(("root", a), 0) + y / corpus.n_trees
    for a, diagonal in enumerate(values):
        np.testing.assert_allclose(moments.pop(("sigma", a)), np.diag(diagonal), atol=1e-9)
    roots = [(key, part) for key, part in sorted(moments.items(), key=str) if key[0] == "root"]
    words = [(key, part) for key, part in sorted(moments.items(), key=str) if key[0] != "root" and len(key) == 2]
    rules = [(key, part) for key, part in sorted(moments.items(), key=str) if len(key) == 3]
    return values, roots, words, rules


@pytest.mark.parametrize("states", [1, 2, 3])
@pytest.mark.parametrize("features", ["simple", "rich"])
def test_constants_of_a_treebank(states, features, monkeypatch):
    corpus = drawn(150)
    learner = Spectral(states=states, inside=features, outside=features)
    problem = learner.problem(corpus)
    wanted = problem.wanted_states(states, learner.min_support)
    table = NodeTable(problem.trees.corpus, problem.word_classes)
    projected = project_nodes(table, wanted, inside=features, outside=features)
    assert projected.states.max() == states
    bound = bound_of_nodes(projected, problem)
    assert bound.states == states
    assert bound == estimate_bound(corpus, states, features=features)
    seen: list = []

    def record(values, *parts):
        seen.extend([values, *map(list, parts)])
        return bound_from_moments(*seen)

    monkeypatch.setattr(sample_complexity, "bound_from_moments", record)
    assert bound_of_nodes(projected, problem) == bound
    values, roots, words, rules = by_loops(projected)
    for ours, theirs in zip(seen[0], values, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    inner = projected.corpus.n_interminals
    for (_, a), part in roots:
        np.testing.assert_allclose(seen[1][a], part, atol=1e-10)
    assert [bool(part.any()) for part in seen[1]].count(True) == len(roots)
    for a, rows in enumerate(seen[2], start=inner):
        own = {key[1]: part for key, part in words if key[0] == a}
        np.testing.assert_allclose(rows, [own[word] for word in sorted(own)], atol=1e-10)
    numbers = {tuple(rule): number for number, rule in enumerate(projected.corpus.rules.tolist())}
    assert len(rules) == len(seen[3]) == len(numbers)
    for rule, part in rules:
        np.testing.assert_allclose(seen[3][numbers[rule]], part, atol=1e-10)
    assert bound.rules == len(words) + len(rules)


def test_rounding_errors_are_not_the_smallest_elements():
    """A feature that two blocks of nodes do not share makes elements zero, up to rounding."""
    trees = list(read_trees(Path(__file__).parents[2] / "data" / "train.mrg"))
    assert estimate_bound(Corpus.from_trees(trees), 4, features="simple").smallest > 1e-9


def test_the_same_on_any_number_of_threads():
    corpus = drawn(60)
    assert estimate_bound(corpus, 2) == estimate_bound(corpus, 2, threads=2)
