"""Pivot grammars: random L-PCFGs that satisfy the pivot assumption, and the exact statistics of a grammar's trees.

**Features.** The inside feature `tau` of a node is its expansion: the rule, or for a preterminal the word. The outside
feature `rho` is the rule above with the side on which the node hangs, or that the node is the root. They are the
examples of Cohen and Collins (2014, section 4.1) and satisfy the assumptions of section 6.1.

**The assumption** (Assumption 1) then says: for each state `h` of a symbol `a` there is a rule (or word) that only `h`
expands to, with a probability above `alpha`; and there is a place, a rule above and a side, at which `a` is always in
state `h`, and a node in state `h` is there with a probability above `beta`. How often a state is at a place depends on
the whole grammar, so `random_pivot_grammar` draws again until the latter holds; `strengths` measures both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse

from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.exact_moments import States
from sapwood.research.pivot_algorithm import learn_from_statistics
from sapwood.research.pivot_statistics import PivotStatistics
from sapwood.storage.shapes import Array, Float, Int
from sapwood.testing.grammars import made_of

# Maximum expected number of interminals below one, so that trees die out; pivots use at most `_MAX_PIVOT` of it.
_MAX_GROWTH, _MAX_PIVOT = 0.8, 0.75
_TRIES = 200


def population_statistics(grammar: TensorGrammar) -> PivotStatistics:
    """Return the exact statistics of a probabilistic grammar: expected numbers in one tree, all its nodes counted.

    Examples
    --------
    >>> grammar = TensorGrammar.from_parts(
    ...     root={"S": 1.0},
    ...     rules={("S", "N", "V"): 0.5, ("S", "N", "S"): 0.5},
    ...     words={("N", "rain"): 1.0, ("V", "fell"): 0.9, ("V", "falls"): 0.1},
    ... )
    >>> found = population_statistics(grammar)
    >>> found.counts, found.rule_counts
    (array([2., 2., 1.]), array([1., 1.]))
    >>> found.pairs[0].toarray()  # S is at the root or below S -> N S, and expands to S -> N S or S -> N V
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    if not grammar.probabilistic:
        raise GrammarError("only a probabilistic grammar has a population of trees; this one has real-valued weights")
    states = States(grammar, depth=1)
    inside, outside = ([_present(rows) for rows in found] for found in (states.inside, states.outside))
    # By symbol, (features, states): chances of an inside feature given the state, expected numbers of nodes with an
    # outside feature and a state.
    below, above = (
        [np.array([rows[key] for key in rows]).reshape(-1, m) for rows, m in zip(found, grammar.states, strict=True)]
        for found in (inside, outside)
    )
    triples = []
    for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
        weights = np.einsum("gh,hij,xi,yj->gxy", above[a], grammar.tensor(rule), below[b], below[c], optimize=True)
        where = np.argwhere(weights > 0)
        triples.append((where.astype(np.int64), weights[tuple(where.T)]))
    n_inner, n_rules = grammar.n_interminals, len(grammar.rules)
    word_feature = []
    for rows in inside[n_inner:]:
        number = np.full(grammar.lexicon.n_terminals, -1, np.int64)
        number[[expansion - n_rules for (expansion,) in rows]] = np.arange(len(rows))
        word_feature.append(number)
    return PivotStatistics(
        symbols=grammar.symbols,
        n_interminals=n_inner,
        rules=grammar.rules,
        counts=np.array([float(row.sum()) for row in states.expected]),
        rule_counts=states.rule_counts,
        pairs=[scipy.sparse.csr_array(left @ right.T) for left, right in zip(below, above, strict=True)],
        triples=triples,
        word_feature=word_feature,
        # The root's feature is the first one.
        root_feature=np.array([0 if () in rows else -1 for rows in outside], np.int64),
    )


def learn_pivot(
    grammar: TensorGrammar, states: int | Sequence[int] | Int[Array, "symbols"] | None = None, **settings: Any
) -> TensorGrammar:
    """Return the result of pivot learning on infinite data from a probabilistic grammar (figure 1).

    Parameters
    ----------
    grammar
        The grammar that the data come from, without unknown words.
    states
        The most states of a symbol, or of each; by default as many as in `grammar`.
    settings
        Of `learn_from_statistics`.

    Examples
    --------
    >>> from sapwood.research import match_grammars
    >>> grammar = random_pivot_grammar(np.random.default_rng(0))
    >>> match_grammars(grammar, learn_pivot(grammar)).largest < 1e-6
    True
    """
    if grammar.emissions.backoff.any():
        raise GrammarError("figure 1 is about grammars whose words are all known; this one has signatures")
    statistics = population_statistics(grammar)
    return learn_from_statistics(
        statistics, grammar.lexicon.words, grammar.states if states is None else states, **settings
    )


