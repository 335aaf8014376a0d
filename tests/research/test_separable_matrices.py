"""Random matrices with and without anchors."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.errors import UsageError
from sapwood.research.separable_matrices import mixed, separable


def anchors(matrix: np.ndarray) -> list[np.ndarray]:
    """Return by column the values of the rows that it alone has."""
    alone = (matrix > 0).sum(axis=1) == 1
    return [column[alone & (column > 0)] for column in matrix.T]


@pytest.mark.parametrize("density", [0.2, 1.0])
@pytest.mark.parametrize(("rows", "states"), [(12, 3), (5, 4), (4, 4), (1, 1)])
def test_each_state_has_an_anchor(rows, states, density):
    for seed in range(20):
        matrix = separable(np.random.default_rng(seed), rows, states, weakest=0.2, strongest=0.3, density=density)
        assert matrix.shape == (rows, states)
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
        for found in anchors(matrix):
            assert ((found >= 0.2) & (found <= 0.3)).any() if rows > states else found.tolist() == [1.0]


def test_mixed_states_have_none():
    matrix = mixed(np.random.default_rng(0), 9, 3)
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    assert not any(len(found) for found in anchors(matrix))


def test_too_few_rows():
    for rows, states in ((2, 3), (2, 0)):
        with pytest.raises(UsageError, match="an anchor each"):
            separable(np.random.default_rng(0), rows, states)
