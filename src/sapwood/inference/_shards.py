"""The trees of a part of a corpus in the order in which passes over observed trees visit their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.run.columns import Part


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

    @property
    def n_sentences(self) -> int:
        """Number of trees."""
        return len(self.roots)


def prepare(parts: tuple[Part], first: int, n_words: int, n_rules: int, pair_keys: np.ndarray) -> Shard:
    """Put nodes of whole trees in order, given their columns; the first of them has the number `first`."""
    columns = parts[0].load()
    symbol, rule_of, height = columns["symbol"], columns["rule"], columns["height"]
    leaf = rule_of < 0
    keys = symbol.astype(np.int64) * n_words + columns["word"]
    pair = np.searchsorted(pair_keys, keys)
    order = np.lexsort((np.where(leaf, pair, rule_of), height))
    place = np.empty(len(symbol), np.int32)
    place[order] = np.arange(len(symbol), dtype=np.int32)
    n_leaves = int(leaf.sum())
    inner = order[n_leaves:]
    rule = rule_of[inner]
    starts = _run_starts(height[inner].astype(np.int64) * n_rules + rule)
    pairs, pair_starts = np.unique(pair[order[:n_leaves]], return_index=True)
    members = np.argsort(rule, kind="stable")
    rules, rule_starts = np.unique(rule[members], return_index=True)
    return Shard(
        nodes=first + order,
        symbol=symbol[order],
        n_leaves=n_leaves,
        pairs=pairs,
        pair_nodes=np.append(pair_starts, n_leaves),
        left=place[columns["left"][inner] - first],
        right=place[columns["right"][inner] - first],
        block_rule=rule[starts],
        block_nodes=np.append(starts, len(inner)),
        rules=rules,
        rule_nodes=np.append(rule_starts, len(inner)),
        members=members,
        roots=place[columns["parent"] < 0],
    )


def _run_starts(keys: np.ndarray) -> np.ndarray:
    """Return where runs of equal values begin."""
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, np.int64)
