"""Checkpoints of language-model training, to resume after an interruption.

A run is a sequence of trainings: of latent bigrams, of each lag, of all lags jointly. A checkpoint has a part for each:
the model if it is finished, else the state after some iteration. It is written from time to time (see
`Checkpoint.is_due`); later steps are repeated, to the same bits, and their lines in the log are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from sapwood.lm.base import LanguageModel, Parts
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.runtime.log import Log, NoLog
from sapwood.storage.arrays import Arrays
from sapwood.storage.shapes import Array, Shaped

Model = TypeVar("Model", bound=LanguageModel)
State = TypeVar("State")


class _Log(TypedDict):
    before: int
    last: int
    member: int
    lines: int


class _Part(TypedDict):
    name: str
    metadata: dict[str, Any]


# Its parts are models, and states of trainings.
CHECKPOINT = checkpoint_schema("lm-checkpoint", metadata={"log": _Log, "lines": int, "parts": list[_Part]}, parts="/")


class StepLog:
    """A log that numbers the steps of several consecutive trainings, and the trainings themselves.

    Parameters
    ----------
    log
        The log to write to.
    several
        Whether there are several trainings.
    """

    def __init__(self, log: Log, *, several: bool) -> None:
        self._log, self._several = log, several
        self.before = self.last = self.member = self.lines = 0

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Log an event; a step before the last one belongs to another training."""
        if step < self.last:
            self.before += self.last
            self.member += 1
        self.last = step
        labels = {"member": self.member} if self._several and event not in ("start", "end") else {}
        self._log.write(event, step=self.before + step, seconds=seconds, **labels, **figures)
        self.lines += 1

    def state(self) -> dict[str, int]:
        """Return the position in the log."""
        return {name: getattr(self, name) for name in _Log.__annotations__}

    def go_on(self, state: Mapping[str, int]) -> None:
        """Continue from a `state`."""
        for name in self.state():
            setattr(self, name, state[name])


class CheckpointedRun:
    """The trainings of a run, finished and unfinished; it resumes from its checkpoint, if that exists.

    Parameters
    ----------
    log
        Log of their iterations; lines up to the checkpoint are kept.
    path
        File that keeps them, if any.
    key
        Everything that the run depends on.

    Attributes
    ----------
    parts
        Parts by name, read from the checkpoint or finished.
    """

    def __init__(
        self, log: StepLog | None = None, path: str | Path | None = None, key: Mapping[str, Any] | None = None
    ) -> None:
        self.log = log or StepLog(NoLog(), several=False)
        self.checkpoint = Checkpoint(
            path, key or {}, CHECKPOINT, data="text", to_arrays=self._to_arrays, from_arrays=self._from_arrays
        )
        self.parts = self.checkpoint.load() or {}

    def _to_arrays(self, parts: dict[str, Parts]) -> Content:
        content = enumerate(own for own, _ in parts.values())
        arrays = {f"{number}/{key}": array for number, own in content for key, array in own.items()}
        about = [{"name": part, "metadata": metadata} for part, (_, metadata) in parts.items()]
        return arrays, {"log": self.log.state(), "lines": self.log.lines, "parts": about}

    def _from_arrays(self, arrays: Arrays, metadata: dict[str, Any]) -> dict[str, Parts]:
        self.log.go_on(metadata["log"])
        found = CHECKPOINT.all_parts(arrays, len(metadata["parts"]))
        return {part["name"]: (own, part["metadata"]) for own, part in zip(found, metadata["parts"], strict=True)}

    def part(self, name: str) -> RunPart:
        """Return the training of that name."""
        return RunPart(self, name)

    def state(
        self, name: str, restore: Callable[[Mapping[str, Shaped[Array, "..."]], dict[str, Any]], State]
    ) -> State | None:
        """Return the state of a training, made by `restore`; None if it has not begun."""
        if (saved := self.parts.pop(name, None)) is None:
            return None
        with self.checkpoint.being_read():
            return restore(*saved)

    def keep(self, name: str, state: Callable[[], Parts]) -> None:
        """Write the state of an unfinished training, if it is due."""
        if self.checkpoint.is_due:
            self.checkpoint.save({**self.parts, name: state()})

    def drop(self, start: str) -> None:
        """Drop parts whose names begin with `start`, because a later one contains them."""
        self.parts = {name: part for name, part in self.parts.items() if not name.startswith(start)}

    def model(self, name: str, kind: type[Model], learn: Callable[[], Model]) -> Model:
        """Return a finished model, or learn it in a training of this name and keep it."""
        finished = f"{name}, finished"
        model = self.state(finished, kind.checked)
        if model is None:
            model = learn()
        if self.checkpoint.path is not None:
            self.parts[finished] = model.parts()
        return model


@dataclass(frozen=True)
class RunPart:
    """A named training of a run, which keeps its state."""

    run: CheckpointedRun
    name: str

    def state(self, restore: Callable[[Mapping[str, Shaped[Array, "..."]], dict[str, Any]], State]) -> State | None:
        """Return the state of the training; see `CheckpointedRun.state`."""
        return self.run.state(self.name, restore)

    def keep(self, state: Callable[[], Parts]) -> None:
        """Write the state, if it is due."""
        self.run.keep(self.name, state)
