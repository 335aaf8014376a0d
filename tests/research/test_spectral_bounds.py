"""Theorem 3 for known grammars: its constants, and that it holds with noise as large as a sample's can be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research import exact_bound
from sapwood.research.exact_moments import population
from sapwood.research.observable_representation import Moments, assemble, project
from sapwood.testing.grammars import random_grammar

STATES = 2


def exact_moments(grammar: TensorGrammar) -> Moments:
    """Return the exact moments under singular vectors."""
    source = population(grammar, depth=1)
    found = [project(source.omega(a), STATES) for a in range(len(grammar.symbols))]
    return source.moments([(left, right) for left, right, _ in found])


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
            bound = exact_bound(grammar, depth=1)
        except GrammarError:  # a symbol whose features do not distinguish its states
            continue
        moments = exact_moments(grammar)
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


def test_elements_that_are_zero_are_ignored():
    """With one state, constants are chances: the rule's, the words', and those of both singular vectors."""
    words = {("P", "a"): 0.25, ("P", "b"): 0.75, ("X", "a"): 1.0}
    rules = {("S", "P", "P"): 1.0, ("Y", "X", "X"): 1.0}  # X and Y never occur
    bound = exact_bound(TensorGrammar.from_parts(root={"S": 1.0}, rules=rules, words=words), depth=1)
    length = np.hypot(0.25, 0.75)
    assert bound.sigma == pytest.approx(length * np.sqrt(0.5))
    assert bound.smallest == pytest.approx(0.25 * np.sqrt(0.5))
    assert (bound.states, bound.rules) == (1, 3)
    assert bound.scale == pytest.approx(1.0)


def test_states_that_features_do_not_distinguish():
    same = {("P", "a"): [0.25, 0.25], ("P", "b"): [0.75, 0.75]}
    rules = {("S", "P", "P"): np.array([[[0.4, 0.3], [0.2, 0.1]]])}
    with pytest.raises(GrammarError, match="P: its features distinguish 1 of its 2 states, so sigma is 0"):
        exact_bound(TensorGrammar.from_parts(root={"S": [1.0]}, rules=rules, words=same))
    with pytest.raises(UsageError, match="1 or 2 rules"):
        exact_bound(TensorGrammar.from_parts(root={"S": [1.0]}, rules=rules, words=same), depth=3)
