"""Dask client: connection to local processes started here, or to a remote scheduler.

Messages are pickled, as usual with Dask: anyone with access to the scheduler can run arbitrary code on the workers.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from sapwood._version import __version__
from sapwood.errors import ClusterError, UsageError
from sapwood.runtime.dask.versions import difference, versions
from sapwood.storage.files import whole_number

LOCAL = "local"
# Seconds between checks that all local processes are alive.
LOOK = 5.0
# Seconds between checks that workers have memory left, and how long one may have none.
_LOOK_FOR_ROOM, _NO_ROOM = 30.0, 300.0
# Number of attempts to start them.
_ATTEMPTS = 3
# Number of deaths under the same call before the call is blamed.
_DEATHS = 25
# Dask settings of local processes.
_SETTINGS: dict[str, Any] = {
    # Work runs where its shard is; idle workers do not steal it.
    "distributed.scheduler.work-stealing": False,
    # Slow workers are waited for: a call repeated while it still runs would write to the same table.
    "distributed.scheduler.worker-ttl": None,
    # There are no copies to remove: all processes map the same files.
    "distributed.scheduler.active-memory-manager.start": False,
    # Otherwise Dask assumes half a second for a call that it has not seen before, and moves a shard too early.
    "distributed.scheduler.unknown-duration": "1ms",
    # Results are spilled to disk above Dask's target, and all of them when memory is short: not earlier, as shards
    # would be read again for each call. Pausing would not help.
    "distributed.worker.memory.spill": 0.85,
    "distributed.worker.memory.pause": False,
    # Unused diagnostics cost a few percent of each processor.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    # Returning memory after each call and requesting it again before the next costs a tenth of the time.
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
}


class Connection:
    """Client of a scheduler, and the processes started for it.

    Parameters
    ----------
    address, memory, patience
        As for `Cluster`.

    Attributes
    ----------
    client
        Dask client.
    folder
        Folder in which processes of this machine exchange arrays; None if some are remote.
    shared
        Folder that all workers see, those that join later included; None if some of the first ones do not.
    plugin
        Name of the plugin that prepares workers.
    """

    def __init__(self, address: str, memory: int | None, patience: float) -> None:
        self.address, self._patience = address, patience
        self.distributed = _imported()
        self.closing = contextlib.ExitStack()
        self.folder: str | None = None
        self._own: Any = None  # processes started here, and their number
        self._own_number, self._first = 0, set[str]()
        self._interrupted = False
        # Worker that has been out of memory for long.
        self._full = ""
        self.closing.enter_context(_quiet())
        self.plugin = f"sapwood-{uuid.uuid4().hex}"
        try:
            self.client = self._connect(memory)
            self.check_workers()
            self._prepare_workers()
            self._notice_interrupts()
            self._notice_pauses()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the workers; those started here exit."""
        # A scheduler that is gone cannot be notified.
        with contextlib.suppress(Exception):
            self.closing.close()

    @cached_property
    def scratch(self) -> Path:
        """New folder for temporary files, deleted at the end."""
        found = Path(tempfile.mkdtemp(prefix="sapwood-"))
        self.closing.callback(shutil.rmtree, found, ignore_errors=True)
        return found

    def _notice_interrupts(self) -> None:
        """Record interrupts, until closed."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            return

        def notice(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            before(number, frame)

        signal.signal(signal.SIGINT, notice)
        self.closing.callback(signal.signal, signal.SIGINT, before)

    def _notice_pauses(self) -> None:
        """Abort calls that wait for a worker paused by Dask for minutes, because its memory is full."""
        client, since = self.client, dict[str, float]()

        async def look() -> None:
            try:
                workers = (await client.scheduler.identity())["workers"]
            except (OSError, RuntimeError):  # the scheduler is gone; reported elsewhere
                return
            now = time.monotonic()
            full = {worker for worker, known in workers.items() if known.get("status") == "paused"}
            for worker in set(since) - full:
                del since[worker]
            self._full = next((each for each in full if since.setdefault(each, now) <= now - _NO_ROOM), "")
            if self._full:
                for future in list(client.futures.values()):
                    future.cancel()

        again = importlib.import_module("tornado.ioloop").PeriodicCallback(look, 1000 * _LOOK_FOR_ROOM)
        client.loop.add_callback(again.start)
        self.closing.callback(client.loop.add_callback, again.stop)

    def check_interrupt(self) -> None:
        """Raise a `KeyboardInterrupt` that was lost.

        Python drops one that arrives during garbage collection, for example of handles.
        """
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def _connect(self, memory: int | None) -> Any:
        place: Any = self.address
        options: dict[str, Any] = {"timeout": self._patience, "set_as_default": False}
        if self.address == LOCAL or self.address.startswith(f"{LOCAL}:"):
            place = self._start(memory)
        elif Path(place).is_file():
            place, options["scheduler_file"] = None, place
        try:
            return self.closing.enter_context(self.distributed.Client(place, **options))
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
        self._own_number, self.folder = wanted, str(self.scratch)
        quiet = False if _debugging() else logging.CRITICAL
        with dask.config.set({**_SETTINGS, "distributed.scheduler.allowed-failures": _DEATHS}):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    own = self.distributed.LocalCluster(
                        n_workers=wanted, threads_per_worker=1, processes=True, dashboard_address=None,
                        memory_limit="auto" if memory is None else memory, silence_logs=quiet,
                        # Also for processes that are restarted later; any port will do.
                        config=copy.deepcopy(dask.config.config), scheduler_kwargs={"dashboard_address": ":0"},
                    )  # fmt: skip
                    self._own = self.closing.enter_context(own)
                    self._first = self._names()
                    self._look_after()
                    break
                except RuntimeError as error:  # a process died during startup
                    if attempt == _ATTEMPTS:
                        raise ClusterError(
                            f"--cluster {self.address}: processes could not be started ({_short(error)}); a script "
                            'that uses them does so below `if __name__ == "__main__":`'
                        ) from error
        return self._own

    def _look_after(self) -> None:
        """Check periodically that all processes are alive: Dask does not replace one that dies during startup."""
        own, dead = self._own, (self.distributed.Status.failed, self.distributed.Status.closed)

        def look() -> None:
            for name in [name for name, worker in own.workers.items() if worker.status in dead]:
                del own.workers[name]
            own.scale(self._own_number)

        again = importlib.import_module("tornado.ioloop").PeriodicCallback(look, 1000 * LOOK)
        own.loop.add_callback(again.start)
        self.closing.callback(own.loop.add_callback, again.stop)

    def _names(self) -> set[str]:
        return {worker.server_id for worker in list(self._own.scheduler.workers.values())}

    def lost(self) -> bool:
        """Return True if a process started here has been lost."""
        return not self._first <= self._names()

    def check_workers(self) -> None:
        """Check that there are workers, and that they have the same software."""
        try:
            self.client.wait_for_workers(1, timeout=self._patience)
        except Exception as error:
            raise ClusterError(
                f"--cluster {self.address}: the scheduler has no workers; start some with `dask worker ADDRESS`"
            ) from error
        for worker, found in self.client.run(versions, on_error="return").items():
            if isinstance(found, Exception) and "No module named" not in str(found):
                raise ClusterError(f"--cluster {self.address}: worker {worker}: {_short(found)}") from found
            there = {"Python": versions()["Python"]} if isinstance(found, Exception) else found
            if wrong := difference(versions(), there, worker):
                raise ClusterError(f"--cluster {self.address}: {wrong}")
        # Results come directly from workers if they can be reached, else through the scheduler.
        self.client.direct_to_workers = all(map(_reachable, list(self.client.nthreads())[:1]))

    def sees(self, path: str | Path) -> dict[str, bool]:
        """Return for each worker whether it can access a local file or folder."""
        found = self.client.run(os.path.exists, str(Path(path).resolve()), on_error="return")
        # Workers that have died meanwhile raise errors and need not have access.
        return {worker: there for worker, there in found.items() if isinstance(there, bool)}

    def _prepare_workers(self) -> None:
        """Prepare all workers, and those that will join until the connection is closed."""
        self.shared = str(self.scratch) if all(self.sees(self.scratch).values()) else None
        module = importlib.import_module("sapwood.runtime.dask.worker_plugin")
        with self.explained():
            self.client.register_plugin(module.PreparedWorker(self.plugin, versions(), self.shared), name=self.plugin)
        self.closing.callback(self._release_workers)

    def _release_workers(self) -> None:
        """Remove the plugin, unless the scheduler is gone."""
        if self.client.status == "running":
            self.client.unregister_worker_plugin(self.plugin)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Explain failures of the cluster."""
        from concurrent.futures import CancelledError

        core = importlib.import_module("distributed.client")
        lost = (CancelledError, core.FutureCancelledError, OSError)
        try:
            yield
        except CallFailed as failed:
            error = failed.error
            if isinstance(error, MemoryError):
                raise ClusterError(
                    f"--cluster {self.address}: a worker is out of memory; give each more, or run fewer per machine"
                ) from error
            raise error from None
        except self.distributed.KilledWorker as error:
            raise ClusterError(
                f"--cluster {self.address}: several workers died on the same task, probably for lack of "
                f"memory ({_short(error)}); give each more (dask worker --memory-limit), or run fewer per machine"
            ) from error
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"--cluster {self.address}: a worker has no {error.name}; "
                f"install sapwood {__version__} and all it needs where it runs"
            ) from error
        except lost as error:
            if self._full:
                raise ClusterError(
                    f"--cluster {self.address}: worker {self._full} is out of memory: it has had no room for work for "
                    f"{_NO_ROOM:.0f} s; give each more (dask worker --memory-limit), or run fewer per machine"
                ) from error
            raise ClusterError(
                f"--cluster {self.address}: the scheduler is gone ({_short(error)}); restart it, or run without it"
            ) from error


class CallFailed(Exception):
    """Wraps an exception raised by a call, as opposed to failures of workers and messages."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _reachable(address: str) -> bool:
    """Return True if a worker can be reached from here."""
    place = urlsplit(address)
    try:
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=1):
            return True
    except (OSError, ValueError):
        return False


def _imported() -> Any:
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        raise UsageError("--cluster needs Dask: pip install distributed") from error


def _debugging() -> bool:
    return bool(os.environ.get("SAPWOOD_DEBUG"))


# Loggers of Dask about events that sapwood reports itself, or that are intended.
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.batched")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Raise the levels of Dask's loggers to CRITICAL, except where SAPWOOD_DEBUG is set; restore them at the end."""
    if _debugging():
        yield
        return
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _short(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rpartition(" cancelled for reason: ")[2][:200]
