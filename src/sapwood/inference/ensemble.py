"""Ensembles of grammars: products of their posteriors (Petrov 2010, "Products of random latent variable grammars").

Grammars trained on the same trees from different seeds have the same symbols, rules and words, and differ in their
hidden states. They make different errors, so what they agree on is more often right: the product is better than its
best member.

The members prune together, with the mean of their implied coarse grammars, so that they share the nodes and edges of a
sentence. Each then runs its own fine pass over that one forest, and the results are combined (`ProductChart`). A member
without a parse there is skipped for this sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.chart import (
    LEVEL_THRESHOLD_FACTOR,
    NEGLIGIBLE,
    Chart,
    build_chart,
    coarse_forest,
    fine_chart,
    refine_forest,
)
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf, compile_grammar
from sapwood.inference.chart.posteriors import Posteriors, Workspace
from sapwood.inference.constraints import Constraints, Requirement, compile_constraints
from sapwood.inference.decode import PRODUCT_DECODERS
from sapwood.inference.forest.kbest import KBestList, k_best, tree_log_probability
from sapwood.inference.forest_crf import CRFChart, CRFInput, native_crf, rescore
from sapwood.inference.span_scorer import AnySpanScorer
from sapwood.model.cell_pruner import CellPruner
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.span_scorer import SpanScorer, SpanScores
from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.tree import Tree

# Value of a missing posterior in a product (as a multiple of the negligible posterior, below which nothing is
# computed), or the smallest positive number: very unlikely, but not forbidden as long as another member has it.
_UNSEEN = 1e-3
_TINY = float(np.finfo(float).tiny)
# Size of the cache of words.
_KEPT_WORDS = 1 << 15
# Used without a span scorer.
_NO_FEATURES = np.zeros((0, 0), np.int32)
_NATIVE_DECODERS = {
    "max-rule": kernels.Decoder.max_rule,
    "max-rule-sum": kernels.Decoder.max_rule_sum,
    "recall": kernels.Decoder.recall,
    "f1": kernels.Decoder.f1,
}


@dataclass(frozen=True, eq=False, repr=False)
class ProductChart(Posteriors):
    """Combined posteriors of several grammars.

    `node_posterior` and `edge_posterior` are means over the members, `log_posteriors` the logarithms of products.
    `log_probability` is that of the uniform mixture of the probabilistic members: the mean of their sentence
    probabilities, 0 for those that have no parse. Real-valued members, whose weights can be negative, contribute to the
    posteriors only; their weights stand in if no other member has a parse. `compiled` is the first member's, with the
    mean of the coarse grammars.

    Attributes
    ----------
    count
        Number of members with a parse.
    grammars, leaves
        All grammars, also those without a parse, and the lexical weights of the words.
    members
        Charts of those with a parse; empty if the chart was built in a workspace, where each overwrites the one before.
    """

    log_nodes: Float[Array, "nodes"]
    log_edges: Float[Array, "edges"]
    count: int
    grammars: Sequence[CompiledGrammar]
    leaves: Sequence[Leaf]
    members: tuple[Chart, ...] = ()

    def log_posteriors(self) -> tuple[Float[Array, "nodes"], Float[Array, "edges"]]:
        """Return the sums over members of the logarithms of the nodes' and edges' posteriors.

        They are -inf only where no member has a positive posterior.
        """
        return self.log_nodes, self.log_edges

    def symbol_posteriors(self) -> tuple[Int[Array, "found"], Int[Array, "found"], Float[Array, "found"]]:
        """Return node index, symbol index and mean posterior of every fine symbol at every node."""
        found = [chart.symbol_posteriors() for chart in self.members]
        return found[0][0], found[0][1], np.mean([posterior for _, _, posterior in found], axis=0)

    def best(self, words: Sequence[str]) -> Tree | None:
        """Raise an error: derivations of different grammars have unrelated states."""
        del words
        raise UsageError(f"viterbi takes one grammar; for several choose from {', '.join(PRODUCT_DECODERS)}")

    def k_best(self, words: Sequence[str], count: int, workspace: Workspace | None = None) -> KBestList:
        """Return the most probable skeletal trees under the mixture of the members, whose charts must be there.

        Only probabilistic members count, if any of them has a parse. See `sapwood.inference.forest.kbest.k_best`.
        """
        charts = [chart for chart in self.members if chart.compiled.grammar.probabilistic]
        counted = [member.grammar.probabilistic or not charts for member in self.grammars]
        score = partial(_mixture_of_trees, self.grammars, self.leaves, counted)
        return k_best(self, words, count, score, workspace, charts=charts, n_grammars=sum(counted))

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Sample skeletal trees: a probabilistic member by its sentence probability, then a tree from its posterior."""
        charts = [chart for chart in self.members if chart.compiled.grammar.probabilistic]
        if not charts:
            raise GrammarError("trees can be sampled from probabilistic grammars only; these have real-valued weights")
        logs = np.array([chart.log_probability for chart in charts])
        weights = np.exp(logs - logs.max())
        drawn = rng.choice(len(weights), size=count, p=weights / weights.sum())
        trees: list[Tree | None] = [None] * count
        for number, chart in enumerate(charts):
            places = np.flatnonzero(drawn == number).tolist()
            for place, tree in zip(places, chart.sample(words, len(places), rng), strict=True):
                trees[place] = tree
        return [tree for tree in trees if tree is not None]


