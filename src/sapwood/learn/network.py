"""Training a network that scores spans (`sapwood.grammar.network`) from the trees alone, on one core in minutes.

The loss is minus the logarithm of the right tree's probability among all binary trees over the sentence, whose scores
are the sums of their spans' (a conditional random field), plus that of the right tags (`network_passes`). Sentences of
one length go together, whole vectors are left out at random (the same ones over a sentence; Gal and Ghahramani 2016),
rare words are sometimes not recognised, Adam makes the steps (Kingma and Ba 2015), and what is kept is a running mean
of all weights.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.grammar.network import BEGIN, END, LARGEST, NOTHING, Network, Sizes, count_looks
from sapwood.learn.network_passes import Batch, Passes
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log, NoLog
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent
from sapwood.schema import Column, Schema
from sapwood.trees.corpus import Corpus
from sapwood.trees.word_classes import WordClasses

# Longer sentences are left out: the spans of one would take longer than all those of many others.
_LONGEST = 100
# Steps until the rate is full, the least part of it at the end, the longest gradient, and how many steps go by between
# two additions to the mean of weights, which forgets this part with each step.
_WARMING, _LEAST_RATE, _LONGEST_GRADIENT, _PAUSE, _KEEP = 100, 0.02, 10.0, 4, 0.995
_BETA, _GAMMA = 0.9, 0.98
_STATE = ("weights", "table", "weights.mean", "weights.square", "table.mean", "table.square", "kept", "kept.table")


class _Metadata(TypedDict):
    key: str
    step: int
    moves: int


CHECKPOINT = Schema(
    kind="network-checkpoint",
    version=1,
    title="checkpoint",
    remedy="copy it again",
    columns=tuple(Column(name, "float32", "vectors input" if "table" in name else "weights") for name in _STATE),
    metadata=_Metadata,
)


@dataclass(frozen=True, kw_only=True)
class NetworkLearner:
    """Settings of a network's training.

    Parameters
    ----------
    input, half, layers, inner
        How large it is (`sapwood.grammar.network.Sizes`).
    epochs
        Passes over the trees.
    words
        About how many words are between two steps.
    rate
        How far the first steps go; it falls to almost nothing.
    word_dropout, dropout
        The part of words' vectors and of layers that is left out at random.
    unseen
        A word seen c times is not recognised in `unseen / (unseen + c)` of all cases.
    most_looks
        The most vectors for what words look like.
    weight
        What its scores count beside the logarithms of the grammar's posteriors.
    closing
        Spans that it gives less than this part of all binary trees are not parsed; 0: all are.
    """

    input: int = 128
    half: int = 128
    layers: int = 3
    inner: int = 128
    epochs: int = 12
    words: int = 500
    rate: float = 3e-3
    word_dropout: float = 0.2
    dropout: float = 0.25
    unseen: float = 0.8
    most_looks: int = 40_000
    weight: float = 0.2
    closing: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("input", "half", "layers", "inner", "epochs", "words", "rate", "most_looks"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("input", "half", "layers", "inner"):
            if getattr(self, name) > LARGEST:
                raise UsageError(f"{name} must be at most {LARGEST}, not {getattr(self, name)}")
        for name in ("word_dropout", "dropout", "closing"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        for name in ("unseen", "weight"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative: {getattr(self, name)}")

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees, as JSON values."""
        return asdict(self)

    def sizes(self, labels: int, tags: int) -> Sizes:
        """Return how large a network of so many symbols over spans and words is."""
        return Sizes(self.input, self.half, self.layers, self.inner, labels, tags)

    @with_one_blas_thread
    def fit(
        self,
        corpus: Corpus,
        *,
        classes: WordClasses | None = None,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
    ) -> Network:
        """Learn a network from trees.

        Parameters
        ----------
        corpus
            The trees.
        classes
            Classes of words from plain text, to be seen beside their spelling.
        random_state
            Seed of every random choice.
        checkpoint
            Where the state is kept after each epoch; a run that finds its own there goes on from it.
        progress, log
            What to report to.
        """
        progress, log = progress or Silent(), log or NoLog()
        sentences = _Sentences(corpus, self.most_looks, classes)
        size = self.sizes(len(sentences.labels), len(sentences.tags))
        vectors = len(sentences.looks) + END + 1
        run = _Run(self, Passes.random(size, vectors, np.random.default_rng([random_state, 0])), sentences)
        file = None
        if checkpoint is not None:
            key = {**self.settings(), "method": "network", "corpus": corpus.digest(), "seed": random_state}
            key["classes"] = None if classes is None else classes.digest()
            file = Checkpoint(checkpoint, key, CHECKPOINT, data="trees")
            run.restore(file)
        with progress.stage("network", total=self.epochs, unit="epochs") as stage:
            stage.step(run.epoch)
            while run.epoch < self.epochs:
                with np.errstate(over="ignore", invalid="ignore"):  # which ends in an error of ours
                    loss, tag_loss = run.pass_over(np.random.default_rng([random_state, run.epoch + 1]))
                log.write("network", step=run.epoch, epoch=run.epoch, loss=loss, tag_loss=tag_loss)
                if file is not None:
                    file.save(run.state, {"step": run.epoch, "moves": run.moves})
                stage.step()
        kept = run.state
        return Network(
            size,
            sentences.looks,
            sentences.labels,
            sentences.tags,
            kept["kept.table"],
            kept["kept"],
            self.closing,
            classes,
        )


