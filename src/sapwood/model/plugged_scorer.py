"""Plugged span scorer: the name of a span scorer of another package, which a model uses in place of one of its own.

The package registers a function under that name in the entry point group `sapwood.span_scorers`
(`sapwood.inference.span_scorer`). The model has the name and one argument, such as a path, but no code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from sapwood.errors import ModelError, UsageError
from sapwood.storage.shapes import Array, Shaped

# Names, and arguments: one line of text.
_NAME, _LONGEST = re.compile(r"[\w.+-]{1,80}"), 1000


class PluggedScorerMetadata(TypedDict):
    """Metadata of a plugged span scorer in a model file."""

    name: str
    argument: str


@dataclass(frozen=True)
class PluggedScorer:
    """A span scorer of another package.

    Attributes
    ----------
    name
        Name of its entry point.
    argument
        Text that it is made with.
    """

    name: str
    argument: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"a span scorer has a name of letters, digits, `.`, `+` and `-`, not {self.name[:80]!r}")
        if len(self.argument) > _LONGEST or not self.argument.isprintable():
            raise UsageError(f"the argument of a span scorer is one line of at most {_LONGEST} characters")

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored: none."""
        return {}

    def metadata(self) -> PluggedScorerMetadata:
        """Return the metadata to be stored."""
        return {"name": self.name, "argument": self.argument}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any] | None
    ) -> PluggedScorer | None:
        """Inverse of `metadata`; None without a plugged span scorer."""
        del arrays
        if metadata is None:
            return None
        try:
            return cls(metadata["name"], metadata["argument"])
        except UsageError as error:
            raise ModelError(f"plugged_scorer: {error}") from error
