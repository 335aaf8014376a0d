"""Span scorer: a small recurrent network that scores symbols over spans of words, used together with a grammar.

The embedding of a word is the sum of the vectors of its features (`word_features`): lower-cased form, shape, suffixes
and prefixes. Layers of simple recurrent units (SRU, Lei et al. 2018) run over the sentence in both directions: all
matrix products are over whole sentences, and only the element-wise recurrence is sequential. A span is represented by
the outputs of the last layer at its two ends (Stern, Andreas and Klein 2017), and a further layer scores base symbols
over it; preterminals over single words are scored from the vectors of the words.

A span scorer may also see vectors of a pretrained encoder: its input is then the sum of the embedding and a linear map
of the vector. The model has the map, and the digest of the encoder, which is not part of it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.encoders.encoder import Encoder
from sapwood.errors import ModelError, UsageError
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float32, Int32, Shaped
from sapwood.trees.lexicon.word_classes import WordClasses, class_names

# Indices of the special features: padding, and the two ends of a sentence.
PAD, BOS, EOS = 0, 1, 2
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4), (1, 2, 3)
_N_FEATURES = 2 + len(_ENDINGS) + len(_BEGINNINGS)
_LONGEST_SHAPE = 8
# Rare words are represented by their other features.
_LEAST = 2
_KEPT_ROWS = 1 << 15
# Upper bound of all dimensions.
LARGEST = 4096
# Names of encoders, which are shown in messages.
NAME = re.compile(r"[\w.+-]{1,80}")


def word_features(word: str, classes: WordClasses | None = None) -> list[str]:
    """Return the features of a word, always the same number of strings; those that do not apply are empty.

    >>> word_features("Re-do")
    ['=re-do', '#Aa-a', '-o', '-do', '--do', '-e-do', 'r-', 're-', 're--']
    """
    lowered = word.lower()
    found = ["=" + lowered, "#" + _shape(word)]
    found += ["-" + lowered[-length:] if len(lowered) >= length else "" for length in _ENDINGS]
    found += [lowered[:length] + "-" if len(lowered) >= length else "" for length in _BEGINNINGS]
    if classes is None:
        return found
    return found + list(class_names(classes, word) or [""] * classes.levels)


def n_word_features(classes: WordClasses | None) -> int:
    """Return the number of features of a word."""
    return _N_FEATURES + (0 if classes is None else classes.levels)


def _shape(word: str) -> str:
    """Return the character classes of a word without repetitions."""
    shape = ""
    for char in word:
        kind = "A" if char.isupper() else "a" if char.islower() else "x" if char.isalpha() else char
        kind = "0" if char.isdigit() else kind
        if not shape.endswith(kind):
            shape += kind
    return shape[:_LONGEST_SHAPE]


def frequent_features(words: Mapping[str, int], max_features: int, classes: WordClasses | None = None) -> list[str]:
    """Return at most `max_features` features, sorted: those of several words or of a recurring word."""
    times: Counter[str] = Counter()
    for word, count in words.items():
        for idx, feature in enumerate(word_features(word, classes)):
            times[feature] += 1 if idx else count
    del times[""]
    enough = [(-count, feature) for feature, count in times.items() if count >= _LEAST]
    return sorted(feature for _, feature in sorted(enough)[:max_features])


class _Sizes(TypedDict):
    half: int
    layers: int
    inner: int


class EncoderMetadata(TypedDict):
    """What a model file says about a pretrained encoder."""

    name: str
    digest: str
    layer: int
    int8: bool


class SpanScorerMetadata(_Sizes, total=False):
    """Metadata of a span scorer in a model file."""

    closing: float
    encoder: EncoderMetadata


SPAN_SCORER_COLUMNS = (
    Column("network.looks", "text", "network_looks", along="network.table"),
    Column("network.labels", "text", "network_labels", along="network.table"),
    Column("network.tags", "text", "network_tags", along="network.table"),
    Column("network.table", "float32", f"network_looks+{EOS + 1} network_input", along="network.table"),
    Column("network.weights", "float32", "network_weights", along="network.table"),
    Column("network.projection", "float32", "encoder_size encoder_features", along="network.projection"),
    Column("network.projection_shift", "float32", "encoder_features", along="network.projection"),
)


class Dims(NamedTuple):
    """Dimensions of a span scorer.

    Attributes
    ----------
    embedding
        Size of a word embedding.
    hidden
        Hidden units per direction of a layer.
    layers
        Number of layers.
    span_hidden
        Hidden units of the span vector.
    labels, tags
        Number of symbols over spans of several words, and over single words.
    encoder
        Size of the projected vectors of a pretrained encoder; 0 without one.
    """

    embedding: int
    hidden: int
    layers: int
    span_hidden: int
    labels: int
    tags: int
    encoder: int = 0

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights but the embeddings, in storage order."""
        size = 2 * self.hidden
        shapes: dict[str, tuple[int, ...]] = {"encoder": (self.encoder, self.embedding)} if self.encoder else {}
        shapes |= {"input.gain": (self.embedding,), "input.shift": (self.embedding,)}
        for layer in range(self.layers):
            below = size if layer else self.embedding
            shapes[f"{layer}.gates"] = (below, 3 * size)
            shapes[f"{layer}.bias"] = (2 * size,)
            shapes[f"{layer}.gain"] = shapes[f"{layer}.shift"] = (size,)
            if below != size:
                shapes[f"{layer}.skip"] = (below, size)
        shapes |= {"tags": (size, self.tags), "tags.bias": (self.tags,)}
        span = (self.span_hidden,)
        shapes |= {"left": (size, *span), "right": (size, *span), "ends.bias": span}
        shapes |= {"span.gain": span, "span.shift": span}
        return shapes | {"labels": (*span, self.labels), "labels.bias": (self.labels,)}

    @property
    def n_weights(self) -> int:
        """Number of these weights."""
        return sum(math.prod(shape) for shape in self.weights().values())

    def views(self, weights: Float32[Array, "weights"]) -> dict[str, Float32[Array, "..."]]:
        """Return views of a flat weight vector by name."""
        found, first = {}, 0
        for name, shape in self.weights().items():
            found[name] = weights[first : first + math.prod(shape)].reshape(shape)
            first += math.prod(shape)
        return found


