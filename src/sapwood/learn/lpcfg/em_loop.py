"""Training loop of EM and split-merge: a sequence of operations, logged, checkpointed and resumable.

A training run is a list of *operations* fixed in advance. Each maps a `TrainingState` to the next and depends only on
that state, the corpus and the settings (randomness comes from the seed and the index of the operation), so a run that
is resumed from any state ends in the same grammar, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import GrammarError, ModelError, UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar, weights_of
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import LatentWeights
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.runtime.context import RunContext
from sapwood.runtime.progress import Stage
from sapwood.storage.arrays import Arrays, pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int
from sapwood.trees.corpus import Corpus

# Fields of the weights and of the state that a checkpoint holds.
_VALUES = ("tensors", "root", "lexical")
_PARTS = ("states", *_VALUES)
_COUNTS = ("done", "step", "worse", "measured")
_FIGURES = ("log_likelihood", "score", "start_score")


def _columns(prefix: str) -> tuple[Column, ...]:
    """Return the columns of weights and their levels: the current ones, or the best if any."""
    along, states = prefix and f"{prefix}states", f"{prefix}states".replace(".", "_")
    return (
        Column(f"{prefix}states", "int32", "symbols", least=1, total=states, along=along),
        Column(f"{prefix}tensors", "float", f"{prefix}weights".replace(".", "_"), least=0, along=along),
        Column(f"{prefix}root", "float", states, least=0, along=along),
        Column(f"{prefix}lexical", "float", f"{prefix}classes".replace(".", "_"), least=0, along=along),
        Column(f"{prefix}level.*", "int64", states, least=0),
    )


CHECKPOINT = checkpoint_schema(
    "checkpoint",
    *_columns(""),
    *_columns("best."),
    Column("figures", "float64", str(len(_FIGURES)), unchecked=True),
    Column("anchors", "text", "anchors", along="anchors"),
    metadata=dict.fromkeys(_COUNTS, int),
)


@dataclass(frozen=True, eq=False)
class TrainingState:
    """State of a training run.

    Attributes
    ----------
    weights
        Current weights.
    done
        Completed operations.
    step
        Completed EM iterations.
    log_likelihood
        Log-likelihood of the weights before the last iteration, where it was computed.
    score, best
        Best value of the selection criterion, and its weights (None: not evaluated yet).
    start_score, worse
        Best value since the last (random) start, and the number of evaluations since then without improvement.
    measured
        Step of the last evaluation.
    levels
        For each coarser level, the coarse state from which each state was split.
    anchors
        For each state, its inside anchor feature and then its outside one; empty unless states were found by anchors.
    grammar, best_grammar
        Grammars of the current and the best weights, if already built; not saved in checkpoints.
    """

    weights: LatentWeights
    done: int = 0
    step: int = 0
    log_likelihood: float = float("nan")
    score: float = float("-inf")
    best: LatentWeights | None = None
    best_levels: tuple[Int[Array, "best_states"], ...] = ()
    start_score: float = float("-inf")
    worse: int = 0
    measured: int = 0
    levels: tuple[Int[Array, "all_states"], ...] = ()
    anchors: tuple[str, ...] = ()
    grammar: TensorGrammar | None = field(default=None, repr=False)
    best_grammar: TensorGrammar | None = field(default=None, repr=False)

    def with_weights(self, weights: LatentWeights, **changes: Any) -> TrainingState:
        """Return the state with new weights, whose grammar is not built yet."""
        return replace(self, weights=weights, grammar=None, **changes)

    def after_iteration(self, weights: LatentWeights, log_likelihood: float) -> TrainingState:
        """Return the state after one more EM iteration."""
        return self.with_weights(weights, step=self.step + 1, log_likelihood=log_likelihood)

    def to_arrays(self) -> Content:
        """Return the content of a checkpoint."""
        arrays = {name: getattr(self.weights, name) for name in _PARTS}
        if self.best is not None:
            arrays |= {f"best.{name}": getattr(self.best, name) for name in _PARTS}
        for prefix, levels in (("level", self.levels), ("best.level", self.best_levels)):
            arrays |= {f"{prefix}.{number}": level for number, level in enumerate(levels)}
        if self.anchors:
            arrays["anchors"] = pack_strings(self.anchors)
        arrays["figures"] = np.array([getattr(self, name) for name in _FIGURES])
        return arrays, {name: getattr(self, name) for name in _COUNTS}

    @classmethod
    def from_arrays(cls, problem: LPCFGProblem, arrays: Arrays, counts: dict[str, Any]) -> TrainingState:
        """Return the state in a checkpoint; the problem defines symbols and rules."""
        return cls(
            weights=_weights(problem, arrays, ""),
            best=_weights(problem, arrays, "best.") if "best.states" in arrays else None,
            best_levels=_levels(arrays, "best.level"),
            levels=_levels(arrays, "level"),
            anchors=tuple(unpack_strings(arrays["anchors"])) if "anchors" in arrays else (),
            **dict(zip(_FIGURES, arrays["figures"].tolist(), strict=True)),
            **counts,
        )


@dataclass(frozen=True)
class TrainStep:
    """One step of a training run: a function, its relative cost, and labels for the log."""

    apply: Callable[[TrainingState], TrainingState]
    cost: float = 0.0
    labels: Mapping[str, Any] = field(default_factory=dict)


def open_checkpoint(
    path: str | Path | None, key: Mapping[str, Any], problem: LPCFGProblem
) -> Checkpoint[TrainingState]:
    """Return the checkpoint of a run; `key` is everything that it depends on."""
    return Checkpoint(
        path,
        key,
        CHECKPOINT,
        data="trees",
        to_arrays=TrainingState.to_arrays,
        from_arrays=partial(TrainingState.from_arrays, problem),
    )


def key_of_run(method: str, settings: Mapping[str, Any], corpus: Corpus, evaluate: Evaluate | None) -> dict[str, Any]:
    """Return everything that a learner's run on a corpus depends on.

    Held-out data are identified by the `digest` of `evaluate`; functions without one are not distinguished.
    """
    dev = evaluate is not None and getattr(evaluate, "digest", True)
    return {**settings, "method": method, "corpus": corpus.digest(), "dev": dev}


def _weights(problem: LPCFGProblem, arrays: Arrays, prefix: str) -> LatentWeights:
    parts: dict[str, Any] = {name: arrays[prefix + name] for name in _PARTS}
    layout, states = problem.trees.one_state(), parts["states"]
    fits = (
        len(states) == len(layout.states)
        and bool((states[~problem.splittable()] == 1).all())
        and len(parts["tensors"]) == weights_of(states, layout.rules)
        and len(parts["lexical"]) == int(states[problem.trees.pair_symbol].sum(dtype=np.int64))
    )
    if not fits:
        raise ModelError(f"{prefix}states: does not fit the trees")
    return replace(layout, **parts)


def _levels(arrays: Arrays, prefix: str) -> tuple[np.ndarray, ...]:
    count = sum(name.startswith(f"{prefix}.") for name in arrays)
    return tuple(arrays[f"{prefix}.{number}"] for number in range(count))


def run_operations(
    operations: Sequence[TrainStep],
    state: TrainingState,
    run: RunContext,
    checkpoint: Checkpoint[TrainingState],
) -> TrainingState:
    """Apply the remaining operations, and return the last state.

    After each operation the state is passed to the checkpoint; EM iterations are logged.
    """
    whole = sum(operation.cost for operation in operations) or 1.0
    # Costs are in percent, so that the ETA is right although later iterations take longer.
    with run.progress.stage("learning", total=100, unit="%") as stage, checkpoint:
        _advance(stage, 100 * sum(operation.cost for operation in operations[: state.done]) / whole, state, {})
        for operation in operations[state.done :]:
            after = operation.apply(state)
            iterated, changed = after.step > state.step, after is not state
            state = replace(after, done=state.done + 1)  # frees the previous state: its weights are large
            # The sum is not finite if any weight is not, and needs no temporary array.
            if not all(math.isfinite(np.sum(getattr(state.weights, name), dtype=np.float64)) for name in _VALUES):
                raise GrammarError("training produced weights that are not numbers; less extreme settings may help")
            if iterated:
                figures = {"log_likelihood": state.log_likelihood, "states": int(state.weights.states.sum())}
                run.log.write("iteration", step=state.step, **operation.labels, **figures)
            # Log first: on resuming, lines after the checkpoint are dropped, but missing lines could not be restored.
            if changed:
                checkpoint.keep(state)
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


def metric(figures: Mapping[str, float], name: str, dev: Evaluate | None = None) -> float:
    """Return the selection criterion of a run; held-out data may have another goal than F1."""
    if name == "f1":
        name = getattr(dev, "goal", name)
    if name not in figures:
        raise UsageError(f"dev must give {name!r}; it gives {', '.join(figures) or 'nothing'}")
    return figures[name]


def keep_better(state: TrainingState, score: float) -> TrainingState:
    """Return the state, with its weights as the best ones if the score is the highest so far."""
    worse = 0 if score > state.start_score else state.worse + 1
    state = replace(state, worse=worse, start_score=max(score, state.start_score))
    if score > state.score:
        return replace(state, score=score, best=state.weights, best_levels=state.levels, best_grammar=state.grammar)
    return state
