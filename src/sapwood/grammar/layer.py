"""`Layer`: weights of features of words and spans, to be used on top of a grammar's posteriors (`inference.layered`).

A feature is a template, the symbol or rule that it is about, and what it sees of the words around: it is known by its
hash alone, which is its place in a table of `2 ** bits` weights (Weinberger et al. 2009). Nothing about the features
needs to be kept, then, but the weights that are not zero, and which words and endings of words are frequent enough to
be told apart.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import ModelError
from sapwood.schema import Column
from sapwood.shapes import Array, Float32, Float64, Shaped, UInt32
from sapwood.storage import pack_strings, unpack_strings
from sapwood.trees.lexicon import canonical
from sapwood.trees.signatures import shape
from sapwood.trees.word_classes import WordClasses, class_names

# Groups of features that can be left out, as bits in this order (`FeatureGroup` in `native/inference/layer.hpp`).
GROUPS = ("words", "endings", "tags", "spelling", "lengths", "rules", "splits", "pairs", "posteriors", "classes")
DENSE = 10
# Weights of the grammar's own distribution: what a layer begins with. Those of another scorer's come last.
GRAMMAR_ALONE = (1.0, -1.0, 0.0, 1.0) + (0.0,) * (DENSE - 4)
_OTHERS = 2
BITS = range(8, 27)
_COLUMNS = 14
_KEPT_ROWS = 1 << 15
# The table of no words.
NO_WORDS = np.zeros((0, _COLUMNS), np.uint32)
_LONGEST_ENDING, _LONGEST_BEGINNING = 5, 3
# An ending is frequent if a thousandth of all words have it, between these bounds.
_FEW_TOKENS, _MANY_TOKENS, _SHARE = 10, 100, 1000


class LayerMetadata(TypedDict):
    """What a file says of a layer beside its arrays."""

    bits: int
    groups: list[str]
    threshold: float


LAYER = (
    Column("layer.places", "uint32", "layer_weights", rises=True, along="layer.places"),
    Column("layer.values", "float32", "layer_weights", along="layer.places"),
    Column("layer.dense", "float64", str(DENSE), along="layer.places"),
    Column("layer.words", "text", "layer_words", along="layer.places"),
    Column("layer.endings", "text", "layer_endings", along="layer.places"),
)


@dataclass(frozen=True, eq=False)
class FrequentWords:
    """Which words and endings of words are frequent enough for features of their own.

    A rarer word is known by its shape and its longest frequent ending (Hall, Durrett and Klein 2014).
    """

    words: tuple[str, ...]
    endings: tuple[str, ...]

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]], *, least: int = 3) -> FrequentWords:
        """Return the words that these sentences have `least` times or more, and the frequent endings of all of them."""
        words: Counter[str] = Counter()
        for sentence in sentences:
            words.update(map(canonical, sentence))
        enough = min(max(words.total() // _SHARE, _FEW_TOKENS), _MANY_TOKENS)
        endings: Counter[str] = Counter()
        for word, count in words.items():
            lowered = word.lower()
            for start in range(len(lowered)):
                endings[lowered[start:]] += count
        return cls(
            tuple(sorted(word for word, count in words.items() if count >= least)),
            tuple(sorted(ending for ending, count in endings.items() if count >= enough)),
        )

    def __getstate__(self) -> dict[str, Any]:
        # What is only kept at hand is not copied, nor sent to others.
        return {name: value for name, value in vars(self).items() if name not in ("_rows", "_known", "_longest")}

    @cached_property
    def _rows(self) -> dict[tuple[str, bool], np.ndarray]:
        return {}  # rows that are kept at hand

    @cached_property
    def _known(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self.words), frozenset(self.endings)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.endings), default=0)

    def row(self, word: str, initial: bool, classes: WordClasses | None = None) -> UInt32[Array, "columns"]:
        """Return what features see of a word: numbers, as `WordColumn` in `native/inference/layer.hpp` has them.

        Of the classes of words, they see the coarsest and the finest.
        """
        words, endings = self._known
        word, look = canonical(word), shape(word, initial)
        lowered = word.lower()
        first = max(len(lowered) - self._longest, 0)
        ending = next((lowered[at:] for at in range(first, len(lowered)) if lowered[at:] in endings), None)
        ending = f"?{look}" if ending is None else ending
        seen = [f"w{word}" if word in words else f"?{look} {ending}", f"e{ending}", f"s{look}"]
        seen.append(f"l{lowered}" if word in words else "l?")
        seen += [f"-{lowered[-length:]}" for length in range(1, _LONGEST_ENDING + 1)]
        seen += [f"{lowered[:length]}-" for length in range(1, _LONGEST_BEGINNING + 1)]
        fine_to_coarse = class_names(classes, word)
        seen += [fine_to_coarse[-1], fine_to_coarse[0]] if fine_to_coarse else ["@", "@"]
        return np.array([zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in seen], np.uint32)

    def table(
        self, words: Sequence[str], classes: WordClasses | None = None
    ) -> UInt32[Array, "sentence_words columns"]:
        """Return the rows of a sentence's words."""
        rows = []
        for place, word in enumerate(words):
            key = word, place == 0
            row = self._rows.get(key)
            if row is None:
                if len(self._rows) >= _KEPT_ROWS:
                    self._rows.clear()
                row = self._rows[key] = self.row(*key, classes)
            rows.append(row)
        return np.array(rows, np.uint32).reshape(-1, _COLUMNS)


