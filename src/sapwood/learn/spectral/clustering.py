"""State clustering (Narayan and Cohen 2015): nodes with nearby projected vectors share a hidden state.

The nodes of each symbol are clustered by k-means on their projected inside and outside vectors, and the treebank, now
with a state at every node, is simply counted: a proper L-PCFG, sparse and non-negative. It can parse as it is, or
initialise EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from sapwood.errors import listed
from sapwood.grammar.emissions import offsets_of
from sapwood.learn.lpcfg.em_refinement import EMInit, EMRefined
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights
from sapwood.learn.spectral.feature_learner import FeatureLearner
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes
from sapwood.numerics.kmeans import k_means
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.params import integer, number
from sapwood.runtime.progress import Progress, track
from sapwood.storage.shapes import Array, Float, Int


@dataclass(frozen=True, kw_only=True, repr=False)
class StateClustering(FeatureLearner, EMRefined):
    """Learner of a probabilistic L-PCFG by clustering nodes, optionally refined by EM.

    Parameters
    ----------
    states, inside, outside, min_feature_count, kappa, tolerance, min_support
        See `FeatureLearner`; `states` is the number of clusters.
    dimensions
        Number of singular vectors to cluster on.
    iterations, eval_every, patience, smoothing, lexical_smoothing
        Settings of EM from the clustered grammar, see `EMRefined`.
    noise
        Noise of this size (in standard deviations of each coordinate) is added to the vectors, for ensembles whose
        members differ more than seeds alone make them.
    unaries, rare_threshold, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> StateClustering(states=4).fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "cluster"

    dimensions: int = integer(24, "Number of singular vectors to cluster on.", low=2)
    eval_every: int = integer(2, "Evaluate on --dev every N EM iterations.", low=1)
    noise: float = number(0.0, "Noise added to the vectors, for ensembles.")

    @with_one_blas_thread
    def _counts(self, problem: LPCFGProblem, progress: Progress, layout: LatentWeights) -> EMInit:
        """Return the numbers of states, and the counts of the corpus with clusters as states."""
        corpus = problem.trees.corpus
        wanted = self._wanted(problem)
        vectors = np.where(wanted > 1, self.dimensions, 1)
        projected = self._project_nodes(NodeTable(corpus, problem.word_classes), vectors, progress)
        if remark := _remark_on_unsplit(projected, wanted):
            progress.note(remark)
        items = (
            (symbol, int(wanted[symbol]), projected.inside[symbol], projected.outside[symbol], values)
            for symbol, values in enumerate(projected.singular_values)
        )
        call = partial(_cluster_symbol, self.noise, self.random_state)
        found = self.executor.map(call, items)
        labels = list(track(found, progress, "clustering", total=len(corpus.symbols), unit="symbols"))
        states = np.array([int(label.max()) + 1 for label in labels], np.int32)
        node_state = np.empty(corpus.n_nodes, np.int64)
        for symbol, label in enumerate(labels):
            nodes = np.flatnonzero(corpus.symbol == symbol)
            node_state[nodes] = label[projected.place[nodes]]
        layout = replace(layout, states=states)
        counts = observed_counts(problem, layout, node_state)
        return EMInit(replace(layout, root=counts.root), counts)


def _remark_on_unsplit(projected: ProjectedNodes, wanted: Int[Array, "symbols"]) -> str:
    """Return a remark on symbols that could have hidden states but get none; empty if there are none."""
    corpus, counts = projected.corpus, projected.corpus.symbol_counts()
    alone = np.flatnonzero(projected.states < np.minimum(wanted, 2))
    if not len(alone):
        return ""
    shown = listed((f"{corpus.symbols[symbol]} ({counts[symbol]:,} times)" for symbol in alone.tolist()), most=3)
    return (
        f"no hidden states for {len(alone)} of {len(wanted)} labels: {shown}. They are rare, or too alike everywhere "
        "they occur to be divided further; these labels are parsed as in a plain PCFG, and nothing needs to be "
        "done. More trees or a lower tolerance would divide more of them"
    )


def observed_counts(problem: LPCFGProblem, layout: LatentWeights, node_state: Int[Array, "nodes"]) -> LatentCounts:
    """Count rules, words and roots of a corpus whose nodes have the given states."""
    trees, corpus = problem.trees, problem.trees.corpus
    inner = np.flatnonzero(corpus.rule >= 0)
    rule = corpus.rule[inner]
    sizes = layout.states[layout.rules[rule]].astype(np.int64)
    cell = node_state[inner] * sizes[:, 1] + node_state[corpus.left[inner]]
    cell = layout.tensor_offsets[rule] + cell * sizes[:, 2] + node_state[corpus.right[inner]]
    tensors = np.bincount(cell, minlength=int(layout.tensor_offsets[-1])).astype(float)
    begins = offsets_of(layout.states[trees.word_symbol])
    leaf_state = node_state[corpus.word >= 0]
    by_word = np.bincount(begins[trees.pair_of_leaf] + leaf_state, minlength=int(begins[-1])).astype(float)
    roots = corpus.roots
    root = np.bincount(
        layout.state_offsets[corpus.symbol[roots]] + node_state[roots], minlength=int(layout.state_offsets[-1])
    ).astype(float)
    return LatentCounts(tensors, trees.by_class(layout.states, by_word), root)


def _cluster_symbol(noise: float, seed: int, item: tuple[int, int, np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the cluster of each node of a symbol, numbered from 0 without gaps."""
    symbol, wanted, inside, outside, singular_values = item
    if wanted < 2 or inside.shape[1] < 2:
        return np.zeros(len(inside), np.int64)
    values = singular_values[: inside.shape[1]]
    points = np.concatenate([standardised(side) * values for side in (inside, outside)], axis=1)
    rng = np.random.default_rng([seed, symbol])
    if noise:
        points = points + noise * points.std(axis=0) * rng.standard_normal(points.shape)
    labels = k_means(points, wanted, rng)
    return np.unique(labels, return_inverse=True)[1]


def standardised(vectors: Float[Array, "nodes dimensions"]) -> Float[Array, "nodes dimensions"]:
    """Return vectors with coordinates of unit size, each node's then scaled to unit length: directions matter."""
    size = np.sqrt((vectors**2).mean(axis=0))
    scaled = vectors / np.where(size > 0, size, 1.0)
    length = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return scaled / np.where(length > 0, length, 1.0)
