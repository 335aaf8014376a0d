"""Layers of the span scorer: the backward pass of each against differences of its output, and what it computes."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np
import pytest

from sapwood.learn.components import _span_scorer_backprop as layers
from sapwood.learn.components._span_scorer_backprop import Backprop, Batch, Param
from sapwood.model.span_scorer import Dims

SENTENCES, STEPS = 3, 4
ROWS = SENTENCES * STEPS


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def param(rng: np.random.Generator, *shape: int) -> Param:
    return Param(floats(rng, *shape), np.zeros(shape, np.float32))


def differences(function: Callable[[], float], values: np.ndarray, step: float = 4e-3) -> np.ndarray:
    """Return the numerical gradient of a function by values that it reads."""
    found = np.zeros(values.shape)
    for place in np.ndindex(values.shape):
        before = values[place]
        values[place] = before + step
        above = function()
        values[place] = before - step
        found[place] = (above - function()) / (2 * step)
        values[place] = before
    return found


def check(layer, x, params, rng, kept=None):
    """Compare the gradients of a layer with differences of a random weighted sum of its output.

    The backward pass of a layer of spans is given the spans `kept`, the only ones with a weight.
    """
    direction = rng.normal(size=layer(x.copy())[0].shape).astype(np.float32)
    if kept is not None:
        direction[np.delete(np.arange(len(direction)), kept)] = 0

    def total() -> float:
        return float((layer(x.copy())[0].astype(float) * direction).sum())

    _, backward = layer(x.copy())
    by_x = backward(direction.copy()) if kept is None else backward(direction[kept], kept)
    expected = differences(total, x)
    if len(by_x) < len(x):
        assert not np.delete(expected, kept, axis=0).any()
        expected = expected[kept]
    np.testing.assert_allclose(by_x, expected, rtol=0.02, atol=0.02)
    for number, one in enumerate(params):
        assert one.gradient.any(), number
        np.testing.assert_allclose(one.gradient, differences(total, one.values), rtol=0.02, atol=0.02)


def test_an_embedding_bag(rng):
    features, embeddings = rng.integers(0, 6, (ROWS, 3)).astype(np.int32), param(rng, 6, 5)
    out, backward = layers.embedding_bag(features, embeddings)
    np.testing.assert_allclose(out, embeddings.values[features].sum(axis=1), rtol=1e-5, atol=1e-6)
    direction = floats(rng, ROWS, 5)
    backward(direction)
    expected = differences(
        lambda: float((layers.embedding_bag(features, embeddings)[0] * direction).sum()), embeddings.values
    )
    np.testing.assert_allclose(embeddings.gradient, expected, rtol=0.01, atol=0.01)


def test_layer_normalisation(rng):
    gain, shift = param(rng, 6), param(rng, 6)
    check(lambda x: layers.layer_norm(x, gain, shift), floats(rng, ROWS, 6), [gain, shift], rng)


def test_dropout(rng):
    mask, x = floats(rng, SENTENCES, 6), floats(rng, ROWS, 6)
    check(lambda x: layers.dropout(x, mask), x, [], rng)
    out, _ = layers.dropout(x, mask)
    assert (out.reshape(STEPS, SENTENCES, 6) == x.reshape(STEPS, SENTENCES, 6) * mask).all()


def test_an_affine_map(rng):
    weights, bias = param(rng, 6, 4), param(rng, 4)
    check(lambda x: layers.linear(x, weights, bias), floats(rng, ROWS, 6), [weights, bias], rng)


@pytest.mark.parametrize("below", [5, 8])
def test_recurrent_units(rng, below):
    size = 8
    gates, bias = param(rng, below, 3 * size), param(rng, 2 * size)
    skip = param(rng, below, size) if below != size else None
    gates.values *= 0.5
    params = [gates, bias] if skip is None else [gates, bias, skip]
    check(lambda x: layers.sru(x, SENTENCES, gates, bias, skip), floats(rng, ROWS, below), params, rng)


def test_a_recurrent_layer(rng):
    size, mask = 8, floats(rng, SENTENCES, 8)
    params = {"gates": param(rng, size, 3 * size), "bias": param(rng, 2 * size)}
    params |= {"gain": param(rng, size), "shift": param(rng, size)}
    params["gates"].values *= 0.5
    check(lambda x: layers.sru_layer(x, mask, **params), floats(rng, ROWS, size), params.values(), rng)


def test_fenceposts(rng):
    x = floats(rng, ROWS, 6)
    check(lambda x: layers.fenceposts(x, SENTENCES), x, [], rng)
    out, _ = layers.fenceposts(x, SENTENCES)
    assert len(out) == ROWS - SENTENCES
    # The second fencepost of the last sentence is between the second and the third step.
    before, after = x[2 * SENTENCES - 1], x[3 * SENTENCES - 1]
    assert out[2 * SENTENCES - 1].tolist() == [*before[:3], *after[3:]]


def spans_of_batch() -> tuple[np.ndarray, np.ndarray]:
    nothing = np.zeros(0, np.int32)
    return Batch(np.zeros((STEPS + 1, SENTENCES, 1), np.int32), nothing, nothing).spans()


def test_spans_are_pairs_of_fenceposts():
    start, end = spans_of_batch()
    assert start.tolist() == [post * SENTENCES + b for b in range(SENTENCES) for post in (0, 0, 1)]
    assert end.tolist() == [post * SENTENCES + b for b in range(SENTENCES) for post in (2, 3, 3)]


@pytest.mark.parametrize("kept", [range(9), [0, 4, 5]])
def test_vectors_of_spans(rng, kept):
    left, right, bias, spans = param(rng, 6, 5), param(rng, 6, 5), param(rng, 5), spans_of_batch()
    posts = floats(rng, ROWS, 6)
    check(lambda x: layers.span_vectors(x, spans, left, right, bias), posts, [left, right, bias], rng, np.array(kept))


@pytest.mark.parametrize("kept", [range(ROWS), [0, 4, 5]])
def test_scores_of_labels(rng, kept):
    gain, shift, weights, bias = param(rng, 6), param(rng, 6), param(rng, 6, 4), param(rng, 4)
    x = floats(rng, 50 * ROWS, 6)
    # Differences are wrong at the kink of ReLU: rows near it are left out.
    away = np.abs(layers.layer_norm(x.copy(), gain, shift)[0]).min(axis=1) > 0.05
    x = x[away][:ROWS]
    check(
        lambda x: layers.span_mlp(x, gain, shift, weights, bias), x, [gain, shift, weights, bias], rng, np.array(kept)
    )


def test_the_loss_of_tags(rng):
    scores, tags = floats(rng, 6, 4), np.array([0, 3, -1, 2, 2, 1], np.int32)
    loss, gradient = layers.tag_loss(scores.copy(), tags)
    log_probability = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    assert loss == pytest.approx(-sum(log_probability[i, tag] for i, tag in enumerate(tags) if tag >= 0), rel=1e-5)
    expected = differences(lambda: layers.tag_loss(scores.copy(), tags)[0], scores)
    np.testing.assert_allclose(gradient, expected, rtol=0.01, atol=2e-3)


def test_the_loss_of_trees(rng):
    # Spans of three words: (0, 2), (0, 3), (1, 3).
    scores, labels = floats(rng, 6, 4), np.array([1, 0, -1, -1, 3, 2], np.int32)
    loss, gradient, kept = layers.tree_loss(scores.copy(), labels, 3, 0.0)
    assert kept.tolist() == list(range(6))
    expected = differences(lambda: layers.tree_loss(scores.copy(), labels, 3, 0.0)[0], scores)
    np.testing.assert_allclose(gradient, expected, rtol=0.01, atol=2e-3)
    # No span but the gold ones is certain enough.
    same, some, kept = layers.tree_loss(scores.copy(), labels, 3, 2.0)
    assert same == loss
    assert kept.tolist() == [0, 1, 4, 5]
    assert (some == gradient[kept]).all()


def test_each_layer_is_freed_after_its_backward_pass(rng, monkeypatch):
    """Backward passes run from the last layer to the first, and the closures of those above are gone by then."""
    alive: list[weakref.ref] = []
    counts = []
    real = layers.sru_layer

    def watched(x, mask, **params):
        out, backward = real(x, mask, **params)

        def counted(gradient):
            counts.append(sum(one() is not None for one in alive))
            return backward(gradient)

        alive.append(weakref.ref(counted))
        return out, counted

    monkeypatch.setattr(layers, "sru_layer", watched)
    dims, n = Dims(4, 4, 3, 4, 2, 2), 3
    batch = Batch(
        rng.integers(0, 5, (n + 2, 1, 2)).astype(np.int32), np.array([1, 0, -1], np.int32), np.zeros(n, np.int32)
    )
    Backprop.random(dims, 5, rng).loss(batch, [np.ones((1, width), np.float32) for width in (4, 8, 8, 8)])
    assert counts == [3, 2, 1]
    assert not any(one() for one in alive)
