"""The loop that EM and split-merge share: operations one after the other, each noted, saved and resumable.

A training run is a list of *operations* fixed in advance. Each takes a `TrainingState` to the next and depends on
nothing else but the corpus and the settings (randomness comes from the seed and the operation's own number), so a run
that is resumed from any state ends in the same grammar, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from sapwood.errors import ModelError, UsageError
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import Expectations
from sapwood.learn import _latent_kernels as kernels
from sapwood.learn.latent import LatentTrees, LatentWeights
from sapwood.learn.lexical import LexicalModel, LexicalSettings
from sapwood.learn.unary import fold, fold_weights, share_emissions, unfold
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent, Stage
from sapwood.storage import content_digest, read_arrays, write_arrays
from sapwood.trees.corpus import Corpus

Unaries = Literal["steps", "collapsed"]
# What a grammar is worth on held-out data: `f1`, `log_likelihood`, whatever; the learner says which one it goes by.
Evaluate = Callable[[TensorGrammar], Mapping[str, float]]
_FORMAT = 1
# Rule probabilities below this are left out of grammars.
_TRACE = 1e-8
# States of the version of a real-valued grammar that prunes for it.
_FIRST = 4
_PARTS = ("states", "tensors", "root", "lexical")


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Where a run stands.

    Attributes
    ----------
    weights
        The grammar so far.
    done
        Operations done.
    step
        EM iterations done.
    log_likelihood
        Of the weights before the last iteration, which is when it was measured.
    score, best
        The best value of what the run goes by, and the weights that had it (None: not measured yet).
    start_score, worse
        The best value since the last (random) start, and how many measurements since then were no better.
    measured
        The step at which the grammar was last evaluated.
    levels
        For each level of coarser states, `(sum of states,)`: the coarser state that each state came from.
    """

    weights: LatentWeights
    done: int = 0
    step: int = 0
    log_likelihood: float = float("nan")
    score: float = float("-inf")
    best: LatentWeights | None = None
    best_levels: tuple[np.ndarray, ...] = ()
    start_score: float = float("-inf")
    worse: int = 0
    measured: int = 0
    levels: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Operation:
    """One step of a training run: what to do, what it costs beside the others, and what to call it."""

    apply: Callable[[TrainingState], TrainingState]
    cost: float = 0.0
    labels: Mapping[str, Any] = field(default_factory=dict)


class LatentLearner(Protocol):
    """What a learner with hidden states says about the problem it wants to solve; see `LatentProblem`."""

    unaries: Unaries
    rare: int
    lexical: LexicalSettings
    threads: int
    executor: Executor | None


