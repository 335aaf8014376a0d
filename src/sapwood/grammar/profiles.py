"""What hidden states have learned: how often each occurs, and the rules, words and contexts that tell it from others.

For state `h` of symbol `a`, something that can be said of a node, such as the rule that expands it, has a probability
`p(x|a, h)`; its mean over the states of the symbol, by how often they occur, is `p(x|a)`. What is *telling* has a large
`p(x|a, h) log(p(x|a, h) / p(x|a))`, its part of the divergence between the two: frequent with this state, and more
frequent than with the others. The ratio of the two is the *lift*.

- rules: the rules that expand the state, whatever the states of the children;
- words: of preterminals their words, of others the words of preterminals right below them;
- contexts: the rules that it stands in, on the left or on the right, or the root.

Weights of a real-valued grammar are no probabilities, and its states no classes but directions: there only the share of
each is given, and nothing is telling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Float64, Int32

# Preterminals that stand below a symbol less often than this say little of its words.
_LITTLE = 0.01
_TINY = 1e-300


class Telling(NamedTuple):
    """Something that tells a state: its probability there, and how much larger that is than the symbol's mean."""

    name: str
    probability: float
    lift: float


@dataclass(frozen=True)
class StateProfile:
    """What one state has learned.

    Attributes
    ----------
    state, count, share
        Its number, how often it is expected in the training trees, and its part of the symbol's occurrences.
    rules, words, contexts
        What is telling, the most telling first.
    """

    state: int
    count: float
    share: float
    rules: list[Telling]
    words: list[Telling]
    contexts: list[Telling]


def state_profiles(grammar: TensorGrammar, symbol: int, *, top: int = 8) -> list[StateProfile]:
    """Return the profiles of a symbol's states, the most frequent first.

    Examples
    --------
    >>> import sapwood
    >>> grammar = sapwood.load("en")
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
    """Return for each of the grammar's levels the group of each state of a symbol; of split-merge, its splits."""
    begin, end = grammar.state_offsets[symbol : symbol + 2]
    return [level[begin:end] for level in grammar.levels]


def state_anchors(grammar: TensorGrammar, symbol: int) -> list[tuple[str, str | None]]:
    """Return the inside and the outside feature that each state of a symbol was found by, if it was: pivot learning.

    Examples
    --------
    >>> import sapwood
    >>> state_anchors(sapwood.load("en"), 0)
    []
    """
    # Anybody may have written what a file says of its making, and states may have been changed since.
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


def _telling(names: list[str], table: np.ndarray, shares: np.ndarray, top: int) -> list[list[Telling]]:
    """Return what is most telling for each state, given `p(x|a, h)` for each thing and state."""
    mean = table @ shares
    lift = table / np.maximum(mean, _TINY)[:, None]
    score = table * np.log(np.maximum(lift, _TINY))
    if len(shares) == 1:  # nothing tells it from others: what is frequent
        score = table
    found = []
    for state in range(table.shape[1]):
        best = np.argsort(-score[:, state], kind="stable")[:top]
        found.append(
            [
                Telling(names[x], float(table[x, state]), float(lift[x, state]))
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
    # How often each state of a preterminal is expected right below each state of the symbol.
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
    return words, table


def _contexts(grammar: TensorGrammar, symbol: int) -> tuple[list[str], np.ndarray]:
    """Return the rules that the symbol stands in, `_` in its place, and how probable each is for each state."""
    names: dict[str, np.ndarray] = {}
    for place, axes in ((1, "abc,a->b"), (2, "abc,a->c")):
        for rule in np.flatnonzero(grammar.rules[:, place] == symbol).tolist():
            parent = int(grammar.rules[rule, 0])
            shown = [grammar.symbols[child] for child in grammar.rules[rule][1:]]
            shown[place - 1] = "_"
            name = f"{grammar.symbols[parent]} → {' '.join(shown)}"
            counts = np.einsum(axes, grammar.tensor(rule).astype(float), _of(grammar, parent))
            names[name] = names.get(name, 0.0) + counts
    # Every node but the roots is one of the two children of a rule.
    trees = max(float(grammar.occupancy.sum() - 2 * grammar.rule_counts.sum()), 0.0)
    names["root"] = trees * np.asarray(grammar.root_vector(symbol), float)
    table = np.array(list(names.values())).reshape(len(names), int(grammar.states[symbol]))
    return list(names), table / np.maximum(table.sum(axis=0), _TINY)
