"""A treebank's three parts as benchmarks use them: trained on, chosen by, scored on."""

from __future__ import annotations

import time
from pathlib import Path

from sapwood.evaluate import Scorer, get_parameters
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.trees import Corpus, Tree, TreeTransform
from sapwood.trees.formats import read_trees


class Treebank:
    """Three parts of a treebank, cleaned."""

    def __init__(self, directory: Path, threads: int) -> None:
        self.directory, self.threads = directory, threads
        began = time.perf_counter()
        self.corpus = self.read(TreeTransform(1, 0))
        self.reading = time.perf_counter() - began
        clean = self.corpus.normaliser
        self.parts: dict[str, list[Tree]] = {
            part: [tree for tree in map(clean, read_trees(directory / f"{part}.mrg")) if tree is not None]
            for part in ("dev", "test")
        }
        self.evaluating = 0.0

    def read(self, transform: TreeTransform) -> Corpus:
        """Read the training part."""
        return Corpus.from_trees(read_trees(self.directory / "train.mrg"), transform=transform)

    def score(self, grammars: list[TensorGrammar], part: str, threads: int) -> dict[str, float]:
        """Parse a part and score it."""
        parser = Parser(grammars, threads=threads)
        parser.parse_one(["warm", "up"])
        scorer = Scorer(get_parameters("default"))
        trees = self.parts[part]
        began = time.perf_counter()
        results = list(parser.parse([tree.words() for tree in trees]))
        seconds = time.perf_counter() - began
        for tree, result in zip(trees, results, strict=True):
            scorer.add(tree, result.tree)
        figures = scorer.result().to_dict()
        return {
            "f1": figures["f1"],
            "exact": figures["exact"],
            "tags": figures["tag_accuracy"],
            "failed": figures["failed"],
            "speed": len(trees) / seconds,
        }

    def evaluate(self, grammar: TensorGrammar) -> dict[str, float]:
        """Score on dev during training; the time it takes is not training time."""
        began = time.perf_counter()
        figures = self.score([grammar], "dev", self.threads)
        self.evaluating += time.perf_counter() - began
        return figures
