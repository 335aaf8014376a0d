"""The first, coarsest pass: a one-state grammar over all spans.

Nearly all the time of coarse-to-fine parsing goes here, so this pass is built around bit sets: for
each start `i` and symbol `B` the set of ends of its spans, for each end `j` and symbol `C` the set of
starts. The splits at which a pair `B C` can meet over `(i, j)` are one AND of two words (for sentences
of up to 63 words), and most pairs are dismissed by it.

Charts are triangular, cell `(i, j)` at `j (j - 1) / 2 + i`. Inside values of a cell are scaled by a power
of two so that the largest lies in [1/2, 1); `exponent[cell]` keeps it. Outside values are stored times
the inverse scale and divided by the sentence's probability: the product of a stored inside and a stored
outside value *is* the posterior probability of the entry, and neither over- nor underflows.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._bits import lowest_bit

_ONE = np.uint64(1)
_LOWEST = -(1 << 40)


@numba.njit(cache=True, nogil=True, inline="always")
def cell_of(i: int, j: int) -> int:
    """Return the number of span `(i, j)`."""
    return j * (j - 1) // 2 + i


@numba.njit(cache=True, nogil=True)
def coarse_inside(
    n, leaf_offsets, leaf_symbol, leaf_value, pair_offsets, pair_right, pair_rule_offsets, rule_parent, rule_weight,
    inside, exponent, ends, starts, active, n_active, factor,
):  # fmt: skip
    """Fill `inside (cells, S)`, `exponent (cells,)` and the bit sets `ends (n, S, W)`, `starts (n + 1, S, W)`.

    Leaves of position `i` are `leaf_symbol[leaf_offsets[i]:leaf_offsets[i + 1]]`. Pairs are grouped by left
    symbol, rules by pair. `inside`, `ends`, `starts` come zeroed; `active (n, S)` and `n_active (n,)` (zeroed)
    list the symbols that begin at a position; `factor (n + 1,)` is scratch space.
    """
    n_symbols = inside.shape[1]
    n_words = ends.shape[2]
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            cell = cell_of(i, j)
            row = inside[cell]
            reference = 0
            if i == j - 1:
                for e in range(leaf_offsets[i], leaf_offsets[i + 1]):
                    row[leaf_symbol[e]] = leaf_value[e]
            else:
                reference = _LOWEST
                for k in range(i + 1, j):
                    both = exponent[cell_of(i, k)] + exponent[cell_of(k, j)]
                    reference = max(reference, both)
                for k in range(i + 1, j):
                    below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - reference
                    factor[k] = math.ldexp(1.0, below) if below > -1000 else 0.0
                if reference < _LOWEST // 2:
                    exponent[cell] = _LOWEST // 4
                    continue
                for a in range(n_active[i]):
                    b = active[i, a]
                    left_ends = ends[i, b]
                    for p in range(pair_offsets[b], pair_offsets[b + 1]):
                        c = pair_right[p]
                        total = 0.0
                        for w in range(n_words):
                            both_words = left_ends[w] & starts[j, c, w]
                            while both_words != 0:
                                k = 64 * w + lowest_bit(both_words)
                                both_words &= both_words - _ONE
                                total += factor[k] * inside[cell_of(i, k), b] * inside[cell_of(k, j), c]
                        if total > 0.0:
                            for r in range(pair_rule_offsets[p], pair_rule_offsets[p + 1]):
                                row[rule_parent[r]] += total * rule_weight[r]
            largest = 0.0
            for s in range(n_symbols):
                largest = max(largest, row[s])
            if largest == 0.0:
                exponent[cell] = _LOWEST // 4
                continue
            _, shift = math.frexp(largest)
            exponent[cell] = reference + shift
            scale = math.ldexp(1.0, -shift)
            for s in range(n_symbols):
                if row[s] > 0.0:
                    row[s] *= scale
                    if row[s] > 0.0:
                        if _is_empty(ends[i, s]):
                            active[i, n_active[i]] = s
                            n_active[i] += 1
                        ends[i, s, j >> 6] |= _ONE << np.uint64(j & 63)
                        starts[j, s, i >> 6] |= _ONE << np.uint64(i & 63)


@numba.njit(cache=True, nogil=True, inline="always")
def _is_empty(words):
    for w in range(words.shape[0]):
        if words[w] != 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def coarse_outside(
    n, root, rule_offsets, rule_left, rule_right, rule_weight, inside, exponent, ends, starts, outside, threshold,
    factor,
):  # fmt: skip
    """Fill `outside (cells, S)`, given zeroed; returns the scaled sentence probability, 0 if there is no parse.

    Rules are grouped by parent here. Entries whose posterior is below `threshold` are not expanded.
    """
    n_words = ends.shape[2]
    n_symbols = inside.shape[1]
    top = cell_of(0, n)
    total = 0.0
    for s in range(n_symbols):
        total += inside[top, s] * root[s]
    if total <= 0.0:
        return 0.0
    for s in range(n_symbols):
        outside[top, s] = root[s] / total
    for j in range(n, 1, -1):
        for i in range(j - 1):
            cell = cell_of(i, j)
            for k in range(i + 1, j):
                below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - exponent[cell]
                factor[k] = math.ldexp(1.0, below) if -1000 < below < 1000 else 0.0
            for a in range(n_symbols):
                value = outside[cell, a]
                if value == 0.0 or value * inside[cell, a] <= threshold:
                    continue
                for r in range(rule_offsets[a], rule_offsets[a + 1]):
                    b = rule_left[r]
                    c = rule_right[r]
                    for w in range(n_words):
                        both_words = ends[i, b, w] & starts[j, c, w]
                        while both_words != 0:
                            k = 64 * w + lowest_bit(both_words)
                            both_words &= both_words - _ONE
                            left = cell_of(i, k)
                            right = cell_of(k, j)
                            weight = value * rule_weight[r] * factor[k]
                            outside[left, b] += weight * inside[right, c]
                            outside[right, c] += weight * inside[left, b]
    return total


@numba.njit(cache=True, nogil=True)
def survivors(n, inside, outside, threshold, offsets, symbol):
    """List the entries whose posterior exceeds `threshold`: `offsets (cells + 1,)`, `symbol`; returns their number.

    If there are more than `symbol` can hold, the rest is counted but not written.
    """
    n_cells = n * (n + 1) // 2
    count = 0
    for cell in range(n_cells):
        offsets[cell] = count
        for s in range(inside.shape[1]):
            if inside[cell, s] * outside[cell, s] > threshold:
                if count < symbol.shape[0]:
                    symbol[count] = s
                count += 1
    offsets[n_cells] = count
    return count
