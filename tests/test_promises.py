"""Promises of the page on security: each names a test, and the test exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "SECURITY.md").read_text(encoding="utf-8")


def promises(page: str) -> list[str]:
    """Return the promises: what memory and time a file can cost, what it cannot do, and the rows of the table."""
    can, _, cannot = page.partition("## What an untrusted file can do")[2].partition("## What it cannot do")
    items = re.split(r"\n- ", cannot.partition("\n\nA Dask cluster")[0])[1:]
    items += [item for item in re.split(r"\n- ", can) if item.startswith("It can cost memory and time")]
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Promise")]
    return items + rows


def missing(promise: str, tests: Path) -> list[str]:
    """Return what a promise names that does not exist, or a note that it names nothing."""
    paths = re.findall(r"`(?:tests/)([\w/]+(?:\.py)?)`", promise)
    names = re.findall(r"`(test_\w+)`", promise)
    if not paths and not names:
        return ["a test"]
    there = "".join(path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py"))
    return [path for path in paths if not (tests / path).exists()] + [
        name for name in names if not re.search(rf"^def {name}\(", there, re.MULTILINE)
    ]


def test_promises_have_tests() -> None:
    found = promises(PAGE)
    assert len(found) >= 30
    assert any("linearly" in promise for promise in found)
    for promise in found:
        assert missing(promise, TESTS) == [], promise


def test_missing_tests_are_found() -> None:
    assert missing("It cannot fly.", TESTS) == ["a test"]
    assert missing("It cannot fly (`tests/test_wings.py`, `test_feathers`).", TESTS) == [
        "test_wings.py",
        "test_feathers",
    ]
    assert missing("Nothing is missing (`tests/test_promises.py`, `test_promises_have_tests`).", TESTS) == []


def code_from_data(text: str) -> set[str]:
    """Return what a module uses that can turn data into code."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            found |= {name.partition(".")[0] for name in names} & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
            found.add(node.func.id)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.add("allow_pickle")
    return found


def test_nothing_is_unpickled_or_evaluated() -> None:
    """The only exception are data between the processes of a Dask cluster."""
    source = TESTS.parent / "src" / "sapwood"
    found = {
        path.relative_to(source).as_posix(): used
        for path in source.rglob("*.py")
        if (used := code_from_data(path.read_text(encoding="utf-8")))
    }
    assert found == {"runtime/dask/serialise.py": {"pickle"}}
    assert code_from_data("import pickle.x\neval(a)\nnp.load(p, allow_pickle=b)") == {"pickle", "eval", "allow_pickle"}


def test_nightly_runs_the_checked_kernels() -> None:
    nightly = (TESTS.parent / ".ci" / "nightly").read_text(encoding="utf-8")
    checked = (TESTS.parent / ".ci" / "checked").read_text(encoding="utf-8")
    assert "-DSAPWOOD_VARIANTS=checked" in nightly
    assert ".ci/checked -q -n 2 tests/grammar tests/inference" in nightly
    assert "SAPWOOD_KERNELS=checked" in checked
    assert "libasan.so" in checked


def test_durations_do_not_depend_on_the_time_of_day() -> None:
    """The clock may be set while a program runs; time limits and durations use those that never go back."""
    used = {}
    for path in (TESTS.parent / "src" / "sapwood").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            from_clock = isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")
            if from_clock or name in ("time.time", "time.time_ns") or name.endswith((".now", ".utcnow", ".today")):
                used[path.name] = ast.unparse(node)
    assert used == {}
