"""Spectral learning and clustering on treebanks: accuracy by method and number of states, and what each trick is worth.

    python benchmarks/spectral.py DIRECTORY [DIRECTORY ...] [--rows ...] [--json FILE]

Each directory has train.mrg, dev.mrg and test.mrg. All choices are made on dev: the weight of smoothing, where `auto`
cuts singular values, how many iterations of EM follow clustering. The ablation (`--rows ablation`) changes one thing at
a time in `spectral 16` and reports dev alone; `--rows growth` gives the time to learn from parts of the treebank;
`spectral search`, which takes long, is run if it is asked for. `negative` is the part of all edges of test's charts (up
to 40 words, the first 100 sentences) whose posterior is negative. Training time is wall clock, or with `--processor`
that of the processor, reading included, evaluation not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from _requirements import require
from _treebank import Treebank
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.learn import Spectral
from sapwood.trees import TreeTransform
from sapwood.trees.formats.registry import read_trees

# Method and settings; where several values of `backoff` or iterations of EM are there to choose from, dev does.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "spectral 8": ("spectral", {"states": 8}),
    "spectral 16": ("spectral", {"states": 16}),
    "spectral 24": ("spectral", {"states": 24}),
    "spectral 32": ("spectral", {"states": 32, "backoff": 20.0}),
    "spectral auto": ("spectral", {"states": "auto", "backoff": 20.0}),
    "spectral search": ("spectral", {"states": "search"}),
    "spectral ensemble": ("spectral", {"states": 16, "dropout": 0.2, "members": 4, "by_dev": False}),
    "em 16": ("em", {"states": 16, "stop": "f1"}),
    "cluster 16": ("cluster", {"states": 16}),
    "cluster 32": ("cluster", {"states": 32}),
    "cluster+em 16": ("cluster", {"states": 16, "iterations": 10}),
    "cluster+em 32": ("cluster", {"states": 32, "iterations": 10}),
    "cluster+em ensemble": ("cluster", {"states": 24, "iterations": 6, "members": 4, "by_dev": False}),
}
ABLATION: dict[str, dict[str, Any]] = {
    "as it is": {},
    "features not scaled": {"kappa": 1e12},
    "no smoothing": {"backoff": 0.0},
    "simple features": {"inside": "simple", "outside": "simple"},
    "unary chains collapsed": {"unaries": "collapsed"},
    "horizontal 1": {"transform": TreeTransform(1, 1)},
    "vertical 2": {"transform": TreeTransform(2, 0)},
}


def negative_edges(treebank: Treebank, grammar: TensorGrammar) -> float:
    """Return how large a part of the edges has a negative posterior."""
    parser = Parser(grammar)
    negative = total = 0
    clean = filter(None, map(grammar.normaliser, treebank.parts["test"]))
    for tree in [tree for tree in clean if len(tree.words()) <= 40][:100]:
        chart = parser.chart(tree.words())
        if chart is not None:
            negative += int(np.count_nonzero(chart.edge_posterior < 0))
            total += len(chart.edge_posterior)
    return negative / max(total, 1)


def measure(treebank: Treebank, row: str) -> dict[str, Any]:
    """Train and score one row of the table."""
    method, settings = ROWS[row]
    grammars, seconds = treebank.train(method, **settings)
    return {
        "treebank": treebank.directory.name,
        "row": row,
        "seconds": seconds,
        "weights": int(grammars[0].tensors.size),
        "dev": treebank.score(grammars, "dev", treebank.threads),
        "test": treebank.score(grammars, "test", treebank.threads),
        "negative": 0.0 if grammars[0].probabilistic else negative_edges(treebank, grammars[0]),
        "settings": grammars[0].info.get("settings", {}),
    }


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    usual = [*(row for row in ROWS if row != "spectral search"), "ablation", "growth"]
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, "ablation", "growth"], default=usual)
    parser.add_argument("--threads", type=int, default=2, help="for training and parsing")
    parser.add_argument("--processor", action="store_true", help="seconds of the processor, not of the clock")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    require(treebanks=options.directory)
    found: list[dict[str, Any]] = []
    print("| treebank | method | train s | weights | dev F1 | test F1 | exact | tags | negative | sentences/s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    clock = time.process_time if options.processor else time.perf_counter
    treebanks = [Treebank(directory, options.threads, clock) for directory in options.directory]
    for treebank in treebanks:
        for row in options.rows:
            if row not in ROWS:
                continue
            figures = measure(treebank, row)
            found.append(figures)
            dev, test = figures["dev"], figures["test"]
            print(
                f"| {figures['treebank']} | {row} | {figures['seconds']:.0f} | {figures['weights'] / 1e6:.1f} M | "
                f"{dev['f1']:.2f} | {test['f1']:.2f} | {test['exact']:.1f} | {test['tags']:.2f} | "
                f"{100 * figures['negative']:.1f} % | {test['speed']:.0f} |",
                flush=True,
            )
    if "ablation" in options.rows:
        print("\n| treebank | changed | dev F1 |")
        print("|---|---|---|")
        for treebank in treebanks:
            for name, change in ABLATION.items():
                settings = dict(change)
                transform = settings.pop("transform", None)
                corpus = treebank.corpus if transform is None else treebank.read(transform)
                grammar = Spectral(states=16, **{"threads": treebank.threads} | settings).fit(corpus)
                f1 = treebank.score([grammar], "dev", treebank.threads)["f1"]
                found.append({"treebank": treebank.directory.name, "changed": name, "dev": {"f1": f1}})
                print(f"| {treebank.directory.name} | {name} | {f1:.2f} |", flush=True)
    if "growth" in options.rows:
        print("\n| treebank | trees | nodes | seconds | nodes/s |")
        print("|---|---|---|---|---|")
        for treebank in treebanks:
            trees = list(read_trees(treebank.directory / "train.mrg"))
            for part in (8, 4, 2, 1):
                corpus = Spectral.prepare(trees[: len(trees) // part])
                began = time.perf_counter()
                Spectral(states=16, threads=1).fit(corpus)
                seconds = time.perf_counter() - began
                found.append({"treebank": treebank.directory.name, "nodes": corpus.n_nodes, "seconds": seconds})
                print(
                    f"| {treebank.directory.name} | {corpus.n_trees:,} | {corpus.n_nodes:,} | {seconds:.2f} | "
                    f"{corpus.n_nodes / seconds:,.0f} |",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())
