"""Small grammars, and their moments by listing trees: the definitions of section 7, word for word.

Nothing here is shared with `sapwood.learn`: trees are listed one by one, features are read off each node, and states
are summed out of an array with one axis for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from oracles.reference import NumberedTree, number_tree, tree_probability
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.tree import Tree


def made_grammar(rng, rules, *, states, root, words=3, weight=None, alike="", pooled="") -> TensorGrammar:
    """Return a random L-PCFG with the given rules; `weight` multiplies some rules before they are normalised.

    The last two states of symbols in `alike` have the same trees below them, those of symbols in `pooled` the same
    above them: such a symbol has one state more than it needs.
    """
    tags = sorted({s for rule in rules for s in rule} - {a for a, _, _ in rules})
    tensors = {rule: rng.gamma(1.0, size=[states[s] for s in rule]) * (weight or {}).get(rule, 1.0) for rule in rules}
    total = {a: sum(tensor.sum(axis=(1, 2)) for (b, _, _), tensor in tensors.items() if b == a) for a, _, _ in rules}
    columns = {tag: rng.dirichlet(np.ones(words), size=states[tag]) for tag in tags}
    tops = {a: rng.gamma(1.0, size=states[a]) for a in root}
    whole = sum(vector.sum() for vector in tops.values())
    tensors = {rule: tensor / total[rule[0]][:, None, None] for rule, tensor in tensors.items()}
    for rule, tensor in tensors.items():
        if rule[0] in alike:
            tensor[-1] = tensor[-2]
        for axis in (1, 2):
            if rule[axis] in pooled:
                pool(np.moveaxis(tensor, axis, -1))
    for symbol in alike:
        if symbol in columns:
            columns[symbol][-1] = columns[symbol][-2]
    for symbol in pooled:
        if symbol in tops:
            pool(tops[symbol])
    return TensorGrammar.from_parts(
        root={a: vector / whole for a, vector in tops.items()},
        rules=tensors,
        words={(tag, f"w{x}"): columns[tag][:, x] for tag in tags for x in range(words)},
    )


def pool(weights: np.ndarray) -> None:
    """Divide what leads to the last two states among them in the same way everywhere, in place."""
    weights[..., -2:] = weights[..., -2:].sum(axis=-1, keepdims=True) * [0.3, 0.7]


def finite_grammar(rng) -> TensorGrammar:
    """Return a grammar with some two thousand trees, of 1 to 9 nodes."""
    rules = "SAB SAP SQA SPB SBQ APQ AQP APB BQQ BQP"
    return made_grammar(
        rng,
        [tuple(rule) for rule in rules.split()],
        states={"S": 2, "A": 2, "B": 2, "P": 2, "Q": 3},
        root="SABP",
    )


def even_grammar(rng) -> TensorGrammar:
    """Return a grammar whose trees all have 7 nodes."""
    rules = "SAB SBA SAA APQ AQP APP BQQ BPQ BPP"
    return made_grammar(
        rng, [tuple(rule) for rule in rules.split()], states={"S": 2, "A": 3, "B": 2, "P": 2, "Q": 3}, root="S"
    )


def chain_grammar(rng) -> TensorGrammar:
    """Return a grammar with endless trees, the long ones very improbable."""
    rules = [("A", "P", "A"), ("A", "P", "P")]
    states = {"A": 2, "P": 2}
    return made_grammar(rng, rules, states=states, root="AP", words=2, weight={rules[0]: 0.01})


def trees_up_to(grammar: TensorGrammar, max_words: int) -> list[Tree]:
    """Return all trees of the grammar with at most `max_words` words."""
    words = grammar.lexicon.words
    # By symbol and number of words.
    found: dict[tuple[int, int], list[Tree]] = {}
    for a in range(grammar.n_interminals, len(grammar.symbols)):
        found[a, 1] = [Tree(grammar.symbols[a], word=word) for word in words if grammar.lexical_vector(a, word).any()]
    for n in range(2, max_words + 1):
        for a, b, c in grammar.rules.tolist():
            found.setdefault((a, n), []).extend(
                Tree(grammar.symbols[a], (left, right))
                for k in range(1, n)
                for left in found.get((b, k), [])
                for right in found.get((c, n - k), [])
            )
    roots = [a for a in range(len(grammar.symbols)) if grammar.root_vector(a).any()]
    return [tree for a in roots for n in range(1, max_words + 1) for tree in found.get((a, n), [])]


@dataclass(frozen=True)
class Node:
    """What one node of a tree shows: numbers of its symbol, rule (or -1) and expansion; its features."""

    index: int
    symbol: int
    rule: int
    expansion: int
    children: tuple[int, ...]
    inside: list[tuple[int, ...]]
    outside: list[tuple[int, ...]]


def look_at(grammar: TensorGrammar, tree: Tree) -> list[Node]:
    """Return the nodes of a tree in preorder, with their features read off the tree."""
    numbered = number_tree(grammar, tree)
    n = len(numbered.symbol)
    words = iter(tree.words())
    expansion = [
        rule if rule >= 0 else len(grammar.rules) + grammar.lexicon.words.index(next(words)) for rule in numbered.rule
    ]
    above = {}
    for parent in range(n):
        if numbered.rule[parent] >= 0:
            above[numbered.left[parent]] = (parent, 0)
            above[numbered.right[parent]] = (parent, 1)
    nodes = []
    for i in range(n):
        children = (numbered.left[i], numbered.right[i]) if numbered.rule[i] >= 0 else ()
        inside = [(expansion[i],)] + [(expansion[i], side, expansion[child]) for side, child in enumerate(children)]
        if i not in above:
            outside = [()]
        else:
            parent, side = above[i]
            first = (numbered.rule[parent], side)
            second = (-1,)
            if parent in above:
                grand, upper = above[parent]
                second = (numbered.rule[grand], upper)
            outside = [first, first + second]
        nodes.append(Node(i, numbered.symbol[i], numbered.rule[i], expansion[i], children, inside, outside))
    return nodes


def indicators(features: list[tuple[int, ...]], present: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([float(feature in present) for feature in features])


@dataclass
class Listed:
    """All trees of a language with their probabilities, for expectations over their nodes."""

    grammar: TensorGrammar
    trees: list[tuple[float, list[Node]]]
    inside_features: list
    outside_features: list

    @classmethod
    def of(cls, grammar, trees, source) -> Listed:
        listed = [(tree_probability(grammar, tree), look_at(grammar, tree)) for tree in trees]
        return cls(grammar, listed, source.inside_features, source.outside_features)

    @property
    def total(self) -> float:
        return sum(probability for probability, _ in self.trees)

    def nodes(self, scheme: str) -> Iterator[tuple[float, list[Node], Node, np.ndarray, np.ndarray]]:
        """Yield the chance of each node, its tree, itself, and `phi` and `psi` of it."""
        for probability, nodes in self.trees:
            weight = probability / len(nodes) if scheme == "one node" else probability
            for node in nodes:
                phi = indicators(self.inside_features[node.symbol], node.inside)
                psi = indicators(self.outside_features[node.symbol], node.outside)
                yield weight, nodes, node, phi, psi

    def omega(self, scheme: str = "all nodes") -> list[np.ndarray]:
        """Return `E[phi(T_1) psi(O)^T | A_1 = a]` of all symbols."""
        sums = [np.zeros((len(i), len(o))) for i, o in zip(self.inside_features, self.outside_features, strict=True)]
        counts = np.zeros(len(sums))
        for weight, _, node, phi, psi in self.nodes(scheme):
            sums[node.symbol] += weight * np.outer(phi, psi)
            counts[node.symbol] += weight
        return [total / count for total, count in zip(sums, counts, strict=True)]

    def moments(self, projections, scheme: str = "all nodes") -> dict:
        """Return `Sigma^a`, `D^{a -> b c}`, `d^inf_{a -> x}`, `c^1_a` and more, as section 7.2 defines them."""
        grammar = self.grammar
        sizes = [left.shape[1] for left, _ in projections]
        found = {
            "counts": np.zeros(len(sizes)),
            "sigma": [np.zeros((size, size)) for size in sizes],
            "mean": [np.zeros(size) for size in sizes],
            "root": [np.zeros(size) for size in sizes],
            "rule": [np.zeros([sizes[s] for s in rule]) for rule in grammar.rules],
            "rule_counts": np.zeros(len(grammar.rules)),
            "word": {},
        }
        roots = 0.0
        for weight, nodes, node, phi, psi in self.nodes(scheme):
            a = node.symbol
            y1, z = projections[a][0].T @ phi, projections[a][1].T @ psi
            found["counts"][a] += weight
            found["sigma"][a] += weight * np.outer(y1, z)
            found["mean"][a] += weight * y1
            if node.index == 0:
                found["root"][a] += weight * y1
                roots += weight
            if node.children:
                y2, y3 = (
                    projections[child.symbol][0].T @ indicators(self.inside_features[child.symbol], child.inside)
                    for child in (nodes[index] for index in node.children)
                )
                found["rule"][node.rule] += weight * np.einsum("i,j,k->ijk", z, y2, y3)
                found["rule_counts"][node.rule] += weight
            else:
                key = (a - grammar.n_interminals, node.expansion - len(grammar.rules))
                found["word"][key] = found["word"].get(key, 0.0) + weight * z
        counts = found["counts"]
        for name in ("sigma", "mean"):
            found[name] = [moment / count for moment, count in zip(found[name], counts, strict=True)]
        found["rule"] = [moment / counts[a] for moment, a in zip(found["rule"], grammar.rules[:, 0], strict=True)]
        found["word"] = {key: value / counts[key[0] + grammar.n_interminals] for key, value in found["word"].items()}
        found["root"] = [moment / roots for moment in found["root"]]
        return found


def states_of(grammar: TensorGrammar, trees: list[Tree], source) -> tuple[list, list, list]:
    """Return `I^a`, `(d, m_a)`, `J^a`, `(d', m_a)`, and `gamma^a`, `(m_a,)`, of all symbols (Definition 2)."""
    inside = [np.zeros((len(f), m)) for f, m in zip(source.inside_features, grammar.states, strict=True)]
    outside = [np.zeros((len(f), m)) for f, m in zip(source.outside_features, grammar.states, strict=True)]
    gamma = [np.zeros(m) for m in grammar.states]
    for tree in trees:
        joint = joint_weights(grammar, number_tree(grammar, tree))
        for node in look_at(grammar, tree):
            a = node.symbol
            ours = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis != node.index))
            gamma[a] += ours
            inside[a] += np.outer(indicators(source.inside_features[a], node.inside), ours)
            outside[a] += np.outer(indicators(source.outside_features[a], node.outside), ours)
    return (
        [matrix / total for matrix, total in zip(inside, gamma, strict=True)],
        [matrix / total for matrix, total in zip(outside, gamma, strict=True)],
        [total / total.sum() for total in gamma],
    )


def joint_weights(grammar: TensorGrammar, tree: NumberedTree) -> np.ndarray:
    """Return `p(r_1 ... r_N, h_1 ... h_N)` for all states, one axis for each node."""
    n = len(tree.symbol)
    operands: list[object] = [grammar.root_vector(tree.symbol[0]), [0]]
    for node in range(n):
        if tree.rule[node] < 0:
            operands += [tree.lexical[node], [node]]
        else:
            operands += [grammar.tensor(tree.rule[node]), [node, tree.left[node], tree.right[node]]]
    return np.einsum(*operands, list(range(n)))
