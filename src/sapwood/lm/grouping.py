"""Counting n-grams of a sequence of ids that may be longer than memory.

A block of the sequence at a time, the n-grams at its positions are packed into integers, divided into buckets by their
first words, and sorted and counted bucket by bucket. What a block leaves, its distinct n-grams with their counts, is
kept in a `Store`; at the end each bucket of all blocks is merged. Buckets are ranges of words of about the same number
of tokens, small enough to be sorted in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.lm.store import Store, empty
from sapwood.lm.vocabulary import END
from sapwood.run.workers import Threads
from sapwood.shapes import Array, Int, Int32, Int64, UInt64

_IN_CACHE = 1 << 16
_MOST_BUCKETS = 1 << 10
# N-grams, sorted, and their counts.
Table: TypeAlias = tuple[Int32[Array, "ngrams order"], Int64[Array, "ngrams"]]
# N-grams packed into integers, sorted, and their counts.
Bucket: TypeAlias = tuple[UInt64[Array, "columns ngrams"], Int64[Array, "ngrams"]]


class Grouping:
    """Counts the n-grams of orders 1 to `order` of a sequence handed in block by block.

    Parameters
    ----------
    frequencies
        How often each id occurs in all.
    order
        The longest n-grams.
    sentences
        Whether n-grams end at `</s>`.
    threads
        Worker threads.
    memory
        About how many bytes to take. The n-grams that begin with the most frequent word must fit.
    folder
        Where temporary files go.
    block
        About how many bytes to take for a block, if not a part of `memory`: buckets are the same if it is.
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

        `ahead` are the first ids of what follows, in which its last n-grams end.
        """
        return [
            (self._store.get(keys, drop=True), self._store.get(counts, drop=True))
            for keys, counts in self._end_with(ahead)
        ]

    @property
    def n_buckets(self) -> int:
        """How many buckets there are."""
        return self._buckets

    def no_buckets(self) -> list[Bucket]:
        """Return the buckets of nothing at all."""
        nothing = np.zeros((self._columns, 0), np.uint64), np.zeros(0, np.int64)
        return [nothing] * self._buckets

    def absorb(self, buckets: Iterable[Bucket]) -> None:
        """Take over all buckets of the whole sequence, as `buckets` and `merge_buckets` return them."""
        self._runs.append([self._keep(*bucket) for bucket in buckets])

    def _end_with(self, ahead: np.ndarray) -> list[tuple[int, int]]:
        waiting, self._waiting = self._waiting, np.zeros(0, np.int32)
        self._count(np.concatenate([waiting, ahead]), len(waiting))
        return self._merged() if len(self._runs) > 1 else (self._runs[0] if self._runs else [])

    def tables(self) -> list[Table]:
        """End the sequence and return for each order the n-grams and counts."""
        buckets = self._end_with(np.zeros(0, np.int32))
        sizes = np.zeros((len(buckets) + 1, self._order), np.int64)

        def measure(bucket: int) -> None:
            keys, counts = self._store.get(buckets[bucket][0]), np.zeros(0, np.int64)
            for k in range(1, self._order + 1):
                none = np.empty((0, k), np.int32)
                sizes[bucket + 1, k - 1] = kernels.fill_ngrams(keys, counts, self._order, self._bits, none, counts)

        list(self._threads.map(measure, range(len(buckets))))
        starts = np.cumsum(sizes, axis=0)
        # Tables that take more than half the memory are files, paged in as they are used.
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
    """Return one bucket of several parts of a sequence together."""
    if len(parts) == 1:
        return parts[0]
    keys = [np.vstack([keys, counts.view(np.uint64)[None]]) for keys, counts in parts]
    return _reduce(np.concatenate(keys, axis=1), len(parts[0][0]))


def _reduce(keys: np.ndarray, columns: int) -> Table:
    """Sort keys `(columns (+ 1), n)` and return each once, with its count."""
    scratch = np.empty_like(keys)
    if kernels.sort_keys(keys, scratch, columns):
        keys = scratch
    counts = np.empty(keys.shape[1], np.int64)
    left = kernels.count_equal_keys(keys, columns, counts)
    return keys[:columns, :left].copy(), counts[:left].copy()


def group(ngrams: Int[Array, "all order"], counts: Int[Array, "all"], size: int) -> Table:
    """Sort n-grams of ids below `size` and add up the counts of those that are equal."""
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
    """Yield arrays of about `size` elements, made of those that come."""
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
