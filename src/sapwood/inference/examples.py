"""Phrases of a treebank that show what hidden states have learned: those whose nodes are surely in a state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import ObservedTrees
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# Longer phrases show less.
_LONGEST = 12


class Example(NamedTuple):
    """Words `start .. end - 1` of a sentence, and how probable the state is there."""

    words: list[str]
    start: int
    end: int
    probability: float


def state_examples(grammar: TensorGrammar, trees: Iterable[Tree], *, count: int = 4) -> dict[int, list[list[Example]]]:
    """Return for each symbol that occurs, and each state of it, a few different phrases that are most surely in it.

    Parameters
    ----------
    grammar
        The grammar; trees that it cannot build are left out.
    trees
        The treebank.
    count
        How many phrases of each state.
    """
    clean = [tree for tree in map(grammar.normaliser, trees) if tree is not None]
    if not clean or not grammar.probabilistic:
        return {}
    corpus = Corpus.from_trees(clean, normaliser=grammar.normaliser, transform=grammar.transform)
    try:
        corpus, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    except InputError:
        return {}
    tree_of = np.repeat(np.arange(corpus.n_trees), np.diff(corpus.offsets))
    best: dict[tuple[int, int], dict[str, Example]] = {}
    for part in ObservedTrees(corpus).inside_outside(grammar, dtype=np.float64):
        symbol, length = corpus.symbol[part.nodes], corpus.end[part.nodes] - corpus.start[part.nodes]
        for place in np.flatnonzero((length <= _LONGEST) & (grammar.states[symbol] > 1)).tolist():
            vector = slice(part.offsets[place], part.offsets[place + 1])
            posterior = part.inside[vector] * part.outside[vector]
            total = posterior.sum()
            if not total > 0:
                continue
            state = int(posterior.argmax())
            _keep(best.setdefault((int(symbol[place]), state), {}), corpus, tree_of, int(part.nodes[place]),
                  float(posterior[state] / total), count)  # fmt: skip
    found: dict[int, list[list[Example]]] = {}
    for (number, state), examples in best.items():
        rows = found.setdefault(number, [[] for _ in range(int(grammar.states[number]))])
        rows[state] = sorted(examples.values(), key=lambda one: -one.probability)
    return found


def _keep(
    kept: dict[str, Example], corpus: Corpus, tree_of: np.ndarray, node: int, probability: float, count: int
) -> None:
    """Keep a phrase if it is among the surest of different words."""
    if len(kept) >= count:
        least = min(kept, key=lambda text: kept[text].probability)
        if kept[least].probability >= probability:
            return
    words = corpus.sentence(int(tree_of[node]))
    start, end = int(corpus.start[node]), int(corpus.end[node])
    text = " ".join(words[start:end]).lower()
    if text in kept and kept[text].probability >= probability:
        return
    if text not in kept and len(kept) >= count:
        del kept[least]
    kept[text] = Example(words, start, end, probability)
