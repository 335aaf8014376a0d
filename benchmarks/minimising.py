"""What smaller grammars cost and gain: size, speed and F1 of grammars that people parse with, minimised.

    python benchmarks/minimising.py DIRECTORY... [--models DIRECTORY] [--results FILE.jsonl] [--records]
        [--methods split-merge ...] [--seeds 0 1 2] [--contenders NAME...] [--sentences N] [--picture FILE.svg]

Each directory has train.mrg, dev.mrg and test.mrg. Grammars are trained as `sapwood train --dev` does; with `--models`
they are kept in that directory as TREEBANK.METHOD.SEED.sapwood, and taken from there if they are there already. All
contenders made from one grammar take turns, 20 sentences each; the processor time of one thread counts, on test. Then
means over seeds are printed. With `--results` the results of each grammar are appended as soon as they are known, and
those that are there are not measured again.

With `--records`, what `sapwood minimise --trees` makes by default is written to benchmarks/results.jsonl for each seed,
as `wsj-sample/split-merge-minimised`. This takes two contenders, "as trained" and the default.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import _records
from _requirements import PARTS, require
from sapwood.automata import truncate
from sapwood.automata.reduce.truncation import corpus_for
from sapwood.evaluate import Scorer, get_parameters
from sapwood.grammar.coarsen import coarsen
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.parser import PRUNING_THRESHOLD
from sapwood.model import ParserModel
from sapwood.pipeline.compress import compress
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.trees import Corpus, Tree
from sapwood.trees.formats.registry import read_trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TURN = 20
# How each method is asked for its usual grammar, and for a smaller one.
_TRAINED = {
    "split-merge": ([], ["--set", "cycles=4"]),
    "pivot+em": (["--states", "24"], ["--states", "12"]),
    "em": (["--states", "16"], ["--states", "8"]),
}
# Names of their records, and the contender that `sapwood minimise` makes by default.
_RECORDED = {"split-merge": "split-merge", "pivot+em": "pivot+em-24", "em": "em-16"}
ORIGINAL, DEFAULT = "as trained", "merging and closing, threshold 5e-5"
LEGEND = {"half": "no merging, smaller weights", "closing": "closing alone", "merging": "merging (and closing)"}
_Maker = Callable[[TensorGrammar, Corpus], ParserModel]


def _merging(**settings: Any) -> _Maker:
    return lambda grammar, corpus: compress(grammar, corpus, method="merging", **settings)


def _projection(**settings: Any) -> _Maker:
    return lambda grammar, corpus: ParserModel.from_grammars(
        truncate(grammar, weighting="trees", corpus=corpus, **settings).grammar
    )


# The grammar as it is, and trained with fewer states, are made elsewhere. A threshold behind a name is that of parsing;
# without one it is the usual one, whatever `compress` tells the model.
CONTENDERS: dict[str, _Maker | None] = {
    "as trained": None,
    "as trained, threshold 5e-5": None,
    "as trained, threshold 1e-4": None,
    "half precision alone": _merging(budget=1.0, min_probability=0.0, cell_recall=1.0),
    "least 1e-5 alone": _merging(budget=1.0, cell_recall=1.0),
    "closing alone": _merging(budget=1.0, min_probability=0.0, half_precision=False),
    "merging alone": _merging(cell_recall=1.0),
    "merging and closing": _merging(),
    "merging and closing, open 0.995": _merging(cell_recall=0.995),
    "merging and closing, open 0.98": _merging(cell_recall=0.98),
    "merging and closing, budget 0.5": _merging(budget=0.5),
    "merging and closing, budget 0.3": _merging(budget=0.3),
    "merging and closing, work 8": _merging(work=8),
    "merging and closing, threshold 3e-5": _merging(),
    "merging and closing, threshold 4e-5": _merging(),
    "merging and closing, threshold 5e-5": _merging(),
    "merging and closing, threshold 1e-4": _merging(),
    "projection, work 8": _projection(work=8),
    "trained with fewer": None,
    "one state each": lambda grammar, _: ParserModel.from_grammars(coarsen(grammar)[0]),
}


def trained(options: argparse.Namespace, directory: Path, method: str, seed: int, *, fewer: bool) -> Path:
    """Return the path of a grammar, which is trained if it is not there."""
    path = options.models / f"{directory.name}.{method}{'.fewer' if fewer else ''}.{seed}.sapwood"
    if not path.exists():
        data = [str(directory / "train.mrg"), "--dev", str(directory / "dev.mrg")]
        command = [sys.executable, "-m", "sapwood", "train", *data, "--method", method, *_TRAINED[method][fewer]]
        command += ["--seed", str(seed), "--threads", "1", "-q", "-o", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def take_turns(parsers: Mapping[str, Parser], trees: Sequence[Tree]) -> dict[str, tuple[float, float]]:
    """Return F1 and processor milliseconds a sentence of each parser."""
    scorers = {name: Scorer(get_parameters("default")) for name in parsers}
    seconds = dict.fromkeys(parsers, 0.0)
    for begin in range(0, len(trees), _TURN):
        turn = trees[begin : begin + _TURN]
        for name, parser in parsers.items():
            began = time.thread_time()
            found = [parser.parse_one(tree.words()) for tree in turn]
            seconds[name] += time.thread_time() - began
            for tree, result in zip(turn, found, strict=True):
                scorers[name].add(tree, result.tree)
    return {name: (scorers[name].result().to_dict()["f1"], 1000 * seconds[name] / len(trees)) for name in parsers}


def stored_size(model: ParserModel) -> int:
    """Return the bytes of the model's file."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model"
        model.save(path)
        return path.stat().st_size


