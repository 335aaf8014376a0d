"""Latent bigram models, `p(w2|w1) = sum_h r(h|w1) s(w2|h)`: probabilities, nearest words and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypedDict, get_args

import numpy as np

from sapwood import kernels
from sapwood.errors import ModelError, UsageError
from sapwood.lm.base import LanguageModel, Parts, top_words
from sapwood.lm.counts.text import check_boundaries
from sapwood.lm.counts.vocabulary import BEGIN, END, UNKNOWN, VOCABULARY, Vocabulary
from sapwood.lm.registry import Boundaries
from sapwood.storage.schema import Column, Notes, Schema
from sapwood.storage.shapes import Array, Float, Float64, Shaped

Likeness = Literal["hellinger", "cosine"]
By = Literal["probability", "lift"]


@dataclass(frozen=True)
class Topic:
    """Summary of a state.

    Attributes
    ----------
    state, probability
        Its number, and the share of all words that it emits.
    words
        Its words with their `s(w|h)`, or with their lift `s(w|h) / p(w)`.
    contexts
        The words that most often lead to it, `p(w1|h)`.
    """

    state: int
    probability: float
    words: list[tuple[str, float]]
    contexts: list[tuple[str, float]]


class _Metadata(TypedDict):
    boundaries: Boundaries
    info: Notes


@dataclass(eq=False)
class LatentBigram(LanguageModel):
    """A latent bigram model.

    Attributes
    ----------
    vocabulary
        The words.
    given
        `r(h|w1)`: rows are distributions.
    emitted
        `s(w2|h)`: columns are distributions.
    prior
        `p(h)`: frequencies of the states, used without a preceding word.
    boundaries
        Whether lines of text are sentences or line ends mean nothing.
    info
        Provenance.
    """

    schema: ClassVar[Schema] = Schema(
        kind="latent-bigram",
        version=1,
        title="latent bigram model",
        remedy="train it again",
        columns=(
            *VOCABULARY,
            Column("given", "float", "words states", least=0, sums=1),
            Column("emitted", "float", "words states", least=0, sums=0),
            Column("prior", "float64", "states", least=0, sums=0),
        ),
        metadata=_Metadata,
    )
    vocabulary: Vocabulary
    given: Float[Array, "words states"] = field(repr=False)
    emitted: Float[Array, "words states"] = field(repr=False)
    prior: Float64[Array, "states"] = field(repr=False)
    boundaries: Boundaries = "stream"
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_boundaries(self.boundaries)
        shape = (len(self.vocabulary), len(self.prior))
        for name in ("given", "emitted"):
            if getattr(self, name).shape != shape:
                raise ModelError(f"{name} must have the shape {shape}, not {getattr(self, name).shape}")
        dtype = np.float32 if self.given.dtype == self.emitted.dtype == np.float32 else np.float64
        self.given, self.emitted = (np.ascontiguousarray(x, dtype) for x in (self.given, self.emitted))

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.prior)

    # Probabilities.

    @property
    def reach(self) -> int:
        """Maximum number of preceding words that affect a prediction: one."""
        return 1

    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        """Return `log p(word | previous word)`; without a previous word it uses the states' `prior`."""
        result = np.empty(len(text) - first)
        if len(result) and not first:
            result[0] = self.emitted[text[0]] @ self.prior
        begin = max(first, 1)
        if begin < len(text):
            contexts, targets = text[begin - 1 : -1], text[begin:]
            kernels.pair_products(contexts, targets, self.given, self.emitted, result[begin - first :])
        return np.log(result, out=result)

    def _distribution(self, context: np.ndarray) -> np.ndarray:
        states = self.given[context[-1]] if len(context) else self.prior.astype(self.given.dtype)
        return np.asarray(self.emitted @ states, np.float64)

    # States.

    def nearest(self, word: str, k: int = 10, *, likeness: Likeness = "hellinger") -> list[tuple[str, float]]:
        """Return the `k` words whose states `r(.|w)` are most similar to a word's, with the similarity (1: the same).

        `hellinger` is the Bhattacharyya coefficient `sum_h sqrt(r(h|w) r(h|w'))`, `cosine` the cosine of the angle.
        """
        vectors = self.vectors(likeness=likeness)
        scores = (vectors @ vectors[self._id(word)]).astype(np.float64)
        scores[[UNKNOWN, BEGIN, END, self._id(word)]] = -1.0
        return top_words(scores, self.vocabulary, k)

    def vectors(self, *, likeness: Likeness | None = None) -> Float[Array, "words states"]:
        """Return the rows of `r`; with a likeness, transformed so that it is their inner product."""
        if likeness is None:
            return self.given
        if likeness not in get_args(Likeness):
            raise UsageError(f"likeness is one of {', '.join(get_args(Likeness))}, not {likeness!r}")
        if likeness == "hellinger":
            return np.sqrt(self.given)
        return np.asarray(self.given / np.linalg.norm(self.given, axis=1, keepdims=True))

    def topics(self, k: int = 10, *, by: By = "probability", min_count: int = 10) -> list[Topic]:
        """Return the states by falling probability, with the top `k` words of each.

        Parameters
        ----------
        k
            Number of words.
        by
            `probability`: `s(w|h)`; `lift`: `s(w|h) / p(w)`, which favours words specific to a state.
        min_count
            With lift: skip words seen less often.
        """
        if by not in get_args(By):
            raise UsageError(f"topics are by one of {', '.join(get_args(By))}, not {by!r}")
        scores = self.emitted.astype(np.float64)
        if by == "lift":
            share = scores @ self.prior
            scores /= np.where(share > 0, share, 1.0)[:, None]
            if self.vocabulary.counts.any():
                scores[self.vocabulary.counts < min_count] = 0.0
        scores[[UNKNOWN, BEGIN]] = 0.0
        before = self.given * self.vocabulary.counts[:, None].astype(np.float64)
        if self.boundaries == "sentence":
            before[END] = 0.0  # nothing follows it
        before /= np.maximum(before.sum(axis=0), 1e-300)
        before[UNKNOWN] = 0.0
        order = np.argsort(-self.prior, kind="stable")
        return [
            Topic(
                int(h),
                float(self.prior[h]),
                top_words(scores[:, h], self.vocabulary, k),
                top_words(before[:, h], self.vocabulary, k),
            )
            for h in order
        ]

    # Files.

    def parts(self) -> Parts:
        """Return the arrays and JSON values from which `from_parts` restores the model."""
        own = {"given": self.given, "emitted": self.emitted, "prior": self.prior}
        return {**self.vocabulary.arrays(), **own}, {"boundaries": self.boundaries, "info": dict(self.info)}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a model from `parts`."""
        own = {name: arrays[name] for name in ("given", "emitted", "prior")}
        words = Vocabulary.from_arrays(arrays)
        return cls(words, **own, boundaries=metadata["boundaries"], info=metadata["info"])

    def _figures(self) -> dict[str, Any]:
        return {"states": self.states}

    def _id(self, word: str) -> int:
        if word not in self.vocabulary:
            raise UsageError(f"the model does not know the word {word!r}")
        return self.vocabulary.index[word]
