"""Hidden states behind matrices of co-occurrences, found by anchors: what pivot learning and language models share."""

from sapwood.anchors.decomposition import Decomposition, HalfDecomposition, decompose, half_decompose
from sapwood.anchors.simplex import simplex_weights

__all__ = ["Decomposition", "HalfDecomposition", "decompose", "half_decompose", "simplex_weights"]
