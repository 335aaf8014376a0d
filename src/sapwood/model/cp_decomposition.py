"""CP decomposition of a grammar's rules: factors that the parser uses in place of the rules.

The tensor of all rules, with the states of all symbols along each axis, is approximated by a sum of `R` products
(Cohen, Satta and Collins 2013; canonical polyadic decomposition, PARAFAC):

    T(i, j, k)  ~  sum over r of parent(i, r) left(j, r) right(k, r)

Inside and outside then take `R` steps for each split of a span. `sapwood.automata.reduce.cp_decomposition` makes the
factors, and `sapwood.inference.cp_decomposition` parses with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from sapwood.errors import ModelError
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float32, Shaped


class CPMetadata(TypedDict):
    """Metadata of a CP decomposition in a model file."""

    rank: int


CP_COLUMNS = (
    Column("cp.parent", "float32", "states cp_rank", least=0, along="cp.parent"),
    Column("cp.left", "float32", "states cp_rank", least=0, along="cp.parent"),
    Column("cp.right", "float32", "states cp_rank", least=0, along="cp.parent"),
)


@dataclass(frozen=True, eq=False)
class CPDecomposition:
    """CP decomposition of the rules of a grammar.

    Attributes
    ----------
    parent, left, right
        Nonnegative factors; rows are the states of all symbols.
    """

    parent: Float32[Array, "states products"]
    left: Float32[Array, "states products"]
    right: Float32[Array, "states products"]

    def __repr__(self) -> str:
        return f"<CPDecomposition: rank {self.rank}, {len(self.parent):,} states>"

    @property
    def rank(self) -> int:
        """Number of products."""
        return int(self.parent.shape[1])

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored."""
        return {"cp.parent": self.parent, "cp.left": self.left, "cp.right": self.right}

    def metadata(self) -> CPMetadata:
        """Return the metadata to be stored, as JSON values."""
        return {"rank": self.rank}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: CPMetadata | None
    ) -> CPDecomposition | None:
        """Inverse of `to_arrays` and `metadata`; None if there is neither."""
        if (metadata is None) != ("cp.parent" not in arrays):
            raise ModelError("cp: incomplete")
        if metadata is None:
            return None
        found = cls(arrays["cp.parent"], arrays["cp.left"], arrays["cp.right"])
        if metadata["rank"] != found.rank or found.rank < 1:
            raise ModelError("cp.parent: does not have the rank that the metadata says")
        return found
