"""`sapwood train` with hidden states: methods, ensembles, logs, and going on after being killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sapwood
from helpers.effort import slow
from helpers.made_up import made_up_treebank
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.model import ParserModel
from sapwood.model.file import load_models
from sapwood.runtime.log import read_log

TIMEOUT = 180


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with two made-up treebanks."""
    for name, count, seed in (("train.mrg", 150, 0), ("dev.mrg", 20, 1)):
        (tmp_path / name).write_text("".join(f"{tree}\n" for tree in made_up_treebank(count, seed)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(sapwood: Sapwood, *arguments: object, code: int = 0) -> str:
    outcome = sapwood(["train", "train.mrg", "-o", "m", *arguments])
    assert outcome.code == code, outcome.err
    return outcome.out if code == 0 else outcome.err


def test_split_merge_with_dev_and_log(sapwood: Sapwood, folder: Path) -> None:
    report = json.loads(
        train(sapwood, "--method", "split-merge", "--cycles", 2, "--dev", "dev.mrg", "--log", "log", "--json")
    )
    grammar = TensorGrammar.load("m")
    assert report["states"] == grammar.states.sum() > len(grammar.symbols)
    assert report["grammars"] == 1
    assert report["rules"] == len(grammar.rules)
    assert grammar.transform.vertical == 1
    assert grammar.transform.horizontal == 0
    log = read_log("log")
    assert [line["event"] for line in log if line["event"] != "iteration"] == ["start", "dev", "dev", "end"]
    assert [line["step"] for line in log if line["event"] == "iteration"] == list(range(1, 61))
    # What the model scores is the best that was measured.
    assert report["dev"]["f1"] == max(line["f1"] for line in log if line["event"] == "dev")
    assert sorted(path.name for path in folder.iterdir()) == ["dev.mrg", "log", "m", "train.mrg"]
    assert sapwood(["plot", "log", "-o", "curves.svg"]).code == 0
    assert (folder / "curves.svg").stat().st_size > 0


def test_em_stops_by_dev(sapwood: Sapwood, folder: Path) -> None:
    arguments = ("--method", "em", "--states", 2, "--dev", "dev.mrg", "--stop", "log-likelihood", "--log", "log")
    train(sapwood, *arguments, "--iterations", 100, "-q")
    log = read_log("log")
    measured = [line["log_likelihood"] for line in log if line["event"] == "dev"]
    assert len(measured) < 20  # of a hundred iterations, one in five
    assert max(measured) == measured[-4]
    assert TensorGrammar.load("m").states.max() == 2
    assert folder.is_dir()


def test_em_goes_on_from_a_model(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "em", "--states", 2, "--iterations", 5, "--unaries", "collapsed", "-q")
    Path("m").rename("first")
    train(sapwood, "--method", "em", "--init", "first", "--iterations", 3, "--log", "log", "-q")
    assert TensorGrammar.load("m").states.max() == 2
    assert len([line for line in read_log("log") if line["event"] == "iteration"]) == 3
    assert folder.is_dir()


def test_ensembles_parse_and_score(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "split-merge", "--cycles", 1, "--ensemble", 3, "--log", "log", "-q")
    members = load_models("m")
    assert len(members) == 3
    assert members[0] != members[1]
    assert members[1] != members[2]
    log = read_log("log")
    assert [line["member"] for line in log if line["event"] == "iteration"] == [0] * 30 + [1] * 30 + [2] * 30
    assert log[-1]["step"] == 90
    # The first one is what training it alone gives.
    train(sapwood, "--method", "split-merge", "--cycles", 1, "-q", "-o", "alone")
    assert TensorGrammar.load("alone") == members[0]
    assert sapwood(["eval", "dev.mrg", "-m", "m", "--json"]).code == 0
    assert sapwood(["parse", "-m", "m", "-q"], stdin=b"the balora benild .\n").out.startswith("(ROOT")
    assert folder.is_dir()


def test_an_ensemble_without_a_method_is_of_what_is_recommended(sapwood: Sapwood, folder: Path) -> None:
    few = ("--states", 2, "--iterations", 1, "--no-crf", "--no-span-scorer", "-q")
    report = json.loads(train(sapwood, "--ensemble", 4, *few, "--json"))
    assert report["method"] == "pivot+em, spectral, cluster"
    members = load_models("m")
    assert [member.info["method"] for member in members] == ["pivot+em", "spectral", "cluster", "pivot+em"]
    assert members[0] != members[3]
    assert "is not a setting of the default recipe for 150 trees" in train(
        sapwood, "--ensemble", 2, "--cycles", 1, code=2
    )
    assert folder.is_dir()


def test_spectral_and_clusters(sapwood: Sapwood, folder: Path) -> None:
    report = json.loads(
        train(sapwood, "--method", "spectral", "--states", 4, "--dev", "dev.mrg", "--log", "l", "--json")
    )
    assert report["dev"]["f1"] == max(line["f1"] for line in read_log("l") if line["event"] == "dev")
    grammar = TensorGrammar.load("m")
    assert not grammar.probabilistic
    assert grammar.states.max() == 4
    assert {record["symbol"] for record in grammar.info["spectral"]["symbols"]} >= {"NP", "VP", "N"}
    train(sapwood, "--method", "spectral", "--states", "auto", "--features", "simple", "-q")
    train(sapwood, "--method", "cluster", "--states", 4, "--iterations", 3, "--log", "l", "-q")
    grammar = TensorGrammar.load("m")
    assert grammar.probabilistic
    assert grammar.states.max() == 4
    assert [line["step"] for line in read_log("l") if line["event"] == "iteration"] == [1, 2, 3]
    train(sapwood, "--method", "cluster", "--states", 3, "--noise", 0.2, "--ensemble", 2, "-q")
    members = load_models("m")
    assert len(members) == 2
    assert members[0] != members[1]
    assert sorted(path.name for path in folder.iterdir()) == ["dev.mrg", "l", "m", "train.mrg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--method em --cycles 2", "--cycles requires --method split-merge"),
        ("--method pcfg --ensemble 2", "pcfg gives the same grammar from every seed"),
        ("--method split-merge --states 2", "--states requires --method pivot+em or em or spectral"),
        ("--method em --stop f1", "--stop f1 needs --dev"),
        ("--method em --states auto", "--states must be a number, not 'auto'"),
        ("--method em --states some", "'some' is not a whole number or auto"),
        ("--method em --iterations 0", "--iterations must be at least 1, not 0"),
        (
            "--method spectral --iterations 3",
            "--iterations requires --method split-merge or pivot+em or em or cluster",
        ),
        ("--method cluster --smoothing 3", "smoothing must be at least 0 and below 1"),
        ("--method em --log train.mrg", "--log train.mrg: is one of the input files"),
        ("--method em --init train.mrg", "train.mrg: not a sapwood file"),
        ("--method em --log no/log", "no: no such directory"),
        ("--method em --log m", "--log m: is also the output of -o"),
        ("--method em --log m.checkpoint", "log m.checkpoint: is also the file of the model"),
    ],
)
def test_mistakes_are_explained(sapwood: Sapwood, folder: Path, arguments: str, message: str) -> None:
    before = sorted(folder.iterdir())
    outcome = sapwood(["train", "train.mrg", "-o", "m", *arguments.split()])
    assert outcome.code in (2, 3, 4)
    assert message in outcome.err
    assert sorted(folder.iterdir()) == before


