"""Vectors of an encoder in training: principal components, the choice of a layer, checkpoints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines, PullThePlug
from sapwood.errors import UsageError
from sapwood.learn import PCFG
from sapwood.learn.components._encoder_vectors import (
    DistinctSentences,
    encode_trees,
    fit_features,
    principal_components,
)
from sapwood.learn.components.span_scorer import SpanScorerTrainer, some_layers
from sapwood.runtime.context import RunContext

SMALL = SpanScorerTrainer(
    embedding=12, hidden=10, layers=1, span_hidden=12, epochs=4, batch_words=40, learning_rate=0.02, encoder_features=12
)


class KnowingEncoder:
    """An encoder whose second layer has the tags of words, and whose other layers have noise."""

    name, digest, layers, has_int8 = "knowing", "7" * 64, [1, 2, 3], False

    def __init__(self, corpus, fail_at: int = -1) -> None:
        self.calls, self._fail_at = 0, fail_at
        self._tags = {}
        leaf = corpus.word >= 0
        for word, symbol in zip(corpus.word[leaf], corpus.symbol[leaf], strict=True):
            self._tags[corpus.words[word]] = int(symbol - corpus.n_interminals)

    def all_vectors(self, words, layers, *, int8=False):
        if self.calls == self._fail_at:
            raise Interrupted
        self.calls += 1
        rng = np.random.default_rng(len(words) + sum(map(len, words)))
        found = rng.normal(size=(4, len(words), 24)).astype(np.float32)
        found[2] *= 0.01
        found[2, np.arange(len(words)), [self._tags[word] for word in words]] += 2
        return found[list(layers)]

    def vectors(self, words, layer, *, int8=False):
        return self.all_vectors(words, [layer], int8=int8)[0]


@pytest.fixture(scope="module")
def corpus():
    return PCFG.prepare(made_up_treebank(48))


def test_principal_components_are_those_of_a_decomposition():
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(200, 5)) * [5, 3, 1, 0.5, 0.1] + [1, 2, 3, 4, 5]).astype(np.float32)
    projection, shift = principal_components(vectors, 3)
    found = vectors @ projection + shift
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = np.linalg.svd(centred.astype(float), full_matrices=False)
    expected = left[:, :3] * values[:3]
    expected /= np.sqrt((expected**2).mean())
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-3)
    assert found.var(axis=0).mean() == pytest.approx(1, rel=1e-4)
    assert (projection[np.abs(projection).argmax(axis=0), np.arange(3)] > 0).all()
    # No more than there are.
    assert principal_components(vectors, 99)[0].shape == (5, 5)


def test_each_sentence_is_encoded_once(corpus):
    trees = np.arange(0, corpus.n_trees, 2)
    distinct = DistinctSentences.of(corpus.part(np.tile(np.arange(corpus.n_trees), 2)), np.arange(2 * corpus.n_trees))
    encoder = KnowingEncoder(corpus)
    [features] = fit_features(encoder, distinct.sentences, [1], 4, 0, int8=False)
    before = encoder.calls
    found = encode_trees(encoder, features, distinct, {}, RunContext())
    assert encoder.calls - before == len(distinct.sentences) <= corpus.n_trees
    for tree in (0, 5, corpus.n_trees + 5):
        words = corpus.sentence(tree % corpus.n_trees)
        rows = found.vectors[found.first[tree] : found.first[tree] + len(words)]
        np.testing.assert_array_equal(rows, features.project(encoder.vectors(words, 1)))
    assert (DistinctSentences.of(corpus, trees).first[1::2] == -1).all()


def test_the_layer_with_the_lowest_loss_on_held_out_trees_is_chosen(corpus):
    lines = Lines()
    scorer = SMALL.fit(corpus, encoder=KnowingEncoder(corpus), log=lines)
    assert scorer.encoder.layer == 2
    losses = {line["layer"]: line["loss"] for line in lines.of("encoder-layer")}
    assert losses[2] < 0.9 * min(losses[1], losses[3])
    assert replace(SMALL, encoder_layer=3).fit(corpus, encoder=KnowingEncoder(corpus)).encoder.layer == 3
    assert some_layers([1, 2, 3]) == [1, 2, 3]
    assert some_layers(list(range(1, 25))) == [4, 8, 12, 16, 20, 24]


def test_vectors_help_and_are_needed(corpus):
    """With vectors that have the tags, tags are learned sooner."""
    losses = []
    for encoder in (None, KnowingEncoder(corpus)):
        lines = Lines()
        scorer = replace(SMALL, encoder_layer=2).fit(corpus, encoder=encoder, log=lines)
        losses.append([line["tag_loss"] for line in lines.of("network")][-1])
    assert losses[1] < 0.8 * losses[0]
    words = corpus.sentence(0)
    with pytest.raises(UsageError, match="needs 12 numbers of an encoder for each word, not 0"):
        scorer.scores(words)
    vectors = scorer.encoder.project(KnowingEncoder(corpus).vectors(words, 2))
    tags = [scorer.tags[place] for place in scorer.scores(words, vectors).tags.argmax(axis=1)]
    leaf = slice(corpus.offsets[0], corpus.offsets[1])
    gold = [corpus.symbols.base[s] for s, w in zip(corpus.symbol[leaf], corpus.word[leaf], strict=True) if w >= 0]
    assert np.mean([one == other for one, other in zip(tags, gold, strict=True)]) > 0.6


@pytest.mark.parametrize("at", ["vectors", "epochs"])
def test_an_interrupted_run_ends_in_the_same_bytes(corpus, tmp_path, at, monkeypatch):
    monkeypatch.setattr("sapwood.runtime.checkpoint._PAUSE", 0.0)
    monkeypatch.setattr("sapwood.runtime.checkpoint._SHARE", 1.0)
    whole = SMALL.fit(corpus, encoder=KnowingEncoder(corpus))
    path = tmp_path / "run.checkpoint"
    n_calls = (counted := KnowingEncoder(corpus)) and SMALL.fit(corpus, encoder=counted) and counted.calls
    if at == "vectors":
        # Within the last pass over the sentences, after the choice of the layer.
        failing, progress = KnowingEncoder(corpus, fail_at=n_calls - 5), None
    else:
        failing, progress = KnowingEncoder(corpus), _FailingEpochs(2)
    with pytest.raises(Interrupted):
        SMALL.fit(corpus, encoder=failing, checkpoint=path, progress=progress)
    again = KnowingEncoder(corpus)
    resumed = SMALL.fit(corpus, encoder=again, checkpoint=path)
    assert resumed.encoder.layer == 2
    assert again.calls < 0.7 * n_calls
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.embeddings, whole.embeddings)
    other = KnowingEncoder(corpus)
    other.digest = "8" * 64
    with pytest.raises(UsageError, match="other settings"):
        SMALL.fit(corpus, encoder=other, checkpoint=path)


class _FailingEpochs(PullThePlug):
    """A progress that fails in the stage of epochs only."""

    def stage(self, name, total=None, unit="it"):
        self.counts = unit == "epochs"
        return super().stage(name, total, unit)

    def step(self, amount=1, **figures):
        if self.counts and amount:
            super().step(amount)
