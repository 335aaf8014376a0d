"""How many nodes spectral learning needs for a given error: theorem 3 of the long paper.

If each symbol `a` is seen at `M_a` independent nodes, and

    M_a >= 128 m^2 log(2 m R / delta) / (((1 + epsilon)^(1 / (2 N + 1)) - 1)^2 Lambda^2 sigma^4),

then with a probability of `1 - delta` the estimate of a tree's probability, `N` nodes, is within a factor of
`1 - epsilon` and `1 + epsilon`. Here `m` is the number of states and `R` that of rules of both kinds; `sigma` is the
smallest of the symbols' m-th singular values, and `Lambda` the smallest absolute value of any element of the moments
and of `(Sigma^a)^{-1}`. (As printed that is 0 where projections are singular vectors, as `Sigma^a` is diagonal then;
elements that are zero in the limit must be left out.)

The bound is loose: see the documentation. What it says right is how errors grow, with `1 / sigma^2` and with the size
of trees, and how they fall, with the square root of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sapwood.errors import UsageError


@dataclass(frozen=True)
class SampleBound:
    """What theorem 3 says about a grammar.

    Attributes
    ----------
    sigma
        The smallest singular value that counts, of all symbols.
    smallest
        `Lambda`.
    states, rules
        `m` and `R`.

    Examples
    --------
    >>> bound = SampleBound(sigma=0.1, smallest=0.01, states=2, rules=20)
    >>> needed = bound.samples(nodes=5, error=0.5)
    >>> f"{needed:.1e}"
    '2.7e+14'
    >>> round(bound.error(nodes=5, samples=needed), 6), round(bound.error(nodes=5, samples=4 * needed), 2)
    (0.5, 0.23)
    """

    sigma: float
    smallest: float
    states: int
    rules: int

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.smallest > 0 and self.states >= 1 and self.rules >= 1):
            raise UsageError("theorem 3 needs a positive sigma and Lambda, and at least one state and one rule")

    def samples(self, nodes: int, error: float, delta: float = 0.05) -> float:
        """Return `M_a`: how often every symbol must have been seen.

        Parameters
        ----------
        nodes
            `N`, of the tree whose probability is estimated.
        error
            `epsilon`, the relative error that is allowed.
        delta
            The probability with which it may be larger.
        """
        if not error > 0:
            raise UsageError(f"the error must be positive, not {error}")
        step = math.expm1(math.log1p(error) / (2 * _checked(nodes) + 1))
        return self._scale(delta) / step**2

    def error(self, nodes: int, samples: float, delta: float = 0.05) -> float:
        """Return the relative error that so many `samples` of every symbol guarantee; parameters as of `samples`."""
        if not samples > 0:
            raise UsageError(f"the number of samples must be positive, not {samples}")
        step = math.sqrt(self._scale(delta) / samples)
        exponent = (2 * _checked(nodes) + 1) * math.log1p(step)
        return math.expm1(exponent) if exponent < 700 else math.inf

    def _scale(self, delta: float) -> float:
        if not 0 < delta < 1:
            raise UsageError(f"delta must lie between 0 and 1, not {delta}")
        chances = math.log(2 * self.states * self.rules / delta)
        return 128 * self.states**2 * chances / (self.smallest * self.sigma**2) ** 2


def _checked(nodes: int) -> int:
    if nodes < 1:
        raise UsageError(f"a tree has at least 1 node, not {nodes}")
    return nodes
