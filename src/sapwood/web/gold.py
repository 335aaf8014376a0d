"""The treebank that is served, what is found out about it once, and how a parser's trees compare with it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sapwood.evaluate.brackets import SentenceScore, score_tree
from sapwood.evaluate.confusions import Confusion, count_confusions
from sapwood.evaluate.result import Summary
from sapwood.inference.parser import Parser
from sapwood.trees.table import TreeTable
from sapwood.trees.tree import Tree
from sapwood.web.work import Crew, Job, Plan

T = TypeVar("T")
# Trees that are parsed to be compared: the first of a treebank.
COMPARED = 5000
# A day: comparing is no request that somebody waits for.
_LONG = 86400.0


class Gold:
    """Gold trees under a name.

    Attributes
    ----------
    name
        The file's name.
    table
        The trees, as they stand there.
    """

    def __init__(self, name: str, table: TreeTable) -> None:
        self.name, self.table = name, table
        self._kept: dict[Hashable, Any] = {}
        self._making: set[Hashable] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.table)

    def trees(self, most: int | None = None) -> Iterator[Tree]:
        """Yield the trees, or the first so many."""
        return (self.table.tree(number) for number in islice(range(len(self.table)), most))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under a key, made at the first time."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            found: T = self._kept[key]
            return found

    def soon(self, key: Hashable, make: Callable[[], T]) -> T | None:
        """Return what is kept under a key, made at the first time; None while another thread is making it.

        For what takes seconds: one thread is enough for it, and the others have more to do than to wait.
        """
        with self._lock:
            if key in self._kept or key in self._making:
                found: T | None = self._kept.get(key)
                return found
            self._making.add(key)
        try:
            made = make()
            with self._lock:
                self._kept[key] = made
            return made
        finally:
            with self._lock:
                self._making.discard(key)


class Compared(NamedTuple):
    """A tree of the treebank and a parser's: its number, both trees, and the score."""

    number: int
    gold: Tree
    predicted: Tree
    score: SentenceScore
    confusions: Counter[Confusion]


class Comparison:
    """A treebank parsed by a parser, tree by tree, beside what else is to be done.

    Attributes
    ----------
    total
        Trees to be parsed.
    done
        Those that have been, in the order in which they were.
    """

    def __init__(self, gold: Gold, parser: Parser, crew: Crew) -> None:
        self.total = min(len(gold), COMPARED)
        self.done: list[Compared] = []
        self.skipped = 0
        self.problem: BaseException | None = None
        self._gold, self._parser = gold, parser
        crew.submit(Job(self._plan, _LONG, self._end))

    def _end(self, result: None, error: BaseException | None) -> None:  # noqa: ARG002
        self.problem = error

    def _plan(self, job: Job) -> Plan:  # noqa: ARG002
        return Plan([partial(self._compare, number) for number in range(self.total)], lambda results: None)  # noqa: ARG005

    def _compare(self, number: int) -> None:
        gold = self._parser.grammar.normaliser(self._gold.table.tree(number))
        found = None if gold is None else self._parser.parse_one(gold.words()).tree
        if gold is None or found is None:
            self.skipped += 1
            return
        self.done.append(Compared(number, gold, found, score_tree(gold, found), count_confusions(gold, found)))

    def summary(self) -> Summary:
        """Return the scores of what is done."""
        return Summary.of([one.score for one in list(self.done)])

    def confusions(self) -> list[tuple[Confusion, int]]:
        """Return what is taken for what, the most frequent first."""
        total: Counter[Confusion] = Counter()
        for one in list(self.done):
            total.update(one.confusions)
        return sorted(total.items(), key=lambda item: (-item[1], str(item[0])))

    def worst(self, confusion: Confusion | None = None) -> list[Compared]:
        """Return the trees with mistakes, or with a certain one, the most wrong first."""
        chosen = [
            one for one in list(self.done) if (confusion in one.confusions if confusion else one.confusions.total())
        ]
        return sorted(
            chosen, key=lambda one: (one.score.f1 if one.score.gold else 100.0, -one.confusions.total(), one.number)
        )
