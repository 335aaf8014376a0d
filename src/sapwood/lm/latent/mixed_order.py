"""Mixed-order Markov models of latent skip-bigrams (Saul and Pereira 1997, section 4).

    p(w_t | w_{t-1} .. w_{t-K}) = sum_k lambda_k(w_{t-k}) prod_{j<k} (1 - lambda_j(w_{t-j})) p_k(w_t | w_{t-k})

Each lag `k` has a latent bigram model of words with `k - 1` words between them. Walking back from the word to be
predicted, `lambda_k` is the probability that the walk ends at the current word; at lag `K`, or where the text begins,
it always ends. The word after "of" is better predicted from the word before "of", and `lambda` learns just that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import ModelError
from sapwood.lm.base import LanguageModel, Parts, evaluate
from sapwood.lm.checkpoint import CheckpointedRun
from sapwood.lm.counts.vocabulary import ARRAYS, VOCABULARY, Vocabulary
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.bigram_data import (
    HeldOutBigrams,
    Ids,
    check_ids,
    id_arrays,
    is_scored,
    lagged_pairs,
    since_begin,
)
from sapwood.lm.registry import Boundaries, MixedOrderParams
from sapwood.runtime.log import Log, NoLog
from sapwood.runtime.params import params_of
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.schema import Column, Notes, Schema, check_json
from sapwood.storage.shapes import Array, Float64, Int, Shaped


class _State(TypedDict):
    model: dict[str, Any]
    done: int


class _Metadata(TypedDict):
    lags: list[dict[str, Any]]
    info: Notes


@dataclass(eq=False)
class MixedOrder(LanguageModel):
    """A mixed-order model.

    Attributes
    ----------
    lags
        The latent bigram model of each lag from 1.
    mixing
        `lambda_k(w)` for each lag but the last, where it is 1.
    info
        Provenance.
    vocabulary, boundaries
        Those of the lags.
    """

    schema: ClassVar[Schema] = Schema(
        kind="mixed-order",
        version=1,
        title="mixed-order model",
        remedy="train it again",
        columns=(*VOCABULARY, Column("mixing", "float64", "lags words", least=0, most=1)),
        metadata=_Metadata,
        parts=".",
    )
    lags: Sequence[LatentBigram]
    mixing: Float64[Array, "_ words"] = field(repr=False)
    info: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary = field(init=False, repr=False)
    boundaries: Boundaries = field(init=False)

    def __post_init__(self) -> None:
        if not self.lags or self.mixing.shape != (len(self.lags) - 1, len(self.lags[0].vocabulary)):
            raise ModelError(f"{len(self.lags)} lags do not match mixing weights of shape {self.mixing.shape}")
        self.vocabulary, self.boundaries = self.lags[0].vocabulary, self.lags[0].boundaries

    @property
    def reach(self) -> int:
        """Maximum number of preceding words that affect a prediction."""
        return len(self.lags)

    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        steps = Steps(text, self)
        return np.asarray(np.log((steps.weights(self.mixing) * steps.probabilities).sum(axis=1)[first:]))

    def _distribution(self, context: np.ndarray) -> np.ndarray:
        reach = len(context)
        if self.boundaries == "sentence" and reach:
            reach = min(reach, int(since_begin(context)[-1]) + 1)
        if not reach:
            return self.lags[0].distribution()
        result, rest = np.zeros(len(self.vocabulary)), 1.0
        for lag in range(1, reach + 1):
            share = rest if lag == reach else rest * float(self.mixing[lag - 1, context[-lag]])
            result += share * self.lags[lag - 1].distribution(context[-lag : len(context) - lag + 1])
            rest -= share
        return result

    def parts(self) -> Parts:
        """Return the arrays and JSON values from which `from_parts` restores the model."""
        arrays: dict[str, Shaped[Array, "..."]] = {"mixing": self.mixing, **self.vocabulary.arrays()}
        metadata = []
        for number, model in enumerate(self.lags, 1):
            own, about = model.parts()
            arrays |= {f"{number}.{name}": array for name, array in own.items() if name not in ARRAYS}
            metadata.append(about)
        return arrays, {"lags": metadata, "info": dict(self.info)}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a model from `parts`."""
        words = {name: arrays[name] for name in ARRAYS}
        lags = []
        for number, own in enumerate(cls.schema.all_parts(arrays, len(metadata["lags"]), 1), 1):
            about = metadata["lags"][number - 1]
            LatentBigram.schema.check(own | words, about, prefix=f"{number}.")
            lags.append(LatentBigram.from_parts(own | words, about))
        return cls(lags, arrays["mixing"], metadata["info"])

    def _figures(self) -> dict[str, Any]:
        return {"lags": len(self.lags), "states": [lag.states for lag in self.lags]}


