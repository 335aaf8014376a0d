"""Latent bigram models: probabilities, suggestions, samples, states, files, word vectors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from helpers.latent_helpers import random_model, random_text, words
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.io import load_model
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.vectors import read_vectors, write_vectors
from sapwood.storage.arrays import write_arrays


@pytest.fixture
def model() -> LatentBigram:
    return random_model(np.random.default_rng(1), 20, 3)


def table(model):
    return model.given.astype(float) @ model.emitted.T.astype(float)


def test_probabilities_of_words(model):
    ids = random_text(np.random.default_rng(2), model, 50)
    p, first = table(model), model.emitted.astype(float) @ model.prior
    wanted = np.log([first[ids[0]], *(p[a, b] for a, b in itertools.pairwise(ids))])
    np.testing.assert_allclose(model.log_probabilities(ids), wanted, rtol=1e-5)
    np.testing.assert_allclose(model.log_probabilities(ids[3:], context=ids[:3]), wanted[3:], rtol=1e-5)
    np.testing.assert_allclose(model.log_probabilities(ids[:1]), wanted[:1], rtol=1e-5)
    assert model.log_probabilities(ids[:0]).shape == (0,)
    assert model.log_probabilities(np.array([2], np.int32)) == -np.inf  # a stream's model never says </s>
    with pytest.raises(UsageError, match="ids are from 0 to 19 in this vocabulary"):
        model.log_probabilities(np.array([20]))


def test_distributions_are_the_rows_of_the_table(model):
    for word in range(20):
        found = model.distribution([5, word])
        assert found.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(found, table(model)[word], rtol=1e-5)
    np.testing.assert_allclose(model.distribution(), model.emitted @ model.prior, rtol=1e-5)


def test_perplexity_leaves_out_unknown_words_but_not_what_follows_them(model):
    ids = np.array([3, 0, 4, 0, 0, 5], np.int32)
    p = table(model)
    logs = [math.log(model.emitted[3] @ model.prior), math.log(p[0, 4]), math.log(p[0, 5])]
    assert model.perplexity(ids) == pytest.approx(math.exp(-sum(logs) / 3), rel=1e-5)
    found = model.evaluate(ids)
    assert (found.tokens, found.unknown) == (3, 3)
    # Of two texts, the second goes on from the first, as pieces of a stream do.
    assert model.perplexity([ids[:3], ids[3:]]) == pytest.approx(model.perplexity(ids))


def test_models_of_sentences_do_not_predict_their_beginning():
    model = random_model(np.random.default_rng(1), 20, 3, "sentence")
    ids = np.array([1, 5, 2, 1, 6, 7, 2], np.int32)
    p = table(model)
    logs = np.log([p[1, 5], p[5, 2], p[1, 6], p[6, 7], p[7, 2]])
    np.testing.assert_allclose(model.log_probabilities(ids)[[1, 2, 4, 5, 6]], logs, rtol=1e-5)
    assert not model.log_probabilities(ids)[[0, 3]].any()
    assert model.evaluate(ids).tokens == 5
    assert model.perplexity(ids, ends=False) == pytest.approx(math.exp(-logs[[0, 2, 3]].mean()), rel=1e-5)
    assert model.next_words([], 1) == model.next_words("<s>", 1)


def test_next_words(model):
    chances = table(model)[7]
    best = [number for number in np.argsort(-chances) if number not in (0, 1)][:4]
    found = model.next_words("w7", 4)
    assert [word for word, _ in found] == [f"w{number}" for number in best]
    np.testing.assert_allclose([p for _, p in found], chances[best], rtol=1e-5)
    assert model.next_words(["w3", "w7"], 4) == found
    assert len(model.next_words("w7", 1000)) == 17  # neither <unk> nor what is impossible
    with pytest.raises(UsageError, match="k must be at least 1"):
        model.next_words("w7", 0)


def test_samples_are_as_probable_as_they_should_be(model):
    drawn = model.sample(1, random_state=3, max_words=8_000)[0]
    assert drawn == model.sample(1, random_state=3, max_words=8_000)[0]
    assert drawn[:50] == model.sample(1, random_state=np.random.default_rng(3), max_words=50)[0]
    assert drawn[:50] != model.sample(1, random_state=4, max_words=50)[0]
    assert "<unk>" not in drawn
    ids = model.vocabulary.encode(drawn)
    frequent = int(np.bincount(ids).argmax())
    after = np.bincount(ids[1:][ids[:-1] == frequent], minlength=20)
    chances = table(model)[frequent]
    chances[0] = 0.0
    wanted = after.sum() * chances / chances.sum()
    assert after.sum() > 100
    assert np.all(np.abs(after - wanted) <= 5 * np.sqrt(wanted) + 1e-9)
    assert "<unk>" in model.sample(1, max_words=2000, unknown=True)[0]


def test_samples_of_sentences_end():
    model = random_model(np.random.default_rng(1), 12, 2, "sentence")
    drawn = model.sample(30, random_state=0, max_words=9)
    assert len(drawn) == 30
    assert all(len(sentence) <= 9 and not {"<s>", "</s>"} & set(sentence) for sentence in drawn)
    assert {len(sentence) for sentence in drawn} > {1, 9}


def test_the_beginning_of_sentences_is_neither_suggested_nor_drawn():
    emitted = np.array([[0.0], [0.9], [0.0], [0.1]], np.float32)
    model = LatentBigram(words(4), np.ones((4, 1), np.float32), emitted, np.ones(1))
    assert [word for word, _ in model.next_words("w3")] == ["w3"]
    assert model.sample(1, max_words=20, unknown=True) == [["w3"] * 20]


def test_nothing_to_draw():
    emitted = np.zeros((4, 1), np.float32)
    emitted[0] = 1.0
    model = LatentBigram(words(4), np.ones((4, 1), np.float32), emitted, np.ones(1))
    with pytest.raises(UsageError, match="nothing to draw"):
        model.sample(1)


def test_nearest_words(model):
    given = model.given.astype(float)
    others = [number for number in range(3, 20) if number != 8]
    hellinger = {number: np.sqrt(given[number] * given[8]).sum() for number in others}
    cosine = {n: given[n] @ given[8] / np.linalg.norm(given[n]) / np.linalg.norm(given[8]) for n in others}
    for likeness, scores in (("hellinger", hellinger), ("cosine", cosine)):
        best = sorted(others, key=lambda number: -scores[number])[:5]
        found = model.nearest("w8", 5, likeness=likeness)
        assert [word for word, _ in found] == [f"w{number}" for number in best]
        np.testing.assert_allclose([score for _, score in found], [scores[n] for n in best], rtol=1e-5)
    with pytest.raises(UsageError, match="does not know the word 'x'"):
        model.nearest("x")
    with pytest.raises(UsageError, match="likeness is one of"):
        model.nearest("w8", likeness="alike")  # type: ignore[arg-type]


def test_topics(model):
    topics = model.topics(3)
    assert [topic.state for topic in topics] == np.argsort(-model.prior).tolist()
    first = topics[0]
    emitted = model.emitted[:, first.state].astype(float)
    emitted[0] = 0.0
    assert [word for word, _ in first.words] == [model.vocabulary.words[n] for n in np.argsort(-emitted)[:3]]
    assert first.words[0][1] == pytest.approx(emitted.max(), rel=1e-5)
    before = model.given[:, first.state] * model.vocabulary.counts
    before = before / before.sum()
    before[0] = 0.0
    assert first.contexts[0] == (model.vocabulary.words[before.argmax()], pytest.approx(before.max(), rel=1e-5))
    lift = model.emitted / np.where(model.emitted.any(axis=1), model.emitted @ model.prior, 1.0)[:, None]
    lift[(model.vocabulary.counts < 20) | (np.arange(20) == 0)] = 0.0
    for topic in model.topics(2, by="lift", min_count=20):
        column = lift[:, topic.state]
        assert topic.words[0] == (model.vocabulary.words[column.argmax()], pytest.approx(column.max(), rel=1e-5))
    with pytest.raises(UsageError, match="topics are by one of"):
        model.topics(by="chance")  # type: ignore[arg-type]


def test_files_keep_the_model_and_the_same_model_gives_the_same_file(model, tmp_path):
    path, again = tmp_path / "a.model", tmp_path / "b.model"
    model.info = {"method": "em", "iterations": 3}
    model.save(path)
    loaded = load_model(path)
    assert isinstance(loaded, LatentBigram)
    for name in ("given", "emitted", "prior"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.vocabulary == model.vocabulary
    np.testing.assert_array_equal(loaded.vocabulary.counts, model.vocabulary.counts)
    assert (loaded.info, loaded.boundaries) == (model.info, "stream")
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_files_that_are_none(model, tmp_path):
    path = tmp_path / "a.model"
    model.save(path)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        LatentBigram.load(path)
    arrays, metadata = model.parts()
    for without in ("given", "words"):
        rest = {name: array for name, array in arrays.items() if name != without}
        write_arrays(path, rest, metadata, kind="latent-bigram", version=1)
        with pytest.raises(ModelError, match=f"{path}: not a complete latent bigram model"):
            LatentBigram.load(path)
    write_arrays(path, {**arrays, "given": arrays["given"][:5]}, metadata, kind="latent-bigram", version=1)
    with pytest.raises(ModelError, match="given: has the shape"):
        LatentBigram.load(path)
    write_arrays(path, arrays, metadata, kind="corpus", version=1)
    with pytest.raises(ModelError, match="holds a treebank, not a language model"):
        load_model(path)
    with pytest.raises(ModelError, match="holds a corpus, not a latent-bigram"):
        LatentBigram.load(path)


@pytest.mark.parametrize("binary", [False, True])
def test_word_vectors_survive_their_files(model, tmp_path, binary):
    path = tmp_path / "vectors"
    model.vocabulary.counts[[1, 2]] = 0
    assert write_vectors(model, path, binary=binary) == 18
    names, vectors = read_vectors(path, binary=binary)
    kept = [0, *range(3, 20)]
    assert names == [model.vocabulary.words[number] for number in kept]
    np.testing.assert_array_equal(vectors, model.given[kept])
    write_vectors(model, path, binary=binary, likeness="cosine")
    np.testing.assert_allclose(np.linalg.norm(read_vectors(path, binary=binary)[1], axis=1), 1, rtol=1e-6)


def test_the_text_format_is_the_one_that_others_read(model, tmp_path):
    path = tmp_path / "vectors.txt"
    model.given[3] = [0.5, 0.25, 1e-9]
    write_vectors(model, path)
    lines = path.read_text().splitlines()
    assert lines[0] == "20 3"
    assert lines[4] == "w3 0.5 0.25 1e-09"


def test_word_vectors_that_cannot_be(model, tmp_path):
    path = tmp_path / "vectors"
    model.vocabulary.words[5] = "two words"
    with pytest.raises(UsageError, match="white space"):
        write_vectors(model, path)
    assert not path.exists()
    model.vocabulary.words[5] = "w5"
    write_vectors(model, path, binary=True)
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    with pytest.raises(InputError, match="cut short"):
        read_vectors(path, binary=True)
    path.write_bytes(b"a b c\n")
    with pytest.raises(InputError, match="text format of word2vec"):
        read_vectors(path)
    path.write_bytes(b"1 3\nword 0.5 x 0.5\n")
    with pytest.raises(InputError, match="text format of word2vec"):
        read_vectors(path)


def test_shapes_are_checked(model):
    with pytest.raises(ModelError, match="emitted must have the shape"):
        LatentBigram(model.vocabulary, model.given, model.emitted[:5], model.prior)
    with pytest.raises(UsageError, match="boundaries"):
        LatentBigram(model.vocabulary, model.given, model.emitted, model.prior, "lines")  # type: ignore[arg-type]


def test_ten_words_are_the_nearest():
    assert len(random_model(np.random.default_rng(0), 30, 3).nearest("w8")) == 10
