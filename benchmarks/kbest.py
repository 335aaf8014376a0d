"""k-best lists: against enumeration on random grammars, and how many are proved exact on a treebank.

    python benchmarks/kbest.py [--grammars 500] [--count 1 5 10] [--seed 0] [--records]
    python benchmarks/kbest.py DIRECTORY [--trees 500] [--sentences 300] [--seed 0] [--records]

Without a directory: random grammars, in turn PCFGs and grammars with hidden states, each alone and with a random CRF.
For each, a sentence with 100 to 3,000 trees is drawn, and all its trees are listed by code that shares nothing with the
search (`benchmarks/_tree_list.py`). A list is wrong if it has fewer trees than requested, the same tree twice, another
probability than the listing, or if a tree that is not in it is more probable.

With a directory, which has dev.mrg: 10-best lists of its first sentences by the included English model, or, with
`--trees`, by the default model trained on the first trees of train.mrg; with the CRF, and by the grammars alone. It
prints the share of the lists that are proved exact, and processor milliseconds per sentence.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import _records
import sapwood
from _measuring import read_gold
from _requirements import require
from _tree_list import GROUPS, ListedCRF, count_trees, list_trees
from sapwood import Parser, TensorGrammar
from sapwood.model import ParserModel
from sapwood.model.forest_crf import DENSE, GRAMMAR_ONLY, FeatureVocabulary, ForestCRF
from sapwood.testing.grammars import random_grammar

FEWEST, MOST, LONGEST = 100, 3_000, 9
STATES = {"PCFG": (1, 1), "latent": (2, 3)}
_BITS = 12
# The CRF takes logarithms in single precision.
_TOLERANCE = 1e-4
_COUNT = 10


def random_crf(rng: np.random.Generator, words: list[str]) -> ForestCRF:
    """Return a CRF with a random weight for every feature."""
    return ForestCRF(
        bits=_BITS,
        places=np.arange(1 << _BITS, dtype=np.uint32),
        values=rng.normal(scale=0.4, size=1 << _BITS).astype(np.float32),
        dense=np.array(GRAMMAR_ONLY) + rng.normal(scale=0.2, size=DENSE),
        frequent=FeatureVocabulary.count([words], least=1),
        threshold=0.0,
        groups=GROUPS,
    )


def draw_problem(rng: np.random.Generator, states: tuple[int, int]) -> tuple[TensorGrammar, list[str]]:
    """Return a random grammar and a sentence with a number of trees within the limits."""
    while True:
        grammar = random_grammar(rng, interminals=3, preterminals=3, states=states, density=0.5)
        words = [str(word) for word in rng.choice(grammar.lexicon.words, size=LONGEST)]
        for length in range(3, LONGEST + 1):
            if FEWEST <= count_trees(grammar, words[:length]) <= MOST:
                return grammar, words[:length]


def wrong_with(found: list[tuple[str, float]], expected: dict[str, float], count: int) -> str | None:
    """Return what is wrong with a list of trees and logarithms of their probabilities; None if nothing is."""
    best = sorted(expected.values(), reverse=True)[:count]
    if len(found) != len(best):
        return f"{len(found)} trees instead of {len(best)}"
    if len({tree for tree, _ in found}) < len(found):
        return "a tree twice"
    for (tree, value), wanted in zip(found, best, strict=True):
        if tree not in expected or abs(value - expected[tree]) > _TOLERANCE:
            return f"{tree} has log probability {expected.get(tree)}, not {value}"
        if abs(value - wanted) > _TOLERANCE:
            return f"log probability {value} in place of {wanted}"
    return None


def enumeration(grammars: int, counts: list[int], seed: int) -> dict[str, float]:
    """Compare lists of random grammars with enumeration; return the figures."""
    total: dict[str, Any] = {"grammars": grammars, "lists": 0, "wrong": 0, "unproved": 0, "fewest_trees": math.inf}
    sizes = []
    for number in range(grammars):
        rng = np.random.default_rng([seed, number])
        kind = list(STATES)[number % len(STATES)]
        grammar, words = draw_problem(rng, STATES[kind])
        trees = list_trees(grammar, words)
        names = {tree: tree.text(grammar, words) for tree in trees}
        crf = random_crf(rng, words)
        listed = ListedCRF(crf, grammar, words, trees)
        scores = {tree: listed.score(tree) for tree in trees}
        share = math.log(sum(trees.values())) - float(np.logaddexp.reduce(list(scores.values())))
        expected = {
            kind: {names[tree]: math.log(weight) for tree, weight in trees.items()},
            f"{kind} with CRF": {names[tree]: score + share for tree, score in scores.items()},
        }
        sizes.append(len(trees))
        model = ParserModel.from_grammars(grammar)
        for (what, logs), one in zip(expected.items(), (model, model.replace(crf=crf)), strict=True):
            parser = Parser(one, threshold=0)
            for count in counts:
                best = parser.k_best(words, count)
                found = [(str(tree.children[0]), value) for tree, value in best]
                problem = wrong_with(found, logs, count)
                total["lists"] += 1
                total["unproved"] += not best.exact
                if problem:
                    total["wrong"] += 1
                    print(f"grammar {number}, {what}, {count} best: {problem}", file=sys.stderr)
    return total | {"fewest_trees": min(sizes), "median_trees": float(np.median(sizes))}


def proofs(model: ParserModel | Path | str, sentences: list[list[str]]) -> dict[str, float]:
    """Return the part of 10-best lists that are exact, with the CRF and without, and what they take."""
    figures: dict[str, float] = {"sentences": len(sentences), "longest": max(map(len, sentences))}
    for name, crf in (("crf", True), ("grammars", False)):
        parser = Parser(model, threads=1, crf=crf)
        for words in sentences[:3]:
            parser.k_best(words, _COUNT)
        began = time.process_time()
        for words in sentences:
            parser.chart(words, brief=True)
        chart = time.process_time() - began
        began = time.process_time()
        lists = [parser.k_best(words, _COUNT) for words in sentences]
        seconds = time.process_time() - began
        figures[f"{name}_exact"] = 100 * sum(one.exact and len(one) > 0 for one in lists) / len(lists)
        figures[f"{name}_chart_ms"] = 1000 * chart / len(lists)
        figures[f"{name}_lists_ms"] = 1000 * (seconds - chart) / len(lists)
    return figures


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--grammars", type=int, default=500)
    parser.add_argument("--count", type=int, nargs="+", default=[1, 5, 10], help="numbers of trees of a list")
    parser.add_argument("--trees", type=int, help="train the default on this many trees (default: the included model)")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", action="store_true", help="write the figures as a record")
    options = parser.parse_args()
    directory, seed = options.directory, options.seed
    if directory is None:
        figures = enumeration(options.grammars, options.count, seed)
        print("| " + " | ".join(figures) + " |\n" + "|---" * len(figures) + "|")
        print("| " + " | ".join(f"{value:g}" for value in figures.values()) + " |")
        name, command = "random-grammars/k-best", f"python benchmarks/kbest.py --seed {seed}"
        paths, describes = [], None
    else:
        parts = ("dev",) if options.trees is None else ("train", "dev")
        require(treebanks=[directory], parts=parts)
        paths = [directory / f"{part}.mrg" for part in parts]
        model: ParserModel | str = "en"
        name, describes = f"{directory.name}/k-best-included", None
        command = f"python benchmarks/kbest.py DATA/{directory.name} --seed {seed}"
        if options.trees is not None:
            model = sapwood.train(read_gold(paths[0], options.trees), seed=seed)
            name, describes = f"{directory.name}-{options.trees}/k-best", {"kind": "train", "n_trees": options.trees}
            command += f" --trees {options.trees}"
        gold = read_gold(directory / "dev.mrg", options.sentences)
        figures = proofs(model, [tree.words() for tree in gold])
        print("| 10-best lists | exact | ms for the chart | ms more |\n|---|---|---|---|")
        for kind, title in (("crf", "with the CRF"), ("grammars", "of the grammars")):
            exact, chart, lists = (figures[f"{kind}_{figure}"] for figure in ("exact", "chart_ms", "lists_ms"))
            print(f"| {title} | {exact:.1f} % | {chart:.1f} | {lists:.1f} |")
    if options.records:
        data = _records.digest_files(paths)
        command += " --records"
        _records.add(_records.measured(name, figures, seed=seed, command=command, data=data, describes=describes))


if __name__ == "__main__":
    sys.exit(main())
