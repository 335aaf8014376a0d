"""Array files: safetensors with JSON metadata, written atomically and checked by digest.

The file's only metadata entry is a JSON object with the kind of content (`model`, `corpus`), the format version,
sapwood's version and a SHA-256 digest of everything else, so that the same content always gives the same bytes and
damage is always detected. Lists of strings are stored as UTF-8 arrays. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sapwood._version import __version__
from sapwood.errors import ModelError
from sapwood.storage.files import atomic_write, explained, is_regular
from sapwood.storage.json_values import json_problem, with_finite_numbers
from sapwood.storage.recognise import describe_start
from sapwood.storage.shapes import Array, Shaped, UInt8

_ENTRY = "sapwood"
# Maximum size of the header, and number of arrays: more than any of our files has, and readable within a second.
_HEADER_LIMIT, _MOST_ARRAYS = 1 << 25, 20_000
# Pattern of valid kinds and versions: nothing else is shown in messages.
_PLAIN = re.compile(r"[A-Za-z0-9.+-]{1,40}", re.ASCII)
# Types of arrays that are written, as named by safetensors and NumPy.
_TYPES = {"U8": "u1", "I32": "i4", "U32": "u4", "I64": "i8", "F16": "f2", "F32": "f4", "F64": "f8"}
# Commands that describe a file, for kinds that `sapwood inspect` does not support.
_SHOWN_BY = dict.fromkeys(("counts", "latent-bigram", "mixed-order", "mixture", "ngram-model"), "sapwood lm show")

Arrays = dict[str, Shaped[Array, "..."]]


def pack_strings(strings: Sequence[str]) -> UInt8[Array, "bytes"]:
    """Encode strings as one array of bytes: UTF-8, each ended by a zero byte."""
    for string in strings:
        if "\0" in string:
            raise ModelError(f"a string with a zero byte cannot be stored: {string!r}")
    return np.frombuffer("".join(f"{string}\0" for string in strings).encode("utf-8", "surrogatepass"), np.uint8)


def unpack_strings(array: Shaped[Array, "bytes"]) -> list[str]:
    """Inverse of `pack_strings`; raises `ModelError` for any other bytes."""
    return _decoded(array).split("\0")[:-1]


def count_strings(array: Shaped[Array, "bytes"]) -> int:
    """Return the number of strings; raises `ModelError` as `unpack_strings` does."""
    return _decoded(array).count("\0")


def _decoded(array: np.ndarray) -> str:
    try:
        text = array.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ModelError(f"stored text is not UTF-8: {error}") from error
    if not text.endswith("\0") and text:
        raise ModelError("stored text is cut off")
    return text


def content_digest(arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> str:
    """Return a SHA-256 digest of names, types, shapes, values and metadata."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True, ensure_ascii=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def write_arrays(
    path: str | Path,
    arrays: Mapping[str, Shaped[Array, "..."]],
    metadata: Mapping[str, Any],
    *,
    kind: str,
    version: int,
) -> None:
    """Write arrays and metadata to one file, atomically."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = with_finite_numbers(metadata)
    if problem := json_problem(metadata):
        raise ModelError(f"{path}: not written, because of its metadata: {problem}")
    entry: dict[str, Any] = {"kind": kind, "format": version, "sapwood": __version__, "metadata": metadata}
    entry["digest"] = content_digest(arrays, entry)
    content = save(arrays, {_ENTRY: json.dumps(entry, sort_keys=True, ensure_ascii=True)})
    with atomic_write(path) as stream:
        stream.write(content)


def read_header(path: str | Path) -> dict[str, Any]:
    """Return the JSON entry of a sapwood file without reading its arrays."""
    with explained(path):
        if Path(path).exists() and not Path(path).is_dir() and not is_regular(path):
            raise ModelError(f"{path}: a pipe or device, and a model is read more than once; save it as a file first")
    with explained(path), Path(path).open("rb") as stream:
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= _HEADER_LIMIT:
            raise _not_ours(path)
        header = stream.read(length)
    try:
        parsed = json.loads(header)
        entry = json.loads(parsed.pop("__metadata__")[_ENTRY])
        plain = all(_PLAIN.fullmatch(entry[name]) for name in ("kind", "sapwood"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_ours(path) from error
    if not plain or type(entry.get("format")) is not int or not isinstance(entry.get("metadata"), dict):
        raise _not_ours(path)
    if len(parsed) > _MOST_ARRAYS:
        raise ModelError(f"{path}: it claims to hold {len(parsed):,} arrays, more than any file of sapwood")
    if problem := json_problem(entry["metadata"]):
        raise ModelError(f"{path}: its metadata cannot be used: {problem}; copy or train it again")
    return {**entry, "tensors": parsed}


def read_arrays(path: str | Path, *, kind: str, version: int, mmap: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Read a file written by `write_arrays` and check its kind, version and digest.

    The contents are not checked: `sapwood.storage.schema` does that. With `mmap` the arrays are read-only views of the
    file, paged in as they are used.
    """
    entry = read_header(path)
    if entry["kind"] != kind:
        raise _of_another_kind(path, entry["kind"], kind)
    if not 1 <= entry["format"] <= version:
        raise ModelError(
            f"{path}: written by sapwood {entry['sapwood']} in format {entry['format']}, this version "
            f"reads up to format {version}; upgrade sapwood or train again"
        )
    for name, tensor in entry["tensors"].items():
        if not isinstance(tensor, dict) or tensor.get("dtype") not in _TYPES:
            raise ModelError(f"{path}: {name[:80]!r} is of a type that sapwood does not write; copy or train it again")
    arrays = _map_arrays(path, entry["tensors"]) if mmap else _load_arrays(path)
    signed = {name: value for name, value in entry.items() if name not in ("digest", "tensors")}
    try:
        found = content_digest(arrays, signed)
    except RecursionError:
        found = "values too deep within each other to be ours"
    if found != entry.get("digest"):
        raise ModelError(f"{path}: damaged: its content does not match its digest; copy or train it again")
    return arrays, entry["metadata"]