class _Sentences:
    """A corpus as a network sees it."""

    def __init__(self, corpus: Corpus, most_looks: int, classes: WordClasses | None) -> None:
        lengths = np.bincount(
            np.repeat(np.arange(corpus.n_trees), np.diff(corpus.offsets)), weights=corpus.word >= 0
        ).astype(np.int64)
        self.trees = np.flatnonzero(lengths <= _LONGEST)
        if not len(self.trees):
            raise InputError(f"no sentence has {_LONGEST} words or fewer: a network has nothing to learn from")
        self._corpus, self.lengths = corpus, lengths
        counts = np.bincount(corpus.word[corpus.word >= 0], minlength=len(corpus.words))
        counter = Counter(dict(zip(corpus.words, counts.tolist(), strict=True)))
        self.looks = tuple(count_looks(counter, most_looks, classes))
        self.counts = counts.astype(np.float64)
        base = list(corpus.symbols.base)
        first = corpus.n_interminals
        self.labels, self.tags = tuple(sorted(set(base[:first]))), tuple(sorted(set(base[first:])))
        numbers = [{name: number for number, name in enumerate(names)} for names in (self.labels, self.tags)]
        self._number = np.array([numbers[s >= first][name] for s, name in enumerate(base)], np.int32)
        reader = Network(
            Sizes(1, 1, 1, 1, 1, 1),
            self.looks,
            (),
            (),
            np.zeros((0, 1), np.float32),
            np.zeros(0, np.float32),
            0.0,
            classes,
        )
        self._rows = reader.see(corpus.words)[1:-1]

    def batches(self, words: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return trees of one length in groups of about so many words, in random order."""
        order = rng.permutation(self.trees)
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches: list[np.ndarray] = []
        for same in np.split(order, np.flatnonzero(np.diff(self.lengths[order])) + 1):
            most = max(1, words // int(self.lengths[same[0]]))
            batches += [same[first : first + most] for first in range(0, len(same), most)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def batch(self, trees: np.ndarray, unseen: float, rng: np.random.Generator) -> Batch:
        """Return what there is to learn from trees of one length; some of their words are not recognised."""
        corpus, n = self._corpus, int(self.lengths[trees[0]])
        looks = np.full((n + 2, len(trees), self._rows.shape[1]), NOTHING, np.int32)
        looks[0, :, 0], looks[-1, :, 0] = BEGIN, END
        labels, tags = np.full((len(trees), n * (n - 1) // 2), -1, np.int32), np.empty((n, len(trees)), np.int32)
        words = np.empty((n, len(trees)), np.int64)
        for place, tree in enumerate(trees):
            nodes = slice(corpus.offsets[tree], corpus.offsets[tree + 1])
            word, start, end = corpus.word[nodes], corpus.start[nodes].astype(np.int64), corpus.end[nodes]
            number, leaf = self._number[corpus.symbol[nodes]], word >= 0
            words[:, place], tags[:, place] = word[leaf], number[leaf]
            start, end = start[~leaf], end[~leaf]
            labels[place, start * (n - 1) - start * (start - 1) // 2 + end - start - 2] = number[~leaf]
        looks[1:-1] = self._rows[words]
        looks[1:-1, :, 0][rng.random(words.shape) < unseen / (unseen + self.counts[words])] = NOTHING
        return Batch(looks, labels.ravel(), tags.ravel())


class _Run:
    """A training run: what it has reached, and how it goes on."""

    def __init__(self, learner: NetworkLearner, passes: Passes, sentences: _Sentences) -> None:
        self._learner, self._passes, self._sentences = learner, passes, sentences
        self.epoch = self.moves = 0
        zeros = [np.zeros_like(values) for values in (passes.weights, passes.weights, passes.table, passes.table)]
        kept = [passes.weights.copy(), passes.table.copy()]
        self.state = dict(zip(_STATE, [passes.weights, passes.table, *zeros, *kept], strict=True))
        sizes = passes.sizes
        self._parts = [(sizes.input, learner.word_dropout)] + [(2 * sizes.half, learner.dropout)] * sizes.layers

    def restore(self, file: Checkpoint) -> None:
        """Go on from what a file has, if it is there."""
        if (saved := file.load()) is None:
            return
        arrays, metadata = saved
        for name, values in self.state.items():
            if arrays[name].shape != values.shape:
                raise ModelError(f"{file.path}: {name}: does not fit the trees; remove it to start anew")
            values[...] = arrays[name]
        self.epoch, self.moves = metadata["step"], metadata["moves"]

    def pass_over(self, rng: np.random.Generator) -> tuple[float, float]:
        """Learn from each tree once; returns the mean losses by trees and by tags."""
        learner, sentences = self._learner, self._sentences
        batches = sentences.batches(learner.words, rng)
        losses = np.zeros(2)
        for number, trees in enumerate(batches):
            batch = sentences.batch(trees, learner.unseen, rng)
            masks = [
                ((rng.random((len(trees), size)) >= part) / (1 - part)).astype(np.float32) for size, part in self._parts
            ]
            losses += self._passes.loss(batch, masks)
            done = (self.epoch + number / len(batches)) / learner.epochs
            self._move(learner.rate * max(_LEAST_RATE, 1 - done), 1 / (4 * math.sqrt(len(trees))))
        self.epoch += 1
        mean = losses / len(sentences.trees)
        return float(mean[0]), float(mean[1])

    def _move(self, rate: float, factor: float) -> None:
        """Take a step."""
        passes, state = self._passes, self.state
        self.moves += 1
        rate *= min(1, self.moves / _WARMING)
        squares = [float(np.vdot(part, part)) for part in (passes.gradient, passes.table_gradient)]
        length = factor * math.sqrt(sum(squares))
        if not math.isfinite(length):
            raise InputError("the network's training diverges; give a smaller rate")
        factor *= min(1.0, _LONGEST_GRADIENT / max(length, 1e-30))
        first, second = 1 / (1 - _BETA**self.moves), 1 / (1 - _GAMMA**self.moves)
        for name, gradient in (("weights", passes.gradient), ("table", passes.table_gradient)):
            moved = [state[name], gradient, state[f"{name}.mean"], state[f"{name}.square"]]
            kernels.adam_step(*(values.reshape(-1) for values in moved), factor, rate, first, second)
        if self.moves % _PAUSE == 0:
            part = np.float32(1 - min(_KEEP, (1 + self.moves) / (10 + self.moves)) ** _PAUSE)
            for name, values in (("kept", passes.weights), ("kept.table", passes.table)):
                state[name] += part * (values - state[name])
