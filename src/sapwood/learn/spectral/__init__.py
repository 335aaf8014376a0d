"""Spectral learning: features, one singular value decomposition a symbol, moments, done."""

from sapwood.learn.spectral.clustering import Cluster
from sapwood.learn.spectral.learner import Spectral

__all__ = ["Cluster", "Spectral"]
