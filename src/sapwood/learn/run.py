"""A whole training run: one grammar or several, noted in a log, resumable after an interruption.

`train` is what `sapwood train` does, as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.held_out import Evaluate, HeldOut
from sapwood.evaluate.result import EvaluationResult
from sapwood.files import is_regular
from sapwood.grammar.bundle import load_models, save_models
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.methods import DEFAULT_METHOD, make_learner
from sapwood.learn.settings import declared
from sapwood.learn.training import CHECKPOINT
from sapwood.run.log import Log, NoLog, TrainingLog
from sapwood.run.progress import Progress, Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree


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
        dev = HeldOut(dev, corpus, threads=learner.threads)
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
        self.output = None if output is None else Path(output)
        if self.output is not None and log is not None:
            own, other = os.path.realpath(self.output), os.path.realpath(log)
            if other in (own, f"{own}.members") or other.startswith(f"{own}.checkpoint"):
                raise UsageError(f"log {log}: is where the model, or what is kept for resuming, is written")
        if not resume and (left := self._left()):
            raise UsageError(
                f"{left[0]}: training was interrupted here; go on with --resume, or remove this file to start anew"
            )

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
                settings = {**self.learner.settings(), "ensemble": self.ensemble}
                figures = {"trees": corpus.n_trees, "words": corpus.n_words}
                log.write("start", step=0, method=self.learner.method, settings=settings, **figures)
            for number in range(len(done), self.ensemble):
                if self.ensemble > 1:
                    progress.note(f"grammar {number + 1} of {self.ensemble}")
                view = _MemberLog(log, steps, {"member": number} if self.ensemble > 1 else {})
                grammar = self.member(number).fit(
                    corpus, dev=dev, progress=progress, log=view, checkpoint=self._checkpoint(number)
                )
                done.append(grammar.with_info(seed=self._seed))
                steps += grammar.info.get("iterations", 0)
                if self.output is not None and self.ensemble > 1:
                    save_models(done, self._members)
            log.write("end", step=steps)
        if self.output is not None:
            save_grammars(done, self.output)
            for path in (*self._left(), *self._torn()):
                path.unlink(missing_ok=True)
        return done

    @property
    def _members(self) -> Path:
        return Path(f"{self.output}.members")

    def _beside(self, pattern: str) -> list[Path]:
        """Return files in the model's directory."""
        return [] if self.output is None else sorted(self.output.parent.glob(pattern))

    def _checkpoints(self) -> list[Path]:
        return [] if self.output is None else self._beside(f"{glob.escape(self.output.name)}.checkpoint*")

    def _left(self) -> list[Path]:
        """Return the files that an interrupted run has left."""
        return [] if self.output is None else [p for p in (*self._checkpoints(), self._members) if p.exists()]

    def _torn(self) -> list[Path]:
        """Return what being killed in the middle of writing has left."""
        assert self.output is not None
        names = (f"{self.output.name}.checkpoint", self._members.name, self.output.name)
        return [torn for name in names for torn in self._beside(f".{glob.escape(name[:40])}*.part")]

    def _checkpoint(self, member: int) -> str | None:
        """Return where the state of one grammar's training is kept, and clear away what others have left."""
        if self.output is None or (self.output.exists() and not is_regular(self.output)):  # a device has no neighbours
            return None
        path = f"{self.output}.checkpoint" + (f"-{member:02d}" if self.ensemble > 1 else "")
        for other in self._checkpoints():
            if str(other) != path:
                other.unlink()
        return path

    def _done(self, corpus: Corpus) -> list[TensorGrammar]:
        """Return the members that are finished; refuse to go on with grammars of another run."""
        if not (self.resume and self._members.exists()):
            return []
        done, digest = load_models(self._members), corpus.digest()
        for number, grammar in enumerate(done):
            info = grammar.info
            same = self.member(number).settings() == info.get("settings") and info.get("method") == self.learner.method
            training = info.get("training")
            if not isinstance(training, dict) or training.get("digest") != digest or not same:
                raise UsageError(
                    f"{self._members}: grammars of a training run with other settings or trees; give the same ones "
                    "again, or remove it to start anew"
                )
        if len(done) > self.ensemble:
            raise UsageError(f"{self._members}: holds {len(done)} grammars, more than the {self.ensemble} asked for")
        return done

    def _open_log(self, steps: int) -> contextlib.AbstractContextManager[Log]:
        if self.log is None:
            return contextlib.nullcontext(NoLog())
        if not self.resume:
            return TrainingLog(self.log)
        # Lines behind the last checkpoint will be written again.
        step = measured = 0
        if current := self._checkpoints():
            metadata = CHECKPOINT.read(current[-1], lambda _, values: values)
            step, measured = metadata["step"], metadata["measured"]
        return TrainingLog.resume(self.log, step=steps + step, measured=steps + measured)


class _MemberLog:
    """One grammar's part of a log."""

    def __init__(self, log: Log, steps: int, labels: dict[str, Any]) -> None:
        self._log, self._steps, self._labels = log, steps, labels

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event, its step counted on from the grammars before."""
        self._log.write(event, step=self._steps + step, seconds=seconds, **self._labels, **figures)
