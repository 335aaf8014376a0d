"""Lexicon: words, signatures of unknown words and word classes."""
