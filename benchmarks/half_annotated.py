"""What plain text and partial brackets add to a small treebank.

    python benchmarks/half_annotated.py DIRECTORY [--trees N ...] [--draws N] [--rows ...] [--results FILE]

The directory has train.mrg, dev.mrg and test.mrg. So many training trees are drawn at random (draw 0, 1, ..), the rest
is given without its trees. Every row: F1 on dev and test, test tags, processor seconds of training on one thread. Dev
trees are scored on, never chosen by. Done rows are kept in the file of results and not made again; means over draws are
printed last.

    split-merge, pivot+em    the trees alone (pivot+em with 8 states)
    best                     split-merge, and the best trees of the text: self-training (--text-use em-best)
    text                     split-merge, and all trees of the text, as `sapwood train --text` does by default
    trust                    the same with the teacher's probabilities as factors (--teacher-weight 1)
    phrases                  split-merge, and of the rest all noun phrases without their labels (--partial)
    pivot+em+text            pivot+em, and the best trees of the text, which is its default
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _requirements import require
from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.inference import Parser
from sapwood.learn.base import Learner
from sapwood.learn.registry import make_learner
from sapwood.learn.semi_supervised.learner import PartialTrees, SemiSupervised, UnlabelledText
from sapwood.trees import Normaliser, Tree
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.partial import UNKNOWN, PartialTree

# Makes a learner of the trees whose words, or some of whose brackets, it may have.
Maker = Callable[[list[Tree]], Learner]


def alone(method: str, **settings: Any) -> Maker:
    """Return a maker of learners that leave the rest alone."""
    return lambda _: make_learner(method, **settings)


def with_text(method: str, teaching: dict[str, Any], **settings: Any) -> Maker:
    """Return a maker of learners that read the rest as plain text."""

    def make(rest: list[Tree]) -> Learner:
        return SemiSupervised.of(
            make_learner(method, **settings), text=UnlabelledText([tree.words() for tree in rest]), **teaching
        )

    return make


def with_phrases(rest: list[Tree]) -> Learner:
    """Return a learner that is told where the noun phrases of the rest are."""
    return SemiSupervised.of(
        make_learner("split-merge"), partial=PartialTrees([phrases_of(tree, "NP") for tree in rest])
    )


def phrases_of(tree: Tree, label: str) -> PartialTree:
    """Return a tree of which only the phrases with a label are known, and not their label."""

    def below(node: Tree) -> list[Tree]:
        if node.word is not None:
            return [Tree(UNKNOWN, word=node.word)]
        found = [part for child in node.children for part in below(child)]
        return [Tree(UNKNOWN, tuple(found))] if node.label == label and len(found) > 1 else found

    return PartialTree(Tree(UNKNOWN, tuple(below(tree))))


ROWS: dict[str, Maker] = {
    "split-merge": alone("split-merge"),
    "pivot+em": alone("pivot+em", states=8),
    "text": with_text("split-merge", {}),
    "best": with_text("split-merge", {"unlabelled_as": "best"}),
    "trust": with_text("split-merge", {"teacher_weight": 1.0}),
    "phrases": with_phrases,
    "pivot+em+text": with_text("pivot+em", {}, states=8),
}


def measure(maker: Maker, few: list[Tree], rest: list[Tree], parts: dict[str, list[Tree]]) -> dict[str, float]:
    """Train and score."""
    learner = maker(rest)
    student = learner.base if isinstance(learner, SemiSupervised) else learner
    began = time.process_time()
    parser = Parser(learner.fit(student.prepare(few)))
    found = {"seconds": time.process_time() - began}
    for name, trees in parts.items():
        result = evaluate_parser(parser, trees)
        found |= {name: result.f1, f"{name}_tags": result.tag_accuracy}
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trees", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--results", type=Path, help="a file with rows that are done (JSON, one a line)")
    options = parser.parse_args()
    require(treebanks=[options.directory])
    done: dict[tuple[int, int, str], dict[str, float]] = {}
    if options.results is not None and options.results.exists():
        for line in map(json.loads, options.results.read_text().splitlines()):
            done[line["trees"], line["draw"], line["row"]] = line
    # Clean trees have no traces, which are no words of a text.
    trees = [tree for tree in map(Normaliser(), read_trees(options.directory / "train.mrg")) if tree is not None]
    parts = {part: list(read_trees(options.directory / f"{part}.mrg")) for part in ("dev", "test")}
    print("| trees | draw | row | dev F1 | test F1 | test tags | train CPU-s |\n|---|---|---|---|---|---|---|")
    for count in options.trees:
        for draw in range(options.draws):
            order = np.random.default_rng(draw).permutation(len(trees))
            few, rest = ([trees[place] for place in some] for some in (order[:count], order[count:]))
            for row in options.rows:
                key = (count, draw, row)
                if key not in done:
                    done[key] = measure(ROWS[row], few, rest, parts)
                    if options.results is not None:
                        names = {"trees": count, "draw": draw, "row": row}
                        with options.results.open("a") as file:
                            file.write(json.dumps({**names, **done[key]}) + "\n")
                show(f"{count} | {draw} | {row}", done[key])
    for count in options.trees:
        for row in options.rows:
            same = [done[count, draw, row] for draw in range(options.draws)]
            show(f"{count} | mean | {row}", {name: float(np.mean([one[name] for one in same])) for name in _FIGURES})


_FIGURES = ("dev", "test", "test_tags", "seconds")


def show(title: str, row: dict[str, float]) -> None:
    """Print a line of the table."""
    print(f"| {title} | " + " | ".join(f"{row[name]:.1f}" for name in _FIGURES) + " |", flush=True)


if __name__ == "__main__":
    main()
