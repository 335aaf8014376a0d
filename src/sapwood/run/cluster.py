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
import pickle
import platform
import shutil
import signal
import tempfile
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from importlib import metadata
from itertools import islice, pairwise
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from sapwood._version import __version__
from sapwood.errors import ClusterError, InputError, SapwoodError, UsageError
from sapwood.files import whole_number
from sapwood.run.columns import Columns, FileColumns, Rows
from sapwood.run.parallel import one_blas_thread
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
# Bytes between places where the processor likes numbers to begin.
_ALIGNMENT = 16
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
        self._interrupted = False
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
            "distributed.admin.tick.interval": "200ms",
            "distributed.admin.system-monitor.interval": "2s",
        }
        with dask.config.set(settings):
            self._own_number = wanted
            self._own = self._closing.enter_context(
                self._distributed.LocalCluster(
                    n_workers=wanted, threads_per_worker=1, processes=True, dashboard_address=":0",
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
                        f"install sapwood {__version__} with its extra cluster where it runs"
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
    def count(self) -> int:
        """How many calls can run at a time, now."""
        with self._explained():
            return max(1, sum(self._client.nthreads().values()))

    def map(self, call: Callable[..., R], *columns: Iterable[Any], ahead: int | None = None) -> Iterator[R]:
        """Yield results in order."""
        part = -(-(ahead or max(_LEAST_AHEAD, _AHEAD * self.count)) // 2)
        rows = zip(*columns, strict=False)
        waiting: deque[list[Any]] = deque()
        try:
            # Half of what is under way comes back at once: each message costs a millisecond or more.
            while more := list(islice(rows, part)):
                waiting.append(self._submit(call, more))
                if len(waiting) > 1:
                    yield from self._gathered(waiting.popleft())
            while waiting:
                yield from self._gathered(waiting.popleft())
        finally:
            for futures in waiting:
                with contextlib.suppress(Exception):
                    self._client.cancel(futures)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        # Python drops an interrupt that comes while it clears away what nobody needs any more, such as results' names.
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        with self._explained():
            while self._own is not None:
                try:
                    with self._client.as_current():
                        self._distributed.wait(futures, timeout=_LOOK)
                    break
                except TimeoutError:
                    # A process that died before it had begun is not replaced by itself.
                    self._own.scale(self._own_number)
            return [sealed.value for sealed in self._client.gather(futures)]

    def place(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return names of the results, which are on all workers about equally."""
        with self._explained():
            workers = sorted(self._client.nthreads())
        rows = list(zip(*columns, strict=False))
        ends = np.linspace(0, len(rows), len(workers) + 1).astype(int).tolist()
        if not workers:  # they will come
            return self._submit(call, rows)
        spans = zip(workers, pairwise(ends), strict=True)
        return [each for worker, (begin, end) in spans for each in self._submit(call, rows[begin:end], worker)]

    def keep(self, call: Callable[..., Any], *columns: Iterable[Any]) -> list[Kept]:
        """Return names of the results."""
        return self._submit(call, list(zip(*columns, strict=False)))

    def fold(self, step: Callable[[R, Any], R], start: R, call: Callable[..., Any], *columns: Iterable[Any]) -> R:
        """Return the last total."""
        found = self.keep(call, *columns)
        if not found:
            return start
        last = reduce(lambda total, part: self._submit(step, [(total, part)])[0], found, self.share(start))
        return self._gathered([last])[0]

    def share(self, value: Any) -> Kept:
        """Return a name for the value, which the scheduler keeps until all are done with it."""
        return self._submit(itself, [(value,)])[0]

    def columns(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Columns:
        """Write the arrays to files in the folder for temporary ones, or send them if workers do not see that.

        The files vanish with what is returned.
        """
        if not self.sees(self.scratch):
            return Rows(arrays)
        found = FileColumns.write(self.scratch / uuid.uuid4().hex, arrays)
        weakref.finalize(found, shutil.rmtree, found.folder, ignore_errors=True)
        return found

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

    def _submit(self, call: Callable[..., Any], rows: Sequence[Sequence[Any]], worker: str | None = None) -> list[Any]:
        """Have calls made, one for each row of arguments, on a worker if it is still there; return their futures."""
        import dask

        if not rows:
            return []
        name = getattr(getattr(call, "func", call), "__name__", "call").strip("_")
        keys = [f"{name}-{uuid.uuid4().hex}" for _ in rows]
        # What is shared goes through the scheduler on purpose: it can be had there again.
        with self._explained(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            columns = [[self._sealed(argument) for argument in column] for column in zip(*rows, strict=True)]
            calls = [Sealed(call)] * len(rows)
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            return list(self._client.map(_call, calls, *columns, key=keys, pure=False, **where))

    def _sealed(self, argument: Any) -> Any:
        """Return an argument as it is sent; what is on workers already is not."""
        if isinstance(argument, self._distributed.Future):
            return argument
        if isinstance(argument, list) and argument and isinstance(argument[0], self._distributed.Future):
            return argument
        return Sealed(argument)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what has happened to the cluster."""
        from concurrent.futures import CancelledError

        core = importlib.import_module("distributed.client")
        lost = (CancelledError, core.FutureCancelledError, OSError)
        try:
            yield
        except SapwoodError:  # of the call
            raise
        except self._distributed.KilledWorker as error:
            raise ClusterError(
                f"--cluster {self.address}: one worker after the other died of the same work, as they do for want of "
                f"memory ({_short(error)}); give each more (dask worker --memory-limit), or have fewer in a machine"
            ) from error
        except MemoryError as error:
            raise ClusterError(
                f"--cluster {self.address}: a worker is out of memory; give each more, or have fewer in a machine"
            ) from error
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"--cluster {self.address}: a worker has no {error.name}; "
                f"install sapwood {__version__} with its extra cluster where it runs"
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
        raise UsageError("--cluster needs Dask: pip install distributed") from error


def _quieten() -> None:
    """Keep Dask from telling what sapwood says in its own words, and from advice about what is meant to be so."""
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.batched"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Sealed:
    """What is sent from one process to another, pickled once, with its arrays beside it.

    Dask puts arrays wherever there is room, while kernels want them where the processor likes them. And it asks what
    things take, to know when to write them to disk.
    """

    __slots__ = ("_arrays", "_rest", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._arrays: list[pickle.PickleBuffer] = []
        try:
            self._rest = pickle.dumps(value, protocol=5, buffer_callback=self._arrays.append)
        except (pickle.PicklingError, AttributeError, TypeError):  # functions of the caller's own, say
            self._arrays.clear()
            dump = importlib.import_module("cloudpickle").dumps
            self._rest = dump(value, protocol=5, buffer_callback=self._arrays.append)

    def __sizeof__(self) -> int:
        return len(self._rest) + sum(array.raw().nbytes for array in self._arrays)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Sealed], tuple[Any, ...]]:
        # Some of Dask's messages are of a protocol that has no place for arrays but within.
        arrays = self._arrays if protocol >= 5 else [array.raw().tobytes() for array in self._arrays]
        return _unsealed, (self._rest, *arrays)


def _unsealed(rest: bytes, *arrays: Any) -> Sealed:
    return Sealed(pickle.loads(rest, buffers=[_aligned(array) for array in arrays]))  # noqa: S301


def _aligned(buffer: Any) -> Any:
    array = np.frombuffer(buffer, np.uint8)
    return array.copy() if array.ctypes.data % _ALIGNMENT else array


def _opened(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_opened(each) for each in argument]
    return argument.value


def _call(call: Sealed, *arguments: Any) -> Sealed:
    """Run on a worker."""
    _limit_worker()
    return Sealed(call.value(*map(_opened, arguments)))


@cache
def _limit_worker() -> None:
    """Keep matrix products of this process to one thread, for good."""
    one_blas_thread()


def _short(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
