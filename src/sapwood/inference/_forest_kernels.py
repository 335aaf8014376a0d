"""From the charts of the coarse pass to a forest: outside values, the edges worth keeping, and their nodes.

Charts are laid out as `_coarse_kernels.coarse_inside` says.
"""

# mypy: ignore-errors
from __future__ import annotations

import numba
import numpy as np

from sapwood.inference._bits import lowest_bit
from sapwood.inference._coarse_kernels import cell_of, end_run, holds, power_of_two, start_run

_ONE = np.uint64(1)


@numba.njit(cache=True, nogil=True)
def coarse_outside(
    n, total, root, rule_parent, rule_left, rule_right, rule_weight, by_start, by_end, outside_start, outside_end,
    exponent, ends, starts, starting, n_starting, start_slot, end_slot, part_offsets, part_rule, part, threshold,
):  # fmt: skip
    """Hand the outside values down and list the edges whose posterior exceeds `threshold`.

    The chart is as `coarse_inside` left it, `total` what it returned. An entry's outside value is in two parts: what it
    has got as a left child, in `outside_start`, and as a right child, in `outside_end`; so splits are neighbours in
    memory.

    A rule's posterior over a span is its part in the parent's inside value times the parent's posterior; rules are
    expanded only where that exceeds a tenth of `threshold`. Returns the edges, top-down by cell, those of one cell and
    rule being one group: `(groups, 2)` cell and rule, where each group's edges begin, and the edges' splits.
    """
    n_symbols = ends.shape[1]
    factor = np.zeros(n + 1)
    value = np.zeros(n_symbols)
    here = np.zeros(n_symbols)
    chosen = np.empty(rule_parent.shape[0] + 1, np.int32)
    least = 0.1 * threshold
    groups = np.empty((256 * n, 2), np.int32)
    group_offsets = np.empty(256 * n + 1, np.int64)
    split = np.empty(512 * n, np.int32)
    n_groups = 0
    n_edges = 0
    for a in range(n_starting[0]):
        if holds(ends, 0, a, n):
            outside_start[start_run(n, n_symbols, 0, a) + n] = root[starting[0, a]] / total
    for j in range(n, 1, -1):
        for i in range(j - 1):
            cell = cell_of(i, j)
            visited = cell_of(0, j) + j - 1 - i
            if part_offsets[visited] == part_offsets[visited + 1]:
                continue
            most = 0.0
            for a in range(n_starting[i]):
                if holds(ends, i, a, j):
                    s = starting[i, a]
                    run = start_run(n, n_symbols, i, a) + j
                    value[s] = outside_start[run] + outside_end[end_run(n_symbols, j, end_slot[j, s]) + i]
                    here[s] = value[s] * by_start[run]
                    most = max(most, here[s])
            if most <= least:
                continue
            for k in range(i + 1, j):
                factor[k] = power_of_two(exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - exponent[cell])
            # Without branches, which could not be foreseen.
            n_chosen = 0
            for x in range(part_offsets[visited], part_offsets[visited + 1]):
                chosen[n_chosen] = part_rule[x]
                n_chosen += here[rule_parent[part_rule[x]]] * part[x] > least
            for x in range(n_chosen):
                r = chosen[x]
                s = rule_parent[r]
                a, at = start_slot[i, rule_left[r]], end_slot[j, rule_right[r]]
                left = start_run(n, n_symbols, i, a)
                right = end_run(n_symbols, j, at)
                weight = value[s] * rule_weight[r]
                if n_edges + n >= split.shape[0]:
                    longer = np.empty(2 * split.shape[0] + n, np.int32)
                    longer[:n_edges] = split[:n_edges]
                    split = longer
                before = n_edges
                for w in range(ends.shape[2]):
                    both = ends[i, a, w] & starts[j, at, w]
                    while both != 0:
                        k = 64 * w + lowest_bit(both)
                        both &= both - _ONE
                        left_value, right_value = by_start[left + k], by_end[right + k]
                        scaled = weight * factor[k]
                        posterior = scaled * right_value * left_value
                        outside_start[left + k] += scaled * right_value
                        outside_end[right + k] += scaled * left_value
                        split[n_edges] = k
                        n_edges += posterior > threshold
                if n_edges > before:
                    if n_groups == groups.shape[0]:
                        bigger = np.empty((2 * n_groups, 2), np.int32)
                        bigger[:n_groups] = groups
                        groups = bigger
                        more = np.empty(2 * n_groups + 1, np.int64)
                        more[:n_groups] = group_offsets[:n_groups]
                        group_offsets = more
                    groups[n_groups, 0] = cell
                    groups[n_groups, 1] = r
                    group_offsets[n_groups] = before
                    n_groups += 1
    group_offsets[n_groups] = n_edges
    return groups[:n_groups], group_offsets[: n_groups + 1], split[:n_edges]


