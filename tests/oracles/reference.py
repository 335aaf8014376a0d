"""Exact inference in plain NumPy, straight from the papers' figures: slow, and easy to see to be right.

Everything is float64 without scaling, so this is for short sentences and small grammars; it is what the
fast engine is checked against. The algorithms are those of Cohen et al. (long paper), sections 4.3 and 6.1.
Figures 2 and 3 (conventional form) and figures 4 and 5 (tensor form) are the same computations
once `T^{a -> b c}`, `q_{a -> x}`, `pi^a` are kept as tensors and vectors (Remark 2), so each is one function
here and takes probabilities and real weights alike.

Spans are half-open, `0 <= i < j <= n`, and a split `k` has `i < k < j`. Inside vectors `alpha^{a,i,j}` and
outside vectors `beta^{a,i,j}` have shape `(m_a,)`. Roots may be preterminals (one-word sentences), and the
first word of a sentence is looked up as such, because unknown words look different there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import GrammarError, InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float
from sapwood.trees.tree import Tree, from_preorder


def apply(
    tensor: Float[Array, "m_a m_b m_c"], left: Float[Array, "m_b"], right: Float[Array, "m_c"]
) -> Float[Array, "m_a"]:
    """Return `C(y1, y2)`: what the children say of their parent."""
    return np.einsum("abc,b,c->a", tensor, left, right)


def apply_to_left(
    tensor: Float[Array, "m_a m_b m_c"], parent: Float[Array, "m_a"], right: Float[Array, "m_c"]
) -> Float[Array, "m_b"]:
    """Return `C_(1,3)(y1, y3)`: what the parent and the right child say of the left one."""
    return np.einsum("abc,a,c->b", tensor, parent, right)


def apply_to_right(
    tensor: Float[Array, "m_a m_b m_c"], parent: Float[Array, "m_a"], left: Float[Array, "m_b"]
) -> Float[Array, "m_c"]:
    """Return `C_(1,2)(y1, y2)`: what the parent and the left child say of the right one."""
    return np.einsum("abc,a,b->c", tensor, parent, left)


@dataclass(frozen=True, eq=False)
class NumberedTree:
    """A skeletal tree in the grammar's numbers; nodes are in preorder, `N` in all.

    Attributes
    ----------
    symbol, rule, left, right
        For each node its symbol, its rule, its children; rule and children are -1 on leaves.
    lexical
        The vector `q_{a -> x}` of each leaf, by node.
    """

    symbol: list[int]
    rule: list[int]
    left: list[int]
    right: list[int]
    lexical: dict[int, Float[Array, "m_a"]]


def number_tree(grammar: TensorGrammar, tree: Tree) -> NumberedTree:
    """Look up a skeletal tree's symbols and rules; `GrammarError` names the first that does not exist.

    A label may name both an interminal and a preterminal; which one is meant shows by the word below.
    """
    nodes = list(tree.nodes())
    symbol: list[int] = []
    for node in nodes:
        if len(node.children) not in (0, 2):
            raise InputError(f"not a skeletal tree: {node.label!r} has {len(node.children)} children, not two")
        try:
            symbol.append(grammar.symbol_number(node.label, preterminal=node.word is not None))
        except KeyError:
            kind = "preterminal" if node.word is not None else "interminal"
            raise GrammarError(f"the grammar has no {kind} {node.label}") from None
    rules = {tuple(key): number for number, key in enumerate(grammar.rules.tolist())}
    rule, left, right = ([-1] * len(nodes) for _ in range(3))
    # From the back: the subtrees that still wait for a parent, the leftmost one on top.
    waiting: list[int] = []
    for index in range(len(nodes) - 1, -1, -1):
        if nodes[index].word is None:
            left[index], right[index] = waiting.pop(), waiting.pop()
            key = (symbol[index], symbol[left[index]], symbol[right[index]])
            if key not in rules:
                a, b, c = (grammar.symbols[number] for number in key)
                raise GrammarError(f"the grammar has no rule {a} -> {b} {c}")
            rule[index] = rules[key]
        waiting.append(index)
    lexical: dict[int, np.ndarray] = {}
    for index, node in enumerate(nodes):
        if node.word is not None:
            lexical[index] = grammar.lexical_vector(symbol[index], node.word, initial=not lexical)
    return NumberedTree(symbol, rule, left, right, lexical)


def _inside_vectors(grammar: TensorGrammar, numbered: NumberedTree) -> list[np.ndarray]:
    """Return `f^i`, `(m_{a_i},)`, for every node, bottom-up (figures 2 and 4)."""
    inside: list[np.ndarray] = [np.zeros(0)] * len(numbered.symbol)
    for node in range(len(inside) - 1, -1, -1):
        if numbered.rule[node] < 0:
            inside[node] = numbered.lexical[node]
        else:
            tensor = grammar.tensor(numbered.rule[node])
            inside[node] = apply(tensor, inside[numbered.left[node]], inside[numbered.right[node]])
    return inside


def tree_probability(grammar: TensorGrammar, tree: Tree) -> float:
    """Return `p(r_1 ... r_N)` of a skeletal tree: `f^1 c^1_{a_1}` (figure 2, and figure 4 for real weights).

    A tree with a symbol or rule that the grammar does not have gets 0.
    """
    try:
        numbered = number_tree(grammar, tree)
    except GrammarError:
        return 0.0
    inside = _inside_vectors(grammar, numbered)
    return float(inside[0] @ grammar.root_vector(numbered.symbol[0]))


@dataclass(frozen=True, eq=False)
class TreeInsideOutside:
    """Inside and outside vectors of every node of one observed tree, nodes in preorder.

    Attributes
    ----------
    inside, outside
        Vectors by node; their product sums to `probability` at every node.
    probability
        Probability of the tree.
    """

    grammar: TensorGrammar
    tree: NumberedTree
    inside: list[Float[Array, "m_a"]]
    outside: list[Float[Array, "m_a"]]
    probability: float

    def state_posteriors(self, node: int) -> Float[Array, "m_a"]:
        """Return the distribution of a node's state given the tree; zeros if it is impossible."""
        return _share(self.inside[node] * self.outside[node], self.probability)

    def rule_posteriors(self, node: int) -> Float[Array, "m_a m_b m_c"]:
        """Return the joint distribution of an inner node's and its children's states."""
        tree = self.tree
        if tree.rule[node] < 0:
            raise InputError(f"node {node} is a leaf: it has no rule")
        joint = np.einsum(
            "abc,a,b,c->abc",
            self.grammar.tensor(tree.rule[node]),
            self.outside[node],
            self.inside[tree.left[node]],
            self.inside[tree.right[node]],
        )
        return _share(joint, self.probability)


