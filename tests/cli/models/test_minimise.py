"""`sapwood truncate`: models and grammars in text made smaller, what is printed and drawn, and mistakes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Outcome, Sapwood
from helpers.made_up import made_up_treebank
from sapwood.automata import truncate
from sapwood.automata.wcfg.files import read_grammar
from sapwood.cli.main import main
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.parser import PRUNING_THRESHOLD
from sapwood.model import ParserModel
from sapwood.model.file import load_models, save_models
from sapwood.pipeline.compress import THRESHOLD_WITH_CELL_PRUNER, compress, run_compression
from sapwood.testing.grammars import random_states
from sapwood.trees import Corpus
from sapwood.trees.formats.registry import read_trees

USAGE, INPUT, MODEL = 2, 3, 4
KEYS = [
    "model", "output", "grammars", "by", "weigh", "before", "after", "dropped", "gamma", "l2", "l2_relative", "hankel",
    "hankel_best", "dev", "symbols",
]  # fmt: skip
# Two nonterminals that do the same, and a third.
TEXT = """\
S -> A B [0.4] | C B [0.6]
A -> 'x' [0.7] | 'y' [0.3]
C -> 'x' [0.7] | 'y' [0.3]
B -> 'z' [0.8] | S B [0.2]
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, sapwood: Sapwood) -> dict[str, bytes]:
    """Return treebanks and models by name: a PCFG, one with hidden states, two of these in one file."""
    folder = tmp_path_factory.mktemp("minimise")
    for name, count, seed in (("train.mrg", 50, 0), ("dev.mrg", 6, 1)):
        (folder / name).write_text("".join(f"{tree}\n" for tree in made_up_treebank(count, seed)))
    assert sapwood(["train", folder / "train.mrg", "--method", "pcfg", "-o", folder / "pcfg", "-q"]).code == 0
    plain = ["--method", "pcfg", "--vertical", 1, "--horizontal", 0]
    assert sapwood(["train", folder / "train.mrg", *plain, "-o", folder / "plain", "-q"]).code == 0
    base = TensorGrammar.load(folder / "plain")
    members = [random_states(base, 4, np.random.default_rng(seed), noise=1.5) for seed in range(2)]
    members[0].save(folder / "m")
    save_models(members, folder / "two")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with these files."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "grammar.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda handle: None)  # small files need not be on disk
    return tmp_path


def run(sapwood: Sapwood, arguments: str, code: int = 0) -> Outcome:
    outcome = sapwood(["minimise", *arguments.split()])
    assert outcome.code == code, outcome
    return outcome


def work_of(grammar: TensorGrammar, states: np.ndarray) -> float:
    """Return the products that the uses of a grammar's rules take with so many states of each symbol."""
    return float(grammar.rule_counts @ states[grammar.rules].prod(axis=1))


def report(sapwood: Sapwood, arguments: str) -> dict:
    outcome = run(sapwood, f"{arguments} --json -q")
    assert outcome.err == ""
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out)


# -- what it does ------------------------------------------------------------------------------------------------------


def test_json(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "m --cost-of-states 2 -o small")
    assert list(found) == KEYS
    old, new = TensorGrammar.load("m"), TensorGrammar.load("small")
    # It is what the library gives.
    expected = truncate(old, work=2)
    assert new == expected.grammar
    assert new.info["minimised"] == expected.grammar.info["minimised"]
    assert found["symbols"] == expected.records()
    told = {"model": "m", "output": "small", "grammars": 1, "by": "projection", "weigh": "l2"}
    assert {name: found[name] for name in KEYS[:5]} == told
    for key, grammar, path in (("before", old, "m"), ("after", new, "small")):
        assert found[key] == {
            "states": int(grammar.states.sum()),
            "weights": np.count_nonzero(grammar.tensors),
            "bytes": Path(path).stat().st_size,
        }
    assert found["after"]["weights"] < found["before"]["weights"]
    assert found["dropped"] == expected.dropped
    assert 0 < found["dropped"] < 1
    assert [found[name] for name in KEYS[8:14]] == [None] * 6
    assert work_of(new, new.states) <= work_of(old, np.minimum(old.states, 2))
    assert (folder / "m").read_bytes() == Path("m").read_bytes()


