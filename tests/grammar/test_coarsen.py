"""Coarse grammars: merging symbols again that markovisation split gives back the plain PCFG."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.effort import slow
from helpers.made_up import made_up_treebank
from helpers.treebank_files import treebank
from sapwood.grammar.coarsen import coarsen
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.symbols import as_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

FINE = [
    TreeTransform(horizontal=2),
    TreeTransform(vertical=2, horizontal=1),
    TreeTransform(vertical=3, horizontal=2, annotate_tags=True),
    TreeTransform(vertical=2, horizontal=3, direction="left", annotate_tags=True),
    TreeTransform(vertical=2, horizontal=1, direction="head"),
]
# With these no smoothing depends on how finely preterminals are divided.
PLAIN = LexicalSettings(word_strength=0.0, state_strength=0.0)


def names(grammar: TensorGrammar) -> list[tuple[str, bool]]:
    """Return each symbol with whether it is a preterminal."""
    return [(name, number >= grammar.n_interminals) for number, name in enumerate(grammar.symbols)]


def by_name(grammar: TensorGrammar, column: np.ndarray) -> dict[tuple[str, bool], float]:
    return dict(zip(names(grammar), column.tolist(), strict=True))


def rules_by_name(grammar: TensorGrammar, column: np.ndarray) -> dict[tuple, float]:
    known = names(grammar)
    keys = [tuple(known[symbol] for symbol in rule) for rule in grammar.rules]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, column.tolist(), strict=True))


def lexical_table(grammar: TensorGrammar) -> dict[str, np.ndarray]:
    """Return the weights of each preterminal over all terminals."""
    first = grammar.n_interminals
    return {name: grammar.emissions.column(number)[:, 0] for number, name in enumerate(grammar.symbols[first:])}


def check_same(one: TensorGrammar, other: TensorGrammar, *, distance: float) -> None:
    """Compare all of two one-state grammars by name; lexical weights may be `distance` apart (total variation)."""
    assert sorted(names(one)) == sorted(names(other))
    assert rules_by_name(one, one.tensors) == pytest.approx(rules_by_name(other, other.tensors), rel=1e-12)
    assert rules_by_name(one, one.rule_counts) == rules_by_name(other, other.rule_counts)
    assert by_name(one, one.root) == pytest.approx(by_name(other, other.root), rel=1e-12)
    assert by_name(one, one.occupancy) == pytest.approx(by_name(other, other.occupancy), rel=1e-12)
    assert one.lexicon.words == other.lexicon.words
    assert one.lexicon.signatures == other.lexicon.signatures
    ours, theirs = lexical_table(one), lexical_table(other)
    for name, column in ours.items():
        assert np.abs(column - theirs[name]).sum() / 2 <= distance, name
        assert column.sum() == pytest.approx(1, abs=1e-9)
        assert ((column > 0) == (theirs[name] > 0)).all(), name


def check_map(grammar: TensorGrammar, coarse: TensorGrammar, coarse_of: np.ndarray) -> None:
    assert coarse_of.shape == (len(grammar.symbols),)
    assert coarse_of.dtype == np.int32
    expected = [(as_symbol(name).base, leaf) for name, leaf in names(grammar)]
    assert [names(coarse)[number] for number in coarse_of] == expected
    assert set(coarse_of.tolist()) == set(range(len(coarse.symbols)))


@pytest.mark.parametrize("direction", ["right", "left", "head"])
def test_a_plain_grammar_is_its_own_coarse_one(direction):
    transform = TreeTransform(vertical=1, horizontal=0, direction=direction)
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(200), transform=transform))
    coarse, coarse_of = coarsen(grammar)
    check_map(grammar, coarse.validate(), coarse_of)
    check_same(coarse, grammar, distance=1e-12)
    again, _ = coarsen(coarse)
    check_same(again, coarse, distance=1e-12)


@pytest.mark.parametrize("transform", FINE)
@pytest.mark.parametrize(("lexical", "distance"), [(PLAIN, 1e-9), (LexicalSettings(), 0.005)])
def test_a_markovised_grammar_becomes_the_plain_one(transform, lexical, distance):
    trees = made_up_treebank(400)
    plainest = replace(transform, vertical=1, horizontal=0, annotate_tags=False)
    fine = PCFG(lexical=lexical).fit(Corpus.from_trees(trees, transform=transform))
    plain = PCFG(lexical=lexical).fit(Corpus.from_trees(trees, transform=plainest))
    assert len(fine.symbols) > len(plain.symbols)
    coarse, coarse_of = coarsen(fine)
    check_map(fine, coarse.validate(), coarse_of)
    check_same(coarse, plain, distance=distance)


@pytest.mark.parametrize("name", ["ours/train.mrg", slow("gum-open/dev.mrg")])
def test_on_a_treebank(name):
    trees = list(read_trees(treebank(name)))
    fine = PCFG().fit(Corpus.from_trees(trees, transform=TreeTransform(vertical=2, horizontal=2, annotate_tags=True)))
    plain = PCFG().fit(Corpus.from_trees(trees, transform=TreeTransform(vertical=1, horizontal=0)))
    coarse, coarse_of = coarsen(fine)
    check_map(fine, coarse.validate(), coarse_of)
    check_same(coarse, plain, distance=0.05)


def test_a_label_in_both_roles_stays_two_symbols():
    trees = [Tree.parse("(ROOT (S (X (X a) (Y b)) (X c)))")] * 2
    grammar = PCFG().fit(Corpus.from_trees(trees, transform=TreeTransform(vertical=2, annotate_tags=True)))
    coarse, _ = coarsen(grammar)
    assert sorted(names(coarse)) == [("S", False), ("X", False), ("X", True), ("Y", True)]


@pytest.mark.parametrize("seed", range(10))
def test_states_become_one(seed):
    """With many states, rules go by expected counts and words by the average over expected states."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=3, preterminals=3, states=(1, 4))
    coarse, coarse_of = coarsen(grammar)
    assert coarse.validate().states.tolist() == [1] * len(grammar.symbols)
    counts = rules_by_name(grammar, grammar.rule_counts)
    for (a, b, c), weight in rules_by_name(coarse, coarse.tensors).items():
        total = sum(count for key, count in counts.items() if key[0] == a)
        assert weight == pytest.approx(counts[a, b, c] / total, rel=1e-6, abs=1e-9)
    first = grammar.n_interminals
    for symbol in range(len(grammar.symbols)):
        own = slice(grammar.state_offsets[symbol], grammar.state_offsets[symbol + 1])
        other = int(coarse_of[symbol])
        assert coarse.root[other] == pytest.approx(grammar.root[own].sum(), rel=1e-12, abs=1e-15)
        assert coarse.occupancy[other] == pytest.approx(grammar.occupancy[own].sum(), rel=1e-12)
        if symbol >= first and grammar.occupancy[own].sum() > 0:
            average = grammar.occupancy[own] / grammar.occupancy[own].sum()
            expected = grammar.emissions.column(symbol - first) @ average
            found = coarse.emissions.column(other - coarse.n_interminals)[:, 0]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_real_weights(seed):
    """A grammar with weights of any sign still gives a coarse grammar of probabilities for its rules."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=3, preterminals=2, states=(1, 3), real=True)
    coarse, _ = coarsen(grammar)
    coarse.validate()
    assert (coarse.tensors > 0).all()
    sums = np.bincount(coarse.rules[:, 0], weights=coarse.tensors)
    np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-9)


@pytest.mark.parametrize("transform", [TreeTransform(), TreeTransform(vertical=2, horizontal=1)])
def test_preterminals_that_share_words(transform):
    """Whether vectors are stored once for several preterminals or for each makes no difference."""
    corpus = Corpus.from_trees(made_up_treebank(100), transform=transform)
    grammar = EM(states=3, iterations=3, rare_threshold=2).fit(corpus)
    emissions = grammar.emissions
    assert emissions.emitter is not None
    # What stands in the places of those that are no emitters is of no importance.
    emitting = emissions.emitting_state == np.arange(len(emissions.share))
    assert not emitting.all()
    grammar = replace(grammar, emissions=replace(emissions, share=np.where(emitting, emissions.share, 7.0)))
    apart = replace(grammar, emissions=grammar.emissions.separate()).validate(tolerance=1e-4)
    coarse, coarse_of = coarsen(grammar)
    other, other_of = coarsen(apart)
    check_map(grammar, coarse.validate(), coarse_of)
    np.testing.assert_array_equal(coarse_of, other_of)
    check_same(coarse, other, distance=1e-12)
    # And the average is one over all states of all preterminals that become one.
    first = grammar.n_interminals
    for name, column in lexical_table(coarse).items():
        total, expected = 0.0, np.zeros(grammar.lexicon.n_terminals)
        for symbol in range(first, len(grammar.symbols)):
            if grammar.symbols[symbol].base == name:
                often = grammar.occupancy[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]]
                expected += grammar.emissions.column(symbol - first) @ often
                total += often.sum()
        np.testing.assert_allclose(column, expected / total, rtol=1e-6, atol=1e-12)
