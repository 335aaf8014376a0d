"""Commands with many options: listed under headings, and taken from a settings file (`--config`) where there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from sapwood.errors import InputError
from sapwood.run.config import Value, read_config

F = TypeVar("F", bound=Callable[..., Any])
# What says how to run and show things, but nothing of the result.
_NO_SETTINGS = ("help", "help-all", "config", "save-config", "json", "quiet")
# Headings that begin so are long, and only `--help-all` lists what is under them.
SETTINGS_OF = "Settings of"


class GroupedCommand(click.Command):
    """A command whose help lists options under headings; those of single methods only in `--help-all`.

    Parameters
    ----------
    groups
        The names of options (`word-prior` is that of `--word-prior`) by heading, in the order to show them. Options
        under no heading come first.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, Collection[str]] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.groups = {heading: tuple(names) for heading, names in (groups or {}).items()}
        grouped = [name for names in self.groups.values() for name in names]
        if unknown := set(grouped) - {option_name(option) for option in self.params}:
            raise ValueError(f"groups name options that do not exist: {', '.join(sorted(unknown))}")
        if len(set(grouped)) < len(grouped):
            raise ValueError("groups name an option twice")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options, by their headings."""
        parameters = self.get_params(ctx)
        headings = {name: heading for heading, names in self.groups.items() for name in names}
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *self.groups)}
        for parameter in parameters:
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                rows[headings.get(option_name(parameter), "Options")].append(record)
        left_out = []
        for heading, records in rows.items():
            if heading.startswith(SETTINGS_OF) and not ctx.meta.get(SETTINGS_OF):
                left_out += records
            elif records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(
                f"There are {len(left_out)} more, for single methods; {ctx.command_path} --help-all lists them, too."
            )


def help_all_option() -> click.Option:
    """Return `--help-all`."""

    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            context.meta[SETTINGS_OF] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the settings of all methods, too, and exit.",
    )


def option_name(parameter: click.Parameter) -> str:
    """Return the name of an option as people write it, without dashes before it."""
    return max(parameter.opts, key=len).lstrip("-")


def config_options(function: F) -> F:
    """Add `--config`, whose file gives options that the command line does not, and `--save-config` (a path)."""
    for option in (
        click.option("--save-config", help="Where to write the settings of this run, for --config."),
        click.option(
            "--config",
            is_eager=True,
            expose_value=False,
            callback=_take_settings,
            help='Settings (TOML: lines such as states = 8 or method = "em"); the command line goes before them.',
        ),
    ):
        function = option(function)
    return function


def run_settings(context: click.Context) -> dict[str, Value]:
    """Return the options of this run that have a value, by name, as `write_config` takes them."""
    return {
        name: context.params[str(option.name)]
        for name, option in _settings(context.command).items()
        if context.params.get(str(option.name)) not in (None, ())
    }


def _settings(command: click.Command) -> dict[str, click.Option]:
    options = {option_name(option): option for option in command.params if isinstance(option, click.Option)}
    return {name: option for name, option in options.items() if name not in _NO_SETTINGS}


def _take_settings(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Make what a settings file says the defaults of all options."""
    if path is None or context.resilient_parsing:
        return
    options = _settings(context.command)
    defaults: dict[str, Any] = {}
    for name, value in read_config(path, options).items():
        option = options[name]
        several = option.multiple or option.nargs != 1
        given: Any = [_as_typed(part) for part in value] if isinstance(value, list) else _as_typed(value)
        if option.is_flag:
            if not isinstance(value, bool):
                raise InputError(f"{path}: {name} = {value!r}: write true or false")
            given = value
        elif several != isinstance(value, list):
            raise InputError(f"{path}: {name} = {value!r}: write {'a list' if several else 'one value'}")
        try:
            option.type_cast_value(context, given)
        except click.BadParameter as error:
            raise InputError(f"{path}: {name} = {value!r}: {error.message}") from None
        defaults[str(option.name)] = given
    context.default_map = {**(context.default_map or {}), **defaults}


def _as_typed(value: object) -> str:
    """Return a value as it would be typed, so that 8.5 or true is no number of states."""
    return str(value).lower() if isinstance(value, bool) else str(value)
