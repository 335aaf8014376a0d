"""The pivot algorithm as figure 1 prints it: one inside and one outside feature for each node, and all its guarantees.

With the statistics of endless data from an L-PCFG whose states all have pivots, the result is that grammar, up to the
order of each symbol's states (Theorem 1). `Pivot` is the same for real treebanks: many features, and smoothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.anchors.concave import Optimum, maximise
from sapwood.anchors.decomposition import Columns, Decomposition, decompose
from sapwood.learn.pivot import _rule_kernels as kernels
from sapwood.testing.pivot_statistics import PivotStatistics

_CHUNK = 256


@dataclass(frozen=True, eq=False)
class PivotParameters:
    """An L-PCFG's own parameters.

    Attributes
    ----------
    states
        `(symbols,)` int32.
    rules
        By rule `t(a -> b c, h2, h3 | a, h1)`, `(m_a, m_b, m_c)`.
    words
        By preterminal `q(a -> x | a, h)`, `(terminals, m_a)`.
    root
        By symbol `pi(a, h)`, `(m_a,)`.
    decompositions
        By symbol, those of step 1.
    """

    states: np.ndarray
    rules: list[np.ndarray]
    words: list[np.ndarray]
    root: list[np.ndarray]
    decompositions: list[Decomposition]


def fit_rule(
    outside: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    weights: np.ndarray,
    *,
    start: np.ndarray | None = None,
    iterations: int = 2000,
    tolerance: float = 1e-10,
) -> Optimum:
    """Maximise `sum w log sum t(h1,h2,h3) outside(h1) left(h2) right(h3)` over distributions `t` (equation 1).

    Parameters
    ----------
    outside, left, right
        `s(g|h1,a)`, `r(f2|h2,b)` and `r(f3|h3,c)` of the triples, `(n, m_a)`, `(n, m_b)`, `(n, m_c)`.
    weights
        `(n,)`: how often each triple occurs; divided by their sum.
    start
        `(m_a, m_b, m_c)`, by default uniform.
    iterations, tolerance
        See `maximise`.
    """
    shape = outside.shape[1], left.shape[1], right.shape[1]
    own = [np.ascontiguousarray(each, float) for each in (outside, left, right, weights / weights.sum())]
    first = np.full(shape, 1.0 / np.prod(shape)) if start is None else start

    def evaluate(tensor: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty((shape[0], shape[1] * shape[2]))
        flat = np.ascontiguousarray(tensor.reshape(gradient.shape))
        value = kernels.rule_pass(own[0], own[1], own[2], own[3], flat, _CHUNK, gradient)
        return value, gradient.reshape(shape)

    return maximise(evaluate, first, iterations=iterations, tolerance=tolerance)


def learn_parameters(
    statistics: PivotStatistics,
    states: int | Sequence[int],
    *,
    columns: Columns = "align",
    least: float = 0.0,
    iterations: int = 2000,
    tolerance: float = 1e-10,
) -> PivotParameters:
    """Run figure 1 and section 6.1.

    Parameters
    ----------
    statistics
        Counts of rules and features, step 0.
    states
        The most states of every symbol, or of each; symbols whose features tell fewer apart get fewer.
    columns, least, iterations, tolerance
        As for `decompose`; the last two hold for equation 1 as well.
    """
    limits = np.broadcast_to(states, (len(statistics.symbols),))
    found = [
        decompose(pairs, int(limit), columns=columns, least=least, iterations=iterations, tolerance=tolerance)
        for pairs, limit in zip(statistics.pairs, limits, strict=True)
    ]
    joint = []
    for (a, b, c), (features, counts) in zip(statistics.rules.tolist(), statistics.triples, strict=True):
        optimum = fit_rule(
            found[a].columns[features[:, 0]], found[b].rows[features[:, 1]], found[c].rows[features[:, 2]], counts,
            iterations=iterations, tolerance=tolerance,
        )  # fmt: skip
        joint.append(optimum.weights * counts.sum())
    totals = [np.zeros(each.states) for each in found]
    for (a, _, _), tensor in zip(statistics.rules.tolist(), joint, strict=True):
        totals[a] += tensor.sum(axis=(1, 2))
    rules = [
        tensor / np.where(totals[a] > 0, totals[a], 1.0)[:, None, None]
        for (a, _, _), tensor in zip(statistics.rules.tolist(), joint, strict=True)
    ]
    words = []
    for each, features in zip(found[statistics.n_interminals :], statistics.word_feature, strict=True):
        words.append(np.where(features[:, None] >= 0, each.rows[np.maximum(features, 0)], 0.0))
    root = []
    for each, feature, count in zip(found, statistics.root_feature, statistics.counts, strict=True):
        root.append(each.columns[feature] * each.prior * count if feature >= 0 else np.zeros(each.states))
    whole = sum(float(part.sum()) for part in root)
    return PivotParameters(
        states=np.array([each.states for each in found], np.int32),
        rules=rules,
        words=words,
        root=[part / whole for part in root],
        decompositions=found,
    )
