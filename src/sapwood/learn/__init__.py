"""Learners: a corpus in, a `TensorGrammar` out."""

from sapwood.learn.base import Learner
from sapwood.learn.em import EM
from sapwood.learn.pcfg import PCFG
from sapwood.learn.pivot import Pivot, PivotEM
from sapwood.learn.spectral import Cluster, Spectral
from sapwood.learn.split_merge import SplitMerge

__all__ = ["EM", "PCFG", "Cluster", "Learner", "Pivot", "PivotEM", "Spectral", "SplitMerge"]