def measure(options: argparse.Namespace, directory: Path, method: str, seed: int) -> list[dict[str, Any]]:
    """Return a row for each contender made from one grammar."""
    full = ParserModel.load(trained(options, directory, method, seed, fewer=False))
    corpus = corpus_for(full.grammar, read_trees(directory / "train.mrg"))
    models: dict[str, ParserModel] = {}
    for name in options.contenders:
        make, same = CONTENDERS[name], name.partition(", threshold")[0]
        if name != same and same in models:
            models[name] = models[same]
        elif make is not None:
            models[name] = make(full.grammar, corpus)
        elif same == "as trained":
            models[name] = full
        else:
            models[name] = ParserModel.load(trained(options, directory, method, seed, fewer=True))
    parsers = {}
    for name, model in models.items():
        parsers[name] = Parser(model, threshold=float(name.partition("threshold ")[2] or PRUNING_THRESHOLD))
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for part in ("dev", "test"):  # after dev, the parsers have met most words
        read = map(full.grammar.normaliser, read_trees(directory / f"{part}.mrg"))
        trees = [tree for tree in read if tree is not None]
        found[part] = take_turns(parsers, trees[:: max(1, len(trees) // (options.sentences or len(trees)))])
    return [
        {
            "treebank": directory.name, "method": method, "seed": seed, "contender": name,
            "states": int(model.grammar.states.sum()), "weights": int(np.count_nonzero(model.grammar.tensors)),
            "bytes": stored_size(model), "dev": found["dev"][name][0], "test": found["test"][name][0],
            "ms": found["test"][name][1],
        }
        for name, model in models.items()
    ]  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return means over seeds, and how each contender compares with the grammar as trained, by seed."""
    by_run = {(row["treebank"], row["method"], row["seed"], row["contender"]): row for row in rows}
    cells = dict.fromkeys((row["treebank"], row["method"], row["contender"]) for row in rows)
    found = []
    for treebank, method, contender in cells:
        own = [row for key, row in by_run.items() if (key[0], key[1], key[3]) == (treebank, method, contender)]
        full = [by_run[treebank, method, row["seed"], "as trained"] for row in own]
        pairs = list(zip(own, full, strict=True))
        lost = [mine["test"] - its["test"] for mine, its in pairs]
        found.append(
            {
                "treebank": treebank, "method": method, "contender": contender, "seeds": len(own),
                **{name: float(np.mean([row[name] for row in own])) for name in ("states", "weights", "bytes", "ms")},
                **{name: float(np.mean([row[name] for row in own])) for name in ("dev", "test")},
                "lost_dev": float(np.mean([mine["dev"] - its["dev"] for mine, its in pairs])),
                "lost": float(np.mean(lost)), "least": min(lost), "most": max(lost),
                "smaller": float(np.mean([its["bytes"] / mine["bytes"] for mine, its in pairs])),
                "faster": float(np.mean([its["ms"] / mine["ms"] for mine, its in pairs])),
            }
        )  # fmt: skip
    return found


def print_summary(found: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each treebank and method."""
    for treebank, method in dict.fromkeys((row["treebank"], row["method"]) for row in found):
        rows = [row for row in found if (row["treebank"], row["method"]) == (treebank, method)]
        print(f"\n{treebank}, {method}, mean of {rows[0]['seeds']} seeds\n")
        print("| | states | weights | MB | smaller | ms a sentence | faster | dev F1 | test F1 | test, by seed |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row['contender']} | {row['states']:,.0f} | {row['weights']:,.0f} | {row['bytes'] / 1e6:.1f} | "
                f"{row['smaller']:.1f} | {row['ms']:.2f} | {row['faster']:.2f} | {row['lost_dev']:+.2f} | "
                f"{row['test']:.2f} ({row['lost']:+.2f}) | {row['least']:+.2f} to {row['most']:+.2f} |"
            )


def write_record(directory: Path, method: str, seed: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the default of `sapwood minimise`, compared with the grammar as trained, as a record."""
    full, made = (next(row for row in rows if row["contender"] == name) for name in (ORIGINAL, DEFAULT))
    figures = {
        "dev_f1": made["dev"], "test_f1": made["test"], "gain_f1": made["test"] - full["test"],
        "smaller": full["bytes"] / made["bytes"], "faster": full["ms"] / made["ms"], "file_mb": made["bytes"] / 1e6,
        "parse_ms_warm": made["ms"],
    }  # fmt: skip
    record = _records.measured(
        f"{directory.name}/{_RECORDED[method]}-minimised", figures, seed=seed,
        command=f"python benchmarks/minimising.py DATA/{directory.name} --methods {method} --seeds {seed} "
        f"--contenders '{ORIGINAL}' '{DEFAULT}' --records",
        data=_records.digest_files([directory / f"{part}.mrg" for part in PARTS]), describes={"kind": "minimise"},
        note="ratios to the grammar as trained; all contenders timed in turn",
    )  # fmt: skip
    _records.add(record)


def draw(found: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw what is lost in F1 against what is gained in size and in speed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    marks = {"as": "v", "half": "s", "least": "s", "closing": "D", "merging": "o", "projection": "^", "trained": "x"}
    cells = list(dict.fromkeys((row["treebank"], row["method"]) for row in found))
    for panel, gain, label in zip(panels, ("smaller", "faster"), ("times smaller file", "times as fast"), strict=True):
        for row in found:
            kind = row["contender"].split()[0].rstrip(",")
            if kind in marks and row["contender"] != "as trained":
                colour = COLOURS[cells.index((row["treebank"], row["method"]))]
                panel.plot(row[gain], row["lost"], marks[kind], color=colour, markersize=5)
        panel.axhline(-0.2, color="grey", linewidth=0.6, linestyle=":")
        panel.set_xlabel(label)
        panel.set_xscale("log")
    for number, (treebank, method) in enumerate(cells):
        panels[0].plot([], [], "-", color=COLOURS[number], label=f"{treebank}, {method}")
    for name in ("as trained, other threshold", "half", "closing", "merging", "projection", "trained with fewer"):
        panels[1].plot(
            [], [], marks[name.split()[0].rstrip(",")], color="grey", linestyle="", label=LEGEND.get(name, name)
        )
    panels[0].set_ylabel("test F1, change")
    panels[0].set_ylim(bottom=max(-4.0, min((row["lost"] for row in found), default=0) - 0.2))
    for panel in panels:
        panel.legend(frameon=False, fontsize=7)
    return figure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIRECTORY")
    parser.add_argument("--models", type=Path, help="directory for the trained grammars")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--methods", nargs="+", choices=list(_TRAINED), default=["split-merge", "pivot+em"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--sentences", type=int, default=0, help="the most sentences to parse; 0: all")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--records", action="store_true", help="write the default of `sapwood minimise` as records")
    options = parser.parse_args()
    require(treebanks=options.directories, packages="matplotlib" if options.picture else "")
    if options.records and (options.sentences or not {ORIGINAL, DEFAULT} <= {*options.contenders}):
        parser.error(f"--records takes all sentences, and the contenders {ORIGINAL!r} and {DEFAULT!r}")
    rows: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(row["treebank"], row["method"], row["seed"]) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        options.models = options.models or Path(folder)
        for directory, method, seed in product(options.directories, options.methods, options.seeds):
            if (directory.name, method, seed) in done:
                continue
            rows += (new := measure(options, directory, method, seed))
            if options.results is not None:
                with options.results.open("a") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in new)
            if options.records:
                write_record(directory, method, seed, new)
    found = summary(rows)
    print_summary(found)
    if options.picture:
        save_picture(options.picture, lambda: draw(found))


if __name__ == "__main__":
    main()
