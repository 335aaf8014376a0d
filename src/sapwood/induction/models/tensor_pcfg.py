"""Low-rank PCFGs with many states, learned without trees: tensor-pcfg.

A node over two or more words has one of k states; single words are their terminals (tags, or word classes). A state
draws one of r *patterns*, and the pattern draws both children, each a state or a terminal, independently:

    P(a, b | c) = sum over r of up[c, r] left[r, a] right[r, b].

So rules are a tensor of rank r (Cohen, Satta and Collins 2013; TN-PCFG, Yang, Zhao and Tu 2021), the chart takes
n^3 r steps, and EM only needs counts for the three tables. Nothing here is neural: the initialisation keeps EM from the
bad optima that random starts lead to.

**Initialisation.** A PCFG has far more ways to be wrong than a model of heads. So a dependency model with valence, or
the constituent-context model, is learned first and gives the probability of each span of each sentence. For some
iterations (`warmup`) their odds weight the spans: EM fills its tables with these trees, whatever the states. Then the
weights are raised to powers that fall to 0 (`warmup_decay`), and the PCFG continues alone. `right` begins with spans
that end where the sentence does; `random` with none.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sapwood.induction.em_model import Counts, Distributions, EMModel, Iteration
from sapwood.induction.estep import LowRankRule, span_ends
from sapwood.induction.text import Text
from sapwood.storage.shapes import Array, Float64

SpanStart = Literal["dmv", "ccm", "right", "random"]
SPAN_STARTS: tuple[SpanStart, ...] = ("dmv", "ccm", "right", "random")
# Concentration of the initial distributions, and distance of initial span probabilities from 0 and 1.
_CONCENTRATION = 5.0
_DOUBT = 1e-3


class TensorPCFGProblem(EMModel):
    """Low-rank rules on a text.

    Parameters
    ----------
    states, rank
        k and r above.
    prior
        Pseudo-count of each outcome.
    odds
        Initial odds of each span of the sentences of the last stage of being a constituent; None without.
    warmup, warmup_decay
        Number of iterations for which the odds are held, and over which they are then released.
    """

    def __init__(
        self,
        text: Text,
        *arguments: Any,
        states: int,
        rank: int,
        prior: float,
        odds: Float64[Array, "spans"] | None,
        warmup: int,
        warmup_decay: int,
        **more: Any,
    ) -> None:
        self.states, self.rank, self.prior = states, rank, prior
        self._odds, self._warmup, self._warmup_decay = odds, warmup, warmup_decay
        super().__init__(text, *arguments, least=2, **more)

    @property
    def families(self) -> tuple[Distributions, ...]:
        """Roots, patterns, and the children of patterns: states, then terminals."""
        k, r = self.states, self.rank
        children = k + len(self.text.terminals)
        return (
            Distributions("root", (k,), self.prior),
            Distributions("up", (k, r), self.prior),
            Distributions("left", (r, children), self.prior),
            Distributions("right", (r, children), self.prior),
        )

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return nearly uniform random distributions, as counts of about as many choices as the text has."""
        part = self.sentences(0)
        rules = max(len(part.word) - part.n_sentences, 1)
        sizes = {"root": part.n_sentences, "up": rules / self.states}
        return {
            one.name: rng.dirichlet(np.full(one.shape[-1], _CONCENTRATION), one.shape[:-1] or None)
            * sizes.get(one.name, rules / self.rank)
            for one in self.families
        }

    def odds_exponent(self, when: Iteration) -> float:
        """Return the power to which the odds of spans are raised."""
        if self._odds is None:
            return 0.0
        return float(np.clip(1 - (when.iteration - self._warmup) / max(self._warmup_decay, 1), 0.0, 1.0))

    def is_final(self, when: Iteration) -> bool:
        """Return whether the odds are released."""
        return super().is_final(when) and self.odds_exponent(when) == 0

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all binary trees, weighted by the odds of the start while they are held."""
        power = self.odds_exponent(when)
        weights = self._odds**power if self._odds is not None and power > 0 else None
        found = self.shards(when.stage).sums(tensor_pcfg_weights(theta), weights)
        return float(found.logarithms.sum()), tensor_pcfg_counts(found.uses)


def tensor_pcfg_weights(theta: Counts) -> LowRankRule:
    """Return the weights of trees."""
    k = len(theta["root"])
    inner = [np.ascontiguousarray(theta[side][:, :k]) for side in ("left", "right")]
    leaves = [np.ascontiguousarray(theta[side][:, k:].T) for side in ("left", "right")]
    return LowRankRule(theta["root"], theta["up"], *inner, *leaves)


def tensor_pcfg_counts(uses: LowRankRule) -> Counts:
    """Return the uses of weights as counts of outcomes."""
    left = np.concatenate([uses.left, uses.left_leaf.T], axis=1)
    right = np.concatenate([uses.right, uses.right_leaf.T], axis=1)
    return {"root": uses.root, "up": uses.up, "left": left, "right": right}


def odds_of(posteriors: Float64[Array, "spans"]) -> Float64[Array, "spans"]:
    """Return the odds of spans, bounded away from certainty."""
    kept = np.clip(posteriors, _DOUBT, 1 - _DOUBT)
    return kept / (1 - kept)


def right_posteriors(text: Text) -> Float64[Array, "spans"]:
    """Return 1 for spans that end where their sentence ends, 0 for others."""
    by_length = {length: (span_ends(length)[1] == length).astype(float) for length in set(text.lengths.tolist())}
    return np.concatenate([np.zeros(0), *(by_length[length] for length in text.lengths.tolist())])
