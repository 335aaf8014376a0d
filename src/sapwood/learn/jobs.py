"""The trainings that a run is made of, one for each grammar: as tasks, in logs, and in files of an interrupted run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sapwood.errors import UsageError
from sapwood.evaluate.held_out import Dev
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.run.log import Log
from sapwood.run.workers import Kept, Workers
from sapwood.trees.corpus import Corpus

# What a log has of a training: event, step and figures of each line.
Lines: TypeAlias = list[tuple[str, int, dict[str, Any]]]


@dataclass(frozen=True)
class Job:
    """A whole training: a learner, what it learns from, and what it is measured on."""

    learner: Learner
    corpus: Corpus
    dev: Dev | None = None


def refuse_others(path: Path, grammars: Sequence[TensorGrammar], jobs: Iterable[Job]) -> None:
    """Refuse grammars in a file that are not those of the first of these jobs."""
    for grammar, job in zip(grammars, jobs, strict=False):
        info = grammar.info
        same = job.learner.settings() == info.get("settings") and info.get("method") == job.learner.method
        training = info.get("training")
        if not isinstance(training, dict) or training.get("digest") != job.corpus.digest() or not same:
            raise UsageError(other_run(path))


def other_run(path: Path) -> str:
    """Return what is said of a file that is not of this run."""
    return (
        f"{path}: grammars of a training run with other settings or trees, or that read another text; give the same "
        "ones again, or remove it to start anew"
    )


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


class MemberLog:
    """One grammar's part of a log."""

    def __init__(self, log: Log, steps: int, labels: dict[str, Any]) -> None:
        self._log, self._steps, self._labels = log, steps, labels

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event, its step counted on from the grammars before."""
        self._log.write(event, step=self._steps + step, seconds=seconds, **self._labels, **figures)
