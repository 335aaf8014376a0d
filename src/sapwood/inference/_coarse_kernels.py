"""The first, coarsest pass: a one-state grammar over all spans.

Nearly all the time of coarse-to-fine parsing goes here. Over a span `(i, j)`, and for each symbol `B` that begins at
`i`, the splits at which `B` ends are walked (a bit set), and the values of *all* symbols that end at `j` are added up
for them at once: one vectorised row operation for each split, instead of a scattered look-up for each pair of symbols.
Then the grammar's pairs `B C` are read off the sums, sixteen at a time. Symbols that begin few pairs do without.

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
from sapwood.inference._lanes import LANES, lanes_above

_ONE = np.uint64(1)
_LOWEST = -(1 << 40)
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
def start_run(n, n_symbols, i, slot):
    """Return where `by_start` keeps end 0 of the run for a slot of start `i` (its first real end is `i + 1`)."""
    return n_symbols * (i * n - i * (i - 1) // 2) + slot * (n - i) - i - 1


@numba.njit(cache=True, nogil=True, inline="always")
def end_run(n_symbols, j, slot):
    """Return where `by_end` keeps start 0 of the run for a slot of end `j`."""
    return n_symbols * (j * (j - 1) // 2) + slot * j


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


@numba.njit(cache=True, nogil=True, inline="always")
def holds(sets, row, slot, position):
    """Whether a bit set holds a position."""
    return (sets[row, slot, position >> 6] >> np.uint64(position & 63)) & _ONE != 0


@numba.njit(cache=True, nogil=True)
def coarse_inside(
    n, leaf_offsets, leaf_symbol, leaf_value, pair_offsets, pair_right, pair_rule_offsets, rule_parent, rule_weight,
    root, pair_merit, dense_row, dense_merit, pair_of_code, merits, left_fit, right_fit, left_exponent, right_exponent,
    least, least_exponent, beam, threshold, cell_rule, allowed, by_start, by_end, outside_start, outside_end, exponent,
    ends, starts, starting, n_starting, start_slot, end_slot, part_offsets, part_rule, part,
):  # fmt: skip
    """Fill the chart of inside values; return the sentence's scaled probability and the parts that rules have in it.

    Leaves of position `i` are `leaf_symbol[leaf_offsets[i]:leaf_offsets[i + 1]]`; rules come by pairs of children, and
    pairs by left child.

    *What is left out.* `left_fit (n + 1, S)` and `right_fit (n + 1, S)` with their exponents say how well a symbol fits
    at a boundary, so that an entry's inside value times both is its merit, an estimate of its posterior but for a
    factor (`contexts`). Kept are entries whose merit is at least `least 2 ** least_exponent` and at least `beam` times
    the cell's largest. Rules that add less than a tenth of the former are passed over; so are pairs that could not
    give rise to an entry within the beam by themselves, judged by `pair_merit`, the largest weight times prior among
    their rules, instead of the boundaries. `cell_rule (cells,)` says what a cell may hold: -1 anything, -2 nothing,
    else the symbols in that row of `allowed (rows, S)`.

    *Tables of pairs.* Symbols that begin many pairs have a row `dense_row (S,)` (others -1) of `D`;
    `dense_merit (S, D)` has the merits of their pairs by right child, 0 where there is none. `pair_of_code` gives the
    pair of row `d` and right child `c` at `d S + c`, and pair `p` itself at `D S + p`. `merits (D, at least S rounded
    up to 16)` is for use here.

    *Chart.* Only symbols that occur take room: those that begin at `i` have slots there, `start_slot (n, S)` (given as
    -1), in the order of `starting (n, S)`, which has `n_starting (n,)` (given as 0) of them; those that end at `j`
    have slots `end_slot (n + 1, S)`. `by_start` and `by_end` have the inside values by slot, the bit sets
    `ends (n, S, W)` and `starts (n + 1, S, W)` say which there are, `exponent (cells,)` has the cells' scales. Places
    for outside values, `outside_start` and `outside_end`, are set to 0. Only `start_slot` and `n_starting` need be
    set beforehand.

    *Parts.* Rule numbers and the fractions that they have in the inside value of their parent, where that exceeds a
    tenth of `threshold` and their share of its merit a tenth of the least: those of a cell from `part_offsets[c]` to
    `part_offsets[c + 1]`, where cells are counted in the order of this loop, `j (j - 1) / 2 + (j - 1 - i)`. They are
    written to `part_rule` and `part`, or to larger arrays if these are too small.
    """
    n_symbols = ends.shape[1]
    row = np.zeros(n_symbols)
    factor = np.zeros(n + 1, by_start.dtype)
    # Symbols that end at the current j: their places in rows, and by start the rows of their values.
    width = (n_symbols + LANES - 1) // LANES * LANES
    place = np.full(n_symbols, -1, np.int32)
    ending = np.zeros(width, np.int32)
    rows = np.zeros((n, width), by_start.dtype)
    sums = np.zeros(width, by_start.dtype)
    splits = np.empty(n + 1, np.int32)
    weights = np.empty(n + 1, by_start.dtype)
    limit = np.zeros(n_symbols)
    divisor = np.full(n_symbols, math.inf)
    touched = np.empty(n_symbols, np.int32)
    lowest = -60 if beam > 0 else -1074
    # Outside values are as large as inside values are small, and must fit into single precision, too.
    smallest = 1e-30 if beam > 0 else 0.0
    n_pairs = pair_right.shape[0]
    # Pairs met in a cell, and rules used (one place more: they are written first and counted then).
    met_code = np.empty(n_pairs, np.int32)
    met_total = np.empty(n_pairs, by_start.dtype)
    met_merit = np.empty(n_pairs, by_start.dtype)
    met_first = np.empty(n_pairs + 1, np.int64)
    met_last = np.empty(n_pairs + 1, np.int64)
    used_rule = np.empty(rule_parent.shape[0] + 1, np.int32)
    used_parent = np.empty(rule_parent.shape[0] + 1, np.int32)
    used_value = np.empty(rule_parent.shape[0] + 1)
    fit = np.empty(n_symbols)
    n_dense = dense_merit.shape[1]
    n_parts = 0
    visited = 0
    part_offsets[0] = 0
    n_ending = 0
    for j in range(1, n + 1):
        for k in range(j - 1):
            rows[k, : (n_ending + LANES - 1) // LANES * LANES] = 0
        for x in range(n_ending):
            place[ending[x]] = -1
        n_ending = 0
        fit_right = right_fit[j]
        for i in range(j - 1, -1, -1):
            cell = cell_of(i, j)
            reference = 0
            n_met = 0
            n_touched = 0
            n_used = 0
            visited += 1
            part_offsets[visited] = n_parts
            fit_left = left_fit[i]
            apart = least_exponent - left_exponent[i] - right_exponent[j]
            floor = least * power_of_two(apart)
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
                floor = least * power_of_two(apart - reference)
                # Where only some symbols are allowed, those that make a pair look good may not be among them.
                narrow = by_start.dtype.type(beam if cell_rule[cell] == -1 else 0.0)
                hopeless = by_start.dtype.type(0.0)
                size = (n_ending + LANES - 1) // LANES * LANES
                for a in range(n_starting[i]):
                    b = starting[i, a]
                    left = start_run(n, n_symbols, i, a)
                    d = dense_row[b]
                    if d >= 0:
                        n_splits = 0
                        for w in range(ends.shape[2]):
                            here_end = ends[i, a, w]
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
                        for begin in range(0, size, LANES):
                            above = lanes_above(sums, merits[d], begin, hopeless)
                            while above != 0:
                                at = begin + lowest_bit(above)
                                above &= above - _ONE
                                merit = sums[at] * merits[d, at]
                                hopeless = max(hopeless, merit * narrow)
                                met_code[n_met] = d * n_symbols + ending[at]
                                met_total[n_met] = sums[at]
                                met_merit[n_met] = merit
                                n_met += 1
                        continue
                    for p in range(pair_offsets[b], pair_offsets[b + 1]):
                        at = place[pair_right[p]]
                        if at < 0:
                            continue
                        total = by_start.dtype.type(0.0)
                        for w in range(ends.shape[2]):
                            both = ends[i, a, w] & starts[j, at, w]
                            while both != 0:
                                k = 64 * w + lowest_bit(both)
                                both &= both - _ONE
                                total += factor[k] * by_start[left + k] * rows[k, at]
                        merit = total * pair_merit[p]
                        if merit > hopeless:
                            hopeless = max(hopeless, merit * narrow)
                            met_code[n_met] = n_dense * n_symbols + p
                            met_total[n_met] = total
                            met_merit[n_met] = merit
                            n_met += 1
                for s in range(n_symbols):
                    fit[s] = fit_left[s] * fit_right[s]
                # Only now is it known which of them were hopeless from the start. (Branches that the processor cannot
                # foresee cost more than all the rest, here and below: what is not wanted is written, but not counted.)
                before, n_met = n_met, 0
                for x in range(before):
                    p = pair_of_code[met_code[x]]
                    met_first[n_met] = pair_rule_offsets[p]
                    met_last[n_met] = pair_rule_offsets[p + 1]
                    met_total[n_met] = met_total[x]
                    n_met += met_merit[x] > hopeless
                for x in range(n_met):
                    total = met_total[x]
                    for r in range(met_first[x], met_last[x]):
                        added = total * rule_weight[r]
                        s = rule_parent[r]
                        used_rule[n_used] = r
                        used_parent[n_used] = s
                        used_value[n_used] = added
                        n_used += added * fit[s] >= 0.1 * floor
                for x in range(n_used):
                    s = used_parent[x]
                    added = used_value[x]
                    if row[s] == 0.0 and added > 0.0:  # (it can be too small for a number)
                        touched[n_touched] = s
                        n_touched += 1
                    row[s] += added
            largest = 0.0
            best = 0.0
            for x in range(n_touched):
                s = touched[x]
                if cell_rule[cell] >= 0 and not allowed[cell_rule[cell], s]:
                    row[s] = 0.0
                largest = max(largest, row[s])
                best = max(best, row[s] * fit_left[s] * fit_right[s])
            if largest == 0.0 or best < floor:
                for x in range(n_touched):
                    row[touched[x]] = 0.0
                exponent[cell] = _LOWEST // 4
                continue
            lower = max(best * beam, floor)
            _, shift = math.frexp(largest)
            exponent[cell] = reference + shift
            scale = power_of_two(-shift)
            for x in range(n_touched):
                s = touched[x]
                estimate = row[s] * fit_left[s] * fit_right[s]
                value = by_start.dtype.type(row[s] * scale)
                if value > smallest and estimate >= lower:
                    limit[s] = max(0.1 * threshold, 0.1 * floor / estimate if floor > 0 else 0.0)
                    divisor[s] = row[s]
                    a = start_slot[i, s]
                    if a < 0:
                        a = n_starting[i]
                        start_slot[i, s] = a
                        starting[i, a] = s
                        n_starting[i] += 1
                        ends[i, a] = 0
                        run = start_run(n, n_symbols, i, a)
                        outside_start[run + i + 1 : run + n + 1] = 0
                    at = place[s]
                    if at < 0:
                        at = n_ending
                        place[s] = at
                        ending[at] = s
                        end_slot[j, s] = at
                        n_ending += 1
                        starts[j, at] = 0
                        run = end_run(n_symbols, j, at)
                        outside_end[run : run + j] = 0
                        for d in range(n_dense):
                            merits[d, at] = dense_merit[s, d]
                    by_start[start_run(n, n_symbols, i, a) + j] = value
                    by_end[end_run(n_symbols, j, at) + i] = value
                    rows[i, at] = value
                    ends[i, a, j >> 6] |= _ONE << np.uint64(j & 63)
                    starts[j, at, i >> 6] |= _ONE << np.uint64(i & 63)
                else:
                    divisor[s] = math.inf
            if n_parts + n_used >= part.shape[0]:
                longer = np.empty(2 * part.shape[0] + rule_parent.shape[0], np.int32)
                longer[:n_parts] = part_rule[:n_parts]
                part_rule = longer
                wider = np.empty(longer.shape[0], part.dtype)
                wider[:n_parts] = part[:n_parts]
                part = wider
            for x in range(n_used):
                s = used_parent[x]
                share = used_value[x] / divisor[s]
                part_rule[n_parts] = used_rule[x]
                part[n_parts] = share
                n_parts += share > limit[s]
            part_offsets[visited] = n_parts
            for x in range(n_touched):
                row[touched[x]] = 0.0
    total = 0.0
    for a in range(n_starting[0]):
        if holds(ends, 0, a, n):
            total += by_start[start_run(n, n_symbols, 0, a) + n] * root[starting[0, a]]
    return total, part_rule, part
