"""EM for L-PCFGs with observed trees and a fixed number of states (Matsuzaki, Miyao and Tsujii 2005).

Each iteration increases the likelihood of the training trees, or leaves it unchanged (checked at run time). The result
depends on the initialisation: random, or any other grammar over the same rules. With smoothing, each iteration is
followed by a step towards the mean of a symbol's states, as in split-merge: the grammar generalises better, but the
likelihood no longer increases monotonically.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sapwood.errors import GrammarError, UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import lexical_table
from sapwood.learn.lpcfg.em_learner import SmoothingLearner
from sapwood.learn.lpcfg.em_loop import TrainingState, TrainStep, keep_better
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights
from sapwood.learn.semi_supervised.forests import WeightedForests
from sapwood.numerics.convergence import check_rise
from sapwood.runtime.context import RunContext
from sapwood.runtime.params import choice, integer, number, opaque
from sapwood.storage.shapes import Array, Int
from sapwood.trees.corpus import Corpus

Stop = Literal["iterations", "f1", "log-likelihood"]
# Tolerated decrease of the log-likelihood in single precision, relative to its size and that of the corpus.
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True, repr=False)
class EM(SmoothingLearner):
    """Learner of an L-PCFG with `states` states for each symbol, by EM.

    Random initialisation takes the treebank's rule probabilities, divides them equally among the states of the children
    and multiplies every weight by a random number between `1 - noise` and `1 + noise`.

    Parameters
    ----------
    states
        States of each symbol: one number for all, or by name (others get 1). Symbols with fewer than
        `min_support` occurrences for each state get fewer.
    iterations
        Maximum number of iterations.
    init
        A probabilistic grammar over the corpus' symbols and rules to start from; then `states`, `noise` and `restarts`
        are ignored.
    restarts
        Number of random initialisations; the best result is returned.
    stop
        `iterations`: after all of them. `f1`, `log-likelihood`: when this score on `dev` has not improved for
        `patience` evaluations, one every `eval_every` iterations; the best weights are returned.
    prior
        MAP instead of maximum likelihood: a Dirichlet prior that adds this pseudo-count to every rule and every word of
        every preterminal, divided equally among states.
    smoothing, lexical_smoothing
        See `SmoothingLearner`; none by default.
    noise, min_support
        See above.
    unaries, rare_threshold, lexical, random_state, threads, workers
        See `LatentLearner`. With `init`, unary chains are `collapsed`, as in the grammar.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> EM(states=2, iterations=5).fit(corpus)
    <TensorGrammar: 3 symbols (2 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "em"
    takes_forests: ClassVar[bool] = True

    states: int | Mapping[str, int] = integer(
        16, "Number of hidden states per symbol: N, or by symbol, such as NP=24,VP=16,8.", low=1, by_symbol=True
    )
    iterations: int = integer(40, "Maximum EM iterations.", low=1)
    init: TensorGrammar | None = opaque(None, "Grammar to initialise from, trained on the same trees.", TensorGrammar)
    restarts: int = integer(1, "Number of random restarts; the best is kept.", low=1)
    stop: Stop = choice(
        "iterations",
        "Stop after all iterations, or when this metric on --dev stops improving (see --patience).",
        get_args(Stop),
    )
    patience: int = integer(3, "Stop after N evaluations on --dev without improvement.", low=1)
    eval_every: int = integer(5, "Evaluate on --dev every N EM iterations.", low=1)
    prior: float = number(0.0, "Pseudo-count of every rule and word.", below=1e9)
    noise: float = number(0.2, "Noise of the random initialisation around uniform.", below=1)
    min_support: int = integer(4, "Minimum occurrences of a symbol per state.", low=1)
    smoothing: float = number(0.0, "Smoothing of rule probabilities towards the mean over a symbol's states.", below=1)
    lexical_smoothing: float = number(
        0.0, "Smoothing of word probabilities towards the mean over a symbol's states.", below=1
    )

    def problem(self, corpus: Corpus, sources: Sequence[WeightedForests] = ()) -> LPCFGProblem:
        """Return the corpus and additional data as a problem of this learner."""
        if self.init is None:
            return super().problem(corpus, sources)
        return replace(self, init=None, unaries="collapsed").problem(corpus, sources)

    def _expected_states(self, problem: LPCFGProblem) -> tuple[Int[Array, "symbols"], Int[Array, "symbols"]]:
        if self.init is None:
            states = problem.wanted_states(self.states, self.min_support)
        else:
            states = self.init.states[_find_symbols(problem.trees.corpus, self.init)]
        return states, states

    def _operations(self, problem: LPCFGProblem, dev: Evaluate | None, run: RunContext) -> list[TrainStep]:
        if self.stop != "iterations" and dev is None:
            raise UsageError(f"stop={self.stop!r} needs held-out data to measure it on")
        operations = []
        restarts = self.restarts if self.init is None else 1
        for restart in range(restarts):
            names: dict[str, Any] = {"restart": restart} if restarts > 1 else {}
            operations.append(TrainStep(partial(self._start, problem, restart)))
            for iteration in range(1, self.iterations + 1):
                figures = {**names, "phase": "em", "iteration": iteration}
                operations.append(TrainStep(partial(self._iterate, problem), 1.0, figures))
                if dev is not None and (iteration % self.eval_every == 0 or iteration == self.iterations):
                    figure = None if self.stop == "iterations" else self.stop.replace("-", "_")
                    operations.append(TrainStep(partial(self._measure, problem, dev, run.log, names, figure)))
            if restarts > 1 and self.stop == "iterations":
                operations.append(TrainStep(partial(self._compare, problem)))
        return operations

    def _start(self, problem: LPCFGProblem, restart: int, state: TrainingState) -> TrainingState:
        rng = np.random.default_rng([self.random_state, restart])
        trees = problem.trees
        if self.init is not None:
            weights = from_grammar(problem, self.init)
        else:
            wanted = problem.wanted_states(self.states, self.min_support)
            weights = trees.split(trees.one_state(), wanted, self.noise, rng)
        return state.with_weights(weights, log_likelihood=float("nan"), worse=0, start_score=float("-inf"))

    def _iterate(self, problem: LPCFGProblem, state: TrainingState, *, smooth: bool = True) -> TrainingState:
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
        if not smoothed:
            rounding = _ROUNDING * max(abs(objective), trees.corpus.n_nodes)
            check_rise(state.step + 1, state.log_likelihood, objective, rounding)
        return state.after_iteration(self._m_step(problem, weights, counts, smooth=smooth), objective)

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
        """Return the log prior density, up to a constant."""
        with np.errstate(divide="ignore"):
            rules = np.add.reduceat(np.log(weights.tensors.astype(float)), weights.tensor_offsets[:-1])
            words = np.add.reduceat(np.log(weights.lexical), offsets_of(weights.states[pair_symbol])[:-1])
        by_rule = rules / np.diff(weights.tensor_offsets)
        return float(self.prior * (by_rule.sum() + (words / weights.states[pair_symbol]).sum()))

    def _compare(self, problem: LPCFGProblem, state: TrainingState) -> TrainingState:
        objective = problem.expectations(state.weights).log_likelihood
        if self.prior:
            objective += self._log_prior(state.weights, problem.trees.pair_symbol)
        return keep_better(state, objective)


def from_grammar(problem: LPCFGProblem, grammar: TensorGrammar) -> LatentWeights:
    """Return the weights of a probabilistic grammar in the layout of a problem whose symbols and rules it has.

    Words of a class get the average weights of the class. Rules of the grammar that the trees do not have are dropped.
    """
    trees, corpus = problem.trees, problem.trees.corpus
    if not grammar.probabilistic:
        raise GrammarError(
            "EM cannot start from a grammar with real-valued weights; train the initial model by cluster, pivot, em or "
            "split-merge"
        )
    symbols = _find_symbols(corpus, grammar)
    known = {rule: idx for idx, rule in enumerate(map(tuple, grammar.rules.tolist()))}
    rules = [known.get(rule, -1) for rule in map(tuple, symbols[corpus.rules].tolist())]
    if -1 in rules:
        parent, left, right = (corpus.symbols[symbol] for symbol in corpus.rules[rules.index(-1)])
        raise GrammarError(
            f"EM cannot start from a grammar without the rule {parent} -> {left} {right} of the trees; train the "
            "initial model on the same trees"
        )
    tensors = [grammar.tensors[grammar.tensor_offsets[rule] : grammar.tensor_offsets[rule + 1]] for rule in rules]
    roots = [grammar.root[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]] for symbol in symbols]
    states = grammar.states[symbols]
    lexical = trees.by_class(states, lexical_table(grammar, corpus, symbols))
    root = np.concatenate(roots).astype(float)
    counts = LatentCounts(np.concatenate([np.zeros(0), *tensors]).astype(float), lexical, root)
    return trees.m_step(replace(trees.one_state(), states=states, root=root), counts)


def _find_symbols(corpus: Corpus, grammar: TensorGrammar) -> Int[Array, "symbols"]:
    """Return the indices in a grammar of the corpus' symbols."""
    if grammar.transform != corpus.transform:
        pairs = [
            (one.name, getattr(grammar.transform, one.name), getattr(corpus.transform, one.name))
            for one in fields(corpus.transform)
        ]
        differences = ", ".join(
            f"{name} is {theirs!r} there and {ours!r} here" for name, theirs, ours in pairs if theirs != ours
        )
        raise GrammarError(
            f"EM cannot start from a grammar whose trees were transformed otherwise: {differences}; train with the "
            "same settings of trees as the initial model (--vertical, --horizontal, --annotate-tags, --binarise)"
        )
    found = []
    for idx, name in enumerate(corpus.symbols):
        try:
            found.append(grammar.symbol_number(name, preterminal=idx >= corpus.n_interminals))
        except KeyError:
            raise GrammarError(
                f"EM cannot start from a grammar without the symbol {name} of the trees; train the initial model on "
                "the same trees, with the same options for labels"
            ) from None
    return np.array(found)
