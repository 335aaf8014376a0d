"""`Closing`: weights of features that say which spans are no phrases, whatever the grammar (`learn.closing`).

Most cells of a chart hold nothing that a parse will use, and the words at their ends show it: hardly any phrase ends in
an article. Such cells are *closed*, and no rule is applied there (Roark and Hollingshead 2008, "Classifying chart cells
for quadratic complexity context-free inference"; Bodenstab, Dunlop, Hall and Roark 2011). A cell over words
`i .. j - 1` is open if its score, a sum of weights, is at least `limit`. What it sees are tags, the most probable ones
by the Markov model that the grammar implies (`inference.contexts`), and kinds of words:

- of each end: the tags on both sides; those and one more, before or behind; the word on each side, and both;
- of both: the width (each up to 11, then to 19, to 29, and more); the first and last tag; the tags outside; each of
  these four with the width; the tags before, first and behind; the first, last and behind.

A feature is known by its hash, which is its place in a table of `2 ** bits` weights. A word that is not among `words`
is of the kind of its signature. Words and whole sentences are always open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from sapwood.errors import ModelError
from sapwood.grammar.packing import pack_places, unpack_places
from sapwood.schema import Column
from sapwood.shapes import Array, Float32, Int32, Shaped
from sapwood.trees.lexicon import Lexicon

BITS = range(8, 23)


class ClosingMetadata(TypedDict):
    """What a file says of a closing beside its arrays."""

    bits: int
    limit: float


CLOSING = (
    Column("closing.gaps", "uint8", "closing_gaps", unchecked=True, along="closing.gaps"),
    Column("closing.weights", "float16", "closing_weights", along="closing.gaps"),
    Column("closing.words", "int32", "closing_words", least=0, below="words", rises=True, along="closing.gaps"),
)


@dataclass(frozen=True, eq=False)
class Closing:
    """Which cells of charts are closed.

    Attributes
    ----------
    weights
        Weights of features by their hashes, a power of two of them.
    limit
        Cells that score less are closed.
    words
        Known words, as terminals of the grammar's lexicon, that are kinds of their own, in order.
    """

    weights: Float32[Array, "slots"]
    limit: float
    words: Int32[Array, "frequent"]

    def kinds(self, lexicon: Lexicon) -> Int32[Array, "terminals"]:
        """Return the kind of each terminal."""
        kinds = np.arange(lexicon.n_terminals, dtype=np.int32)
        rare = np.ones(lexicon.n_words, bool)
        rare[self.words] = False
        kinds[: lexicon.n_words][rare] = lexicon.n_words + lexicon.word_signature[rare]
        return kinds

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return everything as arrays, for storage."""
        places = np.flatnonzero(self.weights)
        halves = self.weights[places].astype(np.float16)
        return {"closing.gaps": pack_places(places), "closing.weights": halves, "closing.words": self.words}

    def metadata(self) -> ClosingMetadata:
        """Return the rest, as JSON values."""
        return {"bits": len(self.weights).bit_length() - 1, "limit": self.limit}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: ClosingMetadata | None
    ) -> Closing | None:
        """Build from what `to_arrays` and `metadata` return; None if there is neither."""
        if (metadata is None) != ("closing.gaps" not in arrays):
            raise ModelError("closing: there in part only")
        if metadata is None:
            return None
        if metadata["bits"] not in BITS or not np.isfinite(metadata["limit"]):
            raise ModelError("closing: a size or a limit that cannot be")
        places, halves = unpack_places(arrays["closing.gaps"]), arrays["closing.weights"]
        if len(places) != len(halves) or (len(places) and places[-1] >= 1 << metadata["bits"]):
            raise ModelError("closing.gaps: does not fit the weights")
        weights = np.zeros(1 << metadata["bits"], np.float32)
        weights[places] = halves
        return cls(weights, metadata["limit"], arrays["closing.words"])
