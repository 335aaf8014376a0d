"""Kinds of values that options take."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from sapwood.run.plugins import plugins


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the question that goes behind a complaint about an unknown name, if one of these is like it."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Choice(click.ParamType):
    """One of several names or, with a group of entry points, of those that other packages add to them."""

    name = "choice"

    def __init__(self, own: Sequence[str], group: str | None = None) -> None:
        self.choices = own
        self._group = group

    def _names(self) -> list[str]:
        # A plugin's name alone; its code runs when it is used.
        return list(dict.fromkeys([*self.choices, *(plugins(self._group) if self._group else ())]))

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return all names for the help."""
        return f"[{'|'.join(self._names())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a name that there is; others fail, with the one that may be meant."""
        if value not in self.choices and value not in (names := self._names()):
            listed = ", ".join(map(repr, names))
            self.fail(f"{value!r} is not one of {listed}{suggestion(value, names)}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that begin with what is typed."""
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]


class Size(click.ParamType):
    """A number of bytes, with `K`, `M`, `G` or `T` behind it for units of 1024."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return how many bytes that is."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([KMGT]?)(?:i?B)?", value, re.IGNORECASE)
        size = int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ")) if found else 0
        if not size:
            self.fail(f"{value!r} is no size; give a number and K, M or G, such as 500M", param, ctx)
        return size
