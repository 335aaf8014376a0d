"""Training a layer over the forests of a grammar, or of several that parse together (`sapwood.inference.layered`).

A grammar knows its own training trees too well: there its posteriors are sharper than they will ever be again, and a
layer that learned from them would trust them too much. So the treebank is cut into folds, the same learner is fitted to
all folds but one, and that one is parsed with the result: posteriors of every tree by a grammar that has not seen it.
Of many trees only some are held out, and one grammar is learned from all others: a layer needs no more (docs/layer.md).

The tree to learn is the one in the pruned forest with the most right nodes; whatever pruning took away is not put back,
so that forests look as they do when parsing. The loss is minus the logarithm of its probability (a conditional random
field), which AdaGrad with dual averaging minimises (Duchi, Hazan and Singer 2011): sums of all gradients and of their
squares give the weights, with penalties on their squares (`ridge`) and sizes (`lasso`), and no weight needs to be
looked at while its features do not occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.grammar.layer import BITS, GRAMMAR_ALONE, GROUPS, FrequentWords, Layer
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart import Forest, Workspace
from sapwood.inference.compiled import CompiledGrammar
from sapwood.inference.layered import LayerInput, native_layer
from sapwood.inference.parser import Parser
from sapwood.inference.product import AnyChart, ProductChart
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import HERE, Threads, Workers
from sapwood.shapes import Array, Float64, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.word_classes import WordClasses

# Trees next to each other are often of one text: they stay together, up to so many.
_BLOCK = 50
# What right nodes count, when the best tree of a forest is looked for, and those that binarising has put in.
_RIGHT, _RIGHT_INTERMEDIATE = 1.0, 0.5


@dataclass(frozen=True, kw_only=True)
class LayerLearner:
    """Settings of a layer's training.

    Parameters
    ----------
    folds
        Into how many parts the treebank is cut.
    held_out
        How many trees to learn from, about, in place of folds: they stand in groups through all the treebank, and one
        grammar is learned from the others. None: all trees are learned from, fold by fold.
    members
        How many of an ensemble's grammars are learned for each fold, the first ones; None: all.
    epochs
        Passes over the forests.
    batch
        Trees between two steps.
    rate, dense_rate
        How far a step goes, for features and for the weights of the grammar's own posteriors.
    ridge, lasso
        Penalties on squares and sizes of weights.
    threshold
        Edges with a smaller posterior are left out of the forests.
    least
        How often a word must be there to have features of its own.
    bits
        The table of weights has `2 ** bits` places.
    groups
        The groups of features, of `sapwood.grammar.layer.GROUPS`.
    """

    folds: int = 4
    held_out: int | None = None
    members: int | None = None
    epochs: int = 6
    batch: int = 16
    rate: float = 0.02
    dense_rate: float = 0.02
    ridge: float = 0.1
    lasso: float = 0.0
    threshold: float = 1e-4
    least: int = 3
    bits: int = 20
    groups: tuple[str, ...] = GROUPS

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise UsageError(f"a layer needs at least 2 folds, not {self.folds}")
        for name in ("epochs", "batch", "rate", "dense_rate", "least", "members", "held_out"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive, not {getattr(self, name)}")
        if self.bits not in BITS:
            raise UsageError(f"bits must be {BITS[0]} to {BITS[-1]}, not {self.bits}")
        if not 0 <= self.threshold < 1:
            raise UsageError(f"threshold must be at least 0 and below 1, not {self.threshold}")
        if unknown := sorted(set(self.groups) - set(GROUPS)):
            raise UsageError(f"no features of the group {unknown[0]!r}; there are: {', '.join(GROUPS)}")

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees and grammars, as JSON values."""
        settings = {**asdict(self), "groups": list(self.groups)}
        for name in ("members", "held_out"):
            if settings[name] is None:  # as it was in all models before there was a choice
                del settings[name]
        if self.held_out is not None:
            del settings["folds"]
        return settings

    @property
    def turns(self) -> int:
        """How often the grammars are learned from a part of the trees."""
        return self.folds if self.held_out is None else 1

    def fold_of(self, n_trees: int) -> Int64[Array, "trees"]:
        """Return when each tree is held out, -1 if never: blocks of trees that stand together, in turn."""
        if n_trees < self.folds:
            raise InputError(f"a layer with {self.folds} folds needs at least as many trees, not {n_trees}")
        block = min(_BLOCK, max(1, n_trees // (4 * self.folds)))
        number = np.arange(n_trees) // block
        if self.held_out is None:
            return number % self.folds
        if n_trees <= self.held_out:
            raise InputError(f"a layer from {self.held_out} held-out trees needs more than these, not {n_trees} in all")
        blocks = int(number[-1]) + 1
        chosen = min(max(1, round(self.held_out / block)), blocks - 1)
        # As evenly spaced as they can be.
        return np.where((number + 1) * chosen // blocks > number * chosen // blocks, 0, -1)

    def fit(
        self,
        corpus: Corpus,
        grammars: Iterable[Sequence[TensorGrammar]],
        *,
        random_state: int = 0,
        workers: Workers = HERE,
        progress: Progress | None = None,
        log: Log | None = None,
    ) -> Layer:
        """Learn the weights of a layer.

        Parameters
        ----------
        corpus
            The trees.
        grammars
            For each fold the grammars, those of an ensemble together, that were learned from the other folds; with
            `held_out`, once those that were learned from the trees that are not.
        random_state
            Seed of the order of the trees.
        workers
            Where sentences are parsed: in threads of this process. Results do not depend on it.
        progress, log
            What to report to.
        """
        forests = self.forests(corpus, grammars, workers=workers, progress=progress)
        return self.fit_forests(forests, random_state=random_state, workers=workers, progress=progress, log=log)

    def forests(
        self,
        corpus: Corpus,
        grammars: Iterable[Sequence[TensorGrammar]],
        *,
        workers: Workers = HERE,
        progress: Progress | None = None,
    ) -> LayerForests:
        """Return what a layer learns from: parse each fold with the grammars of the others."""
        progress, threads = progress or Silent(), Threads(workers.threads)
        frequent = FrequentWords.count((corpus.sentence(tree) for tree in range(corpus.n_trees)), least=self.least)
        forests: list[Any] = []
        fold_of = self.fold_of(corpus.n_trees)
        given = iter(grammars)
        for fold in range(self.turns):
            members = next(given, None)  # which may be made only now: there may be room for one, but not for all
            if members is None:
                raise UsageError(f"a layer from {self.turns} folds needs grammars for each, not for {fold}")
            classes = members[0].lexicon.classes
            layer = Layer(
                bits=self.bits,
                places=np.zeros(0, np.uint32),
                values=np.zeros(0, np.float32),
                dense=np.array(GRAMMAR_ALONE),
                frequent=frequent,
                classes=classes,
                groups=self._groups(classes),
                threshold=self.threshold,
            )
            parser, workspace = Parser(members, layer=False), Workspace()
            parser.lighten()
            del members
            native = native_layer(layer, parser.compiled)
            trees = np.flatnonzero(fold_of == fold)
            gold = _GoldNodes(corpus, parser)
            made = threads.map(_forest, repeat(gold), repeat(layer), repeat(native), repeat(workspace), trees.tolist())
            name = "forests" if self.turns == 1 else f"forests of fold {fold + 1} of {self.turns}"
            forests += [forest for forest in track(made, progress, name, len(trees), "sentences") if forest is not None]
            # Symbols are known by their names, so any grammar's will do to begin with.
            symbols = parser.compiled.without_weights()
            del parser, gold, made  # before the next ones are taken
        if not forests:
            raise InputError("no tree can be parsed by the grammars of the other folds: there are too few trees")
        return LayerForests(layer, symbols, forests)

    def fit_forests(
        self,
        forests: LayerForests,
        *,
        random_state: int = 0,
        workers: Workers = HERE,
        progress: Progress | None = None,
        log: Log | None = None,
    ) -> Layer:
        """Learn the weights from forests, which may be those of a learner with other groups, rates and penalties."""
        begin = replace(forests.layer, bits=self.bits, groups=self._groups(forests.layer.classes))
        native = native_layer(begin, forests.symbols)
        threads, workspace = Threads(workers.threads), Workspace()
        self._descend(
            native, forests.forests, random_state, threads, workspace, progress or Silent(), log or NoLog()
        )  # fmt: skip
        weights = native.weights
        places = np.flatnonzero(weights).astype(np.uint32)
        return replace(begin, places=places, values=weights[places], dense=native.dense)

    def _groups(self, classes: WordClasses | None) -> tuple[str, ...]:
        return tuple(name for name in GROUPS if name in self.groups and (name != "classes" or classes is not None))

    def _descend(
        self,
        native: Any,
        forests: list[Any],
        seed: int,
        threads: Threads,
        workspace: Workspace,
        progress: Progress,
        log: Log,
    ) -> None:
        rng = np.random.default_rng([seed, self.epochs])
        trainer = kernels.layer_trainer(native, self.rate, self.dense_rate, self.lasso, self.ridge)
        with progress.stage("layer", total=self.epochs, unit="epochs") as stage:
            for epoch in range(1, self.epochs + 1):
                order, loss = rng.permutation(len(forests)), 0.0
                for begin in range(0, len(order), self.batch):
                    batch = [forests[number] for number in order[begin : begin + self.batch]]
                    gradients = list(threads.map(_gradient, repeat(native), batch, repeat(workspace)))
                    loss += sum(gradient.loss for gradient in gradients)
                    kernels.layer_update(trainer, native, gradients)
                log.write("layer", step=epoch, epoch=epoch, loss=loss / len(forests))
                stage.step()
        kernels.layer_finish(trainer, native)


@dataclass(frozen=True, eq=False)
class LayerForests:
    """What a layer learns from.

    Attributes
    ----------
    layer
        A layer without weights.
    symbols
        Symbols and rules of one of the grammars that made the forests.
    forests
        Forests with the tree in each that is nearest to the right one, as kernels have them.
    """

    layer: Layer
    symbols: CompiledGrammar
    forests: list[Any]


class _GoldNodes:
    """The trees' nodes as those of a grammar's forests."""

    def __init__(self, corpus: Corpus, parser: Parser) -> None:
        self.corpus, self.parser = corpus, parser
        coarse = parser.compiled.coarse
        number = {(name, place >= coarse.n_interminals): place for place, name in enumerate(coarse.symbols)}
        bases = enumerate(corpus.symbols.base)
        self._symbol = np.array([number.get((name, place >= corpus.n_interminals), -1) for place, name in bases])
        chains = coarse.symbols.chain
        self._value = np.array([_RIGHT if chain else _RIGHT_INTERMEDIATE for chain in chains])

    def worth(self, tree: int, forest: Forest) -> Float64[Array, "nodes"]:
        """Return what each node of a forest is worth: something if the tree has it."""
        corpus, first, last = self.corpus, self.corpus.offsets[tree], self.corpus.offsets[tree + 1]
        end = corpus.end[first:last].astype(np.int64)
        symbol = self._symbol[corpus.symbol[first:last]]
        cell = end * (end - 1) // 2 + corpus.start[first:last]
        size = len(self._value)
        right = np.isin(
            forest.node_cell.astype(np.int64) * size + forest.node_symbol, (cell * size + symbol)[symbol >= 0]
        )
        return np.where(right, self._value[forest.node_symbol], 0.0)


def _forest(gold: _GoldNodes, layer: Layer, native: Any, workspace: Workspace, tree: int) -> Any:
    """Return what to learn from a tree; None if it has no parse."""
    words = gold.corpus.sentence(tree)
    chart = gold.parser.chart(words, brief=True)
    if chart is None:
        return None
    given = LayerInput(native, layer.table(words))
    members, logs = _products(chart)
    return kernels.layer_sentence(
        native, kernels.forest(*chart.forest), chart.node_posterior, chart.edge_posterior, *logs, members, given.words,
        given.spans, given.tags, gold.worth(tree, chart.forest), workspace.native,
    )  # fmt: skip


def _products(chart: AnyChart) -> tuple[int, tuple[Any, Any]]:
    return (chart.count, chart.log_posteriors()) if isinstance(chart, ProductChart) else (1, (None, None))


def _gradient(native: Any, forest: Any, workspace: Workspace) -> Any:
    return kernels.layer_gradient(native, forest, workspace.native)
