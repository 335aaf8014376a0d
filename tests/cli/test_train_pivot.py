"""`sapwood train` with anchors: pivot and pivot+em, from treebanks to parses, interrupted and not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Outcome, Sapwood
from helpers.made_up import made_up_treebank
from sapwood.evaluate import Scorer
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn import Pivot, PivotEM
from sapwood.model.file import load_models
from sapwood.runtime.log import read_log
from sapwood.trees import Corpus
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.transform import TreeTransform

FAST = ("--states", 3, "--features", "simple", "--threads", 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with two made-up treebanks."""
    for name, count, seed in (("train.mrg", 100, 0), ("dev.mrg", 12, 1)):
        (tmp_path / name).write_text("".join(f"{tree}\n" for tree in made_up_treebank(count, seed)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda handle: None)  # small files need not be on disk
    return tmp_path


def train(sapwood: Sapwood, *arguments: object, code: int = 0) -> Outcome:
    outcome = sapwood(["train", "train.mrg", "-o", "m", *arguments])
    assert outcome.code == code, outcome.err
    return outcome


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def without_times(path: str) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_log(path)]


def test_pivot(sapwood: Sapwood, folder: Path) -> None:
    report = json.loads(train(sapwood, "--method", "pivot", "--states", 4, "--json").out)
    grammar = TensorGrammar.load("m")
    assert {name: report[name] for name in ("model", "method", "trees", "grammars")} == {
        "model": "m", "method": "pivot", "trees": 100, "grammars": 1,
    }  # fmt: skip
    assert report["states"] == grammar.states.sum() > len(grammar.symbols) == report["symbols"]
    assert report["rules"] == len(grammar.rules)
    assert "dev" not in report
    assert grammar.probabilistic
    assert grammar.info["method"] == "pivot"
    # It is what the library gives, over symbols that know neither ancestors nor siblings.
    corpus = Corpus.from_trees(read_trees("train.mrg"), transform=TreeTransform(1, 0, annotate_tags=False))
    assert grammar.with_info(seed=None) == Pivot(states=4).fit(corpus).with_info(seed=None)
    assert names(folder) == ["dev.mrg", "m", "train.mrg"]


def test_options_arrive(sapwood: Sapwood, folder: Path) -> None:
    arguments = (
        "--features simple --kappa 2.5 --smoothing 0.2 --rare-threshold 4 --unaries collapsed --seed 7 --states 2"
    )
    train(sapwood, "--method", "pivot", *arguments.split(), "-q")
    settings = TensorGrammar.load("m").info["settings"]
    assert {
        name: settings[name]
        for name in (
            "inside", "outside", "kappa", "smoothing", "rare_threshold", "unaries", "random_state", "states",
            "iterations",
        )
    } == {
        "inside": "simple", "outside": "simple", "kappa": 2.5, "smoothing": 0.2, "rare_threshold": 4,
        "unaries": "collapsed",
        "random_state": 7, "states": 2, "iterations": 0,
    }  # fmt: skip
    train(sapwood, "--method", "pivot+em", *FAST, "-q")
    assert TensorGrammar.load("m").info["settings"]["iterations"] == 10
    assert TensorGrammar.load("m").info["method"] == "pivot+em"
    assert folder.is_dir()


def test_pivot_em_with_dev_and_log(sapwood: Sapwood, folder: Path) -> None:
    outcome = train(
        sapwood, "--method", "pivot+em", *FAST, "--iterations", 3, "--dev", "dev.mrg", "--log", "log", "--json"
    )
    report = json.loads(outcome.out)
    log = read_log("log")
    assert [line["event"] for line in log] == ["start", "dev", *["iteration", "dev"] * 3, "end"]
    assert [line["step"] for line in log if line["event"] == "dev"] == [0, 1, 2, 3]
    assert log[0]["method"] == "pivot+em"
    settings = PivotEM(states=3, iterations=3, inside="simple", outside="simple").settings()
    assert log[0]["settings"] == {**settings, "ensemble": 1}
    # What the model scores is the best that was measured.
    assert report["dev"]["f1"] == max(line["f1"] for line in log if line["event"] == "dev")
    assert names(folder) == ["dev.mrg", "log", "m", "train.mrg"]
    assert sapwood(["plot", "log", "-o", "curves.svg"]).code == 0


def test_what_can_be_done_with_the_model(sapwood: Sapwood, folder: Path) -> None:
    outcome = train(sapwood, "--method", "pivot+em", "--states", 4, "--iterations", 2, "--dev", "dev.mrg", "-q")
    assert outcome.err == ""
    assert "F1" in outcome.out
    seen = sapwood(["inspect", "m", "--json"])
    assert seen.code == 0
    text = sapwood(["inspect", "m"])
    assert (text.code, "pivot+em" in text.out) == (0, True)
    scored = sapwood(["eval", "dev.mrg", "-m", "m", "--json", "-q"])
    assert scored.code == 0
    assert json.loads(scored.out)["f1"] > 85
    trees = list(read_trees("dev.mrg"))
    sentences = "".join(" ".join(tree.words()) + "\n" for tree in trees)
    parsed = sapwood(["parse", "-m", "m", "-q"], stdin=sentences.encode())
    assert parsed.code == 0
    assert parsed.out.count("\n") == len(trees)
    assert all(line.startswith("(ROOT") for line in parsed.out.splitlines())
    best = sapwood(["parse", "-m", "m", "-q", "--decoder", "viterbi"], stdin=sentences.encode())
    assert (best.code, best.out.count("\n")) == (0, len(trees))
    assert folder.is_dir()


