"""Base class of learners whose estimate is refined by EM."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sapwood.evaluate.dev_set import Evaluate
from sapwood.learn.lpcfg.em_learner import SmoothingLearner
from sapwood.learn.lpcfg.em_loop import TrainingState, TrainStep
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights
from sapwood.runtime.context import RunContext
from sapwood.runtime.params import integer
from sapwood.runtime.progress import Progress


class EMInit(NamedTuple):
    """Initialisation of EM.

    Attributes
    ----------
    layout
        The grammar's weights, without values.
    counts
        Counts to estimate them from.
    anchors
        As in `TrainingState`.
    """

    layout: LatentWeights
    counts: LatentCounts
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class EMRefined(SmoothingLearner):
    """Base class of learners whose grammar EM refines, with smoothing towards sibling states.

    Parameters
    ----------
    iterations
        EM iterations from the initial grammar.
    eval_every
        Evaluate on `dev` every N iterations; the grammar with the best `f1` is returned.
    patience
        Stop after N evaluations without improvement of `f1`; None: never.
    """

    iterations: int = integer(0, "EM iterations after the initial estimate.")
    eval_every: int = integer(1, "Evaluate on --dev every N EM iterations.", low=1)
    patience: int | None = integer(None, "Stop after N evaluations on --dev without improvement.", low=1, optional=True)

    @abstractmethod
    def _counts(self, problem: LPCFGProblem, progress: Progress, layout: LatentWeights) -> EMInit:
        """Return the initial counts; `layout` is that of one state per symbol."""

    @property
    def _runs_em(self) -> bool:
        return self.iterations > 0

    def _operations(self, problem: LPCFGProblem, dev: Evaluate | None, run: RunContext) -> list[TrainStep]:
        operations = [TrainStep(partial(self._start, problem, run.progress), 3.0)]
        for iteration in range(self.iterations + 1):
            if iteration:
                labels = {"phase": "em", "iteration": iteration}
                operations.append(TrainStep(partial(self._iterate, problem), 1.0, labels))
            if dev is not None and (iteration % self.eval_every == 0 or iteration == self.iterations):
                operations.append(TrainStep(partial(self._measure, problem, dev, run.log, {}, "f1")))
        return operations

    def _start(self, problem: LPCFGProblem, progress: Progress, state: TrainingState) -> TrainingState:
        start = self._counts(problem, progress, state.weights)
        return state.with_weights(self._m_step(problem, start.layout, start.counts), anchors=start.anchors)

    def _given_up(self, state: TrainingState) -> bool:
        return self.patience is not None and state.worse >= self.patience
