"""Pretrained encoders: parsers of few trees whose span scorer uses the vectors of an encoder, and their students.

    python benchmarks/encoders.py DATA/gum --encoder FOLDER [--trees 500] [--distil DATA/brown/brown.txt.gz]
        [--seeds 0 1 2] [--models FOLDER] [--records]

Trains by `sapwood train --encoder` on the first trees of the training part of the directory (0: all), and prints F1,
exact match and tag accuracy on dev and test, and sentences per CPU second on dev, on one thread, encoder included. With
`--distil`, each of these models is the teacher of another one, without an encoder, that learns from the same trees and
the sentences of the text. Models are kept in the folder, if there is one, and not trained again.

With `--records` they are also written to benchmarks/results.jsonl: `gum-500/encoder` and `gum-500/encoder-distilled`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import _records
import sapwood
from _measuring import read_gold
from _requirements import require
from distillation import measure, train
from sapwood.encoders.lookup import VARIABLE


def sentences_per_second(model: Path, treebank: Path) -> float:
    """Return how many sentences of a treebank are parsed in a second of CPU time."""
    parser, sentences = sapwood.Parser(model), [tree.words() for tree in read_gold(treebank)]
    parser.parse_one(sentences[0])  # what is done once
    started = time.process_time()
    for words in sentences:
        parser.parse_one(words)
    return len(sentences) / (time.process_time() - started)


def main() -> None:
    """Train and measure parsers with an encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--distil", type=Path, metavar="TEXT")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", type=Path)
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    directory, text = options.directory, options.distil
    require(treebanks=[directory], files=[] if text is None else [text], packages="onnxruntime tokenizers")
    treebank = [directory / f"{part}.mrg" for part in ("train", "dev", "test")]
    os.environ[VARIABLE] = str(options.encoder)
    prefix = f"{directory.name}-{options.trees}" if options.trees else directory.name
    print("| | seed | dev F1 | test F1 | exact | tags | sentences/s |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        gold = folder / f"{prefix}.mrg"
        trees = read_gold(treebank[0], options.trees or None)
        gold.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")

        def report(name: str, seed: int, arguments: list[str], more: list[Path]) -> Path:
            model = folder / f"{name.replace('/', '-')}-{seed}.sapwood"
            figures = train([str(gold), *arguments, "--seed", str(seed)], model) | measure(model, directory)
            figures["sentences_per_s"] = sentences_per_second(model, treebank[1])
            if options.records:
                given = "".join(f" --distil DATA/{path.parent.name}/{path.name}" for path in more)
                command = (
                    f"python benchmarks/encoders.py DATA/{directory.name} --encoder all-MiniLM-L6-v2 --trees "
                    f"{options.trees}{given} --seeds {seed} --records"
                )
                data = _records.digest_files([*treebank, *more])
                _records.add(_records.measured(name, figures, seed=seed, command=command, data=data, describes=None))
            names = ("dev_f1", "test_f1", "test_exact", "test_tags")
            cells = [*(f"{figures[one]:.2f}" for one in names), f"{figures['sentences_per_s']:.0f}"]
            print(f"| {name} | {seed} | {' | '.join(cells)} |", flush=True)
            return model

        for seed in options.seeds:
            teacher = report(f"{prefix}/encoder", seed, ["--encoder", str(options.encoder)], [])
            if text is not None:
                taught = ["--teacher", str(teacher), "--text", str(text)]
                report(f"{prefix}/encoder-distilled", seed, taught, [text])


if __name__ == "__main__":
    sys.exit(main())
