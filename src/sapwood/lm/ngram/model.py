"""Back-off n-gram models: probabilities of n-grams, and back-off weights of contexts.

    p(w | h) = probability of the n-gram hw, if the model has it; else weight of h times p(w | h without its first word)

Any ARPA model has this form, including interpolated ones, which store the interpolated probabilities. N-grams are kept
in a tree (`NgramTree`), and scored without looking up strings or hashes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.errors import ModelError
from sapwood.lm.base import LanguageModel, Parts
from sapwood.lm.counts.vocabulary import BEGIN, VOCABULARY, Vocabulary
from sapwood.lm.registry import Boundaries
from sapwood.storage.schema import Column, Schema
from sapwood.storage.shapes import Array, Float64, Int, Int32, Int64, Shaped

# Names of the arrays of a tree in files.
_TREE = ("last_words", "starts", "offsets")


@dataclass(frozen=True, eq=False)
class NgramTree:
    """N-grams of orders 1 to `order` in one tree: by order, sorted within each order; order 1 has all ids.

    Attributes
    ----------
    words
        The last word of each n-gram.
    starts
        Where the continuations of each context (n-gram shorter than `order`) begin, and the end of the last.
    offsets
        Where each order begins: order k is at `offsets[k - 1] : offsets[k]`.
    """

    words: Int32[Array, "ngrams"]
    starts: Int64[Array, "starts"]
    offsets: Int64[Array, "offsets"]

    @property
    def order(self) -> int:
        """Order of the longest n-grams."""
        return len(self.offsets) - 1

    def level(self, k: int) -> slice:
        """Return the range of the n-grams of order `k`."""
        return slice(int(self.offsets[k - 1]), int(self.offsets[k]))

    @classmethod
    def build(cls, tables: Sequence[Int32[Array, "_ _"]], size: int) -> NgramTree:
        """Build a tree of sorted n-grams of orders 2, 3, .. and all ids below `size`.

        The first k - 1 words of each n-gram must be an n-gram of the order below; else `MissingBeginning` is raised.
        """
        offsets = np.concatenate([[0], np.cumsum([size, *(len(table) for table in tables)])])
        words = np.concatenate([np.arange(size, dtype=np.int32), *(table[:, -1] for table in tables)])
        starts = np.zeros(offsets[-2] + 1, np.int64)
        tree = cls(words, starts, offsets)
        for k, table in enumerate(tables, 2):
            parents = tree.locate(table[:, :-1]) - offsets[k - 2]
            if len(parents) and parents.min() < 0:
                raise MissingBeginning(k, int(np.argmin(parents)))
            numbers = np.bincount(parents, minlength=offsets[k - 1] - offsets[k - 2])
            starts[offsets[k - 2]] = offsets[k - 1]
            starts[offsets[k - 2] + 1 : offsets[k - 1] + 1] = offsets[k - 1] + np.cumsum(numbers)
        return tree

    def check(self, size: int) -> None:
        """Raise a `ModelError` unless arrays that fit the schema are a tree over `size` words."""
        words, starts, offsets = self.words, self.starts, self.offsets
        fits = (
            self.order > 0
            and offsets[1] == size
            and np.array_equal(words[:size], np.arange(size))
            and len(starts) == offsets[-2] + 1
            and bool((starts[1:] >= starts[:-1]).all())
            and (self.order == 1 or np.array_equal(starts[offsets[:-1]], offsets[1:]))
        )
        if not fits:
            raise ModelError("starts: its n-grams do not make a tree")
        # The continuations of a context are sorted, for binary search.
        falls = np.flatnonzero(words[1:] <= words[:-1]) + 1
        if not np.isin(falls, starts).all():
            raise ModelError("last_words: n-grams are not sorted, or duplicated")

    def locate(self, ngrams: Int32[Array, "some k"]) -> Int64[Array, "some"]:
        """Return the positions of n-grams, -1 if missing."""
        return kernels.locate_ngrams(self.words, self.starts, np.ascontiguousarray(ngrams))

    def ngrams(self, places: Int[Array, "some"], k: int) -> Int32[Array, "some k"]:
        """Return the n-grams of order `k` at `places`."""
        result = np.empty((len(places), k), np.int32)
        for d in range(k - 1, -1, -1):
            result[:, d] = self.words[places]
            if d:
                before = self.level(d)
                places = before.start + np.searchsorted(self.starts[before.start + 1 : before.stop], places, "right")
        return result


class MissingBeginning(Exception):
    """An n-gram, by its order and its row in its table, whose beginning is missing from the order below."""

    def __init__(self, order: int, row: int) -> None:
        super().__init__(order, row)
        self.order, self.row = order, row


class _Metadata(TypedDict):
    boundaries: Boundaries


@dataclass(eq=False, repr=False)
class NgramModel(LanguageModel):
    """Probabilities of words given the `order - 1` preceding words.

    Attributes
    ----------
    tree
        The n-grams.
    values
        The log-probability (natural) of each n-gram's last word given the others.
    backoffs
        The log back-off weight of each context, for words not seen after it.
    vocabulary
        The words.
    boundaries
        Whether the model is of sentences, in which `<s>` is never predicted, or of a stream.
    """

    schema: ClassVar[Schema] = Schema(
        kind="ngram-model",
        version=1,
        title="n-gram model",
        remedy="train it again",
        columns=(
            *VOCABULARY,
            Column("last_words", "int32", "ngrams", least=0, below="words"),
            Column("starts", "int64", "contexts+1", least=0, below="ngrams+1"),
            Column("offsets", "int64", "order+1", offsets_of="ngrams"),
            # Due to rounding, a probability may be slightly above 1; back-off weights may be any positive number.
            Column("log_probabilities", "float64", "ngrams", least=-math.inf, most=1e-3),
            Column("log_backoffs", "float64", "contexts", least=-math.inf),
        ),
        metadata=_Metadata,
    )
    # In a stream whose text has `<s>` it is a word like any other.
    _never_said: ClassVar[tuple[int, ...]] = ()
    _nothing_to_draw: ClassVar[str] = "this model knows only <unk>; there is nothing to draw"
    tree: NgramTree
    values: Float64[Array, "ngrams"]
    backoffs: Float64[Array, "contexts"]
    vocabulary: Vocabulary
    boundaries: Boundaries

    def __post_init__(self) -> None:
        self.values, self.backoffs = (np.ascontiguousarray(x, np.float64) for x in (self.values, self.backoffs))
        if len(self.values) != len(self.tree.words) or len(self.backoffs) != len(self.tree.starts) - 1:
            raise ModelError("the probabilities and weights of an n-gram model do not fit its n-grams")

    @property
    def order(self) -> int:
        """Order of the longest n-grams."""
        return self.tree.order

    def _figures(self) -> dict[str, Any]:
        return {"order": self.order, "ngrams": np.diff(self.tree.offsets).tolist()}

    @property
    def reach(self) -> int:
        """Maximum number of preceding words that affect a prediction."""
        return max(self.order - 1, 1)

    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        begin = BEGIN if self.boundaries == "sentence" else -1
        arrays = self.tree.words, self.tree.starts, self.values, self.backoffs
        return kernels.score_ngrams(text, first, self.order, begin, *arrays)

    def _distribution(self, context: np.ndarray) -> np.ndarray:
        ids = context[max(0, len(context) - self.order + 1) :]
        if self.boundaries == "sentence" and BEGIN in ids:
            ids = ids[len(ids) - 1 - int(np.argmax(ids[::-1] == BEGIN)) :]
        result = np.exp(self.values[self.tree.level(1)])
        for length in range(1, len(ids) + 1):
            place = int(self.tree.locate(ids[None, len(ids) - length :])[0])
            if place < 0:
                continue
            result *= np.exp(self.backoffs[place])
            successors = slice(self.tree.starts[place], self.tree.starts[place + 1])
            result[self.tree.words[successors]] = np.exp(self.values[successors])
        return result

    def parts(self) -> Parts:
        """Return the arrays and JSON values from which `from_parts` restores the model."""
        arrays = {
            **self.vocabulary.arrays(),
            **dict(zip(_TREE, (self.tree.words, self.tree.starts, self.tree.offsets), strict=True)),
            "log_probabilities": self.values,
            "log_backoffs": self.backoffs,
        }
        return arrays, {"boundaries": self.boundaries}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a model from `parts`."""
        tree, vocabulary = NgramTree(*(arrays[name] for name in _TREE)), Vocabulary.from_arrays(arrays)
        tree.check(len(vocabulary))
        return cls(tree, arrays["log_probabilities"], arrays["log_backoffs"], vocabulary, metadata["boundaries"])
