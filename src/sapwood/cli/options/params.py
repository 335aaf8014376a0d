"""Command-line options generated from the declared settings of learners."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from sapwood.cli.options import aliases
from sapwood.cli.options.declared import setting_option, shown
from sapwood.cli.options.help import SETTINGS_OF
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import UsageError, shortened
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.registry import GROUP, LEARNERS
from sapwood.pipeline.recipe import FEW, recommended
from sapwood.runtime.config import are_usable
from sapwood.runtime.params import HasParams, Param, defaults, params_of
from sapwood.storage.files import whole_number

_SEVERAL = f"{SETTINGS_OF} several"
_MOST_MEMBERS = 64
# Learners by name.
Ways = Mapping[str, type[HasParams]]


def users(name: str, ways: Ways = LEARNERS) -> list[str]:
    """Return the methods that have a setting; `features` stands for inside and outside features."""
    wanted = "inside" if name == "features" else name
    return [method for method, cls in ways.items() if wanted in params_of(cls)]


def settings_of(ways: Ways) -> dict[str, Param]:
    """Return all settings available on the command line by name, as declared by the first method that has them."""
    found: dict[str, Param] = {}
    for cls in ways.values():
        for name, setting in params_of(cls).items():
            if setting.kind != "other" and name != "random_state":  # set by --seed
                words = dict.fromkeys((*found.get(name, setting).options, *setting.options))
                found[name] = replace(found.get(name, setting), options=tuple(words))
    return found


def headings_of(ways: Ways, several: str) -> dict[str, list[str]]:
    """Return the names of the options by heading: first those of several methods, then by method."""
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
    """Return --method."""
    return click.Option(
        ["--method"],
        type=ChoiceParam(tuple(LEARNERS), GROUP),
        help="Train a single grammar by this method; spectral, cluster, pivot and pcfg take seconds. [default: "
        "chosen by the size of the treebank]",
    )


class MembersType(click.ParamType):
    """The number of grammars, or a comma-separated list of methods."""

    name = "NUMBER|METHODS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[str, ...]:
        """Return the number, or the methods."""
        if not isinstance(value, str):
            return value
        if value.strip("+-").isdigit():
            number = whole_number(value.removeprefix("+"))
            if number is None or not 1 <= number <= _MOST_MEMBERS:
                self.fail(f"{shortened(value)} is not in the range 1<=x<={_MOST_MEMBERS}", param, ctx)
            return number
        choice = ChoiceParam(tuple(LEARNERS), GROUP)
        return tuple(choice.convert(part.strip(), param, ctx) for part in value.split(","))


def ensemble_option() -> click.Option:
    """Return --ensemble."""
    return click.Option(
        ["--ensemble"],
        type=MembersType(),
        help="Train several grammars: their number, or a comma-separated list of methods.",
    )


def check_methods(
    method: str | None, ensemble: int | tuple[str, ...] | None, fast: bool, given: Sequence[str]
) -> str | None:
    """Return the method, pcfg for --fast; refuse options that none of the methods has."""
    if fast and (method or ensemble):
        raise UsageError(f"--fast is a method of its own: omit {'--method' if method else '--ensemble'}")
    if method is not None and isinstance(ensemble, tuple):
        raise UsageError("--ensemble names its methods itself: omit --method")
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
    return [setting_option(name, setting, _help(name, ways)) for name, setting in settings_of(ways).items()]


def setting_options() -> list[click.Option]:
    """Return the options of `sapwood train`: one for each setting of each method, and `--set` for plugins."""
    return [
        *options_of(LEARNERS),
        click.Option(
            ["--features"],
            type=ChoiceParam(["simple", "rich"]),
            help=f"Set of inside and outside features ({', '.join(users('features'))}). [default: rich]",
        ),
        click.Option(["--init"], help="Initialise from this model, trained on the same trees."),
        click.Option(
            ["--set", "more"],
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a hyper-parameter of the method; VALUE is TOML. Repeatable.",
        ),
    ]


def _help(name: str, ways: Ways) -> str:
    methods = users(name, ways)
    texts = _by_value({method: params_of(ways[method])[name].help for method in methods})
    values = _by_value({method: shown(defaults(ways[method])[name]) for method in methods})
    text = " ".join(f"{', '.join(who)}: {said}" for said, who in texts.items())
    if len(texts) == 1:
        text = next(iter(texts))
        if 1 < len(methods) < len(ways):
            text = f"{text.rstrip('.')} ({_listed(methods, ways)})."
    # The default of most methods comes first, without their names.
    named = [
        value if 2 * len(who) > len(methods) else f"{', '.join(who)}: {value}"
        for value, who in sorted(values.items(), key=lambda pair: -len(pair[1]))
    ]
    return f"{text} [default: {'; '.join(named)}]"


def _by_value(values: dict[str, str]) -> dict[str, list[str]]:
    """Return the methods that share each value."""
    by_value: dict[str, list[str]] = {}
    for method, value in values.items():
        by_value.setdefault(value, []).append(method)
    return by_value


def _listed(methods: Sequence[str], ways: Ways) -> str:
    others = [method for method in ways if method not in methods]
    return f"all but {others[0]}" if len(others) == 1 else ", ".join(methods)


def refuse_foreign(methods: Collection[str], given: Sequence[str]) -> None:
    """Refuse options that none of these methods has, rather than ignore them."""
    if not set(methods) <= set(LEARNERS):
        return
    for name in given:
        if name != "init" and not set(methods) & set(users(name)):
            raise UsageError(f"--{name.replace('_', '-')} requires --method {' or '.join(users(name))}")
        if name == "init" and "em" not in methods:
            raise UsageError("--init requires --method em")


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return what `--set NAME=VALUE` says; a value that is not TOML is taken as a string."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"--set {pair}: write NAME=VALUE, for example --set states=8")
        name = aliases.LEARNERS.setting(name)
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
        except (ValueError, RecursionError):
            found[name] = float("nan")  # thousands of digits
        if not are_usable(found[name] if isinstance(found[name], list) else [found[name]]):
            raise UsageError(f"--set {name}: {shortened(value)!r} is not a value that can be used")
    return found
