"""Language models: base class with evaluation, next words, sampling, saving and loading.

A model implements the log-probabilities of a text, the distribution of the next word, and its arrays; everything here
follows from these.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.lm.counts.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from sapwood.lm.latent.bigram_data import Ids, check_ids
from sapwood.lm.registry import Boundaries
from sapwood.storage.schema import Schema
from sapwood.storage.shapes import Array, Float, Float64, Int, Shaped

# Contents of a model: arrays, and JSON values.
Parts: TypeAlias = tuple[dict[str, Shaped[Array, "..."]], dict[str, Any]]


@dataclass(frozen=True)
class Evaluation:
    """The log-probability (natural) of the scored words, their number, and the number of unknown words."""

    log_probability: float
    tokens: int
    unknown: int

    @property
    def perplexity(self) -> float:
        """The inverse of the geometric mean of the probabilities; `nan` without tokens."""
        if self.tokens == 0:
            return math.nan
        mean = -self.log_probability / self.tokens
        return math.exp(mean) if mean < 700 else math.inf

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.log_probability + other.log_probability, self.tokens + other.tokens, self.unknown + other.unknown
        )


def evaluate(
    model: LanguageModel, text: Ids, *, ends: bool = True, context: Int[Array, "before"] | None = None
) -> Evaluation:
    """Evaluate a model on a text given as ids, in one piece or several (as `encode_text` yields them).

    Parameters
    ----------
    model
        Any language model.
    text
        The ids. Unknown words and `<s>` are not predicted, but serve as context.
    ends
        Whether `</s>` is predicted. (In a stream it is a word like any other.)
    context
        Ids that precede the text.
    """
    total = Evaluation(0.0, 0, 0)
    sentences = model.boundaries == "sentence"
    before = np.zeros(0, np.int32) if context is None else np.asarray(context, np.int32)
    for ids in [text] if isinstance(text, np.ndarray) else text:
        values = model.log_probabilities(ids, context=before)
        counted = ids != UNKNOWN
        unknown = len(ids) - int(counted.sum())
        if sentences:
            counted &= ids != BEGIN
            if not ends:
                counted &= ids != END
        total += Evaluation(float(values[counted].sum()), int(counted.sum()), unknown)
        before = np.concatenate([before, ids])[-16:]
    return total


class LanguageModel(ABC):
    """A language model.

    Attributes
    ----------
    schema
        Schema of its files.
    kind, title
        Name of the kind in files and in messages.
    vocabulary
        The words.
    boundaries
        Whether lines of text are sentences or line ends mean nothing.
    info
        Provenance, as JSON values.
    """

    schema: ClassVar[Schema]
    kind: ClassVar[str]
    title: ClassVar[str]
    vocabulary: Vocabulary
    boundaries: Boundaries
    info: Mapping[str, Any] = MappingProxyType({})
    # Ids that are never suggested or drawn, whatever their probability; and the message if no other id is left.
    _never_said: ClassVar[tuple[int, ...]] = (BEGIN,)
    _nothing_to_draw: ClassVar[str] = "the model gives no probability to any word but <unk>: there is nothing to draw"

    def __init_subclass__(cls) -> None:
        cls.kind, cls.title = cls.schema.kind, cls.schema.title

    # Probabilities.

    @property
    @abstractmethod
    def reach(self) -> int:
        """Maximum number of preceding words that affect a prediction."""

    @abstractmethod
    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        """Return the log-probabilities of `text[first:]`; `<s>` of sentences may have any value."""

    @abstractmethod
    def _distribution(self, context: np.ndarray) -> np.ndarray:
        """Return the probability of each word after at most `reach` ids as a new array."""

    def log_probabilities(
        self, ids: Int[Array, "tokens"], *, context: Int[Array, "before"] | None = None
    ) -> Float64[Array, "tokens"]:
        """Return the log-probability (natural) of each word given the preceding ones.

        `<s>` of sentences, which is never predicted, gets 0. `context` precedes the text.
        """
        before = np.asarray(() if context is None else context, np.int32)[-self.reach :]
        text = np.concatenate([before, np.asarray(ids, np.int32)])
        check_ids(text, len(self.vocabulary))
        with np.errstate(divide="ignore"):
            result = self._log_probabilities(text, len(before))
        if self.boundaries == "sentence":
            result[text[len(before) :] == BEGIN] = 0.0
        return result

    def distribution(self, context: Sequence[int] | Int[Array, "before"] = ()) -> Float64[Array, "words"]:
        """Return the probability of each word after the ids of a context as a new array."""
        ids = np.asarray(context[-self.reach :], np.int32)
        check_ids(ids, len(self.vocabulary))
        return self._distribution(ids)

    def evaluate(self, text: Ids, *, ends: bool = True, context: Int[Array, "before"] | None = None) -> Evaluation:
        """Evaluate the model on a text of ids, in one piece or several; see `evaluation.evaluate`."""
        return evaluate(self, text, ends=ends, context=context)

    def perplexity(self, text: Ids, *, ends: bool = True) -> float:
        """Return the perplexity of a text: unknown words are not predicted, but serve as context."""
        return self.evaluate(text, ends=ends).perplexity

    def next_words(self, context: str | Sequence[str], k: int = 10) -> list[tuple[str, float]]:
        """Return the `k` most probable words after a context with their probabilities, the most probable first.

        `context` is any number of words, or a `str` that is one word; if lines are sentences, it begins a sentence.
        `<unk>` is never returned. `k` is at least 1.
        """
        ids = self.vocabulary.encode([context] if isinstance(context, str) else context).tolist()
        chances = self.distribution([BEGIN, *ids] if self.boundaries == "sentence" else ids)
        chances[[UNKNOWN, *self._never_said]] = 0.0
        return top_words(chances, self.vocabulary, k)

    def sample(
        self, n: int = 1, *, random_state: int | np.random.Generator = 0, max_words: int = 100, unknown: bool = False
    ) -> list[list[str]]:
        """Draw `n` sentences of at most `max_words` words each; in a stream, `n` sequences of that many.

        With `unknown`, `<unk>` is drawn as often as the model predicts it; otherwise never.
        """
        rng = np.random.default_rng(random_state)
        sentences = self.boundaries == "sentence"
        never = list(self._never_said) if unknown else [UNKNOWN, *self._never_said]
        result = []
        for _ in range(n):
            ids = [BEGIN] if sentences else []
            while len(ids) < max_words + sentences:
                chances = self.distribution(ids[-self.reach :])
                chances[never] = 0.0
                sums = np.cumsum(chances)
                if not sums[-1] > 0:
                    raise UsageError(self._nothing_to_draw)
                word = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
                # Rounding must not lead past the last word with a positive probability.
                word = min(word, int(np.searchsorted(sums, sums[-1])))
                if sentences and word == END:
                    break
                ids.append(word)
            result.append(self.vocabulary.decode(ids[sentences:]))
        return result

    # Files.

    @abstractmethod
    def parts(self) -> Parts:
        """Return the arrays and JSON values from which `from_parts` restores the model."""

    @classmethod
    @abstractmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a model from `parts` that fit the schema; raises one of our errors if they are inconsistent."""

    @classmethod
    def checked(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a model from `parts` that were stored in a file with others; raises one of our errors."""
        cls.schema.check(arrays, metadata)
        return cls.from_parts(arrays, metadata)

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        self.schema.write(path, *self.parts())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote."""
        return cls.schema.read(path, cls.from_parts)

    # Description.

    def describe(self) -> dict[str, Any]:
        """Return the kind of model, its figures and its provenance, as JSON values."""
        about = {"info": finite(dict(self.info))} if self.info else {}
        words = {"boundaries": self.boundaries, "words": len(self.vocabulary)}
        return {"kind": self.title, **words, **self._figures(), **about}

    @abstractmethod
    def _figures(self) -> dict[str, Any]:
        """Return the figures of `describe` that are specific to this kind of model."""


def finite(value: Any) -> Any:
    """Return a value that JSON can represent, `None` in place of each number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def top_words(scores: Float[Array, "words"], vocabulary: Vocabulary, k: int) -> list[tuple[str, float]]:
    """Return the words with the highest positive scores, ties by frequency."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    best = np.argsort(-scores, kind="stable")[:k]
    return [(vocabulary.words[number], float(scores[number])) for number in best if scores[number] > 0]
