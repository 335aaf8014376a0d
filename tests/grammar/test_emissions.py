"""Lexical weights with back-off and sharing, against the formula of the module's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.grammar.emissions import Emissions
from sapwood.grammar.random import random_bases
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.lexicon import Lexicon
from sapwood.trees.signatures import SignatureModel

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
