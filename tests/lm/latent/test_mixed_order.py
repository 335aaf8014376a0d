"""Mixed-order models against a walk written out word by word."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from helpers.latent_helpers import random_model, words
from helpers.training_helpers import Lines
from sapwood.errors import ModelError, UsageError
from sapwood.lm.io import load_model
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.mixed_order import MixedOrder, MixedOrderMarkov, Steps, mixing_weights
from sapwood.storage.arrays import write_arrays


def random_mixed(rng: np.random.Generator, size: int, lags: int, boundaries: str) -> MixedOrder:
    first = random_model(rng, size, 3, boundaries)
    others = [random_model(rng, size, 2, boundaries) for _ in range(lags - 1)]
    for other in others:
        other.vocabulary = first.vocabulary
    return MixedOrder([first, *others], rng.random((lags - 1, size)), {"method": "mixed-order"})


def walk(model: MixedOrder, text: list[int], place: int) -> np.ndarray:
    """The distribution of the word at a place of a text."""
    reach = place
    if model.boundaries == "sentence":
        reach = next((back for back in range(1, place + 1) if text[place - back] == 1), place)
    reach = min(reach, len(model.lags))
    if reach == 0:
        return model.lags[0].emitted @ model.lags[0].prior
    result, rest = np.zeros(len(model.vocabulary)), 1.0
    for lag in range(1, reach + 1):
        word = text[place - lag]
        ends = 1.0 if lag == reach else model.mixing[lag - 1, word]
        bigrams = model.lags[lag - 1]
        result += rest * ends * (bigrams.emitted @ bigrams.given[word])
        rest *= 1 - ends
    return result


@pytest.mark.parametrize(("lags", "boundaries"), list(itertools.product((1, 2, 4), ("stream", "sentence"))))
def test_the_walk_back(lags, boundaries):
    rng = np.random.default_rng(lags)
    model = random_mixed(rng, 12, lags, boundaries)
    middle = [1, 5, 2, 1, 4, 4, 7, 2, 1, 2] if boundaries == "sentence" else [5, 0, 4, 4, 7, 11, 3]
    text = [*middle, *rng.integers(3, 12, 6).tolist()]
    found = model.log_probabilities(np.array(text, np.int32))
    for place, word in enumerate(text):
        if boundaries == "sentence" and word == 1:
            assert found[place] == 0
            continue
        wanted = walk(model, text, place)
        np.testing.assert_allclose(model.distribution(text[:place]), wanted, rtol=1e-5, atol=1e-9)
        assert found[place] == pytest.approx(np.log(wanted[word]), rel=1e-5)
    later = model.log_probabilities(np.array(text[8:], np.int32), context=np.array(text[:8]))
    np.testing.assert_allclose(later, found[8:], rtol=1e-6)


def test_mixing_weights_go_up_the_likelihood_and_favour_the_lag_that_knows():
    # Every other word is "w3", which says nothing of the next; the word before it says all.
    size = 8
    given = np.eye(size, dtype=np.float32)
    emitted = np.full((size, size), 1e-3, np.float32)
    for word in range(4, size):
        emitted[4 + (word - 3) % 4, word] = 1.0
    emitted[3] = 1.0
    emitted[:, 3] = 1 / size
    emitted /= emitted.sum(axis=0)
    bigrams = LatentBigram(words(size), given, emitted, np.full(size, 1 / size))
    model = MixedOrder([bigrams, bigrams], np.full((1, size), 0.5))
    cycle = [3 if place % 2 == 0 else 4 + (place // 2) % 4 for place in range(400)]
    steps = Steps(np.array(cycle, np.int32), model)
    values = []
    for iterations in range(6):
        mixing = mixing_weights([steps], size, prior=0.0, iterations=iterations)
        values.append(np.log((steps.weights(mixing) * steps.probabilities).sum(axis=1)).sum())
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(values))
    assert values[-1] > values[0] + 50
    assert mixing[0, 3] < 0.1
    held = mixing_weights([steps], size, prior=1e9)
    assert np.ptp(held) < 1e-4  # a strong prior: the same for all words


@pytest.mark.parametrize("batches", [1, 3])
def test_a_step_for_all_lags_together_by_hand(batches):
    """All of the text counts at once, whatever a lag alone is learned from, each word as often as a walk ends there."""
    rng = np.random.default_rng(4)
    one, other = (random_model(rng, 9, 3, "stream") for _ in range(2))
    other.vocabulary = one.vocabulary
    model = MixedOrder([one, other], rng.random((1, 9)))
    text = rng.integers(3, 9, 200).astype(np.int32)
    learner = MixedOrderMarkov(
        lags=2, states=3, prior=0.0, word_prior=0.0, stepwise_batches=batches, precision="double"
    )
    found = learner._step(model, [text[:90], text[90:]])
    for place, (lag, new) in enumerate(zip(model.lags, found.lags, strict=True)):
        given, emitted = np.zeros(lag.given.shape), np.zeros(lag.emitted.shape)
        for part in (text[:90], text[90:]):
            steps = Steps(part, model)
            for word, context, share in zip(
                part, steps.contexts[:, place], steps.posteriors(model.mixing)[:, place], strict=True
            ):
                states = lag.given[context].astype(float) * lag.emitted[word]
                given[context] += share * states / states.sum()
                emitted[word] += share * states / states.sum()
        seen = given.sum(axis=1) > 0
        np.testing.assert_allclose(new.given[seen], given[seen] / given[seen].sum(axis=1, keepdims=True), rtol=1e-4)
        np.testing.assert_allclose(new.emitted, emitted / emitted.sum(axis=0), rtol=1e-4, atol=1e-7)


def test_learning_finds_what_skips_a_word():
    rng = np.random.default_rng(0)
    size = 14
    # Three chains of words, each followed by a word that is the same for all.
    chains = np.arange(3, 12).reshape(3, 3)
    text = []
    for _ in range(500):
        chain = chains[rng.integers(3)]
        for word in np.roll(chain, rng.integers(3)):
            text += [int(word), 12]
    ids = np.array(text, np.int32)
    train, dev, test = ids[:2000], ids[2000:2500], ids[2500:]
    learner = MixedOrderMarkov(lags=2, states=6, prior=0.1, word_prior=1.0, joint_iterations=3)
    vocabulary = words(size)
    model = learner.fit(train, vocabulary, dev=dev)
    single = MixedOrderMarkov(lags=1, states=6, prior=0.1, word_prior=1.0).fit(train, vocabulary, dev=dev)
    assert model.perplexity(test) < 0.87 * single.perplexity(test)
    assert model.mixing[0, 12] < 0.2
    assert model.info["settings"]["lags"] == 2
    without_dev = learner.fit([train[:1000], train[1000:]], vocabulary)
    assert without_dev.perplexity(test) < single.perplexity(test)
    np.testing.assert_array_equal(learner.fit(train, vocabulary, dev=dev).mixing, model.mixing)


def test_unknown_words_keep_their_share():
    rng = np.random.default_rng(3)
    ids = rng.integers(3, 9, 3000).astype(np.int32)
    ids[rng.random(3000) < 0.3] = 0
    model = MixedOrderMarkov(lags=2, states=2, joint_iterations=4).fit(ids[:2000], words(9), dev=ids[2000:])
    chances = np.mean([model.distribution(ids[place - 2 : place])[0] for place in range(10, 200)])
    assert chances == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("boundaries", ["stream", "sentence"])
def test_files_words_and_samples(tmp_path, boundaries):
    model = random_mixed(np.random.default_rng(0), 12, 3, boundaries)
    path = tmp_path / "mixed.model"
    model.save(path)
    loaded = load_model(path)
    assert isinstance(loaded, MixedOrder)
    ids = np.array([4, 5, 6, 7, 8], np.int32)
    np.testing.assert_array_equal(loaded.log_probabilities(ids), model.log_probabilities(ids))
    assert loaded.boundaries == boundaries
    assert loaded.info == model.info
    assert loaded.next_words(["w4", "w5"], 3) == model.next_words(["w4", "w5"], 3)
    assert loaded.sample(2, max_words=5, random_state=1) == model.sample(2, max_words=5, random_state=1)
    arrays, metadata = model.parts()
    del arrays["2.given"]
    write_arrays(path, arrays, metadata, kind="mixed-order", version=1)
    with pytest.raises(ModelError, match="not a complete mixed-order model"):
        MixedOrder.load(path)


def test_settings_out_of_range():
    with pytest.raises(UsageError, match="lags must be at least 1"):
        MixedOrderMarkov(lags=0)
    with pytest.raises(UsageError, match="mixing_prior must be 0 or more"):
        MixedOrderMarkov(mixing_prior=-1.0)
    with pytest.raises(UsageError, match="states must be"):
        MixedOrderMarkov(states=0)
    model = random_mixed(np.random.default_rng(0), 12, 2, "stream")
    with pytest.raises(ModelError, match="do not match mixing weights"):
        MixedOrder(model.lags, model.mixing[:, :5])


def test_lags_are_learned_together_only_with_held_out_text():
    ids = np.random.default_rng(0).integers(3, 9, 400).astype(np.int32)
    model = MixedOrderMarkov(lags=2, states=2, joint_iterations=4).fit(ids, words(9))
    assert model.info["joint_iterations"] == 0


@pytest.mark.parametrize(("alike", "seed"), [(True, 1), (False, 0), (False, 2)])
def test_lags_are_learned_together_while_held_out_text_gains(alike, seed):
    rng = np.random.default_rng(seed)
    ids = np.repeat(rng.integers(3, 9, 60), 2).astype(np.int32)
    dev = ids if alike else rng.integers(3, 9, 60).astype(np.int32)
    settings = {"lags": 2, "states": 6, "iterations": 30, "prior": 0, "word_prior": 0, "mixing_prior": 0.0}
    alone = MixedOrderMarkov(joint_iterations=0, **settings).fit(ids, words(9), dev=dev)
    log = Lines()
    model = MixedOrderMarkov(joint_iterations=4, **settings).fit(ids, words(9), dev=dev, log=log)
    values = [alone.perplexity(dev), *(line["perplexity"] for line in log.of("dev") if line.get("phase") == "mixed")]
    done = model.info["joint_iterations"]
    assert done == np.argmin(values)
    assert (done == 4) == alike
    assert len(values) == 1 + min(done + 1, 4)
    assert model.perplexity(dev) == pytest.approx(min(values))


def test_words_never_seen_mix_as_all_words_do_together():
    """The prior's steps are like the average of all; between it and a word's own lies the rest."""
    rng = np.random.default_rng(0)
    lags = [random_model(rng, 12, 3) for _ in range(2)]
    model = MixedOrder([lags[0], replace(lags[1], vocabulary=lags[0].vocabulary)], np.full((1, 12), 0.5))
    steps = Steps(rng.integers(3, 10, 500).astype(np.int32), model)
    mixing = mixing_weights([steps], 12, prior=5.0, iterations=1)[0]
    own = mixing_weights([steps], 12, prior=0.0, iterations=1)[0]
    assert mixing[10] == mixing[11]
    assert own[3:10].min() < mixing[11] < own[3:10].max()
    assert ((mixing[3:10] - own[3:10]) * (mixing[11] - own[3:10]) >= 0).all()
