"""Unseen punctuation: the known punctuation that stands in for a token that training never had.

In a small treebank some punctuation never occurs, and its signature would give it the tags of rare content words: `?`
would become a noun. But all punctuation of one kind has much the same distribution, whatever the language. So an
unknown token of punctuation has the weights of the most frequent known token of its kind (`!` those of `.`), or else of
a related kind (`«` those of `"`, or of `,`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cached_property
from typing import Final, Literal

from sapwood.trees.punctuation import is_punctuation

Kind = Literal[
    "end", "pause", "dash", "hyphen", "quote", "opening quote", "closing quote", "opening", "closing", "inverted",
    "apostrophe", "other",
]  # fmt: skip
_BY_WORD: Final[dict[str, Kind]] = {
    "--": "dash", "---": "dash", "''": "closing quote", **dict.fromkeys(("-LRB-", "-LSB-", "-LCB-"), "opening"),
    **dict.fromkeys(("-RRB-", "-RSB-", "-RCB-"), "closing"),
}  # fmt: skip
_BY_CHARACTER: Final[dict[str, Kind]] = {
    **dict.fromkeys(".!?…。！？｡．।॥؟۔።‽⁇⁈⁉", "end"),
    **dict.fromkeys(",;:、，；：،؛·", "pause"),
    **dict.fromkeys("¿¡", "inverted"),
    **dict.fromkeys('"´', "quote"),
    **dict.fromkeys("`„‚", "opening quote"),
    **dict.fromkeys("'’", "apostrophe"),
    **dict.fromkeys("-‐‑", "hyphen"),
}
_BY_CATEGORY: Final[dict[str, Kind]] = {
    "Pd": "dash", "Pi": "opening quote", "Pf": "closing quote", "Ps": "opening", "Pe": "closing",
}  # fmt: skip
_SEPARATORS: Final[tuple[Kind, ...]] = ("pause", "end")
# Kinds that stand in for a kind, the best first. Apostrophes and other signs (`/`, `*`) are too diverse to stand in.
_STAND_INS: Final[dict[Kind, tuple[Kind, ...]]] = {
    "end": ("end", "pause"),
    "pause": ("pause", "dash", "end"),
    "dash": ("dash", *_SEPARATORS),
    "hyphen": ("hyphen", "dash", *_SEPARATORS),
    "quote": ("quote", "closing quote", "opening quote", *_SEPARATORS),
    "opening quote": ("opening quote", "quote", *_SEPARATORS),
    "closing quote": ("closing quote", "quote", *_SEPARATORS),
    "opening": ("opening", "opening quote", "quote", *_SEPARATORS),
    "closing": ("closing", "closing quote", "quote", *_SEPARATORS),
    "inverted": ("inverted", "opening quote", "quote", *_SEPARATORS),
    "apostrophe": ("quote", "closing quote", *_SEPARATORS),
    "other": _SEPARATORS,
}


def kind_of(word: str) -> Kind | None:
    """Return the kind of punctuation that a word is, by its first character; None if it is not punctuation.

    >>> [kind_of(word) for word in ("?!", "--", "«", "%", "a")]
    ['end', 'dash', 'opening quote', None, None]
    """
    if not is_punctuation(word) or word[0].isalpha():
        return None
    found = _BY_WORD.get(word) or _BY_CHARACTER.get(word[0]) or _BY_CATEGORY.get(unicodedata.category(word[0]))
    return found or "other"


class KnownPunctuation:
    """The punctuation of a vocabulary.

    Parameters
    ----------
    words
        All words, the most frequent first.

    Examples
    --------
    >>> known = KnownPunctuation(["the", ",", ".", "dogs", '"', "!"])
    >>> known.stand_in("?"), known.stand_in("»"), known.stand_in("cats")
    ('.', '"', None)
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = words

    @cached_property
    def _most_frequent(self) -> dict[Kind, str]:
        found: dict[Kind, str] = {}
        for word in self._words:
            if (kind := kind_of(word)) is not None:
                found.setdefault(kind, word)
        return found

    def stand_in(self, word: str) -> str | None:
        """Return the known word whose weights an unknown word has; None if it is not punctuation, or no word fits."""
        kind = kind_of(word)
        if kind is None:
            return None
        known = self._most_frequent
        return next((known[other] for other in _STAND_INS[kind] if other in known), None)
