"""EM for L-PCFGs with observed trees and a fixed number of states (Matsuzaki, Miyao and Tsujii 2005).

Each iteration makes the training trees more probable, or no less (checked while it runs); where it ends depends on
where it begins: at random, or at any other grammar over the same rules. With smoothing each iteration is followed by a
step towards the mean of a symbol's states, as in split-merge: what is learned generalises better, and the likelihood
need not grow any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sapwood.errors import GrammarError, SapwoodError, UsageError
from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import lexical_table
from sapwood.learn.forecast import Phase
from sapwood.learn.latent import LatentCounts, LatentWeights
from sapwood.learn.latent_learner import SmoothingLearner
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import choice, integer, number, other
from sapwood.learn.sources import Source
from sapwood.learn.training import Operation, TrainingState, keep_better
from sapwood.run.log import Log
from sapwood.run.progress import Progress
from sapwood.shapes import Array, Int
from sapwood.trees.corpus import Corpus

Stop = Literal["iterations", "f1", "log-likelihood"]
# By how much single precision may make the log-likelihood seem to fall, relative to its size and that of the corpus.
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True, repr=False)
class EM(SmoothingLearner):
    """Learns an L-PCFG with `states` states for each symbol.

    A random start takes the treebank's rule probabilities, divides them equally among the states of the children and
    multiplies every weight by a random number between `1 - noise` and `1 + noise`.

    Parameters
    ----------
    states
        States of each symbol: one number for all, or by name (others get 1). Symbols with fewer than
        `support` occurrences for each state get fewer.
    iterations
        The most iterations.
    init
        A probabilistic grammar over the corpus' symbols and rules to start from; then `states`, `noise` and
        `restarts` have no say.
    restarts
        Random starts; the best ending is returned.
    stop
        `iterations`: when they are done. `f1`, `log-likelihood`: when this figure of `dev` has not improved
        for `patience` measurements, one every `every` iterations; the best weights measured are returned.
    prior
        MAP instead of maximum likelihood: a Dirichlet prior as if every rule, and every word of every preterminal, had
        been seen this often more, in all states equally.
    smoothing, lexical_smoothing
        See `SmoothingLearner`; by default there is none.
    noise, support
        See above.
    unaries, rare, lexical, random_state, threads, workers
        See `LatentLearner`. With `init`, unary chains are taken as the grammar has them, `collapsed`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> EM(states=2, iterations=5).fit(corpus)
    <TensorGrammar: 3 symbols (2 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "em"
    takes_forests: ClassVar[bool] = True

    states: int | Mapping[str, int] = integer(16, "Hidden states of each symbol.", low=1)
    iterations: int = integer(40, "The most iterations.", low=1)
    init: TensorGrammar | None = other(None, "A grammar to start from, over the same trees.", TensorGrammar)
    restarts: int = integer(1, "Random starts, the best of which is kept.", low=1)
    stop: Stop = choice(
        "iterations", "When to stop: after all iterations, or when this figure of --dev gets no better.", get_args(Stop)
    )
    patience: int = integer(3, "With --stop: how many times --dev may get no better.", low=1)
    every: int = integer(5, "How many iterations are between two looks at --dev.", low=1)
    prior: float = number(0.0, "As if every rule and word had been seen so often more.", below=1e9)
    noise: float = number(0.2, "How far the weights of a random start are from even ones.", below=1)
    support: int = integer(4, "Occurrences that a symbol must have for each state.", low=1)
    smoothing: float = number(
        0.0, "How far a state's rules are drawn towards the mean of its symbol's states.", below=1
    )
    lexical_smoothing: float = number(0.0, "How far a state's words are drawn towards that mean.", below=1)

    def problem(self, corpus: Corpus, sources: Sequence[Source] = ()) -> LatentProblem:
        """Return the corpus, and what else there is to learn from, as this learner sees it."""
        if self.init is None:
            return super().problem(corpus, sources)
        return replace(self, init=None, unaries="collapsed").problem(corpus, sources)

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        states = problem.wanted_states(self.states, self.support) if self.init is None else self.init.states
        looks = self.restarts * -(-self.iterations // self.every)
        return [Phase(states, self.restarts * self.iterations, looks)]

    def _operations(
        self, problem: LatentProblem, dev: Evaluate | None, progress: Progress, log: Log
    ) -> list[Operation]:
        if self.stop != "iterations" and dev is None:
            raise UsageError(f"stop={self.stop!r} needs held-out data to measure it on")
        operations = []
        restarts = self.restarts if self.init is None else 1
        for restart in range(restarts):
            names: dict[str, Any] = {"restart": restart} if restarts > 1 else {}
            operations.append(Operation(partial(self._start, problem, restart)))
            for iteration in range(1, self.iterations + 1):
                figures = {**names, "phase": "em", "iteration": iteration}
                operations.append(Operation(partial(self._iterate, problem), 1.0, figures))
                if dev is not None and (iteration % self.every == 0 or iteration == self.iterations):
                    figure = None if self.stop == "iterations" else self.stop.replace("-", "_")
                    operations.append(Operation(partial(self._measure, problem, dev, log, names, figure)))
            if restarts > 1 and self.stop == "iterations":
                operations.append(Operation(partial(self._compare, problem)))
        return operations

    def _start(self, problem: LatentProblem, restart: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, restart])
        trees = problem.trees
        if self.init is not None:
            weights = from_grammar(problem, self.init)
        else:
            wanted = problem.wanted_states(self.states, self.support)
            weights = trees.split(trees.one_state(), wanted, self.noise, rng)
        return state.moved(weights, log_likelihood=float("nan"), worse=0, start_score=float("-inf"))

    def _iterate(self, problem: LatentProblem, state: TrainingState, *, smooth: bool = True) -> TrainingState:
        if self._given_up(state):
            return state
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        counts = trees.counts(weights, expected)
        objective = expected.log_likelihood
        if self.prior:
            objective += self._log_prior(weights, trees.pair_symbol)
            counts = self._with_prior(counts, weights, trees.pair_symbol)
        smoothed = smooth and (self.smoothing or self.lexical_smoothing)
        if not smoothed and objective < state.log_likelihood - _ROUNDING * max(abs(objective), trees.corpus.n_nodes):
            raise SapwoodError(
                f"iteration {state.step + 1}: the objective fell from {state.log_likelihood:.6f} to {objective:.6f}, "
                "which EM cannot do: this is an error in sapwood or in the machine"
            )
        return state.iterated(self._maximise(problem, weights, counts, smooth=smooth), objective)

    def _given_up(self, state: TrainingState) -> bool:
        return self.stop != "iterations" and state.worse >= self.patience

    def _with_prior(
        self, counts: LatentCounts, weights: LatentWeights, pair_symbol: Int[Array, "pairs"]
    ) -> LatentCounts:
        sizes = np.diff(weights.tensor_offsets)
        pair_sizes = weights.states[pair_symbol]
        return LatentCounts(
            counts.tensors + np.repeat(self.prior / sizes, sizes),
            counts.lexical + np.repeat(self.prior / pair_sizes, pair_sizes),
            counts.root,
        )

    def _log_prior(self, weights: LatentWeights, pair_symbol: Int[Array, "pairs"]) -> float:
        """Return the logarithm of the prior density, up to a constant."""
        with np.errstate(divide="ignore"):
            rules = np.add.reduceat(np.log(weights.tensors.astype(float)), weights.tensor_offsets[:-1])
            words = np.add.reduceat(np.log(weights.lexical), offsets_of(weights.states[pair_symbol])[:-1])
        by_rule = rules / np.diff(weights.tensor_offsets)
        return float(self.prior * (by_rule.sum() + (words / weights.states[pair_symbol]).sum()))

    def _compare(self, problem: LatentProblem, state: TrainingState) -> TrainingState:
        objective = problem.expectations(state.weights).log_likelihood
        if self.prior:
            objective += self._log_prior(state.weights, problem.trees.pair_symbol)
        return keep_better(state, objective)


def from_grammar(problem: LatentProblem, grammar: TensorGrammar) -> LatentWeights:
    """Return a probabilistic grammar's weights in the layout of a problem with the same symbols and rules.

    The words of a class get the class' average weights.
    """
    trees, corpus = problem.trees, problem.trees.corpus
    if not grammar.probabilistic:
        raise GrammarError("EM starts from a probabilistic grammar; this one has real-valued weights")
    if grammar.symbols != corpus.symbols or not np.array_equal(grammar.rules, corpus.rules):
        raise GrammarError("EM starts from a grammar over the corpus' own symbols and rules; this one has others")
    layout = replace(trees.one_state(), states=grammar.states)
    table = lexical_table(grammar, corpus)
    lexical = trees.by_class(grammar.states, table)
    counts = LatentCounts(grammar.tensors.astype(float), lexical, grammar.root.astype(float))
    return trees.maximise(replace(layout, root=counts.root), counts)
