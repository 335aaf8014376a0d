"""Mixed-order Markov models of latent skip-bigrams (Saul and Pereira 1997, section 4).

    p(w_t | w_{t-1} .. w_{t-K}) = sum_k lambda_k(w_{t-k}) prod_{j<k} (1 - lambda_j(w_{t-j})) p_k(w_t | w_{t-k})

Each lag `k` has a latent bigram model of words with `k - 1` words between them. Walking back from the word to be
predicted, `lambda_k` says how likely the walk is to end at the word it has come to; at lag `K`, or where the text
begins, it ends. What follows "of" is better known from the word before it, and `lambda` learns just that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import ModelError, UsageError
from sapwood.lm.aggregate import AggregateMarkov
from sapwood.lm.base import LanguageModel, Parts
from sapwood.lm.evaluation import evaluate
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.methods import Boundaries
from sapwood.lm.resuming import Run
from sapwood.lm.transitions import HeldOut, Ids, check_ids, id_arrays, is_scored, lagged_pairs, since_begin
from sapwood.lm.vocabulary import ARRAYS, VOCABULARY, Vocabulary
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.schema import Column, Schema, check_json
from sapwood.shapes import Array, Float64, Int, Shaped


class _State(TypedDict):
    model: dict[str, Any]
    done: int


class _Metadata(TypedDict):
    lags: list[dict[str, Any]]
    info: dict[str, Any]


@dataclass(eq=False)
class MixedOrder(LanguageModel):
    """A mixed-order model.

    Attributes
    ----------
    lags
        The latent bigram model of each lag from 1.
    mixing
        `lambda_k(w)` for each lag but the last: that of the last lag is 1.
    info
        How it was learned.
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
            raise ModelError(f"{len(self.lags)} lags do not go with mixing weights of shape {self.mixing.shape}")
        self.vocabulary, self.boundaries = self.lags[0].vocabulary, self.lags[0].boundaries

    @property
    def reach(self) -> int:
        """How many words before a word can matter to it."""
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
        """Return arrays and JSON values that `from_parts` makes the model from again."""
        arrays: dict[str, Shaped[Array, "..."]] = {"mixing": self.mixing, **self.vocabulary.arrays()}
        metadata = []
        for number, model in enumerate(self.lags, 1):
            own, about = model.parts()
            arrays |= {f"{number}.{name}": array for name, array in own.items() if name not in ARRAYS}
            metadata.append(about)
        return arrays, {"lags": metadata, "info": dict(self.info)}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Undo `parts`."""
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
    """A text as a mixed-order model walks back through it.

    Attributes
    ----------
    targets
        The words.
    contexts
        The word at each lag, where the walk can get there.
    reach
        How far back it can get, at most to the last lag; 0 where nothing stands before.
    probabilities
        `p_k(w_t | w_{t-k})` of each lag, 0 where it cannot get; where nothing stands before, the first is that of the
        word after nothing.
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
        """Return how likely the walk is to end at each lag."""
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
        """Return how likely the walk was to end at each lag, given the word; 0 where there is no walk."""
        joint = self.weights(mixing) * self.probabilities
        total = joint.sum(axis=1)
        used = (total > 0) & (self.reach > 0)
        return np.asarray(np.divide(joint, total[:, None], out=np.zeros_like(joint), where=used[:, None]))


def mixing_weights(
    texts: Sequence[Steps], size: int, *, prior: float, iterations: int = 20
) -> Float64[Array, "_ words"]:
    """Return `lambda` of all lags but the last by EM; `prior` steps of each word are as those of all words together."""
    count = texts[0].contexts.shape[1]
    mixing = np.full((count - 1, size), 0.5)
    for _ in range(iterations):
        ended, came = np.zeros(mixing.shape), np.zeros(mixing.shape)
        for steps in texts:
            posteriors = steps.posteriors(mixing)
            for place in range(count - 1):
                # Where the text begins the walk has no choice.
                free = (steps.reach > place + 1) & is_scored(steps.targets)
                words = steps.contexts[free, place]
                ended[place] += np.bincount(words, posteriors[free, place], size)
                came[place] += np.bincount(words, posteriors[free, place:].sum(axis=1), size)
        whole = came.sum(axis=1, keepdims=True)
        mean = np.divide(ended.sum(axis=1, keepdims=True), whole, out=np.full_like(whole, 0.5), where=whole > 0)
        mixing = (ended + prior * mean) / np.maximum(came + prior, 1e-300)
    return mixing


