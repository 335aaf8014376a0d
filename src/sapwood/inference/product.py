"""Several grammars as one: products of their posteriors (Petrov 2010, "Products of random latent variable grammars").

Grammars that were trained on the same trees from different seeds have the same symbols, rules and words, and differ in
what their hidden states have learnt. Each is wrong in other places, so what they agree on is more often right: the
product is better than its best member.

The members prune together, with the mean of the coarse grammars that they imply, so that the nodes and edges of a
sentence are the same for all of them. Each then runs its own fine pass over that one forest, and what they find is
combined (`ProductChart`). A member that has no parse there is left out for this sentence.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.bundle import load_models
from sapwood.grammar.layer import Layer
from sapwood.grammar.network import Network, Scores
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart import (
    LEVEL,
    NEGLIGIBLE,
    Chart,
    Posteriors,
    Workspace,
    build_chart,
    coarse_forest,
    fine_chart,
    refine_forest,
)
from sapwood.inference.compiled import CompiledGrammar, Leaf, compile_grammar
from sapwood.inference.constraints import Constraints, Requirement, compile_constraints
from sapwood.inference.forest_trees import sample, tree_log_probability
from sapwood.inference.layered import LayeredChart, LayerInput, apply_layer, native_layer
from sapwood.models import find_model
from sapwood.shapes import Array, Float, Int
from sapwood.trees.tree import Tree

Source = TensorGrammar | str | os.PathLike[str]
Model = Source | Iterable[Source]

# What a member gives no posterior counts as this in a product (as a multiple of what is negligible, which is not
# computed), or as the smallest number there is: most unlikely, but not forbidden as long as another member has it.
_UNSEEN = 1e-3
_TINY = float(np.finfo(float).tiny)
_NATIVE_DECODERS = {
    "max-rule": kernels.Decoder.max_rule,
    "max-rule-sum": kernels.Decoder.max_rule_sum,
    "recall": kernels.Decoder.recall,
    "f1": kernels.Decoder.f1,
}


@dataclass(frozen=True, eq=False, repr=False)
class ProductChart(Posteriors):
    """What several grammars together know about a sentence.

    `node_posterior` and `edge_posterior` are means over the members, `log_posteriors` the logarithms of products.
    `log_probability` is that of the uniform mixture: the mean of the members' sentence probabilities, 0 for those that
    have no parse. `compiled` is the first member's, with the mean of the coarse grammars.

    Attributes
    ----------
    count
        How many members have a parse.
    members
        Their charts; empty if the chart was built in a workspace, where each took the
        place of the one before.
    """

    log_nodes: Float[Array, "nodes"]
    log_edges: Float[Array, "edges"]
    count: int
    members: tuple[Chart, ...] = ()

    def log_posteriors(self) -> tuple[Float[Array, "nodes"], Float[Array, "edges"]]:
        """Return the sums over members of the logarithms of the nodes' and edges' posteriors.

        They are -inf only where no member has a positive posterior.
        """
        return self.log_nodes, self.log_edges

    def symbol_posteriors(self) -> tuple[Int[Array, "found"], Int[Array, "found"], Float[Array, "found"]]:
        """Return, for every fine symbol at every node, node number, symbol number and mean posterior."""
        found = [chart.symbol_posteriors() for chart in self.members]
        return found[0][0], found[0][1], np.mean([posterior for _, _, posterior in found], axis=0)

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Draw skeletal trees: a member by how probable it makes the sentence, then a tree from its posterior."""
        if not all(chart.compiled.grammar.probabilistic for chart in self.members):
            raise GrammarError("trees can be sampled from probabilistic grammars only; one has real-valued weights")
        logs = np.array([chart.log_probability for chart in self.members])
        weights = np.exp(logs - logs.max())
        drawn = rng.choice(len(weights), size=count, p=weights / weights.sum())
        trees: list[Tree | None] = [None] * count
        for number, chart in enumerate(self.members):
            places = np.flatnonzero(drawn == number).tolist()
            for place, tree in zip(places, sample(chart, words, len(places), rng), strict=True):
                trees[place] = tree
        return [tree for tree in trees if tree is not None]


AnyChart: TypeAlias = Chart | ProductChart | LayeredChart