class Steps:
    """Walks of a mixed-order model back through a text.

    Attributes
    ----------
    targets
        The words.
    contexts
        The word at each lag, where the walk can reach it.
    reach
        How far back the walk can go, at most to the last lag; 0 without a preceding word.
    probabilities
        `p_k(w_t | w_{t-k})` of each lag, 0 where the walk cannot reach it; without a preceding word, the first is the
        probability of the word at the beginning.
    """

    targets: Int[Array, "tokens"]
    contexts: Int[Array, "tokens lags"]
    reach: Int[Array, "tokens"]
    probabilities: Float64[Array, "tokens lags"]

    def __init__(self, text: Int[Array, "tokens"], model: MixedOrder) -> None:
        check_ids(text, len(model.vocabulary))
        count = len(model.lags)
        back = since_begin(text) if model.boundaries == "sentence" else np.arange(len(text))
        self.targets = text = np.asarray(text, np.int32)
        self.reach = np.minimum(back, count)
        self.contexts = np.zeros((len(text), count), np.int64)
        self.probabilities = np.zeros((len(text), count))
        for lag, bigrams in enumerate(model.lags, 1):
            there = np.flatnonzero(self.reach >= lag)
            contexts = text[there - lag]
            products = np.empty(len(there))
            kernels.pair_products(contexts, text[there], bigrams.given, bigrams.emitted, products)
            self.contexts[there, lag - 1] = contexts
            self.probabilities[there, lag - 1] = products
        alone = self.reach == 0
        self.probabilities[alone, 0] = model.lags[0].emitted[text[alone]] @ model.lags[0].prior

    def weights(self, mixing: Float64[Array, "_ words"]) -> Float64[Array, "tokens lags"]:
        """Return the probability that the walk ends at each lag."""
        count = self.contexts.shape[1]
        result = np.empty(self.contexts.shape)
        rest = np.ones(len(self.targets))
        for place in range(count):
            ends = np.ones(len(rest)) if place == count - 1 else mixing[place][self.contexts[:, place]]
            ends = np.where(self.reach <= place + 1, 1.0, ends)
            result[:, place] = rest * ends
            rest = rest * (1 - ends)
        return result

    def posteriors(self, mixing: Float64[Array, "_ words"]) -> Float64[Array, "tokens lags"]:
        """Return the posterior probability that the walk ended at each lag, given the word; 0 without a walk."""
        joint = self.weights(mixing) * self.probabilities
        total = joint.sum(axis=1)
        used = (total > 0) & (self.reach > 0)
        return np.asarray(np.divide(joint, total[:, None], out=np.zeros_like(joint), where=used[:, None]))


def mixing_weights(
    texts: Sequence[Steps], size: int, *, prior: float, iterations: int = 20
) -> Float64[Array, "_ words"]:
    """Return `lambda` of all lags but the last by EM; the overall rates add `prior` pseudo-steps for each word."""
    count = texts[0].contexts.shape[1]
    mixing = np.full((count - 1, size), 0.5)
    for _ in range(iterations):
        ended, came = np.zeros(mixing.shape), np.zeros(mixing.shape)
        for steps in texts:
            posteriors = steps.posteriors(mixing)
            for place in range(count - 1):
                # At the beginning of the text the walk has no choice.
                free = (steps.reach > place + 1) & is_scored(steps.targets)
                words = steps.contexts[free, place]
                ended[place] += np.bincount(words, posteriors[free, place], size)
                came[place] += np.bincount(words, posteriors[free, place:].sum(axis=1), size)
        whole = came.sum(axis=1, keepdims=True)
        mean = np.divide(ended.sum(axis=1, keepdims=True), whole, out=np.full_like(whole, 0.5), where=whole > 0)
        mixing = (ended + prior * mean) / np.maximum(came + prior, 1e-300)
    return mixing


