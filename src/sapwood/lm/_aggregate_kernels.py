"""Compiled loops of latent bigram models.

Parameters are word-major, `(V, m)` float32: each bigram touches `m` contiguous numbers on either side. Bigrams come in
tiles (see `tiles`): within a tile, a *segment* is what it has of one row. Four bigrams of a segment are done at a time,
so that the row's numbers are loaded once for four.
"""

# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

# Reductions may be reordered, which is what lets them use vectors; infinities and NaNs keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}
# Probabilities are taken to be at least this, so that counts can be divided by them.
SMALLEST = np.float32(1e-28)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def expect(first, last, segment_rows, segment_begins, columns, counts, r, s, r_sums, s_sums):
    """Add up `count / z` times the other side's numbers, for segments `first` to `last`; return `sum count log z`.

    `z = r[row] . s[column]`. The expected count of a state with a row's word is `r[row] * r_sums[row]`, and with a
    column's word `s[column] * s_sums[column]`.
    """
    m = r.shape[1]
    total = 0.0
    for segment in range(first, last):
        row = segment_rows[segment]
        own, own_sums = r[row], r_sums[row]
        at, end = segment_begins[segment], segment_begins[segment + 1]
        while at + 4 <= end:
            c0, c1, c2, c3 = columns[at], columns[at + 1], columns[at + 2], columns[at + 3]
            s0, s1, s2, s3 = s[c0], s[c1], s[c2], s[c3]
            z0 = z1 = z2 = z3 = np.float32(0.0)
            for h in range(m):
                x = own[h]
                z0 += x * s0[h]
                z1 += x * s1[h]
                z2 += x * s2[h]
                z3 += x * s3[h]
            z0, z1, z2, z3 = max(z0, SMALLEST), max(z1, SMALLEST), max(z2, SMALLEST), max(z3, SMALLEST)
            w0, w1, w2, w3 = counts[at] / z0, counts[at + 1] / z1, counts[at + 2] / z2, counts[at + 3] / z3
            total += counts[at] * np.log(z0) + counts[at + 1] * np.log(z1)
            total += counts[at + 2] * np.log(z2) + counts[at + 3] * np.log(z3)
            for h in range(m):
                own_sums[h] += (w0 * s0[h] + w1 * s1[h]) + (w2 * s2[h] + w3 * s3[h])
            sums = s_sums[c0]
            for h in range(m):
                sums[h] += w0 * own[h]
            sums = s_sums[c1]
            for h in range(m):
                sums[h] += w1 * own[h]
            sums = s_sums[c2]
            for h in range(m):
                sums[h] += w2 * own[h]
            sums = s_sums[c3]
            for h in range(m):
                sums[h] += w3 * own[h]
            at += 4
        while at < end:
            other = s[columns[at]]
            z = np.float32(0.0)
            for h in range(m):
                z += own[h] * other[h]
            z = max(z, SMALLEST)
            w = counts[at] / z
            total += counts[at] * np.log(z)
            for h in range(m):
                own_sums[h] += w * other[h]
            sums = s_sums[columns[at]]
            for h in range(m):
                sums[h] += w * own[h]
            at += 1
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def expect_rows(first, last, segment_rows, segment_begins, columns, counts, r, s, r_sums):
    """Do the rows' half of `expect`, for when the columns' numbers are not to change."""
    m = r.shape[1]
    total = 0.0
    for segment in range(first, last):
        row = segment_rows[segment]
        own, own_sums = r[row], r_sums[row]
        for at in range(segment_begins[segment], segment_begins[segment + 1]):
            other = s[columns[at]]
            z = np.float32(0.0)
            for h in range(m):
                z += own[h] * other[h]
            z = max(z, SMALLEST)
            w = counts[at] / z
            total += counts[at] * np.log(z)
            for h in range(m):
                own_sums[h] += w * other[h]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def multiply(first, last, segment_rows, segment_begins, columns, counts, transposed, dense, result):
    """Add the tile's part of `counts @ dense` to the result, or of `counts.T @ dense` if it is transposed."""
    m = dense.shape[1]
    for segment in range(first, last):
        row = segment_rows[segment]
        for at in range(segment_begins[segment], segment_begins[segment + 1]):
            w = counts[at]
            if transposed:
                source, target = dense[row], result[columns[at]]
            else:
                source, target = dense[columns[at]], result[row]
            for h in range(m):
                target[h] += w * source[h]


