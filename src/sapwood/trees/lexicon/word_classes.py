"""Word classes: words with similar distributions in plain text, to generalise to words that no tree has.

Each word has a class on each of a few levels, coarse to fine. `sapwood.lm.word_classes` learns them; signatures of rare
and unknown words, layers and networks use them as features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sapwood.errors import ModelError
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int32, Shaped

# Maximum number of levels.
MOST_LEVELS = 4
# The arrays of classes in a file.
WORD_CLASSES = (
    Column("classes.words", "text", "class_words", along="classes.words"),
    Column("classes.numbers", "int32", "class_words class_levels", least=0, along="classes.words"),
)


@dataclass(frozen=True, eq=False, repr=False)
class WordClasses:
    """Classes of words, coarse to fine.

    Attributes
    ----------
    words
        The words, sorted.
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
        """Number of classes of a word, one per level."""
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
        # Caches are neither copied nor sent to other processes.
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    @cached_property
    def _rows(self) -> dict[str, tuple[int, ...]]:
        return dict(zip(self.words, map(tuple, self.numbers.tolist()), strict=True))

    def of(self, word: str) -> tuple[int, ...] | None:
        """Return the classes of a word, or else of its lower-case form, coarse to fine; None if neither has any.

        >>> classes = WordClasses(("cat", "dog"), np.array([[0, 3], [0, 4]], np.int32))
        >>> classes.of("dog"), classes.of("Dog"), classes.of("cow")
        ((0, 4), (0, 4), None)
        """
        found = self._rows.get(word)
        return self._rows.get(word.lower()) if found is None else found

    def digest(self) -> str:
        """Return a SHA-256 digest of words and classes."""
        content = hashlib.sha256(pack_strings(self.words).tobytes())
        content.update(np.ascontiguousarray(self.numbers, "<i4").tobytes())
        return content.hexdigest()

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays for storage."""
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
        """Build from stored arrays; None if there are no classes."""
        if "classes.words" not in arrays:
            return None
        return cls(tuple(unpack_strings(arrays["classes.words"])), arrays["classes.numbers"])


def class_names(classes: WordClasses | None, word: str) -> Sequence[str]:
    """Return the names of a word's classes, fine to coarse; none if it has none."""
    numbers = None if classes is None else classes.of(word)
    if numbers is None:
        return ()
    return [f"@{level}:{number}" for level, number in reversed(list(enumerate(numbers)))]
