"""The errors that sapwood raises on purpose.

Each carries a message for a person: what is wrong, where, and what to do. The command line prints
that message alone and exits with `exit_code`; anything that is not a `SapwoodError` is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial


def shortened(text: str) -> str:
    """Return a text as messages show it: its beginning, if it is long."""
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[str], most: int = 60) -> str:
    """Return names as messages list them: the first of them and how many more there are, if they are many.

    >>> listed(["NN", "VB", "DT"], most=2)
    'NN, VB and 1 more'
    """
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


class SapwoodError(Exception):
    """Base of all errors whose message is meant for the user."""

    exit_code = 1


class UsageError(SapwoodError, ValueError):
    """The call itself is wrong: options that do not go together, a value out of range."""

    exit_code = 2


class NoParse(UsageError):
    """No parse of a sentence has the phrases that it must have."""


class InputError(SapwoodError):
    """A file cannot be read, is empty, or holds something other than what was expected."""

    exit_code = 3


class OutOfMemory(SapwoodError, MemoryError):
    """A sentence needs more memory than it may take, or than there is."""


class TimedOut(SapwoodError, TimeoutError):
    """A sentence needs more time than it may take."""


class ClusterError(SapwoodError):
    """A cluster that cannot be reached, does not fit, or was lost."""

    exit_code = 5


class TreeFormatError(InputError):
    """A malformed tree, with its place.

    Attributes hold what the message says, so that a program can point at the place as well:
    `source` (file name), `line` and `column` (both from 1), `text` (the offending text).
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
    """A model or corpus file that is damaged, from another version, or not one at all."""

    exit_code = 4


class GrammarError(SapwoodError):
    """A grammar whose arrays do not fit together or that is not what it claims to be."""

    exit_code = 4
