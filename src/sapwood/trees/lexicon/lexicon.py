"""Lexicon: numbers for known words and for signatures of unknown ones.

*Terminals* are the units with lexical weights: known words `0 .. n_words - 1`, then signatures
`n_words .. n_terminals - 1`. Each signature has a coarser parent (`UNK`, the last, is its own). Each
known word has a signature too, so that the statistics of rare words can back off to it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat

import numpy as np

from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int32, Shaped
from sapwood.trees.lexicon.signatures import LEARNED, UNKNOWN, SignatureModel, Signatures, make_signatures
from sapwood.trees.lexicon.unseen_punctuation import KnownPunctuation
from sapwood.trees.lexicon.word_classes import WORD_CLASSES, WordClasses

_MIN_SEEN = 3
# The arrays of a lexicon in a file.
LEXICON = (
    Column("lexicon.words", "text", "words"),
    Column("lexicon.signatures", "text", "signatures"),
    Column("lexicon.parent", "int32", "signatures", least=0, below="signatures"),
    Column("lexicon.word_signature", "int32", "words", least=0, below="signatures"),
    Column("lexicon.endings", "text", "endings"),
    Column("lexicon.beginnings", "text", "beginnings"),
    *WORD_CLASSES,
    Column("lexicon.scheme", "text", "1", along="lexicon.scheme"),
)
# Spellings of the same token in different treebanks and in plain text.
_ALIASES = {"-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "“": "``", "”": "''", "’": "'", "‘": "`"}
_ESCAPE = re.compile(r"\\+(?=[/*])")


def canonical(word: str) -> str:
    r"""Return the spelling under which a word is looked up, without bracket names, `\/` and curly quotes."""
    if word in _ALIASES:
        return _ALIASES[word]
    if "\\" in word:
        word = _ESCAPE.sub("", word)
    return word.replace("’", "'") if "’" in word else word


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Known words and signatures.

    Attributes
    ----------
    words
        Known words (canonical spelling), most frequent first.
    signatures
        Signatures, each before its parent; the last is `UNK`.
    parent
        The next coarser signature (the last one is its own parent).
    word_signature
        The signature that each word would have if it were unknown.
    model
        Scheme of signatures: learned prefixes and suffixes, or another scheme.
    """

    words: list[str]
    signatures: list[str]
    parent: Int32[Array, "signatures"]
    word_signature: Int32[Array, "words"]
    model: Signatures

    @property
    def n_words(self) -> int:
        """Number of known words."""
        return len(self.words)

    @property
    def n_terminals(self) -> int:
        """Number of known words and signatures."""
        return len(self.words) + len(self.signatures)

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def _signature_ids(self) -> dict[str, int]:
        return {signature: number for number, signature in enumerate(self.signatures)}

    @classmethod
    def build(
        cls,
        words: Sequence[str],
        rare: Iterable[tuple[str, bool]],
        model: Signatures,
        times: Iterable[float] | None = None,
    ) -> Lexicon:
        """Number the words, and the signatures of the given rare `(word, sentence-initial)` tokens.

        Each token counts once, or `times` gives its count. Signatures seen fewer than `_MIN_SEEN` times get no number.
        """
        known = set(words)
        chains: dict[tuple[str, ...], float] = defaultdict(float)
        for (word, initial), often in zip(rare, repeat(1.0) if times is None else times, strict=False):
            chains[tuple(model.chain(word, initial, _lower_known(word, known)))] += often
        seen: dict[str, float] = defaultdict(float)
        for chain, count in chains.items():
            for signature in chain:
                seen[signature] += count
        parents: dict[str, str] = {UNKNOWN: UNKNOWN}
        for chain in chains:
            kept = [signature for signature in chain if seen[signature] >= _MIN_SEEN - 1e-6 or signature == UNKNOWN]
            parents.update(pairwise(kept))
        # A signature is finer than its parent, so ordering by decreasing depth puts parents last.
        depth: dict[str, int] = {UNKNOWN: 0}
        for signature in parents:
            path = []
            while signature not in depth:
                path.append(signature)
                signature = parents[signature]
            for step, below in enumerate(reversed(path), 1):
                depth[below] = depth[signature] + step
        signatures = sorted(parents, key=lambda signature: (-depth[signature], signature))
        ids = {signature: number for number, signature in enumerate(signatures)}
        parent = np.array([ids[parents[signature]] for signature in signatures], np.int32)
        lexicon = cls(list(words), signatures, parent, np.zeros(len(words), np.int32), model)
        lexicon.word_signature[:] = [lexicon.signature(word, False) for word in words]
        return lexicon

    @property
    def classes(self) -> WordClasses | None:
        """Word classes from plain text, if the signatures use any."""
        return self.model.classes if isinstance(self.model, SignatureModel) else None

    def signature(self, word: str, initial: bool) -> int:
        """Return the number of the finest known signature of a word."""
        ids = self._signature_ids
        for signature in self.model.chain(word, initial, _lower_known(word, self._word_ids)):
            if signature in ids:
                return ids[signature]
        return len(self.signatures) - 1

    def terminal(self, word: str, initial: bool) -> int:
        """Return the terminal for a word of a sentence: the word itself or its stand-in if known, else its signature.

        See `stand_in`.
        """
        word = canonical(word)
        number = self._word_ids.get(word)
        if number is None and (other := self._stand_in(word)) is not None:
            return self._word_ids[other]
        return number if number is not None else self.n_words + self.signature(word, initial)

    def stand_in(self, word: str) -> str:
        """Return the known punctuation that stands in for unknown punctuation; any other word is returned as it is.

        Components that see words use it, too, so that all parts of a model treat unknown punctuation alike.
        """
        other = None if self.knows(word) else self._stand_in(canonical(word))
        return word if other is None else other

    def _stand_in(self, word: str) -> str | None:
        return self._known_punctuation.stand_in(word) if self.model.stand_ins else None

    @cached_property
    def _known_punctuation(self) -> KnownPunctuation:
        return KnownPunctuation(self.words)

    def knows(self, word: str) -> bool:
        """Return whether a word is known, in any spelling that it is looked up under."""
        return canonical(word) in self._word_ids

    def terminals(self, sentence: Sequence[str]) -> Int32[Array, "sentence_words"]:
        """Return the terminals of a whole sentence."""
        return np.array([self.terminal(word, index == 0) for index, word in enumerate(sentence)], np.int32)

    def name(self, terminal: int) -> str:
        """Return the word, or the signature in angle brackets."""
        if terminal < self.n_words:
            return self.words[terminal]
        return f"<{self.signatures[terminal - self.n_words]}>"

    def chain(self, signature: int) -> Iterator[int]:
        """Yield the number of the signature and those of its ancestors, up to `UNK`."""
        while True:
            yield signature
            above = int(self.parent[signature])
            if above == signature:
                return
            signature = above

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return everything as arrays, for storage."""
        learned = self.model if isinstance(self.model, SignatureModel) else SignatureModel()
        # Files of the first scheme have no name for it.
        scheme = {} if self.model.scheme == LEARNED else {"lexicon.scheme": pack_strings([self.model.scheme])}
        return {
            **scheme,
            "lexicon.words": pack_strings(self.words),
            "lexicon.signatures": pack_strings(self.signatures),
            "lexicon.parent": self.parent,
            "lexicon.word_signature": self.word_signature,
            "lexicon.endings": pack_strings(sorted(learned.endings)),
            "lexicon.beginnings": pack_strings(sorted(learned.beginnings)),
            **({} if learned.classes is None else learned.classes.to_arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[Array, "..."]]) -> Lexicon:
        """Build from the result of `to_arrays`; raises `ModelError` for an unknown scheme of signatures."""
        scheme = LEARNED
        if "lexicon.scheme" in arrays:
            (scheme,) = unpack_strings(arrays["lexicon.scheme"])
        endings, beginnings = (unpack_strings(arrays[f"lexicon.{name}"]) for name in ("endings", "beginnings"))
        model = make_signatures(scheme, endings, beginnings, WordClasses.from_arrays(arrays))
        return cls(
            unpack_strings(arrays["lexicon.words"]),
            unpack_strings(arrays["lexicon.signatures"]),
            arrays["lexicon.parent"],
            arrays["lexicon.word_signature"],
            model,
        )


def _lower_known(word: str, known: object) -> bool:
    """Return whether the word is capitalised and its lower-case form is known."""
    lowered = word.lower()
    return lowered != word and lowered in known  # type: ignore[operator]
