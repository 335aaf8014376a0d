"""Progress of an annotation project: accepted trees, time, corrections a sentence, and what the rest may need.

Everything comes from the journal (`sapwood.annotation.journal`), in one pass. Time at work is the time between actions
of the same person, without breaks of more than five minutes. Corrections of a sentence are the edits that its tree is
made of when it is accepted: what was undone does not count, nor do notes, marks and confirmations.

`expected_f1` estimates how good the parser's trees of other sentences are, from the probabilities of their phrases.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.annotation.journal import TIME_FORMAT, Journal, JournalEntry
from sapwood.annotation.proposals import parse_in_parts
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.runtime.progress import Progress, Silent, track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sapwood.inference.parser import Parser

# Edits that correct a tree.
CORRECTIONS = frozenset({"relabel", "make", "remove", "move", "raise", "lower", "respell", "split", "join", "choose"})
# Seconds without an action that are a break, and sentences in the moving mean of corrections.
BREAK, WINDOW = 300, 20
_END_OF_WORD = re.compile(r"[^)]\)")


class AcceptedTree(NamedTuple):
    """An accepted tree: sentence, who accepted it, hours at work of all until then, its corrections and words."""

    sentence: int
    by: str
    hours: float
    corrections: int
    words: int


@dataclass(frozen=True)
class AnnotationProgress:
    """Progress of a project.

    Attributes
    ----------
    accepted
        The accepted trees, in the order in which they were accepted first.
    hours
        Hours at work of each person.
    """

    accepted: list[AcceptedTree] = field(repr=False)
    hours: dict[str, float]

    @property
    def trees_per_hour(self) -> float:
        """Accepted trees per hour at work; 0 before the first hour has a second."""
        total = sum(self.hours.values())
        return len(self.accepted) / total if total else 0.0

    def mean_corrections(self, window: int = WINDOW) -> list[float]:
        """Return for each tree the mean corrections of up to `window` trees, itself the last."""
        found, total = [], 0
        for number, one in enumerate(self.accepted):
            total += one.corrections
            if number >= window:
                total -= self.accepted[number - window].corrections
            found.append(total / min(number + 1, window))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        means = self.mean_corrections()
        return {
            "trees": len(self.accepted),
            "words": sum(one.words for one in self.accepted),
            "hours": {name: round(value, 4) for name, value in sorted(self.hours.items())},
            "trees_per_hour": round(self.trees_per_hour, 2),
            "corrections_per_tree": {"first": means[min(WINDOW, len(means)) - 1], "last": means[-1]} if means else None,
            "accepted": [{**one._asdict(), "hours": round(one.hours, 4)} for one in self.accepted],
        }


def read_progress(journal: str | Path) -> AnnotationProgress:
    """Return the progress that a journal tells of."""
    file = Journal(journal, read_only=True)
    try:
        return progress_of(file.entries())
    finally:
        file.close()


def progress_of(entries: Iterable[JournalEntry]) -> AnnotationProgress:
    """Return the progress that the lines of a journal tell of."""
    last: dict[str, float] = {}
    seconds: dict[str, float] = {}
    total = 0.0
    # Corrections in each state of a sentence, and the present state: undoing and redoing go back and forth.
    states: dict[int, tuple[list[int], int]] = {}
    words: dict[int, int] = {}
    accepted: dict[int, AcceptedTree] = {}
    for entry in entries:
        at = _seconds(entry.time)
        if at is not None:
            passed = at - last.get(entry.by, at)
            worked = passed if 0 < passed <= BREAK else 0.0
            seconds[entry.by] = seconds.get(entry.by, 0.0) + worked
            total += worked
            last[entry.by] = at
        edit = entry.action["edit"]
        counts, present = states.get(entry.sentence, ([0], 0))
        if edit == "undo":
            present = max(present - 1, 0)
        elif edit == "redo":
            present = min(present + 1, len(counts) - 1)
        elif edit != "open":
            del counts[present + 1 :]
            counts.append(counts[present] + (edit in CORRECTIONS))
            present += 1
        states[entry.sentence] = (counts, present)
        if entry.state is not None:
            words[entry.sentence] = _words(entry.state)
        if edit == "accept":
            before = accepted.get(entry.sentence)
            hours = before.hours if before is not None else total / 3600
            size = words.get(entry.sentence, 0)
            accepted[entry.sentence] = AcceptedTree(entry.sentence, entry.by, hours, counts[present], size)
        elif edit == "reopen":
            accepted.pop(entry.sentence, None)
    return AnnotationProgress(list(accepted.values()), {name: value / 3600 for name, value in seconds.items()})


def _seconds(date: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(date, TIME_FORMAT)))
    except (ValueError, OverflowError):
        return None


def _words(state: Any) -> int:
    """Return the number of words of an annotation in JSON: of closing brackets that do not follow another one."""
    tree = str(state.get("tree", "")) if isinstance(state, dict) else ""
    return len(_END_OF_WORD.findall(tree))


def expected_f1(
    parser: Parser, sentences: Sequence[Sequence[str]], *, progress: Progress | None = None
) -> float | None:
    """Return the F1 to expect of a parser's trees, in per cent; None if no sentence has a phrase.

    The expected number of right phrases is the sum of their posteriors, and that of gold phrases the sum over all
    phrases, in the tree or not. So it is as good as the parser's probabilities (`sapwood eval --calibration`).
    """
    right = predicted = gold = 0.0
    root = parser.grammar.transform.root
    watched = track(parser.map(_phrases, sentences), progress or Silent(), "parsing", len(sentences), "sentences")
    for tree, posterior in watched:
        spans = [span for number, span in enumerate(tree.spans()) if number or span[2] != root]
        right += sum(min(posterior.get(span, 0.0), 1.0) for span in spans)
        predicted += len(spans)
        gold += sum(posterior.values())
    return 200.0 * right / (predicted + gold) if predicted + gold else None


def _phrases(parser: Parser, words: Sequence[str]) -> tuple[Any, dict[tuple[int, int, str], float]]:
    """Return the parser's tree, and the posteriors of all phrases."""
    tree = parse_in_parts(parser, words)
    tags, root = parser.tags, parser.grammar.transform.root
    found = {
        (one.start, one.end, one.label): one.probability
        for one in parser.posteriors(words, least=1e-4)
        if not (one.end - one.start == 1 and one.label in tags) and one.label != root
    }
    return tree, found


def draw_progress(found: AnnotationProgress, path: str | Path, *, title: str = "") -> None:
    """Draw accepted trees by hours at work, and corrections of each tree with their moving mean."""
    save_picture(path, lambda: _figure(found, title))


def _figure(found: AnnotationProgress, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.step([0.0, *(one.hours for one in found.accepted)], range(len(found.accepted) + 1), where="post")
    left.get_lines()[0].set_color(COLOURS[0])
    left.set_xlabel("hours at work")
    left.set_ylabel("accepted trees")
    numbers = range(1, len(found.accepted) + 1)
    right.plot(numbers, [one.corrections for one in found.accepted], "o", color=COLOURS[5], markersize=2.5)
    right.plot(numbers, found.mean_corrections(), color=COLOURS[0], linewidth=1.5)
    right.set_xlabel("accepted trees")
    right.set_ylabel(f"corrections; line: mean of {WINDOW}")
    for panel in (left, right):
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
