"""Statistics of pivot learning: counts of rules and features (Cohen and Collins 2014, figure 1, step 0).

Every node has one inside feature `f = tau(t)` and one outside feature `g = rho(o)`. Counts are over all nodes of all
trees, observed ones or, for a known grammar, expected in a tree; which of both makes no difference to a learner,
because it only uses their ratios: `p(a -> b c | a) = rule_counts / counts[a]`, `p(f, g | a) = pairs[a] / counts[a]`
and `p(g, f2, f3 | a -> b c) = triples / rule_counts`. (The paper picks one node of each tree. Its Theorem 1 is then
right only if all trees have the same number of nodes, see `sapwood.research.exact_moments`; with all nodes it is.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import scipy.sparse

from sapwood.storage.shapes import Array, Float, Int


@dataclass(frozen=True, eq=False)
class PivotStatistics:
    """Counts of rules and features; features are numbered from 0 for each symbol, those that never occur left out.

    Attributes
    ----------
    symbols, n_interminals, rules
        As in a `TensorGrammar`.
    counts
        How many nodes each symbol has.
    rule_counts
        How often each rule occurs.
    pairs
        By symbol, `(inside features, outside features)`: how many nodes have both; sums to `counts[a]`.
    triples
        By rule: features `g` of the node, `f2` of its left and `f3` of its right child, all rows different; and how
        many nodes have them; sums to `rule_counts[rule]`.
    word_feature
        By preterminal (numbered from 0): the inside feature of a node with each word, -1 without such a node.
    root_feature
        The outside feature of a root, -1 if the symbol is never at the root.
    """

    symbols: Sequence[str]
    n_interminals: int
    rules: Int[Array, "rules 3"]
    counts: Float[Array, "symbols"]
    rule_counts: Float[Array, "rules"]
    pairs: list[scipy.sparse.csr_array]
    triples: list[tuple[Int[Array, "triples 3"], Float[Array, "triples"]]]
    word_feature: list[Int[Array, "terminals"]]
    root_feature: Int[Array, "symbols"]