def test_ensembles(sapwood: Sapwood, folder: Path) -> None:
    train(
        sapwood, "--method", "pivot+em", "--states", 3, "--iterations", 2, "--ensemble", 2, "--dev", "dev.mrg",
        "--log", "log", "-q",
    )  # fmt: skip
    members = load_models("m")
    assert len(members) == 2
    assert members[0] != members[1]
    assert members[0].info["settings"]["random_state"] == 0 != members[1].info["settings"]["random_state"]
    log = read_log("log")
    assert [(line["member"], line["step"]) for line in log if line["event"] == "iteration"] == [
        (0, 1), (0, 2), (1, 3), (1, 4),
    ]  # fmt: skip
    # The first one is what training it alone gives.
    train(sapwood, "--method", "pivot+em", "--states", 3, "--iterations", 2, "--dev", "dev.mrg", "-q", "-o", "alone")
    assert TensorGrammar.load("alone") == members[0]
    assert json.loads(sapwood(["eval", "dev.mrg", "-m", "m", "--json"]).out)["f1"] > 80
    assert names(folder) == ["alone", "dev.mrg", "log", "m", "train.mrg"]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let somebody press Ctrl-C in the n-th measurement on the dev treebank."""
    honest, calls = Scorer.result, [0]

    def result(self: Scorer):
        calls[0] += 1
        if calls[0] == number:
            raise KeyboardInterrupt
        return honest(self)

    monkeypatch.setattr(Scorer, "result", result)


@pytest.mark.parametrize(("ensemble", "at"), [(1, 1), (1, 3), (2, 5)])
def test_resuming(
    sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch, ensemble: int, at: int
) -> None:  # fmt: skip
    same = ("--method", "pivot+em", *FAST, "--iterations", 2, "--dev", "dev.mrg", "--ensemble", ensemble, "-q")
    whole = train(sapwood, *same, "--log", "whole.log", "-o", "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, at)
        outcome = train(sapwood, *same, "--log", "log", code=130)
    left = ["m.checkpoint"] if ensemble == 1 else ["m.checkpoint-member-2", "m.stage-member-1"]
    hint = "holds the progress so far, and the same command with --resume continues from there"
    assert outcome.err == f"sapwood: interrupted; {left[0]} {hint}\n"
    kept = ["dev.mrg", "log", *sorted([*left, "m.run"]), "train.mrg", "whole", "whole.log"]
    assert names(folder) == kept
    # Neither from the beginning, nor with other settings.
    assert "continue with --resume" in train(sapwood, *same, code=2).err
    assert "other settings or trees" in train(sapwood, *same, "--resume", "--kappa", 1, code=2).err
    (folder / "other.mrg").write_text("(ROOT (S (NP (N bal)) (VP (V bild))))\n")
    other_dev = "with another development set; give the same --dev again, or remove"
    assert other_dev in train(sapwood, *same, "--resume", "--dev", "other.mrg", code=2).err
    (folder / "other.mrg").unlink()
    assert names(folder) == kept
    outcome = train(sapwood, *same, "--log", "log", "--resume")
    assert (folder / "m").read_bytes() == (folder / "whole").read_bytes()
    assert outcome.out == whole.out
    assert without_times("log") == without_times("whole.log")
    assert names(folder) == ["dev.mrg", "log", "m", "train.mrg", "whole", "whole.log"]


def test_resuming_what_was_not_interrupted(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "--method", "pivot", *FAST, "--resume", "-q")
    Path("m").rename("first")
    train(sapwood, "--method", "pivot", *FAST, "--threads", 2, "-q")
    assert (folder / "m").read_bytes() == (folder / "first").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--method pivot --noise 0.1", "--noise requires --method split-merge or em or cluster"),
        ("--method pivot+em --noise 0.1", "--noise requires --method split-merge or em or cluster"),
        ("--method pivot+em --iterations 0", "--iterations must be at least 1, not 0"),
        ("--method pivot --dropout 0.1", "--dropout requires --method spectral"),
        ("--method pivot --cycles 2", "--cycles requires --method split-merge"),
        ("--method pivot --restarts 2", "--restarts requires --method em"),
        ("--method pivot+em --stop f1", "--stop requires --method em"),
        ("--method pivot+em --init train.mrg", "--init requires --method em"),
        ("--method pivot+em --prior 1", "--prior requires --method em"),
        ("--method pivot --states auto", "--states must be a number, not 'auto'"),
        ("--method pivot --states 0", "--states must be at least 1, not 0"),
        ("--method pivot --smoothing 1", "smoothing must be at least 0 and below 1, not 1.0"),
        ("--method pivot --kappa -1", "--kappa must be 0 or more, not -1.0"),
        ("--method pivot --features all", "'all' is not one of 'simple', 'rich'"),
        ("--method pivots", "'pivots' is not one of"),
        ("--method pivot --log m", "--log m: is also the output of -o"),
        ("--method em --kappa 2", "--kappa requires --method pivot+em or spectral or cluster or pivot"),
        ("--method em --features simple", "--features requires --method pivot+em or spectral or cluster or pivot"),
    ],
)
def test_mistakes_are_explained(sapwood: Sapwood, folder: Path, arguments: str, message: str) -> None:
    before = names(folder)
    outcome = train(sapwood, *arguments.split(), code=2)
    assert message in outcome.err
    assert outcome.out == ""
    assert names(folder) == before


def test_tiny_treebanks(sapwood: Sapwood, folder: Path) -> None:
    for text in ("(ROOT (N dog))\n", "(ROOT (S (N dog) (V runs)))\n", "(S (N dog) (V runs))\n" * 40):
        Path("train.mrg").write_text(text)
        for method in ("pivot", "pivot+em"):
            train(sapwood, "--method", method, "--threads", 1, "-q")
            assert TensorGrammar.load("m").states.max() == 1
    assert folder.is_dir()
