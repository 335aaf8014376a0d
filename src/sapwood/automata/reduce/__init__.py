"""Reduction of automata: truncation and state merging."""
