"""Workers on a Dask cluster: processes on this machine, or on as many machines as there are.

Nothing is on a worker that could not be made again: shards are made from recipes, what is shared is kept by the
scheduler, and all else follows from these by calls. So when a worker dies, what it had is made again by others, or by
the one that takes its place, and only the end of the scheduler ends a run. What it has done by then is in its
checkpoint.

What is sent is pickled, as Dask does it: whoever can talk to the scheduler can run anything on the workers.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
import traceback
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from importlib import metadata
from itertools import islice, pairwise
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from sapwood._version import __version__
from sapwood.errors import ClusterError, InputError, SapwoodError, UsageError
from sapwood.files import whole_number
from sapwood.run.columns import Columns, FileColumns, FileTable, Rows, remove
from sapwood.run.parallel import one_blas_thread
from sapwood.run.sealed import Sealed
from sapwood.run.workers import Kept, Threads, Workers, itself
from sapwood.shapes import Array, Shaped

R = TypeVar("R")
LOCAL = "local"
# Calls under way for each worker's thread, and at least.
_AHEAD, _LEAST_AHEAD = 4, 16
# Seconds to wait for a scheduler, and for a first worker.
_PATIENCE = 30.0
# How often workers of our own may die under the same call before that is taken for the call's fault.
_DEATHS = 25
# Seconds between looks at whether they are all there.
_LOOK = 5.0
# Seconds of work from which on a call is worth it; it costs about a hundredth, with all that travels.
_WORTH_CALLING = 0.07
# Calls that are collected before they are sent off, at most.
_COLLECTED = 1000
# Packages that must have the same version everywhere: for the same bytes, and to understand each other.
_SAME = ("numpy", "scipy", "distributed")


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
        self.address, self.threads, self._patience = address, threads, patience
        self._distributed = _imported()
        self._closing = contextlib.ExitStack()
        self._scratch: Path | None = None
        self._own: Any = None  # processes of this machine that were started here, and how many
        self._own_number = 0
        self._folder: str | None = None  # where they find each other's arrays
        self._interrupted = False
        self._counted = float("-inf"), 1
        # Calls that are to be made, and those whose message may not have arrived yet.
        self._collected: dict[str, tuple[tuple[Any, ...], weakref.ref[Name]]] = {}
        self._sent: dict[int, Any] = {}
        self._messages = 0
        # Files for tables of numbers that nobody looks at now, by size.
        self._tables: dict[int, list[str]] = {}
        _quieten()
        try:
            self._client = self._connect(memory)
            self._check_workers()
            self._notice_interrupts()
        except BaseException:
            self.close()
            raise

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
        # A scheduler that is gone cannot be said goodbye to.
        with contextlib.suppress(Exception):
            self._closing.close()

    # Beginning.

    def _notice_interrupts(self) -> None:
        """Remember that there was an interrupt, until the end."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            return

        def notice(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            before(number, frame)

        signal.signal(signal.SIGINT, notice)
        self._closing.callback(signal.signal, signal.SIGINT, before)

    def _connect(self, memory: int | None) -> Any:
        distributed = self._distributed
        place: Any = self.address
        options: dict[str, Any] = {"timeout": self._patience, "set_as_default": False}
        if self.address == LOCAL or self.address.startswith(f"{LOCAL}:"):
            place = self._start(memory)
            options["direct_to_workers"] = True
        elif Path(place).is_file():
            place, options["scheduler_file"] = None, place
        try:
            return self._closing.enter_context(distributed.Client(place, **options))
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"--cluster {self.address}: no scheduler there ({_short(error)}); start one with `dask scheduler` and "
                "workers with `dask worker ADDRESS`, or use local:N for processes of this machine"
            ) from error

    def _start(self, memory: int | None) -> Any:
        """Start processes on this machine."""
        import dask

        number = self.address[len(LOCAL) + 1 :]
        wanted = whole_number(number) if number else os.cpu_count() or 1
        if not wanted or not 1 <= wanted <= 1024:
            raise UsageError(f"--cluster {self.address}: local:N is N processes, 1 to 1024")
        settings = {
            "distributed.scheduler.allowed-failures": _DEATHS,
            # Work goes where its shard is; nobody takes a copy because it is idle for a moment.
            "distributed.scheduler.work-stealing": False,
            # What nobody looks at costs a few percent of each processor.
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.interval": "1s",
            "distributed.admin.system-monitor.interval": "5s",
            # Whoever is slow is waited for: a call that is made again while it goes on would write to the same table.
            "distributed.scheduler.worker-ttl": None,
            # Nor are there copies to clear away: all map the same files.
            "distributed.scheduler.active-memory-manager.start": False,
            # Memory that is given back after each call and asked for again before the next costs a tenth of the time.
            "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        }
        with dask.config.set(settings):
            self._own_number = wanted
            self._folder = str(self.scratch)
            self._own = self._closing.enter_context(
                self._distributed.LocalCluster(
                    n_workers=wanted, threads_per_worker=1, processes=True, dashboard_address=None,
                    memory_limit="auto" if memory is None else memory, silence_logs=logging.CRITICAL,
                )
            )  # fmt: skip
            return self._own

    def _check_workers(self) -> None:
        """Find out whether there are workers, and whether they have the same software."""
        try:
            self._client.wait_for_workers(1, timeout=self._patience)
        except Exception as error:
            raise ClusterError(
                f"--cluster {self.address}: the scheduler has no workers; start some with `dask worker ADDRESS`"
            ) from error
        own: dict[str, str] = {name: metadata.version(name) for name in _SAME}
        for name in ("sapwood", *_SAME):
            for worker, found in self._client.run(metadata.version, name, on_error="return").items():
                if isinstance(found, metadata.PackageNotFoundError):
                    raise ClusterError(
                        f"--cluster {self.address}: worker {worker} has no {name}; "
                        f"install sapwood[cluster] {__version__} where it runs"
                    )
                self._compare(worker, name, str(found), own.get(name, __version__))
        for worker, found in self._client.run(platform.python_version).items():
            here, there = (version.rpartition(".")[0] for version in (platform.python_version(), found))
            self._compare(worker, "Python", there, here)

    def _compare(self, worker: str, name: str, there: str, here: str) -> None:
        if there != here:
            raise ClusterError(
                f"--cluster {self.address}: worker {worker} has {name} {there}, and here it is {here}; results are the "
                "same only with the same versions everywhere"
            )

    # Working.

    @property
    def together(self) -> bool:  # type: ignore[override]
        """Whether workers map each other's files."""
        return self._folder is not None

    @property
    def count(self) -> int:
        """How many calls can run at a time, now or a few seconds ago."""
        now = time.monotonic()
        if now >= self._counted[0] + _LOOK:
            with self._explained():
                self._counted = now, max(1, sum(self._client.nthreads().values()))
        return self._counted[1]

    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield results in order."""
        part = self._part(ahead)
        rows = zip(*columns, strict=False)
        waiting: deque[list[Name]] = deque()
        try:
            # Half of what is under way comes back at once: each message costs a millisecond or more.
            while more := list(islice(rows, part)):
                waiting.append(self._collect(call, more))
                self._send_off()
                if len(waiting) > 1:
                    yield from self._gathered(waiting.popleft())
            while waiting:
                yield from self._gathered(waiting.popleft())
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
        # Python drops an interrupt that comes while it clears away what nobody needs any more, such as results' names.
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        futures = [name.future for name in names]
        with self._explained():
            while self._own is not None:
                try:
                    with self._client.as_current():
                        self._distributed.wait(futures, timeout=_LOOK)
                    break
                except TimeoutError:
                    # A process that died before it had begun is not replaced by itself.
                    self._own.scale(self._own_number)
            found = [sealed.value for sealed in self._client.gather(futures)]
        # What was sent before has arrived, too.
        for message in [message for message in self._sent if message <= max(name.message for name in names)]:
            del self._sent[message]
        return found

    def place(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return names of the results, which are on all workers about equally."""
        self._send_off()
        with self._explained():
            workers = sorted(self._client.nthreads())
        rows, found = list(zip(*columns, strict=False)), list[Name]()
        ends = np.linspace(0, len(rows), max(1, len(workers)) + 1).astype(int).tolist()
        for worker, (begin, end) in zip(workers or [None], pairwise(ends), strict=True):  # or they will come
            found += self._collect(call, rows[begin:end])
            self._send_off(worker)
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
        """Return a name for the value: a file that all map, or what the scheduler keeps until all are done with it."""
        sealed = Sealed(value, self._folder)
        return sealed if sealed.post() else self._collect(itself, [(sealed,)])[0]

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Columns:
        """Write the arrays to files in the folder for temporary ones, or send them if workers do not see that.

        The files vanish with what is returned.
        """
        if not self.sees(self.scratch):
            return Rows(arrays)
        found = FileColumns.write(self.scratch / uuid.uuid4().hex, arrays)
        weakref.finalize(found, shutil.rmtree, found.folder, ignore_errors=True)
        return found

    def table(self, size: int) -> FileTable | None:
        """Return a file that all map, if they can."""
        if self._folder is None or not size:
            return None
        for other in [other for other in self._tables if other != size]:
            for path in self._tables.pop(other):
                remove(path)
        free = self._tables.setdefault(size, [])
        return FileTable(free.pop() if free else str(self.scratch / uuid.uuid4().hex), size, free.append)

    def suited(self, seconds: float, calls: int) -> Workers:
        """Return threads of this process for what is done sooner than it is sent."""
        return self if seconds >= _WORTH_CALLING * calls else Threads(self.threads)

    def _collect(self, call: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Name]:
        """Note calls that are to be made, one for each row of arguments, and return names of the results."""
        label = getattr(getattr(call, "func", call), "__name__", "call").strip("_")
        sealed, run, names = Sealed(call), partial(_call, self._folder), []
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

    def _send_off(self, worker: str | None = None) -> None:
        """Have all calls made that were noted, on a worker if it is still there; results without a name are not kept.

        All go in one message: each costs as much as several calls.
        """
        import dask

        tasks, self._collected = self._collected, {}
        graph = {key: task for key, (task, _) in tasks.items()}
        names = [name for _, each in tasks.values() if (name := each()) is not None]
        if not names:
            return
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        # What is shared goes through the scheduler on purpose: it can be had there again.
        with self._explained(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            futures = self._client.get(graph, [name.key for name in names], sync=False, **where)
        self._messages += 1
        # Files are there at least until they have arrived.
        self._sent[self._messages] = graph
        for name, future in zip(names, futures, strict=True):
            name.future, name.message = future, self._messages

    @property
    def scratch(self) -> Path:
        """A new folder for temporary files, which vanishes in the end."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="sapwood-"))
            self._closing.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

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
            found = self._client.run(os.path.exists, str(Path(path).resolve()))
        return sorted(worker for worker, there in found.items() if not there)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what has happened to the cluster."""
        from concurrent.futures import CancelledError

        core = importlib.import_module("distributed.client")
        lost = (CancelledError, core.FutureCancelledError, OSError)
        try:
            yield
        except CallFailed as failed:
            error = failed.error
            if isinstance(error, MemoryError):
                raise ClusterError(
                    f"--cluster {self.address}: a worker is out of memory; give each more, or have fewer in a machine"
                ) from error
            raise error from None
        except self._distributed.KilledWorker as error:
            raise ClusterError(
                f"--cluster {self.address}: one worker after the other died of the same work, as they do for want of "
                f"memory ({_short(error)}); give each more (dask worker --memory-limit), or have fewer in a machine"
            ) from error
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"--cluster {self.address}: a worker has no {error.name}; install sapwood[cluster] {__version__} where "
                "it runs"
            ) from error
        except lost as error:
            raise ClusterError(
                f"--cluster {self.address}: the scheduler is gone ({_short(error)}); start it again, or work without it"
            ) from error


def open_workers(cluster: str | None, threads: int) -> contextlib.AbstractContextManager[Workers]:
    """Return the workers of a cluster or, if there is none, threads of this process; to be used in a `with` block."""
    return contextlib.nullcontext(Threads(threads)) if cluster is None else Cluster(cluster, threads=threads)


def _imported() -> Any:
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        raise UsageError("--cluster needs Dask: pip install 'sapwood[cluster]'") from error


def _quieten() -> None:
    """Keep Dask from telling what sapwood says in its own words, and from advice about what is meant to be so."""
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.batched"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Name:
    """Stands for the result of a call, which is or will be on some worker.

    Attributes
    ----------
    key
        The name.
    future, message
        What Dask knows it by, and the number of the message that it was sent off with, once that has been done.
    """

    __slots__ = ("__weakref__", "future", "key", "message")

    def __init__(self, key: str) -> None:
        self.key, self.future, self.message = key, None, 0


def _opened(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_opened(each) for each in argument]
    return argument.value


class CallFailed(Exception):
    """What a call has raised, as opposed to what happens to workers and messages."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _call(folder: str | None, call: Sealed, *arguments: Any) -> Sealed:
    """Run on a worker."""
    _limit_worker()
    try:
        return Sealed(call.value(*map(_opened, arguments)), folder)
    except Exception as error:
        if not isinstance(error, SapwoodError):
            error.add_note(f"On a worker:\n{traceback.format_exc()}")
        raise CallFailed(error) from None


@cache
def _limit_worker() -> None:
    """Keep matrix products of this process to one thread, for good."""
    one_blas_thread()


def _short(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
