"""Accuracy and speed on a treebank with gaps, written as records.

    python benchmarks/gaps.py DIRECTORY [--configurations default ...] [--seeds 0 1 2] [--models FOLDER] [--again]

The directory has train.dbr.gz and dev.dbr.gz in discbracket. `sapwood train` trains each configuration on train in a
process of its own, with one thread; dev is only scored. Models are kept in FOLDER, next to what their training took,
and those that are there already are not trained again.

    default        the default recipe, gaps kept
    closed         the default recipe, gaps closed before training and never restored
    split-merge    a grammar alone, gaps kept
    split-merge-closed
                   a grammar alone, gaps closed
    pcfg           a grammar without hidden states, gaps kept

Each model is scored on dev as it is, and on dev with its gaps closed: F1, F1 of phrases with gaps alone
(discontinuous), exact matches and tags, by the default parameters and by `proper`; and it parses dev on one thread,
every word new.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
import sapwood
from _measuring import parse_all, run_measured
from _requirements import require
from sapwood.evaluate import EvaluationResult
from sapwood.trees.formats.gaps import Gaps

# Treatment of gaps in training, and arguments of `sapwood.train`.
CONFIGURATIONS: dict[str, tuple[Gaps, dict[str, Any]]] = {
    "default": ("keep", {}),
    "closed": ("close", {}),
    "split-merge": ("keep", {"method": "split-merge"}),
    "split-merge-closed": ("close", {"method": "split-merge"}),
    "pcfg": ("keep", {"method": "pcfg"}),
}


def train(directory: Path, configuration: str, seed: int, model: Path) -> dict[str, float]:
    """Train a model unless it is there, and return what its training took."""
    report = model.with_suffix(".json")
    if not model.exists():
        gaps, arguments = CONFIGURATIONS[configuration]
        options = [word for name, value in arguments.items() for word in (f"--{name}", value)]
        took = run_measured(
            [
                "train", str(directory / "train.dbr.gz"), "--from", "discbracket", "--gaps", gaps, *options,
                "--seed", str(seed), "--threads", "1", "--quiet", "-o", str(model),
            ]
        )  # fmt: skip
        figures = {"train_cpu_s": took["cpu_seconds"], "peak_gb": took["megabytes"] / 1000}
        report.write_text(json.dumps(figures), encoding="utf-8")
    found: dict[str, float] = json.loads(report.read_text(encoding="utf-8"))
    return found


def gold_trees(directory: Path, gaps: Gaps) -> list[sapwood.Tree]:
    """Return the clean trees of dev."""
    trees = sapwood.read_trees(directory / "dev.dbr.gz", format="discbracket", gaps=gaps)
    return [tree for tree in map(sapwood.Normaliser(), trees) if tree is not None]


def score(
    gold: Sequence[sapwood.Tree], results: Sequence[sapwood.ParseResult], parameters: str = "default"
) -> EvaluationResult:
    """Return the scores of parses."""
    scorer = sapwood.Scorer(parameters)
    for tree, result in zip(gold, results, strict=True):
        scorer.add(tree, result.tree)
    return scorer.result()


def measure(directory: Path, model: Path) -> dict[str, float]:
    """Parse dev and score it."""
    parser = sapwood.Parser(model, threads=1)
    parser.parse_one(["warm", "up"])
    gold = gold_trees(directory, "keep")
    seconds, _, results = parse_all(parser, [tree.words() for tree in gold])
    figures = {"sentences_per_s": len(gold) / seconds}
    for prefix, parameters in (("dev", "default"), ("proper", "proper")):
        found = score(gold, results, parameters)
        low, high = found.intervals()["f1"]
        figures |= {f"{prefix}_f1": found.f1, f"{prefix}_exact": found.exact, f"{prefix}_tags": found.tag_accuracy}
        figures |= {f"{prefix}_low": low, f"{prefix}_high": high}
        figures |= {f"{prefix}_disc_{name}": getattr(found, f"disc_{name}") for name in ("f1", "precision", "recall")}
        low, high = found.intervals()["disc_f1"]
        figures |= {f"{prefix}_disc_low": low, f"{prefix}_disc_high": high}
    figures["closed_f1"] = score(gold_trees(directory, "close"), results).f1
    return figures


def main() -> None:
    """Run what has not been run yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--configurations", nargs="+", choices=CONFIGURATIONS, default=["default"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", type=Path, help="folder of the models; by default they are not kept")
    parser.add_argument("--again", action="store_true", help="repeat runs that have records")
    parser.add_argument("--store", type=Path, default=_records.STORE, help="file of the records")
    options = parser.parse_args()
    require(files=[options.directory / f"{part}.dbr.gz" for part in ("train", "dev")])
    print("| record | seed | training, CPU-s | F1 | discontinuous F1 | F1 without gaps | sentences/s |")
    print("|---|---|---|---|---|---|---|")
    data = _records.digest_files(options.directory / f"{part}.dbr.gz" for part in ("train", "dev"))
    n_trees = sum(1 for _ in sapwood.read_trees(options.directory / "train.dbr.gz", format="discbracket"))
    for configuration in options.configurations:
        name = f"{options.directory.name}/gaps-{configuration}"
        for seed in options.seeds if configuration != "pcfg" else [0]:
            if not options.again and _records.is_current(_records.read(options.store), name, seed, data):
                continue
            with ExitStack() as stack:
                folder = options.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
                model = folder / f"{configuration}.s{seed}.sapwood"
                figures = train(options.directory, configuration, seed, model) | measure(options.directory, model)
            record = _records.measured(
                name, figures, seed=seed, data=data,
                command=f"python benchmarks/gaps.py DATA/{options.directory.name} --configurations {configuration} "
                f"--seeds {seed}",
                describes={"kind": "train", **CONFIGURATIONS[configuration][1], "n_trees": n_trees},
            )  # fmt: skip
            _records.add(record, options.store)
            keys = ("train_cpu_s", "dev_f1", "dev_disc_f1", "closed_f1", "sentences_per_s")
            print(f"| {name} | {seed} | " + " | ".join(f"{figures[key]:.2f}" for key in keys) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
