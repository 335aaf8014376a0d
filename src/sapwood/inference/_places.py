"""Where shards of observed trees are, and how what is found in them is put together: here on threads, or elsewhere.

On threads vectors of several shards are held, a bounded amount: then rules are shared out among them, and each adds to
its own rules' part of the one table of sums. Workers elsewhere have some consecutive shards each. If they see each
other's arrays they do the same, each for some rules of all shards. If they do not, the sums of some rules at a time go
from one to the next, and each adds its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, groupby, pairwise, repeat
from typing import TypeVar

import numpy as np

from sapwood.inference import _passes
from sapwood.inference._passes import CountSums, NodeVectors, Weights
from sapwood.inference._shards import Shard, prepare
from sapwood.run.workers import TOGETHER, Kept, Workers

# Numbers in the vectors that are held for expected counts, at most, if one shard does not have more.
_HELD = 1 << 25
# Parts into which rules are cut for each thread, so that all are done at about the same time.
_PARTS = 8
# Parts that go from one worker to the next: the more, the sooner the last has something to do. And the least numbers
# in a part that is worth another call.
_WAYS, _PART = 4, 1 << 17
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Recipe:
    """What shards are made from.

    Attributes
    ----------
    columns
        Of all nodes of a corpus.
    spans
        The first node of each shard, and that behind its last.
    pair_keys, n_words
        The pairs of preterminal and word: `preterminal * n_words + word`, sorted.
    rule_counts
        How often each rule occurs.
    """

    columns: Mapping[str, np.ndarray]
    spans: Sequence[tuple[int, int]]
    pair_keys: np.ndarray
    n_words: int
    rule_counts: np.ndarray


class Place(ABC):
    """All shards of a corpus, somewhere."""

    def __init__(self, recipe: Recipe, workers: Workers) -> None:
        self.recipe, self.workers = recipe, workers
        self._columns = workers.columns(recipe.columns)
        self._parts = [self._columns.part(first, last) for first, last in recipe.spans]
        self._firsts = [first for first, _ in recipe.spans]
        keys = workers.share(recipe.pair_keys)
        self._settings = repeat(recipe.n_words), repeat(len(recipe.rule_counts)), repeat(keys)

    @abstractmethod
    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield what some work finds in each shard, in order."""

    @abstractmethod
    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Return what steps lead to, one for each shard in order: from its symbols, inside and outside vectors."""

    @abstractmethod
    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return expected counts of rules, and of all else."""

    def rule_parts(self, weights: Weights, workers: int, each: int) -> list[tuple[int, int]]:
        """Cut the rules into runs of about the same work, a few for each of several workers."""
        work = np.cumsum(np.diff(weights.tensor_offsets) * (self.recipe.rule_counts + 1))
        if workers == 1 or not len(work):
            return [(0, len(work))]
        ends = np.searchsorted(work, np.arange(1, each * workers) * (work[-1] / (each * workers)))
        return list(pairwise(np.unique([0, *ends, len(work)]).tolist()))


