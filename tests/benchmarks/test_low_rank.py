"""Weights of trees, perplexity, agreement and brackets of the low-rank study."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tree_weights import (
    BracketCounts,
    SignedLogs,
    agreement,
    bracket_scores,
    log_weights,
    perplexity,
    spans_of,
    topology_of,
)
from sapwood.automata.span_posteriors import SpanParser
from sapwood.automata.tensors import ProductTensor, SparseTensor, dense
from sapwood.errors import UsageError
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

pytestmark = pytest.mark.slow  # a study next to the package
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


class TestTopologies:
    def test_of_trees(self):
        tree = Tree.parse("(S (NP (D the) (N dog)) (VP (V chases) (NP (NP (D a) (N cat)))))")
        assert topology_of(tree) == spans_of(tree) == ((0, 5), (0, 2), (2, 5), (3, 5))
        assert topology_of([(3, 5), (0, 2), (0, 5), (2, 5)]) == topology_of(tree)
        assert topology_of(Tree("N", word="dogs")) == ()
        flat = Tree.parse("(S (D the) (J old) (N dog) (VP (V barks)))")
        assert spans_of(flat) == ((0, 4),)
        with pytest.raises(UsageError, match="binarise"):
            topology_of(flat)
        assert topology_of(TreeTransform()(Tree("ROOT", [flat]))) == ((0, 4), (1, 4), (2, 4))

    @given(st.integers(1, 7), st.data())
    def test_of_all_trees(self, length, data):
        tree = data.draw(st.sampled_from(all_trees(0, length)))
        spans = inner_spans(tree)
        assert topology_of(data.draw(st.permutations(spans))) == tuple(spans)

    @pytest.mark.parametrize(
        "spans",
        [[(0, 2)] * 2 + [(1, 3)], [(0, 3), (0, 2), (1, 3)], [(1, 3)], [(0, 4), (0, 2)], [(0, 4), (1, 3), (2, 4)]],
    )
    def test_not_of_binary_trees(self, spans):
        with pytest.raises(UsageError, match="binary tree"):
            topology_of(spans)

    def test_deep_trees(self):
        tree = Tree("N", word="x")
        for _ in range(3000):
            tree = Tree("S", [tree, Tree("N", word="x")])
        assert topology_of(tree) == left_branching(3001)


class TestScores:
    def test_counts(self):
        gold = Tree.parse("(S (NP (D the) (J old) (N dog)) (VP (V chases) (NP (N cats))))")
        found = ((0, 5), (0, 3), (1, 3), (3, 5))
        scores = bracket_scores(gold, found)
        assert scores == BracketCounts(matched=2, gold=2, found=3)
        assert scores.f1 == pytest.approx(80)
        total = sum([scores, bracket_scores(found, found), bracket_scores((), ())], BracketCounts())
        assert total == BracketCounts(matched=5, gold=5, found=6)

    def test_of_nothing(self):
        assert BracketCounts().f1 == 0
        assert bracket_scores([(0, 2)], [(0, 2)]) == BracketCounts()

    def test_other_sentences(self):
        with pytest.raises(UsageError, match="same span"):
            bracket_scores([(0, 3), (0, 2)], [(0, 2)])


class TestLogWeights:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("signed", [True, False])
    def test_of_all_trees(self, kind, signed):
        rng = np.random.default_rng([11, signed])
        root, transitions = random_automaton(kind, 3, rng, signed=signed)
        vocabulary = rng.normal(size=(5, 3)) if signed else rng.random((5, 3))
        trees, expected, sentences = [], [], []
        for length in (3, 1, 6, 2, 5):
            words = rng.integers(0, 5, length)
            sentences.append((len(trees), words))
            for tree in all_trees(0, length):
                trees.append((inner_spans(tree), words.tolist()))
                expected.append(root @ omega(tree, dense(transitions), vocabulary[words]))
        found = log_weights(root, transitions, vocabulary, trees)
        np.testing.assert_array_equal(found.sign, np.sign(expected))
        np.testing.assert_allclose(found.sign * np.exp(found.log), expected, rtol=1e-10, atol=1e-12)
        for first, words in sentences:
            count = int(comb_trees(len(words)))
            total = (found.sign * np.exp(found.log))[first : first + count].sum()
            chart = SpanParser(root, transitions)(vocabulary[words])
            assert chart.sign * np.exp(chart.log_weight) == pytest.approx(total, rel=1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_large_trees(self, kind):
        """Weights of trees over 400 words are far beyond the range of doubles; large batches are taken apart."""
        rng = np.random.default_rng(12)
        root, transitions = random_automaton(kind, 3, rng, signed=False)
        vocabulary = rng.random((4, 3))
        words = rng.integers(0, 4, 400)
        trees = [(left_branching(400), words), (right_branching(400), words)]
        found = log_weights(root, transitions, vocabulary, trees)
        for factor in (1e-5, 1e5):
            scaled = log_weights(root * factor, times(transitions, factor), vocabulary * factor, trees)
            np.testing.assert_allclose(scaled.log, found.log + 800 * np.log(factor), rtol=1e-12)
            np.testing.assert_array_equal(scaled.sign, [1, 1])
        # In exact steps: the logarithm of what is divided out at every word.
        vector, log = vocabulary[words[0]], 0.0
        for word in words[1:]:
            vector = np.einsum("ijk,j,k->i", dense(transitions), vector, vocabulary[word])
            log += np.log(vector.sum())
            vector = vector / vector.sum()
        assert found.log[0] == pytest.approx(log + np.log(root @ vector), rel=1e-12)

    def test_batches(self, monkeypatch):
        rng = np.random.default_rng(13)
        root, transitions = random_automaton("dense", 3, rng)
        vocabulary = rng.normal(size=(5, 3))
        trees = [(inner_spans(tree), rng.integers(0, 5, 5)) for tree in all_trees(0, 5)]
        whole = log_weights(root, transitions, vocabulary, trees)
        monkeypatch.setattr("_tree_weights._ROOM", 50)
        parts = log_weights(root, transitions, vocabulary, iter(trees))
        np.testing.assert_allclose(parts.log, whole.log, rtol=1e-12)
        np.testing.assert_array_equal(parts.sign, whole.sign)

    def test_zero_and_none(self):
        root, tensor, vocabulary = np.ones(2), np.zeros((2, 2, 2)), np.eye(2)
        found = log_weights(root, tensor, vocabulary, [([(0, 2)], [0, 1]), ([], [1])])
        np.testing.assert_array_equal(found.sign, [0, 1])
        np.testing.assert_array_equal(found.log, [-np.inf, 0])
        assert len(log_weights(root, tensor, vocabulary, []).log) == 0

    @pytest.mark.parametrize(
        ("tree", "message"),
        [
            (([(0, 2)], [0, 1, 1]), "do not fit"),
            (([(0, 2)], [0, 2]), "numbered"),
            (([(0, 2)], [0, -1]), "numbered"),
            (([], []), "do not fit"),
            (([(0, 2), (1, 3)], [0, 1, 1]), "binary tree"),
        ],
    )
    def test_wrong_trees(self, tree, message):
        with pytest.raises(UsageError, match=message):
            log_weights(np.ones(2), np.ones((2, 2, 2)), np.ones((2, 2)), [tree])


def logs(*values):
    values = np.array(values, float)
    with np.errstate(divide="ignore"):
        return SignedLogs(np.sign(values), np.log(abs(values)))


class TestPerplexity:
    def test_by_its_formula(self):
        f, g = np.array([0.2, 0.1, 0.05, 0.05]), np.array([0.3, 0.01, 0.2, 0.09])
        entropy = (f / f.sum()) @ np.log2(g / g.sum())
        found = perplexity(logs(*f), logs(*g))
        assert found.value == pytest.approx(2**-entropy, rel=1e-14)
        assert found.bits == pytest.approx(-entropy, rel=1e-14)
        assert (found.floored, found.floored_share) == (0, 0)

    def test_scale_does_not_matter(self):
        f, g = logs(0.2, 0.1, 0.05), logs(0.3, 0.01, 0.2)
        tiny = perplexity(SignedLogs(f.sign, f.log - 5000), SignedLogs(g.sign, g.log - 7000))
        assert tiny.value == pytest.approx(perplexity(f, g).value, rel=1e-12)

    @given(st.integers(1, 6), st.integers(0, 2**32 - 1))
    def test_least_for_the_reference(self, count, seed):
        rng = np.random.default_rng(seed)
        f, g = logs(*rng.random(count)), logs(*rng.random(count))
        assert perplexity(f, f).value <= perplexity(f, g).value * (1 + 1e-12)
        assert 1 - 1e-12 <= perplexity(f, f).value <= count * (1 + 1e-12)

    def test_weights_that_are_not_positive(self):
        f, g = np.array([0.5, 0.3, 0.1, 0.1]), np.array([0.4, -0.3, 0.0, 0.1])
        found = perplexity(logs(*f), logs(*g), floor=0.01)
        assert found.floored == 2
        assert found.floored_share == pytest.approx(0.4)
        filled = np.array([0.8, 0.003, 0.001, 0.2])
        assert found.bits == pytest.approx(-(f @ np.log2(filled / filled.sum())), rel=1e-12)
        # A smaller floor costs more, in proportion to the share.
        smaller = perplexity(logs(*f), logs(*g), floor=1e-9)
        assert smaller.bits - perplexity(logs(*f), logs(*g), floor=1e-6).bits == pytest.approx(
            0.4 * np.log2(1e3), rel=1e-4
        )

    def test_trees_the_reference_does_not_know(self):
        """They take from the approximation's share, but have none of their own to lose."""
        found = perplexity(logs(0.5, 0.5, 0.0), logs(0.25, 0.25, 0.5))
        assert found.value == pytest.approx(4)
        assert perplexity(logs(0.5, 0.5, 0.0), logs(0.25, 0.25, -0.5)).value == pytest.approx(2)

    @pytest.mark.parametrize(
        ("reference", "approximation", "floor"),
        [
            (logs(0.5, -0.1), logs(0.5, 0.1), 1e-6),
            (logs(0.0, 0.0), logs(0.5, 0.1), 1e-6),
            (logs(0.5, 0.1), logs(0.0, -0.1), 1e-6),
            (logs(0.5, 0.1), logs(0.5), 1e-6),
            (logs(), logs(), 1e-6),
            (logs(0.5), logs(0.5), 0.0),
            (logs(0.5), logs(0.5), 2.0),
        ],
    )
    def test_wrong_input(self, reference, approximation, floor):
        with pytest.raises(UsageError):
            perplexity(reference, approximation, floor=floor)


