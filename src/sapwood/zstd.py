"""Zstandard files, with Python's own library (from 3.14 on) or the package zstandard."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sapwood.errors import InputError

# How much is decompressed at a time: the most that this can become is some hundred megabytes.
_STEP = 1 << 14


class _Library(NamedTuple):
    """Makes a decompressor of one frame and a file that compresses what is written to it; and the error raised."""

    decompressor: Callable[[], Any]
    compressing: Callable[[BinaryIO], Any]
    error: type[Exception]


@contextlib.contextmanager
def through_zstd(raw: BinaryIO, path: str | Path, mode: str) -> Iterator[BinaryIO]:
    """Yield what decompresses (`rb`) or compresses (`wb`) a file; a damaged or truncated one raises `EOFError`."""
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
    """The content of the frames of a file one after another.

    Parameters
    ----------
    raw
        The file.
    new
        Makes an object with `decompress`, `eof` and `unused_data`, as those of `bz2` and `lzma`.
    """

    def __init__(self, raw: BinaryIO, new: Callable[[], Any]) -> None:
        self._raw, self._new = raw, new
        self._frame: Any = None
        self._left = b""
        self._held = memoryview(b"")

    def readable(self) -> bool:
        """Say that this is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or as much of it as the next step gives; nothing only at the end."""
        while not self._held:
            data = self._left or self._raw.read(_STEP)
            if not data:
                if self._frame is not None:
                    raise Truncated("it ends too early")
                return 0
            if self._frame is None:
                self._frame = self._new()
            self._held, self._left = memoryview(self._frame.decompress(data)), b""
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._held))
        buffer[:size] = self._held[:size]
        self._held = self._held[size:]
        return size