class Ensemble:
    """One or several grammars over the same symbols, rules and words, laid out for the kernels.

    A word's `Leaf` holds the rows of all members, those of the first one's levels behind them, and the mean of the
    members' coarse weights. With one member everything is as it is for a `CompiledGrammar`.

    Attributes
    ----------
    members
        The compiled grammars.
    joint
        The first member with the mean of all coarse grammars, which prunes for all.
    layer
        What scores nodes and edges after them (`sapwood.inference.layered`).
    network
        What scores spans for the layer (`sapwood.grammar.network`).
    closing
        Cells that the network gives less than this part of all binary trees are closed: nothing stands there.
    """

    def __init__(
        self,
        grammars: Sequence[TensorGrammar],
        dtype: type,
        layer: Layer | None = None,
        network: Network | None = None,
    ) -> None:
        self.members = [compile_grammar(grammar, dtype) for grammar in grammars]
        self.joint = self.members[0] if len(self.members) == 1 else _join(self.members)
        # With few states the members are still much alike: one of them prunes for all.
        levels = [level.compiled.native for level in self.members[0].levels]
        self.layer, self.network = layer, network
        self.closing = 0.0 if network is None else network.closing
        self._native_layer = None if layer is None else native_layer(layer, self.joint, network)
        self._engine = kernels.engine(self.joint.native_coarse, [member.native for member in self.members], levels)

    def leaf(self, rows: Sequence[Float[Array, "leaf_states"]], *, fixed: bool = False) -> Leaf:
        """Return a word's lexical weights, given as one dense row over preterminal states for each member."""
        if len(rows) == 1:
            return self.members[0].leaf(rows[0], fixed=fixed)
        # The rows of all members, and behind them those of the first one's levels.
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
        close: bool = True,
    ) -> tuple[list[int], float] | None:
        """Return the coarse symbols of the best tree's nodes in preorder and the sentence's log probability, or None.

        The same as `chart` and then a decoder of `PRODUCT_DECODERS`, without anything in between.
        """
        given = self._layer_input(words, workspace)
        constraints = self._constraints(phrases, given, len(leaves), threshold, close)
        found = self._engine.parse(
            leaves, threshold, LEVEL * threshold, NEGLIGIBLE * threshold, _floor(threshold), *constraints,
            _NATIVE_DECODERS[decoder], *given, workspace.native,
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
        close: bool = True,
    ) -> AnyChart | None:
        """Return the chart of a sentence, as `build_chart` does; None if no member has a parse.

        A `ProductChart` keeps the members' charts if no workspace is given. A layer sees the words. Cells are closed as
        the first member and the network say, if they may be.
        """
        memory = workspace or Workspace()
        given = self._layer_input(words, memory)
        constraints = self._constraints(phrases, given, len(leaves), threshold, close)
        chart = self._grammars_chart(leaves, threshold, workspace, constraints)
        if chart is None or self.layer is None:
            return chart
        return apply_layer(given, chart, chart.count if isinstance(chart, ProductChart) else 1, memory)

    def _constraints(
        self, phrases: Sequence[Requirement], given: LayerInput, n_words: int, threshold: float, close: bool
    ) -> Constraints:
        """Return what cells may hold: what phrases leave, or else the network, if cells may be closed."""
        constraints = compile_constraints(phrases, n_words, self.joint.coarse, close=close)
        if phrases or not (close and self.closing and threshold) or not len(given.tags):
            return constraints
        return constraints._replace(cells=Scores(given.spans, given.tags).closed(self.closing))

    def _layer_input(self, words: Sequence[str], workspace: Workspace) -> LayerInput:
        if self.layer is None:
            return LayerInput(None)
        seen = self.layer.table(words)
        if self.network is None:
            return LayerInput(self._native_layer, seen)
        workspace.native.check_room(self.network.scores_size(len(words)))
        workspace.native.check_time()
        return LayerInput(self._native_layer, seen, *self.network.scores(words))

    def _grammars_chart(
        self, leaves: Sequence[Leaf], threshold: float, workspace: Workspace | None, constraints: Constraints
    ) -> Chart | ProductChart | None:
        if len(self.members) == 1:
            return build_chart(self.joint, leaves, threshold=threshold, workspace=workspace, constraints=constraints)
        memory = workspace or Workspace()
        forest = coarse_forest(self.joint, leaves, threshold, memory, constraints)
        if forest is None:
            return None
        forest = refine_forest(self.members[0], leaves, forest, threshold, memory, len(self.members))
        nodes = _Combination(len(forest.node_symbol), _floor(threshold))
        edges = _Combination(len(forest.children), _floor(threshold))
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
            if workspace is None:
                kept.append(chart)
            del chart  # a large one goes before the next comes
        if not nodes.count:
            return None
        (mean_nodes, log_nodes), (mean_edges, log_edges) = nodes.result(), edges.result()
        return ProductChart(
            self.joint, forest, log_mean(logs), mean_nodes, mean_edges, log_nodes, log_edges, nodes.count, tuple(kept)
        )

    @cached_property
    def unknown_row(self) -> Float[Array, "coarse"]:
        """Coarse lexical weights of a word of which nothing is known, the largest being 1."""
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
            else:  # a word that the grammar has no place for: the most frequent tag
                symbol = coarse.n_interminals + int(np.argmax(coarse.occupancy[coarse.n_interminals :]))
            children.append(Tree(coarse.symbols.tags[symbol], word=word))
        return Tree(coarse.transform.root, children)

    def tree_log_probability(self, leaves: Sequence[Leaf], tree: Tree) -> float:
        """Return `log p(tree)` of a skeletal tree over base symbols under the uniform mixture of the members."""
        return log_mean(
            [tree_log_probability(member, leaves, tree, number) for number, member in enumerate(self.members)]
        )


