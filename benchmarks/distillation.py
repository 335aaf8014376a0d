"""Distillation: a parser of few trees, taught by one of another treebank.

    python benchmarks/distillation.py DATA/gum --teacher DATA/wsj-sample/train.mrg --text DATA/brown/brown.txt.gz
        [--trees 500] [--gold-weights 3] [--seeds 0 1 2] [--models FOLDER] [--records]

The teacher is trained by `sapwood train`, and parses the sentences of the text that the student learns from, besides
the first trees of the training part of the directory. Prints F1, exact match and tag accuracy of teacher and students
on dev and test, and of models trained on the trees of both treebanks, which is the alternative if the teacher's are at
hand. Models are kept in the folder, if there is one, and not trained again.

With `--records` they are also written to benchmarks/results.jsonl: `gum-500/distilled`, `gum-500/teacher` and
`gum-500/joint`, with the weight of gold trees in the id unless it is the default.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import _records
import sapwood
from _measuring import read_gold, run_measured
from _requirements import require
from sapwood.pipeline.silver import DEFAULT_GOLD_WEIGHT


def measure(model: Path, directory: Path) -> dict[str, float]:
    """Return the scores of a model on dev and test."""
    figures = {}
    parser = sapwood.Parser(model, threads=1)
    for part in ("dev", "test"):
        score = sapwood.evaluate_parser(parser, read_gold(directory / f"{part}.mrg"))
        figures |= {f"{part}_f1": score.f1, f"{part}_exact": score.exact, f"{part}_tags": score.tag_accuracy}
    return figures


def train(arguments: list[str], model: Path) -> dict[str, float]:
    """Return time and memory of training a model; nothing if it is there already."""
    if model.exists():
        return {}
    measured = run_measured(["train", *arguments, "--threads", "1", "-q", "-o", str(model)])
    return {"train_cpu_s": measured["cpu_seconds"], "peak_gb": measured["megabytes"] / 1024}


def main() -> None:
    """Train and measure the teacher and its students."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--teacher", type=Path, required=True, help="treebank of the teacher")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--gold-weights", type=int, nargs="+", default=[DEFAULT_GOLD_WEIGHT])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", type=Path)
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    directory = options.directory
    require(treebanks=[directory], files=[options.teacher, options.text])
    paths = [*(directory / f"{part}.mrg" for part in ("train", "dev", "test")), options.teacher, options.text]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        gold, teacher = folder / "gold.mrg", folder / "teacher.sapwood"
        gold.write_text("".join(f"{tree}\n" for tree in read_gold(paths[0], options.trees)), encoding="utf-8")
        print("| | seed | dev F1 | test F1 | exact | tags |\n|---|---|---|---|---|---|")

        def report(name: str, seed: int, arguments: list[str], model: Path) -> None:
            figures = train([*arguments, "--seed", str(seed)], model) | measure(model, directory)
            if options.records:
                more: dict[str, Any] = {"data": _records.digest_files(paths), "describes": None}
                command = (
                    f"python benchmarks/distillation.py DATA/{directory.name} --teacher "
                    f"DATA/{options.teacher.parent.name}/{options.teacher.name} --text "
                    f"DATA/{options.text.parent.name}/{options.text.name} --trees {options.trees} --gold-weights "
                    f"{' '.join(map(str, options.gold_weights))} --seeds {seed} --records"
                )
                _records.add(_records.measured(name, figures, seed=seed, command=command, **more))
            names = ("dev_f1", "test_f1", "test_exact", "test_tags")
            print(f"| {name} | {seed} | " + " | ".join(f"{figures[one]:.2f}" for one in names) + " |", flush=True)

        prefix = f"{directory.name}-{options.trees}"
        report(f"{prefix}/teacher", 0, [str(options.teacher)], teacher)
        for seed in options.seeds:
            report(f"{prefix}/joint", seed, [str(gold), str(options.teacher)], folder / f"joint-{seed}.sapwood")
        for weight in options.gold_weights:
            name = "distilled" if weight == DEFAULT_GOLD_WEIGHT else f"distilled-{weight}"
            for seed in options.seeds:
                taught = [str(gold), "--teacher", str(teacher), "--text", str(options.text), "--gold-weight"]
                report(f"{prefix}/{name}", seed, [*taught, str(weight)], folder / f"{name}-{seed}.sapwood")


if __name__ == "__main__":
    sys.exit(main())
