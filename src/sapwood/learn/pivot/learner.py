"""Pivot learning from a treebank (Cohen and Collins 2014), with many features, optionally refined by EM.

Step 1 decomposes the features of each symbol (`anchors`). Step 2 finds for each rule the joint distribution of the
states of its node and of its two children that makes the features around it most probable (equation 1, and section 6.2
for several features): the objective is a sum over all triples of one outside feature of the node and one inside feature
of each child. Here each node contributes a few triples, drawn at random, at a small fraction of the cost, or all of
them on request. (With a few triples, all nodes count the same, while in the full sum those with many features count
more. Either way each term is maximal, in expectation, at the true distribution.) Step 3 and section 6.1 give all
probabilities.

All shrinkage vanishes as data grow, so that estimates are consistent: pseudo-counts (`shrinkage`, `rule_prior`) and
fading smoothing are small relative to large counts, equation 1 is solved to within a fixed number of nats of a rule's
whole log-likelihood, and the count required of anchors grows with the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.learn.lpcfg.em_loop import TrainingState
from sapwood.learn.lpcfg.em_refinement import EMInit, EMRefined
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.unary import EMPTY
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights, nodes_by_rule
from sapwood.learn.pivot.anchors import SymbolSettings, SymbolStates, find_states
from sapwood.learn.spectral.feature_learner import FeatureLearner
from sapwood.learn.spectral.feature_matrices import SymbolFeatures, extract
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.numerics.anchor_nmf import Columns
from sapwood.numerics.simplex import Solver
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.params import choice, integer, number
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.trees.corpus import Corpus

# Triples per batch: their pairs of children's states fit the cache.
_CHUNK = 256


@dataclass(frozen=True, kw_only=True, repr=False)
class Pivot(FeatureLearner, EMRefined):
    """Learner of a probabilistic L-PCFG by anchors and convex problems, optionally refined by EM.

    Parameters
    ----------
    states, inside, outside, min_feature_count, kappa, tolerance, min_support
        See `FeatureLearner`. Only features seen `min_support` times can be anchors.
    shrinkage
        Estimates of rare features are shrunk to the overall mean, as if it had been seen this often more.
    columns
        Estimation of the states of outside features: by anchors of their own, aligned (`align`, figure 2), or given
        those of inside features (`fit`, the remark of section 5.3).
    solver
        Solver of the least squares over the simplex.
    alignment_iterations, rule_iterations
        Maximum number of EM iterations for equation 3, and for equation 1.
    rule_tolerance
        Iterations for equation 1 end when a rule's objective is provably within this many nats of its maximum.
    feature_triples
        Number of feature triples per node in equation 1, drawn at random; `"all"`: the whole sum of section 6.2, which
        takes hundreds of times more memory and time.
    rule_prior
        Pseudo-counts in equation 1, distributed as if the three states were independent.
    smoothing, lexical_smoothing, smoothing_half_count
        Smoothing of the grammar and of EM afterwards, see `SmoothingLearner`.
    iterations, eval_every, patience
        Settings of EM afterwards (pivot+EM), see `EMRefined`.
    unaries, rare_threshold, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> Pivot(states=4).fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "pivot"

    shrinkage: float = number(10.0, "Pseudo-count of the mean over all features in the estimate of each.")
    columns: Columns = choice(
        "align", "Estimation of column distributions: align anchors, or fit to the rows' states.", get_args(Columns)
    )
    solver: Solver = choice("active-set", "Solver of the least-squares problems over the simplex.", get_args(Solver))
    alignment_iterations: int = integer(50, "EM iterations of the alignment of anchors.", low=1)
    rule_iterations: int = integer(500, "Maximum EM iterations of the estimate of a rule.", low=1)
    rule_tolerance: float = number(10.0, "Tolerated gap to the maximum log-likelihood of a rule, in nats.")
    feature_triples: int | Literal["all"] = integer(
        4, "Number of feature triples per node in the estimate of a rule; all uses every one.", low=1, options=("all",)
    )
    rule_prior: float = number(2.0, "Pseudo-count in the estimate of a rule.")
    patience: int | None = integer(3, "Stop after N evaluations on --dev without improvement.", low=1, optional=True)
    smoothing_half_count: float = number(
        1000.0, "Occurrences of a state that halve its smoothing; 0 keeps it constant."
    )

    @with_one_blas_thread
    def anchors(self, corpus: Corpus) -> dict[str, list[tuple[str, str | None]]]:
        """Return the inside and outside anchor features of each state, for each symbol with hidden states.

        Outside anchors are None if the columns are fitted.
        """
        problem = self.problem(corpus)
        features, found = self._find(problem, Silent())
        described = [_described(features, symbol, states) for symbol, states in enumerate(found)]
        return {name: pairs for name, pairs in zip(problem.trees.corpus.symbols, described, strict=True) if pairs}

    @with_one_blas_thread
    def _counts(self, problem: LPCFGProblem, progress: Progress, layout: LatentWeights) -> EMInit:
        features, found = self._find(problem, progress)
        evidence = _Evidence(features, found, self.feature_triples, self.shrinkage, self.random_state)
        layout = replace(layout, states=np.array([states.states for states in found], np.int32))
        tensors = self._rules(problem.trees.corpus, found, evidence, progress)
        words = problem.trees.by_class(layout.states, _words(problem, features, found, evidence, layout.states))
        root = _roots(features, found, evidence)
        anchors = tuple(
            text or ""
            for symbol, states in enumerate(found)
            for pair in _described(features, symbol, states) or [("", None)] * states.states
            for text in pair
        )
        return EMInit(replace(layout, root=root), LatentCounts(tensors, words, root), anchors)

    def _told(self, problem: LPCFGProblem, state: TrainingState) -> dict[str, Any]:
        """Return the anchors of each symbol with several states: `of` has their index in `anchors`, -1 for none."""
        bottom = range(len(problem.corpus.symbols)) if problem.unfolded is None else problem.unfolded.bottom.tolist()
        begins = state.weights.state_offsets.tolist()
        places: dict[int, int] = {}
        for symbol in bottom:
            if begins[symbol + 1] - begins[symbol] > 1:
                places.setdefault(symbol, len(places))
        if not places or not state.anchors:
            return {}
        texts = [state.anchors[2 * begins[symbol] : 2 * begins[symbol + 1]] for symbol in places]
        anchors = [
            [[inside, outside or None] for inside, outside in zip(row[::2], row[1::2], strict=True)] for row in texts
        ]
        return {"pivot": {"of": [places.get(symbol, -1) for symbol in bottom], "anchors": anchors}}

    def _find(self, problem: LPCFGProblem, progress: Progress) -> tuple[SymbolFeatures, list[SymbolStates]]:
        """Step 1: decompose the features of each symbol."""
        corpus = problem.trees.corpus
        with progress.stage("features", total=1, unit="passes") as stage:
            features = extract(
                NodeTable(corpus, problem.word_classes), self.inside, self.outside, least=self.min_feature_count
            )
            stage.step()
        wanted = self._wanted(problem)
        settings = SymbolSettings(
            self.kappa, self.tolerance, self.shrinkage, float(self.min_support), self.columns, self.solver,
            self.alignment_iterations,
        )  # fmt: skip
        # Each symbol's matrices alone: they can be sent to other processes.
        items = (
            (symbol, int(wanted[symbol]), features.inside(symbol), features.outside(symbol))
            for symbol in range(len(corpus.symbols))
        )
        call = partial(_find_symbol, settings, self.random_state)
        found = self.executor.map(call, items)
        return features, list(track(found, progress, "decomposing", total=len(corpus.symbols), unit="symbols"))

    def _rules(self, corpus: Corpus, found: list[SymbolStates], evidence: _Evidence, progress: Progress) -> np.ndarray:
        """Step 2: return the expected counts of all rules with states, laid out as in `LatentWeights`."""
        items = (
            evidence.triples(corpus, found, rule, nodes)
            for rule, nodes in zip(corpus.rules.tolist(), nodes_by_rule(corpus), strict=True)
        )
        call = partial(_solve_rule, self.rule_prior, self.rule_iterations, self.rule_tolerance)
        solved = self.executor.map(call, items)
        parts = list(track(solved, progress, "rules", total=len(corpus.rules), unit="rules"))
        return np.concatenate([np.zeros(0), *parts])


