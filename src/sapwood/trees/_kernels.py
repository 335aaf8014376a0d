"""Compiled loops of the data layer."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def link_nodes(
    is_leaf: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray,
    parent: np.ndarray, start: np.ndarray, end: np.ndarray,
) -> int:  # fmt: skip
    """Fill in children, parents and spans of binary trees stored in preorder.

    `offsets` (trees + 1) bounds each tree's nodes. Returns -1, or the number of the first tree whose
    nodes do not form one binary tree.
    """
    n_trees = offsets.shape[0] - 1
    longest = 0
    for t in range(n_trees):
        longest = max(longest, offsets[t + 1] - offsets[t])
    stack = np.empty(longest + 1, np.int64)
    for t in range(n_trees):
        begin, stop = offsets[t], offsets[t + 1]
        depth = 0
        position = 0
        for node in range(begin, stop):
            if node > begin:
                if depth == 0:
                    return t
                above = stack[depth - 1]
                parent[node] = above
                if left[above] < 0:
                    left[above] = node
                else:
                    right[above] = node
            else:
                parent[node] = -1
            start[node] = position
            left[node] = -1
            right[node] = -1
            if is_leaf[node]:
                position += 1
                end[node] = position
                # Close every node that has both children now.
                while depth > 0 and right[stack[depth - 1]] >= 0:
                    depth -= 1
                    end[stack[depth]] = position
            else:
                stack[depth] = node
                depth += 1
        if depth != 0 or begin == stop:
            return t
    return -1
