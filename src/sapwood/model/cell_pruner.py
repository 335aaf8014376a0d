"""Chart-cell pruner: a linear classifier of spans that cannot be phrases, independent of the grammar.

Most cells of a chart hold nothing that a parse will use, and the words at their ends show it: hardly any phrase ends in
an article. Such cells are pruned, and no rule is applied there (Roark and Hollingshead 2008, "Classifying chart cells
for quadratic complexity context-free inference"; Bodenstab, Dunlop, Hall and Roark 2011). A cell over words
`i .. j - 1` is kept if its score, a sum of feature weights, is at least `threshold`. Features combine tags, the most
probable ones under the Markov model that the grammar implies (`inference.chart.boundary_model`), and words:

- at each end: the tags on both sides; these and one more, before or after; the word on each side, and both words;
- of the whole span: the width (up to 11 exactly, then 12 to 19, 20 to 29, and more); the first and last tag; the tags
  outside; each of these four with the width; the tag before, the first and the tag after; the first, the last and the
  tag after.

A feature is hashed to an index into a table of `2 ** bits` weights. A word that is not among `words` is represented by
its signature. Single words and whole sentences are always kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from sapwood.errors import ModelError
from sapwood.grammar.io.codec import pack_places, unpack_places
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float32, Int32, Shaped
from sapwood.trees.lexicon.lexicon import Lexicon

BITS = range(8, 23)


class CellPrunerMetadata(TypedDict):
    """Metadata of a cell pruner in a model file."""

    bits: int
    limit: float


CELL_PRUNER_COLUMNS = (
    Column("closing.gaps", "uint8", "closing_gaps", unchecked=True, along="closing.gaps"),
    Column("closing.weights", "float16", "closing_weights", along="closing.gaps"),
    Column("closing.words", "int32", "closing_words", least=0, below="words", rises=True, along="closing.gaps"),
)


@dataclass(frozen=True, eq=False)
class CellPruner:
    """Chart-cell pruner.

    Attributes
    ----------
    weights
        Feature weights by hash; their number is a power of two.
    threshold
        Threshold: cells with a lower score are pruned.
    words
        Frequent words, as sorted terminals of the grammar's lexicon, that have features of their own.
    """

    weights: Float32[Array, "slots"]
    threshold: float
    words: Int32[Array, "frequent"]

    def word_ids(self, lexicon: Lexicon) -> Int32[Array, "terminals"]:
        """Return for each terminal the word or, if that is rare, the signature that its features use."""
        ids = np.arange(lexicon.n_terminals, dtype=np.int32)
        rare = np.ones(lexicon.n_words, bool)
        rare[self.words] = False
        ids[: lexicon.n_words][rare] = lexicon.n_words + lexicon.word_signature[rare]
        return ids

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored."""
        places = np.flatnonzero(self.weights)
        halves = self.weights[places].astype(np.float16)
        return {"closing.gaps": pack_places(places), "closing.weights": halves, "closing.words": self.words}

    def metadata(self) -> CellPrunerMetadata:
        """Return the metadata to be stored, as JSON values."""
        return {"bits": len(self.weights).bit_length() - 1, "limit": self.threshold}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: CellPrunerMetadata | None
    ) -> CellPruner | None:
        """Inverse of `to_arrays` and `metadata`; None if there is neither."""
        if (metadata is None) != ("closing.gaps" not in arrays):
            raise ModelError("closing: incomplete")
        if metadata is None:
            return None
        if metadata["bits"] not in BITS or not np.isfinite(metadata["limit"]):
            raise ModelError("closing: invalid size or threshold")
        places, halves = unpack_places(arrays["closing.gaps"]), arrays["closing.weights"]
        if len(places) != len(halves) or (len(places) and places[-1] >= 1 << metadata["bits"]):
            raise ModelError("closing.gaps: does not fit the weights")
        weights = np.zeros(1 << metadata["bits"], np.float32)
        weights[places] = halves
        return cls(weights, metadata["limit"], arrays["closing.words"])
