"""Loops over the nodes of trees in preorder, and the filling of sparse rows."""

# mypy: ignore-errors
from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def climb(rule, left, right, head_is_right, height, head):
    """Fill in each node's height (0 on leaves) and the leaf of its head, children before parents."""
    for node in range(len(rule) - 1, -1, -1):
        if rule[node] < 0:
            height[node] = 0
            head[node] = node
        else:
            height[node] = 1 + max(height[left[node]], height[right[node]])
            head[node] = head[right[node] if head_is_right[rule[node]] else left[node]]


@numba.njit(cache=True, nogil=True)
def descend(parent, intermediate, head, depth, phrase, outer):
    """Fill in each node's depth (0 on roots), and of its ancestors that are not intermediate, -1 if there is none:

    the first, and the head of the first that has another head than the node.
    """
    for node in range(len(parent)):
        above = parent[node]
        depth[node] = depth[above] + 1 if above >= 0 else 0
        if above >= 0 and intermediate[above]:
            above = phrase[above]
        phrase[node] = above
        if above < 0:
            outer[node] = -1
        else:
            outer[node] = outer[above] if head[above] == head[node] else head[above]


@numba.njit(cache=True, nogil=True)
def fill_rows(rows, columns, weights, next_entry, indices, data):
    """Append entries to sparse rows: row `r` goes on at `next_entry[r]`, which moves."""
    for x in range(len(rows)):
        at = next_entry[rows[x]]
        indices[at] = columns[x]
        data[at] = weights[x]
        next_entry[rows[x]] = at + 1
