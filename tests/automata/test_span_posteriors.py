"""Span posteriors of automata with dense, sparse and factored transitions, against sums over all trees."""

from __future__ import annotations

from functools import cache
from math import lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import kernels
from sapwood.automata.span_posteriors import SpanParser, SpanPosteriors
from sapwood.automata.tensors import ProductTensor, SparseTensor, dense
from sapwood.errors import UsageError

KINDS = ("dense", "sparse", "product")


@cache
def all_trees(start, end):
    """All binary trees over words, as nested pairs of positions."""
    if end - start == 1:
        return (start,)
    return tuple(
        (left, right)
        for split in range(start + 1, end)
        for left in all_trees(start, split)
        for right in all_trees(split, end)
    )


def omega(tree, tensor, leaves):
    if isinstance(tree, int):
        return leaves[tree]
    return np.einsum("ijk,j,k->i", tensor, omega(tree[0], tensor, leaves), omega(tree[1], tensor, leaves))


def limits(tree):
    return (tree, tree + 1) if isinstance(tree, int) else (limits(tree[0])[0], limits(tree[1])[1])


def inner_spans(tree):
    if isinstance(tree, int):
        return []
    return [limits(tree), *inner_spans(tree[0]), *inner_spans(tree[1])]


def random_automaton(kind, n, rng, *, signed=True):
    """A root vector and transitions; a third of the weights of sparse ones are not zero."""
    draw = (lambda *shape: rng.normal(size=shape)) if signed else (lambda *shape: rng.random(shape))
    if kind == "product":
        return draw(n), ProductTensor(draw(n, 3), draw(n, 3), draw(n, 3))
    tensor = draw(n, n, n)
    if kind == "dense":
        return draw(n), tensor
    return draw(n), SparseTensor.from_dense(tensor * (rng.random((n, n, n)) < 1 / 3))


def slow_chart(root, tensor, leaves):
    """Sentence weight and posteriors, by loops over spans and splits."""
    length, n = leaves.shape
    inside, outside = np.zeros((2, length + 1, length + 1, n))
    for i in range(length):
        inside[i, i + 1] = leaves[i]
    spans = [(i, i + width) for width in range(2, length + 1) for i in range(length - width + 1)]
    for i, j in spans:
        for k in range(i + 1, j):
            inside[i, j] += np.einsum("abc,b,c->a", tensor, inside[i, k], inside[k, j])
    outside[0, length] = root
    for i, j in reversed(spans):
        for k in range(i + 1, j):
            outside[i, k] += np.einsum("a,abc,c->b", outside[i, j], tensor, inside[k, j])
            outside[k, j] += np.einsum("a,abc,b->c", outside[i, j], tensor, inside[i, k])
    total = root @ inside[0, length]
    shares = (inside * outside).sum(axis=2) / total if total else np.zeros((length + 1, length + 1))
    return total, np.array([shares[i, j] for i in range(length) for j in range(i + 1, length + 1)])


def weight_of(chart):
    return chart.sign * np.exp(chart.log_weight)


def by_span(found):
    spans = [(i, j) for i in range(found.length) for j in range(i + 1, found.length + 1)]
    return dict(zip(spans, found.posteriors.tolist(), strict=True))


