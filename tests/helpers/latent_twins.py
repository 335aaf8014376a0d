"""Slow twins for learning hidden states: everything by enumeration, over all states of all nodes of a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from sapwood.learn.lpcfg.weights import EMData, LatentWeights
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus


def rule_tensor(weights: LatentWeights, rule: int, flat: np.ndarray | None = None) -> np.ndarray:
    """Return the tensor of a rule (of `flat`, if given), `(m_a, m_b, m_c)` float64."""
    flat = weights.tensors if flat is None else flat
    begin = sum(int(np.prod(weights.states[weights.rules[before]])) for before in range(rule))
    shape = tuple(weights.states[weights.rules[rule]].tolist())
    return flat[begin : begin + int(np.prod(shape))].astype(np.float64).reshape(shape)


def pairs_of(trees: EMData, word_class: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of preterminal and class in the order in which their vectors stand."""
    corpus = trees.corpus
    leaves = [node for node in range(corpus.n_nodes) if corpus.word[node] >= 0]
    return sorted({(int(corpus.symbol[node]), int(word_class[corpus.word[node]])) for node in leaves})


def by_pair(
    weights: LatentWeights, pairs: list[tuple[int, int]], flat: np.ndarray
) -> dict[tuple[int, int], np.ndarray]:
    """Return the vectors of a flat table by preterminal and class."""
    sizes = [int(weights.states[symbol]) for symbol, _ in pairs]
    assert len(flat) == sum(sizes)
    return dict(zip(pairs, np.split(flat, np.cumsum(sizes)[:-1]), strict=True))


@dataclass
class Problem:
    """A small corpus, classes of its words, and weights."""

    corpus: Corpus
    word_class: np.ndarray
    trees: EMData
    weights: LatentWeights

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of preterminal and class in order."""
        return pairs_of(self.trees, self.word_class)


def random_corpus(rng: np.random.Generator, *, trees: int, max_words: int, words: int = 4) -> Corpus:
    """Return trees of a random grammar."""
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=words, states=(1, 2))
    return Corpus.from_trees(grammar.sample(trees, random_state=rng, max_words=max_words))


def random_problem(seed: int, *, trees: int = 5, max_words: int = 4, most: int = 3) -> Problem:
    """Return a few small trees with random weights and one to `most` states for each symbol."""
    rng = np.random.default_rng(seed)
    corpus = random_corpus(rng, trees=trees, max_words=max_words)
    classes = np.unique(rng.integers(0, 3, size=len(corpus.words)), return_inverse=True)[1]
    latent = EMData(corpus, classes)
    states = rng.integers(1, most + 1, size=len(corpus.symbols))
    return Problem(corpus, classes, latent, latent.split(latent.one_state(), states, 0.9, rng))


def assignments(problem: Problem, index: int) -> Iterator[tuple[dict[int, int], float]]:
    """Yield each choice of a state for every node of a tree, and the probability of the tree with it."""
    corpus, weights = problem.corpus, problem.weights
    lexical = by_pair(weights, problem.pairs, weights.lexical)
    nodes = list(range(corpus.offsets[index], corpus.offsets[index + 1]))
    tensors = {int(r): rule_tensor(weights, int(r)) for r in set(corpus.rule[nodes]) if r >= 0}
    begin = int(weights.states[: corpus.symbol[nodes[0]]].sum())
    for choice in product(*(range(weights.states[corpus.symbol[node]]) for node in nodes)):
        state = dict(zip(nodes, choice, strict=True))
        probability = float(weights.root[begin + choice[0]])
        for node in nodes:
            if corpus.rule[node] >= 0:
                below = state[int(corpus.left[node])], state[int(corpus.right[node])]
                probability *= tensors[int(corpus.rule[node])][state[node], below[0], below[1]]
            else:
                pair = int(corpus.symbol[node]), int(problem.word_class[corpus.word[node]])
                probability *= lexical[pair][state[node]]
        yield state, probability


@dataclass
class Counted:
    """Expected counts by name: rules with states, preterminals with classes and states, states at roots and anywhere.

    Keys are `(rule, a, b, c)`, `(symbol, class, state)` and `(symbol, state)`.
    """

    rules: dict[tuple[int, int, int, int], float]
    words: dict[tuple[int, int, int], float]
    roots: dict[tuple[int, int], float]
    states: dict[tuple[int, int], float]
    log_likelihoods: list[float]


def enumerated(problem: Problem) -> Counted:
    """Return expected counts by enumeration."""
    corpus = problem.corpus
    found = Counted(defaultdict(float), defaultdict(float), defaultdict(float), defaultdict(float), [])
    for index in range(corpus.n_trees):
        choices = list(assignments(problem, index))
        total = sum(probability for _, probability in choices)
        found.log_likelihoods.append(float(np.log(total)))
        root = int(corpus.offsets[index])
        for state, probability in choices:
            share = probability / total
            found.roots[int(corpus.symbol[root]), state[root]] += share
            for node, own in state.items():
                symbol = int(corpus.symbol[node])
                found.states[symbol, own] += share
                if corpus.rule[node] >= 0:
                    below = state[int(corpus.left[node])], state[int(corpus.right[node])]
                    found.rules[(int(corpus.rule[node]), own, *below)] += share
                else:
                    found.words[symbol, int(problem.word_class[corpus.word[node]]), own] += share
    return found


def normalised(problem: Problem, counted: Counted) -> Counted:
    """Return relative frequencies: what an iteration of EM makes of expected counts."""
    corpus = problem.corpus
    above: dict[tuple[int, int], float] = defaultdict(float)
    for (rule, a, _, _), count in counted.rules.items():
        above[int(corpus.rules[rule, 0]), a] += count
    for (symbol, _, state), count in counted.words.items():
        above[symbol, state] += count
    return Counted(
        {(r, a, b, c): count / above[int(corpus.rules[r, 0]), a] for (r, a, b, c), count in counted.rules.items()},
        {(symbol, x, z): count / above[symbol, z] for (symbol, x, z), count in counted.words.items()},
        {key: count / corpus.n_trees for key, count in counted.roots.items()},
        {},
        [],
    )


def flat_tensors(weights: LatentWeights, rules: dict[tuple[int, int, int, int], float]) -> np.ndarray:
    """Lay numbers by rule and states out as a grammar's tensors are."""
    return np.array(
        [
            rules.get((rule, *states), 0.0)
            for rule in range(len(weights.rules))
            for states in product(*(range(size) for size in weights.states[weights.rules[rule]]))
        ]
    )


def flat_words(problem: Problem, words: dict[tuple[int, int, int], float]) -> np.ndarray:
    """Lay numbers by preterminal, class and state out in the order of the pairs."""
    states = problem.weights.states
    return np.array([words.get((a, x, z), 0.0) for a, x in problem.pairs for z in range(states[a])])


def flat_states(weights: LatentWeights, states: dict[tuple[int, int], float]) -> np.ndarray:
    """Lay numbers by symbol and state out in their order."""
    return np.array([states.get((a, z), 0.0) for a, size in enumerate(weights.states) for z in range(size)])
