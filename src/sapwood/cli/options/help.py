"""Option groups: help under headings, and options read from a settings file (`--config`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from sapwood.cli.options.aliases import Aliases
from sapwood.cli.options.declared import shown
from sapwood.errors import InputError
from sapwood.runtime.config import Value, read_config

F = TypeVar("F", bound=Callable[..., Any])
# Options that do not affect the result.
_NO_SETTINGS = ("help", "help-all", "config", "save-config", "json", "quiet")
# Groups with this prefix are shown by `--help-all` only.
SETTINGS_OF = "Settings of"


class GroupedCommand(click.Command):
    """A command whose help lists options under headings, those of single methods in `--help-all` only.

    Parameters
    ----------
    groups
        Names of options by heading, in display order (`word-prior` for `--word-prior`). Options without a heading
        come first.
    aliases
        Former names of options, accepted on the command line and in settings files.
    """

    def __init__(
        self,
        *arguments: Any,
        groups: Mapping[str, Collection[str]] | None = None,
        aliases: Aliases | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.aliases = aliases or Aliases()
        self.groups = {heading: tuple(names) for heading, names in (groups or {}).items()}
        grouped = [name for names in self.groups.values() for name in names]
        if unknown := set(grouped) - {option_name(option) for option in self.params}:
            raise ValueError(f"groups name options that do not exist: {', '.join(sorted(unknown))}")
        if len(set(grouped)) < len(grouped):
            raise ValueError("groups name an option twice")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with former names replaced by present ones."""
        return super().parse_args(ctx, self.aliases.rewrite(args))

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
                f"{len(left_out)} more options belong to single methods; see {ctx.command_path} --help-all."
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
        help="Show this message with the settings of every method, and exit.",
    )


def option_name(parameter: click.Parameter) -> str:
    """Return the name of an option as typed, without leading dashes."""
    return max(parameter.opts, key=len).lstrip("-")


def config_options(function: F) -> F:
    """Add `--config`, a file of defaults for the other options, and `--save-config` (a path)."""
    for option in (
        click.option("--save-config", help="Write the settings of this run to this file, for --config."),
        click.option(
            "--config",
            is_eager=True,
            expose_value=False,
            callback=_take_settings,
            help='Read settings from a TOML file (states = 8, method = "em"); command-line options take precedence.',
        ),
    ):
        function = option(function)
    return function


def run_settings(context: click.Context) -> dict[str, Value]:
    """Return the options of this run that have a value, by name, for `write_config`."""
    return {
        name: shown(value) if isinstance(value := context.params[str(option.name)], Mapping) else value
        for name, option in _settings(context.command).items()
        if context.params.get(str(option.name)) not in (None, ())
    }


def _settings(command: click.Command) -> dict[str, click.Option]:
    options = {option_name(option): option for option in command.params if isinstance(option, click.Option)}
    return {name: option for name, option in options.items() if name not in _NO_SETTINGS}


def _take_settings(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Use the values of a settings file as the defaults of the options."""
    if path is None or context.resilient_parsing:
        return
    options = _settings(context.command)
    aliases = getattr(context.command, "aliases", Aliases())
    defaults: dict[str, Any] = {}
    for name, value in read_config(path, options, former=aliases.options).items():
        option = options[name]
        if isinstance(value, str):
            value = aliases.value(name, value)
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
    """Return a value as it would be typed, so that neither 8.5 nor true is accepted as a number of states."""
    return str(value).lower() if isinstance(value, bool) else str(value)
