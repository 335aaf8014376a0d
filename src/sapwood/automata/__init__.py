"""Weighted tree automata: Gram matrices, minimal and canonical forms, truncation, distances; smaller grammars."""

from sapwood.automata.automaton import HOLE, TreeAutomaton
from sapwood.automata.distance import compare, inner_product, l2_distance, l2_norm
from sapwood.automata.gram import DivergenceError, GramMatrices, gram_matrices, largest_gamma
from sapwood.automata.merging import Merged, merge
from sapwood.automata.reduction import Reduction, minimise
from sapwood.automata.svta import SingularStates, choose_states, project, singular_states, svta

__all__ = [
    "HOLE",
    "DivergenceError",
    "GramMatrices",
    "Merged",
    "Reduction",
    "SingularStates",
    "TreeAutomaton",
    "choose_states",
    "compare",
    "gram_matrices",
    "inner_product",
    "l2_distance",
    "l2_norm",
    "largest_gamma",
    "merge",
    "minimise",
    "project",
    "singular_states",
    "svta",
]
