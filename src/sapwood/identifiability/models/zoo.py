"""Parsing models: distributions over sentences of each length and their trees (Hsu, Kakade and Liang 2012, section 3).

A model is a small class that names its blocks of parameters and how they make the weights of a chart. Likelihood,
moments, posteriors, sampling, identifiability and EM follow from that; `StoppingPCFG` is a short example.

    pcfg      pi, B, O          any pairs of children: B[(a, b), c], O[word, state]
    pcfg-i    pi, T1, T2, O     children independent given their parent: B = T1 (x) T2, column by column
    pcfg-ie   pi, T, O          ... and both alike: T1 = T2 = T
    dep-i     pi, Al, Ar        arguments to the left and to the right: A[argument, head]
    dep-ie    pi, A             ... both alike
    dep-ies   A                 ... and the root's word drawn from the stationary distribution pi = A pi
    pcfg-ies  pi, T, O, S       not in the paper: pcfg-ie in which a state decides whether to stop

In the models of the paper all trees of a length have equal prior probability: binary trees, counted by Catalan numbers,
and projective dependency trees, of which there are `C(3 L - 2, L - 1) / L`. (Projective means that the words below any
word are an unbroken span, as Eisner's algorithm requires. The condition printed in the paper is weaker: with 1 -> 2,
1 -> 3, 2 -> 4 it allows crossing edges.)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor, constant
from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.algebra.simplices import Block
from sapwood.identifiability.models.base import (
    ConstituencyModel,
    ConstituencyWeights,
    DependencyModel,
    DependencyWeights,
    Model,
)
from sapwood.identifiability.models.inside import DenseRule, IndependentChildren
from sapwood.storage.shapes import Array, Float


class PCFGModel(ConstituencyModel):
    """PCFG with arbitrary binary rules."""

    name = "pcfg"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The root's states `pi`, pairs of children `B`, words `O`."""
        k = self.states
        return Block("pi", k), Block("B", k * k, k), Block("O", self.words, k)

    def weights(self, parameters: Mapping[str, Tensor]) -> ConstituencyWeights:
        """Return the weights of the chart."""
        return ConstituencyWeights(parameters["pi"], DenseRule(parameters["B"]), parameters["O"])


class PCFGIModel(ConstituencyModel):
    """PCFG with independent children given their parent."""

    name = "pcfg-i"
    # The blocks of left and of right children.
    children: ClassVar[tuple[str, str]] = ("T1", "T2")

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The root's states `pi`, children `T1` and `T2` (or `T` for both), words `O`."""
        k = self.states
        children = (Block(name, k, k) for name in dict.fromkeys(self.children))
        return Block("pi", k), *children, Block("O", self.words, k)

    def weights(self, parameters: Mapping[str, Tensor]) -> ConstituencyWeights:
        """Return the weights of the chart."""
        rule = IndependentChildren(*(parameters[name] for name in self.children))
        return ConstituencyWeights(parameters["pi"], rule, parameters["O"])


class PCFGIEModel(PCFGIModel):
    """PCFG with independent and identically distributed children."""

    name = "pcfg-ie"
    children = ("T", "T")


class StoppingPCFG(PCFGIEModel):
    """A `pcfg-ie` in which each state decides by itself whether it becomes a word or two children.

    So trees are not equally probable, as in an ordinary PCFG. Sentences are conditioned on their length.
    """

    name = "pcfg-ies"
    uniform = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """As for `pcfg-ie`, and `S`: stop or continue."""
        return *super().blocks, Block("S", 2, self.states)

    def weights(self, parameters: Mapping[str, Tensor]) -> ConstituencyWeights:
        """Return the weights of the chart: words times `S[0, c]`, left children times `S[1, c]`."""
        stop, go = parameters["S"][:, :1], parameters["S"][:, 1:]
        rule = IndependentChildren(parameters["T"] * go, parameters["T"])
        return ConstituencyWeights(parameters["pi"], rule, parameters["O"] * stop)

    def degree(self, length: int) -> int:
        """Return the degree of the numerator of a quotient's derivative."""
        return 2 * (super().degree(length) + 2 * length - 1)


class DepIModel(DependencyModel):
    """Dependency model whose arguments depend on their side."""

    name = "dep-i"
    # The blocks of arguments to the left and to the right.
    arguments: ClassVar[tuple[str, str]] = ("Al", "Ar")

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The root's word `pi`, arguments `Al` and `Ar` (or `A` for both)."""
        d = self.words
        return Block("pi", d), *(Block(name, d, d) for name in dict.fromkeys(self.arguments))

    def weights(self, parameters: Mapping[str, Tensor]) -> DependencyWeights:
        """Return the weights of the chart."""
        return DependencyWeights(parameters["pi"], *(parameters[name] for name in self.arguments))


class DepIEModel(DepIModel):
    """Dependency model with the same arguments on both sides."""

    name = "dep-ie"
    arguments = ("A", "A")


class DepIESModel(DependencyModel):
    """A `dep-ie` whose root is drawn from the stationary distribution of the arguments."""

    name = "dep-ies"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The arguments `A`."""
        return (Block("A", self.words, self.words),)

    def weights(self, parameters: Mapping[str, Tensor]) -> DependencyWeights:
        """Return the weights of the chart; `pi = A pi` and `sum pi = 1` imply `(I - A + 1 1^T) pi = 1`."""
        arguments = parameters["A"]
        ones = constant(arguments.field, np.ones((1, self.words, 1)))
        matrix = constant(arguments.field, np.eye(self.words)[None] + 1) - arguments
        return DependencyWeights(matrix.inverse() @ ones, arguments, arguments)

    def stationary(self, arguments: Float[Array, "words words"]) -> Float[Array, "words"]:
        """Return `pi`."""
        return self.weights({"A": constant(Reals(), arguments[None])}).root.value[0, :, 0]

    def degree(self, length: int) -> int:
        """Return the degree of the numerator of a quotient's derivative."""
        return 2 * (length + self.words)


_ALL: tuple[type[Model], ...] = (
    PCFGModel, PCFGIModel, PCFGIEModel, DepIModel, DepIEModel, DepIESModel, StoppingPCFG,
)  # fmt: skip
MODELS: Final = MappingProxyType({model.name: model for model in _ALL})


def make_model(name: str, words: int, states: int | None = None) -> Model:
    """Return a model by its name, one of `MODELS`."""
    if name not in MODELS:
        raise UsageError(f"there is no model {name!r}; the models are {', '.join(MODELS)}")
    return MODELS[name](words, states)
