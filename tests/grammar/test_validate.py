"""Every way in which a grammar can be wrong is found, and the message names the place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.testing.grammars import random_grammar


@pytest.fixture
def grammar() -> TensorGrammar:
    return random_grammar(np.random.default_rng(8), interminals=3, preterminals=2, states=(2, 3))


def changed(array: np.ndarray, position: int, value: float) -> np.ndarray:
    copy = array.copy()
    copy[position] = value
    return copy


@pytest.mark.parametrize("rule", [0, 3, 9])
@pytest.mark.parametrize(
    ("value", "message"),
    [(-0.01, "a probability is negative"), (np.nan, "not a finite"), (np.inf, "not a finite")],
)
def test_bad_weight_names_the_rule(grammar, rule, value, message):
    for position in (grammar.tensor_offsets[rule], grammar.tensor_offsets[rule + 1] - 1):
        bad = replace(grammar, tensors=changed(grammar.tensors, position, value))
        with pytest.raises(GrammarError, match=message) as caught:
            bad.validate()
        assert str(caught.value).startswith(grammar.rule_name(rule) + ":")


def test_not_normalised_names_symbol_and_state(grammar):
    rule = 4
    a = int(grammar.rules[rule, 0])
    tensors = grammar.tensors.copy()
    grammar_tensor = tensors[grammar.tensor_offsets[rule] : grammar.tensor_offsets[rule + 1]]
    grammar_tensor.reshape(grammar.states[grammar.rules[rule]])[1, 0, 0] += 0.25
    with pytest.raises(GrammarError, match=f"{grammar.symbols[a]}, state 1: probabilities sum to 1.25, not 1"):
        replace(grammar, tensors=tensors).validate()
    replace(grammar, tensors=tensors, probabilistic=False).validate()


def test_names_are_unique_in_each_role(grammar):
    n_inner, names = grammar.n_interminals, list(grammar.symbols)
    names[n_inner] = names[0]
    replace(grammar, symbols=names).validate()
    names[1] = names[0]
    with pytest.raises(GrammarError, match=f"{names[0]}: more than one symbol has this name"):
        replace(grammar, symbols=names).validate()


def test_inner_sums(grammar):
    expected = np.zeros(grammar.state_offsets[grammar.n_interminals])
    for rule, (a, _, _) in enumerate(grammar.rules):
        begin = grammar.state_offsets[a]
        expected[begin : begin + grammar.states[a]] += grammar.tensor(rule).sum(axis=(1, 2))
    np.testing.assert_allclose(inner_sums(grammar), expected, rtol=1e-14)


def test_tolerance(grammar):
    off = replace(grammar, tensors=grammar.tensors * (1 + 1e-4))
    with pytest.raises(GrammarError, match="probabilities sum to"):
        off.validate()
    assert off.validate(tolerance=1e-3) is off


@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_root(grammar):
    with pytest.raises(GrammarError, match="root probabilities sum to"):
        replace(grammar, root=grammar.root * 0.9).validate()
    with pytest.raises(GrammarError, match="A1, state 0: a root probability is negative"):
        replace(grammar, root=changed(grammar.root, int(grammar.states[0]), -0.1)).validate()
    with pytest.raises(GrammarError, match=r"root: has the shape \(1,\), expected \(states\) with states = 12"):
        replace(grammar, root=np.ones(1)).validate()


def test_bad_lexical_weight_names_tag_and_word(grammar):
    emissions = grammar.emissions
    # Entries are sorted by word, then by preterminal: the fourth is P1 -> w1.
    at = int(emissions.value_offsets[3])
    for value, message in ((-0.5, "a probability is negative"), (np.nan, "not a finite number")):
        bad = replace(emissions, values=changed(emissions.values, at, value))
        with pytest.raises(GrammarError, match=f"P1 -> w1: .*{message}"):
            replace(grammar, emissions=bad).validate()
    more = replace(emissions, values=changed(emissions.values, at, emissions.values[at] + 0.5))
    with pytest.raises(GrammarError, match=r"P1, state 0: probabilities sum to 1\.5"):
        replace(grammar, emissions=more).validate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda g: {"n_interminals": len(g.symbols)}, "emissions.tag_of: has the shape"),
        (lambda g: {"states": g.states[:-1]}, r"states: has the shape \(4,\), expected \(symbols\) with symbols = 5"),
        (lambda g: {"states": changed(g.states, 1, 0)}, "states: has values from 0 to 3, not 1 or more"),
        (lambda g: {"rules": g.rules[:, :2]}, r"expected \(rules, 3\)"),
        (lambda g: {"rules": changed(g.rules, 2, 99)}, "rules: has values from 0 to 99, not 0 to 4"),
        (
            lambda g: {"rules": changed(g.rules, len(g.rules) - 1, [4, 0, 0])},
            "P1 -> A0 A0: a preterminal cannot be expanded",
        ),
        (lambda g: {"rules": g.rules[::-1]}, "not sorted or repeated"),
        (lambda g: {"rules": changed(g.rules, 1, g.rules[0])}, "not sorted or repeated"),
        (lambda g: {"tensors": g.tensors[:-1]}, "tensor weights, the rules need"),
        (lambda g: {"occupancy": g.occupancy[:-1]}, "occupancy: has the shape"),
        (
            lambda g: {"occupancy": changed(g.occupancy, 0, np.inf)},
            "occupancy: has a value that is not a finite number",
        ),
        (lambda g: {"rule_counts": g.rule_counts[:-1]}, "rule_counts: has the shape"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_arrays_that_do_not_fit(grammar, changes, message):
    with pytest.raises(GrammarError, match=message):
        replace(grammar, **changes(grammar)).validate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda e: {"states": e.states + 1}, "other state counts"),
        (lambda e: {"offsets": e.offsets[:-1]}, "emissions.offsets: has the shape"),
        (lambda e: {"offsets": e.offsets[::-1]}, "emissions.offsets: does not rise from 0 to 8"),
        (lambda e: {"symbol": e.symbol + 1}, "emissions.symbol: has values from 1 to 2, not 0 to 1"),
        (lambda e: {"tag_of": e.tag_of - 5}, "emissions.tag_of: has values from -5"),
        (lambda e: {"values": e.values[:-1]}, "emissions.values: has 19 values, .* need 20"),
        (lambda e: {"backoff": e.backoff[:-1]}, "emissions.backoff: has the shape"),
        (lambda e: {"backoff": e.backoff - 1}, "back-off probability is negative"),
        (
            lambda e: {"share": np.full_like(e.share, np.nan)},
            "emissions.share: has a value that is not a finite number",
        ),
        (
            lambda e: {"lexicon": replace(e.lexicon, word_signature=e.lexicon.word_signature + 1)},
            "lexicon.word_signature: has values from 1",
        ),
        (
            lambda e: {"lexicon": replace(e.lexicon, parent=e.lexicon.parent - 1)},
            "lexicon.parent: has values from -1",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_emissions_that_do_not_fit(grammar, changes, message):
    with pytest.raises(GrammarError, match=message):
        replace(grammar, emissions=replace(grammar.emissions, **changes(grammar.emissions))).validate()
