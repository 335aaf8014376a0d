"""A whole training run: one grammar or several, noted in a log, resumable after an interruption.

`train` is what `sapwood train` does, as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import GrammarError, UsageError
from sapwood.evaluate.held_out import Evaluate, HeldOut
from sapwood.evaluate.result import EvaluationResult
from sapwood.grammar.bundle import PackedGrammar, load_models, save_models
from sapwood.grammar.layer import Layer
from sapwood.grammar.network import Network
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.jobs import Job, Lines, MemberLog, fit_all, other_run, refuse_others
from sapwood.learn.layer import LayerLearner
from sapwood.learn.methods import DEFAULT_METHOD
from sapwood.learn.network import NetworkLearner
from sapwood.learn.reading import Reader, learn_by_reading
from sapwood.learn.recipe import Members, Recipe, make_recipe
from sapwood.learn.run_forecast import forecast_run
from sapwood.learn.tagging import held_out_sequences, tagged_corpus
from sapwood.learn.teaching import PartialTrees, PlainText, taught
from sapwood.run.checkpoint import KeptFiles, with_remedy
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent, WithoutNotes, track
from sapwood.run.workers import Workers
from sapwood.trees.corpus import Corpus
from sapwood.trees.partial import PartialTree
from sapwood.trees.tokenisers import find_tokeniser
from sapwood.trees.tree import Tree
from sapwood.trees.word_classes import WordClasses


@dataclass(frozen=True)
class Trained:
    """What a training run gives.

    Attributes
    ----------
    grammars
        One grammar, or the members of an ensemble.
    dev
        Scores of the grammars together on the trees that were kept for that.
    """

    grammars: list[TensorGrammar]
    dev: EvaluationResult | None = None

    @property
    def grammar(self) -> TensorGrammar:
        """The first grammar."""
        return self.grammars[0]

    def save(self, path: str | Path) -> None:
        """Write all grammars to one file."""
        save_grammars(self.grammars, path)


def train(
    trees: Iterable[Tree] | Corpus | Iterable[Sequence[tuple[str, str]]],
    *,
    sequences: bool = False,
    method: str | Learner | None = None,
    dev: Iterable[Tree] | Iterable[Sequence[tuple[str, str]]] | HeldOut | None = None,
    ensemble: Members | None = None,
    layer: bool | LayerLearner | None = None,
    network: bool | NetworkLearner | None = None,
    classes: WordClasses | None = None,
    partial: Iterable[PartialTree] | None = None,
    text: Iterable[Sequence[str]] | PlainText | None = None,
    teaching: Mapping[str, Any] | None = None,
    read: Iterable[Sequence[str]] | None = None,
    tokeniser: str | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    log: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Trained:
    """Learn a grammar from a treebank, or several that parse together.

    Parameters
    ----------
    trees
        A treebank's trees, which are prepared as the method likes them best; or a corpus.
    sequences
        Whether they are sequences of `(word, tag)` instead, and so is `dev`: what is learned is a tagger
        (`sapwood.learn.tagging`).
    method
        A learner, or the name of a method, whose `settings` may follow: `train(trees, method="em", states=8)`. Without
        one, and without `ensemble`, what is learned is what is best for a treebank of that size
        (`sapwood.learn.recipe.recommended`); of sequences, and with `partial` or `text`, by split-merge.
    dev
        Trees to choose the best grammar by, and to score the result on.
    ensemble
        How many grammars to learn, from as many seeds; or the methods or learners of a mixed ensemble, which take the
        settings that they have.
    layer
        Whether to learn a layer over their forests, too (`sapwood.learn.layer`), or its settings.
    network
        Whether to learn a network that scores spans, too (`sapwood.learn.network`), or its settings.
    classes
        Classes of words from plain text, by which words are known that no tree has: `sapwood.lm.word_classes`.
    partial, text
        Partly bracketed sentences and plain ones, as lists of words, to learn from as well (`sapwood.learn.teaching`).
    teaching
        Settings of that: `{"text_weight": 0.5}`.
    read
        Plain sentences, some of which a first model reads, for a second one to learn from as well
        (`sapwood.learn.reading`).
    tokeniser
        How the model is to cut plain text up: the name of a tokeniser (`sapwood.trees.tokenisers`). Without one, as is
        usual for English, with quotes and hyphens as in the trees.
    output
        Where to write the model. What is done is kept beside it until then, so that
    resume
        can go on after an interruption, to the same bytes.
    log
        Where to write a line for each iteration.
    progress
        What to report to.

    Examples
    --------
    >>> import sapwood
    >>> trees = [sapwood.Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9
    >>> sapwood.train(trees, method="pcfg").grammar
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """
    progress = progress or Silent()
    run = TrainingRun(tokeniser=tokeniser, output=output, resume=resume, log=log)
    more = partial is not None or text is not None
    if (sequences or more) and method is None and (ensemble is None or isinstance(ensemble, int)):
        method = DEFAULT_METHOD
    make = functools.partial(
        make_recipe, method, ensemble=ensemble, layer=layer, network=network, classes=classes, **settings
    )  # fmt: skip
    learner = make().first
    given: Any = trees
    if isinstance(trees, Corpus):
        corpus = trees
    elif sequences:
        corpus = tagged_corpus(learner, given, progress=progress)
    else:
        corpus = learner.prepare(given, progress=progress)
    if not (dev is None or isinstance(dev, HeldOut)):
        held_out: Any = dev
        if sequences:
            dev = held_out_sequences(learner, held_out, corpus)
        else:
            dev = HeldOut(held_out, corpus, workers=learner.where)
    if read is not None:
        if sequences or more:
            raise UsageError("read: goes with trees alone, not with sequences, partial trees or text to be taught with")
        _, grammars = learn_by_reading(run, make, corpus, Reader().draw(read, make().seed), dev, progress)
    else:
        recipe = make(n_trees=corpus.n_trees)
        if more:
            brackets = None if partial is None else PartialTrees(list(partial))
            plain = text if text is None or isinstance(text, PlainText) else PlainText(list(text))
            recipe = taught(recipe, brackets, plain, **(teaching or {}))
        grammars = run(recipe, corpus, dev, progress)
    return Trained(grammars, None if dev is None else dev.score(grammars, progress))


def save_grammars(grammars: list[TensorGrammar], path: str | Path) -> None:
    """Write one grammar as a model, several as a bundle."""
    if len(grammars) == 1:
        grammars[0].save(path)
    else:
        save_models(grammars, path)


class TrainingRun:
    """A run of one or several trainings whose progress is kept in files beside the model.

    Parameters
    ----------
    tokeniser, output, resume, log
        As for `train`.

    Attributes
    ----------
    kept
        The files beside the model.
    recipe
        What to learn.
    """

    recipe: Recipe
    # How many trees were given; those behind them were read.
    _given: int

    def __init__(
        self,
        *,
        tokeniser: str | None = None,
        output: str | Path | None = None,
        resume: bool = False,
        log: str | Path | None = None,
    ) -> None:
        if resume and output is None:
            raise UsageError("resume: goes with output, beside which the state of training is kept")
        if tokeniser is not None:
            find_tokeniser(tokeniser)
        self.tokeniser, self.resume, self.log = tokeniser, resume, log
        self.output, self.kept = output, KeptFiles(output)
        self.kept.check(resume=resume, log=log)

    @property
    def _size(self) -> int:
        return len(self.recipe.learners)

    @property
    def _where(self) -> Workers:
        return self.recipe.first.where

    def teacher(self, recipe: Recipe, corpus: Corpus, dev: Evaluate | None, progress: Progress) -> list[TensorGrammar]:
        """Return a model whose trees are to be learned from: of an earlier run that is gone on with, or a new one."""
        self.recipe, path = recipe, self.kept.teacher
        if not self.resume:
            with self.kept.open_log(self.log, resume=False):
                pass  # of an earlier run nothing is to be gone on with
        if path is None:
            return TrainingRun()(recipe, corpus, dev, progress, what="the first model")
        if self.resume and path.exists():
            with with_remedy("file"):
                grammars = load_models(path)
            parts = [grammars[0].info.get(name) for name in ("layer", "network")]
            wanted = [None if part is None else part.settings() for part in (recipe.layer, recipe.network)]
            refuse_others(path, grammars, [Job(learner, corpus) for learner in recipe.learners])
            if len(grammars) != len(recipe.learners) or parts != wanted:
                raise UsageError(other_run(path))
            return grammars
        return TrainingRun(output=path, resume=self.resume)(recipe, corpus, dev, progress, what="the first model")

    def __call__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        dev: Evaluate | None = None,
        progress: Progress | None = None,
        *,
        read: Corpus | None = None,
        teacher: TensorGrammar | None = None,
        what: str = "in all",
    ) -> list[TensorGrammar]:
        """Train, save, and clear away what was kept for the case of an interruption.

        Trees that a `teacher` has `read` are learned from as well, and its layer is taken over. A forecast begins with
        `what` it is of.
        """
        progress, self.recipe, self._given = progress or Silent(), recipe, corpus.n_trees
        figures = {}
        if read is not None:
            corpus = corpus.joined(read)
            figures["read"] = read.n_trees
        elif taught := self.kept.left_by_teacher():
            raise UsageError(f"{taught[0]}: of a run that reads text; give the text again, or remove it to start anew")
        done = self._done(corpus)
        if self._n_jobs > 1 or recipe.network is not None:
            expected = forecast_run(recipe, corpus, dev)
            if expected is not None and expected.worth_saying:
                progress.note(f"{what}: {expected}")
        steps = sum(grammar.info.get("iterations", 0) for grammar in done[: self._size])
        with self.kept.open_log(self.log, resume=self.resume, steps=steps) as log:
            if getattr(log, "is_new", True):
                figures |= {"trees": corpus.n_trees, "words": corpus.n_words}
                log.write("start", step=0, method=recipe.method, settings=recipe.settings(), **figures)
            for number, grammar, lines in self._grammars(len(done), corpus, dev, progress, log, steps):
                own = number < self._size  # and not a fold's, of which nothing is noted
                view = MemberLog(log, steps, {"member": number} if self._size > 1 else {})
                for event, step, found in lines if own else []:
                    view.write(event, step=step, **found)
                done.append(grammar)
                steps += grammar.info.get("iterations", 0) if own else 0
                if self.kept.has_neighbours and (self._n_jobs > 1 or recipe.network is not None):
                    save_models(done, self.kept.members)
            network = layer = None
            if recipe.network is not None:
                network = self._network(corpus, progress, MemberLog(log, steps, {}))
                steps += recipe.network.epochs
            if recipe.layer is not None:
                if recipe.network is None:
                    self.kept.forget()  # the last grammar's: it is kept as a whole
                layer = self._layer(corpus, done[self._size :], progress, MemberLog(log, steps, {}))
                steps += recipe.layer.epochs
            del done[self._size :]
            log.write("end", step=steps)
        grammars = [packed.unpacked() for packed in done]
        if teacher is not None and "layer" in teacher.info:
            layer = teacher.layer
            grammars[0] = grammars[0].with_info(layer=teacher.info["layer"])
        grammars[0] = self._with_parts(grammars[0], network, layer)
        if read is not None:
            grammars = [one.with_info(read=read.n_trees) for one in grammars]
        return self.finish(grammars)

    def finish(self, grammars: list[TensorGrammar]) -> list[TensorGrammar]:
        """Save what was learned, and clear away what was kept."""
        if self.tokeniser is not None:
            named = {"name": self.tokeniser}
            grammars = [one.with_info(tokeniser={**one.info.get("tokeniser", {}), **named}) for one in grammars]
        if self.output is not None:
            save_grammars(grammars, self.output)
            self.kept.clear()
        return grammars

    @property
    def _folds(self) -> int:
        return 0 if self.recipe.layer is None else self.recipe.layer.turns

    @property
    def _of_fold(self) -> tuple[Learner, ...]:
        """The members that are learned for each fold, too."""
        layer = self.recipe.layer
        return () if layer is None else self.recipe.learners[: layer.members]

    @property
    def _n_jobs(self) -> int:
        return self._size + self._folds * len(self._of_fold)

    def _jobs(self, corpus: Corpus, dev: Evaluate | None = None) -> Iterator[Job]:
        """Yield what to learn one after the other: the members, then those of all folds but one, for each in turn."""
        for learner in self.recipe.learners:
            yield Job(learner, corpus, dev)
        if self.recipe.layer is not None:
            fold_of = self.recipe.layer.fold_of(corpus.n_trees)
            for fold in range(self.recipe.layer.turns):
                trees = corpus.part(np.flatnonzero(fold_of != fold))
                for learner in self._of_fold:
                    yield Job(learner, trees)

    def _grammars(
        self, first: int, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, steps: int
    ) -> Iterator[tuple[int, PackedGrammar, Lines]]:
        """Yield the grammars that are not finished yet, and what is to be noted of them: whole trainings elsewhere.

        They are packed, so that there is room for what is still to be learned.
        """
        numbers, workers = range(first, self._n_jobs), self._where
        jobs = islice(self._jobs(corpus, dev), first, None)
        if not workers.near and len(numbers) > 1:
            alone = (replace(job, learner=replace(job.learner, workers=None, threads=1)) for job in jobs)
            found = track(fit_all(alone, workers), progress, "learning", len(numbers), "grammars")
            for number, (grammar, lines) in zip(numbers, found, strict=True):
                yield number, self._packed(grammar), lines
            return
        for number, job in zip(numbers, jobs, strict=True):
            fold, member = 0, number
            if number >= self._size:
                of = len(self._of_fold)
                fold, member = divmod(number - self._size + of, of)
            if fold and not member:
                left_out = f"fold {fold} of {self._folds}"
                if self._folds == 1:
                    left_out = f"{corpus.n_trees - job.corpus.n_trees:,} to learn from"
                progress.note(f"for the layer: trees without {left_out}")
            elif not fold and self._n_jobs > 1:
                progress.note(f"grammar {member + 1} of {self._size}: {job.learner.method}")
            view = MemberLog(log, steps, {"member": number} if self._size > 1 else {})
            checkpoint = self.kept.checkpoint(f"-{number:02d}" if self._n_jobs > 1 else "")
            try:
                # What there is to say of a grammar was said of the one of all trees.
                packed = self._packed(
                    job.learner.fit(
                        job.corpus,
                        dev=job.dev,
                        progress=WithoutNotes(progress) if fold else progress,
                        log=NoLog() if fold else view,
                        checkpoint=checkpoint,
                    )
                )
            except GrammarError:  # which would come again, however often one goes on
                self.kept.forget()
                raise
            steps += packed.info.get("iterations", 0)
            yield number, packed, []

    def _packed(self, grammar: TensorGrammar) -> PackedGrammar:
        return PackedGrammar(grammar.with_info(seed=self.recipe.seed))

    def _layer(self, corpus: Corpus, rest: Sequence[PackedGrammar], progress: Progress, log: Log) -> Layer:
        """Return a layer, given the grammars of the folds, one fold after the other."""
        assert self.recipe.layer is not None
        size = len(self._of_fold)
        folds = ([one.unpacked() for one in rest[begin : begin + size]] for begin in range(0, len(rest), size))
        return self.recipe.layer.fit(
            corpus, folds, random_state=self.recipe.seed, workers=self._where, progress=progress, log=log
        )

    def _network(self, corpus: Corpus, progress: Progress, log: Log) -> Network:
        assert self.recipe.network is not None
        # Given trees are seen so often that they are about a third of all.
        read = corpus.n_trees - self._given
        times = max(1, round(read / (2 * self._given)))
        if times > 1:
            more = np.tile(np.arange(self._given), times - 1)
            corpus = corpus.part(np.concatenate([np.arange(corpus.n_trees), more]))
        return self.recipe.network.fit(
            corpus,
            classes=self.recipe.first.lexical.classes,
            random_state=self.recipe.seed,
            # The grammars are kept as a whole: their checkpoints make way for the network's.
            checkpoint=self.kept.checkpoint("-network"),
            progress=progress,
            log=log,
        )

    def _with_parts(self, grammar: TensorGrammar, network: Network | None, layer: Layer | None) -> TensorGrammar:
        """Return the first grammar with what stands on top; a network needs a layer, if only one without features."""
        if network is not None:
            assert self.recipe.network is not None
            layer = (Layer.plain() if layer is None else layer).beside(self.recipe.network.weight)
            grammar = replace(grammar, network=network).with_info(network=self.recipe.network.settings())
        if self.recipe.layer is not None:
            grammar = grammar.with_info(layer=self.recipe.layer.settings())
        return replace(grammar, layer=layer)

    def _done(self, corpus: Corpus) -> list[PackedGrammar]:
        """Return the grammars that are finished; refuse to go on with those of another run."""
        if not (self.resume and self.kept.members.exists()):
            return []
        with with_remedy("file"):
            done = load_models(self.kept.members)
        if len(done) > self._n_jobs:
            raise UsageError(
                f"{self.kept.members}: holds {len(done)} grammars, more than the {self._n_jobs} asked for; give the "
                "same settings again, or remove it to start anew"
            )
        refuse_others(self.kept.members, done, self._jobs(corpus))
        return [PackedGrammar(grammar) for grammar in done]
