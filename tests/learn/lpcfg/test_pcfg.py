"""The treebank PCFG: counts by hand, sums, and that no other weights make the treebank more likely."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from oracles.reference import tree_probability
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

BY_HAND = [
    "(ROOT (S (N dogs) (V bark)))",
    "(ROOT (S (N dogs) (V bark)))",
    "(ROOT (S (N dogs) (S (N cats) (V sleep))))",
    "(ROOT (S (NP (D the) (N dogs)) (V sleep)))",
    "(ROOT (S (NP (D the) (A old) (N dogs)) (V sleep)))",
    "(ROOT (NP (D the) (N cats)))",
    "(ROOT (N cats))",
    "(ROOT (S (NP (N cats)) (V bark)))",
]


def rules_of(grammar: TensorGrammar) -> dict[str, float]:
    assert len(grammar.tensors) == len(grammar.rules)
    return {grammar.rule_name(rule): float(weight) for rule, weight in enumerate(grammar.tensors)}


def roots_of(grammar: TensorGrammar) -> dict[str, float]:
    return {name: float(weight) for name, weight in zip(grammar.symbols, grammar.root, strict=True) if weight}


def test_counts_by_hand():
    grammar = PCFG().fit(Corpus.from_trees(map(Tree.parse, BY_HAND), transform=TreeTransform(horizontal=1)))
    assert rules_of(grammar) == {
        "S -> N V": 3 / 7,
        "S -> N S": 1 / 7,
        "S -> NP V": 2 / 7,
        "S -> NP|N V": 1 / 7,
        "NP -> D N": 2 / 3,
        "NP -> D @NP~D": 1 / 3,
        "@NP~D -> A N": 1.0,
    }
    assert roots_of(grammar) == {"S": 6 / 8, "NP": 1 / 8, "N": 1 / 8}
    assert {grammar.rule_name(rule): count for rule, count in enumerate(grammar.rule_counts)} == {
        "S -> N V": 3, "S -> N S": 1, "S -> NP V": 2, "S -> NP|N V": 1, "NP -> D N": 2, "NP -> D @NP~D": 1,
        "@NP~D -> A N": 1,
    }  # fmt: skip
    assert dict(zip(grammar.symbols, grammar.occupancy.tolist(), strict=True)) == {
        "S": 7, "NP": 3, "@NP~D": 1, "N": 8, "V": 6, "D": 3, "A": 1, "NP|N": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "transform",
    [
        TreeTransform(),
        TreeTransform(horizontal=0),
        TreeTransform(vertical=2, horizontal=2, direction="left"),
        TreeTransform(vertical=3, direction="head", annotate_tags=True),
    ],
)
def test_relative_frequencies(transform):
    trees = made_up_treebank(150)
    grammar = PCFG().fit(Corpus.from_trees(trees, transform=transform)).validate(tolerance=1e-9)
    skeletons = [transform(Normaliser()(tree)) for tree in trees]
    rules: Counter[tuple[str, str]] = Counter()
    above: Counter[str] = Counter()
    for skeleton in skeletons:
        for node in skeleton.nodes():
            if node.word is None:
                rules[node.label, " ".join(child.label for child in node.children)] += 1
                above[node.label] += 1
    assert rules_of(grammar) == {f"{a} -> {b}": count / above[a] for (a, b), count in rules.items()}
    roots = Counter(skeleton.label for skeleton in skeletons)
    assert roots_of(grammar) == {name: count / len(trees) for name, count in roots.items()}
    np.testing.assert_allclose(inner_sums(grammar), 1, rtol=1e-12)
    assert grammar.root.sum() == pytest.approx(1, abs=1e-12)


def test_sums_are_exact_in_exact_arithmetic():
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(50)))
    totals: Counter[int] = Counter()
    for (a, _, _), count in zip(grammar.rules.tolist(), grammar.rule_counts.tolist(), strict=True):
        totals[a] += Fraction(int(count), int(grammar.occupancy[a]))
    assert set(totals.values()) == {1}


def log_likelihood(grammar: TensorGrammar, corpus: Corpus) -> float:
    return float(sum(np.log(tree_probability(grammar, corpus.tree(index))) for index in range(corpus.n_trees)))


TRAINING = Corpus.from_trees(made_up_treebank(25, seed=1))
TRAINED = PCFG().fit(TRAINING)
BEST = log_likelihood(TRAINED, TRAINING)


@examples(40)
@given(st.integers(0, 2**32 - 1), st.floats(1e-4, 1.0))
def test_no_other_weights_make_the_treebank_more_likely(seed, size):
    rng = np.random.default_rng(seed)
    above = TRAINED.rules[:, 0]
    changed = TRAINED.tensors * np.exp(size * rng.standard_normal(len(above)))
    tensors = changed / np.bincount(above, weights=changed)[above]
    root = TRAINED.root * np.exp(size * rng.standard_normal(len(TRAINED.root)))
    for other in (replace(TRAINED, tensors=tensors), replace(TRAINED, root=root / root.sum())):
        other.validate()
        worse = log_likelihood(other, TRAINING)
        assert np.isfinite(worse)
        assert worse <= BEST + 1e-9


def test_the_likelihood_is_the_product_of_the_weights():
    """One tree by hand: root, rules and words."""
    grammar = PCFG().fit(Corpus.from_trees(map(Tree.parse, BY_HAND), transform=TreeTransform(horizontal=1)))
    found = tree_probability(grammar, Tree.parse("(S (NP (D the) (@NP~D (A old) (N dogs))) (V sleep))"))
    words = 1.0
    for tag, word, initial in (("D", "the", True), ("A", "old", False), ("N", "dogs", False), ("V", "sleep", False)):
        number = grammar.symbol_number(tag, preterminal=True)
        words *= float(grammar.lexical_vector(number, word, initial=initial)[0])
    assert found == pytest.approx(6 / 8 * 2 / 7 * 1 / 3 * 1.0 * words, rel=1e-12)


def test_one_word_treebanks():
    grammar = PCFG().fit(Corpus.from_trees([Tree.parse("(N a)"), Tree.parse("(N b)"), Tree.parse("(V c)")]))
    assert grammar.n_interminals == 0
    assert rules_of(grammar) == {}
    assert roots_of(grammar) == {"N": 2 / 3, "V": 1 / 3}


def test_what_is_known_of_its_making():
    corpus = Corpus.from_trees(made_up_treebank(30), transform=TreeTransform(vertical=2))
    grammar = PCFG(lexical=LexicalSettings(rare=2)).fit(corpus)
    assert grammar.info["method"] == "pcfg"
    assert grammar.info["training"] == {"trees": 30, "words": corpus.n_words, "digest": corpus.digest()}
    assert grammar.info["lexical"]["rare"] == 2
    assert grammar.transform == corpus.transform
    assert grammar.normaliser == corpus.normaliser
    assert grammar.probabilistic


def test_the_order_of_trees_does_not_matter():
    trees = made_up_treebank(60)
    assert PCFG().fit(Corpus.from_trees(trees)) == PCFG().fit(Corpus.from_trees(trees[::-1]))
