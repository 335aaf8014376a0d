"""Arrays kept in memory while there is room, then in a temporary file that has no name and vanishes by itself."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import IO

import numpy as np

from sapwood.files import explained
from sapwood.shapes import Array, Shaped


class Store:
    """Keeps arrays until `room` bytes are used up; those that come later go to a file.

    Parameters
    ----------
    room
        How many bytes may be kept in memory.
    folder
        Where the temporary file is made (default: the system's place for temporary files).
    """

    def __init__(self, room: int, folder: str | Path | None = None) -> None:
        self._room = room
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._items: list[np.ndarray | tuple[int, np.dtype, tuple[int, ...]]] = []

    @property
    def spilled(self) -> bool:
        """Whether some arrays are in the file."""
        return self._file is not None

    def append(self, array: Shaped[Array, "..."]) -> int:
        """Keep an array and return its number."""
        with self._lock:
            if array.nbytes <= self._room:
                self._room -= array.nbytes
                self._items.append(array)
                return len(self._items) - 1
            where = self._folder if self._folder is not None else tempfile.gettempdir()
            with explained(where, "write to"):
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=where)  # noqa: SIM115
                begin = self._file.seek(0, os.SEEK_END)
                self._file.write(np.ascontiguousarray(array).data)
            self._items.append((begin, array.dtype, array.shape))
            return len(self._items) - 1

    def get(self, number: int, *, drop: bool = False) -> Shaped[Array, "..."]:
        """Return an array; with `drop` it is not kept any longer if it was in memory."""
        with self._lock:
            item = self._items[number]
            if isinstance(item, np.ndarray):
                if drop:
                    self._room += item.nbytes
                    self._items[number] = item[:0].copy()
                return item
            begin, dtype, shape = item
            result = np.empty(shape, dtype)
            assert self._file is not None
            with explained("the temporary file"):
                self._file.seek(begin)
                self._file.readinto(result.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
            return result

    def close(self) -> None:
        """Forget everything."""
        self._items.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def empty(shape: tuple[int, ...], dtype: type, in_file: bool, folder: str | Path | None = None) -> Shaped[Array, "..."]:
    """Return an array to be filled, in memory or in a file without a name."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not in_file or size == 0:
        return np.empty(shape, dtype)
    where = folder if folder is not None else tempfile.gettempdir()
    with explained(where, "write to"), tempfile.TemporaryFile(dir=where) as stream:
        stream.truncate(size)
        return np.memmap(stream, dtype, "r+", shape=shape)