@numba.njit(cache=True, nogil=True)
def number_nodes(
    n, by_start, outside_start, outside_end, ends, starting, n_starting, end_slot, threshold, node_offsets, node_number
):  # fmt: skip
    """Number the entries whose posterior exceeds `threshold`, cell by cell; returns their symbols and cells.

    `node_offsets (cells + 1,)` bounds each cell's nodes; `node_number (like by_start)` is -1 where there is no node.
    """
    n_symbols = ends.shape[1]
    n_cells = n * (n + 1) // 2
    symbol = np.empty(16 * n_cells + n_symbols, np.int32)
    cells = np.empty(16 * n_cells + n_symbols, np.int32)
    count = 0
    node_number[:] = -1
    for j in range(1, n + 1):
        for i in range(j):
            cell = cell_of(i, j)
            node_offsets[cell] = count
            if count + n_symbols > symbol.shape[0]:
                longer = np.empty(2 * symbol.shape[0] + n_symbols, np.int32)
                longer[:count] = symbol[:count]
                symbol = longer
                longer = np.empty(symbol.shape[0], np.int32)
                longer[:count] = cells[:count]
                cells = longer
            for a in range(n_starting[i]):
                if holds(ends, i, a, j):
                    s = starting[i, a]
                    run = start_run(n, n_symbols, i, a) + j
                    value = outside_start[run] + outside_end[end_run(n_symbols, j, end_slot[j, s]) + i]
                    if value * by_start[run] > threshold:
                        symbol[count] = s
                        cells[count] = cell
                        node_number[run] = count
                        count += 1
    node_offsets[n_cells] = count
    return symbol[:count], cells[:count]


@numba.njit(cache=True, nogil=True, inline="always")
def numbered(n, n_symbols, i, j, slot, node_number):
    """Return the number of the node over `i..j` in a slot of those that start at `i`, -1 if there is none."""
    return node_number[start_run(n, n_symbols, i, slot) + j] if slot >= 0 else -1


@numba.njit(cache=True, nogil=True)
def link_edges(
    n, groups, group_offsets, split, rule_parent, rule_left, rule_right, start_slot, node_number, group_parent, children
):  # fmt: skip
    """Turn cells, rules and splits into node numbers: `group_parent (groups,)` and `children (edges, 2)`.

    Where there is no node the number is -1; returns how often that is the case.
    """
    n_symbols = start_slot.shape[1]
    missing = 0
    starts = np.empty(n * (n + 1) // 2, np.int32)
    ends = np.empty(n * (n + 1) // 2, np.int32)
    for j in range(1, n + 1):
        for i in range(j):
            starts[cell_of(i, j)] = i
            ends[cell_of(i, j)] = j
    for g in range(groups.shape[0]):
        cell, r = groups[g, 0], groups[g, 1]
        i, j = starts[cell], ends[cell]
        group_parent[g] = numbered(n, n_symbols, i, j, start_slot[i, rule_parent[r]], node_number)
        missing += group_parent[g] < 0
        for e in range(group_offsets[g], group_offsets[g + 1]):
            k = split[e]
            children[e, 0] = numbered(n, n_symbols, i, k, start_slot[i, rule_left[r]], node_number)
            children[e, 1] = numbered(n, n_symbols, k, j, start_slot[k, rule_right[r]], node_number)
            missing += children[e, 0] < 0 or children[e, 1] < 0
    return missing
