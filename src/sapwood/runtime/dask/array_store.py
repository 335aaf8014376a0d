"""Array store from which workers build their shards: in memory, or in files that all of them can access.

A row range is a specification: a shard that is lost with a worker is rebuilt from it elsewhere. Data read from a file
is verified by its digest.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import RawIOBase
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sapwood.errors import InputError
from sapwood.storage.arrays import Arrays, content_digest
from sapwood.storage.files import explained
from sapwood.storage.shapes import Array, Float64, Shaped


class Part(Protocol):
    """Row range of arrays of the same length."""

    def load(self) -> Arrays:
        """Return the rows, by array name."""
        ...


class ArrayStore(Protocol):
    """Arrays of the same length."""

    def part(self, begin: int, end: int) -> Part:
        """Return the rows `begin .. end - 1`."""
        ...


class FileTable:
    """Array of numbers in a memory-mapped file.

    Allocating memory takes longer than writing to it, so the file is reused once its numbers are no longer needed. Late
    writes must not happen then. Calls are repeated when a worker is lost, needed or not, so after that files are not
    reused, and numbers in a file that was reused meanwhile are not `sound`.

    Parameters
    ----------
    path
        File to reuse, or a new one.
    size
        Number of entries.
    done
        Called with the path when the numbers are no longer needed.
    lost
        Returns True if a worker has been lost.
    """

    def __init__(self, path: str, size: int, done: Callable[[str], object], lost: Callable[[], bool]) -> None:
        self.path, self.size, self._done, self._lost = path, size, done, lost
        self._new = not Path(path).exists()
        if self._new:
            with explained(path, "write"), Path(path).open("xb") as stream:
                os.posix_fallocate(stream.fileno(), 0, 8 * size)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size}

    @property
    def sound(self) -> bool:
        """True if no stale call can have written to it."""
        return self._new or not self._lost()

    @property
    def array(self) -> Float64[Array, "numbers"]:
        """All numbers; writing to the array does not change the file."""
        with Path(self.path).open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 8 * self.size, access=mmap.ACCESS_COPY)
        weakref.finalize(mapped, self._done, self.path).atexit = False
        return np.frombuffer(mapped, np.float64)

    def place(self, begin: int, size: int) -> Float64[Array, "some"]:
        """Return a writable view of the numbers from `begin` on; writing twice is harmless."""
        return _shared(self.path, self.size)[begin : begin + size]


@lru_cache(maxsize=2)
def _shared(path: str, size: int) -> np.ndarray:
    return np.asarray(np.memmap(path, np.float64, "r+", shape=(size,)))


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Arrays in memory, or rows of them: sent along with calls in other processes."""

    arrays: Mapping[str, Shaped[Array, "..."]]

    def part(self, begin: int, end: int) -> MemoryRows:
        """Return the rows `begin .. end - 1`, without copying."""
        return MemoryRows({name: array[begin:end] for name, array in self.arrays.items()})

    def load(self) -> Arrays:
        """Return the arrays."""
        return dict(self.arrays)


@dataclass(frozen=True)
class FileRows:
    """Rows of arrays in files."""

    folder: str
    names: tuple[str, ...]
    begin: int
    end: int
    digest: str

    def load(self) -> Arrays:
        """Read the rows and check them."""
        arrays = _mapped(self.folder, self.names, self.begin, self.end)
        arrays = {name: np.array(array) for name, array in arrays.items()}
        if content_digest(arrays, {}) != self.digest:
            raise InputError(f"{self.folder}: rows {self.begin} to {self.end} are not what was written; run again")
        return arrays


@dataclass(frozen=True)
class FileColumns:
    """Arrays in a folder, one NumPy file each."""

    folder: str
    names: tuple[str, ...]

    @classmethod
    def write(cls, folder: str | Path, arrays: Mapping[str, Shaped[Array, "..."]]) -> FileColumns:
        """Write the arrays to a new folder."""
        with explained(folder, "write"):
            Path(folder).mkdir(parents=True)
            for name, array in arrays.items():
                np.save(Path(folder, f"{name}.npy"), np.ascontiguousarray(array), allow_pickle=False)
        return cls(str(folder), tuple(sorted(arrays)))

    def part(self, begin: int, end: int) -> FileRows:
        """Return the location of the rows `begin .. end - 1`, and their digest."""
        digest = content_digest(_mapped(self.folder, self.names, begin, end), {})
        return FileRows(self.folder, self.names, begin, end, digest)


def _mapped(folder: str, names: tuple[str, ...], begin: int, end: int) -> Arrays:
    found: Arrays = {}
    for name in names:
        path = Path(folder, f"{name}.npy")
        with explained(path):
            found[name] = np.load(path, mmap_mode="r", allow_pickle=False)[begin:end]
    return found


def write_all(stream: RawIOBase, values: memoryview) -> None:
    """Write bytes to an unbuffered file, which may accept them in parts."""
    while values.nbytes:
        values = values[stream.write(values) or 0 :]


def remove(path: str) -> None:
    """Remove a file, if it exists."""
    with suppress(OSError):
        Path(path).unlink()