@njit(cache=True, nogil=True)
def count_tiles(indptr, indices, begin, end, rows, block_of, seen, entries, segments):
    """Count the entries and segments of each tile in a row group: rows `begin` to `end` of the inner order.

    `block_of[column]` is its block; `seen`, `entries` and `segments` are `(blocks,)`, `seen` with -1 everywhere.
    """
    for place in range(begin, end):
        row = rows[place]
        for at in range(indptr[row], indptr[row + 1]):
            block = block_of[indices[at]]
            entries[block] += 1
            if seen[block] != place:
                seen[block] = place
                segments[block] += 1


@njit(cache=True, nogil=True)
def fill_tiles(
    indptr, indices, data, begin, end, rows, block_of, place_of, seen, next_entry, next_segment,
    segment_rows, segment_begins, columns, counts,
):  # fmt: skip
    """Put the entries of a row group in the order of tiles; the arguments before `next_entry` are `count_tiles`'s.

    `place_of[column]` is its place in the inner order; `next_entry` and `next_segment`, `(blocks,)`, say where each
    tile begins, and afterwards where it ends.
    """
    for place in range(begin, end):
        row = rows[place]
        for at in range(indptr[row], indptr[row + 1]):
            column = indices[at]
            block = block_of[column]
            to = next_entry[block]
            if seen[block] != place:
                seen[block] = place
                segment = next_segment[block]
                segment_rows[segment] = place
                segment_begins[segment] = to
                next_segment[block] = segment + 1
            columns[to] = place_of[column]
            counts[to] = data[at]
            next_entry[block] = to + 1


@njit(cache=True, nogil=True, error_model="numpy")
def maximise_columns(begin, end, s, expected, pseudo, scale, smallest):
    """Set rows `begin` to `end` of `s` to `(expected + pseudo[word]) * scale`, where `scale` is `(m,)`.

    Values below `smallest` become zero: they would soon be too small to compute with.
    """
    m = s.shape[1]
    for word in range(begin, end):
        own, sums = s[word], expected[word]
        for h in range(m):
            value = (sums[h] + pseudo[word]) * scale[h]
            own[h] = value if value >= smallest else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def pair_products(contexts, targets, r, s, result):
    """Set `result` to `r[context] . s[target]` for each pair."""
    m = r.shape[1]
    for pair in range(len(contexts)):
        own, other = r[contexts[pair]], s[targets[pair]]
        z = np.float32(0.0)
        for h in range(m):
            z += own[h] * other[h]
        result[pair] = z


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_logs(begin, end, values, weights):
    """Return `sum log value` over rows `begin` to `end`, each row times its weight."""
    total = 0.0
    for row in range(begin, end):
        if weights[row] > 0.0:
            own = values[row]
            part, product = 0.0, 1.0
            for h in range(values.shape[1]):
                product *= max(own[h], SMALLEST)
                if h % 8 == 7:  # eight of the smallest are still a normal number
                    part += np.log(product)
                    product = 1.0
            total += weights[row] * (part + np.log(product))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def blend_rows(begin, end, r, r_sums, blend, statistics, pseudo, smallest):
    """Do the same as `blend_columns` for rows, and set `r` to the statistics plus `pseudo`, normalised.

    No probability is below `smallest`; rows without statistics stay.
    """
    m = r.shape[1]
    for row in range(begin, end):
        own, sums, kept = r[row], r_sums[row], statistics[row]
        total = 0.0
        for h in range(m):
            kept[h] = blend[0] * kept[h] + blend[1] * own[h] * sums[h]
            total += kept[h]
        if total > 0.0:
            scale = 1.0 / (total + m * pseudo)
            for h in range(m):
                own[h] = max((kept[h] + pseudo) * scale, smallest)


@njit(cache=True, nogil=True, error_model="numpy")
def blend_columns(begin, end, s, s_sums, blend, statistics, totals):
    """Set rows `begin` to `end` of `statistics` to `blend[0]` times themselves plus `blend[1] * s * s_sums`.

    They are added to `totals`, `(m,)` float64. With a blend of 0 and 1 and `s_sums` for statistics, these become the
    expected counts.
    """
    m = s.shape[1]
    for word in range(begin, end):
        own, sums, kept = s[word], s_sums[word], statistics[word]
        for h in range(m):
            kept[h] = blend[0] * kept[h] + blend[1] * own[h] * sums[h]
            totals[h] += kept[h]
