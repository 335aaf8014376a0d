"""Zstandard files, with `compression.zstd` of Python 3.14, which `backports.zstd` has for earlier versions."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sapwood.errors import InputError

LIBRARY = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
# Bytes decompressed at a time, which can expand to at most some ten megabytes: a block of four bytes to 128 KiB.
_STEP = 1 << 10


@contextlib.contextmanager
def through_zstd(raw: BinaryIO, path: str | Path, mode: str) -> Iterator[BinaryIO]:
    """Yield a stream that decompresses (`rb`) or compresses (`wb`) a file; a damaged one raises `EOFError`."""
    library = _library(path)
    try:
        if mode == "rb":
            yield io.BufferedReader(Frames(raw, library.ZstdDecompressor))
        else:
            with library.ZstdFile(raw, "wb", options={library.CompressionParameter.checksum_flag: 1}) as stream:
                yield stream
    except (library.ZstdError, Truncated) as error:
        raise EOFError(str(error)) from error


def _library(path: str | Path) -> Any:
    try:
        return importlib.import_module(LIBRARY)
    except ImportError:
        raise InputError(
            f"{path}: .zst files need the package backports.zstd (pip install backports.zstd) before Python 3.14; or "
            "have the file without compression (zstd -d)"
        ) from None


class Truncated(Exception):
    """The file ends within a frame."""


class Frames(io.RawIOBase):
    """Concatenated contents of the frames of a file.

    Parameters
    ----------
    raw
        The file.
    new
        Returns an object with `decompress`, `eof` and `unused_data`, as those of `bz2` and `lzma`.
    padding
        Bytes that may be between frames.
    """

    def __init__(self, raw: BinaryIO, new: Callable[[], Any], padding: bytes = b"") -> None:
        self._raw, self._new, self._padding = raw, new, padding
        self._frame: Any = None
        self._left = b""
        self._held = memoryview(b"")

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or as much of it as the next step provides; nothing only at the end."""
        while not self._held:
            data = self._left or self._raw.read(_STEP)
            if not data:
                if self._frame is not None:
                    raise Truncated("it ends too early")
                return 0
            if self._frame is None:
                if self._padding and not (data := data.lstrip(self._padding)):
                    self._left = b""
                    continue
                self._frame = self._new()
            self._held, self._left = memoryview(self._frame.decompress(data)), b""
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._held))
        buffer[:size] = self._held[:size]
        self._held = self._held[size:]
        return size
