"""Errors of decompositions, up to the order of states."""

from __future__ import annotations

import numpy as np

from sapwood.research import match_columns


def errors(true, found) -> list[float]:
    """Return the largest error of each part, all states in the one order that suits the second part, `r`, best."""
    order = match_columns(true[1], found[1])
    assert sorted(order.tolist()) == list(range(true[1].shape[1]))
    return [float(np.abs(ours - theirs[..., order]).max()) for ours, theirs in zip(true, found, strict=True)]
