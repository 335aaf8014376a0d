"""Command-line options for declared settings (`sapwood.runtime.params`)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import click

from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import UsageError
from sapwood.runtime.params import Param

# Settings that are hardly ever changed: accepted, but shown in no help.
_HIDDEN = (
    "alignment_iterations", "anchor_shrinkage", "columns", "distance_power", "feature_triples", "kappa",
    "pivot_iterations", "rule_iterations", "rule_prior", "rule_tolerance", "solver", "stepwise_power", "warmup",
    "warmup_decay",
)  # fmt: skip


class SettingType(click.ParamType):
    """The values of a setting; learners check the bounds, which differ between methods."""

    def __init__(self, setting: Param) -> None:
        self.setting = setting
        self.name = "number" if setting.kind in ("integer", "number") else "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, word or numbers."""
        if not isinstance(value, str) or value in self.setting.options:
            return value
        kind = int if self.setting.kind == "integer" else float
        if self.setting.by_symbol and "=" in value:
            return self._by_symbol(value, param, ctx)
        try:
            values = [kind(part) for part in value.split(",")]
        except ValueError:
            also = "".join(f" or {word}" for word in self.setting.options)
            self.fail(f"{value!r} is not a {'whole ' if kind is int else ''}number{also}", param, ctx)
        if len(values) > 1 and self.setting.kind != "numbers":
            self.fail(f"{value!r} is more than one number", param, ctx)
        return values[0] if len(values) == 1 else tuple(values)

    def _by_symbol(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Return the numbers of `NP=24,VP=16,8` by symbol, `*` for all others."""
        found: dict[str, int] = {}
        for part in value.split(","):
            symbol, _, count = part.strip().rpartition("=")
            if not (count.isascii() and count.isdigit() and len(count) < 10) or (symbol or "*") in found:
                self.fail(f"{value!r}: write SYMBOL=NUMBER,...,NUMBER, such as NP=24,VP=16,8", param, ctx)
            found[symbol or "*"] = int(count)
        return found


def setting_option(name: str, setting: Param, help: str) -> click.Option:
    """Return the option for a setting."""
    kind = ChoiceParam(setting.options) if setting.kind == "choice" else SettingType(setting)
    return click.Option([f"--{name.replace('_', '-')}"], type=kind, help=help, hidden=name in _HIDDEN)


def shown(value: Any) -> str:
    """Return a default as help shows it."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return ",".join(str(count) if symbol == "*" else f"{symbol}={count}" for symbol, count in value.items())
    return ",".join(f"{part:g}" for part in value) if isinstance(value, tuple) else str(value)


@contextlib.contextmanager
def naming_options(given: Collection[str]) -> Iterator[None]:
    """Replace the name of a setting at the start of an error message by that of its option."""
    try:
        yield
    except UsageError as error:
        name, _, rest = str(error).partition(" ")
        if name not in given:
            raise
        raise UsageError(f"--{name.replace('_', '-')} {rest}") from error
