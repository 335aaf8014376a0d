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
PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted((REPOSITORY / "docs").glob("*.md"))
# "There is no file" is English, "it is no file" is not.
TIC = re.compile(
    r"\bso many\b|\bbeside\b|\bendless data\b|\bapart by\b|\bwhoever\b|\bmends?\b|\bmakes? of it\b|"
    r"(?<!\bthere )\bis no (?!longer|more|less|larger|smaller|better|worse|harder|division)",
    re.IGNORECASE,
)
MOST_CLAUSES = 0
MOST_TICS = 20
# Pages have more: words that only we use, and metaphors.
PAGE_TIC = re.compile(
    TIC.pattern
    + r"|\bone (?:tree|sentence|word|title|example) a (?:line|row)\b|\bcut off\b(?! or)|\bsmuggl|\blooms?\b|"
    r"\bhow it came about\b|\bnumbers a side\b|\bgoes with\b|\bworth nothing\b|\bstays? lost\b|"
    r"(?:(?<=[.:] )|(?<=\n\n))(?-i:Of) (?!course)",
    re.IGNORECASE | re.MULTILINE,
)
LONGEST_PAGE = 2100
# Longer pages: references, records of experiments and decisions, and long methods with their ablations.
LONG = {
    "architecture", "automata", "decisions", "default-methods", "grammar", "identifiability", "induction",
    "language-models", "minimisation", "model-files", "papers", "pivot", "results", "spectral",
}  # fmt: skip


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


def prose_of(page: Path) -> str:
    """Return a page without its fenced blocks, templates and code."""
    text = re.sub(r"^```.*?^```|^<!-- figures.*?-->", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]+`", "x", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_tics(page):
    assert not [found[0] for found in PAGE_TIC.finditer(prose_of(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short(page):
    assert len(prose_of(page).split()) <= LONGEST_PAGE or page.stem in LONG


def test_the_first_screen_of_the_readme_has_a_picture_three_commands_and_a_table():
    first = "\n".join((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()[:32])
    assert first.count("![") == 1
    assert len(re.findall(r"^sapwood (?:train|parse|eval) ", first, re.MULTILINE)) == 3
    assert first.count("|---|---|---|") == 1


@pytest.mark.parametrize("line", ["one sentence a line", "numbers a side", "It is so. Of these, two", "whoever trains"])
def test_a_tic_of_a_page_is_noticed(line):
    assert PAGE_TIC.search(line)


@pytest.mark.parametrize("line", ["after so many steps", "the file beside it", "it is no file"])
def test_a_tic_is_noticed(line):
    assert TIC.search(line)
    assert not TIC.search("N steps, the file next to it, besides: it is not a file, there is no other")
