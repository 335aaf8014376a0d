"""Snapshots of all help texts: `python tests/cli/record_help.py` rewrites them in tests/cli/help/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from sapwood.cli.main import main

FOLDER = Path(__file__).parent / "help"
# Columns of the terminal.
WIDTH = 100


def help_texts() -> dict[str, str]:
    """Return the help of every command by the name of its file, `--help-all` under names that end in `-all`."""
    texts = {}
    for path, context in _commands(click.Context(main, **main.context_settings), ()):
        for flag in ("--help", "--help-all"):
            if flag in (name for one in context.command.get_params(context) for name in one.opts):
                settings = {"prog_name": "sapwood", "terminal_width": WIDTH, "max_content_width": WIDTH}
                outcome = CliRunner().invoke(main, [*path, flag], **settings)
                assert outcome.exit_code == 0, outcome.output
                texts["-".join(["sapwood", *path]) + flag.removeprefix("--help") + ".txt"] = outcome.output
    return texts


def _commands(context: click.Context, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    yield path, context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            one = context.command.get_command(context, name)
            assert one is not None
            if not one.hidden:
                yield from _commands(click.Context(one, context), (*path, name))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in help_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
