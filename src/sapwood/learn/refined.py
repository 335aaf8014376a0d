"""What learners share that make a grammar of their own and then let EM refine it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from sapwood.evaluate.held_out import Evaluate
from sapwood.learn.forecast import Phase
from sapwood.learn.latent import LatentCounts, LatentWeights
from sapwood.learn.latent_learner import SmoothingLearner
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import integer
from sapwood.learn.training import Operation, TrainingState
from sapwood.run.log import Log
from sapwood.run.progress import Progress


class Start(NamedTuple):
    """What EM begins with.

    Attributes
    ----------
    layout
        The grammar's weights, without values.
    counts
        What they are made from.
    anchors
        As in `TrainingState`.
    """

    layout: LatentWeights
    counts: LatentCounts
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Refined(SmoothingLearner):
    """A learner whose grammar EM can refine, with smoothing towards sibling states.

    Parameters
    ----------
    iterations
        EM iterations from the learner's own grammar.
    every
        How often `dev` is asked during EM; the grammar with the best `f1` is returned.
    patience
        EM ends when `f1` has not improved for so many measurements; None: never.
    """

    iterations: int = integer(0, "Iterations of EM afterwards.")
    every: int = integer(1, "How many iterations of EM are between two looks at --dev.", low=1)
    patience: int | None = integer(None, "EM ends when --dev has got no better so many times.", low=1, optional=True)

    @abstractmethod
    def _counts(self, problem: LatentProblem, progress: Progress, layout: LatentWeights) -> Start:
        """Return the grammar to start from; `layout` is that of one state per symbol."""

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        looks = 1 + self.iterations // self.every
        return [replace(phase, iterations=self.iterations, looks=looks) for phase in super()._phases(problem)]

    def _operations(
        self, problem: LatentProblem, dev: Evaluate | None, progress: Progress, log: Log
    ) -> list[Operation]:
        operations = [Operation(partial(self._start, problem, progress), 3.0)]
        for iteration in range(self.iterations + 1):
            if iteration:
                labels = {"phase": "em", "iteration": iteration}
                operations.append(Operation(partial(self._iterate, problem), 1.0, labels))
            if dev is not None and (iteration % self.every == 0 or iteration == self.iterations):
                operations.append(Operation(partial(self._measure, problem, dev, log, {}, "f1")))
        return operations

    def _start(self, problem: LatentProblem, progress: Progress, state: TrainingState) -> TrainingState:
        start = self._counts(problem, progress, state.weights)
        return state.moved(self._maximise(problem, start.layout, start.counts), anchors=start.anchors)

    def _given_up(self, state: TrainingState) -> bool:
        return self.patience is not None and state.worse >= self.patience
