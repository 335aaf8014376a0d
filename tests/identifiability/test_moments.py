"""Moments: by dynamic programming as by enumeration of all trees and sentences, and from samples."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import shape_checks
from helpers.enumerate_topologies import joint, observed, sentences_of
from sapwood.errors import UsageError
from sapwood.identifiability.models.zoo import MODELS, make_model
from sapwood.identifiability.moments import MOMENTS, Observation, empirical_moments, exact_moments, unit

EXACT = 1e-12
SIZES = [(3, 2, 3), (2, 3, 4), (2, 2, 5), (3, 3, 2), (3, 1, 1)]


def small(name: str, words: int, states: int):
    return make_model(name, words, None if name.startswith("dep") else states)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("words", "states", "length"), SIZES)
def test_moments_are_those_of_all_trees_and_sentences(name: str, words: int, states: int, length: int) -> None:
    rng = np.random.default_rng([words, states, length])
    model = small(name, words, states)
    parameters = model.random(rng)
    probabilities = sum(joint(name, parameters, length).values())
    eta = rng.normal(size=words)
    for moments in MOMENTS:
        if length < {"12": 2, "123": 3, "123eta": 3}.get(moments, 1):
            with pytest.raises(UsageError, match="fewer"):
                exact_moments(model, parameters, moments, length)
            continue
        wanted = sum(
            probabilities[sentence] * observed(moments, sentence, words, eta)
            for sentence in sentences_of(words, length)
        )
        found = exact_moments(model, parameters, moments, length, eta=eta)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=EXACT)


@pytest.mark.parametrize("moments", MOMENTS)
def test_empirical_moments_are_means(moments: str) -> None:
    rng = np.random.default_rng(5)
    sentences, eta = rng.integers(0, 3, (40, 4)), rng.normal(size=3)
    wanted = np.mean([observed(moments, tuple(sentence), 3, eta) for sentence in sentences], axis=0)
    np.testing.assert_allclose(empirical_moments(sentences, moments, 3, eta=eta), wanted, rtol=0, atol=EXACT)


@pytest.mark.slow
def test_entries_and_functionals_are_of_the_same_moments() -> None:
    """A random combination of moments is in the span of the entries, and there are as many of them as entries."""
    from sapwood.identifiability.algebra.autodiff import constant
    from sapwood.identifiability.algebra.fields import Reals
    from sapwood.identifiability.algebra.simplices import to_tensors

    rng = np.random.default_rng(1)
    model = make_model("pcfg-i", 3, 2)
    points = [model.random(rng) for _ in range(300)]
    for name in MOMENTS:
        observation = Observation(name, 3, 4, np.array([1.0, 0.0, -2.0]))
        marks, coefficient, combined = observation.functionals(Reals(), np.random.default_rng(0), 5)
        entries = np.concatenate(list(observation.entries(7)))
        assert len(entries) == observation.size
        columns, targets = [], []
        for point in points:
            tensors = to_tensors(model.blocks, point)
            columns.append(model.expectation(tensors, constant(Reals(), entries)).value[:, 0])
            result = model.expectation(tensors, constant(Reals(), combined), marks)
            targets.append(result.value[:, coefficient])
        weights, *_ = np.linalg.lstsq(np.array(columns), np.array(targets), rcond=1e-12)
        # With fewer points than entries anything would be a combination.
        assert observation.size < len(points)
        np.testing.assert_allclose(np.array(columns) @ weights, targets, atol=1e-9)
        assert np.linalg.matrix_rank(np.array(targets)) == min(5, np.linalg.matrix_rank(np.array(columns)))


def test_functionals_of_pairs_are_sums_over_pairs() -> None:
    """The coefficients of the marks are what they are said to be."""
    from sapwood.identifiability.algebra.autodiff import constant
    from sapwood.identifiability.algebra.fields import Reals
    from sapwood.identifiability.algebra.simplices import to_tensors

    rng = np.random.default_rng(3)
    for name in ("dep-i", "pcfg", "pcfg-ies"):
        model = small(name, 3, 2)
        parameters = model.random(rng)
        eta = rng.normal(size=3)
        tensors = to_tensors(model.blocks, parameters)
        for moments, length in (("**", 4), ("***", 4), ("***eta", 4)):
            observation = Observation(moments, 3, length, eta)
            marks, coefficient, weights = observation.functionals(Reals(), rng, 2)
            got = model.expectation(tensors, constant(Reals(), weights), marks).value[:, coefficient]
            probabilities = sum(joint(name, parameters, length).values())
            wanted = np.zeros(2)
            for sentence in sentences_of(3, length):
                # The product of polynomials, by their definition.
                total = {(0,) * len(marks.exponents[0]): np.ones(2)}
                for position, word in enumerate(sentence):
                    grown: dict[tuple[int, ...], np.ndarray] = {}
                    for exponent, value in total.items():
                        for number, more in enumerate(marks.exponents):
                            key = tuple(a + b for a, b in zip(exponent, more, strict=True))
                            if key in marks.exponents:
                                part = value * weights[:, number, position, word]
                                grown[key] = grown.get(key, 0) + part
                    total = grown
                wanted += probabilities[sentence] * total[marks.exponents[coefficient]]
            np.testing.assert_allclose(got, wanted, rtol=1e-11)


class TestBadArguments:
    def test_names_and_vectors(self) -> None:
        model = make_model("dep-ie", 3)
        parameters = model.random(np.random.default_rng(0))
        with pytest.raises(UsageError, match="named 1, 12"):
            exact_moments(model, parameters, "21", 3)
        with pytest.raises(UsageError, match="eta must have"):
            exact_moments(model, parameters, "123eta", 3, eta=np.ones(2))
        with pytest.raises(UsageError, match="from 1 to 3"):
            unit(3, 4)
        with pytest.raises(UsageError, match="parameters are pi, A"):
            exact_moments(model, {"pi": parameters["pi"]}, "1", 3)
        with pytest.raises(UsageError, match="must have shape"):
            exact_moments(model, {**parameters, "pi": np.ones(2) / 2}, "1", 3)
        with pytest.raises(UsageError, match="sum to 1"):
            exact_moments(model, {**parameters, "pi": np.ones(3)}, "1", 3)

    @pytest.mark.parametrize("sentences", [[], [[0, 1], [2, 3]], [[0.5, 1.0]], [[-1, 0]], [0, 1]])
    def test_sentences(self, sentences) -> None:
        with pytest.raises(UsageError), shape_checks.switched_off():
            empirical_moments(sentences, "1", 3)
