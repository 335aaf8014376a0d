"""Random models of co-occurrence, `Q_{f,g} = sum_h pi(h) r(f|h) s(g|h)`, with anchors."""

from __future__ import annotations

import numpy as np

from sapwood.evaluate import match_columns


def separable(rng, rows: int, states: int, *, weakest=0.1, strongest=0.5, density=1.0) -> np.ndarray:
    """Return distributions as columns, `(rows, states)`, each with a row of its own, of a weight in the given range."""
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


def mixed(rng, rows: int, states: int) -> np.ndarray:
    """Return distributions as columns without any anchor: all states have all rows."""
    return rng.dirichlet(np.ones(rows), size=states).T


def errors(true, found) -> list[float]:
    """Return the largest error of each part, all states in the one order that suits the second part, `r`, best."""
    order = match_columns(true[1], found[1])
    assert sorted(order.tolist()) == list(range(true[1].shape[1]))
    return [float(np.abs(ours - theirs[..., order]).max()) for ours, theirs in zip(true, found, strict=True)]
