"""How fast the parser is, against the machine it runs on.

    python benchmarks/engine.py TRAIN TEST [--states 1 2 4 8 16 32] [--json FILE]

Trains a markovised PCFG on TRAIN and parses TEST with it (one and two threads, by length); then gives the treebank's
plain symbols random states and parses with that, for the cost of states alone (accuracy means nothing there). The
machine's limits (a matrix product and a copy) are measured in the same run. Times are those of warm kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

# The matrix product must be that of one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import sapwood
from _machine import copy_speed, matrix_product_speed
from sapwood.inference.chart import build_chart
from sapwood.testing.grammars import random_states

BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 10_000))


def timed_parse(parser: sapwood.Parser, sentences: list[list[str]]) -> tuple[float, list[sapwood.ParseResult]]:
    """Parse and format everything; returns seconds and results."""
    parser.parse_one(sentences[0])
    start = time.perf_counter()
    results = []
    for result in parser.parse(sentences):
        str(result.tree)
        results.append(result)
    return time.perf_counter() - start, results


def fine_work(parser: sapwood.Parser, sentences: list[list[str]]) -> tuple[float, float]:
    """Return the floating-point operations and bytes of tensors that the fine passes take for a sentence, on average.

    A rule over a span costs `m_a m_b m_c` multiply-adds inside and again outside, a split `m_b m_c` and `3 m_b m_c`.
    """
    operations = size = 0.0
    for sentence in sentences:
        _, leaves = parser._read(sentence)
        chart = build_chart(parser.compiled, leaves, threshold=parser.threshold)
        if chart is None:
            continue
        compiled, forest = parser.compiled, chart.forest
        states = compiled.fine_states.astype(float)
        cubes = np.add.reduceat(states.prod(axis=1), compiled.fine_offsets[:-1])
        squares = np.add.reduceat(states[:, 1] * states[:, 2], compiled.fine_offsets[:-1])
        splits = np.diff(forest.group_offsets)
        operations += 2 * (2 * cubes[forest.group_rule].sum() + 4 * (squares[forest.group_rule] * splits).sum())
        size += 2 * cubes[forest.group_rule].sum() * compiled.tensors.itemsize
    return operations / len(sentences), size / len(sentences)


def f1_of(gold: list[sapwood.Tree], results: list[sapwood.ParseResult]) -> float:
    """Return the score of parses."""
    scorer = sapwood.Scorer()
    for tree, result in zip(gold, results, strict=True):
        scorer.add(tree, result.tree)
    return scorer.result().f1


def compare_with_exact(grammar: sapwood.TensorGrammar, gold: list[sapwood.Tree]) -> dict[str, float]:
    """Parse with default pruning and without any; print and return F1 and speed of both."""
    found: dict[str, float] = {}
    for name, parser in (("pruned", sapwood.Parser(grammar)), ("exact", sapwood.Parser(grammar, threshold=0))):
        seconds, results = timed_parse(parser, [tree.words() for tree in gold])
        found |= {f"{name}_f1": f1_of(gold, results), f"{name}_per_second": len(gold) / seconds}
    print(
        f"\n{len(gold)} sentences of up to 30 words: pruned F1 {found['pruned_f1']:.2f} at "
        f"{found['pruned_per_second']:.0f}/s, exact F1 {found['exact_f1']:.2f} at {found['exact_per_second']:.0f}/s"
    )
    return found


def main() -> int:
    """Run the benchmark."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("train")
    arguments.add_argument("test")
    arguments.add_argument("--states", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32])
    arguments.add_argument(
        "--sentences", type=int, default=400, help="sentences for random states and for exact parsing"
    )
    arguments.add_argument("--json", help="write all figures there")
    options = arguments.parse_args()

    limits = {"gemm_gflops": matrix_product_speed(), "copy_gb_per_s": copy_speed()}
    peak = limits["gemm_gflops"]
    print(f"machine: {peak:.0f} Gflop/s matrix product, {limits['copy_gb_per_s']:.1f} GB/s copy, one core")
    normaliser = sapwood.Normaliser()
    gold = [tree for tree in map(normaliser, sapwood.read_trees(options.test)) if tree is not None]
    sentences = [tree.words() for tree in gold]
    lengths = np.array([len(sentence) for sentence in sentences])
    report: dict[str, object] = {"machine": limits, "sentences": len(sentences), "mean_length": float(lengths.mean())}

    grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(sapwood.read_trees(options.train)))
    start = time.perf_counter()
    parser = sapwood.Parser(grammar)
    parser.parse_one(sentences[0])
    report["first_call_seconds"] = time.perf_counter() - start
    print(f"\nPCFG, {grammar!r}; first call {report['first_call_seconds']:.1f} s (compiling, or reading the cache)")
    print(f"{len(sentences)} sentences, {lengths.mean():.1f} words on average")
    rates = {}
    for threads in (1, 2, 1, 2):  # interleaved; the better of two
        parser = sapwood.Parser(grammar, threads=threads)
        seconds, results = timed_parse(parser, sentences)
        rates[threads] = max(rates.get(threads, 0.0), len(sentences) / seconds)
    f1 = f1_of(gold, results)
    failed = sum(result.failed for result in results)
    print(f"1 thread {rates[1]:.0f} sentences/s, 2 threads {rates[2]:.0f} ({rates[2] / rates[1]:.2f} times), "
          f"F1 {f1:.2f}, {failed} failed")  # fmt: skip
    report["pcfg"] = {"one_thread": rates[1], "two_threads": rates[2], "f1": f1, "failed": failed}
    parser = sapwood.Parser(grammar)
    print(f"\n{'length':>9} {'sentences':>9} {'sent/s':>8} {'us/word':>8}")
    report["by_length"] = []
    for low, high in BUCKETS:
        chosen = [sentence for sentence in sentences if low <= len(sentence) <= high]
        if chosen:
            seconds, _ = timed_parse(parser, chosen)
            per_word = 1e6 * seconds / sum(map(len, chosen))
            rate = len(chosen) / seconds
            print(f"{low:>4}-{high if high < 10_000 else '':<4} {len(chosen):>9} {rate:>8.0f} {per_word:>8.0f}")
            report["by_length"].append({"from": low, "to": high, "per_second": rate})

    report["pruning"] = compare_with_exact(grammar, [tree for tree in gold if len(tree) <= 30][: options.sentences])

    base = sapwood.PCFG().fit(sapwood.SplitMerge.prepare(sapwood.read_trees(options.train)))
    step = max(1, len(sentences) // options.sentences)
    some = sentences[::step]
    print(f"\n{base!r} with random states, {len(some)} sentences, one thread")
    print(f"{'states':>6} {'sent/s':>8} {'Mflop/sent':>11} {'MB/sent':>8} {'Gflop/s':>8} {'of peak':>8}")
    report["states"] = []
    for states in options.states:
        split = random_states(base, states, np.random.default_rng(states))
        parser = sapwood.Parser(split)
        seconds = min(timed_parse(parser, some)[0] for _ in range(2))
        operations, size = fine_work(parser, some[::4])
        speed = operations * len(some) / seconds / 1e9
        print(f"{states:>6} {len(some) / seconds:>8.1f} {operations / 1e6:>11.1f} {size / 1e6:>8.1f} {speed:>8.1f} "
              f"{speed / peak:>8.1%}")  # fmt: skip
        report["states"].append(
            {"states": states, "per_second": len(some) / seconds, "flop": operations, "bytes": size}
        )
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
