"""Options of the command line made from what learners declare of their settings."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from sapwood.cli._groups import SETTINGS_OF
from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.learn.methods import GROUP, LEARNERS
from sapwood.learn.pcfg import PCFG
from sapwood.learn.recipe import FEW, recommended
from sapwood.learn.settings import Declared, Setting, declared, defaults

_SEVERAL = f"{SETTINGS_OF} several"
_MOST_MEMBERS = 64
# Ways of learning by name.
Ways = Mapping[str, type[Declared]]


class SettingType(click.ParamType):
    """The values of a setting; their bounds are the learner's to check, for they differ between methods."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.name = "number" if setting.kind in ("integer", "number") else "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, the word, or the numbers."""
        if not isinstance(value, str) or value in self.setting.words:
            return value
        kind = int if self.setting.kind == "integer" else float
        try:
            values = [kind(part) for part in value.split(",")]
        except ValueError:
            also = "".join(f" or {word}" for word in self.setting.words)
            self.fail(f"{value!r} is not a {'whole ' if kind is int else ''}number{also}", param, ctx)
        if len(values) > 1 and self.setting.kind != "numbers":
            self.fail(f"{value!r} is more than one number", param, ctx)
        return values[0] if len(values) == 1 else tuple(values)


def users(name: str, ways: Ways = LEARNERS) -> list[str]:
    """Return the methods that have a setting; `features` stands for those of both sides."""
    wanted = "inside" if name == "features" else name
    return [method for method, cls in ways.items() if wanted in declared(cls)]


def settings_of(ways: Ways) -> dict[str, Setting]:
    """Return all settings that a command line can give, by name, as the first method that has it declares it."""
    found: dict[str, Setting] = {}
    for cls in ways.values():
        for name, setting in declared(cls).items():
            if setting.kind != "other" and name != "random_state":  # which --seed gives
                words = dict.fromkeys((*found.get(name, setting).words, *setting.words))
                found[name] = replace(found.get(name, setting), words=tuple(words))
    return found


def headings_of(ways: Ways, several: str) -> dict[str, list[str]]:
    """Return the names of the options by heading: those of several methods, then by method."""
    rows: dict[str, list[str]] = {f"{_SEVERAL} {several}": []}
    for name in settings_of(ways):
        methods = users(name, ways)
        heading = f"{_SEVERAL} {several}" if len(methods) > 1 else f"{SETTINGS_OF} {methods[0]}"
        rows.setdefault(heading, []).append(name.replace("_", "-"))
    return rows


def headings() -> dict[str, list[str]]:
    """Return the headings of `sapwood train`."""
    rows = headings_of(LEARNERS, "methods")
    rows[f"{_SEVERAL} methods"].insert(0, "features")
    rows[f"{SETTINGS_OF} em"].append("init")
    return rows


def method_option() -> click.Option:
    """Return the option that names the method."""
    return click.Option(
        ["--method"],
        type=Choice(tuple(LEARNERS), GROUP),
        help="Learn one grammar in this way: find hidden states by split-merge, pivot+em, em, spectral learning, "
        "clustering or pivot (the last three in seconds), or only count rules (pcfg). [default: what is best for a "
        "treebank of this size]",
    )


class MembersType(click.ParamType):
    """How many grammars, or the methods of as many, separated by commas."""

    name = "NUMBER|METHODS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[str, ...]:
        """Return the number, or the methods."""
        if not isinstance(value, str):
            return value
        if value.strip("+-").isdigit():
            if not 1 <= int(value) <= _MOST_MEMBERS:
                self.fail(f"{value} is not in the range 1<=x<={_MOST_MEMBERS}", param, ctx)
            return int(value)
        choice = Choice(tuple(LEARNERS), GROUP)
        return tuple(choice.convert(part.strip(), param, ctx) for part in value.split(","))


def ensemble_option() -> click.Option:
    """Return the option that says how many grammars there are to be."""
    return click.Option(
        ["--ensemble"],
        type=MembersType(),
        help="Grammars that parse together: how many, or of which methods (split-merge,pivot+em,spectral).",
    )


