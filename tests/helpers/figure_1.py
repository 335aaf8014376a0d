"""Figure 1 of Cohen and Collins (2014) with sums written out: the slow twin of the pivot learner."""

from __future__ import annotations

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.numerics.anchor_nmf import decompose
from sapwood.research.pivot_statistics import PivotStatistics


def dense_triples(statistics: PivotStatistics, rule: int) -> np.ndarray:
    """Return `p(g, f2, f3 | a -> b c)` as an array."""
    a, b, c = statistics.rules[rule]
    shape = statistics.pairs[a].shape[1], statistics.pairs[b].shape[0], statistics.pairs[c].shape[0]
    joint = np.zeros(shape)
    features, counts = statistics.triples[rule]
    for (g, f2, f3), count in zip(features, counts, strict=True):
        joint[g, f2, f3] += count
    return joint / joint.sum()


def known_part(s: np.ndarray, r2: np.ndarray, r3: np.ndarray) -> np.ndarray:
    """Return `s(g | h1) r(f2 | h2) r(f3 | h3)`, a row for each `(g, f2, f3)`, a column for each `(h1, h2, h3)`."""
    return np.kron(s, np.kron(r2, r3))


def equation_1(joint: np.ndarray, s: np.ndarray, r2: np.ndarray, r3: np.ndarray, t: np.ndarray) -> float:
    """Return the objective of step 2."""
    kappa = known_part(s, r2, r3) @ t.ravel()
    seen = joint.ravel() > 0
    with np.errstate(divide="ignore"):
        return float(joint.ravel()[seen] @ np.log(kappa[seen]))


def run_em(joint: np.ndarray, s: np.ndarray, r2: np.ndarray, r3: np.ndarray, iterations: int) -> np.ndarray:
    """Return `t(h1, h2, h3 | a -> b c)` after so many iterations of EM from the uniform distribution."""
    known = known_part(s, r2, r3)
    shape = s.shape[1], r2.shape[1], r3.shape[1]
    t = np.full(int(np.prod(shape)), 1 / np.prod(shape))
    weights = joint.ravel()
    for _ in range(iterations):
        kappa = known @ t
        t = t * (np.divide(weights, kappa, out=np.zeros_like(kappa), where=weights > 0) @ known)
    return t.reshape(shape)


def figure_1(statistics: PivotStatistics, states, words: list[str], iterations: int = 2000) -> TensorGrammar:
    """Return the grammar, `states` by symbol; `words` are the terminals."""
    names, n_inner = list(statistics.symbols), statistics.n_interminals
    # Step 1.
    parts = [decompose(matrix, int(m)) for matrix, m in zip(statistics.pairs, states, strict=True)]
    # Steps 2 and 3: p(a -> b c | a) t(h1, h2, h3 | a -> b c), normalised for each h1.
    joint = {}
    totals = [np.zeros(part.states) for part in parts]
    for rule, (a, b, c) in enumerate(statistics.rules.tolist()):
        t = run_em(dense_triples(statistics, rule), parts[a].columns, parts[b].rows, parts[c].rows, iterations)
        joint[a, b, c] = t * statistics.rule_counts[rule] / statistics.counts[a]
        totals[a] += joint[a, b, c].sum(axis=(1, 2))
    rules = {(names[a], names[b], names[c]): weights / totals[a][:, None, None] for (a, b, c), weights in joint.items()}
    # Section 6.1.
    lexical, root = {}, {}
    for p, feature in enumerate(statistics.word_feature):
        for x in np.flatnonzero(feature >= 0):
            lexical[names[n_inner + p], words[x]] = parts[n_inner + p].rows[feature[x]]
    for a, feature in enumerate(statistics.root_feature):
        if feature >= 0:
            root[names[a]] = parts[a].columns[feature] * parts[a].prior * statistics.counts[a]
    whole = sum(row.sum() for row in root.values())
    return TensorGrammar.from_parts(root={name: row / whole for name, row in root.items()}, rules=rules, words=lexical)
