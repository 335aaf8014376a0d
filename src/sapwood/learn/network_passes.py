"""A network's passes forward and back over sentences of one length, with gradients by hand.

All that is no product of matrices is in kernels (`native/learn/network.cpp`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.grammar.network import Sizes
from sapwood.shapes import Array, Float32, Int32

# Spans that are less probable have no say in the gradient.
_NEGLIGIBLE = 1e-4
# What the tags count in the loss.
_TAGS = 0.5


class Batch(NamedTuple):
    """Sentences of one length (B of n words).

    Attributes
    ----------
    looks
        What there is to be seen at each step.
    labels
        For each sentence and span of two words or more, by start and end, the label in the right tree, else -1.
    tags
        The right tags, word by word.
    """

    looks: Int32[Array, "steps sentences looks"]
    labels: Int32[Array, "spans"]
    tags: Int32[Array, "words"]

    def ends(self) -> tuple[Int32[Array, "spans"], Int32[Array, "spans"]]:
        """Return where each span begins and ends, as numbers of gaps between words in all sentences."""
        steps, sentences, _ = self.looks.shape
        start, end = np.triu_indices(steps - 1, 2)
        number = np.arange(sentences)[:, None]
        first, last = ((gap * sentences + number).astype(np.int32).ravel() for gap in (start, end))
        return first, last


class Passes:
    """A network's weights with their gradients, and the passes forward and back.

    Attributes
    ----------
    weights, table
        All weights; they change in place.
    gradient, table_gradient
        Sums of gradients, to which `loss` adds.
    """

    def __init__(
        self, sizes: Sizes, weights: Float32[Array, "weights"], table: Float32[Array, "vectors input"]
    ) -> None:
        self.sizes, self.weights, self.table = sizes, weights, table
        self.gradient, self.table_gradient = np.zeros_like(weights), np.zeros_like(table)
        self._w, self._g = sizes.views(weights), sizes.views(self.gradient)

    @classmethod
    def random(cls, sizes: Sizes, vectors: int, rng: np.random.Generator) -> Passes:
        """Return weights to begin with."""
        weights = np.zeros(sizes.n_weights, np.float32)
        for name, part in sizes.views(weights).items():
            if name.endswith("gain"):
                part[:] = 1
            elif part.ndim == 2:
                bound = math.sqrt((3 if name.endswith("gates") else 1) / len(part))
                part[:] = rng.uniform(-bound, bound, part.shape)
            elif name[0].isdigit() and name.endswith("bias"):
                part[: 2 * sizes.half] = 1  # at first cells keep more than they take
        return cls(sizes, weights, (0.1 * rng.standard_normal((vectors, sizes.input))).astype(np.float32))

    def _normalise(self, values: np.ndarray, name: str, *, cut: bool = False) -> tuple[np.ndarray, np.ndarray]:
        scale, out = np.empty(len(values), np.float32), np.empty_like(values)
        kernels.normalise_forward(values, self._w[f"{name}.gain"], self._w[f"{name}.shift"], cut, scale, out)
        return out, scale

    def _normalise_back(
        self,
        values: np.ndarray,
        name: str,
        out: np.ndarray,
        scale: np.ndarray,
        change: np.ndarray,
        *,
        cut: bool = False,
    ) -> None:
        gain, shift = self._g[f"{name}.gain"], self._g[f"{name}.shift"]
        kernels.normalise_backward(values, self._w[f"{name}.gain"], cut, scale, out, change, gain, shift)

    def loss(
        self, batch: Batch, masks: list[Float32[Array, "sentences size"]], *, negligible: float = _NEGLIGIBLE
    ) -> tuple[float, float]:
        """Return the losses by trees and by tags, and add to the gradients.

        `masks` has what the input and each layer are multiplied by, the same at all steps.
        """
        sizes, w, g = self.sizes, self._w, self._g
        steps, sentences, _ = batch.looks.shape
        n, half, rows, size = steps - 2, sizes.half, steps * sentences, 2 * sizes.half
        cube = (steps, sentences, -1)
        looks = batch.looks.reshape(rows, -1)
        seen = np.empty((rows, sizes.input), np.float32)
        kernels.sum_rows(self.table, looks, seen)
        words, word_scale = self._normalise(seen, "input")
        x = (words.reshape(cube) * masks[0]).reshape(rows, -1)
        tape = []
        for layer in range(sizes.layers):
            below = x
            gates = (below @ w[f"{layer}.gates"]).reshape(cube)
            skip = (below @ w[f"{layer}.skip"] if f"{layer}.skip" in w else below).reshape(cube)
            cell, shown, made = (np.empty((steps, sentences, size), np.float32) for _ in range(3))
            kernels.gates_forward(gates, w[f"{layer}.bias"], skip, cell, shown, made)
            out, scale = self._normalise(made.reshape(rows, size), str(layer))
            x = (out.reshape(cube) * masks[layer + 1]).reshape(rows, size)
            tape.append((below, gates, skip, cell, shown, made.reshape(rows, size), out, scale))
            if layer == 0:
                tagged = x.reshape(cube)[1:-1].reshape(n * sentences, size)
        tag_scores = tagged @ w["tags"] + w["tags.bias"]
        tag_loss = kernels.classes_loss(tag_scores, batch.tags)
        tag_scores *= np.float32(_TAGS)
        last = x.reshape(cube)
        gaps = np.concatenate([last[:-1, :, :half], last[1:, :, half:]], axis=-1).reshape(-1, size)
        change = np.zeros((steps, sentences, size), np.float32)
        tree_loss = 0.0
        if n > 1:
            tree_loss, by_gaps = self._spans(batch, gaps, negligible)
            by_gaps = by_gaps.reshape(n + 1, sentences, size)
            change[:-1, :, :half], change[1:, :, half:] = by_gaps[:, :, :half], by_gaps[:, :, half:]
        for layer in range(sizes.layers - 1, -1, -1):
            below, gates, skip, cell, shown, made2, out, scale = tape[layer]
            if layer == 0:
                g["tags"] += tagged.T @ tag_scores
                g["tags.bias"] += tag_scores.sum(axis=0)
                change[1:-1] += (tag_scores @ w["tags"].T).reshape(n, sentences, size)
            change *= masks[layer + 1]
            self._normalise_back(made2, str(layer), out, scale, change.reshape(rows, size))
            passed = np.empty_like(cell)
            kernels.gates_backward(gates, skip, cell, shown, change, passed)
            by_gates, by_skip = gates.reshape(rows, -1), passed.reshape(rows, size)
            g[f"{layer}.gates"] += below.T @ by_gates
            g[f"{layer}.bias"] += by_gates[:, size:].sum(axis=0)
            by_below = by_gates @ w[f"{layer}.gates"].T
            if f"{layer}.skip" in w:
                g[f"{layer}.skip"] += below.T @ by_skip
                by_below += by_skip @ w[f"{layer}.skip"].T
            else:
                by_below += by_skip
            change = by_below.reshape(cube)
        change *= masks[0]
        by_words = change.reshape(rows, sizes.input)
        self._normalise_back(seen, "input", words, word_scale, by_words)
        kernels.sum_rows_backward(by_words, looks, self.table_gradient)
        return tree_loss, tag_loss

    def _spans(self, batch: Batch, gaps: np.ndarray, negligible: float) -> tuple[float, np.ndarray]:
        """Return the loss by trees, and its gradient by what stands between words."""
        w, g, n = self._w, self._g, len(batch.looks) - 2
        starts, ends = batch.ends()
        left, right = gaps @ w["left"], gaps @ w["right"] + w["ends.bias"]
        spans = np.empty((len(starts), self.sizes.inner), np.float32)
        kernels.join_ends(left, right, starts, ends, spans)
        out, scale = self._normalise(spans, "span", cut=True)
        scores, mass = out @ w["labels"] + w["labels.bias"], np.empty(len(starts), np.float32)
        loss = kernels.trees_loss(scores, batch.labels, n, mass)
        chosen = np.flatnonzero((mass >= negligible) | (batch.labels >= 0))
        spans, out, scale, scores, starts, ends = (a[chosen] for a in (spans, out, scale, scores, starts, ends))
        g["labels"] += out.T @ scores
        g["labels.bias"] += scores.sum(axis=0)
        change = scores @ w["labels"].T
        self._normalise_back(spans, "span", out, scale, change, cut=True)
        by_left, by_right = np.zeros_like(left), np.zeros_like(right)
        kernels.join_ends_backward(change, starts, ends, by_left, by_right)
        g["left"] += gaps.T @ by_left
        g["right"] += gaps.T @ by_right
        g["ends.bias"] += by_right.sum(axis=0)
        return loss, by_left @ w["left"].T + by_right @ w["right"].T
