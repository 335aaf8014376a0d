"""What an interrupted training run leaves beside its model, so that the same command can go on.

A run depends on nothing but its data and settings, so one that goes on from any of its states ends in the same bytes.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sapwood.errors import ModelError, SapwoodError, UsageError
from sapwood.files import is_regular
from sapwood.run.log import Log, NoLog, TrainingLog
from sapwood.schema import Schema
from sapwood.shapes import Array, Shaped
from sapwood.storage import Arrays, content_digest, read_header

# Seconds between two checkpoints that are written now and then, and the part of the time that writing may take.
_PAUSE, _SHARE = 1.0, 0.02


class Checkpoint:
    """The state of a run in a file, whole or not at all.

    Parameters
    ----------
    path
        The file.
    key
        What the run depends on (settings, data): a checkpoint of another run is refused.
    schema
        What it holds, the key among the values.
    data
        What messages call the data.
    """

    def __init__(self, path: str | Path, key: Mapping[str, Any], schema: Schema, *, data: str) -> None:
        self.path, self._schema = Path(path), schema
        self._key, self._data = content_digest({}, key), data
        self._next = time.monotonic() + _PAUSE

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again, for runs that would take too long if they did after each step."""
        return time.monotonic() >= self._next

    def save(self, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> None:
        """Write the state."""
        began = time.monotonic()
        self._schema.write(self.path, arrays, {"key": self._key, **metadata})
        ended = time.monotonic()
        self._next = ended + max(_PAUSE, (ended - began) / _SHARE)

    def load(self) -> tuple[Arrays, dict[str, Any]] | None:
        """Return what `save` wrote, None if there is nothing."""
        if not self.path.exists():
            return None
        with with_remedy():
            arrays, metadata = self._schema.read(self.path, lambda *content: content)
        if metadata["key"] != self._key:
            raise UsageError(
                f"{self.path}: the checkpoint of a training run with other settings or {self._data}; "
                "give the same ones again, or remove it to start anew"
            )
        return arrays, metadata

    @contextlib.contextmanager
    def being_read(self) -> Iterator[None]:
        """Explain errors that content of the wrong form causes."""
        try:
            yield
        except SapwoodError as error:
            raise ModelError(f"{self.path}: not a complete checkpoint: {error}; remove it to start anew") from error


class KeptFiles:
    """The files that a run keeps beside its model until that is written.

    Parameters
    ----------
    output
        Where the model is to be written. If it is None, nothing is kept.
    """

    def __init__(self, output: str | Path | None) -> None:
        self.output = None if output is None else Path(output)

    def check(self, *, resume: bool, log: str | Path | None) -> None:
        """Refuse a log in one of these files, and to begin anew where a run was interrupted."""
        if self.output is not None and log is not None:
            own, other = os.path.realpath(self.output), os.path.realpath(log)
            if other in (own, f"{own}.members") or other.startswith((f"{own}.checkpoint", f"{own}.teacher")):
                raise UsageError(f"log {log}: is where the model, or what is kept for resuming, is written")
        if not resume and (left := self.left()):
            files = "this file" if len(left) == 1 else f"{len(left)} files ({', '.join(path.name for path in left)})"
            raise UsageError(
                f"{left[0]}: training was interrupted here; go on with --resume, or remove {files} to start anew"
            )

    @property
    def members(self) -> Path:
        """Where the finished members of an ensemble are."""
        return Path(f"{self.output}.members")

    @property
    def teacher(self) -> Path | None:
        """Where a model is whose trees are learned from; None if nothing is kept."""
        return Path(f"{self.output}.teacher") if self.has_neighbours else None

    @property
    def has_neighbours(self) -> bool:
        """Whether files can be kept: a device has no neighbours."""
        return self.output is not None and (is_regular(self.output) or not self.output.exists())

    def checkpoint(self, suffix: str = "") -> str | None:
        """Return where the state is kept, and clear away what is kept under other suffixes."""
        if not self.has_neighbours:
            return None
        path = f"{self.output}.checkpoint{suffix}"
        for other in self.checkpoints():
            if str(other) != path and not str(other).startswith(f"{path}."):  # what a run keeps beside its state
                other.unlink()
        return path

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints that are there."""
        return [] if self.output is None else self._beside(f"{glob.escape(self.output.name)}.checkpoint*")

    def forget(self) -> None:
        """Remove the checkpoints: what they lead to would come again, or is kept as a whole."""
        for path in self.checkpoints():
            path.unlink()

    def open_log(
        self, log: str | Path | None, *, resume: bool, steps: int = 0
    ) -> contextlib.AbstractContextManager[Log]:
        """Return the log of a run, of which so many steps were done before the one that the last checkpoint is of."""
        if log is None:
            return contextlib.nullcontext(NoLog())
        if not resume:
            return TrainingLog(log)
        # Lines behind the last checkpoint will be written again.
        reached = self.reached()
        step, measured = (steps + int(reached.get(name, 0)) for name in ("step", "measured"))
        return TrainingLog.resume(log, step=step, measured=measured)

    def reached(self) -> dict[str, int]:
        """Return the numbers beside the arrays of the last checkpoint; nothing if there is none."""
        found = [path for path in self.checkpoints() if "." not in path.name.rpartition(".checkpoint")[2]]
        if not found:
            return {}
        with with_remedy():
            metadata = read_header(found[-1])["metadata"]
        return {name: value for name, value in metadata.items() if type(value) is int and value >= 0}

    def left(self) -> list[Path]:
        """Return the files that an interrupted run has left."""
        if self.output is None:
            return []
        return [path for path in (*self.checkpoints(), self.members) if path.exists()] + self.left_by_teacher()

    def left_by_teacher(self) -> list[Path]:
        """Return a teacher's files: the model, and what its own run has left."""
        if self.output is None:
            return []
        name, teacher = glob.escape(self.output.name), f"{self.output}.teacher"
        paths = (Path(teacher), Path(f"{teacher}.members"), *self._beside(f"{name}.teacher.checkpoint*"))
        return [path for path in paths if path.exists()]

    def clear(self) -> None:
        """Remove what was kept, and what being killed in the middle of writing has left."""
        if self.output is None:
            return
        names = (f"{self.output.name}.checkpoint", self.members.name, self.output.name)
        torn = [path for name in names for path in self._beside(f".{glob.escape(name[:40])}*.part")]
        for path in (*self.left(), *torn):
            path.unlink(missing_ok=True)

    def _beside(self, pattern: str) -> list[Path]:
        assert self.output is not None
        return sorted(self.output.parent.glob(pattern))


@contextlib.contextmanager
def with_remedy(what: str = "checkpoint") -> Iterator[None]:
    """Say of a file that was kept and cannot be read that one can do without it."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{error} (or remove this {what} to start anew)") from error
