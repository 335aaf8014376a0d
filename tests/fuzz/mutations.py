"""Changes to stored content and to text, of the kinds that have broken readers before."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from safetensors.numpy import save

from sapwood.storage.arrays import content_digest

Content: TypeAlias = tuple[dict[str, np.ndarray], dict[str, Any], str, int]

_WHOLE = [0, 1, 2, 3, -1, -2, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]
_REAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-310, 1e-30, 1e30, 1e308, np.nan, np.inf, -np.inf]
_TYPES = ["u1", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?"]
_VALUES = [
    None, True, False, 0, 1, -1, 2, 2**31, 2**63, 2**70, 1.5, float("nan"), "", "x", "stream", "sentence", "head",
    "all", "\x1b[31m", "\ud800", "a" * 300, [], [1], ["a"], {}, {"a": 1}, [[[]]], "latent-bigram", "ngram-model",
]  # fmt: skip
_BYTES = [b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1b", b"\n", b" ", b"\0\0", b"a\0a\0"]


def stored(rng: np.random.Generator, content: Content) -> bytes:
    """Return a file with one to three changes and, nearly always, the right digest."""
    arrays, metadata, kind, version = dict(content[0]), copy.deepcopy(content[1]), content[2], content[3]
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        draw = rng.random()
        if draw < 0.75 and arrays:
            _change_arrays(rng, arrays)
        elif draw < 0.97:
            metadata = _change_json(rng, metadata)
        elif draw < 0.985:
            version = int(rng.choice([0, 1, 2, 3, 4, -1]))
        else:
            kind = str(rng.choice(["model", "bundle", "corpus", "counts", "mixture", "\x1b[2J", "x" * 99]))
    raw = file_of((arrays, metadata, kind, version))
    return raw if rng.random() < 0.95 else text(rng, raw[:4000]) + raw[4000:]


def file_of(content: Content) -> bytes:
    """Return a file with this content, as `write_arrays` makes it."""
    arrays, metadata, kind, version = content
    entry: dict[str, Any] = {"kind": kind, "format": version, "sapwood": "0.1", "metadata": metadata}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entry["digest"] = content_digest(arrays, entry)
    return save(arrays, {"sapwood": json.dumps(entry, sort_keys=True)})


def _change_arrays(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> None:
    names = sorted(arrays)
    name = str(rng.choice(names))
    array = arrays[name]
    draw = rng.random()
    if draw < 0.03:
        del arrays[name]
    elif draw < 0.05:
        arrays[str(rng.choice(["0.x", "level.0", "level.7", "tensors", "1.given", "0/starts", "ngrams_3"]))] = array
    elif draw < 0.09:
        arrays[name] = arrays[str(rng.choice(names))]
    elif draw < 0.17:
        _shorten(rng, arrays, len(array))
    else:
        with np.errstate(all="ignore"):
            arrays[name] = _change_array(rng, array)


def _shorten(rng: np.random.Generator, arrays: dict[str, np.ndarray], size: int) -> None:
    """Take the same rows from all arrays of one length, so that shapes still agree."""
    kept = rng.random(size) < 0.8 if rng.random() < 0.5 else rng.permutation(size)
    for name, array in arrays.items():
        if len(array) == size:
            arrays[name] = array[kept]


def _change_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    array = array.copy()
    if array.dtype == np.uint8 and rng.random() < 0.5:
        return np.frombuffer(text(rng, array.tobytes(), _BYTES), np.uint8)
    draw = int(rng.integers(12))
    if draw <= 4 and array.size:
        flat = array.reshape(-1)
        values = _REAL if array.dtype.kind == "f" else _near(rng, array)
        for place in rng.integers(array.size, size=int(rng.choice([1, 1, 2, 4]))):
            value = values[int(rng.integers(len(values)))]
            flat[place] = (
                value if array.dtype.kind == "f" else np.array(value, object).astype(np.int64).astype(array.dtype)
            )
        return array
    changes: list[Callable[[], np.ndarray]] = [
        lambda: array[: int(rng.integers(len(array) + 1))],
        lambda: np.concatenate([array, array[-int(rng.integers(1, 3)) :]]),
        lambda: array[::-1],
        lambda: array.astype(str(rng.choice(_TYPES))),
        lambda: array.reshape(*array.shape, 1) if rng.random() < 0.5 else array.reshape(-1),
        lambda: rng.permutation(array),
        lambda: np.sort(array, axis=0),
        lambda: array * array.dtype.type(2),
        lambda: array + array.dtype.type(1),
        lambda: array.T,
        lambda: array[:0],
    ]
    return changes[int(rng.integers(len(changes)))]()


def _near(rng: np.random.Generator, array: np.ndarray) -> list[int]:
    """Return whole numbers to put into an array: famous ones, and those that are hardly wrong."""
    there = int(array.reshape(-1)[rng.integers(array.size)])
    return [
        value for value in (*_WHOLE, there + 1, there - 1, there, array.size, len(array)) if -(2**63) <= value < 2**63
    ]


def _change_json(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = sorted(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.1:
            return {key: item for key, item in value.items() if key != name}
        if rng.random() < 0.1:
            return {**value, str(rng.choice(["x", "info", "levels", "weights", "shared"])): _any(rng)}
        return {**value, name: _change_json(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        draw = rng.random()
        new = [] if draw < 0.2 else [value[place]] * 2 if draw < 0.4 else [_change_json(rng, value[place])]
        return [*value[:place], *new, *value[place + 1 :]]
    if type(value) is int and rng.random() < 0.5:
        return value + int(rng.choice([-1, 1]))
    return _any(rng)


def _any(rng: np.random.Generator) -> Any:
    return copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])


def text(rng: np.random.Generator, content: bytes, tokens: Sequence[bytes] = ()) -> bytes:
    """Return text with one to four pieces cut out, doubled, moved or put in."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        begin, end = sorted(rng.integers(len(content) + 1, size=2).tolist())
        if rng.random() < 0.85:
            end = min(end, begin + int(rng.integers(8)))
        piece, draw = content[begin:end], rng.random()
        if draw < 0.2:
            piece = b""
        elif draw < 0.35:
            piece = piece * int(rng.choice([2, 3, 50]))
        elif draw < 0.5:
            other = int(rng.integers(len(content) + 1))
            piece = content[other : other + len(piece)]
        elif draw < 0.85 and tokens:
            piece = tokens[int(rng.integers(len(tokens)))]
        else:
            lowest, highest = (0, 256) if rng.random() < 0.1 else (32, 127)
            piece = rng.integers(lowest, highest, size=int(rng.integers(1, 4))).astype(np.uint8).tobytes()
        content = content[:begin] + piece + content[end:]
    return content
