"""EM for the constituency models of Hsu, Kakade and Liang (2012) on real text: pcfg, pcfg-i and pcfg-ie.

Each node of a binary tree has one of k states; all trees of a length have equal prior probability. States draw their
children jointly (`B`), independently (`T1`, `T2`), or independently from the same distribution (`T`), and terminals
(`O`) at the leaves. `sapwood.identifiability.models.zoo` has the same models with derivatives modulo primes; this
module runs the compiled charts, on thousands of sentences of any length. Independent children are rules of rank k:
`B[(a, b), c] = sum over r of [r = c] T1[a, r] T2[b, r]`.

Counts have the condition first and the outcome last, the transpose of the blocks of the paper.
"""

from __future__ import annotations

from math import comb, log
from typing import Any, ClassVar

import numpy as np

from sapwood.induction.em_model import Counts, Distributions, EMModel, Iteration
from sapwood.induction.estep import DenseRule, LowRankRule
from sapwood.induction.text import Text
from sapwood.storage.shapes import Array, Float64


class PCFGProblem(EMModel):
    """A model with hidden states on a text: pcfg.

    Parameters
    ----------
    states
        Number of states.
    prior
        Pseudo-count of each outcome.
    """

    name: ClassVar[str] = "pcfg"

    def __init__(self, text: Text, *arguments: Any, states: int, prior: float, **more: Any) -> None:
        self.states, self.prior = states, prior
        super().__init__(text, *arguments, **more)

    @property
    def families(self) -> tuple[Distributions, ...]:
        """Roots, children and terminals of states."""
        k = self.states
        return (
            Distributions("pi", (k,), self.prior),
            *self._children(),
            Distributions("O", (k, len(self.text.terminals)), self.prior),
        )

    def _children(self) -> tuple[Distributions, ...]:
        return (Distributions("B", (self.states, self.states**2), self.prior),)

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return random distributions, as counts of about as many choices as the text has."""
        part = self.sentences(0)
        sizes = {"pi": part.n_sentences, "O": len(part.word) / self.states}
        return {
            one.name: rng.dirichlet(np.ones(one.shape[-1]), one.shape[:-1] or None) * sizes.get(one.name, sizes["O"])
            for one in self.families
        }

    def weights(self, theta: Counts) -> DenseRule | LowRankRule:
        """Return the weights of trees."""
        return DenseRule(theta["pi"], theta["B"], np.ascontiguousarray(theta["O"].T))

    def counted(self, theta: Counts, uses: Any) -> Counts:
        """Return the uses of weights as counts of outcomes."""
        return {"pi": uses.root, "B": uses.rule, "O": np.ascontiguousarray(uses.leaf.T)}

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all binary trees; the value is relative to sentences of the same length."""
        found = self.shards(when.stage).sums(self.weights(theta))
        lengths, how_many = np.unique(self.sentences(when.stage).lengths, return_counts=True)
        trees = sum(
            many * log(comb(2 * length - 2, length - 1) // length)
            for length, many in zip(lengths.tolist(), how_many.tolist(), strict=True)
            if length
        )
        return float(found.logarithms.sum()) - trees, self.counted(theta, found.uses)

    def rule(self, theta: Counts) -> Float64[Array, "states states states"]:
        """Return `B[c, a, b]`."""
        k = self.states
        return theta["B"].reshape(k, k, k)


class IndependentPCFGProblem(PCFGProblem):
    """Independent children: pcfg-i. A sentence of one word has a root and no children; see `expect`."""

    name = "pcfg-i"
    children: ClassVar[tuple[str, str]] = ("T1", "T2")

    def _children(self) -> tuple[Distributions, ...]:
        return tuple(
            Distributions(name, (self.states, self.states), self.prior) for name in dict.fromkeys(self.children)
        )

    def weights(self, theta: Counts) -> LowRankRule:
        """Return the weights of trees."""
        left, right = (theta[name] for name in self.children)
        leaf = theta["O"].T
        return LowRankRule(
            theta["pi"], np.eye(self.states), np.ascontiguousarray(left), np.ascontiguousarray(right),
            np.ascontiguousarray(leaf @ left.T), np.ascontiguousarray(leaf @ right.T),
        )  # fmt: skip

    def counted(self, theta: Counts, uses: Any) -> Counts:
        """Return the uses of weights as counts of outcomes: a leaf draws a child and a terminal."""
        weights = self.weights(theta)
        found = {name: np.zeros((self.states, self.states)) for name in self.children}
        leaves = np.zeros_like(theta["O"])
        sides = (
            (self.children[0], uses.left, uses.left_leaf, weights.left_leaf),
            (self.children[1], uses.right, uses.right_leaf, weights.right_leaf),
        )
        for name, inner, leaf, whole in sides:
            share = np.divide(leaf, whole, out=np.zeros_like(leaf), where=whole > 0)  # (terminals, parents)
            found[name] += inner + theta[name] * (share.T @ theta["O"].T)
            leaves += theta["O"] * (theta[name].T @ share.T)
        return {"pi": uses.root, **found, "O": leaves}

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all binary trees, and add the sentences of one word, which the chart skips."""
        value, counts = super().expect(theta, when)
        part = self.sentences(when.stage)
        alone = part.terminal[part.offsets[:-1][part.lengths == 1]]
        if len(alone):
            joint = theta["pi"][:, None] * theta["O"][:, alone]
            totals = joint.sum(0)
            value += float(np.log(totals).sum())
            posterior = joint / totals
            counts["pi"] += posterior.sum(1)
            np.add.at(counts["O"].T, alone, posterior.T)
        return value, counts

    def rule(self, theta: Counts) -> Float64[Array, "states states states"]:
        """Return `B[c, a, b]`."""
        left, right = (theta[name] for name in self.children)
        return left[:, :, None] * right[:, None, :]


class TiedPCFGProblem(IndependentPCFGProblem):
    """Independent and identically distributed children: pcfg-ie."""

    name = "pcfg-ie"
    children = ("T", "T")
