"""Signatures of unknown words, from fine to coarse.

A signature combines features available in any script: capitalisation, digits, punctuation, script, and
a suffix and a prefix of the word. The suffixes and prefixes worth distinguishing are learned from the
treebank's own rare words: a suffix is kept when it is clearly more informative about the tag than the
shorter suffix it extends (a G-test), so English keeps `-ing`, Icelandic keeps longer ones, and a
language with uninformative suffixes keeps none.

`SignatureModel.chain(word, initial)` returns the signatures from the finest to the coarsest; the last
one is always `UNK`, which every word has.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from sapwood.errors import ModelError
from sapwood.trees.lexicon.word_classes import WordClasses, class_names

UNKNOWN = "UNK"
# Names of the schemes of learned signatures in files; the older one has a signature for unknown punctuation, too.
Scheme: TypeAlias = Literal["learned", "learned+stand-ins", "berkeley"]
LEARNED: Final = "learned"
LEARNED_WITH_STAND_INS: Final = "learned+stand-ins"
# G is 2 n KL(longer || shorter): twice the gain in log-likelihood from splitting the affix off. By
# chance alone it is about the number of tags seen, give or take its root: require well above that.
_MIN_DEVIATIONS = 6.0
_MIN_TYPES = 5
_MAX_ENDING = 6
_MAX_BEGINNING = 4


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Return the script of a letter, `""` for Latin."""
    name = unicodedata.name(char, "UNKNOWN").split(" ")[0]
    return "" if name in ("LATIN", "MODIFIER") else name


def shape(word: str, initial: bool) -> str:
    """Return the coarse shape of a word: case, digits, punctuation, script.

    >>> shape("1,250.5", False), shape("Reykjavik", False), shape("e-mails", False)
    ('#', 'Aa', 'a-')
    """
    letters = [char for char in word if char.isalpha()]
    digits = sum(char.isdigit() for char in word)
    if not letters:
        if digits:
            return "#" if not any(char in ":/-" for char in word) else "#:"
        return "punctuation" if all(unicodedata.category(char)[0] in "PS" for char in word) else "other"
    pieces = []
    upper = sum(char.isupper() for char in letters)
    lower = sum(char.islower() for char in letters)
    if upper == 0 and lower == 0:
        pieces.append("x")  # a script without case
    elif upper == 0:
        pieces.append("a")
    elif lower == 0:
        pieces.append("A" if len(letters) == 1 else "AA")
    elif letters[0].isupper() and upper == 1:
        pieces.append("Aa")
    else:
        pieces.append("aA")
    if initial and upper:
        pieces.append("<")
    if digits:
        pieces.append("#")
    inner = word[1:-1]
    if "@" in inner or "/" in word or ".." in word or "www." in word:
        pieces.append("@")
    elif "-" in inner or "–" in inner:
        pieces.append("-")
    elif "'" in word or "’" in word:
        pieces.append("'")
    if word.endswith("."):
        pieces.append(".")
    script = _script(letters[0])
    if script:
        pieces.append(script)
    return "".join(pieces)


@dataclass(frozen=True)
class SignatureModel:
    """The suffixes and prefixes that signatures use; see the module docstring.

    `lower_known` tells `chain` that the lower-case form of a capitalised word is in the vocabulary,
    which strongly suggests that the word is capitalised only for its position. For words that have
    `classes` from plain text, these come first. With `stand_ins`, unknown punctuation has the weights of known
    punctuation instead of a signature's (`sapwood.trees.lexicon.unseen_punctuation`).
    """

    endings: frozenset[str] = frozenset()
    beginnings: frozenset[str] = frozenset()
    classes: WordClasses | None = None
    stand_ins: bool = False

    @property
    def scheme(self) -> Scheme:
        """Name of the scheme in files."""
        return LEARNED_WITH_STAND_INS if self.stand_ins else LEARNED

    def chain(self, word: str, initial: bool, lower_known: bool = False) -> list[str]:
        """Return the signatures of a word, the finest first, `UNK` last."""
        look = shape(word, initial)
        if lower_known:
            look += "~"
        found = [UNKNOWN, look]
        if any(char.isalpha() for char in word):
            lowered = word.lower()
            for length in range(1, min(_MAX_ENDING, len(word) - 1) + 1):
                if lowered[-length:] in self.endings:
                    found.append(f"{look} *{lowered[-length:]}")
            for length in range(1, min(_MAX_BEGINNING, len(word) - 1) + 1):
                if lowered[:length] in self.beginnings:
                    found.append(f"{found[-1]} {lowered[:length]}*")
        return [f"{look} {name}" for name in class_names(self.classes, word)] + found[::-1]

    @classmethod
    def learn(cls, tag_counts: Mapping[str, Mapping[str, float]], classes: WordClasses | None = None) -> SignatureModel:
        """Choose suffixes and prefixes from rare words: word -> tag -> count."""
        lowered: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for word, tags in tag_counts.items():
            if any(char.isalpha() for char in word):
                # One vote per word: what matters is the number of different words with a suffix.
                total = sum(tags.values())
                for tag, count in tags.items():
                    lowered[word.lower()][tag] += count / total
        endings = _useful(lowered, _MAX_ENDING, lambda word, length: word[-length:])
        beginnings = _useful(lowered, _MAX_BEGINNING, lambda word, length: word[:length], min_length=2)
        return cls(frozenset(endings), frozenset(beginnings), classes, stand_ins=True)


