"""Distillation: gold trees, and silver trees of a teacher."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import tiny_encoder
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Notes, PullThePlug
from sapwood import Parser, train
from sapwood.encoders.lookup import VARIABLE
from sapwood.errors import InputError, UsageError
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.pipeline.silver import SilverTrees
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

TREES = made_up_treebank(110)
GOLD, SILVER = TREES[:40], TREES[40:]
EM = {"method": "em", "states": 2, "min_support": 5, "iterations": 2}
WHOLE = {
    **EM,
    "crf": ForestCRFTrainer(folds=2, epochs=1, bits=12),
    "span_scorer": SpanScorerTrainer(embedding=8, hidden=8, layers=1, span_hidden=8, epochs=4),
}
CHECKED = {**EM, "crf": False, "span_scorer": False}
GOLD_CORPUS = Corpus.from_trees(GOLD)


def probabilities(model):
    return [result.log_probability for result in Parser(model).parse([tree.words() for tree in TREES])]


@pytest.mark.parametrize("weight", [1, 2])
def test_a_gold_tree_counts_as_often_as_it_weighs(weight):
    distilled = train(GOLD, silver=SILVER, gold_weight=weight, method="pcfg")
    same = train([*GOLD * weight, *SILVER], method="pcfg")
    # Symbols have another order.
    assert np.allclose(probabilities(distilled), probabilities(same), rtol=1e-5)
    other = train(GOLD, silver=SILVER, gold_weight=3, method="pcfg")
    assert not np.allclose(probabilities(distilled), probabilities(other), rtol=1e-5)


def test_the_crf_learns_from_gold_trees_alone():
    gold, distilled = train(GOLD, **WHOLE), train(GOLD, silver=SILVER, **WHOLE)
    assert gold.crf is not None
    assert distilled.crf is not None
    assert np.array_equal(gold.crf.weights(), distilled.crf.weights())
    assert gold.grammar != distilled.grammar
    assert gold.span_scorer != distilled.span_scorer


def test_a_teacher_gives_the_trees_that_it_predicts():
    teacher = train(TREES, **EM)
    text = [tree.words() for tree in SILVER]
    predicted = [result.tree for result in Parser(teacher).parse(text) if not result.failed]
    assert len(predicted) > 50
    taught = train(GOLD, teacher=teacher, self_train_on=text, **CHECKED)
    assert taught.grammar == train(GOLD, silver=predicted, **CHECKED).grammar.with_info(**taught.grammar.info)


def test_an_interrupted_run_is_resumed_to_the_same_model(tmp_path):
    expected = train(GOLD, silver=SILVER, **WHOLE)
    path = tmp_path / "m"
    for turn in range(2):
        with pytest.raises(Interrupted):
            train(GOLD, silver=SILVER, output=path, progress=PullThePlug(len(GOLD) + 14), resume=turn > 0, **WHOLE)
    with pytest.raises(UsageError, match="with other silver trees; give the same ones again"):
        train(GOLD, silver=SILVER[:9], output=path, resume=True, **WHOLE)
    assert train(GOLD, silver=SILVER, output=path, resume=True, **WHOLE) == expected
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_trees_with_other_labels_are_skipped():
    progress = Notes()
    strange = [Tree.parse("(ROOT (X (N dogs)))"), Tree.parse("(ROOT (S (NP (Q dogs)) (X (V sleep))))")]
    assert SilverTrees.of([*strange, *SILVER], GOLD_CORPUS, progress=progress).corpus.n_trees == len(SILVER)
    (note,) = progress.texts
    assert note.startswith("skipped 2 silver tree(s) with labels that no gold tree has: X (2), ")
    with pytest.raises(InputError, match="no silver tree can be used: labels that no gold tree has: X"):
        SilverTrees.of(strange[:1], GOLD_CORPUS)
    with pytest.raises(InputError, match="there are none"):
        SilverTrees.of([], GOLD_CORPUS)


def test_trees_are_normalised_only_if_their_labels_are_unknown():
    swapped = Normaliser(labels=(("NP", "VP"), ("VP", "NP")))
    gold = Corpus.from_trees(GOLD, normaliser=swapped)
    final = [clean for tree in SILVER if (clean := swapped(tree)) is not None]
    assert SilverTrees.of(final, gold).corpus.digest() == SilverTrees.of(final, GOLD_CORPUS).corpus.digest()
    tagged = Tree.parse(str(SILVER[0]).replace("(NP ", "(NP-SBJ ", 1))
    assert (
        SilverTrees.of([tagged], GOLD_CORPUS).corpus.digest() == SilverTrees.of(SILVER[:1], GOLD_CORPUS).corpus.digest()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gold_weight": 2}, "gold_weight requires silver or teacher"),
        ({"silver": SILVER, "gold_weight": 0}, "gold_weight must be at least 1, not 0"),
        ({"silver": SILVER, "teacher": "en", "text": [["a"]]}, "silver cannot be used with teacher"),
        ({"silver": SILVER, "sequences": True}, "silver cannot be used with sequences"),
        ({"silver": SILVER, "text": [["a"]], "text_use": "em"}, "silver cannot be used with text_use em"),
        ({"teacher": "en"}, "teacher requires text"),
        (
            {"teacher": "en", "text": [["a"]], "text_use": "word-classes"},
            "teacher cannot be used with text_use word-cl",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        train(GOLD, **arguments)


def test_a_text_without_sentences_is_refused():
    with pytest.raises(InputError, match="no sentence for"):
        train(GOLD, teacher="en", self_train_on=[["a"]], **CHECKED)


def test_a_teacher_needs_its_encoder(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    monkeypatch.delenv(VARIABLE, raising=False)
    trees, folder = made_up_treebank(30), tiny_encoder.bert_folder(tmp_path / "tiny")
    small = SpanScorerTrainer(embedding=4, hidden=4, layers=1, span_hidden=4, epochs=1, encoder_layer=1)
    teacher = tmp_path / "teacher"
    train(trees, method="pcfg", span_scorer=small, encoder=folder, output=teacher)
    given = {"method": "pcfg", "teacher": teacher, "self_train_on": [tree.words() for tree in trees]}
    with pytest.raises(InputError, match=r"is not complete: the encoder tiny .* is missing"):
        train(trees, **given)
    monkeypatch.setenv(VARIABLE, str(folder))
    student = train(trees, **given)
    assert student.grammar.info["read"] > len(trees) / 2
    assert student.span_scorer is None
