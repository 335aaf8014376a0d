"""Dask executor: processes on this machine, or on any number of machines.

Everything on a worker can be recomputed: shards are built from specifications, broadcast values are kept by the
scheduler, and all else follows from these by calls. So if a worker dies, its data is recomputed by others, or by its
replacement, and only the loss of the scheduler ends a run. Its progress until then is in the checkpoint.

Calls are buffered until a result is needed, and then sent in one message, which costs as much as several calls.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
import time
import traceback
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sapwood.errors import InputError, SapwoodError
from sapwood.runtime.dask.array_store import ArrayStore, FileColumns, FileTable, MemoryRows, remove
from sapwood.runtime.dask.client import LOOK, CallFailed, Connection
from sapwood.runtime.dask.serialise import Serialised
from sapwood.runtime.executor import Executor, Handle, Threads, itself
from sapwood.storage.shapes import Array, Shaped

R = TypeVar("R")
# Calls in flight per worker thread, and minimum; and maximum number of buffered calls.
_AHEAD, _LEAST_AHEAD, _COLLECTED = 4, 16, 1000
# Maximum size in bytes of arguments that are sent with each call.
_SMALL = 1 << 16
# Seconds to wait for a scheduler, and for a first worker.
_PATIENCE = 30.0
# Calls that take fewer seconds are batched, up to this number.
_SHORT, _LARGEST = 0.05, 64
# Seconds of work that justify a remote call; it costs about a hundredth of a second, including transfers.
_WORTH_CALLING = 0.07


class DaskCluster(Executor):
    """Executor on a Dask cluster; a context manager.

    Parameters
    ----------
    address
        The address of a scheduler, the path of a scheduler file, or `local:N` for N processes on this machine
        (`local`: as many as there are cores).
    threads
        Threads of this process, for work done locally.
    memory
        Memory limit in bytes of each process of `local:N` (default: an equal share of the available memory).
    patience
        Seconds to wait for the scheduler and for a first worker.

    Examples
    --------
    In a script, put this below `if __name__ == "__main__":`, because processes of `local` import the script.

        with Cluster("local:2") as cluster:
            sapwood.train(trees, workers=cluster)
    """

    is_local = False

    def __init__(
        self, address: str, *, threads: int = 1, memory: int | None = None, patience: float = _PATIENCE
    ) -> None:
        self.address, self.threads = address, threads
        self._connection = Connection(address, memory, patience)
        self._client, self._folder = self._connection.client, self._connection.folder
        self._explained = self._connection.explained
        self._counted = float("-inf"), 1
        # Specifications of tasks: buffered calls, and calls whose message may not have arrived yet.
        self._graph = importlib.import_module("dask._task_spec")
        self._collected: dict[str, tuple[Any, weakref.ref[Name]]] = {}
        self._sent: dict[int, Any] = {}
        self._messages = 0
        # Unused files of tables, by size.
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
        """Release the workers; those of `local` exit."""
        self._connection.close()

    @property
    def shares_memory(self) -> bool:  # type: ignore[override]
        """True if workers can map each other's files."""
        return self._folder is not None

    @property
    def count(self) -> int:
        """Number of calls that can run in parallel, now or a few seconds ago."""
        now = time.monotonic()
        if now >= self._counted[0] + LOOK:
            with self._explained():
                self._counted = now, max(1, sum(self._client.nthreads().values()))
        return self._counted[1]

    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield results in order; very short calls are batched."""
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
            # Half of the calls in flight return at once: each message costs a millisecond or more.
            while more := list(islice(rows, part * size)):
                # Calls run on the workers that hold their arguments.
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

    def gather(self, handles: Iterable[Handle]) -> Iterator[Any]:
        """Yield the remote results, in order."""
        rest, part = iter(handles), self._part(None)
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
        # Earlier messages have arrived as well.
        for message in [message for message in self._sent if message <= max(name.message for name in names)]:
            del self._sent[message]
        return found

    def persist(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Return handles of the results, which are spread evenly over all workers.

        The scheduler does this with calls that need no remote data, so broadcast values are sent along with each.
        Pinning each call to a worker would be worse: a call pinned to a dead one may never run, even if others may.
        """
        rows = [[_along(argument) for argument in row] for row in zip(*columns, strict=False)]
        found = self._collect(call, rows)
        self._send_off()
        return found

    def submit(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Handle]:
        """Return handles of the results, which are computed when something that depends on them is needed."""
        return self._collect(call, list(zip(*columns, strict=False)))

    def reduce(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the last total."""
        found = self.submit(call, *columns)
        if not found:
            return start
        last = reduce(lambda total, part: self._collect(step, [(total, part)])[0], found, self.broadcast(start))
        del found
        return self._gathered([last])[0]

    def broadcast(self, value: Any) -> Handle:
        """Broadcast a value: inline if it is small, as a file that all workers map, or as a handle.

        If workers do not see the files of this machine, the scheduler keeps the value until all are done with it, as
        workers that hold the only copies of scattered data may die.
        """
        sealed = Serialised(value, self._connection.shared)
        if sealed.spill() or sys.getsizeof(sealed) < _SMALL:
            return sealed
        (name,) = self._collect(itself, [(sealed,)])
        name.broadcast = sealed
        return name

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> ArrayStore:
        """Write the arrays to files in the temporary directory, or send them if workers cannot access it.

        The files are deleted with the returned object.
        """
        if self._connection.shared is None:
            return MemoryRows(arrays)
        found = FileColumns.write(self._connection.scratch / uuid.uuid4().hex, arrays)
        weakref.finalize(found, shutil.rmtree, found.folder, ignore_errors=True)
        return found

    def table(self, size: int) -> FileTable | None:
        """Return a file that all workers map, if they can."""
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
        """Keep the file of a table for the next one of its size, unless it is outdated."""
        if size in self._tables and not self._connection.lost():
            self._tables[size].append(path)
        else:
            remove(path)

    def if_worthwhile(self, seconds: float, calls: int) -> Executor:
        """Return threads of this process for work that takes less time than sending it."""
        return self if seconds >= _WORTH_CALLING * calls else Threads(self.threads)

    def _collect(self, call: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Name]:
        """Buffer calls, one for each row of arguments, and return handles of the results."""
        named = call
        while isinstance(named, partial):
            named = named.args[0] if named.func is _each else named.func
        label = getattr(named, "__name__", "call").strip("_")
        sealed, names = Serialised(call), []
        for row in rows:
            name = Name(f"{label}-{uuid.uuid4().hex}")
            arguments = [self._argument(argument) for argument in row]
            task = self._graph.Task(name.key, _call, self._folder, self._connection.plugin, sealed, *arguments)
            self._collected[name.key] = task, weakref.ref(name)
            names.append(name)
        if len(self._collected) >= _COLLECTED:
            self._send_off()
        return names

    def _argument(self, argument: Any) -> Any:
        """Return an argument in the form in which it is sent; data already on workers is not sent."""
        if isinstance(argument, list) and argument and isinstance(argument[0], Name):
            return self._graph.List(*(self._argument(each) for each in argument))
        if isinstance(argument, Name):
            return self._graph.TaskRef(argument.key) if argument.future is None else argument.future
        return argument if isinstance(argument, Serialised) else Serialised(argument, self._folder)

    def _send_off(self) -> None:
        """Send all buffered calls; results without a handle are discarded.

        All go in one message, which costs as much as several calls.
        """
        import dask

        tasks, self._collected = self._collected, {}
        graph = {key: task for key, (task, _) in tasks.items()}
        names = [name for _, each in tasks.values() if (name := each()) is not None]
        if not names:
            return
        # Broadcast values go through the scheduler on purpose: they can be fetched from it again.
        with self._explained(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            futures = self._client.get(graph, [name.key for name in names], sync=False)
        self._messages += 1
        # Files are kept at least until they have arrived.
        self._sent[self._messages] = graph
        for name, future in zip(names, futures, strict=True):
            name.future, name.message = future, self._messages

    def sees(self, path: str | Path) -> bool:
        """Return True if all workers can access a local file or folder."""
        return not self._blind(path)

    def check_visible(self, path: str | Path) -> None:
        """Raise an `InputError` if a worker cannot access a local file or folder."""
        if blind := self._blind(path):
            raise InputError(
                f"{path}: worker {blind[0]} does not see it; put it on a file system that all workers share"
            )

    def _blind(self, path: str | Path) -> list[str]:
        with self._explained():
            return sorted(worker for worker, there in self._connection.sees(path).items() if not there)


def open_workers(cluster: str | None, threads: int) -> contextlib.AbstractContextManager[Executor]:
    """Return an executor on a cluster or, if `cluster` is None, on local threads; a context manager."""
    return contextlib.nullcontext(Threads(threads)) if cluster is None else DaskCluster(cluster, threads=threads)


class Name:
    """Handle of the result of a call, which is or will be on a worker.

    Attributes
    ----------
    key
        Dask key.
    future, message
        Dask future, and the index of the message with which it was sent, once it has been.
    broadcast
        The value, if it was broadcast.
    """

    __slots__ = ("__weakref__", "broadcast", "future", "key", "message")

    def __init__(self, key: str) -> None:
        self.key, self.future, self.message = key, None, 0
        self.broadcast: Serialised | None = None


@dataclass(frozen=True)
class _Results(Generic[R]):
    """Results of calls, and their duration."""

    results: list[R]
    seconds: float


def _each(call: Callable[..., R], width: int, *arguments: Any) -> _Results[R]:
    """Run a batch of calls with `width` arguments each."""
    began = time.perf_counter()
    results = [call(*arguments[begin : begin + width]) for begin in range(0, len(arguments), width)]
    return _Results(results, time.perf_counter() - began)


def _along(argument: Any) -> Any:
    """Return a broadcast value itself, if it has a handle."""
    return argument.broadcast if isinstance(argument, Name) and argument.broadcast is not None else argument


def _opened(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_opened(each) for each in argument]
    return argument.value


def _call(folder: str | None, plugin: str, call: Serialised, *arguments: Any) -> Serialised:
    """Run a call on a worker that the plugin has prepared."""
    import distributed

    prepared: Any = distributed.get_worker().plugins.get(plugin)
    if prepared is None or prepared.problem:  # a worker that is about to leave
        raise distributed.Reschedule
    try:
        return Serialised(call.value(*map(_opened, arguments)), folder)
    except Exception as error:
        if not isinstance(error, SapwoodError):
            error.add_note(f"On a worker:\n{traceback.format_exc()}")
        raise CallFailed(error) from None
