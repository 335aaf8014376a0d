"""Other states for a grammar's symbols change no more than they should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from helpers.enumerate_trees import all_trees
from helpers.made_up import made_up_treebank
from oracles.reference import tree_probability
from sapwood.automata import algebra
from sapwood.automata.automaton import TreeAutomaton
from sapwood.errors import GrammarError
from sapwood.grammar.state_ops import change_states, merge_symbols, rule_batches, stacked_tensors
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.testing.grammars import random_bases, random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import as_symbol
from sapwood.trees.transform import TreeTransform, base_tree
from sapwood.trees.tree import Tree

SENTENCES = [["w0"], ["w1", "w0"], ["w2", "w0", "w1"]]


def weights(grammar: TensorGrammar, sentence: list[str]) -> dict[str, float]:
    return {str(item.tree): item.weight for item in all_trees(grammar, sentence)}


def check_same(one: dict[str, float], other: dict[str, float]) -> None:
    """Compare weights of trees; one that is missing has none."""
    size = max(map(abs, one.values()), default=0.0)
    for tree in {*one, *other}:
        assert other.get(tree, 0.0) == pytest.approx(one.get(tree, 0.0), rel=1e-9, abs=1e-12 * size)


@pytest.mark.parametrize("seed", range(5))
def test_another_basis(seed):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(1, 4))
    bases = random_bases(rng, grammar)
    inverses = [np.linalg.inv(basis).T for basis in bases]
    other = change_states(grammar, inverses, bases)
    assert not other.probabilistic
    assert other.validate().states.tolist() == grammar.states.tolist()
    assert weights(grammar, SENTENCES[-1])
    for sentence in SENTENCES:
        check_same(weights(grammar, sentence), weights(other, sentence))
    # Expected counts are outside vectors' sums, and go with them.
    bounds = grammar.state_offsets
    for symbol, basis in enumerate(bases):
        own = slice(bounds[symbol], bounds[symbol + 1])
        np.testing.assert_allclose(other.occupancy[own], grammar.occupancy[own] @ basis, rtol=1e-12, atol=1e-15)
    # `G^a` of Theorem 1 of the spectral papers is `Q^T` here.
    same = grammar.conjugate([basis.T for basis in bases])
    np.testing.assert_allclose(same.tensors, other.tensors, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(same.root, other.root, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_fewer_states(seed):
    """A projection does to the grammar what it does to its automaton."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, states=(1, 5))
    inside, outside = ([rng.normal(size=(m, (m + 1) // 2)) for m in grammar.states] for _ in range(2))
    small = change_states(grammar, inside, outside)
    assert small.states.tolist() == [(m + 1) // 2 for m in grammar.states]
    expected = algebra.change_states(TreeAutomaton.from_grammar(grammar), inside, outside)
    found = TreeAutomaton.from_grammar(small)
    for one, other in zip(found.transitions, expected.transitions, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    for name in ("root", "leaves"):
        for one, other in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_preterminals_that_share_words():
    """Tags' shared weights, signatures and emitters of several preterminals survive a change of basis."""
    grammar = EM(states=3, iterations=2).fit(Corpus.from_trees(made_up_treebank(80)))
    assert grammar.emissions.emitter is not None
    rng = np.random.default_rng(0)
    bases = random_bases(rng, grammar)
    other = change_states(grammar, [np.linalg.inv(basis).T for basis in bases], bases)
    for tree in grammar.sample(20, random_state=rng, max_words=10):
        assert tree_probability(other, tree) == pytest.approx(tree_probability(grammar, tree), rel=1e-5)
    for preterminal in range(len(grammar.emissions.states)):
        basis = bases[grammar.n_interminals + preterminal]
        expected = grammar.emissions.column(preterminal) @ np.linalg.inv(basis).T
        found = other.emissions.column(preterminal)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("wrong", ["rows", "columns", "none", "few"])
def test_matrices_that_do_not_fit(wrong):
    grammar = random_grammar(np.random.default_rng(0), states=(2, 2))
    inside = [np.eye(2) for _ in grammar.symbols]
    outside = [np.eye(2) for _ in grammar.symbols]
    if wrong == "rows":
        inside[1] = outside[1] = np.ones((3, 2))
    elif wrong == "columns":
        outside[1] = np.ones((2, 1))
    elif wrong == "none":
        inside[1] = outside[1] = np.ones((2, 0))
    else:
        inside, outside = inside[:-1], outside[:-1]
    with pytest.raises((GrammarError, ValueError)):
        change_states(grammar, inside, outside)


def test_batches_have_every_rule_once():
    grammar = random_grammar(np.random.default_rng(1), states=(1, 3))
    seen = []
    for batch in rule_batches(grammar.rules, grammar.states):
        stack = stacked_tensors(grammar, batch)
        for number, tensor in zip(batch, stack, strict=True):
            np.testing.assert_array_equal(tensor, grammar.tensor(number))
        seen += batch.tolist()
    assert sorted(seen) == list(range(len(grammar.rules)))
    assert list(rule_batches(np.zeros((0, 3), np.int32), grammar.states)) == []


INNER = ["NP^S", "S^VP", "NP^VP", "VP^S"]
TAGS = ["NN^NP", "DT^NP", "NN^VP"]


def annotated(seed: int, *, real: bool = False) -> TensorGrammar:
    """A random grammar whose symbols have annotations: two each of NP and of NN."""
    grammar = random_grammar(
        np.random.default_rng(seed), interminals=4, preterminals=3, words=3, states=(1, 2), density=0.4, real=real
    )
    emissions = replace(grammar.emissions, tags=["DT", "NN"], tag_of=np.array([1, 0, 1], np.int32))
    return replace(grammar, symbols=INNER + TAGS, emissions=emissions)


def summed(grammar: TensorGrammar, sentence: list[str], strip: Callable[[Tree], Tree] = base_tree) -> dict[str, float]:
    """The weights of trees without annotations: sums over all annotations."""
    sums: dict[str, float] = {}
    for item in all_trees(grammar, sentence):
        tree = str(strip(item.tree))
        sums[tree] = sums.get(tree, 0.0) + item.weight
    return sums


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_annotations_become_states(seed, real):
    grammar = annotated(seed, real=real)
    merged = merge_symbols(grammar).validate()
    assert merged.symbols == ["NP", "S", "VP", "DT", "NN"]
    assert merged.n_interminals == 3
    sizes = dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))
    assert merged.states.tolist() == [
        sizes["NP^S"] + sizes["NP^VP"], sizes["S^VP"], sizes["VP^S"], sizes["DT^NP"], sizes["NN^NP"] + sizes["NN^VP"],
    ]  # fmt: skip
    assert merged.probabilistic == grammar.probabilistic
    assert summed(grammar, SENTENCES[-1])
    for sentence in SENTENCES:
        check_same(summed(grammar, sentence), weights(merged, sentence))


@pytest.mark.parametrize("seed", range(3))
def test_merged_counts(seed):
    """Expected counts of symbols and rules add up."""
    grammar = annotated(seed)
    merged = merge_symbols(grammar)

    def totals(of: TensorGrammar, column: np.ndarray) -> dict[str, float]:
        sums: dict[str, float] = {}
        for symbol, name in enumerate(of.symbols):
            part = column[of.state_offsets[symbol] : of.state_offsets[symbol + 1]]
            sums[as_symbol(name).base] = sums.get(as_symbol(name).base, 0.0) + float(part.sum())
        return sums

    for name in ("occupancy", "root"):
        assert totals(merged, getattr(merged, name)) == pytest.approx(totals(grammar, getattr(grammar, name)))
    assert merged.rule_counts.sum() == pytest.approx(grammar.rule_counts.sum())
    keys = [tuple(grammar.symbols[s].base for s in rule) for rule in grammar.rules]
    for rule, count in zip(merged.rules, merged.rule_counts, strict=True):
        key = tuple(merged.symbols[s] for s in rule)
        expected = sum(c for other, c in zip(keys, grammar.rule_counts, strict=True) if other == key)
        assert count == pytest.approx(expected)


@pytest.mark.parametrize("tags", [False, True])
def test_a_markovised_treebank_grammar(tags):
    """With smoothing, signatures and shared weights of tags; symbols of one state become symbols of several."""
    transform = TreeTransform(vertical=2, horizontal=1, annotate_tags=tags)
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(60), transform=transform))
    merged = merge_symbols(grammar).validate(tolerance=1e-6)
    assert len(merged.symbols) < len(grammar.symbols)
    assert int(merged.states.sum()) == len(grammar.symbols)
    checked = 0
    for tree in merged.sample(30, random_state=np.random.default_rng(0), max_words=4):
        sums = summed(grammar, tree.words())
        found = tree_probability(merged, tree)
        assert found == pytest.approx(sums[str(tree)], rel=1e-6)
        checked += 1
    assert checked == 30


def test_nothing_to_merge():
    grammar = random_grammar(np.random.default_rng(3), states=(1, 3))
    merged = merge_symbols(grammar)
    assert merged.symbols == grammar.symbols
    np.testing.assert_array_equal(merged.tensors, grammar.tensors)
    np.testing.assert_array_equal(merged.root, grammar.root)
    np.testing.assert_array_equal(merged.emissions.values, grammar.emissions.values)


@pytest.mark.parametrize("seed", range(3))
def test_names_of_ones_own(seed):
    """Sums over all labels, too, and of preterminals with different tags."""
    grammar = annotated(seed)
    names = ["X"] * len(INNER) + ["T"] * len(TAGS)
    merged = merge_symbols(grammar, names).validate()
    assert merged.symbols == ["X", "T"]
    assert merged.states.tolist() == [int(grammar.states[:4].sum()), int(grammar.states[4:].sum())]
    for sentence in SENTENCES:
        check_same(summed(grammar, sentence, bare), weights(merged, sentence))


def bare(tree: Tree) -> Tree:
    return tree.fold(lambda node, below: Tree("X" if below else "T", below, word=node.word))


def test_tags_that_differ():
    """Weights that tags share are written out: every word keeps its probability in every state."""
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(60)))
    n_inner = grammar.n_interminals
    merged = merge_symbols(grammar, ["X"] * n_inner + ["T"] * (len(grammar.symbols) - n_inner))
    assert merged.validate(tolerance=1e-6).states.tolist() == [n_inner, len(grammar.symbols) - n_inner]
    expected = [grammar.emissions.column(number)[:, 0] for number in range(len(grammar.symbols) - n_inner)]
    np.testing.assert_allclose(merged.emissions.column(0), np.transpose(expected), rtol=1e-9, atol=1e-15)


def test_too_few_names():
    grammar = annotated(0)
    with pytest.raises(GrammarError, match="1 names for 7 symbols"):
        merge_symbols(grammar, ["X"])
