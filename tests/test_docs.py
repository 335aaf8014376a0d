"""Every example runs: the blocks of the README and of docs/, and the docstrings of the package.

In a Markdown file a fenced block is, by the first word behind its fence,

    python    a doctest; the blocks of a file share their names
    console   lines that begin with `$ ` are run by the shell, and what follows each of them is what it prints on
              standard output and error; `...` stands for anything, as in doctest
    text      is not run; with `file="name"` behind the word it is the content of that file
    shell     is not run: it needs other people's data or a network. Its commands must exist all the same
    {...}     is for the site alone: a list of pages, and the like

The blocks of a file run in their order, in a directory that begins empty.
"""

from __future__ import annotations

import difflib
import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import click
import pytest

import oracles
import sapwood
from helpers.effort import slow
from sapwood.cli.main import main
from sapwood.errors import SapwoodError
from sapwood.learn.spectral import features

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
OPTIONS = doctest.ELLIPSIS
# On a machine that is busy or new, this remark may come at any time.
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


class Block(NamedTuple):
    """A fenced block: the first word behind its fence, the file it is the content of, its text, its first line."""

    kind: str
    file: str
    text: str
    line: int


class Command(NamedTuple):
    """A command of a console block, what it should print, and the line it stands on."""

    text: str
    expected: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
            continue
        assert line == "```", f"{page.name}:{number}: a block opens within the one of line {opened}"
        kind, _, rest = lines[opened - 1][3:].partition(" ")
        named = re.fullmatch(r'file="([\w.-]+)"', rest)
        known = kind in ("python", "console", "text", "shell") or re.fullmatch(r"\{[\w-]+\}", kind)
        assert known, f"{page.name}:{opened}: what is a {kind!r} block?"
        assert named or not rest, f"{page.name}:{opened}: what is {rest!r}?"
        text = "".join(f"{line}\n" for line in lines[opened : number - 1])
        yield Block(kind, named[1] if named else "", text, opened + 1)
        opened = None
    assert opened is None, f"{page.name}:{opened}: the block is never closed"


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(line[2:], "", number))
        else:
            assert found, f"line {number}: output before the first command"
            found[-1] = found[-1]._replace(expected=f"{found[-1].expected}{line}\n")
    return found


def run_python(block: Block, names: dict[str, object], page: str) -> None:
    """Run the block as a doctest; the names it defines are there for the next one."""
    test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line - 1)
    assert test.examples, f"{page}:{block.line}: a python block without >>> is not run"
    run_doctest(test, names)


def run_doctest(test: doctest.DocTest, names: dict[str, object] | None = None) -> None:
    """Run a doctest and fail with its report, which names file and line."""
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    if names is not None:
        names.update(test.globs)
    if report:
        pytest.fail("".join(report), pytrace=False)


