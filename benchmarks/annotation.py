"""How many actions it takes to annotate a sentence: with re-parsing, by editing the parser's tree, and from nothing.

    python benchmarks/annotation.py DIRECTORY [DIRECTORY ...] [--trees 0 50 500 all] [--seeds 0 1 2] [--sentences N]
                                    [--method METHOD] [--models FOLDER] [--picture FILE.svg]

Each directory has train.mrg and dev.mrg (or .mrg.gz). For each seed, a parser is trained on that many training trees,
drawn at random, and a simulated annotator (`benchmarks/_annotators.py`) corrects sentences of dev, drawn at random,
until they are gold. Without trees, sentences begin with a tree that branches to the right. Actions a sentence:

    nothing      all phrases and tags
    editing      editing the parser's tree
    moves        the same in an editor with moves
    corrections  re-parsing under the corrections
    reparsing    re-parsing under the corrections, and what the annotator has read before them

Each run is written to benchmarks/results.jsonl as soon as it has ended, and runs that are there already are skipped;
--again repeats them. With --models, models are kept in that folder, as TREEBANK-TREES-SEED.sapwood, and used again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import _records
from _annotators import Outline, correct, editing, editing_with_moves, wrong_tags
from _requirements import require
from sapwood.annotation.proposals import ParserProposer, Proposer, RightBranching
from sapwood.inference import Parser
from sapwood.pipeline.train import train
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.trees import Normaliser, Tree
from sapwood.trees.formats.registry import read_trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all"
# The annotator's order; in the other one, and with the other proposals, see `_annotators`.
ORDER = "bottom-up"
NAMES = {
    "nothing": "from nothing", "editing": "editing the parser's tree", "moves": "the same, with moves",
    "corrections": "re-parsing under corrections", "reparsing": "and what comes before them",
}  # fmt: skip


def part_of(directory: Path, name: str) -> Path:
    """Return the file of a part of a treebank."""
    plain = directory / f"{name}.mrg"
    return plain if plain.exists() else directory / f"{name}.mrg.gz"


def clean_trees(path: Path) -> list[Tree]:
    """Return the normalised trees of a file."""
    return [tree for tree in map(Normaliser(), read_trees(path)) if tree is not None]


def proposer_of(directory: Path, size: str, seed: int, method: str | None, folder: Path) -> Proposer:
    """Return the source of proposals that is trained on so many trees."""
    if size == "0":
        return RightBranching()
    path = folder / f"{directory.name}-{size}-{seed}.sapwood"
    if not path.exists():
        trees = list(read_trees(part_of(directory, "train")))
        order = np.random.default_rng(seed).permutation(len(trees))
        chosen = trees if size == ALL else [trees[place] for place in order[: int(size)]]
        train(chosen, method=method, seed=seed, threads=1).save(path)
    return ParserProposer(Parser(path))


def measure(proposer: Proposer, trees: Sequence[Tree]) -> dict[str, float]:
    """Return the mean numbers of actions."""
    rows = []
    for tree in trees:
        gold, words = Outline.of(tree), tree.words()
        first = Outline.of(proposer.start(words).tree)
        tags, phrases = wrong_tags(first, gold), sum(map(len, gold.chains.values()))
        rows.append(
            {
                "words": len(words),
                "nothing": phrases + len(words),
                "editing": editing(first.chains, gold.chains) + tags,
                "moves": editing_with_moves(first.chains, gold.chains, len(words)) + tags,
                "corrections": correct(proposer, tree, order=ORDER, confirm=False).actions,
                "reparsing": correct(proposer, tree, order=ORDER, confirm=True).actions,
                "tags": tags,
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def draw(figures: dict[str, dict[str, dict[str, float]]], sizes: Sequence[str]) -> Figure:
    """Draw actions a sentence by the number of trees, a panel for each treebank."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    panels: list[Any] = list(figure.subplots(1, len(figures), sharey=True, squeeze=False)[0])
    for panel, (treebank, rows) in zip(panels, figures.items(), strict=True):
        there = [size for size in sizes if size in rows]
        for colour, (name, title) in zip(COLOURS, NAMES.items(), strict=False):
            values = [rows[size][name] for size in there]
            panel.plot(there, values, marker="o", markersize=3.5, color=colour, label=title, linewidth=1.5)
        panel.set_title(treebank, fontsize=10)
        panel.set_xlabel("trees that the parser has learned from")
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("actions a sentence")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def record_id(treebank: str, size: str, method: str | None) -> str:
    """Return the id of the records of a size, and a method if it is not the default one."""
    return f"{treebank}/annotation-{size}" + (f"-{method}" if method and size != "0" else "")