@dataclass(frozen=True, kw_only=True, repr=False)
class PivotEM(Pivot):
    """Pivot learning followed by EM: settings as for `Pivot`, with `iterations` of EM."""

    method: ClassVar[str] = "pivot+em"

    iterations: int = integer(10, "EM iterations after the initial estimate.", low=1)


def _described(features: SymbolFeatures, symbol: int, states: SymbolStates) -> list[tuple[str, str | None]]:
    """Return the inside and outside anchor of each state of a symbol, if it has any."""
    inside = [_shown(features.describe_inside(symbol, int(column))) for column in states.inside_anchors]
    outside = [
        None if column < 0 else _shown(features.describe_outside(symbol, int(column)))
        for column in states.outside_order()
    ]
    return list(zip(inside, outside, strict=True))


def _shown(feature: str) -> str:
    """Return a feature in readable form: a unary rule has no empty leaf."""
    return feature.replace(f" {EMPTY}", "").replace("\0", "")


def _find_symbol(
    settings: SymbolSettings, seed: int, item: tuple[int, int, scipy.sparse.csr_array, scipy.sparse.csr_array]
) -> SymbolStates:
    symbol, wanted, phi, psi = item
    return find_states(phi, psi, wanted, settings, np.random.default_rng([seed, symbol]))


