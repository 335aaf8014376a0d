"""Passes over observed trees against the reference, the sum rules of expected counts, and EM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples, slow
from helpers.elsewhere import Elsewhere
from helpers.made_up import Writer
from helpers.treebank_files import treebank
from oracles.reference import number_tree, tree_inside_outside, tree_probability
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import (
    Expectations,
    NodeVectors,
    TreeEStep,
    held_out_trees,
    lexical_table,
)
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.runtime.executor import Threads
from sapwood.testing.grammars import random_bases, random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


def corpus_of(grammar: TensorGrammar, trees: list[Tree]) -> Corpus:
    """Return a corpus with the grammar's own numbers, rules that do not occur among them."""
    words = sorted({word for tree in trees for word in tree.words()})
    columns: dict[str, list[int]] = {name: [] for name in ("symbol", "rule", "left", "right", "word", "parent")}
    offsets = [0]
    for tree in trees:
        numbered, nodes, first = number_tree(grammar, tree), list(tree.nodes()), offsets[-1]
        parent = [-1] * len(nodes)
        for node, (left, right) in enumerate(zip(numbered.left, numbered.right, strict=True)):
            if left >= 0:
                parent[left] = parent[right] = node
        columns["symbol"] += numbered.symbol
        columns["rule"] += numbered.rule
        for name, links in (("left", numbered.left), ("right", numbered.right), ("parent", parent)):
            columns[name] += [-1 if node < 0 else first + node for node in links]
        columns["word"] += [-1 if node.word is None else words.index(node.word) for node in nodes]
        offsets.append(first + len(nodes))
    arrays = {name: np.array(values, np.int32) for name, values in columns.items()}
    unused = np.zeros(offsets[-1], np.int32)
    return Corpus(
        symbols=grammar.symbols,
        n_interminals=grammar.n_interminals,
        rules=grammar.rules,
        words=words,
        start=unused,
        end=unused,
        offsets=np.array(offsets, np.int64),
        **arrays,
    )


