"""Distances between the parameters of two grammars, up to permutations of states.

Learners find hidden states in arbitrary order. Before parameters can be compared, the states of each symbol have to be
permuted so that the grammars are closest: so that the sum of absolute differences of all weights, of rules, words and
roots, is minimal. `sapwood.research.orders` describes the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.orders import Pair, assign, differences
from sapwood.storage.shapes import Array, Float, Int, Int64


@dataclass(frozen=True)
class Distance:
    """Absolute differences of parameters: their maximum and their sum."""

    largest: float
    total: float


@dataclass(frozen=True, eq=False)
class Match:
    """Alignment of the states of two grammars, and the remaining distance.

    Distances are over weights all of whose states are matched; a rule or word that one grammar lacks has weight 0.

    Attributes
    ----------
    permutations
        By symbol of the reference, the other grammar's counterpart of each state, -1 if there is none.
    unmatched
        By symbol of the reference, the other grammar's states without a counterpart.
    rules, words, roots
        The distances.
    order
        By symbol of the other grammar, a permutation for `permute`: matched states in the reference's order, then the
        unmatched ones.
    """

    permutations: list[Int64[Array, "states"]]
    unmatched: list[Int64[Array, "others"]]
    rules: Distance
    words: Distance
    roots: Distance
    order: list[Int64[Array, "states"]]

    @property
    def largest(self) -> float:
        """Largest absolute difference of any parameter."""
        return max(self.rules.largest, self.words.largest, self.roots.largest)

    @property
    def total(self) -> float:
        """Sum of absolute differences of all parameters."""
        return self.rules.total + self.words.total + self.roots.total

    @property
    def is_complete(self) -> bool:
        """True if every state has a counterpart."""
        return not any((found < 0).any() for found in self.permutations) and not any(map(len, self.unmatched))


def match_columns(
    reference: Float[Array, "rows columns"], other: Float[Array, "rows others"]
) -> Int64[Array, "columns"]:
    """Return the index of the matching column of another matrix for each column, -1 if there are too few.

    The matching minimises the sum of absolute differences of the columns, for example distributions `p(f | h)`.

    Examples
    --------
    >>> match_columns(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.2, 0.9], [0.8, 0.1]]))
    array([1, 0])
    """
    if reference.ndim != 2 or other.ndim != 2 or len(reference) != len(other):
        raise UsageError(
            f"columns are matched in two matrices with as many rows, not in {reference.shape} and {other.shape}"
        )
    rows, columns = assign(differences(reference.T, other.T))
    found = np.full(reference.shape[1], -1, np.int64)
    found[rows] = columns
    return found


def permute(grammar: TensorGrammar, permutations: Sequence[Int[Array, "states"]]) -> TensorGrammar:
    """Return the grammar with its states permuted: the new state `i` of `a` is the old state `permutations[a][i]`."""
    sizes = grammar.states.tolist()
    if len(permutations) != len(sizes) or any(
        sorted(order.tolist()) != list(range(size)) for order, size in zip(permutations, sizes, strict=False)
    ):
        raise UsageError("states are put in order by one permutation of its states for each symbol")
    tensors = [
        grammar.tensor(rule)[np.ix_(permutations[a], permutations[b], permutations[c])].ravel()
        for rule, (a, b, c) in enumerate(grammar.rules.tolist())
    ]
    flat = np.concatenate([grammar.state_offsets[a] + order for a, order in enumerate(permutations)])
    old = grammar.emissions.separate()
    ours = permutations[grammar.n_interminals :]
    values = [old.value_offsets[entry] + ours[symbol] for entry, symbol in enumerate(old.symbol.tolist())]
    share = np.concatenate([old.state_offsets[p] + order for p, order in enumerate(ours)])
    emissions = replace(
        old, values=old.values[np.concatenate(values)] if values else old.values, share=old.share[share]
    )
    return replace(
        grammar,
        tensors=np.concatenate(tensors) if tensors else grammar.tensors,
        root=grammar.root[flat],
        occupancy=grammar.occupancy[flat],
        emissions=emissions,
        levels=(),
    )


def match_grammars(reference: TensorGrammar, other: TensorGrammar, *, starts: int = 4, random_state: int = 0) -> Match:
    """Return the permutations of states that bring one probabilistic grammar closest to another.

    Symbols, rules and words are identified by name. Numbers of states may differ: the unmatched states are then chosen
    to have little weight (they are compared with states of weight zero).

    Parameters
    ----------
    reference, other
        Grammars with the same symbols. Rules and words may be missing in either.
    starts
        Random starts, in addition to the fixed ones.
    random_state
        Seed of the random starts.

    Examples
    --------
    >>> from sapwood.testing.grammars import random_grammar
    >>> grammar = random_grammar(np.random.default_rng(0), states=(2, 2))
    >>> other = permute(grammar, [np.array([1, 0])] * len(grammar.symbols))
    >>> match = match_grammars(grammar, other)
    >>> match.largest, permute(other, match.order) == grammar
    (0.0, True)
    """
    both = Pair(reference, other)
    rng = np.random.default_rng(random_state)
    begin: list[Callable[[], list[np.ndarray]]] = [
        lambda: both.signatures(outside=True),
        lambda: both.signatures(outside=False),
        both.as_they_are,
        *[lambda: [rng.permutation(size) for size in both.sizes]] * starts,
    ]
    best, least = both.as_they_are(), np.inf
    for beginning in begin:
        ending = both.improve(beginning())
        if (value := both.objective(ending)) < least:
            best, least = ending, value
        if least == 0:
            break
    return _match(both, best)


def _match(both: Pair, orders: Sequence[np.ndarray]) -> Match:
    """Return the match with the given orders."""
    kept = []  # By symbol: positions at which both grammars have a state.
    permutations, unmatched = [], []
    order: list[np.ndarray] = [np.zeros(0, np.int64)] * len(both.sizes)
    for a, full in enumerate(orders):
        ours, theirs = both.states[:, a]
        found = np.where(full < theirs, full, -1)[:ours].astype(np.int64)
        matched = found[found >= 0]
        rest = np.setdiff1d(np.arange(theirs), matched)
        kept.append(np.flatnonzero(found >= 0))
        permutations.append(found)
        unmatched.append(rest)
        order[int(both.place[a])] = np.concatenate([matched, rest])
    rules, words, roots = [], [], []
    for index, rule in enumerate(both.rules):
        ours, theirs = (tensors[index] for tensors in both.tensors)
        here = np.ix_(*(kept[symbol] for symbol in rule))
        there = np.ix_(*(orders[symbol][kept[symbol]] for symbol in rule))
        rules.append(ours[here] - theirs[there])
    for a, places in enumerate(kept):
        roots.append(both.roots[0][a][places] - both.roots[1][a][orders[a][places]])
        if a in both.words[0]:
            words.append(both.words[0][a][places] - both.words[1][a][orders[a][places]])
    return Match(permutations, unmatched, _distance(rules), _distance(words), _distance(roots), order)


def _distance(parts: Sequence[np.ndarray]) -> Distance:
    values = [np.abs(part) for part in parts if part.size]
    return Distance(max((float(part.max()) for part in values), default=0.0), float(sum(part.sum() for part in values)))
