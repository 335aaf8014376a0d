"""State profiles: frequency of each hidden state, and the rules, words and contexts that distinguish it from others.

For state `h` of symbol `a`, an event at a node, such as the rule that expands it, has a probability `p(x|a, h)`; its
mean over the states of the symbol, weighted by their frequency, is `p(x|a)`. An event is *telling* (distinctive) if
`p(x|a, h) log(p(x|a, h) / p(x|a))` is large, its part of the divergence between the two: frequent with this state, and
more frequent than with the others. The ratio of the two is the *lift*.

- rules: the rules that expand the state, summed over the states of the children;
- words: for preterminals their words, for others the words of preterminals right below them, of which there are up to
  two: the probability is that of one of them, chosen at random;
- contexts: the rules in which it is the left or the right child, or the root.

Weights of a real-valued grammar are not probabilities, and its states are directions rather than classes: there only
the share of each is given, and no distinctive events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float64, Int32

# Preterminals that occur below a symbol less often than this reveal little about its words.
_LITTLE = 0.01
_TINY = 1e-300


class Distinctive(NamedTuple):
    """Distinctive event of a state: its probability there, and the lift over the symbol's mean."""

    name: str
    probability: float
    lift: float


@dataclass(frozen=True)
class StateProfile:
    """Profile of one state.

    Attributes
    ----------
    state, count, share
        Its index, its expected count in the training trees, and its share of the symbol's occurrences.
    rules, words, contexts
        Distinctive events, the most distinctive first.
    """

    state: int
    count: float
    share: float
    rules: list[Distinctive]
    words: list[Distinctive]
    contexts: list[Distinctive]


def state_profiles(grammar: TensorGrammar, symbol: int, *, top: int = 8) -> list[StateProfile]:
    """Return the profiles of a symbol's states, the most frequent first.

    Examples
    --------
    >>> import sapwood
    >>> grammar = sapwood.load("en").grammar
    >>> for profile in state_profiles(grammar, grammar.symbol_number("DT", preterminal=True), top=3)[:2]:
    ...     print([word.name for word in profile.words])
    ['a', 'the', 'an']
    ['The', 'This', 'A']
    """
    occupancy = _of(grammar, symbol)
    shares = occupancy / max(occupancy.sum(), _TINY)
    tables: list[tuple[list[str], np.ndarray]] = [([], np.zeros((0, len(shares))))] * 3
    if grammar.probabilistic:
        tables = [_rules(grammar, symbol), _words(grammar, symbol), _contexts(grammar, symbol)]
    telling = [_telling(names, table, shares, top) for names, table in tables]
    return [
        StateProfile(int(state), float(occupancy[state]), float(shares[state]), *(found[state] for found in telling))
        for state in np.argsort(-occupancy, kind="stable")
    ]


def state_levels(grammar: TensorGrammar, symbol: int) -> list[Int32[Array, "m_a"]]:
    """Return the group of each state of a symbol at each of the grammar's levels; for split-merge, its splits."""
    begin, end = grammar.state_offsets[symbol : symbol + 2]
    return [level[begin:end] for level in grammar.levels]


def state_anchors(grammar: TensorGrammar, symbol: int) -> list[tuple[str, str | None]]:
    """Return the inside and outside anchor features of each state of a symbol, if they come from pivot learning.

    Examples
    --------
    >>> import sapwood
    >>> state_anchors(sapwood.load("en").grammar, 0)
    []
    """
    # The info of a file can be written by anyone, and states may have been changed since.
    told = grammar.info.get("pivot")
    places, anchors = (told.get("of"), told.get("anchors")) if isinstance(told, dict) else (None, None)
    if not (isinstance(places, list) and len(places) == len(grammar.symbols) and isinstance(anchors, list)):
        return []
    place = places[symbol]
    if not (isinstance(place, int) and 0 <= place < len(anchors) and isinstance(anchors[place], list)):
        return []
    found = anchors[place]
    fits = len(found) == grammar.states[symbol] and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str | None)
        for pair in found
    )
    return [(inside, outside) for inside, outside in found] if fits else []


