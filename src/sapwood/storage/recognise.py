"""Recognition of files by their first bytes, for messages about a file of the wrong kind."""

from __future__ import annotations

import contextlib
import importlib
import re
import zlib
from pathlib import Path
from typing import Literal

Kind = Literal["sapwood", "trees", "text", "binary", "empty"]
# Bytes to look at, compressed and decompressed.
_START = 4096
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd"}
# First bytes of zip archives, which wheels are.
ZIP = b"PK\x03\x04"
_HEADER = re.compile(rb'\{"__metadata__":\{"sapwood"')
_STORED = re.compile(rb'\\"kind\\": \\"([a-z-]{1,40})\\"')
_TREES = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\(\s*[^()\s]*\s*[^\s()]*\s*[()]|#FORMAT|#BOS|%%|<\?xml)")


def is_sapwood_start(start: bytes) -> bool:
    """Return whether a file that begins with these bytes was written by sapwood."""
    return _HEADER.match(start, 8) is not None


def kind_of_start(start: bytes) -> Kind:
    """Return the kind of an uncompressed file that begins with these bytes."""
    if not start:
        return "empty"
    if is_sapwood_start(start):
        return "sapwood"
    if _TREES.match(start):
        return "trees"
    with contextlib.suppress(UnicodeDecodeError):
        if "\0" not in start[: max(1, len(start) - 3)].decode("utf-8", "strict"):
            return "text"
    return "binary"


def describe_start(path: str | Path) -> str:
    """Return what the first bytes of a file look like, as a noun phrase; empty if they look like nothing known."""
    with contextlib.suppress(OSError), Path(path).open("rb") as stream:
        start = stream.read(_START)
        packed = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "")
        inner = _decompressed(start, packed) if packed else start
        kind = kind_of_start(inner)
        if inner.startswith(ZIP):
            return "zip archive"
        names: dict[Kind, str] = {"sapwood": "model", "trees": "treebank", "text": "text file", "empty": "empty file"}
        if packed:
            return f"{names[kind]} compressed with {packed}" if inner and kind in names else f"{packed} file"
        return names.get(kind, "")
    return ""


def stored_kind(start: bytes) -> str:
    """Return the kind of content that the beginning of a sapwood file names."""
    found = _STORED.search(start)
    return found[1].decode().replace("-", " ") if found else "model"


def _decompressed(start: bytes, packed: str) -> bytes:
    """Return the first bytes of a compressed file; none if they cannot be decompressed."""
    # A Python may be built without the other modules, and `EOFError` and `OSError` are what they raise.
    with contextlib.suppress(zlib.error, OSError, EOFError, ImportError, ValueError):
        if packed == "gzip":
            return zlib.decompressobj(wbits=31).decompress(start, _START)
        if packed == "bzip2":
            found: bytes = importlib.import_module("bz2").BZ2Decompressor().decompress(start, _START)
            return found
    return b""