def comb_trees(length):
    """The number of binary trees over so many words."""
    return comb(2 * length - 2, length - 1) // length


def times(transitions, factor):
    return transitions * factor if isinstance(transitions, np.ndarray) else transitions.scaled(factor)


def left_branching(length):
    return tuple((0, end) for end in range(length, 1, -1))


def right_branching(length):
    return tuple((start, length) for start in range(length - 1))


class TestAgreement:
    def test_by_hand(self):
        found = agreement(logs(0.5, 0.25, 0.125, 1e-9, 1e-6), logs(0.5, 0.6, 0.0, -1e-9, 1.9e-6))
        assert (found.positive, found.right) == (0.6, 0.4)
        assert found.error == pytest.approx(np.log(0.6 / 0.25))

    def test_all_trees_count_the_same(self):
        """Scaling one tree's weights on both sides changes nothing: no tree decides because it is probable."""
        rng = np.random.default_rng(0)
        f, g = (SignedLogs(np.ones(50), rng.normal(size=50)) for _ in range(2))
        scale = np.where(np.arange(50) == 7, 300.0, 0.0)
        scaled = agreement(SignedLogs(f.sign, f.log + scale), SignedLogs(g.sign, g.log + scale))
        assert scaled == pytest.approx(agreement(f, g))
        assert agreement(f, f) == (1.0, 1.0, 0.0)
        assert agreement(f, SignedLogs(-np.ones(50), f.log)) == (0.0, 0.0, np.inf)

    def test_originals_are_positive(self):
        for weights in (logs(), logs(0.5, 0.0), logs(0.5, -0.1)):
            with pytest.raises(UsageError, match="positive weights"):
                agreement(weights, weights)
