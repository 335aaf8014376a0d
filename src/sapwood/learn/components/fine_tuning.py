"""Fine-tuning of a model's components on further trees: training that continues from their weights.

A forest CRF keeps its features and the sums that its weights are made of: AdaGrad goes on as if the further trees had
come last, so that weights with little evidence against them stay. A span scorer gets embeddings of new word features,
which begin as those of an unknown word, and new labels, which begin as its rarest ones; it is trained with a small
learning rate. The result of both is an interpolation of the old and the new weights (Wortsman et al. 2022), which keeps
more of the accuracy in the old domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sapwood.encoders.encoder import Encoder
from sapwood.learn.components._encoder_vectors import DistinctSentences, encode_trees
from sapwood.learn.components._span_scorer_backprop import Backprop
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import Optimisation, SpanScorerTrainer, TrainingSentences
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.span_scorer import PAD, EncoderFeatures, SpanScorer
from sapwood.runtime.context import RunContext
from sapwood.runtime.params import execution, integer, number
from sapwood.storage.arrays import content_digest

_PARTS = {"labels": "labels", "labels.bias": "labels", "tags": "tags", "tags.bias": "tags"}


@dataclass(frozen=True, kw_only=True, repr=False)
class ForestCRFFineTuning(ForestCRFTrainer):
    """Settings of the fine-tuning of a CRF.

    Parameters
    ----------
    start
        The CRF to begin with. Its features and its threshold are kept.
    steps
        Number of steps that its weights count as.
    share
        Share of the new weights in the interpolation with the old ones.
    dense_learning_rate
        0: the weights of the grammar's posteriors are kept.
    """

    start: ForestCRF = execution(None, "The CRF to begin with.", ForestCRF)
    steps: int = integer(0, "Number of steps that its weights count as.")
    share: float = number(0.75, "Share of the new weights in the interpolation with the old ones.")
    dense_learning_rate: float = number(0.0, "Learning rate of the weights of the grammar's posteriors.")

    def settings(self) -> dict[str, Any]:
        """Return everything besides trees and grammars that determines the result, as JSON values."""
        begin = content_digest(self.start.to_arrays(), dict(self.start.metadata()))
        return {**super().settings(), "start": begin}

    def fit_forests(self, *arguments: Any, **options: Any) -> ForestCRF:
        """Continue the training on forests; parameters are those of `ForestCRFTrainer.fit_forests`."""
        found, begin = super().fit_forests(*arguments, **options), self.start
        weights = begin.weights() + np.float32(self.share) * (found.weights() - begin.weights())
        places = np.flatnonzero(weights).astype(np.uint32)
        dense = begin.dense + self.share * (found.dense - begin.dense)
        return replace(found, places=places, values=weights[places], dense=dense)

    def _start(self, frequent: Any, classes: Any) -> ForestCRF:
        return self.start

    @property
    def _steps(self) -> int:
        return self.steps


@dataclass(frozen=True, kw_only=True, repr=False)
class SpanScorerFineTuning(SpanScorerTrainer):
    """Settings of the fine-tuning of a span scorer.

    Parameters
    ----------
    start
        The span scorer to begin with.
    share
        Share of the new weights in the interpolation with the old ones.
    """

    start: SpanScorer = execution(None, "The span scorer to begin with.", SpanScorer)
    share: float = number(0.75, "Share of the new weights in the interpolation with the old ones.")
    epochs: int = integer(10, "Epochs over the trees.", low=1)
    batch_words: int = integer(200, "Approximate number of words per batch.", low=1)
    learning_rate: float = number(1e-3, "Peak learning rate.", above=0)

    @classmethod
    def of(cls, start: SpanScorer, **settings: Any) -> SpanScorerFineTuning:
        """Return the fine-tuning of a span scorer, with its dimensions."""
        dims = start.dims
        return cls(
            start=start, embedding=dims.embedding, hidden=dims.hidden, layers=dims.layers,
            span_hidden=dims.span_hidden, prune_below=start.prune_below, **settings,
        )  # fmt: skip

    def settings(self, *, encoder: bool = False) -> dict[str, Any]:
        """Return everything besides the trees that determines the result."""
        begin = content_digest(self.start.to_arrays(), dict(self.start.metadata()))
        return {**super().settings(encoder=encoder), "start": begin}

    def fit(self, *arguments: Any, **options: Any) -> SpanScorer:
        """Continue the training of the span scorer; parameters are those of `SpanScorerTrainer.fit`."""
        options["classes"] = self.start.classes
        found = super().fit(*arguments, **options)
        begin = self._extended(found.labels, found.tags, found.word_features)
        share = np.float32(self.share)
        return replace(
            found,
            weights=begin.weights + share * (found.weights - begin.weights),
            embeddings=begin.embeddings + share * (found.embeddings - begin.embeddings),
        )

    def _sentences(self, corpus: Any, classes: Any) -> TrainingSentences:
        return TrainingSentences(corpus, self.max_features, classes, self.start)

    def _encode(
        self,
        encoder: Encoder,
        sentences: TrainingSentences,
        key: dict[str, Any],
        random_state: int,
        context: RunContext,
    ) -> EncoderFeatures:
        """Give the sentences the vectors of the encoder that the span scorer was trained with."""
        del random_state
        features = self.start.encoder
        assert features is not None
        path = None if context.checkpoint is None else f"{context.checkpoint}.vectors"
        distinct = DistinctSentences.of(sentences.corpus, sentences.trees)
        sentences.vectors = encode_trees(encoder, features, distinct, key, context, path)
        return features

    def _start(self, sentences: TrainingSentences, random_state: int) -> Optimisation:
        """Return a run with the weights of the old span scorer."""
        return Optimisation(self, self._extended(sentences.labels, sentences.tags, sentences.word_features), sentences)

    def _extended(self, labels: tuple[str, ...], tags: tuple[str, ...], word_features: tuple[str, ...]) -> Backprop:
        """Return the old weights with these labels, tags and word features."""
        start, old = self.start, self.start.dims
        dims = old._replace(labels=len(labels), tags=len(tags))
        weights = np.zeros(dims.n_weights, np.float32)
        before, after = old.views(start.weights), dims.views(weights)
        number = {"labels": labels, "tags": tags}
        for name, values in before.items():
            if name not in _PARTS:
                after[name][...] = values
                continue
            names, known = number[_PARTS[name]], getattr(start, _PARTS[name])
            columns = [names.index(one) for one in known]
            if name.endswith("bias"):
                after[name][...] = values.min(initial=0.0)
            after[name][..., columns] = values
        new = len(word_features) - len(start.word_features)
        embeddings = np.concatenate([start.embeddings, np.repeat(start.embeddings[PAD : PAD + 1], new, axis=0)])
        return Backprop(dims, weights, embeddings)
