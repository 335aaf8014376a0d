"""What is learned from beside trees: forests of sentences whose trees are known in part, or not at all.

A `Source` is forests (`sapwood.inference.forests`) and how much they count. EM sums over the trees of each forest by
their posteriors under the grammar so far, so that trees, partly bracketed sentences and plain text are one kind of
data: all trees that a sentence may have, one of which it has. The log-likelihood of the mixture, each source's times
its weight, never falls.

Whoever made the forests knows more than which trees there are. With `trust` t each tree is multiplied by its
probability there to the power of t: 0 leaves everything to the grammar that is learned (plain EM), 1 is the product of
both. These factors are constants, so what is said of the likelihood still holds.

`pack` lays forests out over the symbols and rules that are learned. Where unary chains have steps (`learn.unary`), a
composite node becomes two, one below the other; those below a step, which take no other, are told from those that may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.groups import rule_keys
from sapwood.inference.forests import Forests
from sapwood.inference.observed_forests import Packed, PackedTrees
from sapwood.learn.unary import Unfolded
from sapwood.trees.corpus import Corpus


@dataclass(frozen=True, eq=False)
class Source:
    """Forests to learn from.

    Attributes
    ----------
    forests
        The forests, over the symbols of the corpus that is learned from as well.
    weight
        How much each sentence counts, where a tree counts 1.
    trust
        The power to which the probabilities of whoever made the forests multiply their trees.
    """

    forests: Forests
    weight: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < np.inf:
            raise UsageError(f"the weight of a source must be positive, not {self.weight}")
        if not 0 <= self.trust < np.inf:
            raise UsageError(f"trust must be 0 or more, not {self.trust}")

    @cached_property
    def key(self) -> dict[str, Any]:
        """What results depend on, as JSON values."""
        return {"forests": self.forests.digest(), "weight": self.weight, "trust": self.trust}


def joint_words(corpus: Corpus, sources: Sequence[Source]) -> list[str]:
    """Return the words of a corpus, those of the sources that it does not have behind them."""
    known = dict.fromkeys(corpus.words)
    for source in sources:
        known.update(dict.fromkeys(source.forests.words))
    return list(known)


def pack(source: Source, corpus: Corpus, unfolded: Unfolded | None) -> Packed:
    """Lay a source out over the symbols and rules of a corpus or, if there are unary steps, of its unfolded form.

    The corpus' words are those of the source, too (`joint_words`).
    """
    forests = source.forests
    number = {word: place for place, word in enumerate(corpus.words)}
    words = np.array([number[word] for word in forests.words] or [0], np.int32)
    if unfolded is None:
        nodes = _Nodes.folded(forests)
        rules, size = corpus.rules, len(corpus.symbols)
    else:
        nodes = _Nodes.unfolded(forests, unfolded)
        rules, size = unfolded.corpus.rules, len(unfolded.corpus.symbols)
    # Edges whose rules there are not, and what then is in no tree.
    keys = rule_keys(rules, size)
    wanted = rule_keys(nodes.edge_symbols, size)
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    kept = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
    leaf = nodes.word >= 0
    use = np.empty(len(nodes.symbol), bool)
    kernels.keep_whole(leaf, nodes.root > 0, nodes.edges, kept, use)
    place = np.cumsum(use, dtype=np.int32) - 1
    edges, rule = nodes.edges[kept], at[kept]
    edges = np.stack(
        [rule, place[edges[:, 0]], place[edges[:, 1]], np.where(edges[:, 2] < 0, -1, place[edges[:, 2]])], axis=1
    ).astype(np.int32)
    symbol, word, root = nodes.symbol[use], nodes.word[use], nodes.root[use]
    sentence = nodes.sentence[use]
    present, sentence = np.unique(sentence, return_inverse=True)
    # Posteriors of what is left, from the roots down.
    roots = np.flatnonzero(root > 0).astype(np.int32)
    root_share = root[roots] / np.bincount(sentence[roots], weights=root[roots])[sentence[roots]]
    weight = np.maximum(nodes.edge_posterior[kept], np.finfo(float).tiny)
    share = weight / np.bincount(edges[:, 1], weights=weight, minlength=len(symbol))[edges[:, 1]]
    posterior = np.zeros(len(symbol))
    posterior[roots] = root_share
    edge_posterior = share.copy()
    kernels.share_out(np.ascontiguousarray(edges[:, 1:]), edge_posterior, posterior)
    trees = PackedTrees(
        symbol=symbol,
        word=np.where(word >= 0, words[word], -1).astype(np.int32),
        edges=edges,
        factor=(share**source.trust).astype(np.float32),
        edge_posterior=edge_posterior,
        roots=roots,
        root_factor=(root_share**source.trust).astype(np.float32),
        root_posterior=root_share,
        offsets=offsets_of(np.bincount(sentence, minlength=len(present))),
        edge_offsets=offsets_of(np.bincount(sentence[edges[:, 1]], minlength=len(present))),
        root_offsets=offsets_of(np.bincount(sentence[roots], minlength=len(present))),
    )
    return Packed(trees, source.weight, posterior, nodes.initial[use], forests.n_sentences - len(present))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Forests before their rules are looked up.

    `root` is how probable it is that the tree begins at a node, and `edge_symbols` are parent's and children's.
    """

    symbol: np.ndarray
    word: np.ndarray
    sentence: np.ndarray
    initial: np.ndarray
    root: np.ndarray
    edges: np.ndarray
    edge_symbols: np.ndarray
    edge_posterior: np.ndarray

    @classmethod
    def folded(cls, forests: Forests) -> _Nodes:
        """Return the forests as they are."""
        return cls(
            symbol=forests.symbol,
            word=forests.word,
            sentence=_sentences(forests),
            initial=forests.start == 0,
            root=np.where(forests.root, forests.posterior, 0.0),
            edges=forests.edges,
            edge_symbols=forests.symbol[forests.edges],
            edge_posterior=forests.edge_posterior,
        )

    @classmethod
    def unfolded(cls, forests: Forests, unfolded: Unfolded) -> _Nodes:
        """Return the forests with the last step of each unary chain.

        Over one span a symbol can be one or two nodes: one that may take a step, if any of its kind does there, and one
        that takes none, if it stands below another's step or if none does.
        """
        size, sentence = len(unfolded.corpus.symbols), _sentences(forests)
        longest = int(forests.end.max(initial=0)) + 1
        span = (sentence * longest + forests.start) * longest + forests.end
        top, bottom = unfolded.top[forests.symbol], unfolded.bottom[forests.symbol]
        steps = top >= 0
        low, high = span * size + bottom, span * size + np.where(steps, top, bottom)
        open_keys = np.unique(high[steps])
        # Where a node stands as a child, and where its own edges go: keys of spans and symbols, and of which kind.
        outer = 2 * high + np.isin(high, open_keys)
        inner = np.where(steps, 2 * low, outer)
        found, first = np.unique(np.concatenate([outer, inner]), return_index=True)
        origin = first % len(outer) if len(outer) else first
        length = (forests.end - forests.start)[origin]
        order = np.lexsort((found, forests.start[origin], found % 2, length, sentence[origin]))
        place = np.empty(len(found), np.int32)
        place[order] = np.arange(len(found), dtype=np.int32)
        outer, inner = place[np.searchsorted(found, outer)], place[np.searchsorted(found, inner)]
        symbol = (found[order] // 2 % size).astype(np.int32)
        origin = origin[order]
        parent, left, right = forests.edges.T
        links = np.stack([inner[parent], outer[left], outer[right]], axis=1)
        step_links = np.stack([outer[steps], inner[steps], np.full(int(steps.sum()), -1, np.int32)], axis=1)
        edges = np.concatenate([links, step_links])
        weight = np.concatenate([forests.edge_posterior, forests.posterior[steps]])
        # The same edge can come from several composite symbols: once for all.
        by_parent = np.lexsort((edges[:, 2], edges[:, 1], edges[:, 0]))
        edges, weight = edges[by_parent], weight[by_parent]
        new = np.r_[True, (edges[1:] != edges[:-1]).any(axis=1)][: len(edges)]
        weight = np.bincount(np.cumsum(new) - 1, weights=weight)[: int(new.sum())]
        edges = np.ascontiguousarray(edges[new])
        roots = np.where(forests.root, forests.posterior, 0.0)
        leaf = (forests.word >= 0)[origin] & (symbol >= unfolded.corpus.n_interminals)
        return cls(
            symbol=symbol,
            word=np.where(leaf, forests.word[origin], -1),
            sentence=sentence[origin],
            initial=forests.start[origin] == 0,
            root=np.bincount(outer, weights=roots, minlength=len(symbol)),
            edges=edges,
            edge_symbols=np.where(edges < 0, unfolded.empty, symbol[edges]),
            edge_posterior=weight,
        )


def _sentences(forests: Forests) -> np.ndarray:
    return np.repeat(np.arange(forests.n_sentences), np.diff(forests.offsets))
