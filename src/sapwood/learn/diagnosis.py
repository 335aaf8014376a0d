"""Whether a treebank can carry spectral and pivot learning: what of its features holds on other trees.

The theory asks for conditions that nobody can see in a treebank: that features inside and outside of a symbol's nodes
tell its `m` states apart (Condition 1 of Cohen et al. 2012, 2014: `Omega^a` has `m` singular values that are not 0),
that the projections keep that (Condition 2), and for pivot learning that each state has a feature of its own
(Assumption 1 of Cohen and Collins 2014). Singular values of a sample are never 0, and noise makes them larger. So here
the trees are divided in two halves. Singular vectors `u`, `v` and anchors come from the first; on the second

- `u^T Omega^a v` is an estimate of a singular value that noise does not make larger. Its interval is found by the
  bootstrap, whole trees being drawn. The states that a symbol supports are as many as have, one after the other, an
  interval above 0 (and with them Condition 2 holds for these projections);
- an anchor's point is written as a mixture of the anchors: what it has of itself is how sharp it is, and what it has of
  others is how far the pivot assumption fails for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from sapwood.anchors.decomposition import half_from_points
from sapwood.anchors.simplex import simplex_weights
from sapwood.errors import UsageError
from sapwood.learn.pivot.symbols import mean_points
from sapwood.learn.spectral.learner import Spectral
from sapwood.learn.spectral.matrices import SymbolFeatures, extract, scale
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import truncated_svd
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import Threads
from sapwood.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus

# Of features that say how rare ones are held back, as learners have it.
_KAPPA, _SHRINKAGE = 5.0, 10.0
# Smaller parts of the largest singular value are what is left of zeros.
_ROUNDING = 1e-9
# A pivot is sharp if it has so much of its own state.
_SHARP = 0.8


@dataclass(frozen=True)
class Anchor:
    """A feature that stands for a state: its name, how sharp it is, and which part of the nodes has it."""

    feature: str
    sharpness: float
    frequency: float


@dataclass(frozen=True)
class SymbolDiagnosis:
    """What is known of one symbol.

    Attributes
    ----------
    symbol, nodes
        Its name, and how often it occurs.
    states
        How many states its features support.
    values, lower, upper
        Singular values by the other half of the trees, with bounds.
    anchors
        Of so many states, where there are two or more.
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
        """How many anchors are sharp."""
        return sum(anchor.sharpness >= _SHARP for anchor in self.anchors)

    def words(self) -> str:
        """Return the diagnosis in words."""
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
class Diagnosis:
    """What a treebank can carry.

    Attributes
    ----------
    trees, asked
        How many trees it has, and how many states were asked for.
    symbols
        The diagnoses, the most frequent symbol first.
    """

    trees: int
    asked: int
    symbols: tuple[SymbolDiagnosis, ...]

    def words(self, top: int = 20) -> str:
        """Return all of it in words, with the `top` most frequent symbols."""
        nodes = sum(each.nodes for each in self.symbols)
        enough = [each for each in self.symbols if each.states >= self.asked]
        hidden = [each for each in self.symbols if each.states > 1]
        anchors = [anchor for each in hidden for anchor in each.anchors]
        sharp = sum(each.sharp for each in hidden)
        share = sum(each.nodes for each in enough) / max(nodes, 1)
        pivots = f"{sharp} of {len(anchors)} anchors have {_SHARP:.0%} or more of their own state on other trees."
        carried = f"for {len(enough)} symbols ({share:.0%} of nodes)"
        lines = [
            f"{self.trees:,} trees, {len(self.symbols)} symbols with nodes enough to look at.",
            f"Conditions 1 and 2 can hold with {self.asked} states {carried}, with two or more for {len(hidden)}.",
            f"Pivots: {pivots if anchors else 'none.'}",
            _verdict(share, sharp / len(anchors) if anchors else 0.0),
            "",
            *(each.words() for each in self.symbols[:top]),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return asdict(self)

    def state_counts(self) -> dict[str, int]:
        """Return the states that each symbol supports, as the `states` of learners."""
        return {each.symbol: each.states for each in self.symbols}


def _verdict(share: float, sharp: float) -> str:
    states = (
        "carries so many states for most of its nodes"
        if share >= 0.5
        else "does not carry so many states for most nodes"
    )
    pivots = "pivot learning may rely on its anchors" if sharp >= 0.5 else "the pivot assumption fails for most states"
    return f"So this treebank {states} so many states for most of its nodes, and {pivots}."


class _Item(NamedTuple):
    number: int
    name: str
    inside: scipy.sparse.csr_array
    outside: scipy.sparse.csr_array
    tree: np.ndarray


@with_one_blas_thread
def diagnose(
    corpus: Corpus,
    *,
    states: int = 16,
    features: str = "rich",
    least: int = 200,
    resamples: int = 200,
    confidence: float = 0.95,
    random_state: int = 0,
    threads: int = 1,
    progress: Progress | None = None,
) -> Diagnosis:
    """Find out what a treebank can carry.

    Parameters
    ----------
    corpus
        The trees.
    states
        The most states of a symbol that are looked for.
    features
        The set of features.
    least
        Symbols that occur less often are left out.
    resamples, confidence
        Of the bootstrap.
    random_state
        Seed of the division in halves and of resampling.
    threads, progress
        How to run, and what to report to.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> diagnose(corpus, least=1).symbols[0].states
    1
    """
    if states < 2 or least < 1 or resamples < 2 or not 0 < confidence < 1:
        raise UsageError("states are 2 or more, resamples too; least is at least 1, and confidence between 0 and 1")
    if corpus.n_trees < 4:
        raise UsageError(f"{corpus.n_trees} trees cannot be divided into halves that say anything; give more")
    progress = progress or Silent()
    # As spectral learning sees them: unary steps, rare words by their forms.
    problem = Spectral().problem(corpus)
    seen = problem.trees.corpus
    with progress.stage("features", total=1, unit="passes") as stage:
        found = extract(NodeTable(seen, problem.word_classes), features, features, least=2)
        stage.step()
    tree = np.searchsorted(seen.offsets, np.arange(seen.n_nodes), side="right") - 1
    first = np.random.default_rng([random_state, 0]).permutation(seen.n_trees) < seen.n_trees // 2
    counts = seen.symbol_counts()
    order = [a for a in np.argsort(-counts, kind="stable").tolist() if counts[a] >= least and problem.splittable()[a]]

    def items() -> Iterator[_Item]:
        for a in order:
            yield _Item(a, seen.symbols[a], found.inside(a), found.outside(a), tree[found.nodes(a)])

    call = partial(_diagnose_symbol, found, first, states, resamples, confidence, random_state)
    parts = Threads(threads).map(call, items())
    return Diagnosis(
        seen.n_trees, states, tuple(track(parts, progress, "diagnosing", total=len(order), unit="symbols"))
    )


def _diagnose_symbol(
    features: SymbolFeatures,
    first: np.ndarray,
    states: int,
    resamples: int,
    confidence: float,
    seed: int,
    item: _Item,
) -> SymbolDiagnosis:
    ours = first[item.tree]
    nothing = SymbolDiagnosis(item.name, len(ours), 1, (), (), (), ())
    if min(item.inside.shape[1], item.outside.shape[1]) < 2 or ours.sum() < 2 or (~ours).sum() < 2:
        return nothing
    phi, psi = scale(item.inside, _KAPPA), scale(item.outside, _KAPPA)
    rng = np.random.default_rng([seed, 1, item.number])
    left, values, right = truncated_svd(phi[ours], psi[ours], states, rng)
    if not len(values) or values[0] <= 0:
        return nothing
    products = np.asarray((phi[~ours] @ left) * (psi[~ours] @ right))
    estimate, lower, upper = bootstrap_means(products, item.tree[~ours], resamples, confidence, rng)
    sound = lower > _ROUNDING * values[0]
    held = int(len(sound) if sound.all() else sound.argmin())
    if held < 2:
        return nothing
    anchors = _anchors(features, item, ours, psi, right[:, :held])
    told, low, high = (tuple(part.round(6).tolist()) for part in (estimate, lower, upper))
    return SymbolDiagnosis(item.name, len(ours), held, told, low, high, anchors)


def bootstrap_means(
    values: Float[Array, "nodes dimensions"],
    tree: Int[Array, "nodes"],
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Float[Array, "dimensions"], Float[Array, "dimensions"], Float[Array, "dimensions"]]:
    """Return means over nodes, and bounds by drawing whole trees: nodes of one tree depend on each other."""
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
    features: SymbolFeatures, item: _Item, ours: np.ndarray, psi: scipy.sparse.csr_array, right: np.ndarray
) -> tuple[Anchor, ...]:
    """Return anchors of the first half of the trees, and what the second half says of them."""
    points, masses = [], []
    for rows in (ours, ~ours):
        phi = item.inside[rows]
        mass = np.asarray(phi.sum(axis=0)).ravel()
        points.append(mean_points(phi, psi[rows] @ right, mass, _SHRINKAGE))
        masses.append(mass)
    found = half_from_points(points[0], masses[0], right.shape[1], least=min(15.0, masses[0].max()))
    own = simplex_weights(points[1][found.anchors], points[0][found.anchors])
    return tuple(
        Anchor(
            features.describe_inside(item.number, int(column)),
            round(float(own[place, place]), 4),
            round(float(masses[1][column] / (~ours).sum()), 6),
        )
        for place, column in enumerate(found.anchors)
    )
