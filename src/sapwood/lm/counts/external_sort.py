"""External counting of the n-grams of a sequence of ids that may exceed memory.

The sequence is processed in blocks: the n-grams of a block are packed into integers, divided into buckets by their
first words, and sorted and counted bucket by bucket. The distinct n-grams of a block and their counts are kept in a
`Store`; at the end each bucket is merged over all blocks. Buckets are ranges of words with about the same number of
tokens, small enough to be sorted in the processor's cache.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.lm.counts.vocabulary import END
from sapwood.runtime.executor import Threads
from sapwood.storage.files import explained
from sapwood.storage.shapes import Array, Int, Int32, Int64, Shaped, UInt64

_IN_CACHE = 1 << 16
_MOST_BUCKETS = 1 << 10
# N-grams, sorted, and their counts.
Table: TypeAlias = tuple[Int32[Array, "ngrams order"], Int64[Array, "ngrams"]]
# N-grams packed into integers, sorted, and their counts.
Bucket: TypeAlias = tuple[UInt64[Array, "columns ngrams"], Int64[Array, "ngrams"]]


class Store:
    """Keeps arrays in memory up to `room` bytes, and later ones in a file.

    Parameters
    ----------
    room
        Maximum number of bytes in memory.
    folder
        Folder of the temporary file (default: the system's).
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
        """Store an array and return its number."""
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
        """Return an array; `drop` releases it if it is in memory."""
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
        """Release everything."""
        self._items.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def empty(shape: tuple[int, ...], dtype: type, in_file: bool, folder: str | Path | None = None) -> Shaped[Array, "..."]:
    """Return an uninitialised array, in memory or in an unnamed file."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not in_file or size == 0:
        return np.empty(shape, dtype)
    where = folder if folder is not None else tempfile.gettempdir()
    with explained(where, "write to"), tempfile.TemporaryFile(dir=where) as stream:
        stream.truncate(size)
        return np.memmap(stream, dtype, "r+", shape=shape)


class Grouping:
    """Counts the n-grams of orders 1 to `order` of a sequence handed in block by block.

    Parameters
    ----------
    frequencies
        Count of each id in the whole sequence.
    order
        Order of the longest n-grams.
    sentences
        Whether n-grams end at `</s>`.
    threads
        Worker threads.
    memory
        Approximate number of bytes to use. The n-grams that begin with the most frequent word must fit.
    folder
        Folder of temporary files.
    block
        Approximate number of bytes for a block, if not a fraction of `memory`: equal blocks give equal buckets.
    """

    def __init__(
        self,
        frequencies: Int[Array, "words"],
        *,
        order: int,
        sentences: bool,
        threads: int,
        memory: int,
        folder: str | Path | None = None,
        block: int | None = None,
    ) -> None:
        self._order, self._threads, self._memory, self._folder = order, Threads(threads), memory, folder
        self._end = END if sentences else -1
        self._bits = len(frequencies).bit_length()
        self._columns = -(-order // (64 // self._bits))
        self.block = max(1 << 10, (block or memory) // 2 // (4 + 8 * self._columns))
        total = int(frequencies.sum())
        wanted = int(np.clip(min(total, self.block) // _IN_CACHE, 1, _MOST_BUCKETS))
        before = np.cumsum(frequencies) - frequencies
        self._bucket_of = (before * wanted // max(total, 1)).astype(np.int32)
        self._buckets = wanted
        self._runs: list[list[tuple[int, int]]] = []
        self._store = Store(memory // 4, folder)
        self._waiting = np.zeros(0, np.int32)

    def add(self, ids: Int32[Array, "tokens"]) -> None:
        """Count the next block of the sequence, of about `block` ids."""
        # A block waits for the next one, in which its last n-grams end.
        ahead = self._order - 1
        if len(ids) < ahead or len(self._waiting) < ahead:
            self._waiting = np.concatenate([self._waiting, ids]) if len(self._waiting) else ids
            return
        joined = np.concatenate([self._waiting, ids[:ahead]])
        waiting, self._waiting = len(self._waiting), ids
        self._count(joined, waiting)

    def buckets(self, ahead: Int32[Array, "_"]) -> list[Bucket]:
        """End this part of the sequence and return its n-grams, packed and sorted, by bucket.

        `ahead` are the first ids after this part, in which its last n-grams end.
        """
        return [
            (self._store.get(keys, drop=True), self._store.get(counts, drop=True))
            for keys, counts in self._end_with(ahead)
        ]

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return self._buckets

    def no_buckets(self) -> list[Bucket]:
        """Return empty buckets."""
        nothing = np.zeros((self._columns, 0), np.uint64), np.zeros(0, np.int64)
        return [nothing] * self._buckets

    def absorb(self, buckets: Iterable[Bucket]) -> None:
        """Take over all buckets of the whole sequence, as returned by `buckets` and `merge_buckets`."""
        self._runs.append([self._keep(*bucket) for bucket in buckets])

    def _end_with(self, ahead: np.ndarray) -> list[tuple[int, int]]:
        waiting, self._waiting = self._waiting, np.zeros(0, np.int32)
        self._count(np.concatenate([waiting, ahead]), len(waiting))
        return self._merged() if len(self._runs) > 1 else (self._runs[0] if self._runs else [])

    def tables(self, ahead: Int32[Array, "_"] | None = None) -> list[Table]:
        """End the sequence and return the n-grams and counts of each order; `ahead` as in `buckets`."""
        buckets = self._end_with(np.zeros(0, np.int32) if ahead is None else ahead)
        sizes = np.zeros((len(buckets) + 1, self._order), np.int64)

        def measure(bucket: int) -> None:
            keys, counts = self._store.get(buckets[bucket][0]), np.zeros(0, np.int64)
            for k in range(1, self._order + 1):
                none = np.empty((0, k), np.int32)
                sizes[bucket + 1, k - 1] = kernels.fill_ngrams(keys, counts, self._order, self._bits, none, counts)

        list(self._threads.map(measure, range(len(buckets))))
        starts = np.cumsum(sizes, axis=0)
        # Tables that take more than half the memory are memory-mapped files.
        size = sum(n * (4 * k + 8) for k, n in enumerate(starts[-1].tolist(), 1))
        in_file = size > self._memory // 2
        result = [
            (empty((n, k), np.int32, in_file, self._folder), empty((n,), np.int64, in_file, self._folder))
            for k, n in enumerate(starts[-1].tolist(), 1)
        ]

        def fill(bucket: int) -> None:
            keys, counts = self._store.get(buckets[bucket][0]), self._store.get(buckets[bucket][1])
            for k, (ngrams, totals) in enumerate(result, 1):
                span = slice(starts[bucket, k - 1], starts[bucket + 1, k - 1])
                kernels.fill_ngrams(keys, counts, self._order, self._bits, ngrams[span], totals[span])

        list(self._threads.map(fill, range(len(buckets))))
        self._store.close()
        return result

    def _count(self, ids: np.ndarray, counted: int) -> None:
        """Count the n-grams that begin at the first `counted` positions."""
        if counted == 0:
            return
        sections = self._threads.count
        bounds = np.linspace(0, counted, sections + 1).astype(np.int64)
        sizes = np.zeros((sections, self._buckets), np.int64)
        keys = np.empty((self._columns, counted), np.uint64)

        def measure(section: int) -> None:
            kernels.bucket_sizes(ids[bounds[section] : bounds[section + 1]], self._bucket_of, sizes[section])

        list(self._threads.map(measure, range(sections)))
        starts = np.concatenate([[0], np.cumsum(sizes.sum(0))])
        at = starts[:-1] + np.cumsum(sizes, axis=0) - sizes

        def divide(section: int) -> None:
            first, last = bounds[section], bounds[section + 1]
            kernels.divide_ngrams(
                ids[first:], last - first, self._order, self._bits, self._end, self._bucket_of, at[section], keys
            )

        list(self._threads.map(divide, range(sections)))

        def reduce(bucket: int) -> Table:
            part = np.ascontiguousarray(keys[:, starts[bucket] : starts[bucket + 1]])
            return _reduce(part, self._columns)

        self._runs.append([self._keep(*reduced) for reduced in self._threads.map(reduce, range(self._buckets))])

    def _keep(self, keys: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
        return self._store.append(keys), self._store.append(counts)

    def _merged(self) -> list[tuple[int, int]]:
        def merge(bucket: int) -> Table:
            parts = [[self._store.get(number, drop=True) for number in run[bucket]] for run in self._runs]
            return merge_buckets([(keys, counts) for keys, counts in parts])

        return [self._keep(*merged) for merged in self._threads.map(merge, range(self._buckets))]


def merge_buckets(parts: Sequence[Bucket]) -> Bucket:
    """Merge one bucket of several parts of a sequence."""
    if len(parts) == 1:
        return parts[0]
    keys = [np.vstack([keys, counts.view(np.uint64)[None]]) for keys, counts in parts]
    return _reduce(np.concatenate(keys, axis=1), len(parts[0][0]))


def _reduce(keys: np.ndarray, columns: int) -> Table:
    """Sort keys `(columns (+ 1), n)` and return the distinct ones with their counts."""
    scratch = np.empty_like(keys)
    if kernels.sort_keys(keys, scratch, columns):
        keys = scratch
    counts = np.empty(keys.shape[1], np.int64)
    left = kernels.count_equal_keys(keys, columns, counts)
    return keys[:columns, :left].copy(), counts[:left].copy()


def group(ngrams: Int[Array, "all order"], counts: Int[Array, "all"], size: int) -> Table:
    """Sort n-grams of ids below `size` and add up the counts of equal ones."""
    order = ngrams.shape[1]
    bits = int(size).bit_length()
    fit = 64 // bits
    columns = -(-order // fit)
    keys = np.zeros((columns + 1, len(ngrams)), np.uint64)
    for d in range(order):
        keys[d // fit] = (keys[d // fit] << np.uint64(bits)) | (ngrams[:, d] + 1).astype(np.uint64)
    keys[columns] = counts.astype(np.uint64)
    keys, counts = _reduce(keys, columns)
    result = np.empty((len(counts), order), np.int32), np.empty(len(counts), np.int64)
    kernels.fill_ngrams(keys, counts, order, bits, *result)
    return result


def blocks(pieces: Iterator[Int32[Array, "_"]], size: int) -> Iterator[Int32[Array, "_"]]:
    """Yield arrays of about `size` elements, made of the pieces."""
    held: list[np.ndarray] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield np.concatenate(held)
            held, length = [], 0
    if length:
        yield np.concatenate(held)
