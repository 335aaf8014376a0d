"""Random automata with finite sums over all trees, for tests and benchmarks, and checks of convergence.

A function is strongly convergent if `sum over trees of |t| |f(t)|` is finite. For non-negative weights this
is decidable: `s = T(I, s, s) + sum over x of omega_x` has a least solution, the sum of all `omega(t)`, and there the
derivative of the right-hand side has a spectral radius below one. States that no tree reaches, or that no tree's weight
depends on, are removed first. For weights of any sign, the automaton of absolute weights gives an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from sapwood.automata.algebra import absolute, change_states, conjugate, scale_by_size
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import DivergenceError, gram_matrices
from sapwood.automata.tensors import as_sparse, compact, dense
from sapwood.errors import UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.testing.grammars import random_basis

# Linear systems with at most this many unknowns are solved as dense ones.
_DENSE = 500
_MOST_STEPS = 200
# Sums with a larger mean tree size, relative to the sum, count as not strongly convergent.
_LARGEST_MEAN = 1e7
# Margin of random automata to the border of strong convergence, and tolerance of their radius.
_SAFE, _RADIUS_TOLERANCE = 0.9, 1e-2
# If sums are still finite for such large factors, there are only finitely many trees.
_LARGEST = 1e12


def random_automaton(
    rng: np.random.Generator,
    *,
    states: int | Sequence[int] = 4,
    words: int = 3,
    sorts: int = 1,
    density: float = 1.0,
    real: bool = True,
    radius: float = 0.5,
    strong: bool = True,
) -> TreeAutomaton:
    """Return a random automaton over the sorts `A0, A1, ...` and the words `w0, w1, ...`.

    Every sort has leaves, and every triple of sorts has a rule.

    Parameters
    ----------
    rng
        Source of all random choices.
    states
        Number of states per sort: one number for all, or one for each.
    words, sorts
        Number of words and sorts.
    density
        Probability that a weight of a rule is not zero.
    real
        Draw weights of any sign, else only positive ones.
    radius
        Rules are scaled so that the spectral radius `rho` of the Gram operator at its solution is this.
    strong
        Scale rules further down if strong convergence requires it, which is often the case: over one state and one
        word, `rho` is below 0.14 for every function that is strongly convergent. `rho` is then smaller than `radius`.

    Examples
    --------
    >>> random_automaton(np.random.default_rng(0), states=3, sorts=2)
    <TreeAutomaton: 2 sorts, 6 states, 8 rules>
    """
    sizes = [states] * sorts if isinstance(states, int) else list(states)
    if sorts < 1 or words < 1 or len(sizes) != sorts or min(sizes) < 1:
        raise UsageError("a random automaton needs at least one sort, one word, and one state for each sort")
    if not (0 <= density <= 1 and 0 < radius < 1):
        raise UsageError(f"density must be from 0 to 1 and radius between 0 and 1, not {density} and {radius}")

    def draw(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape)
        return values if real else np.abs(values)

    rules, transitions = [], []
    for rule in np.ndindex(sorts, sorts, sorts):
        shape = [sizes[sort] for sort in rule]
        tensor = draw(*shape) * (rng.random(shape) < density)
        if tensor.any():
            rules.append(rule)
            transitions.append(compact(tensor))
    automaton = TreeAutomaton(
        ["X"] if sorts == 1 else [f"A{number}" for number in range(sorts)],
        tuple(draw(n) for n in sizes),
        np.array(rules, np.int32).reshape(-1, 3),
        tuple(transitions),
        tuple(draw(words, n) for n in sizes),
        [f"w{number}" for number in range(words)],
    )
    highest = _strong_gamma(automaton) if strong else np.inf
    if np.isfinite(highest) and gram_matrices(automaton, gamma=highest).rate <= radius:
        return scale_by_size(automaton, highest)
    gamma = _gamma_of_radius(automaton, radius)
    return automaton if gamma is None else scale_by_size(automaton, gamma)


def total_weight(automaton: TreeAutomaton) -> float:
    """Return `sum over all trees of f(t)` for an automaton without negative weights.

    Raises
    ------
    DivergenceError
        If the sum is not finite.

    Examples
    --------
    >>> round(total_weight(TreeAutomaton.single([1.0], [[[0.25]]], {"a": [0.5], "b": [0.25]})), 12)
    1.0
    """
    _check(automaton)
    sums, _ = _Means(automaton).solve()
    return float(np.concatenate(automaton.root) @ sums)


def is_strongly_convergent(automaton: TreeAutomaton) -> bool:
    """Return whether `sum over trees of |t| |f(t)|` is finite.

    True is certain. So is False if no weight is negative; otherwise it only means that the sum of absolute weights is
    not finite.
    """
    positive = absolute(automaton)
    _check(positive)
    try:
        _, strong = _Means(positive).solve()
    except DivergenceError:
        return False
    return strong


def redundant(automaton: TreeAutomaton, rng: np.random.Generator, extra: int) -> TreeAutomaton:
    """Return the same function with `extra` redundant states per sort.

    These are, in turn, copies of states, states without effect on any weight, and states that no tree reaches; a
    random change of basis then mixes all of them.
    """
    kinds = np.arange(extra) % 3
    bases = [_copies(rng, n, int((kinds == 0).sum())) for n in automaton.sizes.tolist()]
    wide = change_states(automaton, [inside for inside, _ in bases], [outside for _, outside in bases])
    idle, unreached = int((kinds == 1).sum()), int((kinds == 2).sum())
    sizes = wide.sizes
    # States of each sort: those of `wide`, then idle ones, then unreached ones.
    kind = [np.repeat([0, 1, 2], [n, idle, unreached]) for n in sizes]
    root = tuple(_padded(vector, k, rng, idle=False) for vector, k in zip(wide.root, kind, strict=True))
    leaves = tuple(
        np.stack([_padded(row, k, rng, idle=True) for row in rows]) if len(rows) else np.zeros((0, len(k)))
        for rows, k in zip(wide.leaves, kind, strict=True)
    )
    transitions = []
    for rule, tensor in zip(wide.rules.tolist(), wide.transitions, strict=True):
        a, b, c = (kind[sort] for sort in rule)
        old = dense(tensor)
        size = np.abs(old).max(initial=0.0)
        new = rng.normal(size=(len(a), len(b), len(c))) * 0.1 * size
        # Idle states do not affect others, and unreached ones get weight from unreached ones only.
        below_idle = (b == 1)[:, None] | (c == 1)
        below_unreached = (b == 2)[:, None] | (c == 2)
        new[(a != 1)[:, None, None] & below_idle] = 0.0
        new[(a == 2)[:, None, None] & ~below_unreached] = 0.0
        new[: old.shape[0], : old.shape[1], : old.shape[2]] = old
        transitions.append(new)
    mixed = TreeAutomaton(list(wide.sorts), root, wide.rules, tuple(transitions), leaves, wide.words)
    return conjugate(mixed, [random_basis(rng, n) for n in mixed.sizes.tolist()])


def _copies(rng: np.random.Generator, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices `(n, n + count)` that copy inside weights of states, and divide outside weights among copies."""
    inside = np.concatenate([np.eye(n), np.eye(n)[:, rng.integers(0, n, size=count)]], axis=1)
    shares = inside * rng.uniform(0.2, 1.0, size=n + count)
    return inside, shares / shares.sum(axis=1, keepdims=True)


