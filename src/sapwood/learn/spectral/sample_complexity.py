"""Sample complexity of spectral learning: theorem 3 of Cohen et al. (2012, and the long paper).

If each symbol `a` is seen at `M_a` independent nodes, and

    M_a >= 128 m^2 log(2 m R / delta) / (((1 + epsilon)^(1 / (2 N + 1)) - 1)^2 Lambda^2 sigma^4),

then with a probability of `1 - delta` the estimate of a tree's probability, `N` nodes, is within a factor of
`1 - epsilon` and `1 + epsilon`. Here `m` is the number of states and `R` that of rules of both kinds; `sigma` is the
smallest of the symbols' m-th singular values, and `Lambda` the smallest absolute value of any element of the moments
`c^1_a`, `d^inf_{a -> x}`, `D^{a -> b c}` and of `(Sigma^a)^{-1}`. (As printed that is 0 where projections are singular
vectors, as `Sigma^a` is diagonal then; elements that are zero in the limit must be ignored.)

**Scale.** The theorem assumes that no element of these moments is above 1 in absolute value. If one is, features are
divided by constants, `phi` by `s` and `psi` by `t`, which does not change the grammar. The moments become `c^1 / s`,
`d^inf / t`, `D / (s^2 t)` and `Sigma / (s t)`.

**Marginals.** The papers mention a theorem for marginals `mu(a, i, j)`, and omit it. It follows in the same way: a
marginal of a sentence of `n` words is a sum over its trees, which all have `N = 2 n - 1` nodes and are products of
`2 N + 1` factors. So the bound is that of one such tree.

The bound is loose: see the documentation. It does show how errors grow, with `1 / sigma^2` and with the size of trees,
and how they shrink, with the square root of the data. The papers sketch the proof: it bounds the relative error of each
factor. Terms of both signs can cancel, and then the relative error of their sum is larger (`tests/theorems` has such a
case). So read the theorem as a rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import UsageError
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.spectral.feature_matrices import Chosen
from sapwood.learn.spectral.learner import Spectral
from sapwood.learn.spectral.moments import root_sums, rule_moments, word_sums
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes, project_nodes
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.executor import LOCAL, Executor, Threads
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Float
from sapwood.trees.corpus import Corpus

# Elements of a moment below this part of its largest one, or of the largest term of its sum, are zeros up to rounding.
_ZERO = 1e-12


@dataclass(frozen=True)
class SampleBound:
    """Sample bound of a grammar by theorem 3.

    Attributes
    ----------
    sigma
        `sigma`, the smallest of the symbols' m-th singular values of `Omega^a`.
    smallest
        `Lambda`, the smallest absolute value of an element of the moments and of `(Sigma^a)^{-1}`; zeros are ignored.
    states, rules
        `m`, of the symbol with the most states, and `R`, rules `a -> b c` and `a -> x`.
    scale
        `s t`, by which singular values were divided so that all moments are at most 1 (see the module's text); 1 if
        they were already. `sigma` and `smallest` are those after division.

    Examples
    --------
    >>> bound = SampleBound(sigma=0.1, smallest=0.01, states=2, rules=20)
    >>> needed = bound.samples(nodes=5, error=0.5)
    >>> f"{needed:.1e}"
    '2.7e+14'
    >>> round(bound.error(nodes=5, samples=needed), 6), round(bound.error(nodes=5, samples=4 * needed), 2)
    (0.5, 0.23)
    >>> bound.samples_for_marginals(words=3, error=0.5) == needed
    True
    """

    sigma: float
    smallest: float
    states: int
    rules: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.smallest > 0 and self.states >= 1 and self.rules >= 1):
            raise UsageError("theorem 3 needs a positive sigma and Lambda, and at least one state and one rule")

    def samples(self, nodes: int, error: float, delta: float = 0.05) -> float:
        """Return `M_a`: the required number of occurrences of every symbol.

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
        return self._scale(delta) / self.step(nodes, error) ** 2

    def error(self, nodes: int, samples: float, delta: float = 0.05) -> float:
        """Return the relative error that `samples` occurrences of every symbol guarantee; parameters as for
        `samples`."""
        if not samples > 0:
            raise UsageError(f"the number of samples must be positive, not {samples}")
        step = math.sqrt(self._scale(delta) / samples)
        exponent = (2 * _checked(nodes) + 1) * math.log1p(step)
        return math.expm1(exponent) if exponent < 700 else math.inf

    def samples_for_marginals(self, words: int, error: float, delta: float = 0.05) -> float:
        """Return `M_a` for the marginals `mu(a, i, j)` of a sentence of `words` words.

        All its trees have `2 words - 1` nodes; `error` and `delta` are as for `samples`.
        """
        return self.samples(_nodes_of(words), error, delta)

    def error_of_marginals(self, words: int, samples: float, delta: float = 0.05) -> float:
        """Return the relative error of marginals that `samples` occurrences of every symbol guarantee."""
        return self.error(_nodes_of(words), samples, delta)

    @staticmethod
    def step(nodes: int, error: float) -> float:
        """Return `(1 + epsilon)^(1 / (2 N + 1)) - 1`: the relative error that each of `2 N + 1` factors may have."""
        return math.expm1(math.log1p(error) / (2 * _checked(nodes) + 1))

    def _scale(self, delta: float) -> float:
        if not 0 < delta < 1:
            raise UsageError(f"delta must lie between 0 and 1, not {delta}")
        chances = math.log(2 * self.states * self.rules / delta)
        return 128 * self.states**2 * chances / self.smallest**2 / self.sigma**4


def _checked(nodes: int) -> int:
    if nodes < 1:
        raise UsageError(f"a tree has at least 1 node, not {nodes}")
    return nodes


def _nodes_of(words: int) -> int:
    if words < 1:
        raise UsageError(f"a sentence has at least 1 word, not {words}")
    return 2 * words - 1


def bound_from_moments(
    values: Sequence[Float[Array, "m_a"]],
    roots: Iterable[Float[Array, "m_a"]],
    words: Iterable[Float[Array, "terminals m_a"]],
    rules: Iterable[Float[Array, "m_a m_b m_c"]],
) -> SampleBound:
    """Return the bound of theorem 3 from the moments of a grammar, exact or estimated, under singular vectors.

    Parameters
    ----------
    values
        By symbol the singular values of `Omega^a` in use, largest first: the diagonal of `Sigma^a`.
    roots
        `c^1_a`.
    words
        By preterminal `d^inf_{a -> x}` of its terminals.
    rules
        `D^{a -> b c}`, read one after the other.

    Examples
    --------
    >>> values, words = [np.array([1.0]), np.array([0.5, 0.2])], np.array([[0.3, 0.1], [0.2, -0.1]])
    >>> bound = bound_from_moments(values, [np.array([1.0])], [words], [np.full((1, 2, 2), -0.25)])
    >>> bound.sigma, bound.smallest, bound.states, bound.rules
    (0.2, 0.1, 2, 3)
    """
    for diagonal in values:
        if not len(diagonal) or not diagonal[-1] > 0:
            raise UsageError("theorem 3 needs a positive singular value for each state of each symbol")
    root, word, rule = _Extremes(), _Extremes(), _Extremes()
    for part in roots:
        root.add(part)
    for part in words:
        word.add(part)
    for part in rules:
        rule.add(part)
    top = max(float(diagonal[0]) for diagonal in values)
    inside = max(1.0, root.largest)
    outside = max(1.0, word.largest, rule.largest / inside**2, top / inside)
    scale = inside * outside
    smallest = root.smallest / inside, word.smallest / outside, rule.smallest / (inside * scale), scale / top
    return SampleBound(
        sigma=min(float(diagonal[-1]) for diagonal in values) / scale,
        smallest=min(smallest),
        states=max(len(diagonal) for diagonal in values),
        rules=word.rows + rule.parts,
        scale=scale,
    )


class _Extremes:
    """The smallest and the largest absolute value of arrays, zeros ignored; the number of arrays, and of their rows."""

    def __init__(self) -> None:
        self.smallest, self.largest = math.inf, 0.0
        self.parts = self.rows = 0

    def add(self, part: np.ndarray) -> None:
        self.parts += 1
        self.rows += len(part)
        sizes = np.abs(part)
        top = float(sizes.max(initial=0.0))
        if top > 0:
            self.smallest = min(self.smallest, float(sizes[sizes > _ZERO * top].min()))
            self.largest = max(self.largest, top)


@with_one_blas_thread
def estimate_bound(
    corpus: Corpus,
    states: int | Mapping[str, int] = 16,
    *,
    features: Chosen = "rich",
    threads: int = 1,
    progress: Progress | None = None,
) -> SampleBound:
    """Estimate the bound of theorem 3 from a treebank.

    All quantities are those of the sample, under its singular vectors, as in `Spectral` without smoothing. Noise
    inflates the smallest singular values; `diagnose` estimates `sigma` on held-out trees, with an interval.

    Parameters
    ----------
    corpus
        The trees.
    states
        Maximum number of states `m`: one number for all symbols, or by name (others get one). A symbol with one state
        has a constant feature, so its singular value is 1.
    features
        Inside and outside features, `phi` and `psi`.
    threads, progress
        Number of threads; receives progress reports.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> bound = estimate_bound(corpus, states=1)
    >>> bound.sigma, bound.smallest, f"{bound.samples(nodes=3, error=0.1):.1e}"
    (1.0, 1.0, '3.7e+06')
    """
    learner = Spectral(states=states, inside=features, outside=features, threads=threads)
    problem = learner.problem(corpus)
    wanted = problem.wanted_states(states, learner.min_support)
    table = NodeTable(problem.trees.corpus, problem.word_classes)
    workers, progress = Threads(threads), progress or Silent()
    projected = project_nodes(
        table, wanted, workers=workers, progress=progress, inside=features, outside=features,
        least=learner.min_feature_count, kappa=learner.kappa, tolerance=learner.tolerance,
    )  # fmt: skip
    return bound_of_nodes(projected, problem, workers=workers, progress=progress)


def bound_of_nodes(
    projected: ProjectedNodes, problem: LPCFGProblem, *, workers: Executor = LOCAL, progress: Progress | None = None
) -> SampleBound:
    """Estimate the bound from projected nodes of a problem's corpus; moments of rules are not kept.

    The learners' outside vectors are divided by singular values, so that `Sigma^a` is the identity; here they are the
    papers' again, and `Sigma^a` is the diagonal matrix of singular values.
    """
    corpus = projected.corpus
    values = [
        found[:size] if size > 1 else np.ones(1)
        for found, size in zip(projected.singular_values, projected.states.tolist(), strict=True)
    ]
    counts = np.maximum(corpus.symbol_counts(), 1)
    # The largest elements of any node's `Y` and `Z`: they limit each term of the sums below.
    most_y = [float(np.abs(y).max(initial=0.0)) for y in projected.inside]
    most_z = [float(np.abs(z * s).max(initial=0.0)) for z, s in zip(projected.outside, values, strict=True)]
    at_root = np.bincount(corpus.symbol[corpus.roots], minlength=len(counts)) / corpus.n_trees
    roots = (
        _without_zeros(sums / corpus.n_trees, most * share)
        for sums, most, share in zip(root_sums(projected), most_y, at_root.tolist(), strict=True)
    )
    moments = rule_moments(projected, None, workers, progress or Silent())

    def rules() -> Iterator[np.ndarray]:
        for moment, (a, b, c) in zip(moments, corpus.rules.tolist(), strict=True):
            share = moment.weight / counts[a]
            most = most_z[a] * most_y[b] * most_y[c]
            yield _without_zeros(moment.third * values[a][:, None, None] * share, most * share)

    def words() -> Iterator[np.ndarray]:
        occurrences = np.bincount(problem.trees.pair_of_leaf, minlength=len(problem.trees.word_symbol))
        for a, sums in enumerate(word_sums(projected, None, problem), start=corpus.n_interminals):
            share = occurrences[problem.trees.word_symbol == a][:, None] / counts[a]
            yield _without_zeros(sums * values[a] / counts[a], most_z[a] * share)

    return bound_from_moments(values, roots, words(), rules())


def _without_zeros(moment: np.ndarray, most: float | np.ndarray) -> np.ndarray:
    """Return a moment with zeros in place of rounding errors; the terms of its sum are at most `most`."""
    return np.where(np.abs(moment) > _ZERO * most, moment, 0.0)
