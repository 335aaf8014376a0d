"""Train the included English model on the openly licensed part of GUM.

    python tools/english.py gum-open -o src/sapwood/model/english.sapwood

The folder has train.mrg, dev.mrg and test.mrg. The model is learned from the first two and scored on the third. It is
what `sapwood train` does with so many trees, a little smaller: four cycles of split-merge, a layer with 2^17 places for
weights, a network with vectors of 72 numbers that counts half as much. (Learned without dev it has F1 83.5 there, and
83.1 with the usual weight.) The same trees give the same bytes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sapwood import Bars, Parser, SplitMerge, evaluate_parser, read_trees, train
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer


def main(arguments: list[str] | None = None) -> None:
    """Train and evaluate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("treebank", type=Path, help="folder with train.mrg, dev.mrg and test.mrg")
    parser.add_argument("-o", "--output", type=Path, default=Path("english.sapwood"))
    options = parser.parse_args(arguments)
    trees = [tree for part in ("train", "dev") for tree in read_trees(options.treebank / f"{part}.mrg")]
    trained = train(
        trees,
        method=SplitMerge(cycles=4),
        crf=ForestCRFTrainer(bits=17),
        span_scorer=SpanScorerTrainer(embedding=72, weight=0.1),
        output=options.output,
        progress=Bars(),
    )
    scores = evaluate_parser(Parser(trained.grammars), read_trees(options.treebank / "test.mrg"), progress=Bars())
    figures = {"f1": scores.f1, "exact": scores.exact, "tags": scores.tag_accuracy}
    print(json.dumps({"bytes": options.output.stat().st_size, **figures}))


if __name__ == "__main__":
    main()
