"""Scores of predicted trees against gold ones, by the rules of EVALB.

`Scorer` adds up sentences, `score_tree` compares one pair of trees, and `get_parameters` says what counts.
"""

from sapwood.evaluate.brackets import Scorer, SentenceScore, score_tree
from sapwood.evaluate.parameters import PARAMETER_SETS, EvalbParameters, get_parameters
from sapwood.evaluate.result import EvaluationResult, LabelScore, Summary

__all__ = [
    "PARAMETER_SETS",
    "EvalbParameters",
    "EvaluationResult",
    "LabelScore",
    "Scorer",
    "SentenceScore",
    "Summary",
    "get_parameters",
    "score_tree",
]
