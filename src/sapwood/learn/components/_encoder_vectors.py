"""Vectors of a pretrained encoder for the words of a treebank: the choice of a layer, projection, and checkpoints.

The layer is the one with which a span scorer, trained on three of four trees, has the lowest loss on the others: layers
differ by points of F1, and the last is rarely the best. The vectors of that layer are reduced to their principal
components, scaled to a mean variance of 1. Each sentence is encoded once, and the projected vectors are kept in the
checkpoint: a run that is interrupted continues after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.encoders.encoder import Encoder
from sapwood.errors import ModelError
from sapwood.model.span_scorer import EncoderFeatures
from sapwood.runtime.checkpoint import Checkpoint, checkpoint_schema, with_remedy
from sapwood.runtime.context import RunContext
from sapwood.storage.arrays import Arrays, read_header
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float32, Int64
from sapwood.trees.corpus import Corpus

# Words whose vectors principal components are fitted to.
_FITTED = 30_000
CHECKPOINT = checkpoint_schema(
    "encoder-vectors",
    Column("projection", "float32", "size features"),
    Column("shift", "float32", "features"),
    Column("vectors", "float32", "words features"),
    metadata={"layer": int, "step": int},
)


class WordVectors:
    """Projected vectors of the words of a corpus.

    Attributes
    ----------
    features
        The encoder's layer and projection.
    vectors
        A row for each word of each distinct sentence.
    first
        Row of the first word of each tree.
    """

    def __init__(
        self, features: EncoderFeatures, vectors: Float32[Array, "rows features"], first: Int64[Array, "trees"]
    ) -> None:
        self.features, self.vectors, self.first = features, vectors, first


@dataclass(frozen=True)
class DistinctSentences:
    """Distinct sentences of some trees of a corpus.

    Attributes
    ----------
    sentences
        The sentences, in order of their first trees.
    first
        Number of words of all sentences before that of each tree; -1 for trees that are not among them.
    """

    sentences: list[list[str]]
    first: Int64[Array, "trees"]

    @classmethod
    def of(cls, corpus: Corpus, trees: Int64[Array, "chosen"]) -> DistinctSentences:
        """Return the sentences of these trees."""
        places: dict[tuple[str, ...], int] = {}
        first = np.full(corpus.n_trees, -1, np.int64)
        n_words = 0
        for tree in trees.tolist():
            words = tuple(corpus.sentence(tree))
            if words not in places:
                places[words] = n_words
                n_words += len(words)
            first[tree] = places[words]
        return cls([list(words) for words in places], first)

    @property
    def n_words(self) -> int:
        """Number of words."""
        return sum(map(len, self.sentences))


def principal_components(
    vectors: Float32[Array, "rows size"], most: int
) -> tuple[Float32[Array, "size features"], Float32[Array, "features"]]:
    """Return an affine map, as matrix and shift, to at most `most` principal components of mean variance 1."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    values, components = np.linalg.eigh(centred.T @ centred / max(len(vectors), 1))
    kept = components[:, ::-1][:, : min(most, len(values))]
    # Signs of eigenvectors are arbitrary: the largest number of each is positive.
    kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(kept.shape[1])])
    variance = np.maximum(values[::-1][: kept.shape[1]], 0).mean()
    kept = kept / np.sqrt(max(float(variance), 1e-12))
    return np.ascontiguousarray(kept, np.float32), (-mean @ kept).astype(np.float32)


def sampled_vectors(
    encoder: Encoder, sentences: Sequence[Sequence[str]], layers: Sequence[int], rng: np.random.Generator, *, int8: bool
) -> list[Float32[Array, "rows size"]]:
    """Return vectors of words of random sentences, for each layer."""
    parts, n_words = [], 0
    for number in rng.permutation(len(sentences)).tolist():
        parts.append(encoder.all_vectors(sentences[number], layers, int8=int8))
        n_words += len(sentences[number])
        if n_words >= _FITTED:
            break
    return [np.concatenate([part[place] for part in parts]) for place in range(len(layers))]


def fit_features(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int],
    size: int,
    seed: int,
    *,
    int8: bool,
) -> list[EncoderFeatures]:
    """Return the features of each of some layers, fitted to the vectors of words of random sentences."""
    rng = np.random.default_rng([seed, 7])
    return [
        EncoderFeatures(encoder.name, encoder.digest, layer, int8, *principal_components(vectors, size), encoder)
        for layer, vectors in zip(layers, sampled_vectors(encoder, sentences, layers, rng, int8=int8), strict=True)
    ]


def stored_layer(checkpoint: str | Path | None) -> int | None:
    """Return the layer that an interrupted run has chosen, None if there is no checkpoint."""
    if checkpoint is None or not Path(checkpoint).exists():
        return None
    with with_remedy():
        return int(read_header(checkpoint)["metadata"].get("layer", 0)) or None


class _State:
    """Features, and the vectors of the first sentences."""

    def __init__(self, features: EncoderFeatures, n_words: int) -> None:
        self.features, self.done = features, 0
        self.vectors = np.zeros((n_words, len(features.shift)), np.float32)


def encode_trees(
    encoder: Encoder,
    features: EncoderFeatures,
    distinct: DistinctSentences,
    key: dict[str, Any],
    context: RunContext,
    checkpoint: str | Path | None = None,
) -> WordVectors:
    """Return the projected vectors of sentences, resumed from a checkpoint with the same key."""

    def restored(arrays: Arrays, metadata: dict[str, Any]) -> _State:
        state = _State(features, distinct.n_words)
        same = metadata["layer"] == features.layer and np.array_equal(arrays["projection"], features.projection)
        n_words = sum(map(len, distinct.sentences[: metadata["step"]]))
        if not same or len(arrays["vectors"]) != n_words or metadata["step"] > len(distinct.sentences):
            raise ModelError("its vectors are not those of the trees")
        state.vectors[:n_words], state.done = arrays["vectors"], metadata["step"]
        return state

    kept = Checkpoint(
        checkpoint,
        key,
        CHECKPOINT,
        data="trees",
        to_arrays=lambda state: (
            {
                "projection": state.features.projection,
                "shift": state.features.shift,
                "vectors": state.vectors[: sum(map(len, distinct.sentences[: state.done]))],
            },
            {"layer": state.features.layer, "step": state.done},
        ),
        from_arrays=restored,
    )
    state = kept.load() or _State(features, distinct.n_words)
    place = sum(map(len, distinct.sentences[: state.done]))
    with kept, context.progress.stage("encoder", total=len(distinct.sentences), unit="sentences") as stage:
        stage.step(state.done)
        for words in distinct.sentences[state.done :]:
            vectors = encoder.vectors(words, features.layer, int8=features.int8)
            state.vectors[place : place + len(words)] = features.project(vectors)
            place += len(words)
            state.done += 1
            kept.keep(state)
            stage.step()
    return WordVectors(features, state.vectors, distinct.first)
