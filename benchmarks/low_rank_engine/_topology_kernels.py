"""Compiled loops of charts over binary trees.

Charts of several sentences are filled together, one width after the other, so that matrix products have many rows.
The cells of a sentence are stored triangularly and *by end*, span `(i, j)` at `j (j - 1) / 2 + i`: those that end at
`j` are one run, which is what the right children of a cell are. Left children are a run *by start*. Each cell has one
vector and a power of two that it is to be multiplied by, so that nothing over- or underflows.
"""

# mypy: ignore-errors
from __future__ import annotations

import math

import numpy as np
from numba import njit

# The exponent of a vector of zeros.
NOTHING = -(1 << 40)
# Numbers that differ by more than this power of two have nothing to add to each other.
_FAR = 1000
# Powers of two from -_FAR to _FAR: quicker than ldexp.
_POWERS = np.ldexp(1.0, np.arange(-_FAR, _FAR + 1))


@njit(cache=True, nogil=True)
def by_end(i, j):
    """Return where span `(i, j)` is among the cells of its sentence."""
    return j * (j - 1) // 2 + i


@njit(cache=True, nogil=True)
def by_start(length, i, j):
    """Return where span `(i, j)` is among cells ordered by their first word."""
    return i * length - i * (i - 1) // 2 + j - i - 1


@njit(cache=True, nogil=True)
def _power(exponent):
    """Return a power of two, 0 if it is very small; at most `2 ** 1000`."""
    return 0.0 if exponent < -_FAR else _POWERS[min(exponent, _FAR) + _FAR]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _size(vector):
    """Return the sum of absolute values."""
    size = 0.0
    for x in range(len(vector)):
        size += abs(vector[x])
    return size


@njit(cache=True, nogil=True)
def _copy(target, source):
    """Copy a vector (a slice assigned takes Numba much longer to compile)."""
    for x in range(len(source)):
        target[x] = source[x]


@njit(cache=True, nogil=True)
def _clear(vector):
    """Set a vector to zero."""
    for x in range(len(vector)):
        vector[x] = 0.0


@njit(cache=True, nogil=True)
def rescale(vector):
    """Bring the largest absolute value into [1/2, 1); returns the exponent of the power of two taken out."""
    largest = 0.0
    for x in range(len(vector)):
        largest = max(largest, abs(vector[x]))
    if largest == 0.0:
        return NOTHING
    shift = max(math.frexp(largest)[1], -_FAR)
    scale = _power(-shift)
    for x in range(len(vector)):
        vector[x] *= scale
    return shift


@njit(cache=True, nogil=True)
def rescale_rows(vectors, exponents):
    """`rescale` each row and write down its exponent."""
    for row in range(len(vectors)):
        exponents[row] = rescale(vectors[row])


@njit(cache=True, nogil=True)
def _add(target, exponents, row, begin, source, exponent):
    """Add `source * 2 ** exponent` to a row of scaled vectors, from column `begin` on."""
    # What counts is how large the vector is, not how large the factors were that it was made of.
    size = _size(source)
    if size == 0.0:
        return
    shift = math.frexp(size)[1]
    above = exponent + shift - exponents[row]
    if above > 0:
        scale = _power(-above)
        for x in range(target.shape[1]):
            target[row, x] *= scale
        exponents[row] = exponent + shift
    scale = _power(exponent - exponents[row])
    for x in range(len(source)):
        target[row, begin + x] += scale * source[x]


