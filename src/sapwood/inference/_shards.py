"""The trees of a part of a corpus in the order in which passes over observed trees visit their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.trees.corpus import Corpus


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive trees, prepared; see `native/inference/observed.cpp` for the order of the nodes."""

    nodes: np.ndarray
    symbol: np.ndarray
    n_leaves: int
    pairs: np.ndarray
    pair_nodes: np.ndarray
    left: np.ndarray
    right: np.ndarray
    block_rule: np.ndarray
    block_nodes: np.ndarray
    rules: np.ndarray
    rule_nodes: np.ndarray
    members: np.ndarray
    roots: np.ndarray


def prepare(corpus: Corpus, first: int, last: int, height: np.ndarray, pair_keys: np.ndarray) -> Shard:
    """Put nodes `first .. last - 1` in order."""
    nodes = slice(first, last)
    leaf = corpus.rule[nodes] < 0
    keys = corpus.symbol[nodes].astype(np.int64) * len(corpus.words) + corpus.word[nodes]
    pair = np.searchsorted(pair_keys, keys)
    order = np.lexsort((np.where(leaf, pair, corpus.rule[nodes]), height[nodes]))
    place = np.empty(last - first, np.int32)
    place[order] = np.arange(last - first, dtype=np.int32)
    n_leaves = int(leaf.sum())
    inner = first + order[n_leaves:]
    rule = corpus.rule[inner]
    starts = _run_starts(height[inner].astype(np.int64) * len(corpus.rules) + rule)
    pairs, pair_starts = np.unique(pair[order[:n_leaves]], return_index=True)
    members = np.argsort(rule, kind="stable")
    rules, rule_starts = np.unique(rule[members], return_index=True)
    return Shard(
        nodes=first + order,
        symbol=corpus.symbol[first + order],
        n_leaves=n_leaves,
        pairs=pairs,
        pair_nodes=np.append(pair_starts, n_leaves),
        left=place[corpus.left[inner] - first],
        right=place[corpus.right[inner] - first],
        block_rule=rule[starts],
        block_nodes=np.append(starts, len(inner)),
        rules=rules,
        rule_nodes=np.append(rule_starts, len(inner)),
        members=members,
        roots=place[corpus.parent[nodes] < 0],
    )


def _run_starts(keys: np.ndarray) -> np.ndarray:
    """Return where runs of equal values begin."""
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, np.int64)
