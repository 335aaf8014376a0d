"""Compression: merged or projected grammars, the first of them with a cell pruner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.automata import merge, truncate
from sapwood.automata.reduce.cp_decomposition import decompose_grammar
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.parser import PRUNING_THRESHOLD
from sapwood.learn.components.cell_pruner import fit_cell_pruner
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.model.parser_model import ParserModel
from sapwood.pipeline.compress import THRESHOLD_WITH_CELL_PRUNER, compress, default_way, run_compression
from sapwood.runtime.progress import Silent
from sapwood.trees.corpus import Corpus


@pytest.fixture(scope="module")
def trained() -> tuple[TensorGrammar, Corpus]:
    corpus = Corpus.from_trees(made_up_treebank(120))
    return SplitMerge(cycles=2, iterations=4, smoothing_iterations=2).fit(corpus), corpus


def test_cells_are_closed(trained):
    grammar, corpus = trained
    plain, found = (compress(grammar, corpus, cell_recall=part) for part in (1.0, 0.97))
    assert plain.grammar == merge(grammar, corpus).grammar
    assert plain.cell_pruner is None
    expected = fit_cell_pruner(plain.grammar, corpus, keep=0.97)
    assert found == plain.replace(cell_pruner=expected, defaults=found.defaults)
    assert [one.grammar.info["minimised"]["open"] for one in (plain, found)] == [1.0, 0.97]
    assert [Parser(one).threshold for one in (plain, found)] == [PRUNING_THRESHOLD, THRESHOLD_WITH_CELL_PRUNER]
    same = compress(grammar, corpus, threshold=None)
    assert Parser(same).threshold == PRUNING_THRESHOLD
    # A pruner of the larger grammar does not outlive it.
    assert compress(found, corpus, cell_recall=1.0).cell_pruner is None


def test_too_few_trees_to_close_cells(trained):
    grammar, corpus = trained
    notes = Notes()
    found = compress(grammar, corpus.part(np.arange(99)), progress=notes)
    assert found.cell_pruner is None
    assert found.grammar.info["minimised"]["open"] == 1.0
    assert "no cell pruner: it requires 100 trees or more, not 99" in notes.notes


@pytest.mark.slow
def test_the_first_grammar_closes_cells_for_all(trained):
    grammar, corpus = trained
    found = compress([grammar, grammar], corpus)
    assert found.cell_pruner is not None
    assert found == compress(grammar, corpus).with_grammars(found.grammars)
    assert [one.info["minimised"]["open"] for one in found.grammars] == [0.99, 1.0]


def test_projection(trained):
    grammar, corpus = trained
    real = replace(grammar, probabilistic=False)
    found = compress(real, corpus, work=2)
    assert found.grammar == truncate(real, weighting="trees", corpus=corpus, work=2).grammar
    found = compress(grammar, work=2)
    assert found.grammar == truncate(grammar, work=2).grammar
    model, mixed = ParserModel.gather(grammar), ParserModel.gather([grammar, real])
    assert [default_way(model, True), default_way(mixed, True)] == ["merging"] * 2
    assert [default_way(ParserModel.gather(real), True), default_way(model, False)] == ["projection"] * 2


def test_members_stay_probabilistic_next_to_real_valued_ones(trained):
    """Ensembles of few trees have a spectral member."""
    grammar, corpus = trained
    real = grammar.conjugate([np.eye(m)[::-1] * -1.0 for m in grammar.states])
    notes = Notes()
    found = compress([grammar, real], corpus, budget=0.5, progress=notes)
    merged, projected = found.grammars
    assert (merged.probabilistic, projected.probabilistic) == (True, False)
    assert merged == compress(grammar, corpus, budget=0.5).grammar
    assert projected == truncate(real, weighting="trees", corpus=corpus, budget=0.5).grammar
    assert "1 of 2 grammars have real-valued weights and were projected, not merged" in notes.notes
    # Projection says what it does to probabilities.
    compress([grammar, real], corpus, method="projection", budget=0.5, progress=notes)
    assert notes.notes[-1].startswith("projection makes the weights of 1 of 2 grammars real numbers")
    assert "To keep probabilities, merge states: give the training trees" in notes.notes[-1]
    with pytest.raises(GrammarError, match="cannot be merged; choose projection"):
        compress(real, corpus, method="merging")


def test_what_makes_no_sense(trained):
    grammar, corpus = trained
    for wrong in (0.0, 1.1, -1.0):
        with pytest.raises(UsageError, match="must be above 0"):
            compress(grammar, corpus, cell_recall=wrong)
    for wrong in (-0.1, 1.0):
        with pytest.raises(UsageError, match="threshold of parsing is at least 0"):
            compress(grammar, corpus, threshold=wrong)
    with pytest.raises(UsageError, match="requires trees"):
        compress(grammar, method="merging")


def test_cp_decomposition(trained):
    grammar, corpus = trained
    found = compress(grammar, method="cp", rank=5, iterations=3)
    expected, history = decompose_grammar(grammar, 5, iterations=3)
    assert found == ParserModel.gather(grammar).replace(cp=expected)
    assert run_compression(grammar, method="cp", rank=5, iterations=3).decomposition.divergence == history.divergence
    # A pruner of cells is of no use to it, and factors do not outlive their rules.
    assert compress(compress(grammar, corpus), method="cp", rank=2, iterations=1).cell_pruner is None
    assert compress(found, corpus).cp is None
    with pytest.raises(UsageError, match="give --rank"):
        compress(grammar, method="cp")
    with pytest.raises(UsageError, match="no method 'tucker'; choose from merging, projection, cp"):
        compress(grammar, method="tucker")
    with pytest.raises(GrammarError, match="is for one grammar, and this model has 2"):
        compress([grammar, grammar], method="cp", rank=5)
    with pytest.raises(GrammarError, match="the CRF and the span scorer of this model need"):
        compress("en", method="cp", rank=5)


class Notes(Silent):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
