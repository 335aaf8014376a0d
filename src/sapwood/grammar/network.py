"""`Network`: a small recurrent network that scores what stands over a span of words, to be used beside a grammar.

Words are sums of vectors for what they look like (`looks`): in lower case, their shape, their last and first
characters. Layers of light recurrent units (SRU, Lei et al. 2018) go over the sentence in both directions: all products
of matrices are over whole sentences, and only sums of two numbers go from word to word. A span is what the last layer
has at its two ends (Stern, Andreas and Klein 2017), and a further layer scores base symbols over it; those of single
words, preterminals, are scored by the words' own vectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.errors import ModelError
from sapwood.schema import Column
from sapwood.shapes import Array, Float32, Int32, Shaped
from sapwood.storage import pack_strings, unpack_strings
from sapwood.trees.word_classes import WordClasses, class_names

# Numbers of what every network has: nothing to be seen, and the two ends of a sentence.
NOTHING, BEGIN, END = 0, 1, 2
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4), (1, 2, 3)
_LOOKS = 2 + len(_ENDINGS) + len(_BEGINNINGS)
_LONGEST_SHAPE = 8
# Rare words are known by the rest of their looks.
_LEAST = 2
_KEPT_ROWS = 1 << 15
# No size of a network is beyond this.
LARGEST = 4096


def looks(word: str, classes: WordClasses | None = None) -> list[str]:
    """Return what a network sees of a word, always as many strings; those that do not apply are empty.

    >>> looks("Re-do")
    ['=re-do', '#Aa-a', '-o', '-do', '--do', '-e-do', 'r-', 're-', 're--']
    """
    lowered = word.lower()
    found = ["=" + lowered, "#" + _shape(word)]
    found += ["-" + lowered[-length:] if len(lowered) >= length else "" for length in _ENDINGS]
    found += [lowered[:length] + "-" if len(lowered) >= length else "" for length in _BEGINNINGS]
    if classes is None:
        return found
    return found + list(class_names(classes, word) or [""] * classes.levels)


def n_looks(classes: WordClasses | None) -> int:
    """Return how many strings that is."""
    return _LOOKS + (0 if classes is None else classes.levels)


def _shape(word: str) -> str:
    """Return kinds of characters without repetitions."""
    shape = ""
    for char in word:
        kind = "A" if char.isupper() else "a" if char.islower() else "x" if char.isalpha() else char
        kind = "0" if char.isdigit() else kind
        if not shape.endswith(kind):
            shape += kind
    return shape[:_LONGEST_SHAPE]


def count_looks(words: Mapping[str, int], most: int, classes: WordClasses | None = None) -> list[str]:
    """Return the looks worth a vector, sorted: of several words, or of a word seen several times; at most so many."""
    times: Counter[str] = Counter()
    for word, count in words.items():
        for place, look in enumerate(looks(word, classes)):
            times[look] += 1 if place else count
    del times[""]
    enough = [(-count, look) for look, count in times.items() if count >= _LEAST]
    return sorted(look for _, look in sorted(enough)[:most])


class _Sizes(TypedDict):
    half: int
    layers: int
    inner: int


class NetworkMetadata(_Sizes, total=False):
    """What a file says of a network beside its arrays."""

    closing: float


NETWORK = (
    Column("network.looks", "text", "network_looks", along="network.table"),
    Column("network.labels", "text", "network_labels", along="network.table"),
    Column("network.tags", "text", "network_tags", along="network.table"),
    Column("network.table", "float32", f"network_looks+{END + 1} network_input", along="network.table"),
    Column("network.weights", "float32", "network_weights", along="network.table"),
)


class Sizes(NamedTuple):
    """How many numbers a network has where.

    Attributes
    ----------
    input
        In the vector of a word.
    half
        In each direction of a layer.
    layers
        Layers.
    inner
        In the vector of a span.
    labels, tags
        Symbols over spans of several words, and over one.
    """

    input: int
    half: int
    layers: int
    inner: int
    labels: int
    tags: int

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights but the words' vectors, in the order in which they are kept."""
        size = 2 * self.half
        shapes: dict[str, tuple[int, ...]] = {"input.gain": (self.input,), "input.shift": (self.input,)}
        for layer in range(self.layers):
            below = size if layer else self.input
            shapes[f"{layer}.gates"] = (below, 3 * size)
            shapes[f"{layer}.bias"] = (2 * size,)
            shapes[f"{layer}.gain"] = shapes[f"{layer}.shift"] = (size,)
            if below != size:
                shapes[f"{layer}.skip"] = (below, size)
        shapes |= {"tags": (size, self.tags), "tags.bias": (self.tags,)}
        shapes |= {"left": (size, self.inner), "right": (size, self.inner), "ends.bias": (self.inner,)}
        shapes |= {"span.gain": (self.inner,), "span.shift": (self.inner,)}
        return shapes | {"labels": (self.inner, self.labels), "labels.bias": (self.labels,)}

    @property
    def n_weights(self) -> int:
        """How many weights these are."""
        return sum(math.prod(shape) for shape in self.weights().values())

    def views(self, weights: Float32[Array, "weights"]) -> dict[str, Float32[Array, "..."]]:
        """Return parts of a vector of weights under their names, without copying."""
        found, first = {}, 0
        for name, shape in self.weights().items():
            found[name] = weights[first : first + math.prod(shape)].reshape(shape)
            first += math.prod(shape)
        return found


