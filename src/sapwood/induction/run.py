"""Induction runs: logged, and resumable after an interruption.

`induce` is `sapwood induce` as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapwood.errors import GrammarError, UsageError
from sapwood.identifiability.identify import check_identifiability
from sapwood.identifiability.models.zoo import MODELS, make_model
from sapwood.induction.em import CHECKPOINT as EM_CHECKPOINT
from sapwood.induction.gradient_training import CHECKPOINT as NETWORK_CHECKPOINT
from sapwood.induction.learners import (
    CCM,
    DEFAULT_MODEL,
    DMV,
    DMVCCM,
    Inducer,
    InductionResult,
    SimplePCFG,
    TensorPCFG,
    make_inducer,
)
from sapwood.induction.text import Sentence, Text, make_text
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.log import LogSection
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.punctuation import Punctuation

# With more parameters than this, computing the rank takes more than some seconds.
_MOST_PARAMETERS = 600
_CHECKED_LENGTH = 3


@dataclass(frozen=True)
class Induced:
    """Result of a run.

    Attributes
    ----------
    model
        A `TensorGrammar` for constituency models, an `InducedModel` for the others.
    text
        The text it was learned from.
    """

    model: InductionResult
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
    **options: Any,
) -> Induced:
    """Learn a model of trees from sentences without trees.

    Parameters
    ----------
    sentences
        Words, (word, tag) pairs, trees of which only words and tags are used, or a text.
    model
        The name of a model, followed by its settings: `induce(sentences, model="dmv", lengths=10)`; or an inducer.
    tags, classes, punctuation
        Choice of terminals: see `sapwood.induction.text.make_text`.
    output
        File to write the model to. Until then a checkpoint is kept next to it.
    resume
        Whether to continue from the checkpoint of an interrupted run, to the same bytes.
    log
        File to write a line for each iteration to.
    options
        Settings of the model; `vocabulary`, as for `make_text`; `threads`, `workers` and `progress`, as for
        `sapwood.runtime.context.RunContext`; `loggers`, names of loggers that get the lines of the log as well
        (`sapwood.runtime.loggers`). The progress display first reports whether the model is identifiable.

    Examples
    --------
    >>> import sapwood
    >>> sentences = [["dogs", "see", "cats"], ["cats", "sleep"], ["dogs", "sleep"]] * 5
    >>> sapwood.induce(sentences, model="dmv", classes=2).model
    <InducedModel: dmv, 2 classes, 4 words>
    """
    progress, loggers = options.pop("progress", None) or Silent(), options.pop("loggers", ())
    vocabulary = options.pop("vocabulary", None)
    inducer = model.replace(**options) if isinstance(model, Inducer) else make_inducer(model, **options)
    run = InductionRun(inducer, output=output, resume=resume, log=log, loggers=loggers)
    if isinstance(sentences, Text):
        if tags or classes is not None or vocabulary is not None or punctuation != "drop":
            raise UsageError("tags, classes, vocabulary and punctuation are settings of the Text; omit them here")
        text = sentences
    else:
        text = make_text(
            sentences, tags=tags, classes=classes, vocabulary=vocabulary, punctuation=punctuation, progress=progress
        )
    return Induced(run(text, progress), text)


class InductionRun:
    """A run that keeps its progress in a file next to the model.

    Parameters
    ----------
    inducer
        The inducer.
    output, resume, log, loggers
        As for `induce`.

    Attributes
    ----------
    kept
        The files next to the model.
    """

    def __init__(
        self,
        inducer: Inducer,
        *,
        output: str | Path | None = None,
        resume: bool = False,
        log: str | Path | None = None,
        loggers: Sequence[str] = (),
    ) -> None:
        if resume and output is None:
            raise UsageError("resume: requires output, next to which the state is kept")
        self.inducer, self.output = inducer, output
        self.kept = RunFiles(output, resume=resume, log=log, loggers=loggers)
        self.kept.check()

    def __call__(self, text: Text, progress: Progress | None = None) -> InductionResult:
        """Learn and save the model, then remove the checkpoint."""
        progress = progress or Silent()
        progress.note(summarise_identifiability(self.inducer, text))
        with self.kept.open_log() as log:
            if getattr(log, "is_new", True):
                figures = {"sentences": text.n_sentences, "words": len(text.word), "terminals": len(text.terminals)}
                method = f"induce {self.inducer.model}"
                log.write("start", step=0, method=method, settings=self.inducer.settings(), **figures)
            try:
                section = LogSection(log)
                model = self.inducer.fit(text, progress=progress, log=section, checkpoint=self.kept.checkpoint())
            except GrammarError:  # resuming would raise it again
                self.kept.discard_checkpoints()
                raise
            # Iterations before an interruption are in the checkpoint only.
            so_far = self.kept.iterations_so_far(EM_CHECKPOINT.kind, NETWORK_CHECKPOINT.kind)
            log.write("end", step=max(section.iterations, so_far))
        if self.output is not None:
            model.save(self.output)
            self.kept.clear()
        return model


def summarise_identifiability(inducer: Inducer, text: Text) -> str:
    """Return in a sentence or two whether a text determines the model's parameters.

    For the models of Hsu, Kakade and Liang (2012) the rank of a matrix decides (`sapwood.identifiability.identify`). It
    is computed for sentences of three words, or of the longest available: parameters that these determine remain
    determined when longer sentences are added. A PCFG over hidden states has a further ambiguity: its states can be
    mixed by `G`, and by its inverse where they were generated, without changing the probability of any sentence. So
    k (k - 1) dimensions remain open, whatever the rank of its rules. This changes the meaning of states but not the
    trees: the probability of a bracketing is the same for all of them.

    >>> text = make_text([[("dogs", "N"), ("see", "V"), ("cats", "N")]], tags=True)
    >>> print(summarise_identifiability(make_inducer("pcfg-ie", states=2), text))
    pcfg-ie is identifiable from sentences of 3 words over 2 tags: almost every point is the only one near it ...
    >>> print(summarise_identifiability(make_inducer("ccm"), text))
    identifiability does not apply to ccm: it is not a generative model
    """
    if isinstance(inducer, CCM | DMVCCM):
        return f"identifiability does not apply to {inducer.model}: it is not a generative model"
    if isinstance(inducer, DMV):
        return f"whether {inducer.model} can be found from sentences is not known: its trees are not equally probable"
    if isinstance(inducer, TensorPCFG):
        k = inducer.states
        return (
            f"{inducer.model} is not identifiable: its {k} states can be mixed in at least {k * (k - 1):,} dimensions; "
            "trees without labels are the same for all of these"
        )
    if isinstance(inducer, SimplePCFG):
        return f"{inducer.model} is not identifiable: other rules give all sentences the same probabilities"
    if inducer.model not in MODELS:
        return f"whether {inducer.model} can be found from sentences is not known"
    words, states = len(text.terminals), getattr(inducer, "states", None)
    model = make_model(inducer.model, words, states)
    used = text.lengths[(text.lengths > 0) & (text.lengths <= inducer.stages[-1])]
    length = min(_CHECKED_LENGTH, int(used.max(initial=1)))
    hidden = "" if states is None else f" --states {states}"
    if model.n_parameters > _MOST_PARAMETERS:
        return (
            f"whether {inducer.model} can be found was not checked: it has {model.n_parameters:,} parameters; `sapwood "
            f"identify --model {inducer.model} --words {words}{hidden} --length {length} --moments all` takes its time"
        )
    found = check_identifiability(model, "all", length=length)
    answer = found.describe().split("\n", 1)[0]
    verdict, _, reason = answer.partition(": ")
    return f"{inducer.model} is {verdict} from sentences of {length} words over {words} {text.kind}: {reason}"
