"""Accuracy, training time, memory and parsing speed of `sapwood train` on treebanks, written as records.

    python benchmarks/accuracy.py DIRECTORY [DIRECTORY ...] [--configurations default ...] [--seeds 0 1 2] [--again]

Each directory has train.mrg, dev.mrg and test.mrg. `sapwood train --dev` trains each configuration in a process of its
own, with one thread: processor seconds and peak memory, reading the trees and evaluation on dev included. The model
then parses dev and test on one thread: F1, exact matches and tags, and processor milliseconds per sentence of test,
the first time (every word is new) and when warm (the best of three). Models that are decoded by `f1` are decoded by
`max-rule`, too.

Each run is written to benchmarks/results.jsonl as soon as it has ended. Runs that are there already, with the same
defaults and data, are skipped; --again repeats them. `python benchmarks/figures.py render` updates the pages.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
import sapwood
from _measuring import parse_all, read_gold, run_measured
from _requirements import PARTS, require

# The included English model, which is not trained but only scored.
INCLUDED = "included"
# Arguments of `sapwood.train`, from which those of `sapwood train` are made.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "ensemble-4": {"ensemble": 4},
    "pcfg": {"method": "pcfg"},
    "em": {"method": "em", "stop": "f1"},
    "spectral": {"method": "spectral", "states": 24},
    "split-merge": {"method": "split-merge"},
    "split-merge-collapsed": {"method": "split-merge", "unaries": "collapsed"},
    "split-merge-4": {"method": "split-merge", "ensemble": 4},
    "pivot+em-24": {"method": "pivot+em", "states": 24},
    "pivot+em-32": {"method": "pivot+em", "states": 32},
    "crf": {"method": "split-merge", "crf": True},
    "span-scorer": {"method": "split-merge", "span_scorer": True},
    INCLUDED: {},
}


def options_of(arguments: dict[str, Any]) -> list[str]:
    """Return arguments as options of the command.

    >>> options_of({"method": "em", "crf": True})
    ['--method', 'em', '--crf']
    """
    return [
        word
        for name, value in arguments.items()
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]


def measure_training(directory: Path, arguments: dict[str, Any], seed: int, model: Path) -> dict[str, float]:
    """Train a model, and return what it took."""
    files = [str(directory / "train.mrg"), "--dev", str(directory / "dev.mrg"), "-o", str(model)]
    took = run_measured(["train", *files, *options_of(arguments), "--seed", str(seed), "--threads", "1", "--quiet"])
    size = model.stat().st_size / 1e6
    return {"train_cpu_s": took["cpu_seconds"], "peak_gb": took["megabytes"] / 1000, "file_mb": size}


def measure_parsing(directory: Path, model: Path | str) -> dict[str, float]:
    """Parse dev and test, and return the figures."""
    parser = sapwood.Parser(model, threads=1)
    parser.parse_one(["warm", "up"])
    gold = {part: read_gold(directory / f"{part}.mrg") for part in ("dev", "test")}
    sentences = [tree.words() for tree in gold["test"]]
    first, _, results = parse_all(parser, sentences)
    warm = min(parse_all(parser, sentences)[0] for _ in range(3))
    figures = {"parse_ms": 1000 * first / len(sentences), "parse_ms_warm": 1000 * warm / len(sentences)}
    parsed = {"test": results, "dev": parse_all(parser, [tree.words() for tree in gold["dev"]])[2]}
    suffixes = {"": parsed}
    if parser.decoder == "f1":
        other = sapwood.Parser(model, threads=1, decoder="max-rule")
        suffixes["_max_rule"] = {part: parse_all(other, [tree.words() for tree in gold[part]])[2] for part in gold}
    for suffix, found in suffixes.items():
        for part, trees in gold.items():
            scorer = sapwood.Scorer()
            for tree, result in zip(trees, found[part], strict=True):
                scorer.add(tree, result.tree)
            score = scorer.result()
            for name, value in (("f1", score.f1), ("exact", score.exact), ("tags", score.tag_accuracy)):
                figures[f"{part}_{name}{suffix}"] = value
    return figures


def main() -> None:
    """Run what has not been run yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--configurations", nargs="+", choices=CONFIGURATIONS, default=["default"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--again", action="store_true", help="repeat runs that have records")
    parser.add_argument("--store", type=Path, default=_records.STORE, help="file of the records")
    options = parser.parse_args()
    require(treebanks=options.directory)
    print(
        "| record | seed | training, CPU-s | GB | dev F1 | test F1 | ms per sentence |\n|---|---|---|---|---|---|---|"
    )
    for directory in options.directory:
        paths = [directory / f"{part}.mrg" for part in PARTS]
        data, n_trees = _records.digest_files(paths), len(read_gold(paths[0]))
        for configuration in options.configurations:
            arguments, name = CONFIGURATIONS[configuration], f"{directory.name}/{configuration}"
            for seed in options.seeds if configuration not in ("pcfg", INCLUDED) else [0]:
                if not options.again and _records.is_current(_records.read(options.store), name, seed, data):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    model, figures = Path(folder) / "model.sapwood", {}
                    if configuration != INCLUDED:
                        figures = measure_training(directory, arguments, seed, model)
                    figures |= measure_parsing(directory, "en" if configuration == INCLUDED else model)
                record = _records.measured(
                    name, figures, seed=seed, data=data,
                    command=f"python benchmarks/accuracy.py DATA/{directory.name} --configurations {configuration} "
                    f"--seeds {seed}",
                    describes={"kind": "train", **arguments, "n_trees": n_trees},
                )  # fmt: skip
                _records.add(record, options.store)
                shown = [figures.get(key, 0.0) for key in ("train_cpu_s", "peak_gb", "dev_f1", "test_f1", "parse_ms")]
                print(f"| {name} | {seed} | " + " | ".join(f"{value:.2f}" for value in shown) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