@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    """Weights of features, by their hashes.

    Attributes
    ----------
    bits
        The table of weights has `2 ** bits` places.
    places, values
        Where it is not zero, and what is there.
    dense
        What logarithms of the grammar's posteriors are multiplied by (`DenseWeight` in `native/inference/layer.hpp`).
    frequent
        Which words and endings are told apart.
    classes
        Classes of words from plain text, if there are any.
    groups
        The groups of features that it has, of `GROUPS`.
    threshold
        Edges to which the grammar gives a smaller posterior are left out.
    """

    bits: int
    places: UInt32[Array, "weights"]
    values: Float32[Array, "weights"]
    dense: Float64[Array, "10"]
    frequent: FrequentWords
    groups: tuple[str, ...] = GROUPS
    threshold: float = 1e-4
    classes: WordClasses | None = None

    @classmethod
    def plain(cls, *, threshold: float = 1e-4) -> Layer:
        """Return a layer without features: the grammar's own distribution."""
        nothing = np.zeros(0, np.uint32)
        dense = np.array(GRAMMAR_ALONE)
        return cls(BITS[0], nothing, nothing.astype(np.float32), dense, FrequentWords((), ()), (), threshold)

    def beside(self, weight: float) -> Layer:
        """Return the layer with what another scorer says counting so much."""
        dense = self.dense.copy()
        dense[-_OTHERS:] = weight
        return replace(self, dense=dense)

    def __repr__(self) -> str:
        return f"<Layer: {len(self.places):,} weights, {len(self.frequent.words):,} words>"

    @property
    def mask(self) -> int:
        """The groups of features as bits."""
        return sum(1 << number for number, name in enumerate(GROUPS) if name in self.groups)

    def weights(self) -> Float32[Array, "table"]:
        """Return the whole table."""
        table = np.zeros(1 << self.bits, np.float32)
        table[self.places] = self.values
        return table

    def table(self, words: Sequence[str]) -> UInt32[Array, "sentence_words columns"]:
        """Return what features see of a sentence's words."""
        return self.frequent.table(words, self.classes)

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return what is stored as arrays."""
        return {
            "layer.places": self.places,
            "layer.values": self.values,
            "layer.dense": self.dense,
            "layer.words": pack_strings(self.frequent.words),
            "layer.endings": pack_strings(self.frequent.endings),
        }

    def metadata(self) -> LayerMetadata:
        """Return what is stored beside the arrays."""
        return {"bits": self.bits, "groups": list(self.groups), "threshold": self.threshold}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Shaped[Array, "..."]],
        metadata: LayerMetadata | None,
        classes: WordClasses | None = None,
    ) -> Layer | None:
        """Build from what was stored, with the classes of words in the same file; None if there is no layer."""
        if (metadata is None) != ("layer.places" not in arrays):
            raise ModelError("layer.places: missing, or there is nothing said about a layer")
        if metadata is None:
            return None
        bits, groups, threshold = metadata["bits"], tuple(metadata["groups"]), metadata["threshold"]
        places = arrays["layer.places"]
        if bits not in BITS:
            raise ModelError(f"layer.bits: {bits} is not {BITS[0]} to {BITS[-1]}")
        if len(places) and int(places[-1]) >= 1 << bits:
            raise ModelError(f"layer.places: beyond a table of {1 << bits} weights")
        if unknown := sorted(set(groups) - set(GROUPS)):
            raise ModelError(f"layer.groups: {unknown[0][:80]!r} is none of {', '.join(GROUPS)}")
        if not 0 <= threshold < 1:
            raise ModelError(f"layer.threshold: {threshold} is not at least 0 and below 1")
        words, endings = (tuple(unpack_strings(arrays[f"layer.{name}"])) for name in ("words", "endings"))
        return cls(
            bits=bits,
            places=places,
            values=arrays["layer.values"],
            dense=arrays["layer.dense"],
            frequent=FrequentWords(words, endings),
            groups=groups,
            threshold=float(threshold),
            classes=classes,
        )
