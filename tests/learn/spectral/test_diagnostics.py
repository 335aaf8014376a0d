"""What a treebank can carry: the states that are there are found, and no others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.errors import UsageError
from sapwood.learn.spectral.diagnostics import (
    Anchor,
    Diagnosis,
    SampleComplexity,
    SymbolDiagnosis,
    bootstrap_means,
    diagnose,
)
from sapwood.learn.spectral.learner import Spectral
from sapwood.learn.spectral.sample_complexity import estimate_bound
from sapwood.research.pivot_grammars import random_pivot_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

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


@pytest.mark.parametrize(
    ("asked", "sharpness", "verdict"),
    [
        (4, 0.9, "This treebank supports 4 states for most of its nodes; pivot learning can rely on its anchors."),
        (
            5,
            0.9,
            "This treebank does not support 5 states for most of its nodes; pivot learning can rely on its anchors.",
        ),
        (4, 0.1, "This treebank supports 4 states for most of its nodes; the pivot assumption fails for most states."),
    ],
)
def test_the_verdict_is_one_sentence(asked, sharpness, verdict):
    bounds = ((1.0,) * 4, (0.5,) * 4, (1.0,) * 4)
    symbol = SymbolDiagnosis("NP", 9, 4, *bounds, (Anchor("f", sharpness, 0.1),))
    assert Diagnosis(7, asked, (symbol,)).words().splitlines()[3] == verdict


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
    found = [diagnose(corpus, states=4, min_count=20, threads=threads).to_dict() for threads in (1, 3)]
    assert found[0] == found[1]
    assert json.loads(json.dumps(found[0]))["trees"] == 120


@pytest.mark.parametrize("settings", [{"states": 1}, {"min_count": 0}, {"resamples": 1}, {"confidence": 1.0}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(UsageError):
        diagnose(Corpus.from_trees(made_up_treebank(10)), **settings)


def test_too_few_trees():
    with pytest.raises(UsageError, match="too few to divide into halves"):
        diagnose(Corpus.from_trees(made_up_treebank(3)))


# Theorem 3.


@pytest.mark.parametrize("features", ["simple", "rich"])
def test_sample_complexity_has_the_smallest_last_singular_value(features):
    corpus = drawn(800, STATES)
    found = diagnose(corpus, states=4, features=features, min_count=100)
    ours = found.sample_complexity
    hidden = [each for each in found.symbols if each.states > 1]
    last = {each.symbol: each.values[each.states - 1] for each in hidden}
    assert ours.symbol == min(last, key=last.get)
    assert ours.sigma == min(last.values())
    assert ours.lower == min(each.lower[each.states - 1] for each in hidden)
    assert ours.upper == min(each.upper[each.states - 1] for each in hidden)
    assert ours.lower <= ours.sigma <= ours.upper
    assert (ours.fewest, ours.most) == (found.symbols[-1].nodes, found.symbols[0].nodes)
    # The other constants are those of the whole treebank with as many states.
    bound = estimate_bound(corpus, found.state_counts(), features=features)
    assert (ours.smallest, ours.scale) == pytest.approx((bound.smallest, bound.scale), rel=5e-3)
    assert ours.scale > 1 or features == "simple"
    assert (ours.states, ours.rules) == (bound.states, bound.rules)
    needed = replace(bound, sigma=ours.sigma / bound.scale).samples(ours.nodes, ours.error, ours.delta)
    assert ours.required == pytest.approx(needed, rel=5e-3)
    sizes = np.diff(Spectral().problem(corpus).trees.corpus.offsets)
    assert ours.nodes == int(np.median(sizes))
    assert found == diagnose(corpus, states=4, features=features, min_count=100, threads=2)
    assert json.loads(json.dumps(found.to_dict()))["sample_complexity"]["required"] == ours.required


@pytest.mark.parametrize(
    ("required", "verdict"),
    [(2e45, "the bound is far too loose to plan a treebank by."), (200.0, "this treebank has as many.")],
)
def test_sample_complexity_in_words(required, verdict):
    ours = SampleComplexity(
        sigma=0.0861, lower=0.002, upper=0.181, symbol="NP", smallest=2.3e-13, scale=9.3, states=16, rules=14013,
        nodes=51, error=0.1, delta=0.05, required=required, fewest=207, most=26850,
    )  # fmt: skip
    first, second = ours.words().splitlines()
    assert first == "Theorem 3: sigma 0.0861 [0.002, 0.181] (NP), Lambda 2.3e-13, 16 states, 14,013 rules."
    assert second.startswith("For an error of 10% on a tree of 51 nodes it requires 2e+")
    assert second.endswith(f"nodes of every symbol (here 207 to 26,850): {verdict}")
    assert ours.words() in Diagnosis(7, 16, (), ours).words()


def test_sample_complexity_without_hidden_states():
    trees = [Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9
    ours = diagnose(Corpus.from_trees(trees), min_count=1).sample_complexity
    assert (ours.sigma, ours.lower, ours.upper, ours.symbol, ours.states) == (1.0, 1.0, 1.0, "", 1)
    assert "sigma 1 [1, 1], Lambda" in ours.words()
    assert diagnose(Corpus.from_trees(trees), min_count=99).sample_complexity is None
