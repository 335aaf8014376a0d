"""What all tests share: checks of shapes, how Hypothesis runs, and how many processes there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from helpers import (
    effort,  # noqa: F401  (registers the profiles)
    shape_checks,
)

# Before the package is imported: every call is checked against the shapes in its annotations.
shape_checks.install()
settings.load_profile("default run")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run all tests in as many processes as there are cores, up to eight, and chosen ones in this process."""
    return 0 if config.option.file_or_dir else min(os.cpu_count() or 1, 8)


def pytest_xdist_setupnodes() -> None:
    """Keep each of several processes to one core: threads of matrix products would wait for each other."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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
