"""Bigram counts in the order in which a pass over them is fast, in parallel and always the same.

Words are put in groups with about as many bigrams each, once as first words (rows) and once as second words (columns);
the groups of rows and columns cut the matrix into tiles. In each round of a pass the tiles `(i, i + round)` are done,
no two of which share a row or a column: threads write to sums of their own without locks, and each sum is taken in the
same order however many threads there are.

Within a group words stand by falling number of bigrams, and a tile's columns come in blocks whose parameters fit in the
cache: a block's columns stay there while the rows pass by. Passes work on parameters in this *inner* order, so that
what is used together lies together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.run.parallel import map_in_order
from sapwood.shapes import Array, Float, Float64, Int32, Int64

T = TypeVar("T")
# Groups of rows and columns, and from how many bigrams on there are the larger number of them.
_GROUPS, _MORE_GROUPS, _MANY = 8, 16, 1 << 22
# Bytes of a block's parameters and sums.
_BLOCK = 1 << 22
# Rows that one call of a kernel without tiles gets.
_ROWS = 1 << 13
# Entries that are looked at in one go where that takes memory.
_PIECE = 1 << 24


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


class BigramTiles:
    """Counts of bigrams in tiles.

    Parameters
    ----------
    counts
        At least 0: what is seen before (rows) and after each other (columns).
    width
        How many numbers passes keep of each word.
    groups
        Of rows, and of columns; by default it depends on how many bigrams there are.
    dtype
        Of counts in passes, and of all parameters.
    threads
        How many tiles are done at a time.

    Attributes
    ----------
    rows, columns
        The words in the inner order.
    row_totals, column_totals
        The sums of counts, in the inner order.
    total
        The sum of all.
    """

    rows: Int32[Array, "rows"]
    columns: Int32[Array, "columns"]
    row_totals: Float64[Array, "rows"]
    column_totals: Float64[Array, "columns"]

    def __init__(
        self,
        counts: scipy.sparse.csr_array,
        width: int,
        *,
        groups: int | None = None,
        dtype: type[np.floating] = np.float32,
        threads: int = 1,
    ) -> None:
        matrix = scipy.sparse.csr_array(counts)
        if not matrix.nnz or not matrix.data.any():
            raise UsageError("there are no bigrams to learn from: the counts are all zero")
        if not (matrix.data.min() >= 0 and matrix.data.max() < np.inf):
            raise UsageError("counts of bigrams must be finite numbers, none below 0")
        # The kernels know whole numbers and others of 64 bits, one behind the other.
        data = np.ascontiguousarray(matrix.data, np.int64 if matrix.dtype.kind in "iub" else np.float64)
        indices, indptr = np.ascontiguousarray(matrix.indices), np.ascontiguousarray(matrix.indptr)
        matrix = scipy.sparse.csr_array((data, indices, indptr), matrix.shape)
        self.threads = threads
        self.dtype = dtype
        self.entries = matrix.nnz
        self.groups = groups or (_GROUPS if matrix.nnz < _MANY else _MORE_GROUPS)
        row_entries = np.diff(matrix.indptr)
        column_entries = np.zeros(matrix.shape[1], np.int64)
        for begin in range(0, matrix.nnz, _PIECE):  # bincount would make a copy of all, twice as large
            column_entries += np.bincount(matrix.indices[begin : begin + _PIECE], minlength=matrix.shape[1])
        self.rows, self.row_bounds = _grouped(row_entries, self.groups)
        self.columns, self.column_bounds = _grouped(column_entries, self.groups)
        self.row_place, self.column_place = _inverse(self.rows), _inverse(self.columns)
        self.row_totals = np.asarray(matrix.sum(axis=1), np.float64)[self.rows]
        self.column_totals = np.asarray(matrix.sum(axis=0), np.float64)[self.columns]
        self.total = float(self.row_totals.sum())
        self._fill(matrix, max(1, _BLOCK // (2 * np.dtype(dtype).itemsize * width)))

    def _fill(self, matrix: scipy.sparse.csr_array, block: int) -> None:
        """Put the entries in the order of tiles; blocks have up to so many columns."""
        sizes = np.diff(self.column_bounds)
        self._blocks = max(1, -(-int(sizes.max()) // block))
        within = np.arange(len(self.columns)) - np.repeat(self.column_bounds[:-1], sizes)
        block_of = np.empty(len(self.columns), np.int32)
        group_of = np.repeat(np.arange(self.groups), sizes)
        block_of[self.columns] = group_of * self._blocks + within * self._blocks // np.maximum(sizes, 1)[group_of]
        shape = (self.groups, self.groups * self._blocks)
        entries, segments = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        spans = list(zip(self.row_bounds[:-1].tolist(), self.row_bounds[1:].tolist(), strict=True))

        def count(group: int) -> None:
            kernels.count_tiles(matrix, *spans[group], self.rows, block_of, entries[group], segments[group])

        self._each(count, range(self.groups))
        self._offsets = np.concatenate([[0], np.cumsum(segments)])
        next_entry = np.concatenate([[0], np.cumsum(entries)])[:-1].reshape(shape)
        next_segment = self._offsets[:-1].reshape(shape).copy()
        self._segments = Segments(
            rows=np.empty(self._offsets[-1], np.int32),
            begins=np.empty(self._offsets[-1] + 1, np.int64),
            columns=np.empty(matrix.nnz, np.int32),
            counts=np.empty(matrix.nnz, self.dtype),
        )
        self._segments.begins[-1] = matrix.nnz

        def fill(group: int) -> None:
            kernels.fill_tiles(
                matrix, *spans[group], self.rows, block_of, self.column_place, next_entry[group], next_segment[group],
                self._segments,
            )  # fmt: skip

        self._each(fill, range(self.groups))

    def _each(self, call: Callable[[int], T], numbers: Sequence[int]) -> list[T]:
        return list(map_in_order(call, numbers, threads=self.threads))

    def round_totals(self) -> Float64[Array, "groups"]:
        """Return the sum of the counts in each round."""
        ends = self._segments.begins[self._offsets[:: self._blocks]]
        sums = [float(self._segments.counts[a:b].sum(dtype=np.float64)) for a, b in itertools.pairwise(ends)]
        tiles = np.array(sums).reshape(self.groups, self.groups)
        places = np.arange(self.groups)
        return np.array([tiles[places, (places + shift) % self.groups].sum() for shift in places])

    def _span(self, row_group: int, first: int, last: int) -> tuple[int, int]:
        """Return the segments of a row group and of column groups from `first` to before `last`."""
        base = row_group * self.groups
        return int(self._offsets[(base + first) * self._blocks]), int(self._offsets[(base + last) * self._blocks])

    def expect(
        self,
        r: Float[Array, "rows states"],
        s: Float[Array, "columns states"],
        r_sums: Float[Array, "rows states"],
        s_sums: Float[Array, "columns states"],
        rounds: Iterable[int] | None = None,
    ) -> float:
        """Add to the sums what `kernels.expect_tiles` does for all bigrams, or those of some rounds.

        Returns the log-likelihood.
        """
        total = 0.0
        for shift in range(self.groups) if rounds is None else rounds:

            def tile(group: int, shift: int = shift) -> float:
                other = (group + shift) % self.groups
                first, last = self._span(group, other, other + 1)
                return float(kernels.expect_tiles(first, last, self._segments, r, s, r_sums, s_sums))

            total += sum(map_in_order(tile, range(self.groups), threads=self.threads))
        return total

    def expect_rows(
        self, r: Float[Array, "rows states"], s: Float[Array, "columns states"], r_sums: Float[Array, "rows states"]
    ) -> float:
        """Do the rows' half of `expect`."""

        def group(number: int) -> float:
            first, last = self._span(number, 0, self.groups)
            return float(kernels.expect_tile_rows(first, last, self._segments, r, s, r_sums))

        return sum(map_in_order(group, range(self.groups), threads=self.threads))

    def multiply(self, dense: Float[Array, "given width"], *, transposed: bool = False) -> Float[Array, "made width"]:
        """Return the matrix of counts, or its transpose, times a dense one; both in the inner order."""
        result = np.zeros((len(self.columns if transposed else self.rows), dense.shape[1]), self.dtype)
        dense = np.ascontiguousarray(dense, self.dtype)

        def group(number: int) -> None:
            for other in range(self.groups if transposed else 1):
                span = self._span(other, number, number + 1) if transposed else self._span(number, 0, self.groups)
                kernels.multiply_tiles(*span, self._segments, transposed, dense, result)

        self._each(group, range(self.groups))
        return result

    def dense(self) -> Float64[Array, "rows columns"]:
        """Return the counts as a dense matrix in the inner order."""
        result = np.zeros((len(self.rows), len(self.columns)))
        rows = np.repeat(self._segments.rows, np.diff(self._segments.begins))
        np.add.at(result, (rows, self._segments.columns), self._segments.counts)
        return result

    def by_rows(self, call: Callable[[int, int], T], size: int) -> list[T]:
        """Return `call(begin, end)` for pieces of a range, done on all threads; the pieces are always the same."""
        return self._each(lambda begin: call(begin, min(begin + _ROWS, size)), range(0, size, _ROWS))


def _grouped(entries: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return words by group, and in it by falling number of entries, and where each group begins and ends."""
    ranks = np.arange(len(entries))
    turn, place = np.divmod(ranks, groups)
    group = np.where(turn % 2 == 0, place, groups - 1 - place)  # to and fro, which evens them out
    order = np.argsort(-entries, kind="stable")[np.argsort(group, kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))])
    return order.astype(np.int32), bounds


def _inverse(order: np.ndarray) -> np.ndarray:
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    return places