def _useful(
    lowered: Mapping[str, Mapping[str, float]], longest: int, cut: Callable[[str, int], str], min_length: int = 1
) -> Iterable[str]:
    """Return the affixes that pass the G-test against the longest kept affix they extend."""
    everything: dict[str, float] = defaultdict(float)
    by_affix: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    types: Counter[str] = Counter()
    for word, tags in lowered.items():
        affixes = [cut(word, length) for length in range(min_length, min(longest, len(word) - 1) + 1)]
        types.update(affixes)
        for tag, count in tags.items():
            everything[tag] += count
            for affix in affixes:
                by_affix[affix][tag] += count
    kept: dict[str, dict[str, float]] = {}
    for affix in sorted(by_affix, key=lambda affix: (len(affix), affix)):
        if types[affix] < _MIN_TYPES:
            continue
        reference: Mapping[str, float] = everything
        for length in range(len(affix) - 1, min_length - 1, -1):
            if cut(affix, length) in kept:
                reference = kept[cut(affix, length)]
                break
        chance = len(by_affix[affix])
        if _g_statistic(by_affix[affix], reference) >= chance + _MIN_DEVIATIONS * (2 * chance) ** 0.5:
            kept[affix] = by_affix[affix]
    return kept.keys()


def _g_statistic(part: Mapping[str, float], whole: Mapping[str, float]) -> float:
    """Return 2 n KL(part || whole) for two count tables, where `whole` includes `part`."""
    n_part, n_whole = sum(part.values()), sum(whole.values())
    ours = np.fromiter(part.values(), float)
    theirs = np.fromiter((whole[tag] for tag in part), float)
    return float(2 * np.sum(ours * np.log(ours / n_part * n_whole / theirs)))


def count_tags(pairs: Iterable[tuple[str, str, float]]) -> dict[str, dict[str, float]]:
    """Collect `(word, tag, count)` into word -> tag -> count."""
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for word, tag, count in pairs:
        table[word][tag] = table[word].get(tag, 0.0) + count
    return table


BERKELEY_OTHER = "UNK-OTHER"
# Suffixes that BerkeleyParser's signatures distinguish, in its order of look-up.
_ENGLISH_ENDINGS = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")


@dataclass(frozen=True)
class BerkeleySignatures:
    """BerkeleyParser's signatures of unknown words, for English.

    Its `UNK`, a word without letters, digits and dashes, is `UNK-OTHER` here, because `UNK` is any unknown word.

    >>> scheme = BerkeleySignatures()
    >>> [scheme.chain(word, False)[0] for word in ("rebuilding", "Reykjavik", "e-mails", "30-year")]
    ['UNK-LC-ing', 'UNK-CAPS', 'UNK-LC-DASH-s', 'UNK-LC-NUM-DASH']
    >>> scheme.chain("Usually", True, lower_known=True)
    ['UNK-INITC-KNOWNLC-ly', 'UNK']
    """

    scheme: ClassVar[Scheme] = "berkeley"
    stand_ins: ClassVar[bool] = False

    def chain(self, word: str, initial: bool, lower_known: bool = False) -> list[str]:
        """Return the signature of a word, followed by `UNK`."""
        capitals = sum(char.isupper() or char.istitle() for char in word)
        has_digit = any(char.isdigit() for char in word)
        first, lowered = word[:1], word.lower()
        found = UNKNOWN
        if first.isupper() or first.istitle():
            if initial and capitals == 1:
                found += "-INITC-KNOWNLC" if lower_known else "-INITC"
            else:
                found += "-CAPS"
        elif capitals and not first.isalpha():
            found += "-CAPS"
        elif any(char.islower() for char in word):
            found += "-LC"
        found += "-NUM" * has_digit + "-DASH" * ("-" in word)
        if lowered.endswith("s") and len(word) >= 3:
            found += "" if lowered[-2] in "siu" else "-s"
        elif len(word) >= 5 and "-" not in word and not (has_digit and capitals):
            found += next((f"-{ending}" for ending in _ENGLISH_ENDINGS if lowered.endswith(ending)), "")
        return [BERKELEY_OTHER if found == UNKNOWN else found, UNKNOWN]


Signatures: TypeAlias = SignatureModel | BerkeleySignatures


def make_signatures(
    scheme: str, endings: Iterable[str], beginnings: Iterable[str], classes: WordClasses | None
) -> Signatures:
    """Return the signatures of a scheme, given by its name in files; raises `ModelError` for any other name."""
    if scheme == BerkeleySignatures.scheme:
        return BerkeleySignatures()
    if scheme not in (LEARNED, LEARNED_WITH_STAND_INS):
        raise ModelError(f"lexicon.scheme: no scheme of signatures is called {scheme[:40]!r}")
    stand_ins = scheme == LEARNED_WITH_STAND_INS
    return SignatureModel(frozenset(endings), frozenset(beginnings), classes, stand_ins)
