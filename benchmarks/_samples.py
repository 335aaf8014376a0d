"""Treebanks drawn from known grammars, and what is needed to learn from them without any smoothing."""

from __future__ import annotations

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.trees.corpus import Corpus

# No word is rare or leans on its signature, nor on its tag's usual division among states.
UNSMOOTHED = LexicalSettings(
    rare=0, frequent=0, word_strength=0.0, state_strength=0.0, signature_state_strength=None
)  # fmt: skip


def draw(grammar: TensorGrammar, trees: int, seed: int) -> Corpus:
    """Return a treebank."""
    return Corpus.from_trees(grammar.sample(trees, random_state=seed, max_words=10_000))