def _present(rows: dict[tuple[int, ...], np.ndarray]) -> dict[tuple[int, ...], np.ndarray]:
    return {key: row for key, row in rows.items() if row.any()}


def strengths(grammar: TensorGrammar) -> tuple[list[Float[Array, "m_a"]], list[Float[Array, "m_a"]]]:
    """Return by symbol the probability of each state's best inside and of its best outside pivot.

    Zero where a state has none: with the first the assumption holds for any `alpha`, with the second for any `beta`
    below the smallest number.
    """
    states = States(grammar, depth=1)
    inside = [np.array(list(rows.values())) for rows in states.inside]
    outside = []
    for rows, expected in zip(states.outside, states.expected, strict=True):
        scale = np.divide(1.0, expected, out=np.zeros_like(expected), where=expected > 0)
        outside.append(np.array(list(rows.values())) * scale)
    return [_best_pivots(matrix) for matrix in inside], [_best_pivots(matrix) for matrix in outside]


def _best_pivots(given_state: np.ndarray) -> np.ndarray:
    """Return the largest entry of each column among rows with no other entry."""
    alone = np.count_nonzero(given_state, axis=1) == 1
    return given_state[alone].max(axis=0, initial=0.0)


@dataclass(frozen=True, kw_only=True)
class PivotGrammarSettings:
    """Settings of `random_pivot_grammar`.

    Attributes
    ----------
    interminals, preterminals, words
        How many of each. Every interminal can be the root, in any state; every preterminal emits every word, but for
        the pivots of its states.
    states
        Fewest and most states of a symbol, drawn for each symbol.
    shared
        How many rules of each interminal are not pivots, at least; some more are added if there would not be enough
        places for outside pivots.
    alpha, beta
        Inside and outside pivots are more probable than this, given their state; inside ones are up to half as much
        more so. `alpha` is at most 0.7.
    epsilon
        How much pivots leak: with this probability, the pivot of a state is replaced by that of any state of its
        symbol (`P(f | h')` is then at least about `epsilon alpha / m` for the pivot `f` of another state), and at the
        place of an outside pivot any state is drawn. With 0 the assumption holds, with 1 pivots say nothing. The same
        seed gives the same grammar but for that.
    """

    interminals: int = 2
    preterminals: int = 2
    words: int = 6
    states: tuple[int, int] = (2, 2)
    shared: int = 2
    alpha: float = 0.3
    beta: float = 0.1
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if min(self.interminals, self.preterminals, self.shared) < 1:
            raise UsageError("a pivot grammar needs an interminal, a preterminal and a rule that is not a pivot")
        if not 1 <= self.states[0] <= self.states[1] <= self.words:
            raise UsageError(f"states must be (fewest, most) with 1 <= fewest <= most <= words, not {self.states}")
        if not (0 < self.alpha <= 0.7 and 0 <= self.beta < 1 and 0 <= self.epsilon <= 1):
            raise UsageError("alpha is above 0 and at most 0.7, beta and epsilon are probabilities")