def means(
    treebank: str, options: argparse.Namespace, records: Sequence[_records.Record]
) -> dict[str, dict[str, float]]:
    """Return the means over the seeds for each size that has records, of the method or else of another one."""
    found = {}
    for size in options.trees:
        wanted = record_id(treebank, size, options.method)
        plain = record_id(treebank, size, None)
        names = sorted({one["id"] for one in records if one["id"] == plain or one["id"].startswith(f"{plain}-")})
        name = wanted if wanted in names or not names else names[0]
        same = [one["figures"] for one in records if one["id"] == name]
        if same:
            found[size] = {name: float(np.mean([one[name] for one in same])) for name in same[0]}
    return found


def main() -> None:
    """Measure what has not been measured, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--trees", nargs="+", default=["0", "50", "500", ALL])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="none: only draw")
    parser.add_argument("--sentences", type=int, default=100, help="sentences of dev for each seed")
    parser.add_argument("--method", help="method of `sapwood train` (default: that of the size)")
    parser.add_argument("--models", type=Path, help="folder of models (default: they are not kept)")
    parser.add_argument("--picture", type=Path, help="draw the means over the seeds")
    parser.add_argument("--again", action="store_true", help="repeat runs that have records")
    parser.add_argument("--store", type=Path, default=_records.STORE, help="file of the records")
    options = parser.parse_args()
    require(treebanks=options.directory, parts=("train", "dev"), files=[options.models], outputs=[options.picture])
    print(f"| treebank | trees | seed | words | {' | '.join(NAMES)} | less |\n|{'---|' * (len(NAMES) + 5)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        for directory in options.directory:
            data = _records.digest_files([part_of(directory, "train"), part_of(directory, "dev")])
            dev = clean_trees(part_of(directory, "dev"))
            for size in options.trees:
                for seed in options.seeds:
                    name = record_id(directory.name, size, options.method)
                    if options.again or not _records.is_current(_records.read(options.store), name, seed, data):
                        proposer = proposer_of(directory, size, seed, options.method, folder)
                        order = np.random.default_rng([seed, 1]).permutation(len(dev))[: options.sentences]
                        figures = measure(proposer, [dev[place] for place in order])
                        command = (
                            f"python benchmarks/annotation.py DATA/{directory.name} --trees {size} --seeds {seed} "
                            f"--sentences {options.sentences}"
                        ) + (f" --method {options.method}" if options.method else "")
                        record = _records.measured(name, figures, seed=seed, command=command, data=data, describes=None)
                        _records.add(record, options.store)
                    show(name, directory.name, size, seed, options.store)
            for size, found in means(directory.name, options, _records.read(options.store)).items():
                print(f"| {directory.name} | {size} | mean | {cells(found)} |")
    if options.picture is not None:
        records = _records.read(options.store)
        every = {one.name: means(one.name, options, records) for one in options.directory}
        save_picture(options.picture, lambda: draw(every, options.trees))


def cells(figures: dict[str, float]) -> str:
    """Return the figures of a row; the last is how much less than editing re-parsing takes."""
    less = 100 * (1 - figures["reparsing"] / figures["editing"])
    return " | ".join([f"{figures[name]:.2f}" for name in ("words", *NAMES)]) + f" | {less:.0f} %"


def show(name: str, treebank: str, size: str, seed: int, store: Path) -> None:
    """Print the row of a run."""
    for one in _records.read(store):
        if one["id"] == name and one["seeds"] == [seed]:
            print(f"| {treebank} | {size} | {seed} | {cells(one['figures'])} |", flush=True)


if __name__ == "__main__":
    main()
