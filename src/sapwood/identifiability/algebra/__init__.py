"""Algebra of identifiability: prime fields, automatic differentiation and simplices."""