class Here(Place):
    """Shards of this process."""

    def __init__(self, recipe: Recipe, workers: Workers) -> None:
        super().__init__(recipe, workers)
        self.shards: list[Shard] = workers.place(prepare, self._parts, self._firsts, *self._settings)

    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield what some work finds in each shard, in order."""
        return self.workers.map(work, self.shards, repeat(weights), *more)

    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Return what steps lead to."""
        return self.workers.fold(partial(_step, step), start, _passes.inside_outside, self.shards, repeat(weights))

    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return expected counts of rules, and of all else."""
        total, every = np.zeros(len(weights.tensors)), CountSums.of_nothing(weights)
        for block in range(0, len(self.shards), TOGETHER):
            tensors, counts = (np.zeros(len(total)), CountSums.of_nothing(weights)) if block else (total, every)
            for shards in self.batches(weights, self.shards[block : block + TOGETHER]):
                held = []
                found = self.workers.map(_passes.expectations, shards, repeat(weights))
                for shard, (part, vectors) in zip(shards, found, strict=True):
                    counts.add(part, weights)
                    held.append((shard, vectors))
                add = partial(_passes.add_rules, held=held, weights=weights, tensors=tensors)
                list(self.workers.map(add, self.rule_parts(weights, self.workers.count, _PARTS)))
                held.clear()
            if block:
                total += tensors
                every = every.joined(counts)
        begins = weights.tensor_offsets

        def multiply(part: tuple[int, int]) -> None:
            places = slice(*begins[list(part)])
            total[places] *= weights.tensors[places]

        list(self.workers.map(multiply, self.rule_parts(weights, self.workers.count, _PARTS)))
        return total, every

    def batches(self, weights: Weights, shards: Sequence[Shard]) -> Iterator[list[Shard]]:
        """Cut shards into runs whose vectors may be held at once."""
        sizes = [2 * int(weights.states[shard.symbol].sum()) for shard in shards]
        batch = np.cumsum(sizes) // _HELD
        for number in np.unique(batch):
            yield [shard for shard, own in zip(shards, batch, strict=True) if own == number]


class There(Place):
    """Shards elsewhere, consecutive ones together: as many runs of them as there are workers, or more."""

    def __init__(self, recipe: Recipe, workers: Workers) -> None:
        super().__init__(recipe, workers)
        cuts = _cuts(len(recipe.spans), workers.count)
        together = ([each[a:b] for a, b in pairwise(cuts)] for each in (self._parts, self._firsts))
        # Runs whose sums are made one after the other.
        numbers = groupby(range(len(cuts) - 1), lambda number: cuts[number] // TOGETHER)
        self._blocks = [list(block) for _, block in numbers]
        self._runs: list[Kept] = workers.place(_passes.prepare_all, *together, *self._settings)

    def run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield what some work finds in each shard, in order."""
        shared = repeat(self.workers.share(weights))
        return chain.from_iterable(self.workers.map(partial(_passes.each, work), self._runs, shared, *more))

    def fold(self, step: Callable[[T, np.ndarray, NodeVectors], T], start: T, weights: Weights) -> T:
        """Return what steps lead to."""
        call, shared = partial(_passes.each, _passes.inside_outside), repeat(self.workers.share(weights))
        return self.workers.fold(partial(_steps, step), start, call, self._runs, shared)

    def expected(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return expected counts of rules, and of all else."""
        workers, shared = self.workers, self.workers.share(weights)
        found = workers.keep(partial(_passes.each, _passes.expectations), self._runs, repeat(shared))
        if workers.together and 2 * int(weights.states[self.recipe.columns["symbol"]].sum()) <= _HELD:
            blocks = [[block] for block in self._blocks]
            ways = len(found)
        else:
            # While one run adds to some rules, those before it add to the next.
            blocks = [[[number] for number in block] for block in self._blocks]
            ways = min(_WAYS, len(weights.tensors) // _PART + 1) if len(found) > 1 else 1
        table, parts, sums = workers.table(len(weights.tensors)), self.rule_parts(weights, ways, 1), list[Kept]()
        for part in parts:
            ends: list[Kept] = []
            for block in blocks:
                own: Kept = None
                for step in block:
                    runs, vectors = ([each[number] for number in step] for each in (self._runs, found))
                    into = table if len(blocks) == 1 and step is block[-1] else None
                    own = workers.keep(_passes.add_some, [own], [runs], [vectors], [shared], [part], [into])[0]
                ends.append(own)
            while len(ends) > 1:
                into = table if len(ends) == 2 else None
                ends[:2] = workers.keep(_passes.join, [ends[0]], [ends[1]], [shared], [part], [into])
            sums += ends
        del found, vectors, own, ends
        if table is not None:
            every = [each.counts for each in workers.bring(sums)]
            return (table.array, every[0]) if table.sound else self.expected(weights)
        total, every = np.empty(len(weights.tensors)), []
        for part, each in zip(parts, workers.bring(sums), strict=True):
            places = slice(*weights.tensor_offsets[list(part)])
            np.multiply(each.sums, weights.tensors[places], out=total[places])
            every.append(each.counts)
        return total, every[0]


def _cuts(shards: int, workers: int) -> list[int]:
    """Cut shards into as many runs as there are workers, and wherever a sum of sums begins."""
    even = np.linspace(0, shards, min(shards, workers) + 1).astype(int)
    return np.unique([*even, *range(0, shards, TOGETHER)]).tolist()


def _step(step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: tuple[np.ndarray, NodeVectors]) -> T:
    return step(total, *found)


def _steps(
    step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: Sequence[tuple[np.ndarray, NodeVectors]]
) -> T:
    return reduce(partial(_step, step), found, total)
