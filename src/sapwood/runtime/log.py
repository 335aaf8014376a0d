"""Training log: JSON Lines, one line per event, written immediately so that a crash loses nothing.

Every line has `event` (`start`, `iteration`, `dev`, `end`), `step` (iterations of the whole training so far, summed
over the members of an ensemble) and `seconds` since training began, not counting interruptions. Other fields depend on
the event:

    start      method, settings, trees, words
    iteration  cycle, phase, iteration, log_likelihood, states
    dev        cycle, f1, exact, tags, log_likelihood

and `member`, from 0, in the log of an ensemble. A number that is infinite or not a number is written as `null`.

A last line truncated by a crash is ignored by readers and removed when the log is resumed.
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

from sapwood.errors import InputError, UsageError, shortened
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM, atomic_write, explained, is_regular, name_of, read_lines

# Expected types of the figures of iterations and evaluations.
_COUNTS = ("cycle", "iteration", "states")
_MEASURES = ("log_likelihood", "f1", "exact", "tags")
_LARGEST_COUNT = 10**12
_LARGEST_MEASURE = 1e300


class Log(Protocol):
    """Log to which a learner reports its iterations."""

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Log an event."""
        ...


class NoLog:
    """Log that discards everything: the default of every library call."""

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Do nothing."""


class LogSection:
    """Section of a log: its steps continue from those before, and its lines have labels.

    Parameters
    ----------
    log
        The whole log.
    steps
        Number of steps before the section.
    labels
        Figures of all its lines.

    Attributes
    ----------
    iterations
        Number of iterations in the section so far.

    Examples
    --------
    >>> section = LogSection(NoLog(), steps=10, labels={"member": 1})
    >>> section.write("iteration", step=1)
    >>> section.iterations
    1
    """

    def __init__(self, log: Log, steps: int = 0, labels: Mapping[str, Any] | None = None) -> None:
        self._log, self._steps, self._labels = log, steps, dict(labels or {})
        self.iterations = 0

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Log an event."""
        if event == "iteration":
            self.iterations = max(self.iterations, step)
        self._log.write(event, step=self._steps + step, seconds=seconds, **self._labels, **figures)


class TrainingLog:
    """Training log in a file.

    Parameters
    ----------
    path
        The file. It is replaced unless `append` is True.
    append
        Resume the log: a truncated last line is removed, and `seconds` continue from those of the last line. A missing
        file is created.

    Attributes
    ----------
    is_new
        True if there was nothing to resume.
    lines
        Number of lines.

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
            raise UsageError(f"{path}: a log is written to a regular file, not to standard output or compressed")
        self.path = path
        earlier = self._cut(path) if append and is_regular(path) else []
        with explained(path, "write"):
            # Unbuffered: the operating system has the line when `write` returns.
            self._stream = Path(path).open("ab" if append else "wb", buffering=0)  # noqa: SIM115
        self.is_new, self.lines = not earlier, len(earlier)
        self._before = next((line["seconds"] for line in reversed(earlier) if line.get("seconds") is not None), 0.0)
        self._began = time.monotonic()

    @classmethod
    def resume(
        cls,
        path: str | Path,
        *,
        step: int | None = None,
        measured: int | None = None,
        lines: int | None = None,
        finished: int = 0,
    ) -> Self:
        """Resume a log from a checkpoint: later lines are dropped, as they will be written again.

        `step` is the last step that is kept, `measured` that of the last `dev` line, if different, and `lines` the
        maximum number of lines. The first lines are kept whatever their steps: those of `finished` stages.
        """
        if is_regular(path):
            cls._cut(path, step, measured, lines, finished)
        return cls(path, append=True)

    @staticmethod
    def _cut(
        path: str | Path,
        step: int | None = None,
        measured: int | None = None,
        count: int | None = None,
        finished: int = 0,
    ) -> list[dict[str, Any]]:
        """Truncate the file to complete lines up to this step, at most `count` of them, and return them."""

        def is_kept(number: int, line: Mapping[str, Any]) -> bool:
            last = step if measured is None or line["event"] != "dev" else measured
            return number < finished or last is None or line["step"] <= last

        lines = [(text, line) for number, (text, line) in enumerate(_read(path)[:count]) if is_kept(number, line)]
        content = "".join(text if text.endswith("\n") else f"{text}\n" for text, _ in lines).encode()
        with explained(path):
            changed = Path(path).read_bytes() != content
        if changed:
            with atomic_write(path) as stream:
                stream.write(content)
        return [line for _, line in lines]

    @property
    def seconds(self) -> float:
        """Return the time since training began, including earlier runs."""
        return self._before + time.monotonic() - self._began

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Append a line.

        Parameters
        ----------
        event
            Name of the event.
        step
            Number of iterations so far.
        seconds
            Time since training began; measured by default.
        figures
            JSON values, NumPy numbers and arrays, and paths.
        """
        taken = round(self.seconds, 3) if seconds is None else seconds
        line = plain_values({"event": event, "step": step, "seconds": taken, **figures})
        if problem := _problem(line):
            raise ValueError(problem)
        # ASCII: wherever a crash truncates the line, the rest is valid text.
        content = memoryview(json.dumps(line, ensure_ascii=True, allow_nan=False).encode() + b"\n")
        with explained(self.path, "write"):
            while content:
                content = content[self._stream.write(content) or 0 :]
        self.lines += 1

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
        If the file cannot be read, or has a line that is not one of a training log. A truncated last line is not an
        error and is ignored.
    """
    return [line for _, line in _read(path)]


def _read(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the lines of a log, each as text and parsed."""
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
    """Return what is wrong with a line: a missing field, or a known figure that is not a number."""
    if not isinstance(line.get("event"), str):
        return "not a line of a training log: it has no event"
    if not _is_count(line.get("step")):
        return f"not a line of a training log: its step is not a number of iterations: {_shown(line.get('step'))}"
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
    """Return a JSON value for messages."""
    return shortened(json.dumps(value))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def plain_values(value: Any) -> Any:
    """Return the value in JSON types, with `None` for numbers that are not finite."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value
