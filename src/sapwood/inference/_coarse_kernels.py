"""The first, coarsest pass: a one-state grammar over all spans.

Nearly all the time of coarse-to-fine parsing goes here. Over a span `(i, j)`, and for each symbol `B` that begins at
`i`, the splits at which `B` ends are walked (a bit set), and the values of *all* symbols that end at `j` are added up
for them at once: one vectorised row operation for each split, instead of a scattered look-up for each pair of symbols.
Then the grammar's pairs `B C` are read off the sums. Symbols that begin few pairs do without.

Charts are triangular, cell `(i, j)` at `j (j - 1) / 2 + i`. Inside values of a cell are scaled by a power of two so
that the largest lies in [1/2, 1); `exponent[cell]` keeps it. Outside values are stored times the inverse scale and
divided by the sentence's probability: the product of a stored inside and a stored outside value *is* the posterior
probability of the entry, and neither over- nor underflows.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._bits import lowest_bit

_ONE = np.uint64(1)
_LOWEST = -(1 << 40)
# Symbols that begin no more pairs than this are summed pair by pair.
_FEW = 16
# Powers of two from 2^-1074 to 2^1023, by exponent + 1074: quicker than ldexp.
POWERS = np.ldexp(1.0, np.arange(-1074, 1024))


@numba.njit(cache=True, nogil=True, inline="always")
def cell_of(i: int, j: int) -> int:
    """Return the number of span `(i, j)`."""
    return j * (j - 1) // 2 + i


@numba.njit(cache=True, nogil=True, inline="always")
def power_of_two(exponent: int) -> float:
    """Return `2 ** exponent`, 0 or the largest power beyond the range of doubles."""
    if exponent < -1074:
        return 0.0
    return POWERS[min(exponent + 1074, 2097)]


@numba.njit(cache=True, nogil=True, inline="always")
def start_run(n, n_symbols, i, symbol):
    """Return where `by_start` keeps end 0 of the run for start `i` (its first real end is `i + 1`)."""
    return n_symbols * (i * n - i * (i - 1) // 2) + symbol * (n - i) - i - 1


@numba.njit(cache=True, nogil=True, inline="always")
def end_run(n_symbols, j, symbol):
    """Return where `by_end` keeps start 0 of the run for end `j`."""
    return n_symbols * (j * (j - 1) // 2) + symbol * j


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _sum_rows(total, splits, weights, count, rows, size):
    """`total[:size] = sum over x of weights[x] rows[splits[x], :size]`, four rows at a time."""
    for y in range(size):
        total[y] = 0
    x = 0
    while x + 4 <= count:
        first, second, third, fourth = rows[splits[x]], rows[splits[x + 1]], rows[splits[x + 2]], rows[splits[x + 3]]
        a, b, c, d = weights[x], weights[x + 1], weights[x + 2], weights[x + 3]
        for y in range(size):
            total[y] += a * first[y] + b * second[y] + c * third[y] + d * fourth[y]
        x += 4
    while x < count:
        first = rows[splits[x]]
        a = weights[x]
        for y in range(size):
            total[y] += a * first[y]
        x += 1


@numba.njit(cache=True, nogil=True)
def coarse_inside(
    n, leaf_offsets, leaf_symbol, leaf_value, pair_offsets, pair_right, pair_rule_offsets, rule_parent, rule_weight,
    pair_merit, prior, beam, threshold, cell_rule, allowed, by_start, by_end, exponent, ends, starts, active, n_active,
    part_offsets, part_rule, part,
):  # fmt: skip
    """Fill `by_start`, `by_end`, `exponent (cells,)` and the bit sets `ends (n, S, W)`, `starts (n + 1, S, W)`.

    Leaves of position `i` are `leaf_symbol[leaf_offsets[i]:leaf_offsets[i + 1]]`. Pairs are grouped by left symbol,
    rules by pair. Of each cell only entries are kept whose inside value times `prior (S,)` is at least `beam` times
    the cell's largest such product; pairs that could not give rise to one by themselves (`pair_merit` is the
    largest weight times prior among a pair's rules) are passed over. `cell_rule (cells,)` says what a cell may
    hold: -1 anything, -2 nothing, else the symbols in that row of `allowed (rows, S)`. The sets come zeroed, the charts
    need not; `active (n, S)` and `n_active (n,)` (zeroed) list the symbols that begin at a position.

    Returns the parts that rules have in the inside values of their parents, where they exceed a tenth of `threshold`:
    rule numbers and fractions, those of a cell from `part_offsets[c]` to `part_offsets[c + 1]`, where cells are counted
    in the order of this loop, `j (j - 1) / 2 + (j - 1 - i)`. They are written to `part_rule` and `part`, or to larger
    arrays if these are too small.
    """
    n_symbols = ends.shape[1]
    row = np.zeros(n_symbols)
    factor = np.zeros(n + 1, by_start.dtype)
    # Symbols that end at the current j: their places in rows, and by start the rows of their values.
    width = (n_symbols + 15) // 16 * 16
    place = np.full(n_symbols, -1, np.int32)
    ending = np.empty(n_symbols, np.int32)
    rows = np.zeros((n, width), by_start.dtype)
    sums = np.zeros(width, by_start.dtype)
    splits = np.empty(n + 1, np.int32)
    weights = np.empty(n + 1, by_start.dtype)
    limit = np.zeros(n_symbols)
    touched = np.empty(n_symbols, np.int32)
    lowest = -60 if beam > 0 else -1074
    n_pairs = pair_right.shape[0]
    met_pair = np.empty(n_pairs, np.int32)
    met_total = np.empty(n_pairs)
    n_parts = 0
    visited = 0
    part_offsets[0] = 0
    n_ending = 0
    for j in range(1, n + 1):
        for k in range(j - 1):
            rows[k, : (n_ending + 15) // 16 * 16] = 0
        for x in range(n_ending):
            place[ending[x]] = -1
        n_ending = 0
        for i in range(j - 1, -1, -1):
            cell = cell_of(i, j)
            reference = 0
            n_met = 0
            n_touched = 0
            visited += 1
            part_offsets[visited] = n_parts
            if cell_rule[cell] == -2:
                exponent[cell] = _LOWEST // 4
                continue
            if i == j - 1:
                for e in range(leaf_offsets[i], leaf_offsets[i + 1]):
                    row[leaf_symbol[e]] = leaf_value[e]
                    touched[n_touched] = leaf_symbol[e]
                    n_touched += 1
            else:
                reference = _LOWEST
                for k in range(i + 1, j):
                    reference = max(reference, exponent[cell_of(i, k)] + exponent[cell_of(k, j)])
                if reference < _LOWEST // 2:
                    exponent[cell] = _LOWEST // 4
                    continue
                for k in range(i + 1, j):
                    below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - reference
                    # Splits far below the best one must not slow the sums down with denormal numbers.
                    factor[k] = power_of_two(below) if below > lowest else 0.0
                hopeless = 0.0
                size = (n_ending + 15) // 16 * 16
                left_base = start_run(n, n_symbols, i, 0)
                for a in range(n_active[i]):
                    b = active[i, a]
                    left = left_base + b * (n - i)
                    first, last = pair_offsets[b], pair_offsets[b + 1]
                    dense = last - first > _FEW
                    if dense:
                        n_splits = 0
                        for w in range(ends.shape[2]):
                            here_end = ends[i, b, w]
                            while here_end != 0:
                                k = 64 * w + lowest_bit(here_end)
                                here_end &= here_end - _ONE
                                if factor[k] != 0:
                                    splits[n_splits] = k
                                    weights[n_splits] = factor[k] * by_start[left + k]
                                    n_splits += 1
                        if n_splits == 0:
                            continue
                        _sum_rows(sums, splits, weights, n_splits, rows, size)
                    for p in range(first, last):
                        at = place[pair_right[p]]
                        if at < 0:
                            continue
                        if dense:
                            total = sums[at]
                        else:
                            total = by_start.dtype.type(0.0)
                            for w in range(ends.shape[2]):
                                both = ends[i, b, w] & starts[j, pair_right[p], w]
                                while both != 0:
                                    k = 64 * w + lowest_bit(both)
                                    both &= both - _ONE
                                    total += factor[k] * by_start[left + k] * rows[k, at]
                        if total * pair_merit[p] <= hopeless:
                            continue
                        if cell_rule[cell] == -1:  # else what counts here may not be allowed
                            hopeless = max(hopeless, total * pair_merit[p] * beam)
                        met_pair[n_met] = p
                        met_total[n_met] = total
                        n_met += 1
                # Only now is it known which of them were hopeless from the start.
                before, n_met = n_met, 0
                for x in range(before):
                    p = met_pair[x]
                    total = met_total[x]
                    if total * pair_merit[p] <= hopeless:
                        continue
                    met_pair[n_met] = p
                    met_total[n_met] = total
                    n_met += 1
                    for r in range(pair_rule_offsets[p], pair_rule_offsets[p + 1]):
                        s = rule_parent[r]
                        added = total * rule_weight[r]
                        if row[s] == 0.0 and added > 0.0:  # (it can be too small for a number)
                            touched[n_touched] = s
                            n_touched += 1
                        row[s] += added
            largest = 0.0
            merit = 0.0
            for x in range(n_touched):
                s = touched[x]
                if cell_rule[cell] >= 0 and not allowed[cell_rule[cell], s]:
                    row[s] = 0.0
                largest = max(largest, row[s])
                merit = max(merit, row[s] * prior[s])
            if largest == 0.0:
                exponent[cell] = _LOWEST // 4
                continue
            merit *= beam
            # Rules' parts in what stays; a part must exceed its parent's limit.
            if n_met > 0:
                for x in range(n_touched):
                    s = touched[x]
                    kept = row[s] > 0 and row[s] * prior[s] >= merit
                    limit[s] = 0.1 * threshold * row[s] if kept else math.inf
            for x in range(n_met):
                p = met_pair[x]
                if n_parts + pair_rule_offsets[p + 1] - pair_rule_offsets[p] > part.shape[0]:
                    longer = np.empty(2 * part.shape[0] + rule_parent.shape[0], np.int32)
                    longer[:n_parts] = part_rule[:n_parts]
                    part_rule = longer
                    wider = np.empty(longer.shape[0], part.dtype)
                    wider[:n_parts] = part[:n_parts]
                    part = wider
                for r in range(pair_rule_offsets[p], pair_rule_offsets[p + 1]):
                    s = rule_parent[r]
                    here = met_total[x] * rule_weight[r]
                    if here > limit[s]:
                        part_rule[n_parts] = r
                        part[n_parts] = here / row[s]
                        n_parts += 1
            part_offsets[visited] = n_parts
            _, shift = math.frexp(largest)
            exponent[cell] = reference + shift
            scale = power_of_two(-shift)
            for x in range(n_touched):
                s = touched[x]
                if row[s] > 0.0:
                    if row[s] * prior[s] >= merit:
                        value = by_start.dtype.type(row[s] * scale)
                        if value > 0:
                            by_start[start_run(n, n_symbols, i, s) + j] = value
                            by_end[end_run(n_symbols, j, s) + i] = value
                            if place[s] < 0:
                                place[s] = n_ending
                                ending[n_ending] = s
                                n_ending += 1
                            rows[i, place[s]] = value
                            if _is_empty(ends, i, s):
                                active[i, n_active[i]] = s
                                n_active[i] += 1
                            ends[i, s, j >> 6] |= _ONE << np.uint64(j & 63)
                            starts[j, s, i >> 6] |= _ONE << np.uint64(i & 63)
                    row[s] = 0.0
    return part_rule, part


@numba.njit(cache=True, nogil=True, inline="always")
def _is_empty(sets, row, symbol):
    for w in range(sets.shape[2]):
        if sets[row, symbol, w] != 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def coarse_outside(
    n, root, rule_parent, rule_left, rule_right, rule_weight, by_start, by_end, exponent, ends, starts, part_offsets,
    part_rule, part, outside, threshold,
):  # fmt: skip
    """Fill `outside (cells, S)`, given zeroed, and list the edges whose posterior exceeds `threshold`.

    A rule's posterior over a span is its part in the parent's inside value times the parent's posterior; rules are
    expanded only where that exceeds a tenth of `threshold`. Rules are in the order of pairs. Returns the scaled
    sentence probability (0 if there is no parse); the edges, top-down by cell, those of one cell and rule being one
    group: `(groups, 2)` cell and rule, where each group's edges begin, and the edges' splits; and `(cells,)`, which
    cells have any posterior at all.
    """
    n_symbols = ends.shape[1]
    factor = np.zeros(n + 1, by_start.dtype)
    here = np.zeros(n_symbols)
    reached = np.zeros(n * (n + 1) // 2, np.bool_)
    groups = np.empty((256 * n, 2), np.int32)
    group_offsets = np.empty(256 * n + 1, np.int64)
    split = np.empty(512 * n, np.int32)
    n_groups = 0
    n_edges = 0
    top = cell_of(0, n)
    total = 0.0
    for s in range(n_symbols):
        if starts[n, s, 0] & _ONE:
            total += by_end[end_run(n_symbols, n, s)] * root[s]
    if total > 0.0:
        for s in range(n_symbols):
            if starts[n, s, 0] & _ONE:
                outside[top, s] = root[s] / total
        reached[top] = True
        for j in range(n, 1, -1):
            for i in range(j - 1):
                cell = cell_of(i, j)
                if not reached[cell]:
                    continue
                left_base, right_base = start_run(n, n_symbols, i, 0), end_run(n_symbols, j, 0)
                visited = cell_of(0, j) + j - 1 - i
                for a in range(n_symbols):
                    here[a] = outside[cell, a] * by_end[right_base + a * j + i] if outside[cell, a] > 0 else 0.0
                for k in range(i + 1, j):
                    factor[k] = power_of_two(exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - exponent[cell])
                for x in range(part_offsets[visited], part_offsets[visited + 1]):
                    r = part_rule[x]
                    a = rule_parent[r]
                    if here[a] * part[x] <= 0.1 * threshold:
                        continue
                    value = outside[cell, a]
                    b = rule_left[r]
                    c = rule_right[r]
                    left = left_base + b * (n - i)
                    right = right_base + c * j
                    weight = value * rule_weight[r]
                    if n_edges + n > split.shape[0]:
                        longer = np.empty(2 * split.shape[0] + n, np.int32)
                        longer[:n_edges] = split[:n_edges]
                        split = longer
                    before = n_edges
                    for w in range(ends.shape[2]):
                        both = ends[i, b, w] & starts[j, c, w]
                        while both != 0:
                            k = 64 * w + lowest_bit(both)
                            both &= both - _ONE
                            left_value, right_value = by_start[left + k], by_end[right + k]
                            scaled = weight * factor[k]
                            posterior = scaled * right_value * left_value
                            if posterior > 0.01 * threshold:
                                outside[cell_of(i, k), b] += scaled * right_value
                                outside[cell_of(k, j), c] += scaled * left_value
                                reached[cell_of(i, k)] = True
                                reached[cell_of(k, j)] = True
                                if posterior > threshold:
                                    split[n_edges] = k
                                    n_edges += 1
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
    return total, groups[:n_groups], group_offsets[: n_groups + 1], split[:n_edges], reached


@numba.njit(cache=True, nogil=True)
def number_nodes(n, by_end, outside, reached, threshold, node_offsets, node_number):
    """Number the entries whose posterior exceeds `threshold`, cell by cell; returns their symbols.

    `node_offsets (cells + 1,)` bounds each cell's nodes; `node_number (cells, S)` is set where there is a node.
    """
    n_symbols = outside.shape[1]
    n_cells = n * (n + 1) // 2
    symbol = np.empty(16 * n_cells + n_symbols, np.int32)
    count = 0
    for j in range(1, n + 1):
        for i in range(j):
            cell = cell_of(i, j)
            node_offsets[cell] = count
            if count + n_symbols > symbol.shape[0]:
                longer = np.empty(2 * symbol.shape[0] + n_symbols, np.int32)
                longer[:count] = symbol[:count]
                symbol = longer
            if not reached[cell]:
                continue
            for s in range(n_symbols):
                if outside[cell, s] > 0 and outside[cell, s] * by_end[end_run(n_symbols, j, s) + i] > threshold:
                    symbol[count] = s
                    node_number[cell, s] = count
                    count += 1
    node_offsets[n_cells] = count
    return symbol[:count]


@numba.njit(cache=True, nogil=True)
def link_edges(
    n, groups, group_offsets, split, rule_parent, rule_left, rule_right, node_number, group_parent, children
):
    """Turn cells, rules and splits into node numbers: `group_parent (groups,)` and `children (edges, 2)`."""
    starts = np.empty(n * (n + 1) // 2, np.int32)
    ends = np.empty(n * (n + 1) // 2, np.int32)
    for j in range(1, n + 1):
        for i in range(j):
            starts[cell_of(i, j)] = i
            ends[cell_of(i, j)] = j
    for g in range(groups.shape[0]):
        cell, r = groups[g, 0], groups[g, 1]
        i, j = starts[cell], ends[cell]
        group_parent[g] = node_number[cell, rule_parent[r]]
        for e in range(group_offsets[g], group_offsets[g + 1]):
            children[e, 0] = node_number[cell_of(i, split[e]), rule_left[r]]
            children[e, 1] = node_number[cell_of(split[e], j), rule_right[r]]