AnyChart: TypeAlias = Chart | ProductChart | CRFChart


class Ensemble:
    """One or several grammars over the same symbols, rules and words, compiled for the kernels.

    The `Leaf` of a word holds the rows of all members, then those of the first one's levels, and the mean of the
    members' coarse weights. With one member everything is as for a `CompiledGrammar`.

    Attributes
    ----------
    members
        The compiled grammars.
    joint
        The first member with the mean of all coarse grammars, which prunes for all of them.
    crf
        CRF that rescores nodes and edges (`sapwood.inference.forest_crf`).
    span_scorer
        Span scorer of the CRF (`sapwood.model.span_scorer`).
    prune_below
        Cells whose posterior under the span scorer, over all binary trees, is lower are pruned.
    """

    def __init__(
        self,
        grammars: Sequence[TensorGrammar],
        dtype: type,
        crf: ForestCRF | None = None,
        span_scorer: AnySpanScorer | None = None,
        cell_pruner: CellPruner | None = None,
    ) -> None:
        first, *others = grammars
        self.members = [compile_grammar(first, dtype, cell_pruner)]
        self.members += [compile_grammar(grammar, dtype) for grammar in others]
        self.joint = self.members[0] if len(self.members) == 1 else _join(self.members)
        # With few states the members are still similar: one of them prunes for all.
        levels = [level.compiled.native for level in self.members[0].levels]
        self.crf, self.span_scorer = crf, span_scorer
        self.prune_below = 0.0 if span_scorer is None else span_scorer.prune_below
        self._native_crf = None if crf is None else native_crf(crf, self.joint, span_scorer)
        self._stand_in = lru_cache(_KEPT_WORDS)(self.joint.grammar.lexicon.stand_in)
        self._counted = [member.grammar.probabilistic for member in self.members]
        self._engine = kernels.engine(
            self.joint.native_coarse, [member.native for member in self.members], levels, self._counted
        )

    def leaf(self, rows: Sequence[Float[Array, "leaf_states"]], *, fixed: bool = False) -> Leaf:
        """Return the lexical weights of a word, given as one dense row over preterminal states per member."""
        if len(rows) == 1:
            return self.members[0].leaf(rows[0], fixed=fixed)
        # The rows of all members, then those of the first one's levels.
        first, *others = (member.leaf(row) for member, row in zip(self.members, rows, strict=True))
        leaves = [first, *others]
        dense = np.zeros((len(leaves), self.joint.n_coarse))
        for values, leaf in zip(dense, leaves, strict=True):
            values[leaf.symbols] = leaf.values
        symbols = np.flatnonzero(dense.any(axis=0)).astype(np.int32)
        return kernels.join_leaves(leaves, symbols, np.ascontiguousarray(_mean(list(dense[:, symbols]))), fixed)

    def parse(
        self,
        leaves: Sequence[Leaf],
        decoder: str,
        *,
        threshold: float,
        workspace: Workspace,
        phrases: Sequence[Requirement] = (),
        words: Sequence[str] = (),
        prune_cells: bool = True,
    ) -> tuple[list[int], float] | None:
        """Return the coarse symbols of the best tree's nodes in preorder and the sentence's log probability, or None.

        Equivalent to `chart` and a decoder of `PRODUCT_DECODERS`, without intermediate results.
        """
        constraints = compile_constraints(phrases, len(leaves), self.joint.coarse, prune_cells=prune_cells)
        scorer, features = self.span_scorer, _NO_FEATURES
        if self.crf is not None and isinstance(scorer, SpanScorer):  # the kernel calls it
            words = self._known(words)
            given, native = CRFInput(self._native_crf, self.crf.table(words)), scorer.native
            features = scorer.encode(words)
        else:
            given, native = self._crf_input(words, workspace), None
        found = self._engine.parse(
            leaves, threshold, LEVEL_THRESHOLD_FACTOR * threshold, NEGLIGIBLE * threshold, _floor(threshold),
            *constraints, _NATIVE_DECODERS[decoder], *given, native, features,
            self._prune_below(phrases, threshold, prune_cells), workspace.native,
        )  # fmt: skip
        return None if found is None else (found[0].tolist(), found[1])

    def chart(
        self,
        leaves: Sequence[Leaf],
        *,
        threshold: float,
        workspace: Workspace | None = None,
        phrases: Sequence[Requirement] = (),
        words: Sequence[str] = (),
        prune_cells: bool = True,
        keep_members: bool = False,
    ) -> AnyChart | None:
        """Return the chart of a sentence, as `build_chart` does; None if no member has a parse.

        A `ProductChart` keeps the members' charts if asked to, or if no workspace is given. A CRF also takes the words.
        If allowed, cells are pruned by the first member and the span scorer.
        """
        memory = workspace or Workspace()
        given = self._crf_input(words, memory)
        constraints = self._constraints(phrases, given, len(leaves), threshold, prune_cells)
        keep_members = workspace is None or (keep_members and self.crf is None)
        chart = self._grammars_chart(leaves, threshold, memory, constraints, keep_members)
        if chart is None or self.crf is None:
            return chart
        return rescore(given, chart, chart.count if isinstance(chart, ProductChart) else 1, memory)

    def _constraints(
        self, phrases: Sequence[Requirement], given: CRFInput, n_words: int, threshold: float, prune_cells: bool
    ) -> Constraints:
        """Return the constraints on cells: those of the phrases, or else of the span scorer, if cells may be pruned."""
        constraints = compile_constraints(phrases, n_words, self.joint.coarse, prune_cells=prune_cells)
        prune_below = self._prune_below(phrases, threshold, prune_cells)
        if not prune_below or not len(given.tags):
            return constraints
        return constraints._replace(cells=SpanScores(given.spans, given.tags).prune(prune_below))

    def _prune_below(self, phrases: Sequence[Requirement], threshold: float, prune_cells: bool) -> float:
        """Return the posterior under the span scorer below which cells are pruned; 0 prunes none."""
        return self.prune_below if prune_cells and threshold and not phrases else 0.0

    def _known(self, words: Sequence[str]) -> list[str]:
        """Return the words, known punctuation in place of unknown."""
        return list(map(self._stand_in, words))

    def _crf_input(self, words: Sequence[str], workspace: Workspace) -> CRFInput:
        if self.crf is None:
            return CRFInput(None)
        words = self._known(words)
        seen = self.crf.table(words)
        if self.span_scorer is None:
            return CRFInput(self._native_crf, seen)
        workspace.native.check_room(self.span_scorer.scores_size(len(words)))
        workspace.native.check_time()
        return CRFInput(self._native_crf, seen, *self.span_scorer.scores(words))

    def _grammars_chart(
        self,
        leaves: Sequence[Leaf],
        threshold: float,
        memory: Workspace,
        constraints: Constraints,
        keep_members: bool,
    ) -> Chart | ProductChart | None:
        if len(self.members) == 1:
            return build_chart(self.joint, leaves, threshold=threshold, workspace=memory, constraints=constraints)
        forest = coarse_forest(self.joint, leaves, threshold, memory, constraints)
        if forest is None:
            return None
        forest = refine_forest(self.members[0], leaves, forest, threshold, memory, len(self.members))
        nodes = _PosteriorSum(len(forest.node_symbol), _floor(threshold))
        edges = _PosteriorSum(len(forest.children), _floor(threshold))
        kept: list[Chart] = []
        logs: list[float] = []
        for number, member in enumerate(self.members):
            chart = fine_chart(member, leaves, forest, memory, NEGLIGIBLE * threshold, number)
            if chart is None:
                logs.append(-math.inf)
                continue
            nodes.add(chart.node_posterior)
            edges.add(chart.edge_posterior)
            logs.append(chart.log_probability)
            if keep_members:
                kept.append(chart)
            del chart  # free a large one before the next is built
        if not nodes.count:
            return None
        (mean_nodes, log_nodes), (mean_edges, log_edges) = nodes.result(), edges.result()
        return ProductChart(
            self.joint,
            forest,
            mixture_log_probability(logs, self._counted),
            mean_nodes,
            mean_edges,
            log_nodes,
            log_edges,
            nodes.count,
            self.members,
            leaves,
            tuple(kept),
        )

    @cached_property
    def unknown_row(self) -> Float[Array, "coarse"]:
        """Coarse lexical weights of a completely unknown word, scaled to a maximum of 1."""
        emissions = [member.grammar.emissions for member in self.members]
        leaf = self.leaf([one.row(one.lexicon.n_terminals - 1) for one in emissions])
        row = np.zeros(self.joint.n_coarse)
        row[leaf.symbols] = leaf.values / leaf.values.max(initial=1e-300)
        return row

    def flat_tree(self, words: Sequence[str], leaves: Sequence[Leaf]) -> Tree:
        """Return the root label over the most probable tags."""
        coarse = self.joint.coarse
        children = []
        for word, leaf in zip(words, leaves, strict=True):
            if len(leaf.symbols):
                symbol = leaf.symbols[int(np.argmax(leaf.values * coarse.occupancy[leaf.symbols]))]
            else:  # a word unknown to the grammar: the most frequent tag
                symbol = coarse.n_interminals + int(np.argmax(coarse.occupancy[coarse.n_interminals :]))
            children.append(Tree(coarse.symbols.tags[symbol], word=word))
        return Tree(coarse.transform.root, children)

    def tree_log_probability(self, leaves: Sequence[Leaf], tree: Tree) -> float:
        """Return `log p(tree)` of a skeletal tree over base symbols under the uniform mixture of the members.

        Only probabilistic members count, if there are any.
        """
        counted = self._counted if any(self._counted) else [True] * len(self.members)
        return _mixture_of_trees(self.members, leaves, counted, tree)


