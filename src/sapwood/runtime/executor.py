"""Executors: threads of this process, or processes on this machine or many others (`sapwood.runtime.dask.executor`).

A pass over data always has the same four steps, on any executor:

    shards = workers.persist(make, recipes)             # once: build each shard where it will be processed
    weights = workers.broadcast(weights)                # in each pass: send what changes to all workers
    parts = workers.map(call, shards, repeat(weights))  # results arrive in the order of the shards
    for part in parts: total += part                    # and are added up in that order

so that a sum depends neither on which worker finishes first nor on the number of workers. Sums of many shards are sums
of blocks, added in a binary tree (`in_tree`): workers add in parallel, and the number of shards alone fixes the order.
The results of `submit` and `broadcast` may only be passed to further calls: for threads they are the values, for a
cluster handles. If a value is lost with a worker, the call that computed it is repeated: calls depend only on their
arguments and do not modify them. Only calls known to run on threads (`Executor.is_local`) may write to arrays passed to
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from sapwood.errors import UsageError
from sapwood.runtime.dask.array_store import ArrayStore, FileTable, MemoryRows
from sapwood.storage.shapes import Array, Shaped

R = TypeVar("R")
# Handle of a value that stays where it was computed: an argument of `submit` and `map`.
Handle: TypeAlias = Any
# Sums of more parts than this are sums of partial sums of this many, which can be computed on different workers.
SUM_BLOCK = 8


class Executor(ABC):
    """Abstract executor.

    Attributes
    ----------
    threads
        Number of threads of this process, for work done locally.
    is_local
        True if calls run in this process, on its own arrays.
    shares_memory
        True if all workers have access to what one of them keeps, at hardly any cost.
    """

    threads: int
    is_local: bool
    shares_memory: bool

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of calls that can run in parallel, now."""

    @abstractmethod
    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield `call(*arguments)` for each row of arguments, in order.

        Arguments are consumed only as needed, at most `ahead` before the first pending result (by default a few for
        each worker).
        """

    @abstractmethod
    def persist(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Like `submit`, with the first rows on one worker, the next on another: for long-lived shards."""

    @abstractmethod
    def submit(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Like `map`, but leave the results on the workers: calls run where their arguments are."""

    @abstractmethod
    def gather(self, handles: Iterable[Handle]) -> Iterator[Any]:
        """Yield the values of handles, in order."""

    @abstractmethod
    def reduce(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the result of `step(total, result)` over the results of `map` in order, from `start`.

        Calls run in parallel, steps sequentially, each where its result is. They return a new total.
        """

    @abstractmethod
    def broadcast(self, value: Any) -> Handle:
        """Broadcast a value to all workers."""

    @abstractmethod
    def check_visible(self, path: str | Path) -> None:
        """Raise an `InputError` if a worker cannot access a local file or folder."""

    @abstractmethod
    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> ArrayStore:
        """Store arrays so that calls can load row ranges of them, as long as the returned object exists."""

    def table(self, size: int) -> FileTable | None:
        """Return a table that calls fill in part by part, if workers share files at hardly any cost."""
        del size
        return None

    def if_worthwhile(self, seconds: float, calls: int) -> Executor:
        """Return the executor for work of that many processor seconds and calls: this one, or a more local one.

        The result does not depend on the executor.
        """
        del seconds, calls
        return self


class Threads(Executor):
    """Threads of this process; with one, everything runs in the calling thread.

    >>> list(Threads(2).map(pow, [2, 3, 4], [5, 2, 1]))
    [32, 9, 4]
    """

    is_local = shares_memory = True

    def __init__(self, threads: int = 1) -> None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        self.threads = threads

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.threads})"

    @property
    def count(self) -> int:
        """Number of threads."""
        return self.threads

    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield results in order."""
        if self.threads == 1:
            yield from map(call, *columns)
            return
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self.threads))
            yield from in_order(
                lambda *row: pool.submit(call, *row), zip(*columns, strict=False), ahead or 2 * self.threads
            )

    def persist(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Return the results."""
        return self.submit(call, *columns)

    def submit(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Return the results."""
        return list(self.map(call, *columns))

    def gather(self, handles: Iterable[Handle]) -> Iterator[Any]:
        """Yield the values."""
        return iter(handles)

    def reduce(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the last total."""
        return reduce(step, self.map(call, *columns), start)

    def broadcast(self, value: Any) -> Handle:
        """Return the value."""
        return value

    def check_visible(self, path: str | Path) -> None:
        """Do nothing: the file is accessible."""

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> ArrayStore:
        """Return the arrays in memory."""
        return MemoryRows(arrays)


# Default executor.
LOCAL = Threads(1)


def in_tree(join: Callable[[R, R], R], parts: Iterable[R]) -> R:
    """Join parts in a binary tree: neighbours, then neighbours of these, and so on.

    The tree depends on the number of parts alone. Parts are consumed one by one, and at most log2 of them are kept.

    >>> in_tree(lambda one, other: f"({one}{other})", "abcdefg")
    '(((ab)(cd))((ef)g))'
    """
    # Joined parts and how many there are in each: powers of two, falling.
    waiting: list[tuple[R, int]] = []
    for part in parts:
        joined, size = part, 1
        while waiting and waiting[-1][1] == size:
            joined, size = join(waiting.pop()[0], joined), 2 * size
        waiting.append((joined, size))
    total = waiting.pop()[0]
    while waiting:
        total = join(waiting.pop()[0], total)
    return total


def itself(value: R) -> R:
    """Return the value: a call that fetches remote values."""
    return value


def in_order(submit: Callable[..., Future[R]], rows: Iterable[Sequence[Any]], ahead: int) -> Iterator[R]:
    """Yield the results of the tasks submitted for each row, in order; cancel pending ones at the end."""
    waiting: deque[Future[R]] = deque()
    try:
        for row in rows:
            waiting.append(submit(*row))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
