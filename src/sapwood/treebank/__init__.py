"""Treebanks as objects of work: rewriting, tables and statistics."""

from __future__ import annotations

from sapwood.treebank.rewriting.rewriter import rewrite
from sapwood.treebank.rewriting.rules import RewriteRules

__all__ = ["RewriteRules", "rewrite"]
