"""Weighted tree automata: Gram matrices, minimal and canonical forms, truncation, distances, grammar compression."""

from sapwood.automata.automaton import HOLE, TreeAutomaton
from sapwood.automata.distance import compare, inner_product, l2_distance, l2_norm
from sapwood.automata.gram import DivergenceError, GramMatrices, gram_matrices, largest_gamma
from sapwood.automata.reduce.state_merging import MergeResult, merge
from sapwood.automata.reduce.truncation import Truncation, truncate
from sapwood.automata.svta import SingularStates, choose_states, project, singular_states, svta

__all__ = [
    "HOLE",
    "DivergenceError",
    "GramMatrices",
    "MergeResult",
    "SingularStates",
    "TreeAutomaton",
    "Truncation",
    "choose_states",
    "compare",
    "gram_matrices",
    "inner_product",
    "l2_distance",
    "l2_norm",
    "largest_gamma",
    "merge",
    "project",
    "singular_states",
    "svta",
    "truncate",
]
