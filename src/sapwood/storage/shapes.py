"""Shape annotations: `Int[Array, "rules 3"]` is an array of integers with two axes, the second of length 3.

The notation is jaxtyping's. Annotations are not evaluated in ordinary use, so that package is not needed then; the
tests import it first, and check every call against its signature.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from numpy import ndarray as Array

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import (
        Bool,
        Float,
        Float16,
        Float32,
        Float64,
        Int,
        Int32,
        Int64,
        Num,
        Shaped,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
    )
else:

    class Shaped:
        """Placeholder for array types where shapes are not checked."""

        def __class_getitem__(cls, _: object) -> type[Array]:
            return Array

    Bool = Float = Float16 = Float32 = Float64 = Int = Int32 = Int64 = Num = UInt8 = UInt16 = UInt32 = UInt64 = Shaped

__all__ = [
    "Array", "Bool", "Float", "Float16", "Float32", "Float64", "Int", "Int32", "Int64", "Num", "Shaped",
    "UInt8", "UInt16", "UInt32", "UInt64",
]  # fmt: skip
