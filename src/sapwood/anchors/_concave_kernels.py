"""Compiled loops of the concave problems."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def entry_products(indptr: np.ndarray, indices: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return for each entry `(f, g)` of a sparse matrix the product of `left[f]` and `right[g]`, `(entries,)`."""
    result = np.empty(len(indices))
    m = left.shape[1]
    for f in range(len(indptr) - 1):
        own = left[f]
        for at in range(indptr[f], indptr[f + 1]):
            other = right[indices[at]]
            total = 0.0
            for h in range(m):
                total += own[h] * other[h]
            result[at] = total
    return result