class MixedOrderMarkov:
    """Learns a mixed-order model.

    Each lag is learned by itself at first, then all together with `lambda` by EM, as long as held-out text gets better;
    at last `lambda` is taken from held-out text, which the lags were not fitted to.

    Parameters
    ----------
    lags
        How many words to look back.
    joint_iterations
        The most iterations of EM for all lags together.
    mixing_prior
        See `prior` of `mixing_weights`.
    settings
        Those of `AggregateMarkov` for each lag.
    """

    def __init__(self, *, lags: int = 3, joint_iterations: int = 5, mixing_prior: float = 5.0, **settings: Any) -> None:
        if lags < 1:
            raise UsageError(f"lags must be at least 1, not {lags}")
        if joint_iterations < 0:
            raise UsageError(f"joint_iterations must be 0 or more, not {joint_iterations}")
        if not 0 <= mixing_prior < float("inf"):
            raise UsageError(f"mixing_prior must be 0 or more, not {mixing_prior}")
        self.lags = lags
        self.joint_iterations = joint_iterations
        self.mixing_prior = mixing_prior
        self.learner = AggregateMarkov(**settings)
        self._one_step = AggregateMarkov(**{**settings, "method": "em", "iterations": 1, "batches": 1})

    def fit(
        self,
        text: Ids,
        vocabulary: Vocabulary,
        *,
        boundaries: Boundaries = "stream",
        dev: Ids | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        run: Run | None = None,
    ) -> MixedOrder:
        """Return the model.

        Parameters
        ----------
        text, vocabulary, boundaries
            The ids of the text, what they stand for, and whether its lines are sentences.
        dev
            Held-out ids. Without them the lags stay as they were learned one by one.
        progress, log
            What to report to.
        run
            A run that this is a part of, and which may have been interrupted in it.
        """
        texts, held_out = id_arrays(text), None if dev is None else id_arrays(dev)
        progress, log, run, done = progress or Silent(), log or NoLog(), run or Run(), 0
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
        progress: Progress, log: Log, run: Run,
    ) -> MixedOrder:  # fmt: skip
        """Return the model whose lags are each learned by itself."""
        size = len(vocabulary)

        def learned(lag: int) -> LatentBigram:
            pairs = [lagged_pairs(array, lag, boundaries) for array in texts]
            ones = [np.ones(len(contexts)) for contexts, _ in pairs]
            measure = None if held_out is None else HeldOut(held_out, size, lag=lag, boundaries=boundaries)
            return self.learner.fit(
                _matrix(pairs, ones, size),
                vocabulary=vocabulary,
                boundaries=boundaries,
                dev=measure,
                progress=progress,
                log=log,
                run=run,
                name=f"lag {lag}",
            )

        models = [run.model(f"lag {lag}", LatentBigram, partial(learned, lag)) for lag in range(1, self.lags + 1)]
        return MixedOrder(models, np.full((self.lags - 1, size), 0.5))

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the text, as JSON values."""
        own = {"lags": self.lags, "joint_iterations": self.joint_iterations, "mixing_prior": self.mixing_prior}
        return {**own, **self.learner.settings()}

    def _with_mixing(self, model: MixedOrder, texts: Sequence[np.ndarray]) -> MixedOrder:
        mixing = mixing_weights([Steps(text, model) for text in texts], len(model.vocabulary), prior=self.mixing_prior)
        return MixedOrder(model.lags, mixing, model.info)

    def _step(self, model: MixedOrder, texts: Sequence[np.ndarray]) -> MixedOrder:
        """Do one iteration of EM for the lags: each learns from the words where the walk ended with it."""
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
        lags = [
            self._one_step.fit(
                _matrix(pairs[place], shares[place], size),
                vocabulary=model.vocabulary,
                boundaries=model.boundaries,
                init=model.lags[place],
            )
            for place in range(len(model.lags))
        ]
        return MixedOrder(lags, model.mixing, model.info)


def _state(model: MixedOrder, done: int) -> Parts:
    """Return what a checkpoint has of the iterations for all lags together."""
    arrays, metadata = model.parts()
    return arrays, {"model": metadata, "done": done}


def _restored(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> tuple[MixedOrder, int]:
    """Undo `_state`."""
    check_json(metadata, _State)
    return MixedOrder.checked(arrays, metadata["model"]), metadata["done"]


def _matrix(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], values: Sequence[np.ndarray], size: int
) -> scipy.sparse.csr_array:
    """Return the sums of values by pair."""
    contexts, targets = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return scipy.sparse.csr_array(scipy.sparse.coo_array((np.concatenate(values), (contexts, targets)), (size, size)))
