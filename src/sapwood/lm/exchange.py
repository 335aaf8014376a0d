"""Classes of words by the company they keep, and by how they are spelled.

A class bigram model gives a word's class given that of the word before, and the word given its class. The classes that
make a text most probable put words together that stand in the same places: much like parts of speech. They are found
by exchange (Kneser and Ney 1993): each word in turn is taken out of its class and put into the one where the gain is
largest, until none moves. It begins with the most frequent words each in a class of its own, all others in one.

Rare words have little company. So classes also draw a spelling for each of their words (Clark 2003): its ending, and
whether it has a capital, a digit or a hyphen. On the 94,000 words of wsj-sample this is worth six points of the words
whose class has mostly their tag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood.errors import InputError, UsageError
from sapwood.kernels import exchange_words
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float64, Int, Int32, Int64

# The most times that all words are gone through, and the prior of a spelling.
_SWEEPS, _PRIOR = 30, 0.1
# Spellings that fewer words have are one.
_SEEN = 5


class _Pairs(NamedTuple):
    """What the kernel takes of the pairs of words that stand next to each other."""

    next_offsets: Int64[Array, "bounds"]
    next: Int32[Array, "pairs"]
    next_count: Float64[Array, "pairs"]
    before_offsets: Int64[Array, "bounds"]
    before: Int32[Array, "pairs"]
    before_count: Float64[Array, "pairs"]


def exchange_classes(
    words: Sequence[str],
    tokens: Int[Array, "tokens"],
    offsets: Int[Array, "sentence_bounds"],
    *,
    classes: int,
    progress: Progress | None = None,
) -> Int32[Array, "words"]:
    """Sort words into classes, and return the class of each; the most frequent one is 0, and none is empty.

    Parameters
    ----------
    words
        The words.
    tokens
        Their numbers in the text.
    offsets
        Where its sentences begin, and where the last one ends.
    classes
        How many classes; there may be fewer, and are if there are not so many words.
    progress
        What to report to.

    Examples
    --------
    >>> text = ["the", "dog", "sleeps", "a", "cat", "sleeps", "the", "cat", "runs", "a", "dog", "runs"]
    >>> words = sorted(set(text))
    >>> tokens = np.array([words.index(word) for word in text])
    >>> found = exchange_classes(words, tokens, np.array([0, 3, 6, 9, 12]), classes=3)
    >>> dict(zip(words, found.tolist()))
    {'a': 0, 'cat': 1, 'dog': 1, 'runs': 2, 'sleeps': 2, 'the': 0}
    """
    if classes < 1:
        raise UsageError(f"classes must be at least 1, not {classes}")
    if not len(tokens):
        raise InputError("there are no words to sort into classes")
    counts = np.bincount(tokens, minlength=len(words))
    # From the most frequent one on; words of which there are as many in the order of their spelling.
    order = np.array(sorted(range(len(words)), key=lambda number: (-counts[number], words[number])))
    rank = np.empty(len(words), np.int64)
    rank[order] = np.arange(1, len(words) + 1)
    # 0 stands between sentences, in a class of its own behind the others.
    n_classes = min(classes, int((counts > 0).sum()))
    found = np.minimum(np.arange(-1, len(words)), n_classes - 1).astype(np.int32)
    found[0] = n_classes
    pairs = _pairs(np.insert(rank[tokens], np.minimum(offsets, len(tokens)), 0), len(words) + 1)
    spelling, n_spellings = _spellings([words[number] for number in order])
    with (progress or Silent()).stage("classes of words", _SWEEPS, "rounds") as stage:
        for _ in range(_SWEEPS):
            moved = exchange_words(pairs, 1, n_classes, n_classes + 1, spelling, n_spellings, _PRIOR, found)
            stage.step(moved=moved)
            if not moved:
                break
    # Numbered by how often they are there; some may be empty.
    own = found[rank]
    often = np.bincount(own, weights=counts, minlength=n_classes)
    numbers = np.argsort(-often, kind="stable")
    used = int((often > 0).sum())
    new = np.zeros(n_classes, np.int32)
    new[numbers] = np.minimum(np.arange(n_classes), used - 1)
    return new[own]


def _pairs(tokens: np.ndarray, words: int) -> _Pairs:
    ones = np.ones(len(tokens) - 1)
    table = scipy.sparse.coo_array((ones, (tokens[:-1], tokens[1:])), shape=(words, words)).tocsr()
    table.sum_duplicates()
    other = table.T.tocsr()
    columns = [
        (each.indptr.astype(np.int64), each.indices.astype(np.int32), each.data.astype(np.float64))
        for each in (table, other)
    ]
    return _Pairs(*columns[0], *columns[1])


def _spellings(words: Sequence[str]) -> tuple[np.ndarray, int]:
    """Return the number of each word's spelling, of 0 for what stands between sentences, and how many there are."""
    shapes = [_shape(word) for word in words]
    seen = Counter(shapes)
    often = sorted(shape for shape, count in seen.items() if count >= _SEEN)
    numbers = {shape: number for number, shape in enumerate(often, 1)}
    return np.array([0, *(numbers.get(shape, 0) for shape in shapes)], np.int32), len(numbers) + 1


def _shape(word: str) -> tuple[str, ...]:
    if any(sign.isdigit() for sign in word):
        return ("digit",)
    lower = word.lower()
    ending = lower[-3:] if len(word) > 4 else lower[-2:] if len(word) == 4 else ""
    return ("capital" if word[:1].isupper() else "", ending, "hyphen" if "-" in word else "")
