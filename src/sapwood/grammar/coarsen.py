"""Coarse grammar: the one-state grammar over base symbols that a grammar implies.

Symbols that differ only in their ancestors or siblings (`NP^S`, `NP^VP`) become one (`NP`), all states become one. Rule
probabilities are the relative frequencies of the stored rule counts: for a probabilistic grammar these are its own
expectations, for a real-valued one the treebank's. Lexical weights are averages by `occupancy`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse

from sapwood.grammar.emissions import Emissions
from sapwood.grammar.symbol_groups import group_symbols
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float, Int, Int32

# Minimum of coarse weights where the fine grammar has a rule.
_FLOOR = 1e-12


def coarsen(grammar: TensorGrammar) -> tuple[TensorGrammar, Int32[Array, "symbols"]]:
    """Return the coarse grammar, and the coarse symbol of each symbol."""
    groups = group_symbols(grammar)
    coarse_of, rules = groups.group, groups.rules
    n_coarse, n_coarse_inner = len(groups.symbols), groups.n_interminals
    # Without rules, `bincount` returns integers.
    counts = np.bincount(groups.rule_of, weights=np.maximum(grammar.rule_counts, 0), minlength=len(rules)).astype(float)
    totals = np.bincount(rules[:, 0], weights=counts, minlength=n_coarse)
    tensors = np.maximum(counts / np.where(totals > 0, totals, 1)[rules[:, 0]], _FLOOR)
    tensors /= np.bincount(rules[:, 0], weights=tensors, minlength=n_coarse)[rules[:, 0]]

    symbol_counts = expected_symbols(grammar)
    occupancy = np.bincount(coarse_of, weights=symbol_counts, minlength=n_coarse)
    root = np.bincount(coarse_of, weights=_root_weights(grammar, symbol_counts), minlength=n_coarse)
    return TensorGrammar(
        symbols=groups.symbols,
        n_interminals=n_coarse_inner,
        states=np.ones(n_coarse, np.int32),
        rules=rules,
        tensors=tensors,
        root=root / max(root.sum(), 1e-300),
        emissions=_coarse_emissions(grammar, coarse_of, n_coarse_inner, n_coarse),
        probabilistic=grammar.probabilistic,
        occupancy=occupancy,
        rule_counts=counts,
        normaliser=grammar.normaliser,
        transform=grammar.transform,
        info={"method": "coarsened"},
    ), coarse_of


def _coarse_emissions(grammar: TensorGrammar, coarse_of: np.ndarray, n_inner: int, n_coarse: int) -> Emissions:
    """Average the lexical vectors of all states that are merged; linear, so term by term."""
    fine = grammar.emissions
    leaf_of = coarse_of[grammar.n_interminals :] - n_inner
    n_leaf = n_coarse - n_inner
    owner = leaf_of[fine.symbol_of_state]
    average = averaging_weights(grammar, owner, n_leaf)
    emitting = fine.emitting_state
    share = np.bincount(owner, weights=average * fine.share[emitting], minlength=n_leaf)
    # Terminals by emitting states, times emitting states by coarse symbols.
    sizes = fine.states[fine.symbol]
    at = np.repeat(fine.state_offsets[fine.symbol] - fine.value_offsets[:-1], sizes) + np.arange(len(fine.values))
    terminal = np.repeat(np.repeat(np.arange(fine.lexicon.n_terminals), np.diff(fine.offsets)), sizes)
    values = scipy.sparse.coo_array((fine.values, (terminal, at)), shape=(fine.lexicon.n_terminals, len(owner)))
    weights = scipy.sparse.coo_array((average, (emitting, owner)), shape=(len(owner), n_leaf))
    table = (values.tocsr() @ weights.tocsr()).sorted_indices()
    tag_of = np.zeros(n_leaf, np.int32)
    tag_of[leaf_of] = fine.tag_of
    return replace(
        fine,
        states=np.ones(n_leaf, np.int32),
        offsets=table.indptr.astype(np.int64),
        symbol=table.indices.astype(np.int32),
        values=table.data,
        tag_of=tag_of,
        share=share,
        emitter=None,
    )


def expected_symbols(grammar: TensorGrammar) -> Float[Array, "symbols"]:
    """Return the expected count of each symbol, in any basis of the grammar's states.

    The count of an interminal is that of its rules; the occupancy of a preterminal is applied to the sum of its words.
    """
    counts = np.zeros(len(grammar.symbols))
    np.add.at(counts, grammar.rules[:, 0], np.maximum(grammar.rule_counts, 0))
    words = grammar.emissions.totals() * grammar.occupancy[grammar.state_offsets[grammar.n_interminals] :]
    counts[grammar.n_interminals :] = np.bincount(
        grammar.emissions.symbol_of_state, weights=words, minlength=len(grammar.emissions.states)
    )
    return np.maximum(counts, 0)


def _root_weights(grammar: TensorGrammar, symbol_counts: np.ndarray) -> np.ndarray:
    """Return the probability of each symbol at the root, positive wherever it is possible."""
    offsets = grammar.state_offsets
    if grammar.probabilistic:
        return np.add.reduceat(grammar.root, offsets[:-1])
    # A symbol is at the root whenever it is not a child.
    children = np.zeros(len(grammar.symbols))
    for column in (1, 2):
        np.add.at(children, grammar.rules[:, column], np.maximum(grammar.rule_counts, 0))
    possible = np.add.reduceat(np.abs(grammar.root), offsets[:-1]) > 0
    return np.where(possible, np.maximum(symbol_counts - children, 1e-6 * max(symbol_counts.sum(), 1e-300)), 0.0)


def averaging_weights(
    grammar: TensorGrammar, owner: Int[Array, "leaf_states"], n_owners: int
) -> Float[Array, "leaf_states"]:
    """Return the weight of each preterminal state in the average over all states of its owner."""
    occupancy = grammar.occupancy[grammar.state_offsets[grammar.n_interminals] :].astype(float)
    totals = np.bincount(owner, weights=occupancy * grammar.emissions.totals(), minlength=n_owners)
    members = np.bincount(owner, minlength=n_owners)
    safe = np.where(totals > 0, totals, 1)
    return np.where(totals[owner] > 0, occupancy / safe[owner], 1 / members[owner])
