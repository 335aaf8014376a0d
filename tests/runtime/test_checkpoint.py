"""A run that is interrupted anywhere resumes from its checkpoint, and nothing else does."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.training_helpers import Interrupted
from sapwood.errors import ModelError, UsageError
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.storage.arrays import read_arrays, write_arrays
from sapwood.storage.schema import Column, Schema

SCHEMA = checkpoint_schema("walk-checkpoint", Column("place", "float64", "axes"), metadata={"step": int})
STEPS = 8


@dataclass(frozen=True, eq=False)
class Walk:
    """A random walk: a place and a number of steps."""

    place: np.ndarray
    step: int = 0

    def to_arrays(self) -> Content:
        return {"place": self.place}, {"step": self.step}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Walk:
        if len(arrays["place"]) != 3:
            raise ModelError("place: does not fit the text")
        return cls(arrays["place"], **metadata)


def checkpoint(path: Path | None, **key: Any) -> Checkpoint[Walk]:
    return Checkpoint(path, key, SCHEMA, data="text", to_arrays=Walk.to_arrays, from_arrays=Walk.from_arrays)


def walk(path: Path | None, *, stop: int = -1, fail: int = -1) -> Walk:
    """Take the remaining steps; interrupted after `stop` of all steps, or within the step after `fail`."""
    kept = checkpoint(path, run=1)
    state = kept.load() or Walk(np.zeros(3))
    with kept:
        while state.step < STEPS:
            if state.step == fail:
                raise Interrupted
            place = 0.9 * state.place + np.random.default_rng(state.step).normal(size=3)
            state = Walk(place, state.step + 1)
            kept.keep(state)
            if state.step == stop:
                raise Interrupted
    return state


@pytest.mark.parametrize("due", [True, False])
def test_a_run_interrupted_at_any_step_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, due: bool
) -> None:
    """Whether its states are written at once or when the run ends."""
    monkeypatch.setattr(Checkpoint, "is_due", due)
    whole = walk(None)
    for at in range(STEPS):
        for how in ("stop", "fail"):
            path = tmp_path / f"{how}-{at}"
            if how == "stop" and at == 0:
                continue
            with pytest.raises(Interrupted):
                walk(path, **{how: at})
            saved = checkpoint(path, run=1).load()
            assert (0 if saved is None else saved.step) == at
            again = walk(path)
            assert again.step == STEPS
            assert again.place.tobytes() == whole.place.tobytes()


def test_a_run_interrupted_at_all_steps(tmp_path: Path) -> None:
    path = tmp_path / "c"
    for at in range(1, STEPS):
        with pytest.raises(Interrupted):
            walk(path, stop=at)
    assert walk(path).place.tobytes() == walk(None).place.tobytes()


def test_a_finished_run_takes_no_more_steps(tmp_path: Path) -> None:
    path = tmp_path / "c"
    whole, content = walk(path), path.read_bytes()
    assert walk(path).place.tobytes() == whole.place.tobytes()
    assert path.read_bytes() == content


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = checkpoint(None, run=1)
    kept.save(Walk(np.zeros(3)))
    assert kept.load() is None
    assert not kept.is_due
    state = Walk(np.zeros(3))
    known = sys.getrefcount(state)
    kept.keep(state)
    assert sys.getrefcount(state) == known  # its arrays can be freed
    walk(None)
    assert not list(tmp_path.iterdir())


def test_states_in_between_are_not_written_before_they_are_due(tmp_path: Path) -> None:
    path = tmp_path / "c"
    kept = checkpoint(path, run=1)
    with kept:
        kept.keep(Walk(np.zeros(3), 1))
        assert not path.exists()
        kept.save(Walk(np.zeros(3), 2))
        assert path.exists()
    with kept:
        kept.keep(Walk(np.zeros(3), 3))
    saved = kept.load()
    assert saved is not None
    assert saved.step == 3


def test_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    walk(path)
    content = path.read_bytes()
    for key in ({"run": 2}, {}, {"run": 1, "more": 0}):
        with pytest.raises(UsageError, match="c: the checkpoint of a training run with other settings or text; give"):
            checkpoint(path, **key).load()
    assert path.read_bytes() == content


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    walk(path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    for content in (whole[:-9], whole[:40], b"", b"hello\n" * 50, bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"c: .*\(or remove this checkpoint to start over\)"):
            walk(path)
        assert path.read_bytes() == content


def test_content_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    walk(path)
    arrays, metadata = read_arrays(path, kind="walk-checkpoint", version=1)
    for other_arrays, other_metadata in (
        ({}, metadata),
        (arrays, {**metadata, "step": -1}),
        (arrays, {"key": metadata["key"]}),
        (arrays, {"step": 1}),
        (arrays, {**metadata, "more": 1}),
        ({"place": np.zeros(2)}, metadata),
    ):
        write_arrays(path, other_arrays, other_metadata, kind="walk-checkpoint", version=1)
        with pytest.raises(ModelError, match=r"c: not a complete checkpoint: .*remove"):
            walk(path)
    write_arrays(path, arrays, metadata, kind="other-checkpoint", version=1)
    with pytest.raises(ModelError, match="remove this checkpoint to start over"):
        walk(path)


def test_checkpoints_take_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    taken = 3.0

    def write(*_: Any) -> None:
        now[0] += taken

    monkeypatch.setattr(Schema, "write", write)
    kept = checkpoint(tmp_path / "c")
    written = []
    while now[0] < 1000:
        if kept.is_due:
            written.append(now[0])
            kept.save(Walk(np.zeros(3)))
        now[0] += 0.5
    assert written[0] <= 1.5
    assert len(written) * taken <= 0.02 * 1000 + taken
    assert len(written) >= 6
