"""Inner loops over n-grams of all orders in one tree.

The n-grams stand order after order, in each order sorted, and are known by their places `x`. `words[x]` is the last
word; the n-grams that go on from `x` by one word stand at `starts[x]` to `starts[x + 1]`. Of order 1 there is one for
each id, at the place of its number.
"""

# mypy: ignore-errors
from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def find(words, low, high, word):
    """Return where `word` is among the rising `words[low:high]`, or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else -1


@numba.njit(cache=True, nogil=True)
def locate(words, starts, ngrams, places):
    """Write where each of the `ngrams` `(n, k)` is, or -1; quick if neighbours begin with the same words."""
    n, k = ngrams.shape
    path = np.full(k, -1, np.int64)
    for x in range(n):
        d = 0
        if x > 0:
            while d < k and ngrams[x, d] == ngrams[x - 1, d]:
                d += 1
        while d < k:
            word = ngrams[x, d]
            if d == 0:
                path[d] = word
            else:
                parent = path[d - 1]
                path[d] = find(words, starts[parent], starts[parent + 1], word) if parent >= 0 else -1
            d += 1
        places[x] = path[k - 1]


@numba.njit(cache=True, nogil=True)
def score(ids, first, order, begin, words, starts, log_probabilities, log_backoffs, result):
    """Write the log-probability of each of `ids[first:]` given those before, at most `order - 1` of them.

    An n-gram that is in the tree has the probability that is there; another has that of its last words but one fewer,
    times the weight of the context. `begin` is an id that is not predicted, but begins a new sequence (-1: none).
    """
    state = np.full(order, -1, np.int64)  # state[m]: where the last m words are
    fresh = np.full(order + 1, -1, np.int64)
    for x in range(len(ids)):
        word = ids[x]
        if word == begin:
            state[:] = -1
            if order > 1:
                state[1] = word
            if x >= first:
                result[x - first] = 0.0
            continue
        fresh[1] = word
        longest = 1
        for m in range(2, order + 1):
            fresh[m] = -1
            if state[m - 1] >= 0:
                parent = state[m - 1]
                fresh[m] = find(words, starts[parent], starts[parent + 1], word)
                if fresh[m] >= 0:
                    longest = m
        if x >= first:
            value = log_probabilities[fresh[longest]]
            for m in range(longest, order):
                if state[m] >= 0:
                    value += log_backoffs[state[m]]
            result[x - first] = value
        for m in range(1, order):
            state[m] = fresh[m]
