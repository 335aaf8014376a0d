"""Diagnostics of spectral and pivot learning: tests whether features of a treebank hold up on other trees.

The theory assumes conditions that cannot be read off a treebank: that features inside and outside of a symbol's nodes
distinguish its `m` states (Condition 1 of Cohen et al. 2012, 2014: `Omega^a` has `m` singular values that are not 0),
that the projections preserve that (Condition 2), and for pivot learning that each state has a feature of its own
(Assumption 1 of Cohen and Collins 2014). Singular values of a sample are never 0, and noise inflates them. So the trees
are split into halves. Singular vectors `u`, `v` and anchors come from the first; on the second

- `u^T Omega^a v` is an estimate of a singular value that noise does not inflate. Its interval comes from a bootstrap
  over whole trees. A symbol supports as many states as have, counted from the first, an interval above 0 (for these,
  Condition 2 holds for the projections);
- an anchor's point is written as a mixture of the anchors: its own share is its sharpness, and the shares of the others
  measure how far the pivot assumption fails for it.

With these states, and these estimates of singular values, theorem 3 of Cohen et al. says how many nodes would guarantee
a given error (`sample_complexity`); the other constants of the theorem come from all trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from sapwood.errors import UsageError
from sapwood.learn.pivot.anchors import mean_points
from sapwood.learn.spectral.feature_matrices import SymbolFeatures, extract, scale
from sapwood.learn.spectral.learner import Spectral
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectionSettings, project_features, truncated_svd
from sapwood.learn.spectral.sample_complexity import SampleBound, bound_of_nodes
from sapwood.numerics.anchor_nmf import half_from_points
from sapwood.numerics.simplex import simplex_weights
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.executor import Threads
from sapwood.runtime.params import HasParams, integer, number, opaque
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus

# Shrinkage of rare features, as in the learners.
_KAPPA, _SHRINKAGE = 5.0, 10.0
# Singular values below this fraction of the largest count as zero.
_ROUNDING = 1e-9
# Relative error of a tree's probability for which theorem 3 is evaluated, and the chance that it is larger.
_ERROR, _DELTA = 0.1, 0.05
# Digits of rounded singular values.
_DIGITS = 6
# An anchor is sharp if its own state has at least this share.
_SHARP = 0.8


@dataclass(frozen=True)
class Anchor:
    """An anchor feature of a state: its name, its sharpness, and the share of nodes that have it."""

    feature: str
    sharpness: float
    frequency: float


@dataclass(frozen=True)
class SymbolDiagnosis:
    """Diagnosis of one symbol.

    Attributes
    ----------
    symbol, nodes
        Its name and its number of occurrences.
    states
        Number of states that its features support.
    values, lower, upper
        Singular values on the other half of the trees, with bounds.
    anchors
        Anchors of that many states, if there are two or more.
    """

    symbol: str
    nodes: int
    states: int
    values: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    anchors: tuple[Anchor, ...]

    @property
    def sharp(self) -> int:
        """Number of sharp anchors."""
        return sum(anchor.sharpness >= _SHARP for anchor in self.anchors)

    def words(self) -> str:
        """Return the diagnosis as text."""
        if self.states < 2:
            return f"{self.symbol} ({self.nodes:,} nodes): no hidden states hold on other trees"
        last = self.states - 1
        text = (
            f"{self.symbol} ({self.nodes:,} nodes): {self.states} states; the last singular value is "
            f"{self.values[last]:.3f} [{self.lower[last]:.3f}, {self.upper[last]:.3f}]"
        )
        rarest = min(anchor.frequency for anchor in self.anchors)
        return text + f"; {self.sharp} of {len(self.anchors)} anchors are sharp, the rarest at {rarest:.2%} of nodes"


@dataclass(frozen=True)
class SampleComplexity:
    """Sample complexity of spectral learning from a treebank, by theorem 3, with the states that symbols support.

    Attributes
    ----------
    sigma, lower, upper
        `sigma`, the smallest of the symbols' last singular values, on the other half of the trees, with bounds.
    symbol
        The symbol that has it; empty if no symbol has two states or more, as `sigma` is 1 then.
    smallest, scale
        `Lambda`, and the factor by which the theorem divides singular values so that all moments are at most 1; both as
        in `SampleBound`.
    states, rules
        `m` and `R`.
    nodes, error, delta
        `N`, the nodes of a tree of median size; `epsilon`, the relative error of its probability, and of marginals of
        its sentence; `delta`, the probability of a larger error.
    required
        `M_a`, the number of nodes that the theorem requires of every symbol.
    fewest, most
        Number of nodes of the rarest and of the most frequent of the diagnosed symbols.
    """

    sigma: float
    lower: float
    upper: float
    symbol: str
    smallest: float
    scale: float
    states: int
    rules: int
    nodes: int
    error: float
    delta: float
    required: float
    fewest: int
    most: int

    def words(self) -> str:
        """Return the constants and the requirement as two lines."""
        place = f" ({self.symbol})" if self.symbol else ""
        enough = self.required <= self.fewest
        verdict = "this treebank has as many" if enough else "the bound is far too loose to plan a treebank by"
        return (
            f"Theorem 3: sigma {self.sigma:.3g} [{self.lower:.3g}, {self.upper:.3g}]{place}, "
            f"Lambda {self.smallest:.1e}, {self.states} states, {self.rules:,} rules.\n"
            f"For an error of {self.error:.0%} on a tree of {self.nodes} nodes it requires {self.required:.0e} nodes "
            f"of every symbol (here {self.fewest:,} to {self.most:,}): {verdict}."
        )


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a treebank.

    Attributes
    ----------
    trees, asked
        Number of trees, and requested number of states.
    symbols
        The diagnoses, the most frequent symbol first.
    sample_complexity
        What theorem 3 requires; None if no symbol is frequent enough to be diagnosed.
    """

    trees: int
    asked: int
    symbols: tuple[SymbolDiagnosis, ...]
    sample_complexity: SampleComplexity | None = None

    def words(self, top: int = 20) -> str:
        """Return the diagnosis as text, with the `top` most frequent symbols."""
        nodes = sum(each.nodes for each in self.symbols)
        enough = [each for each in self.symbols if each.states >= self.asked]
        hidden = [each for each in self.symbols if each.states > 1]
        anchors = [anchor for each in hidden for anchor in each.anchors]
        sharp = sum(each.sharp for each in hidden)
        share = sum(each.nodes for each in enough) / max(nodes, 1)
        pivots = f"{sharp} of {len(anchors)} anchors have {_SHARP:.0%} or more of their own state on other trees."
        carried = f"for {len(enough)} symbols ({share:.0%} of nodes)"
        lines = [
            f"{self.trees:,} trees, {len(self.symbols)} symbols that are frequent enough to diagnose.",
            f"Conditions 1 and 2 can hold with {self.asked} states {carried}, with two or more for {len(hidden)}.",
            f"Pivots: {pivots if anchors else 'none.'}",
            _verdict(self.asked, share, sharp / len(anchors) if anchors else 0.0),
            *([] if self.sample_complexity is None else [self.sample_complexity.words()]),
            "",
            *(each.words() for each in self.symbols[:top]),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values."""
        return asdict(self)

    def state_counts(self) -> dict[str, int]:
        """Return the states that each symbol supports, as the `states` of learners."""
        return {each.symbol: each.states for each in self.symbols}


def _verdict(states: int, share: float, sharp: float) -> str:
    supports = "supports" if share >= 0.5 else "does not support"
    pivots = "pivot learning can rely on its anchors" if sharp >= 0.5 else "the pivot assumption fails for most states"
    return f"This treebank {supports} {states} states for most of its nodes; {pivots}."


class _SymbolSupport(NamedTuple):
    number: int
    name: str
    inside: scipy.sparse.csr_array
    outside: scipy.sparse.csr_array
    tree: np.ndarray


@dataclass(frozen=True, kw_only=True, repr=False)
class DiagnosisSettings(HasParams):
    """Settings of a diagnosis.

    Attributes
    ----------
    states
        Maximum number of states of a symbol to test for.
    features
        The feature set.
    min_count
        Rarer symbols are skipped.
    resamples, confidence
        Bootstrap samples, and confidence level of the intervals.
    random_state
        Seed of the split into halves and of resampling.
    """

    states: int = integer(16, "Maximum number of states per symbol.", low=2)
    features: str = opaque("rich", "Set of inside and outside features.", str)
    min_count: int = integer(200, "Minimum count of a symbol.", low=1)
    resamples: int = integer(200, "Number of bootstrap samples.", low=2)
    confidence: float = number(0.95, "Confidence level of the bounds on singular values.", above=0, below=1)
    random_state: int = integer(0, "Random seed.")


@with_one_blas_thread
def diagnose(
    corpus: Corpus,
    *,
    threads: int = 1,
    progress: Progress | None = None,
    **settings: Any,
) -> Diagnosis:
    """Diagnose how many states a treebank supports.

    Parameters
    ----------
    corpus
        The trees.
    threads, progress
        Number of threads; receives progress reports.
    settings
        Those of `DiagnosisSettings`: `states`, `features`, `min_count`, `resamples`, `confidence` and `random_state`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> diagnose(corpus, min_count=1).symbols[0].states
    1
    """
    chosen = DiagnosisSettings(**settings)
    if corpus.n_trees < 4:
        raise UsageError(f"{corpus.n_trees} trees are too few to divide into halves; give more")
    progress = progress or Silent()
    # As in spectral learning: explicit unary steps, rare words by their signatures.
    problem = Spectral().problem(corpus)
    seen = problem.trees.corpus
    with progress.stage("features", total=1, unit="passes") as stage:
        found = extract(NodeTable(seen, problem.word_classes), chosen.features, chosen.features, least=2)
        stage.step()
    tree = np.searchsorted(seen.offsets, np.arange(seen.n_nodes), side="right") - 1
    first = np.random.default_rng([chosen.random_state, 0]).permutation(seen.n_trees) < seen.n_trees // 2
    counts = seen.symbol_counts()
    frequent = [a for a in np.argsort(-counts, kind="stable").tolist() if counts[a] >= chosen.min_count]
    order = [a for a in frequent if problem.splittable()[a]]

    def items() -> Iterator[_SymbolSupport]:
        for a in order:
            yield _SymbolSupport(a, seen.symbols[a], found.inside(a), found.outside(a), tree[found.nodes(a)])

    call = partial(_diagnose_symbol, found, first, chosen)
    workers = Threads(threads)
    parts = workers.map(call, items())
    symbols = tuple(track(parts, progress, "diagnosing", total=len(order), unit="symbols"))
    complexity = None
    if symbols:
        states = np.ones(len(seen.symbols), np.int64)
        states[order] = [each.states for each in symbols]
        settled = ProjectionSettings(kappa=_KAPPA, tolerance=_ROUNDING, seed=chosen.random_state)
        projected = project_features(seen, found, states, settled, workers=workers, progress=progress)
        bound = bound_of_nodes(projected, problem, workers=workers, progress=progress)
        complexity = _sample_complexity(symbols, bound, int(np.median(np.diff(seen.offsets))))
    return Diagnosis(seen.n_trees, chosen.states, symbols, complexity)


def _sample_complexity(symbols: Sequence[SymbolDiagnosis], bound: SampleBound, nodes: int) -> SampleComplexity:
    """Return what theorem 3 requires, with the estimates of `sigma` on the other half of the trees."""
    hidden = [each for each in symbols if each.states > 1]
    sigma, lower, upper, name = 1.0, 1.0, 1.0, ""
    if hidden:
        last = min(hidden, key=lambda each: each.values[each.states - 1])
        sigma, name = max(last.values[last.states - 1], 10.0**-_DIGITS), last.symbol
        lower, upper = (min(getattr(each, side)[each.states - 1] for each in hidden) for side in ("lower", "upper"))
    bound = replace(bound, sigma=sigma / bound.scale)
    counts = [each.nodes for each in symbols]
    return SampleComplexity(
        sigma=sigma,
        lower=lower,
        upper=upper,
        symbol=name,
        smallest=_rounded(bound.smallest),
        scale=_rounded(bound.scale),
        states=bound.states,
        rules=bound.rules,
        nodes=nodes,
        error=_ERROR,
        delta=_DELTA,
        required=_rounded(bound.samples(nodes, _ERROR, _DELTA)),
        fewest=min(counts),
        most=max(counts),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _diagnose_symbol(
    features: SymbolFeatures, first: np.ndarray, settings: DiagnosisSettings, item: _SymbolSupport
) -> SymbolDiagnosis:
    ours = first[item.tree]
    nothing = SymbolDiagnosis(item.name, len(ours), 1, (), (), (), ())
    if min(item.inside.shape[1], item.outside.shape[1]) < 2 or ours.sum() < 2 or (~ours).sum() < 2:
        return nothing
    phi, psi = scale(item.inside, _KAPPA), scale(item.outside, _KAPPA)
    rng = np.random.default_rng([settings.random_state, 1, item.number])
    left, values, right = truncated_svd(phi[ours], psi[ours], settings.states, rng)
    if not len(values) or values[0] <= 0:
        return nothing
    products = np.asarray((phi[~ours] @ left) * (psi[~ours] @ right))
    estimate, lower, upper = bootstrap_means(products, item.tree[~ours], settings.resamples, settings.confidence, rng)
    sound = lower > _ROUNDING * values[0]
    held = int(len(sound) if sound.all() else sound.argmin())
    if held < 2:
        return nothing
    anchors = _anchors(features, item, ours, psi, right[:, :held])
    told, low, high = (tuple(part.round(_DIGITS).tolist()) for part in (estimate, lower, upper))
    return SymbolDiagnosis(item.name, len(ours), held, told, low, high, anchors)


def bootstrap_means(
    values: Float[Array, "nodes dimensions"],
    tree: Int[Array, "nodes"],
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Float[Array, "dimensions"], Float[Array, "dimensions"], Float[Array, "dimensions"]]:
    """Return means over nodes, with bounds by resampling whole trees: nodes of one tree are dependent."""
    number = np.unique(tree, return_inverse=True)[1]
    trees = int(number.max()) + 1
    sums = np.zeros((trees, values.shape[1]))
    np.add.at(sums, number, values)
    sizes = np.bincount(number).astype(float)
    draws = rng.multinomial(trees, np.full(trees, 1 / trees), size=resamples)
    means = (draws @ sums) / np.maximum(draws @ sizes, 1.0)[:, None]
    lower, upper = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return values.mean(axis=0), lower, upper


def _anchors(
    features: SymbolFeatures, item: _SymbolSupport, ours: np.ndarray, psi: scipy.sparse.csr_array, right: np.ndarray
) -> tuple[Anchor, ...]:
    """Return anchors of the first half of the trees, measured on the second."""
    points, masses = [], []
    for rows in (ours, ~ours):
        phi = item.inside[rows]
        mass = np.asarray(phi.sum(axis=0)).ravel()
        points.append(mean_points(phi, psi[rows] @ right, mass, _SHRINKAGE))
        masses.append(mass)
    found = half_from_points(points[0], masses[0], right.shape[1], min_count=min(15.0, masses[0].max()))
    own = simplex_weights(points[1][found.anchors], points[0][found.anchors])
    return tuple(
        Anchor(
            features.describe_inside(item.number, int(column)),
            round(float(own[place, place]), 4),
            round(float(masses[1][column] / (~ours).sum()), 6),
        )
        for place, column in enumerate(found.anchors)
    )
