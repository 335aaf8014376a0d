"""Charts over binary trees, decoding, scores and weights of trees, against sums over all trees one by one."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import comb, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from low_rank_engine.shapes import BracketCounts, best_topology, bracket_scores, spans_of, topology_of
from low_rank_engine.topologies import TopologyChart, prepare, topology_charts
from low_rank_engine.tree_weights import SignedLogs, agreement, log_weights, perplexity
from sapwood.automata.tensors import ProductTensor, SparseTensor, dense
from sapwood.errors import UsageError
from sapwood.trees.brackets import parse_trees
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree
from treebank_files import treebank

pytestmark = pytest.mark.slow  # a study beside the package
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


def nodes_of(tree, tensor, leaves, above):
    """The span, inside and outside vector of each node, `above` being the root's outside vector."""
    yield limits(tree), omega(tree, tensor, leaves), above
    if not isinstance(tree, int):
        left, right = (omega(child, tensor, leaves) for child in tree)
        yield from nodes_of(tree[0], tensor, leaves, np.einsum("i,ijk,k->j", above, tensor, right))
        yield from nodes_of(tree[1], tensor, leaves, np.einsum("i,ijk,j->k", above, tensor, left))


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
    """Sentence weight and marginals, by loops over spans and splits."""
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
    return total, ((inside * outside).sum(axis=2) / total)[:length] if total else None


def weight_of(chart):
    return chart.sign * np.exp(chart.log_weight)


