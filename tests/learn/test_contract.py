"""Every learner keeps the contract; and Python, the library function and the command train the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from sapwood.cli.main import main
from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import DevSet
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn import EM, PCFG, Learner, Spectral, SplitMerge
from sapwood.learn.registry import DEFAULT_METHOD, LEARNERS, find_learner, make_learner, methods
from sapwood.model import ParserModel
from sapwood.pipeline.recipe import recommended
from sapwood.pipeline.train import train
from sapwood.runtime.executor import Threads
from sapwood.runtime.params import as_json, integer
from sapwood.testing import ContractError, check_learner
from sapwood.testing.learners import small_treebank
from sapwood.trees.corpus import Corpus

# Settings that make each method quick.
QUICK: dict[str, dict[str, object]] = {
    "pcfg": {},
    "em": {"states": 2, "iterations": 4, "eval_every": 2},
    "split-merge": {"cycles": 2, "iterations": 3, "smoothing_iterations": 2},
    "spectral": {"states": 2, "min_support": 5, "backoff": 10.0},
    "cluster": {"states": 2, "min_support": 5, "iterations": 2},
    "pivot": {"states": 2, "min_support": 5},
    "pivot+em": {"states": 2, "min_support": 5, "iterations": 2},
}
every_method = pytest.mark.parametrize("method", list(LEARNERS))
TREES, DEV = small_treebank(60, seed=2), small_treebank(12, seed=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.mrg").write_text("".join(f"{tree}\n" for tree in TREES))
    Path("dev.mrg").write_text("".join(f"{tree}\n" for tree in DEV))
    return tmp_path


@every_method
def test_every_learner_keeps_the_contract(method):
    check_learner(make_learner(method, **QUICK[method]))


def command(*arguments: object) -> str:
    outcome = CliRunner().invoke(main, ["train", *map(str, arguments), "-q"], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


@every_method
@pytest.mark.parametrize("dev", [None, DEV], ids=["alone", "dev"])
def test_command_and_library_train_the_same_bytes(folder, method, dev):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in QUICK[method].items()]
    if dev:
        options += ["--dev", "dev.mrg"]
    command("train.mrg", "--method", method, "-o", "command", *options)
    train(TREES, method=method, dev=dev, output="library", **QUICK[method])
    learner = make_learner(method, **QUICK[method])
    ParserModel.from_grammars(learner.fit(learner.prepare(TREES), dev=dev).with_info(seed=0)).save("python")
    assert Path("command").read_bytes() == Path("library").read_bytes() == Path("python").read_bytes()


def test_defaults_are_the_same(folder):
    """Not only with settings given: what nobody says anything of is the same, too."""
    for method, cls in LEARNERS.items():
        assert make_learner(method) == cls()
    command("train.mrg", "-o", "command")
    trained = train(TREES, output="library")
    assert Path("command").read_bytes() == Path("library").read_bytes()
    recipe = recommended(len(TREES))
    assert [grammar.info["settings"] for grammar in trained.grammars] == [one.settings() for one in recipe.learners]
    assert trained.meta["network"] == recipe.span_scorer.settings()
    assert trained.meta["layer"] == recipe.crf.settings()
    assert DEFAULT_METHOD == "split-merge"
    command("train.mrg", "--fast", "-o", "fast")
    assert TensorGrammar.load("fast").info["settings"] == PCFG().settings()


def test_ensembles_of_command_and_library(folder):
    command("train.mrg", "--method", "em", "--states", 2, "--iterations", 2, "--ensemble", 2, "--seed", 5, "-o", "a")
    train(TREES, method=EM(states=2, iterations=2, random_state=5), ensemble=2, output="b")
    assert Path("a").read_bytes() == Path("b").read_bytes()
    assert len(train(TREES, method="em", states=2, iterations=1, ensemble=2).grammars) == 2


def test_a_run_goes_on_where_it_was(folder):
    whole = train(TREES, method="em", **QUICK["em"], output="whole", log="log")
    with pytest.raises(UsageError, match="requires output"):
        train(TREES, method="em", resume=True)
    with pytest.raises(UsageError, match="same grammar from every seed"):
        train(TREES, method="pcfg", ensemble=2)
    again = train(TREES, method="em", **QUICK["em"], output="whole", resume=True)
    assert again == whole
    again.save("copy")
    assert TensorGrammar.load("copy") == whole.grammar


def test_settings_files_repeat_a_run(folder):
    options = ("--method", "em", "--states", 2, "--iterations", 3, "--seed", 4, "--horizontal", 1)
    command("train.mrg", *options, "--save-config", "run.toml", "-o", "a")
    command("train.mrg", "--config", "run.toml", "-o", "b")
    assert Path("a").read_bytes() == Path("b").read_bytes()
    command("train.mrg", "--config", "run.toml", "--seed", 5, "-o", "c")
    assert Path("c").read_bytes() != Path("a").read_bytes()


def test_settings_by_name_and_value(folder):
    command("train.mrg", "--method", "em", "--set", "states=2", "--set", "iterations=3", "-o", "a")
    command("train.mrg", "--method", "em", "--states", 2, "--iterations", 3, "-o", "b")
    assert Path("a").read_bytes() == Path("b").read_bytes()
    for pair, message in (
        ("lexical={rare=3}", "--lexical must be LexicalSettings, not {'rare': 3}"),
        ("threads=0", "threads must be at least 1, not 0"),
        ("threads='two'", "--threads must be int, not 'two'"),
        ("init='m'", "--init must be TensorGrammar, not 'm'"),
    ):
        outcome = CliRunner().invoke(main, ["train", "train.mrg", "--method", "em", "--set", pair, "-o", "c"])
        assert isinstance(outcome.exception, UsageError), pair
        assert message in str(outcome.exception)
    wrong = CliRunner().invoke(main, ["train", "train.mrg", "--set", "states", "-o", "c"])
    assert isinstance(wrong.exception, UsageError)
    assert "write NAME=VALUE" in str(wrong.exception)


def test_dev_trees_are_read_once_and_grammars_built_once(monkeypatch):
    corpus = SplitMerge.prepare(TREES)
    scored: list[object] = []
    honest = DevSet._measured
    monkeypatch.setattr(DevSet, "_measured", lambda self, *a: scored.append(a) or honest(self, *a))
    dev = iter(DEV)  # nobody can read them twice
    held_out = DevSet(dev, corpus)
    model = train(corpus, method="split-merge", dev=held_out, **QUICK["split-merge"])
    assert held_out.score(model).sentences == len(DEV)
    assert len(scored) == 2  # one for each cycle: the result's scores are those of its cycle


def test_learners_are_values():
    assert EM(states=3) == EM(states=3) != EM(states=4)
    assert EM(states=3, threads=2) == EM(states=3, workers=Threads(2)) == EM(states=3)
    assert repr(EM()) == "EM()"
    assert repr(EM(states=3, prior=0.5)) == "EM(states=3, prior=0.5)"
    assert EM(states=3).replace(states=4) == EM(states=4)
    with pytest.raises(AttributeError):
        EM().states = 3  # type: ignore[misc]
    with pytest.raises(UsageError, match="em has no setting 'cycles'; it has "):
        EM().replace(cycles=2)
    with pytest.raises(UsageError, match="split-merge has no setting 'states'"):
        make_learner("split-merge", states=2)
    with pytest.raises(UsageError, match="no method 'magic'; choose from split-merge, "):
        make_learner("magic")
    with pytest.raises(UsageError, match=r"fit takes a Corpus, not list: PCFG\(\)\.prepare\(trees\)"):
        PCFG().fit(TREES)  # type: ignore[arg-type]


def test_features_without_a_name_cannot_be_remembered(tmp_path):
    corpus = Corpus.from_trees(TREES)
    learner = Spectral(states=2, min_support=5, inside=[lambda table: table.height], outside=["parent-label"])
    learner.fit(corpus)
    with pytest.raises(UsageError, match="a feature without a name"):
        learner.fit(corpus, checkpoint=tmp_path / "checkpoint")


@dataclass(frozen=True, kw_only=True, repr=False)
class Forgetful(PCFG):
    """Says nothing of its settings."""

    method: ClassVar[str] = "forgetful"
    depth: int = integer(2, "How deep.", low=1)

    def _learn(self, *arguments):
        return super()._learn(*arguments).with_info(settings={})


@dataclass(frozen=True, kw_only=True, repr=False)
class Undeclared(PCFG):
    """Has a field that no setting declares."""

    method: ClassVar[str] = "undeclared"
    depth: int = 2


class Moody(PCFG):
    """Never the same twice."""

    method: ClassVar[str] = "moody"
    times: ClassVar[list[int]] = []

    def _learn(self, *arguments):
        self.times.append(1)
        return super()._learn(*arguments).with_info(times=len(self.times))


class Careless(PCFG):
    """Takes any checkpoint for its own."""

    method: ClassVar[str] = "careless"

    def _learn(self, corpus, dev, run):
        if run.checkpoint is not None:
            Path(run.checkpoint).write_bytes(b"anything")
        return super()._learn(corpus, dev, run)


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        (Forgetful(), r"info\['settings'\] are the learner's settings"),
        (Undeclared(), "every field is declared .*: depth is not"),
        (Moody(), "the same settings give the same bytes"),
        (Careless(), "the checkpoint of a run on other trees is refused"),
    ],
)
def test_broken_contracts_are_found_out(learner, rule):
    name = type(learner).__name__
    failure = f"^{name} violates the contract of learners: it is not true that {rule}"
    with pytest.raises(ContractError, match=failure):
        check_learner(learner)


def test_learners_of_other_packages(tmp_path, monkeypatch):
    """A plugin is a method like any other, on the command line as well."""
    package = tmp_path / "site"
    (package / "counting-1.0.dist-info").mkdir(parents=True)
    (package / "counting-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n"
    )
    (package / "counting-1.0.dist-info" / "entry_points.txt").write_text(
        "[sapwood.learners]\ncounting = counting:Counting\nbroken = counting:nothing\nnumber = counting:NUMBER\n"
    )
    (package / "counting.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nfrom sapwood.learn import PCFG\nNUMBER = 3\n"
        "@dataclass(frozen=True, kw_only=True, repr=False)\n"
        "class Counting(PCFG):\n    method: ClassVar[str] = 'counting'\n"
    )
    monkeypatch.syspath_prepend(str(package))
    assert [*LEARNERS, "broken", "counting", "number"] == methods()
    assert issubclass(find_learner("counting"), Learner)
    check_learner(make_learner("counting"))
    assert train(TREES, method="counting").grammar.info["method"] == "counting"
    with pytest.raises(UsageError, match="is not a subclass of"):
        make_learner("number")


def test_settings_as_json():
    assert as_json({"a": (1, 2.5)}) == {"a": [1, 2.5]}
    assert as_json(len) == "len"
