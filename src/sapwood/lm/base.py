"""What all language models have in common: they are evaluated, suggest words, go on with a text, are saved and loaded.

A model gives the log-probabilities of a text and the distribution of the next word, and says which arrays it is made
of; everything here follows from that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.lm.evaluation import Evaluation, evaluate
from sapwood.lm.methods import Boundaries
from sapwood.lm.transitions import Ids, check_ids
from sapwood.lm.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from sapwood.schema import Schema
from sapwood.shapes import Array, Float, Float64, Int, Shaped

# What a model is made of: arrays, and values of JSON.
Parts: TypeAlias = tuple[dict[str, Shaped[Array, "..."]], dict[str, Any]]


class LanguageModel(ABC):
    """A language model.

    Attributes
    ----------
    schema
        What its files hold.
    kind, title
        What they are called inside and to people.
    vocabulary
        The words.
    boundaries
        Whether lines of text are sentences or line ends mean nothing.
    info
        How it was learned, as values of JSON.
    """

    schema: ClassVar[Schema]
    kind: ClassVar[str]
    title: ClassVar[str]
    vocabulary: Vocabulary
    boundaries: Boundaries
    info: Mapping[str, Any] = MappingProxyType({})
    # Ids that are neither suggested nor drawn, even where they have a probability; and what is said if no other has.
    _never_said: ClassVar[tuple[int, ...]] = (BEGIN,)
    _nothing_to_draw: ClassVar[str] = "the model gives no probability to any word but <unk>: there is nothing to draw"

    def __init_subclass__(cls) -> None:
        cls.kind, cls.title = cls.schema.kind, cls.schema.title

    # Probabilities.

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many words before a word can matter to it, at the most."""

    @abstractmethod
    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        """Return the log-probabilities of `text[first:]`; `<s>` of sentences may have any."""

    @abstractmethod
    def _distribution(self, context: np.ndarray) -> np.ndarray:
        """Return the probability of each word after at most `reach` ids: a new array."""

    def log_probabilities(
        self, ids: Int[Array, "tokens"], *, context: Int[Array, "before"] | None = None
    ) -> Float64[Array, "tokens"]:
        """Return the natural logarithm of each word's probability given those before it.

        `<s>` of sentences, which nothing predicts, gets 0. `context` is what comes before the text.
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
        """Return the probability of each word after the ids of a context: a new array."""
        ids = np.asarray(context[-self.reach :], np.int32)
        check_ids(ids, len(self.vocabulary))
        return self._distribution(ids)

    def evaluate(self, text: Ids, *, ends: bool = True, context: Int[Array, "before"] | None = None) -> Evaluation:
        """Say how well the model predicts a text of ids, in one piece or several; see `evaluation.evaluate`."""
        return evaluate(self, text, ends=ends, context=context)

    def perplexity(self, text: Ids, *, ends: bool = True) -> float:
        """Return the perplexity of a text: unknown words are not predicted, but what follows them is."""
        return self.evaluate(text, ends=ends).perplexity

    def next_words(self, context: str | Sequence[str], k: int = 10) -> list[tuple[str, float]]:
        """Return the `k` most probable words after others, the most probable first, with their probabilities.

        `context` is any number of words, or a `str` that is one word; if lines are sentences, it is the beginning of
        one. `<unk>` is not among the words returned. `k` is at least 1.
        """
        ids = self.vocabulary.encode([context] if isinstance(context, str) else context).tolist()
        chances = self.distribution([BEGIN, *ids] if self.boundaries == "sentence" else ids)
        chances[[UNKNOWN, *self._never_said]] = 0.0
        return top_words(chances, self.vocabulary, k)

    def sample(
        self, n: int = 1, *, random_state: int | np.random.Generator = 0, max_words: int = 100, unknown: bool = False
    ) -> list[list[str]]:
        """Draw `n` sentences, each of at most `max_words` words; in a stream, `n` sequences of that many.

        With `unknown` the sequences have `<unk>` as often as the model predicts it; else another word is drawn.
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
                # Rounding must not lead past the last word that has any probability.
                word = min(word, int(np.searchsorted(sums, sums[-1])))
                if sentences and word == END:
                    break
                ids.append(word)
            result.append(self.vocabulary.decode(ids[sentences:]))
        return result

    # Files.

    @abstractmethod
    def parts(self) -> Parts:
        """Return arrays and JSON values that `from_parts` makes the model from again."""

    @classmethod
    @abstractmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Undo `parts`, which fit the schema; raises one of our errors if they do not fit each other."""

    @classmethod
    def checked(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Undo `parts` of a model that was kept in a file with other things; raises one of our errors."""
        cls.schema.check(arrays, metadata)
        return cls.from_parts(arrays, metadata)

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        self.schema.write(path, *self.parts())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote."""
        return cls.schema.read(path, cls.from_parts)

    # What it is.

    def describe(self) -> dict[str, Any]:
        """Return what kind of model this is, its figures and how it was learned, as values of JSON."""
        about = {"info": finite(dict(self.info))} if self.info else {}
        words = {"boundaries": self.boundaries, "words": len(self.vocabulary)}
        return {"kind": self.title, **words, **self._figures(), **about}

    @abstractmethod
    def _figures(self) -> dict[str, Any]:
        """Return the figures of `describe` that this kind of model has."""


def finite(value: Any) -> Any:
    """Return a value as JSON can hold it, `None` in place of each number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def top_words(scores: Float[Array, "words"], vocabulary: Vocabulary, k: int) -> list[tuple[str, float]]:
    """Return the words with the highest scores, none of them 0 or less, the more frequent first among equals."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    best = np.argsort(-scores, kind="stable")[:k]
    return [(vocabulary.words[number], float(scores[number])) for number in best if scores[number] > 0]
