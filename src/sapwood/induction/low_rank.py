"""A PCFG with many states whose rules have low rank, learned without trees: l-pcfg.

A node of two words and more has one of k states; single words are their terminals (tags, or classes of words). A state
draws one of r *patterns*, and the pattern draws both children, each a state or a terminal, independently:

    P(a, b | c) = sum over r of up[c, r] left[r, a] right[r, b].

So rules are a tensor of rank r (Cohen, Satta and Collins 2013; TN-PCFG, Yang, Zhao and Tu 2021), the chart takes
n^3 r steps, and EM has counts for the three tables alone. Nothing here is neural: what keeps EM from the bad optima
that random starts lead to is where it begins.

**The start.** A PCFG has far more ways to be wrong than a model of heads. So a dependency model with valence, or the
constituent-context model, is learned first, and says how probable each span of each sentence is. For some iterations
(`hold`) the odds of that are weights of the spans: EM fills its tables with these trees, whatever the states. Then the
weights are taken to powers that fall to 0 (`release`), and the PCFG goes on alone. `right` begins with spans that end
where the sentence does; `random` with none.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sapwood.induction.passes import LowRank, span_ends
from sapwood.induction.problem import Counts, Family, Problem, When
from sapwood.induction.text import Text
from sapwood.shapes import Array, Float64

SpanStart = Literal["dmv", "ccm", "right", "random"]
SPAN_STARTS: tuple[SpanStart, ...] = ("dmv", "ccm", "right", "random")
# How far from alike the first distributions are, and the least and most that the start says of a span.
_CONCENTRATION = 5.0
_DOUBT = 1e-3


class LowRankProblem(Problem):
    """Rules of low rank on a text.

    Parameters
    ----------
    states, rank
        k and r above.
    prior
        Of each outcome.
    odds
        Of each span of the sentences of the last stage, the odds of being a constituent by the start; None without.
    hold, release
        For how many iterations they hold, and over how many they are let go.
    """

    def __init__(
        self,
        text: Text,
        *arguments: Any,
        states: int,
        rank: int,
        prior: float,
        odds: Float64[Array, "spans"] | None,
        hold: int,
        release: int,
        **more: Any,
    ) -> None:
        self.states, self.rank, self.prior = states, rank, prior
        self._odds, self._hold, self._release = odds, hold, release
        super().__init__(text, *arguments, least=2, **more)

    @property
    def families(self) -> tuple[Family, ...]:
        """Roots, patterns, and the children of patterns: states, then terminals."""
        k, r = self.states, self.rank
        children = k + len(self.text.terminals)
        return (
            Family("root", (k,), self.prior),
            Family("up", (k, r), self.prior),
            Family("left", (r, children), self.prior),
            Family("right", (r, children), self.prior),
        )

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return random distributions that are nearly alike, as counts of about as many choices as there are."""
        part = self.sentences(0)
        rules = max(len(part.word) - part.n_sentences, 1)
        sizes = {"root": part.n_sentences, "up": rules / self.states}
        return {
            one.name: rng.dirichlet(np.full(one.shape[-1], _CONCENTRATION), one.shape[:-1] or None)
            * sizes.get(one.name, rules / self.rank)
            for one in self.families
        }

    def power_of_odds(self, when: When) -> float:
        """Return the power that the odds of spans are taken to."""
        if self._odds is None:
            return 0.0
        return float(np.clip(1 - (when.iteration - self._hold) / max(self._release, 1), 0.0, 1.0))

    def settled(self, when: When) -> bool:
        """Return whether the odds are let go."""
        return super().settled(when) and self.power_of_odds(when) == 0

    def expect(self, theta: Counts, when: When) -> tuple[float, Counts]:
        """Sum over all binary trees, as long as the start holds those weighted that it believes in."""
        power = self.power_of_odds(when)
        weights = self._odds**power if self._odds is not None and power > 0 else None
        found = self.shards(when.stage).sums(low_rank_weights(theta), weights)
        return float(found.logarithms.sum()), low_rank_counts(found.uses)


def low_rank_weights(theta: Counts) -> LowRank:
    """Return the weights of trees."""
    k = len(theta["root"])
    inner = [np.ascontiguousarray(theta[side][:, :k]) for side in ("left", "right")]
    leaves = [np.ascontiguousarray(theta[side][:, k:].T) for side in ("left", "right")]
    return LowRank(theta["root"], theta["up"], *inner, *leaves)


def low_rank_counts(uses: LowRank) -> Counts:
    """Return uses of weights as counts of outcomes."""
    left = np.concatenate([uses.left, uses.left_leaf.T], axis=1)
    right = np.concatenate([uses.right, uses.right_leaf.T], axis=1)
    return {"root": uses.root, "up": uses.up, "left": left, "right": right}


def odds_of(posteriors: Float64[Array, "spans"]) -> Float64[Array, "spans"]:
    """Return the odds of spans; nothing is certain."""
    kept = np.clip(posteriors, _DOUBT, 1 - _DOUBT)
    return kept / (1 - kept)


def right_posteriors(text: Text) -> Float64[Array, "spans"]:
    """Return 1 for spans that end where their sentence does, 0 for others."""
    by_length = {length: (span_ends(length)[1] == length).astype(float) for length in set(text.lengths.tolist())}
    return np.concatenate([np.zeros(0), *(by_length[length] for length in text.lengths.tolist())])
