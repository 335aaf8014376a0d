"""Where work runs: threads of this process, or processes on this machine or many others (`sapwood.run.cluster`).

A pass over data is always the same four steps, whoever does the work:

    shards = workers.place(make, recipes)               # once: each shard is made, and stays, where it is worked on
    weights = workers.share(weights)                    # in each pass: what changes goes to all
    parts = workers.map(call, shards, repeat(weights))  # results come back in the order of the shards
    for part in parts: total += part                    # and are added up in that order

so that a sum does not depend on who was done first, nor on how many workers there are. What `keep` and `share` return
is handed to further calls, and to nothing else: of threads it is the thing itself, of a cluster a name for it. Where it
is lost with a worker, the call that made it is made again: calls depend on nothing but their arguments and change none
of them. Only calls that are known to run on threads (`Workers.near`) may write to arrays that they are handed.
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
from sapwood.run.columns import Columns, FileTable, Rows
from sapwood.shapes import Array, Shaped

R = TypeVar("R")
# What stays where it was made: to be handed to `keep` and `map`.
Kept: TypeAlias = Any
# Sums of more parts than this are sums of sums of so many, which can be made in different places.
TOGETHER = 64


class Workers(ABC):
    """Those who do the work.

    Attributes
    ----------
    threads
        How many threads of this process work on what is done here.
    near
        Whether calls run in this process, on its own arrays.
    together
        Whether all see what one of them keeps, at next to no cost.
    """

    threads: int
    near: bool
    together: bool

    @property
    @abstractmethod
    def count(self) -> int:
        """How many calls can run at a time, now."""

    @abstractmethod
    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield `call(*arguments)` for each row of arguments, in order.

        Arguments are taken only as they are needed, at most `ahead` before the first of which the result is not
        there yet (by default a few for each worker).
        """

    @abstractmethod
    def place(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Do what `keep` does, the first rows on one worker, the next on another: shards, for as long as they last."""

    @abstractmethod
    def keep(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Do what `map` does, but leave the results where they are: calls are made where their arguments are."""

    @abstractmethod
    def bring(self, kept: Iterable[Kept]) -> Iterator[Any]:
        """Yield what is kept, in order."""

    @abstractmethod
    def fold(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return what `step(total, result)` leads to from a start, for the results of `map` in order.

        Calls run at the same time, steps one after the other, each where its result is. They return a new total.
        """

    @abstractmethod
    def share(self, value: Any) -> Kept:
        """Hand a value to all workers."""

    @abstractmethod
    def check_visible(self, path: str | Path) -> None:
        """Raise an `InputError` if a worker does not see a file or folder that is seen here."""

    @abstractmethod
    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Columns:
        """Put arrays where parts of them can be loaded by calls, as long as what is returned is there."""

    def table(self, size: int) -> FileTable | None:
        """Return room for numbers that calls make, some each, if they see the same files at next to no cost."""
        del size
        return None

    def suited(self, seconds: float, calls: int) -> Workers:
        """Return those who should do what takes so many seconds of a processor in so many calls: these, or nearer ones.

        The result is the same whoever does it.
        """
        del seconds, calls
        return self


class Threads(Workers):
    """Threads of this process; with one, everything happens in the calling thread.

    >>> list(Threads(2).map(pow, [2, 3, 4], [5, 2, 1]))
    [32, 9, 4]
    """

    near = together = True

    def __init__(self, threads: int = 1) -> None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        self.threads = threads

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.threads})"

    @property
    def count(self) -> int:
        """How many threads there are."""
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

    def place(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return the results themselves."""
        return self.keep(call, *columns)

    def keep(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return the results themselves."""
        return list(self.map(call, *columns))

    def bring(self, kept: Iterable[Kept]) -> Iterator[Any]:
        """Yield the results themselves."""
        return iter(kept)

    def fold(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the last total."""
        return reduce(step, self.map(call, *columns), start)

    def share(self, value: Any) -> Kept:
        """Return the value itself."""
        return value

    def check_visible(self, path: str | Path) -> None:
        """Do nothing: what is seen here is seen."""

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Columns:
        """Leave the arrays where they are."""
        return Rows(arrays)


# Where work runs if nothing is said.
HERE = Threads(1)


def itself(value: R) -> R:
    """Return the value: a call that brings here what is kept elsewhere."""
    return value


def in_order(submit: Callable[..., Future[R]], rows: Iterable[Sequence[Any]], ahead: int) -> Iterator[R]:
    """Yield the results of what is submitted for each row, in order; cancel what is still under way at the end."""
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
