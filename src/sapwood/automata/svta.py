"""Singular value tree automata (algorithm 1) and their truncation.

With `G_C = L L^T`, `G_T = R R^T` and the singular value decomposition `L^T R = U D V^T`, the singular values `D` are
those of the Hankel matrix (Lemma 1), and the automaton conjugated by `Q = R V D^{-1/2}` is the singular value tree
automaton. This is the paper's `Q`, written without an inverse: `Q^{-T} = L U D^{-1/2}`. So nothing is divided by
small numbers, the automaton need not be minimal, and directions without weight do not appear.

A truncation keeps the columns of the largest singular values of each sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np

from sapwood.automata.algebra import change_states
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import GramMatrices, gram_matrices
from sapwood.automata.product_operator import Blocks
from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Float, Int

# Smaller parts of a sort's scaled Gram matrix are rounding errors.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class SingularStates:
    """Singular values of an automaton's Hankel matrices, and the maps to their states.

    Attributes
    ----------
    values
        Decreasing singular values of each sort, as many as its rank.
    inside, outside
        `Q^{-T}` and `Q` of each sort: `omega(t)` times the one and `alpha(c)` times the other are the vectors of the
        singular value tree automaton.
    """

    values: list[Float[Array, "rank"]]
    inside: list[Float[Array, "states rank"]]
    outside: list[Float[Array, "states rank"]]

    @property
    def ranks(self) -> Int[Array, "sorts"]:
        """Number of singular values of each sort."""
        return np.array([len(values) for values in self.values])

    def truncated(self, states: Sequence[int] | Int[Array, "sorts"] | int) -> SingularStates:
        """Keep the first `states` of each sort, at least one."""
        counts = np.broadcast_to(np.asarray(states), (len(self.values),))
        cut = [slice(0, max(1, int(count))) for count in counts]
        return SingularStates(
            [values[part] for values, part in zip(self.values, cut, strict=True)],
            [matrix[:, part] for matrix, part in zip(self.inside, cut, strict=True)],
            [matrix[:, part] for matrix, part in zip(self.outside, cut, strict=True)],
        )

    def dropped(self, states: Sequence[int] | Int[Array, "sorts"] | int) -> float:
        """Return the root of the sum of squares of the singular values beyond the first `states` of each sort.

        No automaton with this number of states is closer in the Hankel norm, `sqrt(sum over trees of |t| (f - f')^2)`.
        """
        counts = np.broadcast_to(np.asarray(states), (len(self.values),))
        rest = [values[int(count) :] for values, count in zip(self.values, counts, strict=True)]
        return float(np.sqrt(sum(float(values @ values) for values in rest)))


def singular_states(grams: GramMatrices | tuple[Blocks, Blocks]) -> SingularStates:
    """Return the singular values and states of Gram matrices (of contexts and trees)."""
    contexts, trees = (grams.contexts, grams.trees) if isinstance(grams, GramMatrices) else grams
    values, inside, outside = [], [], []
    for context, tree in zip(contexts, trees, strict=True):
        left, right = square_root(context), square_root(tree)
        u, d, v = np.linalg.svd(left.T @ right, full_matrices=False)
        kept = d > (d[0] if len(d) else 0.0) * 1e-15
        if not kept.any():
            # A sort without weight keeps one state without effect.
            n = len(context)
            values.append(np.zeros(1))
            inside.append(np.zeros((n, 1)))
            outside.append(np.zeros((n, 1)))
            continue
        u, d, v = u[:, kept], d[kept], v[kept].T
        q = right @ (v / np.sqrt(d))
        signs = np.sign(q[np.abs(q).argmax(axis=0), np.arange(q.shape[1])])
        values.append(d)
        outside.append(q * signs)
        inside.append(left @ (u / np.sqrt(d)) * signs)
    return SingularStates(values, inside, outside)


def square_root(gram: Float[Array, "states states"]) -> Float[Array, "states rank"]:
    """Return `L` with `L L^T` the Gram matrix; rows and columns are first brought to one scale."""
    scale = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    safe = np.where(scale > 0, scale, 1.0)
    eigenvalues, vectors = np.linalg.eigh(gram / np.outer(safe, safe))
    kept = eigenvalues > _ROUNDING * max(float(eigenvalues.max(initial=0.0)), 1e-300)
    return np.asarray(scale[:, None] * vectors[:, kept] * np.sqrt(eigenvalues[kept]))


def project(automaton: TreeAutomaton, states: SingularStates) -> TreeAutomaton:
    """Return the automaton over other states; with all singular states the function stays the same."""
    return change_states(automaton, states.inside, states.outside)


def svta(automaton: TreeAutomaton, states: int | None = None, *, gamma: float = 1.0) -> TreeAutomaton:
    """Return the singular value tree automaton, or its truncation to `states` states of each sort.

    With `gamma` other than 1 the states are those of `gamma^size(t) f(t)` (SVTA*).

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0, 0.5], np.full((2, 2, 2), 0.05), {"a": [0.5, 0.25], "b": [0.25, 0.1]})
    >>> svta(automaton)
    <TreeAutomaton: 1 sort, 2 states, 1 rules>
    """
    found = singular_states(gram_matrices(automaton, gamma=gamma))
    return project(automaton, found if states is None else found.truncated(states))


class StateBudget(TypedDict, total=False):
    """Number of states to keep, in one of these ways; each sort keeps at least one and at most its rank.

    Attributes
    ----------
    work
        Keep the parsing cost of this many states per sort, spent where it helps most: states are dropped in the order
        of their squared singular value per product that they cost, `n_a n_b n_c` for each use of a rule.
    budget
        This fraction of the states of all sorts together, those of the largest singular values.
    tolerance
        As few as possible, such that the dropped singular values are, as root of the sum of squares, at most this
        fraction of all; sorts with larger ones keep more.
    states
        Maximum number of states of each sort.
    """

    work: int | None
    budget: float | None
    tolerance: float | None
    states: int | None


def choose_states(
    values: Sequence[Float[Array, "rank"]],
    *,
    sizes: Sequence[int] | None = None,
    weights: Float[Array, "sorts"] | None = None,
    rules: tuple[Int[Array, "rules 3"], Float[Array, "rules"]] | None = None,
    **choice: Unpack[StateBudget],
) -> Int[Array, "sorts"]:
    """Return the number of states of each sort; at least one and at most its rank.

    Parameters
    ----------
    values
        Singular values of each sort.
    sizes
        Current number of states of each sort; by default their ranks.
    weights
        Factors of the singular values of each sort, for `budget`, `work` and `tolerance`.
    rules
        For `work`: the rules, and the number of uses of each.
    choice
        One of the ways in `StateBudget`.

    Examples
    --------
    >>> choose_states([np.array([8.0, 4.0, 0.1]), np.array([2.0, 0.2])], tolerance=0.05)
    array([2, 1])
    >>> choose_states([np.array([8.0, 4.0, 0.1]), np.array([2.0, 0.2])], budget=0.8)
    array([2, 2])
    """
    way, number = check_choice(choice)
    ranks = np.array([len(part) for part in values])
    if way == "states":
        return np.minimum(ranks, int(number))
    sort = np.repeat(np.arange(len(ranks)), ranks)
    squares = np.concatenate([np.asarray(part) ** 2 for part in values])
    if weights is not None:
        squares *= np.asarray(weights)[sort] ** 2
    if way == "work":
        if rules is None:
            raise UsageError("to choose states by work the rules must be known")
        return _spread(np.split(squares, np.cumsum(ranks)[:-1]), int(number), *rules)
    first = np.diff(sort, prepend=-1) > 0
    # The smallest first; states that must be kept come last.
    order = np.lexsort((np.where(first, np.inf, squares),))
    if way == "budget":
        total = int(ranks.sum()) if sizes is None else sum(sizes)
        wanted = max(int(number * total + 1e-9), len(ranks))
        gone = order[: max(0, len(order) - wanted)]
    else:
        gone = order[np.cumsum(squares[order]) <= number**2 * squares.sum()]
    return ranks - np.bincount(sort[gone[~first[gone]]], minlength=len(ranks))


def _spread(squares: Sequence[np.ndarray], work: int, rules: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """Drop states until parsing costs no more than with `work` states of each sort, the least useful per cost first."""
    n_sorts = len(squares)
    counts = np.array([len(part) for part in squares], float)
    columns = [rules[:, axis] for axis in range(3)]
    uses = np.maximum(uses, 0.0)

    def products(sizes: np.ndarray) -> np.ndarray:
        return np.asarray(uses * sizes[columns[0]] * sizes[columns[1]] * sizes[columns[2]])

    limit = products(np.minimum(counts, work)).sum()
    gain = np.array([part[-1] if len(part) > 1 else np.inf for part in squares])
    while (cost := products(counts)).sum() > limit * (1 + 1e-12):
        saved = sum(np.bincount(column, weights=cost, minlength=n_sorts) for column in columns) / counts
        sort = int((gain / np.maximum(saved, 1e-300)).argmin())
        if gain[sort] == np.inf:
            break
        counts[sort] -= 1
        left = int(counts[sort])
        gain[sort] = squares[sort][left - 1] if left > 1 else np.inf
    return counts.astype(np.int64)


def check_choice(choice: StateBudget) -> tuple[str, float]:
    """Return the one given way to choose states, and its number; raises a `UsageError` if there is none."""
    given = [(way, number) for way, number in choice.items() if number is not None]
    if len(given) != 1 or given[0][0] not in StateBudget.__annotations__:
        raise UsageError("give one of work, budget, tolerance or states")
    way, number = given[0]
    assert isinstance(number, int | float)
    if way in ("work", "states") and number < 1:
        raise UsageError(f"{way} must be at least 1, not {number}")
    if way == "budget" and not 0 < number <= 1:
        raise UsageError(f"the budget must be above 0 and at most 1, not {number}")
    if way == "tolerance" and not 0 <= number < 1:
        raise UsageError(f"the tolerance must be at least 0 and below 1, not {number}")
    return way, number
