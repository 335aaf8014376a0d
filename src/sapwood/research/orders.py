"""Permutations of states that bring one grammar close to another.

The distance is the sum of absolute differences of all weights. A rule `a -> b c` couples the orders of three symbols,
and finding the best orders of all symbols at once is hard. The search is heuristic:

1. An initial order for each symbol alone, from quantities that do not depend on the order of other symbols' states:
   each state's words and rules (children's states summed out), its context (the rule above and the side, states above
   summed out), and the root. Other starts are the current order, and random ones.
2. With the orders of all other symbols fixed, the best order of one symbol is an assignment problem, solved exactly.
   This is repeated for all symbols until nothing improves. If a symbol occurs more than once in a rule (`A -> A B`),
   its own order appears on both sides: then an assignment with the other positions fixed is accepted only if it is
   better, and swaps of two states are tried.

The best result is kept. For similar grammars it is optimal, as the tests check by enumerating all orders; for grammars
that have nothing in common it need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float, Float64, Int, Int64

# A sum must be smaller by more than this fraction to be better, not just by rounding.
_ROUNDING = 1e-12


class Pair:
    """Weights of two grammars in the reference's numbering, padded to the larger number of states of each symbol."""

    def __init__(self, reference: TensorGrammar, other: TensorGrammar) -> None:
        for grammar in (reference, other):
            if not grammar.probabilistic:
                raise GrammarError("only probabilistic grammars have states to match; this one has real-valued weights")
        self.grammars = (reference, other)
        names = _names(reference)
        if missing := sorted(set(names) ^ set(_names(other))):
            raise GrammarError(f"only one of the grammars has the symbol {missing[0][0]}")
        number = {name: a for a, name in enumerate(names)}
        # The other grammar's index of each symbol, and the inverse.
        theirs = [number[name] for name in _names(other)]
        self.place = np.argsort(theirs)
        self.states = np.stack([reference.states, other.states[self.place]]).astype(np.int64)
        self.sizes: list[int] = self.states.max(axis=0).tolist()
        tensors = [
            {(to[a], to[b], to[c]): grammar.tensor(rule) for rule, (a, b, c) in enumerate(grammar.rules.tolist())}
            for grammar, to in zip(self.grammars, (list(range(len(names))), theirs), strict=True)
        ]
        self.rules = sorted(tensors[0].keys() | tensors[1].keys())
        self.tensors = [
            [_padded(ours.get(rule), [self.sizes[symbol] for symbol in rule]) for rule in self.rules]
            for ours in tensors
        ]
        terminals = [_terminals(grammar) for grammar in self.grammars]
        rows = {key: row for row, key in enumerate(sorted(terminals[0].keys() | terminals[1].keys()))}
        self.words: list[dict[int, np.ndarray]] = []
        for which, grammar in enumerate(self.grammars):
            to = np.array([rows[key] for key in terminals[which]])
            self.words.append({})
            for a in range(reference.n_interminals, len(names)):
                place = a if which == 0 else int(self.place[a])
                weights = np.zeros((self.sizes[a], len(rows)))
                weights[: grammar.states[place], to] = grammar.emissions.column(place - grammar.n_interminals).T
                self.words[-1][a] = weights
        self.roots = [self._by_symbol(which, self.grammars[which].root) for which in (0, 1)]
        self.occupancy = [self._by_symbol(which, self.grammars[which].occupancy) for which in (0, 1)]
        # For each symbol, the rules and positions in which it occurs.
        self.uses: list[list[tuple[int, int]]] = [[] for _ in names]
        for index, rule in enumerate(self.rules):
            for axis, symbol in enumerate(rule):
                self.uses[symbol].append((index, axis))

    def _by_symbol(self, which: int, flat: np.ndarray) -> list[np.ndarray]:
        """Split an array over all states by symbol of the reference."""
        parts = np.split(flat, self.grammars[which].state_offsets[1:-1])
        places = range(len(parts)) if which == 0 else self.place.tolist()
        return [_padded(parts[place], [size]) for place, size in zip(places, self.sizes, strict=True)]

    def as_they_are(self) -> list[Int64[Array, "states"]]:
        """Return the identity orders."""
        return [np.arange(size) for size in self.sizes]

    def signatures(self, *, outside: bool) -> list[Int64[Array, "states"]]:
        """Return the best order of each symbol by quantities that do not depend on other symbols' orders.

        With `outside`, these include the contexts of a state, not only its expansions.
        """
        # By grammar and symbol, a list of `(states,)`.
        below: list[list[list[np.ndarray]]] = [[[] for _ in self.sizes] for _ in (0, 1)]
        above: list[list[list[np.ndarray]]] = [[[] for _ in self.sizes] for _ in (0, 1)]
        for which in (0, 1):
            for (a, b, c), tensor in zip(self.rules, self.tensors[which], strict=True):
                below[which][a].append(tensor.sum(axis=(1, 2)))
                if outside:
                    weights = np.tensordot(self.occupancy[which][a], tensor, 1)
                    above[which][b].append(weights.sum(axis=1))
                    above[which][c].append(weights.sum(axis=0))
        found = []
        for a, size in enumerate(self.sizes):
            cost = np.zeros((size, size))
            if a in self.words[0]:
                cost += differences(self.words[0][a], self.words[1][a])
            if below[0][a]:
                cost += differences(np.array(below[0][a]).T, np.array(below[1][a]).T)
            if outside:
                cost += differences(self.roots[0][a][:, None], self.roots[1][a][:, None])
            if above[0][a]:
                cost += differences(_normalised(np.array(above[0][a]).T), _normalised(np.array(above[1][a]).T))
            found.append(assign(cost)[1])
        return found

    def objective(self, orders: Sequence[Int[Array, "states"]]) -> float:
        """Return the sum of absolute differences of all weights, including those of states without a counterpart."""
        total = sum(self._rule_difference(index, orders) for index in range(len(self.rules)))
        for a, order in enumerate(orders):
            total += float(np.abs(self.roots[0][a] - self.roots[1][a][order]).sum())
            if a in self.words[0]:
                total += float(np.abs(self.words[0][a] - self.words[1][a][order]).sum())
        return total

    def improve(self, orders: Sequence[Int[Array, "states"]]) -> list[Int[Array, "states"]]:
        """Improve the order of one symbol at a time until none can be improved."""
        found = list(orders)
        pending = {a for a, size in enumerate(self.sizes) if size > 1}
        while pending:
            for a in sorted(pending):
                pending.discard(a)
                better = self._improve_one(a, found)
                if better is not None:
                    found[a] = better
                    # Symbols that share a rule with this one may no longer be optimal.
                    pending |= {b for index, _ in self.uses[a] for b in self.rules[index] if self.sizes[b] > 1}
        return found

    def _improve_one(self, symbol: int, orders: list[np.ndarray]) -> np.ndarray | None:
        """Return a better order of one symbol, None if there is none (or none is found, if rules repeat the symbol)."""
        cost = differences(self.roots[0][symbol][:, None], self.roots[1][symbol][:, None])
        if symbol in self.words[0]:
            cost += differences(self.words[0][symbol], self.words[1][symbol])
        held = np.zeros_like(cost)
        repeated: set[int] = set()
        for index, axis in self.uses[symbol]:
            once = self.rules[index].count(symbol) == 1
            into = cost if once else held
            into += self._axis_differences(index, axis, orders)
            if not once:
                repeated.add(index)
        states = np.arange(len(cost))
        trial = list(orders)

        def exact(order: np.ndarray) -> float:
            trial[symbol] = order
            return float(cost[states, order].sum()) + sum(self._rule_difference(index, trial) for index in repeated)

        best = orders[symbol]
        least = before = exact(best)
        order = assign(cost + held)[1]
        if (value := exact(order)) < least * (1 - _ROUNDING):
            best, least = order, value
        if repeated:
            best, least = _swap_pairs(best, least, exact)
        return best if least < before * (1 - _ROUNDING) else None

    def _axis_differences(self, index: int, axis: int, orders: Sequence[np.ndarray]) -> np.ndarray:
        """Return `(states, states)`: the distance of a rule's weights for each pair of states in one position."""
        ours, theirs = (tensors[index] for tensors in self.tensors)
        for other, symbol in enumerate(self.rules[index]):
            if other != axis:
                theirs = np.take(theirs, orders[symbol], axis=other)
        return differences(*(np.moveaxis(part, axis, 0).reshape(part.shape[axis], -1) for part in (ours, theirs)))

    def _rule_difference(self, index: int, orders: Sequence[np.ndarray]) -> float:
        ours, theirs = (tensors[index] for tensors in self.tensors)
        a, b, c = self.rules[index]
        return float(np.abs(ours - theirs[np.ix_(orders[a], orders[b], orders[c])]).sum())


