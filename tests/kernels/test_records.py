"""Records: groups of arrays that kernels read from the attributes of one object."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from sapwood import kernels


class MadeAnew:
    """A sparse tensor whose attributes make their arrays anew, and note which of those made before are still there."""

    def __init__(self, values: object = (2.0, 3.0)) -> None:
        self._values = values
        self._made: list[weakref.ref] = []
        self.alive: list[int] = []

    @property
    def places(self) -> np.ndarray:
        return self._note(np.array([[0, 0, 1], [1, 1, 0]], np.int32))

    @property
    def values(self) -> np.ndarray:
        return self._note(np.array(self._values))

    def _note(self, array: np.ndarray) -> np.ndarray:
        self.alive.append(self.left)
        self._made.append(weakref.ref(array))
        return array

    @property
    def left(self) -> int:
        return sum(array() is not None for array in self._made)


def test_arrays_made_anew_live_until_the_kernel_returns() -> None:
    tensor, result = MadeAnew(), np.zeros((1, 2))
    kernels.apply_sparse(tensor, np.array([[5.0, 7.0]]), np.array([[11.0, 13.0]]), result)
    assert tensor.alive == [0, 1]  # the first array when the second is made
    np.testing.assert_array_equal(result, [[2 * 5 * 13, 3 * 7 * 11]])
    assert tensor.left == 0


def test_arrays_are_let_go_if_another_does_not_fit() -> None:
    tensor = MadeAnew(values=[2, 3])
    with pytest.raises(TypeError, match="apply_sparse"):
        kernels.apply_sparse(tensor, np.ones((1, 2)), np.ones((1, 2)), np.zeros((1, 2)))
    assert tensor.left == 0
