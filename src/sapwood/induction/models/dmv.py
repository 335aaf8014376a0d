"""Dependency models: arguments given their heads, with and without valence.

**The dependency model with valence** (DMV; Klein and Manning 2004). On each side, a head decides one argument at a time
whether to stop, given whether it already has an argument there, and draws the next argument given itself and the side.
Heads and arguments are terminals: tags, or word classes.

**The start** decides which optimum is found. Klein and Manning began with heads that are near: as if each word had its
head at a distance d with a probability like 1/d. Here the first counts are expected over all projective trees, each
with the weight `prod 1/d^p` over its edges. So they are consistent with trees, stops included, and depend on lengths
alone, which makes them cheap. With p >= 2 EM finds better and more probable trees than with p = 1
(docs/induction.md).

**Models of the paper** (dep-i, dep-ie, dep-ies; Hsu, Kakade and Liang 2012) use the same charts: all projective trees
have equal prior probability, so continuing and stopping have weight 1. In dep-ie both sides are alike. In dep-ies the
root is drawn from the stationary distribution of the arguments, `pi = A pi`; its derivative is `M^-T g pi^T`, where
`M = I - A + 1 1^T` and g is the derivative with respect to pi, so EM's step is a gradient step and may have to be
shortened.
"""

from __future__ import annotations

from math import comb, log
from typing import Any, ClassVar, Literal

import numpy as np

from sapwood.errors import UsageError
from sapwood.induction.em_model import Counts, Distributions, EMModel, Iteration
from sapwood.induction.estep import SentenceBatch, Valence, sum_trees
from sapwood.induction.text import Text
from sapwood.storage.shapes import Array, Float64

Start = Literal["harmonic", "uniform", "random"]
STARTS: tuple[Start, ...] = ("harmonic", "uniform", "random")
# More terminals would make tables of pairs too large.
MOST_TERMINALS = 4000
# Spread of the random factors of initial counts.
_NOISE = 0.5


def check_terminals(text: Text) -> None:
    """Raise an error for texts with too many terminals for a table of pairs."""
    if len(text.terminals) > MOST_TERMINALS:
        raise UsageError(
            f"dependency models have a probability for each pair of {len(text.terminals):,} terminals, which is too "
            f"many; sort words into classes, at most {MOST_TERMINALS:,}"
        )


def start_counts(text: Text, start: Start, power: float, rng: np.random.Generator) -> Valence:
    """Return the expected uses of all weights over trees that are weighted by the distances of words and heads."""
    terminals = len(text.terminals)
    uses = Valence(
        np.zeros((2, terminals, terminals)),
        np.zeros((2, terminals, 2)),
        np.zeros((2, terminals, 2)),
        np.zeros(terminals),
    )
    power = power if start == "harmonic" else 0.0
    for length in np.unique(text.lengths[text.lengths > 0]).tolist():
        rows = text.terminal[text.offsets[:-1][text.lengths == length][:, None] + np.arange(length)]
        found = _of_length(length, power)
        for place in range(length):
            own = rows[:, place]
            np.add.at(uses.root, own, found.root[place])
            for side in range(2):
                np.add.at(uses.go[side], own, found.go[side, place])
                np.add.at(uses.stop[side], own, found.stop[side, place])
                for other in range(length):
                    pairs = own.astype(np.int64) * terminals + rows[:, other]
                    np.add.at(uses.attach[side].reshape(-1), pairs, found.attach[side, place, other])
    if start == "random":
        uses = Valence(*(part * rng.uniform(1 - _NOISE, 1 + _NOISE, part.shape) for part in uses))
    return uses


def _of_length(length: int, power: float) -> Valence:
    """Return the expected uses for a sentence whose terminals are its positions."""
    places = np.arange(length)
    distance = np.maximum(np.abs(places[:, None] - places), 1)
    weights = Valence(
        np.repeat(distance[None] ** -float(power), 2, axis=0), np.ones((2, length, 2)), np.ones((2, length, 2)),
        np.ones(length),
    )  # fmt: skip
    return sum_trees(SentenceBatch(places.astype(np.int32), np.array([0, length], np.int64)), weights).uses


class DMVProblem(EMModel):
    """The dependency model with valence on a text.

    Parameters
    ----------
    start, power
        Initial counts; `power` is p above.
    prior
        Pseudo-count of each argument, of stopping or not, and of roots.
    """

    def __init__(self, text: Text, *arguments: Any, start: Start, power: float, prior: float, **more: Any) -> None:
        check_terminals(text)
        self.start, self.distance_power, self.prior = start, power, prior
        super().__init__(text, *arguments, **more)

    @property
    def families(self) -> tuple[Distributions, ...]:
        """Arguments by side and head, stopping by side, head and whether there is one, roots."""
        k = len(self.text.terminals)
        return (
            Distributions("attach", (2, k, k), self.prior),
            Distributions("stop", (2, k, 2, 2), self.prior),
            Distributions("root", (k,), self.prior),
        )

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the initial counts, over the sentences of the first stage."""
        return dmv_counts(start_counts(self.sentences(0), self.start, self.distance_power, rng))

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all projective trees."""
        found = self.shards(when.stage).sums(dmv_weights(theta))
        return float(found.logarithms.sum()), dmv_counts(found.uses)


