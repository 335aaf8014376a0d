"""`Network`: a small recurrent network that scores what stands over a span of words, to be used beside a grammar.

Words are sums of vectors for what they look like (`looks`): in lower case, their shape, their last and first
characters. Layers of light recurrent units (SRU, Lei et al. 2018) go over the sentence in both directions: all products
of matrices are over whole sentences, and only sums of two numbers go from word to word. A span is what the last layer
has at its two ends (Stern, Andreas and Klein 2017), and a further layer scores base symbols over it; those of single
words, preterminals, are scored by the words' own vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sapwood.shapes import Array, Float32, Int32

# Numbers of what every network has: nothing to be seen, and the two ends of a sentence.
NOTHING, BEGIN, END = 0, 1, 2
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4), (1, 2, 3)
LOOKS = 2 + len(_ENDINGS) + len(_BEGINNINGS)
_LONGEST_SHAPE = 8
# Rare words are known by the rest of their looks.
_LEAST = 2


def looks(word: str) -> list[str]:
    """Return what a network sees of a word, `LOOKS` strings; those that do not apply are empty.

    >>> looks("Re-do")
    ['=re-do', '#Aa-a', '-o', '-do', '--do', '-e-do', 'r-', 're-', 're--']
    """
    lowered = word.lower()
    found = ["=" + lowered, "#" + _shape(word)]
    found += ["-" + lowered[-length:] if len(lowered) >= length else "" for length in _ENDINGS]
    return found + [lowered[:length] + "-" if len(lowered) >= length else "" for length in _BEGINNINGS]


def _shape(word: str) -> str:
    """Return kinds of characters without repetitions."""
    shape = ""
    for char in word:
        kind = "A" if char.isupper() else "a" if char.islower() else "0" if char.isdigit() else "x" if char.isalpha() else char
        if not shape.endswith(kind):
            shape += kind
    return shape[:_LONGEST_SHAPE]


def count_looks(words: Mapping[str, int], most: int) -> list[str]:
    """Return the looks worth a vector, sorted: of several words, or of a word seen several times; at most so many."""
    times: Counter[str] = Counter()
    for word, count in words.items():
        for place, look in enumerate(looks(word)):
            times[look] += 1 if place else count
    del times[""]
    enough = [(-count, look) for look, count in times.items() if count >= _LEAST]
    return sorted(look for _, look in sorted(enough)[:most])
