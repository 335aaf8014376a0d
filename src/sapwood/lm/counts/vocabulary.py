"""Vocabulary: the words of a language model and their ids.

Three ids are the same everywhere: 0 is `<unk>`, every word outside the vocabulary; 1 is `<s>`, which begins a sentence;
2 is `</s>`, which ends it. Words follow by falling frequency, ties by code point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from sapwood.errors import UsageError
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int32, Int64, Num, Shaped

UNKNOWN, BEGIN, END = 0, 1, 2
# Maximum count in a file: sums of many such counts do not overflow.
MOST_COUNT = 1 << 48
SPECIAL = ("<unk>", "<s>", "</s>")
# The arrays of a vocabulary in files.
VOCABULARY = (Column("words", "text", "words"), Column("word_counts", "int64", "words", least=0, most=MOST_COUNT))
ARRAYS = tuple(column.name for column in VOCABULARY)


class Vocabulary:
    """Words by id, with their counts.

    Parameters
    ----------
    words
        The words in the order of their ids; the first three are `<unk>`, `<s>` and `</s>`.
    counts
        Count of each word (default: zeros). That of `<unk>` is the total count of the words outside it.
    """

    words: list[str]
    counts: Int64[Array, "words"]

    def __init__(self, words: Sequence[str], counts: Num[Array, "words"] | None = None) -> None:
        self.words = list(words)
        self.counts = np.zeros(len(self.words), np.int64) if counts is None else np.asarray(counts, np.int64)
        if tuple(self.words[:3]) != SPECIAL:
            raise UsageError(f"a vocabulary begins with {', '.join(SPECIAL)}, this one with {self.words[:3]}")
        if self.counts.shape != (len(self.words),):
            raise UsageError(f"{len(self.words)} words need as many counts, not an array of shape {self.counts.shape}")

    @classmethod
    def from_counts(
        cls, seen: Mapping[str, int], *, min_count: int = 1, max_words: int | None = None, sentences: int = 0
    ) -> Vocabulary:
        """Keep the words seen at least `min_count` times, at most `max_words`; the others become `<unk>`."""
        ordered = sorted(((-n, w) for w, n in seen.items() if n >= min_count and w not in SPECIAL))[:max_words]
        total = sum(seen.values()) - sum(seen.get(w, 0) for w in SPECIAL[1:])
        kept = [-n for n, _ in ordered]
        special = [total - sum(kept), sentences + seen.get("<s>", 0), sentences + seen.get("</s>", 0)]
        return cls([*SPECIAL, *(w for _, w in ordered)], np.array(special + kept, np.int64))

    def arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays from which `from_arrays` restores the vocabulary."""
        return dict(zip(ARRAYS, (pack_strings(self.words), self.counts), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[Array, "..."]]) -> Vocabulary:
        """Restore a vocabulary from `arrays`; raises a `UsageError` if a word occurs twice."""
        words, counts = (arrays[name] for name in ARRAYS)
        vocabulary = cls(unpack_strings(words), counts)
        _ = vocabulary.index
        return vocabulary

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def index(self) -> dict[str, int]:
        """The ids of the words."""
        index = {word: number for number, word in enumerate(self.words)}
        if len(index) != len(self.words):
            raise UsageError("a vocabulary has a word twice")
        return index

    def encode(self, tokens: Iterable[str]) -> Int32[Array, "tokens"]:
        """Return the ids of the tokens, 0 for unknown ones."""
        get = self.index.get
        return np.fromiter((get(token, UNKNOWN) for token in tokens), np.int32)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of the ids."""
        return [self.words[number] for number in ids]
