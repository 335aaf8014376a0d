"""Numbers of options and settings: not finite, or with thousands of digits, is wrong usage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HUGE = "9" * 5000
LARGE = "9" * 400


@pytest.mark.parametrize("value", [HUGE, LARGE, f"-{LARGE}", "nan", "inf", "-inf", "1e999", "²", "0x10"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "trees.mrg", "-o", "x", "--states"],
        ["train", "trees.mrg", "-o", "x", "--seed"],
        ["train", "trees.mrg", "-o", "x", "--smoothing"],
        ["train", "trees.mrg", "-o", "x", "--ensemble"],
        ["train", "trees.mrg", "-o", "x", "--threads"],
        ["parse", "sentences.txt", "-m", "m", "--timeout"],
        ["parse", "sentences.txt", "-m", "m", "--threshold"],
        ["parse", "sentences.txt", "-m", "m", "--max-memory"],
        ["parse", "sentences.txt", "-m", "m", "--max-words"],
        ["inspect", "m", "--top"],
        ["inspect", "trees.mrg", "--tree"],
        ["eval", "trees.mrg", "-m", "m", "--resamples"],
        ["eval", "trees.mrg", "-m", "m", "--confidence"],
        ["lm", "count", "sentences.txt", "-o", "x", "--order"],
        ["lm", "count", "sentences.txt", "-o", "x", "--min-count"],
        ["search", "A < B", "trees.mrg", "--timeout"],
    ],
    ids=lambda arguments: " ".join((arguments[0], arguments[-1])),
)
def test_options(arguments: list[str], value: str, folder: Path, sapwood: Any) -> None:
    outcome = sapwood([*arguments, value])
    assert (outcome.code, outcome.out) == (2, "")
    assert not (folder / "x").exists()


@pytest.mark.parametrize("value", [HUGE, LARGE, f"-{LARGE}", "nan", "inf", "-inf", f"[{LARGE}]", f"0x{LARGE}"])
@pytest.mark.parametrize("name", ["states", "smoothing", "seed", "threads"])
def test_settings(name: str, value: str, folder: Path, sapwood: Any) -> None:
    (folder / "run.toml").write_text(f"{name} = {value}\n")
    outcome = sapwood(["train", "trees.mrg", "-o", "x", "--config", "run.toml"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "run.toml" in outcome.err
    outcome = sapwood(["train", "trees.mrg", "-o", "x", "--method", "em", "--set", f"{name}={value}"])
    assert (outcome.code, outcome.out) == (2, "")
    assert not (folder / "x").exists()


def test_one_run_per_output(folder: Path, sapwood: Any) -> None:
    from sapwood.storage.locks import claimed

    with claimed(folder / "x"):
        outcome = sapwood(["train", "trees.mrg", "-o", "x", "--method", "pcfg"])
        assert (outcome.code, outcome.out) == (3, "")
        assert outcome.err == "sapwood: x: another run is writing it; wait until it ends, or name another output\n"
        outcome = sapwood(["convert", "trees.mrg", "-o", "x"])
        assert (outcome.code, outcome.out) == (3, "")
    (folder / "d").mkdir()
    with claimed(folder / "d" / "manifest.jsonl"):
        outcome = sapwood(["parse", "sentences.txt", "-m", "m", "-o", "d/", "-q"])
        assert outcome.code == 3
        assert "another run is writing it" in outcome.err
    assert sapwood(["train", "trees.mrg", "-o", "x", "--method", "pcfg", "-q"]).code == 0
    assert not [path.name for path in folder.iterdir() if path.name.endswith(".lock")]
