"""Gradient training of a rule network on sentences without trees: mini-batches, length curriculum, early stopping.

The expected counts of a mini-batch are the gradients of its log-likelihood by the logarithms of the probabilities, and
the network (`sapwood.induction.models.rule_network`) turns them into gradients of its parameters, for Adam. Each stage
has sentences of up to a length, and ends when the likelihood of held-out sentences has stopped rising; the next stage
continues from the best parameters. A state depends only on the text and the settings: sentences of a batch are divided
in the same way on any number of workers, so a resumed run ends in the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Unpack

import numpy as np

from sapwood.errors import GrammarError, ModelError, UsageError
from sapwood.induction.estep import (
    Found,
    IndependentSides,
    SentenceBatch,
    SpanFactors,
    punctuation_weights,
    sum_trees,
)
from sapwood.induction.models.rule_network import Adam, Parameters, RuleNetwork
from sapwood.induction.models.simple_pcfg import SimplePCFGRules, places, rule_counts, word_rules
from sapwood.induction.text import Text
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.runtime.context import RunContext, RunOptions
from sapwood.runtime.executor import Executor
from sapwood.storage.arrays import Arrays
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float64, Int64

# One sentence in this many is held out, in texts of at least this many sentences.
_EVERY, _ENOUGH = 20, 200
# Sentences that a worker processes together.
_TOGETHER = 8
# Weight of spans that do not branch to the right, at the beginning.
_ELSEWHERE = 0.3
_FREE = SpanFactors()
_BETAS, _CLIP = (0.75, 0.999), 3.0
_NUMBERS = ("stage", "epoch", "batch", "updates", "bad_epochs", "step")
_FIGURES = ("held_out", "best_held_out", "log_likelihood", "words")
_VECTORS = ("parameters", "mean", "square", "best")

CHECKPOINT = checkpoint_schema(
    "rule-network-checkpoint",
    *(Column(name, "float32", "parameters") for name in _VECTORS),
    Column("figures", "float64", str(len(_FIGURES)), unchecked=True),
    metadata=dict.fromkeys(_NUMBERS, int),
)


@dataclass(frozen=True)
class TrainingSettings:
    """Schedule of the training.

    Parameters
    ----------
    lengths
        Maximum length of the sentences of each stage.
    epochs, patience
        Maximum number of epochs of a stage, and number of epochs without a better held-out likelihood that end it.
    batch_sentences, learning_rate
        Sentences of a mini-batch, and the learning rate of Adam.
    random_state
        Seed of the order of sentences.
    spans
        Factors of spans by punctuation.
    warmup
        Epochs, of the first stage, in which the factor of spans elsewhere goes from `_ELSEWHERE` to its own; 0: none.
    """

    lengths: tuple[int, ...]
    epochs: int
    patience: int
    batch_sentences: int
    learning_rate: float
    random_state: int
    spans: SpanFactors = SpanFactors()
    warmup: float = 0.0

    def factors(self, epochs: float = np.inf) -> SpanFactors:
        """Return the factors of spans after this many epochs."""
        power = max(0.0, 1 - epochs / self.warmup) if self.warmup > 0 else 0.0
        return self.spans._replace(elsewhere=_ELSEWHERE**power * self.spans.elsewhere ** (1 - power))


@dataclass(frozen=True)
class NetworkRun:
    """Result of a training run.

    Attributes
    ----------
    parameters
        The parameters with the best likelihood of held-out sentences.
    epochs
        Number of epochs.
    log_likelihood
        Log-likelihood per word of the held-out sentences of the last stage.
    """

    parameters: Parameters
    epochs: int
    log_likelihood: float


class _State:
    """Parameters, optimiser and position of a run; they change in place."""

    def __init__(self, parameters: Parameters, settings: TrainingSettings) -> None:
        self.parameters = parameters
        self.network = RuleNetwork(parameters)
        self.adam = Adam(parameters, settings.learning_rate, betas=_BETAS, clip=_CLIP)
        self.best = {name: array.copy() for name, array in parameters.items()}
        self.stage = self.epoch = self.batch = self.bad_epochs = self.step = 0
        self.held_out, self.best_held_out, self.log_likelihood, self.words = np.nan, -np.inf, 0.0, 0.0

    def to_arrays(self) -> Content:
        """Return the content of a checkpoint."""
        sources = (self.parameters, self.adam.mean, self.adam.square, self.best)
        arrays = {
            name: np.concatenate([one.ravel() for one in source.values()])
            for name, source in zip(_VECTORS, sources, strict=True)
        }
        figures = np.array([getattr(self, name) for name in _FIGURES])
        numbers = {name: self.adam.steps if name == "updates" else getattr(self, name) for name in _NUMBERS}
        return {**arrays, "figures": figures}, numbers

    def restored(self, arrays: Arrays, numbers: dict[str, Any]) -> _State:
        """Continue from the content of a checkpoint."""
        for name, target in zip(_VECTORS, (self.parameters, self.adam.mean, self.adam.square, self.best), strict=True):
            if len(arrays[name]) != sum(one.size for one in target.values()):
                raise ModelError(f"{name}: do not fit the text")
            first = 0
            for one in target.values():
                one[...] = arrays[name][first : first + one.size].reshape(one.shape)
                first += one.size
        for name, value in zip(_FIGURES, arrays["figures"].tolist(), strict=True):
            setattr(self, name, value)
        self.adam.steps = numbers["updates"]
        for name in _NUMBERS:
            if name != "updates":
                setattr(self, name, numbers[name])
        return self


def train_network(
    text: Text,
    parameters: Parameters,
    settings: TrainingSettings,
    executor: Executor,
    *,
    key: Mapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> NetworkRun:
    """Train a rule network on a text, from these parameters, which are changed.

    Parameters
    ----------
    text
        The sentences.
    parameters
        Initial parameters.
    settings
        The schedule.
    executor
        Executor.
    key
        Everything that the run depends on, for the checkpoint.
    options
        `progress`, `log` and `checkpoint`, as for `RunContext`. If the checkpoint exists, the run resumes from it.
    """
    run = RunContext.of(**options)
    numbers = np.arange(text.n_sentences)
    is_held_out = (numbers % _EVERY == _EVERY // 2) & (text.n_sentences >= _ENOUGH)
    usable = (text.lengths >= 2) & (text.lengths <= settings.lengths[-1])
    if not (usable & ~is_held_out).any():
        raise UsageError(
            f"there are no sentences of 2 to {settings.lengths[-1]} words to learn from; give longer lengths"
        )
    held_out = np.flatnonzero(usable & (is_held_out if (is_held_out & usable).any() else True))
    state = _State(parameters, settings)
    kept = Checkpoint(
        run.checkpoint, key or {}, CHECKPOINT, data="text", to_arrays=_State.to_arrays, from_arrays=state.restored
    )
    kept.load()
    stages = [np.flatnonzero(usable & ~is_held_out & (text.lengths <= length)) for length in settings.lengths]
    cost = [float((text.lengths[stage].astype(float) ** 2).sum() + 1) for stage in stages]
    whole = settings.epochs * sum(cost)
    with run.progress.stage("learning", 100, "%") as bar:
        shown = 0.0
        while state.stage < len(stages):
            sentences, length = stages[state.stage], settings.lengths[state.stage]
            order = np.random.default_rng([settings.random_state, state.stage, state.epoch])
            batches = list(batches_of(sentences, text.lengths, settings.batch_sentences, order))
            while state.batch < len(batches):
                epochs = state.epoch + state.batch / len(batches) if state.stage == 0 else np.inf
                _step(text, state, batches[state.batch], settings.factors(epochs), executor)
                state.batch += 1
                done = sum(cost[: state.stage]) * settings.epochs
                done += cost[state.stage] * (state.epoch + state.batch / len(batches))
                amount = round(100 * done / whole - shown, 3)
                shown += amount
                figures = {"logL": state.log_likelihood / max(state.words, 1), "held_out": state.held_out}
                shown_figures = {name: f"{one:.4f}" for name, one in figures.items()}
                bar.step(amount, words=length, epoch=state.epoch + 1, **shown_figures)  # type: ignore[arg-type]
                if kept.is_due:
                    kept.save(state)
            _end_epoch(text, state, held_out[text.lengths[held_out] <= length], settings.factors(), executor)
            run.log.write(
                "iteration", step=state.step, phase=f"{length} words", iteration=state.epoch,
                log_likelihood=state.log_likelihood / max(state.words, 1), objective=state.held_out,
            )  # fmt: skip
            _next_epoch(state, settings)
            kept.save(state)
    return NetworkRun(state.best, state.step, state.held_out if np.isinf(state.best_held_out) else state.best_held_out)


def batches_of(
    sentences: Int64[Array, "sentences"], lengths: Int64[Array, "all_sentences"], size: int, rng: np.random.Generator
) -> Iterator[Int64[Array, "batch"]]:
    """Yield batches of sentences of similar lengths, in random order."""
    order = rng.permutation(sentences)
    order = order[np.argsort(lengths[order], kind="stable")]
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    for number in rng.permutation(len(batches)).tolist():
        yield batches[number]


def log_likelihood(
    text: Text,
    rules: SimplePCFGRules,
    sentences: Int64[Array, "sentences"],
    workers: Executor,
    factors: SpanFactors = _FREE,
) -> Float64[Array, "sentences"]:
    """Return the log-likelihood of each of some sentences of a text, in order of their lengths."""
    ordered = sentences[np.argsort(text.lengths[sentences], kind="stable")]
    found = []
    for first in range(0, len(ordered), 32 * _TOGETHER):
        part = text.part(ordered[first : first + 32 * _TOGETHER])
        words, numbers = places(part.terminal)
        weights = workers.broadcast(word_rules(rules, words).rule)
        found += list(workers.map(_logarithms, *_parts(part, numbers, factors), repeat(weights)))
    return np.concatenate([np.zeros(0), *found])


def _parts(
    part: Text, numbers: np.ndarray, factors: SpanFactors
) -> tuple[list[SentenceBatch], list[np.ndarray | None]]:
    """Return the sentences of a batch in the portions that workers process, and the weights of their spans."""
    found: list[SentenceBatch] = []
    spans: list[np.ndarray | None] = []
    divided = np.zeros(len(part.word), bool) if part.divided is None else part.divided
    for first in range(0, part.n_sentences, _TOGETHER):
        offsets = part.offsets[first : first + _TOGETHER + 1]
        tokens = slice(offsets[0], offsets[-1])
        found.append(SentenceBatch(numbers[tokens], offsets - offsets[0]))
        spans.append(None if factors == _FREE else punctuation_weights(divided[tokens], offsets - offsets[0], factors))
    return found, spans


def _logarithms(part: SentenceBatch, spans: np.ndarray | None, weights: IndependentSides) -> np.ndarray:
    return sum_trees(part, weights, spans, times=np.zeros(len(part.lengths))).logarithms


def _sum(part: SentenceBatch, spans: np.ndarray | None, weights: IndependentSides) -> Found:
    return sum_trees(part, weights, spans)


def _step(text: Text, state: _State, sentences: np.ndarray, factors: SpanFactors, workers: Executor) -> None:
    """Take a step on a batch."""
    part = text.part(sentences)
    words, numbers = places(part.terminal)
    rules = state.network.rules()
    weights = word_rules(rules, words)
    found = workers.map(_sum, *_parts(part, numbers, factors), repeat(workers.broadcast(weights.rule)))
    total = next(found)
    logarithms = float(total.logarithms.sum())
    for more in found:
        logarithms += float(more.logarithms.sum())
        for own, other in zip(total.uses, more.uses, strict=True):
            own += other
    if not np.isfinite(logarithms):
        raise GrammarError("a sentence has no probability under the model; give a smaller learning rate")
    counts = rule_counts(rules, weights, total.uses)
    share = np.float32(1 / len(sentences))
    state.adam.ascend(state.network.gradients(SimplePCFGRules(*(one * share for one in counts)), words))
    state.log_likelihood += logarithms
    state.words += len(part.word)


def _end_epoch(text: Text, state: _State, held_out: np.ndarray, factors: SpanFactors, workers: Executor) -> None:
    """Measure the held-out likelihood."""
    state.epoch += 1
    state.step += 1
    words = max(int(text.lengths[held_out].sum()), 1)
    state.held_out = float(log_likelihood(text, state.network.rules(), held_out, workers, factors).sum()) / words
    if not state.held_out <= state.best_held_out:
        state.best_held_out, state.bad_epochs = state.held_out, 0
        for name, array in state.parameters.items():
            state.best[name][...] = array
    else:
        state.bad_epochs += 1


def _next_epoch(state: _State, settings: TrainingSettings) -> None:
    """Move to the next epoch, or to the next stage with the best parameters."""
    state.batch = 0
    state.log_likelihood = state.words = 0.0
    if state.bad_epochs <= settings.patience and state.epoch < settings.epochs:
        return
    for name, array in state.parameters.items():
        array[...] = state.best[name]
    state.stage, state.epoch, state.bad_epochs = state.stage + 1, 0, 0
    if state.stage < len(settings.lengths):
        state.best_held_out = -np.inf
