"""Tiles of bigrams (`sapwood.lm.latent.tiles`) in other processes.

Each worker holds some consecutive groups of rows: a run. In each round of a pass it processes one tile of each; then
sums of columns move on by one group of rows, so that each run passes one part of them to the previous run. Parts are
not changed after they are passed on. Rows are numbered from the first of a group and columns from the first of theirs,
so that parts of the parameters suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, repeat

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.lm.latent._tile_layout import Cut, Segments, TileRow, dense_row, tile_row, tile_totals
from sapwood.runtime.dask.array_store import Part
from sapwood.runtime.executor import Executor, Handle


@dataclass(frozen=True, eq=False)
class TileRange:
    """Consecutive groups of rows: the number of the first, and the bounds of their rows and of all column groups."""

    rows: list[TileRow]
    first: int
    row_bounds: np.ndarray
    column_bounds: np.ndarray

    def spans(self) -> list[slice]:
        """Return the range of rows of each group within the run."""
        return [slice(a, b) for a, b in pairwise((self.row_bounds - self.row_bounds[0]).tolist())]

    def columns(self, group: int) -> slice:
        """Return the range of a group of columns."""
        return slice(*self.column_bounds[[group, group + 1]].tolist())


@dataclass(frozen=True, eq=False)
class TileSums:
    """Progress of a pass in a run.

    Attributes
    ----------
    rows
        Sums of its rows.
    columns
        The sums of columns that are currently with each group of rows.
    logs
        The log-likelihood of each round and group of rows.
    """

    rows: np.ndarray
    columns: list[np.ndarray]
    logs: list[list[float]]


class RemoteTiles:
    """Groups of rows on workers.

    Parameters
    ----------
    matrix
        All bigrams, first words in the inner order.
    row_bounds, column_bounds
        Bounds of the groups.
    cut
        Division of groups of rows into tiles.
    workers
        Workers that keep them.
    """

    def __init__(
        self,
        matrix: scipy.sparse.csr_array,
        row_bounds: np.ndarray,
        column_bounds: np.ndarray,
        cut: Cut,
        workers: Executor,
    ) -> None:
        self.row_bounds, self.column_bounds, self.workers = row_bounds, column_bounds, workers
        self.groups = len(row_bounds) - 1
        self._cuts = np.linspace(0, self.groups, min(self.groups, workers.count) + 1).astype(int)
        group_of = np.repeat(np.arange(self.groups), np.diff(column_bounds))
        place = (cut.column_place - column_bounds[group_of][cut.column_place]).astype(np.int32)
        shared = workers.broadcast(replace(cut, column_place=place))
        # The entries that each group of rows needs, concatenated.
        narrow = matrix.indices.astype(np.int32, copy=False)  # half the size of 64-bit indices
        self._columns = columns = workers.columns({"indices": narrow, "data": matrix.data})
        ends = [matrix.indptr[a : b + 1] for a, b in pairwise(row_bounds.tolist())]
        parts = [columns.part(int(end[0]), int(end[-1])) for end in ends]
        cuts = list(pairwise(self._cuts.tolist()))
        self._runs: list[Handle] = workers.persist(
            _make,
            [parts[a:b] for a, b in cuts],
            [[end - end[0] for end in ends[a:b]] for a, b in cuts],
            [a for a, _ in cuts],
            [row_bounds[a : b + 1] for a, b in cuts],
            repeat(column_bounds),
            repeat(shared),
        )

    def _rows(self, values: np.ndarray) -> list[np.ndarray]:
        """Return views of the runs' parts."""
        return [values[a:b] for a, b in pairwise(self.row_bounds[self._cuts].tolist())]

    def totals(self) -> np.ndarray:
        """Return the sum of the counts in each tile."""
        return np.concatenate(list(self.workers.map(_totals, self._runs)))

    def expect(
        self, r: np.ndarray, s: np.ndarray, r_sums: np.ndarray, s_sums: np.ndarray, shifts: Sequence[int]
    ) -> float:
        """Do what `BigramTiles.expect` does in some consecutive rounds."""
        workers, shared, groups = self.workers, self.workers.broadcast(s), range(self.groups)
        rs = [workers.broadcast(part) for part in self._rows(r)]
        with_rows = [s_sums[self._column((group + shifts[0]) % self.groups)] for group in groups]
        states: list[Handle] = [
            TileSums(part, with_rows[a:b], [])
            for part, (a, b) in zip(self._rows(r_sums), pairwise(self._cuts.tolist()), strict=True)
        ]
        alone = len(states) == 1
        for number, shift in enumerate(shifts[:1] if alone else shifts):
            given: list[Handle] = [None] * len(states)
            if number:
                first = workers.submit(_first_columns, states)
                given = [*first[1:], first[0]]
            todo = shifts if alone else [shift]
            states = workers.submit(_rounds, self._runs, states, given, rs, repeat(shared), repeat(todo))
        del rs, shared
        logs = []
        for place, (a, b), found in zip(
            self._rows(r_sums), pairwise(self._cuts.tolist()), workers.gather(states), strict=True
        ):
            place[:] = found.rows
            logs.append(found.logs)
            for group, sums in zip(range(a, b), found.columns, strict=True):
                s_sums[self._column((group + shifts[-1]) % self.groups)] = sums
        # By round, then by group of rows.
        total = 0.0
        for each in zip(*logs, strict=True):
            total += sum(value for run in each for value in run)
        return total

    def _column(self, group: int) -> slice:
        return slice(*self.column_bounds[[group, group + 1]].tolist())

    def expect_rows(self, r: np.ndarray, s: np.ndarray, r_sums: np.ndarray) -> float:
        """Do the rows' half of `expect`."""
        parts = self._rows(r_sums)
        found = self.workers.map(_expect_rows, self._runs, self._rows(r), repeat(self.workers.broadcast(s)), parts)
        total = 0.0
        for place, (values, own) in zip(parts, found, strict=True):
            total += sum(values)
            place[:] = own
        return total

    def multiply(self, dense: np.ndarray, transposed: bool, result: np.ndarray) -> None:
        """Write the product with a dense matrix, or that of the transpose, into the result, which is zero."""
        workers = self.workers
        if not transposed:
            found = workers.map(_multiply_rows, self._runs, repeat(workers.broadcast(dense)))
            for place, values in zip(self._rows(result), found, strict=True):
                place[:] = values
            return
        runs = zip(self._runs, self._rows(dense), strict=True)
        last = reduce(lambda sums, run: workers.submit(_multiply_columns, [run[0]], [run[1]], [sums])[0], runs, result)
        result[:] = next(workers.gather([last]))

    def dense(self) -> np.ndarray:
        """Return the counts as a dense matrix."""
        return np.concatenate(list(self.workers.map(_dense, self._runs)))


