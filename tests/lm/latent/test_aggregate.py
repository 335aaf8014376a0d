"""Learning aggregate Markov models: EM against its twin, pivots on exact matrices, stopping, stepwise EM."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.elsewhere import Elsewhere
from helpers.latent_helpers import bigrams, distributions, em_step, random_model, random_text, words
from helpers.training_helpers import Notes
from sapwood.errors import InputError, SapwoodError, UsageError
from sapwood.lm.counts.counts import count_text
from sapwood.lm.latent import tiles as tiles_module
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.lm.latent.anchor_words import word_points
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.bigram_data import HeldOutBigrams
from sapwood.lm.latent.tiles import BigramTiles


class Lines:
    """Keeps what is logged."""

    def __init__(self):
        self.lines = []

    def write(self, event, *, step, seconds=None, **figures):
        self.lines.append({"event": event, "step": step, **figures})

    def values(self, event, name):
        return [line[name] for line in self.lines if line["event"] == event]


@pytest.fixture(scope="module")
def text():
    rng = np.random.default_rng(7)
    model = random_model(rng, 60, 4)
    return model, random_text(rng, model, 6000)


def fitted(ids, size=60, **settings):
    dev = settings.pop("dev", None)
    reporting = {name: settings.pop(name, None) for name in ("log", "progress")}
    return AggregateMarkov(**settings).fit(bigrams(ids, size), vocabulary=words(size), dev=dev, **reporting)


@given(
    st.integers(0, 10**6), st.integers(4, 12), st.integers(1, 5), st.sampled_from([(0.0, 0.0), (1.5, 0.0), (0.5, 4.0)])
)
@pytest.mark.slow
def test_iterations_are_those_of_the_textbook(seed, size, states, priors):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, (size, size)) * (rng.random((size, size)) < 0.7) + np.eye(size)
    counts[0] = 0.0  # never a first word
    counts[:, 0] = 0.0
    r, s = distributions(rng, (size, states), 1), distributions(rng, (size, states), 0)
    start = LatentBigram(words(size), r, s, np.full(states, 1 / states))
    settings = {"states": states, "precision": "double", "prior": priors[0], "word_prior": priors[1], "tolerance": 0.0}
    log = Lines()
    found = AggregateMarkov(**settings, iterations=3).fit(
        scipy.sparse.csr_array(counts), vocabulary=words(size), init=start, log=log
    )
    likelihoods = []
    for _ in range(3):
        r, s, value = em_step(counts, r, s, *priors)
        likelihoods.append(value)
    prior = counts.sum(axis=1) @ r / counts.sum()
    np.testing.assert_allclose(found.given[1:], r[1:], rtol=1e-9)
    np.testing.assert_allclose(found.given[0], prior, rtol=1e-9)
    np.testing.assert_allclose(found.emitted, s, rtol=1e-9, atol=1e-25)
    np.testing.assert_allclose(found.prior, prior, rtol=1e-9)
    np.testing.assert_allclose(log.values("iteration", "log_likelihood"), likelihoods, rtol=1e-9)


def test_the_likelihood_never_falls_and_the_model_is_one_of_probabilities(text):
    _, ids = text
    log = Lines()
    model = fitted(ids, states=5, prior=0.0, word_prior=0.0, iterations=60, log=log)
    values = log.values("iteration", "log_likelihood")
    assert len(values) > 10
    assert all(later >= earlier - 1e-6 * abs(earlier) for earlier, later in itertools.pairwise(values))
    assert values[-1] > values[0] + 100
    np.testing.assert_allclose(model.given.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.emitted.sum(axis=0), 1, atol=1e-5)
    assert model.prior.sum() == pytest.approx(1)


def test_a_falling_objective_is_an_error(text, monkeypatch):
    values = iter([-100.0, -101.0])
    monkeypatch.setattr(BigramTiles, "expect", lambda *_: next(values))
    with pytest.raises(SapwoodError, match="objective fell from -100 to -101"):
        fitted(text[1], states=2, prior=0.0, word_prior=0.0)


@pytest.mark.parametrize("settings", [{}, {"stepwise_batches": 4}, {"method": "pivot+em", "anchor_count": 5}])
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(text, settings, monkeypatch):
    monkeypatch.setattr(tiles_module, "_BLOCK", 1000)
    places = ({"threads": 1}, {"threads": 2}, {"threads": 4}, {"workers": Elsewhere()})
    models = [fitted(text[1], states=3, iterations=4, **place, **settings) for place in places]
    for model in models[1:]:
        assert model.given.tobytes() == models[0].given.tobytes()
        assert model.emitted.tobytes() == models[0].emitted.tobytes()
    if settings.get("method") is None:
        other = fitted(text[1], states=3, iterations=4, random_state=1, **settings)
        assert not np.allclose(other.given, models[0].given)


def test_learning_comes_close_to_the_model_that_made_the_text(text):
    made_by, ids = text
    held_out = random_text(np.random.default_rng(8), made_by, 3000)
    model = fitted(ids, states=4, dev=random_text(np.random.default_rng(9), made_by, 3000))
    best, unigram = made_by.perplexity(held_out), fitted(ids, states=1).perplexity(held_out)
    assert best < model.perplexity(held_out) < best + 0.3 * (unigram - best)


def test_held_out_text_ends_the_iterations_and_the_best_model_is_returned(text):
    made_by, ids = text
    dev = random_text(np.random.default_rng(9), made_by, 2000)
    log = Lines()
    model = fitted(ids[:1500], states=8, dev=dev, prior=0.0, word_prior=0.0, iterations=200, patience=2, log=log)
    perplexities = log.values("dev", "perplexity")
    best = int(np.argmin(perplexities))
    assert len(perplexities) == best + 3 < 200
    assert model.info["iterations"] == best + 1
    assert model.info["dev_perplexity"] == pytest.approx(perplexities[best])
    # The first word has nothing before it, and is not measured.
    assert model.evaluate(dev[1:], context=dev[:1]).perplexity == pytest.approx(perplexities[best], rel=1e-5)
    again = fitted(ids[:1500], states=8, prior=0.0, word_prior=0.0, iterations=best + 1, tolerance=0.0)
    np.testing.assert_array_equal(again.given, model.given)


def test_priors_keep_words_from_being_impossible(text):
    _, ids = text
    sharp = fitted(ids[:800], states=6, prior=0.0, word_prior=0.0)
    smooth = fitted(ids[:800], states=6, prior=2.0, word_prior=20.0)
    seen = np.unique(ids[1:800])
    assert smooth.emitted[seen].min() > 10 * sharp.emitted[seen].min()
    assert smooth.given.min() > 1e-3 > sharp.given.min()
    assert smooth.perplexity(ids[3000:]) < sharp.perplexity(ids[3000:])


def test_stepwise_iterations_get_further_in_one_pass(text):
    _, ids = text
    batch, stepwise = Lines(), Lines()
    settings = {"states": 4, "prior": 0.0, "word_prior": 0.0, "iterations": 12, "tolerance": 0.0}
    fitted(ids, **settings, log=batch)
    model = fitted(ids, **settings, stepwise_batches=16, log=stepwise)
    whole = batch.values("iteration", "log_likelihood")
    parts = stepwise.values("iteration", "log_likelihood")
    assert parts[-1] > whole[-1] + 100
    np.testing.assert_allclose(model.emitted.sum(axis=0), 1, atol=1e-5)


def separable_model(rng, size, states):
    """Exact `r(h|w1)`, `s(w2|h)` with a word for each state that no other says, and `p(w1)`."""
    s = distributions(rng, (size, states), 0, 2.0)
    s[:states] = np.diag(rng.uniform(0.2, 0.5, states))
    s /= s.sum(axis=0)
    r = distributions(rng, (size, states), 1, 4.0)
    share = distributions(rng, (size, 1), 0)[:, 0]
    return r, s, share


@pytest.mark.parametrize(("size", "states", "shrinkage"), [(12, 3, 0.0), (40, 6, 0.0), (40, 6, 0.01)])
def test_pivots_recover_separable_models_from_exact_matrices(size, states, shrinkage):
    rng = np.random.default_rng(size)
    r, s, share = separable_model(rng, size, states)
    exact = share[:, None] * (r @ s.T)
    model = AggregateMarkov(
        states=states, method="pivot", precision="double", prior=0.0, word_prior=0.0, anchor_shrinkage=shrinkage,
        anchor_count=0.0,
        pivot_iterations=20_000, tolerance=1e-14,
    ).fit(scipy.sparse.csr_array(exact), vocabulary=words(size))  # fmt: skip
    order = [int(np.argmax(model.emitted[anchor])) for anchor in range(states)]
    assert sorted(order) == list(range(states))
    np.testing.assert_allclose(model.emitted[:, order], s, atol=1e-6)
    np.testing.assert_allclose(model.given[:, order], r, atol=1e-6)


def test_pivots_in_single_precision_and_with_held_out_text(text):
    made_by, ids = text
    dev = random_text(np.random.default_rng(9), made_by, 2000)
    log = Lines()
    pivot = fitted(ids, states=4, method="pivot", anchor_count=30, dev=dev, prior=0.0, word_prior=0.0, log=log)
    assert pivot.info["iterations"] == 0 < pivot.info["pivot_iterations"]
    both = fitted(ids, states=4, method="pivot+em", anchor_count=30, dev=dev, prior=0.0, word_prior=0.0)
    assert both.info["pivot_iterations"] == 1 <= both.info["iterations"]
    assert both.info["dev_perplexity"] < pivot.info["dev_perplexity"] < log.values("dev", "perplexity")[0]
    random = fitted(ids, states=4, dev=dev, prior=0.0, word_prior=0.0)
    assert both.info["iterations"] < random.info["iterations"]


@pytest.mark.parametrize(("prior", "held_out"), [(0.0, False), (3.0, False), (0.0, True)])
def test_a_warning_where_iterations_were_not_enough(text, prior, held_out):
    """The concave problem of pivot, left before its end, is said to be; with enough iterations nothing is."""
    made_by, ids = text
    dev = random_text(np.random.default_rng(9), made_by, 2000) if held_out else None
    for most, warned in ((2, True), (3000, False)):
        notes = Notes()
        fitted(
            ids, states=4, method="pivot", anchor_count=30, dev=dev, prior=prior, word_prior=0.0,
            pivot_iterations=most, tolerance=1e-4, progress=notes,
        )  # fmt: skip
        found = [line for line in notes.texts if "were not enough for the concave problem" in line]
        assert found == ([f"pivot: {most} iterations, the most there may be, {_ADVICE}"] if warned else [])


_ADVICE = "were not enough for the concave problem; iterations can be raised"


def test_em_never_ends_below_the_pivots_it_began_with(text):
    made_by, ids = text
    dev = random_text(np.random.default_rng(9), made_by, 1000)
    settings = {"states": 8, "anchor_count": 10, "dev": dev, "prior": 0.0, "word_prior": 0.0, "pivot_iterations": 3}
    pivot = fitted(ids[:700], method="pivot", **settings)
    both = fitted(ids[:700], method="pivot+em", **settings)
    assert both.info["dev_perplexity"] <= pivot.info["dev_perplexity"]
    assert both.evaluate(dev[1:], context=dev[:1]).perplexity == pytest.approx(both.info["dev_perplexity"], rel=1e-5)


def test_too_few_anchors_give_fewer_states(text):
    notes = Notes()
    _, ids = text
    settings = {"states": 20, "method": "pivot", "anchor_count": float(np.sort(np.bincount(ids[1:]))[-7])}
    model = AggregateMarkov(**settings).fit(bigrams(ids, 60), vocabulary=words(60), progress=notes)
    assert model.states <= 7
    assert "states only" in notes.texts[0]


def test_subspace_iteration_finds_the_singular_vectors(text, monkeypatch):
    rng = np.random.default_rng(3)
    model = random_model(rng, 150, 5)
    exact = scipy.sparse.csr_array(1e5 * rng.random((150, 1)) * (model.given @ model.emitted.T))
    tiles = BigramTiles(exact, 5)
    points = word_points(tiles, 5, shrinkage=20.0)
    monkeypatch.setattr("sapwood.lm.latent.anchor_words._DENSE", 0)
    approximate = word_points(tiles, 5, shrinkage=20.0)
    assert not np.array_equal(points, approximate)
    # Singular vectors have no sign: inner products do not depend on it.
    np.testing.assert_allclose(approximate @ approximate.T, points @ points.T, rtol=2e-3, atol=2e-4)


def test_counts_of_a_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the old dog sleeps\nthe cat sleeps\nan old cat runs\n" * 20)
    counts = count_text(path, order=2)
    model = AggregateMarkov(states=3, iterations=30, prior=0.1, word_prior=0.1).fit(counts)
    assert model.boundaries == "sentence"
    assert model.vocabulary == counts.vocabulary
    assert model.emitted[1].max() == 0  # nothing says <s>
    assert [word for word, _ in model.next_words("sleeps", 1)] == ["</s>"]
    assert [word for word, _ in model.next_words([], 1)] == ["the"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"states": 0}, "states must be at least 1"),
        ({"pivot_iterations": 0}, "pivot_iterations must be at least 1"),
        ({"prior": -1.0}, "prior must be at least 0 and at most 1e"),
        ({"word_prior": float("inf")}, "word_prior must be"),
        ({"method": "guess"}, "method must be one of em, pivot"),
        ({"precision": "half"}, "precision must be"),
        ({"stepwise_power": 0.5}, "stepwise_power must be above 0.5 and at most 1, not 0.5"),
        ({"threads": 0}, "threads"),
    ],
)
def test_settings_out_of_range(settings, complaint):
    with pytest.raises(UsageError, match=complaint):
        AggregateMarkov(**settings)


def test_calls_that_cannot_be(text):
    _, ids = text
    counts = bigrams(ids, 60)
    with pytest.raises(UsageError, match="needs a vocabulary"):
        AggregateMarkov(states=2).fit(counts)
    with pytest.raises(UsageError, match="not about a vocabulary of 61"):
        AggregateMarkov(states=2).fit(counts, vocabulary=words(61))
    with pytest.raises(UsageError, match="ids are from 0 to"):
        fitted(ids, states=2, dev=np.array([3, 99]))
    with pytest.raises(InputError, match="no two words"):
        fitted(ids, states=2, dev=np.array([3, 0]))
    with pytest.raises(UsageError, match="whole numbers"):
        fitted(ids, states=2, dev=np.array([3.0, 4.0]))
    start = random_model(np.random.default_rng(0), 60, 3)
    with pytest.raises(UsageError, match="init has 3 states"):
        AggregateMarkov(states=2).fit(counts, vocabulary=words(60), init=start)
    with pytest.raises(UsageError, match="own beginning"):
        AggregateMarkov(states=3, method="pivot").fit(counts, vocabulary=words(60), init=start)
    with pytest.raises(UsageError, match="lower anchor_count"):
        fitted(ids, states=2, method="pivot", anchor_count=1e9)


def test_held_out_words_never_seen_do_not_spoil_the_perplexity(text):
    _, ids = text
    unseen = 59 if 59 not in ids[:50] else int(np.setdiff1d(np.arange(3, 60), ids[:50])[0])
    dev = np.append(ids[100:300], np.array([unseen, 3], np.int32))
    model = fitted(ids[:50], states=2, dev=dev, prior=1.0)
    assert np.isfinite(model.info["dev_perplexity"])
    with pytest.raises(InputError, match="no word that was seen"):
        fitted(ids[:50], states=2, dev=np.array([3, unseen]))


def test_held_out_bigrams_are_counted():
    ids = np.array([3, 4, 3, 4, 0, 4, 1, 4], np.int32)
    held_out = HeldOutBigrams([ids, ids[:2]], 5)
    pairs = dict(zip(zip(held_out.contexts, held_out.targets, strict=True), held_out.counts, strict=True))
    assert pairs == {(0, 4): 1, (1, 4): 1, (3, 4): 3, (4, 3): 1}
    r, s = np.random.default_rng(0).random((2, 5, 3))
    logs = [np.log(r[a] @ s[b]) for (a, b), count in pairs.items() for _ in range(count)]
    assert held_out.perplexity(r, s) == pytest.approx(np.exp(-np.mean(logs)))
    lagged = HeldOutBigrams(np.array([1, 3, 4, 2, 1, 4, 3, 2], np.int32), 5, lag=2, boundaries="sentence")
    pairs = set(zip(lagged.contexts.tolist(), lagged.targets.tolist(), strict=True))
    assert pairs == {(1, 4), (3, 2), (1, 3), (4, 2)}


@pytest.mark.parametrize("shrinkage", [0.0, 3.0, 200.0])
def test_points_of_words_are_those_of_scaled_counts(text, shrinkage):
    """`E[phi(w1) | w2]`, written out. Singular vectors are known but for signs, so inner products are compared."""
    counts = bigrams(text[1], 60).toarray()
    tiles = BigramTiles(scipy.sparse.csr_array(counts), 4)
    points = word_points(tiles, 4, shrinkage=shrinkage)
    rows, words_after = counts.sum(axis=1), counts.sum(axis=0)
    left = np.where(rows > 0, 1 / np.sqrt(np.maximum(rows + shrinkage, 1e-9)), 0.0)
    right = np.where(words_after > 0, 1 / np.sqrt(np.maximum(words_after + shrinkage, 1e-9)), 0.0)
    features = left[:, None] * np.linalg.svd(left[:, None] * counts * right)[0][:, :4]
    means = [counts[:, word] @ features / max(words_after[word], 1) for word in tiles.columns]
    wanted = np.sqrt(counts.sum()) * np.array(means)
    np.testing.assert_allclose(points @ points.T, wanted @ wanted.T, rtol=1e-6, atol=1e-9)


def test_shrinkage_holds_back_words_that_are_only_seen_with_each_other():
    """Without it such pairs are the first canonical correlations, and no dimension is left for the states."""
    rng = np.random.default_rng(0)
    # Four groups of ten words follow each other, in a circle.
    ids = 3 + 10 * (np.arange(6000) % 4) + rng.integers(10, size=6000)
    pairs = 43 + (2 * rng.integers(8, size=320)[:, None] + np.arange(2)).reshape(-1)
    counts, dev = np.concatenate([ids[:5000], pairs]), ids[5000:]
    held_back, not_at_all = (
        fitted(counts, 59, states=4, method="pivot", prior=0.5, word_prior=1.0, anchor_shrinkage=shrinkage)
        for shrinkage in (500.0, 0.0)
    )
    perplexities = [
        np.exp(-np.mean([np.log(model.given[a] @ model.emitted[b]) for a, b in itertools.pairwise(dev)]))
        for model in (held_back, not_at_all)
    ]
    assert perplexities[0] < 12
    assert perplexities[1] > 30


def test_subspace_iteration_of_counts_that_no_few_states_explain(text, monkeypatch):
    """Of more directions than are asked for those of the largest singular values are taken."""
    rng = np.random.default_rng(4)
    rows, columns = (np.linalg.qr(rng.normal(size=(150, 150)))[0] for _ in range(2))
    rows[:, 0] = columns[:, 0] = 1 / np.sqrt(150)
    counts = scipy.sparse.csr_array(200 + 1e3 * np.abs((rows * 0.8 ** np.arange(150)) @ columns.T))
    tiles = BigramTiles(counts, 5)
    points = word_points(tiles, 3, shrinkage=20.0)
    monkeypatch.setattr("sapwood.lm.latent.anchor_words._DENSE", 0)
    approximate = word_points(tiles, 3, shrinkage=20.0)
    np.testing.assert_allclose(approximate @ approximate.T, points @ points.T, rtol=0.02)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_states_of_pivots_are_never_too_small_for_their_precision(text, precision):
    """In single precision products of zeros would be words that cannot be."""
    found = fitted(text[1], states=4, method="pivot", prior=0.0, word_prior=0.0, precision=precision, anchor_count=5)
    smallest = found.given[np.unique(text[1])].min()
    assert (smallest > 1e-10) == (precision == "single")
