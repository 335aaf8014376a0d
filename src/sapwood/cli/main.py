"""The command `sapwood`: finds the subcommand, and turns every failure into a message and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from sapwood._version import __version__
from sapwood.errors import InputError, SapwoodError

_COMMANDS = {
    "train": "sapwood.cli.train",
    "parse": "sapwood.cli.parse",
    "tag": "sapwood.cli.tag",
    "eval": "sapwood.cli.evaluate",
    "compare": "sapwood.cli.compare",
    "inspect": "sapwood.cli.inspect",
    "diagnose": "sapwood.cli.diagnose",
    "serve": "sapwood.cli.serve",
    "next": "sapwood.cli.next",
    "convert": "sapwood.cli.convert",
    "import": "sapwood.cli.import_",
    "package": "sapwood.cli.package",
    "models": "sapwood.cli.models",
    "search": "sapwood.cli.search",
    "minimise": "sapwood.cli.minimise",
    "plot": "sapwood.cli.plot",
    "decompose": "sapwood.cli.decompose",
    "lm": "sapwood.cli.lm",
    "identify": "sapwood.cli.identify",
    "induce": "sapwood.cli.induce",
}
# Other names of commands, understood but not listed.
_ALIASES = {"minimize": "minimise", "evaluate": "eval"}
_INTERRUPTED = 130
_BUG = 70


class _Stopped(Exception):
    """Carries an interrupt or a broken pipe past Click, which has other plans for them; see its cause."""


class _LazyGroup(click.Group):
    """Imports a command only when it is called, so that `sapwood --help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        name = _ALIASES.get(name, name)
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[name]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None and not context.resilient_parsing:
            from sapwood.cli._types import suggestion

            context.fail(f"no command {name!r}{suggestion(name, [*_COMMANDS, *_ALIASES])}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _Stopped from error


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sapwood")
def main() -> None:
    """Learn grammars from treebanks, and parse with them.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood train train.mrg --dev dev.mrg -o model.sapwood
      sapwood eval test.mrg -m model.sapwood

    Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a file that cannot be read or written or is malformed,
    4 a bad model, 5 a cluster that cannot be reached or was lost, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit the process."""
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by whoever started us. Input (`<&-`) is as good as empty, remarks go nowhere; but nothing can be
            # written to standard output.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            # Only a file name can hold what UTF-8 cannot; `\udcff` is right in JSON as well.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(_run(arguments))


def _interrupted(error: BaseException | None) -> int:
    """Say that a command was interrupted, and what the error says of going on."""
    hint = f"; {error}" if isinstance(error, KeyboardInterrupt) and error.args else ""
    click.echo(("\n" if sys.stderr.isatty() else "") + f"sapwood: interrupted{hint}", err=True)  # not behind a "^C"
    return _INTERRUPTED


def _run(arguments: list[str] | None) -> int:
    try:
        result = main.main(args=arguments, prog_name="sapwood", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SapwoodError as error:
        click.echo(f"sapwood: {error}", err=True)
        _abandon_output()
        return error.exit_code
    except (_Stopped, KeyboardInterrupt, click.Abort, BrokenPipeError) as error:
        if isinstance(error.__cause__ or error, BrokenPipeError):
            _abandon_output()  # whoever read it has gone away (`| head`)
            return 0
        return _interrupted(error.__cause__ or error)
    except UnicodeEncodeError as error:
        click.echo(f"sapwood: cannot write {error.object[error.start : error.end]!r} as {error.encoding}", err=True)
        return 1
    except OSError as error:
        click.echo(f"sapwood: {error.filename or 'standard output'}: {error.strerror or error}", err=True)
        _abandon_output()
        return InputError.exit_code
    except MemoryError:
        click.echo("sapwood: out of memory; shorter sentences (--max-words) or a smaller model need less", err=True)
        return 1
    except Exception as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            # An interrupt that arrived while a module was imported, or a compiled loop was handing over its result.
            return _interrupted(error.__cause__ or error.__context__)
        if os.environ.get("SAPWOOD_DEBUG"):
            traceback.print_exc()
        click.echo(
            f"sapwood: internal error: {type(error).__name__}: {error}\n"
            "This is a bug in sapwood; set SAPWOOD_DEBUG=1 to see where, and please report it.",
            err=True,
        )
        return _BUG


def _abandon_output() -> None:
    """Write out what standard output still holds or, if that fails, keep Python from complaining about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
