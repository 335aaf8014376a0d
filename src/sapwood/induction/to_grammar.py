"""Induced constituency models as a `TensorGrammar`: one phrase, `X`, with hidden states, over the terminals.

Every constituency model becomes a grammar whose weights are probabilities, and that the rest of sapwood can parse with,
sample from and minimise. Terminals are its preterminals, each with one state; their words come from the text itself
(`sapwood.learn.lpcfg.lexical`).

In the paper's models all trees of a length are equally probable. A PCFG in which every node stops with a probability of
one half has this property: a tree over n words has the probability 2^(1 - 2n), whatever its shape. So `X -> Y Z` has a
quarter of `B`'s weight for each choice of states (`X`) or terminals for Y and Z, and terminals draw their share by `O`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.em_model import Counts
from sapwood.induction.text import Text
from sapwood.learn.lpcfg.lexical import Leaves, LexicalModel, LexicalSettings
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.symbols import SymbolTable, make_symbol
from sapwood.trees.transform import TreeTransform

PHRASE = "X"
# Pseudo-counts for sentences of one word, and for their terminals.
_ALONE, _ANY = 1.0, 0.1


def terminal_emissions(text: Text, settings: LexicalSettings) -> Emissions:
    """Return the emissions of words by terminals."""
    names = [make_symbol((name,)) for name in text.terminals]
    at = np.flatnonzero(text.word >= 0)
    leaves = Leaves(text.terminal, text.word[at], text.start[at] == 0, np.ones(len(at)))
    return LexicalModel(text, settings, leaves, names).emissions()


def assemble_grammar(
    text: Text,
    settings: LexicalSettings,
    root: Float64[Array, "states_and_terminals"],
    rules: Float64[Array, "states children children"],
    occupancy: Float64[Array, "states"],
    info: Mapping[str, Any],
) -> TensorGrammar:
    """Return the grammar with one phrase.

    Parameters
    ----------
    text
        The text it was learned from.
    settings
        Treatment of rare and unknown words.
    root
        The probability of each state, then of each terminal, at the root.
    rules
        The probability of each pair of children, states and then terminals, given the parent's state.
    occupancy
        Expected count of each state.
    info
        Metadata of the grammar.
    """
    k, n = len(occupancy), len(text.terminals)
    symbols = SymbolTable(tuple(make_symbol((name,)) for name in (PHRASE, *text.terminals)))
    places = [slice(0, k), *(slice(k + number, k + number + 1) for number in range(n))]
    numbers = [(0, a, b) for a in range(n + 1) for b in range(n + 1)]
    tensors = np.concatenate([rules[:, places[a], places[b]].ravel() for _, a, b in numbers])
    # Expected uses of the rules, from the expected counts of states.
    children = np.einsum("c,cab->ab", occupancy, rules)
    first = np.concatenate([[0], np.arange(k, k + n)])
    by_rule = np.add.reduceat(np.add.reduceat(children, first, axis=0), first, axis=1)
    counts = np.bincount(text.terminal, minlength=n).astype(float)
    grammar = TensorGrammar(
        symbols=symbols,
        n_interminals=1,
        states=np.array([k, *[1] * n], np.int32),
        rules=np.array(numbers, np.int32),
        tensors=tensors,
        root=root,
        emissions=terminal_emissions(text, settings),
        probabilistic=True,
        occupancy=np.concatenate([occupancy, counts]),
        rule_counts=by_rule.ravel(),
        transform=TreeTransform(),
        info={**info, "induced": {"terminals": text.kind, "punctuation": text.punctuation}},
    )
    return grammar.validate()


def tensor_pcfg_grammar(
    text: Text,
    settings: LexicalSettings,
    theta: Counts,
    occupancy: Float64[Array, "states"],
    info: Mapping[str, Any],
) -> TensorGrammar:
    """Return the grammar of a low-rank PCFG (`sapwood.induction.models.tensor_pcfg`).

    Sentences of one word, which the model does not cover, are as frequent as in the text.
    """
    rules = np.einsum("cr,ra,rb->cab", theta["up"], theta["left"], theta["right"], optimize=True)
    alone = text.terminal[text.offsets[:-1][text.lengths == 1]]
    share = (len(alone) + _ALONE) / (text.n_sentences + 2 * _ALONE)
    single = np.bincount(alone, minlength=len(text.terminals)) + _ANY
    root = np.concatenate([(1 - share) * theta["root"], share * single / single.sum()])
    return assemble_grammar(text, settings, root, rules, occupancy, info)


def pcfg_grammar(
    text: Text,
    settings: LexicalSettings,
    root: Float64[Array, "states"],
    rule: Float64[Array, "states states states"],
    words: Float64[Array, "states terminals"],
    occupancy: Float64[Array, "states"],
    info: Mapping[str, Any],
) -> TensorGrammar:
    """Return the grammar of a model of the paper, with `B[c, a, b]` and `O[c, terminal]`."""
    # A child continues as a phrase, or stops as one of its terminals.
    goes = np.concatenate([np.eye(len(root)), words], axis=1) / 2
    rules = np.einsum("cab,ax,by->cxy", rule, goes, goes, optimize=True)
    return assemble_grammar(text, settings, root @ goes, rules, occupancy, info)
