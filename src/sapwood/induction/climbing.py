"""EM for models of sentences without trees: from short sentences to long ones, from several starts, resumable.

Sentences are taken up to a first length, then up to the next, and so on: short ones say more about structure than long
ones, of which there are too many trees (Spitkovsky, Alshawi and Jurafsky 2010). Of several starts the one with the best
objective (`sapwood.induction.problem`) is kept. A state depends on nothing but the text and the settings, so a run that
goes on from a checkpoint ends in the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import GrammarError, ModelError
from sapwood.induction.problem import Counts, Problem, When
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.schema import Column, Schema

# By what part of itself rounding may make the objective fall.
_ROUNDING = 1e-9
_NUMBERS = ("start", "stage", "iteration", "step")
_FIGURES = ("objective", "best_objective", "log_likelihood")


class _Metadata(TypedDict):
    key: str
    start: int
    stage: int
    iteration: int
    step: int


CHECKPOINT = Schema(
    kind="induction-checkpoint",
    version=1,
    title="checkpoint",
    remedy="copy it again",
    columns=(
        Column("counts", "float64", "counts", least=0),
        Column("best", "float64", "best_counts", least=0),
        Column("figures", "float64", str(len(_FIGURES)), unchecked=True),
    ),
    metadata=_Metadata,
)


@dataclass(frozen=True, eq=False)
class State:
    """Where a run stands.

    Attributes
    ----------
    counts
        The counts.
    start, stage, iteration
        Which start, which length, and how many iterations of it are done.
    step
        All iterations that are done.
    objective, log_likelihood
        Of the counts before the last iteration of this stage.
    best, best_objective
        The counts that the best start so far has ended with, and its last objective.
    """

    counts: Counts
    start: int = 0
    stage: int = 0
    iteration: int = 0
    step: int = 0
    objective: float = -np.inf
    log_likelihood: float = np.nan
    best: Counts | None = None
    best_objective: float = -np.inf


@dataclass(frozen=True, eq=False)
class Climbed:
    """Where EM ended.

    Attributes
    ----------
    counts
        The expected counts of the best start.
    objectives
        For each start and stage, the objective before each iteration that this call has made.
    steps
        How many iterations were made in all.
    log_likelihood
        Of the last state that was measured.
    """

    counts: Counts
    objectives: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    steps: int = 0
    log_likelihood: float = np.nan


@dataclass(frozen=True)
class Schedule:
    """How long EM goes on.

    Parameters
    ----------
    iterations
        The most iterations of a stage.
    tolerance
        A stage ends when an iteration gains less than this for each word.
    restarts
        How many starts.
    random_state
        The seed of all starts.
    """

    iterations: int = 30
    tolerance: float = 1e-4
    restarts: int = 1
    random_state: int = 0


def climb(
    problem: Problem,
    schedule: Schedule,
    *,
    key: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
    checkpoint: str | Path | None = None,
    name: str = "learning",
) -> Climbed:
    """Run EM from each start, through all stages.

    Parameters
    ----------
    problem
        The model and the text.
    schedule
        How long.
    key
        What the run depends on, for the checkpoint.
    progress, log
        What to report to.
    checkpoint
        A file to keep the state in; if it is there, the run goes on from it.
    name
        What the progress bar is called.
    """
    log = log or NoLog()
    kept = None if checkpoint is None else _Checkpoints(checkpoint, key or {}, problem)
    state = None if kept is None else kept.load(schedule)
    if state is None:
        state = State(_begun(problem, schedule, 0))
    costs = [problem.steps(stage) for stage in range(len(problem.lengths))]
    whole = schedule.restarts * sum(costs) * schedule.iterations
    objectives: dict[tuple[int, int], list[float]] = {}
    last = state.log_likelihood
    with (
        (progress or Silent()).stage(name, 100, "%") as stage,
        contextlib.ExitStack() if kept is None else contextlib.closing(kept),
    ):
        done = state.start * sum(costs) + sum(costs[: state.stage])
        stage.step(round(100 * (done * schedule.iterations + state.iteration * costs[state.stage]) / whole, 3))  # type: ignore[arg-type]
        while state.start < schedule.restarts:
            before = state
            when = When(state.start, state.stage, state.iteration + _earlier(state, schedule))
            state = _advance(problem, state, when)
            objectives.setdefault((before.start, before.stage), []).append(state.objective)
            length, last = problem.lengths[before.stage], state.log_likelihood
            figures = {"objective": state.objective, "log_likelihood": state.log_likelihood}
            log.write(
                "iteration", step=state.step, cycle=before.start, phase=f"{length} words", iteration=state.iteration,
                **figures,
            )  # fmt: skip
            gained = state.objective - before.objective
            words = max(len(problem.sentences(before.stage).word), 1)
            settled = problem.settled(when._replace(iteration=when.iteration - 1)) and problem.settled(when)
            over = state.iteration >= schedule.iterations or (settled and gained < schedule.tolerance * words)
            skipped = schedule.iterations - state.iteration if over else 0
            if over:
                state = _next_stage(problem, schedule, state)
            if kept is not None:
                kept.keep(state)
            amount = round(100 * (1 + skipped) * costs[before.stage] / whole, 3)
            shown = {"words": length, "iteration": before.iteration + 1, "logL": f"{last:.6g}"}
            stage.step(amount, **shown)  # type: ignore[arg-type]
    assert state.best is not None
    return Climbed(state.best, objectives, state.step, last)


def _earlier(state: State, schedule: Schedule) -> int:
    """Return how many iterations the stages before this one have had, at most."""
    return state.stage * schedule.iterations


def _begun(problem: Problem, schedule: Schedule, start: int) -> Counts:
    counts = problem.begin(np.random.default_rng([schedule.random_state, start]))
    assert all(counts[one.name].shape == one.shape for one in problem.families)
    return counts


def _advance(problem: Problem, state: State, when: When) -> State:
    """Return the state one iteration later."""
    value, objective, new = problem.advanced(state.counts, when)
    if not np.isfinite(objective):
        raise GrammarError("a sentence has no probability under the model; a larger prior may help")
    step = replace(state, iteration=state.iteration + 1, step=state.step + 1, log_likelihood=value, objective=objective)
    if problem.exact:
        return replace(step, counts=new)
    # The step may be too long: halve it while the objective would fall.
    size = 1.0
    while size > 1e-3:
        moved = {name: (1 - size) * array + size * new[name] for name, array in state.counts.items()}
        if problem.advanced(moved, when)[1] >= objective - _ROUNDING * abs(objective):
            return replace(step, counts=moved)
        size /= 2
    return step


def _next_stage(problem: Problem, schedule: Schedule, state: State) -> State:
    """Return the state at the beginning of the next length, or of the next start."""
    if state.stage + 1 < len(problem.lengths):
        return replace(state, stage=state.stage + 1, iteration=0, objective=-np.inf)
    if state.best is None or state.objective > state.best_objective:
        state = replace(state, best=state.counts, best_objective=state.objective)
    start = state.start + 1
    counts = _begun(problem, schedule, start) if start < schedule.restarts else state.counts
    return replace(state, counts=counts, start=start, stage=0, iteration=0, objective=-np.inf)


class _Checkpoints:
    """The state of a run in a file, now and then and as it ends."""

    def __init__(self, path: str | Path, key: Mapping[str, Any], problem: Problem) -> None:
        self._file = Checkpoint(path, key, CHECKPOINT, data="text")
        self._families, self._stages = problem.families, len(problem.lengths)
        self._waiting: State | None = None

    def keep(self, state: State) -> None:
        self._waiting = state
        if self._file.is_due:
            self.close()

    def close(self) -> None:
        if self._waiting is None:
            return
        state, self._waiting = self._waiting, None
        arrays = {
            "counts": self._flat(state.counts),
            "best": np.zeros(0) if state.best is None else self._flat(state.best),
            "figures": np.array([getattr(state, name) for name in _FIGURES]),
        }
        self._file.save(arrays, {name: getattr(state, name) for name in _NUMBERS})

    def load(self, schedule: Schedule) -> State | None:
        if (saved := self._file.load()) is None:
            return None
        arrays, metadata = saved
        figures = dict(zip(_FIGURES, arrays["figures"].tolist(), strict=True))
        best = self._whole(arrays["best"]) if len(arrays["best"]) else None
        numbers = {name: metadata[name] for name in _NUMBERS}
        possible = (
            numbers["start"] <= schedule.restarts
            and numbers["stage"] < self._stages
            and numbers["iteration"] < schedule.iterations
            and (best is not None) == (numbers["start"] > 0)
        )
        if not possible:
            raise ModelError(f"{self._file.path}: start, stage, iteration: no run comes there; remove it to start anew")
        return State(self._whole(arrays["counts"]), best=best, **numbers, **figures)

    def _flat(self, counts: Counts) -> np.ndarray:
        return np.concatenate([counts[one.name].ravel() for one in self._families])

    def _whole(self, flat: np.ndarray) -> Counts:
        sizes = [int(np.prod(one.shape)) for one in self._families]
        if sum(sizes) != len(flat):
            raise ModelError(f"{self._file.path}: counts: do not fit the text; remove it to start anew")
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        return {one.name: part.reshape(one.shape) for one, part in zip(self._families, parts, strict=True)}