def random_pivot_grammar(rng: np.random.Generator, **settings: Any) -> TensorGrammar:
    """Return a random L-PCFG that satisfies the pivot assumption, or fails to by `epsilon`.

    It is proper, and its trees have a finite expected size: at most 0.8 interminals are expected below one.

    Parameters
    ----------
    rng
        Source of all random choices.
    settings
        Those of `PivotGrammarSettings`.

    Examples
    --------
    >>> grammar = random_pivot_grammar(np.random.default_rng(0), alpha=0.4)
    >>> grammar
    <TensorGrammar: 4 symbols (2 states), 8 rules, 6 words>
    >>> inside, outside = strengths(grammar)
    >>> all((row > 0.4).all() for row in inside), all((row > 0.1).all() for row in outside)
    (True, True)
    """
    chosen = PivotGrammarSettings(**settings)
    words, alpha, epsilon = chosen.words, chosen.alpha, chosen.epsilon
    for _ in range(_TRIES):
        n_symbols = chosen.interminals + chosen.preterminals
        sizes = rng.integers(chosen.states[0], chosen.states[1] + 1, size=n_symbols).astype(np.int32)
        plan = _Plan(sizes, chosen.interminals)
        plan.draw_rules(rng, chosen.shared)
        plan.draw_places(rng)
        # The same numbers are drawn whatever leaks, and the grammar without leaks is the one that is tested.
        seed = rng.integers(1 << 62)
        strict = _draw_grammar(np.random.default_rng(seed), plan, words, alpha, 0.0)
        if min(row.min() for row in strengths(strict)[1]) > chosen.beta:
            return _draw_grammar(np.random.default_rng(seed), plan, words, alpha, epsilon) if epsilon else strict
    raise UsageError(
        f"none of {_TRIES} random grammars had outside pivots with a probability above {chosen.beta}: ask for a "
        "smaller beta, or fewer states"
    )


@dataclass
class _Rule:
    """A rule `a -> b c` of a planned grammar.

    Attributes
    ----------
    symbols
        `(a, b, c)`.
    pivot
        The state of `a` that alone has this rule, -1 if all have.
    places
        The state that the left and the right child always have, -1 if any.
    """

    symbols: tuple[int, int, int]
    pivot: int
    places: list[int] = field(default_factory=lambda: [-1, -1])


class _Plan:
    """Which rules a grammar has, and which of them are pivots of what."""

    def __init__(self, sizes: np.ndarray, interminals: int) -> None:
        self.sizes = sizes
        self.interminals = interminals
        self.rules: list[_Rule] = []

    def growth(self, rule: _Rule) -> int:
        """Return how many interminals a rule has below."""
        return sum(symbol < self.interminals for symbol in rule.symbols[1:])

    def draw_rules(self, rng: np.random.Generator, shared: int) -> None:
        """Give each interminal a pair of preterminals in all states, a rule of its own in each state, and more."""
        n_symbols, inner = len(self.sizes), self.interminals
        everything = list(product(range(n_symbols), repeat=2))
        left: list[list[tuple[int, int]]] = []
        for a in range(inner):
            pairs = [everything[place] for place in rng.permutation(len(everything))]
            sure = next(pair for pair in pairs if min(pair) >= inner)
            # Pivots have a place for preterminals, so that strong ones do not make trees endless.
            own = [pair for pair in pairs if pair != sure and max(pair) >= inner][: self.sizes[a]]
            if len(own) < self.sizes[a]:
                raise UsageError(f"{self.sizes[a]} states need more symbols to have a rule each")
            rest = [pair for pair in pairs if pair != sure and pair not in own]
            self.rules += [_Rule((a, *pair), state) for state, pair in enumerate(own)]
            self.rules += [_Rule((a, *pair), -1) for pair in [sure, *rest[: shared - 1]]]
            left.append(rest[shared - 1 :])
        # Each symbol needs a place for each of its states.
        for b in rng.permutation(n_symbols).tolist():
            while len(self.places_of(b)) < self.sizes[b]:
                free = [(a, pair) for a in range(inner) for pair in left[a] if b in pair]
                if not free:
                    raise UsageError(f"{self.sizes[b]} states need more symbols to have a place each")
                a, pair = free[int(rng.integers(len(free)))]
                left[a].remove(pair)
                self.rules.append(_Rule((a, *pair), -1))
        self.rules.sort(key=lambda rule: rule.symbols)

    def places_of(self, symbol: int) -> list[tuple[_Rule, int]]:
        """Return rules and sides on which a symbol stands."""
        return [(rule, side) for rule in self.rules for side in (0, 1) if rule.symbols[1 + side] == symbol]

    def draw_places(self, rng: np.random.Generator) -> None:
        """Give each state a place of its own, and half of the other places to any one state."""
        for symbol, size in enumerate(self.sizes.tolist()):
            places = self.places_of(symbol)
            for number, place in enumerate(rng.permutation(len(places)).tolist()):
                rule, side = places[place]
                if number < size:
                    rule.places[side] = number
                elif rng.random() < 0.5:
                    rule.places[side] = int(rng.integers(size))