def test_text(sapwood: Sapwood, folder: Path) -> None:
    outcome = run(sapwood, "m --cost-of-states 2 -o small")
    real = (
        "projection makes the weights of the grammar real numbers, which are not probabilities: samples and `viterbi` "
        "are not possible with them. To keep probabilities, merge states: give the training trees (--trees, `corpus`) "
        "and not the method projection"
    )
    assert outcome.err.splitlines() == [
        real,
        "without --trees, the approximation favours short trees over parsing accuracy",
    ]
    assert run(sapwood, "m --tolerance 0 -o same").err == f"{real}\n"
    assert run(sapwood, "m --method projection --cost-of-states 2 --trees train.mrg -o seen").err == f"{real}\n"
    assert run(sapwood, "m --cost-of-states 2 -q -o quiet").err == ""
    found = report(sapwood, "m --cost-of-states 2 -o again")
    rows = outcome.out.splitlines()
    assert rows[0] == f"states       {found['before']['states']:,} -> {found['after']['states']:,}"
    assert rows[1] == f"weights      {found['before']['weights']:,} -> {found['after']['weights']:,}"
    assert re.fullmatch(r"file         \d+\.\d kB -> \d+\.\d kB", rows[2])
    assert rows[3] == f"dropped      {found['dropped']:.2%} of the singular values (roots of sums of squares)"
    assert rows.pop(4).startswith("real-valued  1 of 1 grammars")
    assert rows[4] == "symbol       states  singular values"
    most = sorted(found["symbols"], key=lambda record: -record["count"])[:10]
    assert [row.split()[0] for row in rows[5:]] == [record["symbol"] for record in most]
    assert rows[5].split()[1:4] == [str(most[0]["states_before"]), "->", str(most[0]["states"])]
    assert float(rows[5].split()[4]) == pytest.approx(most[0]["singular_values"][0], rel=0.01)
    assert (folder / "again").read_bytes() == (folder / "small").read_bytes()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("--budget 0.4", {"budget": 0.4}),
        ("--cost-of-states 2", {"work": 2}),
        ("--tolerance 0", {"tolerance": 0}),
        ("", {}),
        ("--cost-of-states 2 --weighting gamma", {"work": 2, "weighting": "gamma"}),
        ("--cost-of-states 2 --weighting gamma --gamma 1.5", {"work": 2, "weighting": "gamma", "gamma": 1.5}),
        ("--cost-of-states 2 --symbols none", {"work": 2, "symbols": "none"}),
        ("--cost-of-states 2 --symbols base", {"work": 2, "symbols": "base"}),
    ],
)
def test_options_arrive(sapwood: Sapwood, folder: Path, options: str, settings: dict) -> None:
    name = "pcfg" if "base" in options else "m"
    found = report(sapwood, f"{name} -o small {options}")
    expected = truncate(TensorGrammar.load(name), **settings)
    assert TensorGrammar.load("small") == expected.grammar
    assert found["gamma"] == expected.gamma
    assert found["weigh"] == settings.get("weighting", "l2")
    assert found["before"]["states"] == expected.before.states.sum()
    # Merged symbols are no file's content.
    assert (found["before"]["bytes"] is None) == ("symbols" in settings)
    text = run(sapwood, f"{name} -o small {options}").out
    assert ("gamma  " in text) == (expected.gamma is not None)
    assert ("file  " in text) == ("symbols" not in settings)
    assert folder.is_dir()


