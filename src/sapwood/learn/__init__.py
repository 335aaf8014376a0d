"""Learners: a corpus in, a `TensorGrammar` out."""

from sapwood.learn.em import EM
from sapwood.learn.pcfg import PCFG
from sapwood.learn.pivot import Pivot
from sapwood.learn.spectral import Cluster, Spectral
from sapwood.learn.split_merge import SplitMerge

__all__ = ["EM", "PCFG", "Cluster", "Pivot", "Spectral", "SplitMerge"]
