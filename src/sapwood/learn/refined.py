"""What learners share that make a grammar of their own and then let EM refine it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.latent import LatentCounts, LatentWeights
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.training import (
    Checkpoints,
    Evaluate,
    LatentProblem,
    Operation,
    TrainingState,
    Unaries,
    evaluated,
    figure_of,
    keep_better,
    run_operations,
)
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.trees.corpus import Corpus


class Refined(ABC):
    """A learner whose grammar EM can refine, with smoothing towards sibling states.

    Parameters
    ----------
    iterations
        EM iterations from the learner's own grammar.
    every
        How often `evaluate` is asked during EM; the grammar with the best `f1` is returned.
    patience
        EM ends when `f1` has not improved for so many measurements; None: never.
    smoothing, lexical_smoothing
        How far the probabilities of a state's rules and words are drawn towards the mean of its symbol's states.
    unaries, rare, lexical, threads, executor
        See `LatentProblem`.
    random_state
        Seed.
    """

    method: str

    def __init__(
        self,
        *,
        iterations: int,
        every: int,
        patience: int | None,
        smoothing: float,
        lexical_smoothing: float,
        unaries: Unaries,
        rare: int,
        lexical: LexicalSettings | None,
        random_state: int,
        threads: int,
        executor: Executor | None,
    ) -> None:
        for name, value in (("every", every), ("patience", patience)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        for name, part in (("smoothing", smoothing), ("lexical_smoothing", lexical_smoothing)):
            if not 0 <= part < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {part}")
        for name, number in (("iterations", iterations), ("rare", rare), ("random_state", random_state)):
            if not 0 <= number < float("inf"):
                raise UsageError(f"{name} must be 0 or more, not {number}")
        self.iterations = iterations
        self.every = every
        self.patience = patience
        self.smoothing = smoothing
        self.lexical_smoothing = lexical_smoothing
        self.unaries: Unaries = unaries
        self.rare = rare
        self.lexical = lexical or LexicalSettings(state_strength=5.0, signature_state_strength=5.0)
        self.random_state = random_state
        self.threads = threads
        self.executor = executor

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees, as JSON values."""

    @abstractmethod
    def _counts(
        self, problem: LatentProblem, progress: Progress, layout: LatentWeights
    ) -> tuple[LatentWeights, LatentCounts]:
        """Return the layout of the grammar to start from (weights without values), and its counts."""

    def fit(
        self,
        corpus: Corpus,
        *,
        evaluate: Evaluate | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        checkpoint: str | Path | None = None,
    ) -> TensorGrammar:
        """Return the grammar; arguments as in `SplitMerge.fit`."""
        progress, log = progress or Silent(), log or NoLog()
        problem = LatentProblem.of(self, corpus)
        state = TrainingState(problem.trees.one_state())
        checkpoints = None
        if checkpoint is not None:
            checkpoints = Checkpoints.of_run(checkpoint, self.method, self.settings(), corpus, evaluate)
            state = checkpoints.load(state.weights) or state
        operations = [Operation(partial(self._start, problem, progress), 3.0)]
        for iteration in range(self.iterations + 1):
            if iteration:
                labels = {"phase": "em", "iteration": iteration}
                operations.append(Operation(partial(self._iterate, problem), 1.0, labels))
            if evaluate is not None and (iteration % self.every == 0 or iteration == self.iterations):
                operations.append(Operation(partial(self._evaluate, problem, evaluate, log)))
        state = run_operations(operations, state, progress=progress, log=log, checkpoints=checkpoints)
        return self._grammar(problem, state.weights if state.best is None else state.best, state.step)

    def _grammar(self, problem: LatentProblem, weights: LatentWeights, step: int) -> TensorGrammar:
        return problem.grammar(weights, {"method": self.method, "settings": self.settings(), "iterations": step})

    def _start(self, problem: LatentProblem, progress: Progress, state: TrainingState) -> TrainingState:
        layout, counts = self._counts(problem, progress, state.weights)
        return replace(state, weights=self._maximise(problem, layout, counts))

    def _maximise(self, problem: LatentProblem, layout: LatentWeights, counts: LatentCounts) -> LatentWeights:
        return problem.trees.maximise(
            layout, counts, smoothing=self.smoothing, lexical_smoothing=self.lexical_smoothing
        )

    def _given_up(self, state: TrainingState) -> bool:
        return self.patience is not None and state.worse >= self.patience

    def _iterate(self, problem: LatentProblem, state: TrainingState) -> TrainingState:
        if self._given_up(state):
            return state
        expected = problem.expectations(state.weights)
        weights = self._maximise(problem, state.weights, problem.trees.counts(state.weights, expected))
        return replace(state, weights=weights, step=state.step + 1, log_likelihood=expected.log_likelihood)

    def _evaluate(self, problem: LatentProblem, evaluate: Evaluate, log: Log, state: TrainingState) -> TrainingState:
        if self._given_up(state):
            return state
        state, figures = evaluated(state, self._grammar(problem, state.weights, state.step), evaluate, log, {})
        return keep_better(state, figure_of(figures, "f1"))
