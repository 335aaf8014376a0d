"""Lexical weights with back-off and sharing, against the formula of the module's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.errors import GrammarError
from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.testing.grammars import random_bases
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import SignatureModel

STATES = np.array([2, 1, 3], np.int32)
TAG_OF = np.array([0, 1, 0], np.int32)


def tables(seed: int) -> tuple[Emissions, dict[tuple[int, int], np.ndarray], dict[tuple[int, int], float]]:
    """Return random emissions with everything in use, and their `E` and `G` as plain dictionaries."""
    rng = np.random.default_rng(seed)
    rare = [("Anna", False), ("Anna", True), ("12", False), ("walking", False)] * 20
    lexicon = Lexicon.build(["dog", "Oslo", "7"], rare, SignatureModel(frozenset({"g", "ing"}), frozenset()))
    terminals = range(lexicon.n_terminals)
    own = {(x, a): rng.random(STATES[a]) for x in terminals for a in range(3) if rng.random() < 0.6}
    tag = {(x, t): float(rng.random()) for x in terminals for t in range(2) if rng.random() < 0.6}
    emissions = Emissions(
        lexicon=lexicon,
        states=STATES,
        offsets=np.searchsorted([x for x, _ in own], range(lexicon.n_terminals + 1)),
        symbol=np.array([a for _, a in own], np.int32),
        values=np.concatenate(list(own.values())),
        backoff=rng.random(lexicon.n_terminals),
        climb=rng.random(len(lexicon.signatures)),
        tags=["N", "V"],
        tag_of=TAG_OF,
        share=rng.random(STATES.sum()),
        tag_offsets=np.searchsorted([x for x, _ in tag], range(lexicon.n_terminals + 1)),
        tag=np.array([t for _, t in tag], np.int32),
        tag_values=np.array(list(tag.values())),
    )
    return emissions, own, tag


def by_formula(emissions: Emissions, own, tag, a: int, x: int) -> np.ndarray:
    """Return `q(a -> x)` as the module's text writes it."""
    lexicon, n = emissions.lexicon, emissions.lexicon.n_words
    begin = int(STATES[:a].sum())
    share = emissions.share[begin : begin + STATES[a]]

    def plain(terminal: int) -> np.ndarray:
        return own.get((terminal, a), np.zeros(STATES[a])) + share * tag.get((terminal, int(TAG_OF[a])), 0.0)

    def starred(signature: int) -> np.ndarray:
        above = int(lexicon.parent[signature])
        lean = 0.0 if above == signature else emissions.climb[signature] * starred(above)
        return plain(n + signature) + lean

    signature = int(lexicon.word_signature[x]) if x < n else x - n
    return (plain(x) if x < n else 0.0) + emissions.backoff[x] * starred(signature)


@pytest.mark.parametrize("seed", range(20))
def test_rows_columns_and_totals(seed):
    emissions, own, tag = tables(seed)
    lexicon = emissions.lexicon
    assert len(lexicon.signatures) >= 6  # a chain of some length
    expected = np.array(
        [np.concatenate([by_formula(emissions, own, tag, a, x) for a in range(3)]) for x in range(lexicon.n_terminals)]
    )
    rows = np.array([emissions.row(x) for x in range(lexicon.n_terminals)])
    np.testing.assert_allclose(rows, expected, rtol=1e-12)
    np.testing.assert_allclose(np.hstack([emissions.column(a) for a in range(3)]), expected, rtol=1e-12)
    np.testing.assert_allclose(emissions.totals(), expected.sum(axis=0), rtol=1e-12)


def test_arrays_round_trip():
    emissions, _, _ = tables(1)
    arrays = emissions.to_arrays()
    again = Emissions.from_arrays(arrays, STATES).to_arrays()
    assert arrays.keys() == again.keys()
    for name, array in arrays.items():
        assert array.dtype == again[name].dtype
        np.testing.assert_array_equal(array, again[name])


def test_change_of_basis():
    emissions, _, _ = tables(2)
    plain = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "N", "V"): np.ones((1, 2, 1)), ("S", "N", "X|N"): np.ones((1, 2, 3))},
        words={("N", "x"): [1.0, 1.0], ("V", "x"): 1.0, ("X|N", "x"): [1.0, 1.0, 1.0]},
        probabilistic=False,
    )
    grammar = replace(plain, emissions=emissions).validate()
    bases = random_bases(np.random.default_rng(0), grammar)
    turned = grammar.conjugate(bases)
    for word, initial in (
        ("dog", False),
        ("Berta", True),
        ("Berta", False),
        ("singing", False),
        ("99", False),
    ):
        for symbol in range(1, 4):
            np.testing.assert_allclose(
                turned.lexical_vector(symbol, word, initial=initial),
                grammar.lexical_vector(symbol, word, initial=initial) @ np.linalg.inv(bases[symbol]),
                rtol=1e-10,
                atol=1e-12,
            )


# Preterminals that share an emitter.