def _padded(vector: np.ndarray, kind: np.ndarray, rng: np.random.Generator, *, idle: bool) -> np.ndarray:
    """Return a vector with random weights for the idle states, or else for the unreached ones."""
    result = rng.normal(size=len(kind)) * np.abs(vector).max(initial=0.0) * (kind == (1 if idle else 2))
    result[kind == 0] = vector
    return result


def _gamma_of_radius(automaton: TreeAutomaton, radius: float) -> float | None:
    """Return the `gamma` for which the Gram operator has about this radius; None if there are finitely many trees."""
    low, high, gamma = 0.0, np.inf, 1.0
    while gamma < _LARGEST and (low == 0 or high / low > 1 + 1e-9):
        try:
            rate = gram_matrices(automaton, gamma=gamma, tolerance=1e-8).rate
        except DivergenceError:
            rate = np.inf
        if abs(rate - radius) <= _RADIUS_TOLERANCE * min(radius, 1 - radius):
            return gamma
        low, high = (low, gamma) if rate > radius else (gamma, high)
        # With one state, 1 - (1 - rate)^2 is proportional to gamma^2, and this is the solution.
        if 0 < rate < 1:
            gamma *= float(np.sqrt((1 - (1 - radius) ** 2) / (1 - (1 - rate) ** 2)))
        if not low < gamma < high:
            gamma = (low + high) / 2 if np.isfinite(high) else 2 * low
    return gamma if gamma < _LARGEST else None