def test_trees(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "m --method projection --cost-of-states 2 --trees train.mrg -o small --threads 1")
    grammar = TensorGrammar.load("m")
    corpus = Corpus.from_trees(read_trees("train.mrg"), normaliser=grammar.normaliser, transform=grammar.transform)
    expected = truncate(grammar, work=2, weighting="trees", corpus=corpus)
    assert TensorGrammar.load("small") == expected.grammar
    assert found["weigh"] == "trees"
    for options in ("--weighting trees --trees train.mrg --threads 3", "--trees - --threads 1"):
        stdin = (folder / "train.mrg").read_bytes()
        outcome = sapwood(
            ["minimise", "m", "--method", "projection", "--cost-of-states", 2, "-o", "again", "-q", *options.split()],
            stdin,
        )
        assert (outcome.code, outcome.err) == (0, "")
        assert (folder / "again").read_bytes() == (folder / "small").read_bytes()
    # In another format, and with a bad tree among them.
    sapwood(["convert", "train.mrg", "--to", "export", "-o", "train.export"])
    run(sapwood, "m --method projection --cost-of-states 2 --trees train.export --from export -o again -q")
    assert (folder / "again").read_bytes() == (folder / "small").read_bytes()
    (folder / "bad.mrg").write_text("(S (A b c))\n" + (folder / "train.mrg").read_text())
    assert (
        "bad.mrg:1:9: two words"
        in run(sapwood, "m --method projection --cost-of-states 2 --trees bad.mrg -o again", INPUT).err
    )
    skipped = run(sapwood, "m --method projection --cost-of-states 2 --trees bad.mrg -o again --skip-bad")
    assert skipped.err.startswith("skipped 1 malformed tree(s):\n  bad.mrg:1:9")
    assert (folder / "again").read_bytes() == (folder / "small").read_bytes()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", {}),
        (
            "--budget 0.7 --min-probability 1e-3 --precision single",
            {"budget": 0.7, "min_probability": 1e-3, "half_precision": False},
        ),
        ("--method merging --cost-of-states 2 --distance", {"work": 2, "distances": True}),
    ],
)
def test_merging(sapwood: Sapwood, folder: Path, options: str, settings: dict) -> None:
    found = report(sapwood, f"m --trees train.mrg -o small --threads 2 {options}")
    grammar = TensorGrammar.load("m")
    corpus = Corpus.from_trees(read_trees("train.mrg"), normaliser=grammar.normaliser, transform=grammar.transform)
    expected = run_compression(grammar, corpus, **settings)
    (member,) = expected.members
    small = TensorGrammar.load("small")
    assert ParserModel.load("small") == expected.model
    assert expected.model.cell_pruner is None
    assert small.probabilistic
    assert small.states.sum() < grammar.states.sum()
    assert (found["by"], found["symbols"]) == ("merging", member.records())
    assert {name: found[name] for name in member.to_dict()} == member.to_dict()
    assert (found["l2"] is None) == ("distances" not in settings)
    assert found["after"]["bytes"] < found["before"]["bytes"]
    text = run(sapwood, f"m --trees train.mrg -o small {options} --dev dev.mrg").out
    mean = found["log_likelihood"]
    assert f"\ntrees        {mean['before']:.2f} -> {mean['after']:.2f} log-likelihood each" in text
    # Probabilities can be sampled and searched, and merged again.
    assert sapwood(["parse", "-m", "small", "--decoder", "viterbi", "-s", "the balora balild ."]).code == 0
    assert report(sapwood, "small --trees train.mrg -o smaller")["after"]["states"] < small.states.sum()
    assert folder.is_dir()


@pytest.mark.slow
def test_closed_cells(sapwood: Sapwood, folder: Path) -> None:
    """With enough trees cells are closed, by the first grammar for all, as `compress` does it."""
    (folder / "more.mrg").write_text("".join(f"{tree}\n" for tree in made_up_treebank(150, 3)))
    outcome = run(sapwood, "two --trees more.mrg -o small --cell-recall 0.95")
    assert re.search(r"the cell pruner skips [0-9]+% of all spans, and about 0.05 of the phrases", outcome.err)
    grammars = load_models("two")
    corpus = Corpus.from_trees(
        read_trees("more.mrg"), normaliser=grammars[0].normaliser, transform=grammars[0].transform
    )
    new = ParserModel.load("small")
    assert new == compress(grammars, corpus, cell_recall=0.95)
    assert new.cell_pruner is not None
    assert sapwood(["parse", "-m", "small", "-q"], b"the kalora bild .\n").code == 0
    # Where cells are closed, parsing prunes by another threshold.
    assert [Parser(name).threshold for name in ("two", "small")] == [PRUNING_THRESHOLD, THRESHOLD_WITH_CELL_PRUNER]
    assert Parser("small", threshold=0.01).threshold == 0.01
    run(sapwood, "two --trees more.mrg -o other --threshold 1e-3")
    assert Parser("other").threshold == 1e-3
    few = run(sapwood, "m --trees train.mrg -o small")
    assert Parser("small").threshold == PRUNING_THRESHOLD
    assert "no cell pruner: it requires 100 trees or more, not 50" in few.err


def test_merging_several_grammars_and_base_symbols(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "two --trees train.mrg -o small")
    new = load_models("small")
    assert (found["grammars"], len(new)) == (2, 2)
    assert found["after"]["states"] == sum(int(grammar.states.sum()) for grammar in new)
    assert sapwood(["parse", "-m", "small", "-q"], b"the kalora bild .\n").code == 0
    report(sapwood, "pcfg --symbols base --trees train.mrg -o small")
    assert not any("^" in name for name in TensorGrammar.load("small").symbols)
    assert folder.is_dir()


@pytest.mark.slow
def test_trees_that_show_little(sapwood: Sapwood, folder: Path) -> None:
    tree = "(ROOT (S (NP (DT the) (N balora)) (VP (V balild)) (. .)))\n"
    (folder / "few.mrg").write_text(tree + "(ROOT (Q (Q x)))\n")
    outcome = run(sapwood, "m --method projection --cost-of-states 2 --trees few.mrg -o small --plot values.svg")
    assert "skipped 1 tree(s) with symbols or rules that the grammar lacks\n" in outcome.err
    assert re.search(r"\d+ symbol\(s\) are not in the trees and keep .* states: .*, \.\.\.\n", outcome.err)
    assert (folder / "values.svg").stat().st_size > 1000
    (folder / "few.mrg").write_text("(ROOT (Q (Q x)))\n")
    message = run(sapwood, "m --method projection --cost-of-states 2 --trees few.mrg -o other", INPUT).err
    assert message.startswith("sapwood: few.mrg: none of the trees can be built")
    assert message.endswith("use the treebank that it was trained on\n")
    assert not (folder / "other").exists()


