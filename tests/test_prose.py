"""Prose of the package and of its tests: help texts and docstrings that read like English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sapwood.cli.train import command as train
from sapwood.web.service import Service

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "sapwood"
SOURCES = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))

CLAUSE = re.compile(r"(What|Which|How|Where|Whether|Those|Of)\b")
# "There is no file" is English, "it is no file" is not.
TIC = re.compile(
    r"\bso many\b|\bbeside\b|(?<!\bthere )\bis no (?!longer|more|less|larger|smaller|better|worse)", re.IGNORECASE
)
MOST_CLAUSES = 0
MOST_TICS = 20


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node


def test_no_test_has_the_same_mark_twice():
    twice = []
    for path in TESTS:
        for function in functions(path):
            marks = [ast.unparse(mark) for mark in function.decorator_list]
            if len(set(marks)) < len(marks):
                twice.append(f"{path.relative_to(REPOSITORY)}::{function.name}")
    assert not twice


def test_the_threads_of_a_service_are_described():
    said = str(Service.__doc__).split("    threads\n", 1)[1].splitlines()[0].strip()
    assert said == "Number of threads that work on requests."


@pytest.mark.parametrize("option", ["crf", "span_scorer"])
def test_the_default_of_components_is_stated(option):
    found = next(one for one in train.params if one.name == option)
    assert isinstance(found, click.Option)
    assert str(found.help).endswith("[default: on, unless --method is given]")


def clauses() -> list[str]:
    """Return modules whose docstring opens with a clause in place of a noun."""
    texts = {name: ast.get_docstring(ast.parse(text)) or "" for name, text in SOURCES.items()}
    return [f"{name}: {text.splitlines()[0]}" for name, text in texts.items() if CLAUSE.match(text)]


def tics() -> list[str]:
    """Return lines with a tic: better are N for "so many", "next to" for "beside", "is not a" for "is no"."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in SOURCES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if TIC.search(line)
    ]


def test_docstrings_of_modules_open_with_a_noun():
    found = clauses()
    assert len(found) <= MOST_CLAUSES, "\n".join(found)


def test_tics_are_rare():
    found = tics()
    assert len(found) < MOST_TICS, "\n".join(found)


@pytest.mark.parametrize("line", ["after so many steps", "the file beside it", "it is no file"])
def test_a_tic_is_noticed(line):
    assert TIC.search(line)
    assert not TIC.search("N steps, the file next to it, besides: it is not a file, there is no other")