def tree_inside_outside(grammar: TensorGrammar, tree: Tree) -> TreeInsideOutside:
    """Return inside and outside vectors of all nodes of a skeletal tree.

    Inside as in figures 2 and 4; outside as figures 3 and 5 define it, with the one rule and the one
    split that the tree has. `GrammarError` if the grammar lacks one of the tree's symbols or rules.
    """
    numbered = number_tree(grammar, tree)
    inside = _inside_vectors(grammar, numbered)
    outside: list[np.ndarray] = [np.zeros(0)] * len(inside)
    outside[0] = grammar.root_vector(numbered.symbol[0]).astype(np.float64)
    for node, rule in enumerate(numbered.rule):
        if rule >= 0:
            left, right = numbered.left[node], numbered.right[node]
            outside[left] = apply_to_left(grammar.tensor(rule), outside[node], inside[right])
            outside[right] = apply_to_right(grammar.tensor(rule), outside[node], inside[left])
    return TreeInsideOutside(grammar, numbered, inside, outside, float(inside[0] @ outside[0]))


@dataclass(frozen=True, eq=False)
class InsideOutside:
    """The chart of one sentence of `n` words.

    Attributes
    ----------
    alpha, beta
        For each symbol `a` inside and outside vectors by `[i, j]`.
    marginals
        `mu(a, i, j)`, the total probability of the trees with `a` over `i..j`;
        divided by `probability` it is the posterior of the constituent.
    probability
        `p(x)`, summed over all roots.
    """

    grammar: TensorGrammar
    sentence: list[str]
    alpha: list[Float[Array, "n n+1 m_a"]]
    beta: list[Float[Array, "n n+1 m_a"]]
    marginals: Float[Array, "symbols n n+1"]
    probability: float

    def rule_marginals(self) -> Float[Array, "rules n n+1 n+1"]:
        """Return `mu(a -> b c, i, k, j)` by `[rule, i, k, j]`.

        The total probability of the trees in which `a` over `i..j` has the children `b` over `i..k` and
        `c` over `k..j`.
        """
        n, grammar = len(self.sentence), self.grammar
        found = np.zeros((len(grammar.rules), n, n + 1, n + 1))
        for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
            tensor = grammar.tensor(rule)
            for i, k, j in _splits(n):
                below = apply(tensor, self.alpha[b][i, k], self.alpha[c][k, j])
                found[rule, i, k, j] = self.beta[a][i, j] @ below
        return found

    def state_posteriors(self, symbol: int, i: int, j: int) -> Float[Array, "m_a"]:
        """Return the distribution over the states of `symbol` given that it spans `i..j`.

        Zeros where the symbol cannot span `i..j`. A distribution for a probabilistic grammar only.
        """
        joint = self.alpha[symbol][i, j] * self.beta[symbol][i, j]
        return _share(joint, float(self.marginals[symbol, i, j]))


