"""Span scorers as parsers use them: with the pretrained encoder that they need, if any."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Protocol

from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import VARIABLE, encoder_of_model
from sapwood.errors import UsageError
from sapwood.model.span_scorer import EncoderFeatures, SpanScorer, SpanScores
from sapwood.storage.shapes import Array, Int32

# An encoder, its folder, or the name of a package.
EncoderSource = str | os.PathLike[str] | Encoder


class AnySpanScorer(Protocol):
    """What scores the spans and tags of a sentence.

    Attributes
    ----------
    prune_below
        Spans with a smaller marginal over all binary trees are pruned.
    """

    @property
    def prune_below(self) -> float:
        """Threshold of pruning."""
        ...

    def scores(self, words: Sequence[str]) -> SpanScores:
        """Return the scores of a sentence."""
        ...

    def scores_size(self, n_words: int) -> int:
        """Return the size in bytes of the scores of a sentence."""
        ...

    def columns(self, symbols: Sequence[str], n_interminals: int) -> Int32[Array, "symbols"]:
        """Return the column of each grammar symbol in the scores, -1 if the span scorer does not know it."""
        ...


class EncodedSpanScorer:
    """Span scorer together with the encoder whose vectors it uses.

    Parameters
    ----------
    scorer, features, encoder
        The span scorer, its encoder features, and the encoder.
    """

    def __init__(self, scorer: SpanScorer, features: EncoderFeatures, encoder: Encoder) -> None:
        self._scorer, self._features, self._encoder = scorer, features, encoder
        self.scores_size, self.columns = scorer.scores_size, scorer.columns
        self.prune_below = scorer.prune_below

    def scores(self, words: Sequence[str]) -> SpanScores:
        """Return the scores of a sentence."""
        features = self._features
        vectors = self._encoder.vectors(words, features.layer, int8=features.int8)
        return self._scorer.scores(words, features.project(vectors))


class MissingEncoderWarning(UserWarning):
    """The encoder of a model is missing: the grammar and the CRF parse without the span scorer."""


def open_span_scorer(scorer: SpanScorer | None, encoder: EncoderSource | None = None) -> AnySpanScorer | None:
    """Return the span scorer of a model, ready to score.

    Parameters
    ----------
    scorer
        The span scorer.
    encoder
        The encoder to use, for models that need one. By default it is looked for (`sapwood.encoders.lookup`); if there
        is none, there is a `MissingEncoderWarning`, and no span scorer. With another digest, a `UsageError` is raised.
    """
    features = None if scorer is None else scorer.encoder
    if scorer is None or features is None:
        if encoder is not None:
            raise UsageError("the model uses no encoder")
        return scorer
    known = features.source if encoder is None else encoder
    found = encoder_of_model(features.name, features.digest, known)
    if found is None:
        warnings.warn(
            f"the encoder {features.name} (digest {features.digest[:12]}) is missing, so the model parses without its "
            f"span scorer, less accurately; name its folder with encoder (--encoder) or in ${VARIABLE}, or install its "
            "package",
            MissingEncoderWarning,
            stacklevel=4,
        )
        return None
    return EncodedSpanScorer(scorer, features, found)
