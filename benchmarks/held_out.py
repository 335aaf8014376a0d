"""From how many held-out trees a layer should learn: dev F1 of layers from one fold, two, and so on up to all.

    python benchmarks/held_out.py DIRECTORY [--seed 0] [--cycles 5] [--epochs 12]

The directory has train.mrg and dev.mrg. The grammar is that of split-merge, with nothing to choose by; forests of each
fold are by the grammar of the others, as always, so that layers differ by the number of trees alone. Each is measured
without a network and with one of so many `--epochs`. Seconds are those of the processor, for what is learned on top.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _requirements import require
from sapwood import Parser, evaluate_parser
from sapwood.learn import SplitMerge
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF
from sapwood.trees.formats.registry import read_trees


def main() -> None:
    """Learn and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=SpanScorerTrainer.epochs)
    options = parser.parse_args()
    require(treebanks=[options.directory], parts=("train", "dev"))
    learner, layers = SplitMerge(cycles=options.cycles, random_state=options.seed), ForestCRFTrainer()
    corpus = learner.prepare(read_trees(options.directory / "train.mrg"))
    dev = list(read_trees(options.directory / "dev.mrg"))
    model, fold_of = ParserModel.from_grammars(learner.fit(corpus)), layers.fold_of(corpus.n_trees)
    folds = ([learner.fit(corpus.part(np.flatnonzero(fold_of != fold)))] for fold in range(layers.folds))
    made = layers.forests(corpus, folds)
    network = SpanScorerTrainer(epochs=options.epochs).fit(corpus, random_state=options.seed)
    print("| trees | CPU seconds | F1 | exact | F1 with a network | exact |\n|---|---|---|---|---|---|")
    for part in range(layers.folds + 1):
        count, began, layer = len(made.forests) * part // layers.folds, time.process_time(), ForestCRF.identity()
        if count:
            some = replace(made, forests=made.forests[:count])
            layer = layers.fit_forests(some, random_state=options.seed)
        seconds = time.process_time() - began
        both = model.replace(span_scorer=network, crf=layer.with_scorer_weight(SpanScorerTrainer.weight))
        scores = [evaluate_parser(Parser(one), dev) for one in (model.replace(crf=layer), both)]
        figures = " | ".join(f"{score.f1:.2f} | {score.exact:.1f}" for score in scores)
        print(f"| {count:,} | {seconds:.0f} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