class LatentProblem:
    """A corpus as learners with hidden states see it, and the way from their weights to a grammar.

    Parameters
    ----------
    corpus
        The trees.
    unaries
        `steps`: unary chains get an explicit last step with a matrix of its own (see `learn.unary`); `collapsed`: every
        chain is a symbol of its own.
    rare
        Words seen at most this often are known by their signature while states are learned.
    lexical
        How lexical weights are smoothed in the resulting grammar.
    threads, executor
        Where passes over the corpus run.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        unaries: Unaries,
        rare: int,
        lexical: LexicalSettings,
        threads: int,
        executor: Executor | None,
    ) -> None:
        if unaries not in get_args(Unaries):
            raise UsageError(f"unaries are {' or '.join(get_args(Unaries))}, not {unaries!r}")
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        self.corpus = corpus
        self.threads, self.executor = threads, executor
        self.unfolded = unfold(corpus) if unaries == "steps" else None
        if self.unfolded is not None and not self.unfolded.has_steps:
            self.unfolded = None
        if self.unfolded is None:
            self.lexical = LexicalModel(corpus, lexical)
            self.word_classes = self.lexical.word_classes(rare)
            self.trees = LatentTrees(corpus, self.word_classes)
        else:
            inner = self.unfolded.corpus.n_interminals
            leaves = corpus.word >= 0
            tags = self.unfolded.bottom[corpus.symbol[leaves]] - inner
            self.lexical = LexicalModel(corpus, lexical, tags, self.unfolded.corpus.symbols[inner:-1])
            classes = self.lexical.word_classes(rare)
            self.word_classes = np.append(classes, classes.max() + 1)
            self.trees = LatentTrees(self.unfolded.corpus, self.word_classes)

    @classmethod
    def of(cls, learner: LatentLearner, corpus: Corpus) -> LatentProblem:
        """Return the problem of a learner."""
        return cls(
            corpus, unaries=learner.unaries, rare=learner.rare, lexical=learner.lexical, threads=learner.threads,
            executor=learner.executor,
        )  # fmt: skip

    def expectations(self, weights: LatentWeights) -> Expectations:
        """Return expected counts and likelihoods."""
        return self.trees.expectations(weights, threads=self.threads, executor=self.executor)

    def splittable(self) -> np.ndarray:
        """Return `(symbols,)`: whether a symbol can have hidden states at all."""
        possible = np.ones(len(self.trees.corpus.symbols), bool)
        if self.unfolded is not None:
            possible[self.unfolded.empty] = False
        return possible

    def grammar(
        self, weights: LatentWeights, info: Mapping[str, Any], levels: Sequence[np.ndarray] = ()
    ) -> TensorGrammar:
        """Return the grammar that the weights stand for, with lexical weights from a last pass over the corpus.

        `levels` are those of `TrainingState`.
        """
        expected = self.expectations(weights)
        corpus = self.corpus
        parts: dict[str, Any]
        if self.unfolded is None:
            emissions = self.lexical.emissions(weights.states[corpus.n_interminals :], expected.lexical)
            parts = {
                "states": weights.states,
                "rules": corpus.rules,
                "tensors": weights.tensors,
                "rule_counts": corpus.rule_counts().astype(float),
                "root": weights.root,
                "occupancy": expected.occupancy,
                "levels": levels,
            }
        else:
            inner = self.unfolded.corpus.n_interminals
            tags = self.lexical.emissions(weights.states[inner:-1], expected.lexical[:-1])
            emissions = share_emissions(self.unfolded, tags)
            parts = vars(fold(self.unfolded, weights, expected))
            begins, sizes = weights.state_offsets[self.unfolded.bottom], parts["states"].astype(np.int64)
            states = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
            parts["levels"] = [level[states] for level in levels]
        parts["tensors"] = _without_traces(parts["states"], parts["rules"], parts["tensors"])
        parts["levels"] = tuple(level.astype(np.int32) for level in parts["levels"] if level.any())
        return self._assemble(parts, emissions, info, probabilistic=True)

    def real_grammar(
        self,
        states: np.ndarray,
        tensors: Sequence[np.ndarray],
        root: Sequence[np.ndarray],
        words: np.ndarray,
        means: Sequence[np.ndarray],
        info: Mapping[str, Any],
    ) -> TensorGrammar:
        """Return a real-valued grammar from weights over the symbols and rules of `trees.corpus`.

        Parameters
        ----------
        states
            `(symbols,)` int32.
        tensors, root
            By rule and by symbol.
        words
            Sums of outside vectors over the leaves of each pair of preterminal and word, one behind the other.
        means
            By symbol, the mean inside vector.
        """
        corpus = self.corpus
        parts: dict[str, Any]
        if self.unfolded is None:
            emissions = self.lexical.emissions(states[corpus.n_interminals :], words, real=True)
            counts = corpus.symbol_counts()
            parts = {
                "states": states,
                "rules": corpus.rules,
                "tensors": np.concatenate([tensor.ravel() for tensor in tensors] or [np.zeros(0)]),
                "rule_counts": corpus.rule_counts().astype(float),
                "root": np.concatenate(root),
                "occupancy": np.concatenate([count * mean for count, mean in zip(counts, means, strict=True)]),
            }
        else:
            inner = self.unfolded.corpus.n_interminals
            tags = self.lexical.emissions(states[inner:-1], words[:-1], real=True)
            emissions = share_emissions(self.unfolded, tags)
            parts = vars(fold_weights(self.unfolded, states, tensors, root, means))
        parts["tensors"] = parts["tensors"].astype(np.float32)
        # States come by falling singular value: the first few are a grammar of their own.
        sizes = parts["states"].astype(np.int64)
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        parts["levels"] = (np.where(within < _FIRST, within, -1).astype(np.int32),)
        return self._assemble(parts, emissions, info, probabilistic=False)

    def _assemble(
        self, parts: Mapping[str, Any], emissions: Emissions, info: Mapping[str, Any], *, probabilistic: bool
    ) -> TensorGrammar:
        corpus = self.corpus
        return TensorGrammar(
            symbols=corpus.symbols,
            n_interminals=corpus.n_interminals,
            emissions=emissions,
            probabilistic=probabilistic,
            normaliser=corpus.normaliser,
            transform=corpus.transform,
            info={
                **info,
                "training": {"trees": corpus.n_trees, "words": corpus.n_words, "digest": corpus.digest()},
                "lexical": asdict(self.lexical.settings),
                "tokeniser": corpus.tokeniser_style(),
            },
            **parts,
        ).validate(tolerance=1e-4)


def _without_traces(states: np.ndarray, rules: np.ndarray, tensors: np.ndarray) -> np.ndarray:
    """Return normalised rule weights without those that hardly ever count: nearly all of them, as EM leaves them."""
    offsets, kept = offsets_of(states), tensors.copy()
    sizes = states[rules].astype(np.int64)
    kernels.drop_small(
        sizes, offsets[rules[:, 0]], offsets_of(sizes.prod(axis=1)), _TRACE, np.zeros(int(offsets[-1])), kept
    )
    return kept


class Checkpoints:
    """Keeps the state of a training run in a file, whole or not at all, after every operation.

    Parameters
    ----------
    path
        The file.
    key
        What the run depends on (settings, data): a checkpoint of another run is refused.
    """

    def __init__(self, path: str | Path, key: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._key = content_digest({}, key)

    @classmethod
    def of_run(
        cls, path: str | Path, method: str, settings: Mapping[str, Any], corpus: Corpus, evaluate: Evaluate | None
    ) -> Checkpoints:
        """Return the checkpoints of a learner's run on a corpus.

        Held-out data count as the same if `evaluate` has the same `digest`; a function without one is like any other.
        """
        dev = evaluate is not None and getattr(evaluate, "digest", True)
        return cls(path, {**settings, "method": method, "corpus": corpus.digest(), "dev": dev})

    def save(self, state: TrainingState) -> None:
        """Write the state."""
        arrays = {name: getattr(state.weights, name) for name in _PARTS}
        if state.best is not None:
            arrays.update({f"best.{name}": getattr(state.best, name) for name in _PARTS})
        for prefix, levels in (("level", state.levels), ("best.level", state.best_levels)):
            arrays.update({f"{prefix}.{number}": level for number, level in enumerate(levels)})
        arrays["figures"] = np.array([state.log_likelihood, state.score, state.start_score])
        metadata = {
            "key": self._key, "done": state.done, "step": state.step, "worse": state.worse,
            "measured": state.measured,
        }  # fmt: skip
        write_arrays(self.path, arrays, metadata, kind="checkpoint", version=_FORMAT)

    def load(self, layout: LatentWeights) -> TrainingState | None:
        """Return the saved state, None if there is none; `layout` says which symbols and rules it is about."""
        if not self.path.exists():
            return None
        try:
            arrays, metadata = read_arrays(self.path, kind="checkpoint", version=_FORMAT)
        except ModelError as error:
            raise ModelError(f"{error} (or remove this checkpoint to start anew)") from error
        if metadata.get("key") != self._key:
            raise UsageError(
                f"{self.path}: the checkpoint of a training run with other settings or trees; "
                "give the same ones again, or remove it to start anew"
            )
        try:
            best = _weights(layout, arrays, "best.") if "best.states" in arrays else None
            return TrainingState(
                weights=_weights(layout, arrays, ""),
                done=metadata["done"],
                step=metadata["step"],
                log_likelihood=float(arrays["figures"][0]),
                score=float(arrays["figures"][1]),
                start_score=float(arrays["figures"][2]),
                best=best,
                best_levels=_levels(arrays, "best.level"),
                worse=metadata["worse"],
                measured=metadata["measured"],
                levels=_levels(arrays, "level"),
            )
        except (KeyError, TypeError) as error:
            raise ModelError(f"{self.path}: not a complete checkpoint: {error}; remove it to start anew") from error

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def _weights(layout: LatentWeights, arrays: Mapping[str, np.ndarray], prefix: str) -> LatentWeights:
    parts: dict[str, Any] = {name: arrays[prefix + name] for name in _PARTS}
    return replace(layout, **parts)


def _levels(arrays: Mapping[str, np.ndarray], prefix: str) -> tuple[np.ndarray, ...]:
    count = sum(name.startswith(f"{prefix}.") for name in arrays)
    return tuple(arrays[f"{prefix}.{number}"] for number in range(count))


def run_operations(
    operations: Sequence[Operation],
    state: TrainingState,
    *,
    progress: Progress | None = None,
    log: Log | None = None,
    checkpoints: Checkpoints | None = None,
) -> TrainingState:
    """Apply the operations that are not done yet; returns the last state.

    After each one the state is saved and, if it was an EM iteration, noted in the log.
    """
    log, progress = log or NoLog(), progress or Silent()
    whole = sum(operation.cost for operation in operations) or 1.0
    # Costs are in percent, so that the time left is right although later iterations take longer.
    with progress.stage("learning", total=100, unit="%") as stage:
        _advance(stage, 100 * sum(operation.cost for operation in operations[: state.done]) / whole, state, {})
        for operation in operations[state.done :]:
            before, after = state, operation.apply(state)
            state = replace(after, done=before.done + 1)
            if state.step > before.step:
                figures = {"log_likelihood": state.log_likelihood, "states": int(state.weights.states.sum())}
                log.write("iteration", step=state.step, **operation.labels, **figures)
            # Logged first: lines behind the checkpoint are dropped at resuming, lines before it would be missing.
            if checkpoints is not None and after is not before:
                checkpoints.save(state)
            _advance(stage, 100 * operation.cost / whole, state, operation.labels)
    return state


def _advance(stage: Stage, percent: float, state: TrainingState, labels: Mapping[str, Any]) -> None:
    figures: dict[str, object] = {name: labels[name] for name in ("cycle", "phase", "iteration") if name in labels}
    if np.isfinite(state.log_likelihood):
        figures["logL"] = f"{state.log_likelihood:.6g}"
    figures["states"] = int(state.weights.states.sum())
    if np.isfinite(state.score):
        figures["best"] = f"{state.score:.6g}"
    stage.step(round(percent, 2), **figures)  # type: ignore[arg-type]


def evaluated(
    state: TrainingState, grammar: TensorGrammar, evaluate: Evaluate, log: Log, labels: Mapping[str, Any]
) -> tuple[TrainingState, Mapping[str, float]]:
    """Evaluate the state's grammar and note its figures."""
    figures = evaluate(grammar)
    log.write("dev", step=state.step, **labels, **figures)
    return replace(state, measured=state.step), figures


def figure_of(figures: Mapping[str, float], name: str) -> float:
    """Return the figure that a run goes by."""
    if name not in figures:
        raise UsageError(f"evaluate must give {name!r}; it gives {', '.join(figures) or 'nothing'}")
    return figures[name]


def keep_better(state: TrainingState, score: float) -> TrainingState:
    """Return the state with its weights kept if the score is the best so far."""
    worse = 0 if score > state.start_score else state.worse + 1
    state = replace(state, worse=worse, start_score=max(score, state.start_score))
    if score > state.score:
        return replace(state, score=score, best=state.weights, best_levels=state.levels)
    return state
