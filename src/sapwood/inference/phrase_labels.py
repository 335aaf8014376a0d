"""What the symbols of a grammar stand for, as numbers: the phrases of a tree that `f1` decoding counts.

A node of a symbol `S|VP` is two phrases over the same words, an intermediate one is none, a preterminal `NP|NN` is the
phrase `NP` and the tag `NN`. The second `NP` of a chain `NP|SBAR|NP` is another phrase than the first.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Int32, Int64


class PhraseLabels(NamedTuple):
    """Numbers of labels that each symbol stands for; those of tags come behind the `phrases` first ones of `total`."""

    offsets: Int64[Array, "symbols+1"]
    labels: Int32[Array, "uses"]
    phrases: int
    total: int


def find_labels(coarse: TensorGrammar) -> PhraseLabels:
    """Return what each symbol stands for."""
    symbols, phrases, tags = coarse.symbols, dict[tuple[str, int], int](), dict[str, int]()
    rows: list[list[int]] = []
    for symbol, chain in enumerate(symbols.chain):
        leaf, seen, row = symbol >= coarse.n_interminals, Counter[str](), []
        for label in chain[: len(chain) - leaf]:
            row.append(phrases.setdefault((label, seen[label]), len(phrases)))
            seen[label] += 1
        # Numbers of tags are below zero until it is known how many phrases there are.
        rows.append([*row, -1 - tags.setdefault(symbols.tags[symbol], len(tags))] if leaf else row)
    numbers = np.array([number for row in rows for number in row], np.int32)
    numbers[numbers < 0] = len(phrases) - 1 - numbers[numbers < 0]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return PhraseLabels(offsets, numbers, len(phrases), len(phrases) + len(tags))
