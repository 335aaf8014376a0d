"""NLTK: grammars in and out, and a parser of its kind, compared with NLTK's own parsers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

nltk = pytest.importorskip("nltk", reason="NLTK is not installed")

from nltk.parse import InsideChartParser, ViterbiParser  # noqa: E402

from helpers.effort import examples  # noqa: E402
from sapwood.errors import GrammarError, UsageError  # noqa: E402
from sapwood.inference import Parser  # noqa: E402
from sapwood.interop.nltk import SapwoodParser, model_from_nltk, model_to_nltk  # noqa: E402
from sapwood.learn import EM  # noqa: E402
from sapwood.learn import PCFG as Learner  # noqa: E402
from sapwood.trees import Corpus, Tree  # noqa: E402

TOY = nltk.PCFG.fromstring("""
S -> NP VP [0.9] | VP [0.1]
NP -> 'John' [0.2] | Det N [0.4] | NP PP [0.2] | N [0.2]
N -> 'dog' [0.6] | 'park' [0.3] | N N [0.1]
VP -> V NP [0.5] | VP PP [0.2] | V 'up' NP [0.1] | V [0.1] | V NP PP PP [0.1]
V -> 'saw' [0.5] | 'ate' [0.5]
Det -> 'the' [0.7] | 'a' [0.3]
PP -> 'in' NP [0.6] | P NP [0.4]
P -> 'with' [1.0]
""")


@pytest.mark.parametrize(
    "sentence",
    [
        "John saw the dog in the park", "the dog ate", "saw up a park", "dog saw dog park with John in a park", "John",
        "the park dog saw John in a dog with the dog", "saw", "ate the dog park", "green ideas", "up up",
    ],
)  # fmt: skip
def test_the_best_tree_is_that_of_nltk(sentence):
    words = sentence.split()
    try:
        theirs = list(ViterbiParser(TOY).parse(words))
    except ValueError:  # words that the grammar does not have
        theirs = []
    ours = list(SapwoodParser(TOY).parse(words))
    assert len(ours) == len(theirs)
    # Of equally probable trees each may be found.
    assert all(math.isclose(a.prob(), b.prob()) for a, b in zip(ours, theirs, strict=True))


def test_all_trees_are_those_of_nltk():
    words = ["John", "saw", "the", "dog", "in", "the", "park", "with", "a", "dog"]
    theirs = sorted(InsideChartParser(TOY).parse(words), key=lambda tree: (-tree.prob(), str(tree)))
    ours = sorted(SapwoodParser(TOY, trees=100).parse(words), key=lambda tree: (-tree.prob(), str(tree)))
    assert len(ours) == len(theirs) > 3
    assert {str(nltk.Tree.convert(tree)) for tree in ours} == {str(nltk.Tree.convert(tree)) for tree in theirs}
    assert sum(tree.prob() for tree in ours) == pytest.approx(sum(tree.prob() for tree in theirs))
    result = Parser(model_from_nltk(TOY), threshold=0).parse_one(words)
    assert math.exp(result.log_probability) == pytest.approx(sum(tree.prob() for tree in theirs))


_sides = st.lists(st.sampled_from(["S", "A", "B", "'a'", "'b'"]), min_size=1, max_size=3).map(" ".join)


@examples(150)
@given(st.lists(_sides, min_size=2, max_size=4), st.lists(_sides, min_size=1, max_size=3), st.lists(_sides, max_size=2),
       st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=5))  # fmt: skip
def test_random_grammars(s, a, b, sentence):
    lines = [
        f"{name} -> {side} [{1 / len(set(sides))}]"
        for name, sides in (("S", [*s, "'a'"]), ("A", [*a, "'a'"]), ("B", [*b, "'b'"]))
        for side in sorted(set(sides))
    ]
    grammar = nltk.PCFG.fromstring("\n".join(lines))
    try:
        parser = SapwoodParser(grammar)
    except GrammarError:
        assume(False)  # circles, and trees without end
    try:
        theirs = list(ViterbiParser(grammar).parse(sentence))
    except ValueError:
        theirs = []
    ours = list(parser.parse(sentence))
    assert [tree.prob() for tree in ours] == pytest.approx([tree.prob() for tree in theirs])
    for tree in ours:
        assert tree.leaves() == sentence
        for rule in tree.productions():
            assert grammar.productions(lhs=rule.lhs()), rule
            assert any(known.rhs() == rule.rhs() for known in grammar.productions(lhs=rule.lhs()))


def test_a_grammar_without_probabilities():
    grammar = nltk.CFG.fromstring("S -> A S | A\nA -> 'a' | 'b'")
    (tree,) = SapwoodParser(grammar).parse(["a", "b"])
    assert str(nltk.Tree.convert(tree)) == "(S (A a) (S (A b)))"
    assert tree.prob() == pytest.approx(1 / 16)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("S -> A [1.0]\nA -> S [0.5] | 'a' [0.5]", "cycle: S -> A -> S"),
        ("S -> A 'a' [1.0]", "without a rule: A"),
        ("S -> [0.5] | 'a' [0.5]", "S -> nothing"),
    ],
)
def test_what_is_refused(text, problem):
    with pytest.raises(GrammarError, match=problem):
        model_from_nltk(nltk.PCFG.fromstring(text))


TREES = [
    Tree.parse("(ROOT (S (NP (N dogs)) (VP (V see) (NP (N cats)))))"),
    Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))"),
]


def test_models_as_grammars_of_nltk():
    grammar = Learner().fit(Corpus.from_trees(TREES))
    converted = model_to_nltk(grammar)
    words = ["dogs", "see", "cats"]
    theirs = list(InsideChartParser(converted).parse(words))
    ours = Parser(grammar, threshold=0).parse_one(words)
    assert sum(tree.prob() for tree in theirs) == pytest.approx(math.exp(ours.log_probability), rel=1e-6)


def test_models_as_grammars_without_probabilities():
    grammar = Learner().fit(Corpus.from_trees(TREES))
    converted = model_to_nltk(grammar, probabilities=False)
    assert type(converted) is nltk.CFG
    assert {(rule.lhs(), rule.rhs()) for rule in converted.productions()} == {
        (rule.lhs(), rule.rhs()) for rule in model_to_nltk(grammar).productions()
    }
    assert list(nltk.ChartParser(converted).parse(["dogs", "see", "cats"]))
    assert next(SapwoodParser(converted).parse(["dogs", "see", "cats"])).leaves() == ["dogs", "see", "cats"]


def test_hidden_states_become_nonterminals():
    grammar = EM(states=2, iterations=2, min_support=1).fit(Corpus.from_trees(TREES))
    converted = model_to_nltk(grammar)
    assert any(str(rule.lhs()).endswith("_1") for rule in converted.productions())
    with pytest.raises(UsageError, match="real-valued"):
        model_to_nltk(replace(grammar, probabilistic=False))


def test_with_the_included_model():
    parser = SapwoodParser(threads=2)
    sentences = [["The", "dog", "barks", "."], [], ["It", "rained", "."]]
    found = [list(trees) for trees in parser.parse_sents(sentences)]
    assert [len(trees) for trees in found] == [1, 0, 1]
    expected = Parser().parse_one(sentences[0])
    assert found[0][0].pformat(margin=1000).startswith(str(expected.tree))
    assert found[0][0].logprob() * math.log(2) == pytest.approx(parser.parser.tree_log_probability(expected.tree))
    assert parser.parse_one(sentences[2]) == found[2][0]
    several = list(SapwoodParser(trees=3).parse(sentences[0]))
    assert len(several) == 3
    assert [tree.prob() for tree in several] == sorted((tree.prob() for tree in several), reverse=True)
    assert [tree for tree, _ in Parser().k_best(sentences[0], 3)] == [Tree.from_nltk(tree) for tree in several]
    with pytest.raises(UsageError, match="at least 1"):
        SapwoodParser(trees=0)
