"""The command `sapwood`: finds the subcommand, and turns every failure into a message and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from sapwood._version import __version__
from sapwood.errors import SapwoodError

_COMMANDS = {
    "train": "sapwood.cli.train",
    "parse": "sapwood.cli.parse",
    "eval": "sapwood.cli.evaluate",
    "inspect": "sapwood.cli.inspect",
    "convert": "sapwood.cli.convert",
}
_INTERRUPTED = 130
_BUG = 70


class _LazyGroup(click.Group):
    """Imports a command only when it is called, so that `sapwood --help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[name]).command
        assert isinstance(command, click.Command)
        return command


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sapwood")
def main() -> None:
    """Learn grammars from treebanks, and parse with them.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood train train.mrg --dev dev.mrg -o model.sapwood
      sapwood eval test.mrg -m model.sapwood

    Exit codes: 0 success, 1 failure, 2 wrong usage, 3 bad input, 4 bad model, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    sys.exit(_run(arguments))


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
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("sapwood: interrupted; nothing was written", err=True)
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone away (`| head`); keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UnicodeEncodeError as error:
        click.echo(f"sapwood: cannot write {error.object[error.start : error.end]!r} as {error.encoding}", err=True)
        return 1
    except OSError as error:
        click.echo(f"sapwood: {error.filename or 'output'}: {error.strerror or error}", err=True)
        return 1
    except MemoryError:
        click.echo("sapwood: out of memory; shorter sentences (--max-words) or a smaller model need less", err=True)
        return 1
    except Exception as error:
        if os.environ.get("SAPWOOD_DEBUG"):
            traceback.print_exc()
        click.echo(
            f"sapwood: internal error: {type(error).__name__}: {error}\n"
            "This is a bug in sapwood; set SAPWOOD_DEBUG=1 to see where, and please report it.",
            err=True,
        )
        return _BUG
