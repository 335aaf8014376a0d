"""Workers that are elsewhere: all goes to them and comes back by post, and nothing they are handed can be changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from sapwood.runtime.dask.array_store import MemoryRows
from sapwood.runtime.executor import Executor


def posted(thing: Any) -> Any:
    """Return a copy that went through the post; its arrays are read-only."""
    buffers: list[bytes] = []
    letter = pickle.dumps(thing, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw().tobytes()))
    return pickle.loads(letter, buffers=buffers)


class Parcel:
    """What stays elsewhere: it can be handed to a call there, and to nothing else."""

    def __init__(self, thing: Any) -> None:
        self._thing = posted(thing)


def opened(argument: Any) -> Any:
    if isinstance(argument, list):
        return [opened(each) for each in argument]
    return argument._thing if isinstance(argument, Parcel) else posted(argument)


class Elsewhere(Executor):
    """Does all at once, as on another machine."""

    is_local = False

    def __init__(self, count: int = 2, threads: int = 1, *, shares_memory: bool = False) -> None:
        self._count, self.threads, self.calls, self.shares_memory = count, threads, 0, shares_memory

    def __repr__(self) -> str:  # a name of tests, which is the same in all processes that run them
        return f"{type(self).__name__}({self._count}, {self.threads})" + " with shared memory" * self.shares_memory

    @property
    def count(self) -> int:
        return self._count

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Parcel:
        self.calls += 1
        return Parcel(posted(call)(*map(opened, arguments)))

    def map(self, call: Callable[..., Any], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[Any]:
        for row in zip(*columns, strict=False):
            yield self._call(call, *row)._thing

    def submit(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Parcel]:
        return [self._call(call, *row) for row in zip(*columns, strict=False)]

    def gather(self, handles: Iterable[Parcel]) -> Iterator[Any]:
        return (opened(parcel) for parcel in handles)

    def persist(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Parcel]:
        return self.submit(call, *columns)

    def reduce(self, step: Callable[..., Any], start: Any, call: Callable[..., Any], *columns: Iterable[Any]) -> Any:
        return reduce(lambda total, found: self._call(step, total, found), self.submit(call, *columns), start)._thing

    def broadcast(self, value: Any) -> Parcel:
        return Parcel(value)

    def check_visible(self, path: Any) -> None:
        assert Path(path).exists()

    def columns(self, arrays: Any) -> MemoryRows:
        return MemoryRows(arrays)
