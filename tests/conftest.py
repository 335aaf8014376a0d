"""What all tests share: where the treebanks are, and how Hypothesis runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

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
