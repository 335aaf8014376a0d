"""Product automaton of two automata, applied to matrices of pairs of states without being written out.

The product of automata `A` and `A'` with the same sorts has a state for each pair of states of a sort and gives a tree
the weight `f(t) f'(t)`. Vectors over its states are kept as matrices, one for each sort (`Blocks`), and its transitions
are applied by `sandwich`, rule by rule; rules with small dense tensors of the same shape are batched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.tensors import Tensor, sandwich
from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Float

# A matrix for each sort: pairs of states of the two automata.
Blocks: TypeAlias = list[Float[Array, "states other_states"]]
Vector: TypeAlias = Float[Array, "pairs"]
# Maximum number of weights of a tensor that is stacked, and of a stack.
_SMALL, _STACK = 1 << 15, 1 << 22
# Positions of a sandwich's result and arguments in a rule, for results at the parent and at each child.
_AXES = {0: (0, 1, 2), 1: (1, 0, 2), 2: (2, 0, 1)}


@dataclass(frozen=True)
class _Stack:
    """Rules with tensors of one shape: `(g, n_a, n_b, n_c)` of both automata."""

    rules: np.ndarray
    one: np.ndarray
    other: np.ndarray

    def apply(self, axis: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`sandwich` of all rules; `left` and `right` are stacks of matrices."""
        order = (0, *(1 + at for at in _AXES[axis]))
        one, other = self.one.transpose(order), self.other.transpose(order)
        g, n, j, k = one.shape
        half = np.matmul(np.ascontiguousarray(one).reshape(g, n * j, k), right).reshape(g, n, j, -1)
        half = np.matmul(left.transpose(0, 2, 1)[:, None], half).reshape(g, n, -1)  # i, then j' and k'
        return np.asarray(np.matmul(half, other.reshape(g, other.shape[1], -1).transpose(0, 2, 1)))


@dataclass(frozen=True)
class _Single:
    """A rule whose tensor is large enough for an operation of its own, with its axes in each order."""

    rule: np.ndarray
    one: tuple[Tensor, Tensor, Tensor]
    other: tuple[Tensor, Tensor, Tensor]


