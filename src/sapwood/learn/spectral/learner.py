"""Spectral learning of L-PCFGs (Cohen, Stratos, Collins, Foster and Ungar 2012, 2014): no iteration, no local optima.

Inside and outside features of every node are projected by one singular value decomposition for each symbol
(`projection`); then rule tensors, lexical and root vectors are means of products of projected vectors:

    C^{a -> b c} = (1 / M_a) sum of Z (x) Y_left (x) Y_right over the nodes with that rule
    c^inf_{a -> x} = (1 / M_a) sum of Z over the leaves with that word
    c^1_a = (1 / trees) sum of Y over the roots

(figure 7 of the long paper with `Sigma^a` the identity; `M_a` is the count of `a`). The result is the grammar up to an
invertible matrix for each symbol, so its weights can be negative; tree probabilities and posteriors are exact in the
limit, but approximate on a sample: decoders treat negative posteriors as zero.

**Nodes.** Means are over all nodes of the treebank, or over one of each tree, picked from its `N` nodes with
probability `1 / N` each: the terms of a mean are independent then, as trees are (section 8). A picked node counts `N`
times, which the paper omits: without it nodes of small trees count for too much, the inside and outside tree of a node
depend on each other through `N` even when its state is known, and the estimate is not consistent (see `population`);
with it each sum has the expectation of the sum over all nodes. Roots, one per tree, are all used.

A rule seen n times gets `lambda = sqrt(n) / (C + sqrt(n))` of its own third-order mean; the rest comes from products of
its second- and first-order means, and of first-order means drawn towards those of the symbols (after Cohen et al.
2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.em_loop import key_of_run, metric
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.spectral.feature_learner import FeatureLearner
from sapwood.learn.spectral.moments import Statistics
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.nonnegative import nearest_counts, state_means
from sapwood.learn.spectral.projection import ProjectedNodes, diagnostics
from sapwood.learn.spectral.state_search import StateScores, search_states
from sapwood.runtime.blas import one_blas_thread
from sapwood.runtime.context import RunContext
from sapwood.runtime.params import choice, integer, number, numbers
from sapwood.runtime.progress import Progress
from sapwood.storage.shapes import Array, Int64
from sapwood.trees.corpus import Corpus

Scheme = Literal["all", "one"]
Weights = Literal["real", "non-negative"]
# Maximum number of states with `auto` and `search`, and the number that a search starts from.
_MOST, _BEGIN = 32, 16
# Smoothing of states towards the mean of their symbol's, for probabilistic weights, as in EM.
_SMOOTHING = {"smoothing": 0.03, "lexical_smoothing": 0.1}


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectral(FeatureLearner):
    """Learner of a real-valued L-PCFG from projected features.

    Parameters
    ----------
    states
        Maximum number of states of each symbol: one number for all, or by name (others get one). With `"auto"` each
        symbol gets as many as its singular values support, up to 32; the cut-off is chosen on `dev`, if given. With
        `"search"` they are found one by one on `dev` (`learn.spectral.state_search`).
    inside, outside, min_feature_count, kappa, tolerance, min_support
        See `FeatureLearner`.
    dropout
        Share of features dropped at random, by the seed: for ensembles, whose members would hardly differ otherwise.
    backoff
        `C`, the weight of simpler moments relative to a rule's own; or several values, of which the best on `dev` is
        taken (the first, if there is none).
    weights, polish
        `real` weights, as in the papers; or the nearest `non-negative` ones, which are probabilities
        (`learn.spectral.nonnegative`), with at most N iterations of EM, the best on `dev`.
    nodes
        Nodes that moments are estimated on: `all`, or `one` of each tree, picked at random, as in the paper's analysis
        (section 8), and weighted by the number of nodes of its tree.
    searched, beam
        With `states="search"`: number of symbols to search, the most frequent ones, and size of the beam.
    unaries, rare_threshold, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> Spectral(states=4).fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "spectral"

    states: int | Mapping[str, int] | Literal["auto", "search"] = integer(  # type: ignore[assignment]
        16,
        "Maximum number of hidden states per symbol; auto chooses it by singular values, search by accuracy on --dev.",
        low=1,
        options=("auto", "search"),
        by_symbol=True,
    )
    searched: int = integer(40, "Search for the number of states of the N most frequent symbols.", low=1)
    beam: int = integer(1, "Beam size of the search for numbers of states.", low=1)
    dropout: float = number(0.0, "Share of features dropped at random, for ensembles.", below=1)
    backoff: float | Sequence[float] = numbers(
        (20.0, 10.0, 30.0), "Weight of back-off moments relative to a rule's own; of several, the best on --dev."
    )
    weights: Weights = choice("real", "Real weights, or the nearest probabilities (see --polish).", get_args(Weights))
    polish: int = integer(3, "Maximum EM iterations with --weights non-negative; the best on --dev is kept.")
    nodes: Scheme = choice("all", "Estimate moments from all nodes, or from one node per tree.", get_args(Scheme))
    rare_threshold: int = integer(5, "Replace words seen N times or fewer by a word-shape signature.")

    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        if self.states == "search" and dev is None:
            raise UsageError("the search for numbers of states requires dev; give dev, or a number of states")
        problem = self.problem(corpus)
        self._warn_about_memory(problem, dev, run.progress)
        table = NodeTable(problem.trees.corpus, problem.word_classes)
        weights = self._weights(problem.trees.corpus)
        best: tuple[float, TensorGrammar] | None = None
        step = 0
        for tolerance in self._tolerances(dev):
            with one_blas_thread():
                wanted = self._wanted(problem)
                projected = self._project_nodes(
                    table, wanted, run.progress, dropout=self.dropout, tolerance=tolerance, weights=weights
                )
                statistics = Statistics.of(projected, weights, problem, self.executor, run.progress)
            if self.states == "search" and dev is not None:
                key = key_of_run(self.method, self.settings(), corpus, dev)
                statistics, step = self._searched(problem, statistics, dev, run, key)
            info = self._described(problem, replace(projected, states=statistics.states), tolerance, run.progress)
            for labels, grammar in self._grammars(
                problem, projected, statistics, info, run.progress, measured=dev is not None
            ):
                step += 1
                if dev is None:
                    return grammar
                figures = dev(grammar)
                run.log.write("dev", step=step, tolerance=tolerance, **labels, **figures)
                score = metric(figures, "f1", dev)
                if best is None or score > best[0]:
                    # These are the figures that measure the quality of the weights.
                    told = {name: round(value, 2) for name, value in figures.items() if name.startswith("negative_")}
                    best = (score, grammar.with_info(held_out=told) if told else grammar)
        assert best is not None
        return best[1]

    @property
    def _runs_em(self) -> bool:
        return self.weights != "real" and self.polish > 0

    def _wanted(self, problem: LPCFGProblem) -> Int64[Array, "symbols"]:
        return problem.wanted_states(_MOST if self.states in ("auto", "search") else self.states, self.min_support)  # type: ignore[arg-type]

    def _backoffs(self) -> Sequence[float]:
        return [self.backoff] if isinstance(self.backoff, int | float) else self.backoff

    def _tolerances(self, dev: Evaluate | None) -> list[float]:
        if self.states != "auto" or dev is None:
            return [self.tolerance]
        return sorted({min(factor * self.tolerance, 0.8) for factor in (1, 3, 10, 20)})

    def _weights(self, corpus: Corpus) -> np.ndarray | None:
        """Return the weight of each node in moments, `(nodes,)` and mostly 0; None if all are equal."""
        if self.nodes == "all":
            return None
        rng = np.random.default_rng([self.random_state, 1])
        sizes = np.diff(corpus.offsets)
        picked = corpus.offsets[:-1] + (rng.random(corpus.n_trees) * sizes).astype(np.int64)
        weights = np.zeros(corpus.n_nodes)
        weights[picked] = sizes
        return weights

    def _described(
        self, problem: LPCFGProblem, projected: ProjectedNodes, tolerance: float, progress: Progress
    ) -> dict[str, Any]:
        """Return metadata about the states of a grammar."""
        searched = self.states == "search"
        records, remarks = diagnostics(projected, projected.states if searched else self._wanted(problem))
        if remarks and self.states != "auto":
            shown = "; ".join(remarks[:3]) + (f"; and {len(remarks) - 3} other symbols" if len(remarks) > 3 else "")
            progress.note(
                f"fewer hidden states than `states` allows: {shown}. They are rare, or too alike everywhere they "
                "occur; nothing needs to be done, and more trees would support more states"
            )
        return {"tolerance": tolerance, "symbols": records, "remarks": remarks}

    def _searched(
        self,
        problem: LPCFGProblem,
        statistics: Statistics,
        dev: Evaluate,
        run: RunContext,
        key: Mapping[str, Any],
    ) -> tuple[Statistics, int]:
        """Return the statistics with the best numbers of states, and the number of settings evaluated."""
        corpus = problem.trees.corpus
        backoff = self._backoffs()[0]

        def measure(states: np.ndarray, number: int, symbol: int | None) -> float:
            grammar = self._grammar(problem, statistics.truncated(states, corpus.rules), backoff, {})
            figures = dev(grammar)
            moved: dict[str, Any] = (
                {} if symbol is None else {"symbol": corpus.symbols[symbol], "states": int(states[symbol])}
            )
            run.log.write("dev", step=number + 1, backoff=backoff, **moved, **figures)
            return metric(figures, "f1")

        most = statistics.states.astype(np.int64)
        frequent = np.argsort(-corpus.symbol_counts(), kind="stable")
        symbols = frequent[most[frequent] > 1][: self.searched].tolist()
        scores = StateScores(measure, run.checkpoint, key)
        found = search_states(scores, np.minimum(most, _BEGIN), most, symbols, beam=self.beam, progress=run.progress)
        return statistics.truncated(found, corpus.rules), len(scores)

    def _grammars(
        self,
        problem: LPCFGProblem,
        projected: ProjectedNodes,
        statistics: Statistics,
        info: Mapping[str, Any],
        progress: Progress,
        *,
        measured: bool,
    ) -> Iterator[tuple[dict[str, Any], TensorGrammar]]:
        """Yield the candidate grammars with their settings; only one if they are not `measured`."""
        if self.weights == "real":
            for backoff in self._backoffs():
                yield {"backoff": backoff}, self._grammar(problem, statistics, backoff, info)
            return
        with one_blas_thread():
            means = state_means(projected.truncated(statistics.states), self.executor, self.random_state)
        for backoff in self._backoffs():
            layout, counts = nearest_counts(problem, statistics, means, backoff, problem.trees.one_state())
            weights = problem.trees.m_step(layout, counts, **_SMOOTHING)
            told = {"method": self.method, "settings": self.settings()}
            for iteration in range(self.polish + 1):
                if iteration:
                    counts = problem.trees.counts(weights, problem.expectations(weights))
                    weights = problem.trees.m_step(weights, counts, **_SMOOTHING)
                if measured or iteration == self.polish:
                    spectral = {"backoff": backoff, "polished": iteration, **info}
                    labels = {"backoff": backoff, "iteration": iteration}
                    yield labels, problem.grammar(weights, {**told, "spectral": spectral})

    def _grammar(
        self, problem: LPCFGProblem, statistics: Statistics, backoff: float, info: Mapping[str, Any]
    ) -> TensorGrammar:
        corpus = problem.trees.corpus
        tensors = statistics.tensors(corpus.rules, backoff)
        root = [sums / corpus.n_trees for sums in statistics.root]
        return problem.real_grammar(
            statistics.states, tensors, root, statistics.word_sums(), statistics.inside,
            {"method": self.method, "settings": self.settings(), "spectral": {"backoff": backoff, **info}},
        )  # fmt: skip
