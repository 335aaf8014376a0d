"""Sample complexity of spectral learning for a known grammar: theorem 3 with exact moments.

`sapwood.learn.spectral.sample_complexity` states the theorem, and estimates its constants from treebanks.
"""

from __future__ import annotations

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.spectral.sample_complexity import SampleBound, bound_from_moments
from sapwood.research.exact_moments import Scheme, population
from sapwood.research.observable_representation import project

# Singular values below this part of the largest one are zeros, up to rounding.
_TOLERANCE = 1e-10


def exact_bound(grammar: TensorGrammar, *, depth: int = 2, scheme: Scheme = "all nodes") -> SampleBound:
    """Return the bound of theorem 3 for a probabilistic grammar whose trees are the data.

    All constants are exact: `sigma = min_a sigma_{m_a}(Omega^a)`, `Lambda` over the elements of `c^1_a`,
    `d^inf_{a -> x}`, `D^{a -> b c}` and `(Sigma^a)^{-1}` that are not zero, `m = max_a m_a`, and `R` over rules of both
    kinds. Symbols that never occur are ignored.

    Parameters
    ----------
    grammar
        A small probabilistic grammar. If the features of a symbol do not distinguish its states, `sigma` is 0, and
        `GrammarError` names the symbol.
    depth, scheme
        Features, and how nodes are picked, as for `population`.

    Examples
    --------
    >>> words = {("N", "rain"): 1.0, ("V", "fell"): 0.5, ("V", "falls"): 0.5}
    >>> grammar = TensorGrammar.from_parts(root={"S": 1.0}, rules={("S", "N", "V"): 1.0}, words=words)
    >>> bound = exact_bound(grammar, depth=1)
    >>> round(bound.sigma, 6), round(bound.smallest, 6), bound.rules
    (0.707107, 0.5, 4)
    >>> f"{bound.samples(nodes=3, error=0.1):.1e}, {bound.samples_for_marginals(words=10, error=0.1):.1e}"
    '5.5e+07, 1.7e+09'
    """
    source = population(grammar, depth=depth, scheme=scheme)
    projections, values = [], []
    for a, states in enumerate(grammar.states.tolist()):
        left, right, found = project(source.omega(a), states, _TOLERANCE)
        if source.counts[a] > 0 and len(found) < states:
            raise GrammarError(
                f"{grammar.symbols[a]}: its features distinguish {len(found)} of its {states} states, so sigma is 0"
            )
        projections.append((left, right))
        if source.counts[a] > 0:
            values.append(np.asarray(found))
    moments = source.moments(projections)
    inner, seen = grammar.n_interminals, source.counts > 0
    words = [part for part, occurs in zip(moments.word, seen[inner:], strict=True) if occurs]
    rules = [part for part, a in zip(moments.rule, grammar.rules[:, 0].tolist(), strict=True) if seen[a]]
    return bound_from_moments(values, moments.root, words, rules)
