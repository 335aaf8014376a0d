"""Inner loops over rule tensors whose symbols have many states: normalise, smooth, split, merge, and merging's cost.

Tensors stand one behind the other as in `TensorGrammar`: rule `r` is `(m_a, m_b, m_c)` from `offsets[r]`.
"""

# mypy: ignore-errors
from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def row_totals(sizes, parent_offsets, offsets, counts, totals):
    """Add each tensor's sums over its children's states to `totals[parent_offsets[r] + a]`, given zeroed."""
    for r in range(len(sizes)):
        m_a, size = sizes[r, 0], sizes[r, 1] * sizes[r, 2]
        tensor = counts[offsets[r] : offsets[r + 1]]
        for a in range(m_a):
            total = 0.0
            for y in tensor[a * size : (a + 1) * size]:
                total += y
            totals[parent_offsets[r] + a] += total


@numba.njit(cache=True, nogil=True)
def drop_small(sizes, parent_offsets, offsets, least, totals, tensors):
    """Set weights below `least` to zero and divide rows by what is left, which is added to `totals`, given zeroed."""
    for x in range(len(tensors)):
        if tensors[x] < least:
            tensors[x] = 0.0
    row_totals(sizes, parent_offsets, offsets, tensors, totals)
    for r in range(len(sizes)):
        size = sizes[r, 1] * sizes[r, 2]
        tensor = tensors[offsets[r] : offsets[r + 1]]
        for a in range(sizes[r, 0]):
            total = totals[parent_offsets[r] + a]
            if total > 0.0:
                row = tensor[a * size : (a + 1) * size]
                for y in range(size):
                    row[y] /= total


@numba.njit(cache=True, nogil=True)
def scale_rows(sizes, parent_offsets, offsets, counts, totals, smoothing, least, mean, result):
    """Fill `result` with the rows of each tensor divided by their totals, drawn towards the mean of the rule's rows.

    With `smoothing` s a row becomes `(1 - s) row + s mean`; a row without a total becomes the mean of the others. Rows
    that sum to one over all rules still do, but for weights below `least`, which are dropped: they would end as numbers
    too small for single precision, with which processors are slow. `mean` is room for the largest row.
    """
    for r in range(len(sizes)):
        m_a, size = sizes[r, 0], sizes[r, 1] * sizes[r, 2]
        tensor, target = counts[offsets[r] : offsets[r + 1]], result[offsets[r] : offsets[r + 1]]
        alive = 0
        for a in range(m_a):
            alive += totals[parent_offsets[r] + a] > 0.0
        average = mean[:size]
        if alive > 0 and (alive < m_a or smoothing > 0.0):
            average[:] = 0.0
            for a in range(m_a):
                total = totals[parent_offsets[r] + a]
                if total > 0.0:
                    row, factor = tensor[a * size : (a + 1) * size], 1.0 / (total * alive)
                    for y in range(size):
                        average[y] += factor * row[y]
        for a in range(m_a):
            total = totals[parent_offsets[r] + a]
            row, filled = tensor[a * size : (a + 1) * size], target[a * size : (a + 1) * size]
            drawn = smoothing if alive > 1 else 0.0
            keep = 0.0
            if total > 0.0:
                keep = (1.0 - drawn) / total
            elif alive > 0:
                drawn = 1.0
            for y in range(size):
                value = keep * row[y]
                if drawn > 0.0:
                    value += drawn * average[y]
                filled[y] = value if value >= least else 0.0


@numba.njit(cache=True, nogil=True)
def split_tensors(rules, origin_offsets, origin, share, sizes, offsets, tensors, new_sizes, new_offsets, noise, result):
    """Fill `result` with tensors over new states.

    State `x` of symbol `s` comes from `origin[origin_offsets[s] + x]` and takes `share[...]` of it as a child; each
    weight is multiplied by its entry of `noise`.
    """
    for r in range(len(rules)):
        a0, b0, c0 = origin_offsets[rules[r, 0]], origin_offsets[rules[r, 1]], origin_offsets[rules[r, 2]]
        m_b, m_c = sizes[r, 1], sizes[r, 2]
        n_a, n_b, n_c = new_sizes[r, 0], new_sizes[r, 1], new_sizes[r, 2]
        at = new_offsets[r]
        for a in range(n_a):
            for b in range(n_b):
                base = offsets[r] + (origin[a0 + a] * m_b + origin[b0 + b]) * m_c
                for c in range(n_c):
                    weight = tensors[base + origin[c0 + c]] * share[b0 + b] * share[c0 + c]
                    result[at] = weight * noise[at]
                    at += 1


@numba.njit(cache=True, nogil=True)
def merge_tensors(rules, state_offsets, new_state, sizes, offsets, counts, new_sizes, new_offsets, result):
    """Add counts to `result`, given zeroed: old state `x` of symbol `s` is now `new_state[state_offsets[s] + x]`."""
    for r in range(len(rules)):
        a0, b0, c0 = state_offsets[rules[r, 0]], state_offsets[rules[r, 1]], state_offsets[rules[r, 2]]
        n_b, n_c = new_sizes[r, 1], new_sizes[r, 2]
        at = offsets[r]
        for a in range(sizes[r, 0]):
            for b in range(sizes[r, 1]):
                base = new_offsets[r] + (new_state[a0 + a] * n_b + new_state[b0 + b]) * n_c
                for c in range(sizes[r, 2]):
                    result[base + new_state[c0 + c]] += counts[at]
                    at += 1


@numba.njit(cache=True, nogil=True)
def merge_losses(symbol, state_offsets, twin, frequency, offsets, inside, outside, losses):
    """Add to `losses[state]` the log-likelihood lost, node by node, if a state were merged with the one behind it.

    `twin[state]` says for which states; `frequency` how often each is expected (Petrov et al. 2006, section 2.2).
    """
    for v in range(len(symbol)):
        base = state_offsets[symbol[v]]
        ours, theirs = inside[offsets[v] : offsets[v + 1]], outside[offsets[v] : offsets[v + 1]]
        total = 0.0
        for x in range(len(ours)):
            total += np.float64(ours[x]) * theirs[x]
        if total <= 0.0:
            continue
        for x in range(len(ours) - 1):
            together = frequency[base + x] + frequency[base + x + 1]
            if not twin[base + x] or together <= 0.0:
                continue
            apart = np.float64(ours[x]) * theirs[x] + np.float64(ours[x + 1]) * theirs[x + 1]
            mean = (frequency[base + x] * ours[x] + frequency[base + x + 1] * ours[x + 1]) / together
            merged = mean * (np.float64(theirs[x]) + theirs[x + 1])
            losses[base + x] -= math.log(max((total - apart + merged) / total, 1e-300))
