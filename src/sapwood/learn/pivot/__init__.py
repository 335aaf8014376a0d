"""Pivot learning: L-PCFG parameters by anchors and convex problems."""

from sapwood.learn.pivot.learner import Pivot, PivotEM

__all__ = ["Pivot", "PivotEM"]
