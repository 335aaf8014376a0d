"""Adaptation: a model of one domain, taught a small number of trees of another.

    python benchmarks/adaptation.py DATA/wsj-sample DATA/gum [--trees 50 200] [--seeds 0 1 2]
        [--rows old alone adapted joint] [--models FOLDER] [--no-test] [--records]
    python benchmarks/adaptation.py DATA/icepahc DATA/icepahc --halves 5000
    python benchmarks/adaptation.py DATA/gum-open DATA/wsj-sample --model en --rows old alone adapted

The old model is trained by `sapwood train` on the first treebank, and adapted by `sapwood train --adapt` to trees of
the second, drawn at random by the seed. Prints F1 of the old model, of a model of these trees alone, of the adapted
model and of one of both treebanks together (which is the alternative if the old treebank is at hand), on dev and test
of both domains, with the CPU time of training. Models are kept in the folder, if there is one, and not trained again.

With `--halves N` a treebank without test part is its own other domain: the old model is trained on the first N of its
training trees, and the others are drawn from its second half. The same shares of dev are parsed, every second block of
them as test part. `--model` names a model of the first treebank that is not trained but adapted as it is, and `--first`
trains the old model on the first trees only.

With `--records` figures are also written to benchmarks/results.jsonl: `gum-200/adapted-from-wsj-sample` and others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import _records
import sapwood
from _measuring import read_gold, run_measured
from _requirements import require
from _treebank import BLOCK
from sapwood.model.installed import find_model


def drawn(trees: list[sapwood.Tree], count: int, seed: int) -> list[sapwood.Tree]:
    """Return some of the trees, in order.

    >>> drawn(list("abcdef"), 3, seed=1)
    ['c', 'd', 'e']
    """
    chosen = np.random.default_rng([seed, count]).permutation(len(trees))[:count]
    return [trees[place] for place in sorted(chosen.tolist())]


class Domain:
    """Treebank of a domain: its training trees, and the trees of each part that models are measured on.

    Without a test part, every second block of dev takes its place.
    """

    def __init__(self, directory: Path, parts: list[str], shares: tuple[float, float] = (0.0, 1.0)) -> None:
        self.train, dev = (_share(read_gold(path_of(directory, part)), *shares) for part in ("train", "dev"))
        found = {"dev": dev}
        if path_of(directory, "test").exists():
            found["test"] = read_gold(path_of(directory, "test"))
        else:
            for number, part in enumerate(("dev", "test")):
                found[part] = [tree for place, tree in enumerate(dev) if place // BLOCK % 2 == number]
        self.parts = {part: found[part] for part in parts}


def _share(trees: list[sapwood.Tree], first: float, last: float) -> list[sapwood.Tree]:
    return trees[round(first * len(trees)) : round(last * len(trees))]


def path_of(directory: Path, part: str) -> Path:
    """Return the path of a part of a treebank, compressed or not."""
    path = directory / f"{part}.mrg"
    return path if path.exists() else directory / f"{part}.mrg.gz"


def write(trees: list[sapwood.Tree], path: Path) -> Path:
    """Write trees to a file, one on each line."""
    path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    return path


def train(arguments: list[str], model: Path) -> dict[str, float]:
    """Return CPU time and memory of training a model; nothing if it is there already."""
    if model.exists():
        return {}
    measured = run_measured(["train", *arguments, "--threads", "1", "-q", "-o", str(model)])
    return {"train_cpu_s": measured["cpu_seconds"], "peak_gb": measured["megabytes"] / 1024}


def measure(model: Path, domains: dict[str, Domain]) -> dict[str, float]:
    """Return the scores of a model on the parts of both domains."""
    parser = sapwood.Parser(model, threads=1)
    figures = {}
    for name, domain in domains.items():
        for part, trees in domain.parts.items():
            score = sapwood.evaluate_parser(parser, trees)
            figures |= {f"{name}_{part}_f1": score.f1, f"{name}_{part}_tags": score.tag_accuracy}
            figures[f"{name}_{part}_exact"] = score.exact
    return figures


def main() -> None:
    """Train and measure all models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--trees", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=["old", "alone", "adapted", "joint"])
    parser.add_argument("--halves", type=int, help="number of trees of the old model")
    parser.add_argument("--model", help="name or path of the old model")
    parser.add_argument("--first", type=int, help="number of trees of the old model")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--no-test", action="store_true", help="measure on dev only")
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    parts = ["dev"] if options.no_test else ["dev", "test"]
    require(treebanks=[options.old, options.new], parts=("train", "dev"))
    if options.halves:
        shares = (0.0, options.halves / len(read_gold(path_of(options.old, "train"))))
        domains = {"old": Domain(options.old, parts, shares), "new": Domain(options.new, parts, (0.5, 1.0))}
        source, target = f"{options.old.name}-{options.halves}", f"{options.new.name}-late"
    else:
        domains = {"old": Domain(options.old, parts), "new": Domain(options.new, parts)}
        source, target = options.model or options.old.name, options.new.name
        if options.first:
            source += f"-{options.first}"
    paths = [path_of(one, part) for one in (options.old, options.new) for part in ("train", "dev", "test")]
    paths = [path for path in paths if path.exists()]
    shown = [f"{name}_{part}_f1" for part in parts for name in domains]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        old_trees = write(domains["old"].train[: options.first], folder / f"{source}.mrg")
        print("| | seed | " + " | ".join(one.replace("_", " ") for one in shown) + " | CPU s |")
        print("|---" * (len(shown) + 3) + "|")

        def report(name: str, row: str, count: int, seed: int, arguments: list[str], model: Path) -> None:
            figures = train([*arguments, "--seed", str(seed)], model) | measure(model, domains)
            if options.records:
                given = (("halves", options.halves), ("model", options.model), ("first", options.first))
                more_options = "".join(f" --{option} {value}" for option, value in given if value)
                command = (
                    f"python benchmarks/adaptation.py DATA/{options.old.name} DATA/{options.new.name}{more_options} "
                    f"--trees {count} --rows {row} --seeds {seed} --records"
                )
                more = {"data": _records.digest_files(paths), "describes": None}
                _records.add(_records.measured(name, figures, seed=seed, command=command, **more))
            cells = [f"{figures[one]:.2f}" for one in shown] + [f"{figures.get('train_cpu_s', float('nan')):.0f}"]
            print(f"| {name} | {seed} | " + " | ".join(cells) + " |", flush=True)

        for seed in options.seeds:
            old = find_model(options.model) if options.model else folder / f"{source}-{seed}.sapwood"
            if "old" in options.rows and not (options.model and seed != options.seeds[0]):
                report(f"{target}/{source}", "old", options.trees[0], seed, [str(old_trees)], old)
            elif not old.exists():
                train([str(old_trees), "--seed", str(seed)], old)
            for count in options.trees:
                some = write(drawn(domains["new"].train, count, seed), folder / f"{target}-{count}-{seed}.mrg")
                rows = {
                    "alone": ("drawn", [str(some)]),
                    "adapted": (f"adapted-from-{source}", [str(some), "--adapt", str(old)]),
                    "joint": (f"joint-with-{source}", [str(some), str(old_trees)]),
                }
                for row, (name, arguments) in rows.items():
                    if row in options.rows:
                        model = folder / f"{target}-{count}-{row}-{seed}.sapwood"
                        report(f"{target}-{count}/{name}", row, count, seed, arguments, model)


if __name__ == "__main__":
    sys.exit(main())
