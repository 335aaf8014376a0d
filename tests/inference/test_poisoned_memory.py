"""Results depend on the sentence and the grammar alone, however extreme its weights and whatever memory holds.

Workspaces are used again from one sentence to the next. Here they are filled with numbers that lead nowhere before each
sentence: what is read without having been written crashes, or shows in the result.
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.effort import slow
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart.chart import coarse_forest

WORDS = [f"w{place}" for place in range(5)]


def extreme_grammar(rng: np.random.Generator) -> TensorGrammar:
    """Return a PCFG over five words whose weights are 1 or next to nothing."""
    inner = [f"X{number}" for number in range(rng.integers(6, 14))]
    tags = [f"T{place}{kind}" for place in range(5) for kind in "ab"]

    def weight() -> float:
        return float(rng.choice([1.0, 0.3, 10.0 ** -rng.uniform(3, 20)]))

    rules: dict[tuple[str, str, str], float] = {}
    for number, parent in enumerate(inner):
        below = [*inner[number + 1 :], *tags]
        for _ in range(int(rng.integers(2, 7))):
            rules[parent, str(rng.choice(below)), str(rng.choice(below))] = weight()
    words = {(tag, WORDS[int(tag[1])]): weight() / 2 for tag in tags}
    words |= {(tag, f"other-{tag}"): 1.0 - words[tag, WORDS[int(tag[1])]] for tag in tags}
    root = {name: weight() for name in inner}
    sums = {parent: sum(value for key, value in rules.items() if key[0] == parent) for parent in inner}
    return TensorGrammar.from_parts(
        root={name: value / sum(root.values()) for name, value in root.items()},
        rules={key: value / sums[key[0]] for key, value in rules.items()},
        words=words,
    )


@pytest.mark.parametrize("grammars", [range(40), slow(range(40, 500))], ids=["some", "many"])
@pytest.mark.parametrize("threshold", [6e-6, 1e-3, 0.0])
def test_poisoned_memory_makes_no_difference(grammars, threshold):
    for seed in grammars:
        grammar = extreme_grammar(np.random.default_rng(seed))
        parser, fresh = Parser(grammar, threshold=threshold), Parser(grammar, threshold=threshold)
        parser.parse_one(WORDS)
        parser._workspace.native.poison(0x7F)
        assert parser.parse_one(WORDS) == fresh.parse_one(WORDS), seed


@pytest.mark.parametrize("threshold", [6e-6, 1e-3, 0.0])
def test_edges_stand_on_nodes(threshold):
    """Whatever the passes could disagree about, edges lead from spans to the parts of these spans."""
    for seed in range(40):
        parser = Parser(extreme_grammar(np.random.default_rng(seed)), threshold=threshold)
        compiled = parser.compiled
        forest = coarse_forest(compiled, parser._lookup.score(WORDS)[1], threshold, parser._workspace)
        if forest is None:
            continue
        spans = [(i, j) for j in range(1, 6) for i in range(j)]
        assert forest.group_offsets[-1] == len(forest.children)
        assert (np.diff(forest.group_offsets) > 0).all()
        for group, (parent, rule) in enumerate(zip(forest.group_parent, forest.group_rule, strict=True)):
            for left, right in forest.children[slice(*forest.group_offsets[group : group + 2])]:
                (i, j), (k, end), (m, n) = (spans[forest.node_cell[node]] for node in (parent, left, right))
                assert (i, end, j) == (k, m, n)
                rules = compiled.rule_parent, compiled.rule_left, compiled.rule_right
                assert [forest.node_symbol[node] for node in (parent, left, right)] == [part[rule] for part in rules]
