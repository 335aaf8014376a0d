"""Layout of the package and of its tests: small packages, tests in mirrored folders, few shared class names."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "sapwood"
STATIC = SOURCE / "web" / "static"
NATIVE = TESTS.parent / "src" / "native"

MOST_ENTRIES = 15
MOST_SHARED_NAMES = 9


def folders(root: Path) -> list[Path]:
    """Return all folders below one, without those that programs write."""
    found = sorted(path for path in root.rglob("*") if path.is_dir())
    return [path for path in found if not any(part.startswith(("__", ".")) for part in path.relative_to(root).parts)]


def packages(source: Path) -> list[Path]:
    """Return the folders with modules in them."""
    return [folder for folder in folders(source) if (folder / "__init__.py").exists()]


def entries(folder: Path) -> list[str]:
    """Return the names of files and folders in a folder, without compiled ones."""
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__" and path.suffix != ".so")


def strays(tests: Path, source: Path) -> list[str]:
    """Return folders of tests that have the name of a package, and not its place."""
    paths = {folder.relative_to(source).as_posix() for folder in packages(source)}
    names = {path.rpartition("/")[2] for path in paths}
    below = [folder.relative_to(tests).as_posix() for folder in folders(tests)]
    return [path for path in below if path.rpartition("/")[2] in names and path not in paths]


def class_names(source: Path) -> Iterator[str]:
    """Yield the names of all classes, private ones too."""
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name


def lines_with(text: str, source: Path) -> list[str]:
    """Return the lines of modules that contain a text."""
    return [
        f"{path.relative_to(source)}:{number}: {line.strip()}"
        for path in sorted(source.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if text in line
    ]


@pytest.mark.parametrize("package", packages(SOURCE), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_packages_are_small(package: Path) -> None:
    assert len(entries(package)) <= MOST_ENTRIES, entries(package)


# Its packages are the layers of the import contract; packages of packages would make all names longer.
def test_the_top_has_packages_and_few_modules() -> None:
    modules = [name for name in entries(SOURCE) if not (SOURCE / name / "__init__.py").exists()]
    assert modules == ["__init__.py", "__main__.py", "_version.py", "client.py", "errors.py", "loading.py", "py.typed"]


@pytest.mark.parametrize("folder", [NATIVE, *folders(NATIVE)], ids=lambda path: path.relative_to(NATIVE).as_posix())
def test_folders_of_kernels_are_small(folder: Path) -> None:
    assert len(entries(folder)) <= MOST_ENTRIES, entries(folder)


@pytest.mark.parametrize("folder", [STATIC, *folders(STATIC)], ids=lambda path: path.name)
def test_folders_of_the_explorer_are_small(folder: Path) -> None:
    assert len(entries(folder)) <= MOST_ENTRIES, entries(folder)


def test_tests_are_in_the_folders_of_their_packages() -> None:
    assert not strays(TESTS, SOURCE)


def test_no_code_takes_the_first_grammar_for_the_model() -> None:
    assert not lines_with("grammars[0]", SOURCE), "use `ParserModel.grammar`, or the model itself"


def test_class_names_are_rarely_shared() -> None:
    shared = sorted(name for name, count in Counter(class_names(SOURCE)).items() if count > 1)
    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_the_checks_find_something(tmp_path: Path) -> None:
    source, tests = tmp_path / "source", tmp_path / "tests"
    for package in ("learn", "learn/spectral"):
        (source / package).mkdir(parents=True)
        (source / package / "__init__.py").touch()
    for folder in ("learn/spectral", "spectral", "data"):
        (tests / folder).mkdir(parents=True)
    assert strays(tests, source) == ["spectral"]
    (source / "learn" / "one.py").write_text("class A: pass\nx = model.grammars[0]\n", encoding="utf-8")
    (source / "learn" / "two.py").write_text("class A: pass\nclass _B: pass\n", encoding="utf-8")
    assert entries(source / "learn") == ["__init__.py", "one.py", "spectral", "two.py"]
    assert sorted(class_names(source)) == ["A", "A", "_B"]
    assert lines_with("grammars[0]", source) == ["learn/one.py:2: x = model.grammars[0]"]
