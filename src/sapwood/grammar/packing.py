"""How weights are stored: only those that are not zero if most are, halves in two bytes.

Probabilities are between 0 and 1, and half precision has most of its range beyond: so halves are stored times 2^15,
which keeps eleven significant bits down to 2e-9 and goes on to 2e-12. Nothing is rounded as a file is written: weights
that are halves already, as `to_halves` makes them, take two bytes, others what they have.

Places of weights that are not zero rise; each is stored as the number of zeros before it, seven bits a byte, the lowest
first, all bytes of a number but its last with the highest bit set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.errors import ModelError
from sapwood.schema import Column
from sapwood.shapes import Array, Float, Float16, Float32, Int, Int64, Shaped, UInt8

# Rule weights are stored sparsely if no more than this part of them is not zero.
_SPARSE = 0.4
_SCALE = np.float32(2.0**15)
# The most bytes of a gap: places are below 2^32.
_LONGEST = 5

# Messages about rule weights name the rule, and are those of `grammar.validate`. (Places were stored up to format 3.)
RULE_WEIGHTS = (
    Column("tensors", "float", "tensors", unchecked=True, along="tensors"),
    Column("tensors.places", "uint32", "places", below="weights", rises=True, along="tensors.places"),
    Column("tensors.gaps", "uint8", "gaps", unchecked=True, along="tensors.gaps"),
    Column("tensors.values", "float", "places", unchecked=True, along="tensors.values"),
    Column("tensors.half", "float16", "places", along="tensors.half"),
)


def to_halves(values: Float[Array, "values"]) -> Float32[Array, "values"]:
    """Return numbers between -2 and 2 rounded to what half precision has of them."""
    return from_halves((values.astype(np.float32) * _SCALE).astype(np.float16))


def as_halves(values: Float[Array, "values"]) -> Float16[Array, "values"] | None:
    """Return numbers as halves are stored; None if they are none, or of double precision."""
    if values.dtype != np.float32 or not len(values) or not np.abs(values).max() < 65504 / _SCALE:
        return None
    return (values * _SCALE).astype(np.float16) if np.array_equal(to_halves(values), values) else None


def from_halves(halves: Float16[Array, "values"]) -> Float32[Array, "values"]:
    """Return the numbers that `as_halves` stored."""
    return halves.astype(np.float32) / _SCALE


def pack_weights(
    tensors: Float[Array, "weights"], *, as_it_is: bool = False
) -> tuple[dict[str, Shaped[Array, "..."]], dict[str, Any]]:
    """Return rule weights as they are stored, arrays and metadata; with `as_it_is`, zeros among them."""
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
    """Return the rule weights, stored one way or the other; there must be `expected` of them."""
    ways = [name for name in ("tensors", "tensors.places", "tensors.gaps") if name in arrays]
    if len(ways) != 1:
        raise ModelError("tensors: missing, or there twice")
    if ways == ["tensors"]:
        return arrays["tensors"]
    # Before any room is made for them: a small file may claim to have many.
    if metadata.get("weights") != expected:
        raise ModelError(f"{ways[0]}: there are not as many weights as the rules need")
    if ("tensors.values" in arrays) == ("tensors.half" in arrays):
        raise ModelError("tensors.values: missing, or there twice")
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
    """Return rising places below 2^32 as gaps.

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
    """Return the places that `pack_places` made these bytes of; raises `ModelError` for what it never returns."""
    last = np.flatnonzero(packed < 128)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else np.zeros(0, np.int64)
    if len(packed) and (not len(last) or last[-1] != len(packed) - 1 or int((last - first).max()) >= _LONGEST):
        raise ModelError("tensors.gaps: bytes that are no numbers")
    gaps = np.zeros(len(last), np.int64)
    for at in range(_LONGEST):
        there = last - first >= at
        gaps[there] |= (packed[first[there] + at].astype(np.int64) & 127) << 7 * at
    return np.cumsum(gaps + 1) - 1
