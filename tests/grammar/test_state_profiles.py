"""Profiles of states against sums that are written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from helpers.effort import examples
from sapwood.grammar.expectations import with_expected_counts
from sapwood.grammar.state_profiles import state_anchors, state_levels, state_profiles
from sapwood.testing.grammars import random_grammar


def written_out(grammar, symbol: int, kind: str) -> dict[str, list[float]]:
    """Return `p(x|a, h)` of rules, words or contexts, by loops over everything."""
    size, offsets = int(grammar.states[symbol]), grammar.state_offsets
    found: dict[str, list[float]] = {}

    def add(name: str, state: int, value: float) -> None:
        found.setdefault(name, [0.0] * size)[state] += value

    for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
        tensor = grammar.tensor(rule)
        for i in range(tensor.shape[0]):
            for j in range(tensor.shape[1]):
                for k in range(tensor.shape[2]):
                    weight = float(tensor[i, j, k])
                    if kind == "rules" and a == symbol:
                        add(f"{grammar.symbols[b]} {grammar.symbols[c]}", i, weight)
                    if kind == "words" and a == symbol:
                        for child, state in ((b, j), (c, k)):
                            if child >= grammar.n_interminals:
                                for word in grammar.lexicon.words:
                                    add(word, i, weight * float(grammar.lexical_vector(child, word)[state]))
                    if kind == "contexts":
                        count = weight * float(grammar.occupancy[offsets[a] + i])
                        if b == symbol:
                            add(f"{grammar.symbols[a]} → _ {grammar.symbols[c]}", j, count)
                        if c == symbol:
                            add(f"{grammar.symbols[a]} → {grammar.symbols[b]} _", k, count)
    if kind == "words" and symbol < grammar.n_interminals:
        # The share of a word among all words right below, known or not.
        number = [0.0] * size
        for rule, (a, *children) in enumerate(grammar.rules.tolist()):
            if a == symbol:
                for i in range(size):
                    below = sum(child >= grammar.n_interminals for child in children)
                    number[i] += below * float(grammar.tensor(rule)[i].sum())
        for row in found.values():
            row[:] = [value / max(count, 1e-300) for value, count in zip(row, number, strict=True)]
    if kind == "words" and symbol >= grammar.n_interminals:
        for word in grammar.lexicon.words:
            for state in range(size):
                add(word, state, float(grammar.lexical_vector(symbol, word)[state]))
    if kind == "contexts":
        for state in range(size):
            add("root", state, float(grammar.root_vector(symbol)[state]))
        for state in range(size):
            total = sum(row[state] for row in found.values())
            for row in found.values():
                row[state] /= max(total, 1e-300)
    return found


@examples(25)
@given(st.integers(0, 2**32 - 1))
def test_profiles_are_what_they_say(seed):
    rng = np.random.default_rng(seed)
    grammar = with_expected_counts(random_grammar(rng, interminals=2, preterminals=2, states=(1, 3)))
    if grammar.occupancy.sum() - 2 * grammar.rule_counts.sum() == pytest.approx(0, abs=1e-6):
        return  # no expected size
    assert grammar.occupancy.sum() - 2 * grammar.rule_counts.sum() == pytest.approx(1)
    for symbol in range(len(grammar.symbols)):
        occupancy = grammar.occupancy[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]]
        if not occupancy.sum() > 1e-9:
            continue
        shares = occupancy / occupancy.sum()
        profiles = state_profiles(grammar, symbol, top=1000)
        assert sorted(profile.state for profile in profiles) == list(range(len(shares)))
        assert [profile.count for profile in profiles] == sorted((p.count for p in profiles), reverse=True)
        for kind in ("rules", "words", "contexts"):
            expected = written_out(grammar, symbol, kind)
            for profile in profiles:
                telling = getattr(profile, kind)
                for name, probability, lift in telling:
                    row = expected[name]
                    assert probability == pytest.approx(row[profile.state], rel=1e-6)
                    assert lift == pytest.approx(row[profile.state] / (shares @ row), rel=1e-6)
                if len(shares) > 1:
                    scores = [p * math.log(lift) for _, p, lift in telling]
                    assert scores == sorted(scores, reverse=True)
                    more = {name for name, row in expected.items() if row[profile.state] > (shares @ row) * (1 + 1e-9)}
                    assert more <= {item.name for item in telling}


def test_probabilities_sum_to_at_most_one():
    grammar = sapwood.load("en").grammar
    for label, preterminal in (("NP", False), ("DT", True), ("ADVP", False)):
        for profile in state_profiles(grammar, grammar.symbol_number(label, preterminal=preterminal), top=10**6):
            for telling in (profile.rules, profile.words, profile.contexts):
                assert sum(one.probability for one in telling) <= 1 + 1e-5


def test_states_of_a_real_grammar():
    grammar = sapwood.load("en").grammar
    symbol = grammar.symbol_number("NN", preterminal=True)
    assert sum(profile.share for profile in state_profiles(grammar, symbol)) == pytest.approx(1)
    levels = state_levels(grammar, symbol)
    assert len(levels) == len(grammar.levels)
    assert all(len(level) == grammar.states[symbol] for level in levels)


def test_real_valued_weights_tell_nothing():
    from dataclasses import replace

    grammar = replace(sapwood.load("en").grammar, probabilistic=False)
    profiles = state_profiles(grammar, 0)
    assert all(not (profile.rules or profile.words or profile.contexts) for profile in profiles)


def test_anchors_are_told_only_if_they_fit():
    grammar = random_grammar(np.random.default_rng(3), interminals=2, preterminals=2)
    number = len(grammar.symbols)
    pairs = [[f"word: {state}", None] for state in range(int(grammar.states[0]))]
    told = {"of": [0] + [-1] * (number - 1), "anchors": [pairs]}
    assert state_anchors(grammar.with_info(pivot=told), 0) == [tuple(pair) for pair in pairs]
    assert state_anchors(grammar.with_info(pivot=told), 1) == []
    for wrong in (
        None, [], {"of": [0]}, {**told, "of": [5] * number}, {**told, "of": ["0"] * number},
        {**told, "anchors": [pairs[:-1]]}, {**told, "anchors": [[["a"], *pairs[1:]]]},
        {**told, "anchors": {"0": pairs}}, {**told, "anchors": [[[1, None], *pairs[1:]]]},
    ):  # fmt: skip
        assert state_anchors(grammar.with_info(pivot=wrong), 0) == []
