"""Packed forests: the possible trees of a sentence with their posteriors.

A forest is a packed set of trees over a grammar's symbols: nodes (symbols over spans) and edges (a node and its two
children). The forest of a plain sentence has all its parses, or those that survive pruning; that of a partially
bracketed sentence has the parses that agree with the brackets; a tree is a forest of one tree. `Forests` stores those
of many sentences in columns.

Posteriors are those of the parser that built the forest, renormalised after pruning: the posterior of each node is
divided among its edges in proportion, from the roots down, so that each sentence, and each of its words, counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.errors import NoParse
from sapwood.grammar.emissions import offsets_of
from sapwood.inference.chart.chart import Chart
from sapwood.inference.chart.posteriors import Posteriors, choice_entropy
from sapwood.inference.constraints import Requirement
from sapwood.inference.parser import Parser
from sapwood.storage.arrays import content_digest, pack_strings
from sapwood.storage.shapes import Array, Bool, Float64, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# Minimum posterior below which the bound is not lowered further.
_MIN_POSTERIOR = 1e-6


class SentenceForest(NamedTuple):
    """Forest of one sentence; columns as in `Forests`."""

    words: list[str]
    symbol: Int32[Array, "nodes"]
    start: Int32[Array, "nodes"]
    end: Int32[Array, "nodes"]
    root: Bool[Array, "nodes"]
    posterior: Float64[Array, "nodes"]
    edges: Int32[Array, "edges 3"]
    edge_posterior: Float64[Array, "edges"]


@dataclass(frozen=True, eq=False, repr=False)
class Forests:
    """Forests of many sentences.

    Attributes
    ----------
    words
        The vocabulary.
    offsets, edge_offsets
        The nodes and edges of sentence `t` are `offsets[t] .. offsets[t + 1] - 1` and so on.
    symbol, word, start, end, root, posterior
        For each node: symbol index in the grammar; word index (-1 inside); span of word positions; True if it can be
        the root; posterior.
    edges
        Parent, left and right child as node indices; children precede their parents.
    edge_posterior
        Posterior of each edge.
    """

    words: list[str]
    offsets: Int64[Array, "bounds"]
    edge_offsets: Int64[Array, "bounds"]
    symbol: Int32[Array, "nodes"]
    word: Int32[Array, "nodes"]
    start: Int32[Array, "nodes"]
    end: Int32[Array, "nodes"]
    root: Bool[Array, "nodes"]
    posterior: Float64[Array, "nodes"]
    edges: Int32[Array, "edges 3"]
    edge_posterior: Float64[Array, "edges"]

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        """Number of word tokens."""
        return int(self.end[self.offsets[1:] - 1].sum()) if self.n_sentences else 0

    def __repr__(self) -> str:
        return f"<Forests: {self.n_sentences:,} sentences, {len(self.symbol):,} nodes, {len(self.edges):,} edges>"

    def digest(self) -> str:
        """Return a fingerprint of the content."""
        arrays = {name: value for name, value in vars(self).items() if name != "words"}
        return content_digest({**arrays, "words": pack_strings(self.words)}, {"kind": "forests"})

    @classmethod
    def join(cls, sentences: Iterable[SentenceForest]) -> Forests:
        """Concatenate the forests of sentences."""
        numbers: dict[str, int] = {}
        columns: dict[str, list[np.ndarray]] = {name: [] for name in SentenceForest._fields[1:]}
        words: list[np.ndarray] = []
        sizes, edge_sizes, before = [0], [0], 0
        for one in sentences:
            number = np.array([numbers.setdefault(word, len(numbers)) for word in one.words], np.int32)
            words.append(np.where(is_leaf(one), number[one.start], -1))
            for name, values in columns.items():
                values.append(getattr(one, name) + before if name == "edges" else getattr(one, name))
            sizes.append(len(one.symbol))
            edge_sizes.append(len(one.edges))
            before += len(one.symbol)
        empty = _empty_forest()
        joined = {name: np.concatenate([getattr(empty, name), *values]) for name, values in columns.items()}
        return cls(
            words=list(numbers),
            offsets=np.cumsum(sizes),
            edge_offsets=np.cumsum(edge_sizes),
            word=np.concatenate([np.zeros(0, np.int32), *words]).astype(np.int32),
            symbol=joined["symbol"],
            start=joined["start"],
            end=joined["end"],
            root=joined["root"],
            posterior=joined["posterior"],
            edges=joined["edges"].astype(np.int32),
            edge_posterior=joined["edge_posterior"],
        )

    @classmethod
    def from_trees(cls, corpus: Corpus) -> Forests:
        """Return the trees of a corpus as forests with one tree each."""
        sizes = np.diff(corpus.offsets)
        # Reversed preorder has children before their parents.
        order = np.repeat(corpus.offsets[1:] + corpus.offsets[:-1] - 1, sizes) - np.arange(corpus.n_nodes)
        parent = order[corpus.word[order] < 0]
        place = np.empty(corpus.n_nodes, np.int32)
        place[order] = np.arange(corpus.n_nodes)
        edges = np.stack([place[parent], place[corpus.left[parent]], place[corpus.right[parent]]], axis=1)
        inner = np.add.reduceat(corpus.word < 0, corpus.offsets[:-1], dtype=np.int64)
        return cls(
            words=corpus.words,
            offsets=corpus.offsets,
            edge_offsets=offsets_of(inner),
            symbol=corpus.symbol[order],
            word=corpus.word[order],
            start=corpus.start[order],
            end=corpus.end[order],
            root=corpus.parent[order] < 0,
            posterior=np.ones(corpus.n_nodes),
            edges=edges.astype(np.int32).reshape(-1, 3),
            edge_posterior=np.ones(len(parent)),
        )


def is_leaf(forest: SentenceForest | Forests) -> Bool[Array, "nodes"]:
    """Return a mask of leaves: trees are binary, so these are the nodes over one word."""
    return forest.end - forest.start == 1


def _empty_forest() -> SentenceForest:
    whole, real = np.zeros(0, np.int32), np.zeros(0)
    return SentenceForest([], whole, whole, whole, np.zeros(0, bool), real, whole.reshape(0, 3), real)


def sentence_forest(chart: Posteriors, words: Sequence[str], *, min_posterior: float = 0.0) -> SentenceForest | None:
    """Return the forest of a chart: edges whose posterior is positive and at least `min_posterior`.

    If no tree is left, the bound is lowered tenfold; None without any tree. Symbols are the grammar's own,
    finer than those of the chart if they are annotated with ancestors or siblings.
    """
    forest, coarse = chart.forest, chart.compiled.coarse
    parent = np.repeat(forest.group_parent, np.diff(forest.group_offsets))
    rule = np.repeat(forest.group_rule, np.diff(forest.group_offsets))
    kept = (chart.edge_posterior > 0) & (chart.edge_posterior >= min_posterior)
    spans = chart.spans().astype(np.int32)
    top = forest.node_cell == chart.n * (chart.n - 1) // 2
    # From last to first: children before their parents.
    edges = np.column_stack([parent, forest.children])[kept][::-1].astype(np.int32)
    fine = _Fine(chart) if len(chart.compiled.grammar.symbols) > chart.compiled.n_coarse else None
    if fine is None:
        symbol = _bijection(chart)[forest.node_symbol]
        node, weight = np.arange(len(symbol)), chart.edge_posterior[kept][::-1]
        share = np.maximum(chart.node_posterior, 0.0)
    else:
        node, symbol, share, edges, weight = fine.expand(edges, rule[kept][::-1], chart.edge_posterior[kept][::-1])
    start, end = spans[node, 0], spans[node, 1]
    leaf, root = end - start == 1, top[node] & (coarse.root[forest.node_symbol[node]] > 0)
    use = np.ones(len(edges), bool)
    left = np.empty(len(symbol), bool)
    kernels.keep_whole(leaf, root, np.ascontiguousarray(edges), use, left)
    if not left.any():
        if min_posterior == 0:
            return None
        lower = min_posterior / 10 if min_posterior > _MIN_POSTERIOR else 0.0
        return sentence_forest(chart, words, min_posterior=lower)
    # Sorting by increasing length and position puts children first.
    order = np.flatnonzero(left)
    order = order[np.lexsort((symbol[order], start[order], end[order] - start[order]))]
    place = np.full(len(symbol), -1, np.int32)
    place[order] = np.arange(len(order))
    edges, weight = place[edges[use]], weight[use]
    by_parent = np.lexsort((edges[:, 2], edges[:, 1], edges[:, 0]))
    edges, weight = edges[by_parent], weight[by_parent]
    roots = np.where(root[order], share[order], 0.0)
    posterior, edge_posterior = _consistent(edges, weight, roots / roots.sum())
    return SentenceForest(
        list(words), symbol[order].astype(np.int32), start[order], end[order], root[order], posterior, edges,
        edge_posterior,
    )  # fmt: skip


def entropy(forest: SentenceForest) -> float:
    """Return the entropy, in nats, of the distribution over a forest's trees.

    A tree is built top-down by choices: its root, then one edge of each node reached, with that edge's share of the
    node. So entropies add up (the chain rule), each weighted by the posterior of its node.
    """
    roots = forest.posterior[forest.root]
    choices = choice_entropy(roots, np.ones(len(roots)))
    return max(choices + choice_entropy(forest.edge_posterior, forest.posterior[forest.edges[:, 0]]), 0.0)


def _consistent(edges: np.ndarray, weight: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute posteriors top-down, dividing each node's among its edges in proportion to their weights."""
    totals = np.bincount(edges[:, 0], weights=weight, minlength=len(roots))
    posterior, edge_posterior = roots.astype(float), weight / totals[edges[:, 0]]
    kernels.share_out(edges, edge_posterior, posterior)
    return posterior, edge_posterior


