"""Zstandard files, with Python's own library (from 3.14 on) or the package zstandard."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sapwood.errors import InputError

# Bytes decompressed at a time, which can expand to at most some ten megabytes: a block of four bytes to 128 KiB.
_STEP = 1 << 10


class _Library(NamedTuple):
    """Factory of a decompressor of one frame and of a compressing file; and the error raised."""

    decompressor: Callable[[], Any]
    compressing: Callable[[BinaryIO], Any]
    error: type[Exception]


@contextlib.contextmanager
def through_zstd(raw: BinaryIO, path: str | Path, mode: str) -> Iterator[BinaryIO]:
    """Yield a stream that decompresses (`rb`) or compresses (`wb`) a file; a damaged one raises `EOFError`."""
    library = _library(path)
    try:
        if mode == "rb":
            yield io.BufferedReader(Frames(raw, library.decompressor))
        else:
            with library.compressing(raw) as stream:
                yield stream
    except (library.error, Truncated) as error:
        raise EOFError(str(error)) from error


def _library(path: str | Path) -> _Library:
    with contextlib.suppress(ImportError):
        standard = importlib.import_module("compression.zstd")
        checked = {standard.CompressionParameter.checksum_flag: 1}
        return _Library(
            standard.ZstdDecompressor, lambda raw: standard.ZstdFile(raw, "wb", options=checked), standard.ZstdError
        )
    with contextlib.suppress(ImportError):
        package = importlib.import_module("zstandard")
        return _Library(
            package.ZstdDecompressor().decompressobj,
            lambda raw: package.ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False),
            package.ZstdError,
        )
    raise InputError(
        f"{path}: .zst files need the package zstandard (pip install zstandard); or have the file without compression "
        "(zstd -d)"
    )


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
