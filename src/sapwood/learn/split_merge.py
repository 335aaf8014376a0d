"""Split-merge (Petrov, Barrett, Thibaux and Klein 2006): as many states for each symbol as it needs.

Every cycle splits each state in two with a little noise, runs EM, undoes the splits that help least, and runs EM again
with every state's probabilities drawn a little towards those of its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.latent import LatentWeights
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
from sapwood.run.progress import Progress
from sapwood.trees.corpus import Corpus

# How much longer an iteration takes in each cycle than in the one before, about.
_GROWTH = 2.3


class SplitMerge:
    """Learns an L-PCFG with a number of states of its own for each symbol.

    Parameters
    ----------
    cycles
        How often to split.
    iterations
        EM iterations after splitting, and
    settle
        after merging, with smoothing.
    merge
        The part of all splits that is undone.
    smoothing, lexical_smoothing
        How far the probabilities of a state's rules and words are drawn towards the mean of its symbol's states.
    noise
        After splitting, weights are multiplied by random numbers between `1 - noise` and `1 + noise`.
    least
        Symbols with fewer occurrences for each state are not split further.
    unaries, rare, lexical, threads, executor
        See `LatentProblem`.
    random_state
        Seed of the noise.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> SplitMerge(cycles=1, least=1).fit(corpus)
    <TensorGrammar: 3 symbols (... states), 1 rules, 2 words>
    """

    def __init__(
        self,
        *,
        cycles: int = 5,
        iterations: int = 20,
        settle: int = 10,
        merge: float = 0.5,
        smoothing: float = 0.03,
        lexical_smoothing: float = 0.1,
        noise: float = 0.01,
        least: int = 4,
        unaries: Unaries = "steps",
        rare: int = 10,
        lexical: LexicalSettings | None = None,
        random_state: int = 0,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> None:
        for name, value in (("cycles", cycles), ("iterations", iterations), ("settle", settle), ("least", least)):
            if value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        for name, part in (
            ("merge", merge), ("smoothing", smoothing), ("lexical_smoothing", lexical_smoothing), ("noise", noise),
        ):  # fmt: skip
            if not 0 <= part < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {part}")
        self.cycles = cycles
        self.iterations = iterations
        self.settle = settle
        self.merge = merge
        self.smoothing = smoothing
        self.lexical_smoothing = lexical_smoothing
        self.noise = noise
        self.least = least
        self.unaries: Unaries = unaries
        self.rare = rare
        self.lexical = lexical or LexicalSettings(state_strength=5.0, signature_state_strength=5.0)
        self.random_state = random_state
        self.threads = threads
        self.executor = executor

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees, as JSON values."""
        names = (
            "cycles", "iterations", "settle", "merge", "smoothing", "lexical_smoothing", "noise", "least", "unaries",
            "rare", "random_state",
        )  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, "lexical": asdict(self.lexical)}

    def fit(
        self,
        corpus: Corpus,
        *,
        evaluate: Evaluate | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        checkpoint: str | Path | None = None,
    ) -> TensorGrammar:
        """Return the grammar.

        Parameters
        ----------
        corpus
            The trees.
        evaluate
            Called with the grammar of each cycle; the one with the best `f1` is returned. Without it the last one is.
        progress, log
            What to report to.
        checkpoint
            A file to keep the state of training in. If it is there, training goes on from it.
        """
        problem = LatentProblem.of(self, corpus)
        log = log or NoLog()
        state = TrainingState(problem.trees.one_state())
        checkpoints = None
        if checkpoint is not None:
            checkpoints = Checkpoints.of_run(checkpoint, "split-merge", self.settings(), corpus, evaluate)
            state = checkpoints.load(state.weights) or state
        operations = self._operations(problem, evaluate, log)
        state = run_operations(operations, state, progress=progress, log=log, checkpoints=checkpoints)
        best, levels = (state.weights, state.levels) if state.best is None else (state.best, state.best_levels)
        return self._grammar(problem, best, levels, state.step)

    def _grammar(
        self, problem: LatentProblem, weights: LatentWeights, levels: tuple[np.ndarray, ...], step: int
    ) -> TensorGrammar:
        info = {"method": "split-merge", "settings": self.settings(), "iterations": step}
        return problem.grammar(weights, info, levels)

    def _operations(self, problem: LatentProblem, evaluate: Evaluate | None, log: Log) -> list[Operation]:
        operations = []
        for cycle in range(1, self.cycles + 1):
            cost = _GROWTH**cycle
            operations.append(Operation(partial(self._split, problem, cycle)))
            for phase, count, smooth in (("split", self.iterations, False), ("smooth", self.settle, True)):
                for iteration in range(1, count + 1):
                    # After merging there are only about three quarters as many states of each symbol.
                    operations.append(
                        Operation(
                            partial(self._iterate, problem, smooth),
                            cost * (0.5 if smooth else 1.0),
                            {"cycle": cycle, "phase": phase, "iteration": iteration},
                        )
                    )
                if phase == "split":
                    operations.append(Operation(partial(self._merge, problem), cost))
            if evaluate is not None:
                operations.append(Operation(partial(self._evaluate, problem, evaluate, log, {"cycle": cycle})))
        return operations

    def _split(self, problem: LatentProblem, cycle: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, cycle])
        weights = state.weights
        counts = problem.trees.corpus.symbol_counts()
        enough = (counts >= self.least * weights.states) & problem.splittable()
        splits = np.where(enough, 2, 1)
        symbol = weights.symbol_of_state
        origin = np.arange(len(symbol)) - weights.state_offsets[symbol]
        within = np.repeat(origin, splits[symbol])
        levels = tuple(np.repeat(level, splits[symbol]) for level in state.levels)
        return replace(state, weights=problem.trees.split(weights, splits, self.noise, rng), levels=(*levels, within))

    def _iterate(self, problem: LatentProblem, smooth: bool, state: TrainingState) -> TrainingState:
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        amounts = {"smoothing": self.smoothing, "lexical_smoothing": self.lexical_smoothing} if smooth else {}
        weights = trees.maximise(weights, trees.counts(weights, expected), **amounts)
        return replace(state, weights=weights, step=state.step + 1, log_likelihood=expected.log_likelihood)

    def _merge(self, problem: LatentProblem, state: TrainingState) -> TrainingState:
        """Undo the part of the splits that costs least."""
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        # Only states that were split last time have a sibling: two of one origin.
        symbol = weights.symbol_of_state
        origin = state.levels[-1]
        twin = np.zeros(len(symbol), bool)
        twin[:-1] = (symbol[1:] == symbol[:-1]) & (origin[1:] == origin[:-1])
        losses = trees.merge_losses(
            weights, expected.occupancy, twin, threads=problem.threads, executor=problem.executor
        )
        candidates = np.flatnonzero(twin)
        order = candidates[np.argsort(losses[candidates], kind="stable")]
        gone = np.zeros(len(symbol), bool)
        gone[order[: round(self.merge * len(order))] + 1] = True
        number = np.cumsum(~gone) - 1
        first = np.concatenate([[0], np.cumsum(np.bincount(symbol, weights=~gone).astype(np.int64))])
        new_state = number - first[symbol]
        layout, counts = trees.merge(weights, trees.counts(weights, expected), new_state)
        return replace(
            state, weights=trees.maximise(layout, counts), levels=tuple(level[~gone] for level in state.levels)
        )

    def _evaluate(
        self, problem: LatentProblem, evaluate: Evaluate, log: Log, labels: Mapping[str, Any], state: TrainingState
    ) -> TrainingState:
        grammar = self._grammar(problem, state.weights, state.levels, state.step)
        state, figures = evaluated(state, grammar, evaluate, log, labels)
        return keep_better(state, figure_of(figures, "f1"))