def _of(grammar: TensorGrammar, symbol: int) -> Float64[Array, "m_a"]:
    begin, end = grammar.state_offsets[symbol : symbol + 2]
    return np.maximum(np.asarray(grammar.occupancy[begin:end], float), 0.0)


def _telling(names: list[str], table: np.ndarray, shares: np.ndarray, top: int) -> list[list[Distinctive]]:
    """Return the most distinctive events of each state, given `p(x|a, h)` for each event and state."""
    mean = table @ shares
    lift = table / np.maximum(mean, _TINY)[:, None]
    score = table * np.log(np.maximum(lift, _TINY))
    if len(shares) == 1:  # a single state: nothing is distinctive, so take the most frequent
        score = table
    found = []
    for state in range(table.shape[1]):
        best = np.argsort(-score[:, state], kind="stable")[:top]
        found.append(
            [
                Distinctive(names[x], float(table[x, state]), float(lift[x, state]))
                for x in best.tolist()
                if score[x, state] > 0
            ]
        )
    return found


def _rules(grammar: TensorGrammar, symbol: int) -> tuple[list[str], np.ndarray]:
    chosen = np.flatnonzero(grammar.rules[:, 0] == symbol).tolist()
    rows = [grammar.tensor(rule).sum(axis=(1, 2), dtype=float) for rule in chosen]
    names = [" ".join(grammar.symbols[child] for child in grammar.rules[rule][1:]) for rule in chosen]
    return names, np.array(rows).reshape(len(chosen), int(grammar.states[symbol]))


def _words(grammar: TensorGrammar, symbol: int) -> tuple[list[str], np.ndarray]:
    words, first = grammar.lexicon.words, grammar.n_interminals
    emissions, size = grammar.emissions, int(grammar.states[symbol])
    if symbol >= first:
        return words, emissions.column(symbol - first)[: len(words)]
    # Expected count of each preterminal state right below each state of the symbol.
    below: dict[int, np.ndarray] = {}
    for rule in np.flatnonzero(grammar.rules[:, 0] == symbol).tolist():
        for child, axis in zip(grammar.rules[rule][1:].tolist(), (2, 1), strict=True):
            if child >= first:
                found = grammar.tensor(rule).sum(axis=axis, dtype=float)
                below[child] = below[child] + found if child in below else found
    table = np.zeros((len(words), size))
    for child, weights in below.items():
        if weights.sum(axis=1).max() > _LITTLE:
            table += emissions.column(child - first)[: len(words)] @ weights.T
    # A node has up to two words right below it: divide by their expected number for the probability of one of them.
    number = sum((weights.sum(axis=1) for weights in below.values()), np.zeros(size))
    return words, table / np.maximum(number, _TINY)


def _contexts(grammar: TensorGrammar, symbol: int) -> tuple[list[str], np.ndarray]:
    """Return the rules in which the symbol is a child, marked `_`, and their probability for each state."""
    names: dict[str, np.ndarray] = {}
    for place, axes in ((1, "abc,a->b"), (2, "abc,a->c")):
        for rule in np.flatnonzero(grammar.rules[:, place] == symbol).tolist():
            parent = int(grammar.rules[rule, 0])
            shown = [grammar.symbols[child] for child in grammar.rules[rule][1:]]
            shown[place - 1] = "_"
            name = f"{grammar.symbols[parent]} → {' '.join(shown)}"
            counts = np.einsum(axes, grammar.tensor(rule).astype(float), _of(grammar, parent))
            names[name] = names.get(name, 0.0) + counts
    # Every node but the root is one of the two children of a rule.
    trees = max(float(grammar.occupancy.sum() - 2 * grammar.rule_counts.sum()), 0.0)
    names["root"] = trees * np.asarray(grammar.root_vector(symbol), float)
    table = np.array(list(names.values())).reshape(len(names), int(grammar.states[symbol]))
    return list(names), table / np.maximum(table.sum(axis=0), _TINY)
