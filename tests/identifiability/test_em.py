"""EM from sentences without trees."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.enumerate_topologies import dependency_weights, joint, projective_trees
from sapwood.errors import UsageError
from sapwood.identifiability.em import _Data, _distributions, _inwards, _leap, _Place, _step, fit_em
from sapwood.identifiability.models.zoo import MODELS, make_model


def small(name: str, words: int = 3, states: int = 2):
    return make_model(name, words, None if name.startswith("dep") else states)


@pytest.mark.parametrize("name", MODELS)
class TestEveryModel:
    def test_likelihood_never_falls(self, name: str) -> None:
        model = small(name)
        truth = model.random(np.random.default_rng(0), concentration=0.5)
        rng = np.random.default_rng(1)
        sentences = [row for length in (2, 3) for row in model.sample(truth, length, 400, rng).words.tolist()]
        found = fit_em(model, sentences, iterations=40)
        values = np.array(found.log_likelihoods)
        assert (np.diff(values) > 0).all()
        assert values[-1] > values[0] + 10
        model.check(found.parameters)
        assert model.log_likelihood(found.parameters, sentences).sum() == pytest.approx(values[-1])

    def test_it_stays_where_nothing_can_be_gained(self, name: str) -> None:
        """Every sentence as often as its probability says (nearly): the truth is where EM ends."""
        model = small(name, words=2)
        truth = model.random(np.random.default_rng(2), concentration=3)
        probabilities = sum(joint(name, truth, 3).values())
        counts = np.rint(1e5 * probabilities).astype(int)
        sentences = [place for place in np.ndindex(2, 2, 2) for _ in range(counts[place])]
        found = fit_em(model, np.array(sentences), start=truth, iterations=30)
        assert found.log_likelihoods[-1] - found.log_likelihoods[0] < 0.1


def test_expected_counts_are_those_of_all_trees() -> None:
    """How often each argument is drawn given its head: summed over trees and sentences."""
    model = make_model("dep-i", 3)
    parameters = model.random(np.random.default_rng(0))
    sentences = [[0, 1, 2], [2, 2, 0], [0, 1, 2]]
    value, slopes = _Data(model, sentences).expectations(parameters)
    root, left, right = dependency_weights("dep-i", parameters)
    wanted = {"pi": np.zeros(3), "Al": np.zeros((3, 3)), "Ar": np.zeros((3, 3))}
    total = 0.0
    for sentence in sentences:
        weights, uses = [], []
        for heads in projective_trees(3):
            weight, used = 1.0, {name: np.zeros_like(array) for name, array in wanted.items()}
            for word, head in enumerate(heads):
                if head < 0:
                    weight *= root[sentence[word]]
                    used["pi"][sentence[word]] += 1
                else:
                    side, name = (left, "Al") if word < head else (right, "Ar")
                    weight *= side[sentence[word], sentence[head]]
                    used[name][sentence[word], sentence[head]] += 1
            weights.append(weight)
            uses.append(used)
        total += np.log(sum(weights) / 7)
        for weight, used in zip(weights, uses, strict=True):
            for name, array in used.items():
                wanted[name] += weight / sum(weights) * array
    assert value == pytest.approx(total)
    for name, array in wanted.items():
        np.testing.assert_allclose(slopes[name] * parameters[name], array, atol=1e-12)


def test_one_iteration_by_hand() -> None:
    """One-word sentences of dep-ie: the root's distribution becomes the relative frequencies, and A stays."""
    model = make_model("dep-ie", 2)
    start = {"pi": np.array([0.5, 0.5]), "A": np.array([[0.9, 0.2], [0.1, 0.8]])}
    found = fit_em(model, [[0], [0], [1], [0]], start=start, iterations=5)
    np.testing.assert_allclose(found.parameters["pi"], [0.75, 0.25])
    np.testing.assert_array_equal(found.parameters["A"], start["A"])
    assert found.converged


def test_the_best_of_several_starts() -> None:
    model = make_model("pcfg-ie", 4, 2)
    truth = model.random(np.random.default_rng(0), concentration=0.3)
    sentences = model.sample(truth, 3, 2000, np.random.default_rng(1)).words
    ends = [fit_em(model, sentences, iterations=30, restarts=count).log_likelihoods[-1] for count in (1, 4)]
    assert ends[1] > ends[0]


