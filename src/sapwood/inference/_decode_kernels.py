"""Decoders: dynamic programs over the packed forest of nodes and edges.

Edges come in groups, top-down by span; walking them backwards visits every child before its parents. A decoder
returns, for each node, the edge it chose (-1 for leaves and dead ends).
"""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def best_by_edges(leaf_score, group_parent, group_offsets, children, score, gain):
    """Return each node's best total score and chosen edge.

    A derivation scores the sum of its edges' `score`, its inner nodes' `gain` and its leaves' `leaf_score` (which is
    -inf for nodes that are no leaves).
    """
    best = leaf_score.copy()
    choice = np.full(best.shape[0], -1, np.int64)
    for g in range(group_parent.shape[0] - 1, -1, -1):
        parent = group_parent[g]
        for e in range(group_offsets[g], group_offsets[g + 1]):
            value = score[e] + gain[parent] + best[children[e, 0]] + best[children[e, 1]]
            if value > best[parent]:
                best[parent] = value
                choice[parent] = e
    return best, choice


@numba.njit(cache=True, nogil=True)
def viterbi_states(
    vector_offsets, leaf_log, group_parent, group_rule, group_offsets, children, fine_offsets, fine_places,
    fine_states, tensor_offsets, log_tensors,
):  # fmt: skip
    """Return the best log weight of each place in the nodes' vectors, and the edge and children's places that give it.

    `leaf_log` holds the log lexical weights of leaves, -inf elsewhere.
    """
    best = leaf_log.copy()
    choice = np.full(best.shape[0], -1, np.int64)
    chosen = np.zeros((best.shape[0], 2), np.int64)
    for g in range(group_parent.shape[0] - 1, -1, -1):
        for f in range(fine_offsets[group_rule[g]], fine_offsets[group_rule[g] + 1]):
            m_b, m_c = fine_states[f, 1], fine_states[f, 2]
            for e in range(group_offsets[g], group_offsets[g + 1]):
                left = vector_offsets[children[e, 0]] + fine_places[f, 1]
                right = vector_offsets[children[e, 1]] + fine_places[f, 2]
                for x in range(fine_states[f, 0]):
                    at = vector_offsets[group_parent[g]] + fine_places[f, 0] + x
                    for y in range(m_b):
                        partial = best[left + y]
                        if partial == -math.inf:
                            continue
                        for z in range(m_c):
                            weight = log_tensors[tensor_offsets[f] + (x * m_b + y) * m_c + z]
                            value = weight + partial + best[right + z]
                            if value > best[at]:
                                best[at] = value
                                choice[at] = e
                                chosen[at, 0] = left + y
                                chosen[at, 1] = right + z
    return best, choice, chosen
