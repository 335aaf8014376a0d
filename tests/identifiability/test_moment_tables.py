"""Tables of moments: predictions, derivatives, fits, and what estimates are worth."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from helpers.effort import slow
from sapwood.errors import UsageError
from sapwood.identifiability import UncertainAnswer, fit_em, make_model, unmix
from sapwood.identifiability.models.zoo import MODELS
from sapwood.identifiability.moment_tables import Tables, fit_tables
from sapwood.identifiability.moments import Population, Sentences, exact_moments
from sapwood.identifiability.unmixing.fit_diagnostics import diagnose_fit

EASY = {"pi": np.array([0.5, 0.3, 0.2]), "A": np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]])}


def drawn(model, truth, lengths, count: int, seed: int) -> Sentences:
    rng = np.random.default_rng(seed)
    rows = [row for length in lengths for row in model.sample(truth, length, count, rng).words.tolist()]
    return Sentences(rows, model.words)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_their_derivatives(name: str) -> None:
    """Those of exact moments, and of differences of predictions."""
    model = make_model(name, 3, None if name.startswith("dep") else 2)
    rng = np.random.default_rng(0)
    parameters = model.random(rng, concentration=3)
    tables = Tables(model, Population(model, parameters, [1, 2, 4]), [1, 2, 4])
    assert tables.lengths == [1, 2, 4]
    values, slopes = tables.slopes(parameters)
    np.testing.assert_allclose(values, tables.measured, atol=1e-14)
    every = exact_moments(model, parameters, "***", 4)
    for part in tables.parts:
        if part.length == 4:
            np.testing.assert_allclose(values[part.cells].reshape(3, 3, 3), every[part.positions], atol=1e-14)
    for block, slope in zip(model.blocks, slopes, strict=True):
        way = rng.normal(size=(block.outcomes, block.columns))
        way -= way.mean(0)
        ends = [
            tables.predicted({**parameters, block.name: parameters[block.name] + sign * way.reshape(block.shape)})
            for sign in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(np.tensordot(slope, way, 2), (ends[0] - ends[1]) / 2e-6, atol=1e-8)


def test_long_sentences_are_left_out_where_there_is_no_room() -> None:
    model = make_model("dep-ie", 3)
    source = Population(model, EASY, [2, 3, 4])
    assert Tables(model, source, [2, 3, 4], most=40).lengths == [2, 3]
    assert Tables(model, source, [3, 4], most=5).lengths == [3]
    with pytest.raises(UsageError, match="no sentences"):
        Tables(model, source, [])


def test_what_is_never_seen_may_have_no_probability() -> None:
    model = make_model("dep-ie", 3)
    tables = Tables(model, Sentences([[0, 1], [0, 1], [1, 0], [2, 1]], 3), [2])
    seen = tables.measured > 0
    assert 0 < seen.sum() < len(seen)
    expected = np.sum((tables.weights * tables.measured)[seen] * np.log(tables.measured[seen]))
    assert tables.score(tables.measured) == pytest.approx(expected)
    for place in np.flatnonzero(seen):
        assert tables.score(np.where(np.arange(len(seen)) == place, 0.0, tables.measured)) == -np.inf


def test_up_to_length_three_it_is_maximum_likelihood() -> None:
    """Where EM ends, slowly, the fit ends too."""
    model = make_model("dep-ie", 3)
    rng = np.random.default_rng(0)
    sentences = [row for length in (2, 3) for row in model.sample(EASY, length, 3000, rng).words.tolist()]
    slow = fit_em(model, sentences, start=EASY, iterations=2000, tolerance=1e-12)
    tables = Tables(model, Sentences(sentences, 3), [2, 3])
    fast = fit_tables(tables, model.random(rng), tolerance=1e-9)
    assert fast.score == pytest.approx(slow.log_likelihoods[-1], abs=1e-4)
    assert fast.steps < 40
    for name, array in slow.parameters.items():
        np.testing.assert_allclose(fast.parameters[name], array, atol=2e-3)


def test_no_step_is_too_long() -> None:
    """From a start that is far away parameters grow by a factor of e^2 at first, and a little by what others lose."""
    model = make_model("dep-ie", 3)
    tables = Tables(model, Population(model, EASY, [1, 2, 3]), [1, 2, 3])
    start = {**EASY, "pi": np.array([1 - 2e-5, 1e-5, 1e-5])}
    found = fit_tables(tables, start, steps=1).parameters["pi"]
    np.testing.assert_allclose(np.log(found[1:] / start["pi"][1:]), 2.0, atol=0.5)


@pytest.mark.parametrize("lengths", [[2, 3], slow([2, 3, 5])])
def test_standard_errors_are_those_of_many_samples(lengths: list[int]) -> None:
    """Of 60 samples, whose intervals of 95 % cover as many of the parameters.

    And the misfit is as large as expected, and as variable. Length 5 has overlapping tables.
    """
    model = make_model("dep-ie", 3)
    found, known = [], []
    for seed in range(60):
        source = drawn(model, EASY, lengths, 1500, seed)
        tables = Tables(model, source, lengths)
        found.append(fit_tables(tables, EASY).parameters)
        known.append(diagnose_fit(tables, source, found[-1]))
    for name, truth in EASY.items():
        spread = np.sqrt(np.mean([(each[name] - truth) ** 2 for each in found], axis=0))
        said = np.mean([each.standard_errors[name] for each in known], axis=0)
        assert 0.85 < np.mean(spread / said) < 1.15
    inside = [
        np.abs(each[name] - EASY[name]) <= 1.96 * one.standard_errors[name]
        for each, one in zip(found, known, strict=True)
        for name in EASY
    ]
    assert 0.93 < np.mean(np.concatenate([each.ravel() for each in inside])) < 0.975
    assert np.mean([each.misfit / each.expected for each in known]) == pytest.approx(1, abs=0.06)
    degrees = np.mean([each.degrees for each in known])
    assert np.var([each.misfit / each.expected for each in known]) == pytest.approx(2 / degrees, rel=0.5)
    assert 0.35 < np.mean([each.probability for each in known]) < 0.65
    np.testing.assert_allclose(known[0].sentences_for(known[0].largest_error / 2), 4 * known[0].sentences)


def test_standard_errors_of_what_sentences_do_not_tell() -> None:
    """Of one word there is nothing to learn but which words are roots."""
    model = make_model("dep-ie", 3)
    source = drawn(model, EASY, [1], 1000, 0)
    errors = diagnose_fit(Tables(model, source, [1]), source, EASY).standard_errors
    np.testing.assert_allclose(errors["pi"], np.sqrt(EASY["pi"] * (1 - EASY["pi"]) / 1000), rtol=0.1)
    assert np.isinf(errors["A"]).all()
    # Sentences of a language with one word say nothing at all.
    one = make_model("pcfg-ie", 1, 2)
    source = Sentences([[0], [0, 0], [0, 0, 0]], 1)
    errors = diagnose_fit(Tables(one, source, [1, 2, 3]), source, one.random(np.random.default_rng(0))).standard_errors
    assert np.isinf(errors["pi"]).all()
    assert np.isinf(errors["T"]).all()
    assert not errors["O"].any()


class TestWarnings:
    def test_thirty_random_sentences(self) -> None:
        model = make_model("pcfg-ie", 6, 3)
        rows = np.random.default_rng(0).integers(6, size=(30, 3))
        with pytest.warns(UncertainAnswer) as said:
            found = unmix(model, Sentences(rows, 6))
        assert any("30 sentences are few for 23 parameters" in str(each.message) for each in said)
        assert found.evidence is not None
        assert "warning" in found.describe()

    def test_states_that_are_all_alike(self) -> None:
        """Enough sentences, but nothing in them tells the states apart."""
        model = make_model("pcfg-ie", 3, 2)
        rows = np.random.default_rng(0).integers(3, size=(20_000, 3))
        with pytest.warns(UncertainAnswer, match="standard error|do not determine"):
            unmix(model, Sentences(rows, 3))

    def test_another_model(self) -> None:
        """Sentences that are rather like those of a model with sides, and not of one without."""
        sided = make_model("dep-i", 3)
        truth = {"pi": EASY["pi"], "Al": EASY["A"], "Ar": EASY["A"][::-1]}
        rows = sided.sample(truth, 3, 20_000, np.random.default_rng(0)).words
        with pytest.warns(UncertainAnswer, match="does not fit"):
            unmix(make_model("dep-ie", 3), Sentences(rows, 3))

    def test_none_where_all_is_well(self) -> None:
        model = make_model("dep-ie", 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = unmix(model, drawn(model, EASY, [2, 3, 4], 5000, 0))
        assert found.base == "linear"
        assert found.evidence is not None
        assert found.evidence.fits
        assert "probability" in found.describe()