class TestChart:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("signed", [True, False])
    @pytest.mark.parametrize("length", range(1, 8))
    def test_sums_over_all_trees(self, kind, signed, length):
        rng = np.random.default_rng([length, signed])
        root, transitions = random_automaton(kind, 3, rng, signed=signed)
        leaves = rng.normal(size=(length, 3)) if signed else rng.random((length, 3))
        tensor = dense(transitions)
        total, size, marginals = 0.0, 0.0, np.zeros((length, length + 1))
        inside, outside = np.zeros((2, length + 1, length + 1, 3))
        over = np.zeros((length + 1, length + 1))  # trees that have a node there, counted
        for tree in all_trees(0, length):
            weight = root @ omega(tree, tensor, leaves)
            total, size = total + weight, size + abs(weight)
            for span, below, above in nodes_of(tree, tensor, leaves, root):
                marginals[span] += weight
                inside[span] += below
                outside[span] += above
                over[span] += 1
        chart = TopologyChart(root, transitions, leaves)
        assert weight_of(chart) == pytest.approx(total, abs=1e-12 * size, rel=1e-12)
        np.testing.assert_allclose(chart.marginals, marginals / total, rtol=1e-12, atol=1e-12 * size / abs(total))
        for i in range(length):
            for j in range(i + 1, length + 1):
                # Each tree over the span is seen once in each context, and the other way round.
                contexts = comb_trees(length - (j - i) + 1)
                trees = comb_trees(j - i)
                assert over[i, j] == contexts * trees
                for vectors, expected in (
                    (chart.inside, inside[i, j] / contexts),
                    (chart.outside, outside[i, j] / trees),
                ):
                    values, exponent = vectors.of(i, j)
                    np.testing.assert_allclose(np.ldexp(values, exponent), expected, rtol=1e-10, atol=1e-10)

    @given(
        st.integers(1, 30), st.integers(1, 9), st.sampled_from(KINDS), st.booleans(), st.integers(0, 2**32 - 1)
    )  # fmt: skip
    def test_agrees_with_loops(self, length, n, kind, signed, seed):
        rng = np.random.default_rng(seed)
        root, transitions = random_automaton(kind, n, rng, signed=signed)
        leaves = (rng.normal(size=(length, n)) if signed else rng.random((length, n))) * (rng.random((length, n)) < 0.7)
        total, marginals = slow_chart(root, dense(transitions), leaves)
        chart = TopologyChart(root, transitions, leaves)
        if total == 0:
            assert chart.sign == 0
            return
        # How much cancels: the same sums of absolute values.
        size, _ = slow_chart(abs(root), abs(dense(transitions)), abs(leaves))
        loss = size / abs(total)
        if loss > 1e6:
            return
        assert weight_of(chart) == pytest.approx(total, rel=1e-13 * loss + 1e-12)
        np.testing.assert_allclose(chart.marginals, marginals, rtol=1e-11, atol=1e-12 * loss)

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_state_counts_trees(self, kind):
        """All trees over 400 words weigh the same, and their number has a formula."""
        length = 400
        one = np.ones((1, 1))
        transitions = {
            "dense": np.full((1, 1, 1), 0.37),
            "sparse": SparseTensor.from_dense(np.full((1, 1, 1), 0.37)),
            "product": ProductTensor(0.37 * one, one, one),
        }[kind]
        leaves = np.random.default_rng(0).random((length, 1)) * 1e-3
        chart = TopologyChart(np.array([2.0]), transitions, leaves)
        expected = np.log(2) + (length - 1) * np.log(0.37) + np.log(leaves).sum() + log_catalan(length - 1)
        assert chart.sign == 1
        assert chart.log_weight == pytest.approx(expected, rel=1e-13)
        start, end = np.triu_indices(length, 1, length + 1)
        width = end - start
        share = np.exp(log_catalan(width - 1) + log_catalan(length - width) - log_catalan(length - 1))
        np.testing.assert_allclose(chart.marginals[start, end], share, rtol=1e-10)
        assert not chart.marginals[np.tril_indices(length, 0, length + 1)].any()

    @pytest.mark.parametrize("kind", KINDS)
    def test_long_sentences_of_any_scale(self, kind):
        rng = np.random.default_rng(3)
        length = 400
        root, transitions = random_automaton(kind, 4, rng)
        leaves = rng.normal(size=(length, 4))
        chart = TopologyChart(root, transitions, leaves)
        # Every tree has a node over each word and N - 1 others, however its weight is distributed.
        np.testing.assert_allclose(np.diagonal(chart.marginals, 1), 1, atol=1e-7)
        assert chart.marginals.sum() == pytest.approx(2 * length - 1, rel=1e-7)
        for factor in (1e-5, 1e5):
            scaled = TopologyChart(root * factor, times(transitions, factor), leaves * factor)
            assert scaled.sign == chart.sign != 0
            assert scaled.log_weight == pytest.approx(chart.log_weight + 2 * length * np.log(factor), rel=1e-12)
            np.testing.assert_allclose(scaled.marginals, chart.marginals, rtol=1e-8, atol=1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    def test_words_of_very_different_sizes(self, kind):
        rng = np.random.default_rng(4)
        root, transitions = random_automaton(kind, 3, rng, signed=False)
        leaves = rng.random((60, 3))
        powers = np.where(np.arange(60) % 3 == 0, 900, -700)
        chart = TopologyChart(root, transitions, leaves)
        scaled = TopologyChart(np.ldexp(root, -800), times(transitions, 2.0**-600), np.ldexp(leaves, powers[:, None]))
        shift = np.log(2) * (powers.sum() - 800 - 600 * 59)
        assert scaled.log_weight == pytest.approx(chart.log_weight + shift, rel=1e-13)
        np.testing.assert_allclose(scaled.marginals, chart.marginals, rtol=1e-12)

    def test_factors_of_very_different_sizes(self):
        rng = np.random.default_rng(5)
        root, product = random_automaton("product", 3, rng, signed=False)
        leaves = rng.random((12, 3))
        wild = ProductTensor(
            np.ldexp(product.parent, [700, -600, 0]),
            np.ldexp(product.left, [-900, 500, 400]),
            np.ldexp(product.right, [200, 100, -400]),
        )
        expected, chart = TopologyChart(root, product, leaves), TopologyChart(root, wild, leaves)
        assert chart.log_weight == pytest.approx(expected.log_weight, rel=1e-13)
        np.testing.assert_allclose(chart.marginals, expected.marginals, rtol=1e-12)

    @pytest.mark.parametrize("kind", KINDS)
    def test_negative_weights_of_sentences(self, kind):
        rng = np.random.default_rng(6)
        root, transitions = random_automaton(kind, 3, rng, signed=False)
        leaves = rng.random((6, 3))
        chart, negative = TopologyChart(root, transitions, leaves), TopologyChart(-root, transitions, leaves)
        assert (chart.sign, negative.sign) == (1, -1)
        assert chart.log_weight == negative.log_weight
        np.testing.assert_array_equal(chart.marginals, negative.marginals)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("zero", ["root", "transitions", "word"])
    def test_sentences_without_weight(self, kind, zero):
        rng = np.random.default_rng(7)
        root, transitions = random_automaton(kind, 3, rng)
        leaves = rng.normal(size=(5, 3))
        if zero == "word":
            leaves[2] = 0
        chart = TopologyChart(
            root * (zero != "root"), times(transitions, float(zero != "transitions")), leaves
        )  # fmt: skip
        assert chart.sign == 0
        assert np.isnan(chart.log_weight)
        assert chart.marginals.shape == (5, 6)
        assert not chart.marginals.any()
        assert chart.best() == ((0, 5), (1, 5), (2, 5), (3, 5))

    @pytest.mark.parametrize(
        "transitions",
        [
            ProductTensor(*[np.zeros((2, 0))] * 3),
            SparseTensor.from_entries((2, 2, 2), np.zeros((0, 3), int), np.zeros(0)),
        ],
    )
    def test_transitions_of_nothing(self, transitions):
        root, leaves = np.ones(2), np.ones((3, 2))
        assert TopologyChart(root, transitions, leaves).sign == 0
        assert not TopologyChart(root, transitions, leaves).marginals.any()
        assert weight_of(TopologyChart(root, transitions, leaves[:1])) == pytest.approx(2)

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_word(self, kind):
        root, transitions = random_automaton(kind, 3, np.random.default_rng(8))
        leaves = np.array([[1.0, -2.0, 0.5]])
        chart = TopologyChart(root, transitions, leaves)
        assert weight_of(chart) == pytest.approx(root @ leaves[0], rel=1e-14)
        np.testing.assert_allclose(chart.marginals, [[0, 1]])
        assert chart.best() == ()

    @pytest.mark.parametrize("kind", KINDS)
    def test_many_sentences(self, kind):
        """Those filled together are those filled alone, in order; nothing handed in is changed."""
        rng = np.random.default_rng(9)
        root, transitions = random_automaton(kind, 4, rng, signed=False)
        sentences = [rng.random((length, 4)) for length in (1, 90, 2, 60, 30, 1, 200, 7, 12)]
        copies = [root.copy(), dense(transitions).copy(), *(words.copy() for words in sentences)]
        charts = list(topology_charts(root, prepare(transitions), iter(sentences)))
        assert [chart.length for chart in charts] == [len(words) for words in sentences]
        for chart, words in zip(charts, sentences, strict=True):
            alone = TopologyChart(root, transitions, words)
            assert chart.sign == 1
            assert chart.log_weight == pytest.approx(alone.log_weight, rel=1e-13)
            np.testing.assert_allclose(chart.marginals, alone.marginals, rtol=1e-11)
            again = TopologyChart(root, transitions, words)
            assert alone.log_weight == again.log_weight
            np.testing.assert_array_equal(alone.marginals, again.marginals)
        for before, after in zip(copies, [root, dense(transitions), *sentences], strict=True):
            np.testing.assert_array_equal(before, after)

    @pytest.mark.parametrize("kind", KINDS)
    def test_sentences_are_read_as_they_are_needed(self, kind):
        root, transitions = random_automaton(kind, 2, np.random.default_rng(14), signed=False)
        remaining = iter([np.ones((50, 2))] * 8)
        assert next(topology_charts(root, transitions, remaining)).length == 50
        assert len(list(remaining)) >= 4

    @pytest.mark.parametrize("kind", ["dense", "product"])
    def test_wide_blocks(self, kind, monkeypatch):
        """More cells of one width than fit into a buffer."""
        rng = np.random.default_rng(10)
        root, transitions = random_automaton(kind, 4, rng, signed=False)
        leaves = rng.random((60, 4))
        expected = TopologyChart(root, transitions, leaves)
        monkeypatch.setattr("low_rank_engine.topologies._BUFFER", 1)
        assert prepare(transitions).rows < 59
        chart = TopologyChart(root, transitions, leaves)
        assert chart.log_weight == pytest.approx(expected.log_weight, rel=1e-13)
        np.testing.assert_allclose(chart.marginals, expected.marginals, rtol=1e-11)

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_wrong_input(self):
        root, tensor, leaves = np.ones(2), np.ones((2, 2, 2)), np.ones((3, 2))
        for wrong in (
            (np.ones(3), tensor, leaves),
            (root, np.ones((2, 2)), leaves),
            (root, np.ones((2, 2, 3)), leaves),
            (root, np.full((2, 2, 2), np.nan), leaves),
            (root, ProductTensor(np.ones((2, 1)), np.full((2, 1), np.inf), np.ones((2, 1))), leaves),
            (root, SparseTensor.from_entries((2, 2, 2), [[0, 0, 0]], [np.inf]), leaves),
            (root, tensor, np.ones((3, 3))),
            (root, tensor, np.ones((0, 2))),
            (root, tensor, np.full((3, 2), np.inf)),
        ):
            with pytest.raises(UsageError):
                TopologyChart(*wrong)
        chart = TopologyChart(root, tensor, leaves)
        for span in ((0, 4), (2, 2), (-1, 2)):
            with pytest.raises(UsageError, match="no span"):
                chart.inside.of(*span)


class TestDecoding:
    @given(st.integers(1, 7), st.integers(0, 2**32 - 1))
    def test_best_of_all_trees(self, length, seed):
        marginals = np.random.default_rng(seed).normal(size=(length, length + 1))
        scores = {tuple(inner_spans(tree)): 0.0 for tree in all_trees(0, length)}
        for spans in scores:
            scores[spans] = sum(marginals[span] for span in spans)
        assert best_topology(marginals) == max(scores, key=lambda spans: scores[spans])

    def test_ties(self):
        assert best_topology(np.zeros((4, 5))) == ((0, 4), (1, 4), (2, 4))
        marginals = np.zeros((4, 5))
        marginals[0, 2] = marginals[1, 3] = marginals[2, 4] = 0.5
        # (0, 2) and (2, 4) together are best; without the latter (1, 3) is as good as (0, 2).
        assert best_topology(marginals) == ((0, 4), (0, 2), (2, 4))
        marginals[2, 4] = 0
        assert best_topology(marginals) == ((0, 4), (1, 4), (1, 3))

    def test_long_sentences(self):
        length = 400
        gold = left_branching(length)
        marginals = np.zeros((length, length + 1))
        for span in gold:
            marginals[span] = 0.01
        assert best_topology(marginals) == gold

    @pytest.mark.parametrize("shape", [(3, 3), (0, 1), (3,), (2, 4)])
    def test_wrong_shapes(self, shape):
        with pytest.raises(UsageError, match="shape"):
            best_topology(np.zeros(shape))

    def test_not_finite(self):
        marginals = np.zeros((3, 4))
        marginals[0, 2] = np.nan
        with pytest.raises(UsageError, match="finite"):
            best_topology(marginals)


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
        assert scores == BracketCounts(matched=2, gold=2, found=3, sentences=1, exact=0)
        assert scores.precision == pytest.approx(200 / 3)
        assert scores.recall == 100
        assert scores.f1 == pytest.approx(80)
        total = sum([scores, bracket_scores(found, found), bracket_scores((), ())], BracketCounts())
        assert total == BracketCounts(matched=5, gold=5, found=6, sentences=3, exact=2)

    def test_of_nothing(self):
        assert (BracketCounts().precision, BracketCounts().recall, BracketCounts().f1) == (0, 0, 0)
        assert bracket_scores([(0, 2)], [(0, 2)]) == BracketCounts(sentences=1, exact=1)

    def test_binary_trees_have_one_figure(self):
        gold, found = ((0, 4), (0, 2), (2, 4)), ((0, 4), (0, 3), (0, 2))
        scores = bracket_scores(gold, found)
        assert scores.precision == scores.recall == scores.f1 == 50

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
            chart = TopologyChart(root, transitions, vocabulary[words])
            assert weight_of(chart) == pytest.approx(total, rel=1e-9)

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
        monkeypatch.setattr("low_rank_engine.tree_weights._ROOM", 50)
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


@pytest.mark.parametrize("name", ["ours/train.mrg", "gum/dev.mrg"])
def test_a_whole_treebank(name):
    """Gold trees have topologies, and with a treebank's PCFG decoding does what it promises."""
    trees = list(parse_trees(treebank(name).read_text(encoding="utf-8"), source=name))[:150]
    corpus = Corpus.from_trees(trees, transform=TreeTransform(horizontal=0))
    n, counts = len(corpus.symbols), corpus.rule_counts().astype(float)
    symbol, word, seen = corpus.lexical_counts()
    totals = np.bincount(corpus.rules[:, 0], counts, n) + np.bincount(symbol, seen, n)
    tensor = SparseTensor.from_entries((n, n, n), corpus.rules, counts / totals[corpus.rules[:, 0]])
    leaves = np.zeros((len(corpus.words), n))
    leaves[word, symbol] = seen / totals[symbol]
    root = corpus.root_counts() / corpus.root_counts().sum()
    spans, gold = np.stack([corpus.start, corpus.end], axis=1), []
    for begin, end in pairwise(corpus.offsets):
        words = corpus.word[begin:end]
        gold.append((topology_of(spans[begin:end]), words[words >= 0]))
    weights = log_weights(root, tensor, leaves, gold)
    assert (weights.sign == 1).all()
    charts = topology_charts(root, tensor, (leaves[words] for _, words in gold))
    scores, chance = BracketCounts(), BracketCounts()
    for chart, (topology, _), log in zip(charts, gold, weights.log, strict=True):
        assert chart.log_weight >= log - 1e-9
        found = chart.best()
        assert sum(chart.marginals[span] for span in found) >= sum(chart.marginals[span] for span in topology) - 1e-9
        scores += bracket_scores(topology, found)
        chance += bracket_scores(topology, right_branching(chart.length))
    assert scores.sentences == 150
    assert scores.f1 > 2 * chance.f1


def comb_trees(length):
    """The number of binary trees over so many words."""
    return comb(2 * length - 2, length - 1) // length


def log_catalan(number):
    return np.vectorize(lambda x: lgamma(2 * x + 1) - lgamma(x + 2) - lgamma(x + 1))(number)


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
