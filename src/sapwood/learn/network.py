"""Training a network that scores spans (`sapwood.grammar.network`) from the trees alone, on one core in minutes.

The loss is minus the logarithm of the right tree's probability among all binary trees over the sentence, whose scores
are the sums of their spans' (a conditional random field), plus that of the right tags. Gradients go back by hand: all
that is no product of matrices is in kernels. Sentences of one length go together, whole vectors are left out at random
(the same ones over a sentence; Gal and Ghahramani 2016), rare words are sometimes not recognised, Adam makes the steps
(Kingma and Ba 2015), and what is kept is a running mean of all weights.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.grammar.network import BEGIN, END, LARGEST, NOTHING, Network, Sizes, count_looks
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log, NoLog
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent
from sapwood.schema import Column, Schema
from sapwood.shapes import Array, Float32, Int32
from sapwood.trees.corpus import Corpus
from sapwood.trees.word_classes import WordClasses

# Longer sentences are left out: the spans of one would take longer than all those of many others.
_LONGEST = 100
# Spans that are less probable have no say in the gradient.
_NEGLIGIBLE = 1e-4
# What the tags count in the loss.
_TAGS = 0.5
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


class Batch(NamedTuple):
    """Sentences of one length (B of n words).

    Attributes
    ----------
    looks
        What there is to be seen at each step.
    labels
        For each sentence and span of two words or more, by start and end, the label in the right tree, else -1.
    tags
        The right tags, word by word.
    """

    looks: Int32[Array, "steps sentences looks"]
    labels: Int32[Array, "spans"]
    tags: Int32[Array, "words"]

    def ends(self) -> tuple[Int32[Array, "spans"], Int32[Array, "spans"]]:
        """Return where each span begins and ends, as numbers of gaps between words in all sentences."""
        steps, sentences, _ = self.looks.shape
        start, end = np.triu_indices(steps - 1, 2)
        number = np.arange(sentences)[:, None]
        first, last = ((gap * sentences + number).astype(np.int32).ravel() for gap in (start, end))
        return first, last


class Passes:
    """A network's weights with their gradients, and the passes forward and back.

    Attributes
    ----------
    weights, table
        All weights; they change in place.
    gradient, table_gradient
        Sums of gradients, to which `loss` adds.
    """

    def __init__(
        self, sizes: Sizes, weights: Float32[Array, "weights"], table: Float32[Array, "vectors input"]
    ) -> None:
        self.sizes, self.weights, self.table = sizes, weights, table
        self.gradient, self.table_gradient = np.zeros_like(weights), np.zeros_like(table)
        self._w, self._g = sizes.views(weights), sizes.views(self.gradient)

    @classmethod
    def random(cls, sizes: Sizes, vectors: int, rng: np.random.Generator) -> Passes:
        """Return weights to begin with."""
        weights = np.zeros(sizes.n_weights, np.float32)
        for name, part in sizes.views(weights).items():
            if name.endswith("gain"):
                part[:] = 1
            elif part.ndim == 2:
                bound = math.sqrt((3 if name.endswith("gates") else 1) / len(part))
                part[:] = rng.uniform(-bound, bound, part.shape)
            elif name[0].isdigit() and name.endswith("bias"):
                part[: 2 * sizes.half] = 1  # at first cells keep more than they take
        return cls(sizes, weights, (0.1 * rng.standard_normal((vectors, sizes.input))).astype(np.float32))

    def _normalise(self, values: np.ndarray, name: str, *, cut: bool = False) -> tuple[np.ndarray, np.ndarray]:
        scale, out = np.empty(len(values), np.float32), np.empty_like(values)
        kernels.normalise_forward(values, self._w[f"{name}.gain"], self._w[f"{name}.shift"], cut, scale, out)
        return out, scale

    def _normalise_back(
        self,
        values: np.ndarray,
        name: str,
        out: np.ndarray,
        scale: np.ndarray,
        change: np.ndarray,
        *,
        cut: bool = False,
    ) -> None:
        gain, shift = self._g[f"{name}.gain"], self._g[f"{name}.shift"]
        kernels.normalise_backward(values, self._w[f"{name}.gain"], cut, scale, out, change, gain, shift)

    def loss(
        self, batch: Batch, masks: list[Float32[Array, "sentences size"]], *, negligible: float = _NEGLIGIBLE
    ) -> tuple[float, float]:
        """Return the losses by trees and by tags, and add to the gradients.

        `masks` has what the input and each layer are multiplied by, the same at all steps.
        """
        sizes, w, g = self.sizes, self._w, self._g
        steps, sentences, _ = batch.looks.shape
        n, half, rows, size = steps - 2, sizes.half, steps * sentences, 2 * sizes.half
        cube = (steps, sentences, -1)
        looks = batch.looks.reshape(rows, -1)
        seen = np.empty((rows, sizes.input), np.float32)
        kernels.sum_rows(self.table, looks, seen)
        words, word_scale = self._normalise(seen, "input")
        x = (words.reshape(cube) * masks[0]).reshape(rows, -1)
        tape = []
        for layer in range(sizes.layers):
            below = x
            gates = (below @ w[f"{layer}.gates"]).reshape(cube)
            skip = (below @ w[f"{layer}.skip"] if f"{layer}.skip" in w else below).reshape(cube)
            cell, shown, made = (np.empty((steps, sentences, size), np.float32) for _ in range(3))
            kernels.gates_forward(gates, w[f"{layer}.bias"], skip, cell, shown, made)
            out, scale = self._normalise(made.reshape(rows, size), str(layer))
            x = (out.reshape(cube) * masks[layer + 1]).reshape(rows, size)
            tape.append((below, gates, skip, cell, shown, made.reshape(rows, size), out, scale))
            if layer == 0:
                tagged = x.reshape(cube)[1:-1].reshape(n * sentences, size)
        tag_scores = tagged @ w["tags"] + w["tags.bias"]
        tag_loss = kernels.classes_loss(tag_scores, batch.tags)
        tag_scores *= np.float32(_TAGS)
        last = x.reshape(cube)
        gaps = np.concatenate([last[:-1, :, :half], last[1:, :, half:]], axis=-1).reshape(-1, size)
        change = np.zeros((steps, sentences, size), np.float32)
        tree_loss = 0.0
        if n > 1:
            tree_loss, by_gaps = self._spans(batch, gaps, negligible)
            by_gaps = by_gaps.reshape(n + 1, sentences, size)
            change[:-1, :, :half], change[1:, :, half:] = by_gaps[:, :, :half], by_gaps[:, :, half:]
        for layer in range(sizes.layers - 1, -1, -1):
            below, gates, skip, cell, shown, made2, out, scale = tape[layer]
            if layer == 0:
                g["tags"] += tagged.T @ tag_scores
                g["tags.bias"] += tag_scores.sum(axis=0)
                change[1:-1] += (tag_scores @ w["tags"].T).reshape(n, sentences, size)
            change *= masks[layer + 1]
            self._normalise_back(made2, str(layer), out, scale, change.reshape(rows, size))
            passed = np.empty_like(cell)
            kernels.gates_backward(gates, skip, cell, shown, change, passed)
            by_gates, by_skip = gates.reshape(rows, -1), passed.reshape(rows, size)
            g[f"{layer}.gates"] += below.T @ by_gates
            g[f"{layer}.bias"] += by_gates[:, size:].sum(axis=0)
            by_below = by_gates @ w[f"{layer}.gates"].T
            if f"{layer}.skip" in w:
                g[f"{layer}.skip"] += below.T @ by_skip
                by_below += by_skip @ w[f"{layer}.skip"].T
            else:
                by_below += by_skip
            change = by_below.reshape(cube)
        change *= masks[0]
        by_words = change.reshape(rows, sizes.input)
        self._normalise_back(seen, "input", words, word_scale, by_words)
        kernels.sum_rows_backward(by_words, looks, self.table_gradient)
        return tree_loss, tag_loss

    def _spans(self, batch: Batch, gaps: np.ndarray, negligible: float) -> tuple[float, np.ndarray]:
        """Return the loss by trees, and its gradient by what stands between words."""
        w, g, n = self._w, self._g, len(batch.looks) - 2
        starts, ends = batch.ends()
        left, right = gaps @ w["left"], gaps @ w["right"] + w["ends.bias"]
        spans = np.empty((len(starts), self.sizes.inner), np.float32)
        kernels.join_ends(left, right, starts, ends, spans)
        out, scale = self._normalise(spans, "span", cut=True)
        scores, mass = out @ w["labels"] + w["labels.bias"], np.empty(len(starts), np.float32)
        loss = kernels.trees_loss(scores, batch.labels, n, mass)
        chosen = np.flatnonzero((mass >= negligible) | (batch.labels >= 0))
        spans, out, scale, scores, starts, ends = (a[chosen] for a in (spans, out, scale, scores, starts, ends))
        g["labels"] += out.T @ scores
        g["labels.bias"] += scores.sum(axis=0)
        change = scores @ w["labels"].T
        self._normalise_back(spans, "span", out, scale, change, cut=True)
        by_left, by_right = np.zeros_like(left), np.zeros_like(right)
        kernels.join_ends_backward(change, starts, ends, by_left, by_right)
        g["left"] += gaps.T @ by_left
        g["right"] += gaps.T @ by_right
        g["ends.bias"] += by_right.sum(axis=0)
        return loss, by_left @ w["left"].T + by_right @ w["right"].T


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
        size = Sizes(self.input, self.half, self.layers, self.inner, len(sentences.labels), len(sentences.tags))
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
