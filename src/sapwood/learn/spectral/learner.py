"""Spectral learning of L-PCFGs (Cohen, Stratos, Collins, Foster and Ungar 2012, 2014): no iteration, no local optima.

Inside and outside features of every node are projected by one singular value decomposition for each symbol
(`projection`); then rule tensors, lexical and root vectors are means of products of projected vectors:

    C^{a -> b c} = (1 / M_a) sum of Z (x) Y_left (x) Y_right over the nodes with that rule
    c^inf_{a -> x} = (1 / M_a) sum of Z over the leaves with that word
    c^1_a = (1 / trees) sum of Y over the roots

(figure 7 of the long paper with `Sigma^a` the identity; `M_a` is how often `a` occurs). The result is the grammar up to
an invertible matrix for each symbol, so its weights can be negative; tree probabilities and posteriors are right in
the limit, and only nearly so on a sample: negative posteriors are taken for zero by the decoders.

**Which nodes.** Means are over all nodes of the treebank, or over one of each tree, picked from its `N` nodes with
probability `1 / N` each: the terms of a mean are independent then, as trees are (section 8). A picked node counts `N`
times, which the paper leaves out: without it nodes of small trees count for too much, inside and outside tree of a
node depend on each other through `N` even when its state is known, and the result does not tend to the grammar (see
`population`); with it each sum has the expectation of the sum over all nodes. Roots, one a tree, are all used.

A rule seen n times gets `lambda = sqrt(n) / (C + sqrt(n))` of its own third-order mean; the rest comes from products of
its second- and first-order means, and of first-order means drawn towards those of the symbols (after Cohen et al.
2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.forecast import Phase
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import choice, integer, number, numbers
from sapwood.learn.spectral.feature_learner import FeatureLearner
from sapwood.learn.spectral.moments import Statistics
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.nonnegative import nearest_counts, state_means
from sapwood.learn.spectral.projection import ProjectedNodes, diagnostics
from sapwood.learn.spectral.state_search import Scores, search_states
from sapwood.learn.training import figure_of, key_of_run
from sapwood.run.log import Log
from sapwood.run.parallel import one_blas_thread
from sapwood.run.progress import Progress
from sapwood.shapes import Array, Int64
from sapwood.trees.corpus import Corpus

Scheme = Literal["all", "one"]
Weights = Literal["real", "non-negative"]
# The most states where singular values or a search choose, and those that a search begins with.
_MOST, _BEGIN = 32, 16
# Of weights that are probabilities: how far states are drawn towards the mean of their symbol's, as in EM.
_SMOOTHING = {"smoothing": 0.03, "lexical_smoothing": 0.1}


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectral(FeatureLearner):
    """Learns a real-valued L-PCFG from projected features.

    Parameters
    ----------
    states
        The most states of each symbol: one number for all, or by name (others get one). With `"auto"` each symbol gets
        as many as its singular values support, up to 32; where to cut them is chosen by `dev`, if there is one. With
        `"search"` they are found one by one, by what `dev` says (`learn.spectral.state_search`).
    inside, outside, least, kappa, tolerance, support
        See `FeatureLearner`.
    dropout
        The part of all features that is left out at random, by the seed: for ensembles, whose members would hardly
        differ otherwise.
    backoff
        `C`, the weight of simpler moments beside a rule's own; or several values of which the best by `dev` is taken
        (the first, if there is none).
    weights, polish
        `real` weights, as the papers have them; or the nearest `non-negative` ones, which are probabilities
        (`learn.spectral.nonnegative`), with so many iterations of EM at most, the best by `dev`.
    nodes
        Nodes that moments are estimated on: `all`, or `one` of each tree, picked at random, as the paper's analysis has
        it (section 8), and weighted by the number of nodes of its tree.
    searched, beam
        With `states="search"`: how many symbols are searched, the most frequent ones, and how many settings are kept.
    unaries, rare, lexical, random_state, threads, workers
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
        "The most hidden states of each symbol; auto: as many as its singular values support; search: as many as are "
        "best by --dev, found symbol by symbol.",
        low=1,
        words=("auto", "search"),
    )
    searched: int = integer(40, "Symbols whose states are searched, the most frequent ones.", low=1)
    beam: int = integer(1, "Settings kept at a time in a search of states.", low=1)
    dropout: float = number(0.0, "Part of the features left out at random, for ensembles.", below=1)
    backoff: float | Sequence[float] = numbers(
        (20.0, 10.0, 30.0), "The weight of simpler moments beside a rule's own; the best of several by --dev."
    )
    weights: Weights = choice(
        "real", "Real weights; or the nearest ones that are probabilities (see --polish).", get_args(Weights)
    )
    polish: int = integer(3, "Iterations of EM at most once weights are probabilities; the best by --dev.")
    nodes: Scheme = choice("all", "Moments over all nodes, or over one of each tree.", get_args(Scheme))
    rare: int = integer(5, "Words seen no more often show their form only.")

    def _learn(
        self, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, checkpoint: str | Path | None
    ) -> TensorGrammar:
        if self.states == "search" and dev is None:
            raise UsageError("numbers of states are searched by what dev says; give dev, or a number of states")
        problem = self.problem(corpus)
        self._foretell(problem, dev, progress)
        table = NodeTable(problem.trees.corpus, problem.word_classes)
        weights = self._weights(problem.trees.corpus)
        best: tuple[float, TensorGrammar] | None = None
        step = 0
        for tolerance in self._tolerances(dev):
            with one_blas_thread():
                projected = self._project(problem, table, weights, tolerance, progress)
                statistics = Statistics.of(projected, weights, problem, self.where, progress)
            if self.states == "search" and dev is not None:
                key = {} if checkpoint is None else key_of_run(self.method, self.settings(), corpus, dev)
                statistics, step = self._searched(problem, statistics, dev, progress, log, checkpoint, key)
            info = self._described(problem, replace(projected, states=statistics.states), tolerance, progress)
            for labels, grammar in self._grammars(
                problem, projected, statistics, info, progress, measured=dev is not None
            ):
                step += 1
                if dev is None:
                    return grammar
                figures = dev(grammar)
                log.write("dev", step=step, tolerance=tolerance, **labels, **figures)
                score = figure_of(figures, "f1")
                if best is None or score > best[0]:
                    # Of other figures that come with them these are the ones that tell what the weights are worth.
                    told = {name: round(value, 2) for name, value in figures.items() if name.startswith("negative_")}
                    best = (score, grammar.with_info(held_out=told) if told else grammar)
        assert best is not None
        return best[1]

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        # (A search tries about three numbers for each symbol.)
        looks = len(self._backoffs()) + (3 * self.searched * self.beam if self.states == "search" else 0)
        return [replace(phase, looks=looks) for phase in super()._phases(problem)]

    def _wanted(self, problem: LatentProblem) -> Int64[Array, "symbols"]:
        return problem.wanted_states(_MOST if self.states in ("auto", "search") else self.states, self.support)  # type: ignore[arg-type]

    def _backoffs(self) -> Sequence[float]:
        return [self.backoff] if isinstance(self.backoff, int | float) else self.backoff

    def _tolerances(self, dev: Evaluate | None) -> list[float]:
        if self.states != "auto" or dev is None:
            return [self.tolerance]
        return sorted({min(factor * self.tolerance, 0.8) for factor in (1, 3, 10, 20)})

    def _weights(self, corpus: Corpus) -> np.ndarray | None:
        """Return what each node counts in moments, `(nodes,)` and mostly 0; None if all count the same."""
        if self.nodes == "all":
            return None
        rng = np.random.default_rng([self.random_state, 1])
        sizes = np.diff(corpus.offsets)
        picked = corpus.offsets[:-1] + (rng.random(corpus.n_trees) * sizes).astype(np.int64)
        weights = np.zeros(corpus.n_nodes)
        weights[picked] = sizes
        return weights

    def _project(
        self,
        problem: LatentProblem,
        table: NodeTable,
        weights: np.ndarray | None,
        tolerance: float,
        progress: Progress,
    ) -> ProjectedNodes:
        return self._project_nodes(
            table, self._wanted(problem), progress, dropout=self.dropout, tolerance=tolerance, weights=weights
        )

    def _described(
        self, problem: LatentProblem, projected: ProjectedNodes, tolerance: float, progress: Progress
    ) -> dict[str, Any]:
        """Return what a grammar tells of its states."""
        searched = self.states == "search"
        records, remarks = diagnostics(projected, projected.states if searched else self._wanted(problem))
        if remarks and self.states != "auto":
            shown = "; ".join(remarks[:3]) + (f"; and {len(remarks) - 3} other symbols" if len(remarks) > 3 else "")
            progress.note(f"fewer states than asked for: {shown}")
        return {"tolerance": tolerance, "symbols": records, "remarks": remarks}

    def _searched(
        self,
        problem: LatentProblem,
        statistics: Statistics,
        dev: Evaluate,
        progress: Progress,
        log: Log,
        checkpoint: str | Path | None,
        key: Mapping[str, Any],
    ) -> tuple[Statistics, int]:
        """Return the statistics with the numbers of states that are best, and how many settings were measured."""
        corpus = problem.trees.corpus
        backoff = self._backoffs()[0]

        def measure(states: np.ndarray, number: int, symbol: int | None) -> float:
            grammar = self._grammar(problem, statistics.truncated(states, corpus.rules), backoff, {})
            figures = dev(grammar)
            moved: dict[str, Any] = (
                {} if symbol is None else {"symbol": corpus.symbols[symbol], "states": int(states[symbol])}
            )
            log.write("dev", step=number + 1, backoff=backoff, **moved, **figures)
            return figure_of(figures, "f1")

        most = statistics.states.astype(np.int64)
        frequent = np.argsort(-corpus.symbol_counts(), kind="stable")
        symbols = frequent[most[frequent] > 1][: self.searched].tolist()
        scores = Scores(measure, checkpoint, key)
        found = search_states(scores, np.minimum(most, _BEGIN), most, symbols, beam=self.beam, progress=progress)
        return statistics.truncated(found, corpus.rules), len(scores)

    def _grammars(
        self,
        problem: LatentProblem,
        projected: ProjectedNodes,
        statistics: Statistics,
        info: Mapping[str, Any],
        progress: Progress,
        *,
        measured: bool,
    ) -> Iterator[tuple[dict[str, Any], TensorGrammar]]:
        """Yield the grammars to choose from, and what tells them apart; only one if nothing is to be `measured`."""
        if self.weights == "real":
            for backoff in self._backoffs():
                yield {"backoff": backoff}, self._grammar(problem, statistics, backoff, info)
            return
        with one_blas_thread():
            means = state_means(projected.truncated(statistics.states), self.where, self.random_state)
        for backoff in self._backoffs():
            layout, counts = nearest_counts(problem, statistics, means, backoff, problem.trees.one_state())
            weights = problem.trees.maximise(layout, counts, **_SMOOTHING)
            told = {"method": self.method, "settings": self.settings()}
            for iteration in range(self.polish + 1):
                if iteration:
                    counts = problem.trees.counts(weights, problem.expectations(weights))
                    weights = problem.trees.maximise(weights, counts, **_SMOOTHING)
                if measured or iteration == self.polish:
                    spectral = {"backoff": backoff, "polished": iteration, **info}
                    labels = {"backoff": backoff, "iteration": iteration}
                    yield labels, problem.grammar(weights, {**told, "spectral": spectral})

    def _grammar(
        self, problem: LatentProblem, statistics: Statistics, backoff: float, info: Mapping[str, Any]
    ) -> TensorGrammar:
        corpus = problem.trees.corpus
        tensors = statistics.tensors(corpus.rules, backoff)
        root = [sums / corpus.n_trees for sums in statistics.root]
        return problem.real_grammar(
            statistics.states, tensors, root, statistics.word_sums(), statistics.inside,
            {"method": self.method, "settings": self.settings(), "spectral": {"backoff": backoff, **info}},
        )  # fmt: skip
