"""Base classes of learners with hidden states: problem setup and resumable runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.em_loop import (
    TrainingState,
    TrainStep,
    keep_better,
    key_of_run,
    metric,
    open_checkpoint,
    run_operations,
)
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.problem import LPCFGProblem, Unaries
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights
from sapwood.learn.memory import MemoryEstimate, estimate_memory, warn_about_memory
from sapwood.learn.semi_supervised.forests import WeightedForests
from sapwood.runtime.context import RunContext
from sapwood.runtime.log import Log
from sapwood.runtime.params import choice, integer, number, opaque
from sapwood.runtime.progress import Progress
from sapwood.storage.shapes import Array, Int, Shaped
from sapwood.trees.corpus import Corpus

# Value of `unaries` in earlier releases.
_FORMER_EXPLICIT = "steps"


@dataclass(frozen=True, kw_only=True, repr=False)
class LatentLearner(Learner):
    """Base class of learners with hidden states.

    Parameters
    ----------
    unaries, rare_threshold, lexical
        See `LPCFGProblem`.
    threads, workers
        See `Learner`.
    random_state
        Seed of every random choice.
    """

    unaries: Unaries = choice(
        "explicit", "Explicit unary rules, or unary chains collapsed into symbols.", get_args(Unaries)
    )
    rare_threshold: int = integer(10, "Replace words seen N times or fewer by a word-shape signature.")
    lexical: LexicalSettings = opaque(
        LexicalSettings(state_strength=5.0, signature_state_strength=5.0),
        "Treatment of rare and unknown words.",
        LexicalSettings,
    )
    random_state: int = integer(0, "Random seed.")

    def __post_init__(self) -> None:
        if self.unaries == _FORMER_EXPLICIT:
            object.__setattr__(self, "unaries", "explicit")
        super().__post_init__()

    def problem(self, corpus: Corpus, sources: Sequence[WeightedForests] = ()) -> LPCFGProblem:
        """Return the corpus and additional data as a problem of this learner."""
        return LPCFGProblem(
            corpus,
            unaries=self.unaries,
            rare=self.rare_threshold,
            lexical=self.lexical,
            workers=self.executor,
            sources=sources,
        )

    @property
    def _runs_em(self) -> bool:
        """Whether there are iterations of EM."""
        return True

    @abstractmethod
    def _expected_states(self, problem: LPCFGProblem) -> tuple[Shaped[Array, "symbols"], Shaped[Array, "symbols"]]:
        """Return the approximate number of states of each symbol in the grammar, and the maximum during EM."""

    def estimate_memory(self, corpus: Corpus, dev: Evaluate | None = None) -> MemoryEstimate:
        """Return an estimate of the memory of `fit`."""
        return self._estimate_memory(self.problem(corpus), dev)

    def _estimate_memory(self, problem: LPCFGProblem, dev: Evaluate | None) -> MemoryEstimate:
        states, em_states = self._expected_states(problem)
        most = em_states if self._runs_em else None
        return estimate_memory(problem, states, em_states=most, measured=dev is not None)

    def _warn_about_memory(self, problem: LPCFGProblem, dev: Evaluate | None, progress: Progress) -> None:
        """Warn if the machine has less memory than the estimate."""
        warn_about_memory(self.method, self._estimate_memory(problem, dev), progress)


@dataclass(frozen=True, kw_only=True, repr=False)
class IterativeLearner(LatentLearner):
    """Base class of learners whose run is a list of operations and can be interrupted after any of them."""

    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        return self._learn_also(corpus, (), dev, run)

    def _learn_also(
        self, corpus: Corpus, also: Sequence[WeightedForests], dev: Evaluate | None, run: RunContext
    ) -> TensorGrammar:
        problem = self.problem(corpus, also)
        self._warn_about_memory(problem, dev, run.progress)
        settings = {**self.settings(), "also": [source.key for source in also]} if also else self.settings()
        kept = open_checkpoint(run.checkpoint, key_of_run(self.method, settings, corpus, dev), problem)
        state = kept.load() or TrainingState(problem.trees.one_state())
        operations = self._operations(problem, dev, run)
        state = run_operations(operations, state, run, kept)
        if state.best is None:
            grammar = state.grammar or self._grammar(problem, state.weights, state.levels, state.step)
        else:
            grammar = state.best_grammar or self._grammar(problem, state.best, state.best_levels, state.step)
        return grammar.with_info(iterations=state.step, **self._told(problem, state))

    def _told(self, problem: LPCFGProblem, state: TrainingState) -> dict[str, Any]:
        """Return metadata of a grammar besides settings and iterations."""
        return {}

    @abstractmethod
    def _operations(self, problem: LPCFGProblem, dev: Evaluate | None, run: RunContext) -> Sequence[TrainStep]:
        """Return all operations of a run, in order."""

    def _grammar(
        self,
        problem: LPCFGProblem,
        weights: LatentWeights,
        levels: Sequence[Int[Array, "all_states"]],
        step: int,
    ) -> TensorGrammar:
        info = {"method": self.method, "settings": self.settings(), "iterations": step}
        return problem.grammar(weights, info, levels)

    def _given_up(self, state: TrainingState) -> bool:
        """Return True if the current restart is finished."""
        return False

    def _measure(
        self,
        problem: LPCFGProblem,
        dev: Evaluate,
        log: Log,
        labels: Mapping[str, Any],
        figure: str | None,
        state: TrainingState,
    ) -> TrainingState:
        """Evaluate the grammar, and keep it if it is the best so far."""
        if self._given_up(state):
            return state
        grammar = self._grammar(problem, state.weights, state.levels, state.step)
        figures = dev(grammar)
        log.write("dev", step=state.step, **labels, **figures)
        state = replace(state, measured=state.step, grammar=grammar)
        return state if figure is None else keep_better(state, metric(figures, figure, dev))


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothingLearner(IterativeLearner):
    """Base class of EM learners that smooth the states of a symbol towards each other.

    Parameters
    ----------
    smoothing, lexical_smoothing
        Weight of the mean of a symbol's states in the probabilities of each state's rules and words.
    smoothing_half_count
        Count of a state at which its smoothing is halved, so that it vanishes as data grow; 0: constant.
    """

    smoothing: float = number(0.03, "Smoothing of rule probabilities towards the mean over a symbol's states.", below=1)
    lexical_smoothing: float = number(
        0.1, "Smoothing of word probabilities towards the mean over a symbol's states.", below=1
    )
    smoothing_half_count: float = number(0.0, "Occurrences of a state that halve its smoothing; 0 keeps it constant.")

    def _m_step(
        self, problem: LPCFGProblem, layout: LatentWeights, counts: LatentCounts, *, smooth: bool = True
    ) -> LatentWeights:
        names = ("smoothing", "lexical_smoothing", "smoothing_half_count") if smooth else ()
        amounts: dict[str, Any] = {name: getattr(self, name) for name in names}
        return problem.trees.m_step(layout, counts, **amounts)

    def _iterate(self, problem: LPCFGProblem, state: TrainingState, *, smooth: bool = True) -> TrainingState:
        if self._given_up(state):
            return state
        expected = problem.expectations(state.weights)
        counts = problem.trees.counts(state.weights, expected)
        return state.after_iteration(
            self._m_step(problem, state.weights, counts, smooth=smooth), expected.log_likelihood
        )
