"""Split-merge training (Petrov, Barrett, Thibaux and Klein 2006): as many states for each symbol as it needs.

Each cycle splits every state in two with a little noise, runs EM, undoes the splits that help least, and runs EM again
with every state's probabilities smoothed towards those of its siblings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from sapwood.evaluate.dev_set import Evaluate
from sapwood.learn.lpcfg.em_learner import SmoothingLearner
from sapwood.learn.lpcfg.em_loop import TrainingState, TrainStep
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.runtime.context import RunContext
from sapwood.runtime.params import integer, number
from sapwood.storage.shapes import Array, Float, Float64, Shaped

# Approximate growth of the time per iteration from cycle to cycle.
_GROWTH = 2.3


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitMerge(SmoothingLearner):
    """Learner of an L-PCFG with an adaptive number of states for each symbol.

    Parameters
    ----------
    cycles
        Number of split-merge cycles.
    iterations
        EM iterations after splitting.
    smoothing_iterations
        EM iterations after merging, with smoothing.
    merge
        Fraction of splits to undo.
    smoothing, lexical_smoothing
        See `SmoothingLearner`.
    noise
        After splitting, weights are multiplied by random numbers between `1 - noise` and `1 + noise`.
    min_support
        Symbols with fewer occurrences per state are not split further.
    unaries, rare_threshold, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> SplitMerge(cycles=1, min_support=1).fit(corpus)
    <TensorGrammar: 3 symbols (... states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "split-merge"
    takes_forests: ClassVar[bool] = True

    cycles: int = integer(5, "Number of split-merge cycles.", low=1)
    iterations: int = integer(20, "EM iterations after each split.", low=1)
    smoothing_iterations: int = integer(10, "EM iterations with smoothing after each merge.", low=1)
    merge: float = number(0.5, "Share of splits to merge back.", below=1)
    noise: float = number(0.01, "Random perturbation of weights after a split.", below=1)
    min_support: int = integer(4, "Minimum occurrences of a symbol per state.", low=1)

    def _expected_states(self, problem: LPCFGProblem) -> tuple[Float64[Array, "symbols"], Float64[Array, "symbols"]]:
        counts, possible = problem.trees.symbol_counts(), problem.splittable()
        states = most = np.ones(len(counts))
        for _ in range(self.cycles):
            split = np.where(possible & (counts >= self.min_support * states), states, 0.0)
            most = states + split
            states = states + kept_splits(counts, split, 1 - self.merge)
        return states, most

    def _operations(self, problem: LPCFGProblem, dev: Evaluate | None, run: RunContext) -> list[TrainStep]:
        operations = []
        for cycle in range(1, self.cycles + 1):
            cost = _GROWTH**cycle
            operations.append(TrainStep(partial(self._split, problem, cycle)))
            for phase, count, smooth in (
                ("split", self.iterations, False),
                ("smooth", self.smoothing_iterations, True),
            ):
                for iteration in range(1, count + 1):
                    # After merging, each symbol has only about three quarters as many states.
                    call = partial(self._iterate, problem, smooth=smooth)
                    labels = {"cycle": cycle, "phase": phase, "iteration": iteration}
                    operations.append(TrainStep(call, cost * (0.5 if smooth else 1.0), labels))
                if phase == "split":
                    operations.append(TrainStep(partial(self._merge, problem), cost))
            if dev is not None:
                operations.append(TrainStep(partial(self._measure, problem, dev, run.log, {"cycle": cycle}, "f1")))
        return operations

    def _split(self, problem: LPCFGProblem, cycle: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, cycle])
        weights = state.weights
        counts = problem.trees.symbol_counts()
        enough = (counts >= self.min_support * weights.states) & problem.splittable()
        splits = np.where(enough, 2, 1)
        symbol = weights.symbol_of_state
        origin = np.arange(len(symbol)) - weights.state_offsets[symbol]
        within = np.repeat(origin, splits[symbol])
        levels = tuple(np.repeat(level, splits[symbol]) for level in state.levels)
        new = problem.trees.split(weights, splits, self.noise, rng)
        return state.with_weights(new, levels=(*levels, within))

    def _merge(self, problem: LPCFGProblem, state: TrainingState) -> TrainingState:
        """Undo the splits whose loss is smallest."""
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        # Only states that were split in this cycle have a sibling, of the same origin.
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
        del expected  # as large as everything below
        levels = tuple(level[~gone] for level in state.levels)
        return state.with_weights(trees.m_step(layout, counts), levels=levels)


def kept_splits(
    counts: Shaped[Array, "symbols"], states: Float[Array, "symbols"], part: float
) -> Float64[Array, "symbols"]:
    """Return how many splits of each symbol's states merging leaves, about, if it leaves this part of all.

    Merging undoes the splits that make the least difference, mostly those of rare states: a symbol is taken to keep
    splits in proportion to how often its states occur, up to all of them.
    """
    often = np.divide(counts, states, out=np.zeros(len(states)), where=states > 0)
    least = often[often > 0].min(initial=np.inf)
    low, high = 0.0, 1 / least
    for _ in range(50):
        middle = (low + high) / 2
        enough = states @ np.minimum(1, middle * often) > part * states.sum()
        low, high = (low, middle) if enough else (middle, high)
    return states * np.minimum(1, high * often)
