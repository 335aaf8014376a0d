"""Options by their former names, which still mean the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from sapwood import EM
from sapwood.cli.options import aliases
from sapwood.cli.options.params import settings_of
from sapwood.induction.learners import INDUCERS
from sapwood.learn.registry import LEARNERS
from sapwood.model import ParserModel


def test_former_names_of_settings() -> None:
    known = {name.replace("_", "-") for name in settings_of(LEARNERS)}
    assert set(aliases.LEARNERS.options.values()) <= known
    assert not set(aliases.LEARNERS.options) & known
    assert EM(unaries="steps") == EM()
    known = {name.replace("_", "-") for name in settings_of(INDUCERS)}
    assert set(aliases.INDUCE.options.values()) <= known
    assert not set(aliases.INDUCE.options) & known


@pytest.mark.parametrize(
    "former",
    ["--settle 2 --support 3 --unaries steps", "--set settle=2 --set support=3", "--config run.toml"],
)
def test_they_train_the_same_model(sapwood: Sapwood, folder: Path, former: str) -> None:
    (folder / "run.toml").write_text('settle = 2\nsupport = 3\nunaries = "steps"\n')
    quick = ["train", "trees.mrg", "--method", "split-merge", "--cycles", 1, "--iterations", 2, "-q"]
    for name, options in (("now", "--smoothing-iterations 2 --min-support 3"), ("then", former)):
        assert sapwood([*quick, *options.split(), "-o", name]).code == 0
    assert Path("now").read_bytes() == Path("then").read_bytes()
    settings = ParserModel.load("then").grammar.info["settings"]
    assert (settings["smoothing_iterations"], settings["min_support"], settings["unaries"]) == (2, 3, "explicit")


def test_former_names_of_other_commands(sapwood: Sapwood, folder: Path) -> None:
    for name, options in (("now", "--model tensor-pcfg --warmup 1"), ("then", "--model l-pcfg --hold 1")):
        quick = ["induce", "trees.mrg", "--tags", "--states", 2, "--iterations", 2, "-q"]
        assert sapwood([*quick, *options.split(), "-o", name]).code == 0
    assert (folder / "now").read_bytes() == (folder / "then").read_bytes()
    for name, option in (("now", "--stepwise-batches"), ("then", "--batches")):
        quick = ["lm", "train", "sentences.txt", "--method", "em", "--states", 2, "--min-count", 1, "-q"]
        assert sapwood([*quick, option, 2, "-o", name]).code == 0
    assert (folder / "now").read_bytes() == (folder / "then").read_bytes()


def test_former_names_of_commands(sapwood: Sapwood, folder: Path) -> None:
    assert folder.is_dir()
    for former, present in (("next", "select"), ("decompose", "anchors")):
        assert f"  {former} " not in sapwood(["--help"]).out
        assert f"sapwood {present} " in sapwood([former, "--help"]).out
    for name, options in (("now", "--cost-of-states 1 --weighting l2"), ("then", "--work 1 --weigh l2")):
        assert sapwood(["minimise", "m", *options.split(), "-o", name, "-q"]).code == 0
    assert Path("now").read_bytes() == Path("then").read_bytes()
    shown = [sapwood(["parse", "sentences.txt", "-m", "m", name]).out for name in ("--states", "--show-states")]
    assert shown[0] == shown[1] != ""


@pytest.mark.parametrize(
    ("command", "option", "amount"),
    [
        (["anchors", "matrix.csv", "--states", 2, "--json"], "--min-count", 2),
        (["diagnose", "trees.mrg", "--states", 2, "--resamples", 2, "--json"], "--min-count", 2),
        (["lm", "topics", "latent", "--by", "lift", "--json"], "--min-count", 2),
        (["import", "x"], "--min-expected-count", 0.5),
    ],
)
def test_former_names_of_minima(
    sapwood: Sapwood, folder: Path, command: list[object], option: str, amount: float
) -> None:
    (folder / "matrix.csv").write_text(",x,y\na,40,2\nb,3,50\nc,20,20\n")
    assert sapwood(["lm", "train", "sentences.txt", "--method", "em", "--states", "2", "-o", "latent", "-q"]).code == 0
    now, then = (sapwood([*command, "-q", name, amount]) for name in (option, "--least"))
    assert (now.code, now.err) == (then.code, then.err)
    assert now.code == (3 if command[0] == "import" else 0)  # there is no such file
    assert re.sub(r'"seconds": [\d.]+', "", now.out) == re.sub(r'"seconds": [\d.]+', "", then.out)
    assert sapwood([*command, "-q", "--least", -1]).code == 2
    shown = sapwood([*command[: 2 if command[0] == "lm" else 1], "--help"]).out
    assert option in shown
    assert "--least" not in shown
