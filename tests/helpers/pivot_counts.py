"""Statistics of pivot learning counted node by node, with features by name."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from helpers.small_languages import look_at
from sapwood.grammar.tensor_grammar import TensorGrammar


def counted(grammar: TensorGrammar, weighted_trees) -> dict:
    """Count what `PivotStatistics` holds, with features by name, node by node."""
    found = {name: defaultdict(float) for name in ("counts", "rule_counts", "pairs", "triples")}
    for weight, tree in weighted_trees:
        nodes = look_at(grammar, tree)
        for node in nodes:
            found["counts"][node.symbol] += weight
            found["pairs"][node.symbol, node.inside[0], node.outside[0]] += weight
            if node.children:
                f2, f3 = (nodes[child].inside[0] for child in node.children)
                found["rule_counts"][node.rule] += weight
                found["triples"][node.rule, node.outside[0], f2, f3] += weight
    return found


def named(grammar: TensorGrammar, statistics) -> dict:
    """Return exact statistics in the same form: numbers of features stand for them in their natural order."""
    n_inner, n_rules = grammar.n_interminals, len(grammar.rules)
    inside, outside = [], []
    for a in range(len(grammar.symbols)):
        rules = np.flatnonzero(grammar.rules[:, 0] == a).tolist()
        if a < n_inner:
            inside.append([(rule,) for rule in rules])
        else:
            numbers = statistics.word_feature[a - n_inner]
            words = np.argsort(numbers)[np.sum(numbers < 0) :]
            assert numbers[words].tolist() == list(range(len(words)))
            inside.append([(n_rules + int(x),) for x in words])
        places = [(r, side) for r, rule in enumerate(grammar.rules.tolist()) for side in (0, 1) if rule[1 + side] == a]
        assert statistics.root_feature[a] == (0 if grammar.root_vector(a).any() else -1)
        outside.append(([()] if grammar.root_vector(a).any() else []) + places)
        assert statistics.pairs[a].shape == (len(inside[-1]), len(outside[-1]))
    pairs, triples = {}, {}
    for a, matrix in enumerate(statistics.pairs):
        entries = matrix.tocoo()
        for f, g, count in zip(*entries.coords, entries.data, strict=True):
            pairs[a, inside[a][f], outside[a][g]] = count
    for rule, (features, counts) in enumerate(statistics.triples):
        a, b, c = grammar.rules[rule]
        for (g, f2, f3), count in zip(features.tolist(), counts, strict=True):
            triples[rule, outside[a][g], inside[b][f2], inside[c][f3]] = count
    return {
        "counts": dict(enumerate(statistics.counts)),
        "rule_counts": dict(enumerate(statistics.rule_counts)),
        "pairs": pairs,
        "triples": triples,
    }
