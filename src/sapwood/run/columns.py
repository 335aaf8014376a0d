"""Arrays from which workers make their shards: at hand, or in files that all of them can see.

A part of columns is a recipe: a shard that is lost with a worker is made from it again, elsewhere. What is read from a
file is checked by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from sapwood.errors import InputError
from sapwood.files import explained
from sapwood.shapes import Array, Shaped
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
