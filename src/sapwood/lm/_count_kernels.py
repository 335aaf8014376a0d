"""Inner loops that count n-grams: pack them into integers, divide them by first word, sort, and count what is equal.

An n-gram of the longest order is packed into 64-bit columns, `bits` a word and as many words a column as fit, first
words highest; a word's id is stored plus one, so that 0 is "nothing here": n-grams end with `</s>` and with the text.
Sorted, the packed n-grams have those of every shorter order as prefixes, so that one sort counts all orders.
"""

# mypy: ignore-errors
from __future__ import annotations

import numba
import numpy as np

_U1 = np.uint64(1)


@numba.njit(cache=True, nogil=True)
def renumber(numbers, ids_of, is_open, begin, end, ids):
    """Write the ids of provisional `numbers` to `ids`, a boundary (-1) as `end` and `begin` around what is not empty.

    Returns how many ids were written. `is_open` tells whether the words before were in the same sentence.
    """
    written = 0
    for number in numbers:
        value = ids_of[number]
        if value >= 0:
            if not is_open and begin >= 0:
                ids[written] = begin
                written += 1
            is_open = True
            ids[written] = value
            written += 1
        elif is_open:
            ids[written] = end
            written += 1
            is_open = False
    return written


@numba.njit(cache=True, nogil=True)
def bucket_sizes(ids, bucket_of, sizes):
    """Add to `sizes` how many positions each bucket has, by the word there."""
    for value in ids:
        sizes[bucket_of[value]] += 1


@numba.njit(cache=True, nogil=True)
def divide(ids, first, last, order, bits, end, bucket_of, at, keys):
    """Pack the n-grams that begin at `first` to `last` and put each into its bucket, where `at` (moved on) says.

    `keys` is `(columns, n)`. N-grams stop after the id `end`.
    """
    columns = len(keys)
    fit = 64 // bits
    size = len(ids)
    for x in range(first, last):
        bucket = bucket_of[ids[x]]
        target = at[bucket]
        at[bucket] = target + 1
        stopped = False
        d = 0
        for c in range(columns):
            key = np.uint64(0)
            for _ in range(min(fit, order - c * fit)):
                key <<= np.uint64(bits)
                if not stopped and x + d < size:
                    value = ids[x + d]
                    key |= np.uint64(value + 1)
                    stopped = value == end
                d += 1
            keys[c, target] = key


@numba.njit(cache=True, nogil=True)
def divide_pairs(ids, first, last, bits, end, bucket_of, at, keys):
    """Do what `divide` does, for order 2."""
    size = len(ids)
    for x in range(first, last):
        value = ids[x]
        bucket = bucket_of[value]
        target = at[bucket]
        at[bucket] = target + 1
        key = np.uint64(value + 1) << np.uint64(bits)
        if value != end and x + 1 < size:
            key |= np.uint64(ids[x + 1] + 1)
        keys[0, target] = key


@numba.njit(cache=True, nogil=True)
def _pass_narrow(source, target, n, shift, mask, histogram):
    histogram[:] = 0
    for x in range(n):
        histogram[(source[x] >> shift) & mask] += 1
    total = 0
    for d in range(len(histogram)):
        here = histogram[d]
        histogram[d] = total
        total += here
    for x in range(n):
        key = source[x]
        digit = (key >> shift) & mask
        target[histogram[digit]] = key
        histogram[digit] += 1


@numba.njit(cache=True, nogil=True)
def _pass_wide(source, target, column, n, shift, mask, histogram):
    histogram[:] = 0
    for x in range(n):
        histogram[(source[column, x] >> shift) & mask] += 1
    total = 0
    for d in range(len(histogram)):
        here = histogram[d]
        histogram[d] = total
        total += here
    for x in range(n):
        digit = (source[column, x] >> shift) & mask
        y = histogram[digit]
        histogram[digit] = y + 1
        for c in range(len(source)):
            target[c, y] = source[c, x]


