"""Matrix form of spectral learning: the algorithm as Cohen et al. (2012) print it.

There, the states `h2` and `h3` of the two children are independent given the state `h1` of their parent and the rule:

    t(a -> b c, h2, h3 | h1) = q(a -> b c | h1) s(h2 | h1) t(h3 | h1)

and a rule's tensor is a map from a vector to a matrix (definition 1), `C(y)`, with `y` the left child's vector. The
inside vector of a node is then `f^c C(f^b)` (figure 2), and equation 2 is `C(y) = D(y) (Sigma^a)^{-1}` with
`D = E[[[R_1 = a -> b c]] Y_3 Z^T Y_2^T | A_1 = a]`. The moments are those of the long paper with their axes in another
order, so both forms learn the same grammar. (Figure 4 prints the outer product in another order than section 6.2, which
is the right one.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sapwood.errors import GrammarError, InputError
from sapwood.grammar.expectations import with_expected_counts
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.observable_representation import Moments
from sapwood.storage.shapes import Array, Float
from sapwood.trees.tree import Tree


def matrix_form(tensor: Float[Array, "m_a m_b m_c"], y: Float[Array, "m_b"]) -> Float[Array, "m_c m_a"]:
    """Return `C(y)` (definition 1) of a rule's tensor.

    The paper orders the axes of the tensor as `(c, a, b)` and contracts the third with the left child's vector `y`.

    Examples
    --------
    >>> matrix_form(np.arange(8.0).reshape(2, 2, 2), np.array([1.0, 10.0]))
    array([[20., 64.],
           [31., 75.]])
    """
    return np.asarray(np.einsum("cab,b->ca", np.transpose(tensor, (2, 0, 1)), y))


def observable_matrix(moments: Moments, rule: int, y: Float[Array, "m_b"]) -> Float[Array, "m_c m_a"]:
    """Return `C(y) = D(y) (Sigma^a)^{-1}` of a rule: equation 2.

    Parameters
    ----------
    moments
        Exact or estimated.
    rule
        Its number in `moments.rules`.
    y
        Vector of the left child.
    """
    sigma = moments.sigma[int(moments.rules[rule, 0])]
    return np.asarray(matrix_form(moments.rule[rule], y) @ np.linalg.inv(sigma))


def tree_probability(grammar: TensorGrammar, tree: Tree) -> float:
    """Return the probability of a skeletal tree by products of matrices: figure 2.

    It is 0 if the grammar lacks a symbol or a rule of the tree. Weights can be real.

    Examples
    --------
    >>> words = {("N", "rain"): 1.0, ("V", "fell"): 0.5, ("V", "falls"): 0.5}
    >>> grammar = TensorGrammar.from_parts(root={"S": 1.0}, rules={("S", "N", "V"): 1.0}, words=words)
    >>> tree_probability(grammar, Tree.parse("(S (N rain) (V fell))"))
    0.5
    """
    rules = {tuple(key): number for number, key in enumerate(grammar.rules.tolist())}
    # The first word of a sentence is looked up as such: unknown words look different there.
    first = next(node for node in tree.nodes() if node.word is not None)

    def visit(node: Tree, children: list[tuple[int, np.ndarray]]) -> tuple[int, np.ndarray]:
        try:
            symbol = grammar.symbol_number(node.label, preterminal=node.word is not None)
        except KeyError:
            raise GrammarError(f"the grammar has no symbol {node.label}") from None
        if node.word is not None:
            return symbol, grammar.lexical_vector(symbol, node.word, initial=node is first)
        if len(children) != 2:
            raise InputError(f"not a skeletal tree: {node.label!r} has {len(children)} children, not two")
        (left, below_left), (right, below_right) = children
        if (symbol, left, right) not in rules:
            raise GrammarError(f"the grammar has no such rule of {node.label}")
        return symbol, below_right @ matrix_form(grammar.tensor(rules[symbol, left, right]), below_left)

    try:
        symbol, vector = tree.fold(visit)
    except GrammarError:
        return 0.0
    return float(vector @ grammar.root_vector(symbol))


def factors(
    grammar: TensorGrammar, rule: int
) -> tuple[Float[Array, "m_a"], Float[Array, "m_b m_a"], Float[Array, "m_c m_a"]]:
    """Return `q(rule | h1)`, `s(h2 | h1)` and `t(h3 | h1)` of a rule of a probabilistic grammar."""
    tensor = grammar.tensor(rule)
    q = tensor.sum(axis=(1, 2))
    return q, tensor.sum(axis=2).T / q, tensor.sum(axis=1).T / q


def independent_children(grammar: TensorGrammar) -> TensorGrammar:
    """Return an L-PCFG of the 2012 paper: `h2` and `h3` have the same chances as before, and are independent.

    Parameters
    ----------
    grammar
        A probabilistic grammar.

    Examples
    --------
    >>> together = np.array([[[0.5, 0.0], [0.0, 0.5]]])  # both children in the same state
    >>> grammar = TensorGrammar.from_parts(
    ...     root={"S": [1.0]}, rules={("S", "N", "N"): together}, words={("N", "a"): [1.0, 0.0], ("N", "b"): [0.0, 1.0]}
    ... )
    >>> independent_children(grammar).tensor(0)
    array([[[0.25, 0.25],
            [0.25, 0.25]]])
    """
    tensors = []
    for rule in range(len(grammar.rules)):
        q, s, t = factors(grammar, rule)
        tensors.append(np.einsum("h,ih,jh->hij", q, s, t).ravel())
    return with_expected_counts(replace(grammar, tensors=np.concatenate(tensors)).validate())