def inside_outside(grammar: TensorGrammar, sentence: Sequence[str]) -> InsideOutside:
    """Return inside and outside vectors and marginals of a sentence (figure 3; figure 5 for real weights)."""
    n = _length(sentence)
    states = grammar.states.tolist()
    alpha = [np.zeros((n, n + 1, size)) for size in states]
    beta = [np.zeros((n, n + 1, size)) for size in states]
    rules = [(*rule, grammar.tensor(number)) for number, rule in enumerate(grammar.rules.tolist())]
    # Inside, base case and recursion.
    for i, vectors in enumerate(_lexical_vectors(grammar, sentence)):
        for a, vector in vectors.items():
            alpha[a][i, i + 1] = vector
    for i, k, j in _splits(n):
        for a, b, c, tensor in rules:
            alpha[a][i, j] += apply(tensor, alpha[b][i, k], alpha[c][k, j])
    # Outside, base case and recursion: larger spans hand down to smaller ones.
    for a in range(len(states)):
        beta[a][0, n] = grammar.root_vector(a)
    for i, k, j in reversed(_splits(n)):
        for a, b, c, tensor in rules:
            beta[b][i, k] += apply_to_left(tensor, beta[a][i, j], alpha[c][k, j])
            beta[c][k, j] += apply_to_right(tensor, beta[a][i, j], alpha[b][i, k])
    marginals = np.stack([np.sum(ours * theirs, axis=2) for ours, theirs in zip(alpha, beta, strict=True)])
    return InsideOutside(grammar, list(sentence), alpha, beta, marginals, float(marginals[:, 0, n].sum()))


@dataclass(frozen=True)
class Best:
    """The best tree by some measure.

    Attributes
    ----------
    tree
        The tree, or None when the grammar has none for the sentence.
    value
        Its value; 0 when there is no tree.
    states
        For `viterbi`, the state of each node, in preorder.
    """

    tree: Tree | None
    value: float
    states: tuple[int, ...] = ()


def best_labelled_recall(grammar: TensorGrammar, sentence: Sequence[str]) -> Best:
    """Return the tree with the greatest sum of marginals `mu(a, i, j)` over its nodes (Goodman 1996).

    The trees to choose from are all that the grammar's own rules build: each binary rule is in the grammar,
    each tag has a lexical vector for its word that is not zero, and so has the root a root vector.
    """
    n = _length(sentence)
    marginals = inside_outside(grammar, sentence).marginals
    # A cell is (symbol, i, j); `best` holds the value of its best subtree, `back` its (k, b, c).
    best: dict[tuple[int, int, int], float] = {}
    back: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for i, vectors in enumerate(_lexical_vectors(grammar, sentence)):
        for a, vector in vectors.items():
            if vector.any():
                best[a, i, i + 1] = float(marginals[a, i, i + 1])
    for i, k, j in _splits(n):
        for a, b, c in grammar.rules.tolist():
            if (b, i, k) in best and (c, k, j) in best:
                value = float(marginals[a, i, j]) + best[b, i, k] + best[c, k, j]
                if (a, i, j) not in best or value > best[a, i, j]:
                    best[a, i, j], back[a, i, j] = value, (k, b, c)
    tops = [(a, 0, n) for a in range(len(grammar.symbols)) if (a, 0, n) in best and grammar.root_vector(a).any()]
    if not tops:
        return Best(None, 0.0)
    top = max(tops, key=lambda cell: best[cell])
    found = []
    stack = [top]
    while stack:
        a, i, j = stack.pop()
        found.append((a, i, j))
        if j > i + 1:
            k, b, c = back[a, i, j]
            stack += [(c, k, j), (b, i, k)]
    return Best(_tree_of(grammar, sentence, found), best[top])


