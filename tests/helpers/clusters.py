"""What tests of clusters share: trees and texts, small shards, commands that send everything."""

from __future__ import annotations

import gzip
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sapwood
from sapwood.inference.estep import _backends as _places
from sapwood.inference.estep import base as observations
from sapwood.lm.counts import remote as count_shards
from sapwood.runtime.dask import executor as module
from sapwood.trees.formats.registry import read_trees

DATA = Path(__file__).parents[1] / "data"
TREES = list(itertools.islice(read_trees(DATA / "train.mrg"), 60))
DEV = list(itertools.islice(read_trees(DATA / "dev.mrg"), 10))
# The commands as they are, but for work that would not be worth sending, and with checkpoints as often as can be.
_EAGER = (
    "import sapwood.runtime.dask.executor as c, sapwood.runtime.checkpoint as k; "
    "c._WORTH_CALLING, k._PAUSE, k._SHARE = 0, 0, 1e9; "
    "from sapwood.cli.main import run; run()"
)
COMMAND = [sys.executable, "-c", _EAGER]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make several shards of little data."""
    monkeypatch.setattr(observations, "_SHARD_NODES", 600)
    monkeypatch.setattr(_places, "_PART", 300)
    monkeypatch.setattr(module, "_WORTH_CALLING", 0.0)
    monkeypatch.setattr(count_shards.cut_shards, "__defaults__", (2000,))


def saved(model: sapwood.ParserModel, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


def texts(folder: Path) -> tuple[Path, Path]:
    for name, trees in (("train.txt", TREES), ("dev.txt", DEV)):
        (folder / name).write_text("".join(" ".join(tree.words()) + "\n" for tree in trees), encoding="utf-8")
    return folder / "train.txt", folder / "dev.txt"


def written(folder: Path, number: int, lines: int = 3) -> list[Path]:
    """Write a crawl."""
    sentences: Iterator[str] = itertools.cycle(" ".join(tree.words()) + "\n" for tree in DEV if len(tree.words()) < 12)
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{file:03d}.txt.gz" for file in range(number)]
    for path in paths:
        path.write_bytes(gzip.compress("".join(itertools.islice(sentences, lines)).encode(), mtime=0))
    return paths


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
