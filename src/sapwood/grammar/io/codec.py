"""Storage of weights: sparse if most are zero, half precision in two bytes.

Probabilities are between 0 and 1, and half precision has most of its range beyond: so halves are stored times 2^15,
which keeps eleven significant bits down to 2e-9 and reaches down to 2e-12. Writing a file never rounds: weights that
are exact in half precision, as `to_halves` makes them, take two bytes, others their full size.

Indices of non-zero weights are increasing; each is stored as the number of zeros before it, seven bits per byte, the
lowest first, with the highest bit set in all bytes of a number but its last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.errors import ModelError
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float, Float16, Float32, Int, Int64, Shaped, UInt8

# Rule weights are stored sparsely if at most this share of them is not zero.
_SPARSE = 0.4
_SCALE = np.float32(2.0**15)
# Maximum number of bytes of a gap: indices are below 2^32.
_LONGEST = 5

# Messages about rule weights name the rule, and are those of `grammar.validate`. (Indices were stored up to format 3.)
RULE_WEIGHTS = (
    Column("tensors", "float", "tensors", unchecked=True, along="tensors"),
    Column("tensors.places", "uint32", "places", below="weights", rises=True, along="tensors.places"),
    Column("tensors.gaps", "uint8", "gaps", unchecked=True, along="tensors.gaps"),
    Column("tensors.values", "float", "places", unchecked=True, along="tensors.values"),
    Column("tensors.half", "float16", "places", along="tensors.half"),
)


def to_halves(values: Float[Array, "values"]) -> Float32[Array, "values"]:
    """Round numbers between -2 and 2 to half precision."""
    return from_halves((values.astype(np.float32) * _SCALE).astype(np.float16))


def as_halves(values: Float[Array, "values"]) -> Float16[Array, "values"] | None:
    """Return numbers in stored half precision; None if not exact, or in double precision."""
    if values.dtype != np.float32 or not len(values) or not np.abs(values).max() < 65504 / _SCALE:
        return None
    return (values * _SCALE).astype(np.float16) if np.array_equal(to_halves(values), values) else None


def from_halves(halves: Float16[Array, "values"]) -> Float32[Array, "values"]:
    """Inverse of `as_halves`."""
    return halves.astype(np.float32) / _SCALE


def pack_weights(
    tensors: Float[Array, "weights"], *, as_it_is: bool = False
) -> tuple[dict[str, Shaped[Array, "..."]], dict[str, Any]]:
    """Return rule weights in storage format, arrays and metadata; with `as_it_is`, including zeros."""
    found = len(tensors) if as_it_is else np.count_nonzero(tensors)
    if not (found <= _SPARSE * len(tensors) and 0 < len(tensors) < 1 << 32):
        return {"tensors": tensors}, {}
    places = np.flatnonzero(tensors)
    halves = as_halves(tensors[places])
    values = {"tensors.values": tensors[places]} if halves is None else {"tensors.half": halves}
    return {"tensors.gaps": pack_places(places), **values}, {"weights": len(tensors)}


def unpack_weights(
    arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any], expected: float
) -> Float[Array, "weights"]:
    """Return the rule weights from either storage format; there must be `expected` of them."""
    ways = [name for name in ("tensors", "tensors.places", "tensors.gaps") if name in arrays]
    if len(ways) != 1:
        raise ModelError("tensors: missing or duplicated")
    if ways == ["tensors"]:
        return arrays["tensors"]
    # Checked before memory is allocated: a small file may claim to have many.
    if metadata.get("weights") != expected:
        raise ModelError(f"{ways[0]}: there are not as many weights as the rules need")
    if ("tensors.values" in arrays) == ("tensors.half" in arrays):
        raise ModelError("tensors.values: missing or duplicated")
    values = arrays["tensors.values"] if "tensors.values" in arrays else from_halves(arrays["tensors.half"])
    if ways == ["tensors.places"]:
        places = arrays["tensors.places"]
    else:
        places = unpack_places(arrays["tensors.gaps"])
        if len(places) != len(values) or (len(places) and places[-1] >= metadata["weights"]):
            raise ModelError("tensors.gaps: does not fit the weights")
    tensors = np.zeros(metadata["weights"], values.dtype)
    tensors[places] = values
    return tensors


def pack_places(places: Int[Array, "places"]) -> UInt8[Array, "bytes"]:
    """Encode increasing indices below 2^32 as gaps.

    Examples
    --------
    >>> pack_places(np.array([2, 3, 300])).tolist()
    [2, 0, 168, 2]
    """
    gaps = np.diff(np.append(-1, places)).astype(np.int64) - 1
    lengths = np.ones(len(gaps), np.int64)
    for longer in range(1, _LONGEST):
        lengths += gaps >= 1 << 7 * longer
    last = np.cumsum(lengths)
    packed = np.zeros(int(last[-1]) if len(last) else 0, np.uint8)
    for at in range(_LONGEST):
        there = lengths > at
        more = np.where(lengths[there] > at + 1, 128, 0)
        packed[last[there] - lengths[there] + at] = (gaps[there] >> 7 * at & 127) | more
    return packed


def unpack_places(packed: UInt8[Array, "bytes"]) -> Int64[Array, "places"]:
    """Inverse of `pack_places`; raises `ModelError` for any other bytes."""
    last = np.flatnonzero(packed < 128)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else np.zeros(0, np.int64)
    if len(packed) and (not len(last) or last[-1] != len(packed) - 1 or int((last - first).max()) >= _LONGEST):
        raise ModelError("tensors.gaps: bytes that are not numbers")
    gaps = np.zeros(len(last), np.int64)
    for at in range(_LONGEST):
        there = last - first >= at
        gaps[there] |= (packed[first[there] + at].astype(np.int64) & 127) << 7 * at
    return np.cumsum(gaps + 1) - 1
