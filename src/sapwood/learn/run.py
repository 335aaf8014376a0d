"""A whole training run: one grammar or several, noted in a log, resumable after an interruption.

`train` is what `sapwood train` does, as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sapwood.errors import GrammarError, UsageError
from sapwood.evaluate.held_out import Dev, Evaluate, HeldOut
from sapwood.evaluate.result import EvaluationResult
from sapwood.grammar.bundle import load_models, save_models
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.methods import DEFAULT_METHOD, make_learner
from sapwood.learn.settings import declared
from sapwood.run.checkpoint import KeptFiles
from sapwood.run.log import Log, NoLog, TrainingLog
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import Kept, Workers
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# What a log has of a training: event, step and figures of each line.
Lines: TypeAlias = list[tuple[str, int, dict[str, Any]]]


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
    trees: Iterable[Tree] | Corpus,
    *,
    method: str | Learner = DEFAULT_METHOD,
    dev: Iterable[Tree] | HeldOut | None = None,
    ensemble: int = 1,
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
    method
        A learner, or the name of a method, whose `settings` may follow: `train(trees, method="em", states=8)`.
    dev
        Trees to choose the best grammar by, and to score the result on.
    ensemble
        How many grammars to learn, from as many seeds.
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
    if isinstance(method, Learner):
        learner = method.replace(**settings)
    else:
        learner = make_learner(method, **settings)
    corpus = trees if isinstance(trees, Corpus) else learner.prepare(trees, progress=progress)
    if not (dev is None or isinstance(dev, HeldOut)):
        dev = HeldOut(dev, corpus, workers=learner.where)
    run = TrainingRun(learner, ensemble=ensemble, output=output, resume=resume, log=log)
    grammars = run(corpus, dev, progress)
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
    learner
        What to train with; members of an ensemble differ by their seeds.
    ensemble, output, resume, log
        As for `train`.

    Attributes
    ----------
    kept
        The files beside the model.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        ensemble: int = 1,
        output: str | Path | None = None,
        resume: bool = False,
        log: str | Path | None = None,
    ) -> None:
        if ensemble < 1:
            raise UsageError(f"ensemble must be at least 1, not {ensemble}")
        if ensemble > 1 and "random_state" not in declared(learner):
            raise UsageError(f"ensemble: {learner.method} gives the same grammar from every seed")
        if resume and output is None:
            raise UsageError("resume: goes with output, beside which the state of training is kept")
        self.learner, self.ensemble, self.resume, self.log = learner, ensemble, resume, log
        self.output, self.kept = output, KeptFiles(output)
        self.kept.check(resume=resume, log=log)

    @property
    def _seed(self) -> int:
        return int(getattr(self.learner, "random_state", 0))

    def member(self, number: int) -> Learner:
        """Return the learner of a member of the ensemble; the first one is trained as it would be alone."""
        if number == 0:
            return self.learner
        seed = np.random.SeedSequence([self._seed, number]).generate_state(1)[0]
        return self.learner.replace(random_state=int(seed))

    def __call__(
        self, corpus: Corpus, dev: Evaluate | None = None, progress: Progress | None = None
    ) -> list[TensorGrammar]:
        """Train, save, and clear away what was kept for the case of an interruption."""
        progress = progress or Silent()
        done = self._done(corpus)
        steps = sum(grammar.info.get("iterations", 0) for grammar in done)
        with self._open_log(steps) as log:
            if getattr(log, "is_new", True):
                settings: dict[str, Any] = {**self.learner.settings(), "ensemble": self.ensemble}
                figures = {"trees": corpus.n_trees, "words": corpus.n_words}
                log.write("start", step=0, method=self.learner.method, settings=settings, **figures)
            for number, grammar, lines in self._members(len(done), corpus, dev, progress, log, steps):
                view = _MemberLog(log, steps, {"member": number})
                for event, step, found in lines:
                    view.write(event, step=step, **found)
                done.append(grammar.with_info(seed=self._seed))
                steps += grammar.info.get("iterations", 0)
                if self.output is not None and self.ensemble > 1:
                    save_models(done, self.kept.members)
            log.write("end", step=steps)
        if self.output is not None:
            save_grammars(done, self.output)
            self.kept.clear()
        return done

    def _members(
        self, first: int, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, steps: int
    ) -> Iterator[tuple[int, TensorGrammar, Lines]]:
        """Yield the members that are not finished yet, and what is to be noted of them: whole trainings elsewhere."""
        numbers, workers = range(first, self.ensemble), self.learner.where
        if not workers.near and len(numbers) > 1:
            jobs = [Job(replace(self.member(number), workers=None, threads=1), corpus, dev) for number in numbers]
            found = track(fit_all(jobs, workers), progress, "learning", len(numbers), "grammars")
            for number, (grammar, lines) in zip(numbers, found, strict=True):
                yield number, grammar, lines
            return
        for number in numbers:
            if self.ensemble > 1:
                progress.note(f"grammar {number + 1} of {self.ensemble}")
            view = _MemberLog(log, steps, {"member": number} if self.ensemble > 1 else {})
            checkpoint = self.kept.checkpoint(f"-{number:02d}" if self.ensemble > 1 else "")
            try:
                grammar = self.member(number).fit(corpus, dev=dev, progress=progress, log=view, checkpoint=checkpoint)
            except GrammarError:  # which would come again, however often one goes on
                for path in self.kept.checkpoints():
                    path.unlink()
                raise
            steps += grammar.info.get("iterations", 0)
            yield number, grammar, []

    def _done(self, corpus: Corpus) -> list[TensorGrammar]:
        """Return the members that are finished; refuse to go on with grammars of another run."""
        if not (self.resume and self.kept.members.exists()):
            return []
        done, digest = load_models(self.kept.members), corpus.digest()
        for number, grammar in enumerate(done):
            info = grammar.info
            same = self.member(number).settings() == info.get("settings") and info.get("method") == self.learner.method
            training = info.get("training")
            if not isinstance(training, dict) or training.get("digest") != digest or not same:
                raise UsageError(
                    f"{self.kept.members}: grammars of a training run with other settings or trees; give the same "
                    "ones again, or remove it to start anew"
                )
        if len(done) > self.ensemble:
            raise UsageError(
                f"{self.kept.members}: holds {len(done)} grammars, more than the {self.ensemble} asked for"
            )
        return done

    def _open_log(self, steps: int) -> contextlib.AbstractContextManager[Log]:
        if self.log is None:
            return contextlib.nullcontext(NoLog())
        if not self.resume:
            return TrainingLog(self.log)
        # Lines behind the last checkpoint will be written again.
        reached = self.kept.reached()
        step, measured = (steps + int(reached.get(name, 0)) for name in ("step", "measured"))
        return TrainingLog.resume(self.log, step=step, measured=measured)


@dataclass(frozen=True)
class Job:
    """A whole training: a learner, what it learns from, and what it is measured on."""

    learner: Learner
    corpus: Corpus
    dev: Dev | None = None


def fit_all(jobs: Iterable[Job], workers: Workers) -> Iterator[tuple[TensorGrammar, Lines]]:
    """Yield the grammars of several trainings, each a task of its own, in order, and what their logs would have.

    Members of an ensemble, and folds of a cross-validation.
    """
    jobs = list(jobs)
    # Trees that are the same for several are sent once.
    things = {id(thing): thing for job in jobs for thing in (job.corpus, job.dev)}
    sent: dict[int, Kept] = {number: workers.share(thing) for number, thing in things.items()}
    corpora, devs = [sent[id(job.corpus)] for job in jobs], [sent[id(job.dev)] for job in jobs]
    return workers.map(_fit, [job.learner for job in jobs], corpora, devs)


def _fit(learner: Learner, corpus: Corpus, dev: Dev | None) -> tuple[TensorGrammar, Lines]:
    log = _Noted()
    return learner.fit(corpus, dev=dev, log=log), log.lines


class _Noted:
    """A log in memory."""

    def __init__(self) -> None:
        self.lines: Lines = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        self.lines.append((event, step, figures))


class _MemberLog:
    """One grammar's part of a log."""

    def __init__(self, log: Log, steps: int, labels: dict[str, Any]) -> None:
        self._log, self._steps, self._labels = log, steps, labels

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event, its step counted on from the grammars before."""
        self._log.write(event, step=self._steps + step, seconds=seconds, **self._labels, **figures)
