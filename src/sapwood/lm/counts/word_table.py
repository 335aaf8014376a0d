"""Word table: tokenises text and numbers words in order of first occurrence."""

from __future__ import annotations

import secrets

import numpy as np

from sapwood import kernels
from sapwood.lm.counts.vocabulary import SPECIAL
from sapwood.storage.shapes import Array, Int, Int32, Int64, UInt8

FIRST_WORD = 1 + len(SPECIAL)
LONGEST_WORD: int = kernels.LONGEST_WORD
ZERO_BYTE = "a zero byte: this is not a text file, or it is UTF-16; convert it to UTF-8 first"
TOO_LONG = f"a word of more than {LONGEST_WORD:,} bytes: this is not text with spaces between words"


class NotText(Exception):
    """Invalid text, after `lines` line ends and at the byte `column` (from 1) of its line."""

    def __init__(self, problem: str, lines: int, column: int) -> None:
        super().__init__(problem, lines, column)
        self.problem, self.lines, self.column = problem, lines, column


class WordTable:
    """Words by number: 0 is the line end, 1 to 3 are `<unk>`, `<s>` and `</s>`, others follow in order of occurrence.

    Initially there is room for `words` words and `letters` letters; it grows as needed. Numbers do not depend on the
    seed, which protects against texts made to collide.
    """

    def __init__(self, words: int = 1 << 15, letters: int = 1 << 19, *, seed: int | None = None) -> None:
        self._words = kernels.WordTable(words, letters, secrets.randbits(64) if seed is None else seed)
        self.add_all(SPECIAL)

    def __len__(self) -> int:
        return len(self._words)

    @property
    def counts(self) -> Int64[Array, "numbers"]:
        """Count of each number as a new array."""
        return self._words.counts()

    def tokenise(self, text: UInt8[Array, "bytes"], lines: bool) -> tuple[Int32[Array, "tokens"], int]:
        """Return the numbers of the words of `text`, and the number of lines it ends.

        The text ends with a separator. New words are added. With `lines` the numbers include each line end, as 0. Zero
        bytes, bytes that are not UTF-8 and words of more than a million bytes raise `NotText`.
        """
        known = len(self)
        numbers, line_ends, stopped = self._words.tokenise(text, lines)
        if stopped >= 0:
            raise NotText(TOO_LONG if text[stopped] else ZERO_BYTE, *_place(text, stopped))
        try:
            self._words.letters_from(known).tobytes().decode("utf-8")
        except UnicodeDecodeError:
            at = _first_bad_byte(text)
            problem = f"not valid UTF-8 (byte 0x{text[at]:02x}); convert the file to UTF-8 first"
            raise NotText(problem, *_place(text, at)) from None
        return numbers, line_ends

    def add_table(self, other: WordTable) -> Int64[Array, "words"]:
        """Add the words of another table with their counts; return the new number of each of its numbers."""
        return self._words.add_table(other._words)

    def add_all(self, words: list[str] | tuple[str, ...]) -> None:
        """Add words, which are new and not empty, in this order."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        self._words.add_words(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def letters(self) -> UInt8[Array, "letters"]:
        """Return all words after the first four numbers, each ended by a line feed."""
        return self._words.spell(np.arange(FIRST_WORD, len(self), dtype=np.int64))

    def add_letters(self, letters: UInt8[Array, "letters"]) -> None:
        """Add words, as `letters` returns them, in this order."""
        ends = np.flatnonzero(letters == ord("\n"))
        self._words.add_words(letters[letters != ord("\n")], ends - np.arange(len(ends)))

    def forget(self, words: int) -> None:
        """Keep only the first `words` numbers."""
        self._words.forget(words)

    def words(self, numbers: Int[Array, "some"]) -> list[str]:
        """Return some words by their numbers."""
        letters = self._words.spell(np.ascontiguousarray(numbers, np.int64))
        return letters.tobytes().decode("utf-8", "surrogatepass").split("\n")[:-1]


def _first_bad_byte(text: np.ndarray) -> int:
    try:
        text.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return 0  # unreachable: a bad word is in the text


def _place(text: np.ndarray, at: int) -> tuple[int, int]:
    before = text[:at].tobytes()
    return before.count(b"\n"), at - before.rfind(b"\n")
