"""Served treebank, with cached results about it, and the comparison of a parser with it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sapwood.evaluate.brackets import SentenceScore, score_tree
from sapwood.evaluate.error_types import Confusion, count_confusions
from sapwood.evaluate.result import Summary
from sapwood.inference.parser import Parser
from sapwood.trees.formats.labels import explain_all
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree
from sapwood.web.examples import example_patterns
from sapwood.web.scheduler import Plan, RequestJob, WorkerPool

T = TypeVar("T")
# Number of trees to compare, from the start of a treebank.
COMPARED = 5000
# Number of labels to explain.
_EXPLAINED = 2000
# A day: nobody waits for a comparison to finish.
_LONG = 86400.0


class ServedTreebank:
    """Gold trees with a name.

    Attributes
    ----------
    name
        The file's name.
    table
        The trees, as in the file.
    """

    def __init__(self, name: str, table: TreeTable) -> None:
        self.name, self.table = name, table
        self._kept: dict[tuple[str, ...], Any] = {}
        self._making: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.table)

    def describe(self) -> dict[str, Any]:
        """Return a description for the pages: its size, patterns to try, explanations of its labels."""

        def examples() -> dict[str, Any]:
            labels = self.table.spellings[: self.table.n_labels]
            return {**example_patterns(self.table), "explanations": explain_all(labels[:_EXPLAINED])}

        return {"name": self.name, "trees": len(self), **self.once(("patterns",), examples)}

    def trees(self, most: int | None = None) -> Iterator[Tree]:
        """Yield all trees, or the first N."""
        return (self.table.tree(number) for number in islice(range(len(self.table)), most))

    def once(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return a cached value, computed on first use."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            found: T = self._kept[key]
            return found

    def forget(self, model: str) -> None:
        """Drop what was computed with a model."""
        with self._lock:
            self._kept = {key: value for key, value in self._kept.items() if key[1:] != (model,)}

    def soon(self, key: tuple[str, ...], make: Callable[[], T]) -> T | None:
        """Return a cached value, computed on first use; None while another thread is computing it.

        For values that take seconds, so that other threads need not wait.
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
    """A compared tree: its number, the gold tree, the parse, and the score."""

    number: int
    gold: Tree
    predicted: Tree
    score: SentenceScore
    confusions: Counter[Confusion]


class ParseDiff:
    """A treebank parsed by a parser, tree by tree, in the background.

    Attributes
    ----------
    total
        Number of trees to parse.
    done
        The parsed trees, in order of completion.
    """

    def __init__(self, gold: ServedTreebank, parser: Parser, crew: WorkerPool) -> None:
        self.total = min(len(gold), COMPARED)
        self.done: list[Compared] = []
        self.skipped = 0
        self.problem: BaseException | None = None
        self._gold, self._parser = gold, parser
        crew.submit(RequestJob(self._plan, _LONG, self._end))

    def _end(self, result: None, error: BaseException | None) -> None:  # noqa: ARG002
        self.problem = error

    def _plan(self, job: RequestJob) -> Plan:  # noqa: ARG002
        return Plan([partial(self._compare, number) for number in range(self.total)], lambda results: None)  # noqa: ARG005

    def _compare(self, number: int) -> None:
        gold = self._parser.grammar.normaliser(self._gold.table.tree(number))
        found = None if gold is None else self._parser.parse_one(gold.words(), check_tokens=False).tree
        if gold is None or found is None:
            self.skipped += 1
            return
        self.done.append(Compared(number, gold, found, score_tree(gold, found), count_confusions(gold, found)))

    def summary(self) -> Summary:
        """Return the scores of the trees parsed so far."""
        return Summary.of([one.score for one in list(self.done)])

    def confusions(self) -> list[tuple[Confusion, int]]:
        """Return the label confusions, most frequent first."""
        total: Counter[Confusion] = Counter()
        for one in list(self.done):
            total.update(one.confusions)
        return sorted(total.items(), key=lambda item: (-item[1], str(item[0])))

    def worst(self, confusion: Confusion | None = None) -> list[Compared]:
        """Return the trees with errors, or with a given confusion, worst first."""
        chosen = [
            one for one in list(self.done) if (confusion in one.confusions if confusion else one.confusions.total())
        ]
        return sorted(
            chosen, key=lambda one: (one.score.f1 if one.score.gold else 100.0, -one.confusions.total(), one.number)
        )
