"""States of two grammars are put in the order that brings their parameters closest."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from oracles.reference import tree_probability
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.research import match_columns, match_grammars, permute
from sapwood.research.orders import Pair
from sapwood.testing.grammars import random_grammar

EXACT = 1e-12


def random_orders(rng, grammar):
    return [rng.permutation(int(size)) for size in grammar.states]


def renumbered(grammar: TensorGrammar, rng) -> TensorGrammar:
    """Return the grammar with its symbols, rules and words in another order."""
    n_inner, n = grammar.n_interminals, len(grammar.symbols)
    order = np.concatenate([rng.permutation(n_inner), n_inner + rng.permutation(n - n_inner)])
    number = np.argsort(order)
    rules = number[grammar.rules]
    sorting = np.lexsort(rules.T[::-1])
    words = [grammar.lexicon.words[x] for x in rng.permutation(grammar.lexicon.n_words)]
    vectors = {
        (p, x): grammar.lexical_vector(int(order[n_inner + p]), word)
        for p in range(n - n_inner)
        for x, word in enumerate(words)
    }
    symbols = [grammar.symbols[a] for a in order]
    states = grammar.states[order]
    return replace(
        grammar,
        symbols=symbols,
        states=states,
        rules=rules[sorting].astype(np.int32),
        tensors=np.concatenate([grammar.tensor(rule).ravel() for rule in sorting]),
        root=np.concatenate([grammar.root_vector(a) for a in order]),
        occupancy=np.concatenate([np.split(grammar.occupancy, grammar.state_offsets[1:-1])[a] for a in order]),
        rule_counts=grammar.rule_counts[sorting],
        emissions=plain_emissions(words, symbols[n_inner:], states[n_inner:], vectors),
    ).validate()


def noisy(grammar: TensorGrammar, rng, noise: float) -> TensorGrammar:
    """Return the grammar drawn towards a random one with the same rules."""
    n_inner, names = grammar.n_interminals, grammar.symbols
    rules, words = {}, {}
    for a, name in enumerate(names):
        size = int(grammar.states[a])
        if a < n_inner:
            ours = np.flatnonzero(grammar.rules[:, 0] == a).tolist()
            drawn = [rng.gamma(1.0, size=grammar.tensor(rule).shape) for rule in ours]
            total = sum(tensor.sum(axis=(1, 2)) for tensor in drawn)[:, None, None]
            for rule, tensor in zip(ours, drawn, strict=True):
                key = tuple(names[s] for s in grammar.rules[rule])
                rules[key] = (1 - noise) * grammar.tensor(rule) + noise * tensor / total
        else:
            drawn = rng.dirichlet(np.ones(grammar.lexicon.n_words), size=size)
            for x, word in enumerate(grammar.lexicon.words):
                words[name, word] = (1 - noise) * grammar.lexical_vector(a, word) + noise * drawn[:, x]
    root = {name: grammar.root_vector(a) for a, name in enumerate(names) if grammar.root_vector(a).any()}
    return TensorGrammar.from_parts(root=root, rules=rules, words=words)


# The slow twin: parameters by name, all orders.


def parameters(grammar: TensorGrammar, orders) -> dict:
    """Return all parameters by the names of their symbols and the numbers of states in the given orders."""
    found = {}
    place = [np.argsort(order) for order in orders]
    for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
        for (i, j, k), weight in np.ndenumerate(grammar.tensor(rule)):
            key = (grammar.symbols[a], grammar.symbols[b], grammar.symbols[c], place[a][i], place[b][j], place[c][k])
            found[key] = weight
    for a, name in enumerate(grammar.symbols):
        for i, weight in enumerate(grammar.root_vector(a)):
            found["root", name, place[a][i]] = weight
        if a >= grammar.n_interminals:
            for word in grammar.lexicon.words:
                for i, weight in enumerate(grammar.lexical_vector(a, word)):
                    found["word", name, word, place[a][i]] = weight
    return found


def distance(ours: dict, theirs: dict) -> float:
    return sum(abs(ours.get(key, 0.0) - theirs.get(key, 0.0)) for key in ours.keys() | theirs.keys())


def least_distance(reference: TensorGrammar, other: TensorGrammar) -> float:
    """List all orders of both grammars' states; only the larger one's matter."""
    found = []
    ours = parameters(reference, [range(int(size)) for size in reference.states])
    place = {name: a for a, name in enumerate(other.symbols)}
    sizes = zip(reference.symbols, reference.states.tolist(), strict=True)
    larger = [max(size, int(other.states[place[name]])) for name, size in sizes]
    for orders in product(*(permutations(range(size)) for size in larger)):
        # Orders of states, some of which the other grammar does not have: its state i goes to where i is.
        by_name = dict(zip(reference.symbols, orders, strict=True))
        found.append(distance(ours, parameters(other, [by_name[name] for name in other.symbols])))
    return min(found)


def objective_of(match, reference: TensorGrammar, other: TensorGrammar) -> float:
    """Return the distance with unmatched states in full, by the twin."""
    place = {name: a for a, name in enumerate(other.symbols)}
    orders = [None] * len(other.symbols)
    for name, matched, rest in zip(reference.symbols, match.permutations, match.unmatched, strict=True):
        # Unmatched states of the reference take the place of states that the other grammar does not have.
        spare = iter(range(int(other.states[place[name]]), 1000))
        full = [int(state) if state >= 0 else next(spare) for state in matched]
        orders[place[name]] = full + [int(state) for state in rest]
    return distance(parameters(reference, [range(int(size)) for size in reference.states]), parameters(other, orders))


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_permuted_grammars_are_recognised(first):
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, interminals=3, preterminals=3, words=5, states=(1, 5))
        orders = random_orders(rng, grammar)
        other = permute(grammar, orders)
        match = match_grammars(grammar, renumbered(other, rng))
        assert match.is_complete
        assert match.largest < EXACT
        assert match.total < EXACT
        for found, order in zip(match.permutations, orders, strict=True):
            assert found.tolist() == np.argsort(order).tolist()


def test_the_order_that_is_found_puts_the_other_grammar_right():
    rng = np.random.default_rng(3)
    grammar = random_grammar(rng, states=(2, 4))
    other = renumbered(permute(grammar, random_orders(rng, grammar)), rng)
    back = permute(other, match_grammars(grammar, other).order)
    assert back.probabilistic
    as_they_are = [range(int(size)) for size in grammar.states], [range(int(size)) for size in back.states]
    assert parameters(back, as_they_are[1]) == parameters(grammar, as_they_are[0])


@pytest.mark.parametrize("noise", [0.05, 0.3])
@pytest.mark.parametrize("states", [2, 3])
def test_the_best_of_all_orders(noise, states):
    for seed in range(4):
        rng = np.random.default_rng([seed, states])
        grammar = random_grammar(rng, interminals=1, preterminals=2, words=3, states=(2, states), density=0.5)
        assert any(rule.tolist().count(rule[0]) > 1 for rule in grammar.rules)
        other = permute(noisy(grammar, rng, noise), random_orders(rng, grammar))
        match = match_grammars(grammar, other)
        least = least_distance(grammar, other)
        assert match.total == pytest.approx(least, rel=1e-9)
        assert objective_of(match, grammar, other) == pytest.approx(least, rel=1e-9)


@pytest.mark.slow
def test_grammars_with_nothing_in_common():
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, interminals=1, preterminals=2, words=3, states=(2, 3), density=0.5)
        other = noisy(grammar, rng, 1.0)
        least = least_distance(grammar, other)
        total = match_grammars(grammar, other).total
        assert total > least - 1e-9
        found.append(total < least + 1e-9)
    assert np.mean(found) > 0.8


def repeating_grammar(rng, states: int) -> TensorGrammar:
    """Return a grammar in which only rules that repeat their symbol tell its states apart."""
    tensor = 0.45 * rng.dirichlet(np.ones(states**2), size=states).reshape((states,) * 3)
    return TensorGrammar.from_parts(
        root={"A": np.full(states, 1 / states)},
        rules={("A", "A", "A"): tensor, ("A", "P", "P"): np.full((states, 1, 1), 0.55)},
        words={("P", "x"): 1.0},
    )


def test_a_symbol_on_all_sides_of_its_rule():
    exact = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        grammar = repeating_grammar(rng, 4)
        other = permute(noisy(grammar, rng, 0.1), [rng.permutation(4), np.arange(1)])
        match = match_grammars(grammar, other, starts=8)
        least = least_distance(grammar, other)
        assert match.total > least - 1e-9
        exact += match.total < least + 1e-9
    assert exact == 8


@pytest.mark.parametrize("kind", ["one symbol in all places", "many symbols"])
def test_endings_cannot_be_improved_by_swapping_two_states(kind):
    """Whatever the start."""
    rng = np.random.default_rng(0)
    grammar = repeating_grammar(rng, 5) if kind.startswith("one") else random_grammar(rng, states=(3, 3), density=0.3)
    both = Pair(grammar, noisy(grammar, rng, 0.8))
    for _ in range(10):
        orders = both.improve(random_orders(rng, grammar))
        value = both.objective(orders)
        for a, size in enumerate(grammar.states.tolist()):
            for i, j in product(range(size), repeat=2):
                other = [order.copy() for order in orders]
                other[a][[i, j]] = other[a][[j, i]]
                assert both.objective(other) >= value - 1e-9


def test_objective_is_the_twins():
    rng = np.random.default_rng(5)
    grammar = random_grammar(rng, states=(1, 4))
    other = renumbered(noisy(grammar, rng, 0.5), rng)
    both = Pair(grammar, other)
    orders = random_orders(rng, grammar)
    by_name = dict(zip(grammar.symbols, orders, strict=True))
    ours = parameters(grammar, [range(int(size)) for size in grammar.states])
    expected = distance(ours, parameters(other, [by_name[name] for name in other.symbols]))
    assert both.objective(orders) == pytest.approx(expected, rel=1e-12)
    better = both.improve(orders)
    assert both.objective(better) < both.objective(orders)


# Other numbers of states, rules and words.


def without_state(grammar: TensorGrammar, name: str, state: int) -> TensorGrammar:
    """Return the grammar without one state of a symbol, weights as they were (not normalised)."""
    keep = [np.arange(int(size)) for size in grammar.states]
    a = grammar.symbols.index(name)
    keep[a] = np.delete(keep[a], state)
    names, n_inner = grammar.symbols, grammar.n_interminals
    states = np.array([len(kept) for kept in keep], np.int32)
    vectors = {
        (p, x): grammar.lexical_vector(n_inner + p, word)[keep[n_inner + p]]
        for p in range(len(names) - n_inner)
        for x, word in enumerate(grammar.lexicon.words)
    }
    flat = np.concatenate([grammar.state_offsets[b] + kept for b, kept in enumerate(keep)])
    return replace(
        grammar,
        states=states,
        tensors=np.concatenate(
            [grammar.tensor(r)[np.ix_(*(keep[s] for s in rule))].ravel() for r, rule in enumerate(grammar.rules)]
        ),
        root=grammar.root[flat],
        occupancy=grammar.occupancy[flat],
        emissions=plain_emissions(grammar.lexicon.words, names[n_inner:], states[n_inner:], vectors),
    )


@pytest.mark.parametrize("name", ["A0", "P1"])
def test_fewer_states(name):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, interminals=2, preterminals=2, words=5, states=(3, 3))
        gone = int(rng.integers(3))
        orders = random_orders(rng, grammar)
        a = grammar.symbols.index(name)
        smaller = without_state(permute(grammar, orders), name, int(np.argsort(orders[a])[gone]))
        match = match_grammars(grammar, smaller)
        assert not match.is_complete
        assert match.permutations[a][gone] == -1
        assert sorted(match.permutations[a].tolist()) == [-1, 0, 1]
        assert not any(len(rest) for rest in match.unmatched)
        assert match.largest < EXACT
        # The other way round.
        match = match_grammars(smaller, grammar)
        assert match.unmatched[a].tolist() == [gone]
        assert not match.is_complete
        assert match.largest < EXACT
        assert match.order[a].tolist()[-1] == gone
        assert sorted(match.order[a].tolist()) == [0, 1, 2]


def test_fewer_states_by_listing():
    rng = np.random.default_rng(2)
    grammar = random_grammar(rng, interminals=1, preterminals=2, words=3, states=(3, 3), density=0.4)
    other = random_grammar(rng, interminals=1, preterminals=2, words=3, states=(2, 2), density=0.4)
    for ours, theirs in ((grammar, other), (other, grammar)):
        match = match_grammars(ours, theirs, starts=10)
        assert objective_of(match, ours, theirs) == pytest.approx(least_distance(ours, theirs), rel=1e-9)


def test_rules_and_words_that_one_grammar_lacks():
    half = {"root": {"S": 1.0}}
    ours = TensorGrammar.from_parts(
        **half, rules={("S", "N", "V"): 0.7, ("S", "N", "S"): 0.3}, words={("N", "dogs"): 1.0, ("V", "sleep"): 1.0}
    )
    theirs = TensorGrammar.from_parts(
        **half, rules={("S", "N", "V"): 1.0}, words={("N", "cats"): 0.4, ("N", "dogs"): 0.6, ("V", "sleep"): 1.0}
    )
    for match in (match_grammars(ours, theirs), match_grammars(theirs, ours)):
        assert match.rules.largest == pytest.approx(0.3)
        assert match.rules.total == pytest.approx(0.6)
        assert match.words.largest == pytest.approx(0.4)
        assert match.words.total == pytest.approx(0.8)
        assert match.roots.total == 0
        assert match.largest == pytest.approx(0.4)
        assert match.total == pytest.approx(1.4)


def test_grammars_that_cannot_be_matched():
    rng = np.random.default_rng(0)
    grammar, other = random_grammar(rng), random_grammar(rng, preterminals=4)
    with pytest.raises(GrammarError, match="P3"):
        match_grammars(grammar, other)
    with pytest.raises(GrammarError, match="real-valued"):
        match_grammars(grammar, random_grammar(rng, real=True))


# Permuting.


def test_permuting_changes_no_probability():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, states=(1, 4))
        other = permute(grammar, random_orders(rng, grammar)).validate()
        assert other.probabilistic
        for tree in grammar.sample(5, random_state=rng, max_words=10):
            assert tree_probability(other, tree) == pytest.approx(tree_probability(grammar, tree), rel=1e-12)


def test_permuting_preterminals_that_share_their_words():
    """`NN` and `NP|NN` have one emitter; after permuting, each has its own order, and share of the tag's weights."""
    grammar = random_grammar(np.random.default_rng(1), preterminals=2, states=(3, 3))
    old = grammar.emissions
    entries, share = np.flatnonzero(old.symbol == 0), np.array([0.5, 0.4, 0.7])
    shared = replace(
        old,
        offsets=np.arange(len(old.offsets)).clip(max=old.lexicon.n_words),
        symbol=old.symbol[entries],
        values=np.concatenate([(1 - share) * old.values[3 * entry : 3 * entry + 3] for entry in entries]),
        emitter=np.zeros(2, np.int32),
        share=np.concatenate([share, np.zeros(3)]),
        tag_of=np.zeros(2, np.int32),
        tag_offsets=np.array([0, 1, 1, 1, 1, 1]),
        tag=np.zeros(1, np.int32),
        tag_values=np.ones(1),
    )
    grammar = replace(grammar, emissions=shared).validate()
    orders = [np.array([2, 0, 1])] * 3 + [np.array([1, 2, 0]), np.array([2, 1, 0])]
    other = permute(grammar, orders).validate()
    for a in (3, 4):
        for word in grammar.lexicon.words:
            ours, theirs = grammar.lexical_vector(a, word), other.lexical_vector(a, word)
            np.testing.assert_array_equal(theirs, ours[orders[a]])