def _draw_grammar(rng: np.random.Generator, plan: _Plan, words: int, alpha: float, epsilon: float) -> TensorGrammar:
    sizes, inner = plan.sizes, plan.interminals
    by_rule = np.zeros((len(plan.rules), int(sizes[:inner].max())))
    for a in range(inner):
        ours = [index for index, rule in enumerate(plan.rules) if rule.symbols[0] == a]
        rules = [plan.rules[index] for index in ours]
        by_rule[ours, : sizes[a]] = _draw_rule_chances(rng, plan, rules, int(sizes[a]), alpha, epsilon).T
    tensors = [
        by_rule[index, : sizes[rule.symbols[0]], None, None] * _draw_children(rng, rule, sizes, epsilon)
        for index, rule in enumerate(plan.rules)
    ]
    lexical = []
    for size in sizes[inner:].tolist():
        pivots = rng.choice(words, size=size, replace=False)
        others = np.setdiff1d(np.arange(words), pivots)
        strength = _draw_strengths(rng, size, alpha) if len(others) else np.ones(size)
        rows = np.zeros((size, words))
        rows[:, pivots] = _leaked(np.diag(strength), epsilon)
        rows[:, others] = (1 - rows.sum(axis=1, keepdims=True)) * rng.dirichlet(np.ones(len(others)), size=size)
        lexical.append(rows.T)
    root = np.zeros(int(sizes.sum()))
    root[: int(sizes[:inner].sum())] = rng.dirichlet(np.ones(int(sizes[:inner].sum())))
    info = {"method": "random, with pivots", "epsilon": epsilon}
    return made_of(sizes, [rule.symbols for rule in plan.rules], tensors, root, lexical, info)


def _draw_strengths(rng: np.random.Generator, size: int, alpha: float) -> np.ndarray:
    """Draw the probabilities of pivots, between `alpha` and half as much more."""
    return alpha + (min(1.5 * alpha, _MAX_PIVOT) - alpha) * rng.uniform(0.01, 1.0, size=size)


def _leaked(pivots: np.ndarray, epsilon: float) -> np.ndarray:
    """Mix the pivots of all states into those of each, `(states, pivots)`."""
    return (1 - epsilon) * pivots + epsilon * pivots.mean(axis=0)


def _draw_rule_chances(
    rng: np.random.Generator, plan: _Plan, rules: Sequence[_Rule], size: int, alpha: float, epsilon: float
) -> np.ndarray:
    """Draw `p(a -> b c | h)` of one interminal, `(states, rules)`."""
    growth = np.array([plan.growth(rule) for rule in rules])
    owner = np.array([rule.pivot for rule in rules])
    is_pivot = owner >= 0
    chances = np.zeros((size, len(rules)))
    chances[owner[is_pivot], np.flatnonzero(is_pivot)] = _draw_strengths(rng, size, alpha)
    chances = _leaked(chances, epsilon)
    rest = 1 - chances.sum(axis=1, keepdims=True)
    drawn = rest * rng.dirichlet(np.full(int((~is_pivot).sum()), 2.0), size=size)
    # Scale rules that are not pivots and have interminals below down until growth is bounded, and those without up.
    grows = growth[~is_pivot] > 0
    room = _MAX_GROWTH - chances @ growth
    down = np.minimum(1.0, room / np.maximum(drawn @ growth[~is_pivot], 1e-9))
    drawn[:, grows] *= down[:, None]
    drawn[:, ~grows] *= (rest[:, 0] - drawn[:, grows].sum(axis=1))[:, None] / drawn[:, ~grows].sum(axis=1)[:, None]
    chances[:, ~is_pivot] = drawn
    return chances


def _draw_children(rng: np.random.Generator, rule: _Rule, sizes: np.ndarray, epsilon: float) -> np.ndarray:
    """Draw `p(h2, h3 | a -> b c, h1)`, `(m_a, m_b, m_c)`."""
    shape = [int(sizes[symbol]) for symbol in rule.symbols]
    open_shape = [size if place < 0 else 1 for size, place in zip(shape[1:], rule.places, strict=True)]
    drawn = rng.dirichlet(np.ones(int(np.prod(open_shape))), size=shape[0]).reshape(-1, *open_shape)
    for axis, place in enumerate(rule.places, start=1):
        if place >= 0:
            states = np.full(shape[axis], epsilon / shape[axis])
            states[place] += 1 - epsilon
            drawn = drawn * (states[:, None] if axis == 1 else states)
    return drawn
