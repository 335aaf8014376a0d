"""A table of words that numbers them in the order in which it meets them, and tokenises by the way."""

from __future__ import annotations

import numpy as np

from sapwood.lm import _word_kernels as kernels
from sapwood.lm._word_kernels import PADDING
from sapwood.lm.vocabulary import SPECIAL
from sapwood.shapes import Array, Int, Int32, Int64, UInt8

FIRST_WORD = 1 + len(SPECIAL)
TOO_LONG = f"a word of more than {kernels.LONGEST:,} bytes: this is not text with spaces between words"


class NotText(Exception):
    """Something that cannot be text, after `lines` line ends and at the byte `column` (from 1) of its line."""

    def __init__(self, problem: str, lines: int, column: int) -> None:
        super().__init__(problem, lines, column)
        self.problem, self.lines, self.column = problem, lines, column


class WordTable:
    """Words by number: 0 is the line end, 1 to 3 are `<unk>`, `<s>` and `</s>`, the others follow as they are met.

    Attributes
    ----------
    counts
        How often each number was met.
    """

    counts: Int64[Array, "limit"]

    def __init__(self, words: int = 1 << 15, letters: int = 1 << 19) -> None:
        self._sizes = np.array([1, words], np.int64)
        self._starts = np.zeros(words + 1, np.int64)
        self._starts[1] = 1
        self._arena = np.zeros(letters, np.uint8)
        self._arena[0] = 10
        self.counts = np.zeros(words, np.int64)
        self._ids = np.empty(0, np.int32)
        self._make_slots()
        self.add_all(SPECIAL)

    def __len__(self) -> int:
        return int(self._sizes[0])

    def _make_slots(self) -> None:
        bits = max(4, int(2 * self._sizes[1] - 1).bit_length())
        self._slots = np.zeros(2 << bits, np.uint64)
        self._shift = np.uint64(64 - bits)
        kernels.rehash(self._slots, self._shift, self._arena, self._starts, self._sizes[0])

    def _grow(self, needed: int) -> None:
        if self._starts[len(self)] + needed + PADDING > len(self._arena):
            self._arena = _longer(self._arena, 2 * len(self._arena) + needed)
        if self._sizes[0] >= self._sizes[1]:
            self._sizes[1] *= 2
            self._starts = _longer(self._starts, int(self._sizes[1]) + 1)
            self.counts = _longer(self.counts, int(self._sizes[1]))
            self._make_slots()

    def tokenise(self, text: UInt8[Array, "bytes"], lines: bool) -> tuple[Int32[Array, "tokens"], int]:
        """Return the numbers of the words of `text`, and how many lines it ends.

        The text ends with a separator, behind which `PADDING` bytes count for nothing. Words that are new are added.
        With `lines` each line end is among the numbers, as 0. Zero bytes, bytes that are not UTF-8 and words of more
        than a million bytes raise `NotText`.
        """
        size = len(text) - PADDING
        if len(self._ids) < size:
            self._ids = np.empty(size, np.int32)
        done = np.zeros(3, np.int64)
        known = int(self._starts[len(self)])
        while True:
            outcome = kernels.tokenise(
                text, size, self._slots, self._shift, self._arena, self._starts, self._sizes, self.counts, lines,
                self._ids, done,
            )  # fmt: skip
            if outcome != kernels.FULL:
                break
            self._grow(_word_length(text, int(done[0])) + 1)
        if outcome == kernels.ZERO_BYTE:
            problem = "a zero byte: this is not a text file, or it is UTF-16; convert it to UTF-8 first"
            raise NotText(problem, *_place(text, int(done[0])))
        if outcome == kernels.TOO_LONG:
            raise NotText(TOO_LONG, *_place(text, int(done[0])))
        try:
            self._arena[known : self._starts[len(self)]].tobytes().decode("utf-8")
        except UnicodeDecodeError:
            at = _first_bad_byte(text)
            problem = f"not valid UTF-8 (byte 0x{text[at]:02x}); convert the file to UTF-8 first"
            raise NotText(problem, *_place(text, at)) from None
        self.counts[0] += done[2]
        return self._ids[: done[1]].copy(), int(done[2])

    def add_table(self, other: WordTable) -> Int64[Array, "words"]:
        """Add the words of another table with their counts; return which number each of its numbers has here."""
        numbers = self._add(other._arena, other._starts, len(other))
        np.add.at(self.counts, numbers, other.counts[: len(other)])
        return numbers

    def add_all(self, words: list[str] | tuple[str, ...]) -> None:
        """Add words, which are new and not empty, in this order."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        lengths = np.array([0, *(len(word) + 1 for word in encoded)], np.int64)
        letters = np.frombuffer(b"\n" + b"".join(word + b"\n" for word in encoded) + bytes(PADDING), np.uint8)
        self._add(letters, np.concatenate([[0], 1 + np.cumsum(lengths)]), len(words) + 1)

    def _add(self, letters: np.ndarray, starts: np.ndarray, words: int) -> np.ndarray:
        numbers = np.zeros(words, np.int64)
        done = 1
        while True:
            done = kernels.add_words(
                letters, starts, done, self._slots, self._shift, self._arena, self._starts, self._sizes, numbers
            )
            if done == words:
                return numbers
            self._grow(int(starts[done + 1] - starts[done]))

    def forget(self, words: int) -> None:
        """Keep only the first `words` numbers."""
        self._sizes[0] = words
        self.counts[words:] = 0
        self._make_slots()

    def words(self, numbers: Int[Array, "some"]) -> list[str]:
        """Return some words by their numbers."""
        target = np.empty(int((self._starts[numbers + 1] - self._starts[numbers]).sum()), np.uint8)
        kernels.copy_words(self._arena, self._starts, numbers, target)
        return target.tobytes().decode("utf-8", "surrogatepass").split("\n")[:-1]


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def _word_length(text: np.ndarray, begin: int) -> int:
    end = begin
    while text[end] > 32:
        end += 1
    return end - begin


def _first_bad_byte(text: np.ndarray) -> int:
    try:
        text.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return 0  # not reached: a bad word is in the text


def _place(text: np.ndarray, at: int) -> tuple[int, int]:
    before = text[:at].tobytes()
    return before.count(b"\n"), at - before.rfind(b"\n")