class SpanScores(NamedTuple):
    """Scores of the spans of a sentence.

    Attributes
    ----------
    spans
        Score of each label over each span of several words: row `j (j - 1) / 2 + i` is span `(i, j)`. The score of a
        binary tree is the sum over its spans.
    tags
        Log probabilities of the tags.
    """

    spans: Float32[Array, "cells labels"]
    tags: Float32[Array, "sentence_words tags"]

    def prune(self, threshold: float) -> Int32[Array, "cells"]:
        """Return -2 for cells whose marginal over all binary trees is below `threshold`, -1 for all others.

        Trees are weighted by the exponentials of their scores, summed over all their labellings.
        """
        return kernels.prune_cells(self.spans, len(self.tags), threshold)


@dataclass(frozen=True, eq=False)
class EncoderFeatures:
    """Vectors of a pretrained encoder as input of a span scorer.

    Attributes
    ----------
    name, digest
        Name and digest of the encoder.
    layer
        Layer whose vectors are used, from 1.
    int8
        True if the encoder runs in integers of eight bits.
    projection, shift
        Affine map of the vectors: their principal components.
    source
        The encoder itself, if it is at hand: it is not stored.
    """

    name: str
    digest: str
    layer: int
    int8: bool
    projection: Float32[Array, "encoder_size encoder_features"]
    shift: Float32[Array, "encoder_features"]
    source: Encoder | None = None

    def project(self, vectors: Float32[Array, "words encoder_size"]) -> Float32[Array, "words encoder_features"]:
        """Return the principal components of vectors."""
        return kernels.affine_map(np.ascontiguousarray(vectors), self.projection, self.shift)

    def metadata(self) -> EncoderMetadata:
        """Return the metadata to be stored."""
        return {"name": self.name, "digest": self.digest, "layer": self.layer, "int8": self.int8}


