"""`sapwood lm train --resume`: what is left by an interruption, and what is made of it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sapwood
from helpers.lm_texts import made_up_text
from sapwood.runtime.checkpoint import Checkpoint
from sapwood.runtime.log import read_log

MIX = ("--states", 3, "--iterations", 4, "--anchor-count", 5, "--lags", 2, "--order", 2)
HINT = "m.checkpoint holds the progress so far, and the same command with --resume continues from there"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with two texts; checkpoints are written whenever they can be."""
    (tmp_path / "train.txt").write_text(made_up_text(60, 0))
    (tmp_path / "dev.txt").write_text(made_up_text(20, 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Checkpoint, "is_due", True)
    return tmp_path


def train(sapwood: Sapwood, *arguments: object, code: int = 0) -> str:
    outcome = sapwood(["lm", "train", "train.txt", "--dev", "dev.txt", "-q", *arguments])
    assert outcome.code == code, outcome.err
    return outcome.err if code else outcome.out


def interrupted(sapwood: Sapwood, monkeypatch: pytest.MonkeyPatch, at: int, *arguments: object) -> None:
    """Train, and be interrupted in the middle of writing a checkpoint."""
    honest, saved = Checkpoint.save, [0]

    def save(self: Checkpoint, *content: Any) -> None:
        saved[0] += 1
        if saved[0] == at:
            raise KeyboardInterrupt
        honest(self, *content)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        assert train(sapwood, *arguments, code=130) == f"sapwood: interrupted; {HINT}\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("train.txt", "dev.txt"))


def without_times(path: str) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_log(path)]


@pytest.mark.parametrize("at", [2, 9, 12])
def test_resuming(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    whole = train(sapwood, *MIX, "--log", "whole.log", "-o", "whole")
    interrupted(sapwood, monkeypatch, at, *MIX, "--log", "log", "-o", "m")
    assert names(folder) == ["log", "m.checkpoint", "whole", "whole.log"]
    assert "m.checkpoint: training was interrupted; continue with --resume" in train(sapwood, *MIX, "-o", "m", code=2)
    (folder / "other.txt").write_text("the dog sleeps\n")
    for other in (("--states", 2), ("--seed", 1), ("--dev", "other.txt"), ("other.txt",)):
        assert "other settings or text" in train(sapwood, *MIX, *other, "--resume", "-o", "m", code=2)
    (folder / "other.txt").unlink()
    (folder / ".m.checkpoint.torntorn.part").write_bytes(b"of a writing that was killed")
    assert train(sapwood, *MIX, "--log", "log", "--resume", "-o", "m") == whole
    assert (folder / "m").read_bytes() == (folder / "whole").read_bytes()
    assert without_times("log") == without_times("whole.log")
    assert names(folder) == ["log", "m", "whole", "whole.log"]


def test_nothing_to_resume(sapwood: Sapwood, folder: Path) -> None:
    for method in ("em", "mkn"):
        log = ("--log", "log") if method == "em" else ()
        states = ("--states", 2) if method == "em" else ()
        for output, more in (("a", ()), ("b", ("--resume", "--save-config", "run.toml"))):
            train(sapwood, "--method", method, *states, *log, *more, "-o", output)
        assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    assert [line["event"] for line in read_log("log")].count("start") == 1
    assert "resume" not in tomllib.loads((folder / "run.toml").read_text())
    # What has no iterations leaves a checkpoint alone, and takes it away at the end.
    (folder / "a.checkpoint").write_bytes(b"something")
    assert "training was interrupted" in train(sapwood, "--method", "mkn", "-o", "a", code=2)
    train(sapwood, "--method", "mkn", "--resume", "-o", "a")
    assert names(folder) == ["a", "b", "log", "run.toml"]


def test_damage(sapwood: Sapwood, folder: Path) -> None:
    (folder / "m.checkpoint").write_bytes(b"something")
    for log in ((), ("--log", "log")):
        message = train(sapwood, "--method", "em", "--resume", *log, "-o", "m", code=4)
        assert "m.checkpoint: not a sapwood file" in message
        assert "remove this checkpoint to start over" in message
    assert "log m.checkpoint: is also the file of the model" in train(
        sapwood, "--method", "em", "--log", "m.checkpoint", "-o", "m", code=2
    )


def test_a_device_has_no_neighbours(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "em", "--states", 2, "-o", "/dev/null")
    assert names(folder) == []
