"""The command and the library share one composition of training: equal arguments give equal files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helpers.made_up import made_up_treebank
from sapwood import train
from sapwood.cli.main import main
from sapwood.errors import InputError, UsageError
from sapwood.learn import EM, PCFG
from sapwood.pipeline.train import prepare_corpus
from sapwood.runtime.progress import Silent
from sapwood.trees.formats.registry import read_tagged, read_tokens, read_trees
from sapwood.trees.heads.tables import HEAD_TABLES
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import read_partial
from sapwood.trees.tree import Tree

DATA = Path(__file__).parents[1] / "data"
EM_OPTIONS = "--method em --states 2 --iterations 2"
PARTIAL = "--partial partial.mrg"
EM_SETTINGS: dict[str, Any] = {"method": "em", "states": 2, "iterations": 2}
# Settings of the recommended recipe are those of no method, so that its components are left out instead.
PLAIN = "--no-crf --no-span-scorer"
WITHOUT = {"crf": False, "span_scorer": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with trees, text, brackets and tagged sequences."""
    folder = tmp_path_factory.mktemp("data")
    trees = list(read_trees(DATA / "train.mrg"))
    for name, part in (("train", trees[:60]), ("dev", list(read_trees(DATA / "dev.mrg"))[:10])):
        (folder / f"{name}.mrg").write_text("".join(f"{tree}\n" for tree in part))
        clean = [tree for tree in map(Normaliser(), part) if tree is not None]
        tagged = (" ".join(map("/".join, zip(tree.words(), tree.tags(), strict=True))) for tree in clean)
        (folder / f"{name}.tagged").write_text("".join(f"{line}\n" for line in tagged))
    text = [tree.words() for tree in [*trees[60:], *made_up_treebank(150)]]
    (folder / "text.txt").write_text("".join(" ".join(words) + "\n" for words in text))
    (folder / "short.txt").write_text("".join(" ".join(words) + "\n" for words in text[:30]))
    train(trees[:60], method="pcfg", output=folder / "teacher")
    first, second = (" ".join(words) for words in text[:2])
    (folder / "partial.mrg").write_text(f"(_ {first})\n(_ (_ {second}))\n")
    return folder


Arguments = Callable[[], dict[str, Any]]
CASES: dict[str, tuple[str, Arguments]] = {
    "default": (PLAIN, lambda: WITHOUT),
    "method": (EM_OPTIONS, lambda: EM_SETTINGS),
    "learner": (EM_OPTIONS, lambda: {"method": EM(states=2, iterations=2)}),
    "fast": ("--fast", lambda: {"method": "pcfg"}),
    "seed": (f"{EM_OPTIONS} --seed 3", lambda: EM_SETTINGS | {"seed": 3}),
    "seed as a setting": (f"{EM_OPTIONS} --seed 3", lambda: EM_SETTINGS | {"random_state": 3}),
    "seed without use": ("--method pcfg --seed 3", lambda: {"method": "pcfg", "seed": 3}),
    "threads": (f"{EM_OPTIONS} --threads 2", lambda: EM_SETTINGS | {"threads": 2}),
    "dev": (
        f"{EM_OPTIONS} --stop f1 --eval-every 1 --dev dev.mrg",
        lambda: EM_SETTINGS | {"stop": "f1", "eval_every": 1, **held_out()},
    ),
    "ensemble": (f"{EM_OPTIONS} --ensemble 2 --seed 1", lambda: EM_SETTINGS | {"ensemble": 2, "seed": 1}),
    "mixed ensemble": (
        "--ensemble em,pivot+em --states 2 --iterations 2 --min-support 5 --seed 1",
        lambda: {"ensemble": ["em", "pivot+em"], "states": 2, "iterations": 2, "min_support": 5, "seed": 1},
    ),
    "crf": ("--method pcfg --crf", lambda: {"method": "pcfg", "crf": True}),
    "span scorer": ("--method pcfg --span-scorer", lambda: {"method": "pcfg", "span_scorer": True}),
    "tokeniser": ("--method pcfg --tokeniser blanks", lambda: {"method": "pcfg", "tokeniser": "blanks"}),
    "binarisation": (
        f"{EM_OPTIONS} --binarise left --vertical 2 --horizontal 1 --annotate-tags",
        lambda: EM_SETTINGS | transformed(direction="left", vertical=2, horizontal=1, annotate_tags=True),
    ),
    "heads": (
        "--method pcfg --binarise head --heads english",
        lambda: {"method": "pcfg", **transformed(direction="head", heads=HEAD_TABLES["english"])},
    ),
    "normaliser": (
        "--method pcfg --function-tags none --keep-repeated",
        lambda: {"method": "pcfg", "normaliser": Normaliser(function_tags="none", repeated_unaries=False)},
    ),
    "partial": (f"{EM_OPTIONS} {PARTIAL}", lambda: EM_SETTINGS | brackets()),
    "partial without a method": (
        f"{PARTIAL} --cycles 1 --iterations 1 --smoothing-iterations 1 --teacher-rounds 1 --partial-weight 2",
        lambda: {
            **brackets(),
            "cycles": 1,
            "iterations": 1,
            "smoothing_iterations": 1,
            "semi_supervised": {"partial_weight": 2.0, "rounds": 1},
        },
    ),
    "silver": (
        f"{EM_OPTIONS} --silver dev.mrg --gold-weight 2",
        lambda: EM_SETTINGS | {"silver": read_trees("dev.mrg"), "gold_weight": 2},
    ),
    "teacher": (
        f"{EM_OPTIONS} --teacher teacher --text text.txt",
        lambda: EM_SETTINGS | {"teacher": "teacher", "text": "text.txt"},
    ),
    "adapt": ("--adapt teacher --seed 2", lambda: {"adapt": "teacher", "seed": 2}),
    "adapt with a weight": (
        "--adapt teacher --adapt-weight 2 --dev dev.mrg --tokeniser blanks --threads 2",
        lambda: {"adapt": "teacher", "adapt_weight": 2.0, "tokeniser": "blanks", "threads": 2, **held_out()},
    ),
    "text by default": (f"--text text.txt {PLAIN}", lambda: {"text": "text.txt", **WITHOUT}),
    "text and a method": (f"--text text.txt {EM_OPTIONS}", lambda: EM_SETTINGS | {"text": "text.txt"}),
    "text and a seed": (
        "--text text.txt --method pcfg --seed 3",
        lambda: {"text": "text.txt", "method": "pcfg", "seed": 3},
    ),
    "sentences": (f"--text text.txt {EM_OPTIONS}", lambda: EM_SETTINGS | {"text": list(read_tokens("text.txt"))}),
    "two texts": (
        "--text text.txt --text short.txt --method pcfg",
        lambda: {"method": "pcfg", "text": ["text.txt", "short.txt"]},
    ),
    "text and brackets": (
        f"--text text.txt --partial partial.mrg {EM_OPTIONS} --seed 2",
        lambda: EM_SETTINGS | brackets() | {"text": "text.txt", "seed": 2},
    ),
    "sequences": (
        f"--sequences --dev dev.tagged {EM_OPTIONS}",
        lambda: EM_SETTINGS | {"sequences": True, "dev": read_tagged("dev.tagged")},
    ),
    "sequences and text": (
        f"--sequences --text short.txt --text-use em {EM_OPTIONS}",
        lambda: EM_SETTINGS | {"sequences": True, "text": "short.txt", "text_use": "em"},
    ),
    **{
        f"text for {use}": (
            f"--text {text} --text-use {use} {EM_OPTIONS}",
            functools.partial(lambda text, use: EM_SETTINGS | {"text": text, "text_use": use}, text, use),
        )
        for use, text in (
            ("word-classes", "text.txt"),
            ("self-training", "text.txt"),
            ("em", "short.txt"),
            ("em-forests", "short.txt"),
            ("em-best", "short.txt"),
        )
    },
    "settings of em": (
        f"--text short.txt --text-use em --text-weight 0.5 --teacher-weight 1 --teacher-rounds 1 {EM_OPTIONS}",
        lambda: (
            EM_SETTINGS
            | {"text": list(read_tokens("short.txt")), "text_use": "em"}
            | {"semi_supervised": {"text_weight": 0.5, "teacher_weight": 1.0, "rounds": 1}}
        ),
    ),
    "former names": (
        f"--text short.txt --text-use forests --trust 1 --rounds 1 --no-layer --no-network {EM_OPTIONS}",
        lambda: (
            EM_SETTINGS
            | {"text": "short.txt", "text_use": "em-forests"}
            | {"semi_supervised": {"teacher_weight": 1.0, "rounds": 1}}
        ),
    ),
}


