"""A whole run of learning without trees, noted in a log, resumable after an interruption.

`induce` is what `sapwood induce` does, as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapwood.errors import GrammarError, UsageError
from sapwood.induction.inducers import DEFAULT_MODEL, Inducer, Learned, make_inducer
from sapwood.induction.prospects import prospects
from sapwood.induction.text import Sentence, Text, make_text
from sapwood.run.checkpoint import KeptFiles
from sapwood.run.progress import Progress, Silent
from sapwood.trees.punctuation import Punctuation


@dataclass(frozen=True)
class Induced:
    """What a run gives.

    Attributes
    ----------
    model
        A `TensorGrammar` of a constituency model, an `InducedModel` of the others.
    text
        What it was learned from.
    """

    model: Learned
    text: Text

    def save(self, path: str | Path) -> None:
        """Write the model to a file."""
        self.model.save(path)


def induce(
    sentences: Iterable[Sentence] | Text,
    *,
    model: str | Inducer = DEFAULT_MODEL,
    tags: bool = False,
    classes: int | None = None,
    punctuation: Punctuation = "drop",
    output: str | Path | None = None,
    resume: bool = False,
    log: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Induced:
    """Learn a model of trees from sentences without trees.

    Parameters
    ----------
    sentences
        Words, (word, tag) pairs, trees of which no more than that is used, or a text.
    model
        The name of a model, whose `settings` may follow: `induce(sentences, model="dmv", lengths=10)`; or how to learn
        it.
    tags, classes, punctuation
        What is learned from: see `sapwood.induction.text.make_text`.
    output
        Where to write the model. What is done is kept beside it until then, so that
    resume
        can go on after an interruption, to the same bytes.
    log
        Where to write a line for each iteration.
    progress
        What to report to: first of all whether the model can be found at all.

    Examples
    --------
    >>> import sapwood
    >>> sentences = [["dogs", "see", "cats"], ["cats", "sleep"], ["dogs", "sleep"]] * 5
    >>> sapwood.induce(sentences, model="dmv", classes=2).model
    <InducedModel: dmv, 2 classes, 4 words>
    """
    progress = progress or Silent()
    inducer = model.replace(**settings) if isinstance(model, Inducer) else make_inducer(model, **settings)
    run = InductionRun(inducer, output=output, resume=resume, log=log)
    if isinstance(sentences, Text):
        if tags or classes is not None or punctuation != "drop":
            raise UsageError("tags, classes and punctuation are what a Text is made with; leave them out here")
        text = sentences
    else:
        text = make_text(sentences, tags=tags, classes=classes, punctuation=punctuation, progress=progress)
    return Induced(run(text, progress), text)


class InductionRun:
    """A run whose progress is kept in a file beside the model.

    Parameters
    ----------
    inducer
        How to learn.
    output, resume, log
        As for `induce`.

    Attributes
    ----------
    kept
        The files beside the model.
    """

    def __init__(
        self,
        inducer: Inducer,
        *,
        output: str | Path | None = None,
        resume: bool = False,
        log: str | Path | None = None,
    ) -> None:
        if resume and output is None:
            raise UsageError("resume: goes with output, beside which the state is kept")
        self.inducer, self.output, self.resume, self.log = inducer, output, resume, log
        self.kept = KeptFiles(output)
        self.kept.check(resume=resume, log=log)

    def __call__(self, text: Text, progress: Progress | None = None) -> Learned:
        """Learn, save, and clear away what was kept for the case of an interruption."""
        progress = progress or Silent()
        progress.note(prospects(self.inducer, text))
        with self.kept.open_log(self.log, resume=self.resume) as log:
            if getattr(log, "is_new", True):
                figures = {"sentences": text.n_sentences, "words": len(text.word), "terminals": len(text.terminals)}
                method = f"induce {self.inducer.model}"
                log.write("start", step=0, method=method, settings=self.inducer.settings(), **figures)
            try:
                model = self.inducer.fit(text, progress=progress, log=log, checkpoint=self.kept.checkpoint())
            except GrammarError:  # which would come again, however often one goes on
                self.kept.forget()
                raise
            log.write("end", step=int(model.info.get("iterations", 0)))
        if self.output is not None:
            model.save(self.output)
            self.kept.clear()
        return model
