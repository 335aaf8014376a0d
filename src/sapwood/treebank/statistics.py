"""Statistics of corpora: words, tags, labels, rules, valence frames, lengths, depths, and productivity of rules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sapwood.storage.shapes import Array, Int64
from sapwood.treebank.counts import CountTable, ResultTable, count_matches, count_nodes
from sapwood.treebank.keys import KeyExpression, NodeKeys, depths_of
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable

Tables = Iterable[tuple[str, TreeTable]]
# The default of valence frames: tags of verbs in Penn-style treebanks and in IcePaHC.
VERBS = "/^(VB|MD|BE|DO|HV|RD)[A-Z]*(-|$)/ < (__ !< __)"


def _is_phrase(table: TreeTable) -> Int64[Array, "nodes"]:
    tags = np.zeros(len(table.symbols), dtype=bool)
    words = table.symbols >= table.n_labels
    tags[table.parents[words]] = True
    return np.flatnonzero(~words & ~tags)


def _words(table: TreeTable) -> Int64[Array, "nodes"]:
    return np.flatnonzero(table.symbols >= table.n_labels)


def _tags(table: TreeTable) -> Int64[Array, "nodes"]:
    return table.parents[_words(table)].astype(np.int64)


def _roots(table: TreeTable) -> Int64[Array, "nodes"]:
    return table.begins[:-1]


# What is counted: the nodes, the key, and what a table calls the column.
_COUNTED: Mapping[str, tuple[Callable[[TreeTable], Int64[Array, "nodes"]], str, str]] = {
    "words": (_words, "label", "word"),
    "tags": (_tags, "label", "tag"),
    "labels": (_is_phrase, "label", "label"),
    "rules": (_is_phrase, "rule", "rule"),
    "lengths": (_roots, "length", "length"),
}
STATISTICS = ("summary", *_COUNTED, "depths", "frames", "productivity")


def count_corpus(kind: str, tables: Tables, *, verbs: str = VERBS, heads: HeadRules | None = None) -> CountTable:
    """Return counts of words, tags, labels, rules, lengths, depths or frames.

    Frequencies of words and frames are relative to the words, others to the number of what is counted. Frames are the
    sisters of each node that matches `verbs`, next to its word.
    """
    if kind == "frames":
        keys = [KeyExpression.parse(key) for key in ("word", "sisters")]
        return count_matches(Searcher(verbs, heads=heads), tables, keys)
    counted = CountTable([_COUNTED[kind][2] if kind in _COUNTED else "depth"], numeric=kind in ("lengths", "depths"))
    for file, table in tables:
        if kind == "depths":
            depths = Counter(tree_depths(table).tolist())
            counted.add(file, len(table), (((str(depth),), count) for depth, count in depths.items()))
            continue
        choose, key, _ = _COUNTED[kind]
        nodes = choose(table)
        node_keys = NodeKeys(table, heads or HeadRules.english(), file)
        counted.add(file, len(nodes), count_nodes([KeyExpression.parse(key)], node_keys, [nodes]))
    return counted


def tree_depths(table: TreeTable) -> Int64[Array, "trees"]:
    """Return the number of nodes on the longest path from each root to a tag, as `Tree.depth`."""
    if not len(table):
        return np.zeros(0, dtype=np.int64)
    depths: Int64[Array, "trees"] = np.maximum.reduceat(depths_of(table), table.begins[:-1]).astype(np.int64)
    return depths


def productivity(rules: CountTable) -> ResultTable:
    """Return types, tokens and hapax legomena of the rules of each label, and of all.

    Productivity is Baayen's P, the share of tokens whose rule occurs once: an estimate of the probability that the next
    token has a new rule.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for (rule,) in rules.counts:
        found[rule.partition(" ->")[0]].append(rules.count((rule,)))
    rows = [_productivity(label, counts) for label, counts in found.items()]
    rows.sort(key=lambda row: (-row[1], row[0]))
    everything = _productivity("(all)", [count for counts in found.values() for count in counts])
    return ResultTable(
        ["label", "tokens", "types", "types_per_token", "hapaxes", "productivity", "entropy"], [everything, *rows]
    )


def _productivity(label: str, counts: Sequence[int]) -> list[Any]:
    tokens, hapaxes = sum(counts), sum(count == 1 for count in counts)
    entropy = -sum(count / tokens * math.log2(count / tokens) for count in counts) if tokens else 0.0
    return [
        label, tokens, len(counts), round(len(counts) / max(tokens, 1), 6), hapaxes, round(hapaxes / max(tokens, 1), 6),
        round(abs(entropy), 4),
    ]  # fmt: skip


def summarise(tables: Tables) -> ResultTable:
    """Return the size of a corpus, and means and quartiles of the length and depth of its trees."""
    lengths: list[Int64[Array, "trees"]] = []
    depths: list[Int64[Array, "trees"]] = []
    words: Counter[str] = Counter()
    labels: set[str] = set()
    tags: set[str] = set()
    phrases = 0
    for _, table in tables:
        lengths.append(np.diff(table.words_before[table.begins]))
        depths.append(tree_depths(table))
        symbols, counts = np.unique(table.symbols[_words(table)], return_counts=True)
        spelled = [table.spellings[symbol] for symbol in symbols.tolist()]
        words.update(dict(zip(spelled, counts.tolist(), strict=True)))
        chosen = _is_phrase(table)
        phrases += len(chosen)
        labels.update(table.spellings[symbol] for symbol in np.unique(table.symbols[chosen]).tolist())
        tags.update(table.spellings[symbol] for symbol in np.unique(table.symbols[_tags(table)]).tolist())
    total = sum(words.values())
    rows: list[list[Any]] = [
        ["trees", sum(map(len, lengths))],
        ["words", total],
        ["word types", len(words)],
        ["words that occur once", sum(count == 1 for count in words.values())],
        ["phrases", phrases],
        ["phrases per word", round(phrases / max(total, 1), 4)],
        ["labels of phrases", len(labels)],
        ["tags", len(tags)],
    ]
    for name, parts in (("length", lengths), ("depth", depths)):
        values = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        if len(values):
            rows.append([f"mean {name}", round(float(values.mean()), 3)])
            quartiles = np.percentile(values, [0, 25, 50, 75, 100])
            named = ("least", "first quartile of", "median", "third quartile of", "greatest")
            rows += [[f"{what} {name}", round(float(q), 3)] for what, q in zip(named, quartiles, strict=True)]
    return ResultTable(["measure", "value"], rows)