class _Triples(NamedTuple):
    """Features around the nodes of one rule: likelihoods of states by distinct triples of features."""

    outside: np.ndarray
    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    nodes: int


def _solve_rule(strength: float, iterations: int, tolerance: float, triples: _Triples) -> np.ndarray:
    """Return the expected counts of a rule's states, `(m_a m_b m_c,)`."""
    tensor = triples.start.copy()
    if tensor.size > 1:
        kernels.rule_em(
            triples.outside, triples.left, triples.right, triples.weights, triples.start, strength, _CHUNK,
            iterations, tolerance, tensor,
        )  # fmt: skip
    return tensor.astype(float).ravel() * triples.nodes


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Features of one side: for each node some drawn at random, and the likelihood of each.

    Attributes
    ----------
    features
        `(combinations, nodes)` int32: columns of the symbol's matrix; one beyond the last where a node has none. If all
        are used, as many as a node can have, padded with -1.
    likelihood
        By symbol, `(d + 1, m)` float32: `p(h|f) / p(h)`, which is `p(f|h)` up to a factor; the last row is 1.
    """

    features: np.ndarray
    likelihood: list[np.ndarray]


class _Evidence:
    """Likelihoods of states given features, for equation 1."""

    def __init__(
        self,
        features: SymbolFeatures,
        found: list[SymbolStates],
        combinations: int | Literal["all"],
        shrinkage: float,
        seed: int,
    ) -> None:
        nodes = features.table.n_nodes
        self.combinations = combinations
        times = [combinations if combinations != "all" else most for most in features.most_of_a_node()]
        self.inside, self.outside = (_Drawn(np.full((number, nodes), -1, np.int32), []) for number in times)
        for symbol, states in enumerate(found):
            own = features.nodes(symbol)
            rng = np.random.default_rng([seed, symbol, 1])
            for side, matrix, given in (
                (self.inside, features.inside(symbol), states.inside),
                (self.outside, features.outside(symbol), states.outside),
            ):
                if combinations == "all":
                    columns = _all(matrix)
                    side.features[: len(columns), own] = columns
                else:
                    side.features[:, own] = _draw(matrix, combinations, rng)
                mass = np.asarray(matrix.sum(axis=0)).reshape(-1, 1)
                seen = mass + shrinkage
                says = mass * given / np.maximum(states.prior, 1e-300) + shrinkage
                # A feature without weight is uninformative.
                drawn = np.where(seen > 0, says / np.where(seen > 0, seen, 1.0), 1.0)
                side.likelihood.append(np.vstack([drawn, np.ones((1, states.states))]).astype(np.float32))

    def triples(self, corpus: Corpus, found: list[SymbolStates], rule: list[int], nodes: np.ndarray) -> _Triples:
        """Return the feature triples around the given nodes of a rule."""
        a, b, c = rule
        start = np.outer(found[a].prior, np.outer(found[b].prior, found[c].prior)).astype(np.float32)
        if start.size == 1:
            nothing = np.zeros((0, 1), np.float32)
            return _Triples(nothing, nothing, nothing, nothing[:, 0], start, len(nodes))
        tables = self.outside.likelihood[a], self.inside.likelihood[b], self.inside.likelihood[c]
        columns = (
            self.outside.features[:, nodes],
            self.inside.features[:, corpus.left[nodes]],
            self.inside.features[:, corpus.right[nodes]],
        )
        if self.combinations == "all":
            columns = _crossed(*columns)
        key = columns[0].ravel().astype(np.int64)
        for column, table in zip(columns[1:], tables[1:], strict=True):
            key = key * len(table) + column.ravel()
        whole = len(key) / len(nodes)
        key, counts = np.unique(key, return_counts=True)
        key, third = np.divmod(key, len(tables[2]))
        first, second = np.divmod(key, len(tables[1]))
        weights = (counts / whole).astype(np.float32)
        return _Triples(tables[0][first], tables[1][second], tables[2][third], weights, start, len(nodes))


def _draw(matrix: scipy.sparse.csr_array, times: int, rng: np.random.Generator) -> np.ndarray:
    """Return for each row some of its columns, `(times, rows)`, each row's without repetition as far as they go."""
    sizes = np.diff(matrix.indptr)
    if not len(matrix.indices):
        return np.full((times, len(sizes)), matrix.shape[1], np.int32)
    first = (rng.random(len(sizes)) * sizes).astype(np.int64)
    # Further ones follow at a stride: a row of 7 entries gives 7 different ones before any comes again.
    stride = 1 + (rng.random(len(sizes)) * np.maximum(sizes - 1, 0)).astype(np.int64)
    stride = np.where(np.gcd(stride, np.maximum(sizes, 1)) == 1, stride, 1)
    place = (first + np.arange(times)[:, None] * stride) % np.maximum(sizes, 1)
    picked = matrix.indices[np.minimum(matrix.indptr[:-1] + place, len(matrix.indices) - 1)]
    return np.where(sizes > 0, picked, matrix.shape[1]).astype(np.int32)


