"""Automata of one sort as weighted context-free grammars and the other way round (section 4.1), and as models.

An automaton gives a tree without labels the sum of the weights of all derivations of that shape; states are
nonterminals. As a model its states are those of one symbol, which is a phrase's or a word's label as the case may be.
"""

from __future__ import annotations

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.tensors import compact, dense
from sapwood.automata.wcfg import WeightedGrammar
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.trees.symbols import SymbolTable


def from_weighted_grammar(grammar: WeightedGrammar) -> TreeAutomaton:
    """Return the automaton with a state for each nonterminal: `f(t)` sums over all derivations of the shape of `t`.

    Examples
    --------
    >>> from sapwood.automata.wcfg_files import parse_grammar
    >>> grammar = parse_grammar("S -> S S [0.25] | 'a' [0.5] | 'b' [0.25]")
    >>> from_weighted_grammar(grammar).weight(("a", ("b", "a")))
    0.00390625
    """
    return TreeAutomaton.single(
        grammar.root, compact(grammar.binary), grammar.lexical.toarray().T.copy(), grammar.words
    )


def to_weighted_grammar(automaton: TreeAutomaton) -> WeightedGrammar:
    """Return the grammar with a nonterminal for each state; of several sorts, the states of all."""
    if automaton.words is None:
        raise UsageError("this automaton has no words: it was made with words=False")
    one = automaton if len(automaton.sorts) == 1 else automaton.joined()
    transitions = one.transitions[0] if one.transitions else np.zeros((one.n_states,) * 3)
    return WeightedGrammar.from_parts(one.root[0], transitions, one.leaves[0].T, automaton.words)


def to_model(automaton: TreeAutomaton, label: str = "X") -> TensorGrammar:
    """Return an automaton of one sort as a model with one label, to parse sentences to trees without other labels.

    The states are there twice: of the label over words, and over phrases.
    """
    if len(automaton.sorts) != 1 or automaton.words is None:
        raise UsageError("only an automaton of one sort, with words, is a model of one label")
    n = automaton.n_states
    tensor = dense(automaton.transitions[0]) if automaton.transitions else np.zeros((n, n, n))
    rows = automaton.leaves[0]
    vectors = {(0, word): rows[word] for word in np.flatnonzero(rows.any(axis=1)).tolist()}
    return TensorGrammar(
        symbols=SymbolTable.from_names([label, label]),
        n_interminals=1,
        states=np.array([n, n], np.int32),
        rules=np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]], np.int32),
        tensors=np.tile(tensor.ravel(), 4),
        root=np.tile(automaton.root[0], 2),
        emissions=plain_emissions(automaton.words, [label], np.array([n], np.int32), vectors),
        probabilistic=False,
        occupancy=np.tile(automaton.root[0], 2),
        rule_counts=np.ones(4),
        info={"method": "automaton"},
    ).validate()