def held_out() -> dict[str, Any]:
    return {"dev": read_trees("dev.mrg")}


def brackets() -> dict[str, Any]:
    return {"partial": read_partial("partial.mrg")}


def transformed(**changes: Any) -> dict[str, Any]:
    return {"transform": changes}


def by_command(*arguments: str) -> bytes:
    outcome = CliRunner().invoke(main, ["train", *arguments, "-o", "command", "-q"], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return Path("command").read_bytes()


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", list(CASES))
def test_command_and_library_write_the_same_file(here: Path, name: str) -> None:
    options, arguments = CASES[name]
    given = arguments()
    data: Any = read_tagged("train.tagged") if given.get("sequences") else read_trees("train.mrg")
    train(data, output="library", **given)
    treebank = "train.tagged" if given.get("sequences") else "train.mrg"
    assert by_command(treebank, *options.split()) == Path("library").read_bytes()
    assert not [path for path in here.iterdir() if ".checkpoint" in path.name or ".teacher" in path.name]


def test_few_trees_and_text_mean_self_training(here: Path) -> None:
    model = train(read_trees("train.mrg"), text="text.txt", **WITHOUT)
    assert model.grammar.info["read"] > 50
    assert model.grammar.lexicon.classes is not None
    model = train(read_trees("train.mrg"), text="text.txt", text_use="word-classes", **WITHOUT)
    assert "read" not in model.grammar.info


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"text_use": "em"}, "text_use requires text or partial"),
        ({"text": "text.txt", "text_use": "trees"}, "text_use is one of word-classes, self-training, em"),
        ({"text": "nowhere.txt"}, "nowhere.txt: no such file"),
        ({"text": "text.txt", "semi_supervised": {"rounds": 1}}, "rounds requires partial or text and text_use em"),
        ({"text": "text.txt", "self_train_on": [["a"]]}, "self_train_on requires trees"),
        ({"sequences": True, "transform": {}}, "are for trees, not for sequences"),
        ({"transform": {"order": 2}}, "transform: order is not a parameter"),
    ],
)
def test_what_does_not_go_together(here: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises((UsageError, InputError), match=problem):
        train(read_trees("train.mrg"), method="pcfg", **given)


def test_function_tags_to_keep_that_no_label_has_are_named() -> None:
    heard: list[str] = []

    class Listener(Silent):
        def note(self, message: str) -> None:
            heard.append(message)

    trees = [Tree.parse("(S (NP-SBJ (N dogs)) (VP (V sleep)))")]
    normaliser = Normaliser(keep=("-SBJ", "-OBJ", "NP-LOC"))
    prepare_corpus(PCFG(), trees, normaliser=normaliser, progress=Listener())
    assert heard == ["no label has the function tag to keep: -OBJ, NP-LOC"]
