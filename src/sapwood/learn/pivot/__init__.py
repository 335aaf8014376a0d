"""Pivot learning: anchors, convex problems, and the grammar's own parameters."""

from sapwood.learn.pivot.decomposition import Decomposition, HalfDecomposition, decompose, half_decompose
from sapwood.learn.pivot.learner import Pivot
from sapwood.learn.pivot.simplex import simplex_weights

__all__ = ["Decomposition", "HalfDecomposition", "Pivot", "decompose", "half_decompose", "simplex_weights"]