def sharing(seed: int) -> tuple[Emissions, Emissions, np.ndarray]:
    """Return random emissions over six preterminals with three emitters, those emitters alone, and who uses which."""
    own, _, _ = tables(seed)
    rng = np.random.default_rng(seed)
    # The users of emitter 0, 1, 2 and their places, in any order; the first of each is the emitter.
    users = rng.permutation([0, 0, 0, 1, 2, 2])
    first = np.array([int(np.flatnonzero(users == number)[0]) for number in range(3)], np.int32)
    states = own.states[users]
    sizes = np.split(own.share, own.state_offsets[1:-1])
    # What stands in the places of those that are no emitters is of no importance.
    share = np.concatenate(
        [sizes[user] if first[user] == place else rng.random(states[place]) for place, user in enumerate(users)]
    )
    shared = replace(
        own, states=states, symbol=first[own.symbol], share=share, tag_of=own.tag_of[users], emitter=first[users]
    )
    return shared, own, users


def rows_of(emissions: Emissions) -> np.ndarray:
    return np.array([emissions.row(x) for x in range(emissions.lexicon.n_terminals)])


@pytest.mark.parametrize("seed", range(20))
def test_users_have_their_emitters_weights(seed):
    shared, own, users = sharing(seed)
    parts = np.split(rows_of(own), own.state_offsets[1:-1], axis=1)
    expected = np.hstack([parts[user] for user in users])
    np.testing.assert_array_equal(rows_of(shared), expected)
    np.testing.assert_array_equal(
        np.hstack([shared.column(place) for place in range(6)]), np.hstack([own.column(user) for user in users])
    )
    np.testing.assert_allclose(shared.totals(), expected.sum(axis=0), rtol=1e-12)
    # As dense rows have it: each position's own emitter and state.
    position = 0
    for place, user in enumerate(users):
        emitter = int(np.flatnonzero(users == user)[0])
        for state in range(shared.states[place]):
            assert shared.emitting_state[position] == shared.state_offsets[emitter] + state
            position += 1


@pytest.mark.parametrize("seed", range(20))
def test_separate_emitters_have_the_same_weights(seed):
    shared, own, users = sharing(seed)
    apart = shared.separate()
    assert apart.emitter is None
    np.testing.assert_allclose(rows_of(apart), rows_of(shared), rtol=1e-15)
    np.testing.assert_allclose(apart.totals(), shared.totals(), rtol=1e-12)
    for place in range(6):
        np.testing.assert_allclose(apart.column(place), shared.column(place), rtol=1e-15)
    assert len(apart.values) == sum(
        own.states[symbol] * np.sum(users == symbol) for symbol in own.symbol
    )  # every user has vectors of its own
    assert apart.separate() is apart
    assert own.separate() is own


def test_shared_arrays_round_trip():
    shared, _, _ = sharing(3)
    arrays = shared.to_arrays()
    again = Emissions.from_arrays(arrays, shared.states)
    np.testing.assert_array_equal(again.emitter, shared.emitter)
    np.testing.assert_array_equal(rows_of(again), rows_of(shared))
    assert "emissions.emitter" not in shared.separate().to_arrays()


def grammar_with(emissions: Emissions) -> TensorGrammar:
    """Return a grammar over six preterminals that differ in what stands above the tag."""
    words = {(f"P{place}", "x"): np.ones(size) for place, size in enumerate(emissions.states)}
    rules = {
        ("S", f"P{place}", f"P{(place + 1) % 6}"): np.ones((1, size, emissions.states[(place + 1) % 6]))
        for place, size in enumerate(emissions.states)
    }
    plain = TensorGrammar.from_parts(root={"S": 1.0}, rules=rules, words=words, probabilistic=False)
    return replace(plain, emissions=emissions).validate()


@pytest.mark.parametrize("seed", range(5))
def test_change_of_basis_of_those_that_share(seed):
    """Each preterminal turns its own way, whoever emits its words."""
    shared, _, _ = sharing(seed)
    grammar = grammar_with(shared)
    bases = random_bases(np.random.default_rng(seed), grammar)
    turned = grammar.conjugate(bases).validate()
    for word, initial in (("dog", False), ("Berta", True), ("singing", False)):
        for symbol in range(1, 7):
            np.testing.assert_allclose(
                turned.lexical_vector(symbol, word, initial=initial),
                grammar.lexical_vector(symbol, word, initial=initial) @ np.linalg.inv(bases[symbol]),
                rtol=1e-10,
                atol=1e-12,
            )


def test_a_grammar_whose_words_are_shared_is_saved_whole(tmp_path):
    grammar = grammar_with(sharing(4)[0])
    grammar.save(tmp_path / "grammar")
    again = TensorGrammar.load(tmp_path / "grammar")
    assert again == grammar
    np.testing.assert_array_equal(rows_of(again.emissions), rows_of(grammar.emissions))
    assert replace(grammar, emissions=grammar.emissions.separate()) != grammar


@pytest.mark.parametrize("wrong", ["too short", "negative", "too large", "not its own", "other states"])
@pytest.mark.usefixtures("unchecked_shapes")
def test_emitters_that_do_not_fit(wrong):
    shared, _, users = sharing(5)
    emitter = np.array(shared.emitter)
    lonely = int(np.flatnonzero(users == 1)[0])
    some, other = np.flatnonzero(users == 0)[:2]
    if wrong == "too short":
        emitter = emitter[:-1]
    elif wrong == "negative":
        emitter[0] = -1
    elif wrong == "too large":
        emitter[0] = 6
    elif wrong == "not its own":
        emitter[some] = other  # which itself uses `some`
    else:
        emitter[lonely] = some
    grammar = grammar_with(shared)
    with pytest.raises(GrammarError, match=r"emissions\.emitter: "):
        replace(grammar, emissions=replace(shared, emitter=emitter)).validate()