def times(transitions, factor):
    return transitions * factor if isinstance(transitions, np.ndarray) else transitions.scaled(factor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("length", range(1, 8))
def test_sums_over_all_trees(kind, signed, length):
    rng = np.random.default_rng([length, signed])
    root, transitions = random_automaton(kind, 3, rng, signed=signed)
    leaves = rng.normal(size=(length, 3)) if signed else rng.random((length, 3))
    tensor, total, size = dense(transitions), 0.0, 0.0
    shares = dict.fromkeys([(i, j) for i in range(length) for j in range(i + 1, length + 1)], 0.0)
    for tree in all_trees(0, length):
        weight = root @ omega(tree, tensor, leaves)
        total, size = total + weight, size + abs(weight)
        for span in [*inner_spans(tree), *((i, i + 1) for i in range(length))]:
            shares[span] += weight
    found = SpanParser(root, transitions)(leaves)
    assert weight_of(found) == pytest.approx(total, abs=1e-12 * size, rel=1e-12)
    expected = {span: share / total for span, share in shares.items()}
    assert by_span(found) == pytest.approx(expected, rel=1e-11, abs=1e-11 * size / abs(total))


@given(st.integers(1, 30), st.integers(1, 9), st.sampled_from(KINDS), st.booleans(), st.integers(0, 2**32 - 1))
def test_agrees_with_loops(length, n, kind, signed, seed):
    rng = np.random.default_rng(seed)
    root, transitions = random_automaton(kind, n, rng, signed=signed)
    leaves = (rng.normal(size=(length, n)) if signed else rng.random((length, n))) * (rng.random((length, n)) < 0.7)
    total, shares = slow_chart(root, dense(transitions), leaves)
    found = SpanParser(root, transitions)(leaves)
    if total == 0:
        assert found.sign == 0
        assert not found.posteriors.any()
        return
    # How much cancels: the same sums of absolute values.
    size, _ = slow_chart(abs(root), abs(dense(transitions)), abs(leaves))
    loss = size / abs(total)
    if loss > 1e6:
        return
    assert weight_of(found) == pytest.approx(total, rel=1e-13 * loss + 1e-12)
    np.testing.assert_allclose(found.posteriors, shares, rtol=1e-10, atol=1e-11 * loss)


@pytest.mark.parametrize("kind", KINDS)
def test_one_state_counts_trees(kind):
    """All trees over 200 words weigh the same, and their number has a formula: nothing over- or underflows."""
    length, one = 200, np.ones((1, 1))
    transitions = {
        "dense": np.full((1, 1, 1), 0.37),
        "sparse": SparseTensor.from_dense(np.full((1, 1, 1), 0.37)),
        "product": ProductTensor(0.37 * one, one, one),
    }[kind]
    leaves = np.random.default_rng(0).random((length, 1)) * 1e-3
    found = SpanParser(np.array([2.0]), transitions)(leaves)
    expected = np.log(2) + (length - 1) * np.log(0.37) + np.log(leaves).sum() + log_catalan(length - 1)
    assert found.sign == 1
    assert found.log_weight == pytest.approx(expected, rel=1e-13)
    width = np.array([j - i for i in range(length) for j in range(i + 1, length + 1)])
    share = np.exp(log_catalan(width - 1) + log_catalan(length - width) - log_catalan(length - 1))
    np.testing.assert_allclose(found.posteriors, share, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_very_different_sizes(kind):
    rng = np.random.default_rng(4)
    root, transitions = random_automaton(kind, 3, rng, signed=False)
    leaves = rng.random((60, 3))
    powers = np.where(np.arange(60) % 3 == 0, 900, -700)
    found = SpanParser(root, transitions)(leaves)
    scaled = SpanParser(root, times(transitions, 2.0**-100))(np.ldexp(leaves, powers[:, None]))
    shift = np.log(2) * (powers.sum() - 100 * 59)
    assert scaled.log_weight == pytest.approx(found.log_weight + shift, rel=1e-13)
    np.testing.assert_allclose(scaled.posteriors, found.posteriors, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_negative_weights_of_sentences(kind):
    rng = np.random.default_rng(6)
    root, transitions = random_automaton(kind, 3, rng, signed=False)
    leaves = rng.random((6, 3))
    found, negative = (SpanParser(sign * root, transitions)(leaves) for sign in (1, -1))
    assert (found.sign, negative.sign) == (1, -1)
    assert found.log_weight == negative.log_weight
    np.testing.assert_array_equal(found.posteriors, negative.posteriors)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero", ["root", "transitions", "word"])
def test_sentences_without_weight(kind, zero):
    rng = np.random.default_rng(7)
    root, transitions = random_automaton(kind, 3, rng)
    leaves = rng.normal(size=(5, 3))
    if zero == "word":
        leaves[2] = 0
    found = SpanParser(root * (zero != "root"), times(transitions, float(zero != "transitions")))(leaves)
    assert found.sign == 0
    assert not found.posteriors.any()
    assert found.best() == ((0, 5), (1, 5), (2, 5), (3, 5))


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_best_of_all_trees(length, seed):
    found = SpanPosteriors(np.random.default_rng(seed).normal(size=length * (length + 1) // 2), 1, 0.0)
    assert found.length == length
    worth = by_span(found)
    best = max(all_trees(0, length), key=lambda tree: sum(worth[span] for span in inner_spans(tree)))
    assert found.best() == tuple(inner_spans(best))


@pytest.mark.parametrize("kind", KINDS)
def test_time_limits(kind):
    parser = SpanParser(*random_automaton(kind, 3, np.random.default_rng(8)))
    with pytest.raises(TimeoutError):
        parser._kernel(parser._rules, parser.root, np.ones((9, 3)), parser._groups, 0.0, np.empty((45, 1)))


def test_shapes_are_checked_before_kernels_run():
    parser = SpanParser(*random_automaton("product", 3, np.random.default_rng(8)))
    with pytest.raises(ValueError, match="posteriors has the shape"):
        kernels.cp_span_posteriors(
            parser._rules, parser.root, np.ones((9, 3)), parser._groups, np.inf, np.empty((44, 1))
        )


@pytest.mark.usefixtures("unchecked_shapes")
def test_wrong_input():
    root, tensor, leaves = np.ones(2), np.ones((2, 2, 2)), np.ones((3, 2))
    for wrong in (
        (np.ones(3), tensor, leaves),
        (root, np.ones((2, 2)), leaves),
        (root, np.ones((2, 2, 3)), leaves),
        (root, np.full((2, 2, 2), np.nan), leaves),
        (root, ProductTensor(np.ones((2, 1)), np.full((2, 1), np.inf), np.ones((2, 1))), leaves),
        (root, SparseTensor.from_entries((2, 2, 2), [[0, 0, 0]], [np.inf]), leaves),
        (root, tensor, np.ones((3, 3))),
        (root, tensor, np.full((3, 2), np.inf)),
    ):
        with pytest.raises(UsageError):
            SpanParser(*wrong[:2])(wrong[2])


def log_catalan(number):
    return np.vectorize(lambda x: lgamma(2 * x + 1) - lgamma(x + 2) - lgamma(x + 1))(number)
