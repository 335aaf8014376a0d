"""Probabilities of sentences under the default model of a small treebank, some of whose grammars are real-valued.

    python benchmarks/probabilities.py DIRECTORY [--trees 500] [--seeds 0 1 2] [--part test] [--records]

The directory has train.mrg and test.mrg. `sapwood.train` makes its default model of the first trees; below 2,000 trees
this is an ensemble with a spectral grammar, whose weights can be negative. All sentences of the other part are parsed,
with 10-best lists. Printed are the number of sentences to which a real-valued grammar gives a negative weight, and the
number of those without a `log_probability` and of those without alternatives, which should be 0.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
import sapwood
from _measuring import read_gold
from _requirements import require
from sapwood.inference.ensemble import ProductChart
from sapwood.model import ParserModel

_COUNT = 10


def measure(model: ParserModel, sentences: list[list[str]]) -> dict[str, float]:
    """Parse all sentences and return the figures."""
    figures = dict.fromkeys(("negative", "null", "empty", "unproved"), 0)
    parser = sapwood.Parser(model, threads=1, alternatives=_COUNT)
    grammars = sapwood.Parser(model, threads=1, crf=False)
    for words in sentences:
        result, chart = parser.parse_one(words, check_tokens=False), grammars.chart(words)
        members = chart.members if isinstance(chart, ProductChart) else [] if chart is None else [chart]
        figures["negative"] += any(math.isnan(member.log_probability) for member in members)
        figures["null"] += result.log_probability is None
        figures["empty"] += not result.alternatives
        figures["unproved"] += bool(result.alternatives) and not result.alternatives.exact
    return {"sentences": len(sentences), **figures}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trees", type=int, default=500, help="number of trees to train on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--part", default="test", help="what is parsed")
    parser.add_argument("--records", action="store_true", help="write the figures as records")
    options = parser.parse_args()
    require(treebanks=[options.directory], parts=("train", options.part))
    name, paths = options.directory.name, [options.directory / f"{part}.mrg" for part in ("train", options.part)]
    trees = read_gold(paths[0], options.trees)
    sentences = [tree.words() for tree in read_gold(paths[1])]
    print("| seed | sentences | negative weight | no probability | no alternatives | not proved |\n" + "|---" * 6 + "|")
    for seed in options.seeds:
        figures = measure(sapwood.train(trees, seed=seed), sentences)
        print(f"| {seed} | " + " | ".join(f"{value:g}" for value in figures.values()) + " |", flush=True)
        if options.records:
            command = f"python benchmarks/probabilities.py DATA/{name} --trees {options.trees} --seeds {seed}"
            record = _records.measured(
                f"{name}-{options.trees}/probabilities", figures, seed=seed, data=_records.digest_files(paths),
                command=f"{command} --part {options.part} --records",
                describes={"kind": "train", "n_trees": options.trees},
            )  # fmt: skip
            _records.add(record)


if __name__ == "__main__":
    sys.exit(main())
