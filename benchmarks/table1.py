"""Table 1 of Cohen and Collins (2014) on open data: EM, spectral, pivot, pivot+EM, and the learners they did not have.

    python benchmarks/table1.py DIRECTORY [DIRECTORY ...] [--states 8 16 24 32] [--methods ...]
        [--json FILE] [--markdown FILE] [--picture FILE.svg]

Each directory has train.mrg, dev.mrg and test.mrg. All choices are made on dev: how long EM goes on, the weight of
smoothing in spectral learning, and the number of states of each method's entry for test. EM from a random start is
evaluated every 5 iterations, as nothing happens faster there; EM from clusters or pivots after each. The figure below
a score is the number of iterations to it. Training time is wall clock, reading included, evaluation not.

With `--json` each result is written as soon as it is known, and a second run goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from _treebank import Treebank
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Learner and settings by row; split-merge finds its own number of states.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "EM": ("em", {"stop": "f1", "iterations": 60, "every": 5, "patience": 3}),
    "spectral": ("spectral", {}),
    "pivot": ("pivot", {}),
    "pivot+EM": ("pivot+em", {"iterations": 20}),
    "cluster": ("cluster", {}),
    "cluster+EM": ("cluster", {"iterations": 20, "every": 1, "patience": 3}),
    "split-merge": ("split-merge", {}),
}
STARTS = {"EM": "random", "cluster+EM": "clusters", "pivot+EM": "pivots"}


class Trace:
    """Keeps what is measured on dev."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: Any) -> None:  # noqa: ARG002
        """Keep the score of a step."""
        if event == "dev":
            self.points.append((step, float(figures["f1"])))


def measure(treebank: Treebank, method: str, states: int | None) -> dict[str, Any]:
    """Train one grammar and score it."""
    name, settings = METHODS[method]
    if states is not None:
        settings = {**settings, "states": states}
    trace = Trace()
    grammars, seconds = treebank.train(name, log=trace, **settings)
    best = max(trace.points, key=lambda point: (point[1], -point[0]))
    return {
        "treebank": treebank.directory.name,
        "method": method,
        "states": states,
        "dev": best[1],
        "iterations": best[0] if method in STARTS else None,
        "trace": trace.points,
        "seconds": seconds,
        "test": treebank.score(grammars, "test", treebank.threads),
    }


def table(results: Sequence[Mapping[str, Any]], states: Sequence[int]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| treebank | method | " + " | ".join(f"m = {m}" for m in states) + " | test | train s |",
        "|---|---|" + "---|" * (len(states) + 2),
    ]
    for name in dict.fromkeys(result["treebank"] for result in results):
        for method in METHODS:
            own = [result for result in results if result["treebank"] == name and result["method"] == method]
            if not own:
                continue
            by_states = {result["states"]: result for result in own}
            best = max(own, key=lambda result: result["dev"])
            alone = by_states.get(None)
            cells = (
                [_cell(by_states.get(m)) for m in states]
                if alone is None
                else [_cell(alone)] + [""] * (len(states) - 1)
            )
            times = " / ".join(f"{result['seconds']:.0f}" for result in sorted(own, key=lambda r: r["states"] or 0))
            lines.append(f"| {name} | {method} | " + " | ".join(cells) + f" | {best['test']['f1']:.2f} | {times} |")
    return "\n".join(lines)


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "-"
    return f"{result['dev']:.2f}" + (f" ({result['iterations']})" if result["iterations"] is not None else "")


def draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw dev F1 against EM iterations from the three starts: a row for each treebank, a panel for each size."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(result["treebank"] for result in results))
    sizes = sorted({result["states"] for result in results if result["states"]})
    figure = Figure(figsize=(2.6 * len(sizes) + 0.6, 2.5 * len(names) + 0.5), layout="constrained")
    axes = figure.subplots(len(names), len(sizes), squeeze=False, sharey="row", sharex=True)
    for row, name in enumerate(names):
        for column, size in enumerate(sizes):
            panel = axes[row][column]
            for colour, (method, start) in zip(COLOURS, STARTS.items(), strict=False):
                for result in results:
                    if (result["treebank"], result["states"], result["method"]) == (name, size, method):
                        steps, scores = zip(*result["trace"], strict=True)
                        panel.plot(steps, scores, color=colour, marker=".", markersize=4, label=f"from {start}")
            panel.set_title(f"{name}, m = {size}", fontsize=9)
            if column == 0:
                panel.set_ylabel("dev F1")
            if row == len(names) - 1:
                panel.set_xlabel("EM iterations")
    axes[0][0].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--states", nargs="+", type=int, default=[8, 16, 24, 32])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--threads", type=int, default=2, help="for training and parsing")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    done = {(result["treebank"], result["method"], result["states"]) for result in results}
    for directory in options.directory:
        wanted = [
            (method, m)
            for m in (*options.states, None)
            for method in options.methods
            if (m is None) == (method == "split-merge") and (directory.name, method, m) not in done
        ]
        if not wanted:
            continue
        treebank = Treebank(directory, options.threads)
        for method, states in wanted:
            results.append(measure(treebank, method, states))
            print(_line(results[-1]), file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    shown = [result for result in results if result["treebank"] in {directory.name for directory in options.directory}]
    text = table(shown, options.states)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    if options.picture:
        save_picture(options.picture, lambda: draw(shown))


def _line(result: Mapping[str, Any]) -> str:
    return (
        f"{result['treebank']} {result['method']} {result['states'] or ''}: dev {_cell(result)}, "
        f"test {result['test']['f1']:.2f}, {result['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
