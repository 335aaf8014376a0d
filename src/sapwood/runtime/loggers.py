"""Loggers: programs that show experiments, which get the lines of the training log as it is written.

A package registers one as an entry point of the group `sapwood.loggers`: a function from one text, that after the
colon of the name (`mlflow:experiment`), to an object with `write` and `close`. Loggers see steps again that an
interrupted run repeats.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from sapwood.errors import SapwoodError, UsageError
from sapwood.runtime.log import Log, plain_values
from sapwood.runtime.registry import named

GROUP = "sapwood.loggers"


class Logger(Protocol):
    """A program that shows experiments."""

    def write(self, event: str, *, step: int, seconds: float, **figures: Any) -> None:
        """Take an event of the training log: its name, the number of iterations so far, the time, and JSON values."""
        ...

    def close(self) -> None:
        """End the experiment, finished or not."""
        ...


def find_logger(name: str) -> Callable[[], Logger]:
    """Return the function that opens the logger of that name; raises `UsageError` if there is none."""
    kind, _, argument = name.partition(":")
    no_own: dict[str, Callable[[str], Logger]] = {}
    try:
        make = named(kind, no_own, GROUP, "logger")
    except UsageError as error:
        raise UsageError(f"{error} (packages register loggers as {GROUP})") from None
    return lambda: make(argument)


@contextlib.contextmanager
def also_to(names: Sequence[str], file: Log) -> Iterator[Log]:
    """Yield a log that writes to a file, and to the loggers of these names, which are closed in the end."""
    if not names:
        yield file
        return
    found = [(name, find_logger(name)) for name in names]
    with contextlib.ExitStack() as stack:
        loggers = []
        for name, make in found:
            with _naming(name):
                logger = make()
            stack.callback(_close, name, logger)
            loggers.append((name, logger))
        yield _Logs(file, loggers)


class _Logs:
    """A log in a file, and loggers."""

    def __init__(self, file: Log, loggers: Sequence[tuple[str, Logger]]) -> None:
        self._file, self._loggers, self._began = file, loggers, time.monotonic()

    @property
    def lines(self) -> int:
        """Number of lines in the file."""
        return int(getattr(self._file, "lines", 0))

    @property
    def is_new(self) -> bool:
        """True if the file had nothing to resume."""
        return bool(getattr(self._file, "is_new", True))

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Log an event."""
        self._file.write(event, step=step, seconds=seconds, **figures)
        taken = float(getattr(self._file, "seconds", time.monotonic() - self._began)) if seconds is None else seconds
        values = plain_values(figures)
        for name, logger in self._loggers:
            with _naming(name):
                logger.write(event, step=step, seconds=taken, **values)


def _close(name: str, logger: Logger) -> None:
    with _naming(name):
        logger.close()


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the logger in errors that it raises, which may be any."""
    try:
        yield
    except Exception as error:
        raise SapwoodError(
            f"the logger {name!r} failed: {type(error).__name__}: {error}; an interrupted run can be resumed without it"
        ) from error
