"""Names in the pages of the documentation: modules, classes, functions and files that they mention exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sapwood

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "sapwood"
PAGES = [REPOSITORY / name for name in ("CONTRIBUTING.md", "README.md", "SECURITY.md")]
PAGES += sorted((REPOSITORY / "docs").glob("*.md"))

PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
TOP = {"src", "tests", "docs", "benchmarks", "tools"}
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
FILE = re.compile(r"[\w.-]+(/[\w.-]+)*/|[\w.-]+(/[\w.-]+)+")
CLASS = re.compile(r"[A-Z]+[a-z]\w*[A-Z]\w*")
# Names of other programs, and of variables in examples.
OTHERS = {"DocBin", "GridSearchCV", "WriteGrammarToTextFile", "grammar.info", "model.onnx", "model.safetensors"}
ENTRY_POINTS = {
    f"sapwood.{group}"
    for group in (
        "decoders",
        "features",
        "formats",
        "learners",
        "models",
        "span_scorers",
        "tokenisers",
    )
}
ENDINGS = (".py", ".md", ".mrg", ".txt")


def classes() -> set[str]:
    """Return the names of all classes and functions, and of all type aliases."""
    found = set()
    for path in (*SOURCE.rglob("*.py"), *(REPOSITORY / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


DEFINED = classes()


def has_name(reference: str) -> bool:
    """True if a dotted name leads to a module, or to an attribute or a field of something in one."""
    parts = reference.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part) and part not in getattr(value, "__annotations__", {}):
                return False
            value = getattr(value, part, None)
        return True
    return False


def has_file(name: str) -> bool:
    """True if a path of the repository, or of the package, exists; a name without ending may be that of a module."""
    places = [REPOSITORY / name, SOURCE / name]
    return any(place.exists() or place.with_suffix(".py").exists() for place in places)


def stale(text: str) -> Iterator[str]:
    """Yield the names in backticks that lead nowhere."""
    for code in CODE.findall(FENCE.sub("", text)):
        first = re.split(r"[./]", code)[0]
        if code in OTHERS | ENTRY_POINTS:
            continue
        if DOTTED.fullmatch(code) and not code.endswith(ENDINGS):
            if first == "sapwood":
                if not has_name(code):
                    yield code
            elif first in PACKAGES or first in sapwood.__all__:
                if not has_name(f"sapwood.{code}"):
                    yield code
            elif CLASS.fullmatch(first) and first not in DEFINED:
                yield code
        elif FILE.fullmatch(code):
            if first in TOP | PACKAGES and not has_file(code.partition("::")[0]):
                yield code
        elif CLASS.fullmatch(code) and code not in DEFINED:
            yield code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page: Path) -> None:
    assert not sorted(set(stale(page.read_text(encoding="utf-8"))))


def test_the_architecture_has_a_row_for_every_package() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE)
    assert {row.rstrip("/") for row in rows if "/" not in row.rstrip("/")} == PACKAGES | {"loading", "client", "errors"}


def test_stale_names_are_found() -> None:
    good = (
        "`TensorGrammar`, `sapwood.learn.EM`, `learn.lpcfg.em.EM.fit`, `learn/lpcfg/em.py`, `learn/`, `tests/helpers`"
    )
    assert not list(stale(good))
    bad = "`TensorGrammars`, `sapwood.learn.EMM`, `learn.teaching`, `learn/teaching.py`, `tests/teaching`, `src/x.py`"
    assert len(list(stale(bad))) == bad.count(",") + 1
