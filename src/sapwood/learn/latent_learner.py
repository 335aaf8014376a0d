"""What learners with hidden states have in common: how their problem is set up, and a run that can be resumed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from sapwood.evaluate.held_out import Evaluate, HeldOut
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.forecast import Forecast, Phase, forecast
from sapwood.learn.latent import LatentCounts, LatentWeights
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.problem import LatentProblem, Unaries
from sapwood.learn.settings import choice, integer, number, other
from sapwood.learn.sources import Source
from sapwood.learn.training import Checkpoints, Operation, TrainingState, figure_of, keep_better, run_operations
from sapwood.run.log import Log
from sapwood.run.progress import Progress
from sapwood.shapes import Array, Int
from sapwood.trees.corpus import Corpus


@dataclass(frozen=True, kw_only=True, repr=False)
class LatentLearner(Learner):
    """A learner with hidden states.

    Parameters
    ----------
    unaries, rare, lexical
        See `LatentProblem`.
    threads, workers
        See `Learner`.
    random_state
        Seed of every random choice.
    """

    unaries: Unaries = choice(
        "steps", "Unary rules as steps with weights of their own, or part of the symbols.", get_args(Unaries)
    )
    rare: int = integer(10, "Words seen no more often show their form only.")
    lexical: LexicalSettings = other(
        LexicalSettings(state_strength=5.0, signature_state_strength=5.0),
        "How rare and unknown words are treated.",
        LexicalSettings,
    )
    random_state: int = integer(0, "Seed of every random choice.")

    def problem(self, corpus: Corpus, sources: Sequence[Source] = ()) -> LatentProblem:
        """Return the corpus, and what else there is to learn from, as this learner sees it."""
        return LatentProblem(
            corpus, unaries=self.unaries, rare=self.rare, lexical=self.lexical, workers=self.where, sources=sources
        )

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        """Return what a run does, about, for a forecast of what it takes."""
        return [Phase(problem.wanted_states(1, 1))]

    def forecast(self, corpus: Corpus, dev: Evaluate | None = None) -> Forecast:
        """Return what `fit` will take, about."""
        return self._forecast(self.problem(corpus), dev)

    def _forecast(self, problem: LatentProblem, dev: Evaluate | None) -> Forecast:
        words = dev.observed.n_words if isinstance(dev, HeldOut) else 0
        return forecast(problem, self._phases(problem), dev_words=words)

    def _foretell(self, problem: LatentProblem, dev: Evaluate | None, progress: Progress) -> None:
        """Say what the run will take, if that is much."""
        expected = self._forecast(problem, dev)
        if expected.worth_saying:
            progress.note(f"{self.method}: {expected}")


@dataclass(frozen=True, kw_only=True, repr=False)
class IterativeLearner(LatentLearner):
    """A learner whose run is a list of operations, each of which can be the last before an interruption."""

    def _learn(
        self, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, checkpoint: str | Path | None
    ) -> TensorGrammar:
        return self._learn_also(corpus, (), dev, progress, log, checkpoint)

    def _learn_also(
        self,
        corpus: Corpus,
        also: Sequence[Source],
        dev: Evaluate | None,
        progress: Progress,
        log: Log,
        checkpoint: str | Path | None,
    ) -> TensorGrammar:
        problem = self.problem(corpus, also)
        self._foretell(problem, dev, progress)
        state = TrainingState(problem.trees.one_state())
        checkpoints = None
        if checkpoint is not None:
            settings = {**self.settings(), "also": [source.key for source in also]} if also else self.settings()
            checkpoints = Checkpoints.of_run(checkpoint, self.method, settings, corpus, dev)
            state = checkpoints.load(problem) or state
        operations = self._operations(problem, dev, progress, log)
        state = run_operations(operations, state, progress, log, checkpoints)
        if state.best is None:
            grammar = state.grammar or self._grammar(problem, state.weights, state.levels, state.step)
        else:
            grammar = state.best_grammar or self._grammar(problem, state.best, state.best_levels, state.step)
        return grammar.with_info(iterations=state.step, **self._told(problem, state))

    def _told(self, problem: LatentProblem, state: TrainingState) -> dict[str, Any]:
        """Return what a grammar says of its making beside settings and iterations."""
        return {}

    @abstractmethod
    def _operations(
        self, problem: LatentProblem, dev: Evaluate | None, progress: Progress, log: Log
    ) -> Sequence[Operation]:
        """Return what a run does, all of it, in its order."""

    def _grammar(
        self,
        problem: LatentProblem,
        weights: LatentWeights,
        levels: Sequence[Int[Array, "all_states"]],
        step: int,
    ) -> TensorGrammar:
        info = {"method": self.method, "settings": self.settings(), "iterations": step}
        return problem.grammar(weights, info, levels)

    def _given_up(self, state: TrainingState) -> bool:
        """Return whether nothing more is to be done with the present start."""
        return False

    def _measure(
        self,
        problem: LatentProblem,
        dev: Evaluate,
        log: Log,
        labels: Mapping[str, Any],
        figure: str | None,
        state: TrainingState,
    ) -> TrainingState:
        """Measure the grammar, and keep it if the figure is the best so far."""
        if self._given_up(state):
            return state
        grammar = self._grammar(problem, state.weights, state.levels, state.step)
        figures = dev(grammar)
        log.write("dev", step=state.step, **labels, **figures)
        state = replace(state, measured=state.step, grammar=grammar)
        return state if figure is None else keep_better(state, figure_of(figures, figure, dev))


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothingLearner(IterativeLearner):
    """A learner by EM that draws the states of a symbol towards each other.

    Parameters
    ----------
    smoothing, lexical_smoothing
        How far the probabilities of a state's rules and words are drawn towards the mean of its symbol's states.
    fading
        How many occurrences of a state halve its smoothing, which then vanishes as data grow; 0: none do.
    """

    smoothing: float = number(
        0.03, "How far a state's rules are drawn towards the mean of its symbol's states.", below=1
    )
    lexical_smoothing: float = number(0.1, "How far a state's words are drawn towards that mean.", below=1)
    fading: float = number(0.0, "How many occurrences of a state halve its smoothing; 0: none do.")

    def _maximise(
        self, problem: LatentProblem, layout: LatentWeights, counts: LatentCounts, *, smooth: bool = True
    ) -> LatentWeights:
        names = ("smoothing", "lexical_smoothing", "fading") if smooth else ()
        amounts: dict[str, Any] = {name: getattr(self, name) for name in names}
        return problem.trees.maximise(layout, counts, **amounts)

    def _iterate(self, problem: LatentProblem, state: TrainingState, *, smooth: bool = True) -> TrainingState:
        if self._given_up(state):
            return state
        expected = problem.expectations(state.weights)
        counts = problem.trees.counts(state.weights, expected)
        return state.iterated(self._maximise(problem, state.weights, counts, smooth=smooth), expected.log_likelihood)
