"""What to do about negative weights of spectral grammars: clip, take absolute values, compute in double precision, or
look for the nearest grammar of probabilities.

    python benchmarks/spectral_weights.py DIRECTORY [DIRECTORY ...] [--states 16] [--seeds 0 1 2] [--results FILE.jsonl]

Each directory has train.mrg, dev.mrg and test.mrg; dev chooses smoothing and iterations. `no probability` are the parts
of the test sentences, and of the test trees that the grammar has all rules of, whose weight is not positive. `nats a
word` is the mean negative log-probability of those trees that have a positive one under all rows and seeds of a
treebank. Means and standard deviations over seeds. Training time is the processor's, evaluation left out. Results are
appended one by one, and not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from _requirements import require
from _treebank import Treebank
from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.inference import Parser

# Settings of learning, and of parsing.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "real, negative posteriors clipped": ({}, {}),
    "real, absolute values": ({}, {"decoder": "max-rule-absolute"}),
    "real, double precision": ({}, {"precision": "double"}),
    "non-negative": ({"weights": "non-negative", "polish": 0}, {}),
    "non-negative, one iteration of EM": ({"weights": "non-negative", "polish": 1}, {}),
    "non-negative, up to three": ({"weights": "non-negative", "polish": 3}, {}),
}


def measure(treebank: Treebank, states: int, seed: int) -> list[dict[str, Any]]:
    """Return all rows of one seed; those that learn the same share the grammar."""
    learned: dict[str, Any] = {}
    found = []
    for row, (learning, parsing) in ROWS.items():
        key = json.dumps(learning)
        if key not in learned:
            grammars, seconds = treebank.train("spectral", states=states, random_state=seed, **learning)
            learned[key] = grammars[0], seconds
        grammar, seconds = learned[key]
        parser = Parser(grammar, **parsing)
        results = {part: evaluate_parser(parser, treebank.parts[part]) for part in ("dev", "test")}
        logs = [parser.tree_log_probability(tree) for tree in treebank.parts["test"]]
        found.append(
            {
                "treebank": treebank.directory.name, "row": row, "seed": seed, "seconds": seconds,
                "dev": results["dev"].f1, "test": results["test"].f1, "exact": results["test"].exact,
                "negative_sentences": 100 * results["test"].negative / results["test"].sentences,
                "logs": [None if math.isnan(log) else round(log, 4) if math.isfinite(log) else "no" for log in logs],
                "words": [len(tree.words()) for tree in treebank.parts["test"]],
            }
        )  # fmt: skip
    return found


def _spread(values: Sequence[float], digits: int = 2) -> str:
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    heads = (
        "treebank",
        "weights",
        "dev F1",
        "test F1",
        "exact",
        "no probability: sentences",
        "trees",
        "nats a word",
        "s",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in dict.fromkeys(result["treebank"] for result in results):
        own = [result for result in results if result["treebank"] == name]
        common = [
            place for place in range(len(own[0]["logs"])) if all(isinstance(one["logs"][place], float) for one in own)
        ]
        for row in ROWS:
            cell = [result for result in own if result["row"] == row]
            if not cell:
                continue
            trees = [100 * one["logs"].count(None) / sum(log != "no" for log in one["logs"]) for one in cell]
            nats = [
                -sum(one["logs"][place] for place in common) / max(sum(one["words"][place] for place in common), 1)
                for one in cell
            ]
            figures = [
                _spread([one["dev"] for one in cell]), _spread([one["test"] for one in cell]),
                _spread([one["exact"] for one in cell], 1),
                _spread([one["negative_sentences"] for one in cell], 1) + " %",
                _spread(trees, 1) + " %", _spread(nats, 3), _spread([one["seconds"] for one in cell], 0),
            ]  # fmt: skip
            lines.append(f"| {name} | {row} | " + " | ".join(figures) + " |")
        lines.append(f"\n{name}: {len(common)} of {len(own[0]['logs'])} test trees have a probability in all rows.\n")
    return "\n".join(lines).rstrip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--states", type=int, default=16)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--results", type=Path, help="append each result here, and use those that are there")
    options = parser.parse_args()
    require(treebanks=options.directory)
    results: list[dict[str, Any]] = []
    if options.results and options.results.exists():
        results = [json.loads(line) for line in options.results.read_text("utf-8").splitlines()]
    done = {(result["treebank"], result["seed"]) for result in results}
    for directory in options.directory:
        wanted = [seed for seed in options.seeds if (directory.name, seed) not in done]
        treebank = Treebank(directory, 1, time.process_time) if wanted else None
        for seed in wanted:
            assert treebank is not None
            new = measure(treebank, options.states, seed)
            results += new
            if options.results:
                with options.results.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(one) + "\n" for one in new)
    print(table(results))


if __name__ == "__main__":
    main()
