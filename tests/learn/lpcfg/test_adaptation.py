"""Adaptation of grammars: counts of two treebanks, one of which only its grammar tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import EM, PCFG, Corpus, Spectral, SplitMerge, Tree
from sapwood.errors import GrammarError, InputError
from sapwood.inference.estep.trees import TreeEStep, held_out_trees
from sapwood.learn.lpcfg.adaptation import (
    WordCounts,
    adapt_grammar,
    check_preparation,
    choose_weight,
    emitting_occupancy,
    trees_of,
)

TREES = made_up_treebank(160)
OLD = TREES[:100]
# Another domain: exclamations, with symbols, rules and words of their own, and much of the old language.
NEW = [
    *TREES[100:],
    *(
        Tree.parse(f"(ROOT (FRAG (UH {word}) (NP (DT the) (N blanora)) (. !)))")
        for word in ["oh", "ah", "oh", "Oh", "hey", "oh"]
    ),
    Tree.parse("(ROOT (S (VP (V blanild) (NP (N blanora)) (ADVP (RB now))) (. !)))"),
]


def corpora(learner):
    """Return both treebanks as a learner needs them."""
    return learner.prepare(OLD), learner.prepare(NEW)


LEARNERS = {
    "pcfg": PCFG(),
    "em": EM(states=2, min_support=5, iterations=3),
    "collapsed": EM(states=3, min_support=5, iterations=3, unaries="collapsed"),
    "split-merge": SplitMerge(cycles=2, iterations=4, smoothing_iterations=2),
}


@pytest.fixture(scope="module", params=list(LEARNERS))
def case(request):
    learner = LEARNERS[request.param]
    old, new = corpora(learner)
    return learner.fit(old), old, new


def test_word_counts_are_those_of_the_trees(case):
    grammar, old, _ = case
    found = WordCounts.of(grammar)
    names = grammar.symbols[grammar.n_interminals :].bottom
    tag_of_state = [names[symbol] for symbol in grammar.emissions.symbol_of_state]
    counts = defaultdict(float)
    for state, word, count in zip(found.state.tolist(), found.word.tolist(), found.count.tolist(), strict=True):
        counts[tag_of_state[state], grammar.lexicon.words[word]] += count
    expected = Counter()
    for tree in range(old.n_trees):
        leaves = old.transform.invert(old.tree(tree)).nodes()
        expected.update((node.label, node.word) for node in leaves if node.word is not None)
    assert counts.keys() == expected.keys()
    assert all(counts[pair] == pytest.approx(often, rel=1e-3) for pair, often in expected.items())
    by_state = np.bincount(found.state, weights=found.count, minlength=len(tag_of_state))
    assert np.allclose(by_state, emitting_occupancy(grammar), rtol=1e-3, atol=1e-3)
    assert trees_of(grammar) == pytest.approx(old.n_trees, rel=1e-4)


@pytest.mark.parametrize("weight", [1, 3])
def test_a_pcfg_becomes_that_of_both_treebanks(weight):
    learner = PCFG()
    old, new = corpora(learner)
    adapted = adapt_grammar(learner.fit(old), new, weight=weight)
    both = learner.fit(learner.prepare([*OLD, *NEW * weight]))

    def rules(grammar):
        return {grammar.rule_name(rule): float(weight) for rule, weight in enumerate(grammar.tensors)}

    assert rules(adapted) == pytest.approx(rules(both), rel=1e-4)
    for symbol, name in enumerate(both.symbols):
        leaf = symbol >= both.n_interminals
        place = adapted.symbol_number(name, preterminal=leaf)
        assert adapted.root_vector(place) == pytest.approx(both.root_vector(symbol), rel=1e-4)
        for word in ("the", "blanora", "blanild", "oh", ".") if leaf else ():
            ours, theirs = (one.lexical_vector(at, word) for one, at in ((adapted, place), (both, symbol)))
            # Which rare words began sentences is known on average only.
            assert ours == pytest.approx(theirs, rel=0.1, abs=5e-4), (name, word)


def test_one_iteration_adds_the_expected_counts(case):
    grammar, _, new = case
    guess = adapt_grammar(grammar, new, weight=2, iterations=0)
    adapted = adapt_grammar(grammar, new, weight=2, iterations=1)
    known, lost = new.renumbered(guess.symbols, guess.n_interminals, guess.rules)
    assert not lost
    expected = TreeEStep(known).expectations(guess)
    number = {guess.rule_name(rule): rule for rule in range(len(guess.rules))}
    counts = {}
    for rule in range(len(grammar.rules)):
        parent = grammar.rules[rule, 0]
        first = grammar.state_offsets[parent]
        for z, part in enumerate(grammar.tensor(rule)):
            counts[grammar.rule_name(rule), z] = float(grammar.occupancy[first + z]) * part.astype(float)
    totals = defaultdict(float)
    for name, rule in number.items():
        begin, end = guess.tensor_offsets[rule : rule + 2]
        further = 2 * expected.tensors[begin:end].reshape(guess.tensor(rule).shape)
        for z, part in enumerate(further):
            counts[name, z] = counts.get((name, z), 0.0) + part
            totals[guess.rules[rule, 0], z] += counts[name, z].sum()
    for (name, z), part in counts.items():
        rule = number[name]
        want = part / max(totals[guess.rules[rule, 0], z], 1e-30)
        assert np.allclose(adapted.tensor(rule)[z], want, rtol=1e-3, atol=1e-6), name


def test_new_symbols_rules_and_words_are_learned(case):
    grammar, old, new = case
    assert "UH" not in grammar.symbols.bottom
    before, after = held_out_trees(grammar, new), held_out_trees(adapt_grammar(grammar, new, weight=3), new)
    assert before.built < new.n_trees
    assert after.built == new.n_trees
    likelihoods = [
        round(held_out_trees(adapt_grammar(grammar, new, weight=3, iterations=n), new).log_likelihood, 4)
        for n in (1, 2, 4)
    ]
    assert likelihoods == sorted(likelihoods)
    adapted = adapt_grammar(grammar, new, weight=3)
    assert adapted.lexicon.knows("hey")
    assert not grammar.lexicon.knows("hey")
    assert adapted.info["adapted"]["trees"] == new.n_trees
    assert held_out_trees(adapted, old).log_likelihood > held_out_trees(grammar, old).log_likelihood - 0.3


def test_trees_of_little_weight_change_little(case):
    grammar, old, new = case
    adapted = adapt_grammar(grammar, new, weight=1e-6)
    assert held_out_trees(adapted, old).log_likelihood == pytest.approx(
        held_out_trees(grammar, old).log_likelihood, abs=0.02
    )


def test_hidden_states_keep_their_numbers_and_levels(case):
    grammar, _, new = case
    adapted = adapt_grammar(grammar, new)
    assert len(adapted.levels) == len(grammar.levels)
    for symbol, name in enumerate(grammar.symbols):
        place = adapted.symbol_number(name, preterminal=symbol >= grammar.n_interminals)
        assert adapted.states[place] == grammar.states[symbol]
    names = [{one.rule_name(rule) for rule in range(len(one.rules))} for one in (grammar, adapted)]
    assert names[0] < names[1]


def test_the_weight_is_chosen_by_the_likelihood_of_other_trees():
    learner = PCFG()
    grammar, new = learner.fit(learner.prepare(OLD)), learner.prepare(NEW[-7:] * 8)
    assert choose_weight(grammar, new, (0.01, 10.0)) == 10.0
    assert choose_weight(grammar, learner.prepare(OLD[:60]), (1000.0, 1.0)) == 1.0
    assert choose_weight(grammar, learner.prepare(NEW[:3]), (2.0, 10.0)) == 2.0


def test_what_cannot_be_adapted_is_refused():
    learner = PCFG()
    old, new = corpora(learner)
    grammar = learner.fit(old)
    with pytest.raises(GrammarError, match="real-valued"):
        adapt_grammar(Spectral(states=2).fit(Spectral.prepare(OLD)), new)
    with pytest.raises(GrammarError, match="no counts of states"):
        check_preparation(replace(grammar, occupancy=np.zeros_like(grammar.occupancy)), new)
    with pytest.raises(InputError, match=r"transformed otherwise.*vertical"):
        check_preparation(grammar, Corpus.from_trees(NEW, transform=replace(old.transform, vertical=5)))
    with pytest.raises(InputError, match="have gaps"):
        check_preparation(grammar, replace(new, transform=replace(old.transform, gaps=True)))