def dmv_weights(theta: Counts) -> Valence:
    """Return the weights of trees; the outcomes of `stop` are to continue and to stop."""
    go, stop = (np.ascontiguousarray(theta["stop"][..., outcome]) for outcome in range(2))
    return Valence(theta["attach"], go, stop, theta["root"])


def dmv_counts(uses: Valence) -> Counts:
    """Return the uses of weights as counts of outcomes."""
    return {"attach": uses.attach, "stop": np.stack([uses.go, uses.stop], axis=-1), "root": uses.root}


class ArgumentsProblem(EMModel):
    """Arguments given heads, all trees equally probable: dep-i."""

    name: ClassVar[str] = "dep-i"
    tied: ClassVar[bool] = False
    stationary: ClassVar[bool] = False

    def __init__(self, text: Text, *arguments: Any, prior: float, **more: Any) -> None:
        check_terminals(text)
        self.prior = prior
        super().__init__(text, *arguments, **more)
        self.exact = not self.stationary  # type: ignore[misc]

    @property
    def families(self) -> tuple[Distributions, ...]:
        """Arguments by side (one for both if they are tied) and head, and roots unless they are stationary."""
        k = len(self.text.terminals)
        arguments = Distributions("attach", (1 if self.tied else 2, k, k), self.prior)
        return (arguments,) if self.stationary else (arguments, Distributions("root", (k,), self.prior))

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return random distributions, as counts of as many terminals as the text has."""
        often = np.bincount(self.sentences(0).terminal, minlength=len(self.text.terminals)) + 1.0
        drawn = {one.name: rng.dirichlet(np.ones(one.shape[-1]), one.shape[:-1] or None) for one in self.families}
        drawn["attach"] = drawn["attach"] * often[:, None]
        if "root" in drawn:
            drawn["root"] = drawn["root"] * self.sentences(0).n_sentences
        return drawn

    def weights(self, theta: Counts) -> Valence:
        """Return the weights of trees."""
        k = len(self.text.terminals)
        attach = np.repeat(theta["attach"], 2, axis=0) if self.tied else theta["attach"]
        root = stationary_root(theta["attach"][0]) if self.stationary else theta["root"]
        return Valence(np.ascontiguousarray(attach), np.ones((2, k, 2)), np.ones((2, k, 2)), root)

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all projective trees; the value is relative to sentences of the same length."""
        weights = self.weights(theta)
        found = self.shards(when.stage).sums(weights)
        lengths, how_many = np.unique(self.sentences(when.stage).lengths, return_counts=True)
        trees = sum(
            many * log(comb(3 * length - 2, length - 1) // length)
            for length, many in zip(lengths.tolist(), how_many.tolist(), strict=True)
            if length
        )
        attach = found.uses.attach.sum(0, keepdims=True) if self.tied else found.uses.attach
        value = float(found.logarithms.sum()) - trees
        if not self.stationary:
            return value, {"attach": attach, "root": found.uses.root}
        return value, {"attach": self._with_root(theta["attach"][0], attach[0], found.uses.root, weights.root)[None]}

    @staticmethod
    def _with_root(theta: np.ndarray, counts: np.ndarray, roots: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """Return the counts of arguments with the gradient through the roots added."""
        k = len(pi)
        matrix = np.eye(k) - theta.T + 1.0
        slope = np.linalg.solve(matrix.T, np.where(pi > 0, roots / np.maximum(pi, 1e-300), 0.0))
        # By head and argument; adding a constant for each head changes the length of the step, not its fixed point.
        slopes = counts / np.maximum(theta, 1e-300) + pi[:, None] * slope
        slopes += 2 * np.maximum(-slopes.min(1, keepdims=True), 0)
        return theta * slopes


class TiedArgumentsProblem(ArgumentsProblem):
    """Both sides tied: dep-ie."""

    name, tied = "dep-ie", True


class StationaryArgumentsProblem(ArgumentsProblem):
    """Both sides tied, and the root stationary: dep-ies."""

    name, tied, stationary = "dep-ies", True, True


def stationary_root(attach: Float64[Array, "heads arguments"]) -> Float64[Array, "arguments"]:
    """Return pi, for which `pi = A pi`; `(I - A + 1 1^T) pi = 1`."""
    k = len(attach)
    found = np.linalg.solve(np.eye(k) - (attach / attach.sum(1, keepdims=True)).T + 1.0, np.ones(k))
    return np.maximum(found, 1e-12)
