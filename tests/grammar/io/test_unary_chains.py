from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from oracles.unary_dump import STATES, TAGS, SlowChart, closed, random_rules, write_dump
from sapwood.errors import GrammarError
from sapwood.grammar.io.berkeley import import_berkeley
from sapwood.grammar.io.unary_chains import UnaryGrammar, single_steps
from sapwood.inference import Parser


@pytest.mark.parametrize("seed", range(5))
def test_single_steps_are_found_again(seed):
    unary, _ = random_rules(seed)
    found = single_steps(closed(unary))
    assert found.keys() == unary.keys()
    for pair, table in unary.items():
        np.testing.assert_allclose(found[pair], table, rtol=1e-12)


def test_a_step_that_is_better_than_any_detour_stays_beside_it():
    unary = {("A", "B"): np.array([[0.5, 0.01]]), ("B", "C"): np.array([[0.4], [0.3]]), ("A", "C"): np.array([[0.3]])}
    assert closed(unary)["A", "C"] == 0.3
    found = single_steps(closed(unary))
    assert found["A", "C"] == 0.3
    # A worse one is hidden by the detour, and the dump does not have it.
    unary["A", "C"][:] = 0.1
    assert ("A", "C") not in single_steps(closed(unary))


def test_the_expected_numbers_of_states_are_those_of_the_rules():
    unary, binary = random_rules(1)
    grammar = UnaryGrammar(STATES, unary, binary, TAGS, "ROOT")
    every, as_child = grammar.expected()
    again = {name: np.zeros(size) for name, size in STATES.items()}
    children = {name: np.zeros(size) for name, size in STATES.items()}
    again["ROOT"][0] = 1
    for (a, b), table in unary.items():
        again[b] += grammar.part(every, a) @ table
    for (a, b, c), table in binary.items():
        children[b] += np.einsum("a,abc->b", grammar.part(every, a), table)
        children[c] += np.einsum("a,abc->c", grammar.part(every, a), table)
    for name in STATES:
        np.testing.assert_allclose(grammar.part(every, name), again[name] + children[name], atol=1e-9)
        np.testing.assert_allclose(grammar.part(as_child, name), children[name], atol=1e-9)


def test_trees_that_may_never_end_have_counts_and_circles_are_refused():
    states, start = {"ROOT": 1, "S": 1, "N": 1}, {("ROOT", "S"): np.ones((1, 1))}
    binary = {("S", "S", "S"): np.full((1, 1, 1), 0.9), ("S", "N", "N"): np.full((1, 1, 1), 0.1)}
    every, _ = UnaryGrammar(states, start, binary, ["N"], "ROOT").expected()
    assert (every > 0).all()
    circle = {**start, ("S", "N"): np.ones((1, 1)), ("N", "S"): np.ones((1, 1))}
    with pytest.raises(GrammarError, match="a cycle"):
        UnaryGrammar(states, circle, {("S", "N", "N"): np.zeros((1, 1, 1))}, [], "ROOT").expected()


@pytest.mark.parametrize("seed", range(3))
def test_sentences_are_as_probable_as_with_unary_rules(tmp_path, seed):
    """Folding loses nothing here but what the root has for chains of three steps and more."""
    grammar = import_berkeley(write_dump(tmp_path, seed), min_expected_count=1e-12)
    unary, binary = random_rules(seed)
    whole = UnaryGrammar(STATES, unary, binary, TAGS, "ROOT")
    at_root = sum(
        float((table[0] * whole.stop[chain[-1]]).sum()) for chain, table in whole.chains().items() if chain[0] == "ROOT"
    )
    parser = Parser(grammar, threshold=0)
    for sentence in list(product(["dog", "saw", "of"], repeat=4))[::9]:
        leaves = [
            {
                tag: grammar.lexical_vector(grammar.symbol_number(tag, preterminal=True), word, initial=not place)
                for tag in TAGS
            }
            for place, word in enumerate(sentence)
        ]
        expected = SlowChart(unary, binary, leaves).total / at_root
        found = parser.parse_one(sentence)
        if expected == 0:
            assert found.log_probability is None
        else:
            assert found.log_probability == pytest.approx(math.log(expected), abs=2e-5), sentence


def test_rare_rules_are_left_out_and_what_is_left_is_a_grammar(tmp_path):
    prefix = write_dump(tmp_path)
    sizes = [len(import_berkeley(prefix, min_expected_count=least).rules) for least in (1e-12, 1e-2, 5e-2)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
    with pytest.raises(GrammarError, match="no trees"):
        import_berkeley(prefix, min_expected_count=0.999)