def test_base_symbols_weighed_by_trees(sapwood: Sapwood, folder: Path) -> None:
    """The trees are read with base symbols, as the merged grammar has them."""
    found = report(sapwood, "pcfg --method projection --cost-of-states 2 --symbols base --trees train.mrg -o small")
    small = TensorGrammar.load("small")
    assert not any("^" in name for name in small.symbols)
    before = np.array([record["states_before"] for record in found["symbols"]])
    assert before.max() > small.states.max() > 1
    assert work_of(small, small.states) <= work_of(small, np.minimum(before, 2))
    assert Parser(small).parse_one(["the", "balora", "balild", "."]).status == "parsed"


def test_dev(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "m --tolerance 0 --dev dev.mrg -o small")
    assert list(found["dev"]) == ["before", "after"]
    for name, when in (("m", "before"), ("small", "after")):
        scores = json.loads(sapwood(["eval", "dev.mrg", "-m", name, "--json", "-q"]).out)
        assert found["dev"][when]["f1"] == scores["f1"] > 50
        assert found["dev"][when]["sentences_per_second"] > 0
    text = run(sapwood, "m --tolerance 0 --dev dev.mrg -o small -q").out
    f1 = found["dev"]["before"]["f1"]
    assert f"F1 on dev    {f1:.2f} -> {found['dev']['after']['f1']:.2f}\n" in text
    assert re.search(r"speed        [\d.]+ -> [\d.]+ sentences/s \([\d.]+ times\)\n", text)


@pytest.mark.slow
def test_distance(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "m --cost-of-states 2 --distance -o small")
    expected = truncate(TensorGrammar.load("m"), work=2, distances=True)
    assert expected.closeness is not None
    assert found["l2"] == expected.closeness.l2 > 0
    assert found["l2_relative"] == expected.closeness.relative < 1
    assert found["hankel"] == expected.closeness.hankel
    assert 0 < found["hankel_best"] == expected.best_possible() <= found["hankel"]
    text = run(sapwood, "m --cost-of-states 2 --distance -o small").out
    assert f"l2 distance  {found['l2']:.4g} ({found['l2_relative']:.2%} of the norm)\n" in text
    assert f"closer than {found['hankel_best']:.4g}\n" in text
    # The bound is one for sums over all trees.
    by_trees = report(sapwood, "m --method projection --cost-of-states 2 --distance --trees train.mrg -o small")
    assert by_trees["hankel_best"] is None
    assert by_trees["l2"] > 0
    assert "closer than" not in run(sapwood, "m --cost-of-states 2 --distance --weighting gamma -o small").out
    assert folder.is_dir()


def test_plot(sapwood: Sapwood, folder: Path) -> None:
    run(sapwood, "m --cost-of-states 3 --plot values.svg -o small")
    content = (folder / "values.svg").read_text()
    assert "</svg>" in content
    assert content.count('<g id="axes_') == 12


