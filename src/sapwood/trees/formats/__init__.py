"""Treebank formats: readers and writers by name."""
