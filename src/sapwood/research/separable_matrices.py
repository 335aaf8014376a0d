"""Separable matrices: random models of co-occurrence with anchors, for tests of anchor search.

A model is `Q_{f,g} = sum_h pi(h) r(f|h) s(g|h)` (Cohen and Collins 2014, section 5). It is separable (definition 2) if
each state `h` has a row `f` of its own: `r(f|h) > 0`, and `r(f|h') = 0` for all other states.
"""

from __future__ import annotations

import numpy as np

from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Float


def separable(
    rng: np.random.Generator,
    rows: int,
    states: int,
    *,
    weakest: float = 0.1,
    strongest: float = 0.5,
    density: float = 1.0,
) -> Float[Array, "rows states"]:
    """Return random distributions as columns, each with an anchor: a row that no other column has.

    Parameters
    ----------
    rng
        Source of all random choices.
    rows, states
        Size of the matrix; at least as many rows as states.
    weakest, strongest
        Range of the anchors' probabilities. If every row is an anchor, all are 1.
    density
        Probability that a column has a row that is not an anchor (each has at least one).

    Examples
    --------
    >>> r = separable(np.random.default_rng(0), rows=5, states=2)
    >>> bool(np.allclose(r.sum(axis=0), 1))
    True
    >>> int(((r > 0).sum(axis=1) == 1).sum())  # rows of one state alone
    2
    """
    if not 1 <= states <= rows:
        raise UsageError(f"{states} states need an anchor each, and there are {rows} rows")
    found = np.zeros((rows, states))
    place = rng.permutation(rows)
    anchors, others = place[:states], place[states:]
    if not len(others):
        found[anchors, np.arange(states)] = 1.0
        return found
    strength = rng.uniform(weakest, strongest, size=states)
    found[anchors, np.arange(states)] = strength
    rest = rng.dirichlet(np.ones(len(others)), size=states) * (rng.random((states, len(others))) < density)
    rest[np.arange(states), rng.integers(len(others), size=states)] += 0.1
    found[others] = ((1 - strength)[:, None] * rest / rest.sum(axis=1, keepdims=True)).T
    return found


def mixed(rng: np.random.Generator, rows: int, states: int) -> Float[Array, "rows states"]:
    """Return random distributions as columns without any anchor: all states have all rows."""
    return np.asarray(rng.dirichlet(np.ones(rows), size=states).T)
