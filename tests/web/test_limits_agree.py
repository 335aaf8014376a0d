"""Limits of the service: the command, its help, the API and the documentation name the same ones."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click
import pytest

from sapwood.cli.serve import _limits, command
from sapwood.web import connection_limits, endpoints
from sapwood.web.api import sentences
from sapwood.web.service import Limits, Service

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
# The rows of its table: options and limits.
ROWS = {option: limit for limit, option in re.findall(r"^\| [^|]*\| ([^|]*) \| `(--[^`]*)` \|$", PAGE, re.MULTILINE)}
# As recorded, and compared with the command in tests/cli.
HELP = " ".join((ROOT / "tests" / "cli" / "help" / "sapwood-serve.txt").read_text(encoding="utf-8").split())
DEFAULT = Limits()
# The limits that options set, with the option and its default in the help.
OPTIONS = {
    "body": ("--max-body", "1M"),
    "characters": ("--max-characters", f"{DEFAULT.characters}"),
    "total_words": ("--max-total-words", f"{DEFAULT.total_words}"),
    "sentences": ("--max-sentences", f"{DEFAULT.sentences}"),
    "words": ("--max-words", f"{DEFAULT.words}"),
    "seconds": ("--max-seconds", f"{DEFAULT.seconds}"),
    "sentence_seconds": ("--timeout", f"{DEFAULT.sentence_seconds}"),
    "memory": ("--max-memory", f"{DEFAULT.memory >> 20}M"),
    "queue": ("--queue", f"{DEFAULT.queue}"),
    "connections": ("--max-connections", f"{DEFAULT.connections}"),
    "drain": ("--drain", f"{DEFAULT.drain}"),
    "connections_per_client": ("--max-connections-per-client", f"{DEFAULT.connections_per_client}"),
}


def options() -> dict[str, object]:
    """Return the values of all options that set limits, if none is given."""
    names = {name.removeprefix("--").replace("-", "_") for name, _ in OPTIONS.values()}
    context = click.Context(command)
    chosen = [option for option in command.params if option.name in names]
    return {str(option.name): option.type_cast_value(context, option.default) for option in chosen}


def test_the_command_has_the_limits_of_the_library():
    assert _limits(**options()) == DEFAULT


@pytest.mark.parametrize("name", OPTIONS)
def test_help_names_the_limits(name):
    option, default = OPTIONS[name]
    found = re.search(rf" {option} [^\[]*\[default: ([^;\]]+)", HELP)
    assert found is not None
    assert found[1] == default


def test_every_limit_has_an_option_or_a_sentence():
    assert {one.name for one in dataclasses.fields(Limits)} - set(OPTIONS) == {"trees"}


def test_the_api_names_the_limits_of_requests():
    described = Service.load().describe()["limits"]
    named = {one.name: getattr(DEFAULT, one.name) for one in dataclasses.fields(Limits)}
    assert described == {
        name: value for name, value in named.items() if not name.startswith(("queue", "connections", "drain"))
    }


def test_the_page_names_the_limits_of_options():
    assert {
        "--max-body": f"{DEFAULT.body >> 20} MB",
        "--max-characters": f"{DEFAULT.characters:,}",
        "--max-total-words": f"{DEFAULT.total_words:,}",
        "--max-sentences": f"{DEFAULT.sentences:,}",
        "--max-words": f"{DEFAULT.words}",
        "--timeout": f"{DEFAULT.sentence_seconds:.0f} s",
        "--max-memory": f"{DEFAULT.memory >> 20} MB",
        "--max-seconds": f"{DEFAULT.seconds:.0f} s",
        "--drain": f"{DEFAULT.drain:.0f} s",
        "--queue": f"{DEFAULT.queue}",
        "--max-connections": f"{DEFAULT.connections:,}",
        "--max-connections-per-client": f"{DEFAULT.connections_per_client}",
    } == ROWS


@pytest.mark.parametrize(
    "sentence",
    [
        f"at most {sentences.LONGEST_WORD:,} characters",
        f"at most {DEFAULT.trees} trees per sentence",
        f"did not arrive within {connection_limits.HEAD_SECONDS:.0f} s",
        f"larger than {connection_limits.MOST_HEAD >> 10} KB",
        f"less than {connection_limits.LEAST_READ >> 10} KB of the answer in {connection_limits.WRITE_SECONDS:.0f} s",
        f"more than {connection_limits.MOST_PIPELINED >> 10} KB of further requests",
    ],
)
def test_the_page_names_the_other_limits(sentence):
    assert sentence in TEXT
    assert connection_limits.HEAD_SECONDS == endpoints.BODY_SECONDS
