"""Gram matrices of a treebank: inside and outside vectors of its nodes, each on its own scale.

The infinite sums of `sapwood.automata.gram` weigh a pair of tree and context by the square of its weight, so a few
short trees decide everything. A parser should be as accurate on rare trees as on frequent ones. Here each vector is
divided by the probability of its tree or context, and counts as often as it is seen:

    G_T = E[omega(t) omega(t)^T / p(t)^2]        G_C = E[alpha(c) alpha(c)^T / p(c)^2]

with expectations over the nodes of a sort, `p(t)` proportional to the mean outside vector times `omega(t)` and `p(c)`
to `alpha(c)` times the mean inside vector. The resulting singular values are canonical correlations of inside and
outside, in [0, 1] apart from sampling noise, and the first is 1: a truncation keeps what inside predicts of outside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sapwood.automata.product_operator import Blocks
from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import NodeVectors, TreeEStep
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus


def node_grams(
    grammar: TensorGrammar, corpus: Corpus, *, threads: int = 1, progress: Progress | None = None
) -> tuple[Blocks, Blocks]:
    """Return the Gram matrices of contexts and of trees, `(m_a, m_a)` for each symbol, over a treebank's nodes.

    Trees with rules or symbols that the grammar lacks are skipped. A symbol that occurs in no tree gets matrices in
    which its states matter by their expected counts.
    """
    progress = progress or Silent()
    known = known_trees(grammar, corpus, progress)
    unseen = sorted({grammar.symbols[a] for a in np.flatnonzero(known.symbol_counts() == 0)})
    if unseen:
        names = ", ".join(unseen[:5]) + (", ..." if len(unseen) > 5 else "")
        progress.note(f"{len(unseen):,} symbol(s) are not in the trees and keep their most frequent states: {names}")
    trees = TreeEStep(known, workers=Threads(threads))
    sizes = grammar.states
    means = [np.zeros(m) for m in sizes]
    counts = np.zeros(len(sizes))
    forward = [np.zeros((m, m)) for m in sizes]
    backward = [np.zeros((m, m)) for m in sizes]
    bounds = grammar.state_offsets
    expected = [grammar.occupancy[bounds[a] : bounds[a + 1]] for a in range(len(sizes))]
    # Twice: outside vectors are scaled by the mean inside vector, which is not known in the first pass.
    for again in (False, True):
        with progress.stage("node vectors", total=trees.n_shards, unit="shards") as stage:
            for vectors in trees.inside_outside(grammar, dtype=np.float64):
                for symbol, inside, outside in vectors_by_symbol(vectors, known.symbol, sizes):
                    if not again:
                        scaled = _scaled(inside, expected[symbol])
                        counts[symbol] += len(scaled)
                        means[symbol] += scaled.sum(axis=0)
                        forward[symbol] += scaled.T @ scaled
                    else:
                        scaled = _scaled(outside, means[symbol])
                        backward[symbol] += scaled.T @ scaled
                stage.step()
        means = [mean / max(count, 1.0) for mean, count in zip(means, counts, strict=True)]
    if not any(block.any() for block in backward):
        raise InputError("the grammar gives none of the trees any weight; use the treebank that it was trained on")
    for symbol, often in enumerate(expected):
        if not backward[symbol].any():
            counts[symbol] = 1.0
            forward[symbol] = np.eye(len(often))
            backward[symbol] = np.diag(np.abs(often) / max(float(np.abs(often).sum()), 1e-300) + 1e-12)
    return (
        [block / count for block, count in zip(backward, counts, strict=True)],
        [block / count for block, count in zip(forward, counts, strict=True)],
    )


def known_trees(grammar: TensorGrammar, corpus: Corpus, progress: Progress) -> Corpus:
    """Return the trees whose symbols and rules the grammar has, in its numbering; reports the number of others."""
    try:
        known, strange = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    except InputError as error:
        raise InputError(f"{error}; use the treebank that it was trained on") from error
    if strange:
        progress.note(f"skipped {strange:,} tree(s) with symbols or rules that the grammar lacks")
    return known


def vectors_by_symbol(
    vectors: NodeVectors, symbol_of: Int[Array, "corpus_nodes"], sizes: Int[Array, "symbols"]
) -> Iterator[tuple[int, Float[Array, "nodes m_a"], Float[Array, "nodes m_a"]]]:
    """Yield each symbol of a shard with the inside and outside vectors of its nodes, `(nodes, m_a)`."""
    symbols = symbol_of[vectors.nodes]
    order = np.argsort(symbols, kind="stable")
    for run in np.split(order, np.flatnonzero(np.diff(symbols[order])) + 1):
        symbol = int(symbols[run[0]])
        places = vectors.offsets[run][:, None] + np.arange(sizes[symbol])
        yield symbol, vectors.inside[places], vectors.outside[places]


def _scaled(vectors: np.ndarray, measure: np.ndarray) -> np.ndarray:
    """Return vectors divided by their products with `measure`, all terms taken as positive.

    For a probabilistic grammar that is the probability. With real weights the terms of a product can cancel, and a few
    vectors with a small product must not outweigh all others.
    """
    products = np.abs(vectors) @ np.abs(measure)
    kept = np.isfinite(products) & (products > 0)
    return np.asarray(vectors[kept] / products[kept, None])
