"""What all tests share: where the treebanks are, and how Hypothesis runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import shape_checks

# Before the package is imported: every call is checked against the shapes in its annotations.
shape_checks.install()

# No deadlines: the machine may be busy. The same examples every time: a failure can be repeated.
settings.register_profile("sapwood", deadline=None, derandomize=True)
settings.load_profile("sapwood")


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Without checks of shapes: for tests that hand over wrong arrays on purpose."""
    with shape_checks.switched_off():
        yield


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that puts a made-up package with entry points on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, code: str, group: str, **entries: str) -> None:
        monkeypatch.delitem(sys.modules, package, raising=False)
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")

    return install
