"""Split-merge (Petrov, Barrett, Thibaux and Klein 2006): as many states for each symbol as it needs.

Every cycle splits each state in two with a little noise, runs EM, undoes the splits that help least, and runs EM again
with every state's probabilities drawn a little towards those of its siblings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from sapwood.evaluate.held_out import Evaluate
from sapwood.learn.forecast import Phase, kept_splits
from sapwood.learn.latent_learner import SmoothingLearner
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import integer, number
from sapwood.learn.training import Operation, TrainingState
from sapwood.run.log import Log
from sapwood.run.progress import Progress

# How much longer an iteration takes in each cycle than in the one before, about.
_GROWTH = 2.3


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitMerge(SmoothingLearner):
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
        See `SmoothingLearner`.
    noise
        After splitting, weights are multiplied by random numbers between `1 - noise` and `1 + noise`.
    support
        Symbols with fewer occurrences for each state are not split further.
    unaries, rare, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> SplitMerge(cycles=1, support=1).fit(corpus)
    <TensorGrammar: 3 symbols (... states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "split-merge"
    takes_forests: ClassVar[bool] = True

    cycles: int = integer(5, "How often to split.", low=1)
    iterations: int = integer(20, "Iterations of EM after each split.", low=1)
    settle: int = integer(10, "Iterations of EM after each merge, with smoothing.", low=1)
    merge: float = number(0.5, "The part of all splits that is undone.", below=1)
    noise: float = number(0.01, "How far weights are changed at random after a split.", below=1)
    support: int = integer(4, "Occurrences that a symbol must have for each state.", low=1)

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        counts, possible = problem.trees.symbol_counts(), problem.splittable()
        states = np.ones(len(counts))
        phases = []
        for _ in range(self.cycles):
            split = np.where(possible & (counts >= self.support * states), states, 0.0)
            phases.append(Phase(states + split, self.iterations, 0))
            states = states + kept_splits(counts, split, 1 - self.merge)
            phases.append(Phase(states, self.settle))
        return phases

    def _operations(
        self, problem: LatentProblem, dev: Evaluate | None, progress: Progress, log: Log
    ) -> list[Operation]:
        operations = []
        for cycle in range(1, self.cycles + 1):
            cost = _GROWTH**cycle
            operations.append(Operation(partial(self._split, problem, cycle)))
            for phase, count, smooth in (("split", self.iterations, False), ("smooth", self.settle, True)):
                for iteration in range(1, count + 1):
                    # After merging there are only about three quarters as many states of each symbol.
                    call = partial(self._iterate, problem, smooth=smooth)
                    labels = {"cycle": cycle, "phase": phase, "iteration": iteration}
                    operations.append(Operation(call, cost * (0.5 if smooth else 1.0), labels))
                if phase == "split":
                    operations.append(Operation(partial(self._merge, problem), cost))
            if dev is not None:
                operations.append(Operation(partial(self._measure, problem, dev, log, {"cycle": cycle}, "f1")))
        return operations

    def _split(self, problem: LatentProblem, cycle: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, cycle])
        weights = state.weights
        counts = problem.trees.symbol_counts()
        enough = (counts >= self.support * weights.states) & problem.splittable()
        splits = np.where(enough, 2, 1)
        symbol = weights.symbol_of_state
        origin = np.arange(len(symbol)) - weights.state_offsets[symbol]
        within = np.repeat(origin, splits[symbol])
        levels = tuple(np.repeat(level, splits[symbol]) for level in state.levels)
        new = problem.trees.split(weights, splits, self.noise, rng)
        return state.moved(new, levels=(*levels, within))

    def _merge(self, problem: LatentProblem, state: TrainingState) -> TrainingState:
        """Undo the part of the splits that costs least."""
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        # Only states that were split last time have a sibling: two of one origin.
        symbol = weights.symbol_of_state
        origin = state.levels[-1]
        twin = np.zeros(len(symbol), bool)
        twin[:-1] = (symbol[1:] == symbol[:-1]) & (origin[1:] == origin[:-1])
        losses = trees.merge_losses(weights, expected.occupancy, twin)
        candidates = np.flatnonzero(twin)
        order = candidates[np.argsort(losses[candidates], kind="stable")]
        gone = np.zeros(len(symbol), bool)
        gone[order[: round(self.merge * len(order))] + 1] = True
        number = np.cumsum(~gone) - 1
        first = np.concatenate([[0], np.cumsum(np.bincount(symbol, weights=~gone).astype(np.int64))])
        new_state = number - first[symbol]
        layout, counts = trees.merge(weights, trees.counts(weights, expected), new_state)
        del expected  # as large as all that follows
        levels = tuple(level[~gone] for level in state.levels)
        return state.moved(trees.maximise(layout, counts), levels=levels)
