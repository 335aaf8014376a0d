"""Workers on a Dask cluster: processes on this machine, or on as many machines as there are.

Nothing is on a worker that could not be made again: shards are made from recipes, what is shared is kept by the
scheduler, and all else follows from these by calls. So when a worker dies, what it had is made again by others, or by
the one that takes its place, and only the end of the scheduler ends a run. What it has done by then is in its
checkpoint.

Calls are collected until the result of one is wanted, and go in one message then: each costs as much as several calls.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import time
import traceback
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sapwood.errors import ClusterError, InputError, SapwoodError
from sapwood.run.columns import Columns, FileColumns, FileTable, Rows, remove
from sapwood.run.connection import LOOK, CallFailed, Connection, difference, versions
from sapwood.run.parallel import one_blas_thread
from sapwood.run.sealed import Sealed
from sapwood.run.workers import Kept, Threads, Workers, itself
from sapwood.shapes import Array, Shaped

R = TypeVar("R")
# Calls under way for each worker's thread, and at least; and calls that are collected, at most.
_AHEAD, _LEAST_AHEAD, _COLLECTED = 4, 16, 1000
# Bytes that go along with each call that needs them.
_SMALL = 1 << 16
# Seconds to wait for a scheduler, and for a first worker.
_PATIENCE = 30.0
# Calls that take fewer seconds are made several together, so many at most.
_SHORT, _LARGEST = 0.05, 64
# Seconds of work from which on a call is worth it; it costs about a hundredth, with all that travels.
_WORTH_CALLING = 0.07


class Cluster(Workers):
    """Workers of a Dask cluster; use it in a `with` block.

    Parameters
    ----------
    address
        The address of a scheduler, the path of a scheduler file, or `local:N` for N processes on this machine
        (`local`: as many as there are cores).
    threads
        Threads of this process, for what is done here.
    memory
        Bytes that each process of `local:N` may take (default: an equal share of what there is).
    patience
        Seconds to wait for the scheduler and for a first worker.

    Examples
    --------
    A script has this below `if __name__ == "__main__":`, for processes of `local` begin by importing it.

        with Cluster("local:2") as cluster:
            sapwood.train(trees, workers=cluster)
    """

    near = False

    def __init__(
        self, address: str, *, threads: int = 1, memory: int | None = None, patience: float = _PATIENCE
    ) -> None:
        self.address, self.threads = address, threads
        self._connection = Connection(address, memory, patience)
        self._client, self._folder = self._connection.client, self._connection.folder
        self._explained = self._connection.explained
        self._counted = float("-inf"), 1
        # Calls that are to be made, and those whose message may not have arrived yet.
        self._collected: dict[str, tuple[tuple[Any, ...], weakref.ref[Name]]] = {}
        self._sent: dict[int, Any] = {}
        self._messages = 0
        # Files for tables of numbers that nobody looks at now, by size.
        self._tables: dict[int, list[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def close(self) -> None:
        """Let go of the workers; those of `local` end."""
        self._connection.close()

    @property
    def together(self) -> bool:  # type: ignore[override]
        """Whether workers map each other's files."""
        return self._folder is not None

    @property
    def count(self) -> int:
        """How many calls can run at a time, now or a few seconds ago."""
        now = time.monotonic()
        if now >= self._counted[0] + LOOK:
            with self._explained():
                self._counted = now, max(1, sum(self._client.nthreads().values()))
        return self._counted[1]

    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield results in order; several rows that take next to no time become one call."""
        part, size = self._part(ahead), 1
        rows = zip(*columns, strict=False)
        waiting: deque[list[Name]] = deque()

        def arrived() -> Iterator[R]:
            nonlocal size
            found: list[_Results[R]] = self._gathered(waiting.popleft())
            if sum(each.seconds for each in found) < _SHORT * len(found):
                size = min(2 * size, _LARGEST)
            return chain.from_iterable(each.results for each in found)

        try:
            # Half of what is under way comes back at once: each message costs a millisecond or more.
            while more := list(islice(rows, part * size)):
                # Where something kept is needed, calls go to where that is.
                step = 1 if any(isinstance(argument, Name) for argument in more[0]) else size
                several = [list(chain(*more[begin : begin + step])) for begin in range(0, len(more), step)]
                waiting.append(self._collect(partial(_each, call, len(more[0])), several))
                self._send_off()
                if len(waiting) > 1:
                    yield from arrived()
            while waiting:
                yield from arrived()
        finally:
            for names in waiting:
                with contextlib.suppress(Exception):
                    self._client.cancel([name.future for name in names])

    def bring(self, kept: Iterable[Kept]) -> Iterator[Any]:
        """Yield what is kept, in order."""
        rest, part = iter(kept), self._part(None)
        while more := list(islice(rest, part)):
            yield from self._gathered(more)

    def _part(self, ahead: int | None) -> int:
        return -(-(ahead or max(_LEAST_AHEAD, _AHEAD * self.count)) // 2)

    def _gathered(self, names: list[Name]) -> list[Any]:
        self._send_off()
        self._connection.check_interrupt()
        futures = [name.future for name in names]
        with self._explained():
            found = [sealed.value for sealed in self._client.gather(futures)]
        # What was sent before has arrived, too.
        for message in [message for message in self._sent if message <= max(name.message for name in names)]:
            del self._sent[message]
        return found

    def place(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return names of the results, which are on all workers about equally.

        That is what a scheduler does with calls that need nothing from elsewhere, so what is shared goes along with
        each. To name a worker for each would be worse: what is meant for one that has died may never be made, even if
        others are allowed to.
        """
        rows = [[_along(argument) for argument in row] for row in zip(*columns, strict=False)]
        found = self._collect(call, rows)
        self._send_off()
        return found

    def keep(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return names of the results, which are made when something is wanted that they lead to."""
        return self._collect(call, list(zip(*columns, strict=False)))

    def fold(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the last total."""
        found = self.keep(call, *columns)
        if not found:
            return start
        last = reduce(lambda total, part: self._collect(step, [(total, part)])[0], found, self.share(start))
        del found
        return self._gathered([last])[0]

    def share(self, value: Any) -> Kept:
        """Return the value to be sent along with calls: as it is if it is small, as a file that all map, or as a name.

        What has a name is kept by the scheduler until all are done with it.
        """
        sealed = Sealed(value, self._folder)
        if sealed.post() or sys.getsizeof(sealed) < _SMALL:
            return sealed
        (name,) = self._collect(itself, [(sealed,)])
        name.shared = sealed
        return name

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Columns:
        """Write the arrays to files in the folder for temporary ones, or send them if workers do not see that.

        The files vanish with what is returned.
        """
        if not self.sees(self._connection.scratch):
            return Rows(arrays)
        found = FileColumns.write(self._connection.scratch / uuid.uuid4().hex, arrays)
        weakref.finalize(found, shutil.rmtree, found.folder, ignore_errors=True)
        return found

    def table(self, size: int) -> FileTable | None:
        """Return a file that all map, if they can."""
        if self._folder is None or not size:
            return None
        lost = self._connection.lost
        for other in [other for other in self._tables if other != size or lost()]:
            for path in self._tables.pop(other):
                remove(path)
        free = self._tables.setdefault(size, [])
        path = free.pop() if free else str(self._connection.scratch / uuid.uuid4().hex)
        return FileTable(path, size, partial(self._put_away, size), lost)

    def _put_away(self, size: int, path: str) -> None:
        """Keep the file of a table for the next one of its size, unless that is of the past."""
        if size in self._tables and not self._connection.lost():
            self._tables[size].append(path)
        else:
            remove(path)

    def suited(self, seconds: float, calls: int) -> Workers:
        """Return threads of this process for what is done sooner than it is sent."""
        return self if seconds >= _WORTH_CALLING * calls else Threads(self.threads)

    def _collect(self, call: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Name]:
        """Note calls that are to be made, one for each row of arguments, and return names of the results."""
        named = call
        while isinstance(named, partial):
            named = named.args[0] if named.func is _each else named.func
        label = getattr(named, "__name__", "call").strip("_")
        sealed, run, names = Sealed(call), partial(_call, self._folder, versions()), []
        for row in rows:
            names.append(Name(f"{label}-{uuid.uuid4().hex}"))
            task = (run, sealed, *(self._argument(argument) for argument in row))
            self._collected[names[-1].key] = task, weakref.ref(names[-1])
        if len(self._collected) >= _COLLECTED:
            self._send_off()
        return names

    def _argument(self, argument: Any) -> Any:
        """Return an argument as it is sent; what is on workers already is not."""
        if isinstance(argument, list) and argument and isinstance(argument[0], Name):
            return [self._argument(each) for each in argument]
        if isinstance(argument, Name):
            return argument.key if argument.future is None else argument.future
        return argument if isinstance(argument, Sealed) else Sealed(argument, self._folder)

    def _send_off(self) -> None:
        """Have all calls made that were noted; results without a name are not kept.

        All go in one message: each costs as much as several calls.
        """
        import dask

        tasks, self._collected = self._collected, {}
        graph = {key: task for key, (task, _) in tasks.items()}
        names = [name for _, each in tasks.values() if (name := each()) is not None]
        if not names:
            return
        # What is shared goes through the scheduler on purpose: it can be had there again.
        with self._explained(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            futures = self._client.get(graph, [name.key for name in names], sync=False)
        self._messages += 1
        # Files are there at least until they have arrived.
        self._sent[self._messages] = graph
        for name, future in zip(names, futures, strict=True):
            name.future, name.message = future, self._messages

    def sees(self, path: str | Path) -> bool:
        """Return whether all workers see a file or folder of ours."""
        return not self._blind(path)

    def check_visible(self, path: str | Path) -> None:
        """Raise an `InputError` if a worker does not see a file or folder that is seen here."""
        if blind := self._blind(path):
            raise InputError(
                f"{path}: worker {blind[0]} does not see it; put it on a file system that all workers share"
            )

    def _blind(self, path: str | Path) -> list[str]:
        with self._explained():
            found = self._client.run(os.path.exists, str(Path(path).resolve()), on_error="return")
        # Who has died meanwhile is an error there, and need not see anything.
        return sorted(worker for worker, there in found.items() if there is False)


def open_workers(cluster: str | None, threads: int) -> contextlib.AbstractContextManager[Workers]:
    """Return the workers of a cluster or, if there is none, threads of this process; to be used in a `with` block."""
    return contextlib.nullcontext(Threads(threads)) if cluster is None else Cluster(cluster, threads=threads)


class Name:
    """Stands for the result of a call, which is or will be on some worker.

    Attributes
    ----------
    key
        The name.
    future, message
        What Dask knows it by, and the number of the message that it was sent off with, once that has been done.
    shared
        The result, if that is what somebody has shared.
    """

    __slots__ = ("__weakref__", "future", "key", "message", "shared")

    def __init__(self, key: str) -> None:
        self.key, self.future, self.message = key, None, 0
        self.shared: Sealed | None = None


@dataclass(frozen=True)
class _Results(Generic[R]):
    """What calls have returned, and how long they took."""

    results: list[R]
    seconds: float


def _each(call: Callable[..., R], width: int, *arguments: Any) -> _Results[R]:
    """Make calls with so many arguments each."""
    began = time.perf_counter()
    results = [call(*arguments[begin : begin + width]) for begin in range(0, len(arguments), width)]
    return _Results(results, time.perf_counter() - began)


def _along(argument: Any) -> Any:
    """Return what is shared as it is, if it has a name."""
    return argument.shared if isinstance(argument, Name) and argument.shared is not None else argument


def _opened(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_opened(each) for each in argument]
    return argument.value


def _call(folder: str | None, here: dict[str, str], call: Sealed, *arguments: Any) -> Sealed:
    """Run on a worker, given the versions of who wants it."""
    _limit_worker()
    try:
        if here != versions():  # of a worker that has come late
            raise ClusterError(difference(here, versions(), platform.node()))
        return Sealed(call.value(*map(_opened, arguments)), folder)
    except Exception as error:
        if not isinstance(error, SapwoodError):
            error.add_note(f"On a worker:\n{traceback.format_exc()}")
        raise CallFailed(error) from None


@cache
def _limit_worker() -> None:
    """Keep matrix products of this process to one thread, for good."""
    one_blas_thread()
