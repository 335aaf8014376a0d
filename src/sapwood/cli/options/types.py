"""Parameter types of options."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from sapwood.errors import UsageError, shortened
from sapwood.runtime.config import are_usable
from sapwood.runtime.registry import plugins
from sapwood.runtime.shards import Shard

NATURAL = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)
ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)
# Bound of numbers: more than any option can be, and fits into 64 bits.
_LARGEST = 1 << 63


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a "did you mean" hint for an unknown name, empty if no known name is similar."""
    known = list(names)
    same = [one for one in known if one.lower() == name.lower()]
    close = same[:1] or difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class ChoiceParam(click.ParamType):
    """One of several names, including those added by plugins if a group of entry points is given."""

    name = "choice"

    def __init__(self, own: Sequence[str], group: str | None = None) -> None:
        self.choices = own
        self._group = group

    def _names(self) -> list[str]:
        # Only the names of plugins; their code is imported on use.
        return list(dict.fromkeys([*self.choices, *(plugins(self._group) if self._group else ())]))

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return all names, for the help."""
        return f"[{'|'.join(self._names())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a known name; unknown ones fail with a suggestion."""
        if value not in self.choices and value not in (names := self._names()):
            listed = ", ".join(map(repr, names))
            self.fail(f"{value!r} is not one of {listed}{suggestion(value, names)}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that start with the incomplete value."""
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]


def limit_numbers(command: click.Command) -> None:
    """Make the numeric options of a command refuse NaN, infinity and integers of more than 64 bits."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            parameter.type = _limited(parameter.type)


def _limited(kind: click.ParamType) -> click.ParamType:
    """Return a numeric type with limits; of one that has them, a copy."""
    limited = copy.copy(kind)
    convert = type(kind).convert

    def checked(value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = convert(kind, value, param, ctx)
        if not are_usable([found]):
            kind.fail(f"{shortened(str(value))!r} is not a number that can be used", param, ctx)
        return found

    limited.convert = checked  # type: ignore[method-assign]
    return limited


class Size(click.ParamType):
    """A number of bytes, with an optional suffix `K`, `M`, `G` or `T` (units of 1024)."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the size in bytes."""
        if isinstance(value, int):
            if not 0 < value < _LARGEST:
                self.fail("the size is not in the range of numbers that can be used", param, ctx)
            return value
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([KMGT]?)(?:i?B)?", value, re.IGNORECASE)
        size = int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ")) if found else 0
        if not size:
            self.fail(f"{value!r} is not a size; give a number and K, M or G, such as 500M", param, ctx)
        return size


class ShardParam(click.ParamType):
    """A shard, `i/n`: a `Shard`."""

    name = "i/n"

    def convert(self, value: str | Shard, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        """Return the shard."""
        if isinstance(value, Shard):
            return value
        try:
            return Shard.parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Amount(click.ParamType):
    """A part of the trees: a number of them (an int) or a percentage (a float between 0 and 1)."""

    name = "n|n%"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or the percentage as a share."""
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"([0-9]{1,9})|([0-9]{1,2}(?:\.[0-9]{1,9})?)\s?%", value)
        if found is None:
            self.fail(f"{value!r} is neither a number of trees (500) nor a percentage (10%)", param, ctx)
        return int(found[1]) if found[1] else float(found[2]) / 100
