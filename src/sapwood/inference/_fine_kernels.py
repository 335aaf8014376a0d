"""Inside, outside and rule posteriors with state vectors, over the entries that survived pruning.

An *entry* is a symbol over a span. Entries are numbered cell by cell (`entry_offsets`), their vectors
stand one behind the other (`vector_offsets`). For a start `i` and symbol `B`, `ends[i, B]` is the bit set of
the ends of its entries, and the entries themselves are `by_start[start_base[i, B] + rank]`, `rank` being the
number of smaller ends; likewise by end. `live_ends` and `live_starts` are the same for entries whose inside
vector is not zero. Per (span, rule) the splits are summed into one matrix `(m_b, m_c)` first and the rule's
tensor is applied once, so the `m^3` work does not grow with the number of splits.

Scaling is as in `_coarse_kernels`: stored inside times stored outside values are posteriors.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._bits import lowest_bit, popcount
from sapwood.inference._coarse_kernels import cell_of

_ONE = np.uint64(1)
_NONE = -(1 << 38)


@numba.njit(cache=True, nogil=True)
def expand_entries(
    n, coarse_offsets, coarse_symbol, fine_offsets, fine_symbol, entry_offsets, entry_symbol, entry_coarse, ends, starts
):  # fmt: skip
    """Turn surviving coarse entries into entries of all their finer symbols and set the bit sets.

    `entry_coarse` tells which coarse entry each entry comes from.
    """
    count = 0
    for j in range(1, n + 1):
        for i in range(j):
            cell = cell_of(i, j)
            entry_offsets[cell] = count
            for e in range(coarse_offsets[cell], coarse_offsets[cell + 1]):
                c = coarse_symbol[e]
                for f in range(fine_offsets[c], fine_offsets[c + 1]):
                    s = fine_symbol[f]
                    entry_symbol[count] = s
                    entry_coarse[count] = e
                    count += 1
                    ends[i, s, j >> 6] |= _ONE << np.uint64(j & 63)
                    starts[j, s, i >> 6] |= _ONE << np.uint64(i & 63)
    entry_offsets[n * (n + 1) // 2] = count


@numba.njit(cache=True, nogil=True)
def index_entries(n, entry_offsets, entry_symbol, ends, starts, start_base, end_base, by_start, by_end):
    """Fill the tables that find an entry from its start, symbol and rank, or its end, symbol and rank."""
    n_symbols = ends.shape[1]
    n_words = ends.shape[2]
    at = 0
    for i in range(n):
        for s in range(n_symbols):
            start_base[i, s] = at
            for w in range(n_words):
                at += popcount(ends[i, s, w])
    at = 0
    for j in range(n + 1):
        for s in range(n_symbols):
            end_base[j, s] = at
            for w in range(n_words):
                at += popcount(starts[j, s, w])
    for j in range(1, n + 1):
        for i in range(j):
            cell = cell_of(i, j)
            for e in range(entry_offsets[cell], entry_offsets[cell + 1]):
                s = entry_symbol[e]
                by_start[start_base[i, s] + _rank(ends, i, s, j)] = e
                by_end[end_base[j, s] + _rank(starts, j, s, i)] = e


@numba.njit(cache=True, nogil=True, inline="always")
def _rank(sets, row, symbol, position):
    """Return the number of members of `sets[row, symbol]` below `position`."""
    word = position >> 6
    rank = popcount(sets[row, symbol, word] & ((_ONE << np.uint64(position & 63)) - _ONE))
    for w in range(word):
        rank += popcount(sets[row, symbol, w])
    return rank


@numba.njit(cache=True, nogil=True)
def fine_inside(
    n, states, rule_offsets, rule_left, rule_right, tensor_offsets, tensors, entry_offsets, entry_symbol,
    vector_offsets, ends, starts, start_base, end_base, by_start, by_end, live_ends, live_starts, inside, exponent,
):  # fmt: skip
    """Fill `inside` (leaf vectors are there already, the rest is zero), `exponent (cells,)` and the live sets.

    The live sets come zeroed.
    """
    n_words = ends.shape[2]
    widest = states.max()
    meeting = np.empty(widest * widest, inside.dtype)
    factor = np.zeros(n + 1, inside.dtype)
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            cell = cell_of(i, j)
            first, last = entry_offsets[cell], entry_offsets[cell + 1]
            exponent[cell] = _NONE
            if first == last:
                continue
            reference = 0
            if i < j - 1:
                reference = _NONE
                for k in range(i + 1, j):
                    reference = max(reference, exponent[cell_of(i, k)] + exponent[cell_of(k, j)])
                if reference < _NONE // 2:
                    continue
                for k in range(i + 1, j):
                    below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - reference
                    factor[k] = math.ldexp(1.0, below) if below > -1000 else 0.0
                for e in range(first, last):
                    a = entry_symbol[e]
                    target = vector_offsets[e]
                    for r in range(rule_offsets[a], rule_offsets[a + 1]):
                        b, c = rule_left[r], rule_right[r]
                        for w in range(n_words):
                            if live_ends[i, b, w] & live_starts[j, c, w] != 0:
                                _apply_rule(
                                    r, i, j, b, c, w, states[a], states[b], states[c], ends, starts, live_ends,
                                    live_starts, start_base, end_base, by_start, by_end, vector_offsets,
                                    tensor_offsets, tensors,
                                    factor, meeting, inside, target,
                                )  # fmt: skip
                                break
            largest = 0.0
            for x in range(vector_offsets[first], vector_offsets[last]):
                largest = max(largest, abs(inside[x]))
            if largest > 0.0:
                _, shift = math.frexp(largest)
                exponent[cell] = reference + shift
                scale = inside.dtype.type(math.ldexp(1.0, -shift))
                for e in range(first, last):
                    live = False
                    for x in range(vector_offsets[e], vector_offsets[e + 1]):
                        inside[x] *= scale
                        if inside[x] != 0:
                            live = True
                    if live:
                        s = entry_symbol[e]
                        live_ends[i, s, j >> 6] |= _ONE << np.uint64(j & 63)
                        live_starts[j, s, i >> 6] |= _ONE << np.uint64(i & 63)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _apply_rule(
    r, i, j, b, c, first_word, m_a, m_b, m_c, ends, starts, live_ends, live_starts, start_base, end_base, by_start,
    by_end, vector_offsets, tensor_offsets, tensors, factor, meeting, inside, target,
):  # fmt: skip
    """Add what rule `r` contributes over span `(i, j)`, from all splits, to the vector at `target`."""
    size = m_b * m_c
    total = inside.dtype.type(0.0)
    if size > 1:
        for x in range(size):
            meeting[x] = 0
    before_left, before_right = start_base[i, b], end_base[j, c]
    for w in range(ends.shape[2]):
        left_word, right_word = ends[i, b, w], starts[j, c, w]
        if w >= first_word:
            both = live_ends[i, b, w] & live_starts[j, c, w]
            while both != 0:
                bit = lowest_bit(both)
                both &= both - _ONE
                lower = (_ONE << np.uint64(bit)) - _ONE
                left = vector_offsets[by_start[before_left + popcount(left_word & lower)]]
                right = vector_offsets[by_end[before_right + popcount(right_word & lower)]]
                scale = factor[64 * w + bit]
                if size == 1:
                    total += scale * inside[left] * inside[right]
                else:
                    for x in range(m_b):
                        value = scale * inside[left + x]
                        for y in range(m_c):
                            meeting[x * m_c + y] += value * inside[right + y]
        before_left += popcount(left_word)
        before_right += popcount(right_word)
    base = tensor_offsets[r]
    if size == 1:
        for x in range(m_a):
            inside[target + x] += tensors[base + x] * total
    else:
        for x in range(m_a):
            total = inside.dtype.type(0.0)
            for y in range(size):
                total += tensors[base + x * size + y] * meeting[y]
            inside[target + x] += total


@numba.njit(cache=True, nogil=True)
def fine_outside(
    n, states, rule_offsets, rule_left, rule_right, tensor_offsets, tensors, root, root_offsets, entry_offsets,
    entry_symbol, vector_offsets, ends, starts, start_base, end_base, by_start, by_end, live_ends, live_starts, inside,
    exponent, outside, threshold,
):  # fmt: skip
    """Fill `outside` (given zeroed) and list rule posteriors.

    Entries whose absolute posterior is at most `threshold` are not expanded. Returns the scaled sentence probability
    and, top-down by span, the edges whose absolute posterior exceeds `threshold`: `(edges, 4)` parent, left
    and right entry and rule, and their posteriors.
    """
    n_words = ends.shape[2]
    widest = states.max()
    weight = np.empty(widest * widest, inside.dtype)
    factor = np.zeros(n + 1, inside.dtype)
    edges = np.empty((256 * n, 4), np.int32)
    posterior = np.empty(256 * n, np.float64)
    n_edges = 0
    top = cell_of(0, n)
    total = 0.0
    for e in range(entry_offsets[top], entry_offsets[top + 1]):
        at = root_offsets[entry_symbol[e]]
        for x in range(states[entry_symbol[e]]):
            total += inside[vector_offsets[e] + x] * root[at + x]
    if total == 0.0 or not math.isfinite(total):
        return 0.0, edges[:0], posterior[:0]
    for e in range(entry_offsets[top], entry_offsets[top + 1]):
        at = root_offsets[entry_symbol[e]]
        for x in range(states[entry_symbol[e]]):
            outside[vector_offsets[e] + x] = root[at + x] / total
    for j in range(n, 1, -1):
        for i in range(j - 1):
            cell = cell_of(i, j)
            first, last = entry_offsets[cell], entry_offsets[cell + 1]
            if first == last or exponent[cell] == _NONE:
                continue
            for k in range(i + 1, j):
                below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - exponent[cell]
                factor[k] = math.ldexp(1.0, below) if -120 < below < 120 else 0.0
            for e in range(first, last):
                a = entry_symbol[e]
                source = vector_offsets[e]
                mass = 0.0
                for x in range(source, vector_offsets[e + 1]):
                    mass += abs(inside[x] * outside[x])
                if mass <= threshold:
                    continue
                for r in range(rule_offsets[a], rule_offsets[a + 1]):
                    b, c = rule_left[r], rule_right[r]
                    for w in range(n_words):
                        if live_ends[i, b, w] & live_starts[j, c, w] != 0:
                            break
                    else:
                        continue
                    while n_edges + n >= edges.shape[0]:
                        bigger = np.empty((2 * edges.shape[0], 4), np.int32)
                        bigger[:n_edges] = edges[:n_edges]
                        edges = bigger
                        longer = np.empty(2 * posterior.shape[0], np.float64)
                        longer[:n_edges] = posterior[:n_edges]
                        posterior = longer
                    n_edges = _unapply_rule(
                        e, r, i, j, b, c, states[a], states[b], states[c], ends, starts, live_ends, live_starts,
                        start_base, end_base, by_start, by_end, vector_offsets, tensor_offsets, tensors, factor, weight,
                        inside, outside, source, edges, posterior, n_edges, threshold,
                    )  # fmt: skip
    return total, edges[:n_edges], posterior[:n_edges]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _unapply_rule(
    e, r, i, j, b, c, m_a, m_b, m_c, ends, starts, live_ends, live_starts, start_base, end_base, by_start, by_end,
    vector_offsets, tensor_offsets, tensors, factor, weight, inside, outside, source, edges, posterior, n_edges,
    threshold,
):  # fmt: skip
    """Hand an entry's outside vector down through one rule to the children at all splits; list the edges."""
    size = m_b * m_c
    base = tensor_offsets[r]
    for y in range(size):
        weight[y] = 0
    for x in range(m_a):
        value = outside[source + x]
        for y in range(size):
            weight[y] += value * tensors[base + x * size + y]
    before_left, before_right = start_base[i, b], end_base[j, c]
    for w in range(ends.shape[2]):
        left_word, right_word = ends[i, b, w], starts[j, c, w]
        both = live_ends[i, b, w] & live_starts[j, c, w]
        while both != 0:
            bit = lowest_bit(both)
            both &= both - _ONE
            lower = (_ONE << np.uint64(bit)) - _ONE
            left_entry = by_start[before_left + popcount(left_word & lower)]
            right_entry = by_end[before_right + popcount(right_word & lower)]
            left, right = vector_offsets[left_entry], vector_offsets[right_entry]
            scale = factor[64 * w + bit]
            value = 0.0
            for x in range(m_b):
                partial = inside.dtype.type(0.0)
                scaled = scale * inside[left + x]
                for y in range(m_c):
                    partial += weight[x * m_c + y] * inside[right + y]
                    outside[right + y] += scaled * weight[x * m_c + y]
                partial *= scale
                outside[left + x] += partial
                value += partial * inside[left + x]
            if abs(value) > threshold:
                edges[n_edges, 0] = e
                edges[n_edges, 1] = left_entry
                edges[n_edges, 2] = right_entry
                edges[n_edges, 3] = r
                posterior[n_edges] = value
                n_edges += 1
        before_left += popcount(left_word)
        before_right += popcount(right_word)
    return n_edges


@numba.njit(cache=True, nogil=True)
def entry_posteriors(vector_offsets, inside, outside, posterior):
    """Fill the posterior of each entry: inside times outside, summed over states."""
    for e in range(posterior.shape[0]):
        total = 0.0
        for x in range(vector_offsets[e], vector_offsets[e + 1]):
            total += inside[x] * outside[x]
        posterior[e] = total
