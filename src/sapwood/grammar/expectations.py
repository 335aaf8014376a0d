"""Expected counts of states and rules in a tree of a probabilistic grammar.

The expected numbers `e` of states solve the linear system `e = pi + M^T e`, where `M` holds the expected numbers of
child states below a state.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float


def expected_counts(grammar: TensorGrammar) -> tuple[Float[Array, "all_states"], Float[Array, "rules"]]:
    """Return the expected number of each state, and of each rule, in a tree."""
    offsets = grammar.state_offsets
    size = int(offsets[-1])
    rows, columns, values = [], [], []
    for rule, (a, b, c) in enumerate(grammar.rules):
        tensor = grammar.tensor(rule)
        for child, below in ((b, tensor.sum(axis=2)), (c, tensor.sum(axis=1))):
            i, j = np.meshgrid(np.arange(below.shape[0]), np.arange(below.shape[1]), indexing="ij")
            rows.append((offsets[a] + i).ravel())
            columns.append((offsets[child] + j).ravel())
            values.append(below.ravel())
    if rows:
        below = scipy.sparse.csc_array(
            (np.concatenate(values), (np.concatenate(columns), np.concatenate(rows))), shape=(size, size)
        )
        with warnings.catch_warnings():
            # A singular system gives numbers that are not finite; reported below.
            warnings.simplefilter("ignore", scipy.sparse.linalg.MatrixRankWarning)
            states = scipy.sparse.linalg.spsolve(scipy.sparse.eye_array(size, format="csc") - below, grammar.root)
    else:
        states = grammar.root.copy()
    states = np.atleast_1d(states)
    if not np.isfinite(states).all() or states.min() < -1e-9:
        raise GrammarError("the grammar's trees have no finite expected size: its rules grow faster than they end")
    counts = np.array(
        [
            states[offsets[a] : offsets[a + 1]] @ grammar.tensor(rule).sum(axis=(1, 2))
            for rule, (a, _, _) in enumerate(grammar.rules)
        ]
    )
    return np.maximum(states, 0.0), counts


def with_expected_counts(grammar: TensorGrammar) -> TensorGrammar:
    """Return the grammar with `occupancy` and `rule_counts` set to their expected values."""
    try:
        occupancy, counts = expected_counts(grammar)
    except GrammarError:
        return grammar
    return replace(grammar, occupancy=occupancy, rule_counts=counts)
