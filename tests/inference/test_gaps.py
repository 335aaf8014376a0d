"""Parsing of trees with gaps: trees, lists, marginals, samples, constraints and half-annotated trees."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from helpers.gap_trees import random_gap_tree
from sapwood import PCFG, Parser, Tree
from sapwood.errors import InputError, NoParse
from sapwood.inference.constraints import requirements
from sapwood.inference.parser import ParseResult
from sapwood.learn.active_learning import Proposal
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.pipeline.train import train
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.gaps import join_gaps, split_gaps
from sapwood.trees.partial import PartialTree, format_partial

LINES = [
    "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))",
    "(S (NP 0=John) (VP (VB 1=is) (JJ 2=rich)))",
    "(S (VP (VB 0=is) (JJ 2=old)) (NP 1=Mary))",
    "(S (NP 0=Mary) (VB 1=is) (JJ 2=old))",
]
WORDS = ["is", "John", "rich"]


@pytest.fixture(scope="module")
def trees() -> list[Tree]:
    return [Tree.parse(line, format="discbracket") for line in LINES]


@pytest.fixture(scope="module")
def parser(trees: list[Tree]) -> Parser:
    return Parser(PCFG().fit(PCFG.prepare(trees)), threshold=0.0)


def test_a_grammar_has_gaps_if_its_trees_have(trees: list[Tree], parser: Parser) -> None:
    assert parser.grammar.transform.gaps
    plain = PCFG.prepare([trees[1], trees[3]])
    assert not plain.transform.gaps
    # The trees before the first with gaps are split as well.
    assert PCFG.prepare([trees[1], trees[0]]).transform.gaps
    starred = Tree.parse("(S (A* a) (B b))")
    with pytest.raises(InputError, match=r"the label 'A\*' contains .*--label-map"):
        Corpus.from_trees([starred, trees[0]])
    corpus = Corpus.from_trees([trees[0], starred])
    assert [corpus.transform.invert(corpus.tree(number)) for number in range(2)] == [
        Tree("ROOT", [tree]) for tree in (trees[0], starred)
    ]


def test_parses_and_their_lists(parser: Parser) -> None:
    result = parser.parse_one(WORDS)
    assert str(result.tree) == "(ROOT (S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John)))"
    best = parser.k_best(WORDS, 10)
    assert best[0].tree == result.tree
    assert len({str(one.tree) for one in best}) == len(best)
    assert all(one.tree.words() == WORDS for one in best)
    for one in best:
        # Parts without partners are not among the derivations of the tree that they become.
        assert parser.tree_log_probability(one.tree) == pytest.approx(one.log_probability) or (
            parser.tree_log_probability(one.tree) < one.log_probability
        )
    assert math.isfinite(parser.tree_log_probability(best[0].tree))
    sampled = parser.sample(WORDS, 20, random_state=1)
    assert any(tree.has_gaps for tree in sampled)
    assert {str(tree) for tree in sampled} <= {str(one.tree) for one in best}


def test_marginals_states_and_json_are_of_parts(trees: list[Tree]) -> None:
    model = PCFG().fit(PCFG.prepare(trees))
    result = Parser(model, marginals=True, alternatives=2, states=True).parse_one(WORDS)
    assert [tuple(one[:3]) for one in result.marginals or []][:3] == [(0, 3, "S"), (0, 1, "VP*"), (2, 3, "VP*")]
    assert result.states is not None
    assert any("VP*" in one.symbol for one in result.states)
    value = result.to_dict()
    assert value["gaps"] is True
    assert value["alternatives"][0]["gaps"] is True
    assert Tree.parse(value["tree"], format="discbracket") == result.tree
    assert result._repr_svg_() is not None
    assert [(one.start, one.end, one.text) for one in result.phrases("VP")] == [(0, 3, "is ... rich")]


def test_required_phrases_are_parts(parser: Parser) -> None:
    result = parser.parse_one(WORDS, phrases=[(2, 3, "VP*")])
    assert result.tree is not None
    assert result.tree.has_gaps
    with pytest.raises(NoParse):
        parser.parse_one(WORDS, phrases=[(0, 1, "VP*"), (0, 2, "S")])


def test_partial_trees_have_parts(parser: Parser) -> None:
    result = parser.parse_one(WORDS)
    with pytest.raises(InputError, match="partial brackets cannot show the gaps"):
        format_partial(result.tree)
    marked = Parser(parser.model, marginals=True).parse_one(WORDS)
    partial = Proposal(1, 0.0, marked).partial(sure=0.0)
    assert str(partial) == "(ROOT (S (VP* (VB is)) (NP John) (VP* (JJ rich))))"
    words, required = requirements(partial.tree, "ROOT")
    assert parser.parse_one(words, phrases=required).tree == result.tree


def test_half_annotated_trees_are_learned_from(trees: list[Tree]) -> None:
    partial = [PartialTree.parse("(_ (VP* (VB is)) Mary (VP* (JJ rich)))")] * 2
    model = train(trees * 5, method="em", states=1, iterations=2, partial=partial)
    assert str(Parser(model).parse_one(["is", "Mary", "rich"]).tree) == (
        "(ROOT (S (VP (VB 0=is) (JJ 2=rich)) (NP 1=Mary)))"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "spectral", "states": 1},
        {"method": "split-merge", "cycles": 1, "iterations": 2},
        {"method": "em", "states": 2, "iterations": 3, "crf": True, "span_scorer": SpanScorerTrainer(epochs=1)},
    ],
    ids=lambda settings: settings["method"],
)
def test_learners_and_components_keep_gaps(trees: list[Tree], settings: dict) -> None:
    model = train(trees * 20, **settings)
    for tree, result in zip(trees, Parser(model).parse([tree.words() for tree in trees]), strict=True):
        assert result.tree is not None
        assert result.tree.words() == tree.words()
        # Well formed: splitting and joining changes nothing.
        assert join_gaps(split_gaps(result.tree)) == result.tree
    assert Parser(model).parse_one(WORDS).tree == Tree("ROOT", [trees[0]])


def test_any_parse_of_any_grammar_is_well_formed() -> None:
    rng = random.Random(2)
    trees = [random_gap_tree(rng, rng.randint(3, 8)) for _ in range(60)]
    parser = Parser(PCFG().fit(PCFG.prepare(trees)))
    with_gaps = 0
    for tree in trees:
        for found in parser.sample(tree.words(), 5, random_state=0):
            with_gaps += found.has_gaps
            assert found.words() == tree.words()
            assert join_gaps(split_gaps(found)) == found
    assert with_gaps > 50


def test_failures_have_no_gaps(parser: Parser) -> None:
    result: ParseResult = Parser(parser.model, max_words=1).parse_one(WORDS)
    assert result.status == "too long"
    assert result.tree is not None
    assert not result.tree.has_gaps
    assert np.isfinite(len(result.tree))
