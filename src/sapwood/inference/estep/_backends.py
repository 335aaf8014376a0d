"""Shard backends of the E-step: local threads or remote workers.

Threads hold the vectors of several shards, up to a bound; then the rules are divided among the threads, and each adds
to its own range of a single table of sums. Many shards are divided into blocks, whose sums are added in a binary tree.
Remote workers hold a few consecutive shards each. If they share memory, they do the same, each for some of the rules of
all shards. Otherwise the sums of a range of rules are passed from worker to worker, and each adds its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, count, groupby, pairwise, repeat
from typing import Any, TypeVar

import numpy as np

from sapwood.inference.estep import _shard_estep as _passes
from sapwood.inference.estep._shard_estep import CountSums, NodeVectors, Weights
from sapwood.runtime.executor import SUM_BLOCK, Executor, Handle, in_tree

# Maximum number of entries in the vectors held for expected counts, unless one shard has more.
_HELD = 1 << 25
# Number of parts of the rules for each thread, so that all threads finish at about the same time.
_PARTS = 8
# Number of parts that are passed from worker to worker (the more, the sooner the last worker starts), and the minimum
# number of entries in a part that justifies another call.
_WAYS, _PART = 4, 1 << 17
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ShardSpec:
    """Specification of the shards of a corpus.

    Attributes
    ----------
    make
        Function that returns a shard, given its rows of all tables, the index of its first node, the settings and the
        keys.
    tables
        Columns of the nodes, and of other tables.
    spans
        Row range of each shard in each table; the first table is that of the nodes.
    settings
        Settings shared by all shards.
    pair_keys
        Pairs of preterminal and word: `preterminal * n_words + word`, sorted.
    rule_counts
        Amount of work for each rule.
    """

    make: Callable[..., Any]
    tables: Sequence[Mapping[str, np.ndarray]]
    spans: Sequence[Sequence[tuple[int, int]]]
    settings: tuple[int, ...]
    pair_keys: np.ndarray
    rule_counts: np.ndarray

    @property
    def symbol(self) -> np.ndarray:
        """Symbol of each node."""
        return self.tables[0]["symbol"]


class ShardBackend(ABC):
    """Abstract backend that stores all shards of a corpus."""

    def __init__(self, recipe: ShardSpec, workers: Executor) -> None:
        self.recipe, self.workers = recipe, workers
        self._columns = [workers.columns(table) for table in recipe.tables]
        self._parts = [
            tuple(columns.part(*rows) for columns, rows in zip(self._columns, spans, strict=True))
            for spans in recipe.spans
        ]
        self._firsts = [spans[0][0] for spans in recipe.spans]
        self._settings = [repeat(value) for value in (*recipe.settings, workers.broadcast(recipe.pair_keys))]

    @abstractmethod
    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield the result of `work` on each shard, in order."""

    @abstractmethod
    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Fold `step` over the shards in order, given their symbols and inside and outside vectors."""

    @abstractmethod
    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return the expected counts of rules, and all other expected counts."""

    def rule_parts(self, weights: Weights, workers: int, each: int) -> list[tuple[int, int]]:
        """Split the rules into ranges of about equal work, `each` for each of the workers."""
        work = np.cumsum(np.diff(weights.tensor_offsets) * (self.recipe.rule_counts + 1))
        if workers == 1 or not len(work):
            return [(0, len(work))]
        ends = np.searchsorted(work, np.arange(1, each * workers) * (work[-1] / (each * workers)))
        return list(pairwise(np.unique([0, *ends, len(work)]).tolist()))


