"""Arrays from which workers make their shards: at hand, or in files that all of them can see.

A part of columns is a recipe: a shard that is lost with a worker is made from it again, elsewhere. What is read from a
file is checked by its digest.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sapwood.errors import InputError
from sapwood.files import explained
from sapwood.shapes import Array, Float64, Shaped
from sapwood.storage import Arrays, content_digest


class Part(Protocol):
    """Rows of arrays of the same length."""

    def load(self) -> Arrays:
        """Return the rows, by the names of the arrays."""
        ...


class Columns(Protocol):
    """Arrays of the same length."""

    def part(self, begin: int, end: int) -> Part:
        """Return the rows `begin .. end - 1`."""
        ...


class Table(Protocol):
    """Numbers of which calls make some each."""

    @property
    def array(self) -> Float64[Array, "numbers"]:
        """All of them, when all are made."""
        ...

    def put(self, begin: int, values: Float64[Array, "some"]) -> Any:
        """Hand over those from `begin` on, where they were made; returns what is to be sent here."""
        ...

    def take(self, begin: int, sent: Any) -> None:
        """Note here what `put` returned."""
        ...


class SentTable:
    """Numbers that are sent."""

    def __init__(self, size: int) -> None:
        self.array = np.empty(size)

    def __getstate__(self) -> None:
        """Go without the numbers."""

    def put(self, begin: int, values: Float64[Array, "some"]) -> Float64[Array, "some"]:
        """Return the numbers."""
        del begin
        return values

    def take(self, begin: int, sent: Float64[Array, "some"]) -> None:
        """Put the numbers in their place."""
        self.array[begin : begin + len(sent)] = sent


class FileTable:
    """Numbers in a file that all see, which vanishes with what this was called for."""

    def __init__(self, path: str | Path, size: int) -> None:
        self.path, self.size = str(path), size
        with explained(path, "write"), Path(path).open("xb") as stream:
            stream.truncate(8 * size)
        weakref.finalize(self, remove, self.path)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size}

    @property
    def array(self) -> Float64[Array, "numbers"]:
        """The file; what is written to the array stays in memory."""
        return np.asarray(np.memmap(self.path, np.float64, "c", shape=(self.size,))) if self.size else np.zeros(0)

    def put(self, begin: int, values: Float64[Array, "some"]) -> None:
        """Write numbers to the file; it does no harm to do that twice."""
        with explained(self.path, "write"), Path(self.path).open("r+b", buffering=0) as stream:
            stream.seek(8 * begin)
            write_all(stream, np.ascontiguousarray(values).data.cast("B"))

    def take(self, begin: int, sent: None) -> None:
        """Do nothing: all are in the file."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrays at hand, or rows of them: sent along where they are to be used in another process."""

    arrays: Mapping[str, Shaped[Array, "..."]]

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows `begin .. end - 1`, not copied."""
        return Rows({name: array[begin:end] for name, array in self.arrays.items()})

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
    """Arrays in a folder, a file of numpy's for each."""

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
        """Return where the rows `begin .. end - 1` are, and their digest."""
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
    """Write bytes to a file without buffer, which may take them in parts."""
    while values.nbytes:
        values = values[stream.write(values) or 0 :]


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    with suppress(OSError):
        Path(path).unlink()