def _bijection(chart: Posteriors) -> np.ndarray:
    """Return the grammar's symbol for each coarse one, if they correspond one to one."""
    symbol = np.empty(chart.compiled.n_coarse, np.int64)
    symbol[chart.compiled.coarse_of] = np.arange(len(symbol))
    return symbol


class _Fine:
    """Edges between finer symbols: each coarse edge becomes all edges that the finer rules allow.

    Their probabilities follow from the posteriors of the finer symbols at the three nodes, where the chart has them.
    """

    def __init__(self, chart: Posteriors) -> None:
        self.chart, self.compiled = chart, chart.compiled
        self.size = len(self.compiled.grammar.symbols)
        n_nodes = len(chart.forest.node_symbol)
        if isinstance(chart, Chart):
            node, symbol, posterior = chart.symbol_posteriors()
            self.key, self.share = node * self.size + symbol, np.maximum(posterior, 0.0)
        else:
            by_coarse = np.argsort(self.compiled.coarse_of, kind="stable")
            counts = np.bincount(self.compiled.coarse_of, minlength=self.compiled.n_coarse)
            sizes = counts[chart.forest.node_symbol]
            begins = (np.cumsum(counts) - counts)[chart.forest.node_symbol]
            at = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
            node = np.repeat(np.arange(n_nodes), sizes)
            self.key = node * self.size + by_coarse[at]
            self.share = np.repeat(np.maximum(chart.node_posterior, 0.0) / np.maximum(sizes, 1), sizes)

    def expand(
        self, edges: np.ndarray, rule: np.ndarray, posterior: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return node, symbol and posterior of each finer node, and the finer edges with their weights."""
        compiled = self.compiled
        sizes = np.diff(compiled.fine_offsets)[rule]
        which = np.repeat(np.arange(len(rule)), sizes)
        at = np.repeat(compiled.fine_offsets[rule] - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(which))
        symbols = compiled.grammar.rules[compiled.fine_rule[at]].astype(np.int64)
        keys = edges[which].astype(np.int64) * self.size + symbols
        found = np.searchsorted(self.key, keys)
        known = (found < len(self.key)) & (self.key[np.minimum(found, len(self.key) - 1)] == keys)
        found, which = found[known.all(axis=1)], which[known.all(axis=1)]
        product = self.share[found].prod(axis=1)
        totals = np.bincount(which, weights=product, minlength=len(rule))
        weight = product / np.where(totals > 0, totals, 1.0)[which] * posterior[which]
        found, weight = found[weight > 0], weight[weight > 0]
        return self.key // self.size, self.key % self.size, self.share, found.astype(np.int32), weight


class ParseRequest(NamedTuple):
    """Parse request: words or `(word, tag)` pairs, and requirements on the trees."""

    sentence: Sequence[str | tuple[str, str | None]]
    required: Sequence[Requirement] = ()


def parse_forests(
    parser: Parser, requests: Iterable[ParseRequest], *, min_posterior: float
) -> Iterator[SentenceForest | None]:
    """Yield the forest of each sentence, in order, computed by the parser's workers; None without a parse.

    Edges whose posterior is less than `min_posterior` are skipped.
    """
    return parser.map(partial(_parse_forest, min_posterior=min_posterior), requests)


def _parse_forest(parser: Parser, request: ParseRequest, *, min_posterior: float) -> SentenceForest | None:
    chart = parser.chart(request.sentence, phrases=request.required, brief=True)
    if chart is None:
        return None
    words = [token if isinstance(token, str) else token[0] for token in request.sentence]
    return sentence_forest(chart, words, min_posterior=min_posterior)


def parse_best(parser: Parser, requests: Iterable[ParseRequest]) -> Iterator[Tree | None]:
    """Yield the best tree of each sentence that meets its requirements; None if there is none."""
    return parser.map(_parse_best, requests)


def _parse_best(parser: Parser, request: ParseRequest) -> Tree | None:
    try:
        result = parser.parse_one(request.sentence, phrases=request.required, check_tokens=False)
    except NoParse:
        return None
    return None if result.failed else result.tree


def first_contradiction(parser: Parser, request: ParseRequest) -> int | Requirement | None:
    """Return the first requirement that leaves no parse: the position of a word whose tag is given, or a requirement.

    Tags come first, each together with those before it, then the requirements in order. None if the sentence has no
    parse even without requirements.
    """
    words = [token if isinstance(token, str) else token[0] for token in request.sentence]
    tagged = [place for place, token in enumerate(request.sentence) if not isinstance(token, str) and token[1]]
    facts: list[int | Requirement] = [*tagged, *request.required]

    def possible(count: int) -> bool:
        last = [-1, *tagged][min(count, len(tagged))]
        sentence = [token if place <= last else words[place] for place, token in enumerate(request.sentence)]
        phrases = request.required[: max(count - len(tagged), 0)]
        return parser.chart(sentence, phrases=phrases, brief=True) is not None

    if not possible(0):
        return None
    low, high = 0, len(facts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return facts[high - 1]
