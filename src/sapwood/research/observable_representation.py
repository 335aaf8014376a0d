"""Observable representation of an L-PCFG: from moments of features to the weights of a grammar.

The algebra of spectral learning: Cohen et al. (long paper), sections 7 and 8. A node of label `A_1` is picked from a
tree; `R_1` is its rule, `T_1` its inside tree, `T_2`, `T_3` those of its children, `O` its outside tree. `phi` maps
inside trees and `psi` outside trees to features. `Omega^a = E[phi(T_1) psi(O)^T | A_1 = a]` (equation 21), with a row
for each inside and a column for each outside feature, gives projections `U^a` and `V^a` (figure 8, `project`); with

    Y_1 = (U^a)^T phi(T_1),   Y_2 = (U^b)^T phi(T_2),   Y_3 = (U^c)^T phi(T_3),   Z = (V^a)^T psi(O)

the moments of `Moments` give the weights by equations 14-16 (figure 7, `assemble`). Nothing here knows where moments
come from: expectations under a known grammar and means over a treebank are treated alike.

**Axes.** `Sigma^a` is `(inside, outside)` of its symbol. A rule's moment is `(outside of a, inside of b, inside of c)`,
and multiplying its first axis by `(Sigma^a)^{-1}` turns that axis to what inside row vectors of `a` are written in: the
first axis of a `TensorGrammar`'s tensor. In that basis an inside tree's vector is its `b (G^a)^{-1}` and an outside
tree's is `G^a b`, where `G^a = (U^a)^T I^a` and `I^a` has a column `E[phi(T_1) | h, a]` for each true state `h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from sapwood.errors import GrammarError, UsageError
from sapwood.storage.shapes import Array, Float, Int, Num

# Sparse matrices with no more entries than this, zeros included, are decomposed as dense ones.
_DENSE = 250_000


@dataclass(frozen=True, eq=False)
class Moments:
    """Projected moments of all symbols, rules and words, numbered as in `TensorGrammar`.

    Attributes
    ----------
    symbols, n_interminals, rules
        Those of the grammar to come; rules sorted.
    counts, rule_counts
        How often each symbol and each rule occurs, in all or in a tree.
    sigma
        By symbol `Sigma^a = E[Y_1 Z^T | A_1 = a]`, with axes (inside, outside).
    mean
        By symbol `E[Y_1 | A_1 = a]`.
    rule
        By rule `D^{a -> b c} = E[[[R_1 = a -> b c]] Z Y_2^T Y_3^T | A_1 = a]`, with axes (outside of `a`, inside of
        `b`, inside of `c`).
    terminals
        By preterminal (counted from 0) the terminals that it emits.
    word
        By preterminal `d^inf_{a -> x} = E[[[R_1 = a -> x]] Z^T | A_1 = a]` for those terminals.
    root
        By symbol `c^1_a = E[[[A_1 = a]] Y_1 | B = 1]`: over the roots of trees alone.
    """

    symbols: Sequence[str]
    n_interminals: int
    rules: Int[Array, "rules 3"]
    counts: Num[Array, "symbols"]
    rule_counts: Num[Array, "rules"]
    sigma: list[Float[Array, "m_a m_a"]]
    mean: list[Float[Array, "m_a"]]
    rule: list[Float[Array, "m_a m_b m_c"]]
    terminals: list[Int[Array, "terminals"]]
    word: list[Float[Array, "terminals m_a"]]
    root: list[Float[Array, "m_a"]]


@dataclass(frozen=True, eq=False)
class SpectralWeights:
    """Weights as `TensorGrammar` keeps them.

    Attributes
    ----------
    states
        `m_a`.
    tensors
        `C^{a -> b c}` of all rules, each `(m_a, m_b, m_c)` in C order, one behind the other.
    lexical
        By preterminal `c^inf_{a -> x}` for its terminals.
    root
        `c^1_a` of all symbols.
    occupancy
        Each symbol's count times the mean of `Y_1`. Its product with the inside vector of a
        tree is the expected number of occurrences of that tree below the symbol.
    """

    states: Int[Array, "symbols"]
    tensors: Float[Array, "weights"]
    lexical: list[Float[Array, "terminals m_a"]]
    root: Float[Array, "all_states"]
    occupancy: Float[Array, "all_states"]


def project(
    omega: Float[Array, "inside outside"] | scipy.sparse.csr_array, rank: int, tolerance: float = 1e-8
) -> tuple[Float[Array, "inside states"], Float[Array, "outside states"], Float[Array, "states"]]:
    """Return `U^a`, `V^a` and the singular values of `Omega^a`, the largest first (figure 8).

    Figure 8 prints the shapes of all three matrices transposed; here they are those of section 7. The largest element
    of each column of `U` is positive, so that equal input gives equal output.

    Parameters
    ----------
    omega
        Dense or sparse.
    rank
        Keep no more than this many singular values.
    tolerance
        Drop singular values below this part of the largest one. They are what is left of zeros, or close to it,
        and are divided by later. At least one is kept, so that every symbol has a state.

    Examples
    --------
    >>> left, right, values = project(np.outer([3.0, 4.0], [1.0, 0.0, 0.0]), rank=2)
    >>> left.shape, right.shape, values.round(6).tolist()
    ((2, 1), (3, 1), [5.0])
    """
    if rank < 1:
        raise UsageError(f"the number of states must be at least 1, not {rank}")
    if not 0 < tolerance < 1:
        raise UsageError(f"the tolerance must lie between 0 and 1, not {tolerance}")
    rows, columns = omega.shape
    if min(rows, columns) < 1:
        raise UsageError(f"{rows} inside and {columns} outside features: there must be at least one of each")
    if isinstance(omega, np.ndarray) or rows * columns <= _DENSE or rank >= min(rows, columns):
        dense = omega if isinstance(omega, np.ndarray) else omega.toarray()
        left, values, right = np.linalg.svd(dense, full_matrices=False)
    elif not omega.count_nonzero():
        left, values, right = np.eye(rows, 1), np.zeros(1), np.eye(1, columns)
    else:
        # A start vector of our own makes Lanczos' iteration repeatable; random, it misses no direction.
        start = np.random.default_rng(0).standard_normal(min(rows, columns))
        left, values, right = scipy.sparse.linalg.svds(omega, k=rank, v0=start)
        order = np.argsort(-values, kind="stable")
        left, values, right = left[:, order], values[order], right[order]
    kept = max(1, min(rank, int(np.count_nonzero(values > tolerance * values[0]))))
    left, values, right = left[:, :kept], values[:kept], right[:kept]
    signs = np.where(left[np.abs(left).argmax(axis=0), np.arange(kept)] < 0, -1.0, 1.0)
    return left * signs, right.T * signs, values


def assemble(moments: Moments, *, tolerance: float = 1e-12) -> SpectralWeights:
    """Return the observable representation of a grammar (equations 14-16; step 3 of figure 7).

    `C(y1, y2) = D(y1, y2) (Sigma^a)^{-1}`, `c^inf = d^inf (Sigma^a)^{-1}`, and `c^1` as it is. A symbol whose `Sigma^a`
    is zero was never seen, and gets weights of zero. Any other `Sigma^a` must have a smallest singular value above
    `tolerance` times its largest, else `GrammarError` names the symbol.
    """
    inverses = [_invert(moments, symbol, tolerance) for symbol in range(len(moments.symbols))]
    tensors = [
        np.einsum("ijk,ia->ajk", moment, inverses[a]).ravel()
        for moment, a in zip(moments.rule, moments.rules[:, 0], strict=True)
    ]
    lexical = [
        moment @ inverse for moment, inverse in zip(moments.word, inverses[moments.n_interminals :], strict=True)
    ]
    occupancy = [count * mean for count, mean in zip(moments.counts, moments.mean, strict=True)]
    return SpectralWeights(
        states=np.array([len(sigma) for sigma in moments.sigma], np.int32),
        tensors=np.concatenate(tensors) if tensors else np.zeros(0),
        lexical=lexical,
        root=np.concatenate(moments.root),
        occupancy=np.concatenate(occupancy),
    )


def _invert(moments: Moments, symbol: int, tolerance: float) -> np.ndarray:
    """Return `(Sigma^a)^{-1}`, with axes (outside, inside)."""
    sigma = moments.sigma[symbol]
    if not sigma.any():
        return np.zeros_like(sigma.T)
    values = np.linalg.svd(sigma, compute_uv=False)
    if not values[-1] > tolerance * values[0]:
        raise GrammarError(
            f"{moments.symbols[symbol]}: its inside and outside trees do not tell {len(sigma)} states apart; "
            "give it fewer states, or cut its singular values at a higher tolerance"
        )
    return np.linalg.inv(sigma)
