"""The tiles of a group of rows (`sapwood.lm.tiles`), and what is done with them wherever they are.

Of tiles in this process (`tile_row`) rows and columns have their numbers in the inner order. Elsewhere (`far_tile_row`)
rows count from the first of the group and columns from the first of theirs, so that parts of the parameters will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.run.columns import Part
from sapwood.shapes import Array, Float, Int32, Int64


class Segments(NamedTuple):
    """Bigrams in the order of tiles; a segment is what a tile has of one row.

    Attributes
    ----------
    rows, begins
        The row of each segment in the inner order, and where it begins.
    columns, counts
        Of each bigram: its column in the inner order, and how often it was seen.
    """

    rows: Int32[Array, "segments"]
    begins: Int64[Array, "segments+1"]
    columns: Int32[Array, "bigrams"]
    counts: Float[Array, "bigrams"]


@dataclass(frozen=True, eq=False)
class Cut:
    """How rows are cut into tiles: the block and the place of each column, groups of columns, blocks in each."""

    block_of: np.ndarray
    column_place: np.ndarray
    groups: int
    blocks: int
    dtype: type[np.floating]


@dataclass(frozen=True, eq=False)
class TileRow:
    """The tiles of a group of rows, one after another; `offsets` says where each block's segments begin."""

    segments: Segments
    offsets: np.ndarray
    blocks: int

    def span(self, first: int, last: int | None = None) -> tuple[int, int]:
        """Return the segments of a group of columns, or of those from `first` to before `last`."""
        end = first + 1 if last is None else last
        return int(self.offsets[first * self.blocks]), int(self.offsets[end * self.blocks])


def tile_row(matrix: scipy.sparse.csr_array, rows: np.ndarray, cut: Cut, begin: int, end: int) -> TileRow:
    """Put the entries of the rows `rows[begin:end]` in order."""
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


def far_tile_row(part: Part, ends: np.ndarray, cut: Cut) -> TileRow:
    """Put the entries of some rows in order, given one row behind the other."""
    columns, size = part.load(), len(ends) - 1
    shape = (size, len(cut.block_of))
    matrix = scipy.sparse.csr_array((columns["data"], columns["indices"], ends.astype(columns["indices"].dtype)), shape)
    return tile_row(matrix, np.arange(size, dtype=np.int32), cut, 0, size)


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


# Elsewhere nothing that is handed over may be changed.


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of a group of rows after some rounds, the log-likelihood of each, and the columns' sums that go on."""

    log_likelihoods: list[float]
    sums: np.ndarray
    passing: np.ndarray | None


def expect_tile(row: TileRow, other: int, r: np.ndarray, s: np.ndarray, own: RowSums, passing: np.ndarray) -> RowSums:
    """Add a tile's part to the sums of its rows and of its columns."""
    r_sums, s_sums = own.sums.copy(), passing.copy()
    value = float(kernels.expect_tiles(*row.span(other), row.segments, r, s, r_sums, s_sums))
    return RowSums([*own.log_likelihoods, value], r_sums, s_sums)


def passed_on(sums: RowSums) -> np.ndarray:
    """Return the sums of columns."""
    assert sums.passing is not None
    return sums.passing


def staying(sums: RowSums) -> RowSums:
    """Return all but the sums of columns."""
    return RowSums(sums.log_likelihoods, sums.sums, None)


def expect_row(
    row: TileRow, column_bounds: np.ndarray, r: np.ndarray, s: np.ndarray, sums: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the log-likelihood of a group of rows, and the sums with its part added."""
    sums = sums.copy()
    segments = _in_inner_order(row, column_bounds)
    return float(kernels.expect_tile_rows(0, int(row.offsets[-1]), segments, r, s, sums)), sums


def multiply_row(row: TileRow, column_bounds: np.ndarray, height: int, dense: np.ndarray) -> np.ndarray:
    """Return the rows' part of the product with a dense matrix."""
    segments = _in_inner_order(row, column_bounds)
    result = np.zeros((height, dense.shape[1]), segments.counts.dtype)
    kernels.multiply_tiles(0, int(row.offsets[-1]), segments, False, dense, result)
    return result


def multiply_tile(row: TileRow, other: int, dense: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the sums of a group of columns with a tile's part of the transposed product added."""
    sums = sums.copy()
    kernels.multiply_tiles(*row.span(other), row.segments, True, dense, sums)
    return sums


def far_dense_row(row: TileRow, column_bounds: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the counts of some rows as a dense matrix."""
    segments = _in_inner_order(row, column_bounds)
    return dense_row(TileRow(segments, row.offsets, row.blocks), height, width)


def _in_inner_order(row: TileRow, column_bounds: np.ndarray) -> Segments:
    """Return the segments with columns numbered in the inner order."""
    entries = np.diff(row.segments.begins[row.offsets[:: row.blocks]])
    firsts = np.repeat(column_bounds[:-1], entries).astype(np.int32)
    return row.segments._replace(columns=row.segments.columns + firsts)
