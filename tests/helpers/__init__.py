"""Helpers that tests share: made-up treebanks, strategies, checks of shapes, workers elsewhere."""
