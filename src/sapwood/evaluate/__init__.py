"""Scores of predicted trees against gold ones, by the rules of EVALB, and distances between grammars.

`Scorer` adds up sentences, `score_tree` compares one pair of trees, and `get_parameters` says what counts. `compare`
tests which of two parsers is better.
`match_grammars` says which states of two grammars belong together and how far their parameters are apart, and
`match_columns` the same of two matrices.
"""

from sapwood.evaluate.brackets import Scorer, SentenceScore, score_tree
from sapwood.evaluate.comparison import Comparison, Difference, compare
from sapwood.evaluate.matching import Distance, Match, match_columns, match_grammars, permute
from sapwood.evaluate.parameters import PARAMETER_SETS, EvalbParameters, get_parameters
from sapwood.evaluate.resampling import Interval
from sapwood.evaluate.result import EvaluationResult, LabelScore, Summary

__all__ = [
    "PARAMETER_SETS",
    "Comparison",
    "Difference",
    "Distance",
    "EvalbParameters",
    "EvaluationResult",
    "Interval",
    "LabelScore",
    "Match",
    "Scorer",
    "SentenceScore",
    "Summary",
    "compare",
    "get_parameters",
    "match_columns",
    "match_grammars",
    "permute",
    "score_tree",
]