def check_methods(
    method: str | None, ensemble: int | tuple[str, ...] | None, fast: bool, given: Sequence[str]
) -> str | None:
    """Return the method, which --fast gives, too; refuse options that none of the methods has."""
    if fast and (method or ensemble):
        raise UsageError(f"--fast is a method of its own: leave out {'--method' if method else '--ensemble'}")
    if method is not None and isinstance(ensemble, tuple):
        raise UsageError("--ensemble names its methods itself: leave out --method")
    method = PCFG.method if fast else method
    if isinstance(ensemble, tuple):
        refuse_foreign(ensemble, given)
    elif method is not None:
        refuse_foreign([method], given)
    else:
        refuse_foreign({one.method for trees in (0, FEW) for one in recommended(trees).learners}, given)
    return method


def options_of(ways: Ways) -> list[click.Option]:
    """Return an option for each setting of each method."""
    return [
        click.Option(
            [f"--{name.replace('_', '-')}"],
            type=Choice(setting.words) if setting.kind == "choice" else SettingType(setting),
            help=_help(name, ways),
        )
        for name, setting in settings_of(ways).items()
    ]


def setting_options() -> list[click.Option]:
    """Return the options of `sapwood train`: one for each setting of each method, and `--set` for those of plugins."""
    return [
        *options_of(LEARNERS),
        click.Option(
            ["--features"],
            type=Choice(["simple", "rich"]),
            help=f"{', '.join(users('features'))}: what is looked at inside and outside of nodes. [default: rich]",
        ),
        click.Option(["--init"], help="A model to start from, over the same trees."),
        click.Option(
            ["--set", "more"], multiple=True, metavar="NAME=VALUE", help="Any setting of the method, its value in TOML."
        ),
    ]


def _help(name: str, ways: Ways) -> str:
    methods = users(name, ways)
    if len(methods) == 1:
        cls = ways[methods[0]]
        return f"{declared(cls)[name].help} [default: {_shown(defaults(cls)[name])}]"
    said = _by_value({method: declared(ways[method])[name].help.rstrip(".") for method in methods}, ways)
    usual = _by_value({method: _shown(defaults(ways[method])[name]) for method in methods}, ways)
    who = "" if len(methods) == len(ways) else f"{_listed(methods, ways)}: "
    return f"{said if ': ' in said and who else f'{who}{said}'}. [default: {usual}]"


def _by_value(values: dict[str, str], ways: Ways) -> str:
    """Return what methods say, those together that say the same."""
    by_value: dict[str, list[str]] = {}
    for method, value in values.items():
        by_value.setdefault(value, []).append(method)
    if len(by_value) == 1:
        return next(iter(by_value))
    return "; ".join(f"{_listed(methods, ways)}: {value}" for value, methods in by_value.items())


def _listed(methods: Sequence[str], ways: Ways) -> str:
    others = [method for method in ways if method not in methods]
    return f"all but {others[0]}" if len(others) == 1 else ", ".join(methods)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return ",".join(f"{part:g}" for part in value) if isinstance(value, tuple) else str(value)


def refuse_foreign(methods: Collection[str], given: Sequence[str]) -> None:
    """Refuse options that none of these methods has, rather than let them do nothing."""
    if not set(methods) <= set(LEARNERS):
        return
    for name in given:
        if name != "init" and not set(methods) & set(users(name)):
            raise UsageError(f"--{name.replace('_', '-')} goes with --method {' and '.join(users(name))}")
        if name == "init" and "em" not in methods:
            raise UsageError("--init goes with --method em")


@contextlib.contextmanager
def naming_options(given: Collection[str]) -> Iterator[None]:
    """Let the message of an error that begins with the name of a setting begin with that of its option."""
    try:
        yield
    except UsageError as error:
        name, _, rest = str(error).partition(" ")
        if name not in given:
            raise
        raise UsageError(f"--{name.replace('_', '-')} {rest}") from error


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return what `--set NAME=VALUE` says; a value that is no TOML is a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"--set {pair}: write NAME=VALUE, for example --set states=8")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
    return found
