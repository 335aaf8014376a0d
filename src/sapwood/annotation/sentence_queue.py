"""Order of sentences: what to annotate next.

`teaching` puts first what teaches the parser most (`sapwood.learn.active_learning`): a sample of the sentences that
nobody has begun is parsed in the background whenever there is a new parser. Sentences that were begun come before
those, and those too short, too long or not in the sample after them, as in the file. `errors` lists accepted trees with
probable errors (`sapwood.evaluate.consistency`): rare labels, then words with several analyses, then rare rules.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np

from sapwood.annotation.project import Project
from sapwood.errors import UsageError
from sapwood.evaluate.consistency import Source, check_consistency
from sapwood.inference.parser import Parser
from sapwood.learn.active_learning import choose, score_candidates
from sapwood.trees.search.searcher import Searcher

QueueOrder: TypeAlias = Literal["teaching", "file", "doubts", "errors"]
# Sentences to parse for the order, and the number of them to choose.
_SAMPLE, _CHOSEN = 400, 40
# Time limit of a search, in seconds.
_SECONDS = 10.0


class SentenceQueue:
    """Order of the sentences of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._chosen: list[int] = []
        self._known: set[int] = set()
        self._thread: threading.Thread | None = None
        self._wanted: Parser | None = None
        self._lock = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether no order is being computed."""
        return self._thread is None or not self._thread.is_alive()

    def renew(self, parser: Parser | None) -> None:
        """Compute the order by a parser anew, in the background; without one it is that of the file."""
        with self._lock:
            self._wanted = parser
            if parser is None:
                self._chosen = []
            elif self.is_ready:
                self._thread = threading.Thread(target=self._choose, name="queue", daemon=True)
                self._thread.start()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the order is computed."""
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _choose(self) -> None:
        while True:
            with self._lock:
                parser, self._wanted = self._wanted, None
                if parser is None:
                    self._thread = None
                    return
            new = [number for number in range(1, len(self.project) + 1) if self.project.status(number) == "new"]
            if len(new) > _SAMPLE:
                new = sorted(np.random.default_rng(0).choice(new, _SAMPLE, replace=False).tolist())
            known = (tree.words() for _, tree in self.project.trees())
            candidates = score_candidates(parser, (self.project.words(number) for number in new), known=known)
            self._chosen = [new[one.place - 1] for one in choose(candidates, _CHOSEN)] if candidates else []

    def numbers(self, order: QueueOrder = "teaching", pattern: str = "") -> list[int]:
        """Return the numbers of sentences in an order; with a pattern, of those whose trees it matches.

        Raises `UsageError` for an order that there is not, and for a malformed pattern.
        """
        if order not in get_args(QueueOrder):
            raise UsageError(f"there is no order {order!r}; known are {', '.join(get_args(QueueOrder))}")
        every = range(1, len(self.project) + 1)
        if pattern:
            matching = self._matching(pattern)
            return [number for number in every if number in matching]
        if order == "file":
            return list(every)
        if order == "doubts":
            return [number for number in every if self._has_doubts(number)]
        if order == "errors":
            return self._probable_errors()
        begun = [number for number in every if self.project.status(number) == "begun"]
        chosen = [number for number in self._chosen if self.project.status(number) == "new"]
        first = dict.fromkeys([*begun, *chosen])
        rest = (number for number in every if number not in first)
        later = {"done": 2, "skipped": 1}
        return [*first, *sorted(rest, key=lambda number: later.get(self.project.status(number), 0))]

    def needs_more(self) -> bool:
        """Return whether most of the sentences that were chosen are no longer new."""
        left = sum(self.project.status(number) == "new" for number in self._chosen)
        return self.is_ready and len(self._chosen) > 0 and left < len(self._chosen) // 4

    def _has_doubts(self, number: int) -> bool:
        state = self.project.state(number)
        return state is not None and state.doubtful

    def _probable_errors(self) -> list[int]:
        """Return the sentences whose accepted trees have probable errors, the most probable first."""
        accepted = [(tree, Source("", number, 0)) for number, tree in self.project.trees()]
        report = check_consistency(accepted, checks=("labels", "variations", "rules"))
        labels = [place for label in report.labels for place in label.places]
        # The rarest analysis first.
        variations = [
            place
            for variation in report.variations
            for places in reversed(variation.places.values())
            for place in places
        ]
        rules = [place for rule in report.rules if not rule.relatives for place in rule.places]
        return list(dict.fromkeys(report.sources[place.tree].number for place in (*labels, *variations, *rules)))

    def _matching(self, pattern: str) -> set[int]:
        """Return the sentences whose trees or drafts match."""
        searcher = Searcher(pattern, timeout=_SECONDS)
        numbers, trees = [], []
        for number in range(1, len(self.project) + 1):
            state = self.project.state(number)
            tree = self.project.draft(number) if state is None else state.tree
            if tree is not None:
                numbers.append(number)
                trees.append(tree)
        return {numbers[match.tree] for match in searcher.matches(trees)}


def next_sentence(numbers: list[int], project: Project, after: int) -> Iterator[int]:
    """Yield the open sentences of an order that come after one, then those before it."""
    at = numbers.index(after) + 1 if after in numbers else 0
    for number in (*numbers[at:], *numbers[:at]):
        if project.status(number) in ("new", "begun") and number != after:
            yield number
