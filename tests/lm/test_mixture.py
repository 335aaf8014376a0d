"""Mixtures of language models."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.latent_helpers import random_model, random_text
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.counts.counts import count_text
from sapwood.lm.io import latent_part, load_model
from sapwood.lm.latent.mixed_order import MixedOrder
from sapwood.lm.mixture import Mixture
from sapwood.lm.ngram.kneser_ney import KneserNey
from sapwood.storage.arrays import read_arrays, write_arrays


@pytest.fixture
def models():
    rng = np.random.default_rng(2)
    found = [random_model(rng, 15, states) for states in (2, 3, 5)]
    for model in found[1:]:
        model.vocabulary = found[0].vocabulary
    return found


@pytest.fixture
def text(models):
    rng = np.random.default_rng(3)
    return np.concatenate([random_text(rng, model, 400) for model in (models[0], models[1], models[1])])


def test_probabilities_are_mixed_by_bucket(models, text):
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    edges = np.array([10, 30])
    mixture = Mixture(models, weights, edges)
    members = np.exp([model.log_probabilities(text) for model in models])
    found = mixture.log_probabilities(text)
    seen = models[0].vocabulary.counts
    for place in range(50):
        count = 0 if place == 0 else seen[text[place - 1]]
        bucket = int(count >= 10) + int(count >= 30)
        assert found[place] == pytest.approx(np.log(weights[bucket] @ members[:, place]), rel=1e-6)
        if place:
            chances = mixture.distribution(text[:place])
            assert chances.sum() == pytest.approx(1, abs=1e-5)
            assert np.log(chances[text[place]]) == pytest.approx(found[place], rel=1e-5)
    np.testing.assert_allclose(mixture.log_probabilities(text[7:], context=text[:7]), found[7:])


def test_weights_are_those_that_make_the_text_most_likely(models, text):
    mixture = Mixture.fit(models, text, prior=0.0)
    members = np.exp([model.log_probabilities(text) for model in models])[:, (text != 0)]
    ratio = members / (mixture.weights[0] @ members)
    # At the optimum each member with a weight explains its share, and no other explains more.
    gradient = ratio.mean(axis=1)
    assert gradient.max() < 1.01
    np.testing.assert_allclose(gradient[mixture.weights[0] > 0.05], 1, atol=0.01)
    assert mixture.weights[0, 1] > mixture.weights[0, 0] > mixture.weights[0, 2]
    assert mixture.perplexity(text) < min(model.perplexity(text) for model in models)


def test_buckets_have_weights_of_their_own(models):
    rng = np.random.default_rng(5)
    seen = models[0].vocabulary.counts
    middle = int(np.median(seen))
    # After frequent words the text is the second model's, else the first one's.
    tables = [model.given @ model.emitted.T for model in models]
    ids = [4]
    for _ in range(4000):
        chances = tables[int(seen[ids[-1]] >= middle)][ids[-1]].astype(float)
        ids.append(int(rng.choice(15, p=chances / chances.sum())))
    text = np.array(ids, np.int32)
    mixture = Mixture.fit(models, [text[:2000], text[2000:]], edges=[middle])
    assert mixture.weights[0].argmax() == 0
    assert mixture.weights[1].argmax() == 1
    assert mixture.perplexity(text) < Mixture.fit(models, text).perplexity(text)
    firm = Mixture.fit(models, text, edges=[middle], prior=1e9)
    np.testing.assert_allclose(firm.weights, 1 / 3, atol=1e-4)
    none = Mixture.fit(models, text, edges=[10**6, 10**7])
    np.testing.assert_allclose(none.weights[1:], 1 / 3)  # nothing was seen that often


def test_a_member_that_thinks_a_word_impossible(models, text):
    models[2].emitted[5] = 0.0
    mixture = Mixture.fit(models, text)
    found = mixture.log_probabilities(text)
    assert np.isfinite(found).all()
    alone = Mixture([models[2]], np.ones((1, 1)), np.zeros(0))
    assert np.isneginf(alone.log_probabilities(np.array([4, 5], np.int32))[1])


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_mixtures_of_all_kinds_are_one_file(tmp_path, boundaries):
    source = tmp_path / "text.txt"
    source.write_text("a dog barks\nthe dog sleeps\na cat sleeps\nthe old cat runs\n" * 4)
    counts = count_text(source, order=3, boundaries=boundaries)
    rng = np.random.default_rng(0)
    size = len(counts.vocabulary)
    latent = random_model(rng, size, 3, boundaries)
    latent.vocabulary = counts.vocabulary
    mixed = MixedOrder([latent, latent], rng.random((1, size)))
    members = [KneserNey(order=3).fit(counts), latent, mixed]
    text = counts.vocabulary.encode(["<s>", "the", "cat", "barks", "</s>", "<s>", "a", "dog", "runs", "</s>"])
    text = text if boundaries == "sentence" else text[(text != 1) & (text != 2)]
    mixture = Mixture.fit(members, text, edges=[5])
    assert latent_part(mixture) is latent
    assert latent_part(Mixture.fit([members[0], mixed], text, edges=[])) is latent
    with pytest.raises(ModelError, match="no hidden states"):
        latent_part(Mixture.fit(members[:1], text, edges=[]))
    path = tmp_path / "mixture.model"
    mixture.save(path)
    loaded = load_model(path)
    assert isinstance(loaded, Mixture)
    np.testing.assert_array_equal(loaded.log_probabilities(text), mixture.log_probabilities(text))
    np.testing.assert_array_equal(loaded.weights, mixture.weights)
    assert loaded.boundaries == boundaries
    assert loaded.info == mixture.info
    assert loaded.next_words(["the", "dog"], 3) == mixture.next_words(["the", "dog"], 3)
    assert mixture.distribution(text[:3]).sum() == pytest.approx(1, abs=1e-5)
    assert loaded.sample(2, max_words=6, random_state=5) == mixture.sample(2, max_words=6, random_state=5)
    again = tmp_path / "again.model"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    arrays, metadata = read_arrays(path, kind="mixture", version=1)
    for number, member in enumerate(members):
        own, about = member.parts()
        assert metadata["members"][number] == {"kind": member.kind, "metadata": about}
        for name in own.keys() - {"words", "word_counts"}:
            np.testing.assert_array_equal(arrays[f"{number}/{name}"], own[name])
    for change in ({"kind": "oracle"}, {"metadata": {}}):
        broken = {**metadata, "members": [metadata["members"][0], {**metadata["members"][1], **change}]}
        write_arrays(again, arrays, broken, kind="mixture", version=1)
        with pytest.raises(ModelError, match="not a complete mixture"):
            Mixture.load(again)


def test_mixtures_that_cannot_be(models, text, tmp_path):
    other = random_model(np.random.default_rng(0), 14, 2)
    with pytest.raises(UsageError, match="same words"):
        Mixture.fit([models[0], other], text[:0])
    with pytest.raises(UsageError, match="needs models"):
        Mixture.fit([], text)
    with pytest.raises(UsageError, match="must rise"):
        Mixture.fit(models, text, edges=[5, 5])
    with pytest.raises(UsageError, match="prior must be"):
        Mixture.fit(models, text, prior=-1.0)
    with pytest.raises(InputError, match="no word that the models know"):
        Mixture.fit(models, np.zeros(9, np.int32))
    with pytest.raises(ModelError, match="do not match weights"):
        Mixture(models, np.ones((1, 2)), np.zeros(0))
    inner = Mixture.fit(models, text)
    with pytest.raises(UsageError, match="a Mixture in it cannot be saved"):
        Mixture.fit([inner, models[0]], text).save(tmp_path / "m")


def test_iterations_are_no_more_than_asked_for(models, text):
    found = [Mixture.fit(models, text, iterations=iterations) for iterations in (1, 2, 500)]
    assert [mixture.info["iterations"] for mixture in found[:2]] == [1, 2]
    assert 2 < found[2].info["iterations"] < 500
    assert found[0].perplexity(text) > found[1].perplexity(text) > found[2].perplexity(text)
