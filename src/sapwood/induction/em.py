"""EM for models of sentences without trees: length curriculum, restarts, checkpoints.

Training starts with short sentences and raises the maximum length in stages: short sentences are more informative about
structure than long ones, which have too many trees (Spitkovsky, Alshawi and Jurafsky 2010). The start with the best
objective (`sapwood.induction.em_model`) is kept. A state depends only on the text and the settings, so a run resumed
from a checkpoint ends in the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from sapwood.errors import GrammarError, ModelError
from sapwood.induction.em_model import Counts, EMModel, Iteration
from sapwood.numerics.convergence import ConvergenceMonitor, halved_steps
from sapwood.runtime.checkpoint import Checkpoint, Content, checkpoint_schema
from sapwood.runtime.context import RunContext, RunOptions
from sapwood.storage.arrays import Arrays
from sapwood.storage.schema import Column

# Relative decrease of the objective that rounding may cause.
_ROUNDING = 1e-9
# Number of times that a step is halved.
_HALVINGS = 9
_NUMBERS = ("start", "stage", "iteration", "step")
_FIGURES = ("objective", "best_objective", "log_likelihood")


CHECKPOINT = checkpoint_schema(
    "induction-checkpoint",
    Column("counts", "float64", "counts", least=0),
    Column("best", "float64", "best_counts", least=0),
    Column("figures", "float64", str(len(_FIGURES)), unchecked=True),
    metadata=dict.fromkeys(_NUMBERS, int),
)


@dataclass(frozen=True, eq=False)
class EMState(ConvergenceMonitor):
    """State of a run; `iteration` and `objective` are those of a stage.

    Attributes
    ----------
    counts
        The counts.
    start, stage
        Current start and stage.
    step
        Number of all iterations done.
    log_likelihood
        Log-likelihood of the counts before the last iteration.
    best, best_objective
        Final counts of the best start so far, and its last objective.
    """

    counts: Counts
    start: int = 0
    stage: int = 0
    step: int = 0
    log_likelihood: float = np.nan
    best: Counts | None = None
    best_objective: float = -np.inf


@dataclass(frozen=True, eq=False)
class EMRun:
    """Result of EM.

    Attributes
    ----------
    counts
        The expected counts of the best start.
    objectives
        For each start and stage, the objective before each iteration that this call has made.
    steps
        Number of all iterations.
    log_likelihood
        Value for the last state that was measured.
    """

    counts: Counts
    objectives: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    steps: int = 0
    log_likelihood: float = np.nan


@dataclass(frozen=True)
class Schedule:
    """Stopping criteria and restarts of EM.

    Parameters
    ----------
    iterations
        Maximum number of iterations of a stage.
    tolerance
        A stage ends when an iteration gains no more than this per word.
    restarts
        Number of starts.
    random_state
        The seed of all starts.
    """

    iterations: int = 30
    tolerance: float = 1e-4
    restarts: int = 1
    random_state: int = 0


def run_em(
    problem: EMModel,
    schedule: Schedule,
    *,
    key: Mapping[str, Any] | None = None,
    name: str = "learning",
    **options: Unpack[RunOptions],
) -> EMRun:
    """Run EM from each start, through all stages.

    Parameters
    ----------
    problem
        The model and the text.
    schedule
        Stopping criteria and restarts.
    key
        Everything that the run depends on, for the checkpoint.
    name
        Title of the progress bar.
    options
        `progress`, `log` and `checkpoint`, as for `RunContext`. If the checkpoint exists, the run resumes from it.
    """
    run = RunContext.of(**options)
    to_arrays, from_arrays = partial(_to_arrays, problem), partial(_from_arrays, problem, schedule)
    kept = Checkpoint(run.checkpoint, key or {}, CHECKPOINT, data="text", to_arrays=to_arrays, from_arrays=from_arrays)
    state = kept.load() or EMState(_begun(problem, schedule, 0))
    costs = [problem.steps(stage) for stage in range(len(problem.lengths))]
    whole = schedule.restarts * sum(costs) * schedule.iterations
    objectives: dict[tuple[int, int], list[float]] = {}
    last = state.log_likelihood
    with run.progress.stage(name, 100, "%") as stage, kept:
        done = state.start * sum(costs) + sum(costs[: state.stage])
        stage.step(round(100 * (done * schedule.iterations + state.iteration * costs[state.stage]) / whole, 3))  # type: ignore[arg-type]
        while state.start < schedule.restarts:
            before = state
            when = Iteration(state.start, state.stage, state.iteration + state.stage * schedule.iterations)
            state = _advance(problem, state, when)
            objectives.setdefault((before.start, before.stage), []).append(state.objective)
            length, last = problem.lengths[before.stage], state.log_likelihood
            run.log.write(
                "iteration", step=state.step, cycle=before.start, phase=f"{length} words", iteration=state.iteration,
                objective=state.objective, log_likelihood=last,
            )  # fmt: skip
            words = max(len(problem.sentences(before.stage).word), 1)
            settled = problem.is_final(when._replace(iteration=when.iteration - 1)) and problem.is_final(when)
            converged = settled and state.has_converged(schedule.tolerance * words)
            over = converged or state.iteration >= schedule.iterations
            skipped = schedule.iterations - state.iteration if over else 0
            if over:
                state = _next_stage(problem, schedule, state)
            kept.keep(state)
            amount = round(100 * (1 + skipped) * costs[before.stage] / whole, 3)
            shown = {"words": length, "iteration": before.iteration + 1, "logL": f"{last:.6g}"}
            stage.step(amount, **shown)  # type: ignore[arg-type]
    assert state.best is not None
    return EMRun(state.best, objectives, state.step, last)


def _begun(problem: EMModel, schedule: Schedule, start: int) -> Counts:
    counts = problem.begin(np.random.default_rng([schedule.random_state, start]))
    assert all(counts[one.name].shape == one.shape for one in problem.families)
    return counts


def _advance(problem: EMModel, state: EMState, when: Iteration) -> EMState:
    """Return the state one iteration later."""
    value, objective, new = problem.em_step(state.counts, when)
    if not np.isfinite(objective):
        raise GrammarError("a sentence has no probability under the model; a larger prior may help")
    step = state.after(objective, step=state.step + 1, log_likelihood=value)
    if problem.exact:
        return replace(step, counts=new)
    # The step may be too long: halve it while the objective would fall.
    for moved in halved_steps(state.counts, new, _HALVINGS):
        if problem.em_step(moved, when)[1] >= objective - _ROUNDING * abs(objective):
            return replace(step, counts=moved)
    return step


def _next_stage(problem: EMModel, schedule: Schedule, state: EMState) -> EMState:
    """Return the state at the beginning of the next stage or start."""
    if state.stage + 1 < len(problem.lengths):
        return replace(state, stage=state.stage + 1, iteration=0, objective=-np.inf)
    if state.best is None or state.objective > state.best_objective:
        state = replace(state, best=state.counts, best_objective=state.objective)
    start = state.start + 1
    counts = _begun(problem, schedule, start) if start < schedule.restarts else state.counts
    return replace(state, counts=counts, start=start, stage=0, iteration=0, objective=-np.inf)


def _to_arrays(problem: EMModel, state: EMState) -> Content:
    def flat(counts: Counts) -> np.ndarray:
        return np.concatenate([counts[one.name].ravel() for one in problem.families])

    arrays = {
        "counts": flat(state.counts),
        "best": np.zeros(0) if state.best is None else flat(state.best),
        "figures": np.array([getattr(state, name) for name in _FIGURES]),
    }
    return arrays, {name: getattr(state, name) for name in _NUMBERS}


def _from_arrays(problem: EMModel, schedule: Schedule, arrays: Arrays, numbers: dict[str, Any]) -> EMState:
    sizes = [int(np.prod(one.shape)) for one in problem.families]

    def whole(flat: np.ndarray) -> Counts:
        if sum(sizes) != len(flat):
            raise ModelError("counts: do not fit the text")
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        return {one.name: part.reshape(one.shape) for one, part in zip(problem.families, parts, strict=True)}

    figures = dict(zip(_FIGURES, arrays["figures"].tolist(), strict=True))
    best = whole(arrays["best"]) if len(arrays["best"]) else None
    possible = (
        numbers["start"] <= schedule.restarts
        and numbers["stage"] < len(problem.lengths)
        and numbers["iteration"] < schedule.iterations
        and (best is not None) == (numbers["start"] > 0)
    )
    if not possible:
        raise ModelError("start, stage, iteration: no run comes there")
    return EMState(whole(arrays["counts"]), best=best, **numbers, **figures)
