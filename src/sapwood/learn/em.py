"""EM for L-PCFGs with observed trees and a fixed number of states (Matsuzaki, Miyao and Tsujii 2005).

Each iteration makes the training trees more probable, or no less (checked while it runs); where it ends depends on
where it begins: at random, or at any other grammar over the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sapwood.errors import GrammarError, SapwoodError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import lexical_table
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
from sapwood.run.progress import Progress
from sapwood.trees.corpus import Corpus

Stop = Literal["iterations", "f1", "log_likelihood"]
# By how much single precision may make the log-likelihood seem to fall, relative to its size and that of the corpus.
_ROUNDING = 1e-6


class EM:
    """Learns an L-PCFG with `states` states for each symbol.

    A random start takes the treebank's rule probabilities, divides them equally among the states of the children and
    multiplies every weight by a random number between `1 - noise` and `1 + noise`.

    Parameters
    ----------
    states
        States of each symbol: one number for all, or by name (others get 1). Symbols with fewer than `least`
        occurrences for each state get fewer.
    iterations
        The most iterations.
    init
        A probabilistic grammar over the corpus' symbols and rules to start from; then `states`, `noise` and
        `restarts` have no say.
    restarts
        Random starts; the best ending is returned.
    stop
        `iterations`: when they are done. `f1`, `log_likelihood`: when this figure of `evaluate` has not improved
        for `patience` measurements, one every `every` iterations; the best weights measured are returned.
    prior
        MAP instead of maximum likelihood: a Dirichlet prior as if every rule, and every word of every preterminal, had
        been seen this often more, in all states equally.
    noise
        See above.
    unaries, rare, lexical, threads, executor
        See `LatentProblem`. With `init`, unary chains are taken as the grammar has them, `collapsed`.
    random_state
        Seed of the random starts.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> EM(states=2, iterations=5).fit(corpus)
    <TensorGrammar: 3 symbols (2 states), 1 rules, 2 words>
    """

    def __init__(
        self,
        *,
        states: int | Mapping[str, int] = 16,
        iterations: int = 40,
        init: TensorGrammar | None = None,
        restarts: int = 1,
        stop: Stop = "iterations",
        patience: int = 3,
        every: int = 5,
        prior: float = 0.0,
        noise: float = 0.2,
        least: int = 4,
        unaries: Unaries = "steps",
        rare: int = 10,
        lexical: LexicalSettings | None = None,
        random_state: int = 0,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> None:
        counts = {"iterations": iterations, "restarts": restarts, "patience": patience, "every": every, "least": least}
        if isinstance(states, Mapping):
            counts |= {f"states of {symbol}": int(number) for symbol, number in states.items()}
        else:
            states = counts["states"] = int(states)
        for name, value in counts.items():
            if value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        if stop not in get_args(Stop):
            raise UsageError(f"stop must be one of {', '.join(get_args(Stop))}, not {stop!r}")
        if not 0 <= noise < 1:
            raise UsageError(f"noise must be at least 0 and below 1, not {noise}")
        if not 0 <= prior < float("inf"):
            raise UsageError(f"prior must be 0 or more, not {prior}")
        self.states = states
        self.iterations = iterations
        self.init = init
        self.restarts = restarts if init is None else 1
        self.stop: Stop = stop
        self.patience = patience
        self.every = every
        self.prior = prior
        self.noise = noise
        self.least = least
        self.unaries: Unaries = unaries if init is None else "collapsed"
        self.rare = rare
        self.lexical = lexical or LexicalSettings(state_strength=5.0, signature_state_strength=5.0)
        self.random_state = random_state
        self.threads = threads
        self.executor = executor

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees and the starting point, as JSON values."""
        names = (
            "states", "iterations", "restarts", "stop", "patience", "every", "prior", "noise", "least", "unaries",
            "rare", "random_state",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        if not isinstance(self.states, int):
            values["states"] = {symbol: int(number) for symbol, number in self.states.items()}
        return {**values, "lexical": asdict(self.lexical), "init": None if self.init is None else self.init.digest()}

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
            Gives the figures that `stop` goes by; with `stop="iterations"` they are only noted in the log.
        progress, log
            What to report to.
        checkpoint
            A file to keep the state of training in. If it is there, training goes on from it.
        """
        if self.stop != "iterations" and evaluate is None:
            raise UsageError(f"stop={self.stop!r} needs held-out data to measure it on")
        problem = LatentProblem.of(self, corpus)
        log = log or NoLog()
        state = TrainingState(problem.trees.one_state())
        checkpoints = None
        if checkpoint is not None:
            checkpoints = Checkpoints.of_run(checkpoint, "em", self.settings(), corpus, evaluate)
            state = checkpoints.load(state.weights) or state
        operations = self._operations(problem, evaluate, log)
        state = run_operations(operations, state, progress=progress, log=log, checkpoints=checkpoints)
        weights = state.weights if state.best is None else state.best
        return self._grammar(problem, weights, state.step)

    def _grammar(self, problem: LatentProblem, weights: LatentWeights, step: int) -> TensorGrammar:
        return problem.grammar(weights, {"method": "em", "settings": self.settings(), "iterations": step})

    def _operations(self, problem: LatentProblem, evaluate: Evaluate | None, log: Log) -> list[Operation]:
        operations = []
        for restart in range(self.restarts):
            names: dict[str, Any] = {"restart": restart} if self.restarts > 1 else {}
            operations.append(Operation(partial(self._start, problem, restart)))
            for iteration in range(1, self.iterations + 1):
                figures = {**names, "phase": "em", "iteration": iteration}
                operations.append(Operation(partial(self._iterate, problem), 1.0, figures))
                if evaluate is not None and (iteration % self.every == 0 or iteration == self.iterations):
                    operations.append(Operation(partial(self._evaluate, problem, evaluate, log, names)))
            if self.restarts > 1 and self.stop == "iterations":
                operations.append(Operation(partial(self._compare, problem)))
        return operations

    def _start(self, problem: LatentProblem, restart: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, restart])
        trees = problem.trees
        if self.init is not None:
            weights = from_grammar(problem, self.init)
        else:
            counts = trees.corpus.symbol_counts()
            if not isinstance(self.states, int) and (unknown := set(self.states) - set(trees.corpus.symbols)):
                raise UsageError(f"states are given for symbols that the trees do not have: {sorted(unknown)}")
            wanted = np.array([self._wanted(name) for name in trees.corpus.symbols])
            wanted = np.where(problem.splittable(), np.clip(counts // self.least, 1, wanted), 1)
            weights = trees.split(trees.one_state(), wanted, self.noise, rng)
        return replace(state, weights=weights, log_likelihood=float("nan"), worse=0, start_score=float("-inf"))

    def _wanted(self, symbol: str) -> int:
        return self.states if isinstance(self.states, int) else self.states.get(symbol, 1)

    def _iterate(self, problem: LatentProblem, state: TrainingState) -> TrainingState:
        if self.worse_enough(state):
            return state
        trees, weights = problem.trees, state.weights
        expected = problem.expectations(weights)
        counts = trees.counts(weights, expected)
        objective = expected.log_likelihood
        if self.prior:
            objective += self._log_prior(weights, trees.pair_symbol)
            counts = self._with_prior(counts, weights, trees.pair_symbol)
        if objective < state.log_likelihood - _ROUNDING * max(abs(objective), trees.corpus.n_nodes):
            raise SapwoodError(
                f"iteration {state.step + 1}: the objective fell from {state.log_likelihood:.6f} to {objective:.6f}, "
                "which EM cannot do: this is an error in sapwood or in the machine"
            )
        return replace(state, weights=trees.maximise(weights, counts), step=state.step + 1, log_likelihood=objective)

    def worse_enough(self, state: TrainingState) -> bool:
        """Return whether this start has been given up."""
        return self.stop != "iterations" and state.worse >= self.patience

    def _with_prior(self, counts: LatentCounts, weights: LatentWeights, pair_symbol: np.ndarray) -> LatentCounts:
        sizes = np.diff(weights.tensor_offsets)
        pair_sizes = weights.states[pair_symbol]
        return LatentCounts(
            counts.tensors + np.repeat(self.prior / sizes, sizes),
            counts.lexical + np.repeat(self.prior / pair_sizes, pair_sizes),
            counts.root,
        )

    def _log_prior(self, weights: LatentWeights, pair_symbol: np.ndarray) -> float:
        """Return the logarithm of the prior density, up to a constant."""
        with np.errstate(divide="ignore"):
            rules = np.add.reduceat(np.log(weights.tensors.astype(float)), weights.tensor_offsets[:-1])
            words = np.add.reduceat(np.log(weights.lexical), offsets_of(weights.states[pair_symbol])[:-1])
        by_rule = rules / np.diff(weights.tensor_offsets)
        return float(self.prior * (by_rule.sum() + (words / weights.states[pair_symbol]).sum()))

    def _evaluate(
        self, problem: LatentProblem, evaluate: Evaluate, log: Log, labels: Mapping[str, Any], state: TrainingState
    ) -> TrainingState:
        if self.worse_enough(state):
            return state
        state, figures = evaluated(state, self._grammar(problem, state.weights, state.step), evaluate, log, labels)
        return state if self.stop == "iterations" else keep_better(state, figure_of(figures, self.stop))

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
