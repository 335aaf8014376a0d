"""Classes of words that stand in similar places in plain text, so that a word no tree has is known by its like.

Each word has a class on each of a few levels, coarse to fine. `sapwood.lm.word_classes` learns them; signatures of rare
and unknown words, features of layers and networks look at them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sapwood.errors import ModelError
from sapwood.schema import Column
from sapwood.shapes import Array, Int32, Shaped
from sapwood.storage import pack_strings, unpack_strings

# No more levels than this.
MOST_LEVELS = 4
# The arrays of classes in a file.
WORD_CLASSES = (
    Column("classes.words", "text", "class_words", along="classes.words"),
    Column("classes.numbers", "int32", "class_words class_levels", least=0, along="classes.words"),
)


@dataclass(frozen=True, eq=False, repr=False)
class WordClasses:
    """Which words are alike.

    Attributes
    ----------
    words
        The words, in order.
    numbers
        The class of each word on each level.
    """

    words: tuple[str, ...]
    numbers: Int32[Array, "words levels"]

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= MOST_LEVELS:
            raise ModelError(f"classes.numbers: {self.levels} levels are not 1 to {MOST_LEVELS}")

    @property
    def levels(self) -> int:
        """How many classes a word has, coarse to fine."""
        return int(self.numbers.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordClasses):
            return NotImplemented
        return self is other or (self.words == other.words and np.array_equal(self.numbers, other.numbers))

    def __hash__(self) -> int:
        return hash(self.words)

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(np.unique(column))) for column in self.numbers.T)
        return f"<WordClasses: {len(self.words):,} words in {sizes} classes>"

    def __getstate__(self) -> dict[str, Any]:
        # What is only kept at hand is not copied, nor sent to others.
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    @cached_property
    def _rows(self) -> dict[str, tuple[int, ...]]:
        return dict(zip(self.words, map(tuple, self.numbers.tolist()), strict=True))

    def of(self, word: str) -> tuple[int, ...] | None:
        """Return the classes of a word, coarse to fine; of its form in lower case, if that is all there is; or None.

        >>> classes = WordClasses(("cat", "dog"), np.array([[0, 3], [0, 4]], np.int32))
        >>> classes.of("dog"), classes.of("Dog"), classes.of("cow")
        ((0, 4), (0, 4), None)
        """
        found = self._rows.get(word)
        return self._rows.get(word.lower()) if found is None else found

    def digest(self) -> str:
        """Return a SHA-256 of all of it."""
        content = hashlib.sha256(pack_strings(self.words).tobytes())
        content.update(np.ascontiguousarray(self.numbers, "<i4").tobytes())
        return content.hexdigest()

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return what is stored."""
        return {"classes.words": pack_strings(self.words), "classes.numbers": self.numbers}

    def to_dict(self) -> dict[str, list[int]]:
        """Return the classes of each word, as JSON values."""
        return dict(zip(self.words, self.numbers.tolist(), strict=True))

    @classmethod
    def from_dict(cls, classes: Mapping[str, Sequence[int]]) -> WordClasses:
        """Build from `to_dict`'s result."""
        words = sorted(classes)
        levels = {len(classes[word]) for word in words}
        if len(levels) != 1 or any(number >= 1 << 16 for word in words for number in classes[word]):
            raise ModelError(f"classes: not as many numbers below {1 << 16} for every word")
        numbers = np.array([classes[word] for word in words], np.int32)
        return cls(tuple(words), numbers.reshape(len(words), *levels))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[Array, "..."]]) -> WordClasses | None:
        """Build from what was stored; None if there are no classes."""
        if "classes.words" not in arrays:
            return None
        return cls(tuple(unpack_strings(arrays["classes.words"])), arrays["classes.numbers"])


def class_names(classes: WordClasses | None, word: str) -> Sequence[str]:
    """Return the names of a word's classes, fine to coarse; none if it has none."""
    numbers = None if classes is None else classes.of(word)
    if numbers is None:
        return ()
    return [f"@{level}:{number}" for level, number in reversed(list(enumerate(numbers)))]
