"""Pivot learning: the grammar's own parameters, by anchors and convex problems."""

from sapwood.learn.pivot.learner import Pivot, PivotEM

__all__ = ["Pivot", "PivotEM"]
