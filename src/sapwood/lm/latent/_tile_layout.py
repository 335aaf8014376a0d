"""Tiles of a group of rows, the unit of work of `sapwood.lm.latent.tiles`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.storage.shapes import Array, Float, Int32, Int64


class Segments(NamedTuple):
    """Bigrams in the order of tiles; a segment is the part of one row in a tile.

    Attributes
    ----------
    rows, begins
        The row of each segment in the inner order, and where it begins.
    columns, counts
        The column of each bigram in the inner order, and its count.
    """

    rows: Int32[Array, "segments"]
    begins: Int64[Array, "segments+1"]
    columns: Int32[Array, "bigrams"]
    counts: Float[Array, "bigrams"]


@dataclass(frozen=True, eq=False)
class Cut:
    """Division of rows into tiles: the block and the position of each column, groups of columns, blocks in each."""

    block_of: np.ndarray
    column_place: np.ndarray
    groups: int
    blocks: int
    dtype: type[np.floating]


@dataclass(frozen=True, eq=False)
class TileRow:
    """The tiles of a group of rows, concatenated; `offsets` has the first segment of each block."""

    segments: Segments
    offsets: np.ndarray
    blocks: int

    def span(self, first: int, last: int | None = None) -> tuple[int, int]:
        """Return the segments of a group of columns, or of those from `first` to before `last`."""
        end = first + 1 if last is None else last
        return int(self.offsets[first * self.blocks]), int(self.offsets[end * self.blocks])


def tile_row(matrix: scipy.sparse.csr_array, rows: np.ndarray, cut: Cut, begin: int, end: int) -> TileRow:
    """Sort the entries of the rows `rows[begin:end]` into tiles."""
    entries, segments = (np.zeros(cut.groups * cut.blocks, np.int64) for _ in range(2))
    kernels.count_tiles(matrix, begin, end, rows, cut.block_of, entries, segments)
    offsets = np.concatenate([[0], np.cumsum(segments)])
    size = int(entries.sum())
    made = Segments(
        rows=np.empty(offsets[-1], np.int32),
        begins=np.empty(offsets[-1] + 1, np.int64),
        columns=np.empty(size, np.int32),
        counts=np.empty(size, cut.dtype),
    )
    made.begins[-1] = size
    next_entry = np.concatenate([[0], np.cumsum(entries)])[:-1]
    kernels.fill_tiles(matrix, begin, end, rows, cut.block_of, cut.column_place, next_entry, offsets[:-1].copy(), made)
    return TileRow(made, offsets, cut.blocks)


def tile_totals(row: TileRow) -> np.ndarray:
    """Return the sum of the counts in each tile."""
    ends = row.segments.begins[row.offsets[:: row.blocks]]
    sums = [row.segments.counts[a:b].sum(dtype=np.float64) for a, b in pairwise(ends)]
    return np.array(sums, np.float64)


def dense_row(row: TileRow, height: int, width: int) -> np.ndarray:
    """Return the counts as a dense matrix."""
    result = np.zeros((height, width))
    rows = np.repeat(row.segments.rows, np.diff(row.segments.begins))
    np.add.at(result, (rows, row.segments.columns), row.segments.counts)
    return result
