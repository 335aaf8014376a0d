"""The mutation tester: which faults there are, what is left alone, and how results are counted."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from mutants import Mutant, draw_mutants, find_mutants
from mutation import PACKAGES, REPOSITORY, covering, report, run

SOURCE = '''"""Docstring 1."""

import os
from typing import Literal

__all__ = ["f", 2]
Kind = Literal[1, 2]
LIMIT = 5


def f(x: int = 3, *, y: tuple[1, 2] = ()) -> "Array[4]":
    """Docstring 2."""
    assert x != 6
    if x < 7:
        raise ValueError(f"{x + 8} is below {7}")
    total = x * g(y, "é", z=9)
    self.progress.step(10)
    total -= 11
    return total


class C:
    size: int = 12

    def __repr__(self):
        return str(13)
'''


def test_every_kind_of_fault():
    found = [(mutant.operator, mutant.begin[0], mutant.text) for mutant in find_mutants("a.py", SOURCE)]
    assert found == [
        ("drop", 8, "pass"),
        ("constant", 8, "6"),
        ("constant", 8, "4"),
        ("constant", 11, "4"),
        ("constant", 11, "2"),
        ("negate", 14, "(not (x < 7))"),
        ("compare", 14, "x <= 7"),
        ("compare", 14, "x > 7"),
        ("constant", 14, "8"),
        ("constant", 14, "6"),
        ("drop", 16, "pass"),
        ("arithmetic", 16, "x / g(y, 'é', z=9)"),
        ("argument", 16, "g(y, 'é')"),
        ("argument", 16, "g(y, z=9)"),
        ("constant", 16, "10"),
        ("constant", 16, "8"),
        ("arithmetic", 18, "total += 11"),
        ("drop", 18, "pass"),
        ("constant", 18, "12"),
        ("constant", 18, "10"),
        ("drop", 19, "pass"),
        ("constant", 23, "13"),
        ("constant", 23, "11"),
    ]


def test_faults_are_put_into_the_text():
    """Behind a letter of two bytes, too; and nothing else changes."""
    found = {mutant.text: mutant for mutant in find_mutants("a.py", SOURCE) if mutant.begin[0] == 16}
    assert found["10"].diff(SOURCE) == '-    total = x * g(y, "é", z=9)\n+    total = x * g(y, "é", z=10)'
    assert found["10"].apply(SOURCE) == SOURCE.replace("z=9", "z=10")


def test_which_lines_must_run():
    lines = {(mutant.begin[0], mutant.lines) for mutant in find_mutants("a.py", SOURCE)}
    whole = (1, len(SOURCE.splitlines()))
    assert lines == {
        (8, whole),
        (11, (12, 19)),
        (14, (14, 14)),
        (16, (16, 16)),
        (18, (18, 18)),
        (19, (19, 19)),
        (23, whole),
    }


def test_drawn_mutants_of_all_packages():
    drawn = draw_mutants(REPOSITORY, PACKAGES, 120, seed=5)
    assert drawn == draw_mutants(REPOSITORY, PACKAGES, 120, seed=5) != draw_mutants(REPOSITORY, PACKAGES, 120, seed=6)
    assert len({mutant.name for mutant in drawn}) == 120
    assert set(Counter(mutant.operator for mutant in drawn).values()) == {20}
    sources = {path: (REPOSITORY / path).read_text() for path in {mutant.path for mutant in drawn}}
    trees = {path: ast.dump(ast.parse(source)) for path, source in sources.items()}
    for mutant in drawn:
        assert ast.dump(ast.parse(mutant.apply(sources[mutant.path]))) != trees[mutant.path]


def test_tests_that_run_a_mutants_lines():
    """Those of the package, of the module, then the quickest; of what is done at import, all in the same files."""
    known = {
        "tests": ["tests/cli/a.py::a", "tests/lm/a.py::b", "tests/lm/a.py::c", "tests/cli/a.py::d", "tests/lm/a.py::e"],
        "seconds": [0.5, 3.0, 2.0, 0.1, 9.0],
        "lines": {"src/sapwood/lm/x.py": {"3": [0, 1], "4": [2], "5": [0, 3]}},
    }

    def found(*lines: int) -> str:
        mutant = Mutant("src/sapwood/lm/x.py", "drop", (3, 0), (3, 1), "pass", lines)
        return "".join(name[-1] for name, _ in covering(mutant, known))

    assert [found(3, 3), found(3, 5), found(5, 9), found(6, 7)] == ["ba", "cbda", "da", ""]
    assert found(1, 4) == "cbeda"
    known["tests"] = [name.replace("lm/a.py::b", "lm/test_x.py::b") for name in known["tests"]]
    assert found(3, 5) == "bcda"


@pytest.mark.slow
def test_a_fault_is_there_for_one_run_only(tmp_path):
    """What was compiled before does not hide it, and it is not kept; with checks of shapes and without."""
    package, tests = tmp_path / "tree" / "src" / "sapwood", tmp_path / "tree" / "tests"
    package.mkdir(parents=True)
    (tests / "helpers").mkdir(parents=True)
    (tests / "helpers" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    checks = (REPOSITORY / "tests" / "helpers" / "shape_checks.py").read_text()
    (tests / "helpers" / "shape_checks.py").write_text(checks)
    (tests / "conftest.py").write_text("from helpers import shape_checks\n\nshape_checks.install()\n")
    for module in ("open", "_hidden"):
        (package / f"{module}.py").write_text("ANSWER = 42\n")
        (tests / f"test{module}.py").write_text(
            f"from sapwood.{module} import ANSWER\n\n\ndef test_it():\n    assert ANSWER == 42\n"
        )

    def failing(module: str, answer: int) -> str:
        names = ["tests/testopen.py", "tests/test_hidden.py"]
        return run(tmp_path / "tree", f"src/sapwood/{module}.py", f"ANSWER = {answer}\n", names, 1.0)

    faults = [("open", 42), ("open", 41), ("_hidden", 41), ("open", 42)]
    assert [failing(*fault) for fault in faults] == [
        "",
        "tests/testopen.py::test_it",
        "tests/test_hidden.py::test_it",
        "",
    ]


def test_what_survives_is_counted_and_printed(capsys):
    about = {"path": "a.py", "line": 3, "operator": "drop", "diff": "-x\n+pass"}
    report(
        {
            str(n): {**about, "what": what}
            for n, what in enumerate(["killed"] * 7 + ["survived", "uncovered", "undecided"])
        }
    )
    printed = capsys.readouterr().out
    assert printed.count("a.py:3") == 2
    assert "a.py:3 survived (drop)\n-x\n+pass\n" in printed
    assert "2 of 9 that were decided survive: 22.2%" in printed
