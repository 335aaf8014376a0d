"""Annotation session: a project with its parser, its queue and its learning, as pages and programs use it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sapwood.annotation.learning import BackgroundLearning, LearnedModel
from sapwood.annotation.project import Project
from sapwood.annotation.proposals import Proposer, RightBranching
from sapwood.annotation.sentence_queue import QueueOrder, SentenceQueue, next_sentence
from sapwood.annotation.state import Annotation
from sapwood.errors import InputError
from sapwood.inference.parser import Parser
from sapwood.inference.result import Marginal
from sapwood.trees.formats.registry import file_footer, file_header, format_as
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.tree import Tree

# A sentence counts as open in another window for this long after that window was last heard of; pages ask every 4 s,
# and every 15 s while they are hidden.
_OPEN_SECONDS = 40.0
# Labels to choose from where neither a parser nor a tree has any: those of the Penn Treebank.
_PHRASES = ("S", "NP", "VP", "PP", "ADJP", "ADVP", "SBAR", "SBARQ", "SQ", "SINV", "WHNP", "WHPP", "WHADVP", "WHADJP",
            "QP", "PRT", "PRN", "CONJP", "INTJ", "FRAG", "UCP", "X")  # fmt: skip
_TAGS = ("NN", "NNS", "NNP", "NNPS", "DT", "IN", "JJ", "JJR", "JJS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD",
         "RB", "RBR", "RBS", "RP", "PRP", "PRP$", "WDT", "WP", "WP$", "WRB", "CC", "CD", "EX", "PDT", "POS", "TO", "UH",
         "FW", "SYM", ".", ",", ":", "``", "''", "-LRB-", "-RRB-", "$")  # fmt: skip
# Time between two attempts to write the accepted trees.
_SAVE_SECONDS = 2.0


@dataclass(frozen=True)
class SentenceView:
    """A sentence as it is shown.

    Attributes
    ----------
    number, annotation
        The sentence and its annotation.
    revision
        Name of this state, which an action must give.
    phrases
        Probable phrases and tags under what is confirmed.
    parsed
        False if the rest could not be parsed again.
    can_undo, can_redo
        Whether there are earlier and undone states.
    by, time
        Who changed it last, and when.
    remark
        What the person should know: that it is open in another window as well.
    """

    number: int
    annotation: Annotation
    revision: str
    phrases: tuple[Marginal, ...]
    parsed: bool
    can_undo: bool
    can_redo: bool
    by: str
    time: str
    remark: str = ""


class AnnotationSession:
    """An open project with everything that works on it.

    Parameters
    ----------
    project
        The project.
    parser
        Parser to begin with; without one, and before one is learned, proposals are right-branching.
    """

    def __init__(self, project: Project, parser: Parser | None = None) -> None:
        self.project = project
        self.learning = BackgroundLearning(project, parser, self._learned)
        self.queue = SentenceQueue(project)
        self.news: list[str] = []
        self._proposer = self.learning.proposer()
        self._next: Proposer | None = None
        self._lock = threading.Lock()
        # The window that has each sentence, and since when.
        self._windows: dict[int, tuple[str, float]] = {}
        self._saved = 0.0
        # Number of accepted trees, parser, and the labels that were found with them.
        self._labels: tuple[int, Parser | None, dict[str, list[str]]] = (-1, None, {})
        self.problem = ""
        self.queue.renew(self.learning.parser)
        self.learning.start()

    def close(self) -> None:
        """Stop learning, and write the trees."""
        self.learning.close()
        self.queue.join(10)
        self.project.close()

    def _learned(self, result: LearnedModel, parser: Parser | None) -> None:
        """Take a new model over, from the next sentence on."""
        gain = result.after - result.before
        what = f"{abs(gain):.1f} F1 {'better' if gain >= 0 else 'worse'} on {result.new} trees that it had not seen"
        who = f"the parser that learned from {len(result.trees)} trees"
        then = "takes over" if result.taken else "is not used: a new parser learns from the trees of this project alone"
        self.news.append(f"{who} is {what}, and {then}")
        if parser is not None:
            with self._lock:
                self._next = self.learning.proposer()
            self.queue.renew(parser)

    @property
    def proposer(self) -> Proposer:
        """Source of proposals."""
        return self._proposer

    def _between_sentences(self) -> None:
        with self._lock:
            if self._next is not None:
                self._proposer, self._next = self._next, None
                self.project.forget_proposals()
            elif isinstance(self._proposer, RightBranching):
                self._proposer = self.learning.proposer()

    def open(self, number: int, window: str = "") -> SentenceView:
        """Show a sentence in a window."""
        if not window or self._windows.get(number, ("", 0.0))[0] != window:
            self._between_sentences()
        annotation = self.project.open(number, self._proposer)
        phrases = () if annotation.status == "done" else self._proposer.phrases(annotation)
        holder, since = self._windows.get(number, ("", 0.0))
        remark = ""
        if holder not in ("", window) and time.monotonic() - since < _OPEN_SECONDS:
            remark = "This sentence is open in another window, too. The first to change it wins."
        for other in [one for one, (name, _) in self._windows.items() if name == window]:
            del self._windows[other]
        if window:
            self._windows[number] = (window, time.monotonic())
        return self._view(number, annotation, phrases, True, remark)

    def keep_open(self, window: str) -> None:
        """Note that a window is still there, with the sentence that it shows."""
        for number, (name, _) in [*self._windows.items()] if window else ():
            if name == window:
                self._windows[number] = (window, time.monotonic())

    def act(
        self, number: int, revision: str, edit: str, arguments: Mapping[str, Any], window: str = ""
    ) -> SentenceView:
        """Do an action on a sentence, and show it; see `Project.act`."""
        before = self.project.status(number)
        found = self.project.act(number, revision, edit, arguments, self._proposer)
        if window:
            self._windows[number] = (window, time.monotonic())
        if (before == "done") != (found.annotation.status == "done"):
            self._accepted()
        phrases = found.phrases
        if not phrases and found.annotation.status != "done":
            phrases = self._proposer.phrases(found.annotation)
        return self._view(number, found.annotation, phrases, found.parsed)

    def _view(
        self, number: int, annotation: Annotation, phrases: tuple[Marginal, ...], parsed: bool, remark: str = ""
    ) -> SentenceView:
        project = self.project
        return SentenceView(
            number,
            annotation,
            project.revision(number, annotation),
            phrases,
            parsed,
            project.can_undo(number),
            project.can_redo(number),
            *project.last_change(number),
            remark,
        )

    def _accepted(self) -> None:
        """Write the trees, and learn from them if it is time."""
        self.save()
        self.learning.start()
        if self.queue.needs_more():
            self.queue.renew(self.learning.parser)

    def save(self) -> None:
        """Write the accepted trees; a problem is kept for `problem`, since the journal has everything."""
        self._saved = time.monotonic()
        try:
            self.project.save()
            self.problem = ""
        except InputError as error:
            self.problem = f"the trees are not written: {error}"

    def look(self) -> None:
        """Write what is not written, and notice what others wrote, at most every few seconds."""
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def alternatives(self, number: int, count: int) -> list[Tree]:
        """Return the next best trees of a sentence under what is confirmed."""
        return self._proposer.alternatives(self.project.open(number, self._proposer), count)

    def next(self, after: int, order: QueueOrder = "teaching", pattern: str = "") -> int | None:
        """Return the next open sentence in an order, None if all are done."""
        return next(next_sentence(self.queue.numbers(order, pattern), self.project, after), None)

    def counts(self) -> dict[str, int]:
        """Return the number of sentences by their status."""
        found = Counter(self.project.status(number) for number in range(1, len(self.project) + 1))
        return {status: found[status] for status in ("new", "begun", "done", "skipped")}

    def labels(self) -> dict[str, list[str]]:
        """Return the labels of phrases and the tags, frequent ones first: those of trees and of the parser.

        Before there is a parser they are joined by those of the Penn Treebank.
        """
        parser = self.learning.parser
        done = sum(1 for _ in self.project.trees())
        if (self._labels[0], self._labels[1]) == (done, parser):
            return self._labels[2]
        phrases, tags = Counter[str](), Counter[str]()
        for number in range(1, len(self.project) + 1):
            state = self.project.state(number)
            tree = self.project.draft(number) if state is None else state.tree
            for node in () if tree is None else tree.nodes():
                (phrases if node.word is None else tags)[node.label] += 1
        known = (_PHRASES, _TAGS) if parser is None else (parser.labels, sorted(parser.tags))
        found = {
            kind: [
                one for one in dict.fromkeys([*(label for label, _ in counts.most_common()), *more]) if one != "ROOT"
            ]
            for kind, counts, more in zip(("labels", "tags"), (phrases, tags), known, strict=True)
        }
        self._labels = done, parser, found
        return found

    def export(self, to: str, *, first: int | None = None) -> str:
        """Return the accepted trees in a format of `sapwood convert`."""
        trees = [tree for _, tree in islice(self.project.trees(), first)]
        heads = fit_heads(trees) if to == "conllu" and trees else None
        lines = (format_as(tree, to, place, heads=heads) for place, tree in enumerate(trees, 1))
        return file_header(to) + "".join(f"{line}\n" for line in lines) + file_footer(to)
