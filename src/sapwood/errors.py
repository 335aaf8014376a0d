"""Errors that sapwood raises on purpose.

Each has a message for the user: what is wrong, where, and what to do. The command line prints only that message and
exits with `exit_code`; anything that is not a `SapwoodError` is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial


def shortened(text: str) -> str:
    """Return a text for messages, truncated if it is long."""
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[str], most: int = 60) -> str:
    """Return names for messages: the first of them, and the number of others if there are many.

    >>> listed(["NN", "VB", "DT"], most=2)
    'NN, VB and 1 more'
    """
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


class SapwoodError(Exception):
    """Base class of all errors whose message is meant for the user."""

    exit_code = 1


class UsageError(SapwoodError, ValueError):
    """Wrong call: incompatible options, a value out of range."""

    exit_code = 2


class NoParse(UsageError):
    """No parse of a sentence has the required phrases."""


class InputError(SapwoodError):
    """A file cannot be read, is empty, or has unexpected contents."""

    exit_code = 3


class OutOfMemory(SapwoodError, MemoryError):
    """A sentence needs more memory than allowed or available."""


class TimedOut(SapwoodError, TimeoutError):
    """A sentence needs more time than allowed."""


class ClusterError(SapwoodError):
    """A cluster cannot be reached, is incompatible, or was lost."""

    exit_code = 5


class TreeFormatError(InputError):
    """A malformed tree, with its location.

    Attributes hold the parts of the message, so that a program can use the location as well: `source` (file name),
    `line` and `column` (both from 1), `text` (the offending text).
    """

    def __init__(self, problem: str, *, source: str, line: int, column: int = 0, text: str = "") -> None:
        self.problem = problem
        self.source = source
        self.line = line
        self.column = column
        self.text = shortened(text)
        place = f"{source}:{line}:{column}" if column else f"{source}:{line}"
        super().__init__(f"{place}: {problem}" + (f": {self.text!r}" if text else ""))

    def __reduce__(self) -> tuple[Callable[[], TreeFormatError], tuple[()]]:
        make = partial(type(self), self.problem, source=self.source, line=self.line, column=self.column, text=self.text)
        return make, ()


class ModelError(SapwoodError):
    """A model or corpus file that is damaged, from another version, or of another kind."""

    exit_code = 4


class GrammarError(SapwoodError):
    """A grammar whose arrays are inconsistent or that is not what it claims to be."""

    exit_code = 4
