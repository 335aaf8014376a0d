"""Ablation of the CRF's feature groups, and the share of unknown words in the gain of CRF and span scorer.

    python benchmarks/crf_groups.py DIRECTORY [--seeds 0 1 2] [--models DIRECTORY] [--results FILE.jsonl]
        [--part dev] [--cycles 5] [--epochs 12]

The directory has train.mrg and dev.mrg. Grammars are those of split-merge, the best cycle by dev, as `sapwood train
--dev` selects them. Each fold is parsed once, and the weights of a CRF without one of the groups are learned from the
same forests. Differences are to the CRF with all groups: with the 95 % interval of the paired bootstrap over sentences
for each seed, and the mean over seeds with its standard deviation.

A phrase of the gold trees *has unknown words* if it begins or ends with, or is next to, a word that does not occur in
the training trees. The gain of the CRF, of the span scorer and of both over the grammar is the number of phrases that
they find and it does not, less those that it finds and they do not. The share of these that have unknown words is
compared with the share of all phrases, and of those that the grammar misses. Only scored phrases and words count;
sentences in which a parser has other ones, because of its tags, are left out.

`--models` keeps what is trained, and `--results` what is measured: a second run continues from there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _requirements import require
from sapwood import Parser
from sapwood.evaluate import EvaluationResult, Scorer
from sapwood.evaluate.brackets import counted_brackets
from sapwood.evaluate.comparison import compare
from sapwood.learn import SplitMerge
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel
from sapwood.model.forest_crf import GROUPS, ForestCRF
from sapwood.trees import Corpus, Tree
from sapwood.trees.formats.registry import read_trees

ALL, GRAMMAR, SPAN_SCORER, BOTH = "all groups", "grammar", "span scorer", "CRF and span scorer"
# Classes of words come from plain text, of which there is none here.
USUAL = tuple(group for group in GROUPS if group != "classes")


def grammars_of(
    corpus: Corpus, dev: Sequence[Tree], seed: int, layer: ForestCRFTrainer, options: argparse.Namespace
) -> ParserModel:
    """Return the grammar of all trees and those of all folds but one, with a span scorer."""
    path = options.models and options.models / f"{options.directory.name}.folds.{seed}.sapwood"
    if path and path.exists():
        return ParserModel.load(path)
    learner = SplitMerge(cycles=options.cycles, random_state=seed, threads=1)
    fold_of = layer.fold_of(corpus.n_trees)
    found = [learner.fit(corpus, dev=dev)]
    network = SpanScorerTrainer(epochs=options.epochs)
    scorer = network.fit(corpus, random_state=seed)
    found += [learner.fit(corpus.part(np.flatnonzero(fold_of != fold))) for fold in range(layer.folds)]
    model = ParserModel.from_grammars(found).replace(span_scorer=scorer, crf=ForestCRF.identity())
    if path:
        model.save(path)
    return model


def parses(model: ParserModel, trees: Sequence[Tree]) -> tuple[list[Tree | None], EvaluationResult]:
    """Return the trees that a parser finds, and their scores."""
    scorer = Scorer()
    found = [result.tree for result in Parser(model).parse(tree.words() for tree in trees)]
    for tree, parsed in zip(trees, found, strict=True):
        scorer.add(tree, parsed)
    return found, scorer.result()


def unseen_words(
    gold: Sequence[Tree], parsed: Mapping[str, Sequence[Tree | None]], known: frozenset[str]
) -> dict[str, dict[str, int]]:
    """Return for each parser how many gold phrases it finds, and how many of these are about unseen words.

    Under `"gold"` are the numbers of all phrases.
    """
    counts = {name: Counter[str]() for name in ("gold", *parsed)}
    for number, tree in enumerate(gold):
        words, brackets = counted_brackets(tree)
        unseen = [False, *(word not in known for word in words), False]
        trees = {name: trees[number] for name, trees in parsed.items()}
        found = {name: counted_brackets(one) for name, one in trees.items() if one is not None}
        if any(seen != words for seen, _ in found.values()):
            continue
        own = {name: Counter(one) for name, (_, one) in found.items()}
        for bracket, count in Counter(brackets).items():
            start, end = bracket[:2]
            about = any(unseen[place] for place in (start, start + 1, end, end + 1))
            for name, tally in counts.items():
                right = count if name == "gold" else min(count, own.get(name, Counter())[bracket])
                tally["all"] += right
                tally["unseen"] += right * about
    return {name: {"all": tally["all"], "unseen": tally["unseen"]} for name, tally in counts.items()}


def measure(options: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """Return a row for each contender of one seed."""
    train = list(read_trees(options.directory / "train.mrg"))
    learner, layers = SplitMerge(), ForestCRFTrainer()
    corpus = learner.prepare(train)
    held_out = list(read_trees(options.directory / "dev.mrg"))
    made_of = grammars_of(corpus, held_out, seed, layers, options)
    grammar, *folds = made_of.grammars
    whole = made_of.replace(grammars=(grammar,))
    trees = [tree for tree in map(grammar.normaliser, read_trees(options.directory / f"{options.part}.mrg")) if tree]
    forests = layers.forests(corpus, [[fold] for fold in folds])
    weight = SpanScorerTrainer().weight
    alone = whole.replace(span_scorer=None, crf=None)
    made = {group: replace(layers, feature_groups=tuple(one for one in USUAL if one != group)) for group in USUAL}
    found = {ALL: layers.fit_forests(forests, random_state=seed)}
    found |= {f"without {group}": less.fit_forests(forests, random_state=seed) for group, less in made.items()}
    contenders = {GRAMMAR: alone, **{name: alone.replace(crf=layer) for name, layer in found.items()}}
    contenders[SPAN_SCORER] = whole.replace(crf=ForestCRF.identity().with_scorer_weight(weight))
    contenders[BOTH] = whole.replace(crf=found[ALL].with_scorer_weight(weight))
    parsed, scores = {}, {}
    for name, model in contenders.items():
        parsed[name], scores[name] = parses(model, trees)
    known = frozenset(corpus.words)
    about = unseen_words(trees, {name: parsed[name] for name in (GRAMMAR, ALL, SPAN_SCORER, BOTH)}, known)
    rows = []
    for name, result in scores.items():
        difference = compare(scores[ALL], result).figures["f1"]
        rows.append(
            {
                "treebank": options.directory.name, "part": options.part, "seed": seed, "contender": name,
                "f1": result.f1, "exact": result.exact, "tags": result.tag_accuracy,
                "difference": difference.difference, "interval": list(difference.interval), "p": difference.p,
                "weights": len(found[name].places) if name in found else None,
                "phrases": about["gold"], "found": about.get(name),
            }
        )  # fmt: skip
    return rows


def _spread(values: Sequence[float], sign: str = "") -> str:
    mean = f"{statistics.fmean(values):{sign}.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return both tables in Markdown."""
    names = list(dict.fromkeys(row["contender"] for row in rows))
    cells = {
        name: sorted((row for row in rows if row["contender"] == name), key=lambda row: row["seed"]) for name in names
    }
    lines = ["| | weights | F1 | exact | to all groups | 95 % by seed | p |", "|---" * 7 + "|"]
    for name, cell in cells.items():
        weights = "" if cell[0]["weights"] is None else f"{statistics.fmean(row['weights'] for row in cell):,.0f}"
        shown = [weights, _spread([row["f1"] for row in cell]), _spread([row["exact"] for row in cell])]
        if name == ALL:
            shown += [""] * 3
        else:
            shown.append(_spread([row["difference"] for row in cell], "+"))
            shown.append(", ".join("{:+.2f} to {:+.2f}".format(*row["interval"]) for row in cell))
            shown.append(", ".join(f"{row['p']:.2f}" for row in cell))
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    lines += ["", "| | phrases | about unseen words | share |", "|---" * 4 + "|"]

    def line(name: str, every: float, unseen: float) -> str:
        share = f"{100 * unseen / every:.1f} %" if every else ""
        return f"| {name} | {every:,.1f} | {unseen:,.1f} | {share} |"

    def mean(name: str, figure: str) -> float:
        return statistics.fmean(row["found"][figure] for row in cells[name])

    gold = cells[GRAMMAR][0]["phrases"]
    lines.append(line("of the gold trees", gold["all"], gold["unseen"]))
    base = mean(GRAMMAR, "all"), mean(GRAMMAR, "unseen")
    lines.append(line("missed by the grammar", gold["all"] - base[0], gold["unseen"] - base[1]))
    for name, title in ((ALL, "CRF"), (SPAN_SCORER, SPAN_SCORER), (BOTH, BOTH)):
        lines.append(line(f"gained by {title}", mean(name, "all") - base[0], mean(name, "unseen") - base[1]))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--part", default="dev", help="what is parsed")
    parser.add_argument("--cycles", type=int, default=5, help="of split-merge")
    parser.add_argument("--epochs", type=int, default=SpanScorerTrainer().epochs, help="of the span scorer")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    require(treebanks=[options.directory], parts=("train", "dev"))
    rows: list[dict[str, Any]] = []
    if options.results and options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text("utf-8").splitlines()]
    key = {"treebank": options.directory.name, "part": options.part}
    for seed in options.seeds:
        if any({**key, "seed": seed}.items() <= row.items() for row in rows):
            continue
        new = measure(options, seed)
        rows += new
        if options.results:
            with options.results.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
    print(table([row for row in rows if key.items() <= row.items() and row["seed"] in options.seeds]))


if __name__ == "__main__":
    sys.exit(main())
