"""Backpropagation of the span scorer: its layers, each with a backward pass, and the loss composed of them.

As in thinc, a layer is a function that returns its output and a closure, its backward pass. Given the gradient with
respect to the output, the closure adds to the gradients of the layer's weights and returns the gradient with respect to
the input. The vectors of all sentences at all steps (words and the two sentence boundaries) are the rows of one matrix,
step by step.

All loops are in kernels (`native/span_scorer/backward.cpp`, products in `native/core/panels.cpp`), so that results do
not depend on the BLAS of NumPy. They work in place: layer normalisation overwrites its input, and a backward pass
overwrites its argument. A backward pass runs once; the arrays that it needs are freed with the closure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.model.span_scorer import Dims
from sapwood.storage.shapes import Array, Float32, Int32, Int64

# Spans with a lower probability are ignored in the gradient.
_NEGLIGIBLE = 1e-4
# Weight of the tags in the loss.
_TAGS = 0.5

Rows = Float32[Array, "rows size"]
Backward = Callable[[Rows], Rows]


@dataclass(slots=True, eq=False)
class Param:
    """Weights of a layer, and the sum of their gradients."""

    values: Float32[Array, "..."]
    gradient: Float32[Array, "..."]


class Batch(NamedTuple):
    """Sentences of one length.

    Attributes
    ----------
    word_features
        Word features at each step.
    labels
        For each sentence and span of two or more words, by start and end, the label in the gold tree, or -1.
    tags
        Gold tags, word by word.
    vectors
        Projected vectors of a pretrained encoder, if there is one.
    """

    word_features: Int32[Array, "steps sentences features"]
    labels: Int32[Array, "spans"]
    tags: Int32[Array, "words"]
    vectors: Float32[Array, "word_rows encoder"] | None = None

    @property
    def n_words(self) -> int:
        """Number of words of each sentence."""
        return len(self.word_features) - 2

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return self.word_features.shape[1]

    def spans(self) -> tuple[Int32[Array, "spans"], Int32[Array, "spans"]]:
        """Return the fenceposts at the start and at the end of each span, as rows of the output of `fenceposts`."""
        sentence = np.arange(self.n_sentences)[:, None]
        start, end = (
            (fencepost * self.n_sentences + sentence).astype(np.int32).ravel()
            for fencepost in np.triu_indices(self.n_words + 1, 2)
        )
        return start, end


def product(a: Rows, b: Float32[Array, "inner outer"], *, transpose: bool = False) -> Rows:
    """Return `a @ b`, or `a @ b.T`."""
    out = np.empty((len(a), b.shape[not transpose]), np.float32)
    kernels.matrix_product(a, False, b, transpose, out, False, True)
    return out


def add_outer(target: Float32[Array, "inner outer"], a: Rows, b: Rows) -> None:
    """Add `a.T @ b` to `target`."""
    kernels.matrix_product(a, True, b, False, target, True, True)


def embedding_bag(features: Int32[Array, "rows features"], embeddings: Param) -> tuple[Rows, Callable[[Rows], None]]:
    """Sum the embeddings of the features of each word."""
    out = np.empty((len(features), embeddings.values.shape[1]), np.float32)
    kernels.embedding_bag(embeddings.values, features, out)

    def backward(gradient: Rows) -> None:
        kernels.embedding_bag_backward(gradient, features, embeddings.gradient)

    return out, backward


def layer_norm(x: Rows, gain: Param, shift: Param) -> tuple[Rows, Backward]:
    """Standardise each row in place, then scale and shift it."""
    scale, out = np.empty(len(x), np.float32), np.empty_like(x)
    kernels.layer_norm_forward(x, gain.values, shift.values, False, scale, out)

    def backward(gradient: Rows) -> Rows:
        kernels.layer_norm_backward(x, gain.values, False, scale, out, gradient, gain.gradient, shift.gradient)
        return gradient

    return out, backward


def dropout(x: Rows, mask: Float32[Array, "sentences size"]) -> tuple[Rows, Backward]:
    """Multiply each sentence by its dropout mask, the same at all steps."""
    steps = (-1, *mask.shape)

    def backward(gradient: Rows) -> Rows:
        by_step = gradient.reshape(steps)
        by_step *= mask
        return by_step.reshape(gradient.shape)

    return (x.reshape(steps) * mask).reshape(x.shape), backward


def linear(x: Rows, weights: Param, bias: Param) -> tuple[Rows, Backward]:
    """Apply an affine map to each row."""

    def backward(gradient: Rows) -> Rows:
        return _linear_backward(x, gradient, weights, bias)

    return product(x, weights.values) + bias.values, backward


def _linear_backward(x: Rows, gradient: Rows, weights: Param, bias: Param) -> Rows:
    add_outer(weights.gradient, x, gradient)
    bias.gradient += gradient.sum(axis=0)
    return product(gradient, weights.values, transpose=True)


def sru(x: Rows, n_sentences: int, gates: Param, bias: Param, skip: Param | None) -> tuple[Rows, Backward]:
    """Run simple recurrent units (SRU) over the sentences, half of them forward and half of them backward.

    `skip` maps the input to the size of the output; None if they have the same size.
    """
    n_rows, size = len(x), gates.values.shape[1] // 3
    steps = (n_rows // n_sentences, n_sentences)
    gated = product(x, gates.values).reshape(*steps, 3 * size)
    skipped = (x if skip is None else product(x, skip.values)).reshape(*steps, size)
    cell, activation, out = (np.empty((*steps, size), np.float32) for _ in range(3))
    kernels.sru_forward(gated, bias.values, skipped, cell, activation, out)

    def backward(gradient: Rows) -> Rows:
        by_skipped = np.empty_like(cell)
        kernels.sru_backward(gated, skipped, cell, activation, gradient.reshape(cell.shape), by_skipped)
        by_gates, by_skip = gated.reshape(n_rows, -1), by_skipped.reshape(n_rows, size)
        add_outer(gates.gradient, x, by_gates)
        bias.gradient += by_gates[:, size:].sum(axis=0)
        by_x = product(by_gates, gates.values, transpose=True)
        if skip is None:
            by_x += by_skip
        else:
            add_outer(skip.gradient, x, by_skip)
            by_x += product(by_skip, skip.values, transpose=True)
        return by_x

    return out.reshape(n_rows, size), backward


def sru_layer(
    x: Rows,
    mask: Float32[Array, "sentences size"],
    *,
    gates: Param,
    bias: Param,
    gain: Param,
    shift: Param,
    skip: Param | None = None,
) -> tuple[Rows, Backward]:
    """Apply recurrent units, layer normalisation and dropout."""
    hidden, sru_backward = sru(x, len(mask), gates, bias, skip)
    normed, norm_backward = layer_norm(hidden, gain, shift)
    out, dropout_backward = dropout(normed, mask)

    def backward(gradient: Rows) -> Rows:
        return sru_backward(norm_backward(dropout_backward(gradient)))

    return out, backward


def fenceposts(x: Rows, n_sentences: int) -> tuple[Rows, Backward]:
    """Represent each fencepost by the forward half of the step before it and the backward half of the step after it."""
    size = x.shape[1]
    half, shape = size // 2, (len(x) // n_sentences, n_sentences, size)
    step = x.reshape(shape)
    out = np.concatenate([step[:-1, :, :half], step[1:, :, half:]], axis=-1).reshape(-1, size)

    def backward(gradient: Rows) -> Rows:
        by_post, by_x = gradient.reshape(-1, n_sentences, size), np.zeros(shape, np.float32)
        by_x[:-1, :, :half], by_x[1:, :, half:] = by_post[:, :, :half], by_post[:, :, half:]
        return by_x.reshape(-1, size)

    return out, backward


def span_vectors(
    posts: Rows,
    spans: tuple[Int32[Array, "spans"], Int32[Array, "spans"]],
    left: Param,
    right: Param,
    bias: Param,
) -> tuple[Rows, Callable[[Rows, Int64[Array, "rows"]], Rows]]:
    """Represent each span by the sum of linear maps of its left and its right fencepost.

    The backward pass takes the gradient for some spans, and their numbers; it is zero for all others.
    """
    start, end = spans
    out = np.empty((len(start), left.values.shape[1]), np.float32)
    kernels.span_sum(product(posts, left.values), product(posts, right.values) + bias.values, start, end, out)

    def backward(gradient: Rows, kept: Int64[Array, "rows"]) -> Rows:
        by_left, by_right = (np.zeros((len(posts), gradient.shape[1]), np.float32) for _ in range(2))
        kernels.span_sum_backward(gradient, start[kept], end[kept], by_left, by_right)
        add_outer(left.gradient, posts, by_left)
        add_outer(right.gradient, posts, by_right)
        bias.gradient += by_right.sum(axis=0)
        return product(by_left, left.values, transpose=True) + product(by_right, right.values, transpose=True)

    return out, backward


def span_mlp(
    x: Rows, gain: Param, shift: Param, weights: Param, bias: Param
) -> tuple[Rows, Callable[[Rows, Int64[Array, "rows"]], Rows]]:
    """Score labels over spans: layer normalisation (in place), ReLU, and an affine map.

    The backward pass takes the gradient for some spans, and their numbers, and returns that for the same spans; it is
    zero for all others.
    """
    scale, hidden = np.empty(len(x), np.float32), np.empty_like(x)
    kernels.layer_norm_forward(x, gain.values, shift.values, True, scale, hidden)

    def backward(gradient: Rows, kept: Int64[Array, "rows"]) -> Rows:
        nonlocal x, hidden  # the largest arrays: frees the rows of all other spans
        x, hidden = x[kept], hidden[kept]
        by_x = _linear_backward(hidden, gradient, weights, bias)
        kernels.layer_norm_backward(x, gain.values, True, scale[kept], hidden, by_x, gain.gradient, shift.gradient)
        return by_x

    return product(hidden, weights.values) + bias.values, backward


def tag_loss(scores: Rows, tags: Int32[Array, "rows"]) -> tuple[float, Rows]:
    """Return the negative log-probability of the gold tags, and its gradient, which overwrites the scores."""
    return kernels.cross_entropy(scores, tags), scores


def tree_loss(
    scores: Rows, labels: Int32[Array, "rows"], n_words: int, negligible: float
) -> tuple[float, Rows, Int64[Array, "kept"]]:
    """Return the negative log-probability of the gold trees, its gradient for some spans, and their numbers.

    These spans are gold or have a probability of at least `negligible`. The scores are overwritten.
    """
    probability = np.empty(len(scores), np.float32)
    loss = kernels.tree_crf_loss(scores, labels, n_words, probability)
    kept = np.flatnonzero((probability >= negligible) | (labels >= 0))
    return loss, scores[kept], kept


class Backprop:
    """Weights of a span scorer with their gradients, and the loss.

    Attributes
    ----------
    weights, embeddings
        All weights, updated in place.
    gradient, embeddings_gradient
        Sums of gradients, to which `loss` adds.
    """

    def __init__(
        self, dims: Dims, weights: Float32[Array, "weights"], embeddings: Float32[Array, "vectors input"]
    ) -> None:
        self.dims, self.weights, self.embeddings = dims, weights, embeddings
        self.gradient, self.embeddings_gradient = np.zeros_like(weights), np.zeros_like(embeddings)
        gradient = dims.views(self.gradient)
        self._params = {name: Param(values, gradient[name]) for name, values in dims.views(weights).items()}
        self._embeddings = Param(embeddings, self.embeddings_gradient)
        self._layers: list[dict[str, Param]] = [{} for _ in range(dims.layers)]
        for name, param in self._params.items():
            layer, _, part = name.partition(".")
            if layer.isdigit():
                self._layers[int(layer)][part] = param

    @classmethod
    def random(cls, dims: Dims, vectors: int, rng: np.random.Generator) -> Backprop:
        """Return initial weights."""
        weights = np.zeros(dims.n_weights, np.float32)
        for name, part in dims.views(weights).items():
            if name.endswith("gain"):
                part[:] = 1
            elif part.ndim == 2:
                bound = math.sqrt((3 if name.endswith("gates") else 1) / len(part))
                part[:] = rng.uniform(-bound, bound, part.shape)
            elif name[0].isdigit() and name.endswith("bias"):
                part[: 2 * dims.hidden] = 1  # at first cells keep more than they take
        return cls(dims, weights, (0.1 * rng.standard_normal((vectors, dims.embedding))).astype(np.float32))

    def loss(
        self, batch: Batch, masks: list[Float32[Array, "sentences size"]], *, negligible: float = _NEGLIGIBLE
    ) -> tuple[float, float]:
        """Return the losses of trees and of tags, and add to the gradients.

        `masks` are the dropout masks of the word embeddings and of each layer, the same at all steps.
        """
        x, words_backward = self._words(batch, masks[0])
        backward: list[Backward] = []
        for layer, mask in zip(self._layers, masks[1:], strict=True):
            x, layer_backward = sru_layer(x, mask, **layer)
            backward.append(layer_backward)
            if len(backward) == 1:
                loss_of_tags, tags_backward = self._tags(x, batch)
        loss_of_trees, gradient = self._trees(x, batch, negligible)
        del x, layer_backward  # each layer is freed after its backward pass
        while backward:
            if len(backward) == 1:
                gradient = tags_backward(gradient)
            gradient = backward.pop()(gradient)
        words_backward(gradient)
        return loss_of_trees, loss_of_tags

    def _words(self, batch: Batch, mask: Float32[Array, "sentences size"]) -> tuple[Rows, Callable[[Rows], None]]:
        """Return the input of the first layer, and its backward pass."""
        features = batch.word_features.reshape(-1, batch.word_features.shape[-1])
        bags, bag_backward = embedding_bag(features, self._embeddings)
        words, encoder = slice(batch.n_sentences, -batch.n_sentences), self._params.get("encoder")
        if encoder is not None:
            assert batch.vectors is not None
            bags[words] += product(batch.vectors, encoder.values)
        normed, norm_backward = layer_norm(bags, self._params["input.gain"], self._params["input.shift"])
        out, dropout_backward = dropout(normed, mask)

        def backward(gradient: Rows) -> None:
            by_bags = norm_backward(dropout_backward(gradient))
            if encoder is not None:
                assert batch.vectors is not None
                add_outer(encoder.gradient, batch.vectors, by_bags[words])
            bag_backward(by_bags)

        return out, backward

    def _tags(self, x: Rows, batch: Batch) -> tuple[float, Backward]:
        """Return the loss of the tags predicted from a layer; the backward pass adds to the gradient of its output."""
        words = slice(batch.n_sentences, -batch.n_sentences)
        scores, scores_backward = linear(x[words], self._params["tags"], self._params["tags.bias"])
        loss, by_scores = tag_loss(scores, batch.tags)
        by_scores *= np.float32(_TAGS)

        def backward(gradient: Rows) -> Rows:
            gradient[words] += scores_backward(by_scores)
            return gradient

        return loss, backward

    def _trees(self, x: Rows, batch: Batch, negligible: float) -> tuple[float, Rows]:
        """Return the loss of the trees predicted from the last layer, and the gradient with respect to its output."""
        if batch.n_words < 2:
            return 0.0, np.zeros_like(x)
        params = self._params
        posts, posts_backward = fenceposts(x, batch.n_sentences)
        vectors, vectors_backward = span_vectors(
            posts, batch.spans(), params["left"], params["right"], params["ends.bias"]
        )
        scores, scores_backward = span_mlp(
            vectors, params["span.gain"], params["span.shift"], params["labels"], params["labels.bias"]
        )
        loss, gradient, kept = tree_loss(scores, batch.labels, batch.n_words, negligible)
        del vectors, scores  # the backward pass needs only the rows of the kept spans
        return loss, posts_backward(vectors_backward(scores_backward(gradient, kept), kept))
