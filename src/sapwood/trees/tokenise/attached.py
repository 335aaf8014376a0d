"""Detector of plain text that was split at spaces only: tokens with punctuation attached.

Treebanks write a comma or a full stop as a token of its own. In text that was not tokenised, it is attached to a word
(`rained,`), and a parser takes the two for an unknown word. Evidence is a token that the model does not know, made of a
word and a mark that the model knows as a token of its own. A full stop counts only at the end of a sentence, because
abbreviations have one. The evidence is weighed against the tokens that are punctuation only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from sapwood.errors import listed
from sapwood.trees.punctuation import is_punctuation
from sapwood.trees.tokenise.penn import LEADING, OTHER, known

_STOPS: Final = ".!?。！？؟۔।"
_MARKS: Final = _STOPS + ",;:，；：、،؛"
# Attached marks that suffice as evidence before the text ends, and the number of sentences to look at.
_ENOUGH: Final = 3
_SENTENCES: Final = 1000
_EXAMPLES: Final = 3
# The remedy where tokens are required.
TOKENISE: Final = "tokenise it first, with `sapwood tokenise`"
T = TypeVar("T")


class PlainTextWarning(UserWarning):
    """Sentences look like plain text that is not tokenised."""


class AttachedPunctuation:
    """Detector that sentences are given to in turn, until it finds that they are plain text.

    Parameters
    ----------
    is_known
        Function that returns whether a token is in the vocabulary of the model.

    Examples
    --------
    >>> detector = AttachedPunctuation({",", ".", "rained", "it"}.__contains__)
    >>> detector.add("it rained , it rained .".split(), last=True)
    ''
    >>> detector = AttachedPunctuation({",", ".", "rained", "it"}.__contains__)
    >>> detector.add("it rained, it rained.".split(), last=True)
    "punctuation is attached to words ('rained,', 'rained.'), as in plain text that is not tokenised"
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._sentences = self._attached = self._separate = 0
        self._examples: list[str] = []
        self._done = False

    def add(self, words: Sequence[str], *, last: bool = False) -> str:
        """Count a sentence, and return the finding: a text the first time that the evidence suffices, else empty.

        Less evidence suffices with the `last` sentence of a text.
        """
        if self._done:
            return ""
        self._sentences += 1
        for place, word in enumerate(words):
            if len(word) < 2 or word[-1] not in _MARKS:
                self._separate += is_punctuation(word)
            elif is_punctuation(word):
                self._separate += 1
            elif self._is_attached(word, place == len(words) - 1):
                self._attached += 1
                if len(self._examples) < _EXAMPLES:
                    self._examples.append(word)
        if self._attached > 2 * self._separate and (last or self._attached >= _ENOUGH):
            self._done = True
            shown = listed(map(repr, self._examples))
            return f"punctuation is attached to words ({shown}), as in plain text that is not tokenised"
        self._done = self._sentences >= _SENTENCES
        return ""

    def finding(self, sentences: Iterable[Sequence[str]]) -> str:
        """Return the finding for a whole text, empty if there is none."""
        return next(filter(None, map(self.add, sentences)), "") or self.add([], last=True)

    def watched(self, sentences: Iterable[T], tell: Callable[[str], object]) -> Iterator[T]:
        """Yield sentences, and call `tell` with the finding, if any, at once or at the end."""
        for sentence in sentences:
            if not self._done and isinstance(sentence, Sequence):
                self._report(self.add([word for word in sentence if isinstance(word, str)]), tell)
            yield sentence
        self._report(self.add([], last=True), tell)

    @staticmethod
    def _report(finding: str, tell: Callable[[str], object]) -> None:
        if finding:
            tell(finding)

    def _is_attached(self, word: str, final: bool) -> bool:
        """Return whether a word that ends in a mark is unknown, and would be two known tokens."""
        mark, stem = word[-1], word[:-1].rstrip("\"'”’»)")
        if not stem[-1:].isalpha() or len(stem) < 2 or any(sign in _MARKS for sign in stem):
            return False
        if mark == "." and (not final or known(stem, LEADING) or known(stem, OTHER)):
            return False
        return self._is_known(mark) and not self._is_known(word)
