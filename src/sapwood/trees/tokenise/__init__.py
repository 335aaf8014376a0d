"""Tokenisers and the sentence splitter."""
