"""Gram matrices of the infinite Hankel matrices (algorithm 2): sums over all trees and all contexts.

For each sort, `G_T = sum over trees of omega(t) omega(t)^T` is the least solution of `s = F(s)` (Theorem 5), a monotone
quadratic map that preserves positive semidefinite matrices. So iterates from zero rise towards the solution, and at
each of them the spectral radius `rho` of the derivative `E` is at most that at the solution, which is below one if the
sums are finite. Both facts are used here: an iterate with `rho >= 1` proves that no solution exists.
`G_C = sum over contexts of alpha(c) alpha(c)^T` then solves a linear system with `E^T`.

Iterating `F` gains a factor `rho` each time. Where `rho` is close to one, Newton's method, whose steps are solved by
GMRES with products `E v` alone, takes far fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import scipy.sparse.linalg

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.product_operator import Blocks, PairOperator, add, linear_map, norm
from sapwood.automata.tensors import ProductTensor, SparseTensor
from sapwood.errors import GrammarError, UsageError
from sapwood.runtime.progress import Progress, Silent

Method = Literal["auto", "fixed-point", "newton"]
# Iterations of the map before its rate is estimated, and the rate beyond which Newton's method is faster.
_FIRST, _SLOW = 12, 0.8
_MOST_STEPS = 60
_DENSE = 48
# Distance of the rate from one below which the automaton is at the border of divergence.
_BORDER = 1e-6
# Maximum relative residual of a linear system.
_UNSOLVED = 1e-6
# Maximum size of weights: products of four of them, and sums of those, do not overflow.
_LARGEST = 1e50


class DivergenceError(GrammarError):
    """The sums over all trees are not finite: the automaton has no Gram matrices."""


@dataclass(frozen=True, eq=False)
class GramMatrices:
    """The Gram matrices of an automaton, `(n_a, n_a)` for each sort.

    Attributes
    ----------
    trees, contexts
        `G_T` and `G_C`; the latter has zeros for states that no tree reaches, where it may be infinite.
    rate
        The spectral radius `rho` of `E` at the solution: the factor that each iteration of the map gains.
    iterations
        Number of applications of the map or its derivative.
    residual
        `|F(s) - s| / |s|` at the end.
    gamma
        The sums are over `gamma^size(t) f(t)`.
    """

    trees: Blocks
    contexts: Blocks
    rate: float
    iterations: int
    residual: float
    gamma: float = 1.0


def gram_matrices(
    automaton: TreeAutomaton,
    *,
    gamma: float = 1.0,
    method: Method = "auto",
    tolerance: float = 1e-13,
    limit: int = 10_000,
    progress: Progress | None = None,
) -> GramMatrices:
    """Return the Gram matrices of an automaton.

    Parameters
    ----------
    automaton
        Minimal or not.
    gamma
        Compute them for `gamma^size(t) f(t)`, which makes larger trees count for more (SVTA*).
    method
        Iterate the map (algorithm 2), use Newton's method, or switch to the latter if iteration is slow.
    tolerance
        Relative change at which iterations stop.
    limit
        Maximum number of applications of the map.
    progress
        Progress display.

    Raises
    ------
    DivergenceError
        If the sums are not finite: `f` is then not strongly convergent.
    """
    check_gamma(gamma)
    if method not in get_args(Method):
        raise UsageError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
    _check_sizes(automaton)
    pairs = PairOperator(automaton, automaton, scale=gamma**2)
    solver = _Solver(pairs, tolerance, limit, progress or Silent())
    try:
        trees = solver.trees(method)
        rate = solver.rate(trees)
        # At the border itself the solution is found to half the digits, but the sums over contexts are infinite.
        if rate >= 1 - _BORDER:
            raise _divergence(rate)
    except DivergenceError as error:
        if gamma > 1:
            raise DivergenceError(f"gamma = {gamma:g} is too large; see largest_gamma: {error}") from error
        raise
    contexts = solver.contexts(trees, rate)
    residual = norm(add(pairs.grow(trees), trees, -1.0)) / max(norm(trees), 1e-300)
    trees, contexts = ([(block + block.T) / 2 for block in blocks] for blocks in (trees, contexts))
    return GramMatrices(trees, contexts, rate, solver.count, residual, gamma)


def pair_sums(one: TreeAutomaton, other: TreeAutomaton) -> tuple[Blocks, Blocks]:
    """Return sums over trees and contexts for two automata with finite Gram matrices of their own.

    These are `sum over trees of omega(t) omega'(t)^T` and `sum over contexts of alpha(c) alpha'(c)^T`.
    """
    solver = _Solver(PairOperator(one, other), 1e-14, 10_000, Silent())
    trees = solver.trees("auto")
    return trees, solver.contexts(trees, solver.rate(trees))


def largest_gamma(automaton: TreeAutomaton, *, tolerance: float = 1e-3, progress: Progress | None = None) -> float:
    """Return the largest `gamma`, up to a relative `tolerance`, for which `gamma^size(t) f(t)` has Gram matrices.

    By bisection; raises `DivergenceError` if there is none as large as 1e-6, and `GrammarError` without a limit.
    """
    progress = progress or Silent()
    pairs = PairOperator(automaton, automaton)
    with progress.stage("gamma", unit="trials") as stage:
        low, start = 1.0, _attempt(pairs, 1.0, None)
        high = 1.0
        while start is None:
            high, low = low, low / 2
            if low < 1e-6:
                raise _divergence(1.0)
            start = _attempt(pairs, low, None)
            stage.step()
        if high == low:
            while (found := _attempt(pairs, 2 * low, start)) is not None:
                low, start = 2 * low, found
                stage.step()
                if low > 1e12:
                    raise GrammarError("any gamma is small enough: the automaton has finitely many trees")
            high = 2 * low
        while high / low > 1 + tolerance:
            middle = float(np.sqrt(high * low))
            found = _attempt(pairs, middle, start)
            stage.step()
            if found is None:
                high = middle
            else:
                low, start = middle, found
    return low


def _attempt(pairs: PairOperator, gamma: float, start: Blocks | None) -> Blocks | None:
    """Return an approximate `G_T` for a `gamma`, from a lower bound of it; None if the sums are not finite."""
    solver = _Solver(pairs.scaled(gamma**2), 1e-6, 2_000, Silent())
    try:
        trees = solver.newton(start or solver.pairs.zeros())
        return trees if solver.rate(trees) < 1 else None
    except DivergenceError:
        return None


def check_gamma(gamma: float) -> None:
    """Raise a `UsageError` for an invalid factor."""
    if not 1 / _LARGEST <= gamma <= _LARGEST:
        raise UsageError(f"gamma is a positive number of moderate size, not {gamma:g}")


def _check_sizes(automaton: TreeAutomaton) -> None:
    """Raise an error for weights whose products would overflow."""
    tensors = (tensor if isinstance(tensor, np.ndarray) else _values(tensor) for tensor in automaton.transitions)
    largest = [float(np.abs(values).max(initial=0.0)) for values in (*automaton.root, *automaton.leaves, *tensors)]
    if not max(largest, default=0.0) <= _LARGEST:
        raise GrammarError(f"a weight is larger than {_LARGEST:g}; divide the weights by something")
    words = max(float(np.abs(rows).max(initial=0.0)) for rows in automaton.leaves)
    if 0 < words < 1 / _LARGEST:
        raise GrammarError(f"all weights of words are smaller than {1 / _LARGEST:g}; multiply them by something")


def _values(tensor: SparseTensor | ProductTensor) -> np.ndarray:
    if isinstance(tensor, SparseTensor):
        return tensor.values
    return np.concatenate([tensor.parent.ravel(), tensor.left.ravel(), tensor.right.ravel()])


def _divergence(rate: float) -> DivergenceError:
    return DivergenceError(
        f"the sum of squared weights over all trees is not finite (spectral radius {rate:.4g}, it must be below 1), so "
        "the automaton has no singular values; scale its rules down (gamma below 1), check that they are "
        "probabilities, or bring it to its minimal form first (sapwood.automata.minimal)"
    )


class _Solver:
    """Solves for `s` and `q`, counting the applications of the operator."""

    def __init__(self, pairs: PairOperator, tolerance: float, limit: int, progress: Progress) -> None:
        self.pairs, self.tolerance, self.limit, self.progress = pairs, tolerance, limit, progress
        self.count = 0
        self.rising = pairs.one is pairs.other

    def trees(self, method: Method) -> Blocks:
        """Return the least solution of `s = F(s)`."""
        with self.progress.stage("sums over trees", unit="iterations") as stage:
            if method == "newton":
                return self.newton(self.pairs.zeros(), stage.step)
            state, before = self.pairs.zeros(), np.inf
            ask, steps = _FIRST, 0
            while True:
                steps += 1
                after = self.pairs.grow(state)
                self._counted(1)
                stage.step()
                change, size = norm(add(after, state, -1.0)), norm(after)
                state = after
                # The next iterate has about the square of this size, and its norm squares it again.
                if not size < 1e60:
                    raise _divergence(np.inf)
                if change <= self.tolerance * size:
                    return state
                is_slow, before = change > _SLOW * before, change
                if steps >= ask and is_slow:
                    ask *= 2
                    if self.rising and (rate := self.rate(state)) >= 1:
                        raise _divergence(rate)
                    if method == "auto":
                        return self.newton(state, stage.step)

    def newton(self, state: Blocks, report: Callable[[], object] = lambda: None) -> Blocks:
        """Return the least solution of `s = F(s)` by Newton's method from a lower bound."""
        best = np.inf
        for _ in range(_MOST_STEPS):
            rest = add(self.pairs.grow(state), state, -1.0)
            self._counted(1)
            report()
            size, error = norm(state), norm(rest)
            if not np.isfinite(error):
                raise _divergence(np.inf)
            # Rounding keeps the residual above zero: when it is small and no longer falls, this is the solution.
            if error <= self.tolerance * size or (error <= 1e-9 * size and error >= 0.5 * best):
                return state
            best = error
            if self.rising and (rate := self.rate(state)) >= 1:
                raise _divergence(rate)
            step = self._solve(partial(self.pairs.slope, state), rest)
            state = add(state, step)
        raise DivergenceError(
            f"Newton's method has not converged after {_MOST_STEPS} steps: the automaton is at the border of divergence"
        )

    def contexts(self, trees: Blocks, rate: float) -> Blocks:
        """Return `q = (alpha (x) alpha) (I - E)^{-1}`."""
        reached = self._reached(trees)
        roots = _masked(self.pairs.roots(), reached)

        def down(blocks: Blocks) -> Blocks:
            return _masked(self.pairs.down(trees, blocks), reached)

        with self.progress.stage("sums over contexts", unit="iterations") as stage:
            if rate > _SLOW:
                found = self._solve(down, roots, stage.step)
                rest = norm(add(add(roots, down(found)), found, -1.0))
                if not rest <= _UNSOLVED * norm(found):
                    raise DivergenceError(
                        f"sums over contexts are known to a part of {rest / max(norm(found), 1e-300):.2g} only: the "
                        "automaton is at the border of divergence (spectral radius "
                        f"{rate:.6g}); scale its rules down (gamma below 1)"
                    )
                return found
            term = state = roots
            while norm(term) > self.tolerance * norm(state):
                term = down(term)
                self._counted(1)
                stage.step()
                state = add(state, term)
            return state

    def rate(self, trees: Blocks) -> float:
        """Return the spectral radius of `E` at `s`, among states that trees reach."""
        with self.progress.stage("rate of convergence", unit="iterations") as stage:
            return self._rate(trees, stage.step)

    def _rate(self, trees: Blocks, report: Callable[[], object]) -> float:
        reached = self._reached(trees)
        apply = linear_map(self.pairs, lambda v: _masked(self.pairs.slope(trees, _masked(v, reached)), reached))
        size = int(self.pairs.pack(trees).size)
        if size <= _DENSE:
            matrix = np.stack([apply(row) for row in np.eye(size)], axis=1)
            self._counted(size)
            return float(np.abs(np.linalg.eigvals(matrix)).max()) if np.isfinite(matrix).all() else np.inf
        return self._power(apply, size, report)

    def _reached(self, trees: Blocks) -> Blocks:
        """Return 1 for pairs of states that some tree reaches, 0 for others, which have no effect."""
        if not self.rising:
            return [np.ones(shape) for shape in self.pairs.shapes]
        seen = [(np.diagonal(block) > 0).astype(float) for block in trees]
        return [np.outer(states, states) for states in seen]

    def _power(self, apply: Callable[[np.ndarray], np.ndarray], size: int, report: Callable[[], object]) -> float:
        """Return the largest absolute eigenvalue, by Arnoldi's method from the identity."""
        start = apply(self.pairs.pack([np.eye(*shape) for shape in self.pairs.shapes]))
        if not start.any():
            return 0.0
        operator = scipy.sparse.linalg.LinearOperator(
            (size, size), matvec=self._counting(apply, report), dtype=np.float64
        )
        try:
            values = scipy.sparse.linalg.eigs(
                operator, k=1, which="LM", v0=start, tol=1e-5, maxiter=200, return_eigenvectors=False
            )
        except scipy.sparse.linalg.ArpackError:
            # E v vanishes after a few applications, or nearly: trees of bounded depth.
            vector, before = start, 1.0
            for _ in range(100):
                vector = apply(vector)
                before = float(np.linalg.norm(vector))
                if before < 1e-290:
                    return 0.0
                vector /= before
            return before
        return float(np.abs(values).max())

    def _solve(
        self, apply: Callable[[Blocks], Blocks], right: Blocks, report: Callable[[], object] = lambda: None
    ) -> Blocks:
        """Solve `x - E x = right` by GMRES."""
        pairs = self.pairs
        mapped = self._counting(linear_map(pairs, apply), report)
        vector = pairs.pack(right)
        operator = scipy.sparse.linalg.LinearOperator(
            (len(vector), len(vector)), matvec=lambda v: v - mapped(v), dtype=np.float64
        )
        found, _ = scipy.sparse.linalg.gmres(
            operator, vector, x0=vector, rtol=max(self.tolerance, 1e-14), atol=0.0, restart=40, maxiter=10
        )
        return pairs.unpack(found)

    def _counting(
        self, apply: Callable[[np.ndarray], np.ndarray], report: Callable[[], object] = lambda: None
    ) -> Callable[[np.ndarray], np.ndarray]:
        def counted(vector: np.ndarray) -> np.ndarray:
            self._counted(1)
            report()
            return apply(vector)

        return counted

    def _counted(self, times: int) -> None:
        self.count += times
        if self.count > self.limit:
            raise DivergenceError(
                f"no convergence after {self.limit:,} iterations: the automaton is at the border of divergence"
            )


def _masked(blocks: Blocks, mask: Blocks) -> Blocks:
    return [block * kept for block, kept in zip(blocks, mask, strict=True)]
