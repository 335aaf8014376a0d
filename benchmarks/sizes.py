"""How much each method makes of a treebank, by its size: what `sapwood train` recommends comes from here.

    python benchmarks/sizes.py DIRECTORY --sizes 200 500 1000 3000 10000 [--first] [--methods ...] [--seeds 0 1 2]
        [--part test] [--text RAW.txt [--classes]] [--results FILE.jsonl] [--markdown FILE] [--picture FILE.svg]
        [--records]

The directory has train.mrg and test.mrg (or .mrg.gz; with `--part dev` dev.mrg is parsed instead). Of the training
part as many trees as asked for are taken, evenly spaced; with `--first` those at its beginning, which often are of one
kind. Each method has its usual settings, and no held-out trees to choose by. "default" is what `sapwood train` does
without a method. Seconds are those of one core of the processor, for training alone. With `--text` the default also
learns classes of words from that text and, where trees are few, from what a first model reads of it; `--classes` leaves
the reading out.

With `--records` runs of the default are also written to benchmarks/results.jsonl, as `gum-500/default` with `--first`
and as `gum-spaced-500/default` without; `word-classes` and `self-training` stand for `default` with a text.

With `--results` each result is appended as soon as it is known, and a second run goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
from _requirements import require
from sapwood import Parser, evaluate_parser, train
from sapwood.learn.registry import LEARNERS
from sapwood.pipeline.self_training import SentenceSampler
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT = "default"
METHODS = [*LEARNERS, DEFAULT]


def part_of(directory: Path, name: str) -> list[Tree]:
    """Return the trees of a part, of which the file may be compressed."""
    path = directory / f"{name}.mrg"
    return list(read_trees(path if path.exists() else path.with_suffix(".mrg.gz")))


def chosen(trees: list[Tree], size: int, first: bool) -> list[Tree]:
    """Return as many trees, evenly spaced or from the beginning."""
    if first or size >= len(trees):
        return trees[:size]
    return [trees[place * len(trees) // size] for place in range(size)]


def run(trees: list[Tree], test: list[Tree], method: str, seed: int, text: str | None, classes: bool) -> dict[str, Any]:
    """Train, parse, and return the figures."""
    began = time.process_time()
    of_text: dict[str, Any] = {}
    if method == DEFAULT and text is not None:
        of_text = {"text": text, "text_use": "word-classes" if classes else None}
    model = train(trees, method=None if method == DEFAULT else method, seed=seed, **of_text)
    seconds = time.process_time() - began
    result = evaluate_parser(Parser(model), test)
    return {"seconds": seconds, "f1": result.f1, "exact": result.exact, "tags": result.tag_accuracy}


def write_record(directory: Path, row: dict[str, Any], text: Path | None) -> None:
    """Write a run of the default as a record."""
    size, seed = row["size"], row["seed"]
    what = "default" if text is None else "word-classes" if row["classes"] else "self-training"
    describes = {"kind": "train", "n_trees": size}
    if what == "self-training":
        describes = {"kind": what, "n_trees": size, "n_sentences": SentenceSampler().max_sentences}
    options = f"--sizes {size} --methods default --seeds {seed} --part {row['part']}" + " --first" * row["first"]
    if text is not None:
        options += f" --text DATA/{text.parent.name}/{text.name}" + " --classes" * row["classes"]
    part = row["part"]
    figures = {f"{part}_{name}": row[name] for name in ("f1", "exact", "tags")} | {"train_cpu_s": row["seconds"]}
    paths = [next(directory.glob(f"{name}.mrg*")) for name in ("train", part)] + ([] if text is None else [text])
    record = _records.measured(
        f"{directory.name}-{'' if row['first'] else 'spaced-'}{size}/{what}", figures, seed=seed,
        command=f"python benchmarks/sizes.py DATA/{directory.name} {options} --records",
        data=_records.digest_files(paths), describes=describes,
    )  # fmt: skip
    _records.add(record)


def cell(rows: list[dict[str, Any]], figure: str) -> str:
    """Return the mean over seeds, and how far they differ."""
    values = [row[figure] for row in rows]
    if not values:
        return "–"
    if figure == "seconds":
        return f"{statistics.mean(values):,.0f} s"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def table(results: list[dict[str, Any]], methods: list[str], sizes: list[int]) -> str:
    """Return F1 on test and seconds of training, by method and size."""
    lines = ["| trees | " + " | ".join(f"{size:,}" for size in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for method in methods:
        found = [[row for row in results if row["method"] == method and row["size"] == size] for size in sizes]
        shown = (f"{cell(rows, 'f1')}, {cell(rows, 'seconds')}" if rows else "–" for rows in found)
        lines.append(f"| {method} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def draw(results: list[dict[str, Any]], methods: list[str], part: str) -> Figure:
    """Draw F1 and seconds against the number of trees."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, name, title in zip(
        figure.subplots(1, 2), ("f1", "seconds"), (f"F1 on {part}", "seconds of training"), strict=True
    ):
        for number, method in enumerate(methods):
            sizes = sorted({row["size"] for row in results if row["method"] == method})
            means = [
                statistics.mean(row[name] for row in results if row["method"] == method and row["size"] == size)
                for size in sizes
            ]
            strong = {"linewidth": 2.5, "color": "black"} if method == DEFAULT else {}
            colour = "grey" if method == "pcfg" else COLOURS[number % len(COLOURS)]
            axes.plot(sizes, means, marker="o", **({"color": colour, "label": method} | strong))
        axes.set(xscale="log", xlabel="trees", title=title)
        axes.xaxis.set_major_locator(FixedLocator(sorted({row["size"] for row in results})))
        axes.grid(alpha=0.3)
    figure.axes[1].set_yscale("log")
    for axis in (*(axes.xaxis for axes in figure.axes), figure.axes[1].yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    figure.axes[0].legend(fontsize=8)
    return figure


def main() -> None:
    """Run what has not been run yet, and show all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1000, 3000, 10000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--part", default="test", help="what is parsed")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--text")
    parser.add_argument("--classes", action="store_true", help="learn no more than classes of words from the text")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture")
    parser.add_argument("--records", action="store_true", help="write runs of the default as records")
    options = parser.parse_args()
    packages = "matplotlib" if options.picture else ""
    require(treebanks=[options.directory], parts=("train", options.part), files=[options.text], packages=packages)
    results = []
    if options.results is not None and options.results.exists():
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    text = options.text and Path(options.text).name
    shown = {"treebank": options.directory.name, "part": options.part, "first": options.first, "text": text}
    shown["classes"] = options.classes
    trees, test = part_of(options.directory, "train"), part_of(options.directory, options.part)
    for size in options.sizes:
        part = chosen(trees, size, options.first)
        for method in options.methods:
            for seed in options.seeds if method != "pcfg" else options.seeds[:1]:
                key = {**shown, "method": method, "size": len(part), "seed": seed}
                if any(key.items() <= row.items() for row in results):
                    continue
                results.append(key | run(part, test, method, seed, options.text, options.classes))
                if options.records and method == DEFAULT:
                    write_record(options.directory, results[-1], options.text and Path(options.text))
                if options.results is not None:
                    with options.results.open("a") as file:
                        file.write(json.dumps(results[-1]) + "\n")
    results = [row for row in results if shown.items() <= row.items()]
    sizes = sorted({row["size"] for row in results})
    content = table(results, options.methods, sizes)
    print(content)
    if options.markdown is not None:
        options.markdown.write_text(content + "\n")
    if options.picture is not None:
        save_picture(options.picture, lambda: draw(results, options.methods, options.part))


if __name__ == "__main__":
    main()