def viterbi(grammar: TensorGrammar, sentence: Sequence[str]) -> Best:
    """Return the most probable tree with states: `max p(r_1 ... r_N, h_1 ... h_N)` (equation 2)."""
    if not grammar.probabilistic:
        raise GrammarError("the best states are defined for probabilistic grammars only; this one is real-valued")
    n = _length(sentence)
    states = grammar.states.tolist()
    best = [np.zeros((n, n + 1, size)) for size in states]
    # (symbol, i, j, state) -> (k, left symbol, left state, right symbol, right state)
    back: dict[tuple[int, int, int, int], tuple[int, int, int, int, int]] = {}
    for i, vectors in enumerate(_lexical_vectors(grammar, sentence)):
        for a, vector in vectors.items():
            best[a][i, i + 1] = vector
    rules = [(*rule, grammar.tensor(number)) for number, rule in enumerate(grammar.rules.tolist())]
    for i, k, j in _splits(n):
        for a, b, c, tensor in rules:
            joint = tensor * best[b][i, k][None, :, None] * best[c][k, j][None, None, :]
            for state in range(states[a]):
                left, right = np.unravel_index(int(np.argmax(joint[state])), joint[state].shape)
                if joint[state, left, right] > best[a][i, j, state]:
                    best[a][i, j, state] = joint[state, left, right]
                    back[a, i, j, state] = (k, b, int(left), c, int(right))
    probability, top = 0.0, (-1, -1)
    for a in range(len(states)):
        for state, value in enumerate(best[a][0, n] * grammar.root_vector(a)):
            if value > probability:
                probability, top = float(value), (a, state)
    if probability == 0:
        return Best(None, 0.0)
    found, chosen = [], []
    stack = [(top[0], 0, n, top[1])]
    while stack:
        a, i, j, state = stack.pop()
        found.append((a, i, j))
        chosen.append(state)
        if j > i + 1:
            k, b, left_state, c, right_state = back[a, i, j, state]
            stack += [(c, k, j, right_state), (b, i, k, left_state)]
    return Best(_tree_of(grammar, sentence, found), probability, tuple(chosen))


def _tree_of(grammar: TensorGrammar, sentence: Sequence[str], cells: Sequence[tuple[int, int, int]]) -> Tree:
    """Return the tree with these symbols and spans, in preorder."""
    return from_preorder([(grammar.symbols[a], *((sentence[i], 0) if j == i + 1 else (None, 2))) for a, i, j in cells])


def _length(sentence: Sequence[str]) -> int:
    if not sentence:
        raise InputError("an empty sentence has no parse")
    return len(sentence)


def _splits(n: int) -> list[tuple[int, int, int]]:
    """Return all `(i, k, j)` with `0 <= i < k < j <= n`, smaller spans first."""
    return [
        (i, k, i + width) for width in range(2, n + 1) for i in range(n - width + 1) for k in range(i + 1, i + width)
    ]


def _lexical_vectors(grammar: TensorGrammar, sentence: Sequence[str]) -> list[dict[int, np.ndarray]]:
    """Return for each word the vectors `q_{a -> x}`, `(m_a,)`, of all preterminals `a`."""
    tags = range(grammar.n_interminals, len(grammar.symbols))
    return [
        {a: grammar.lexical_vector(a, word, initial=index == 0) for a in tags} for index, word in enumerate(sentence)
    ]


def _share(values: np.ndarray, total: float) -> np.ndarray:
    return values / total if total != 0 else np.zeros_like(values)
