"""Few trees and much text: the default recipe, self-training, and silver trees whose phrases were induced.

Shi, Livescu and Gimpel (2020) found that 50 trees beat grammar induction.

    python benchmarks/few_trees.py DIRECTORY --induced FILE [FILE ...] [--trees 10 50 200] [--sentences 1000]
        [--rows default self-training induced] [--seeds 0] [--records]

The directory has train.mrg, dev.mrg and test.mrg. Of train.mrg, N evenly spaced trees are gold, and evenly spaced other
sentences are the text. Rows:

- `default`: the default recipe on N trees;
- `self-training`: the same with the text (`--text-use self-training`), whose trees a first model predicts;
- `induced`: the same, but the phrases of the text's trees are those on which the induced models of --induced agree
  (`benchmarks/committee.py` keeps its members in a folder), as far as the first model has a tree with them, and it
  labels them. The trees are silver trees (`--silver`) of the default recipe.

Phrases are required if their mean vote of the induced models is at least 0.9. F1 is that of `sapwood eval`, with and
without labels, and the unlabelled F1 of sentences as for induced models. With --records each run is written to
benchmarks/results.jsonl, as `wsj-sample-50/few-trees-default`.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import _records
import sapwood
from _measuring import read_gold
from _requirements import PARTS, require
from sapwood.errors import NoParse
from sapwood.evaluate.unlabelled import UnlabelledScorer
from sapwood.induction.evaluation import model_parser
from sapwood.induction.tree_averaging import span_number
from sapwood.loading import load
from sapwood.trees.punctuation import is_punctuation
from sapwood.trees.tree import Tree

ROWS = ("default", "self-training", "induced")
# Mean vote from which on a phrase is required.
REQUIRED = 0.9


def agreed_phrases(parsers: list[Any], words: list[str]) -> list[Any]:
    """Return the phrases on which the induced models agree, without the whole sentence."""
    kept = [place for place, word in enumerate(words) if not is_punctuation(word)]
    tokens = [(words[place], None) for place in kept]
    votes = np.mean([parser.span_posteriors(tokens) for parser in parsers], axis=0)
    n = len(kept)
    spans = [(begin, end) for begin in range(n) for end in range(begin + 2, n + 1) if (begin, end) != (0, n)]
    found = [span for span in spans if votes[span_number(*span, n)] >= REQUIRED]
    # Above a half, phrases cannot cross.
    return [(kept[begin], kept[end - 1] + 1, None) for begin, end in found]


def silver_trees(first: sapwood.Parser, induced: list[Any], sentences: list[list[str]]) -> tuple[list[Tree], int]:
    """Return trees predicted under the agreed phrases, or without them if there is none, and the number with them."""
    found, obeyed = [], 0
    for words in sentences:
        phrases = agreed_phrases(induced, words)
        try:
            result = first.parse_one(words, phrases=phrases)
            obeyed += bool(phrases)
        except NoParse:
            result = first.parse_one(words)
        if result.tree is not None and not result.failed:
            found.append(result.tree)
    return found, obeyed


def train(row: str, gold: list[Tree], sentences: list[list[str]], induced: list[Any], seed: int) -> tuple[Any, dict]:
    """Return the model of a row, and further figures."""
    if row == "self-training":
        return sapwood.train(gold, self_train_on=sentences, seed=seed), {}
    model = sapwood.train(gold, seed=seed)
    if row == "default":
        return model, {}
    silver, obeyed = silver_trees(sapwood.Parser(model), induced, sentences)
    return sapwood.train(gold, silver=silver, seed=seed), {"silver": len(silver), "obeyed": obeyed}


def measure(model: Any, directory: Path) -> dict[str, float]:
    """Return the scores of a model on dev and test."""
    parser, figures = sapwood.Parser(model), dict[str, float]()
    for part in ("dev", "test"):
        scorer, plain = sapwood.Scorer(), UnlabelledScorer()
        gold = read_gold(directory / f"{part}.mrg")
        for tree, result in zip(gold, parser.parse([tree.words() for tree in gold]), strict=True):
            scorer.add(tree, result.tree)
            plain.add_trees(tree, result.tree)
        score = scorer.result()
        figures |= {f"{part}_f1": score.f1, f"{part}_unlabelled_f1": score.unlabelled_f1}
        figures |= {f"{part}_tags": score.tag_accuracy, f"{part}_sentence_f1": plain.result().sentence_f1}
    return figures


def main() -> None:
    """Run what has not been run yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--induced", nargs="+", type=Path, default=[])
    parser.add_argument("--trees", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--records", action="store_true")
    parser.add_argument("--store", type=Path, default=_records.STORE)
    options = parser.parse_args()
    directory = options.directory
    require(treebanks=[directory], files=options.induced)
    data = _records.digest_files(directory / f"{part}.mrg" for part in PARTS)
    trees = read_gold(directory / "train.mrg")
    given: list[Any] = [load(path) for path in options.induced]
    induced = [model_parser(model) for model in given]
    for count in options.trees:
        chosen = set(np.linspace(0, len(trees) - 1, count).astype(int).tolist())
        gold = [trees[number] for number in sorted(chosen)]
        rest = [tree.words() for number, tree in enumerate(trees) if number not in chosen and 3 <= len(tree) <= 40]
        sentences = rest[:: -(-len(rest) // options.sentences)]
        for row in options.rows:
            if row == "induced" and not induced:
                continue
            for seed in options.seeds:
                name = f"{directory.name}-{count}/few-trees-{row}"
                if options.records and _records.is_current(_records.read(options.store), name, seed, data):
                    continue
                began = time.process_time()
                model, more = train(row, gold, sentences, induced, seed)
                figures = {"train_cpu_s": time.process_time() - began, **more, **measure(model, directory)}
                print(name, seed, {key: round(value, 1) for key, value in figures.items()}, flush=True)
                if options.records:
                    command = (
                        f"python benchmarks/few_trees.py DATA/{directory.name} --trees {count} --sentences "
                        f"{options.sentences} --rows {row} --seeds {seed} --records"
                    )
                    command += " --induced FILE ..." if row == "induced" else ""
                    describes = {"kind": "train", "n_trees": count} if row == "default" else None
                    record = _records.measured(
                        name, figures, seed=seed, command=command, data=data, describes=describes
                    )
                    _records.add(record, options.store)


if __name__ == "__main__":
    main()
