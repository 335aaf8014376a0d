"""The loop that EM and split-merge share: operations one after the other, each noted, saved and resumable.

A training run is a list of *operations* fixed in advance. Each takes a `TrainingState` to the next and depends on
nothing else but the corpus and the settings (randomness comes from the seed and the operation's own number), so a run
that is resumed from any state ends in the same grammar, bit for bit.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import GrammarError, ModelError, UsageError
from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar, weights_of
from sapwood.learn.latent import LatentWeights
from sapwood.learn.problem import LatentProblem
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log
from sapwood.run.progress import Progress, Stage
from sapwood.schema import Column, Schema
from sapwood.shapes import Array, Int
from sapwood.storage import pack_strings, unpack_strings
from sapwood.trees.corpus import Corpus

# What a checkpoint has of the weights and of the state.
_VALUES = ("tensors", "root", "lexical")
_PARTS = ("states", *_VALUES)
_COUNTS = ("done", "step", "worse", "measured")
_FIGURES = ("log_likelihood", "score", "start_score")


class _Metadata(TypedDict):
    key: str
    done: int
    step: int
    worse: int
    measured: int


def _columns(prefix: str) -> tuple[Column, ...]:
    """Return the columns of weights and their levels: the present ones, or the best if there are any."""
    along, states = prefix and f"{prefix}states", f"{prefix}states".replace(".", "_")
    return (
        Column(f"{prefix}states", "int32", "symbols", least=1, total=states, along=along),
        Column(f"{prefix}tensors", "float", f"{prefix}weights".replace(".", "_"), least=0, along=along),
        Column(f"{prefix}root", "float", states, least=0, along=along),
        Column(f"{prefix}lexical", "float", f"{prefix}classes".replace(".", "_"), least=0, along=along),
        Column(f"{prefix}level.*", "int64", states, least=0),
    )


CHECKPOINT = Schema(
    kind="checkpoint",
    version=1,
    title="checkpoint",
    remedy="copy it again",
    columns=(
        *_columns(""),
        *_columns("best."),
        Column("figures", "float64", str(len(_FIGURES)), unchecked=True),
        Column("anchors", "text", "anchors", along="anchors"),
    ),
    metadata=_Metadata,
)


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
        For each level of coarser states the coarser state that each state came from.
    anchors
        For each state the inside feature that it was found by, and behind it the outside one; nothing where states are
        not found by features.
    grammar, best_grammar
        What the weights stand for, and the best ones, if it was built already; not kept in checkpoints.
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

    def moved(self, weights: LatentWeights, **changes: Any) -> TrainingState:
        """Return the state with other weights, whose grammar is not built yet."""
        return replace(self, weights=weights, grammar=None, **changes)

    def iterated(self, weights: LatentWeights, log_likelihood: float) -> TrainingState:
        """Return the state one EM iteration later."""
        return self.moved(weights, step=self.step + 1, log_likelihood=log_likelihood)


@dataclass(frozen=True)
class Operation:
    """One step of a training run: what to do, what it costs beside the others, and what to call it."""

    apply: Callable[[TrainingState], TrainingState]
    cost: float = 0.0
    labels: Mapping[str, Any] = field(default_factory=dict)


class Checkpoints:
    """Keeps the state of a training run in a file, now and then and as a run ends.

    Parameters
    ----------
    path
        The file.
    key
        What the run depends on.
    """

    def __init__(self, path: str | Path, key: Mapping[str, Any]) -> None:
        self._file = Checkpoint(path, key, CHECKPOINT, data="trees")
        self._waiting: TrainingState | None = None

    @classmethod
    def of_run(
        cls, path: str | Path, method: str, settings: Mapping[str, Any], corpus: Corpus, evaluate: Evaluate | None
    ) -> Checkpoints:
        """Return the checkpoints of a learner's run on a corpus."""
        return cls(path, key_of_run(method, settings, corpus, evaluate))

    def keep(self, state: TrainingState) -> None:
        """Write the state if it is time, else remember it."""
        self._waiting = state
        if self._file.is_due:
            self.close()

    def close(self) -> None:
        """Write the last state if it is not written yet."""
        if self._waiting is not None:
            self._save(self._waiting)
            self._waiting = None

    def _save(self, state: TrainingState) -> None:
        arrays = {name: getattr(state.weights, name) for name in _PARTS}
        if state.best is not None:
            arrays.update({f"best.{name}": getattr(state.best, name) for name in _PARTS})
        for prefix, levels in (("level", state.levels), ("best.level", state.best_levels)):
            arrays.update({f"{prefix}.{number}": level for number, level in enumerate(levels)})
        if state.anchors:
            arrays["anchors"] = pack_strings(state.anchors)
        arrays["figures"] = np.array([getattr(state, name) for name in _FIGURES])
        self._file.save(arrays, {name: getattr(state, name) for name in _COUNTS})

    def load(self, problem: LatentProblem) -> TrainingState | None:
        """Return the saved state, None if there is none; the problem says which symbols and rules it is about."""
        if (saved := self._file.load()) is None:
            return None
        arrays, metadata = saved
        numbers: dict[str, Any] = {name: metadata[name] for name in _COUNTS}
        numbers.update(zip(_FIGURES, arrays["figures"].tolist(), strict=True))
        return TrainingState(
            weights=self._weights(problem, arrays, ""),
            best=self._weights(problem, arrays, "best.") if "best.states" in arrays else None,
            best_levels=_levels(arrays, "best.level"),
            levels=_levels(arrays, "level"),
            anchors=tuple(unpack_strings(arrays["anchors"])) if "anchors" in arrays else (),
            **numbers,
        )

    def _weights(self, problem: LatentProblem, arrays: Mapping[str, np.ndarray], prefix: str) -> LatentWeights:
        parts: dict[str, Any] = {name: arrays[prefix + name] for name in _PARTS}
        layout, states = problem.trees.one_state(), parts["states"]
        fits = (
            len(states) == len(layout.states)
            and bool((states[~problem.splittable()] == 1).all())
            and len(parts["tensors"]) == weights_of(states, layout.rules)
            and len(parts["lexical"]) == int(states[problem.trees.pair_symbol].sum(dtype=np.int64))
        )
        if not fits:
            raise ModelError(f"{self._file.path}: {prefix}states: does not fit the trees; remove it to start anew")
        return replace(layout, **parts)


