"""The error of a tree pattern, which points at the place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sapwood.errors import UsageError


class PatternError(UsageError):
    """A pattern that is not understood.

    Attributes hold what the message says: `problem`, `pattern` and `column` (from 1).
    """

    def __init__(self, problem: str, pattern: str, at: int) -> None:
        self.problem = problem
        self.pattern = pattern
        self.column = at + 1
        # Long patterns are shown around the place.
        begin = max(0, at - 50)
        shown = "".join(c if c.isprintable() else " " for c in pattern[begin : begin + 100])
        before, after = "..." if begin else "", "..." if begin + 100 < len(pattern) else ""
        pointer = " " * (len(before) + at - begin) + "^"
        super().__init__(f"pattern, column {self.column}: {problem}\n  {before}{shown}{after}\n  {pointer}")

    def __reduce__(self) -> tuple[Callable[[], PatternError], tuple[()]]:
        return partial(PatternError, self.problem, self.pattern, self.column - 1), ()
