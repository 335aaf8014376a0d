"""Bigrams of texts: ids as pairs of a word and the next."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.lm.counts.vocabulary import BEGIN, UNKNOWN
from sapwood.lm.registry import Boundaries
from sapwood.storage.shapes import Array, Bool, Float, Int, Int64, Num

# Ids of a text, or of several independent ones.
Ids: TypeAlias = Int[Array, "_"] | Iterable[Int[Array, "_"]]


def id_arrays(ids: Ids) -> list[Int[Array, "_"]]:
    """Return the texts, each an array of one dimension."""
    arrays = [ids] if isinstance(ids, np.ndarray) else list(ids)
    for array in arrays:
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise UsageError(f"ids are whole numbers in one row, not {array.dtype} of shape {array.shape}")
    return arrays


def check_ids(ids: Num[Array, "tokens"], size: int) -> None:
    """Raise a `UsageError` unless all ids are those of a vocabulary of `size` words."""
    if ids.size and not (ids.min() >= 0 and ids.max() < size):
        raise UsageError(f"ids are from 0 to {size - 1} in this vocabulary, not from {ids.min()} to {ids.max()}")


def is_scored(targets: Int[Array, "tokens"]) -> Bool[Array, "tokens"]:
    """Return which words count in perplexities: all but `<unk>`, and `<s>`, which is never predicted."""
    return (targets != UNKNOWN) & (targets != BEGIN)


def lagged_pairs(
    text: Int[Array, "tokens"], lag: int, boundaries: Boundaries
) -> tuple[Int[Array, "pairs"], Int[Array, "pairs"]]:
    """Return the words with `lag - 1` words between them: contexts and targets.

    If lines are sentences, both are in the same one, and `<s>` is not a target.
    """
    contexts, targets = text[:-lag], text[lag:]
    if boundaries == "stream":
        return contexts, targets
    kept = since_begin(text)[lag:] >= lag
    return contexts[kept], targets[kept]


def since_begin(text: Int[Array, "tokens"]) -> Int64[Array, "tokens"]:
    """Return the distance of each word from the last `<s>` (or the beginning of the text, if there is none)."""
    places = np.arange(len(text))
    return places - np.maximum.accumulate(np.where(text == BEGIN, places, 0))


class HeldOutBigrams:
    """The distinct scored bigrams of held-out text, to measure its perplexity repeatedly.

    Parameters
    ----------
    ids
        The text.
    size
        Size of the vocabulary.
    lag, boundaries
        As for `lagged_pairs`; by default each word and the next.
    """

    def __init__(self, ids: Ids, size: int, *, lag: int = 1, boundaries: Boundaries = "stream") -> None:
        keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for array in id_arrays(ids):
            check_ids(array, size)
            contexts, targets = lagged_pairs(array, lag, boundaries)
            scored = is_scored(targets)
            new, seen = np.unique(contexts[scored].astype(np.int64) * size + targets[scored], return_counts=True)
            keys, places = np.unique(np.concatenate([keys, new]), return_inverse=True)
            counts = np.bincount(places, np.concatenate([counts, seen]), minlength=len(keys)).astype(np.int64)
        if not len(keys):
            raise InputError("the held-out text has no two words behind each other, the second of them known")
        contexts, targets = np.divmod(keys, size)
        self.contexts, self.targets = contexts.astype(np.int32), targets.astype(np.int32)
        self.counts = counts

    def of(self, words: Bool[Array, "words"]) -> HeldOutBigrams:
        """Return the bigrams whose second word is one of these.

        An unseen word has no probability, and a single one would make any perplexity infinite.
        """
        kept = words[self.targets]
        if not kept.any():
            raise InputError("the held-out text has no word that was seen in training after another")
        result = copy(self)
        result.contexts, result.targets, result.counts = self.contexts[kept], self.targets[kept], self.counts[kept]
        return result

    def perplexity(
        self,
        r: Float[Array, "words states"],
        s: Float[Array, "words states"],
        row_place: Int[Array, "words"] | None = None,
        column_place: Int[Array, "words"] | None = None,
    ) -> float:
        """Return the perplexity under `r[context] . s[target]`; places are the positions of a word's parameters."""
        contexts = self.contexts if row_place is None else row_place[self.contexts]
        targets = self.targets if column_place is None else column_place[self.targets]
        products = np.empty(len(contexts))
        kernels.pair_products(contexts, targets, r, s, products)
        with np.errstate(divide="ignore"):
            mean = float(self.counts @ np.log(products)) / float(self.counts.sum())
        return float(np.exp(-mean)) if mean > -700 else float("inf")
