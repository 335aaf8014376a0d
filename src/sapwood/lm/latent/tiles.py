"""Bigram counts in tiles, for fast, parallel and deterministic passes.

Words are divided into groups with about as many bigrams each, once as first words (rows) and once as second words
(columns); the groups of rows and columns cut the matrix into tiles. Each round of a pass processes the tiles
`(i, i + round)`, no two of which share a row or a column: threads write to sums of their own without locks, and each
sum is taken in the same order for any number of threads. On a cluster the tiles of a group of rows are on one worker,
with the rows' sums, and the sums of columns go from one to the next (`_tiles_remote`); a pass that takes less time than
sending it would is done locally.

Within a group words are sorted by falling number of bigrams, and a tile's columns come in blocks whose parameters fit
in the cache: a block's columns stay there while the rows pass by. Passes work on parameters in this *inner* order, so
that numbers used together lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.lm.latent._tile_layout import Cut, TileRow, dense_row, tile_row, tile_totals
from sapwood.lm.latent._tiles_remote import RemoteTiles
from sapwood.runtime.executor import LOCAL, Executor, Threads
from sapwood.storage.shapes import Array, Float, Float64, Int32

T = TypeVar("T")
# Number of groups of rows and columns for few and for many bigrams, and the threshold.
_GROUPS, _MORE_GROUPS, _MANY = 8, 16, 1 << 22
# Bytes of a block's parameters and sums.
_BLOCK = 1 << 22
# Rows per call of a kernel without tiles.
_ROWS = 1 << 13
# Seconds of a pass per bigram, and per number kept for a word.
_BIGRAM, _NUMBER = 30e-9, 0.9e-9
# Entries processed at once where that takes memory.
_PIECE = 1 << 24


class BigramTiles:
    """Counts of bigrams in tiles.

    Parameters
    ----------
    counts
        Non-negative counts, first words in rows, second words in columns.
    width
        Number of values that passes keep for each word.
    groups
        Number of groups of rows, and of columns; by default it depends on the number of bigrams.
    dtype
        Type of counts in passes, and of all parameters.
    workers
        Executor that keeps the tiles, those of a group of rows together.

    Attributes
    ----------
    rows, columns
        The words in the inner order.
    row_totals, column_totals
        The sums of counts, in the inner order.
    total
        The sum of all counts.
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
        workers: Executor = LOCAL,
    ) -> None:
        matrix = scipy.sparse.csr_array(counts)
        if not matrix.nnz or not matrix.data.any():
            raise UsageError("there are no bigrams to learn from: the counts are all zero")
        if not (matrix.data.min() >= 0 and matrix.data.max() < np.inf):
            raise UsageError("counts of bigrams must be finite numbers, none below 0")
        # The kernels take contiguous 64-bit integers and floats.
        data = np.ascontiguousarray(matrix.data, np.int64 if matrix.dtype.kind in "iub" else np.float64)
        indices, indptr = np.ascontiguousarray(matrix.indices), np.ascontiguousarray(matrix.indptr)
        matrix = scipy.sparse.csr_array((data, indices, indptr), matrix.shape)
        self.dtype = dtype
        self.entries = matrix.nnz
        self.groups = groups or (_GROUPS if matrix.nnz < _MANY else _MORE_GROUPS)
        seconds = matrix.nnz * (_BIGRAM + _NUMBER * width)
        self.workers = workers.if_worthwhile(seconds, 2 * self.groups * min(self.groups, workers.count))
        row_entries = np.diff(matrix.indptr)
        column_entries = np.zeros(matrix.shape[1], np.int64)
        for begin in range(0, matrix.nnz, _PIECE):  # bincount would copy everything, at twice the size
            column_entries += np.bincount(matrix.indices[begin : begin + _PIECE], minlength=matrix.shape[1])
        self.rows, self.row_bounds = _grouped(row_entries, self.groups)
        self.columns, self.column_bounds = _grouped(column_entries, self.groups)
        self.row_place, self.column_place = _inverse(self.rows), _inverse(self.columns)
        self.row_totals = np.asarray(matrix.sum(axis=1), np.float64)[self.rows]
        self.column_totals = np.asarray(matrix.sum(axis=0), np.float64)[self.columns]
        self.total = float(self.row_totals.sum())
        self._fill(matrix, max(1, _BLOCK // (2 * np.dtype(dtype).itemsize * width)))

    def _fill(self, matrix: scipy.sparse.csr_array, block: int) -> None:
        """Sort the entries into tiles with blocks of up to `block` columns."""
        sizes = np.diff(self.column_bounds)
        self._blocks = max(1, -(-int(sizes.max()) // block))
        within = np.arange(len(self.columns)) - np.repeat(self.column_bounds[:-1], sizes)
        block_of = np.empty(len(self.columns), np.int32)
        group_of = np.repeat(np.arange(self.groups), sizes)
        block_of[self.columns] = group_of * self._blocks + within * self._blocks // np.maximum(sizes, 1)[group_of]
        cut = Cut(block_of, self.column_place, self.groups, self._blocks, self.dtype)
        self._far = None
        if not self.workers.is_local:
            self._far = RemoteTiles(matrix[self.rows], self.row_bounds, self.column_bounds, cut, self.workers)
            return
        make = partial(tile_row, matrix, self.rows, cut)
        self._rows: list[TileRow] = self.workers.persist(
            make, self.row_bounds[:-1].tolist(), self.row_bounds[1:].tolist()
        )

    def _each(self, call: Callable[[int], T], numbers: Sequence[int]) -> list[T]:
        return list(Threads(self.workers.threads).map(call, numbers))

    def round_totals(self) -> Float64[Array, "groups"]:
        """Return the sum of the counts in each round."""
        tiles = np.array(list(map(tile_totals, self._rows))) if self._far is None else self._far.totals()
        places = np.arange(self.groups)
        return np.array([tiles[places, (places + shift) % self.groups].sum() for shift in places])

    def expect(
        self,
        r: Float[Array, "rows states"],
        s: Float[Array, "columns states"],
        r_sums: Float[Array, "rows states"],
        s_sums: Float[Array, "columns states"],
        rounds: Iterable[int] | None = None,
    ) -> float:
        """Add to the sums the result of `kernels.expect_tiles` for all bigrams, or those of some rounds.

        Returns the log-likelihood.
        """
        shifts = list(range(self.groups) if rounds is None else rounds)
        if self._far is not None:
            return self._far.expect(r, s, r_sums, s_sums, shifts)
        total = 0.0
        for shift in shifts:

            def tile(group: int, shift: int = shift) -> float:
                row, other = self._rows[group], (group + shift) % self.groups
                return float(kernels.expect_tiles(*row.span(other), row.segments, r, s, r_sums, s_sums))

            total += sum(self.workers.map(tile, range(self.groups)))
        return total

    def expect_rows(
        self, r: Float[Array, "rows states"], s: Float[Array, "columns states"], r_sums: Float[Array, "rows states"]
    ) -> float:
        """Do the rows' half of `expect`."""
        if self._far is not None:
            return self._far.expect_rows(r, s, r_sums)

        def group(row: TileRow) -> float:
            return float(kernels.expect_tile_rows(*row.span(0, self.groups), row.segments, r, s, r_sums))

        return sum(self.workers.map(group, self._rows))

    def multiply(self, dense: Float[Array, "given width"], *, transposed: bool = False) -> Float[Array, "made width"]:
        """Return the product of the matrix of counts, or its transpose, with a dense one, in the inner order."""
        result = np.zeros((len(self.columns if transposed else self.rows), dense.shape[1]), self.dtype)
        dense = np.ascontiguousarray(dense, self.dtype)
        if self._far is not None:
            self._far.multiply(dense, transposed, result)
            return result

        def group(number: int) -> None:
            for other in range(self.groups if transposed else 1):
                row = self._rows[other if transposed else number]
                span = row.span(number) if transposed else row.span(0, self.groups)
                kernels.multiply_tiles(*span, row.segments, transposed, dense, result)

        self._each(group, range(self.groups))
        return result

    def dense(self) -> Float64[Array, "rows columns"]:
        """Return the counts as a dense matrix in the inner order."""
        if self._far is not None:
            return self._far.dense()
        return np.asarray(sum(dense_row(row, len(self.rows), len(self.columns)) for row in self._rows))

    def by_rows(self, call: Callable[[int, int], T], size: int) -> list[T]:
        """Return `call(begin, end)` for fixed pieces of a range, run on all threads."""
        return self._each(lambda begin: call(begin, min(begin + _ROWS, size)), range(0, size, _ROWS))


def _grouped(entries: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return words by group, and within it by falling number of entries, and the bounds of the groups."""
    ranks = np.arange(len(entries))
    turn, place = np.divmod(ranks, groups)
    group = np.where(turn % 2 == 0, place, groups - 1 - place)  # back and forth, which balances the groups
    order = np.argsort(-entries, kind="stable")[np.argsort(group, kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))])
    return order.astype(np.int32), bounds


def _inverse(order: np.ndarray) -> np.ndarray:
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    return places