class LocalShards(ShardBackend):
    """Shards in this process."""

    def __init__(self, recipe: ShardSpec, workers: Executor) -> None:
        super().__init__(recipe, workers)
        self.shards: list[Any] = workers.persist(recipe.make, self._parts, self._firsts, *self._settings)

    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield the result of `work` on each shard, in order."""
        return self.workers.map(work, self.shards, repeat(weights), *more)

    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Fold `step` over the shards."""
        return self.workers.reduce(partial(_step, step), start, _passes.inside_outside, self.shards, repeat(weights))

    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return the expected counts of rules, and all other expected counts."""
        blocks = range(0, max(len(self.shards), 1), SUM_BLOCK)
        total, every = in_tree(
            _added, (self._block(weights, self.shards[block : block + SUM_BLOCK]) for block in blocks)
        )
        begins = weights.tensor_offsets

        def multiply(part: tuple[int, int]) -> None:
            places = slice(*begins[list(part)])
            total[places] *= weights.tensors[places]

        list(self.workers.map(multiply, self.rule_parts(weights, self.workers.count, _PARTS)))
        return total, every

    def _block(self, weights: Weights, block: Sequence[Any]) -> tuple[np.ndarray, CountSums]:
        """Return the sums over a block of shards."""
        tensors, counts = np.zeros(len(weights.tensors)), CountSums.of_nothing(weights)
        for shards in self.batches(weights, block):
            held = []
            found = self.workers.map(_passes.expectations, shards, repeat(weights))
            for shard, (part, vectors) in zip(shards, found, strict=True):
                counts.add(part, weights)
                held.append((shard, vectors))
            add = partial(_passes.add_rules, held=held, weights=weights, tensors=tensors)
            list(self.workers.map(add, self.rule_parts(weights, self.workers.count, _PARTS)))
            held.clear()
        return tensors, counts

    def batches(self, weights: Weights, shards: Sequence[Any]) -> Iterator[list[Any]]:
        """Split shards into groups whose vectors fit into memory at once."""
        sizes = [2 * int(weights.states[shard.symbol].sum()) for shard in shards]
        batch = np.cumsum(sizes) // _HELD
        for number in np.unique(batch):
            yield [shard for shard, own in zip(shards, batch, strict=True) if own == number]


class RemoteShards(ShardBackend):
    """Shards on remote workers, in consecutive groups, at least one per worker."""

    def __init__(self, recipe: ShardSpec, workers: Executor) -> None:
        super().__init__(recipe, workers)
        cuts = _cuts(len(recipe.spans), workers.count)
        together = ([each[a:b] for a, b in pairwise(cuts)] for each in (self._parts, self._firsts))
        # Groups whose sums are computed one after the other.
        numbers = groupby(range(len(cuts) - 1), lambda number: cuts[number] // SUM_BLOCK)
        self._blocks = [list(block) for _, block in numbers]
        self._runs: list[Handle] = workers.persist(
            partial(_passes.prepare_all, recipe.make), *together, *self._settings
        )

    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield the result of `work` on each shard, in order."""
        shared = repeat(self.workers.broadcast(weights))
        return chain.from_iterable(self.workers.map(partial(_passes.each, work), self._runs, shared, *more))

    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Fold `step` over the shards."""
        call, shared = partial(_passes.each, _passes.inside_outside), repeat(self.workers.broadcast(weights))
        return self.workers.reduce(partial(_steps, step), start, call, self._runs, shared)

    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return the expected counts of rules, and all other expected counts."""
        workers, shared = self.workers, self.workers.broadcast(weights)
        found = workers.submit(partial(_passes.each, _passes.expectations), self._runs, repeat(shared))
        if workers.shares_memory and 2 * int(weights.states[self.recipe.symbol].sum()) <= _HELD:
            blocks = [[block] for block in self._blocks]
            ways = len(found)
        else:
            # While one group adds to some rules, the groups before it add to the next.
            blocks = [[[number] for number in block] for block in self._blocks]
            ways = min(_WAYS, len(weights.tensors) // _PART + 1) if len(found) > 1 else 1
        table, parts, sums = workers.table(len(weights.tensors)), self.rule_parts(weights, ways, 1), list[Handle]()
        for part in parts:
            ends: list[Handle] = []
            for block in blocks:
                own: Handle = None
                for step in block:
                    runs, vectors = ([each[number] for number in step] for each in (self._runs, found))
                    into = table if len(blocks) == 1 and step is block[-1] else None
                    own = workers.submit(_passes.add_some, [own], [runs], [vectors], [shared], [part], [into])[0]
                ends.append(own)
            joins = count(1)

            def join(one: Handle, other: Handle, part: tuple[int, int] = part, joins: Iterator[int] = joins) -> Handle:
                into = table if next(joins) == len(blocks) - 1 else None
                return workers.submit(_passes.join, [one], [other], [shared], [part], [into])[0]

            sums.append(in_tree(join, ends))
        del found, vectors, own, ends
        if table is not None:
            every = [each.counts for each in workers.gather(sums)]
            return (table.array, every[0]) if table.sound else self.expected(weights)
        total, every = np.empty(len(weights.tensors)), []
        for part, each in zip(parts, workers.gather(sums), strict=True):
            places = slice(*weights.tensor_offsets[list(part)])
            np.multiply(each.sums, weights.tensors[places], out=total[places])
            every.append(each.counts)
        return total, every[0]


def _cuts(shards: int, workers: int) -> list[int]:
    """Split shards into as many groups as there are workers, with a cut wherever a partial sum begins."""
    even = np.linspace(0, shards, min(shards, workers) + 1).astype(int)
    return np.unique([*even, *range(0, shards, SUM_BLOCK)]).tolist()


def _added(one: tuple[np.ndarray, CountSums], other: tuple[np.ndarray, CountSums]) -> tuple[np.ndarray, CountSums]:
    """Return the sums of two blocks; those of the first are overwritten."""
    np.add(one[0], other[0], out=one[0])
    return one[0], one[1].joined(other[1])


def _step(step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: tuple[np.ndarray, NodeVectors]) -> T:
    return step(total, *found)


def _steps(
    step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: Sequence[tuple[np.ndarray, NodeVectors]]
) -> T:
    return reduce(partial(_step, step), found, total)
