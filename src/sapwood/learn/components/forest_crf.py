"""Forest CRF: trains a log-linear model over pruned parse forests (`sapwood.inference.forest_crf`).

A grammar overfits its training trees: its posteriors are sharper there than on new text, and a CRF trained on them
would trust them too much. So the treebank is split into folds, the same learner is fitted to all folds but one, and
that fold is parsed with the result: every tree gets posteriors of a grammar that was not trained on it. With a large
treebank only a part is held out, and one grammar is learned from the rest: the CRF needs no more (docs/forest-crf.md).

The training target is the tree in the pruned forest with the most correct nodes; pruned nodes are not restored, so that
forests are the same as in parsing. The loss is its negative log-probability (a conditional random field), minimised by
AdaGrad with dual averaging (Duchi, Hazan and Singer 2011): sums of all gradients and of their squares give the weights,
with L2 (`l2`) and L1 (`l1`) penalties, and no weight needs updating while its features do not occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Unpack

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.compiled import CompiledGrammar
from sapwood.inference.chart.posteriors import Forest, Workspace
from sapwood.inference.ensemble import ProductChart
from sapwood.inference.forest_crf import CRFInput, native_crf
from sapwood.inference.parser import Parser
from sapwood.model.forest_crf import BITS, GRAMMAR_ONLY, GROUPS, FeatureVocabulary, ForestCRF
from sapwood.runtime.context import RunContext, RunOptions
from sapwood.runtime.executor import Threads
from sapwood.runtime.params import HasParams, integer, number, opaque
from sapwood.runtime.progress import track
from sapwood.storage.shapes import Array, Float64, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon.word_classes import WordClasses

# Adjacent trees are often from one text: they stay together, in blocks of up to this many.
_BLOCK = 50
# Value of correct nodes, and of those inserted by binarisation, in the search for the best tree of a forest.
_RIGHT, _RIGHT_INTERMEDIATE = 1.0, 0.5


@dataclass(frozen=True, kw_only=True, repr=False)
class ForestCRFTrainer(HasParams):
    """Settings of the training of a CRF.

    Parameters
    ----------
    folds
        Number of folds of the treebank.
    held_out
        Approximate number of training trees, instead of folds: they are held out in groups spread over the treebank,
        and one grammar is learned from the rest. None: train on all trees, fold by fold.
    members
        Number of grammars of an ensemble to learn for each fold, the first ones; None: all.
    epochs
        Epochs over the forests.
    batch
        Trees per step.
    learning_rate, dense_learning_rate
        Learning rates of features and of the weights of the grammar's own posteriors.
    l2, l1
        L2 and L1 penalties.
    threshold
        Edges with a smaller posterior are pruned.
    min_count
        Minimum count of a word to have its own features.
    bits
        The table of weights has `2 ** bits` entries.
    feature_groups
        Feature groups, out of `sapwood.model.forest_crf.GROUPS`.
    """

    folds: int = integer(4, "Number of folds of the treebank.", low=2)
    held_out: int | None = integer(
        None, "Approximate number of training trees, instead of all, fold by fold.", low=1, optional=True
    )
    members: int | None = integer(
        None, "Number of grammars of an ensemble to learn for each fold, instead of all.", low=1, optional=True
    )
    epochs: int = integer(6, "Epochs over the forests.", low=1)
    batch: int = integer(16, "Trees per step.", low=1)
    learning_rate: float = number(0.02, "Learning rate of features.", above=0)
    dense_learning_rate: float = number(0.02, "Learning rate of the weights of the grammar's posteriors.", above=0)
    l2: float = number(0.1, "L2 penalty.")
    l1: float = number(0.0, "L1 penalty.")
    threshold: float = number(1e-4, "Edges with a smaller posterior are pruned.", below=1)
    min_count: int = integer(3, "Minimum count of a word to have its own features.", low=1)
    bits: int = integer(20, "Binary logarithm of the size of the table of weights.", low=BITS[0], high=BITS[-1])
    feature_groups: tuple[str, ...] = opaque(GROUPS, "Feature groups.", tuple, list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := sorted(set(self.feature_groups) - set(GROUPS)):
            raise UsageError(f"no features of the group {unknown[0]!r}; there are: {', '.join(GROUPS)}")

    def settings(self) -> dict[str, Any]:
        """Return everything besides trees and grammars that determines the result, as JSON values."""
        given = {name: value for name, value in super().settings().items() if value is not None}
        if self.held_out is not None:
            del given["folds"]
        return given

    @property
    def n_fits(self) -> int:
        """Number of fits of the grammars on a part of the trees."""
        return self.folds if self.held_out is None else 1

    def fold_of(self, n_trees: int) -> Int64[Array, "trees"]:
        """Return the fold in which each tree is held out, -1 if never: alternating blocks of adjacent trees."""
        if n_trees < self.folds:
            raise InputError(f"a CRF with {self.folds} folds needs at least as many trees, not {n_trees}")
        block = min(_BLOCK, max(1, n_trees // (4 * self.folds)))
        number = np.arange(n_trees) // block
        if self.held_out is None:
            return number % self.folds
        if n_trees <= self.held_out:
            raise InputError(f"a CRF from {self.held_out} held-out trees needs more than these, not {n_trees} in all")
        blocks = int(number[-1]) + 1
        chosen = min(max(1, round(self.held_out / block)), blocks - 1)
        # Spaced as evenly as possible.
        return np.where((number + 1) * chosen // blocks > number * chosen // blocks, 0, -1)

    def fit(
        self,
        corpus: Corpus,
        grammars: Iterable[Sequence[TensorGrammar]],
        *,
        random_state: int = 0,
        **options: Unpack[RunOptions],
    ) -> ForestCRF:
        """Train the CRF.

        Parameters
        ----------
        corpus
            The trees.
        grammars
            For each fold the grammars (an ensemble's together) learned from the other folds; with `held_out`, once
            those learned from the trees that are not held out.
        random_state
            Seed of the order of the trees.
        options
            `threads`: number of threads that parse sentences; `workers`: an executor with as many; `progress` and
            `log`: receive progress reports and log lines. The result depends on none of them. It writes no checkpoint.
        """
        forests = self.forests(corpus, grammars, **options)
        return self.fit_forests(forests, random_state=random_state, **options)

    def forests(
        self,
        corpus: Corpus,
        grammars: Iterable[Sequence[TensorGrammar]],
        **options: Unpack[RunOptions],
    ) -> CRFTrainingForests:
        """Return the training data of the CRF: parse each fold with the grammars of the others."""
        context = RunContext.of(**options)
        threads = Threads(context.executor.threads)
        frequent = FeatureVocabulary.count(
            (corpus.sentence(tree) for tree in range(corpus.n_trees)), least=self.min_count
        )
        forests: list[Any] = []
        fold_of = self.fold_of(corpus.n_trees)
        given = iter(grammars)
        for fold in range(self.n_fits):
            members = next(given, None)  # may be created lazily: memory may hold one fold's grammars, but not all
            if members is None:
                raise UsageError(f"a CRF from {self.n_fits} folds needs grammars for each, not for {fold}")
            classes = members[0].lexicon.classes
            crf = self._start(frequent, classes)
            parser, workspace = Parser(members, crf=False), Workspace()
            parser.release_weights()
            del members
            native = native_crf(crf, parser.compiled)
            trees = np.flatnonzero(fold_of == fold)
            gold = _GoldNodes(corpus, parser)
            made = threads.map(_forest, repeat(gold), repeat(crf), repeat(native), repeat(workspace), trees.tolist())
            name = "forests" if self.n_fits == 1 else f"forests of fold {fold + 1} of {self.n_fits}"
            forests += [
                forest for forest in track(made, context.progress, name, len(trees), "sentences") if forest is not None
            ]
            # Symbols are matched by name, so any grammar's will do to begin with.
            symbols = parser.compiled.without_weights()
            del parser, gold, made  # before the next ones are taken
        if not forests:
            raise InputError("no tree can be parsed by the grammars of the other folds: there are too few trees")
        return CRFTrainingForests(crf, symbols, forests)

    def fit_forests(
        self,
        forests: CRFTrainingForests,
        *,
        random_state: int = 0,
        **options: Unpack[RunOptions],
    ) -> ForestCRF:
        """Train the weights on forests, possibly those of a trainer with other groups, rates and penalties.

        Parameters are those of `fit`.
        """
        begin = self._start(forests.crf.frequent, forests.crf.classes)
        native = native_crf(begin, forests.symbols)
        self._descend(native, forests.forests, random_state, RunContext.of(**options))
        weights = native.weights
        places = np.flatnonzero(weights).astype(np.uint32)
        return replace(begin, places=places, values=weights[places], dense=native.dense)

    def _start(self, frequent: FeatureVocabulary, classes: WordClasses | None) -> ForestCRF:
        """Return a CRF with initial weights."""
        return ForestCRF(
            bits=self.bits,
            places=np.zeros(0, np.uint32),
            values=np.zeros(0, np.float32),
            dense=np.array(GRAMMAR_ONLY),
            frequent=frequent,
            classes=classes,
            groups=self._groups(classes),
            threshold=self.threshold,
        )

    @property
    def _steps(self) -> int:
        """Number of steps that made the initial weights."""
        return 0

    def _groups(self, classes: WordClasses | None) -> tuple[str, ...]:
        return tuple(
            name for name in GROUPS if name in self.feature_groups and (name != "classes" or classes is not None)
        )

    def _descend(
        self,
        native: kernels.ForestCRF,
        forests: list[kernels.CRFSentence],
        seed: int,
        context: RunContext,
    ) -> None:
        threads, workspace = Threads(context.executor.threads), Workspace()
        rng = np.random.default_rng([seed, self.epochs])
        trainer = kernels.crf_trainer(
            native, self.learning_rate, self.dense_learning_rate, self.l1, self.l2, self._steps
        )
        with context.progress.stage("forest CRF", total=self.epochs, unit="epochs") as stage:
            for epoch in range(1, self.epochs + 1):
                order, loss = rng.permutation(len(forests)), 0.0
                for begin in range(0, len(order), self.batch):
                    batch = [forests[number] for number in order[begin : begin + self.batch]]
                    gradients = list(threads.map(_gradient, repeat(native), batch, repeat(workspace)))
                    loss += sum(gradient.loss for gradient in gradients)
                    kernels.crf_update(trainer, native, gradients)
                context.log.write("layer", step=epoch, epoch=epoch, loss=loss / len(forests))
                stage.step()
        kernels.crf_finish(trainer, native)


@dataclass(frozen=True, eq=False)
class CRFTrainingForests:
    """Training data of a CRF.

    Attributes
    ----------
    crf
        A CRF without weights.
    symbols
        Symbols and rules of one of the grammars that made the forests.
    forests
        Forests, each with the tree that is closest to the gold tree, as the kernels need them.
    """

    crf: ForestCRF
    symbols: CompiledGrammar
    forests: list[Any]


class _GoldNodes:
    """Gold nodes of the trees, matched to those of a grammar's forests."""

    def __init__(self, corpus: Corpus, parser: Parser) -> None:
        self.corpus, self.parser = corpus, parser
        coarse = parser.compiled.coarse
        number = {(name, place >= coarse.n_interminals): place for place, name in enumerate(coarse.symbols)}
        bases = enumerate(corpus.symbols.base)
        self._symbol = np.array([number.get((name, place >= corpus.n_interminals), -1) for place, name in bases])
        chains = coarse.symbols.chain
        self._value = np.array([_RIGHT if chain else _RIGHT_INTERMEDIATE for chain in chains])

    def worth(self, tree: int, forest: Forest) -> Float64[Array, "nodes"]:
        """Return the value of each node of a forest: positive if the gold tree has it."""
        corpus, first, last = self.corpus, self.corpus.offsets[tree], self.corpus.offsets[tree + 1]
        end = corpus.end[first:last].astype(np.int64)
        symbol = self._symbol[corpus.symbol[first:last]]
        cell = end * (end - 1) // 2 + corpus.start[first:last]
        size = len(self._value)
        right = np.isin(
            forest.node_cell.astype(np.int64) * size + forest.node_symbol, (cell * size + symbol)[symbol >= 0]
        )
        return np.where(right, self._value[forest.node_symbol], 0.0)


def _forest(
    gold: _GoldNodes, crf: ForestCRF, native: kernels.ForestCRF, workspace: Workspace, tree: int
) -> kernels.CRFSentence | None:
    """Return the training data of a tree; None if it has no parse."""
    words = gold.corpus.sentence(tree)
    chart = gold.parser.chart(words, brief=True)
    if chart is None:
        return None
    given = CRFInput(native, crf.table(words))
    product = chart if isinstance(chart, ProductChart) else None
    log_nodes, log_edges = (None, None) if product is None else product.log_posteriors()
    return kernels.crf_sentence(
        native, kernels.forest(*chart.forest), chart.node_posterior, chart.edge_posterior, log_nodes, log_edges,
        1 if product is None else product.count, given.words, given.spans, given.tags,
        gold.worth(tree, chart.forest), workspace.native,
    )  # fmt: skip


def _gradient(native: kernels.ForestCRF, forest: kernels.CRFSentence, workspace: Workspace) -> kernels.CRFGradient:
    return kernels.crf_gradient(native, forest, workspace.native)