def make(seed: int, trees: int = 8, states: tuple[int, int] = (1, 5)) -> tuple[TensorGrammar, Corpus]:
    """Return a random grammar and trees drawn from it."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(
        rng, interminals=int(rng.integers(1, 4)), preterminals=int(rng.integers(1, 4)), states=states
    )
    return grammar, corpus_of(grammar, grammar.sample(trees, random_state=rng, max_words=25))


def by_reference(grammar: TensorGrammar, corpus: Corpus, observed: TreeEStep) -> Expectations:
    """Return what the reference says, tree by tree and node by node."""
    offsets = observed.lexical_offsets(grammar)
    pairs = {key: pair for pair, key in enumerate(zip(observed.pair_symbol, observed.pair_word, strict=True))}
    tensors, lexical = np.zeros(len(grammar.tensors)), np.zeros(offsets[-1])
    root, occupancy = np.zeros(len(grammar.root)), np.zeros(len(grammar.root))
    log_likelihoods = []
    for index in range(corpus.n_trees):
        exact = tree_inside_outside(grammar, corpus.tree(index))
        log_likelihoods.append(np.log(exact.probability))
        for node, (symbol, rule) in enumerate(zip(exact.tree.symbol, exact.tree.rule, strict=True)):
            states = slice(grammar.state_offsets[symbol], grammar.state_offsets[symbol + 1])
            posterior = exact.state_posteriors(node)
            occupancy[states] += posterior
            if node == 0:
                root[states] += posterior
            if rule >= 0:
                part = slice(grammar.tensor_offsets[rule], grammar.tensor_offsets[rule + 1])
                tensors[part] += exact.rule_posteriors(node).ravel()
            else:
                pair = pairs[symbol, corpus.word[corpus.offsets[index] + node]]
                lexical[offsets[pair] : offsets[pair + 1]] += posterior
    return Expectations(tensors, lexical, offsets, root, occupancy, np.array(log_likelihoods))


def assert_close(found: Expectations, wanted: Expectations, rtol: float, atol: float) -> None:
    for name in ("tensors", "lexical", "lexical_offsets", "root", "occupancy", "log_likelihoods"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=rtol, atol=atol, err_msg=name)


def assert_same_bits(one: Expectations, other: Expectations) -> None:
    for name in ("tensors", "lexical", "root", "occupancy", "log_likelihoods"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


seeds = st.integers(0, 2**32 - 1)


@examples(60)
@given(seeds, st.integers(1, 5))
def test_expectations_equal_the_reference(seed, shards):
    grammar, corpus = make(seed)
    observed = TreeEStep(corpus, shards=shards)
    found = observed.expectations(grammar, dtype=np.float64)
    assert_close(found, by_reference(grammar, corpus, observed), rtol=1e-10, atol=1e-13)
    inside = observed.inside(grammar, dtype=np.float64)
    np.testing.assert_array_equal(inside.log_likelihoods, found.log_likelihoods)
    assert inside.log_likelihood == found.log_likelihood == found.log_likelihoods.sum()


@examples(40)
@given(seeds)
def test_single_precision_is_close(seed):
    grammar, corpus = make(seed)
    observed = TreeEStep(corpus)
    found = observed.expectations(grammar)
    assert_close(found, observed.expectations(grammar, dtype=np.float64), rtol=1e-4, atol=1e-5)
    # Posteriors are divided by their own sum: they add up to one beyond the precision of the vectors.
    assert found.root.sum() == pytest.approx(corpus.n_trees, rel=1e-12)


@examples(40)
@given(seeds)
def test_a_change_of_basis_changes_no_likelihood(seed):
    grammar, corpus = make(seed)
    other = grammar.conjugate(random_bases(np.random.default_rng(seed), grammar))
    observed = TreeEStep(corpus)
    ours = observed.inside(grammar, dtype=np.float64).log_likelihoods
    np.testing.assert_allclose(observed.inside(other, dtype=np.float64).log_likelihoods, ours, rtol=1e-8)
    # Rule by rule, the sums of posteriors (traces, so to speak) are the same in every basis.
    turned = observed.expectations(other, dtype=np.float64)
    np.testing.assert_allclose(rule_sums(other, turned), corpus.rule_counts(), rtol=1e-6, atol=1e-12)


def rule_sums(grammar: TensorGrammar, found: Expectations) -> list[float]:
    offsets = grammar.tensor_offsets
    return [found.tensors[offsets[rule] : offsets[rule + 1]].sum() for rule in range(len(grammar.rules))]


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-11), (np.float32, 1e-5)])
def test_expected_counts_sum_to_counts(dtype, close):
    grammar, corpus = make(3, trees=200)
    observed = TreeEStep(corpus, shards=7)
    found = observed.expectations(grammar, dtype=dtype)
    np.testing.assert_allclose(rule_sums(grammar, found), corpus.rule_counts(), rtol=close)
    _, _, pair_counts = corpus.lexical_counts()
    pair_sums = np.add.reduceat(found.lexical, found.lexical_offsets[:-1])
    np.testing.assert_allclose(pair_sums, pair_counts, rtol=close)
    starts = grammar.state_offsets[:-1]
    np.testing.assert_allclose(np.add.reduceat(found.occupancy, starts), corpus.symbol_counts(), rtol=close)
    np.testing.assert_allclose(np.add.reduceat(found.root, starts), corpus.root_counts(), rtol=close)
    # A state is as often expected at a node as its expansions are.
    expanded = np.zeros_like(found.occupancy)
    for rule, (a, _, _) in enumerate(grammar.rules):
        tensor = found.tensors[grammar.tensor_offsets[rule] : grammar.tensor_offsets[rule + 1]]
        expanded[starts[a] : starts[a] + grammar.states[a]] += tensor.reshape(grammar.states[a], -1).sum(axis=1)
    inner = slice(0, grammar.state_offsets[grammar.n_interminals])
    np.testing.assert_allclose(found.occupancy[inner], expanded[inner], rtol=10 * close, atol=close)


def test_one_state_gives_the_counts():
    writer = Writer(4)
    corpus = Corpus.from_trees(writer.sentence() for _ in range(100))
    grammar = PCFG().fit(corpus)
    observed = TreeEStep(corpus, shards=3)
    found = observed.expectations(grammar, dtype=np.float64)
    np.testing.assert_allclose(found.tensors, corpus.rule_counts(), rtol=1e-13)
    np.testing.assert_array_equal(found.lexical, corpus.lexical_counts()[2])
    np.testing.assert_array_equal(found.occupancy, corpus.symbol_counts())
    np.testing.assert_array_equal(found.root, corpus.root_counts())
    for index in range(10):
        probability = tree_probability(grammar, corpus.tree(index))
        assert found.log_likelihoods[index] == pytest.approx(np.log(probability), rel=1e-12)


def test_trees_of_one_word():
    grammar = TensorGrammar.from_parts(root={"N": [0.5, 0.5]}, rules={}, words={("N", "x"): [1, 0], ("N", "y"): [0, 1]})
    corpus = corpus_of(grammar, [Tree("N", word="x"), Tree("N", word="y"), Tree("N", word="x")])
    found = TreeEStep(corpus).expectations(grammar)
    assert found.root.tolist() == found.occupancy.tolist() == [2.0, 1.0]
    assert found.lexical.tolist() == [2.0, 0.0, 0.0, 1.0]
    assert found.log_likelihoods == pytest.approx(np.log([0.5] * 3))
    assert found.tensors.shape == (0,)


def maximise(grammar: TensorGrammar, found: Expectations, observed: TreeEStep) -> tuple[TensorGrammar, np.ndarray]:
    """Return the grammar and the lexical table with the greatest likelihood of the expected counts."""
    above = np.repeat(grammar.rules[:, 0], np.diff(grammar.tensor_offsets))
    within = np.arange(len(grammar.tensors)) - np.repeat(grammar.tensor_offsets[:-1], np.diff(grammar.tensor_offsets))
    below = np.repeat(grammar.states[grammar.rules[:, 1:]].prod(axis=1), np.diff(grammar.tensor_offsets))
    occupancy = np.maximum(found.occupancy, 1e-300)
    tensors = found.tensors / occupancy[grammar.state_offsets[above] + within // below]
    states = grammar.states[observed.pair_symbol]
    within = np.arange(len(found.lexical)) - np.repeat(found.lexical_offsets[:-1], states)
    table = found.lexical / occupancy[np.repeat(grammar.state_offsets[observed.pair_symbol], states) + within]
    return replace(grammar, tensors=tensors, root=found.root / found.root.sum()), table


@pytest.mark.parametrize("seed", range(5))
def test_em_does_not_decrease_the_likelihood(seed):
    grammar, corpus = make(seed, trees=60, states=(2, 5))
    rng = np.random.default_rng(seed + 100)
    observed = TreeEStep(corpus, shards=2)
    table = lexical_table(grammar, corpus)
    # Away from the weights that the trees were drawn with, and not normalised.
    grammar = replace(grammar, tensors=grammar.tensors * rng.uniform(0.05, 1, len(grammar.tensors)))
    likelihoods = []
    for _ in range(5):
        found = observed.expectations(grammar, lexical=table, dtype=np.float64)
        likelihoods.append(found.log_likelihood)
        grammar, table = maximise(grammar, found, observed)
    assert np.all(np.diff(likelihoods) >= -1e-9 * abs(likelihoods[0]))
    assert likelihoods[-1] > likelihoods[0] + 1
    # The first step normalises; the others gain too.
    assert likelihoods[-1] > likelihoods[1]


def test_workers_do_not_change_a_bit():
    grammar, corpus = make(8, trees=150, states=(2, 5))
    observed = TreeEStep(corpus, shards=9)
    assert observed.n_shards == 9
    one = observed.expectations(grammar)
    for workers in (Threads(2), Threads(3), Elsewhere(1), Elsewhere(2), Elsewhere(5), Elsewhere(3, shares_memory=True)):
        others = TreeEStep(corpus, shards=9, workers=workers)
        assert_same_bits(others.expectations(grammar), one)
        inside = others.inside(grammar)
        assert inside.log_likelihoods.tobytes() == one.log_likelihoods.tobytes()
    assert workers.calls > 9


@pytest.mark.parametrize("block", [1, 2, 4, 9, 64])
@pytest.mark.parametrize("part", [1, 40, 1 << 17])
def test_sums_of_many_shards_are_sums_of_sums(monkeypatch, block, part):
    monkeypatch.setattr("sapwood.inference.estep._backends.SUM_BLOCK", block)
    monkeypatch.setattr("sapwood.inference.estep._backends._PART", part)
    grammar, corpus = make(8, trees=150, states=(2, 5))
    one = TreeEStep(corpus, shards=9).expectations(grammar)
    for workers in (Threads(3), Elsewhere(1), Elsewhere(3), Elsewhere(3, shares_memory=True)):
        assert_same_bits(TreeEStep(corpus, shards=9, workers=workers).expectations(grammar), one)
    assert_close(one, TreeEStep(corpus, shards=1).expectations(grammar, dtype=np.float64), rtol=1e-4, atol=1e-5)


def test_steps_are_taken_in_the_order_of_shards():
    grammar, corpus = make(9, trees=40)
    found = [
        TreeEStep(corpus, shards=4, workers=workers).fold(noted, "", grammar)
        for workers in (Threads(1), Threads(3), Elsewhere(2))
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0].split()) == 4


def noted(total: str, symbol: np.ndarray, vectors: NodeVectors) -> str:
    assert len(symbol) == len(vectors.nodes)
    return f"{total} {vectors.inside.sum()}/{vectors.outside.sum()}"


def test_the_number_of_shards_follows_from_the_corpus(monkeypatch):
    grammar, corpus = make(10, trees=60)
    assert TreeEStep(corpus).n_shards == 1
    monkeypatch.setattr("sapwood.inference.estep.base._SHARD_NODES", corpus.n_nodes // 5)
    observed = TreeEStep(corpus)
    assert 3 <= observed.n_shards <= 6
    whole = TreeEStep(corpus, shards=1).expectations(grammar, dtype=np.float64)
    assert_close(observed.expectations(grammar, dtype=np.float64), whole, rtol=1e-11, atol=1e-13)
    # More shards than trees: as many as there are trees, none empty, none lost.
    assert TreeEStep(corpus, shards=10_000).n_shards == corpus.n_trees


def test_inside_and_outside_vectors():
    grammar, corpus = make(11, trees=20)
    observed = TreeEStep(corpus, shards=3)
    kept = observed.inside(grammar, dtype=np.float64, keep=True)
    both = list(observed.inside_outside(grammar, dtype=np.float64))
    assert len(kept.vectors) == len(both) == 3
    assert observed.inside(grammar).vectors == ()
    exact = [tree_inside_outside(grammar, corpus.tree(index)) for index in range(corpus.n_trees)]
    seen = set()
    for up, vectors in zip(kept.vectors, both, strict=True):
        np.testing.assert_array_equal(up.inside, vectors.inside)
        for place, node in enumerate(vectors.nodes):
            seen.add(int(node))
            tree = int(np.searchsorted(corpus.offsets, node, side="right")) - 1
            local = node - corpus.offsets[tree]
            part = slice(vectors.offsets[place], vectors.offsets[place + 1])
            inside, outside = vectors.inside[part], vectors.outside[part]
            wanted = exact[tree].inside[local]
            np.testing.assert_allclose(inside * 2.0 ** vectors.exponent[place], wanted, rtol=1e-10)
            assert 0.5 <= inside.max() < 1
            posterior = inside * outside / (inside @ outside)
            np.testing.assert_allclose(posterior, exact[tree].state_posteriors(local), rtol=1e-10, atol=1e-14)
    assert seen == set(range(corpus.n_nodes))


def test_impossible_trees():
    grammar = TensorGrammar.from_parts(
        root={"S": [1.0, 0.0]},
        rules={("S", "N", "N"): np.array([[[0.7]], [[0.7]]]), ("S", "N", "S"): np.array([[[0.3, 0.0]], [[0.3, 0.0]]])},
        words={("N", "x"): 0.4, ("N", "y"): 0.6},
    )
    good, bad = Tree.parse("(S (N x) (N x))"), Tree.parse("(S (N x) (S (N y) (N x)))")
    corpus = corpus_of(grammar, [good, bad, good])
    observed = TreeEStep(corpus)
    table = lexical_table(grammar, corpus)
    table[observed.pair_word == corpus.words.index("y")] = 0
    found = observed.expectations(grammar, lexical=table)
    assert found.log_likelihoods[1] == -np.inf
    assert found.log_likelihood == -np.inf
    assert np.isfinite(found.log_likelihoods[[0, 2]]).all()
    assert rule_sums(grammar, found) == pytest.approx([0, 2], abs=1e-6)
    assert found.occupancy == pytest.approx([2, 0, 4])
    assert found.root == pytest.approx([2, 0, 0])
    # A negative weight is not a probability.
    negative = replace(grammar, root=-grammar.root, probabilistic=False)
    assert np.isnan(observed.inside(negative).log_likelihoods).all()


def test_trees_that_were_held_out():
    """A mean over the words of the trees that have a probability; those that cannot be built are left out."""
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "N", "N"): 0.6, ("S", "N", "S"): 0.4},
        words={("N", "x"): 0.25, ("N", "y"): 0.75, ("V", "x"): 1.0},
    )
    texts = ["(S (N x) (N y))", "(S (N y) (S (N x) (N x)))", "(S (V x) (N x))"]
    corpus = Corpus.from_trees([Tree.parse(text) for text in texts])
    expected = np.log([0.6 * 0.25 * 0.75, 0.4 * 0.75 * 0.6 * 0.25**2]).sum() / 5
    found = held_out_trees(grammar, corpus)
    assert (found.log_likelihood, found.built, found.negative) == (pytest.approx(expected, rel=1e-6), 2, 0)
    negative = held_out_trees(replace(grammar, root=-grammar.root, probabilistic=False), corpus)
    assert (negative.log_likelihood, negative.built, negative.negative) == (0, 2, 2)


@pytest.mark.parametrize("direction", ["right", "left"])
def test_long_trees_do_not_underflow(direction):
    rng = np.random.default_rng(1)
    grammar = random_grammar(rng, interminals=1, preterminals=1, words=4, states=(3, 3), density=1.0)
    tree = Tree("P0", word="w0")
    for number in range(499):
        leaf = Tree("P0", word=f"w{number % 4}")
        tree = Tree("A0", (leaf, tree) if direction == "right" else (tree, leaf))
    observed = TreeEStep(corpus_of(grammar, [tree] * 3))
    single, double = (observed.expectations(grammar, dtype=dtype) for dtype in (np.float32, np.float64))
    assert -1e5 < double.log_likelihood < -500
    assert single.log_likelihoods == pytest.approx(double.log_likelihoods, rel=1e-4)
    assert_close(single, double, rtol=1e-3, atol=1e-2)
    assert double.occupancy.sum() == pytest.approx(3 * 999)


def test_tiny_weights_in_single_precision():
    """Weights far below the smallest float32, and states that only the outside favours."""
    grammar = TensorGrammar.from_parts(
        root={"S": [1e-60, 0.0]},
        rules={("S", "N", "N"): np.array([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])},
        words={("N", "x"): [1.0, 1e-25]},
        probabilistic=False,
    )
    observed = TreeEStep(corpus_of(grammar, [Tree.parse("(S (N x) (N x))")]))
    # The second state of N is 1e-25 of the first, but the root leaves no other: p = 1e-60 (1e-25)^2.
    double = observed.expectations(grammar, dtype=np.float64)
    assert double.log_likelihoods == pytest.approx([-110 * np.log(10)])
    assert double.occupancy == pytest.approx([1, 0, 0, 2])
    # In float32 that is out of reach: the tree is called impossible and counts nowhere, and nothing overflows.
    lost = observed.expectations(grammar)
    assert lost.log_likelihoods == -np.inf
    assert not any(values.any() for values in (lost.tensors, lost.lexical, lost.root, lost.occupancy))
    found = observed.expectations(grammar, lexical=np.array([1.0, 1e-15]))
    assert found.log_likelihoods == pytest.approx([-90 * np.log(10)], rel=1e-6)
    assert found.occupancy == pytest.approx([1, 0, 0, 2])
    assert found.tensors.sum() == pytest.approx(1, rel=1e-5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_wrong_calls():
    grammar, corpus = make(12)
    observed = TreeEStep(corpus)
    with pytest.raises(GrammarError, match="symbols"):
        observed.inside(replace(grammar, symbols=[*grammar.symbols[:-1], "other"]))
    with pytest.raises(GrammarError, match="rules"):
        observed.inside(replace(grammar, rules=grammar.rules[:-1]))
    with pytest.raises(UsageError, match="float16"):
        observed.inside(grammar, dtype=np.float16)
    with pytest.raises(UsageError, match="threads"):
        Threads(0)
    with pytest.raises(UsageError, match="shape"):
        observed.expectations(grammar, lexical=np.ones(1))
    with pytest.raises(UsageError, match="shards"):
        TreeEStep(corpus, shards=0)


def test_the_lexical_table():
    writer = Writer(5)
    corpus = Corpus.from_trees(writer.sentence() for _ in range(50))
    grammar = PCFG().fit(corpus)
    observed, table = TreeEStep(corpus), lexical_table(grammar, corpus)
    for symbol, word, value in zip(observed.pair_symbol, observed.pair_word, table, strict=True):
        assert value == grammar.lexical_vector(symbol, corpus.words[word])[0] > 0


@pytest.mark.parametrize("name", ["ours/train.mrg", slow("gum/dev.mrg")])
def test_a_treebank(name):
    corpus = Corpus.from_trees(read_trees(treebank(name)), transform=TreeTransform(vertical=1, horizontal=0))
    grammar = PCFG().fit(corpus)
    found = TreeEStep(corpus, shards=2).expectations(grammar)
    np.testing.assert_allclose(found.tensors, corpus.rule_counts(), rtol=1e-5)
    # Of a PCFG the likelihood is a sum over rules, roots and words.
    counts, roots = corpus.rule_counts(), corpus.root_counts()
    total = counts @ np.log(grammar.tensors) + roots[roots > 0] @ np.log(grammar.root[roots > 0])
    total += corpus.lexical_counts()[2] @ np.log(lexical_table(grammar, corpus))
    assert found.log_likelihood == pytest.approx(total, rel=1e-6)
