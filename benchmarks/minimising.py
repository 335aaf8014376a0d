"""What fewer states cost and gain: a grammar with hidden states, minimised, against grammars trained with fewer.

    python benchmarks/minimising.py DIRECTORY --models DIRECTORY [--method em] [--states 16] [--sizes 2 4 6 8 12]
        [--weigh trees l2] [--budgets 0.3] [--part dev] [--json FILE] [--picture FILE.svg] [--sentences N]

The directory has train.mrg, dev.mrg and test.mrg. Grammars are trained as `sapwood train` does, kept in the directory
of models as METHOD-STATES.sapwood, and taken from there if they are there already. Each is scored on dev or test.
Speeds are ratios to the grammar that is minimised: all parsers take turns, 20 sentences each, and the processor time of
one thread counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.automata import minimise
from sapwood.evaluate import Scorer, get_parameters
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.trees import Corpus, Tree
from sapwood.trees.formats import read_trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TURN = 20


def trained(options: argparse.Namespace, states: int) -> TensorGrammar:
    """Return the grammar trained with so many states."""
    path = options.models / f"{options.method}-{states}.sapwood"
    if not path.exists():
        data = [str(options.directory / "train.mrg"), "--dev", str(options.directory / "dev.mrg")]
        command = [sys.executable, "-m", "sapwood", "train", *data, "--method", options.method]
        subprocess.run([*command, "--states", str(states), "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
    return TensorGrammar.load(path)


def take_turns(grammars: Mapping[str, TensorGrammar], trees: Sequence[Tree]) -> dict[str, tuple[float, float]]:
    """Return F1 and seconds of each grammar."""
    parsers = {name: Parser(grammar) for name, grammar in grammars.items()}
    scorers = {name: Scorer(get_parameters("default")) for name in grammars}
    seconds = dict.fromkeys(grammars, 0.0)
    for parser in parsers.values():
        parser.parse_one(["warm", "up"])
    for begin in range(0, len(trees), _TURN):
        turn = trees[begin : begin + _TURN]
        for name, parser in parsers.items():
            began = time.thread_time()
            found = [parser.parse_one(tree.words()) for tree in turn]
            seconds[name] += time.thread_time() - began
            for tree, result in zip(turn, found, strict=True):
                scorers[name].add(tree, result.tree)
    return {name: (scorers[name].result().to_dict()["f1"], seconds[name]) for name in grammars}


def draw(results: Sequence[Mapping[str, Any]], full: Mapping[str, Any]) -> Figure:
    """Draw F1 and speed against states."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, kind in enumerate(dict.fromkeys(result["kind"] for result in results)):
        rows = sorted((result["states"], result["f1"], result["speed"]) for result in results if result["kind"] == kind)
        rows.append((full["states"], full["f1"], 1.0))
        for panel, column in ((left, 1), (right, 2)):
            panel.plot([row[0] for row in rows], [row[column] for row in rows], "o-", color=COLOURS[number], label=kind)
    for panel, label in ((left, "F1"), (right, "speed, times that of all states")):
        panel.set_xlabel("states of each symbol")
        panel.set_ylabel(label)
    left.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--method", default="em")
    parser.add_argument("--states", type=int, default=16)
    parser.add_argument("--sizes", nargs="+", type=int, default=[2, 4, 6, 8, 12])
    parser.add_argument("--weigh", nargs="+", choices=["trees", "l2", "gamma"], default=["trees", "l2"])
    parser.add_argument("--work", nargs="*", type=int, default=[4, 6, 8, 12], help="work of so many states, by trees")
    parser.add_argument("--budgets", nargs="*", type=float, default=[0.3], help="parts of all states, by trees")
    parser.add_argument("--part", choices=["dev", "test"], default="dev", help="what to parse")
    parser.add_argument("--sentences", type=int, default=0, help="the most sentences to parse; 0: all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    full = trained(options, options.states)
    corpus = Corpus.from_trees(
        read_trees(options.directory / "train.mrg"), normaliser=full.normaliser, transform=full.transform
    )
    grammars = {"full": full}
    described: dict[str, tuple[str, int]] = {}
    settings: list[dict[str, Any]] = [
        {"weighing": weigh, "states": size} for weigh in options.weigh for size in options.sizes
    ]
    settings += [{"weighing": "trees", "work": work} for work in options.work]
    settings += [{"weighing": "trees", "budget": budget} for budget in options.budgets]
    for setting in settings:
        weigh, kind = setting["weighing"], next(name for name in setting if name != "weighing")
        name = f"{weigh} {kind} {setting[kind]}"
        grammars[name] = minimise(full, **setting, corpus=corpus if weigh == "trees" else None).grammar
        shown = {"states": f"minimised, {weigh}", "work": "minimised, trees, --work"}
        size = 0 if kind == "budget" else setting[kind]
        described[name] = (shown.get(kind, f"minimised, trees, --budget {setting[kind]}"), size)
    for size in options.sizes:
        grammars[f"trained {size}"] = trained(options, size)
        described[f"trained {size}"] = ("trained", size)
    read = map(full.normaliser, read_trees(options.directory / f"{options.part}.mrg"))
    trees = [tree for tree in read if tree is not None]
    if options.sentences:
        trees = trees[:: max(1, len(trees) // options.sentences)]
    measured = take_turns(grammars, trees)
    f1, seconds = measured["full"]
    whole = {"states": options.states, "f1": f1, "sentences_per_second": len(trees) / seconds}
    rows = []
    print(f"{options.directory.name}, {options.method}, {options.states} states: F1 {f1:.2f}, "
          f"{len(trees) / seconds:.1f} sentences/s, {len(full.tensors):,} weights")  # fmt: skip
    print("| | states | of all | weights | F1 | speed |\n|---|---|---|---|---|---|")
    for name, (kind, size) in described.items():
        score, took = measured[name]
        grammar = grammars[name]
        rows.append(
            {
                "kind": kind, "states": size, "all": int(grammar.states.sum()), "weights": len(grammar.tensors),
                "f1": score, "speed": seconds / took,
            }
        )  # fmt: skip
        share = grammar.states.sum() / full.states.sum()
        print(
            f"| {kind} | {size or ''} | {share:.0%} | {len(grammar.tensors):,} | {score:.2f} | {seconds / took:.2f} |"
        )
    if options.json:
        options.json.write_text(json.dumps({"full": whole, "rows": rows}, indent=1))
    if options.picture:
        save_picture(options.picture, lambda: draw([row for row in rows if row["states"]], whole))


if __name__ == "__main__":
    main()