def _strong_gamma(automaton: TreeAutomaton) -> float:
    """Return a `gamma` a little below the largest for which absolute weights are strongly convergent."""
    low, high = 0.0, 1.0
    while is_strongly_convergent(scale_by_size(automaton, high)):
        low, high = high, 2 * high
        if high > _LARGEST:
            return np.inf
    while high - low > 1e-2 * high:
        middle = (low + high) / 2
        if is_strongly_convergent(scale_by_size(automaton, middle)):
            low = middle
        else:
            high = middle
    return _SAFE * low


def _check(automaton: TreeAutomaton) -> None:
    if automaton.words is None:
        raise UsageError("sums over all trees need an automaton with words; this one was made with words=False")
    tensors = [as_sparse(tensor).values for tensor in automaton.transitions]
    if any((weights < 0).any() for weights in (*automaton.root, *automaton.leaves, *tensors)):
        raise UsageError("the sum over all trees is computed only for automata without negative weights")


class _Means:
    """The map `F(s) = T(I, s, s) + sum over x of omega_x` of an automaton without negative weights."""

    def __init__(self, automaton: TreeAutomaton) -> None:
        self.automaton = automaton
        # The entries of all tensors, by global state numbers.
        offsets = offsets_of(automaton.sizes)
        sparse = [as_sparse(tensor) for tensor in automaton.transitions]
        places = [tensor.places + offsets[rule] for rule, tensor in zip(automaton.rules, sparse, strict=True)]
        self.places = np.concatenate([np.zeros((0, 3), np.int64), *places])
        self.values = np.concatenate([np.zeros(0), *(tensor.values for tensor in sparse)])
        self.leaves = np.concatenate([rows.sum(axis=0) for rows in automaton.leaves])
        self.used = self._used()

    def solve(self) -> tuple[np.ndarray, bool]:
        """Return the sum of all `omega(t)`, zero for removed states, and whether it converges strongly.

        Newton's method from zero stays below the solution, so the derivative at each step has a spectral radius of at
        most that at the solution: below one, which holds if and only if some positive vector shrinks under it.
        """
        used, sums = self.used, np.zeros(len(self.leaves))
        if not len(used):
            return sums, True
        best = np.inf
        for _ in range(_MOST_STEPS):
            rest = (self.grow(sums) - sums)[used]
            error, size = float(np.abs(rest / np.maximum(sums[used], 1e-300)).max()), sums[used].min()
            if size > 0 and (error <= 1e-15 or (error <= 1e-12 and error >= 0.5 * best)):
                break
            best = error if size > 0 else np.inf
            found = self._solve(sums, np.stack([rest, np.ones(len(used))], axis=1))
            if found is None or not (found[:, 1] > 0).all():
                raise DivergenceError(
                    "the sum of weights over all trees is not finite; scale the rules down, or check that they are "
                    "probabilities"
                )
            sums[used] += found[:, 0]
        mean = self._solve(sums, sums[used][:, None])
        strong = mean is not None and bool(((mean[:, 0] > 0) & (mean[:, 0] < _LARGEST_MEAN * sums[used])).all())
        return sums, strong

    def grow(self, sums: np.ndarray) -> np.ndarray:
        """Return `F(s)`."""
        parent, left, right = self.places.T
        return self.leaves + np.bincount(parent, self.values * sums[left] * sums[right], minlength=len(self.leaves))

    def slope(self, sums: np.ndarray) -> scipy.sparse.csr_array:
        """Return the derivative of `F` at `s`, `(states, states)`."""
        n = len(self.leaves)
        parent, left, right = self.places.T
        rows, columns = np.concatenate([parent, parent]), np.concatenate([left, right])
        values = np.concatenate([self.values * sums[right], self.values * sums[left]])
        return scipy.sparse.coo_array((values, (rows, columns)), shape=(n, n)).tocsr()

    def _used(self) -> np.ndarray:
        """Return the states that some tree reaches and some tree's weight depends on."""
        reached = self.leaves > 0
        while (more := self.grow(reached.astype(float)) > 0).sum() > reached.sum():
            reached = more
        above = self.slope(reached.astype(float)).T
        needed = np.concatenate(self.automaton.root) > 0
        while (more := needed | (above @ needed.astype(float) > 0)).sum() > needed.sum():
            needed = more
        return np.flatnonzero(reached & needed)

    def _solve(self, sums: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """Solve `x - E x = right` among the used states; None without a finite solution."""
        slope = self.slope(sums)[self.used][:, self.used]
        system = scipy.sparse.eye_array(len(self.used), format="csc") - slope.tocsc()
        try:
            if len(self.used) <= _DENSE:
                found = np.linalg.solve(system.toarray(), right)
            else:
                found = scipy.sparse.linalg.splu(system).solve(right)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        return found if np.isfinite(found).all() else None
