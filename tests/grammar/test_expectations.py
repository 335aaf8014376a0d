"""Expected counts against sums over trees, and what sampling finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sapwood.errors import GrammarError
from sapwood.grammar.expectations import expected_counts, with_expected_counts
from sapwood.grammar.sampling import Sampler, sample_trees
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.testing.grammars import random_grammar
from sapwood.trees.tree import Tree


def critical(growth: float) -> TensorGrammar:
    """Return a grammar that branches with the given probability."""
    return TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "S", "S"): growth, ("S", "N", "N"): 1 - growth}, words={("N", "x"): 1.0}
    )


@pytest.mark.parametrize("seed", range(10))
def test_series(seed):
    """The expected counts are the sum over depths of the states expected at each depth."""
    grammar = random_grammar(np.random.default_rng(seed))
    offsets = grammar.state_offsets
    level, total = grammar.root.copy(), np.zeros_like(grammar.root)
    rules = np.zeros(len(grammar.rules))
    for _ in range(300):  # each level has at most 0.8 times the interminals of the one above
        total += level
        below = np.zeros_like(level)
        for rule, (a, b, c) in enumerate(grammar.rules):
            tensor = grammar.tensor(rule)
            for h, h2, h3 in np.ndindex(*tensor.shape):
                amount = level[offsets[a] + h] * tensor[h, h2, h3]
                rules[rule] += amount
                below[offsets[b] + h2] += amount
                below[offsets[c] + h3] += amount
        level = below
        if level.sum() < 1e-13:
            break
    occupancy, counts = expected_counts(grammar)
    np.testing.assert_allclose(occupancy, total, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(counts, rules, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(grammar.occupancy, occupancy)
    np.testing.assert_array_equal(grammar.rule_counts, counts)


def test_enumeration_of_trees():
    """All trees up to a size, each with its probability times what is in it."""
    from oracles.reference import tree_inside_outside

    grammar = TensorGrammar.from_parts(
        root={"S": [0.75, 0.25]},
        rules={
            ("S", "N", "N"): [[[0.2, 0.1], [0.1, 0.3]], [[0.5, 0.1], [0.0, 0.0]]],
            ("S", "N", "S"): [[[0.1, 0.0], [0.1, 0.1]], [[0.0, 0.1], [0.2, 0.1]]],
        },
        words={("N", "x"): [1.0, 1.0]},
    )
    occupancy, counts = np.zeros(4), np.zeros(2)
    tree = Tree("N", word="x")
    for _ in range(60):  # each level continues with at most 0.4
        tree = Tree("S", (Tree("N", word="x"), tree))
        result = tree_inside_outside(grammar, tree)
        for node, symbol in enumerate(result.tree.symbol):
            weight = result.probability * result.state_posteriors(node)
            occupancy[2 * symbol : 2 * symbol + 2] += weight
            if result.tree.rule[node] >= 0:
                counts[result.tree.rule[node]] += result.probability
    found, rules = expected_counts(grammar)
    np.testing.assert_allclose(found, occupancy, rtol=1e-12)
    np.testing.assert_allclose(rules, counts, rtol=1e-12)


@pytest.mark.parametrize("growth", [0.5, 0.6, 0.9])
def test_no_finite_size(growth):
    with pytest.raises(GrammarError, match="no finite expected size"):
        expected_counts(critical(growth))
    grammar = critical(growth)
    assert with_expected_counts(grammar) is grammar


def test_geometric_growth():
    occupancy, counts = expected_counts(critical(0.25))
    # e = 1 + 2 * 0.25 e
    np.testing.assert_allclose(occupancy, [2.0, 2 * 2.0 * 0.75])
    np.testing.assert_allclose(counts, [0.5, 1.5])


def test_only_preterminals():
    grammar = random_grammar(np.random.default_rng(0), interminals=0)
    occupancy, counts = expected_counts(grammar)
    np.testing.assert_array_equal(occupancy, grammar.root)
    assert counts.shape == (0,)


def rule_table(grammar: TensorGrammar, trees: list[Tree]) -> np.ndarray:
    """Return how often each rule occurs in each tree, shape `(trees, rules)`."""
    number = {grammar.rule_name(rule): rule for rule in range(len(grammar.rules))}
    table = np.zeros((len(trees), len(number)))
    for row, tree in zip(table, trees, strict=True):
        for node in tree.nodes():
            if node.word is None:
                left, right = node.children
                row[number[f"{node.label} -> {left.label} {right.label}"]] += 1
    return table


@pytest.mark.parametrize("seed", range(3))
def test_sampled_rules_occur_as_expected(seed):
    grammar = random_grammar(np.random.default_rng(seed), interminals=2, preterminals=2)
    count = 3000
    trees = sample_trees(grammar, count, random_state=seed, max_words=10**6)
    table = rule_table(grammar, trees)
    error = table.std(axis=0) / np.sqrt(count) + 1e-3
    assert (np.abs(table.mean(axis=0) - grammar.rule_counts) < 4 * error).all()
    # Words and roots, too.
    words = Counter((node.label, node.word) for tree in trees for node in tree.preterminals())
    offsets = grammar.state_offsets
    for symbol in range(grammar.n_interminals, len(grammar.symbols)):
        states = grammar.occupancy[offsets[symbol] : offsets[symbol + 1]]
        for word in grammar.lexicon.words:
            expected = states @ grammar.lexical_vector(symbol, word)
            found = words[grammar.symbols[symbol], word] / count
            assert abs(found - expected) < 6 * np.sqrt(expected / count) + 0.01
    roots = Counter(tree.label for tree in trees)
    for symbol, name in enumerate(grammar.symbols):
        expected = grammar.root_vector(symbol).sum()
        assert abs(roots[name] / count - expected) < 4 * np.sqrt(expected * (1 - expected) / count) + 1e-9


def test_sampled_trees_have_the_right_distribution():
    """States are drawn jointly: tree frequencies agree with tree probabilities, not only rule frequencies."""
    from oracles.reference import tree_probability

    grammar = TensorGrammar.from_parts(
        root={"S": [0.5, 0.5]},
        rules={
            ("S", "N", "N"): [[[0.7, 0.0], [0.0, 0.1]], [[0.0, 0.4], [0.3, 0.0]]],
            ("S", "N", "S"): [[[0.0, 0.2], [0.0, 0.0]], [[0.3, 0.0], [0.0, 0.0]]],
        },
        words={("N", "x"): [0.9, 0.2], ("N", "y"): [0.1, 0.8]},
    )
    count = 4000
    found = Counter(sample_trees(grammar, count, random_state=1))
    expected = {tree: tree_probability(grammar, tree) for tree in found}
    often = [tree for tree in found if expected[tree] * count >= 20]
    assert len(often) >= 10
    for tree in often:
        assert abs(found[tree] / count - expected[tree]) < 4 * np.sqrt(expected[tree] / count)


def test_sampling_is_repeatable():
    grammar = random_grammar(np.random.default_rng(0))
    first = grammar.sample(50, random_state=7)
    assert first == grammar.sample(50, random_state=7)
    assert first != grammar.sample(50, random_state=8)
    assert first == grammar.sample(50, random_state=np.random.default_rng(7))


def test_sampling_respects_max_words():
    grammar = critical(0.4)
    trees = grammar.sample(200, random_state=0, max_words=6)
    assert max(len(tree) for tree in trees) == 6
    with pytest.raises(GrammarError, match="raise max_words"):
        grammar.sample(1, random_state=0, max_words=1)


def test_sampling_needs_probabilities():
    with pytest.raises(GrammarError, match="only a probabilistic grammar"):
        Sampler(random_grammar(np.random.default_rng(0), real=True))