def run_command(command: Command, folder: Path, page: str) -> None:
    """Run one command of a console block and compare what it prints."""
    function = f'sapwood() {{ {shlex.quote(sys.executable)} -m sapwood "$@"; }}\n'
    outcome = subprocess.run(
        ["sh", "-c", function + command.text],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    got = outcome.stdout.rstrip("\n") + "\n"
    wanted = command.expected.rstrip("\n") + "\n"
    if not doctest.OutputChecker().check_output(wanted, got, OPTIONS):
        difference = difflib.ndiff(wanted.splitlines(), got.splitlines())
        pytest.fail(f"{page}:{command.line}: $ {command.text}\n" + "\n".join(difference), pytrace=False)


@pytest.mark.parametrize(
    "page",
    [page if page.name == "README.md" else slow(page) for page in PAGES],
    ids=lambda page: page.name,
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := without(page.name):
        pytest.skip(f"{missing} is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks_of(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            run_python(block, names, page.name)
        elif block.kind == "console":
            for command in commands_of(block):
                run_command(command, tmp_path, page.name)


def called(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of sapwood in a line of shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    call: list[str] | None = None
    for word in [*words, ";"]:
        if not word.strip("|&;<>()"):
            if call is not None:
                yield call
            call = None
        elif call is not None:
            call.append(word)
        elif word == "sapwood":
            call = []


@every_page
def test_commands_and_options_exist(page: Path) -> None:
    for block in blocks_of(page):
        if block.kind == "console":
            lines = [(command.text, command.line) for command in commands_of(block)]
        elif block.kind == "shell":
            lines = [(line, number) for number, line in enumerate(block.text.splitlines(), block.line)]
        else:
            continue
        for line, number in lines:
            for arguments in called(line):
                if "_COMPLETE=" in line:  # a call without arguments, for tab completion
                    continue
                check_call(arguments, f"{page.name}:{number}")


def check_call(arguments: list[str], place: str) -> None:
    """Check a call against the command's own list of options."""
    context = click.Context(main)
    if arguments and arguments[0].startswith("-"):
        known = {option for parameter in main.get_params(context) for option in parameter.opts}
        assert arguments[0] in known, f"{place}: sapwood has no option {arguments[0]}"
        return
    command: click.Command | None = main
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        command = command.get_command(context, rest.pop(0))
    name = " ".join(arguments[: len(arguments) - len(rest)])
    assert command not in (None, main), f"{place}: sapwood has no command {name!r}"
    assert command is not None
    known = {
        option
        for parameter in command.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    }
    for argument in (argument.partition("=")[0] for argument in rest):
        if argument.startswith("-") and argument != "-":
            assert argument in known, f"{place}: sapwood {name} has no option {argument}"


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: the link to {target} leads nowhere"


def test_the_pages_list_all_exit_codes() -> None:
    classes = [SapwoodError]
    for kind in classes:
        classes += kind.__subclasses__()
    from sapwood.cli import main as module

    codes = {0, module._BUG, module._INTERRUPTED, *(kind.exit_code for kind in classes)}
    page = (REPOSITORY / "docs" / "howto-engineer.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert {int(code) for code in listed} == codes


def modules() -> list[str]:
    """Return the names of all modules of the package but the compiled ones."""
    found = [
        *pkgutil.walk_packages(sapwood.__path__, "sapwood."),
        *pkgutil.walk_packages(oracles.__path__, "oracles."),
    ]
    names = ["sapwood", *(item.name for item in found if not item.name.endswith(("_kernels", "_bits", "__main__")))]
    return [name for name in names if not without(name)]


def without(name: str) -> str:
    """Return the package that a module or a page is about, if it is not installed."""
    package = name.rpartition(".")[2] if name.startswith("sapwood.interop.") else name.removesuffix(".md")
    return package if package in ("nltk", "spacy") and find_spec(package) is None else ""


def examples_of(module: ModuleType) -> list[doctest.DocTest]:
    """Return the docstrings of a module that have examples."""
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tests = examples_of(importlib.import_module(name))
    registries = features.INSIDE, features.OUTSIDE
    before = [dict(registry) for registry in registries]
    try:
        for test in tests:
            run_doctest(test)
    finally:  # examples register features, which other tests must not see
        for registry, included in zip(registries, before, strict=True):
            registry.clear()
            registry.update(included)


def test_there_are_docstrings_to_test() -> None:
    assert sum(len(examples_of(importlib.import_module(name))) for name in modules()) > 5


class TestTheRunner:
    """What finds mistakes must itself be found out when it stops finding them."""

    def write(self, folder: Path, text: str) -> Path:
        page = folder / "page.md"
        page.write_text(text, encoding="utf-8")
        return page

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("one\n\n```python\n>>> 1 + 1\n2\n\n>>> 1 + 1\n3\n```\n", 'File "page.md", line 7'),
            ("```python\n1 + 1\n```\n", "page.md:2: a python block without >>>"),
            ("```console\n$ echo yes\nyes\n$ echo yes\nno\n```\n", "page.md:4: $ echo yes"),
            ("```console\n$ echo a; echo b; echo c\na\n...\nd\n```\n", "page.md:2: "),
        ],
    )
    def test_failures_name_their_place(
        self, text: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = self.write(tmp_path, text)
        with pytest.raises((AssertionError, pytest.fail.Exception), match=re.escape(place)):
            test_blocks_run(page, tmp_path, monkeypatch)

    def test_blocks_share_names_and_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = '```text file="a.txt"\nx\ny\n```\n\n```console\n$ cat a.txt; cat none.txt\nx\n...none.txt...\n```\n'
        text += "```python\n>>> size = Path('a.txt').stat().st_size\n```\n```python\n>>> size\n4\n```\n"
        text = text.replace(">>> size =", ">>> from pathlib import Path\n>>> size =")
        test_blocks_run(self.write(tmp_path, text), tmp_path, monkeypatch)

    @pytest.mark.parametrize(
        "line",
        [
            "sapwood pars",
            "sapwood parse --modell x",
            "cat x | sapwood eval --tags",
            "sapwood lm trai",
            "sapwood lm eval -x",
        ],
    )
    def test_unknown_commands_and_options_are_found(self, line: str, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match=r"page\.md:2: sapwood"):
            test_commands_and_options_exist(self.write(tmp_path, f"```shell\n{line}\n```\n"))


def test_the_picture_in_the_gallery_is_what_the_command_draws(tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "gallery.md"
    (command,) = (
        command
        for block in blocks_of(page)
        if block.kind == "console"
        for command in commands_of(block)
        if "svg" in command.text
    )
    run_command(command, tmp_path, page.name)
    drawn = (tmp_path / "telescope.svg").read_text(encoding="utf-8")
    assert drawn == (page.parent / "pictures" / "gallery-telescope.svg").read_text(encoding="utf-8")
