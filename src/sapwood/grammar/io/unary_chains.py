"""Unary chains: fold the unary rules of a grammar into symbols that are chains of labels.

A BerkeleyParser grammar applies at most two unary rules between two binary ones. Here `A -> M -> B` is one symbol,
`A|M|B`, whose states are those of `B`. With `u` the probabilities of single steps, `s(z)` that of state `z` taking
none, and `U(x, z)` the product of a chain's steps (the sum over the states of `M`), a binary rule becomes

    P|A -> B|Y C|Z      sum over b, c of T(a, b, c) U(b, y) s(y) U(c, z) s(z) / s(a)

so that every tree keeps its probability, and the rules of a state sum to one minus the mass of chains of three steps or
more. Those are impossible here as they are there; rows are renormalised. Chains and rules with too small an expected
count per tree are dropped, since the number of rules grows with the product of the numbers of chains.

The unary rules that the parser writes are *closed*: for each pair of states the best path of one or two steps, without
distinguishing the two. `single_steps` finds those of one step: those that are not a product of two others. This can be
verified, because then the rules of a state sum to 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from sapwood.errors import GrammarError
from sapwood.grammar.emissions import offsets_of
from sapwood.runtime.progress import Progress, Silent, Stage
from sapwood.storage.shapes import Array, Float, Float64, Int32

# Relative tolerance of a product, and maximum number of rounds of the search.
_ROUNDING = 1e-6
_ROUNDS = 20
# Maximum number of chains, and of chains for each unary rule; there are a few in grammars of treebanks.
_SMALL, _MOST_EACH = 1 << 16, 100
# Weights below this are ignored.
_NOTHING = 1e-10
# Smoothed rules can have infinite expected trees. Then children are discounted: by more than half, which makes the
# number of a state's descendants finite.
_DAMPING = (1.0, 0.9, 0.7, 0.49)

Chain = tuple[str, ...]


def single_steps(
    closed: Mapping[tuple[str, str], Float64[Array, "m_a m_b"]],
) -> dict[tuple[str, str], Float64[Array, "m_a m_b"]]:
    """Return the unary rules of one step, given the best paths of one or two steps between pairs of states."""
    after: dict[str, set[str]] = defaultdict(set)
    before: dict[str, set[str]] = defaultdict(set)
    for a, b in closed:
        after[a].add(b)
        before[b].add(a)
    # Symbols between two: those of the one with fewer neighbours are looked up, so hubs do not cost their square.
    between = {(a, c): sorted(after[a] & before[c]) for a, c in closed}
    found = dict(closed)
    for _ in range(_ROUNDS):
        fewer = {}
        for (a, c), array in closed.items():
            best = np.zeros_like(array)
            for b in between[a, c]:
                for row, weights in zip(best, closed[a, b], strict=True):
                    np.maximum(row, (weights[:, None] * found[b, c]).max(axis=0), out=row)
            fewer[a, c] = np.where(array <= best * (1 + _ROUNDING), 0.0, array)
        if all(np.array_equal(fewer[pair], found[pair]) for pair in closed):
            break
        found = fewer
    return {(a, b): array for (a, b), array in found.items() if a != b and array.any()}


@dataclass(frozen=True, eq=False)
class ChainGrammar:
    """Rules over chains of labels, phrases first; arrays as in `TensorGrammar`."""

    chains: list[Chain]
    n_interminals: int
    states: Int32[Array, "symbols"]
    rules: Int32[Array, "rules 3"]
    tensors: Float[Array, "weights"]
    rule_counts: Float64[Array, "rules"]
    root: Float64[Array, "all_states"]
    occupancy: Float64[Array, "all_states"]


class UnaryGrammar:
    """L-PCFG with unary rules, before they are folded into chains.

    Parameters
    ----------
    states
        Number of states of each symbol.
    unary, binary
        Probabilities of rules by states.
    tags
        Preterminal symbols.
    start
        Start symbol, with one state.
    """

    def __init__(
        self,
        states: Mapping[str, int],
        unary: Mapping[tuple[str, str], Float64[Array, "m_a m_b"]],
        binary: Mapping[tuple[str, str, str], Float64[Array, "m_a m_b m_c"]],
        tags: Collection[str],
        start: str,
    ) -> None:
        self.states, self.unary, self.binary, self.tags, self.start = states, unary, binary, frozenset(tags), start
        self._offsets = offsets_of(np.array(list(states.values())))
        self._begin = dict(zip(states, self._offsets.tolist(), strict=False))
        # Probability of taking no unary step: that of binary rules and words.
        self.stop = {name: np.full(size, float(name in tags)) for name, size in states.items()}
        for (a, _, _), tensor in binary.items():
            self.stop[a] += tensor.sum(axis=(1, 2))

    def part(self, row: Float64[Array, "size"], name: str) -> Float64[Array, "m_a"]:
        """Return the entries of a symbol in a row over all states."""
        return row[self._begin[name] : self._begin[name] + self.states[name]]

    def expected(self) -> tuple[Float64[Array, "size"], Float64[Array, "size"]]:
        """Return the expected count per tree of each state, and its count as the child of a binary rule."""
        steps = [(a, b, table) for (a, b), table in self.unary.items()]
        children = [(a, b, tensor.sum(axis=2)) for (a, b, _), tensor in self.binary.items()]
        children += [(a, c, tensor.sum(axis=1)) for (a, _, c), tensor in self.binary.items()]
        below = self._table(children)
        root = np.zeros(int(self._offsets[-1]))
        root[self._begin[self.start]] = 1.0
        for damping in _DAMPING:
            table = scipy.sparse.eye_array(len(root), format="csc") - damping * below - self._table(steps)
            try:
                found = scipy.sparse.linalg.splu(table).solve(root)
            except RuntimeError:  # singular
                continue
            if np.isfinite(found).all() and found.min() >= -_NOTHING:
                found = np.maximum(found, 0.0)
                return found, damping * (below @ found)
        raise GrammarError("unary rules form a cycle that is never left")

    def _table(self, parts: Sequence[tuple[str, str, np.ndarray]]) -> scipy.sparse.csc_array:
        """Return the matrix of child states (rows) by parent states (columns)."""
        rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        for a, b, table in parts:
            i, j = np.nonzero(table)
            columns.append(self._begin[a] + i)
            rows.append(self._begin[b] + j)
            values.append(table[i, j])
        size = int(self._offsets[-1])
        places = (np.concatenate(rows), np.concatenate(columns))
        return scipy.sparse.coo_array((np.concatenate(values), places), shape=(size, size)).tocsc()

    def chains(self) -> dict[Chain, Float64[Array, "m_top m_bottom"]]:
        """Return all chains of at most two steps that can end, with the products of their steps."""
        ends = {name for name, stop in self.stop.items() if stop.any()}
        found: dict[Chain, np.ndarray] = {(name,): np.eye(self.states[name]) for name in self.states if name in ends}
        found |= {pair: table for pair, table in self.unary.items() if pair[1] in ends}
        below: dict[str, list[str]] = defaultdict(list)
        for a, b in self.unary:
            below[a].append(b)
        if sum(len(below[b]) for _, b in self.unary) > max(_SMALL, _MOST_EACH * len(self.unary)):
            raise GrammarError(f"{len(self.unary):,} unary rules form too many chains of two")
        for (a, m), b in ((pair, b) for pair in self.unary for b in below[pair[1]]):
            if b in ends:
                table = self.unary[a, m] @ self.unary[m, b]
                if table.any():
                    found[a, m, b] = table
        return found

    def fold(self, *, min_expected_count: float, progress: Progress | None = None) -> ChainGrammar:
        """Return the grammar over chains, without rules whose expected count per tree is below `min_expected_count`."""
        _, as_child = self.expected()
        steps = {chain: table * self.stop[chain[-1]] for chain, table in self.chains().items()}
        # The root is below the start symbol, which is not part of any chain.
        nothing = {chain: np.zeros(table.shape[1]) for chain, table in steps.items()}
        root = nothing | {chain[1:]: table[0] for chain, table in steps.items() if chain[0] == self.start and chain[1:]}
        if (self.start,) in steps:
            root[(self.start,)] = self.stop[self.start]
        seen = {
            chain: self.part(as_child, chain[0]) @ table + root[chain]
            for chain, table in steps.items()
            if chain[0] != self.start or len(chain) == 1
        }
        kept = {chain: count for chain, count in seen.items() if count.sum() >= min_expected_count}
        rules = self._rules(steps, kept, min_expected_count)
        used = _useful(rules, {chain for chain in kept if root[chain].any()}, self.tags)
        rules = {rule for rule in rules if used.issuperset(rule)}
        inner = sorted({parent for parent, _, _ in rules})
        chains = inner + sorted(chain for chain in used if chain[-1] in self.tags)
        if not rules or not any(root[chain].any() for chain in chains):
            raise GrammarError("the grammar has no trees")
        with (progress or Silent()).stage("folding unary rules", len(rules), "rules") as stage:
            return self._assemble(chains, len(inner), rules, steps, root, seen, stage)

    def _rules(
        self, steps: Mapping[Chain, np.ndarray], seen: Mapping[Chain, np.ndarray], min_expected_count: float
    ) -> set[tuple[Chain, Chain, Chain]]:
        """Return the rules over chains whose expected count is large enough."""
        by_top, by_bottom = defaultdict(list), defaultdict(list)
        for chain in seen:
            by_top[chain[0]].append(chain)
            by_bottom[chain[-1]].append(chain)
        found = set()
        for (a, b, c), tensor in self.binary.items():
            parents, left, right = by_bottom[a], by_top[b], by_top[c]
            if not (parents and left and right):
                continue
            times = np.array([seen[chain] for chain in parents]) / np.where(self.stop[a] > 0, self.stop[a], 1.0)
            below = np.einsum("pa,abc->pbc", times, tensor)
            below = np.einsum("pbc,lb->plc", below, np.array([steps[chain].sum(axis=1) for chain in left]))
            expected = np.einsum("plc,rc->plr", below, np.array([steps[chain].sum(axis=1) for chain in right]))
            for at, one, other in np.argwhere(expected >= min_expected_count).tolist():
                found.add((parents[at], left[one], right[other]))
        return found

    def _assemble(
        self,
        chains: list[Chain],
        n_interminals: int,
        rules: Collection[tuple[Chain, Chain, Chain]],
        steps: Mapping[Chain, np.ndarray],
        root: Mapping[Chain, np.ndarray],
        seen: Mapping[Chain, np.ndarray],
        stage: Stage,
    ) -> ChainGrammar:
        """Compute the weights of these rules, and normalise rows."""
        number = {chain: place for place, chain in enumerate(chains)}
        order = sorted(tuple(number[chain] for chain in rule) for rule in rules)
        states = np.array([self.states[chain[-1]] for chain in chains], np.int32)
        numbers = np.array(order, np.int32).reshape(-1, 3)
        bounds, tops = offsets_of(states), offsets_of(states[numbers].astype(np.int64).prod(axis=1))
        tensors, rows = np.zeros(int(tops[-1]), np.float32), np.zeros(int(bounds[-1]))
        # Parents with the same bottom have the same rules but for `s(a)`: rows are normalised anyway.
        alike: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        for rule, (p, left, right) in enumerate(order):
            alike[chains[p][-1], left, right].append(rule)
        for (a, left, right), shared in alike.items():
            b, c = chains[left], chains[right]
            tensor = np.einsum("abc,by->ayc", self.binary[a, b[0], c[0]], steps[b])
            tensor = np.einsum("ayc,cz->ayz", tensor, steps[c])
            tensor[tensor < _NOTHING] = 0.0
            for rule in shared:
                p = order[rule][0]
                rows[bounds[p] : bounds[p + 1]] += tensor.sum(axis=(1, 2))
                tensors[tops[rule] : tops[rule + 1]] = tensor.ravel()
                stage.step()
        counts = np.zeros(len(order))
        for rule, (p, _, _) in enumerate(order):
            part, total = tensors[tops[rule] : tops[rule + 1]], rows[bounds[p] : bounds[p + 1]]
            table = part.reshape(len(total), -1)
            # An unreachable state can have any rules.
            table /= np.where(total > 0, total, 1.0)[:, None]
            if not total.all():
                alive = table[total > 0]
                table[total == 0] = alive.mean(axis=0) if len(alive) else 0.0
            counts[rule] = seen[chains[p]] @ table.sum(axis=1, dtype=np.float64)
        roots = np.concatenate([root[chain] for chain in chains])
        return ChainGrammar(
            chains=chains,
            n_interminals=n_interminals,
            states=states,
            rules=numbers,
            tensors=tensors,
            rule_counts=counts,
            root=roots / roots.sum(),
            occupancy=np.concatenate([seen[chain] for chain in chains]),
        )


def _useful(
    rules: Collection[tuple[Chain, Chain, Chain]], roots: Collection[Chain], tags: Collection[str]
) -> set[Chain]:
    """Return the chains that occur in some tree."""
    found: set[Chain] = set()
    ends: set[Chain] = set()
    above: dict[Chain, list[tuple[Chain, Chain]]] = defaultdict(list)
    for parent, left, right in rules:
        above[left].append((parent, right))
        above[right].append((parent, left))
    waiting = [chain for chain in {*roots, *(chain for rule in rules for chain in rule)} if chain[-1] in tags]
    while waiting:
        chain = waiting.pop()
        if chain not in ends:
            ends.add(chain)
            waiting += (parent for parent, other in above[chain] if other in ends)
    waiting = [chain for chain in roots if chain in ends]
    below: dict[Chain, set[Chain]] = defaultdict(set)
    for parent, left, right in rules:
        if left in ends and right in ends:
            below[parent] |= {left, right}
    while waiting:
        chain = waiting.pop()
        if chain not in found:
            found.add(chain)
            waiting.extend(below[chain])
    return found
