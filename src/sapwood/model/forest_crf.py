"""Forest CRF: feature weights of a log-linear model on top of a grammar's posteriors.

A feature consists of a template, the symbol or rule that it scores, and properties of the words around it. It is
identified by its hash alone, an index into a table of `2 ** bits` weights (Weinberger et al. 2009). Only the non-zero
weights are stored, together with the words and suffixes that are frequent enough to have features of their own.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.errors import ModelError
from sapwood.kernels import DenseWeight, FeatureGroup
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float32, Float64, Shaped, UInt32
from sapwood.trees.lexicon.lexicon import canonical
from sapwood.trees.lexicon.signatures import shape
from sapwood.trees.lexicon.word_classes import WordClasses, class_names

# Feature groups that can be disabled.
GROUPS = tuple(group.name for group in FeatureGroup)
DENSE = len(DenseWeight)
# Initial dense weights: the grammar's own distribution.
_ALONE = {DenseWeight.edge: 1.0, DenseWeight.parent: -1.0, DenseWeight.root: 1.0}
GRAMMAR_ONLY = tuple(_ALONE.get(weight, 0.0) for weight in DenseWeight)
BITS = range(8, 27)
_KEPT_ROWS = 1 << 15
# Feature table of an empty sentence.
NO_WORDS = np.zeros((0, kernels.WORD_COLUMNS), np.uint32)
# A suffix is frequent if a thousandth of all words have it, between these bounds.
_FEW_TOKENS, _MANY_TOKENS, _SHARE = 10, 100, 1000
# Longest suffix: a word of a thousand characters would have half a million characters of them.
_LONGEST = 64


class ForestCRFMetadata(TypedDict):
    """Metadata of a CRF in a model file."""

    bits: int
    groups: list[str]
    threshold: float


CRF_COLUMNS = (
    Column("layer.places", "uint32", "layer_weights", rises=True, along="layer.places"),
    Column("layer.values", "float32", "layer_weights", along="layer.places"),
    Column("layer.dense", "float64", str(DENSE), along="layer.places"),
    Column("layer.words", "text", "layer_words", along="layer.places"),
    Column("layer.endings", "text", "layer_endings", along="layer.places"),
)


@dataclass(frozen=True, eq=False)
class FeatureVocabulary:
    """Feature vocabulary: words and suffixes that are frequent enough for features of their own.

    A rarer word is represented by its shape and its longest frequent suffix (Hall, Durrett and Klein 2014).
    """

    words: tuple[str, ...]
    endings: tuple[str, ...]

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]], *, least: int = 3) -> FeatureVocabulary:
        """Return the words that occur at least `least` times in these sentences, and frequent suffixes of all words."""
        words: Counter[str] = Counter()
        for sentence in sentences:
            words.update(map(canonical, sentence))
        enough = min(max(words.total() // _SHARE, _FEW_TOKENS), _MANY_TOKENS)
        endings: Counter[str] = Counter()
        for word, count in words.items():
            lowered = word.lower()
            for start in range(max(len(lowered) - _LONGEST, 0), len(lowered)):
                endings[lowered[start:]] += count
        return cls(
            tuple(sorted(word for word, count in words.items() if count >= least)),
            tuple(sorted(ending for ending, count in endings.items() if count >= enough)),
        )

    def __getstate__(self) -> dict[str, Any]:
        # The cache is neither copied nor sent to workers.
        return {name: value for name, value in vars(self).items() if name not in ("_rows", "_known", "_longest")}

    @cached_property
    def _rows(self) -> dict[tuple[str, bool], bytes]:
        return {}  # cache of rows

    @cached_property
    def _known(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self.words), frozenset(self.endings)

    @cached_property
    def _longest(self) -> int:
        return min(max(map(len, self.endings), default=0), _LONGEST)

    def row(self, word: str, initial: bool, classes: WordClasses | None = None) -> UInt32[Array, "columns"]:
        """Return the features of a word as integers, in the order of `WordColumn` in `native/forest_crf`.

        Features use the coarsest and the finest word class.
        """
        words, endings = self._known
        word, look = canonical(word), shape(word, initial)
        lowered = word.lower()
        first = max(len(lowered) - self._longest, 0)
        ending = next((lowered[at:] for at in range(first, len(lowered)) if lowered[at:] in endings), None)
        ending = f"?{look}" if ending is None else ending
        seen = [f"w{word}" if word in words else f"?{look} {ending}", f"e{ending}", f"s{look}"]
        seen.append(f"l{lowered}" if word in words else "l?")
        seen += [f"-{lowered[-length:]}" for length in range(1, kernels.LONGEST_ENDING + 1)]
        seen += [f"{lowered[:length]}-" for length in range(1, kernels.LONGEST_BEGINNING + 1)]
        fine_to_coarse = class_names(classes, word)
        seen += [fine_to_coarse[-1], fine_to_coarse[0]] if fine_to_coarse else ["@", "@"]
        return np.array([zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in seen], np.uint32)

    def table(
        self, words: Sequence[str], classes: WordClasses | None = None
    ) -> UInt32[Array, "sentence_words columns"]:
        """Return the feature rows of a sentence's words."""
        rows = []
        for place, word in enumerate(words):
            key = word, place == 0
            row = self._rows.get(key)
            if row is None:
                if len(self._rows) >= _KEPT_ROWS:
                    self._rows.clear()
                row = self._rows[key] = self.row(*key, classes).tobytes()
            rows.append(row)
        return np.frombuffer(b"".join(rows), np.uint32).reshape(-1, kernels.WORD_COLUMNS)