def test_an_interrupted_run_is_not_overwritten(sapwood: Sapwood, folder: Path) -> None:
    (folder / "m.checkpoint").write_bytes(b"something")
    message = train(sapwood, "--method", "em", code=2)
    assert "m.checkpoint: training was interrupted; continue with --resume" in message
    assert (folder / "m.checkpoint").read_bytes() == b"something"
    message = train(sapwood, "--method", "em", "--resume", code=4)
    assert "not a sapwood file" in message
    assert "remove this checkpoint to start over" in message


def test_a_run_is_not_resumed_with_another_dev_treebank(sapwood: Sapwood, folder: Path, monkeypatch: Any) -> None:
    from sapwood.evaluate import Scorer

    (folder / "other.mrg").write_text("(S (A b) (C d))\n")
    (folder / "dev.mrg").write_text((folder / "train.mrg").read_text())
    same = ("--method", "cluster", "--states", 2, "--iterations", 2, "-q")
    train(sapwood, *same, "--dev", "dev.mrg")
    whole = (folder / "m").read_bytes()
    asked = []
    result = Scorer.result

    def interrupted(scorer: Scorer) -> Any:
        asked.append(scorer)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return result(scorer)

    monkeypatch.setattr(Scorer, "result", interrupted)
    train(sapwood, *same, "--dev", "dev.mrg", code=130)
    message = train(sapwood, *same, "--dev", "other.mrg", "--resume", code=2)
    assert "m.checkpoint: of a training run with another development set; give the same --dev again" in message
    message = train(sapwood, *same, "--resume", code=2)
    assert "give the same --dev again, or remove this file to start over" in message
    train(sapwood, *same, "--dev", "dev.mrg", "--resume")
    assert (folder / "m").read_bytes() == whole


