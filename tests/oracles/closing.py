"""What `sapwood.model.cell_pruner` says of features, number by number."""

from __future__ import annotations

from collections.abc import Sequence

from sapwood.storage.shapes import Array, Float32

_MASK = (1 << 64) - 1


def slot(bits: int, template: int, *values: int) -> int:
    """Return the place of a feature in a table of `2 ** bits` weights."""
    hashed = template * 0xD6E8FEB86659FD93 & _MASK
    for value in values:
        hashed = (hashed ^ value) * 0x9E3779B97F4A7C15 & _MASK
        hashed ^= hashed >> 29
    return hashed >> (64 - bits)


def cell_slots(tags: Sequence[int], kinds: Sequence[int], i: int, j: int, bits: int) -> list[int]:
    """Return the places of the features of the cell over words `i .. j - 1`."""
    n = len(tags)

    def seen(values: Sequence[int], k: int) -> int:
        return 1 if k < 0 else 2 if k >= n else values[k] + 3

    def tag(k: int) -> int:
        return seen(tags, k)

    def kind(k: int) -> int:
        return seen(kinds, k)

    width = j - i
    bucket = width if width < 12 else 12 if width < 20 else 13 if width < 30 else 14
    features: list[tuple[int, ...]] = []
    for side, k in ((0, i), (10, j)):
        features += [
            (1 + side, tag(k - 1), tag(k)),
            (2 + side, tag(k - 2), tag(k - 1), tag(k)),
            (3 + side, tag(k - 1), tag(k), tag(k + 1)),
            (4 + side, kind(k - 1)),
            (5 + side, kind(k)),
            (6 + side, kind(k - 1), kind(k)),
        ]
    features += [
        (20, bucket),
        (21, tag(i), tag(j - 1)),
        (22, tag(i - 1), tag(j)),
        (23, tag(i), bucket),
        (24, tag(i - 1), bucket),
        (25, tag(i - 1), tag(i), tag(j)),
        (26, tag(j), bucket),
        (27, tag(j - 1), bucket),
        (28, tag(j - 1), tag(j), tag(i)),
    ]
    return [slot(bits, *feature) for feature in features]


def cell_score(weights: Float32[Array, "slots"], tags: Sequence[int], kinds: Sequence[int], i: int, j: int) -> float:
    """Return what a cell scores."""
    return sum(float(weights[place]) for place in cell_slots(tags, kinds, i, j, len(weights).bit_length() - 1))
