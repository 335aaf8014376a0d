"""Rewriting of trees by rules: a pattern, then operations on its named nodes."""
