"""Adaptation: a model of one treebank, taught trees of another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from helpers import tiny_encoder
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Notes, PullThePlug
from sapwood import Parser, ParserModel, Tree, evaluate_parser, train
from sapwood.cli.main import main
from sapwood.encoders.lookup import VARIABLE
from sapwood.errors import InputError, UsageError
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer

TREES = made_up_treebank(130)
OLD = TREES[:80]


def mirrored(tree: Tree) -> Tree:
    """Return a tree of another domain: the verb is last, and some words are others."""
    children = [mirrored(child) for child in tree.children]
    if tree.label == "VP":
        children.reverse()
    return Tree("V", word=f"{tree.word}o") if tree.label == "V" else Tree(tree.label, children, word=tree.word)


NEW = [mirrored(tree) for tree in TREES[80:]]
TAUGHT, HELD_OUT = NEW[:30], NEW[30:]
EM = {"method": "em", "states": 2, "min_support": 5, "iterations": 2}
WHOLE = {
    **EM,
    "crf": ForestCRFTrainer(folds=2, epochs=1, bits=12),
    "span_scorer": SpanScorerTrainer(embedding=8, hidden=8, layers=1, span_hidden=8, epochs=2),
}


@pytest.fixture(scope="module")
def model():
    return train(OLD, **WHOLE)


def f1(model, trees):
    return evaluate_parser(Parser(model), trees).f1


def test_an_adapted_model_parses_the_other_domain(model):
    adapted = train(TAUGHT, adapt=model)
    alone = train(TAUGHT, **EM)
    assert f1(adapted, HELD_OUT) > max(f1(model, HELD_OUT), f1(alone, HELD_OUT)) + 2
    assert f1(adapted, OLD) > f1(alone, OLD) + 20
    adapted.validate(1e-3)
    # All components are those of the model, trained further.
    assert adapted.components.keys() == model.components.keys()
    assert not np.array_equal(adapted.crf.weights(), model.crf.weights())
    assert adapted.crf.scorer_weight == model.crf.scorer_weight
    assert adapted.span_scorer != model.span_scorer
    assert adapted.preparation == model.preparation
    assert adapted.grammar.info["method"] == "adaptation"


def test_results_do_not_depend_on_threads_and_files(model, tmp_path):
    model.save(tmp_path / "old")
    expected = train(TAUGHT, adapt=tmp_path / "old", threads=1)
    assert train(TAUGHT, adapt=tmp_path / "old", threads=2) == expected
    assert train(TAUGHT, adapt=str(tmp_path / "old"), output=tmp_path / "new") == expected
    assert train(TAUGHT, adapt=tmp_path / "old", seed=1) != expected


def test_an_interrupted_run_is_resumed_to_the_same_model(model, tmp_path):
    expected = train(TAUGHT, adapt=model)
    path = tmp_path / "m"
    for turn in range(2):
        with pytest.raises(Interrupted):
            train(TAUGHT, adapt=model, output=path, progress=PullThePlug(len(TAUGHT) + 4), resume=turn > 0)
    with pytest.raises(UsageError, match="with other settings or trees"):
        train(TAUGHT[:29], adapt=model, output=path, resume=True)
    with pytest.raises(UsageError, match="with other settings or trees"):
        train(TAUGHT, adapt=train(OLD[:70], **EM), output=path, resume=True)
    assert train(TAUGHT, adapt=model, output=path, resume=True) == expected
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_few_trees_leave_the_crf_as_it_is(model):
    adapted = train(TAUGHT[:10], adapt=model)
    assert np.array_equal(adapted.crf.weights(), model.crf.weights())
    assert adapted.crf.scorer_weight == model.crf.scorer_weight
    assert adapted.grammar != model.grammar


def test_grammars_without_probabilities_are_left_out():
    mixed = train(OLD, ensemble=["em", "spectral", "pivot+em"], states=2, min_support=5, iterations=2)
    notes = Notes()
    adapted = train(TAUGHT, adapt=mixed, progress=notes)
    assert len(adapted.grammars) == 2
    assert any(note.startswith("left out 1 of 3 grammars") for note in notes.texts)
    assert any(note.startswith("each tree weighs as much as") for note in notes.texts)
    assert f1(adapted, HELD_OUT) > f1(mixed, HELD_OUT)
    with pytest.raises(InputError, match="cannot be adapted: the weights of its grammar are real-valued"):
        train(TAUGHT, adapt=train(OLD, method="spectral", states=2))


def test_weight_can_be_given(model):
    first, second = (train(TAUGHT, adapt=model, adapt_weight=weight) for weight in (1, 20))
    assert first.grammar.info["adapted"]["weight"] == 1
    occupancy = [one.grammar.occupancy.sum() - model.grammar.occupancy.sum() for one in (first, second)]
    assert occupancy[1] == pytest.approx(20 * occupancy[0], rel=1e-3)


def test_trees_are_prepared_as_those_of_the_model():
    head = train(OLD, method="em", states=2, iterations=1, transform={"vertical": 2, "direction": "left"})
    adapted = train([Tree.parse(str(tree).replace("(NP ", "(NP-SBJ ")) for tree in TAUGHT], adapt=head)
    assert adapted.preparation.transform == head.preparation.transform
    assert "NP-SBJ" not in adapted.grammar.symbols.bottom
    gaps = Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")
    assert train([gaps], adapt=head).grammar.lexicon.knows("dogs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"adapt_weight": 2}, "adapt_weight requires adapt"),
        ({"adapt": "en", "adapt_weight": 0}, "adapt_weight must be above 0 and finite, not 0"),
        ({"adapt": "en", "method": "em"}, "adapt cannot be used with method: the model decides"),
        ({"adapt": "en", "silver": OLD}, "adapt cannot be used with silver"),
        ({"adapt": "en", "states": 3}, "adapt cannot be used with states"),
        ({"adapt": "en", "crf": False}, "adapt cannot be used with crf"),
        ({"adapt": "en", "sequences": True}, "adapt cannot be used with sequences"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        train(TAUGHT, **arguments)


def test_the_command_names_options(tmp_path):
    path = tmp_path / "t.mrg"
    path.write_text("".join(f"{tree}\n" for tree in TAUGHT))

    def said(*options):
        outcome = CliRunner().invoke(main, ["train", str(path), "-o", str(tmp_path / "m"), *options])
        assert outcome.exit_code
        return str(outcome.exception)

    assert "--adapt cannot be used with --vertical: the model decides" in said("--adapt", "en", "--vertical", "2")
    assert "--adapt cannot be used with --text: " in said("--adapt", "en", "--text", str(path))
    assert "--adapt-weight requires --adapt" in said("--adapt-weight", "2")
    assert "nowhere: no such file" in said("--adapt", "./nowhere")


def test_a_model_is_adapted_with_its_encoder(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tiny_encoder.bert_folder(tmp_path / "tiny")
    small = SpanScorerTrainer(embedding=4, hidden=4, layers=1, span_hidden=4, epochs=1, encoder_layer=1)
    path = tmp_path / "old"
    train(OLD, method="pcfg", span_scorer=small, encoder=folder, output=path)
    with pytest.raises(InputError, match="cannot be adapted without its encoder tiny"):
        train(TAUGHT, adapt=path)
    monkeypatch.setenv(VARIABLE, str(folder))
    adapted, old = train(TAUGHT, adapt=path), ParserModel.load(path)
    ours, theirs = (replace(one.span_scorer.encoder, source=None) for one in (adapted, old))
    assert ours.digest == theirs.digest
    assert np.array_equal(ours.projection, theirs.projection)
    assert not np.array_equal(adapted.span_scorer.weights, old.span_scorer.weights)
