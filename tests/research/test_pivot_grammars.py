"""Random grammars with pivots keep what they promise, and exact statistics are expectations over trees."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.pivot_counts import counted, named
from helpers.small_languages import even_grammar, finite_grammar, trees_up_to
from oracles.reference import tree_probability
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.expectations import expected_counts
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.pivot_grammars import population_statistics, random_pivot_grammar, strengths
from sapwood.testing.grammars import random_grammar

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("make", "words"), [(finite_grammar, 5), (even_grammar, 4)])
def test_statistics_are_expectations_over_a_finite_language(make, words):
    grammar = make(np.random.default_rng(3))
    trees = [(tree_probability(grammar, tree), tree) for tree in trees_up_to(grammar, words)]
    assert sum(weight for weight, _ in trees) == pytest.approx(1, abs=1e-12)
    expected, ours = counted(grammar, trees), named(grammar, population_statistics(grammar))
    for name, values in expected.items():
        assert ours[name].keys() == values.keys()
        assert ours[name] == pytest.approx(values, rel=1e-9)


def test_statistics_are_what_samples_tend_to():
    grammar = random_pivot_grammar(np.random.default_rng(1))
    statistics = population_statistics(grammar)
    size = 2000
    trees = [(1 / size, tree) for tree in grammar.sample(size, random_state=0, max_words=10_000)]
    seen, exact = counted(grammar, trees), named(grammar, statistics)
    for name, values in seen.items():
        # Nothing is seen that cannot be, and nothing is far off.
        assert values.keys() <= exact[name].keys()
        for key, value in exact[name].items():
            assert values.get(key, 0.0) == pytest.approx(value, abs=0.05 + 0.1 * value)


@examples(40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.integers(2, 4),
    st.integers(1, 4),
    st.floats(0.001, 0.7),
    st.floats(0, 0.05),
)
def test_pivots(seed, interminals, preterminals, states, alpha, beta):
    grammar = random_pivot_grammar(
        np.random.default_rng(seed), interminals=interminals, preterminals=preterminals, words=5,
        states=(1, states), alpha=alpha, beta=beta,
    )  # fmt: skip
    grammar.validate(tolerance=1e-12)
    assert grammar.states.max() <= states
    inside, outside = strengths(grammar)
    assert [len(row) for row in inside] == [len(row) for row in outside] == grammar.states.tolist()
    assert min(row.min() for row in inside) > alpha
    assert min(row.min() for row in outside) > beta
    occupancy, _ = expected_counts(grammar)
    # At most 0.8 interminals are expected below one, so at most 5 in a tree.
    assert occupancy[: grammar.state_offsets[interminals]].sum() <= 5 + 1e-9
    assert occupancy.min() > 0


@examples(12)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1))
def test_leaks(seed, epsilon):
    def made(leak):
        return random_pivot_grammar(
            np.random.default_rng(seed), interminals=3, preterminals=3, states=(2, 3), epsilon=leak
        )

    strict, leaking = made(0.0), made(epsilon)
    leaking.validate(tolerance=1e-12)
    assert np.array_equal(strict.rules, leaking.rules)
    for row in [*strengths(leaking)[0], *strengths(leaking)[1]]:
        assert not row.any()
    occupancy, _ = expected_counts(leaking)
    assert occupancy[: leaking.state_offsets[3]].sum() <= 5 + 1e-9
    # A little leak changes little, and a full one makes pivots alike in all states.
    changes = [np.abs(made(leak).tensors - strict.tensors).max() for leak in (1e-3, 0.1, 1.0)]
    assert changes[0] < 0.01
    assert changes == sorted(changes)


def test_a_full_leak_says_nothing():
    made = {leak: random_pivot_grammar(np.random.default_rng(2), epsilon=leak) for leak in (0.0, 1.0)}
    for rule, (a, _, _) in enumerate(made[0.0].rules):
        strict, leaking = (made[leak].tensor(rule).sum(axis=(1, 2)) for leak in (0.0, 1.0))
        if np.count_nonzero(strict) == 1 < made[0.0].states[a]:
            np.testing.assert_allclose(leaking, strict.mean(), rtol=1e-12)


def test_same_seed_same_grammar():
    first, second, third = (random_pivot_grammar(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert first == second
    assert first != third


def test_strengths_of_other_grammars():
    words = {("P", "a"): [0.4, 0.0], ("P", "b"): [0.6, 0.3], ("P", "c"): [0.0, 0.7], ("Q", "d"): [0.2, 0.2]}
    words["Q", "e"] = [0.8, 0.8]
    tensor = np.zeros((1, 2, 2))
    tensor[0, 0] = [0.25, 0.25]
    other = np.full((1, 2, 2), 0.125)
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "P", "Q"): tensor, ("S", "Q", "P"): other}, words=words
    )
    inside, outside = strengths(grammar)
    assert [row.tolist() for row in inside] == [[0.5], [0.4, 0.7], [0.0, 0.0]]
    # Only state 0 of P hangs on the left, as two of three nodes in state 0 do; the others have no place of their own.
    assert outside[0].tolist() == [1.0]
    assert outside[1].tolist() == pytest.approx([2 / 3, 0.0])
    assert outside[2].tolist() == [0.0, 0.0]
    assert not any(row.any() for row in strengths(random_grammar(np.random.default_rng(0), states=(2, 3)))[0])


def test_more_symbols_more_places():
    grammar = random_pivot_grammar(
        np.random.default_rng(0), interminals=4, preterminals=4, words=20, states=(8, 8), shared=4
    )
    assert grammar.states.tolist() == [8] * 8
    uses = Counter(grammar.rules[:, 1:].ravel().tolist())
    assert min(uses.values()) >= 8


def test_bad_settings(monkeypatch):
    monkeypatch.setattr("sapwood.research.pivot_grammars._TRIES", 10)
    rng = np.random.default_rng(0)
    for settings_, message in (
        ({"preterminals": 0}, "needs an interminal"),
        ({"states": (3, 2)}, "fewest"),
        ({"states": (2, 7)}, "fewest"),
        ({"alpha": 0.8}, "at most 0.7"),
        ({"alpha": 0.0}, "above 0"),
        ({"epsilon": 1.5}, "probabilities"),
        ({"interminals": 1, "preterminals": 1, "states": (4, 4)}, "need more symbols"),
        ({"beta": 0.9}, "smaller beta"),
    ):
        with pytest.raises(UsageError, match=message):
            random_pivot_grammar(rng, **settings_)
    with pytest.raises(GrammarError, match="real-valued"):
        population_statistics(random_grammar(rng, real=True))