@dataclass(frozen=True, kw_only=True, repr=False)
class MixedOrderMarkov(MixedOrderParams):
    """Learns a mixed-order model.

    Each lag is first learned by itself, then all jointly with `lambda` by EM, as long as held-out text improves;
    finally `lambda` is estimated on held-out text, which the lags were not fitted to.

    Parameters
    ----------
    lags
        Number of lags.
    joint_iterations
        Maximum number of joint EM iterations for all lags.
    mixing_prior
        See `prior` of `mixing_weights`.
    settings
        Settings of `AggregateMarkov` for each lag.
    """

    @property
    def learner(self) -> AggregateMarkov:
        """Learner of a lag."""
        return AggregateMarkov(**{name: getattr(self, name) for name in params_of(AggregateMarkov)})

    def fit(
        self,
        text: Ids,
        vocabulary: Vocabulary,
        *,
        boundaries: Boundaries = "stream",
        dev: Ids | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        run: CheckpointedRun | None = None,
    ) -> MixedOrder:
        """Return the model.

        Parameters
        ----------
        text, vocabulary, boundaries
            The ids of the text, the vocabulary, and whether lines are sentences.
        dev
            Held-out ids. Without them the lags are only learned one by one.
        progress, log
            Progress display and log.
        run
            The run that this training is part of, possibly resumed.
        """
        texts, held_out = id_arrays(text), None if dev is None else id_arrays(dev)
        progress, log, run, done = progress or Silent(), log or NoLog(), run or CheckpointedRun(), 0
        if (saved := run.state("orders", _restored)) is not None:
            model, done = saved
        else:
            model = self._one_by_one(texts, vocabulary, held_out, boundaries, progress, log, run)
            model = self._with_mixing(model, texts if held_out is None else held_out)
        if held_out is not None:
            lowest = evaluate(model, held_out).perplexity
            with progress.stage("mixed orders", self.joint_iterations, "iteration") as stage:
                for iteration in range(done + 1, self.joint_iterations + 1):
                    new = self._with_mixing(self._step(model, texts), held_out)
                    perplexity = evaluate(new, held_out).perplexity
                    log.write("dev", step=iteration, phase="mixed", perplexity=perplexity)
                    if perplexity < lowest:
                        model, lowest, done = new, perplexity, iteration
                        run.drop("lag")
                        run.keep("orders", partial(_state, model, done))
                    stage.step(1, dev=f"{perplexity:.1f}")
                    if done < iteration:
                        break
        info = {"method": "mixed-order", "joint_iterations": done, "settings": self.settings()}
        return MixedOrder(model.lags, model.mixing, info)

    def _one_by_one(
        self, texts: Sequence[np.ndarray], vocabulary: Vocabulary, held_out: Ids | None, boundaries: Boundaries,
        progress: Progress, log: Log, run: CheckpointedRun,
    ) -> MixedOrder:  # fmt: skip
        """Return the model with each lag learned by itself."""
        size = len(vocabulary)

        def learned(lag: int) -> LatentBigram:
            pairs = [lagged_pairs(array, lag, boundaries) for array in texts]
            ones = [np.ones(len(contexts)) for contexts, _ in pairs]
            measure = None if held_out is None else HeldOutBigrams(held_out, size, lag=lag, boundaries=boundaries)
            return self.learner.fit(
                _matrix(pairs, ones, size),
                vocabulary=vocabulary,
                boundaries=boundaries,
                dev=measure,
                progress=progress,
                log=log,
                part=run.part(f"lag {lag}"),
            )

        models = [run.model(f"lag {lag}", LatentBigram, partial(learned, lag)) for lag in range(1, self.lags + 1)]
        return MixedOrder(models, np.full((self.lags - 1, size), 0.5))

    def _with_mixing(self, model: MixedOrder, texts: Sequence[np.ndarray]) -> MixedOrder:
        mixing = mixing_weights([Steps(text, model) for text in texts], len(model.vocabulary), prior=self.mixing_prior)
        return MixedOrder(model.lags, mixing, model.info)

    def _step(self, model: MixedOrder, texts: Sequence[np.ndarray]) -> MixedOrder:
        """Do one joint EM iteration: each lag learns from the words where the walk ended at it."""
        size = len(model.vocabulary)
        pairs: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in model.lags]
        shares: list[list[np.ndarray]] = [[] for _ in model.lags]
        for text in texts:
            steps = Steps(text, model)
            posteriors = steps.posteriors(model.mixing)
            for place in range(len(model.lags)):
                there = np.flatnonzero(posteriors[:, place] > 0)
                pairs[place].append((steps.contexts[there, place], steps.targets[there]))
                shares[place].append(posteriors[there, place])
        one_step = self.learner.replace(method="em", iterations=1, stepwise_batches=1)
        lags = [
            one_step.fit(
                _matrix(pairs[place], shares[place], size),
                vocabulary=model.vocabulary,
                boundaries=model.boundaries,
                init=model.lags[place],
            )
            for place in range(len(model.lags))
        ]
        return MixedOrder(lags, model.mixing, model.info)


def _state(model: MixedOrder, done: int) -> Parts:
    """Return the checkpoint of the joint iterations."""
    arrays, metadata = model.parts()
    return arrays, {"model": metadata, "done": done}


def _restored(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> tuple[MixedOrder, int]:
    """Restore what `_state` returned."""
    check_json(metadata, _State)
    return MixedOrder.checked(arrays, metadata["model"]), metadata["done"]


def _matrix(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], values: Sequence[np.ndarray], size: int
) -> scipy.sparse.csr_array:
    """Return the sums of values by pair."""
    contexts, targets = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return scipy.sparse.csr_array(scipy.sparse.coo_array((np.concatenate(values), (contexts, targets)), (size, size)))
