"""What a treebank can carry: the states that are there are found, and no others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from made_up import made_up_treebank
from oracles.pivot_population import random_pivot_grammar
from sapwood.errors import UsageError
from sapwood.learn.diagnosis import Anchor, Diagnosis, SymbolDiagnosis, bootstrap_means, diagnose
from sapwood.trees.corpus import Corpus

STATES = 3


def drawn(trees: int, states: int, **settings) -> Corpus:
    grammar = random_pivot_grammar(
        np.random.default_rng(0), interminals=2, preterminals=2, words=8, states=(states, states), **settings
    )
    return Corpus.from_trees(grammar.sample(trees, random_state=1, max_words=1000))


def test_as_many_states_as_there_are():
    """Three states and pivots: three are found, though six are looked for, and the anchors are sharp."""
    found = diagnose(drawn(6000, STATES), states=6, features="simple")
    assert [each.states for each in found.symbols] == [STATES] * 4
    for each in found.symbols:
        assert all(low <= value <= high for low, value, high in zip(each.lower, each.values, each.upper, strict=True))
        assert each.lower[STATES - 1] > 0 >= each.lower[STATES]
        assert each.sharp == STATES
        assert min(anchor.frequency for anchor in each.anchors) > 0.01
    assert "the pivot assumption fails" not in found.words()
    assert found.state_counts() == dict.fromkeys([each.symbol for each in found.symbols], STATES)


def test_symbols_with_states_enough_are_counted():
    counts = {"NP": 60, "VP": 30, "S": 10}
    symbols = tuple(
        SymbolDiagnosis(
            name, nodes, states, (1.0,) * states, (0.5,) * states, (1.0,) * states, (Anchor("f", 0.9, 0.1),)
        )
        for (name, nodes), states in zip(counts.items(), (4, 3, 2), strict=True)
    )
    for asked, number, share in ((2, 3, 100), (3, 2, 90), (4, 1, 60), (5, 0, 0)):
        said = f"with {asked} states for {number} symbols ({share}% of nodes), with two or more for 3."
        assert said in Diagnosis(7, asked, symbols).words()


def test_no_states_where_there_are_none():
    found = diagnose(drawn(3000, 1), states=6, features="simple")
    assert [each.states for each in found.symbols] == [1] * 4
    assert "Pivots: none." in found.words()
    assert "no hidden states hold on other trees" in found.words()


def test_pivots_that_leak_are_not_sharp():
    sharp, leaking = (
        [anchor.sharpness for each in diagnose(drawn(6000, STATES, epsilon=leak), states=STATES).symbols
         for anchor in each.anchors]
        for leak in (0.0, 0.6)
    )  # fmt: skip
    assert np.mean(sharp) > 0.9
    assert min(sharp) > 0.6
    assert np.mean(leaking) < np.mean(sharp)


def test_bounds_by_drawing_trees():
    """Nodes of a tree that all say the same are worth no more than one."""
    rng = np.random.default_rng(0)
    once = rng.normal(0.3, 1.0, size=(400, 1))
    for times in (1, 25):
        values, tree = np.repeat(once, times, axis=0), np.repeat(np.arange(400), times)
        mean, lower, upper = bootstrap_means(values, tree, 2000, 0.95, np.random.default_rng(1))
        assert mean[0] == pytest.approx(once.mean())
        assert (upper - lower)[0] == pytest.approx(2 * 1.96 * once.std() / 20, rel=0.1)


def test_the_same_on_any_number_of_threads():
    corpus = Corpus.from_trees(made_up_treebank(120))
    found = [diagnose(corpus, states=4, least=20, threads=threads).to_dict() for threads in (1, 3)]
    assert found[0] == found[1]
    assert json.loads(json.dumps(found[0]))["trees"] == 120


@pytest.mark.parametrize("settings", [{"states": 1}, {"least": 0}, {"resamples": 1}, {"confidence": 1.0}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(UsageError):
        diagnose(Corpus.from_trees(made_up_treebank(10)), **settings)


def test_too_few_trees():
    with pytest.raises(UsageError, match="cannot be divided into halves"):
        diagnose(Corpus.from_trees(made_up_treebank(3)))
