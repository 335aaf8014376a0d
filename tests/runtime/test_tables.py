"""What notebooks show of grammars and results."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import sapwood
from sapwood import Corpus, Parser, Scorer, Tree
from sapwood.learn import EM, PCFG, SplitMerge
from sapwood.runtime.tables import html_table

TREES = [Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep)) (. .)))"), Tree.parse("(ROOT (S (NP (N <b>)) (VP (V &))))")]


def cells(html: str) -> list[list[str]]:
    """Return the rows of all tables; the HTML must be well-formed."""
    document = ElementTree.fromstring(f"<div>{html}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in document.iter("tr")]


def test_tables():
    html = html_table([["a", "<b>"], ["&", "1"]], title="x < y")
    assert cells(html) == [["a", "<b>"], ["&", "1"]]
    assert "x &lt; y" in html
    assert html.count("<th") == 2
    assert "<th" not in html_table([["a", "b"]], headings=False)


def test_grammars():
    grammar = PCFG().fit(Corpus.from_trees(TREES * 4))
    rows = cells(grammar._repr_html_())
    assert ["words", "5 known, 2 signatures"] in rows or any(row[0] == "words" for row in rows)
    assert ["method", "pcfg (probabilistic)"] in rows
    # The same facts and figures as for the terminal.
    text = grammar.describe(top=5)
    for row in rows:
        assert row[1] == "expected" or all(cell in text for cell in row)


def test_results():
    scorer = Scorer()
    for tree in TREES:
        scorer.add(tree, tree)
    result = scorer.result()
    assert repr(result) == (
        "<EvaluationResult: F1 100.00 (precision 100.00, recall 100.00), exact 100.0, tags 100.0, 2 sentences>"
    )
    rows = cells(result._repr_html_())
    assert ["F1", "100.00", "100.00"] in rows
    assert rows[-1][:2] in (["VP", "2"], ["S", "2"], ["NP", "2"])
    text = result.format()
    assert all(cell in text for row in rows for cell in row)
    many = Scorer()
    many.add(*[Tree("ROOT", [Tree(f"L{number}", [Tree("A", word="a")]) for number in range(30)])] * 2)
    assert "... and 10 more labels" in many.result()._repr_html_()
    assert len(cells(many.result()._repr_html_())) < 50


def test_trees_and_parses_are_pictures():
    result = Parser(PCFG().fit(Corpus.from_trees(TREES * 4)), marginals=True).parse_one(["dogs", "sleep", "."])
    for shown in (result, result.tree):
        assert ElementTree.fromstring(shown._repr_svg_()).tag.endswith("svg")


@pytest.mark.parametrize("learner", [SplitMerge(cycles=2), EM(states=4), PCFG()], ids=str)
def test_learners_say_what_is_not_usual_about_them(learner):
    assert eval(repr(learner), {name: getattr(sapwood, name) for name in ("SplitMerge", "EM", "PCFG")}) == learner
    assert len(repr(learner)) < 60


def test_parsers_say_what_they_are():
    assert re.fullmatch(r"<Parser: <TensorGrammar: .*>, f1, threshold 2e-05>", repr(Parser()))
