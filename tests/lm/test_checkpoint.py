"""Learning a language model goes on after an interruption, to the same bits, whatever the method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.effort import slow
from helpers.lm_texts import made_up_text
from helpers.training_helpers import Interrupted, Lines
from sapwood.errors import ModelError, UsageError
from sapwood.lm import train
from sapwood.lm.registry import METHODS
from sapwood.numerics.simplex import maximise
from sapwood.runtime.checkpoint import Checkpoint
from sapwood.storage.arrays import read_arrays, write_arrays

SMALL = {"states": 3, "iterations": 6}
PIVOT = {**SMALL, "anchor_count": 3}
# Methods with their settings, and whether there is held-out text.
RUNS: list[Any] = [
    ("em", SMALL, True),
    ("em", {**SMALL, "stepwise_batches": 2}, True),
    ("em", SMALL, False),
    ("em", {"states": 1, "iterations": 50}, False),  # ends because nothing changes any more
    ("pivot", PIVOT, True),
    ("pivot", {**PIVOT, "prior": 0}, False),
    ("pivot+em", PIVOT, True),
    slow("pivot+em", {**PIVOT, "prior": 0, "stepwise_batches": 3}, False),
    ("mixed-order", {**SMALL, "lags": 2, "iterations": 3}, True),
    slow("mixed-order", {**SMALL, "lags": 2}, False),
    ("mix", {**PIVOT, "lags": 2, "iterations": 3, "order": 2}, True),
    ("kn", {"order": 2}, True),
    ("mkn", {"order": 2}, False),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with two texts; checkpoints are written whenever they can be."""
    (tmp_path / "train.txt").write_text(made_up_text(40, 0))
    (tmp_path / "dev.txt").write_text(made_up_text(15, 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Checkpoint, "is_due", True)
    return tmp_path


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that pulls the plug behind the n-th checkpoint from now on, -1 for never."""
    honest, plan = Checkpoint.save, {"at": -1, "saved": 0}

    def save(self: Checkpoint, *content: Any) -> None:
        honest(self, *content)
        plan["saved"] += self.path is not None
        if plan["saved"] == plan["at"]:
            raise Interrupted

    monkeypatch.setattr(Checkpoint, "save", save)
    return lambda at: plan.update(at=at, saved=0)


def test_all_methods_are_tried() -> None:
    assert {run.values[0] if hasattr(run, "values") else run[0] for run in RUNS} == set(METHODS)


@pytest.mark.parametrize(("method", "settings", "has_dev"), RUNS)
def test_cut_off_behind_every_checkpoint(
    folder: Path, cut_at: Callable[[int], None], method: Any, settings: dict[str, Any], has_dev: bool
) -> None:
    same = {"method": method, "dev": "dev.txt" if has_dev else None, **settings}
    whole = Lines()
    train("train.txt", log=whole, **same).save("whole")
    checkpoints = 0
    while True:
        Path("c").unlink(missing_ok=True)
        begun, rest = Lines(), Lines()
        cut_at(checkpoints + 1)
        try:
            train("train.txt", log=begun, checkpoint="c", **same)
        except Interrupted:
            checkpoints += 1
        else:
            break
        cut_at(-1)
        train("train.txt", log=rest, checkpoint="c", **same).save("m")
        assert Path("m").read_bytes() == Path("whole").read_bytes(), checkpoints
        assert begun.lines + rest.lines == whole.lines
    # There is one after each iteration, but for the last of all lags together, if it made nothing better.
    done = [line for line in whole.lines if line["event"] == "iteration" or line.get("phase") == "mixed"]
    assert len(done) - 1 <= checkpoints <= len(done)
    assert (checkpoints == 0) == (method in ("kn", "mkn"))
    assert folder.is_dir()


def test_another_run_is_refused(folder: Path, cut_at: Callable[[int], None]) -> None:
    same: dict[str, Any] = {"method": "em", "dev": "dev.txt", "checkpoint": "c", **SMALL}
    cut_at(2)
    with pytest.raises(Interrupted):
        train("train.txt", **same)
    before = Path("c").read_bytes()
    (folder / "other.txt").write_text(made_up_text(40, 2))
    for other in (
        {"texts": "other.txt"}, {"dev": "other.txt"}, {"dev": None}, {"states": 4}, {"prior": 2}, {"random_state": 1},
        {"min_count": 1}, {"boundaries": "stream"}, {"method": "mixed-order"},
    ):  # fmt: skip
        with pytest.raises(UsageError, match="c: the checkpoint of a training run with other settings or text; give"):
            train(**{"texts": "train.txt", **same, **other})
    assert Path("c").read_bytes() == before
    # How many threads there are makes no difference, nor does what files are called.
    (folder / "train.txt").rename("copy.txt")
    train("copy.txt", **same, threads=2)


@pytest.mark.parametrize(("method", "settings"), [("em", SMALL), ("mix", {**PIVOT, "lags": 2})])
def test_a_damaged_checkpoint(
    folder: Path, cut_at: Callable[[int], None], method: Any, settings: dict[str, Any]
) -> None:
    same: dict[str, Any] = {"method": method, "dev": "dev.txt", "checkpoint": "c", **settings}
    cut_at(12 if method == "mix" else 4)
    with pytest.raises(Interrupted):
        train("train.txt", **same)
    whole = Path("c").read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    for content in (whole[:-20], whole[:100], b"", b"hello\n" * 50, bytes(flipped)):
        Path("c").write_bytes(content)
        with pytest.raises(ModelError, match=r"^c: .*remove this checkpoint to start over"):
            train("train.txt", **same)
    # Whole, but with something left out or of another shape.
    Path("c").write_bytes(whole)
    arrays, metadata = read_arrays("c", kind="lm-checkpoint", version=1)
    for name in arrays:
        for other in (None, arrays[name][:-1]):
            if other is not None and name.endswith(("words", "counts", "objectives")):
                continue
            changed = {**arrays, name: other} if other is not None else {k: v for k, v in arrays.items() if k != name}
            if other is None and name.split("/")[-1].startswith("best."):
                continue  # the present parameters may be the best
            write_arrays("c", changed, metadata, kind="lm-checkpoint", version=1)
            with pytest.raises(ModelError, match=r"^c: not a complete checkpoint: .*; remove it to start over"):
                train("train.txt", **same)
    for name in ("parts", "log"):
        write_arrays("c", arrays, {k: v for k, v in metadata.items() if k != name}, kind="lm-checkpoint", version=1)
        with pytest.raises(ModelError, match="c: not a complete checkpoint"):
            train("train.txt", **same)
    assert folder.is_dir()


def test_concave_problems_go_on() -> None:
    rng = np.random.default_rng(0)
    likely, shares = rng.random((30, 4)), rng.dirichlet(np.ones(30))

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
        explained = likely @ weights
        return float(shares @ np.log(explained)), (shares / explained) @ likely

    seen: list[Any] = []
    how: dict[str, Any] = {"iterations": 60, "tolerance": 1e-6}
    whole = maximise(evaluate, np.full(4, 0.25), note=seen.append, **how)
    assert whole.converged
    assert len(seen) == len(whole.objectives) - 1 > 5
    for number in range(len(seen)):
        again: list[Any] = []
        maximise(evaluate, np.full(4, 0.25), note=again.append, **{**how, "iterations": number + 1})
        rest = maximise(evaluate, again[-1], **how)
        assert rest.objectives == whole.objectives
        assert (rest.weights == whole.weights).all()
