"""Results depend on the sentence and the grammar alone, however extreme its weights and whatever memory holds.

Workspaces are used again from one sentence to the next. Here they are filled with numbers that lead nowhere before each
sentence: what is read without having been written crashes, or shows in the result.
"""

from __future__ import annotations

import numpy as np
import pytest

from effort import slow
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser

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


def poison(parser: Parser) -> None:
    for buffer in parser._workspace._buffers.values():
        buffer.fill(0x7F)


@pytest.mark.parametrize("grammars", [range(40), slow(range(40, 500))], ids=["some", "many"])
@pytest.mark.parametrize("threshold", [6e-6, 1e-3, 0.0])
def test_poisoned_memory_makes_no_difference(grammars, threshold):
    for seed in grammars:
        grammar = extreme_grammar(np.random.default_rng(seed))
        parser, fresh = Parser(grammar, threshold=threshold), Parser(grammar, threshold=threshold)
        parser.parse_one(WORDS)
        poison(parser)
        assert parser.parse_one(WORDS) == fresh.parse_one(WORDS), seed


def test_edges_without_a_node_are_dropped(monkeypatch):
    """Whatever the passes disagree about: here no node of one symbol is numbered, and nothing of it is left."""
    from sapwood.inference import chart

    grammar = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "A", "B"): 0.5, ("S", "B", "A"): 0.5},
        words={("A", "a"): 1.0, ("B", "b"): 0.5, ("B", "a"): 0.5},
    )
    honest = chart.number_nodes

    def forgetful(*arguments):
        symbol, cells = honest(*arguments)
        arguments[-1][arguments[-1] == 0] = -1  # the first node was never numbered
        return symbol, cells

    monkeypatch.setattr(chart, "number_nodes", forgetful)
    forest = chart.coarse_forest(Parser(grammar).compiled, *leaves_of(grammar, ["a", "a"]))
    assert forest is not None
    assert (forest.children > 0).all()
    assert len(forest.children) == forest.group_offsets[-1] < 2


def leaves_of(grammar: TensorGrammar, words: list[str]) -> tuple:
    from sapwood.inference.chart import Workspace

    return Parser(grammar)._read(words)[1], 6e-6, Workspace()
