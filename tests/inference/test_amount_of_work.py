"""A guard against slower parsing that needs no clock: how much there is to do for a sentence.

Counts differ by a little between processors, whose sums round in other ways. A change that makes them smaller is
welcome, and gets the new numbers written down here; one that makes them larger needs a reason.
"""

from __future__ import annotations

import pytest

from helpers.treebank_files import OURS
from sapwood.inference import Parser
from sapwood.inference.chart.chart import coarse_forest, refine_forest
from sapwood.inference.chart.posteriors import Workspace
from sapwood.learn import PCFG
from sapwood.trees import Normaliser
from sapwood.trees.formats.registry import read_trees

# With the included model and with a PCFG of our own treebank, over the sentences of its held-out part: rules applied in
# the coarse pass, edges that it leaves, and those that the level leaves; weights of the compiled grammar, and the pairs
# of child states that they belong to.
EXPECTED = {
    "included": {"rules": 228_107, "edges": 27_820, "refined": 5_525, "weights": 164_059, "pairs": 32_637},
    "pcfg": {"rules": 5_174, "edges": 1_780, "refined": 1_780, "weights": 256, "pairs": 256},
}


def parser_of(name: str) -> Parser:
    return Parser(PCFG().fit(PCFG.prepare(read_trees(OURS / "train.mrg")))) if name == "pcfg" else Parser()


def sentences() -> list[list[str]]:
    return [tree.words() for tree in map(Normaliser(), read_trees(OURS / "dev.mrg")) if tree is not None]


def work_of(name: str) -> dict[str, int]:
    parser = parser_of(name)
    workspace, edges, refined = Workspace(), 0, 0
    for words in sentences():
        _, leaves = parser._lookup.score(words)
        forest = coarse_forest(parser.compiled, leaves, parser.threshold, workspace)
        if forest is None:  # and would be looked for again with less pruning
            continue
        edges += len(forest.children)
        refined += len(refine_forest(parser.compiled, leaves, forest, parser.threshold, workspace).children)
    native = parser.compiled.native
    return {
        "rules": workspace.native.rules_applied,
        "edges": edges,
        "refined": refined,
        "weights": native.n_weights,
        "pairs": native.n_pairs,
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_there_is_no_more_to_do_than_there_was(name):
    found, expected = work_of(name), EXPECTED[name]
    assert {key: value for key, value in found.items() if value > 1.05 * expected[key]} == {}
    # Numbers that are far too high guard nothing.
    assert {key: value for key, value in found.items() if value < 0.7 * expected[key]} == {}


def test_pruning_is_seen():
    """With a far lower threshold there is far more to do."""
    parser, counts = Parser(), []
    for threshold in (parser.threshold, parser.threshold / 1e4):
        workspace = Workspace()
        for words in sentences()[:10]:
            coarse_forest(parser.compiled, parser._lookup.score(words)[1], threshold, workspace)
        counts.append(workspace.native.rules_applied)
    assert counts[1] > 2 * counts[0]
