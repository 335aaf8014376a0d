"""`sapwood induce`, and what other commands do with its models."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cli.conftest import TREES
from helpers.treebank_files import treebank
from sapwood import Tree, induce, load
from sapwood.errors import ModelError, UsageError
from sapwood.grammar import TensorGrammar
from sapwood.induction.em_model import EMModel
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.learners import DEFAULT_MODEL, DMV, INDUCERS, make_inducer
from sapwood.induction.parser import InducedGrammarParser, InducedParser
from sapwood.induction.text import make_text, read_sentences
from sapwood.pipeline import ensemble_induction
from sapwood.runtime.log import read_log

QUICK: dict[str, dict[str, object]] = {
    "tensor-pcfg": {"states": 2, "iterations": 6, "warmup": 1, "warmup_decay": 2},
    "simple-pcfg": {"nonterminals": 3, "embedding": 4, "epochs": 3, "lengths": (4, 10), "across_begin": 0.5},
    "dmv": {"iterations": 4, "lengths": (4, 10)},
    "ccm": {"iterations": 3},
    "dmv+ccm": {"iterations": 3},
    "pcfg": {"states": 2, "iterations": 4, "restarts": 2},
    "pcfg-i": {"states": 2, "iterations": 4},
    "pcfg-ie": {"states": 2, "iterations": 4, "estimate": "variational", "prior": 0.2},
    "dep-i": {"iterations": 4, "anneal": 0.5},
    "dep-ie": {"iterations": 4},
    "dep-ies": {"iterations": 4},
}
every_model = pytest.mark.parametrize("model", list(INDUCERS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.mrg").write_text(TREES * 3)
    tagged = [Tree.parse(line) for line in TREES.splitlines() * 3]
    pairs = (zip(tree.words(), tree.tags(), strict=True) for tree in tagged)
    Path("tagged.txt").write_text("".join(" ".join(f"{w}/{t}" for w, t in row) + "\n" for row in pairs))
    Path("plain.txt").write_text("".join(" ".join(tree.words()) + "\n" for tree in tagged))
    return tmp_path


def options(settings: dict[str, object]) -> list[str]:
    def written(value: object) -> str:
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

    return [f"--{name.replace('_', '-')}={written(value)}" for name, value in settings.items()]


@every_model
def test_command_library_and_inducer_give_the_same_bytes(folder, sapwood, model):
    for kind, given in (("a.mrg", ["--tags"]), ("plain.txt", ["--classes=4"])):
        found = sapwood(
            ["induce", kind, "--model", model, *given, *options(QUICK[model]), "-o", "command", "--threads=2"]
        )
        assert found.code == 0, found.err
        asked = {"tags": True} if given == ["--tags"] else {"classes": 4}
        rows = list(read_sentences(kind))
        induce(rows, model=model, output="library", **asked, **QUICK[model])  # type: ignore[arg-type]
        make_inducer(model, **QUICK[model]).fit(make_text(rows, **asked)).save("python")  # type: ignore[arg-type]
        assert Path("command").read_bytes() == Path("library").read_bytes() == Path("python").read_bytes()
        # First of all it says whether the model can be found.
        assert model in found.err.splitlines()[0]


def test_tagged_text_is_as_good_as_trees(folder, sapwood):
    for kind in ("a.mrg", "tagged.txt"):
        assert sapwood(["induce", kind, "--tags", "--model=dmv", "-o", f"{kind}.model", "-q"]).code == 0
    assert Path("a.mrg.model").read_bytes() == Path("tagged.txt.model").read_bytes()


@every_model
def test_models_parse_score_and_show_what_they_are(folder, sapwood, model):
    assert sapwood(["induce", "a.mrg", "--tags", "--model", model, *options(QUICK[model]), "-o", "m", "-q"]).code == 0
    text = b"she sees cats , dogs and unicorns .\n\n.\ndinner\n"
    found = sapwood(["parse", "-m", "m", "--to", "brackets"], text)
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert [" ".join(Tree.parse(line).words()) if line else "" for line in lines] == text.decode().splitlines()
    found = sapwood(["parse", "-m", "m", "--tags", "--json"], b"she/PRP sleeps/VBZ ./.\n")
    assert json.loads(found.out)["words"] == ["she", "sleeps", "."]
    assert "(. .)" in json.loads(found.out)["tree"]
    wrong = sapwood(["parse", "-m", "m", "--tags"], b"she/PRONOUN sleeps/VBZ\n")
    assert wrong.code == 3
    assert "<stdin>:1: the model has no tag 'PRONOUN'" in wrong.err
    shown = sapwood(["inspect", "m"])
    assert shown.code == 0
    assert json.loads(sapwood(["inspect", "m", "--json"]).out)["info"]["method"] == f"induce {model}"
    scores = sapwood(["eval", "a.mrg", "-m", "m", "--gold-tags", "--json"])
    assert scores.code == 0, scores.err
    found = json.loads(scores.out)
    assert found["all"]["sentences"] == 18
    assert 30 < found["all"]["f1"] <= 100
    heads = isinstance(load("m"), InducedModel) and load("m").heads is not None
    assert ("directed" in found["all"]) == heads
    assert sapwood(["eval", "a.mrg", "-m", "m"]).code == 0
    if not heads:
        return
    conllu = sapwood(["parse", "plain.txt", "-m", "m", "-o", "out.conllu"])
    assert conllu.code == 0
    again = json.loads(sapwood(["eval", "a.mrg", "out.conllu", "--json"]).out)
    plain = json.loads(sapwood(["eval", "a.mrg", "-m", "m", "--json"]).out)
    assert again["all"]["directed"] == pytest.approx(plain["all"]["directed"])


def test_punctuation_is_kept_when_asked_for(folder, sapwood):
    sapwood(["induce", "a.mrg", "--tags", *options(QUICK["tensor-pcfg"]), "--punctuation=keep", "-o", "m", "-q"])
    grammar = TensorGrammar.load("m")
    assert "." in grammar.symbols
    parser = InducedGrammarParser(grammar)
    assert parser.parse_one([("dogs", "NNS"), ("!", ".")]).tree == Tree.parse("(ROOT (X (NNS dogs) (. !)))")


def test_spans_of_a_sentence_keep_their_places(folder):
    grammar = induce(list(read_sentences("a.mrg")), tags=True, **QUICK["tensor-pcfg"]).model  # type: ignore[arg-type]
    parser = InducedGrammarParser(grammar, marginals=True, alternatives=2)
    result = parser.parse_one(["``", "cats", ",", "sleep", "."])
    places = {(one.start, one.end) for one in result.marginals}
    assert places == {(1, 4), (1, 2), (3, 4)}
    assert [tree.words() for tree, _ in result.alternatives] == [result.words] * 2
    assert parser.parse_one(["."]).tree == Tree.parse("(ROOT (PUNCT .))")
    assert parser.parse_one([]).status == "empty"
    with pytest.raises(UsageError, match="punctuation is set aside"):
        parser.parse_one(["cats", "."], phrases=[(0, 1, None)])
    with pytest.raises(UsageError, match="not a string"):
        parser.parse_one("cats sleep")


@pytest.mark.parametrize("model", ["dmv", "pcfg", "tensor-pcfg"])
def test_an_interrupted_run_goes_on(folder, sapwood, model, monkeypatch):
    arguments = ["induce", "a.mrg", "--tags", "--model", model, *options(QUICK[model]), "--tolerance=0"]
    assert sapwood([*arguments, "-o", "whole", "--log", "whole.jsonl", "-q"]).code == 0
    honest, calls = EMModel.em_step, []

    def stopping(self, counts, when):
        calls.append(type(self).__name__)
        if (calls.count(calls[-1]) == 4 and calls[-1] != "DMVProblem") or (model == "dmv" and len(calls) == 4):
            raise KeyboardInterrupt
        return honest(self, counts, when)

    monkeypatch.setattr(EMModel, "em_step", stopping)
    stopped = sapwood([*arguments, "-o", "part", "--log", "part.jsonl"])
    assert stopped.code == 130
    assert "part.checkpoint holds the progress so far" in stopped.err
    monkeypatch.setattr(EMModel, "em_step", honest)
    refused = sapwood([*arguments, "-o", "part"])
    assert refused.code == 2
    assert "continue with --resume" in refused.err
    other = sapwood([*arguments, "--seed=3", "-o", "part", "--resume"])
    assert "other settings or text" in other.err
    with pytest.raises(ModelError, match="state of a training run"):
        load("part.checkpoint")
    assert sapwood([*arguments, "-o", "part", "--log", "part.jsonl", "--resume"]).code == 0
    assert Path("whole").read_bytes() == Path("part").read_bytes()
    assert not Path("part.checkpoint").exists()
    whole, part = (
        [{key: value for key, value in line.items() if key != "seconds"} for line in read_log(name)]
        for name in ("whole.jsonl", "part.jsonl")
    )
    assert whole == part
    assert whole[0]["event"] == "start"
    assert sapwood(["plot", "whole.jsonl", "-o", "a.svg"]).code == 0


def test_committees(folder, sapwood, monkeypatch):
    monkeypatch.setattr(ensemble_induction, "STUDENT", {"method": "pcfg"})
    Path("given.mrg").write_text(TREES * 3)
    members = ["dmv:4", "simple-pcfg:4", "given.mrg"]
    settings = ["--iterations=2", "--epochs=1", "--nonterminals=4", "--classes=5", "--seed=3"]
    found = sapwood(["induce", "a.mrg", "--ensemble", ",".join(members), *settings, "--gold", "-o", "command"])
    assert found.code == 0, found.err
    assert "averaged the trees of 3 members" in found.err
    assert found.out.splitlines()[0].startswith("all lengths")
    rows = [line.split()[0] for line in found.out.splitlines() if line]
    assert rows[2:10] == ["left-branching", "right-branching", "balanced", "random", *members, "averaged"]
    given = {"iterations": 2, "epochs": 1, "nonterminals": 4, "classes": 5, "seed": 3}
    ensemble_induction.induce_ensemble(read_sentences("a.mrg"), ensemble=members, output="library", **given)
    assert Path("command").read_bytes() == Path("library").read_bytes()
    parsed = sapwood(["parse", "-m", "command"], stdin=b"the cat , sleeps .\n")
    assert Tree.parse(parsed.out).words() == ["the", "cat", ",", "sleeps", "."]
    asked = ["induce", "plain.txt", "--ensemble=dmv:3", "--iterations=1", "--binary", "--trees=averaged.mrg"]
    report = sapwood([*asked, "--json", "-q", "-o", "m", "--save-config=run.toml"])
    assert json.loads(report.out)["members"] == ["dmv:3"]
    assert sapwood(["induce", "plain.txt", "--config=run.toml", "-q", "-o", "n"]).code == 0
    assert Path("m").read_bytes() == Path("n").read_bytes()
    trees = [Tree.parse(line) for line in Path("averaged.mrg").read_text().splitlines()]
    assert [tree.words() for tree in trees] == [line.split() for line in Path("plain.txt").read_text().splitlines()]


def test_settings_files_repeat_a_run(folder, sapwood):
    asked = ["--tags", "--model=pcfg", "--states=2", "--iterations=3", "--seed=4", "--lengths=6"]
    assert sapwood(["induce", "a.mrg", *asked, "--save-config=run.toml", "-o", "a", "-q"]).code == 0
    assert sapwood(["induce", "a.mrg", "--config=run.toml", "-o", "b", "-q"]).code == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()


def test_gold_trees_are_looked_at_when_asked_for(folder, sapwood):
    found = sapwood(["induce", "a.mrg", "--tags", "--model=dmv", "--lengths=12", "--gold", "-o", "m", "-q"])
    assert [line.split("  ")[0] for line in found.out.splitlines() if line][:3] == [
        "up to 10 words", "-" * len(found.out.splitlines()[1]), "left-branching",
    ]  # fmt: skip
    assert "right-branching" in found.out
    assert "heads behind" in found.out
    Path("last.heads").write_text("* right\n")
    others = sapwood(
        ["induce", "a.mrg", "--tags", "--model=dmv", "--lengths=12", "--gold", "--heads=last.heads", "-o", "m", "-q"]
    )
    same = [a == b for a, b in zip(found.out.splitlines(), others.out.splitlines(), strict=True)]
    assert same[2:6] == [True] * 4  # spans have no heads
    assert same[6:10] == [False] * 4
    report = json.loads(sapwood(["induce", "a.mrg", "--model=dmv", "--json", "-o", "n", "-q"]).out)
    assert (report["kind"], report["sentences"]) == ("heads", 18)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plain.txt", "--tags"], "plain.txt: sentence 1: 'the' has no tag"),
        (["a.mrg", "--tags", "--classes=3"], "--classes cannot be used with --tags"),
        (["a.mrg", "--tags", "--vocabulary=3"], "--vocabulary learns from words"),
        (["a.mrg", "--classes=2", "--vocabulary=3"], "--vocabulary learns from words"),
        (["a.mrg", "--tags", "--model=dmv", "--states=3"], "--states requires --model tensor-pcfg or pcfg"),
        (["a.mrg", "--tags", "--model=dmv", "--method=unmix"], "--method requires --model pcfg or"),
        (["a.mrg", "--tags", "--lengths=0"], "--lengths must be at least 1, not 0"),
        (["a.mrg", "--tags", "--lengths=2.5"], "--lengths must be whole numbers"),
        (["a.mrg", "--tags", "--anneal=2"], "--anneal must be above 0 and at most 1"),
        (["a.mrg", "--tags", "--start=harmonic"], "--start must be one of dmv, ccm, right, random"),
        (["a.mrg", "--tags", "--lengths=1"], "no sentences of 2 to 1 words"),
        (["plain.txt", "--gold"], "--gold requires a treebank"),
        (["a.mrg", "--heads=english"], "--heads requires --gold"),
        (["a.mrg", "--binary"], "--binary requires --ensemble"),
        (["a.mrg", "--trees=x.mrg"], "--trees requires --ensemble"),
        (["a.mrg", "--ensemble=2", "--model=dmv"], "--model cannot be used with --ensemble"),
        (["a.mrg", "--ensemble=2", "--log=x.jsonl"], "--log cannot be used with --ensemble"),
        (["a.mrg", "--ensemble=0"], "0 is not in the range"),
        (["a.mrg", "--ensemble=99"], "--ensemble must be 1 to"),
        (["a.mrg", "--ensemble=dmv,none.mrg"], "'none.mrg' is neither a file nor a model"),
        (["a.mrg", "--ensemble=dmv", "--states=3"], "no member of the ensemble has a setting 'states'"),
        (["a.mrg", "--gold", "--heads=no.heads"], "no.heads: no such file"),
        (["none.txt"], "none.txt: no such file"),
        (["a.mrg", "--model=hmm"], "'hmm' is not one of 'tensor-pcfg'"),
        (["a.mrg", "--tags", "--model=pcfg", "--states=30", "--method=unmix"], "learn from fewer classes of words"),
    ],
)
def test_mistakes_are_explained(folder, sapwood, arguments, message):
    found = sapwood(["induce", *arguments, "-o", "m"])
    assert found.code in (2, 3)
    assert message in found.err
    assert not Path("m").exists()


def test_models_of_heads_are_no_grammars(folder, sapwood):
    sapwood(["induce", "a.mrg", "--tags", "--model=dmv", "-o", "m", "-q"])
    sapwood(["induce", "a.mrg", "--tags", "--model=ccm", "-o", "n", "-q"])
    for arguments, message in (
        (["parse", "plain.txt", "-m", "m", "-m", "n"], "cannot be combined with others"),
        (["parse", "plain.txt", "-m", "m", "--decoder=viterbi"], "is for grammars"),
        (["parse", "plain.txt", "-m", "m", "-o", "out/"], "one file at a time"),
        (["parse", "plain.txt", "-m", "n", "--to=conllu"], "ccm has no heads"),
        (["eval", "a.mrg", "-m", "m", "--params=collins"], "is for grammars"),
        (["minimise", "m", "-o", "x"], "m: holds an induced-model, not a model"),
    ):
        found = sapwood(arguments)
        assert found.code in (2, 4), arguments
        assert message in found.err


def test_unmixing_on_few_classes(folder, sapwood):
    for method in ("unmix", "unmix+em"):
        found = sapwood(
            ["induce", "plain.txt", "--classes=3", "--model=dep-ie", "--method", method, "--iterations=3", "-o", method]
        )
        assert found.code == 0, found.err
        assert "dep-ie is identifiable" in found.err
        assert "unmixing:" in found.err  # so few sentences make it doubtful, and it says so
    assert load("unmix").info.get("iterations") is None
    assert load("unmix+em").info["iterations"] == 3


def test_inducers_are_values():
    assert make_inducer() == INDUCERS[DEFAULT_MODEL]()
    assert repr(DMV(lengths=10)) == "DMV(lengths=(10,))"
    assert DMV(lengths=10, threads=2) == DMV(lengths=(10.0,))
    with pytest.raises(UsageError, match="dmv has no setting 'states'"):
        make_inducer("dmv", states=3)
    with pytest.raises(UsageError, match="no model 'hmm' to induce"):
        make_inducer("hmm")
    with pytest.raises(UsageError, match="fit takes a Text, not list"):
        DMV().fit([["a"]])  # type: ignore[arg-type]
    text = make_text([["a", "b"]], classes=0)
    with pytest.raises(UsageError, match="are settings of the Text"):
        induce(text, tags=True)
    with pytest.raises(UsageError, match="resume: requires output"):
        induce(text, resume=True)


def test_sentences_that_are_too_long_branch_to_the_right(folder):
    model = induce(list(read_sentences("a.mrg")), tags=True, model="dmv").model
    assert isinstance(model, InducedModel)
    result = InducedParser(model, max_words=3).parse_one([("cats", "NNS")] * 4)
    assert (result.status, result.heads) == ("too long", [-1, 0, 1, 2])
    assert result.to_dict()["heads"] == [0, 1, 2, 3]  # as in CoNLL-U
    assert {(start, end) for start, end, _ in result.tree.spans()} == {(0, 4), (1, 4), (2, 4)}
    assert InducedParser(model).parse_one([]).status == "empty"


def test_sentences_without_probability_branch_to_the_right(folder, monkeypatch):
    model = induce(list(read_sentences("a.mrg")), tags=True, model="dmv").model
    assert isinstance(model, InducedModel)
    monkeypatch.setattr(
        InducedModel, "posteriors", lambda self, terminals, divided=None: SimpleNamespace(logarithms=[-np.inf])
    )
    result = InducedParser(model).parse_one([("cats", "NNS")] * 3)
    assert (result.status, result.heads) == ("parsed", [-1, 0, 1])
    assert {(start, end) for start, end, _ in result.tree.spans()} == {(0, 3), (1, 3)}


@pytest.mark.slow
def test_newspaper_text_beats_right_branching():
    """What is promised: on sentences of up to ten tags ten points of F1 more, and heads of 40 %."""
    from sapwood.induction.evaluation import Gold, score_baselines, score_model

    trees = [tree for part in ("train", "dev", "test") for tree in read_sentences(treebank(f"wsj-sample/{part}.mrg"))]
    gold = [one for one in map(Gold.of_tree, trees) if one is not None and len(one.tokens) <= 10]
    text = make_text([one.tokens for one in gold], tags=True)
    baselines = score_baselines(gold, heads=False)
    right = baselines["right-branching"].f1
    assert right == max(result.f1 for result in baselines.values()) == pytest.approx(63.3, abs=0.05)
    heads = score_model(make_inducer("dmv", lengths=10).fit(text), gold)
    assert heads.directed > 40
    assert heads.f1 > right + 10
    phrases = score_model(make_inducer("tensor-pcfg", lengths=10).fit(text), gold)
    assert phrases.f1 > right + 10
    assert score_model(make_inducer("ccm").fit(text), gold).f1 > right + 5
    assert np.all([score_model(make_inducer("dmv+ccm").fit(text), gold).f1 > right + 10])


PLAIN = ["the old dog barks, and runs.", "a cat sees the dog, and sleeps.", "cats sleep, dogs bark."] * 3


@pytest.mark.parametrize("model", ["tensor-pcfg", "dmv"])
def test_plain_text_is_recognised(folder, sapwood, model):
    """In learning, and in parsing with models of phrases and of heads."""
    lines = "\n".join(PLAIN) + "\n"
    Path("raw.txt").write_text(lines)
    Path("cut.txt").write_text(lines.replace(",", " ,").replace(".", " ."))
    command = ["induce", "--model", model, "--classes=4", "--iterations=1", "-o", "m"]
    assert "punctuation is attached to words" in (told := sapwood([*command, "raw.txt"]).err)
    assert "sapwood tokenise" in told
    assert "attached to words" not in sapwood([*command, "cut.txt"]).err
    assert "attached to words" not in sapwood(["parse", "cut.txt", "-m", "m"]).err
    assert "punctuation is attached to words" in (told := sapwood(["parse", "raw.txt", "-m", "m"]).err)
    assert "--raw" in told
