"""Helpers of experiments and proofs, which no parser, learner or command needs.

Spectral learning (Cohen et al. 2012, and the long paper):

- `exact_moments`: `population` has the exact moments of a known grammar's trees, and `learn_spectral` learns from them
  (theorem 2).
- `observable_representation`: from moments to weights, wherever moments come from (figures 7 and 8).
- `matrix_form`: the algorithm as the 2012 paper prints it.
- `spectral_bounds`: how many trees suffice (theorem 3), for a known grammar.

Pivot learning (Cohen and Collins 2014):

- `pivot_algorithm`: figure 1 as printed, from the statistics in `pivot_statistics`.
- `pivot_grammars`: random grammars that satisfy the pivot assumption, and the exact statistics of their trees;
  `learn_pivot` learns from them (theorem 1).
- `separable_matrices`: random matrices with anchors.

Others:

- `matching`: `match_grammars` pairs the states of two grammars and says how far their parameters are apart,
  `match_columns` does so for two matrices, and `permute` reorders states. `orders` searches for the best pairing.
- `random_automata`: random tree automata with finite sums.
- `truncation_bounds`: how far a truncated automaton is from the whole one, at most.
"""

from sapwood.learn.spectral.sample_complexity import SampleBound
from sapwood.research.exact_moments import grammar_from_moments, learn_spectral, population
from sapwood.research.matching import Distance, Match, match_columns, match_grammars, permute
from sapwood.research.pivot_algorithm import learn_from_statistics, observed_statistics
from sapwood.research.pivot_grammars import learn_pivot, population_statistics, random_pivot_grammar
from sapwood.research.random_automata import is_strongly_convergent, random_automaton, redundant, total_weight
from sapwood.research.separable_matrices import separable
from sapwood.research.spectral_bounds import exact_bound
from sapwood.research.truncation_bounds import truncation_bound

__all__ = [
    "Distance",
    "Match",
    "SampleBound",
    "exact_bound",
    "grammar_from_moments",
    "is_strongly_convergent",
    "learn_from_statistics",
    "learn_pivot",
    "learn_spectral",
    "match_columns",
    "match_grammars",
    "observed_statistics",
    "permute",
    "population",
    "population_statistics",
    "random_automaton",
    "random_pivot_grammar",
    "redundant",
    "separable",
    "total_weight",
    "truncation_bound",
]