def key_of_run(method: str, settings: Mapping[str, Any], corpus: Corpus, evaluate: Evaluate | None) -> dict[str, Any]:
    """Return what a learner's run on a corpus depends on.

    Held-out data count as the same if `evaluate` has the same `digest`; a function without one is like any other.
    """
    dev = evaluate is not None and getattr(evaluate, "digest", True)
    return {**settings, "method": method, "corpus": corpus.digest(), "dev": dev}


def _levels(arrays: Mapping[str, np.ndarray], prefix: str) -> tuple[np.ndarray, ...]:
    count = sum(name.startswith(f"{prefix}.") for name in arrays)
    return tuple(arrays[f"{prefix}.{number}"] for number in range(count))


def run_operations(
    operations: Sequence[Operation],
    state: TrainingState,
    progress: Progress,
    log: Log,
    checkpoints: Checkpoints | None = None,
) -> TrainingState:
    """Apply the operations that are not done yet; returns the last state.

    After each one the state is handed to the checkpoints and, if it was an EM iteration, noted in the log.
    """
    whole = sum(operation.cost for operation in operations) or 1.0
    # Costs are in percent, so that the time left is right although later iterations take longer.
    # Whatever ends the run, the state it ends in is kept: only what kills the process loses some seconds.
    with (
        progress.stage("learning", total=100, unit="%") as stage,
        contextlib.ExitStack() if checkpoints is None else contextlib.closing(checkpoints),
    ):
        _advance(stage, 100 * sum(operation.cost for operation in operations[: state.done]) / whole, state, {})
        for operation in operations[state.done :]:
            after = operation.apply(state)
            iterated, changed = after.step > state.step, after is not state
            state = replace(after, done=state.done + 1)  # the one before goes: its weights are large
            # (Sums show what is no number, and need no table of what is.)
            if not all(math.isfinite(np.sum(getattr(state.weights, name), dtype=np.float64)) for name in _VALUES):
                raise GrammarError("training came to weights that are no numbers; less extreme settings may help")
            if iterated:
                figures = {"log_likelihood": state.log_likelihood, "states": int(state.weights.states.sum())}
                log.write("iteration", step=state.step, **operation.labels, **figures)
            # Logged first: lines behind the checkpoint are dropped at resuming, lines before it would be missing.
            if checkpoints is not None and changed:
                checkpoints.keep(state)
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


def figure_of(figures: Mapping[str, float], name: str, dev: Evaluate | None = None) -> float:
    """Return the figure that a run goes by; held-out data may have another goal than F1."""
    if name == "f1":
        name = getattr(dev, "goal", name)
    if name not in figures:
        raise UsageError(f"dev must give {name!r}; it gives {', '.join(figures) or 'nothing'}")
    return figures[name]


def keep_better(state: TrainingState, score: float) -> TrainingState:
    """Return the state with its weights kept if the score is the best so far."""
    worse = 0 if score > state.start_score else state.worse + 1
    state = replace(state, worse=worse, start_score=max(score, state.start_score))
    if score > state.score:
        return replace(state, score=score, best=state.weights, best_levels=state.levels, best_grammar=state.grammar)
    return state
