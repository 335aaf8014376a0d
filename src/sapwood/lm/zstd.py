"""Reading Zstandard files, with Python's own library (from 3.14 on) or the package zstandard."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sapwood.errors import InputError
from sapwood.files import explained

# How much is decompressed at a time: the most that this can become is some hundred megabytes.
_STEP = 1 << 14


@contextlib.contextmanager
def open_zstd(path: str | Path) -> Iterator[BinaryIO]:
    """Open a `.zst` file for reading what is in it; a damaged or truncated one raises an `InputError`."""
    new, problem = _library(path)
    with explained(path), Path(path).open("rb") as raw:
        try:
            yield io.BufferedReader(Frames(raw, new))
        except (problem, Truncated) as error:
            raise InputError(f"{path}: damaged or truncated zstd file ({error})") from error


def _library(path: str | Path) -> tuple[Callable[[], Any], type[Exception]]:
    """Return what makes a decompressor of one frame, and the error that it raises."""
    with contextlib.suppress(ImportError):
        standard = importlib.import_module("compression.zstd")
        return standard.ZstdDecompressor, standard.ZstdError
    with contextlib.suppress(ImportError):
        package = importlib.import_module("zstandard")
        return package.ZstdDecompressor().decompressobj, package.ZstdError
    raise InputError(
        f"{path}: reading .zst files needs the package zstandard (pip install zstandard); "
        f"or decompress the file first (zstd -d)"
    )


class Truncated(Exception):
    """The file ends within a frame."""


class Frames(io.RawIOBase):
    """The content of the frames of a file one behind the other.

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
