"""Learners with hidden states on treebanks: accuracy, training time and parsing speed, all measured in one run.

    python benchmarks/split_merge.py DIRECTORY [DIRECTORY ...] [--methods ...] [--json FILE]

Each directory has train.mrg, dev.mrg and test.mrg. Rows of the table:

    pcfg         counts, of symbols with their parents and siblings
    em           16 states for each symbol, stopped by dev F1
    collapsed    split-merge with unary chains as symbols of their own
    steps        split-merge as it is by default: unary chains with an explicit last step
    ensemble     four grammars of `steps` from different seeds

Training time is wall clock on the given number of threads, reading the trees included, evaluation on dev left out;
parsing speed is that of the test sentences on one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from _treebank import Treebank
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn import EM
from sapwood.trees import Corpus, Tree

METHODS = ("pcfg", "em", "collapsed", "steps", "ensemble")


def train(treebank: Treebank, method: str, seed: int, cycles: int) -> tuple[list[TensorGrammar], float]:
    """Train by one of `METHODS`; returns the seconds, too."""
    if method == "pcfg":
        return treebank.train("pcfg", by_dev=False)
    if method == "em":
        return treebank.train("em", states=16, stop="f1", random_state=seed)
    own: dict[str, Any] = {"members": 4} if method == "ensemble" else {"unaries": method}
    return treebank.train("split-merge", by_dev=False, cycles=cycles, random_state=seed, **own)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to take the mean over (not: ensemble)")
    parser.add_argument("--cycles", type=int, default=5, help="of split-merge")
    parser.add_argument("--threads", type=int, default=2, help="for training")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    EM(states=2, iterations=2).fit(Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9))
    rows: list[dict[str, Any]] = []
    print("| treebank | method | seed | train s | states | dev F1 | test F1 | exact | tags | failed | sentences/s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for directory in options.directory:
        treebank = Treebank(directory, options.threads)
        for method in options.methods:
            for seed in range(options.seeds if method in ("em", "collapsed", "steps") else 1):
                grammars, seconds = train(treebank, method, seed, options.cycles)
                dev = treebank.score(grammars, "dev", options.threads)
                test = treebank.score(grammars, "test", 1)
                states = int(grammars[0].states.max())
                rows.append(
                    {
                        "treebank": directory.name,
                        "method": method,
                        "seed": seed,
                        "seconds": seconds,
                        "states": states,
                        "dev": dev,
                        "test": test,
                    }
                )
                print(
                    f"| {directory.name} | {method} | {seed} | {seconds:.0f} | {states} | {dev['f1']:.2f} | "
                    f"{test['f1']:.2f} | {test['exact']:.1f} | {test['tags']:.2f} | {test['failed']} | "
                    f"{test['speed']:.0f} |",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