# The vectors of a sentence without an encoder.
NO_VECTORS = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class SpanScorer:
    """Neural span scorer.

    Attributes
    ----------
    dims
        Its dimensions.
    word_features
        Word features with an embedding.
    labels, tags
        Names of the base symbols that it scores over several words and over single words.
    embeddings
        Embeddings of `PAD`, `BOS`, `EOS` and all word features.
    weights
        All other weights, in the order of `Dims.weights`.
    prune_below
        Pruning threshold: spans with a smaller marginal need not be considered.
    classes
        Word classes from unlabelled text, used as features as well.
    encoder
        The pretrained encoder whose vectors are part of the input, if any.
    """

    dims: Dims
    word_features: tuple[str, ...]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    embeddings: Float32[Array, "vectors input"]
    weights: Float32[Array, "weights"]
    prune_below: float = 0.0
    classes: WordClasses | None = None
    encoder: EncoderFeatures | None = None

    def __repr__(self) -> str:
        n_weights = self.embeddings.size + self.weights.size
        encoder = "" if self.encoder is None else f", vectors of {self.encoder.name}"
        return f"<SpanScorer: {n_weights:,} weights, {len(self.word_features):,} word features{encoder}>"

    def __getstate__(self) -> dict[str, Any]:
        # Caches are neither copied nor sent to workers.
        return {name: value for name, value in vars(self).items() if name not in ("_rows", "_numbers", "native")}

    @cached_property
    def native(self) -> kernels.SpanScorer:
        """Span scorer as a kernel object."""
        dims = self.dims
        return kernels.SpanScorer(
            self.embeddings, self.weights, dims.hidden, dims.layers, dims.span_hidden, dims.labels, dims.tags,
            dims.encoder,
        )  # fmt: skip

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {feature: idx for idx, feature in enumerate(self.word_features, EOS + 1)}

    @cached_property
    def _rows(self) -> dict[str, bytes]:
        return {}  # cache of rows

    def encode(self, words: Sequence[str]) -> Int32[Array, "steps features"]:
        """Return the feature indices of a sentence's words, including the two sentence boundaries."""
        size = n_word_features(self.classes)
        rows = [self._row([BOS], size)]
        for word in words:
            row = self._rows.get(word)
            if row is None:
                if len(self._rows) >= _KEPT_ROWS:
                    self._rows.clear()
                features = word_features(word, self.classes)
                row = self._rows[word] = self._row([self._numbers.get(feature, PAD) for feature in features], size)
            rows.append(row)
        rows.append(self._row([EOS], size))
        return np.frombuffer(b"".join(rows), np.int32).reshape(-1, size)

    @staticmethod
    def _row(numbers: list[int], size: int) -> bytes:
        """Return the bytes of a row of features, padded."""
        return np.array(numbers + [PAD] * (size - len(numbers)), np.int32).tobytes()

    def scores(
        self, words: Sequence[str], vectors: Float32[Array, "vectors_given encoder_features"] = NO_VECTORS
    ) -> SpanScores:
        """Return the score of each symbol over each span of a sentence, given the projected vectors of its words."""
        if vectors.shape[1] != self.dims.encoder:
            raise UsageError(
                f"the span scorer needs {self.dims.encoder} numbers of an encoder for each word, not {vectors.shape[1]}"
            )
        return SpanScores(*self.native.scores(self.encode(words), vectors))

    def scores_size(self, n_words: int) -> int:
        """Return the size in bytes of the scores of a sentence."""
        return 4 * ((n_words * (n_words + 1) // 2) * self.dims.labels + n_words * self.dims.tags)

    def columns(self, symbols: Sequence[str], n_interminals: int) -> Int32[Array, "symbols"]:
        """Return the column of each grammar symbol in the scores, -1 if the span scorer does not know it."""
        return symbol_columns(self.labels, self.tags, symbols, n_interminals)

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored."""
        return {
            "network.looks": pack_strings(self.word_features),
            "network.labels": pack_strings(self.labels),
            "network.tags": pack_strings(self.tags),
            "network.table": self.embeddings,
            "network.weights": self.weights,
            **(
                {}
                if self.encoder is None
                else {"network.projection": self.encoder.projection, "network.projection_shift": self.encoder.shift}
            ),
        }

    def metadata(self) -> SpanScorerMetadata:
        """Return the metadata to be stored."""
        dims = self.dims
        found: SpanScorerMetadata = {
            "half": dims.hidden, "layers": dims.layers, "inner": dims.span_hidden, "closing": self.prune_below
        }  # fmt: skip
        return found if self.encoder is None else {**found, "encoder": self.encoder.metadata()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Shaped[Array, "..."]],
        metadata: SpanScorerMetadata | None,
        classes: WordClasses | None = None,
    ) -> SpanScorer | None:
        """Inverse of `to_arrays` and `metadata`, given the file's word classes; None without a span scorer."""
        if (metadata is None) != ("network.table" not in arrays):
            raise ModelError("network.table: the array or its metadata is missing")
        if metadata is None:
            return None
        features, labels, tags = (
            tuple(unpack_strings(arrays[f"network.{name}"])) for name in ("looks", "labels", "tags")
        )
        embeddings, weights = arrays["network.table"], arrays["network.weights"]
        hidden, layers, span_hidden = (metadata[name] for name in ("half", "layers", "inner"))
        if not all(0 < size <= LARGEST for size in (hidden, layers, span_hidden, embeddings.shape[1])):
            raise ModelError(f"network: sizes must be 1 to {LARGEST}")
        prune_below = float(metadata.get("closing", 0.0))
        if not 0 <= prune_below < 1:
            raise ModelError(f"network.closing: {prune_below} is not at least 0 and below 1")
        if not tags:
            raise ModelError("network.tags: there are no tags")
        encoder = _encoder_features(arrays, metadata.get("encoder"))
        n_features = 0 if encoder is None else len(encoder.shift)
        dims = Dims(embeddings.shape[1], hidden, layers, span_hidden, len(labels), len(tags), n_features)
        if dims.n_weights != len(weights):
            raise ModelError(f"network.weights: has {len(weights)} numbers, expected {dims.n_weights}")
        return cls(dims, features, labels, tags, embeddings, weights, prune_below, classes, encoder)


def symbol_columns(
    labels: Sequence[str], tags: Sequence[str], symbols: Sequence[str], n_interminals: int
) -> Int32[Array, "symbols"]:
    """Return the place of each symbol among the labels, or of each preterminal among the tags; -1 if it has none.

    >>> symbol_columns(["NP"], ["N", "NP"], ["S", "NP", "NP"], 2).tolist()
    [-1, 0, 1]
    """
    numbers = {(name, False): column for column, name in enumerate(labels)}
    numbers |= {(name, True): column for column, name in enumerate(tags)}
    return np.array([numbers.get((name, s >= n_interminals), -1) for s, name in enumerate(symbols)], np.int32)


def _encoder_features(
    arrays: Mapping[str, Shaped[Array, "..."]], metadata: EncoderMetadata | None
) -> EncoderFeatures | None:
    """Return the stored features of an encoder."""
    if (metadata is None) != ("network.projection" not in arrays):
        raise ModelError("network.projection: the array or its metadata is missing")
    if metadata is None:
        return None
    projection, shift = arrays["network.projection"], arrays["network.projection_shift"]
    if not all(0 < size <= LARGEST for size in projection.shape):
        raise ModelError(f"network.projection: sizes must be 1 to {LARGEST}")
    if not 1 <= metadata["layer"] <= LARGEST:
        raise ModelError(f"network.encoder.layer: {metadata['layer']} is not 1 to {LARGEST}")
    if not re.fullmatch(r"[0-9a-f]{64}", metadata["digest"]) or not NAME.fullmatch(metadata["name"]):
        raise ModelError("network.encoder: its name or digest is not one")
    return EncoderFeatures(projection=projection, shift=shift, **metadata)
