"""What a choice of sentences to annotate is worth beside one at random.

    python benchmarks/annotating.py DIRECTORY [--trees N] [--more N] [--draws N] [--diversity D ...] [--results FILE]

The directory has train.mrg, dev.mrg and test.mrg. From so many training trees drawn at random a parser is learned
(pivot+em with 8 states); then more trees are taken from the rest, and it is learned again:

    random       at random, the mean of 3 choices
    words        at random, until they have as many words as those chosen below (diversity 0.5): the same work
    chosen D     as `sapwood select` chooses them, with that diversity; 0 is entropy alone
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from _requirements import require
from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.inference import Parser
from sapwood.learn.active_learning import choose, score_candidates
from sapwood.learn.registry import make_learner
from sapwood.trees import Normaliser, Tree
from sapwood.trees.formats.registry import read_trees

CHOICES = 3


def learned(trees: list[Tree]) -> Parser:
    """Return the parser of some trees."""
    learner = make_learner("pivot+em", states=8)
    return Parser(learner.fit(learner.prepare(trees)))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--more", type=int, default=300)
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--diversity", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--results", type=Path, help="a file to add rows to (JSON, one a line)")
    options = parser.parse_args()
    require(treebanks=[options.directory])
    trees = [tree for tree in map(Normaliser(), read_trees(options.directory / "train.mrg")) if tree is not None]
    dev, test = (list(read_trees(options.directory / f"{part}.mrg")) for part in ("dev", "test"))
    print("| draw | choice | trees | words | dev F1 | test F1 |\n|---|---|---|---|---|---|")

    def report(draw: int, name: str, few: list[Tree], more: list[Tree]) -> None:
        model = learned([*few, *more])
        row = {"draw": draw, "choice": name, "trees": len(more), "words": sum(len(tree) for tree in more)}
        row |= {"dev": evaluate_parser(model, dev).f1, "test": evaluate_parser(model, test).f1}
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        cells = f"{row['trees']} | {row['words']} | {row['dev']:.2f} | {row['test']:.2f}"
        print(f"| {draw} | {name} | {cells} |", flush=True)

    for draw in options.draws:
        order = np.random.default_rng(draw).permutation(len(trees))
        few = [trees[place] for place in order[: options.trees]]
        rest = [trees[place] for place in order[options.trees :]]
        report(draw, "none", few, [])
        known = [tree.words() for tree in few]
        rated = score_candidates(learned(few), [tree.words() for tree in rest], known=known)
        words = 0
        for diversity in options.diversity:
            chosen = [rest[one.place - 1] for one in choose(rated, options.more, diversity=diversity)]
            if diversity == 0.5 or not words:
                words = sum(len(tree) for tree in chosen)
            report(draw, f"chosen {diversity:g}", few, chosen)
        for choice in range(CHOICES):
            shuffled = [rest[place] for place in np.random.default_rng([draw, choice]).permutation(len(rest))]
            report(draw, f"random {choice}", few, shuffled[: options.more])
            if choice == 0:
                sizes = np.cumsum([len(tree) for tree in shuffled])
                report(draw, "words", few, shuffled[: int(np.searchsorted(sizes, words)) + 1])


if __name__ == "__main__":
    main()
