"""Stages of a training run that fit grammars: members of the ensemble, and the same learners without each fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.model.file import CompressedGrammar
from sapwood.model.parser_model import ParserModel, Preparation
from sapwood.pipeline.recipe import Recipe
from sapwood.runtime.executor import Executor, Handle
from sapwood.trees.corpus import Corpus

# Log entries of a training: event, step and figures of each line.
Lines: TypeAlias = list[tuple[str, int, dict[str, Any]]]


@dataclass(frozen=True)
class GrammarStage:
    """Stage that fits one grammar.

    Attributes
    ----------
    learner
        Its learner.
    member
        Number of the learner in the ensemble, from 0.
    fold
        Fold of trees that are left out, from 0; None if it is fitted to all trees.
    """

    learner: Learner
    member: int
    fold: int | None = None

    @property
    def name(self) -> str:
        """Name in files, where numbers begin with 1.

        >>> from sapwood import PCFG
        >>> GrammarStage(PCFG(), member=0, fold=2).name
        'fold-3-member-1'
        """
        fold = "" if self.fold is None else f"fold-{self.fold + 1}-"
        return f"{fold}member-{self.member + 1}"


def member_stages(recipe: Recipe) -> list[GrammarStage]:
    """Return the stages of the members of the ensemble."""
    return [GrammarStage(learner, member) for member, learner in enumerate(recipe.learners)]


def fold_stages(recipe: Recipe) -> list[list[GrammarStage]]:
    """Return the stages of each fold: all members, or the first few, for the CRF to learn from; empty without a CRF."""
    if recipe.crf is None:
        return []
    members = member_stages(recipe)[: recipe.crf.members]
    return [[replace(member, fold=fold) for member in members] for fold in range(recipe.crf.n_fits)]


class StageTrees:
    """Trees of each stage: all of them, or those outside its fold.

    Parameters
    ----------
    corpus
        All trees.
    crf
        Trainer of the CRF, which defines the folds.
    """

    def __init__(self, corpus: Corpus, crf: ForestCRFTrainer | None) -> None:
        self.corpus = corpus
        self._fold_of = None if crf is None else crf.fold_of(corpus.n_trees)
        self._outside = lru_cache(maxsize=1)(self._without)  # adjacent stages have the same fold

    def of(self, stage: GrammarStage) -> Corpus:
        """Return the trees of a stage."""
        return self.corpus if stage.fold is None else self._outside(stage.fold)

    def _without(self, fold: int) -> Corpus:
        assert self._fold_of is not None
        return self.corpus.part(np.flatnonzero(self._fold_of != fold))


@dataclass(frozen=True)
class FittedGrammar:
    """Result of a stage, packed to save memory for the others.

    Attributes
    ----------
    packed
        The grammar.
    preparation
        Preparation of the parser's input.
    """

    packed: CompressedGrammar
    preparation: Preparation

    @classmethod
    def of(cls, model: ParserModel) -> FittedGrammar:
        """Return the grammar of a model that has one."""
        return cls(CompressedGrammar(model.grammar), model.preparation)

    def grammar(self) -> TensorGrammar:
        """Return the grammar."""
        return self.packed.unpacked()


def fit_remotely(
    stages: Iterable[GrammarStage], trees: StageTrees, dev: Evaluate | None, workers: Executor
) -> Iterator[tuple[TensorGrammar, Lines]]:
    """Yield the grammars of stages, each a task of the workers, in order, with their log entries."""
    # Trees shared by several stages are sent once.
    sent: dict[int, Handle] = {}
    given: list[Any] = []

    def send(data: Any) -> Handle:
        if id(data) not in sent:
            given.append(data)  # its id stays its own
            sent[id(data)] = workers.broadcast(data)
        return sent[id(data)]

    learners, corpora, devs = [], [], []
    for stage in stages:
        learners.append(replace(stage.learner, workers=None, threads=1))
        corpora.append(send(trees.of(stage)))
        devs.append(send(dev if stage.fold is None else None))
    return workers.map(_fit, learners, corpora, devs)


def _fit(learner: Learner, corpus: Corpus, dev: Evaluate | None) -> tuple[TensorGrammar, Lines]:
    log = _MemoryLog()
    return learner.fit(corpus, dev=dev, log=log), log.lines


class _MemoryLog:
    """Log in memory."""

    def __init__(self) -> None:
        self.lines: Lines = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        self.lines.append((event, step, figures))
