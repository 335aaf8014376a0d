"""A treebank's three parts as benchmarks use them: trained on, chosen by, scored on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sapwood.evaluate.held_out import evaluate_parser
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.learn.base import Learner
from sapwood.learn.methods import make_learner
from sapwood.trees import Corpus, TreeTransform
from sapwood.trees.formats import read_trees


class Treebank:
    """A directory with train.mrg, dev.mrg and test.mrg.

    Seconds are those of `clock`: wall clock, or with `time.process_time` the processor's.
    """

    def __init__(self, directory: Path, threads: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.directory, self.threads, self.clock = directory, threads, clock
        began = clock()
        self.corpus = self.read(Learner.preparation)
        self.reading = clock() - began
        self.parts = {part: list(read_trees(directory / f"{part}.mrg")) for part in ("dev", "test")}
        self._evaluating = 0.0

    def read(self, transform: TreeTransform) -> Corpus:
        """Read the training part."""
        return Corpus.from_trees(read_trees(self.directory / "train.mrg"), transform=transform)

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