# On workers.


def _make(
    parts: Sequence[Part],
    ends: Sequence[np.ndarray],
    first: int,
    row_bounds: np.ndarray,
    column_bounds: np.ndarray,
    cut: Cut,
) -> TileRange:
    """Sort the entries of some groups of rows, given row by row."""
    rows = []
    for part, end in zip(parts, ends, strict=True):
        columns, size = part.load(), len(end) - 1
        content = columns["data"], columns["indices"], end.astype(columns["indices"].dtype)
        matrix = scipy.sparse.csr_array(content, (size, len(cut.block_of)))
        rows.append(tile_row(matrix, np.arange(size, dtype=np.int32), cut, 0, size))
    return TileRange(rows, first, row_bounds, column_bounds)


def _totals(run: TileRange) -> np.ndarray:
    return np.array([tile_totals(row) for row in run.rows])


def _rounds(
    run: TileRange, before: TileSums, given: np.ndarray | None, r: np.ndarray, s: np.ndarray, shifts: Sequence[int]
) -> TileSums:
    """Do rounds: the first with the sums of columns from the next run, others with those of this run."""
    r_sums, columns = before.rows.copy(), before.columns
    logs = [*before.logs]
    for number, shift in enumerate(shifts):
        if number or given is not None:
            columns = [*columns[1:], columns[0] if number or given is None else given]
        columns = columns if number else [sums.copy() for sums in columns]
        values = []
        for group, (row, span, s_sums) in enumerate(zip(run.rows, run.spans(), columns, strict=True), run.first):
            other = (group + shift) % (len(run.column_bounds) - 1)
            tiles = row.span(other), r[span], s[run.columns(other)], r_sums[span]
            values.append(float(kernels.expect_tiles(*tiles[0], row.segments, *tiles[1:], s_sums)))
        logs.append(values)
    return TileSums(r_sums, columns, logs)


def _first_columns(sums: TileSums) -> np.ndarray:
    """Return the sums of columns that go to the previous run."""
    return sums.columns[0]


def _expect_rows(run: TileRange, r: np.ndarray, s: np.ndarray, sums: np.ndarray) -> tuple[list[float], np.ndarray]:
    """Return the log-likelihood of each group of rows, and the sums with their contribution added."""
    sums, values = sums.copy(), []
    for row, span in zip(run.rows, run.spans(), strict=True):
        whole = 0, int(row.offsets[-1])
        values.append(float(kernels.expect_tile_rows(*whole, _inner(run, row), r[span], s, sums[span])))
    return values, sums


def _multiply_rows(run: TileRange, dense: np.ndarray) -> np.ndarray:
    """Return the rows' contribution to the product with a dense matrix."""
    result = np.zeros((int(run.row_bounds[-1] - run.row_bounds[0]), dense.shape[1]), dense.dtype)
    for row, span in zip(run.rows, run.spans(), strict=True):
        kernels.multiply_tiles(0, int(row.offsets[-1]), _inner(run, row), False, dense, result[span])
    return result


def _multiply_columns(run: TileRange, dense: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the sums of columns with the rows' contribution to the transposed product added."""
    sums = sums.copy()
    for row, span in zip(run.rows, run.spans(), strict=True):
        for other in range(len(run.column_bounds) - 1):
            kernels.multiply_tiles(*row.span(other), row.segments, True, dense[span], sums[run.columns(other)])
    return sums


def _dense(run: TileRange) -> np.ndarray:
    heights, width = np.diff(run.row_bounds).tolist(), int(run.column_bounds[-1])
    rows = [TileRow(_inner(run, row), row.offsets, row.blocks) for row in run.rows]
    return np.concatenate([dense_row(row, height, width) for row, height in zip(rows, heights, strict=True)])


def _inner(run: TileRange, row: TileRow) -> Segments:
    """Return the segments with columns numbered in the inner order."""
    entries = np.diff(row.segments.begins[row.offsets[:: row.blocks]])
    firsts = np.repeat(run.column_bounds[:-1], entries).astype(np.int32)
    return row.segments._replace(columns=row.segments.columns + firsts)
