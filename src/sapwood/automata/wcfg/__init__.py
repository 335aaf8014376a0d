"""Weighted context-free grammars: rules, files and conversion to automata."""
