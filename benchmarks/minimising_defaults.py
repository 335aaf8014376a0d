"""`sapwood minimise` on models that `sapwood train` makes by default, with CRF, span scorer and ensembles.

    python benchmarks/minimising_defaults.py DIRECTORY [--trees N] [--seeds 0] [--without-trees] [--records]

The directory has train.mrg, dev.mrg and test.mrg. The default model of all training trees, or of the first N, is
minimised with the trees it was trained on (merging; real-valued members of an ensemble are projected), and with
`--without-trees` also without them (projection of all members). The models take turns in parsing dev and test, each
with its default threshold; times are processor milliseconds per sentence of test, on one thread.

With `--records` the results are written to benchmarks/results.jsonl as `wsj-sample/default-minimised`,
`gum-500/default-minimised` and `gum-500/default-minimised-without-trees`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
import sapwood
from _measuring import read_gold
from _requirements import PARTS, require
from minimising import stored_size, take_turns
from sapwood import Parser, Tree
from sapwood.automata.reduce.truncation import corpus_for
from sapwood.model import ParserModel
from sapwood.pipeline.compress import compress

WITH_TREES, WITHOUT_TREES = "default-minimised", "default-minimised-without-trees"


def measure(models: dict[str, ParserModel], directory: Path, sentences: int | None) -> dict[str, dict[str, float]]:
    """Return F1, times and sizes of models."""
    parsers = {name: Parser(model, threads=1) for name, model in models.items()}
    # After dev, the parsers have met most words.
    found = {part: take_turns(parsers, read_gold(directory / f"{part}.mrg", sentences)) for part in ("dev", "test")}
    return {
        name: {
            "dev_f1": found["dev"][name][0],
            "test_f1": found["test"][name][0],
            "parse_ms_warm": found["test"][name][1],
            "file_mb": stored_size(model) / 1e6,
        }
        for name, model in models.items()
    }


def make_models(trees: list[Tree], directory: Path, seed: int, *, without_trees: bool) -> dict[str, ParserModel]:
    """Train the default model, and return it with its minimised forms."""
    model = sapwood.train(trees, dev=read_gold(directory / "dev.mrg"), seed=seed)
    models = {"default": model, WITH_TREES: compress(model, corpus_for(model.grammar, trees))}
    return models | ({WITHOUT_TREES: compress(model)} if without_trees else {})


def main() -> None:
    """Train, minimise, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trees", type=int, help="train on the first trees only")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--without-trees", action="store_true", help="also minimise without the training trees")
    parser.add_argument("--sentences", type=int, help="parse the first sentences only")
    parser.add_argument("--records", action="store_true", help="write the results as records")
    options = parser.parse_args()
    directory = options.directory
    require(treebanks=[directory])
    if options.records and options.sentences:
        parser.error("--records takes all sentences")
    data = _records.digest_files([directory / f"{part}.mrg" for part in PARTS])
    trees = read_gold(directory / "train.mrg", options.trees)
    name = directory.name + (f"-{options.trees}" if options.trees else "")
    print("| record | seed | MB | ms per sentence | dev F1 | test F1 |\n" + "|---" * 6 + "|")
    for seed in options.seeds:
        models = make_models(trees, directory, seed, without_trees=options.without_trees)
        found = measure(models, directory, options.sentences)
        for kind, row in found.items():
            figures = [f"{row[key]:.2f}" for key in ("file_mb", "parse_ms_warm", "dev_f1", "test_f1")]
            print(f"| {name}/{kind} | {seed} | {' | '.join(figures)} |", flush=True)
            if options.records and kind != "default":
                command = f"python benchmarks/minimising_defaults.py DATA/{directory.name} --seeds {seed} --records"
                command += f" --trees {options.trees}" if options.trees else ""
                command += " --without-trees" if kind == WITHOUT_TREES else ""
                before = {f"before_{key}": value for key, value in found["default"].items()}
                record = _records.measured(
                    f"{name}/{kind}", {**before, **row}, seed=seed, command=command, data=data,
                    describes={"kind": "minimise"},
                )  # fmt: skip
                _records.add(record)


if __name__ == "__main__":
    main()
