"""Weighted forests: sentences with partial trees or none, as additional training data of EM.

A `WeightedForests` is a set of forests (`sapwood.inference.forest.packed`) with a weight. EM sums over the trees of
each forest by their posteriors under the current grammar, so that trees, partially bracketed sentences and unlabelled
text are one kind of data: a set of possible trees, one of which is right. The log-likelihood of the mixture, each
source scaled by its weight, never decreases.

The forests also carry the teacher's posteriors. With `teacher_weight` t each tree is multiplied by its probability
there to the power of t: 0 ignores the teacher (plain EM), 1 is the product of both. These factors are constants, so the
likelihood still never decreases.

`pack_for_estep` lays forests out over the symbols and rules being learned. With explicit unary steps
(`learn.lpcfg.unary`), a composite node becomes two, one below the other; nodes below a step, which take no further one,
are distinguished from those that may.
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
from sapwood.grammar.symbol_groups import rule_keys
from sapwood.inference.estep.forests import ForestArrays, TrainingForests
from sapwood.inference.forest.packed import Forests
from sapwood.learn.lpcfg.unary import Unfolded
from sapwood.trees.corpus import Corpus


@dataclass(frozen=True, eq=False)
class WeightedForests:
    """Weighted forests to learn from.

    Attributes
    ----------
    forests
        The forests, over the symbols of the corpus.
    weight
        Weight of each sentence; a tree has 1.
    teacher_weight
        Exponent of the teacher's tree probabilities.
    """

    forests: Forests
    weight: float = 1.0
    teacher_weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < np.inf:
            raise UsageError(f"the weight of a source must be positive, not {self.weight}")
        if not 0 <= self.teacher_weight < np.inf:
            raise UsageError(f"teacher_weight must be 0 or more, not {self.teacher_weight}")

    @cached_property
    def key(self) -> dict[str, Any]:
        """Everything that determines the result, as JSON values."""
        return {"forests": self.forests.digest(), "weight": self.weight, "teacher_weight": self.teacher_weight}


def joint_vocabulary(corpus: Corpus, sources: Sequence[WeightedForests]) -> list[str]:
    """Return the words of a corpus, followed by those of the sources that it does not have."""
    known = dict.fromkeys(corpus.words)
    for source in sources:
        known.update(dict.fromkeys(source.forests.words))
    return list(known)


def pack_for_estep(source: WeightedForests, corpus: Corpus, unfolded: Unfolded | None) -> TrainingForests:
    """Lay a source out over the symbols and rules of a corpus or, if there are unary steps, of its unfolded form.

    The corpus has the words of the source, too (`joint_vocabulary`).
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
    # Drop edges with unknown rules, then unreachable nodes.
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
    # Renormalised posteriors, from the roots down.
    roots = np.flatnonzero(root > 0).astype(np.int32)
    root_share = root[roots] / np.bincount(sentence[roots], weights=root[roots])[sentence[roots]]
    weight = np.maximum(nodes.edge_posterior[kept], np.finfo(float).tiny)
    share = weight / np.bincount(edges[:, 1], weights=weight, minlength=len(symbol))[edges[:, 1]]
    posterior = np.zeros(len(symbol))
    posterior[roots] = root_share
    edge_posterior = share.copy()
    kernels.share_out(np.ascontiguousarray(edges[:, 1:]), edge_posterior, posterior)
    trees = ForestArrays(
        symbol=symbol,
        word=np.where(word >= 0, words[word], -1).astype(np.int32),
        edges=edges,
        factor=(share**source.teacher_weight).astype(np.float32),
        edge_posterior=edge_posterior,
        roots=roots,
        root_factor=(root_share**source.teacher_weight).astype(np.float32),
        root_posterior=root_share,
        offsets=offsets_of(np.bincount(sentence, minlength=len(present))),
        edge_offsets=offsets_of(np.bincount(sentence[edges[:, 1]], minlength=len(present))),
        root_offsets=offsets_of(np.bincount(sentence[roots], minlength=len(present))),
    )
    return TrainingForests(trees, source.weight, posterior, nodes.initial[use], forests.n_sentences - len(present))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Forests before their rules are looked up.

    `root` is the probability of a node as root, and `edge_symbols` are those of parent and children.
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
        """Return the forests unchanged."""
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

        A symbol can have up to two nodes over one span: one that may take a step, if any node of the symbol does there,
        and one that takes none, if it is below another symbol's step or if no node takes a step.
        """
        size, sentence = len(unfolded.corpus.symbols), _sentences(forests)
        longest = int(forests.end.max(initial=0)) + 1
        span = (sentence * longest + forests.start) * longest + forests.end
        top, bottom = unfolded.top[forests.symbol], unfolded.bottom[forests.symbol]
        steps = top >= 0
        low, high = span * size + bottom, span * size + np.where(steps, top, bottom)
        open_keys = np.unique(high[steps])
        # Keys (span, symbol, kind) of a node as a child, and of the node that gets its edges.
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
        # Several composite symbols can give the same edge: keep one.
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
