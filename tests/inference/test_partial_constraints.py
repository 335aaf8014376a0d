"""What partial trees require of parses, against a check of every tree of a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.forest_twins import trees_of
from helpers.made_up import made_up_treebank
from sapwood.errors import NoParse
from sapwood.inference.constraints import Phrase, Subtree, requirements
from sapwood.inference.forest.packed import ParseRequest, first_contradiction, sentence_forest
from sapwood.inference.parser import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


def test_requirements_of_a_partial_tree():
    tree = PartialTree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP barks (_ at (NP (_ it)))) .))").tree
    words, required = requirements(tree, "ROOT")
    assert words == [("the", "DT"), ("dog", "NN"), ("barks", None), ("at", None), ("it", None), (".", None)]
    assert required == [
        Phrase(0, 6, "S"),
        Subtree(0, Tree.parse("(NP (DT the) (NN dog))")),
        Phrase(2, 5, "VP"),
        Phrase(3, 5),
        Phrase(4, 5, "NP"),
    ]
    whole = Tree.parse("(ROOT (S (NP (N dogs)) (VP (V bark))))")
    assert requirements(whole, "ROOT") == ([("dogs", "N"), ("bark", "V")], [Subtree(0, whole)])
    assert requirements(PartialTree.plain(["a", "b"]).tree, "ROOT") == ([("a", None), ("b", None)], [Phrase(0, 2)])


def agrees(tree: Tree, partial: Tree) -> bool:
    """Whether a tree has all that a partial one shows: its twin, by spans alone."""

    def nodes(of: Tree) -> list[tuple[int, int, Tree]]:
        found, stack = [], [(of, 0)]
        while stack:
            node, start = stack.pop()
            found.append((start, start + len(node), node))
            for child in node.children:
                stack.append((child, start))
                start += len(child)
        return found

    ours = nodes(tree)
    spans = {(start, end) for start, end, node in ours if node.word is None}
    for start, end, wanted in nodes(partial):
        below = [node for _, _, node in nodes(wanted)]
        whole = all(node.label != UNKNOWN for node in below)
        if wanted.word is not None:
            if whole and not any(
                (s, e) == (start, end) and n.word is not None and n.label == wanted.label for s, e, n in ours
            ):
                return False
        elif whole:
            if not any((s, e) == (start, end) and n == wanted for s, e, n in ours):
                return False
        elif wanted.label == UNKNOWN:
            if end - start > 1 and (start, end) not in spans:
                return False
        elif wanted.label != "ROOT" and not any(
            (s, e) == (start, end) and n.word is None and n.label == wanted.label for s, e, n in ours
        ):
            return False
    return True


def blurred(tree: Tree, rng: np.random.Generator, chance: float) -> Tree:
    """Return a tree with some labels unknown and some phrases gone."""

    def visit(node: Tree, below: list[list[Tree]]) -> list[Tree]:
        unknown = rng.random() < chance
        if node.word is not None:
            return [Tree(UNKNOWN if unknown else node.label, word=node.word)]
        children = [child for part in below for child in part]
        if node.label != "ROOT" and rng.random() < chance and len(below) > 1:
            return children
        return [Tree(UNKNOWN if unknown and node.label != "ROOT" else node.label, children)]

    (found,) = tree.fold(visit)
    return found


TREEBANK = made_up_treebank(60)
GRAMMARS = [
    PCFG().fit(Corpus.from_trees(TREEBANK, transform=TreeTransform(**settings)))
    for settings in ({}, {"horizontal": 1, "vertical": 2}, {"direction": "left"}, {"direction": "head"})
]


@examples(60)
@given(st.integers(0, 2**31), st.sampled_from(range(len(GRAMMARS))))
def test_the_trees_that_agree_are_those_that_are_left(seed, number):
    rng = np.random.default_rng(seed)
    grammar = GRAMMARS[number]
    tree = TREEBANK[rng.integers(len(TREEBANK))]
    if len(tree) > 9:
        return
    partial = blurred(grammar.normaliser(tree), rng, float(rng.choice([0.1, 0.3, 0.6])))
    words, required = requirements(partial, "ROOT")
    parser = Parser(grammar, threshold=0)

    def trees(sentence, phrases):
        chart = parser.chart(sentence, phrases=phrases)
        forest = None if chart is None else sentence_forest(chart, tree.words())
        return {} if forest is None else trees_of(forest, grammar)

    everything, left = trees(words, ()), trees(words, required)
    assert len(left) >= 1  # the tree itself
    # Labels are compared as trees have them; several skeletal trees can stand for one.
    assert left.keys() == {key for key, one in everything.items() if agrees(one, partial)}


def test_other_phrases_inside_a_subtree_are_forbidden():
    """On its left side, on its right side, and in its middle, however likely they are."""
    first, second, third = (
        Tree.parse(f"(ROOT (S (V x) {text} (V x)))")
        for text in (
            "(X (X (X (N a) (N b)) (N c)) (N d))",
            "(X (N a) (X (N b) (X (N c) (N d))))",
            "(X (N a) (X (X (N b) (N c)) (N d)))",
        )
    )
    for common in (first, second, third):
        grammar = PCFG().fit(Corpus.from_trees([first, second, third, *[common] * 20]))
        for tree in (first, second, third):
            part = Subtree(1, tree.children[0].children[1])
            assert Parser(grammar, threshold=0).parse_one(tree.words(), phrases=[part]).tree == tree


def test_a_whole_tree_leaves_itself():
    grammar = GRAMMARS[0]
    parser = Parser(grammar)
    for tree in TREEBANK[:20]:
        clean = grammar.normaliser(tree)
        words, required = requirements(clean, "ROOT")
        assert parser.parse_one(words, phrases=required).tree == clean


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("(S (NP the bailora) (XX killdild .))", Phrase(2, 4, "XX")),
        ("(S (NP the bailora killdild) (NP the .))", Phrase(3, 5, "NP")),
        ("(S (NP (NP (DT the)) (N bailora)) killdild .)", Subtree(0, Tree.parse("(NP (NP (DT the)) (N bailora))"))),
        ("(S (NP (DT the) bailora) (VP (DT killdild) (DT .)))", 2),
    ],
)
def test_the_first_contradiction(text, wrong):
    parser = Parser(GRAMMARS[0])
    words, required = requirements(PartialTree.parse(text).tree, "ROOT")
    found = first_contradiction(parser, ParseRequest(words, required))
    assert found == wrong
    with pytest.raises(NoParse):
        parser.parse_one(words, phrases=required)


def test_sentences_without_any_parse_have_no_contradiction():
    grammar = random_grammar(np.random.default_rng(3), interminals=1, preterminals=1)
    parser = Parser(grammar)
    sentence = ["w0"] * 3
    if parser.chart(sentence) is None:
        assert first_contradiction(parser, ParseRequest(sentence, [Phrase(0, 2)])) is None
