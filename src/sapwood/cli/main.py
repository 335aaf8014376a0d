"""Entry point of `sapwood`: dispatches to subcommands, and turns failures into messages and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback

import click

from sapwood._version import __version__
from sapwood.errors import ClusterError, InputError, SapwoodError

# The module of each command, and its line in the help: importing all modules for these lines would take longer.
_COMMANDS = {
    "train": ("sapwood.cli.train", "Train a parser on treebanks."),
    "parse": ("sapwood.cli.parse", "Parse sentences: one per line in, one tree per line out."),
    "tag": ("sapwood.cli.tag", "Tag sentences: words in, word/TAG out."),
    "tokenise": ("sapwood.cli.treebank.tokenise", "Split raw text into sentences and tokens."),
    "eval": ("sapwood.cli.evaluate", "Score trees, or a model, against gold trees."),
    "compare": ("sapwood.cli.compare", "Test whether one parser is better than another."),
    "inspect": ("sapwood.cli.models.inspect", "Describe a model or a treebank."),
    "sample": ("sapwood.cli.models.sample", "Sample trees or sentences from a grammar."),
    "diagnose": ("sapwood.cli.diagnose", "Estimate how many hidden states a treebank supports."),
    "serve": ("sapwood.cli.serve", "Explore models and treebanks in a browser."),
    "check": ("sapwood.cli.treebank.check", "Find probable annotation errors in a treebank."),
    "agree": ("sapwood.cli.treebank.agree", "Measure the agreement of two annotators."),
    "annotate": ("sapwood.cli.treebank.annotate", "Annotate sentences in a browser, with a parser's help."),
    "select": ("sapwood.cli.treebank.select", "Select and parse the sentences to annotate next."),
    "convert": ("sapwood.cli.treebank.convert", "Convert trees between formats, normalise or binarise them."),
    "split": ("sapwood.cli.treebank.split", "Split a treebank into training, dev and test files."),
    "import": ("sapwood.cli.models.import_", "Import a grammar from text files."),
    "package": ("sapwood.cli.models.package", "Package a model as a wheel, or push it to Hugging Face."),
    "models": ("sapwood.cli.models.installed", "List installed models."),
    "search": ("sapwood.cli.treebank.search", "Search treebanks with tree patterns."),
    "rewrite": ("sapwood.cli.treebank.rewrite", "Rewrite trees by rules: patterns and operations."),
    "corpus": ("sapwood.cli.treebank.corpus", "Frequencies and statistics of treebanks, and comparisons."),
    "minimise": ("sapwood.cli.models.minimise", "Compress a model: fewer hidden states, faster parsing."),
    "plot": ("sapwood.cli.plot", "Plot training curves, or the singular values of a model."),
    "anchors": ("sapwood.cli.unsupervised.anchors", "Find the hidden states of a co-occurrence matrix."),
    "lm": ("sapwood.cli.lm.group", "Count n-grams; train and use language models."),
    "identify": ("sapwood.cli.unsupervised.identify", "Check whether a model is identifiable from sentences."),
    "induce": ("sapwood.cli.unsupervised.induce", "Induce a grammar or dependency model from plain text."),
}
# Aliases of commands, accepted but not listed.
_ALIASES = {
    "minimize": "minimise",
    "tokenize": "tokenise",
    "evaluate": "eval",
    "next": "select",
    "decompose": "anchors",
}
_INTERRUPTED = 130
_BUG = 70


class _Stopped(Exception):
    """Carries an interrupt or a broken pipe, its cause, past the handlers of Click."""


class _LazyGroup(click.Group):
    """A group that imports commands on use, so that `sapwood --help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        from sapwood.cli.options.completion import complete_files
        from sapwood.cli.options.types import limit_numbers

        name = _ALIASES.get(name, name)
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        limit_numbers(command)
        complete_files(command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None and not context.resilient_parsing:
            from sapwood.cli.options.types import suggestion

            context.fail(f"no command {name!r}{suggestion(name, [*_COMMANDS, *_ALIASES])}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _Stopped from error


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="sapwood")
def main() -> None:
    """Train parsers on treebanks, and parse with them.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood train train.mrg --dev dev.mrg -o model.sapwood
      sapwood eval test.mrg -m model.sapwood

    Exit codes: 0 success, 1 failure, 2 wrong usage, 3 unreadable, unwritable or malformed file,
    4 bad model, 5 cluster unreachable or lost, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit the process."""
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by the parent process. Input (`<&-`) counts as empty and messages are dropped, but writing to
            # standard output fails.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            # Only file names can contain surrogates; `\udcff` is valid in JSON as well.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run(arguments)
    if arguments is None and code == ClusterError.exit_code:
        # Messages that Dask could not send can crash the interpreter when it collects them at its end. All files are
        # written by now.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _interrupted(error: BaseException | None) -> int:
    """Report that a command was interrupted, with the error's hint on how to resume."""
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
            _abandon_output()  # the reader has exited (`| head`)
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
        click.echo(
            "sapwood: out of memory; use a smaller model, or limit the length of sentences (--max-words)", err=True
        )
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
    """Flush standard output or, if that fails, keep Python from reporting it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