@dataclass(frozen=True, eq=False, repr=False)
class ForestCRF:
    """Forest CRF with hashed features.

    Attributes
    ----------
    bits
        The table of weights has `2 ** bits` entries.
    places, values
        Indices and values of the non-zero weights.
    dense
        Coefficients of the logarithms of the grammar's posteriors (`DenseWeight` in `native/forest_crf`).
    frequent
        Words and suffixes with features of their own.
    classes
        Word classes from unlabelled text, if any.
    groups
        Enabled feature groups, of `GROUPS`.
    threshold
        Edges with a smaller posterior under the grammar are pruned.
    """

    bits: int
    places: UInt32[Array, "weights"]
    values: Float32[Array, "weights"]
    dense: Float64[Array, "10"]
    frequent: FeatureVocabulary
    groups: tuple[str, ...] = GROUPS
    threshold: float = 1e-4
    classes: WordClasses | None = None

    @classmethod
    def identity(cls, *, threshold: float = 1e-4) -> ForestCRF:
        """Return a CRF without features: the grammar's own distribution."""
        nothing = np.zeros(0, np.uint32)
        dense = np.array(GRAMMAR_ONLY)
        return cls(BITS[0], nothing, nothing.astype(np.float32), dense, FeatureVocabulary((), ()), (), threshold)

    def with_scorer_weight(self, weight: float) -> ForestCRF:
        """Return the CRF with this weight of the span scorer."""
        dense = self.dense.copy()
        dense[[DenseWeight.other_inner, DenseWeight.other_leaf]] = weight
        return replace(self, dense=dense)

    @property
    def scorer_weight(self) -> float:
        """Weight of the span scorer."""
        return float(self.dense[DenseWeight.other_inner])

    def __repr__(self) -> str:
        return f"<ForestCRF: {len(self.places):,} weights, {len(self.frequent.words):,} words>"

    @property
    def mask(self) -> int:
        """Enabled feature groups as bits."""
        return sum(FeatureGroup[name].value for name in set(self.groups))

    def weights(self) -> Float32[Array, "table"]:
        """Return the dense table of weights."""
        table = np.zeros(1 << self.bits, np.float32)
        table[self.places] = self.values
        return table

    def table(self, words: Sequence[str]) -> UInt32[Array, "sentence_words columns"]:
        """Return the feature rows of a sentence's words."""
        return self.frequent.table(words, self.classes)

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored."""
        return {
            "layer.places": self.places,
            "layer.values": self.values,
            "layer.dense": self.dense,
            "layer.words": pack_strings(self.frequent.words),
            "layer.endings": pack_strings(self.frequent.endings),
        }

    def metadata(self) -> ForestCRFMetadata:
        """Return the metadata to be stored."""
        return {"bits": self.bits, "groups": list(self.groups), "threshold": self.threshold}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Shaped[Array, "..."]],
        metadata: ForestCRFMetadata | None,
        classes: WordClasses | None = None,
    ) -> ForestCRF | None:
        """Inverse of `to_arrays` and `metadata`, given the word classes of the same file; None without a CRF."""
        if (metadata is None) != ("layer.places" not in arrays):
            raise ModelError("layer.places: the array or its metadata is missing")
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
            frequent=FeatureVocabulary(words, endings),
            groups=groups,
            threshold=float(threshold),
            classes=classes,
        )
