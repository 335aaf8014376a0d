"""Head rules learned from trees, where no built-in table fits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sapwood import Parser, Tree, train
from sapwood.model import ParserModel
from sapwood.trees.formats.conllu import dependencies
from sapwood.trees.heads.learned import fit_heads, learn_head_table, learn_heads
from sapwood.trees.heads.rules import HeadRules

# Labels of no built-in table: verbs head clauses, nouns head noun phrases, prepositions head their phrases.
TREES = [
    "(S (sn (np Juan)) (gv (vm ve)) (sn (da la) (nc casa)) (f .))",
    "(S (gv (vm llueve)) (f .))",
    "(S (sn (da la) (nc casa)) (gv (vm cae)) (f .))",
    "(S (sn (sn (da la) (nc casa)) (sp (sps de) (sn (np Juan)))) (gv (vm cae)))",
    "(S (gv (vm cae)) (sp (sps en) (sn (da la) (nc plaza))) (f .))",
    "(S (sn (nc casas)) (gv (vm caen)))",
    "(S (f ¿) (gv (vm ve)) (sn (da el) (aq gran) (nc río) (nc Ebro)) (f ?))",
]


def trees() -> list[Tree]:
    return [Tree.parse(tree) for tree in TREES] * 3


@pytest.mark.parametrize(
    ("label", "children", "head"),
    [
        ("S", "sn gv sn f", 1), ("S", "f gv sn f", 1), ("sn", "da nc", 1), ("sn", "da aq nc nc", 3), ("sn", "sn sp", 0),
        ("sp", "sps sn", 0), ("sn-SUJ", "da nc-x", 1), ("unseen", "f da", 1), ("gv", "f vm", 1),
    ],
)  # fmt: skip
def test_heads(label, children, head):
    assert learn_heads(trees()).head_index(label, children.split()) == head


def test_the_order_of_trees_does_not_matter():
    shuffled = trees()
    random.Random(1).shuffle(shuffled)
    assert learn_head_table(shuffled) == learn_head_table(trees())


def test_labels_that_a_table_cannot_name_are_left_out():
    odd = Tree("*", [Tree("#", [Tree("a b", word="x"), Tree("c", word="y")]), Tree("", word="z")])
    assert learn_heads([odd]).head_index("#", ["a b", "c"]) == 0
    assert learn_heads([]).head_index("A", ["B", "C"]) == 0


def test_a_built_in_table_comes_first():
    tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")
    assert fit_heads([tree]).name == "english"
    assert fit_heads(trees()).name == "learned"


def test_dependencies_and_results_do_not_use_english_rules_in_silence():
    model = train(trees(), method="pcfg")
    result = Parser(model).parse_one(["Juan", "ve", "la", "casa", "."])
    assert [phrase.head for phrase in result.phrases("S")] == ["ve"]
    assert [phrase.head for phrase in result.phrases("S", heads=HeadRules.english())] != ["ve"]
    assert [found.head for found in dependencies(trees()[1])] == [0, 1]


def test_the_table_is_stored_with_the_model_and_changes_no_parse(tmp_path):
    model = train(trees(), method="pcfg", output=tmp_path / "m")
    assert Parser(model).heads.head_index("S", ["sn", "gv"]) == 1
    loaded = ParserModel.load(tmp_path / "m")
    assert loaded.preparation.heads == model.preparation.heads
    assert Parser(loaded).heads.name == "learned"
    english = train([Tree.parse("(ROOT (S (NP (NN rain)) (VP (VBZ falls))))")] * 3, method="pcfg")
    assert english.preparation.heads == ""
    assert Parser(english).heads.name == "english"
    without = model.replace(preparation=replace(model.preparation, heads=""))
    assert without == model
    assert without.digest() == model.digest()
    assert Parser(without).heads is None