@numba.njit(cache=True, nogil=True)
def sort_keys(keys, scratch, n_columns):
    """Sort the columns' positions by the first `n_columns` columns; return whether the result is in `scratch`.

    A radix sort, lowest digits first, of the bits in which keys differ at all.
    """
    n = keys.shape[1]
    in_scratch = False
    if n < 2:
        return in_scratch
    for column in range(n_columns - 1, -1, -1):
        here = scratch if in_scratch else keys
        differ = np.uint64(0)
        first = here[column, 0]
        for x in range(n):
            differ |= here[column, x] ^ first
        low = 0
        while low < 64 and differ >> np.uint64(low) != 0:
            if (differ >> np.uint64(low)) & _U1 == 0:
                low += 1
                continue
            high = low
            while high < 64 and differ >> np.uint64(high) != 0:
                high += 1
            width = high - low
            passes = (width + 10) // 11
            digit = (width + passes - 1) // passes
            histogram = np.zeros(1 << digit, np.int64)
            mask = np.uint64((1 << digit) - 1)
            for p in range(passes):
                source, target = (scratch, keys) if in_scratch else (keys, scratch)
                shift = np.uint64(low + p * digit)
                if len(keys) == 1:
                    _pass_narrow(source[0], target[0], n, shift, mask, histogram)
                else:
                    _pass_wide(source, target, column, n, shift, mask, histogram)
                in_scratch = not in_scratch
            low = high
    return in_scratch


@numba.njit(cache=True, nogil=True)
def count_equal(keys, n_columns, counts):
    """Keep each of the sorted keys once, at the front, and write how often it was there; return how many are left.

    A column behind the first `n_columns`, if there is one, says how often each is to count.
    """
    n = keys.shape[1]
    weighted = len(keys) > n_columns
    last = -1
    for x in range(n):
        weight = np.int64(keys[n_columns, x]) if weighted else 1
        same = last >= 0
        for c in range(n_columns):
            same = same and keys[c, x] == keys[c, last]
        if same:
            counts[last] += weight
        else:
            last += 1
            for c in range(n_columns):
                keys[c, last] = keys[c, x]
            counts[last] = weight
    return last + 1


@numba.njit(cache=True, nogil=True, inline="always")
def _is_new(keys, x, column, prefix, last):
    """Whether the words up to those of `prefix`, in `column`, differ from those of the key before."""
    if prefix != last:
        return True
    for c in range(column):
        if keys[c, x] != keys[c, x - 1]:
            return True
    return False


@numba.njit(cache=True, nogil=True)
def fill_table(keys, counts, order, bits, ngrams, totals):
    """Write the n-grams of one order, `(n, k)`, and their counts, from the sorted, distinct keys; return how many.

    If there is no room at all, `n = 0`, they are not written.
    """
    k = ngrams.shape[1]
    fit = 64 // bits
    mask = np.uint64((1 << bits) - 1)
    column = (k - 1) // fit
    shift = np.uint64(bits * (min(fit, order - column * fit) - 1 - (k - 1) % fit))
    at = -1
    last = np.uint64(0)
    for x in range(keys.shape[1]):
        prefix = keys[column, x] >> shift
        if prefix & mask != 0:
            if _is_new(keys, x, column, prefix, last):
                at += 1
                if len(totals) == 0:
                    last = prefix
                    continue
                totals[at] = counts[x]
                rest = prefix
                for d in range(k - 1, column * fit - 1, -1):
                    ngrams[at, d] = np.int32(rest & mask) - 1
                    rest >>= np.uint64(bits)
                for c in range(column):
                    rest = keys[c, x]
                    for d in range((c + 1) * fit - 1, c * fit - 1, -1):
                        ngrams[at, d] = np.int32(rest & mask) - 1
                        rest >>= np.uint64(bits)
            elif len(totals):
                totals[at] += counts[x]
        last = prefix
    return at + 1
