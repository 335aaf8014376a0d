"""Treebanks for tests: our own in `tests/data`, which are always there, and larger ones beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

OURS = Path(__file__).resolve().parents[1] / "data"
OTHERS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def treebank(name: str) -> Path:
    """Return the file `ours/train.mrg`, or `gum/dev.mrg` of the others; where it is missing the test is skipped."""
    folder, _, file = name.partition("/")
    path = OURS / file if folder == "ours" else OTHERS / name
    if not path.is_file() and folder != "ours":
        pytest.skip(f"{name} is not among the treebanks in ../shared/data")
    return path
