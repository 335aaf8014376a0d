"""Training run: named stages from trees to a model, each resumable.

The stages are the members of the ensemble; for a CRF, the same learners without each fold of the trees; the span
scorer; and the CRF. Grammars of finished stages are kept in files of their own, which the record of the run lists
(`sapwood.pipeline.record`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sapwood.errors import GrammarError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.learn.lpcfg.em_loop import CHECKPOINT
from sapwood.learn.memory import warn_about_memory
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.parser_model import ParserModel
from sapwood.model.span_scorer import SpanScorer
from sapwood.pipeline.memory import estimate_run_memory
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.record import FinishedStage, RunRecord, run_inputs
from sapwood.pipeline.silver import SilverTrees
from sapwood.pipeline.stages import (
    FittedGrammar,
    GrammarStage,
    StageTrees,
    fit_remotely,
    fold_stages,
    member_stages,
)
from sapwood.runtime.checkpoint import RunFiles, with_remedy
from sapwood.runtime.executor import Executor
from sapwood.runtime.log import Log, LogSection, NoLog
from sapwood.runtime.progress import Progress, Silent, WithoutNotes, track
from sapwood.trees.corpus import Corpus

# Suffix of the span scorer's checkpoint.
_SPAN_SCORER = "-span-scorer"


def run_recipe(
    recipe: Recipe,
    corpus: Corpus,
    dev: Evaluate | None = None,
    *,
    files: RunFiles,
    progress: Progress | None = None,
) -> ParserModel:
    """Train a model by a recipe, without self-training; parameters are those of `TrainingRun`."""
    with RunRecord.open(files, run_inputs([recipe], corpus, dev)) as record:
        return TrainingRun(recipe, corpus, dev, record=record, progress=progress).fit()


class TrainingRun:
    """A run of all stages of a recipe.

    Parameters
    ----------
    recipe
        The recipe.
    corpus
        The gold trees.
    dev
        The development set.
    record
        Record of the run. Files of the run, which are next to its model, are kept until the caller has saved that.
    progress
        Receives progress reports.
    silver
        Silver trees to train on as well.
    crf
        With silver trees, the CRF of a first model, which is kept, and its trainer.
    """

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        dev: Evaluate | None = None,
        *,
        record: RunRecord,
        progress: Progress | None = None,
        silver: SilverTrees | None = None,
        crf: tuple[ForestCRFTrainer, ForestCRF] | None = None,
    ) -> None:
        self._recipe, self._dev, self._record = recipe, dev, record
        self._files, self._progress = record.files, progress or Silent()
        self._n_gold, self._silver, self._first_crf = corpus.n_trees, silver, crf
        self._trees = StageTrees(corpus if silver is None else silver.added_to(corpus), recipe.crf)
        self.members, self.folds = member_stages(recipe), fold_stages(recipe)

    @property
    def grammar_stages(self) -> list[GrammarStage]:
        """The stages that fit grammars, in order."""
        return [*self.members, *(stage for fold in self.folds for stage in fold)]

    def fit(self) -> ParserModel:
        """Run the stages that are not finished, and return the model."""
        fitted = self._load_finished()
        pending = [stage for stage in self.grammar_stages if stage.name not in fitted]
        if len(self.grammar_stages) > 1:
            memory = estimate_run_memory(self._recipe, self._trees.corpus, self._dev)
            warn_about_memory("in all", memory, self._progress)
        on_cluster = not self._workers.is_local and len(pending) > 1
        if on_cluster:
            self._files.discard_checkpoints()  # tasks start from scratch
        with self._open_log([self._record.finished[name] for name in fitted]) as log:
            fit_grammars = self._fit_on_cluster if on_cluster else self._fit_here
            fitted |= fit_grammars(pending, log)
            span_scorer = self._fit_span_scorer(log)
            crf = self._fit_crf([[fitted[stage.name] for stage in fold] for fold in self.folds], log)
            log.section().write("end", step=0)
        return self._assemble([fitted[stage.name] for stage in self.members], span_scorer, crf)

    @contextlib.contextmanager
    def _open_log(self, finished: Sequence[FinishedStage]) -> Iterator[_RunLog]:
        """Enter the log of the run, continued after the finished stages."""
        steps = sum(stage["iterations"] for stage in finished)
        lines = max((stage["log_lines"] for stage in finished), default=0)
        with self._files.open_log(steps=steps, lines=lines) as file:
            if getattr(file, "is_new", True):
                figures = {} if self._silver is None else {"read": self._silver.corpus.n_trees}
                figures |= {"trees": self._trees.corpus.n_trees, "words": self._trees.corpus.n_words}
                file.write("start", step=0, method=self._recipe.method, settings=self._recipe.settings(), **figures)
            yield _RunLog(file, steps)

    @property
    def _workers(self) -> Executor:
        return self._recipe.learners[0].executor

    def _load_finished(self) -> dict[str, FittedGrammar]:
        """Return the grammars of the finished stages, by the names of the stages."""
        fitted = {}
        for stage in self.grammar_stages:
            path = self._files.stage(stage.name)
            if stage.name not in self._record.finished or path is None or not path.exists():
                break
            with with_remedy("file"):
                fitted[stage.name] = FittedGrammar.of(ParserModel.load(path))
        return fitted

    def _keep(self, stage: GrammarStage, grammar: TensorGrammar, iterations: int, log: _RunLog) -> FittedGrammar:
        """Save the grammar of a stage, unless it is all that there is to train, and return it."""
        log.steps += iterations
        model = ParserModel.from_grammars(grammar.with_info(seed=self._recipe.seed))
        path = self._files.stage(stage.name)
        if path is not None and (len(self.grammar_stages) > 1 or self._recipe.span_scorer is not None):
            model.save(path)
            self._record.finish(stage.name, iterations=iterations, log_lines=log.lines)
        return FittedGrammar.of(model)

    def _fit_on_cluster(self, stages: Sequence[GrammarStage], log: _RunLog) -> dict[str, FittedGrammar]:
        """Fit the grammars of stages, each a task of the workers."""
        fitted = {}
        found = fit_remotely(stages, self._trees, self._dev, self._workers)
        found = track(found, self._progress, "learning", len(stages), "grammars")
        for stage, (grammar, lines) in zip(stages, found, strict=True):
            section = log.section(self._labels(stage))
            for event, step, figures in lines if stage.fold is None else ():
                section.write(event, step=step, **figures)
            fitted[stage.name] = self._keep(stage, grammar, section.iterations, log)
        return fitted

    def _fit_here(self, stages: Sequence[GrammarStage], log: _RunLog) -> dict[str, FittedGrammar]:
        """Fit the grammars of stages, one after the other."""
        return {stage.name: self._fit_stage(stage, log) for stage in stages}

    def _fit_stage(self, stage: GrammarStage, log: _RunLog) -> FittedGrammar:
        """Fit the grammar of a stage; folds are neither evaluated nor logged."""
        several, of_fold = len(self.grammar_stages) > 1, stage.fold is not None
        if several:
            self._announce(stage)
        section = log.section(self._labels(stage))
        try:
            grammar = stage.learner.fit(
                self._trees.of(stage),
                dev=None if of_fold else self._dev,
                progress=WithoutNotes(self._progress) if of_fold else self._progress,
                log=NoLog() if of_fold else section,
                checkpoint=self._files.checkpoint(f"-{stage.name}" if several else ""),
            )
        except GrammarError:  # it would recur on every resume
            self._files.discard_checkpoints()
            raise
        # Iterations before an interruption are in the checkpoint only.
        iterations = 0 if of_fold else max(section.iterations, self._files.iterations_so_far(CHECKPOINT.kind))
        return self._keep(stage, grammar, iterations, log)

    def _labels(self, stage: GrammarStage) -> dict[str, int]:
        return {"member": stage.member} if len(self.members) > 1 else {}

    def _announce(self, stage: GrammarStage) -> None:
        """Note which grammar is next, once for each fold."""
        if stage.fold is None:
            self._progress.note(f"grammar {stage.member + 1} of {len(self.members)}: {stage.learner.method}")
        elif stage.member == 0:
            left_out = f"fold {stage.fold + 1} of {len(self.folds)}"
            if len(self.folds) == 1:
                left_out = f"{self._trees.corpus.n_trees - self._trees.of(stage).n_trees:,} to learn from"
            self._progress.note(f"for the CRF: trees without {left_out}")

    def _fit_span_scorer(self, log: _RunLog) -> SpanScorer | None:
        """Train the span scorer on the trees, gold trees about a third of them."""
        trainer, corpus = self._recipe.span_scorer, self._trees.corpus
        if trainer is None:
            return None
        copies = 0 if self._silver is None else self._silver.more_copies(self._n_gold)
        if copies:
            more = np.tile(np.arange(self._n_gold), copies)
            corpus = corpus.part(np.concatenate([np.arange(corpus.n_trees), more]))
        span_scorer = trainer.fit(
            corpus,
            classes=self._recipe.learners[0].lexical.classes,
            encoder=self._recipe.encoder,
            random_state=self._recipe.seed,
            # The grammars are saved: their checkpoints make way for that of the span scorer.
            checkpoint=self._files.checkpoint(_SPAN_SCORER),
            progress=self._progress,
            log=log.section(),
        )
        log.steps += trainer.epochs
        return span_scorer

    def _fit_crf(self, folds: Sequence[Sequence[FittedGrammar]], log: _RunLog) -> ForestCRF | None:
        """Train the CRF on forests of the folds; in self-training, return that of the first model."""
        trainer = self._recipe.crf
        if trainer is None:
            return None if self._first_crf is None else self._first_crf[1]
        if self._recipe.span_scorer is None:
            self._files.discard_checkpoints()  # those of the last grammar, which is saved
        crf = trainer.fit(
            self._trees.corpus,
            ([one.grammar() for one in fold] for fold in folds),
            random_state=self._recipe.seed,
            workers=self._workers,
            progress=self._progress,
            log=log.section(),
        )
        log.steps += trainer.epochs
        return crf

    def _assemble(
        self, members: Sequence[FittedGrammar], span_scorer: SpanScorer | None, crf: ForestCRF | None
    ) -> ParserModel:
        """Return the model; a span scorer needs a CRF, if only one without features."""
        first, *_ = members
        grammars = [member.grammar() for member in members]
        if self._silver is not None:
            grammars = [grammar.with_info(read=self._silver.corpus.n_trees) for grammar in grammars]
        trainers: dict[str, ForestCRFTrainer | SpanScorerTrainer | None]
        trainers = {"network": self._recipe.span_scorer, "layer": self._recipe.crf}
        if self._first_crf is not None:
            trainers["layer"] = self._first_crf[0]
        if span_scorer is not None:
            assert self._recipe.span_scorer is not None
            crf = (ForestCRF.identity() if crf is None else crf).with_scorer_weight(self._recipe.span_scorer.weight)
        return ParserModel(
            grammars=tuple(grammars),
            preparation=first.preparation,
            crf=crf,
            span_scorer=span_scorer,
            meta={name: self._recipe.settings_of(one) for name, one in trainers.items() if one is not None},
        )


class _RunLog:
    """Log of a run, and the number of its steps so far."""

    def __init__(self, log: Log, steps: int) -> None:
        self._log, self.steps = log, steps

    @property
    def lines(self) -> int:
        """Number of lines so far."""
        return int(getattr(self._log, "lines", 0))

    def section(self, labels: Mapping[str, Any] | None = None) -> LogSection:
        """Return the section of the next stage."""
        return LogSection(self._log, self.steps, labels)