class Scores(NamedTuple):
    """What a network says of a sentence.

    Attributes
    ----------
    spans
        What each label scores over each span of several words: row `j (j - 1) / 2 + i` is span `(i, j)`. A binary
        tree's score is the sum of its spans'.
    tags
        Logarithms of the tags' probabilities.
    """

    spans: Float32[Array, "cells labels"]
    tags: Float32[Array, "sentence_words tags"]

    def closed(self, threshold: float) -> Int32[Array, "cells"]:
        """Return -2 for cells over which fewer than this share of all binary trees has a node, -1 for all others.

        Trees are weighted by the exponentials of their scores, those of all their labellings together.
        """
        if not self.spans.shape[1]:
            return np.full(len(self.spans), -1, np.int32)
        return kernels.closed_cells(self.spans, len(self.tags), threshold)


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network that scores symbols over spans.

    Attributes
    ----------
    sizes
        How large it is.
    looks
        What it can see of words.
    labels, tags
        The names of the base symbols that it scores over several words and over one.
    table
        Vectors of `NOTHING`, `BEGIN`, `END` and all looks.
    weights
        All other weights, as `Sizes.weights` has them.
    closing
        Spans that it gives less than this part of all binary trees need not be looked at.
    classes
        Classes of words from plain text, which it sees too.
    """

    sizes: Sizes
    looks: tuple[str, ...]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    table: Float32[Array, "vectors input"]
    weights: Float32[Array, "weights"]
    closing: float = 0.0
    classes: WordClasses | None = None

    def __repr__(self) -> str:
        return f"<Network: {self.table.size + self.weights.size:,} weights, {len(self.looks):,} looks>"

    def __getstate__(self) -> dict[str, Any]:
        # What is only kept at hand is not copied, nor sent to others.
        return {name: value for name, value in vars(self).items() if name not in ("_rows", "_numbers")}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {look: number for number, look in enumerate(self.looks, END + 1)}

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        return {}  # rows that are kept at hand

    def see(self, words: Sequence[str]) -> Int32[Array, "steps looks"]:
        """Return the numbers of what there is to be seen of a sentence, its two ends included."""
        rest = [NOTHING] * (n_looks(self.classes) - 1)
        rows = [[BEGIN, *rest]]
        for word in words:
            row = self._rows.get(word)
            if row is None:
                if len(self._rows) >= _KEPT_ROWS:
                    self._rows.clear()
                seen = looks(word, self.classes)
                row = self._rows[word] = [self._numbers.get(look, NOTHING) for look in seen]
            rows.append(row)
        return np.array([*rows, [END, *rest]], np.int32)

    def scores(self, words: Sequence[str]) -> Scores:
        """Return what each symbol scores over each span of a sentence."""
        size = self.sizes
        return Scores(
            *kernels.network_scores(
                self.table, self.weights, self.see(words), size.half, size.layers, size.inner, size.labels, size.tags
            )
        )

    def scores_size(self, n_words: int) -> int:
        """Return how many bytes the scores of a sentence take."""
        return 4 * ((n_words * (n_words + 1) // 2) * self.sizes.labels + n_words * self.sizes.tags)

    def columns(self, symbols: Sequence[str], n_interminals: int) -> Int32[Array, "symbols"]:
        """Return where scores have each symbol of a grammar, -1 if the network does not know it."""
        numbers = {(name, False): column for column, name in enumerate(self.labels)}
        numbers |= {(name, True): column for column, name in enumerate(self.tags)}
        return np.array([numbers.get((name, s >= n_interminals), -1) for s, name in enumerate(symbols)], np.int32)

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return what is stored as arrays."""
        names = {name: pack_strings(getattr(self, name)) for name in ("looks", "labels", "tags")}
        return {
            f"network.{name}": array for name, array in {**names, "table": self.table, "weights": self.weights}.items()
        }

    def metadata(self) -> NetworkMetadata:
        """Return what is stored beside the arrays."""
        sizes = self.sizes
        return {"half": sizes.half, "layers": sizes.layers, "inner": sizes.inner, "closing": self.closing}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Shaped[Array, "..."]],
        metadata: NetworkMetadata | None,
        classes: WordClasses | None = None,
    ) -> Network | None:
        """Build from what was stored, with the classes of words in the same file; None if there is no network."""
        if (metadata is None) != ("network.table" not in arrays):
            raise ModelError("network.table: missing, or there is nothing said about a network")
        if metadata is None:
            return None
        names = {name: tuple(unpack_strings(arrays[f"network.{name}"])) for name in ("looks", "labels", "tags")}
        table, weights = arrays["network.table"], arrays["network.weights"]
        half, layers, inner = (metadata[name] for name in ("half", "layers", "inner"))
        if not all(0 < size <= LARGEST for size in (half, layers, inner, table.shape[1])):
            raise ModelError(f"network: sizes must be 1 to {LARGEST}")
        closing = float(metadata.get("closing", 0.0))
        if not 0 <= closing < 1:
            raise ModelError(f"network.closing: {closing} is not at least 0 and below 1")
        if not names["tags"]:
            raise ModelError("network.tags: there are no tags")
        sizes = Sizes(table.shape[1], half, layers, inner, labels=len(names["labels"]), tags=len(names["tags"]))
        if sizes.n_weights != len(weights):
            raise ModelError(f"network.weights: has {len(weights)} numbers, expected {sizes.n_weights}")
        return cls(sizes, **names, table=table, weights=weights, closing=closing, classes=classes)
