"""Evaluation: scores of predicted trees by the rules of EVALB.

`Scorer` accumulates sentences, `score_tree` compares one pair of trees, and `get_parameters` returns the scoring
parameters. `compare` tests which of two parsers is better.
"""

from sapwood.evaluate.bootstrap import Interval
from sapwood.evaluate.brackets import Scorer, SentenceScore, score_tree
from sapwood.evaluate.comparison import Comparison, Difference, compare
from sapwood.evaluate.evalb_params import PARAMETER_SETS, EvalbParameters, get_parameters
from sapwood.evaluate.result import EvaluationResult, LabelScore, Summary

__all__ = [
    "PARAMETER_SETS",
    "Comparison",
    "Difference",
    "EvalbParameters",
    "EvaluationResult",
    "Interval",
    "LabelScore",
    "Scorer",
    "SentenceScore",
    "Summary",
    "compare",
    "get_parameters",
    "score_tree",
]