def test_the_seed_decides() -> None:
    model = make_model("pcfg-ie", 3, 2)
    sentences = model.sample(model.random(np.random.default_rng(0)), 3, 100, np.random.default_rng(1)).words
    one, same, other = (
        fit_em(model, sentences, iterations=3, random_state=seed).parameters["T"].tolist() for seed in (0, 0, 1)
    )
    assert one == same != other


def test_negative_slopes_make_distributions_too() -> None:
    parameters, slopes = np.array([[0.2, 0.5], [0.8, 0.5]]), np.array([[-3.0, 1.0], [2.0, 3.0]])
    found = _distributions(parameters, slopes)
    np.testing.assert_allclose(found[:, 1], [0.25, 0.75])
    np.testing.assert_allclose(found.sum(0), 1)
    assert (found > 0).all()
    assert found[1, 0] > parameters[1, 0]


def test_zeros_in_the_start_are_moved() -> None:
    """Unmixing ends on the boundary at times, and EM would never leave it."""
    model = make_model("dep-ie", 2)
    start = {"pi": np.array([1.0, 0.0]), "A": np.eye(2)}
    found = fit_em(model, [[0, 1], [1, 1]], start=start, iterations=5)
    assert np.isfinite(found.log_likelihoods[0])
    assert found.parameters["pi"][1] > 0


class TestBadArguments:
    def test_everything(self) -> None:
        model = make_model("dep-ie", 2)
        for arguments, options, message in [
            ([], {}, "no sentences"),
            ([[0, 2]], {}, "from 0 to 1"),
            ([[0, 1]], {"iterations": 0}, "at least 1"),
            ([[0, 1]], {"restarts": 0}, "at least 1"),
            ([[0, 1]], {"start": {"pi": np.ones(2)}}, "parameters are pi, A"),
        ]:
            with pytest.raises(UsageError, match=message):
                fit_em(model, arguments, **options)


def test_longer_steps_get_further_in_as_many_iterations() -> None:
    model = make_model("pcfg-ie", 4, 2)
    truth = model.random(np.random.default_rng(0), concentration=0.5)
    sentences = model.sample(truth, 3, 5000, np.random.default_rng(1)).words
    start = model.random(np.random.default_rng(2))
    plain, fast = (
        fit_em(model, sentences, start=start, iterations=25, accelerate=accelerate).log_likelihoods
        for accelerate in (False, True)
    )
    assert (np.diff(fast) > 0).all()
    assert fast[0] == plain[0]
    assert fast[-1] > plain[-1]


def test_zeros_of_a_start_are_moved_inwards() -> None:
    """What begins as zero would stay so; what begins as positive is left alone."""
    start = {"a": np.array([[0.0, 0.5], [1.0, 0.5]]), "b": np.array([0.4, 0.6])}
    found = _inwards(start, 0.1)
    np.testing.assert_allclose(found["a"], [[0.05, 0.5], [0.95, 0.5]])
    np.testing.assert_array_equal(found["b"], start["b"])


def test_steps_are_halved_until_the_likelihood_rises() -> None:
    """From 0.5 the whole step leads to 1, and the best is 0.6: a quarter of the step is the first that is no loss."""

    class Data:
        def expectations(self, parameters: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
            return -(float(parameters["a"][0] - 0.6) ** 2), {}

    here = _Place({"a": np.array([0.5, 0.5])}, -0.01, {"a": np.array([1.0, 0.0])})
    np.testing.assert_allclose(_step(Data(), here).parameters["a"], [0.625, 0.375])


def test_a_leap_ends_where_steps_of_half_the_length_would() -> None:
    """Each step of EM goes half of the way to 0.6; a leap goes there, unless one step is better than that."""

    def leap(best: float) -> np.ndarray:
        class Data:
            def expectations(self, parameters: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
                return -(float(parameters["a"][0] - best) ** 2), {}

        def place(a: float) -> _Place:
            here, step = np.array([a, 1 - a]), np.array([a + 0.6, 1.4 - a]) / 2
            return _Place({"a": here}, -((a - best) ** 2), {"a": step / here})

        return _leap(Data(), place(0.2), place(0.4)).parameters["a"]

    np.testing.assert_allclose(leap(0.6), [0.6, 0.4])
    np.testing.assert_allclose(leap(0.4), [0.4, 0.6])
