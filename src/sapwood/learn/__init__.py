"""Learners: estimate a `TensorGrammar` from a corpus."""

from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.pivot import Pivot, PivotEM
from sapwood.learn.spectral import Spectral, StateClustering

__all__ = ["EM", "PCFG", "Learner", "Pivot", "PivotEM", "Spectral", "SplitMerge", "StateClustering"]