class _PosteriorSum:
    """Running sums of posteriors and of their logarithms over members."""

    def __init__(self, size: int, floor: float) -> None:
        self.count = 0
        self._floor = floor
        self._total, self._logs, self._seen = np.zeros(size), np.zeros(size), np.zeros(size, bool)

    def add(self, posterior: np.ndarray) -> None:
        self.count += 1
        positive = posterior > 0
        self._total += posterior
        self._logs += np.log(np.where(positive, posterior, self._floor))
        self._seen |= positive

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means, and the sums of logarithms."""
        self._total /= self.count
        self._logs[~self._seen] = -np.inf
        return self._total, self._logs


def _floor(threshold: float) -> float:
    """Return the floor that replaces non-positive posteriors in a product."""
    return max(_UNSEEN * NEGLIGIBLE * threshold, _TINY)


def _mixture_of_trees(
    grammars: Sequence[CompiledGrammar], leaves: Sequence[Leaf], counted: Sequence[bool], tree: Tree
) -> float:
    """Return the logarithm of the mean probability of a skeletal tree under the grammars that count."""
    members = [(idx, member) for idx, member in enumerate(grammars) if counted[idx]]
    logs = [tree_log_probability(member, leaves, tree, idx) for idx, member in members]
    return mixture_log_probability(logs, [True] * len(logs))


def mixture_log_probability(logs: Sequence[float], counted: Sequence[bool]) -> float:
    """Return the logarithm of the mean probability under the members that count, given the logarithm under each.

    It is -inf for members without a parse, and NaN for real-valued ones with a negative weight. Members that do not
    count stand in if none of the others has a parse.
    """
    groups = [
        [x for x, one in zip(logs, counted, strict=True) if one == wanted and not math.isnan(x)] for wanted in (1, 0)
    ]
    for group in groups:
        if group and max(group) > -math.inf:
            return group[0] if len(group) == 1 else float(np.logaddexp.reduce(group)) - math.log(len(group))
    return math.nan if any(map(math.isnan, logs)) else -math.inf


def _join(members: Sequence[CompiledGrammar]) -> CompiledGrammar:
    """Return the first member with the mean of all coarse grammars, which has everything that any of them has."""
    first = members[0]
    coarse = replace(
        first.coarse,
        tensors=_mean([member.coarse.tensors for member in members]),
        root=_mean([member.coarse.root for member in members]),
        occupancy=_mean([member.coarse.occupancy for member in members]),
        rule_counts=_mean([member.coarse.rule_counts for member in members]),
    )
    weight, prior = _mean([member.rule_weight for member in members]), _mean([member.prior for member in members])
    starts = first.pair_rule_offsets[:-1]
    merit = np.maximum.reduceat(weight * prior[first.rule_parent], starts) if len(starts) else np.zeros(0)
    return replace(first, coarse=coarse, rule_weight=weight, prior=prior, pair_merit=merit)


def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of arrays; bit-identical to them if they are all the same."""
    first = arrays[0]
    return first if all(np.array_equal(first, array) for array in arrays[1:]) else np.mean(arrays, axis=0)
