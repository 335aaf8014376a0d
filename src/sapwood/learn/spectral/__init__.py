"""Spectral learning: features, one singular value decomposition per symbol, and moments."""

from sapwood.learn.spectral.clustering import StateClustering
from sapwood.learn.spectral.learner import Spectral

__all__ = ["Spectral", "StateClustering"]
