"""Checkpoints of training runs, stored next to the model, so that the same command can resume.

A run depends only on its data and settings, so resuming from any checkpoint ends in the same bytes.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from sapwood.errors import ModelError, SapwoodError, UsageError
from sapwood.runtime.log import Log, NoLog, TrainingLog
from sapwood.runtime.loggers import also_to, find_logger
from sapwood.storage.arrays import Arrays, content_digest, read_header
from sapwood.storage.files import is_regular
from sapwood.storage.locks import remove_abandoned
from sapwood.storage.schema import Column, Schema
from sapwood.storage.shapes import Array, Shaped

# Minimum seconds between two periodic checkpoints, and maximum share of the time spent on writing them.
_PAUSE, _SHARE = 1.0, 0.02


State = TypeVar("State")
# Arrays and JSON metadata.
Content = tuple[Mapping[str, Shaped[Array, "..."]], Mapping[str, Any]]


def checkpoint_schema(kind: str, *columns: Column, metadata: Mapping[str, Any], parts: str = "") -> Schema:
    """Return the schema of a checkpoint: its arrays, and the types of its metadata besides the key."""
    values = make_dataclass("Metadata", [("key", str), *metadata.items()])
    return Schema(kind, 1, "checkpoint", "copy it again", columns, values, parts)


class Checkpoint(Generic[State]):
    """State of a run in a file, from which the same run can resume.

    A run loads the state, and passes each later one to `keep`, or to `save` if steps take long. As a context manager,
    the checkpoint writes the last state however the run ends, except when the process is killed, which loses a few
    seconds.

    Parameters
    ----------
    path
        The file; None: nothing is loaded or saved.
    key
        Identifies the run (settings, data): a checkpoint of another run is rejected.
    schema
        Schema of the contents, with the key among the values.
    data
        Name of the data in messages.
    to_arrays, from_arrays
        Functions from a state to its content, and back; `from_arrays` raises `ModelError` if the content does not fit
        the data.

    Examples
    --------
    >>> counter = Checkpoint(
    ...     "run.checkpoint", {"run": 1}, checkpoint_schema("counter", metadata={"step": int}), data="text",
    ...     to_arrays=lambda step: ({}, {"step": step}), from_arrays=lambda arrays, metadata: metadata["step"],
    ... )
    >>> counter.load()
    >>> with counter:
    ...     for step in range(1, 4):
    ...         counter.keep(step)
    >>> counter.load()
    3
    """

    def __init__(
        self,
        path: str | Path | None,
        key: Mapping[str, Any],
        schema: Schema,
        *,
        data: str,
        to_arrays: Callable[[State], Content],
        from_arrays: Callable[[Arrays, dict[str, Any]], State],
    ) -> None:
        self.path, self._schema = None if path is None else Path(path), schema
        self._key, self._data = content_digest({}, key), data
        self._to_arrays, self._from_arrays = to_arrays, from_arrays
        self._next = time.monotonic() + _PAUSE
        self._waiting: list[State] = []

    def load(self) -> State | None:
        """Return the saved state, None if there is none."""
        if self.path is None or not self.path.exists():
            return None
        with with_remedy():
            arrays, metadata = self._schema.read(self.path, lambda *content: content)
        if metadata.pop("key") != self._key:
            raise UsageError(
                f"{self.path}: the checkpoint of a training run with other settings or {self._data}; "
                "give the same ones again, or remove it to start over"
            )
        with self.being_read():
            return self._from_arrays(arrays, metadata)

    @property
    def is_due(self) -> bool:
        """True if it is time to write again, for runs where writing after each step would take too long."""
        return self.path is not None and time.monotonic() >= self._next

    def keep(self, state: State) -> None:
        """Write the state if it is due, else remember it."""
        self._waiting = [] if self.path is None else [state]
        if self.is_due:
            self.close()

    def save(self, state: State) -> None:
        """Write the state now."""
        if self.path is None:
            return
        began = time.monotonic()
        arrays, metadata = self._to_arrays(state)
        self._schema.write(self.path, arrays, {"key": self._key, **metadata})
        ended = time.monotonic()
        self._next = ended + max(_PAUSE, (ended - began) / _SHARE)

    def close(self) -> None:
        """Write the last state unless already written."""
        while self._waiting:
            self.save(self._waiting.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def being_read(self) -> Iterator[None]:
        """Explain errors caused by malformed content."""
        try:
            yield
        except SapwoodError as error:
            raise ModelError(f"{self.path}: not a complete checkpoint: {error}; remove it to start over") from error


class RunFiles:
    """Files of a run that are kept next to its model until that is written.

    Parameters
    ----------
    output
        Path of the model. If None, nothing is kept.
    resume
        True if an interrupted run is to be resumed.
    log
        Path of its log.
    loggers
        Names of loggers that also get its lines (`sapwood.runtime.loggers`).
    """

    def __init__(
        self,
        output: str | Path | None,
        *,
        resume: bool = False,
        log: str | Path | None = None,
        loggers: Sequence[str] = (),
    ) -> None:
        self.output = None if output is None else Path(output)
        self.resume, self.log, self.loggers = resume, log, tuple(loggers)

    def check(self) -> None:
        """Reject a log path that is one of these files, unknown loggers, and a fresh start of an interrupted run."""
        for name in self.loggers:
            find_logger(name)
        if self.output is not None and self.log is not None:
            own, other = os.path.realpath(self.output), os.path.realpath(self.log)
            kept = (f"{own}.checkpoint", f"{own}.stage-", f"{own}.teacher")
            if other in (own, f"{own}.run") or other.startswith(kept):
                raise UsageError(f"log {self.log}: is also the file of the model or of a checkpoint")
        if not self.resume and (left := self.leftover()):
            raise UsageError(
                f"{left[0]}: training was interrupted; continue with --resume, or {self.removal()} to start over"
            )

    @property
    def record(self) -> Path | None:
        """Path of the record of a training run; None if nothing is kept."""
        return Path(f"{self.output}.run") if self.has_neighbours else None

    def stage(self, name: str) -> Path | None:
        """Return the path of the grammar of a finished stage; None if nothing is kept."""
        return Path(f"{self.output}.stage-{name}") if self.has_neighbours else None

    @property
    def teacher(self) -> Path | None:
        """Path of the teacher model; None if nothing is kept."""
        return Path(f"{self.output}.teacher") if self.has_neighbours else None

    @property
    def has_neighbours(self) -> bool:
        """True if files can be kept: not if the output is a device."""
        return self.output is not None and (is_regular(self.output) or not self.output.exists())

    def checkpoint(self, suffix: str = "") -> str | None:
        """Return the path of the checkpoint, and remove those with other suffixes."""
        if not self.has_neighbours:
            return None
        path = f"{self.output}.checkpoint{suffix}"
        for other in self.checkpoints():
            if str(other) != path and not str(other).startswith(f"{path}."):  # auxiliary files of the checkpoint
                other.unlink()
        return path

    def checkpoints(self) -> list[Path]:
        """Return the existing checkpoints."""
        # Not the output of another run, such as m.checkpointed.
        ends = len(f"{'' if self.output is None else self.output.name}.checkpoint")
        return [path for path in self._beside("checkpoint*") if path.name[ends:][:1] in ("", "-", ".")]

    def discard_checkpoints(self) -> None:
        """Remove the checkpoints, which are superseded."""
        for path in self.checkpoints():
            path.unlink()

    @contextlib.contextmanager
    def open_log(self, *, steps: int = 0, lines: int = 0) -> Iterator[Log]:
        """Enter the log of the run, given the numbers of steps and lines before the stage of the last checkpoint."""
        with self._open_file(steps, lines) as file, also_to(self.loggers, file) as log:
            yield log

    def discard_log(self) -> None:
        """Discard what an earlier run has written to the log."""
        if self.log is not None:
            TrainingLog(self.log).close()

    def _open_file(self, steps: int, lines: int) -> contextlib.AbstractContextManager[Log]:
        if self.log is None:
            return contextlib.nullcontext(NoLog())
        if not self.resume:
            return TrainingLog(self.log)
        # Lines after the last checkpoint will be written again.
        reached = self.progress_so_far()
        step, measured = (steps + reached.get(name, 0) for name in ("step", "measured"))
        return TrainingLog.resume(self.log, step=step, measured=measured, finished=lines)

    def progress_so_far(self) -> dict[str, int]:
        """Return the integer metadata of the last checkpoint; empty if there is none."""
        return {} if (header := self._last_header()) is None else _counts(header)

    def iterations_so_far(self, *kinds: str) -> int:
        """Return the number of iterations until the last checkpoint, 0 if it is not one of these kinds of files."""
        header = self._last_header()
        return 0 if header is None or header["kind"] not in kinds else _counts(header).get("step", 0)

    def _last_header(self) -> dict[str, Any] | None:
        found = [path for path in self.checkpoints() if "." not in path.name.rpartition(".checkpoint")[2]]
        if not found:
            return None
        with with_remedy():
            return read_header(found[-1])

    def leftover(self) -> list[Path]:
        """Return the files of an interrupted run that it can resume from: the record alone is not worth resuming."""
        # Former versions kept finished grammars in one file, which is told of and not used.
        return [*self.checkpoints(), *self._beside("stage-*"), *self._beside("members"), *self.leftover_of_teacher()]

    def leftover_of_teacher(self) -> list[Path]:
        """Return the files of a teacher: the model, and those of its own interrupted run."""
        if self.output is None:
            return []
        teacher = RunFiles(f"{self.output}.teacher")
        return [
            *self._beside("teacher"),
            *teacher.checkpoints(),
            *teacher._beside("stage-*"),
            *teacher._beside("members"),
        ]

    def removal(self) -> str:
        """Return the part of a message that says which files to remove."""
        left = self.leftover()
        names = "this file" if len(left) == 1 else f"{len(left)} files ({', '.join(path.name for path in left)})"
        return f"remove {names}"

    def clear(self) -> None:
        """Remove these files, including partial ones of a killed process."""
        if self.output is None:
            return
        for path in (*self.leftover(), *self._beside("run"), *self._beside("teacher.run")):
            path.unlink(missing_ok=True)
        remove_abandoned(self.output.parent, self.output.name)
        remove_abandoned(self.output.parent, f"{self.output.name}.", beginning=True)

    def _beside(self, pattern: str) -> list[Path]:
        """Return the existing files whose names are that of the model and a suffix."""
        if self.output is None:
            return []
        return sorted(self.output.parent.glob(f"{glob.escape(self.output.name)}.{pattern}"))


def _counts(header: Mapping[str, Any]) -> dict[str, int]:
    return {name: value for name, value in header["metadata"].items() if type(value) is int and value >= 0}


@contextlib.contextmanager
def with_remedy(what: str = "checkpoint") -> Iterator[None]:
    """Add to the error about an unreadable file that it can be deleted."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{error} (or remove this {what} to start over)") from error
