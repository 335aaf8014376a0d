"""Inner loops that turn bytes into words: a hash table of words that also tokenises.

Words are separated by bytes up to 32: white space and control characters. The table is open: slot `s` is
`slots[2 s]`, the key, and `slots[2 s + 1]`, twice the word's number plus whether it is long. A word of at most eight
bytes is its own key, the bytes one behind the other in 64 bits (none is zero, so this is injective and a key of zero
marks a free slot); a longer word's key is a hash, and its bytes are compared. The bytes of word `w` are
`arena[starts[w] : starts[w + 1] - 1]`, with a line end behind them; arenas and texts have `PADDING` bytes more than
are used, so that eight can be read at once. `sizes` is `(words, words' limit)`. Word 0 is the line end, which no bytes
spell.

Tokenising goes by strides of text: first all separators of a stride are found, then the keys of all its words
computed, then all are looked up, so that the processor waits for many places of the table at a time.
"""

# mypy: ignore-errors
from __future__ import annotations

import numba
import numpy as np

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
DONE, FULL, ZERO_BYTE, TOO_LONG = 0, 1, 2, 3
LONGEST = 1 << 20
PADDING = 8
STRIDE = 8192


@numba.njit(cache=True, nogil=True, inline="always")
def _eight(text, at):
    """Return the eight bytes from `at`, an unsigned integer (of which Numba knows that it is no index from the end)."""
    return (
        np.uint64(text[at])
        | np.uint64(text[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(text[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(text[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(text[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(text[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(text[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(text[at + np.uint64(7)]) << np.uint64(56)
    )


@numba.njit(cache=True, nogil=True, inline="always")
def _key(text, begin, end):
    """Return the key of the word `text[begin:end]`, never zero."""
    length = end - begin
    at = np.uint64(begin)
    if length <= 8:
        return _eight(text, at) & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * length))
    key = np.uint64(length)
    last = np.uint64(end - 8)
    while at < last:
        key = (key ^ _eight(text, at)) * MULTIPLIER
        key ^= key >> np.uint64(32)
        at += np.uint64(8)
    return ((key ^ _eight(text, last)) * MULTIPLIER) | np.uint64(1)


@numba.njit(cache=True, nogil=True, inline="always")
def _same(text, begin, other, base, length):
    """Whether more than eight bytes of two arrays are the same."""
    x, y = np.uint64(begin), np.uint64(base)
    last = x + np.uint64(length - 8)
    if _eight(text, last) != _eight(other, y + np.uint64(length - 8)):
        return False
    while x < last:
        if _eight(text, x) != _eight(other, y):
            return False
        x += np.uint64(8)
        y += np.uint64(8)
    return True


@numba.njit(cache=True, nogil=True)
def _find(text, begin, end, key, slots, shift, arena, starts):
    """Return the slot of the word `text[begin:end]` or the free one where it belongs."""
    mask = np.int64(len(slots) // 2 - 1)
    slot = np.int64((key * MULTIPLIER) >> shift)
    is_long = end - begin > 8
    while True:
        found = slots[2 * slot]
        if found == key:
            value = slots[2 * slot + 1]
            if not is_long:
                if value & np.uint64(1) == 0:
                    return slot
            elif value & np.uint64(1) == 1:
                word = value >> np.uint64(1)
                base = starts[word]
                if starts[word + np.uint64(1)] - 1 - base == end - begin and _same(
                    text, begin, arena, base, end - begin
                ):
                    return slot
        elif found == 0:
            return slot
        slot = (slot + 1) & mask


@numba.njit(cache=True, nogil=True)
def _add(text, begin, end, key, slot, slots, arena, starts, sizes):
    """Put a new word into a free slot and return its number, or -1 if there is no room."""
    word = sizes[0]
    at = starts[word]
    if word >= sizes[1] or at + (end - begin) + 1 + PADDING > len(arena):
        return -1
    for x in range(begin, end):
        arena[at + x - begin] = text[x]
    arena[at + end - begin] = 10
    starts[word + 1] = at + end - begin + 1
    slots[2 * slot] = key
    slots[2 * slot + 1] = np.uint64(2 * word + (end - begin > 8))
    sizes[0] = word + 1
    return word


@numba.njit(cache=True, nogil=True)
def _separators(text, begin, end, found):
    """Write where bytes up to 32 are; return how many."""
    n = 0
    for at in range(begin, end):
        found[n] = at
        n += text[at] <= 32
    return n


@numba.njit(cache=True, nogil=True)
def tokenise(text, size, slots, shift, arena, starts, sizes, counts, lines, ids, done):
    """Write the numbers of the words of `text[done[0] : size]` to `ids`, adding words that are new.

    `text[size - 1]` is a separator. With `lines` each line end is a 0 among the ids. Returns why it stopped: `DONE`;
    `FULL`, the table must grow before the word that begins at `done[0]`; `ZERO_BYTE` or a word that is `TOO_LONG`, at
    `done[0]`. `done` is the position reached, the ids written and the line ends seen, the last two going on from what
    they are.
    """
    start, written, ends = done[0], done[1], done[2]
    at = start
    found = np.empty(STRIDE + 1, np.int64)
    begins = np.empty(STRIDE + 1, np.int64)
    keys = np.empty(STRIDE + 1, np.uint64)
    there = np.empty(STRIDE + 1, np.uint64)
    values = np.empty(STRIDE + 1, np.uint64)
    while at < size:
        stop = min(at + STRIDE, size)
        n = _separators(text, at, stop, found)
        at = stop
        for i in range(n):
            end = found[i]
            begins[i] = start
            keys[i] = np.uint64(0) if end == start else _key(text, start, end)
            start = end + 1
        for i in range(n):
            slot = np.uint64((keys[i] * MULTIPLIER) >> shift) << np.uint64(1)
            there[i] = slots[slot]
            values[i] = slots[slot + np.uint64(1)]
        for i in range(n):
            key, end = keys[i], found[i]
            if key != 0:
                begin = begins[i]
                value = values[i]
                if there[i] != key or value & np.uint64(1) != 0 or end - begin > 8:
                    if end - begin > LONGEST:
                        done[0], done[1], done[2] = begin, written, ends
                        return TOO_LONG
                    place = _find(text, begin, end, key, slots, shift, arena, starts)
                    new = slots[2 * place] == 0
                    if new and _add(text, begin, end, key, place, slots, arena, starts, sizes) < 0:
                        done[0], done[1], done[2] = begin, written, ends
                        return FULL
                    value = slots[2 * place + 1]
                word = value >> np.uint64(1)
                counts[word] += 1
                ids[written] = word
                written += 1
            separator = text[end]
            if separator == 10:
                ends += 1
                if lines:
                    ids[written] = 0
                    written += 1
            elif separator == 0:
                done[0], done[1], done[2] = end, written, ends
                return ZERO_BYTE
    done[0], done[1], done[2] = size, written, ends
    return DONE


@numba.njit(cache=True, nogil=True)
def rehash(slots, shift, arena, starts, n_words):
    """Fill empty `slots` with the words of the table."""
    mask = np.int64(len(slots) // 2 - 1)
    for word in range(1, n_words):
        begin, end = starts[word], starts[word + 1] - 1
        key = _key(arena, begin, end)
        slot = np.int64((key * MULTIPLIER) >> shift)
        while slots[2 * slot] != 0:
            slot = (slot + 1) & mask
        slots[2 * slot] = key
        slots[2 * slot + 1] = np.uint64(2 * word + (end - begin > 8))


@numba.njit(cache=True, nogil=True)
def add_words(texts, text_starts, first, slots, shift, arena, starts, sizes, numbers):
    """Add words given as another table's bytes, from `first` on, and write their numbers here to `numbers`.

    Returns the first word for which there was no room.
    """
    for word in range(first, len(numbers)):
        begin, end = text_starts[word], text_starts[word + 1] - 1
        key = _key(texts, begin, end)
        slot = _find(texts, begin, end, key, slots, shift, arena, starts)
        if slots[2 * slot] == 0:
            number = _add(texts, begin, end, key, slot, slots, arena, starts, sizes)
            if number < 0:
                return word
        else:
            number = np.int64(slots[2 * slot + 1] >> np.uint64(1))
        numbers[word] = number
    return len(numbers)


@numba.njit(cache=True, nogil=True)
def copy_words(arena, starts, words, target):
    """Copy the bytes of some words, each with its line end, one behind the other; return how many bytes."""
    at = 0
    for word in words:
        for x in range(starts[word], starts[word + 1]):
            target[at] = arena[x]
            at += 1
    return at
