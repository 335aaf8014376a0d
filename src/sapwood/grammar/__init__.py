"""`TensorGrammar`: one type for PCFGs, L-PCFGs and spectral grammars."""

from sapwood.grammar.tensor_grammar import TensorGrammar

__all__ = ["TensorGrammar"]