def test_another_run_cannot_be_resumed(sapwood: Sapwood, folder: Path) -> None:
    from sapwood.learn import SplitMerge
    from sapwood.trees import Corpus
    from sapwood.trees.formats.registry import read_trees
    from sapwood.trees.transform import TreeTransform

    class Break:
        def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
            if step == 5:
                raise KeyboardInterrupt

    corpus = Corpus.from_trees(read_trees("train.mrg"), transform=TreeTransform(1, 0))
    with pytest.raises(KeyboardInterrupt):
        SplitMerge(cycles=1).fit(corpus, log=Break(), checkpoint="m.checkpoint")
    message = train(sapwood, "--method", "split-merge", "--cycles", 2, "--resume", code=2)
    assert "other settings or trees" in message
    train(sapwood, "--method", "split-merge", "--cycles", 1, "--resume", "-q")
    Path("m").rename("resumed")
    train(sapwood, "--method", "split-merge", "--cycles", 1, "-q")
    assert (folder / "m").read_bytes() == (folder / "resumed").read_bytes()


def interrupt_fit(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let somebody press Ctrl-C when the n-th grammar is about to be learned."""
    fit, calls = Learner.fit, [0]

    def interrupted(self: Learner, *given: Any, **options: Any) -> TensorGrammar:
        calls[0] += 1
        if calls[0] == number:
            raise KeyboardInterrupt
        return fit(self, *given, **options)

    monkeypatch.setattr(Learner, "fit", interrupted)


def test_members_of_another_run_are_refused(
    sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (folder / "dev.mrg").write_text((folder / "train.mrg").read_text())
    (folder / "other.mrg").write_text("(S (A b) (C d))\n")
    for same in (
        ("--method", "split-merge", "--cycles", 1, "--ensemble", 2, "--dev", "dev.mrg", "-q"),
        ("--method", "spectral", "--states", 2, "--ensemble", 2, "--dev", "dev.mrg", "-q"),
    ):
        train(sapwood, *same)
        whole = (folder / "m").read_bytes()
        with monkeypatch.context() as patch:
            interrupt_fit(patch, 2)
            assert "m.stage-member-1 holds the progress so far" in train(sapwood, *same, code=130)
        left = {path.name: path.read_bytes() for path in folder.glob("m.*")}
        assert sorted(left) == ["m.run", "m.stage-member-1"]
        for other in (
            ("--method", "split-merge", "--cycles", 2, "--ensemble", 2),
            ("--method", "split-merge", "--cycles", 1, "--ensemble", 2, "--seed", 5),
            ("--method", "em", "--states", 2, "--ensemble", 2),
            ("--method", "spectral", "--states", 3, "--ensemble", 2),
            (*same, "--crf"),
        ):
            message = train(sapwood, "--dev", "dev.mrg", *other, "--resume", code=2)
            assert "m.stage-member-1: of a training run with other settings or trees; give the same ones" in message
        message = train(sapwood, *same, "--dev", "other.mrg", "--resume", code=2)
        assert "m.stage-member-1: of a training run with another development set; give the same --dev again" in message
        assert left == {path.name: path.read_bytes() for path in folder.glob("m.*")}
        train(sapwood, *same, "--resume")
        assert (folder / "m").read_bytes() == whole
        assert not list(folder.glob("m.*"))


def test_a_run_without_a_development_set_is_not_resumed_with_one(
    sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = ("--method", "em", "--states", 2, "--iterations", 2, "--ensemble", 2, "-q")
    with monkeypatch.context() as patch:
        interrupt_fit(patch, 2)
        train(sapwood, *same, code=130)
    message = train(sapwood, *same, "--dev", "dev.mrg", "--resume", code=2)
    assert "of a training run without a development set; omit --dev, or remove this file to start over" in message


def test_runs_of_former_versions_are_refused(sapwood: Sapwood, folder: Path) -> None:
    same = ("--method", "em", "--states", 2, "--iterations", 2, "--ensemble", 2, "-q")
    (folder / "m.members").write_bytes(b"grammars")
    assert "m.members: training was interrupted" in train(sapwood, *same, code=2)
    message = train(sapwood, *same, "--resume", code=2)
    assert "m.members: its run has no record m.run, so it cannot be resumed" in message
    assert "remove this file to start over" in message
    (folder / "m.members").unlink()
    train(sapwood, *same, "--resume")


def test_a_dev_treebank_that_the_grammar_cannot_build(sapwood: Sapwood, folder: Path) -> None:
    (folder / "odd.mrg").write_text("(ZZ (QQ one) (YY (XX two) (WW three)))\n")
    train(sapwood, "--method", "split-merge", "--cycles", 1, "--dev", "odd.mrg", "--log", "log", "-q")
    assert [line["log_likelihood"] for line in read_log("log") if line["event"] == "dev"] == [None]
    assert not (folder / "m.checkpoint").exists()


@pytest.mark.skipif(os.name != "posix", reason="kill -9 as POSIX has it")
@pytest.mark.parametrize(("times", "cycles"), [(2, "2"), slow(10, "3")])
@pytest.mark.slow
def test_killed(folder: Path, times: int, cycles: str) -> None:
    """A run that is killed at random moments and resumed ends in the same bytes as one left in peace."""
    arguments = ["train", "train.mrg", "--method", "split-merge", "--cycles", cycles, "--ensemble", "2", "-q"]
    arguments += ["--dev", "dev.mrg", "--threads", "1"]
    command = [sys.executable, "-m", "sapwood", *arguments]
    subprocess.run([*command, "--log", "log", "-o", "whole"], check=True, timeout=TIMEOUT, capture_output=True)
    rng = random.Random(0)
    log, most = folder / "log-m", _lines(folder / "log") // (2 * times)
    kills = 0
    for _ in range(times):
        lines = _lines(log)
        with subprocess.Popen(
            [*command, "--log", str(log), "-o", "m", "--resume"], stdout=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + TIMEOUT
            # So few that, however often it is saved, the run has not ended before it is killed for the last time.
            wanted = lines + rng.randint(2, most)
            while process.poll() is None and _lines(log) < wanted and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.02)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait(TIMEOUT)
    assert kills >= 0.8 * times
    subprocess.run([*command, "--log", str(log), "-o", "m", "--resume"], check=True, timeout=TIMEOUT)
    assert (folder / "m").read_bytes() == (folder / "whole").read_bytes()
    # Neither the log nor the directory shows that anything happened.
    assert _without_times(folder / "log-m") == _without_times(folder / "log")
    assert sorted(path.name for path in folder.iterdir()) == ["dev.mrg", "log", "log-m", "m", "train.mrg", "whole"]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _without_times(path: Path) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_log(path)]


def test_a_layer(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "pcfg", "--crf", "--log", "log", "--dev", "dev.mrg")
    model = ParserModel.load("m")
    assert model.crf is not None
    assert model.meta["layer"]["folds"] == 4
    assert any(line["event"] == "layer" for line in read_log("log"))
    outcome = sapwood(["eval", "dev.mrg", "-m", "m", "--calibration", "--json"])
    assert outcome.code == 0, outcome.err
    assert 0 <= json.loads(outcome.out)["calibration"]["error"] < 1
    assert "expected calibration error" in sapwood(["eval", "dev.mrg", "-m", "m", "--calibration"]).out
    assert sapwood(["eval", "dev.mrg", "dev.mrg", "--calibration"]).code == 2
    assert "layer" in sapwood(["inspect", "m"]).out


def test_a_network(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "pcfg", "--span-scorer", "--log", "log")
    model = ParserModel.load("m")
    assert model.span_scorer is not None
    assert model.meta["network"]["epochs"] == len([line for line in read_log("log") if line["event"] == "network"])
    outcome = sapwood(["eval", "dev.mrg", "-m", "m", "--json"])
    assert outcome.code == 0, outcome.err
    assert "network" in sapwood(["inspect", "m"]).out


def test_states_by_symbol(sapwood: Sapwood, folder: Path) -> None:
    settings = ("--method", "em", "--iterations", 2, "--min-support", 1, "-q")
    train(sapwood, *settings, "--states", "NP=5,VP=3,2", "--save-config", "run.toml")
    grammar = TensorGrammar.load("m")
    states = dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))
    assert (states["NP"], states["VP"], states["@NP"]) == (5, 3, 2)
    assert 'states = "NP=5,VP=3,2"' in Path("run.toml").read_text()
    first = Path("m").read_bytes()
    train(sapwood, "--config", "run.toml")
    assert Path("m").read_bytes() == first
    for wrong in ("NP=x", "NP=2,NP=3", "2,3", "NP=", "NP=1e3", "NP=" + "9" * 5000):
        outcome = sapwood(["train", "train.mrg", "--method", "em", "--states", wrong, "-o", "n"])
        assert (outcome.code, (folder / "n").exists()) == (2, False), wrong
    outcome = sapwood(["train", "train.mrg", "--method", "em", "--states", "NX=2", "-o", "n"])
    assert outcome.code != 0
    assert "given for NX, but the trees have no such symbol; symbols are, for example, " in outcome.err
