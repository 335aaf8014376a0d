"""How far learning a language model has come, for going on after an interruption.

A run is a few trainings one after the other: of latent bigrams, of each lag, of all lags together. A checkpoint has a
part for each: the model if it is finished, else the state after some iteration. It is written now and then (see
`Checkpoint.is_due`); what was done since is done again, to the same bits, and its lines in the log are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from sapwood.lm.base import LanguageModel, Parts
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log, NoLog
from sapwood.schema import Schema
from sapwood.shapes import Array, Shaped

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


class _Metadata(TypedDict):
    key: str
    log: _Log
    lines: int
    parts: list[_Part]


# Its parts are models, and states of trainings.
CHECKPOINT = Schema(
    kind="lm-checkpoint",
    version=1,
    title="checkpoint of a language model",
    remedy="copy it again",
    columns=(),
    metadata=_Metadata,
    parts="/",
)


class Steps:
    """A log in which the steps of several trainings, one after the other, are counted on, and each has a number.

    Parameters
    ----------
    log
        What is written to.
    several
        Whether there are several trainings.
    """

    def __init__(self, log: Log, *, several: bool) -> None:
        self._log, self._several = log, several
        self.before = self.last = self.member = self.lines = 0

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event; a step before the last one is of another training."""
        if step < self.last:
            self.before += self.last
            self.member += 1
        self.last = step
        labels = {"member": self.member} if self._several and event not in ("start", "end") else {}
        self._log.write(event, step=self.before + step, seconds=seconds, **labels, **figures)
        self.lines += 1

    def state(self) -> dict[str, int]:
        """Return where the log stands."""
        return {name: getattr(self, name) for name in _Log.__annotations__}

    def go_on(self, state: Mapping[str, int]) -> None:
        """Undo `state`."""
        for name in self.state():
            setattr(self, name, state[name])


@dataclass
class Run:
    """The trainings of a run, those that are finished and the one that is not.

    Attributes
    ----------
    log
        Where their iterations are noted.
    checkpoint
        Where they are kept, if anywhere.
    parts
        By name what was read from the checkpoint or is finished.
    """

    log: Steps = field(default_factory=lambda: Steps(NoLog(), several=False))
    checkpoint: Checkpoint | None = None
    parts: dict[str, Parts] = field(default_factory=dict)

    @classmethod
    def resumed(cls, log: Steps, checkpoint: Checkpoint | None) -> Run:
        """Return a run that goes on from a checkpoint, if it is there; lines of the log that it knows stay."""
        result = cls(log, checkpoint)
        if checkpoint is not None and (saved := checkpoint.load()) is not None:
            arrays, metadata = saved
            log.go_on(metadata["log"])
            with checkpoint.being_read():
                found = CHECKPOINT.all_parts(arrays, len(metadata["parts"]))
            for own, part in zip(found, metadata["parts"], strict=True):
                result.parts[part["name"]] = own, part["metadata"]
        return result

    def state(
        self, name: str, restore: Callable[[Mapping[str, Shaped[Array, "..."]], dict[str, Any]], State]
    ) -> State | None:
        """Return what `restore` makes of the state that a training was in, None if it is to begin."""
        if (saved := self.parts.pop(name, None)) is None:
            return None
        assert self.checkpoint is not None
        with self.checkpoint.being_read():
            return restore(*saved)

    def keep(self, name: str, state: Callable[[], Parts]) -> None:
        """Write the state of a training that is not finished, if it is time to."""
        if self.checkpoint is not None and self.checkpoint.is_due:
            parts = {**self.parts, name: state()}
            content = enumerate(own for own, _ in parts.values())
            arrays = {f"{number}/{key}": array for number, own in content for key, array in own.items()}
            about = [{"name": part, "metadata": metadata} for part, (_, metadata) in parts.items()]
            self.checkpoint.save(arrays, {"log": self.log.state(), "lines": self.log.lines, "parts": about})

    def drop(self, start: str) -> None:
        """Forget parts whose names begin so, because a later one has what they have."""
        self.parts = {name: part for name, part in self.parts.items() if not name.startswith(start)}

    def model(self, name: str, kind: type[Model], learn: Callable[[], Model]) -> Model:
        """Return a model that is finished, or else learn it, in a training of this name, and keep it."""
        finished = f"{name}, finished"
        model = self.state(finished, kind.checked)
        if model is None:
            model = learn()
        if self.checkpoint is not None:
            self.parts[finished] = model.parts()
        return model
