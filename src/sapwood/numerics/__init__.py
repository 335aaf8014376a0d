"""Numerical methods: anchor search, non-negative factorisation, simplices, k-means, matrix files."""

from sapwood.numerics.anchor_nmf import Decomposition, HalfDecomposition, decompose, half_decompose
from sapwood.numerics.simplex import simplex_weights

__all__ = ["Decomposition", "HalfDecomposition", "decompose", "half_decompose", "simplex_weights"]
