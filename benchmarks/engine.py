"""How fast the parser is, and training, against the machine they run on.

    python benchmarks/engine.py TREEBANK [--also TEST.mrg ...] [--first 300] [--keep FOLDER] [--json FILE]

TREEBANK is a directory with train.mrg, dev.mrg and test.mrg. Each of --methods is trained on it as `sapwood train
--dev` does, in a process of its own: processor seconds, peak memory. Each grammar then parses TREEBANK's test
sentences, and the first ones of the files in --also, on one thread: processor milliseconds a sentence, the first time
(every word is new) and once warm; what two threads gain; F1. Then, for a PCFG: sentences by length, and exact parsing
beside pruned; and the cost of random states. What is trained is kept in --keep and not trained again.

All times are also given as multiples of one fixed NumPy workload in the same run, so that figures from different
machines can be compared; so are the machine's limits, a matrix product and a copy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# The matrix product must be that of one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import sapwood
from _machine import copy_speed, matrix_product_speed, reference_seconds
from _measuring import parse_all, read_gold, run_measured
from _requirements import require
from sapwood.testing.grammars import random_states

BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 10_000))
METHODS = ("pcfg", "split-merge", "pivot+em")
SETTINGS = {"pivot+em": ["--states", "24"]}


def f1_of(gold: list[sapwood.Tree], results: list[sapwood.ParseResult]) -> float:
    """Return the score of parses."""
    scorer = sapwood.Scorer()
    for tree, result in zip(gold, results, strict=True):
        scorer.add(tree, result.tree)
    return scorer.result().f1


def measure_parsing(path: Path, gold: list[sapwood.Tree], repeats: int) -> dict[str, float]:
    """Return milliseconds a sentence, first and once warm, what two threads gain, F1, and how many failed."""
    sentences = [tree.words() for tree in gold]
    one, two = sapwood.Parser(path), sapwood.Parser(path, threads=2)
    one.parse_one(["warm", "up"])
    first, _, results = parse_all(one, sentences)
    warm = min(parse_all(one, sentences)[0] for _ in range(repeats))
    parse_all(two, sentences)
    # Taking turns, so that both meet the same weather.
    turns = [(parse_all(one, sentences)[1], parse_all(two, sentences)[1]) for _ in range(repeats)]
    alone, together = (min(times) for times in zip(*turns, strict=True))
    return {
        "first_ms": 1000 * first / len(gold),
        "warm_ms": 1000 * warm / len(gold),
        "two_threads": alone / together,
        "f1": f1_of(gold, results),
        "failed": sum(result.failed for result in results),
    }


def measure_lengths(grammar: sapwood.TensorGrammar, sentences: list[list[str]]) -> list[dict[str, float]]:
    """Print and return milliseconds a sentence by length."""
    parser, found = sapwood.Parser(grammar), []
    print(f"\nPCFG by length\n{'words':>9} {'sentences':>9} {'ms':>8} {'us/word':>8}")
    for low, high in BUCKETS:
        chosen = [sentence for sentence in sentences if low <= len(sentence) <= high]
        if chosen:
            parse_all(parser, chosen)
            seconds = parse_all(parser, chosen)[0]
            each, word = 1e3 * seconds / len(chosen), 1e6 * seconds / sum(map(len, chosen))
            print(f"{low:>4}-{high if high < 10_000 else '':<4} {len(chosen):>9} {each:>8.2f} {word:>8.0f}")
            found.append({"from": low, "to": high, "sentences": len(chosen), "ms": each})
    return found


def compare_with_exact(grammar: sapwood.TensorGrammar, gold: list[sapwood.Tree]) -> dict[str, float]:
    """Parse with default pruning and without any; print and return F1 and milliseconds of both."""
    found: dict[str, float] = {}
    for name, parser in (("pruned", sapwood.Parser(grammar)), ("exact", sapwood.Parser(grammar, threshold=0))):
        seconds, _, results = parse_all(parser, [tree.words() for tree in gold])
        found |= {f"{name}_f1": f1_of(gold, results), f"{name}_ms": 1000 * seconds / len(gold)}
    print(
        f"\nPCFG, {len(gold)} sentences of up to 30 words: pruned F1 {found['pruned_f1']:.2f} in "
        f"{found['pruned_ms']:.2f} ms, exact F1 {found['exact_f1']:.2f} in {found['exact_ms']:.1f} ms"
    )
    return found


def measure_states(train: Path, sentences: list[list[str]], numbers: list[int]) -> list[dict[str, float]]:
    """Print and return what random states cost: nothing can be pruned by them, and no weight is zero."""
    base = sapwood.PCFG().fit(sapwood.SplitMerge.prepare(sapwood.read_trees(train)))
    print(f"\n{base!r} with random states, {len(sentences)} sentences\n{'states':>6} {'ms':>8} {'MB of weights':>14}")
    found = []
    for states in numbers:
        parser = sapwood.Parser(random_states(base, states, np.random.default_rng(states)))
        each = min(1000 * parse_all(parser, sentences)[0] / len(sentences) for _ in range(2))
        size = parser.compiled.tensors.nbytes / 1e6
        print(f"{states:>6} {each:>8.2f} {size:>14.1f}")
        found.append({"states": states, "ms": each, "megabytes": size})
    return found


def train_all(options: argparse.Namespace, folder: Path, reference: float) -> dict[str, Any]:
    """Train what is not there yet; print and return what it took."""
    print(f"\ntraining on {options.treebank}, --dev included\n{'':<12} {'CPU-s':>8} {'ratio':>8} {'s':>8} {'MB':>8}")
    found: dict[str, Any] = {}
    for method in options.methods:
        model, figures = folder / f"{method}.sapwood", folder / f"{method}.json"
        if not figures.exists():
            files = [str(options.treebank / "train.mrg"), "--dev", str(options.treebank / "dev.mrg")]
            settings = ["--method", method, *SETTINGS.get(method, []), "--quiet", "-o", str(model)]
            figures.write_text(json.dumps(run_measured(["train", *files, *settings])), encoding="utf-8")
        took = found[method] = json.loads(figures.read_text(encoding="utf-8"))
        print(f"{method:<12} {took['cpu_seconds']:>8.1f} {took['cpu_seconds'] / reference:>8.0f} "
              f"{took['seconds']:>8.1f} {took['megabytes']:>8.0f}")  # fmt: skip
    return found


def parse_everything(options: argparse.Namespace, folder: Path, reference: float) -> dict[str, Any]:
    """Parse all test sets with all grammars; print and return the table."""
    tests = {options.treebank.name: read_gold(options.treebank / "test.mrg")}
    tests |= {str(path.parent.name): read_gold(path, options.first) for path in options.also}
    columns = f"{'first ms':>8} {'warm ms':>8} {'ratio':>8} {'2 threads':>9} {'F1':>7} {'failed':>6}"
    print(f"\n{'parsing':<12} {'':<12} {columns}")
    found: dict[str, Any] = {}
    for method in options.methods:
        for name, gold in tests.items():
            row = found[f"{method} {name}"] = measure_parsing(folder / f"{method}.sapwood", gold, options.repeats)
            print(f"{method:<12} {name:<12} {row['first_ms']:>8.2f} {row['warm_ms']:>8.2f} "
                  f"{row['warm_ms'] / 1000 / reference:>8.3f} {row['two_threads']:>9.2f} {row['f1']:>7.2f} "
                  f"{row['failed']:>6.0f}")  # fmt: skip
    return found


def main() -> int:
    """Run the benchmark."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("treebank", type=Path)
    arguments.add_argument("--also", type=Path, nargs="*", default=[], help="more test sentences")
    arguments.add_argument("--first", type=int, default=300, help="how many of them")
    arguments.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    arguments.add_argument("--states", type=int, nargs="*", default=[1, 4, 16, 32])
    arguments.add_argument("--sentences", type=int, default=200, help="for random states and for exact parsing")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--keep", type=Path, help="a folder for what is trained")
    arguments.add_argument("--json", help="write all figures there")
    options = arguments.parse_args()
    require(treebanks=[options.treebank], files=options.also)
    reference = reference_seconds()
    report: dict[str, Any] = {
        "machine": {
            "reference_seconds": reference,
            "gemm_gflops": matrix_product_speed(),
            "copy_gb_per_s": copy_speed(),
        }
    }
    print("machine, one core: {gemm_gflops:.0f} Gflop/s matrix product, {copy_gb_per_s:.1f} GB/s copy, fixed NumPy "
          "workload {reference_seconds:.4f} s".format(**report["machine"]))  # fmt: skip
    report["first_parse"] = run_measured(["parse", "-s", "The museum has closed."])
    print("`sapwood parse -s ...`, start included: {cpu_seconds:.2f} CPU-s, {megabytes:.0f} MB".format(
        **report["first_parse"]))  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report["training"] = train_all(options, folder, reference)
        report["parsing"] = parse_everything(options, folder, reference)
    gold = read_gold(options.treebank / "test.mrg")
    grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(sapwood.read_trees(options.treebank / "train.mrg")))
    report["by_length"] = measure_lengths(grammar, [tree.words() for tree in gold])
    report["exact"] = compare_with_exact(grammar, [tree for tree in gold if len(tree) <= 30][: options.sentences])
    some = [tree.words() for tree in gold[:: max(1, len(gold) // options.sentences)]]
    report["states"] = measure_states(options.treebank / "train.mrg", some, options.states)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
