"""A treebank's three parts as benchmarks use them: trained on, chosen by, scored on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.learn.base import Learner
from sapwood.learn.registry import make_learner
from sapwood.trees import Corpus, TreeTransform
from sapwood.trees.formats.registry import read_trees

# Without a test part, blocks of this many trees of dev are dev and test in turn.
BLOCK = 50


class Treebank:
    """A directory with train.mrg, dev.mrg and test.mrg, compressed or not.

    Seconds are those of `clock`: wall clock, or with `time.process_time` CPU time. `trees` limits the training part to
    that number of trees, evenly spaced. If the test part is missing, every second block of dev takes its place.
    """

    def __init__(
        self, directory: Path, threads: int, clock: Callable[[], float] = time.perf_counter, trees: int | None = None
    ) -> None:
        self.directory, self.threads, self.clock, self.trees = directory, threads, clock, trees
        began = clock()
        self.corpus = self.read(Learner.preparation)
        self.reading = clock() - began
        dev = list(read_trees(self._file("dev")))
        if self._file("test").exists():
            self.parts = {"dev": dev, "test": list(read_trees(self._file("test")))}
        else:
            self.parts = {
                part: [tree for number, tree in enumerate(dev) if number // BLOCK % 2 == parity]
                for parity, part in enumerate(("dev", "test"))
            }
        self._evaluating = 0.0

    @property
    def name(self) -> str:
        """Name of the directory, with the number of trees if it is limited."""
        return self.directory.name if self.trees is None else f"{self.directory.name}-{self.trees}"

    def _file(self, part: str) -> Path:
        plain = self.directory / f"{part}.mrg"
        packed = plain.with_name(f"{part}.mrg.gz")
        return packed if packed.exists() and not plain.exists() else plain

    def read(self, transform: TreeTransform) -> Corpus:
        """Read the training part."""
        found = read_trees(self._file("train"))
        if self.trees is not None:
            every = list(found)
            if self.trees > len(every):
                raise SystemExit(f"{self._file('train')}: {len(every)} trees, and --trees asks for {self.trees}")
            found = (every[number * len(every) // self.trees] for number in range(self.trees))
        return Corpus.from_trees(found, transform=transform)

    def train(
        self, method: str, *, by_dev: bool = True, members: int = 1, log: Any = None, **settings: Any
    ) -> tuple[list[TensorGrammar], float]:
        """Return grammars from as many seeds, and the seconds that took, with those of reading but not of evaluating.

        A method that likes other trees than most gets them. `by_dev`: whether dev chooses the best grammar.
        """
        learner = make_learner(method, **settings, threads=self.threads)
        self._evaluating = 0.0
        began = self.clock()
        same = learner.preparation == Learner.preparation
        corpus = self.corpus if same else self.read(learner.preparation)
        seconds = self.reading if same else 0.0
        dev = self._evaluate if by_dev else None
        first = settings.get("random_state", 0)
        learners = [learner] if members == 1 else [learner.replace(random_state=first + n) for n in range(members)]
        grammars = [each.fit(corpus, dev=dev, log=log) for each in learners]
        return grammars, seconds + self.clock() - began - self._evaluating

    def score(self, grammars: list[TensorGrammar], part: str, threads: int) -> dict[str, float]:
        """Parse a part and score it; the speed is that of both."""
        parser = Parser(grammars, threads=threads)
        parser.parse_one(["warm", "up"])
        began = self.clock()
        result = evaluate_parser(parser, self.parts[part])
        return {
            "f1": result.f1,
            "exact": result.exact,
            "tags": result.tag_accuracy,
            "failed": result.failed,
            "speed": result.sentences / (self.clock() - began),
        }

    def _evaluate(self, grammar: TensorGrammar) -> dict[str, float]:
        """Score on dev during training; the time it takes is not training time."""
        began = self.clock()
        figures = self.score([grammar], "dev", self.threads)
        self._evaluating += self.clock() - began
        return figures
