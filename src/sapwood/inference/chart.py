"""From a sentence to its chart of posteriors: prune with the coarse grammar, then run the fine one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.inference._coarse_kernels import coarse_inside, coarse_outside, survivors
from sapwood.inference._fine_kernels import entry_posteriors, expand_entries, fine_inside, fine_outside, index_entries
from sapwood.inference.compiled import CompiledGrammar, Leaf

# Above this length the coarse chart is kept in single precision, to halve its memory.
_LONG = 150


@dataclass(frozen=True, eq=False)
class Chart:
    """What inference knows about a sentence of `n` words.

    Nodes are base symbols over spans (coarse entries), entries the grammar's own symbols over spans; both are
    numbered span by span, span `(i, j)` being cell `j (j - 1) / 2 + i`.

    Attributes
    ----------
    log_probability
        Natural logarithm of the sentence's probability (of what was not pruned; NaN if it is negative,
        which real-valued grammars can give).
    node_offsets, node_symbol, node_of
        Nodes by cell, their coarse symbols, and each entry's node.
    entry_offsets, entry_symbol, entry_posterior, vector_offsets
        Entries by cell.
    inside, outside, exponent
        Scaled vectors of the entries and the exponents of the cells.
    edges, edge_posterior
        `(edges, 4)` parent, left and right entry and rule, top-down; and posteriors.
    """

    n: int
    log_probability: float
    node_offsets: np.ndarray
    node_symbol: np.ndarray
    node_of: np.ndarray
    entry_offsets: np.ndarray
    entry_symbol: np.ndarray
    entry_posterior: np.ndarray
    vector_offsets: np.ndarray
    inside: np.ndarray
    outside: np.ndarray
    exponent: np.ndarray
    edges: np.ndarray
    edge_posterior: np.ndarray


def build_chart(
    compiled: CompiledGrammar, leaves: Sequence[Leaf], *, threshold: float, edge_threshold: float
) -> Chart | None:
    """Return the chart of a sentence given its words' lexical weights; None if nothing survives.

    Parameters
    ----------
    compiled
        The grammar.
    leaves
        The lexical weights of each word (`compiled.leaf`).
    threshold
        Coarse entries with a smaller posterior are pruned; 0 prunes only what no parse can use.
    edge_threshold
        Rule posteriors below this are not listed.
    """
    n = len(leaves)
    coarse = _coarse_pass(compiled, leaves, threshold)
    if coarse is None:
        return None
    node_offsets, node_symbol = coarse
    grammar = compiled.grammar
    n_symbols, n_cells, n_words = len(grammar.symbols), n * (n + 1) // 2, (n >> 6) + 1
    sizes = np.diff(compiled.fine_offsets)
    n_entries = int(sizes[node_symbol].sum())
    entry_offsets = np.empty(n_cells + 1, np.int64)
    entry_symbol, node_of = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
    ends = np.zeros((n, n_symbols, n_words), np.uint64)
    starts = np.zeros((n + 1, n_symbols, n_words), np.uint64)
    expand_entries(
        n,
        node_offsets,
        node_symbol,
        compiled.fine_offsets,
        compiled.fine_symbol,
        entry_offsets,
        entry_symbol,
        node_of,
        ends,
        starts,
    )
    start_base, end_base = np.empty((n, n_symbols), np.int32), np.empty((n + 1, n_symbols), np.int32)
    by_start, by_end = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
    index_entries(n, entry_offsets, entry_symbol, ends, starts, start_base, end_base, by_start, by_end)
    vector_offsets = np.zeros(n_entries + 1, np.int64)
    np.cumsum(compiled.states[entry_symbol], out=vector_offsets[1:])
    inside = np.zeros(vector_offsets[-1], compiled.dtype)
    _place_leaves(compiled, leaves, entry_offsets, entry_symbol, vector_offsets, inside)
    exponent = np.empty(n_cells, np.int64)
    lookup = (ends, starts, start_base, end_base, by_start, by_end, np.zeros_like(ends), np.zeros_like(starts))
    fine = (
        compiled.states,
        compiled.rule_offsets,
        compiled.rule_left,
        compiled.rule_right,
        compiled.tensor_offsets,
        compiled.tensors,
    )
    fine_inside(n, *fine, entry_offsets, entry_symbol, vector_offsets, *lookup, inside, exponent)
    outside = np.zeros_like(inside)
    total, edges, edge_posterior = fine_outside(
        n,
        *fine,
        compiled.root,
        compiled.root_offsets,
        entry_offsets,
        entry_symbol,
        vector_offsets,
        *lookup,
        inside,
        exponent,
        outside,
        edge_threshold,
    )
    if total == 0:
        return None
    posterior = np.empty(n_entries)
    entry_posteriors(vector_offsets, inside, outside, posterior)
    log_probability = float(np.log(total) + exponent[-n] * np.log(2.0)) if total > 0 else float("nan")
    return Chart(
        n,
        log_probability,
        node_offsets,
        node_symbol,
        node_of,
        entry_offsets,
        entry_symbol,
        posterior,
        vector_offsets,
        inside,
        outside,
        exponent,
        edges,
        edge_posterior,
    )


def _coarse_pass(
    compiled: CompiledGrammar, leaves: Sequence[Leaf], threshold: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the surviving coarse entries by cell: offsets and symbols."""
    n, n_coarse = len(leaves), compiled.n_coarse
    leaf_offsets = np.zeros(n + 1, np.int64)
    np.cumsum([len(leaf.symbols) for leaf in leaves], out=leaf_offsets[1:])
    leaf_symbol = np.concatenate([leaf.symbols for leaf in leaves])
    leaf_value = np.concatenate([leaf.values for leaf in leaves])
    n_cells, n_words = n * (n + 1) // 2, (n >> 6) + 1
    dtype = np.float64 if n <= _LONG else np.float32
    inside = np.zeros((n_cells, n_coarse), dtype)
    exponent = np.zeros(n_cells, np.int64)
    ends, starts = np.zeros((n, n_coarse, n_words), np.uint64), np.zeros((n + 1, n_coarse, n_words), np.uint64)
    factor = np.zeros(n + 1)
    coarse_inside(
        n,
        leaf_offsets,
        leaf_symbol,
        leaf_value,
        compiled.pair_offsets,
        compiled.pair_right,
        compiled.pair_rule_offsets,
        compiled.pair_rule_parent,
        compiled.pair_rule_weight,
        inside,
        exponent,
        ends,
        starts,
        np.zeros((n, n_coarse), np.int32),
        np.zeros(n, np.int64),
        factor,
    )
    outside = np.zeros((n_cells, n_coarse), dtype)
    total = coarse_outside(
        n,
        compiled.coarse.root,
        compiled.coarse_rule_offsets,
        compiled.coarse_rule_left,
        compiled.coarse_rule_right,
        compiled.coarse.tensors,
        inside,
        exponent,
        ends,
        starts,
        outside,
        0.1 * threshold,
        factor,
    )
    if total == 0:
        return None
    offsets = np.empty(n_cells + 1, np.int64)
    symbol = np.empty(8 * n_cells + 64, np.int32)
    found = survivors(n, inside, outside, threshold, offsets, symbol)
    if found > len(symbol):
        symbol = np.empty(found, np.int32)
        survivors(n, inside, outside, threshold, offsets, symbol)
    return offsets, symbol[:found]


def _place_leaves(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    entry_offsets: np.ndarray,
    entry_symbol: np.ndarray,
    vector_offsets: np.ndarray,
    inside: np.ndarray,
) -> None:
    """Copy the words' lexical vectors to their entries."""
    state_offsets = compiled.grammar.emissions.state_offsets
    n_inner = compiled.grammar.n_interminals
    for position, leaf in enumerate(leaves):
        cell = (position + 1) * position // 2 + position
        first, last = entry_offsets[cell], entry_offsets[cell + 1]
        symbols = entry_symbol[first:last] - n_inner
        sizes = compiled.states[entry_symbol[first:last]]
        begin, end = vector_offsets[first], vector_offsets[last]
        source = np.repeat(state_offsets[symbols] - (vector_offsets[first:last] - begin), sizes) + np.arange(
            end - begin
        )
        inside[begin:end] = leaf.row[source]
