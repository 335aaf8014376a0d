"""Decoders: dynamic programs over the packed forest of entries and edges.

Edges come top-down by span (as `fine_outside` lists them); walking them backwards visits every child
before its parents. A decoder returns, for each node, the edge it chose (-1 for leaves and dead ends).
"""

from __future__ import annotations

import math

import numba
import numpy as np

_FIELD = np.int64(21)


@numba.njit(cache=True, nogil=True)
def project_edges(edges, posterior, node_of):
    """Merge edges that differ only in how finely their symbols are split.

    `node_of (entries,)` maps entries to coarser nodes. Returns `(edges, 3)` parent, left and right node, in the
    same top-down order, and the summed posteriors.
    """
    n_edges = edges.shape[0]
    size = 16
    while size < 2 * n_edges:
        size *= 2
    slots = np.full(size, -1, np.int32)
    keys = np.empty(n_edges, np.int64)
    merged = np.empty((n_edges, 3), np.int32)
    total = np.zeros(n_edges)
    count = 0
    for e in range(n_edges):
        parent, left, right = node_of[edges[e, 0]], node_of[edges[e, 1]], node_of[edges[e, 2]]
        key = ((np.int64(parent) << _FIELD | np.int64(left)) << _FIELD) | np.int64(right)
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(mixed >> np.uint64(32)) & (size - 1)
        while slots[slot] >= 0 and keys[slots[slot]] != key:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = count
            keys[count] = key
            merged[count, 0], merged[count, 1], merged[count, 2] = parent, left, right
            count += 1
        total[slots[slot]] += posterior[e]
    return merged[:count], total[:count]


@numba.njit(cache=True, nogil=True)
def sum_nodes(posterior, node_of, totals):
    """Add up entry posteriors by node."""
    for e in range(posterior.shape[0]):
        totals[node_of[e]] += posterior[e]


@numba.njit(cache=True, nogil=True)
def best_by_edges(n_nodes, leaf_score, edges, score, gain):
    """Return each node's best total score and chosen edge.

    A derivation scores the sum of its edges' `score`, its inner nodes' `gain` and its leaves' `leaf_score` (which is
    -inf for nodes that are no leaves).
    """
    best = leaf_score.copy()
    choice = np.full(n_nodes, -1, np.int64)
    for e in range(edges.shape[0] - 1, -1, -1):
        parent = edges[e, 0]
        value = score[e] + gain[parent] + best[edges[e, 1]] + best[edges[e, 2]]
        if value > best[parent]:
            best[parent] = value
            choice[parent] = e
    return best, choice


@numba.njit(cache=True, nogil=True)
def viterbi_states(states, entry_symbol, vector_offsets, leaf_log, edges, tensor_offsets, log_tensors):
    """Return the best log weight of each entry's state, and the edge and child states that give it.

    `leaf_log` holds the log lexical weights of leaves, -inf elsewhere.
    """
    best = leaf_log.copy()
    choice = np.full(best.shape[0], -1, np.int64)
    left_state = np.zeros(best.shape[0], np.int32)
    right_state = np.zeros(best.shape[0], np.int32)
    for e in range(edges.shape[0] - 1, -1, -1):
        parent, left, right, rule = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        m_b, m_c = states[entry_symbol[left]], states[entry_symbol[right]]
        base = tensor_offsets[rule]
        for x in range(states[entry_symbol[parent]]):
            at = vector_offsets[parent] + x
            for y in range(m_b):
                partial = best[vector_offsets[left] + y]
                if partial == -math.inf:
                    continue
                for z in range(m_c):
                    value = log_tensors[base + (x * m_b + y) * m_c + z] + partial + best[vector_offsets[right] + z]
                    if value > best[at]:
                        best[at] = value
                        choice[at] = e
                        left_state[at] = y
                        right_state[at] = z
    return best, choice, left_state, right_state