def test_bad_permutations():
    grammar = random_grammar(np.random.default_rng(0), states=(2, 2))
    good = [np.array([1, 0])] * len(grammar.symbols)
    for bad in (good[1:], [np.array([0, 0]), *good[1:]], [np.array([0, 1, 2]), *good[1:]]):
        with pytest.raises(UsageError, match="one permutation"):
            permute(grammar, bad)


# Columns of matrices.


def test_columns():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(1, 6))
        ours, theirs = rng.dirichlet(np.ones(6), size=m).T, rng.dirichlet(np.ones(6), size=m).T
        found = match_columns(ours, theirs)
        least = min(np.abs(ours - theirs[:, list(order)]).sum() for order in permutations(range(m)))
        assert sorted(found.tolist()) == list(range(m))
        assert np.abs(ours - theirs[:, found]).sum() == pytest.approx(least, abs=1e-12)


def test_other_numbers_of_columns():
    rng = np.random.default_rng(0)
    ours = rng.normal(size=(7, 5))
    order = rng.permutation(5)
    assert match_columns(ours, ours[:, order][:, :3]).tolist() == [
        place if place < 3 else -1 for place in np.argsort(order).tolist()
    ]
    assert match_columns(ours[:, order[:3]], ours).tolist() == order[:3].tolist()


@pytest.mark.usefixtures("unchecked_shapes")
def test_columns_of_other_lengths():
    ours = np.random.default_rng(0).normal(size=(7, 5))
    with pytest.raises(UsageError, match="as many rows"):
        match_columns(ours, ours[:4])
