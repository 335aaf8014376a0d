"""Theorem 3 of the long paper: what it says, and that it holds with noise as large as a sample's can be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.spectral_core import Moments, assemble, project
from oracles.spectral_population import population
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.spectral.bounds import SampleBound
from sapwood.testing.grammars import random_grammar

STATES = 2


@given(
    st.floats(1e-3, 1), st.floats(1e-4, 1), st.integers(1, 9), st.integers(1, 99), st.integers(1, 40),
    st.floats(1e-3, 3), st.floats(1e-3, 0.9),
)  # fmt: skip
def test_as_printed(sigma, smallest, states, rules, nodes, error, delta):
    bound = SampleBound(sigma, smallest, states, rules)
    root = (1 + error) ** (1 / (2 * nodes + 1))
    printed = 128 * states**2 / ((root - 1) ** 2 * smallest**2 * sigma**4) * np.log(2 * states * rules / delta)
    assert bound.samples(nodes, error, delta) == pytest.approx(printed, rel=1e-6)
    assert bound.error(nodes, bound.samples(nodes, error, delta), delta) == pytest.approx(error, rel=1e-9)
    assert bound.error(nodes + 1, printed, delta) > error > bound.error(nodes, 2 * printed, delta)


def quantities(grammar: TensorGrammar) -> tuple[Moments, SampleBound]:
    """Return the exact moments under singular vectors, and the bound that they give."""
    source = population(grammar, depth=1)
    found = [project(source.omega(a), STATES) for a in range(len(grammar.symbols))]
    moments = source.moments([(left, right) for left, right, _ in found])
    elements = [*(root for root in moments.root if root.any()), *moments.word, *moments.rule]
    elements += [1 / values for _, _, values in found]
    rules = len(grammar.rules) + sum(len(ours) for ours in moments.terminals)
    smallest = min(float(np.abs(part).min()) for part in elements)
    return moments, SampleBound(min(float(values[STATES - 1]) for _, _, values in found), smallest, STATES, rules)


def noisy(moments: Moments, samples: float, rng: np.random.Generator) -> Moments:
    """Return moments off by the most that means of so many numbers between -1 and 1 are off, in standard deviations."""

    def off(parts):
        return [part + rng.standard_normal(part.shape) / np.sqrt(samples) for part in parts]

    root = [part + rng.standard_normal(part.shape) / np.sqrt(samples) * part.any() for part in moments.root]
    return replace(moments, sigma=off(moments.sigma), rule=off(moments.rule), word=off(moments.word), root=root)


def tree_weights(moments: Moments) -> np.ndarray:
    """Return the weights of all trees of three words: `((x y) z)` by every pair of rules, 5 nodes."""
    weights = assemble(moments)
    inner = moments.n_interminals
    tensors = np.split(weights.tensors, np.cumsum([part.size for part in moments.rule])[:-1])
    tensors = [part.reshape(moment.shape) for part, moment in zip(tensors, moments.rule, strict=True)]
    roots = np.split(weights.root, np.cumsum(weights.states)[:-1])
    found = []
    rules = moments.rules.tolist()
    for (top, (a, b, c)), (below, (d, e, f)) in product(enumerate(rules), repeat=2):
        if d == b and min(c, e, f) >= inner and moments.root[a].any():
            for x, y, z in product(*(weights.lexical[symbol - inner] for symbol in (e, f, c))):
                found.append(roots[a] @ tensors[top] @ z @ (tensors[below] @ y @ x))
    return np.array(found)


def test_the_bound_holds():
    """With samples as large as it asks for, all trees are as near as it says; with far fewer they are not."""
    checked = broken = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, states=(STATES, STATES))
        try:
            moments, bound = quantities(grammar)
        except UsageError:  # a symbol whose states cannot be told apart
            continue
        exact = tree_weights(moments)
        if not len(exact):
            continue
        checked += 1
        for error in (0.1, 1.0):
            needed = bound.samples(nodes=5, error=error, delta=0.1)
            ratio = tree_weights(noisy(moments, needed, rng)) / exact
            assert (np.abs(ratio - 1) <= error).all()
            ratio = tree_weights(noisy(moments, needed / 1e20, rng)) / exact
            broken += bool((np.abs(ratio - 1) > error).any())
    assert checked >= 4
    assert broken > checked


@pytest.mark.parametrize(
    "call",
    [
        lambda: SampleBound(0.0, 0.1, 2, 3),
        lambda: SampleBound(0.1, 0.0, 2, 3),
        lambda: SampleBound(0.1, 0.1, 0, 3),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(0, 0.1),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(3, 0.0),
        lambda: SampleBound(0.1, 0.1, 2, 3).samples(3, 0.1, 1.0),
        lambda: SampleBound(0.1, 0.1, 2, 3).error(3, 0.0),
    ],
)
def test_what_makes_no_sense(call):
    with pytest.raises(UsageError):
        call()


def test_an_error_beyond_numbers():
    assert SampleBound(1e-6, 1e-6, 2, 3).error(nodes=100, samples=1.0) == np.inf
