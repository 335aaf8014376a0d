"""Context of a run: where it computes, and where it reports and keeps its progress. Results depend on none of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from sapwood.runtime.executor import Executor, Threads
from sapwood.runtime.log import Log, NoLog
from sapwood.runtime.progress import Progress, Silent


class Execution(TypedDict, total=False):
    """Keyword arguments of functions that take a while; see `RunContext`."""

    threads: int
    workers: Executor | None
    progress: Progress | None


class RunOptions(Execution, total=False):
    """Keyword arguments of training runs; see `RunContext`."""

    log: Log | None
    checkpoint: str | Path | None


@dataclass(frozen=True)
class RunContext:
    """Context of a run.

    Attributes
    ----------
    threads
        Number of threads of this process.
    workers
        Executor to use instead, such as `sapwood.runtime.dask.executor.DaskCluster`.
    progress, log
        Progress display and log.
    checkpoint
        File to keep the state of the run in, if any.

    Examples
    --------
    >>> RunContext.of(threads=2, progress=None).executor
    Threads(2)
    """

    threads: int = 1
    workers: Executor | None = None
    progress: Progress = field(default_factory=Silent)
    log: Log = field(default_factory=NoLog)
    checkpoint: str | Path | None = None

    @classmethod
    def of(cls, **options: Unpack[RunOptions]) -> Self:
        """Return the context that keyword arguments ask for; None stands for the default."""
        given = {name: value for name, value in options.items() if value is not None}
        return cls(**given)  # type: ignore[arg-type]

    @classmethod
    def split(cls, arguments: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the context that some of the keyword arguments ask for, and the other arguments.

        >>> RunContext.split({"threads": 2, "states": 8})[1]
        {'states': 8}
        """
        names = RunOptions.__optional_keys__
        given = {name: value for name, value in arguments.items() if name in names}
        return cls.of(**given), {name: value for name, value in arguments.items() if name not in names}

    @property
    def executor(self) -> Executor:
        """Executor of passes over the data: the workers, else the threads."""
        return self.workers if self.workers is not None else Threads(self.threads)