def _swap_pairs(order: np.ndarray, least: float, exact: Callable[[np.ndarray], float]) -> tuple[np.ndarray, float]:
    """Swap pairs of states as long as this helps."""
    helped = True
    while helped:
        helped = False
        for i in range(len(order)):
            for j in range(i):
                swapped = order.copy()
                swapped[[i, j]] = order[[j, i]]
                if (value := exact(swapped)) < least * (1 - _ROUNDING):
                    order, least, helped = swapped, value, True
    return order, least


def differences(
    ours: Float[Array, "rows columns"], theirs: Float[Array, "others columns"]
) -> Float64[Array, "rows others"]:
    """Return the sums of absolute differences between all rows of two matrices."""
    from scipy.spatial.distance import cdist

    return cdist(ours, theirs, "cityblock")


def assign(cost: Float[Array, "rows columns"]) -> tuple[Int64[Array, "pairs"], Int64[Array, "pairs"]]:
    """Return the rows and columns of the cheapest assignment."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    return rows, columns


def _normalised(rows: np.ndarray) -> np.ndarray:
    """Divide rows by their sums; rows of zeros stay zero."""
    sums = rows.sum(axis=1, keepdims=True)
    return np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0)


def _padded(weights: np.ndarray | None, shape: Sequence[int]) -> np.ndarray:
    """Return the weights padded with zeros at the end of each axis."""
    found = np.zeros(shape)
    if weights is not None:
        found[tuple(map(slice, weights.shape))] = weights
    return found


def _names(grammar: TensorGrammar) -> list[tuple[str, bool]]:
    return [(name, a >= grammar.n_interminals) for a, name in enumerate(grammar.symbols)]


def _terminals(grammar: TensorGrammar) -> Mapping[tuple[bool, str], int]:
    """Return words and signatures with their indices, in order."""
    lexicon = grammar.lexicon
    return {(x >= lexicon.n_words, lexicon.name(x)): x for x in range(lexicon.n_terminals)}
