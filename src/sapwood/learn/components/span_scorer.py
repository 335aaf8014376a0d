"""Span scorer: trains a neural scorer of spans (`sapwood.model.span_scorer`) from trees alone, on one core in minutes.

The loss is the negative log-probability of the gold tree among all binary trees over the sentence, scored by sums over
spans (a conditional random field), plus that of the gold tags (`_span_scorer_backprop`). Batches have sentences of one
length; dropout masks are shared over a sentence (Gal and Ghahramani 2016); rare words are sometimes replaced by the
unknown word; the optimiser is Adam (Kingma and Ba 2015), and the result is an exponential moving average of the
weights.

With a pretrained encoder, the vectors of words are part of the input (`_encoder_vectors`); the encoder itself is not
trained.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from sapwood import kernels
from sapwood.encoders.encoder import Encoder
from sapwood.errors import InputError, ModelError
from sapwood.learn.components._encoder_vectors import (
    DistinctSentences,
    WordVectors,
    encode_trees,
    fit_features,
    stored_layer,
)
from sapwood.learn.components._span_scorer_backprop import Backprop, Batch
from sapwood.model.span_scorer import BOS, EOS, LARGEST, PAD, Dims, EncoderFeatures, SpanScorer, frequent_features
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.runtime.context import RunContext, RunOptions
from sapwood.runtime.params import HasParams, integer, number, opaque
from sapwood.storage.arrays import Arrays
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon.word_classes import WordClasses

# Longer sentences are skipped: the spans of one would take longer than all those of many others.
_LONGEST = 100
# Choice of an encoder's layer: number of trees, of epochs, and of layers to choose from.
_LAYER_TREES, _LAYER_EPOCHS, _MOST_LAYERS = 1000, 4, 6
# Warm-up steps, final fraction of the learning rate, gradient clipping norm, steps between two updates of the moving
# average of weights, and its decay per step.
_WARMUP, _LEAST_RATE, _CLIP_NORM, _PAUSE, _EMA_DECAY = 100, 0.02, 10.0, 4, 0.995
_BETA, _GAMMA = 0.9, 0.98
_STATE = ("weights", "table", "weights.mean", "weights.square", "table.mean", "table.square", "kept", "kept.table")


CHECKPOINT = checkpoint_schema(
    "network-checkpoint",
    *(Column(name, "float32", "vectors input" if "table" in name else "weights") for name in _STATE),
    metadata={"step": int, "moves": int},
)


@dataclass(frozen=True, kw_only=True, repr=False)
class SpanScorerTrainer(HasParams):
    """Settings of the training of a span scorer.

    Parameters
    ----------
    embedding, hidden, layers, span_hidden
        Dimensions (`sapwood.model.span_scorer.Dims`).
    epochs
        Epochs over the trees.
    batch_words
        Approximate number of words per batch.
    learning_rate
        Peak learning rate; it decays to almost 0.
    embed_dropout, dropout
        Dropout of word embeddings and of layers.
    unk_alpha
        A word with count c is replaced by the unknown word with probability `unk_alpha / (unk_alpha + c)`.
    max_features
        Maximum number of embeddings of word features.
    weight
        Weight of its scores relative to the log posteriors of the grammar.
    prune_below
        Spans with a lower posterior among all binary trees are pruned; 0: none are.
    encoder_layer
        Layer of a pretrained encoder; None: chosen on held-out trees.
    encoder_features
        Number of principal components of its vectors.
    encoder_int8
        Run the encoder in integers of eight bits, more than twice as fast; None: if it is read from safetensors.
    """

    embedding: int = integer(128, "Dimension of word embeddings.", low=1, high=LARGEST)
    hidden: int = integer(128, "Hidden units of each direction of a layer.", low=1, high=LARGEST)
    layers: int = integer(3, "Number of recurrent layers.", low=1, high=LARGEST)
    span_hidden: int = integer(128, "Hidden units of the scorer of spans.", low=1, high=LARGEST)
    epochs: int = integer(12, "Epochs over the trees.", low=1)
    batch_words: int = integer(500, "Approximate number of words per batch.", low=1)
    learning_rate: float = number(3e-3, "Peak learning rate.", above=0)
    embed_dropout: float = number(0.2, "Dropout of word embeddings.", below=1)
    dropout: float = number(0.25, "Dropout of layers.", below=1)
    unk_alpha: float = number(0.8, "A word with count c is unknown with probability alpha / (alpha + c).")
    max_features: int = integer(40_000, "Maximum number of embeddings of word features.", low=1)
    weight: float = number(0.2, "Weight of scores relative to the log posteriors of the grammar.")
    prune_below: float = number(1e-5, "Prune spans with a smaller posterior; 0 disables pruning.", below=1)
    encoder_layer: int | None = integer(
        None, "Layer of the encoder, instead of one chosen on held-out trees.", low=1, optional=True
    )
    encoder_features: int = integer(256, "Number of principal components of its vectors.", low=1, high=LARGEST)
    encoder_int8: bool | None = opaque(None, "Run the encoder in integers of eight bits.", bool)

    def settings(self, *, encoder: bool = False) -> dict[str, Any]:
        """Return everything besides the trees that determines the result; without an encoder, nothing about one."""
        given = super().settings()
        return given if encoder else {name: value for name, value in given.items() if not name.startswith("encoder_")}

    def sizes(self, labels: int, tags: int, encoder: int = 0) -> Dims:
        """Return the dimensions for these numbers of span labels, tags and numbers of an encoder."""
        return Dims(self.embedding, self.hidden, self.layers, self.span_hidden, labels, tags, encoder)

    @with_one_blas_thread
    def fit(
        self,
        corpus: Corpus,
        *,
        classes: WordClasses | None = None,
        encoder: Encoder | None = None,
        random_state: int = 0,
        **options: Unpack[RunOptions],
    ) -> SpanScorer:
        """Train a span scorer on trees.

        Parameters
        ----------
        corpus
            The trees.
        classes
            Word classes from unlabelled text, used as features next to spelling.
        encoder
            Pretrained encoder whose vectors are used as well.
        random_state
            Seed of every random choice.
        options
            `checkpoint`: file with the state after each epoch, from which a run resumes if it is its own; `progress`
            and `log`: receive progress reports and log lines. One thread of this process does all the work.
        """
        context = RunContext.of(**options)
        sentences = self._sentences(corpus, classes)
        key = {
            **self.settings(encoder=encoder is not None),
            "method": "network",
            "corpus": corpus.digest(),
            "seed": random_state,
        }
        key["classes"] = None if classes is None else classes.digest()
        features = None
        if encoder is not None:
            key["encoder"] = encoder.digest
            features = self._encode(encoder, sentences, key, random_state, context)
        run = self._start(sentences, random_state)
        kept = Checkpoint(
            context.checkpoint,
            key,
            CHECKPOINT,
            data="trees",
            to_arrays=Optimisation.to_arrays,
            from_arrays=run.restored,
        )
        run = kept.load() or run
        with context.progress.stage("span scorer", total=self.epochs, unit="epochs") as stage:
            stage.step(run.epoch)
            while run.epoch < self.epochs:
                with np.errstate(over="ignore", invalid="ignore"):  # divergence raises InputError
                    loss, tag_loss = run.pass_over(np.random.default_rng([random_state, run.epoch + 1]))
                context.log.write("network", step=run.epoch, epoch=run.epoch, loss=loss, tag_loss=tag_loss)
                kept.save(run)
                stage.step()
        state = run.state  # the moving averages are the result
        return SpanScorer(
            run.dims,
            sentences.word_features,
            sentences.labels,
            sentences.tags,
            state["kept.table"],
            state["kept"],
            self.prune_below,
            classes,
            features,
        )

    def _sentences(self, corpus: Corpus, classes: WordClasses | None) -> TrainingSentences:
        """Return the trees as input of the span scorer."""
        return TrainingSentences(corpus, self.max_features, classes)

    def _start(self, sentences: TrainingSentences, random_state: int) -> Optimisation:
        """Return a run with initial weights."""
        size = self.sizes(len(sentences.labels), len(sentences.tags), sentences.n_encoder)
        vectors = len(sentences.word_features) + EOS + 1
        return Optimisation(self, Backprop.random(size, vectors, np.random.default_rng([random_state, 0])), sentences)

    def _encode(
        self,
        encoder: Encoder,
        sentences: TrainingSentences,
        key: dict[str, Any],
        random_state: int,
        context: RunContext,
    ) -> EncoderFeatures:
        """Give the sentences the vectors of an encoder, of the chosen layer; return how they are made."""
        path = None if context.checkpoint is None else f"{context.checkpoint}.vectors"
        distinct = DistinctSentences.of(sentences.corpus, sentences.trees)
        layer = stored_layer(path) or self.encoder_layer
        if layer is None:
            layer = self._choose_layer(encoder, sentences, random_state, context)
        [features] = fit_features(
            encoder, distinct.sentences, [layer], self.encoder_features, random_state, int8=self._int8(encoder)
        )
        sentences.vectors = encode_trees(encoder, features, distinct, key, context, path)
        return features

    def _int8(self, encoder: Encoder) -> bool:
        return encoder.has_int8 if self.encoder_int8 is None else self.encoder_int8

    def _choose_layer(
        self, encoder: Encoder, sentences: TrainingSentences, random_state: int, context: RunContext
    ) -> int:
        """Return the layer with the lowest loss on held-out trees after a few epochs."""
        layers = some_layers(encoder.layers)
        if len(layers) == 1:
            return layers[0]
        chosen = np.random.default_rng([random_state, 8]).permutation(sentences.trees)[:_LAYER_TREES]
        distinct = DistinctSentences.of(sentences.corpus, np.sort(chosen))
        short = replace(self, epochs=min(self.epochs, _LAYER_EPOCHS))
        features = fit_features(
            encoder, distinct.sentences, layers, self.encoder_features, random_state, int8=self._int8(encoder)
        )
        losses = {}
        with context.progress.stage("layer of the encoder", total=len(layers), unit="layers") as stage:
            for layer, one in zip(layers, features, strict=True):
                vectors = encode_trees(encoder, one, distinct, {}, RunContext())
                taught, held_out = (sentences.of(part, vectors) for part in np.split(chosen, [len(chosen) * 3 // 4]))
                run = short._start(taught, random_state)
                for epoch in range(short.epochs):
                    run.pass_over(np.random.default_rng([random_state, epoch + 1]))
                losses[layer] = run.held_out_loss(held_out)
                context.log.write("encoder-layer", step=0, layer=layer, loss=losses[layer])
                stage.step(layer=layer, loss=losses[layer])
        best = min(losses, key=lambda layer: (losses[layer], layer))
        context.progress.note(f"layer {best} of {encoder.name}, chosen on {len(chosen) - len(chosen) * 3 // 4} trees")
        return best


def some_layers(layers: Sequence[int]) -> list[int]:
    """Return the layers to choose from, evenly spaced if there are many.

    >>> some_layers(range(1, 13))
    [2, 4, 6, 8, 10, 12]
    """
    if len(layers) <= _MOST_LAYERS:
        return list(layers)
    return [layers[len(layers) * (place + 1) // _MOST_LAYERS - 1] for place in range(_MOST_LAYERS)]


class TrainingSentences:
    """A corpus as input of the span scorer.

    Parameters
    ----------
    corpus
        The trees.
    max_features
        Maximum number of word features.
    classes
        Word classes.
    known
        A span scorer whose word features, labels and tags there are in any case.
    """

    def __init__(
        self, corpus: Corpus, max_features: int, classes: WordClasses | None, known: SpanScorer | None = None
    ) -> None:
        lengths = np.bincount(
            np.repeat(np.arange(corpus.n_trees), np.diff(corpus.offsets)), weights=corpus.word >= 0
        ).astype(np.int64)
        self.trees = np.flatnonzero(lengths <= _LONGEST)
        if not len(self.trees):
            raise InputError(f"no sentence has {_LONGEST} words or fewer: a span scorer has nothing to learn from")
        self.corpus, self.lengths = corpus, lengths
        self.vectors: WordVectors | None = None
        counts = np.bincount(corpus.word[corpus.word >= 0], minlength=len(corpus.words))
        counter = Counter(dict(zip(corpus.words, counts.tolist(), strict=True)))
        found = frequent_features(counter, max_features, classes)
        self.word_features = tuple(found if known is None else dict.fromkeys([*known.word_features, *found]))
        self.counts = counts.astype(np.float64)
        base = list(corpus.symbols.base)
        first = corpus.n_interminals
        old_labels, old_tags = ((), ()) if known is None else (known.labels, known.tags)
        self.labels, self.tags = tuple(sorted({*base[:first], *old_labels})), tuple(sorted({*base[first:], *old_tags}))
        numbers = [{name: number for number, name in enumerate(names)} for names in (self.labels, self.tags)]
        self._number = np.array([numbers[s >= first][name] for s, name in enumerate(base)], np.int32)
        reader = SpanScorer(
            Dims(1, 1, 1, 1, 1, 1),
            self.word_features,
            (),
            (),
            np.zeros((0, 1), np.float32),
            np.zeros(0, np.float32),
            0.0,
            classes,
        )
        self._rows = reader.encode(corpus.words)[1:-1]

    def of(self, trees: Int64[Array, "chosen"], vectors: WordVectors) -> TrainingSentences:
        """Return some of the trees, with vectors."""
        other = copy.copy(self)
        other.trees, other.vectors = np.sort(trees), vectors
        return other

    @property
    def n_encoder(self) -> int:
        """Size of the vectors of the encoder."""
        return 0 if self.vectors is None else len(self.vectors.features.shift)

    def batches(self, words: int, rng: np.random.Generator) -> list[Int64[Array, "batch"]]:
        """Return batches of trees of one length with about `words` words each, in random order."""
        order = rng.permutation(self.trees)
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches: list[np.ndarray] = []
        for same in np.split(order, np.flatnonzero(np.diff(self.lengths[order])) + 1):
            most = max(1, words // int(self.lengths[same[0]]))
            batches += [same[first : first + most] for first in range(0, len(same), most)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def batch(self, trees: Int64[Array, "batch"], unseen: float, rng: np.random.Generator) -> Batch:
        """Return a batch of trees of one length, with some words replaced by the unknown word."""
        corpus, n = self.corpus, int(self.lengths[trees[0]])
        features = np.full((n + 2, len(trees), self._rows.shape[1]), PAD, np.int32)
        features[0, :, 0], features[-1, :, 0] = BOS, EOS
        labels, tags = np.full((len(trees), n * (n - 1) // 2), -1, np.int32), np.empty((n, len(trees)), np.int32)
        words = np.empty((n, len(trees)), np.int64)
        for place, tree in enumerate(trees):
            nodes = slice(corpus.offsets[tree], corpus.offsets[tree + 1])
            word, start, end = corpus.word[nodes], corpus.start[nodes].astype(np.int64), corpus.end[nodes]
            number, leaf = self._number[corpus.symbol[nodes]], word >= 0
            words[:, place], tags[:, place] = word[leaf], number[leaf]
            start, end = start[~leaf], end[~leaf]
            labels[place, start * (n - 1) - start * (start - 1) // 2 + end - start - 2] = number[~leaf]
        features[1:-1] = self._rows[words]
        features[1:-1, :, 0][rng.random(words.shape) < unseen / (unseen + self.counts[words])] = PAD
        vectors = None
        if self.vectors is not None:
            rows = self.vectors.first[trees] + np.arange(n)[:, None]
            vectors = self.vectors.vectors[rows.ravel()]
        return Batch(features, labels.ravel(), tags.ravel(), vectors)


class Optimisation:
    """Training run: state of the optimiser, and its steps."""

    def __init__(self, learner: SpanScorerTrainer, backprop: Backprop, sentences: TrainingSentences) -> None:
        self._learner, self._backprop, self._sentences = learner, backprop, sentences
        self.epoch = self.steps = 0
        zeros = [
            np.zeros_like(values)
            for values in (backprop.weights, backprop.weights, backprop.embeddings, backprop.embeddings)
        ]
        ema = [backprop.weights.copy(), backprop.embeddings.copy()]
        self.state = dict(zip(_STATE, [backprop.weights, backprop.embeddings, *zeros, *ema], strict=True))
        self.dims = dims = backprop.dims
        self._parts = [(dims.embedding, learner.embed_dropout)] + [(2 * dims.hidden, learner.dropout)] * dims.layers

    def to_arrays(self) -> Content:
        """Return the content of a checkpoint."""
        return self.state, {"step": self.epoch, "moves": self.steps}

    def restored(self, arrays: Arrays, metadata: dict[str, Any]) -> Optimisation:
        """Continue from the content of a checkpoint."""
        for name, values in self.state.items():
            if arrays[name].shape != values.shape:
                raise ModelError(f"{name}: does not fit the trees")
            values[...] = arrays[name]
        self.epoch, self.steps = metadata["step"], metadata["moves"]
        return self

    def pass_over(self, rng: np.random.Generator) -> tuple[float, float]:
        """Run one epoch; returns the mean losses of trees and of tags."""
        learner, sentences = self._learner, self._sentences
        batches = sentences.batches(learner.batch_words, rng)
        losses = np.zeros(2)
        for done, trees in enumerate(batches):
            batch = sentences.batch(trees, learner.unk_alpha, rng)
            masks = [
                ((rng.random((len(trees), size)) >= part) / (1 - part)).astype(np.float32) for size, part in self._parts
            ]
            losses += self._backprop.loss(batch, masks)
            share = (self.epoch + done / len(batches)) / learner.epochs
            self._adam_step(learner.learning_rate * max(_LEAST_RATE, 1 - share), 1 / (4 * math.sqrt(len(trees))))
        self.epoch += 1
        mean = losses / len(sentences.trees)
        return float(mean[0]), float(mean[1])

    def held_out_loss(self, sentences: TrainingSentences) -> float:
        """Return the mean loss of the averaged weights on other trees, by word."""
        learner, backprop = self._learner, self._backprop
        kept = Backprop(backprop.dims, self.state["kept"].copy(), self.state["kept.table"].copy())
        rng, total = np.random.default_rng(0), 0.0
        for trees in sentences.batches(learner.batch_words, rng):
            masks = [np.ones((len(trees), size), np.float32) for size, _ in self._parts]
            losses = kept.loss(sentences.batch(trees, 0.0, rng), masks)
            total += losses[0] + losses[1]
        return total / int(sentences.lengths[sentences.trees].sum())

    def _adam_step(self, rate: float, factor: float) -> None:
        """Take an Adam step."""
        backprop, state = self._backprop, self.state
        self.steps += 1
        rate *= min(1, self.steps / _WARMUP)
        squares = [float(np.vdot(part, part)) for part in (backprop.gradient, backprop.embeddings_gradient)]
        length = factor * math.sqrt(sum(squares))
        if not math.isfinite(length):
            raise InputError("the training of the span scorer diverges; give a smaller learning_rate")
        factor *= min(1.0, _CLIP_NORM / max(length, 1e-30))
        first, second = 1 / (1 - _BETA**self.steps), 1 / (1 - _GAMMA**self.steps)
        for name, gradient in (("weights", backprop.gradient), ("table", backprop.embeddings_gradient)):
            mean, square = state[f"{name}.mean"], state[f"{name}.square"]
            kernels.adam_step(
                state[name].reshape(-1), gradient.reshape(-1), mean.reshape(-1), square.reshape(-1),
                factor, rate, first, second,
            )  # fmt: skip
        if self.steps % _PAUSE == 0:
            part = np.float32(1 - min(_EMA_DECAY, (1 + self.steps) / (10 + self.steps)) ** _PAUSE)
            for name, values in (("kept", backprop.weights), ("kept.table", backprop.embeddings)):
                state[name] += part * (values - state[name])
