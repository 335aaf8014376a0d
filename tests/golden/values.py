"""Digests of values: arrays, and what is made of lists, texts and numbers, however its parts are named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

# Bits of the significands of weights that count (eight digits), and significant digits of other numbers.
_BITS, _DIGITS = 26, 6
# Names that a program gives to its fields; other keys (labels, ranges of lengths) are data.
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


def canonical(value: Any, *, dropped: Collection[str] = (), spellings: Mapping[str, str] | None = None) -> Any:
    """Return a value as nested lists, without the names of fields.

    Fields are in the order in which they appear; those called as in `dropped` are left out. `spellings` tells how
    texts that have been renamed were called when the digests were recorded.
    """

    def walk(part: Any) -> Any:
        if isinstance(part, Mapping):
            kept = {str(key): walk(item) for key, item in part.items() if key not in dropped}
            return ["{", *([item] if _FIELD.fullmatch(key) else [key, item] for key, item in kept.items())]
        if isinstance(part, np.ndarray):
            return _array(part)
        if isinstance(part, (list, tuple)):
            return [walk(item) for item in part]
        if isinstance(part, str):
            for now, then in (spellings or {}).items():
                part = part.replace(now, then)
            return part
        if isinstance(part, (float, np.floating)):
            return f"{float(part) + 0.0:.{_DIGITS}g}" if math.isfinite(part) else str(float(part))
        if part is None or isinstance(part, (bool, int)):
            return part
        raise TypeError(f"no value to take a digest of: {type(part).__name__}")

    return walk(value)


def digest(content: Any) -> str:
    """Return the first 64 bits of the SHA-256 digest of what `canonical` returned."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:16]


def arrays_in(value: Any) -> list[str]:
    """Return types, shapes and digests of all arrays within an object, in an order that no name has a part in."""
    return sorted(set(map(_array, _found(value, set()))))


def _found(value: Any, seen: set[int]) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    parts: Any = ()
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    for part in parts:
        yield from _found(part, seen)


def _array(array: np.ndarray) -> str:
    content = np.ascontiguousarray(array)
    if content.dtype.kind == "f":
        content = _rounded(content.astype(np.float64))
    elif content.dtype.kind not in "biu":
        raise TypeError(f"no digest of arrays of type {content.dtype}")
    return f"{array.dtype.name} {list(array.shape)} {hashlib.sha256(content.tobytes()).hexdigest()}"


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return the numbers with their significands rounded, and one zero, one infinity of each sign and one NaN."""
    significands, exponents = np.frexp(values)
    rounded = np.ldexp(np.rint(significands * 2.0**_BITS), exponents - _BITS) + 0.0
    return np.where(np.isfinite(values), rounded, np.where(np.isnan(values), np.nan, values))