@njit(cache=True, nogil=True)
def _cells_of_width(width, lengths, sentence, start):
    """List the cells of one width: sentence and first word of each. Returns how many there are."""
    count = 0
    for s in range(len(lengths)):
        for i in range(lengths[s] - width + 1):
            sentence[count] = s
            start[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def _split_factors(exponents, first, i, j, factors):
    """Find the factor that each split of `(i, j)` is to be multiplied by, and the exponent common to all of them."""
    reference = NOTHING
    for k in range(i + 1, j):
        reference = max(reference, exponents[first + by_end(i, k)] + exponents[first + by_end(k, j)])
    for k in range(i + 1, j):
        exponent = exponents[first + by_end(i, k)] + exponents[first + by_end(k, j)]
        factors[k - i - 1] = _power(exponent - reference)
    return reference


@njit(cache=True, nogil=True)
def _keep(cell, vector, exponent, inside, exponents):
    """Put the inside vector of a cell into the chart."""
    shift = rescale(vector)
    exponents[cell] = NOTHING if shift == NOTHING else exponent + shift
    _copy(inside[cell], vector)


@njit(cache=True, nogil=True)
def dense_inside(lengths, offsets, tensor, power, block, inside, exponents, starts):
    """Fill `inside (cells, n)`, whose leaves are there already, `exponents`, and `starts`, the vectors by start.

    Over a cell's splits the products of left and right vectors are summed up first, `(n, n)`; the tensor, `(n, n^2)`
    and to be multiplied by `2 ** power`, is then applied to `block` cells at once.
    """
    n, longest = tensor.shape[0], lengths.max()
    sentence, start = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    sums, parents = np.empty((block, n * n)), np.empty((block, n))
    references, factors, scaled = np.empty(block, np.int64), np.empty(longest), np.empty((longest, n))
    for s in range(len(lengths)):
        for i in range(lengths[s]):
            _copy(starts[offsets[s] + by_start(lengths[s], i, i + 1)], inside[offsets[s] + by_end(i, i + 1)])
    for width in range(2, longest + 1):
        count, splits = _cells_of_width(width, lengths, sentence, start), width - 1
        for begin in range(0, count, block):
            size = min(block, count - begin)
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                left = offsets[s] + by_start(lengths[s], i, i + 1)
                right = offsets[s] + by_end(i + 1, i + width)
                references[row] = _split_factors(exponents, offsets[s], i, i + width, factors)
                for x in range(splits):
                    for state in range(n):
                        scaled[x, state] = factors[x] * starts[left + x, state]
                np.dot(scaled[:splits].T, inside[right : right + splits], sums[row].reshape(n, n))
            np.dot(sums[:size], tensor.T, parents[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                cell = offsets[s] + by_end(i, i + width)
                _keep(cell, parents[row], references[row] + power, inside, exponents)
                _copy(starts[offsets[s] + by_start(lengths[s], i, i + width)], inside[cell])


@njit(cache=True, nogil=True)
def dense_outside(lengths, offsets, tensor, power, block, inside, exponents, starts, outside, out_exponents):
    """Fill `outside (cells, n)`, where the root's vector is at the top of each sentence and all else zero.

    For a parent with outside vector `u` the matrix `T(u, I, I)` is found once, `block` cells at a time, and multiplied
    with all right children for what comes to the left ones, and the other way round.
    """
    n, longest = tensor.shape[0], lengths.max()
    sentence, start = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    matrices, parents = np.empty((block, n * n)), np.empty((block, n))
    to_left, to_right = np.empty((longest, n)), np.empty((longest, n))
    for width in range(longest, 1, -1):
        count, splits = _cells_of_width(width, lengths, sentence, start), width - 1
        for begin in range(0, count, block):
            size = min(block, count - begin)
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                _copy(parents[row], outside[offsets[s] + by_end(i, i + width)])
            np.dot(parents[:size], tensor, matrices[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                j, first = i + width, offsets[s]
                left, right = first + by_start(lengths[s], i, i + 1), first + by_end(i + 1, j)
                matrix = matrices[row].reshape(n, n)
                np.dot(inside[right : right + splits], matrix.T, to_left[:splits])
                np.dot(starts[left : left + splits], matrix, to_right[:splits])
                above = out_exponents[first + by_end(i, j)] + power
                for x in range(splits):
                    one, other = first + by_end(i, i + 1 + x), first + by_end(i + 1 + x, j)
                    _add(outside, out_exponents, one, 0, to_left[x], above + exponents[other])
                    _add(outside, out_exponents, other, 0, to_right[x], above + exponents[one])


@njit(cache=True, nogil=True)
def product_inside(lengths, offsets, parent, both, power, block, inside, exponents, lefts, rights):
    """Fill `inside (cells, n)`, whose leaves are there already, and `exponents`.

    `parent (n, R)` and `both (n, 2 R)`, left factors beside right ones, make up the tensor. `lefts` and `rights`,
    `(cells, R)`, by start and by end, are inside vectors multiplied by the factors.
    """
    rank, longest = parent.shape[1], lengths.max()
    sentence, start = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    sums, parents, projected = np.empty((block, rank)), np.empty((block, len(parent))), np.empty((block, 2 * rank))
    references, factors = np.empty(block, np.int64), np.empty(longest)
    for width in range(1, longest + 1):
        count = _cells_of_width(width, lengths, sentence, start)
        for begin in range(0, count, block):
            size = min(block, count - begin)
            if width > 1:
                for row in range(size):
                    s, i = sentence[begin + row], start[begin + row]
                    left = offsets[s] + by_start(lengths[s], i, i + 1)
                    right = offsets[s] + by_end(i + 1, i + width)
                    references[row] = _split_factors(exponents, offsets[s], i, i + width, factors)
                    _clear(sums[row])
                    for x in range(width - 1):
                        for r in range(rank):
                            sums[row, r] += factors[x] * lefts[left + x, r] * rights[right + x, r]
                np.dot(sums[:size], parent.T, parents[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                cell = offsets[s] + by_end(i, i + width)
                if width > 1:
                    _keep(cell, parents[row], references[row] + power, inside, exponents)
                else:
                    _copy(parents[row], inside[cell])
            np.dot(parents[:size], both, projected[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                _copy(lefts[offsets[s] + by_start(lengths[s], i, i + width)], projected[row, :rank])
                _copy(rights[offsets[s] + by_end(i, i + width)], projected[row, rank:])


@njit(cache=True, nogil=True)
def product_outside(lengths, offsets, parent, both, power, block, exponents, lefts, rights, outside, out_exponents):
    """Fill `outside (cells, n)`, where the root's vector is at the top of each sentence and all else zero."""
    rank, longest = parent.shape[1], lengths.max()
    sentence, start = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    gathered, parents, above = np.empty((block, 2 * rank)), np.empty((block, len(parent))), np.empty((block, rank))
    # What comes to a cell as a left child, and as a right child: to be multiplied by `both`.
    arriving, product = np.zeros((len(outside), 2 * rank)), np.empty(rank)
    for width in range(longest, 0, -1):
        count = _cells_of_width(width, lengths, sentence, start)
        for begin in range(0, count, block):
            size = min(block, count - begin)
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                _copy(gathered[row], arriving[offsets[s] + by_end(i, i + width)])
            np.dot(gathered[:size], both.T, parents[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                cell = offsets[s] + by_end(i, i + width)
                if width < lengths[s]:
                    shift = rescale(parents[row])
                    out_exponents[cell] = NOTHING if shift == NOTHING else out_exponents[cell] + shift
                    _copy(outside[cell], parents[row])
                else:
                    _copy(parents[row], outside[cell])
            if width == 1:
                continue
            np.dot(parents[:size], parent, above[:size])
            for row in range(size):
                s, i = sentence[begin + row], start[begin + row]
                j, first = i + width, offsets[s]
                exponent = out_exponents[first + by_end(i, j)] + power
                for k in range(i + 1, j):
                    one, other = first + by_end(i, k), first + by_end(k, j)
                    left = lefts[first + by_start(lengths[s], i, k)]
                    for r in range(rank):
                        product[r] = above[row, r] * rights[other, r]
                    _add(arriving, out_exponents, one, 0, product, exponent + exponents[other])
                    for r in range(rank):
                        product[r] = above[row, r] * left[r]
                    _add(arriving, out_exponents, other, rank, product, exponent + exponents[one])


@njit(cache=True, nogil=True)
def _by_state(inside, first, i, j, left, factors, vectors, low, high):
    """Write the vectors of all left (or right) children of `(i, j)` to `vectors (n, splits)`.

    `low` and `high` are the first and last splits, last not included, where a state's weight is not zero.
    """
    for state in range(len(low)):
        low[state], high[state] = j, 0
    for k in range(i + 1, j):
        x = k - i - 1
        row = inside[first + (by_end(i, k) if left else by_end(k, j))]
        for state in range(len(row)):
            vectors[state, x] = factors[x] * row[state]
            if row[state] != 0.0:
                low[state] = min(low[state], x)
                high[state] = x + 1


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def sparse_inside(
    lengths, offsets, groups, group_offsets, others, pair_offsets, above, values, power, inside, exponents
):  # fmt: skip
    """Fill `inside (cells, n)`, whose leaves are there already, and `exponents`.

    Pairs of states that occur below some other are grouped by the left one: group `g` has left state `groups[g]`, its
    right states are `others[group_offsets[g] : group_offsets[g + 1]]`; pair `p` has the parents and weights
    `above, values[pair_offsets[p] : pair_offsets[p + 1]]`.
    """
    n, longest = inside.shape[1], lengths.max()
    lefts, rights = np.empty((n, longest)), np.empty((n, longest))
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    right_low, right_high = np.empty(n, np.int64), np.empty(n, np.int64)
    factors, ones, parent = np.empty(longest), np.ones(longest), np.empty(n)
    for s in range(len(lengths)):
        for width in range(2, lengths[s] + 1):
            for i in range(lengths[s] - width + 1):
                j = i + width
                reference = _split_factors(exponents, offsets[s], i, j, factors)
                _by_state(inside, offsets[s], i, j, True, factors, lefts, low, high)
                _by_state(inside, offsets[s], i, j, False, ones, rights, right_low, right_high)
                _clear(parent)
                for g in range(len(groups)):
                    left = lefts[groups[g]]
                    begin, end = low[groups[g]], high[groups[g]]
                    if begin >= end:
                        continue
                    for p in range(group_offsets[g], group_offsets[g + 1]):
                        right, total = rights[others[p]], 0.0
                        first, last = max(begin, right_low[others[p]]), max(begin, min(end, right_high[others[p]]))
                        for x in range(np.uint64(first), np.uint64(last)):
                            total += left[x] * right[x]
                        for entry in range(pair_offsets[p], pair_offsets[p + 1]):
                            parent[above[entry]] += values[entry] * total
                _keep(offsets[s] + by_end(i, j), parent, reference + power, inside, exponents)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def sparse_outside(
    lengths, offsets, groups, group_offsets, others, pair_offsets, above, values, power, inside, exponents, outside,
    out_exponents,
):  # fmt: skip
    """Fill `outside (cells, n)`, where the root's vector is at the top of each sentence and all else zero."""
    n, longest = inside.shape[1], lengths.max()
    lefts, rights = np.empty((n, longest)), np.empty((n, longest))
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    right_low, right_high = np.empty(n, np.int64), np.empty(n, np.int64)
    to_left, to_right = np.empty((n, longest)), np.empty((n, longest))
    ones, vector = np.ones(longest), np.empty(n)
    for s in range(len(lengths)):
        for width in range(lengths[s], 1, -1):
            for i in range(lengths[s] - width + 1):
                j, first = i + width, offsets[s]
                cell = first + by_end(i, j)
                parent = outside[cell]
                _by_state(inside, first, i, j, True, ones, lefts, low, high)
                _by_state(inside, first, i, j, False, ones, rights, right_low, right_high)
                for state in range(n):
                    for x in range(width - 1):
                        to_left[state, x] = to_right[state, x] = 0.0
                for g in range(len(groups)):
                    left, left_sum = lefts[groups[g]], to_left[groups[g]]
                    begin, end = low[groups[g]], high[groups[g]]
                    for p in range(group_offsets[g], group_offsets[g + 1]):
                        total = 0.0
                        for entry in range(pair_offsets[p], pair_offsets[p + 1]):
                            total += values[entry] * parent[above[entry]]
                        if total == 0.0:
                            continue
                        right, right_sum = rights[others[p]], to_right[others[p]]
                        for x in range(np.uint64(right_low[others[p]]), np.uint64(right_high[others[p]])):
                            left_sum[x] += total * right[x]
                        for x in range(np.uint64(begin), np.uint64(end)):
                            right_sum[x] += total * left[x]
                exponent = out_exponents[cell] + power
                for k in range(i + 1, j):
                    one, other = first + by_end(i, k), first + by_end(k, j)
                    for state in range(n):
                        vector[state] = to_left[state, k - i - 1]
                    _add(outside, out_exponents, one, 0, vector, exponent + exponents[other])
                    for state in range(n):
                        vector[state] = to_right[state, k - i - 1]
                    _add(outside, out_exponents, other, 0, vector, exponent + exponents[one])


@njit(cache=True, nogil=True)
def marginals(length, first, inside, exponents, outside, out_exponents, total, exponent, result):
    """Divide each cell's weight by that of the sentence, `total * 2 ** exponent`: `result (length, length + 1)`."""
    for j in range(1, length + 1):
        for i in range(j):
            cell = first + by_end(i, j)
            weight = 0.0
            for state in range(inside.shape[1]):
                weight += inside[cell, state] * outside[cell, state]
            result[i, j] = weight / total * _power(exponents[cell] + out_exponents[cell] - exponent)


@njit(cache=True, nogil=True)
def best_splits(scores):
    """Return where the best tree splits each span, `(length, length + 1)`: the first of several equally good ones."""
    length = scores.shape[0]
    starts, ends = np.zeros((length, length + 1)), np.zeros((length + 1, length))
    splits = np.zeros((length, length + 1), np.int64)
    for width in range(2, length + 1):
        for i in range(length - width + 1):
            j = i + width
            best, where = -math.inf, i + 1
            for k in range(i + 1, j):
                score = starts[i, k] + ends[j, k]
                if score > best:
                    best, where = score, k
            splits[i, j] = where
            starts[i, j] = ends[j, i] = best + scores[i, j]
    return splits


@njit(cache=True, nogil=True)
def link_children(length, spans, children, heights):
    """Find the children of the nodes of a binary tree; returns whether the spans are those of one.

    `spans` are sorted by their ends, then with the later start first, children before parents. Nodes are numbered:
    the words, then the spans in their order. `children (spans, 2)`; `heights (spans,)`: 1 above two words.
    """
    stack, starts = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
    top, x = 0, 0
    for word in range(length):
        stack[top], starts[top] = word, word
        top += 1
        while x < len(spans) and spans[x, 1] == word + 1:
            if top < 2 or starts[top - 2] != spans[x, 0]:
                return False
            left, right = stack[top - 2], stack[top - 1]
            children[x, 0], children[x, 1] = left, right
            below = heights[left - length] if left >= length else 0
            heights[x] = 1 + max(below, heights[right - length] if right >= length else 0)
            stack[top - 2] = length + x
            top -= 1
            x += 1
    return x == len(spans) and top == 1
