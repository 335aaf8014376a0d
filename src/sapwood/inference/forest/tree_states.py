"""Hidden states of a tree: its most probable derivation, and the posterior of each state.

Given a tree, the states of its nodes form a tree-shaped Markov chain. With `m(v)` the max-product inside vector of node
`v`, and `T` the tensor of the rule at `v`,

    m(v)_a = max over y, z of T(a, y, z) m(left)_y m(right)_z

and the choices that reach the maximum at the root are the most probable derivation. The probability of a state given
the tree is inside times outside over the tree's probability. Symbols annotated with ancestors or siblings are treated
like states: the derivation determines which of them a node has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf
from sapwood.inference.estep.trees import TreeEStep
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import as_symbol, make_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree, from_preorder

# Longer phrases are less informative.
_LONGEST = 12


class NodeState(NamedTuple):
    """State of a node of a skeletal tree over words `start .. end - 1`, and its probability given the tree."""

    start: int
    end: int
    symbol: str
    state: int
    probability: float


class _Node:
    """Node of a tree: its span, its vectors, and the best states of its children."""

    __slots__ = ("best", "children", "choice", "end", "inside", "outside", "rule", "start", "symbol")

    def __init__(self, symbol: int, start: int, end: int, inside: np.ndarray, best: np.ndarray) -> None:
        self.symbol, self.start, self.end = symbol, start, end
        self.inside, self.best = _scaled(inside), _scaled(best)
        self.outside = np.zeros(0)
        self.children: tuple[_Node, _Node] | None = None
        self.choice = np.zeros((0, 2), np.int64)
        self.rule = -1


def _scaled(vector: np.ndarray) -> np.ndarray:
    largest = float(vector.max(initial=0.0))
    return vector / largest if largest > 0 else vector


def tree_states(compiled: CompiledGrammar, leaves: Sequence[Leaf], tree: Tree, row: int = 0) -> list[NodeState] | None:
    """Return the states of a skeletal tree over base symbols, in preorder; None if the grammar cannot build the tree.

    The grammar must be probabilistic. `leaves` and `row` are as for `tree_log_probability`.
    """
    remaining = enumerate(leaves)

    def visit(node: Tree, below: list[_Node | None]) -> _Node | None:
        if node.word is not None:
            place, leaf = next(remaining)
            symbol = _number(compiled, node)
            vector = np.asarray(leaf.vector(row, symbol), float)
            return _Node(symbol, place, place + 1, vector, vector) if vector.any() else None
        left, right = below
        return None if left is None or right is None else _join(compiled, _number(compiled, node), left, right)

    top = tree.fold(visit)
    if top is None:
        return None
    offsets = compiled.symbol_offsets
    root = compiled.root[offsets[top.symbol] : offsets[top.symbol + 1]].astype(float)
    if not (root * top.best).any():
        return None
    top.outside = _scaled(root)
    return list(_found(compiled, top, int(np.argmax(root * top.best))))


def _number(compiled: CompiledGrammar, node: Tree) -> int:
    try:
        return compiled.coarse.symbol_number(node.label, preterminal=node.word is not None)
    except KeyError:
        return -1


def _parts(compiled: CompiledGrammar, rule: int) -> Iterator[tuple[slice, slice, slice, np.ndarray]]:
    """Yield the tensors of the fine rules of a coarse rule, with their slices of the vectors."""
    for fine in range(compiled.fine_offsets[rule], compiled.fine_offsets[rule + 1]):
        places, sizes = compiled.fine_places[fine].tolist(), compiled.fine_states[fine].tolist()
        begin = compiled.tensor_offsets[fine]
        tensor = compiled.tensors[begin : begin + int(np.prod(sizes))].reshape(sizes).astype(float)
        first, second, third = (slice(at, at + size) for at, size in zip(places, sizes, strict=True))
        yield first, second, third, tensor


def _join(compiled: CompiledGrammar, symbol: int, left: _Node, right: _Node) -> _Node | None:
    rule = compiled.rule_numbers.get((symbol, left.symbol, right.symbol))
    if rule is None:
        return None
    size = int(compiled.vector_sizes[symbol])
    inside, best, choice = np.zeros(size), np.zeros(size), np.zeros((size, 2), np.int64)
    for at, one, other, tensor in _parts(compiled, rule):
        inside[at] += np.einsum("abc,b,c->a", tensor, left.inside[one], right.inside[other])
        weights = (tensor * left.best[one][:, None] * right.best[other]).reshape(len(tensor), -1)
        which = weights.argmax(axis=1)
        value = weights[np.arange(len(which)), which]
        better = value > best[at]
        y, z = np.divmod(which, tensor.shape[2])
        best[at] = np.where(better, value, best[at])
        choice[at] = np.where(better[:, None], np.stack([one.start + y, other.start + z], axis=1), choice[at])
    if not best.any():
        return None
    node = _Node(symbol, left.start, right.end, inside, best)
    node.children, node.choice, node.rule = (left, right), choice, rule
    return node


def _found(compiled: CompiledGrammar, top: _Node, state: int) -> Iterator[NodeState]:
    grammar = compiled.grammar
    waiting = [(top, state)]
    while waiting:
        node, chosen = waiting.pop()
        posterior = node.inside * node.outside
        place = int(compiled.symbol_offsets[node.symbol]) + chosen
        symbol = int(compiled.symbol_of_place[place])
        number = int(compiled.state_order[place] - grammar.state_offsets[symbol])
        share = float(posterior[chosen] / posterior.sum())
        yield NodeState(node.start, node.end, grammar.symbols[symbol], number, share)
        if node.children is not None:
            left, right = node.children
            left.outside, right.outside = np.zeros(len(left.inside)), np.zeros(len(right.inside))
            for at, one, other, tensor in _parts(compiled, node.rule):
                left.outside[one] += np.einsum("abc,a,c->b", tensor, node.outside[at], right.inside[other])
                right.outside[other] += np.einsum("abc,a,b->c", tensor, node.outside[at], left.inside[one])
            left.outside, right.outside = _scaled(left.outside), _scaled(right.outside)
            y, z = node.choice[chosen].tolist()
            waiting += [(right, z), (left, y)]


def show_states(states: Sequence[NodeState], words: Sequence[str], root: str = "ROOT") -> Tree:
    """Return the tree with the state after each label, `NP-3`; after the last label of a unary chain.

    `states` are those of its skeletal tree, in preorder, and `root` is the label at the top. States of intermediate
    symbols are not shown.

    Examples
    --------
    >>> states = [NodeState(0, 2, "S", 1, 0.9), NodeState(0, 1, "NP|N", 0, 0.8), NodeState(1, 2, "V", 2, 0.7)]
    >>> print(show_states(states, ["dogs", "bark"]))
    (ROOT (S-1 (NP (N-0 dogs)) (V-2 bark)))
    """
    events = [
        (_with_state(node), words[node.start], 0) if node.end == node.start + 1 else (_with_state(node), None, 2)
        for node in states
    ]
    return TreeTransform(root=root).invert(from_preorder(events))


def _with_state(node: NodeState) -> str:
    labels, _, _, intermediate = as_symbol(node.symbol).parts
    return make_symbol((*labels[:-1], f"{labels[-1]}-{node.state}"), intermediate=intermediate)


class Example(NamedTuple):
    """Words `start .. end - 1` of a sentence, and the posterior of the state."""

    words: list[str]
    start: int
    end: int
    probability: float


def state_examples(grammar: TensorGrammar, trees: Iterable[Tree], *, count: int = 4) -> dict[int, list[list[Example]]]:
    """Return, for each state of each symbol that occurs, a few distinct phrases with the largest posteriors.

    Parameters
    ----------
    grammar
        The grammar; trees that it cannot build are skipped.
    trees
        The treebank.
    count
        Number of phrases for each state.
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
    for part in TreeEStep(corpus).inside_outside(grammar, dtype=np.float64):
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
    """Keep a phrase if its posterior is among the largest of distinct phrases."""
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
