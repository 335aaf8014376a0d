"""What all tests share: where the treebanks are, and how Hypothesis runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import shape_checks

# Before the package is imported: every call is checked against the shapes in its annotations.
shape_checks.install()

# No deadlines: the machine may be busy. The same examples every time: a failure can be repeated.
settings.register_profile("sapwood", deadline=None, derandomize=True)
settings.load_profile("sapwood")

TREEBANKS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


@pytest.fixture(scope="session")
def treebanks() -> Path:
    """The folder of treebanks beside the repository; the test is skipped where there is none."""
    if not TREEBANKS.is_dir():
        pytest.skip("the treebanks in ../shared/data are not here")
    return TREEBANKS


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Without checks of shapes: for tests that hand over wrong arrays on purpose."""
    with shape_checks.switched_off():
        yield