class _Combination:
    """Sums of posteriors and of their logarithms, one member after the other."""

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
    """Return what a posterior that is not positive counts as in a product."""
    return max(_UNSEEN * NEGLIGIBLE * threshold, _TINY)


def log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of numbers that are given by their logarithms; NaN if one of them is."""
    if len(logs) == 1 or any(math.isnan(value) for value in logs):
        return logs[0] if len(logs) == 1 else math.nan
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def gather_grammars(model: Model) -> list[TensorGrammar]:
    """Return the grammars that a parser is given: grammars, or paths of files with one or several.

    Raises `GrammarError` if they do not go together.
    """
    sources = [model] if isinstance(model, TensorGrammar | str | os.PathLike) else list(model)
    named: list[tuple[str, TensorGrammar]] = []
    for number, source in enumerate(sources, 1):
        if isinstance(source, TensorGrammar):
            named.append((f"grammar {number}", source))
            continue
        if not isinstance(source, str | os.PathLike):
            raise UsageError(f"a model is a grammar or the path of one, not {source!r}")
        found = load_models(find_model(source))
        for place, grammar in enumerate(found, 1):
            named.append((f"{source}" if len(found) == 1 else f"{source} (grammar {place})", grammar))
    if not named:
        raise UsageError("no model is given; name at least one")
    first_name, first = named[0]
    for name, grammar in named[1:]:
        different = _difference(first, grammar)
        if different:
            raise GrammarError(
                f"{name} and {first_name} do not go together, for their {different} differ; take grammars that were "
                "trained on the same trees with the same options"
            )
    return [grammar for _, grammar in named]


def _difference(one: TensorGrammar, other: TensorGrammar) -> str:
    """Return what keeps two grammars from sharing forests and terminals; empty if nothing does."""
    ours, theirs = one.lexicon, other.lexicon
    same = {
        "symbols": one.symbols == other.symbols and one.n_interminals == other.n_interminals,
        "rules": np.array_equal(one.rules, other.rules),
        "transforms": one.transform == other.transform,
        "normalisers": one.normaliser == other.normaliser,
        "words": ours.words == theirs.words,
        "signatures": ours.signatures == theirs.signatures and ours.model == theirs.model,
        "tags": one.emissions.tags == other.emissions.tags
        and np.array_equal(one.emissions.tag_of, other.emissions.tag_of),
    }
    return next((name for name, holds in same.items() if not holds), "")


def _join(members: Sequence[CompiledGrammar]) -> CompiledGrammar:
    """Return the first member with the mean of all coarse grammars: what any of them has, it has too."""
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
    """Return the mean of arrays; if they are all the same, to the last bit."""
    first = arrays[0]
    return first if all(np.array_equal(first, array) for array in arrays[1:]) else np.mean(arrays, axis=0)