def _load_arrays(path: str | Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with explained(path):
        content = Path(path).read_bytes()
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: damaged or truncated ({error}); copy or train it again") from error


def _map_arrays(path: str | Path, tensors: Mapping[str, Any]) -> Arrays:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy"):
            pass  # the library checks the header against the file size
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: damaged or truncated ({error}); copy or build it again") from error
    with Path(path).open("rb") as stream:
        base = 8 + int.from_bytes(stream.read(8), "little")
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    arrays: Arrays = {}
    try:
        for name, value in tensors.items():
            begin, end = (base + offset for offset in value["data_offsets"])
            arrays[name] = whole[begin:end].view(_TYPES[value["dtype"]]).reshape(value["shape"])
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path}: damaged ({error}); copy or build it again") from error
    return arrays


def _of_another_kind(path: str | Path, found: str, wanted: str) -> ModelError:
    command = _SHOWN_BY.get(found)
    hint = f"; `{command} {shlex.quote(str(path))}` tells what is in it" if command else ""
    article = "an" if found[:1] in "aeiou" else "a"
    return ModelError(f"{path}: holds {article} {found}, not a {wanted}{hint}")


def _not_ours(path: str | Path) -> ModelError:
    looks = describe_start(path)
    if looks == "zip archive" and Path(path).suffix == ".whl":
        return ModelError(
            f"{path}: not a sapwood file, but a wheel; if you trust it, install it with pip, and then `sapwood models` "
            "lists its models"
        )
    if looks == "model":
        return ModelError(
            f"{path}: not a sapwood file (damaged or truncated within its header); copy or train it again"
        )
    if looks.startswith("model "):
        return ModelError(f"{path}: not a sapwood file, but a {looks}; decompress it first")
    if looks.startswith("treebank"):
        train = f"sapwood train {shlex.quote(str(path))} -o model.sapwood"
        return ModelError(f"{path}: not a sapwood file, but a {looks}; `{train}` makes a model of it")
    if looks:
        article = "an" if looks[0] in "aeiou" else "a"
        return ModelError(f"{path}: not a sapwood file, but {article} {looks}; `sapwood train` writes models")
    return ModelError(f"{path}: not a sapwood file (or damaged at its start); `sapwood train` writes models")