class PairOperator:
    """The transitions of the product of two automata.

    Parameters
    ----------
    one, other
        Automata with the same sorts and the same words.
    scale
        Factor of all transitions: the square of `gamma` for `gamma^size(t) f(t)`.
    """

    def __init__(self, one: TreeAutomaton, other: TreeAutomaton, *, scale: float = 1.0) -> None:
        if one.sorts != other.sorts:
            raise UsageError("the automata have different sorts")
        rows = [[len(leaves) for leaves in automaton.leaves] for automaton in (one, other)]
        if one.words != other.words or rows[0] != rows[1]:
            raise UsageError("the automata have different words; both must have the same ones, in the same order")
        self.one, self.other, self.scale = one, other, scale
        self.shapes = list(zip(one.sizes.tolist(), other.sizes.tolist(), strict=True))
        self._offsets = np.concatenate([[0], np.cumsum([n * m for n, m in self.shapes])])
        theirs = {tuple(rule): number for number, rule in enumerate(other.rules.tolist())}
        small: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._singles: list[_Single] = []
        for number, rule in enumerate(one.rules.tolist()):
            match = theirs.get(tuple(rule))
            if match is None:
                continue
            mine, its = one.transitions[number], other.transitions[match]
            is_small = all(isinstance(tensor, np.ndarray) and tensor.size <= _SMALL for tensor in (mine, its))
            if is_small:
                small.setdefault((*mine.shape, *its.shape), []).append((number, match))
            else:
                first = _orders(mine)
                self._singles.append(_Single(np.array(rule), first, first if its is mine else _orders(its)))
        self._stacks: list[_Stack] = []
        for shape, pairs in small.items():
            step = max(1, _STACK // int(np.prod(shape[:3])))
            for begin in range(0, len(pairs), step):
                mine_at, its_at = zip(*pairs[begin : begin + step], strict=True)
                stack = _stack([one.transitions[at] for at in mine_at])
                same = one is other
                their_stack = stack if same else _stack([other.transitions[at] for at in its_at])
                self._stacks.append(_Stack(one.rules[list(mine_at)], stack, their_stack))

    def zeros(self) -> Blocks:
        """Return zero blocks."""
        return [np.zeros(shape) for shape in self.shapes]

    def scaled(self, scale: float) -> PairOperator:
        """Return the operator with another factor; the tensors are shared."""
        other = copy(self)
        other.scale = scale
        return other

    @cached_property
    def leaves(self) -> Blocks:
        """`sum over x of omega_x omega'_x^T` of each sort."""
        return [mine.T @ its for mine, its in zip(self.one.leaves, self.other.leaves, strict=True)]

    def roots(self) -> Blocks:
        """Return `alpha alpha'^T` of each sort."""
        return [np.outer(mine, its) for mine, its in zip(self.one.root, self.other.root, strict=True)]

    def up(self, left: Blocks, right: Blocks) -> Blocks:
        """Return `T^(x)(I, left, right)`: sums over all rules with each sort as parent."""
        result = self.zeros()
        self._add(0, left, right, result)
        return result

    def grow(self, blocks: Blocks) -> Blocks:
        """Return `F(s) = T^(x)(I, s, s) + sum over x of omega^(x)_x` (Theorem 5)."""
        return add(self.up(blocks, blocks), self.leaves)

    def slope(self, at: Blocks, blocks: Blocks) -> Blocks:
        """Return `E v`, `E = T^(x)(I, s, I) + T^(x)(I, I, s)` at `s`: the derivative of `F`."""
        return add(self.up(at, blocks), self.up(blocks, at))

    def down(self, at: Blocks, blocks: Blocks) -> Blocks:
        """Return `E^T q`: from each sort as parent to its children."""
        return add(self.to_children(1, blocks, at), self.to_children(2, blocks, at))

    def to_children(self, axis: int, parents: Blocks, siblings: Blocks) -> Blocks:
        """Return `T^T (q (x) s) T`: from each sort as parent, and a sibling, to left (1) or right (2) children."""
        result = self.zeros()
        self._add(axis, parents, siblings, result)
        return result

    def _add(self, axis: int, first: Blocks, second: Blocks, result: Blocks) -> None:
        target, left, right = _AXES[axis]
        for stack in self._stacks:
            sorts = stack.rules
            found = stack.apply(
                axis, np.stack([first[sort] for sort in sorts[:, left]]), np.stack([second[s] for s in sorts[:, right]])
            )
            for sort, block in zip(sorts[:, target].tolist(), found, strict=True):
                result[sort] += self.scale * block
        for single in self._singles:
            rule = single.rule
            result[rule[target]] += self.scale * sandwich(
                single.one[axis], first[rule[left]], second[rule[right]], single.other[axis]
            )

    def pack(self, blocks: Blocks) -> Float[Array, "pairs"]:
        """Return all blocks as one vector."""
        return np.concatenate([block.ravel() for block in blocks])

    def unpack(self, vector: Float[Array, "pairs"]) -> Blocks:
        """Return the blocks of a vector."""
        parts = np.split(vector, self._offsets[1:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def _orders(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a tensor with its axes permuted by each of `_AXES`."""
    swapped = [tensor.transpose(*_AXES[axis]) for axis in (1, 2)]
    if isinstance(tensor, np.ndarray):
        swapped = [np.ascontiguousarray(array) for array in swapped]
    return tensor, swapped[0], swapped[1]


def _stack(tensors: Sequence[Tensor]) -> np.ndarray:
    return np.stack([tensor for tensor in tensors if isinstance(tensor, np.ndarray)])


def add(one: Blocks, other: Blocks, factor: float = 1.0) -> Blocks:
    """Return `one + factor * other`."""
    return [mine + factor * its for mine, its in zip(one, other, strict=True)]


def inner(one: Blocks, other: Blocks) -> float:
    """Return the sum of products of all entries."""
    return float(sum(np.vdot(mine, its) for mine, its in zip(one, other, strict=True)))


def norm(blocks: Blocks) -> float:
    """Return the Euclidean norm of all entries."""
    return float(np.sqrt(inner(blocks, blocks)))


def linear_map(pairs: PairOperator, function: Callable[[Blocks], Blocks]) -> Callable[[Vector], Vector]:
    """Return a map of blocks as a map of vectors."""
    return lambda vector: pairs.pack(function(pairs.unpack(vector)))
