r"""Back-off n-gram models in the ARPA format, which SRILM, KenLM and most other tools read and write.

After `\data\` and the number of n-grams of each order there is a section for each: lines with the base-10 logarithm of
the probability, the n-gram, and the logarithm of its back-off weight, if it has one; `\end\` closes the file. `<s>`,
which is never predicted, and words without a probability have -99. Names that end in `.gz` are compressed.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from sapwood.errors import InputError
from sapwood.lm.counts.vocabulary import BEGIN, END, SPECIAL, Vocabulary
from sapwood.lm.ngram.model import MissingBeginning, NgramModel, NgramTree
from sapwood.lm.registry import Boundaries
from sapwood.storage.files import name_of, open_output, read_lines, whole_number

_NEVER = -99.0
_LINES = 1 << 16
_TEN = math.log(10.0)
_ROUNDING = 1e-5
_ASCII_SPACE = " \t\r\n"
_SPACE = re.compile(f"[{_ASCII_SPACE}]+")


def write_arpa(model: NgramModel, path: str | Path) -> None:
    """Write a model in the ARPA format, atomically (`-`: to standard output)."""
    tree, words = model.tree, np.array(model.vocabulary.words, object)
    numbers = np.diff(tree.offsets)
    # Words that the model never predicts are skipped, except for the marks that other tools require.
    single = np.union1d(np.flatnonzero(np.isfinite(model.values[tree.level(1)])), [BEGIN, END])
    numbers[0] = len(single)
    with open_output(path) as stream:
        stream.write("\\data\\\n" + "".join(f"ngram {k}={n}\n" for k, n in enumerate(numbers.tolist(), 1)))
        for k in range(1, tree.order + 1):
            stream.write(f"\n\\{k}-grams:\n")
            places = single if k == 1 else np.arange(tree.offsets[k - 1], tree.offsets[k])
            for x in range(0, len(places), _LINES):
                part = places[x : x + _LINES]
                texts = [" ".join(ngram) for ngram in words[tree.ngrams(part, k)].tolist()]
                stream.write("".join(_lines(model, part, texts, k < tree.order)))
        stream.write("\n\\end\\\n")


def _lines(model: NgramModel, places: np.ndarray, texts: list[str], contexts: bool) -> Iterator[str]:
    values = np.maximum(model.values[places] / _TEN, _NEVER).tolist()
    if not contexts:
        for value, text in zip(values, texts, strict=True):
            yield f"{value:.9g}\t{text}\n"
        return
    weights = np.maximum(model.backoffs[places] / _TEN, _NEVER).tolist()
    for value, text, weight in zip(values, texts, weights, strict=True):
        yield f"{value:.9g}\t{text}\t{weight:.9g}\n" if weight != 0.0 else f"{value:.9g}\t{text}\n"


def read_arpa(path: str | Path) -> NgramModel:
    """Read a model in the ARPA format.

    It is a model of sentences if it predicts `</s>`, else of a stream. The words keep the order of the file. Invalid
    lines raise an `InputError` with the line number.
    """
    return _Reader(path).model()


class _Reader:
    """Reads one file, a line at a time."""

    def __init__(self, path: str | Path) -> None:
        self.name = name_of(path)
        self.number = 0
        self.line = ""
        self._lines = read_lines(path)

    def fail(self, problem: str, number: int | None = None) -> NoReturn:
        raise InputError(f"{self.name}:{self.number if number is None else number}: {problem}")

    def advance(self) -> str:
        """Go to the next line that is not blank and return it stripped."""
        self.line = ""
        while not self.line:
            try:
                self.number, line = next(self._lines)
            except StopIteration:
                self.fail("the file ends here; an ARPA file ends with \\end\\", self.number + 1)
            self.line = line.strip(_ASCII_SPACE)
        return self.line

    def model(self) -> NgramModel:
        numbers = self._sizes()
        order = len(numbers)
        words, *single = self._words(numbers[0])
        index = {word: x for x, word in enumerate(words)}
        sections = [self._section(k, numbers[k - 1], index) for k in range(2, order + 1)]
        if self.line != "\\end\\":
            self.fail(f"expected \\end\\ after the {order}-grams, not {self.line[:40]!r}")
        for table, _, _, lines in sections:
            same = np.flatnonzero((table[1:] == table[:-1]).all(axis=1))
            if len(same):
                row = int(same[0])
                self.fail(f"{_spell(words, table[row])} occurs a second time", int(lines[row : row + 2].max()))
        try:
            tree = NgramTree.build([table for table, *_ in sections], len(words))
        except MissingBeginning as missing:
            table, _, _, lines = sections[missing.order - 2]
            problem = f"the beginning of {_spell(words, table[missing.row])} is not among the {missing.order - 1}-grams"
            self.fail(problem, int(lines[missing.row]))
        values = np.concatenate([single[0], *(section[1] for section in sections)])
        weights = np.concatenate([single[1], *(section[2] for section in sections)])[: len(tree.starts) - 1]
        boundaries: Boundaries = "sentence" if np.isfinite(values[END]) else "stream"
        return NgramModel(tree, values, weights, Vocabulary(words), boundaries)

    def _sizes(self) -> list[int]:
        """Read the number of n-grams of each order."""
        while self.advance() != "\\data\\":
            if self.line.startswith("\\"):
                self.fail(f"expected \\data\\, not {self.line[:40]!r}: not an ARPA file")
        numbers: list[int] = []
        while self.advance().startswith("ngram"):
            order, _, size = self.line.removeprefix("ngram").partition("=")
            number = whole_number(size.strip())
            if number is None or whole_number(order.strip()) is None:
                self.fail(f"expected a line such as 'ngram 2=1000', not {self.line[:40]!r}")
            if whole_number(order.strip()) != len(numbers) + 1:
                self.fail(f"the orders of n-grams are to be 1, 2, .., not {order.strip()} after {len(numbers)}")
            numbers.append(number)
        if not numbers:
            self.fail("expected lines such as 'ngram 1=1000' after \\data\\")
        return numbers

    def _fields(self, k: int, size: int) -> Iterator[list[str]]:
        """Yield logarithm, words and logarithm of the weight (0 if missing) of the lines of a section."""
        if self.line != f"\\{k}-grams:":
            self.fail(f"expected \\{k}-grams:, not {self.line[:40]!r}")
        seen = 0
        for self.number, self.line in self._lines:  # noqa: B020
            # Words may contain white space that is not ASCII, at which a plain `split` would divide them.
            fields = self.line.split() if self.line.isascii() else _SPACE.split(self.line.strip(_ASCII_SPACE))
            if len(fields) == k + 1:
                fields.append("0")
            if len(fields) == k + 2 and seen < size:
                yield fields
                seen += 1
            elif len(fields) == 1 and fields[0].startswith("\\"):
                break
            elif fields and fields[0]:
                problem = f"a line of the {k}-grams has a logarithm, {k} words and perhaps a weight"
                self.fail(
                    f"{problem}: {self.line.strip()[:60]!r}" if seen < size else f"there are more {k}-grams than {size}"
                )
        else:
            self.advance()
        self.line = self.line.strip(_ASCII_SPACE)
        if seen < size:
            self.fail(f"{size} {k}-grams were announced, but there are {seen}")

    def _words(self, size: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Read the 1-grams: words, logarithms and logarithms of weights, in the order of the ids."""
        index = {word: x for x, word in enumerate(SPECIAL)}
        entries = [(-math.inf, 0.0)] * len(SPECIAL)
        seen = set()
        for value, word, weight in self._fields(1, size):
            word = "<unk>" if word.lower() == "<unk>" else word
            if word in seen:
                self.fail(f"{word!r} occurs a second time")
            seen.add(word)
            if index.setdefault(word, len(index)) == len(entries):
                entries.append((0.0, 0.0))
            most = math.inf if word == SPECIAL[BEGIN] else _ROUNDING
            entries[index[word]] = self._logarithm(value, most), self._logarithm(weight, math.inf)
        values, weights = np.array(entries).T
        values[BEGIN] = -math.inf
        return list(index), values, weights

    def _section(
        self, k: int, size: int, index: dict[str, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Read the n-grams of order `k`, sorted: ids, logarithms, logarithms of weights, and their lines."""
        ids, values, weights, lines = array("i"), array("d"), array("d"), array("q")
        for fields in self._fields(k, size):
            try:
                ids.extend([index[word] for word in fields[1:-1]])
            except KeyError as error:
                self.fail(f"{error} is not among the 1-grams")
            values.append(self._logarithm(fields[0], _ROUNDING))
            weights.append(self._logarithm(fields[-1], math.inf) if fields[-1] != "0" else 0.0)
            lines.append(self.number)
        table = np.array(ids, np.int32).reshape(-1, k)
        rows = np.lexsort(table.T[::-1])
        return table[rows], np.array(values)[rows], np.array(weights)[rows], np.array(lines)[rows]

    def _logarithm(self, text: str, most: float) -> float:
        """Return the natural logarithm of a base-10 logarithm in the file."""
        try:
            value = float(text)
        except ValueError:
            self.fail(f"not a number: {text[:40]!r}")
        if not value <= most or value == math.inf:
            self.fail(f"not the logarithm of a probability: {text[:40]!r}")
        return value * _TEN if value > _NEVER else -math.inf


def _spell(words: list[str], row: np.ndarray) -> str:
    return repr(" ".join(words[x] for x in row))