def _all(matrix: scipy.sparse.csr_array) -> np.ndarray:
    """Return the columns of each row, `(most, rows)`, padded with -1."""
    sizes = np.diff(matrix.indptr)
    found = np.full((max(int(sizes.max(initial=0)), 1), len(sizes)), -1, np.int32)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    found[np.arange(len(rows)) - matrix.indptr[rows], rows] = matrix.indices
    found[0, sizes == 0] = matrix.shape[1]
    return found


def _crossed(outside: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all triples of one outside, one left and one right feature of the same node, `(triples,)` each."""
    parts = [
        np.stack(triple)[:, (triple[0] >= 0) & (triple[1] >= 0) & (triple[2] >= 0)]
        for triple in product(outside, left, right)
    ]
    first, second, third = np.concatenate(parts, axis=1)
    return first, second, third


def _words(
    problem: LPCFGProblem,
    features: SymbolFeatures,
    found: list[SymbolStates],
    evidence: _Evidence,
    states: np.ndarray,
) -> np.ndarray:
    """Return expected counts of states by preterminal and word: `q(a -> x | a, h) = r(f | h, a)` (section 6.1).

    The feature of a leaf is its word, if words are among the features, else all it has, each as good as the others.
    """
    corpus = problem.trees.corpus
    begins = offsets_of(states[problem.trees.word_symbol])
    pair = np.full(corpus.n_nodes, -1)
    pair[corpus.word >= 0] = problem.trees.pair_of_leaf
    counts = np.zeros(int(begins[-1]))
    for symbol in range(corpus.n_interminals, len(corpus.symbols)):
        nodes, matrix = features.nodes(symbol), features.inside(symbol)
        chosen = (
            features.inside_feature(symbol) == features.inside_names.index("word")
            if ("word" in features.inside_names)
            else np.ones(matrix.shape[1], bool)
        )
        kept = scipy.sparse.csr_array(matrix[:, chosen])
        table = evidence.inside.likelihood[symbol][:-1][chosen] * found[symbol].prior
        sums = kept @ table
        totals = sums.sum(axis=1, keepdims=True)
        posterior = np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), found[symbol].prior)
        places = begins[pair[nodes]][:, None] + np.arange(int(states[symbol]))
        counts += np.bincount(places.ravel(), weights=posterior.ravel(), minlength=len(counts))
    return counts


def _roots(features: SymbolFeatures, found: list[SymbolStates], evidence: _Evidence) -> np.ndarray:
    """Return expected counts of states at the root: `pi(a, h) = p(root a) p(h | g)` for the feature `g` of roots.

    (Section 6.1.) The feature of roots is one that nothing else has, and most of them do; several are as good as each
    other. If there is none, it is all that roots have.
    """
    corpus = features.table.corpus
    parts = [np.zeros(states.states) for states in found]
    is_root = np.zeros(corpus.n_nodes, bool)
    is_root[corpus.roots] = True
    for symbol in np.unique(corpus.symbol[corpus.roots]).tolist():
        matrix, at = features.outside(symbol), is_root[features.nodes(symbol)]
        here, everywhere = (np.asarray(rows.sum(axis=0)).ravel() for rows in (matrix[at], matrix))
        alone = (here > 0) & (here == everywhere)
        mass = np.where(alone & (here == here[alone].max()), here, 0.0) if alone.any() else here
        said = mass @ (evidence.outside.likelihood[symbol][:-1] * found[symbol].prior)
        said = said if said.sum() > 0 else found[symbol].prior
        parts[symbol] = at.sum() * said / said.sum()
    return np.concatenate(parts)