def test_a_picture_needs_matplotlib(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run(sapwood, "m --cost-of-states 2 --plot values.svg -o small", USAGE)
    assert "drawing needs Matplotlib" in outcome.err
    assert not (folder / "small").exists()


@pytest.mark.slow
def test_several_grammars(sapwood: Sapwood, folder: Path) -> None:
    options = "--method projection --cost-of-states 2 --distance --trees train.mrg"
    found = report(sapwood, f"two {options} -o small --dev dev.mrg --plot values.svg")
    assert found["grammars"] == 2
    old, new = load_models("two"), load_models("small")
    assert len(new) == 2
    assert new[0] != new[1]
    for grammar, before in zip(new, old, strict=True):
        assert work_of(grammar, grammar.states) <= work_of(before, np.minimum(before.states, 2))
    assert found["before"]["states"] == sum(int(grammar.states.sum()) for grammar in old)
    assert found["after"]["weights"] == sum(np.count_nonzero(grammar.tensors) for grammar in new)
    report(sapwood, "m --method projection --cost-of-states 2 --trees train.mrg -o alone")
    assert TensorGrammar.load("alone") == new[0]
    parsed = sapwood(["parse", "-m", "small", "-q"], b"the kalora bild .\n")
    assert (parsed.code, parsed.out.count("\n")) == (0, 1)
    assert folder.is_dir()


def test_what_can_be_done_with_the_model(sapwood: Sapwood, folder: Path) -> None:
    run(sapwood, "m --method projection --cost-of-states 3 --trees train.mrg -o small -q")
    seen = json.loads(sapwood(["inspect", "small", "--json"]).out)
    assert (seen["kind"], seen["probabilistic"]) == ("model", False)
    assert seen["info"]["minimised"]["weighing"] == "trees"
    assert sapwood(["inspect", "small"]).code == 0
    words = "".join(" ".join(tree.words()) + "\n" for tree in read_trees("dev.mrg"))
    parsed = sapwood(["parse", "-m", "small", "-q", "--json", "--marginals"], words.encode())
    assert parsed.code == 0
    assert [json.loads(line)["status"] for line in parsed.out.splitlines()] == ["parsed"] * 6
    # And again, and a model whose weights are real numbers.
    again = report(sapwood, "small --method projection --cost-of-states 2 --trees train.mrg -o smaller")
    assert again["after"]["states"] < again["before"]["states"]
    assert "viterbi needs a probabilistic grammar" in sapwood(
        ["parse", "-m", "small", "--decoder", "viterbi", "-s", "x"]
    ).err  # fmt: skip
    assert folder.is_dir()


def test_full_rank_parses_alike(sapwood: Sapwood, folder: Path) -> None:
    run(sapwood, "m --tolerance 0 -o same -q")
    old, new = (Parser(name, threshold=0) for name in ("m", "same"))
    for tree in read_trees("train.mrg"):
        assert new.tree_log_probability(tree) == pytest.approx(old.tree_log_probability(tree), abs=1e-3)
        break
    for tree in list(read_trees("train.mrg"))[:5]:
        one, other = old.parse_one(tree.words()), new.parse_one(tree.words())
        assert one.tree == other.tree
    assert folder.is_dir()


# -- grammars in text --------------------------------------------------------------------------------------------------


def sentence_weights(path: str) -> list[float]:
    grammar = read_grammar(path)
    return [grammar.weight(list(sentence)) for sentence in ("xz", "yz", "xzz", "yzz", "xzzz", "zx", "xyz")]


def test_a_grammar_in_text(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "grammar.txt --tolerance 0 -o small.txt")
    assert (found["states_before"], found["rank"], found["states"]) == (4, 3, 3)
    assert len(found["singular_values"]) == 3
    assert found["l2_relative"] < 1e-6
    assert found["hankel_best"] == 0
    np.testing.assert_allclose(sentence_weights("small.txt"), sentence_weights("grammar.txt"), rtol=1e-9, atol=1e-12)
    text = run(sapwood, "grammar.txt --tolerance 0 -o small.txt").out
    assert text.splitlines()[0] == "states       4 (rank 3) -> 3"
    assert "l2 distance" in text
    # Fewer states, again in a text that can be read.
    fewer = report(sapwood, "grammar.txt --cost-of-states 2 -o fewer.txt --plot values.svg")
    assert (fewer["states"], fewer["singular_values"]) == (2, found["singular_values"])
    assert fewer["hankel"] >= fewer["hankel_best"] == pytest.approx(found["singular_values"][2], rel=1e-5)
    assert sentence_weights("fewer.txt") != sentence_weights("grammar.txt")
    assert (folder / "values.svg").exists()
    gamma = report(sapwood, "grammar.txt --budget 0.5 --weighting gamma -o gamma.txt")
    assert (gamma["states"], gamma["hankel_best"]) == (2, None)


@pytest.mark.parametrize(
    ("grammar", "code", "message"),
    [
        ("1 -> S\n1 S -> A A\n1e-320 S -> A B\n1 A -> 'a'\n1e-320 B -> 'b'\n", 0, ""),
        ("1 -> S\n1 S -> A A\n1e-320 A -> 'a'\n2 A -> 'b'\n", 0, ""),
        ("1e-320 -> S\n1e-320 S -> A A\n1e-320 A -> 'a'\n", 3, "no tree has any weight"),
    ],
)
def test_weights_next_to_nothing(sapwood: Sapwood, folder: Path, grammar: str, code: int, message: str) -> None:
    """Numbers so small that one divided by them is no number."""
    Path("tiny.wcfg").write_text(grammar)
    outcome = sapwood(["minimise", "tiny.wcfg", "--tolerance", "0", "-o", "out.wcfg", "-q"])
    assert outcome.code == code
    assert message in outcome.err


def test_a_grammar_in_text_becomes_a_model(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "grammar.txt --tolerance 0 -o model.sapwood")
    assert found == {**report(sapwood, "grammar.txt --tolerance 0 -o small.txt"), "output": "model.sapwood"}
    model = TensorGrammar.load("model.sapwood")
    assert (model.symbols, model.states.tolist()) == (["X", "X"], [3, 3])
    assert (folder / "small.txt").read_text().startswith("# A weighted grammar")
    parsed = sapwood(["parse", "-m", "model.sapwood", "-q", "--json"], b"x z\ny x z z\nx y z x z z\nz x\n")
    assert parsed.code == 0
    results = [json.loads(line) for line in parsed.out.splitlines()]
    # The grammar is not ambiguous, so these are the only trees; it does not have the last sentence.
    assert [result["tree"] for result in results[:3]] == [
        "(ROOT (X (X x) (X z)))",
        "(ROOT (X (X y) (X (X (X x) (X z)) (X z))))",
        "(ROOT (X (X x) (X (X (X y) (X z)) (X (X (X x) (X z)) (X z)))))",
    ]
    weights = [read_grammar("grammar.txt").weight(list(sentence)) for sentence in ("xz", "yxzz", "xyzxzz", "zx")]
    found_weights = [np.exp(result["log_probability"]) for result in results[:3]]
    np.testing.assert_allclose(found_weights, weights[:3], rtol=1e-4)
    assert weights[3] == 0
    assert [result["status"] for result in results] == ["parsed"] * 3 + ["coarse"]
    seen = json.loads(sapwood(["inspect", "model.sapwood", "--json"]).out)
    assert (seen["kind"], seen["probabilistic"]) == ("model", False)


@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        ("hello world\n", "", INPUT, "grammar.txt:1: a rule begins with a nonterminal and '->'"),
        ("", "", INPUT, "grammar.txt: no rules"),
        ("S -> S S [1.0] | 'a' [1.0]\n", "", MODEL, "not finite"),
        (TEXT, "--symbols base", USAGE, "--symbols do not apply"),
        (TEXT, "--trees train.mrg", USAGE, "is not a sapwood model; --trees"),
        (TEXT, "--dev dev.mrg", USAGE, "--dev and --symbols do not apply"),
        (TEXT, "--weighting gamma --gamma inf", USAGE, "inf is not in the range"),
        (TEXT, "--weighting gamma --gamma 1e5", MODEL, "gamma = 100000 is too large"),
        ("1 -> S\n1 S -> S S\n0.5 S -> 'a'\n", "", MODEL, "not finite"),
        ("1 -> S\n0.5 S -> a\n", "", INPUT, "grammar.txt: no tree has any weight; are words in quotes"),
        ("1e200 -> S\n1 S -> 'a'\n", "", MODEL, "a weight is larger than 1e+50"),
        ("1 -> S\n1e-200 S -> 'a'\n", "", MODEL, "all weights of words are smaller than 1e-50"),
        (TEXT, "--tolerance nan", USAGE, "'nan' is not a number that can be used"),
        (TEXT, "-k 2", USAGE, "give --cost-of-states 2"),
        (TEXT, "-o grammar.txt", USAGE, "-o grammar.txt: is one of the input files"),
    ],
)
def test_mistakes_with_text(
    sapwood: Sapwood, folder: Path, text: str, options: str, code: int, message: str
) -> None:  # fmt: skip
    (folder / "grammar.txt").write_text(text)
    before = sorted(path.name for path in folder.iterdir())
    outcome = run(sapwood, f"grammar.txt -o small.txt {options}", code)
    assert message in outcome.err
    assert outcome.out == ""
    assert sorted(path.name for path in folder.iterdir()) == before


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("m", USAGE, "Missing option '-o' / '--output'"),
        ("-o out", USAGE, "Missing argument 'MODEL'"),
        ("m m -o out", USAGE, "unexpected extra argument"),
        ("m -o out --cost-of-states 0", USAGE, "0 is not in the range"),
        ("m -o out --budget 0", USAGE, "0.0 is not in the range"),
        ("m -o out --budget nan", USAGE, "'nan' is not a number that can be used"),
        ("m -o out --keep 0.5", USAGE, "--keep was removed; give --budget 0.5: that share of all states"),
        (
            "m -o out -k 8",
            USAGE,
            "-k/--states was removed; give --cost-of-states 8: the same parsing cost, more accurate",
        ),
        ("m -o out --states 8", USAGE, "-k/--states was removed; give --cost-of-states 8"),
        ("m -o out --budget 1.1", USAGE, "1.1 is not in the range"),
        ("m -o out --tolerance 1", USAGE, "1.0 is not in the range"),
        ("m -o out --gamma 0 --weighting gamma", USAGE, "0.0 is not in the range"),
        ("m -o out --gamma nan --weighting gamma", USAGE, "'nan' is not a number that can be used"),
        ("m -o out --cost-of-states 2 --budget 0.5", USAGE, "--cost-of-states, --budget and --tolerance each set"),
        ("m -o out --budget 0.5 --tolerance 0", USAGE, "give only one"),
        ("m -o out --method merging", USAGE, "--method merging requires --trees"),
        ("m -o out --method merging --weighting l2 --trees train.mrg", USAGE, "--method merging requires --trees"),
        (
            "m -o out --min-probability 0.1",
            USAGE,
            "--min-probability, --precision, --cell-recall and --threshold require merging",
        ),
        (
            "m -o out --method projection --trees train.mrg --precision half",
            USAGE,
            "--min-probability, --precision, --cell-recall and --threshold require",
        ),
        (
            "m -o out --method projection --trees train.mrg --cell-recall 0.9",
            USAGE,
            "--min-probability, --precision, --cell-recall and --threshold require",
        ),
        ("m -o out --trees train.mrg --cell-recall 0", USAGE, "0.0 is not in the range"),
        ("m -o out --trees train.mrg --plot values.svg", USAGE, "--plot draws singular values"),
        ("m -o out --weighting trees", USAGE, "--weighting trees needs --trees"),
        ("m -o out --weighting l2 --trees train.mrg", USAGE, "--trees cannot be used with --weighting l2"),
        ("m -o out --weighting gamma --trees train.mrg", USAGE, "--trees cannot be used with --weighting gamma"),
        ("m -o out --gamma 1.2", USAGE, "--gamma requires --weighting gamma"),
        ("m -o out --trees train.mrg --gamma 1.2", USAGE, "--gamma requires --weighting gamma"),
        ("m -o out --trees train.mrg --symbols none", USAGE, "--symbols none cannot be used with --trees"),
        ("m -o out --weighting all", USAGE, "'all' is not one of 'l2', 'gamma', 'trees'"),
        ("m -o out --symbols all", USAGE, "'all' is not one of 'own', 'base', 'none'"),
        ("m -o out --cost-of-states 99999999999999999999", USAGE, "is not in the range"),
        ("m -o m/", INPUT, "m/: is a directory; name a file"),
        ("m -o m", USAGE, "-o m: is one of the input files and would be overwritten"),
        ("m -o ./m", USAGE, "-o ./m: is one of the input files"),
        ("m -o train.mrg --trees train.mrg", USAGE, "-o train.mrg: is one of the input files"),
        ("m -o dev.mrg --dev dev.mrg", USAGE, "-o dev.mrg: is one of the input files"),
        ("m -o out.svg --plot out.svg", USAGE, "--plot out.svg: is also the output of -o"),
        ("m -o out --plot values.txt", USAGE, "the name of a picture must end in .svg, .png or .pdf"),
        ("m -o out --dev -", USAGE, "--dev -: is read twice"),
        ("m -o out --dev /dev/null", USAGE, "--dev /dev/null: is read twice"),
        ("- -o out", USAGE, "name files"),
        ("m -o -", USAGE, "name files"),
        ("nothing -o out", INPUT, "nothing: no such file"),
        ("m -o out --trees nothing.mrg", INPUT, "nothing.mrg: no such file"),
        ("m -o out --dev nothing.mrg", INPUT, "nothing.mrg: no such file"),
        (". -o out", INPUT, "is a directory; name a file"),
        ("m -o .", INPUT, "is a directory; name a file"),
        ("m -o out --dev .", INPUT, "is a directory; name a file"),
        ("m -o no/where", INPUT, "no: no such directory; make it first"),
        ("m -o out --plot no/where.svg", INPUT, "no: no such directory; make it first"),
        ("m -o out --trees grammar.txt", INPUT, "grammar.txt:1:1: text outside any bracket"),
        ("m -o out --trees empty.mrg", INPUT, "empty.mrg: no trees"),
        ("m -o out --weighting gamma --gamma 1000", MODEL, "not finite"),
        ("lm -o out", MODEL, "lm: holds "),
        ("corpus -o out", MODEL, "corpus: holds a corpus, not a model"),
        ("damaged -o out", MODEL, "damaged: damaged: its content does not match its digest"),
        ("text.sapwood -o out", MODEL, "text.sapwood: not a sapwood file"),
    ],
)
def test_mistakes_are_explained(sapwood: Sapwood, folder: Path, arguments: str, code: int, message: str) -> None:
    (folder / "empty.mrg").write_text("")
    if "lm" in arguments:
        (folder / "some.txt").write_text("the cat sees the dog\nthe dog sees a cat\n" * 5)
        assert sapwood(["lm", "train", "some.txt", "--method", "kn", "-o", "lm", "-q"]).code == 0
    if "corpus" in arguments:
        Corpus.from_trees(made_up_treebank(2)).save("corpus")
    if "damaged" in arguments:
        content = bytearray(Path("m").read_bytes())
        content[-1] ^= 1
        Path("damaged").write_bytes(content)
    Path("text.sapwood").write_text(TEXT)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = sapwood(["minimise", *arguments.split()])
    assert outcome.code == code, outcome
    assert message in outcome.err
    assert outcome.out == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_interrupt_leaves_nothing(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt

    before = sorted(folder.iterdir())
    for place in ("os.replace", "sapwood.automata.gram._Solver.trees"):
        with monkeypatch.context() as patch:
            patch.setattr(place, stopped)
            outcome = run(sapwood, "m --cost-of-states 2 -o small --plot values.svg", 130)
            assert outcome.err.endswith("sapwood: interrupted\n")
        assert sorted(folder.iterdir()) == before


def test_the_other_spelling_is_understood(sapwood: Sapwood, folder: Path) -> None:
    spelled = [sapwood([name, "m", "--cost-of-states", 2, "-o", name, "-q"]) for name in ("minimise", "minimize")]
    assert [outcome.code for outcome in spelled] == [0, 0]
    assert spelled[0].out == spelled[1].out
    assert (folder / "minimise").read_bytes() == (folder / "minimize").read_bytes()
    listed = sapwood(["--help"]).out
    assert "minimise" in listed
    assert "minimize" not in listed


def test_removed_options_are_not_listed(sapwood: Sapwood) -> None:
    words = sapwood(["minimise", "--help"]).out.split()
    assert {"--cost-of-states", "--budget", "--tolerance"} <= set(words)
    assert not {"-k", "-k,", "--states", "--keep"} & set(words)


def test_choices_are_those_of_the_library() -> None:
    from sapwood.automata.reduce.truncation import Symbols, Weighting

    command = main.get_command(None, "minimise")  # type: ignore[attr-defined]
    choices = {option.name: option.type.choices for option in command.params if hasattr(option.type, "choices")}
    assert tuple(choices["weigh"]) == Weighting.__args__  # type: ignore[attr-defined]
    assert tuple(choices["symbols"]) == Symbols.__args__  # type: ignore[attr-defined]


def test_cp(sapwood: Sapwood, folder: Path) -> None:
    found = report(sapwood, "plain --method cp --rank 9 --seed 4 --dev dev.mrg -o factored")
    model = ParserModel.load("factored")
    assert model.cp is not None
    assert model == compress(ParserModel.load("plain"), method="cp", rank=9, random_state=4)
    assert (found["by"], found["rank"], found["after"]["weights"]) == ("cp", 9, 3 * model.cp.parent.size)
    assert found["after"]["bytes"] == Path("factored").stat().st_size
    assert found["dev"]["after"]["f1"] > 0
    outcome = run(sapwood, "plain --method cp --rank 9 --seed 4 --threads 2 -o again -q")
    assert "rank         9; the rules stay in the file" in outcome.out.splitlines()
    assert Path("again").read_bytes() == Path("factored").read_bytes()
    assert run(sapwood, "plain --by cp --rank 9 --seed 5 -o other -q").code == 0
    assert Path("other").read_bytes() != Path("factored").read_bytes()
    assert "rank 9" in sapwood(["inspect", "factored"]).out
    parsed = sapwood(["eval", "-m", "factored", "dev.mrg", "--json"])
    assert json.loads(parsed.out)["f1"] == pytest.approx(found["dev"]["after"]["f1"], abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plain --method cp -o new", "--method cp needs --rank"),
        ("plain --rank 4 -o new", "--rank and --seed require --method cp"),
        ("plain --method cp --rank 4 --trees train.mrg -o new", "give only --rank, --seed and --dev"),
        ("plain --method cp --rank 4 --budget 0.5 -o new", "give only --rank, --seed and --dev"),
        ("plain --method cp --rank 4 --plot a.svg -o new", "a CP decomposition has none"),
        ("two --method cp --rank 4 -o new", "is for one grammar, and this model has 2"),
    ],
)
def test_cp_mistakes(sapwood: Sapwood, folder: Path, arguments: str, message: str) -> None:
    outcome = sapwood(["minimise", *arguments.split()])
    assert outcome.code != 0
    assert message in outcome.err
    assert not Path("new").exists()


def test_probabilities_do_not_disappear_silently(sapwood: Sapwood, folder: Path) -> None:
    outcome = run(sapwood, "two --cost-of-states 2 -o small -q")
    row = "real-valued  2 of 2 grammars, which had probabilities before; --trees without --method projection keeps them"
    assert row in outcome.out.splitlines()
    assert "real-valued" not in run(sapwood, "small --tolerance 0.3 -o smaller -q").out
    assert "real-valued" not in run(sapwood, "m --trees train.mrg -o merged -q").out
