"""The training log: JSON Lines, one line an event, written at once so that a crash loses nothing.

Every line has `event` (`start`, `iteration`, `dev`, `end`), `step` (how many iterations the whole training has done by
then, those of all members of an ensemble together) and `seconds` since training began, interruptions not counted. What
else it has depends on the event:

    start      method, settings, trees, words
    iteration  cycle, phase, iteration, log_likelihood, states
    dev        cycle, f1, exact, tags, log_likelihood

and `member`, from 0, in the log of an ensemble. A number that is infinite or not a number is written as `null`.

A last line that a crash cut short is left out by who reads the log and cut off by who goes on with it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.files import COMPRESSED, STANDARD_STREAM, atomic_write, explained, is_regular, name_of, read_lines

# What the figures of iterations and evaluations must be, if they are there at all.
_COUNTS = ("cycle", "iteration", "states")
_MEASURES = ("log_likelihood", "f1", "exact", "tags")
_LARGEST_COUNT = 10**12
_LARGEST_MEASURE = 1e300


class Log(Protocol):
    """What a learner reports its iterations to."""

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event."""
        ...


class NoLog:
    """Notes nothing: the default of every library call."""

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Do nothing."""


class TrainingLog:
    """A log in a file.

    Parameters
    ----------
    path
        The file. It is replaced, unless
    append
        says to go on with it: a last line that was cut short is cut off, and `seconds` are counted on from those of
        the last line. If there is no file, one is begun.

    Attributes
    ----------
    is_new
        Whether there was nothing to go on with.

    Examples
    --------
    >>> with TrainingLog("train.jsonl") as log:
    ...     log.write("start", step=0, method="em")
    ...     log.write("iteration", step=1, log_likelihood=-52.5, states=8)
    >>> [line["event"] for line in read_log("train.jsonl")]
    ['start', 'iteration']
    """

    def __init__(self, path: str | Path, *, append: bool = False) -> None:
        if str(path) == STANDARD_STREAM or str(path).endswith(COMPRESSED):
            raise UsageError(f"{path}: a log is written to a plain file, not to standard output or compressed")
        self.path = path
        earlier = self._cut(path) if append and is_regular(path) else []
        with explained(path, "write"):
            # Without a buffer: a line is in the hands of the operating system when `write` returns.
            self._stream = Path(path).open("ab" if append else "wb", buffering=0)  # noqa: SIM115
        self.is_new = not earlier
        self._before = next((line["seconds"] for line in reversed(earlier) if line.get("seconds") is not None), 0.0)
        self._began = time.monotonic()

    @classmethod
    def resume(
        cls, path: str | Path, *, step: int | None = None, measured: int | None = None, lines: int | None = None
    ) -> Self:
        """Go on with a log from a checkpoint: lines behind it are dropped, for they will be written again.

        `step` is the last step that will not be, `measured` that of the last `dev` line, if another, and `lines` says
        how many lines at all.
        """
        if is_regular(path):
            cls._cut(path, step, measured, lines)
        return cls(path, append=True)

    @staticmethod
    def _cut(
        path: str | Path, step: int | None = None, measured: int | None = None, count: int | None = None
    ) -> list[dict[str, Any]]:
        """Leave only whole lines of steps up to this one in the file, and not more than so many; return them."""

        def is_kept(line: Mapping[str, Any]) -> bool:
            last = step if measured is None or line["event"] != "dev" else measured
            return last is None or line["step"] <= last

        lines = [(text, line) for text, line in _read(path)[:count] if is_kept(line)]
        content = "".join(text if text.endswith("\n") else f"{text}\n" for text, _ in lines).encode()
        with explained(path):
            changed = Path(path).read_bytes() != content
        if changed:
            with atomic_write(path) as stream:
                stream.write(content)
        return [line for _, line in lines]

    @property
    def seconds(self) -> float:
        """Return the time since training began, that of earlier runs of it included."""
        return self._before + time.monotonic() - self._began

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Append a line.

        Parameters
        ----------
        event
            What happened.
        step
            Iterations so far.
        seconds
            Time since training began; measured, if not given.
        figures
            Anything JSON can hold, NumPy numbers and arrays, and paths.
        """
        taken = round(self.seconds, 3) if seconds is None else seconds
        line = _plain({"event": event, "step": step, "seconds": taken, **figures})
        if problem := _problem(line):
            raise ValueError(problem)
        # ASCII: wherever a crash cuts the line, what is left is text.
        content = memoryview(json.dumps(line, ensure_ascii=True, allow_nan=False).encode() + b"\n")
        with explained(self.path, "write"):
            while content:
                content = content[self._stream.write(content) or 0 :]

    def close(self) -> None:
        """Close the file."""
        with explained(self.path, "write"):
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a training log (`-` is standard input, `.gz` is decompressed).

    Raises
    ------
    InputError
        If the file cannot be read, or a line of it is not one of a training log. A last line that was cut short is
        no error and is left out.
    """
    return [line for _, line in _read(path)]


def _read(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the lines of a log, each as it stands in the file and as what it means."""
    lines = []
    for number, text in read_lines(path):
        place = f"{name_of(path)}:{number}"
        try:
            line = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            if not text.endswith("\n") and text.startswith("{"):
                break
            line = None
        if not isinstance(line, dict):
            raise InputError(f"{place}: not a line of a training log, which is a JSON object: {_shown(text.strip())}")
        if problem := _problem(line):
            raise InputError(f"{place}: {problem}")
        lines.append((text, line))
    return lines


def _problem(line: Mapping[str, Any]) -> str:
    """Say what every line has and this one has not, or which figure that is known is no number."""
    if not isinstance(line.get("event"), str):
        return "not a line of a training log: it has no event"
    if not _is_count(line.get("step")):
        return f"not a line of a training log: its step is no number of iterations: {_shown(line.get('step'))}"
    drawn = line["event"] in ("iteration", "dev")
    for name in ("member", *(_COUNTS if drawn else ())):
        if line.get(name) is not None and not _is_count(line[name]):
            return f"{name} must be a whole number, 0 or more: {_shown(line[name])}"
    for name in ("seconds", *(_MEASURES if drawn else ())):
        value = line.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"{name} must be a number: {_shown(value)}"
        if name == "seconds" and value is not None and value < 0:
            return f"seconds must be 0 or more: {_shown(value)}"
        if value is not None and not abs(value) <= _LARGEST_MEASURE:
            return f"{name} is too large a number: {_shown(value)}"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def _shown(value: object) -> str:
    """Return a JSON value as a message shows it."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _plain(value: Any) -> Any:
    """Return the value in types of JSON, `None` in place of what is not a finite number."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value
