"""Learners: a corpus in, a `TensorGrammar` out."""

from sapwood.learn.pcfg import PCFG

__all__ = ["PCFG"]
