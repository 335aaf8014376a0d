"""Drawings of trees: terminal, SVG and LaTeX."""
