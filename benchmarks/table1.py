"""Table 1 of Cohen and Collins (2014) on open data: EM, spectral, pivot, pivot+EM, and the learners they did not have.

    python benchmarks/table1.py DIRECTORY [DIRECTORY ...] [--states 8 16 24] [--seeds 0 1 2] [--methods ...]
        [--trees N] [--records] [--results FILE.jsonl] [--minutes M] [--markdown FILE] [--picture FILE.svg]

Each directory has train.mrg, dev.mrg and test.mrg (or .mrg.gz; without a test part, every second block of 50 trees of
dev takes its place). Every cell is run with every seed, and the table has the mean and
the standard deviation over seeds. What learners share is the same for all (`SHARED`): how many occurrences a symbol
must have for each state, and how far states are drawn towards each other after each iteration of EM. All choices are
made on dev, for each seed by itself: how long EM goes on, and the weight of smoothing in spectral learning; the number
of states of a method's entry for test is that with the best mean on dev. EM from a random start is evaluated every 5
iterations, as nothing happens faster there; EM from clusters or pivots after each. Numbers in brackets are iterations
to the best grammar, on average. Training time is that of the processor, reading included, evaluation not.

With `--records` each result is written to benchmarks/results.jsonl as soon as it is known, as `gum/table1-em-8` and so
on, and cells that have a record are not run again; records do not keep the curves of `--picture`.

With `--results` each result is appended to a file, and a second run goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _records
from _requirements import require
from _treebank import Treebank
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What all learners of a fixed number of states have in common, as far as they know of it.
SHARED: dict[str, Any] = {"min_support": 30}
SMOOTHING: dict[str, Any] = {"smoothing": 0.03, "lexical_smoothing": 0.1, "smoothing_half_count": 0.0}
FROM_RANDOM: dict[str, Any] = {"stop": "f1", "iterations": 60, "eval_every": 5, "patience": 3}
FROM_START: dict[str, Any] = {"iterations": 20, "eval_every": 1, "patience": 3}

# Learner and settings by row; split-merge finds its own number of states.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "EM": ("em", {**SHARED, **SMOOTHING, **FROM_RANDOM}),
    "EM, no smoothing": ("em", {**SHARED, **FROM_RANDOM, "smoothing": 0.0, "lexical_smoothing": 0.0}),
    "spectral": ("spectral", SHARED),
    "pivot": ("pivot", {**SHARED, **SMOOTHING}),
    "pivot+EM": ("pivot+em", {**SHARED, **SMOOTHING, **FROM_START}),
    "cluster": ("cluster", {**SHARED, **SMOOTHING}),
    "cluster+EM": ("cluster", {**SHARED, **SMOOTHING, **FROM_START}),
    "split-merge": ("split-merge", SMOOTHING),
}
USUAL = [method for method in METHODS if method != "EM, no smoothing"]
STARTS = {"EM": "random", "cluster+EM": "clusters", "pivot+EM": "pivots"}
CAPTION = (
    "Dev F1, mean and standard deviation of {seeds} seeds, in brackets the iterations of EM to it; test F1 with the "
    "number of states that is best on dev. Decoder: max-rule, as for all grammars. Smoothing of EM, pivot, cluster "
    "and split-merge: 3 per cent of a state's rules and 10 of its words are the mean of its symbol's states (none in "
    "the row that says so); of spectral: C of 10, 20 or 30 by dev. One state for 30 occurrences at most "
    "(split-merge: 4). Seconds are the processor's, one for each m."
)


class Trace:
    """Keeps what is measured on dev."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: Any) -> None:  # noqa: ARG002
        """Keep the score of a step."""
        if event == "dev":
            self.points.append((step, float(figures["f1"])))


def measure(treebank: Treebank, method: str, states: int | None, seed: int) -> dict[str, Any]:
    """Train one grammar and score it."""
    name, settings = METHODS[method]
    if states is not None:
        settings = {**settings, "states": states}
    trace = Trace()
    grammars, seconds = treebank.train(name, log=trace, **settings, random_state=seed)
    best = max(trace.points, key=lambda point: (point[1], -point[0]))
    iterated = method != "split-merge" and "iterations" in settings
    return {
        "treebank": treebank.name,
        "method": method,
        "states": states,
        "seed": seed,
        "dev": best[1],
        "iterations": best[0] if iterated else None,
        "trace": trace.points,
        "seconds": seconds,
        "commit": _records.commit(),
        "test": treebank.score(grammars, "test", treebank.threads),
    }


def record_name(treebank: str, method: str, states: int | None) -> str:
    """Return the id of the record of a cell."""
    name = f"{treebank}/table1-{method.lower().replace(', ', '-').replace(' ', '-')}"
    return f"{name}-{states}" if states else name


def digest(directory: Path) -> str:
    """Return the digest of the parts of a treebank."""
    return _records.digest_files(
        path for part in ("train", "dev", "test") for path in sorted(directory.glob(f"{part}.mrg*"))[:1]
    )


def write_record(directory: Path, trees: int | None, result: Mapping[str, Any]) -> None:
    """Write a result as a record."""
    method, states, seed = (result[name] for name in ("method", "states", "seed"))
    options = f"--seeds {seed} --methods '{method}'" + (f" --states {states}" if states else "")
    options += f" --trees {trees}" if trees else ""
    figures = {"dev_f1": result["dev"], "test_f1": result["test"]["f1"], "test_exact": result["test"]["exact"]}
    figures |= {"train_cpu_s": result["seconds"]}
    figures |= {} if result["iterations"] is None else {"iterations": result["iterations"]}
    record = _records.measured(
        record_name(result["treebank"], method, states), figures, seed=seed,
        command=f"python benchmarks/table1.py DATA/{directory.name} {options} --records",
        data=digest(directory), describes=None, commit=result["commit"],
    )  # fmt: skip
    _records.add(record)


def read_records(
    records: Iterable[_records.Record], treebank: str, data: str, cells: Iterable[tuple[str, int | None, int]]
) -> list[dict[str, Any]]:
    """Return the results of those cells that have a record of this script on this data."""
    known = {
        (one["id"], one["seeds"][0]): one
        for one in records
        if one["data"] == data and "source" not in one and len(one["seeds"]) == 1
    }
    found = []
    for method, states, seed in cells:
        if record := known.get((record_name(treebank, method, states), seed)):
            figures = record["figures"]
            found.append({
                "treebank": treebank, "method": method, "states": states, "seed": seed, "dev": figures["dev_f1"],
                "iterations": figures.get("iterations"), "trace": [], "seconds": figures["train_cpu_s"],
                "commit": record["commit"], "test": {"f1": figures["test_f1"], "exact": figures["test_exact"]},
            })  # fmt: skip
    return found


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Return mean and standard deviation."""
    found = list(values)
    text = f"{statistics.fmean(found):.{digits}f}"
    return text if len(found) < 2 else f"{text} ± {statistics.stdev(found):.{digits}f}"


def table(results: Sequence[Mapping[str, Any]], states: Sequence[int]) -> str:
    """Return the table in Markdown, with its caption."""
    seeds = len({result["seed"] for result in results})
    lines = [
        CAPTION.format(seeds=seeds),
        "",
        "| treebank | method | " + " | ".join(f"m = {m}" for m in states) + " | test | exact | train s |",
        "|---|---|" + "---|" * (len(states) + 3),
    ]
    for name in dict.fromkeys(result["treebank"] for result in results):
        for method in METHODS:
            cells: dict[int | None, list[Mapping[str, Any]]] = {}
            for result in results:
                if (result["treebank"], result["method"]) == (name, method) and result["states"] in (*states, None):
                    cells.setdefault(result["states"], []).append(result)
            if not cells:
                continue
            best = max(cells.values(), key=lambda cell: statistics.fmean(result["dev"] for result in cell))
            if None in cells:
                shown = [_cell(cells[None])] + [""] * (len(states) - 1)
            else:
                shown = [_cell(cells[m]) if m in cells else "not run" for m in states]
            times = " / ".join(
                f"{statistics.fmean(result['seconds'] for result in cells[m]):.0f}"
                for m in sorted(cells, key=lambda m: m or 0)
            )
            test, exact = (spread(result["test"][figure] for result in best) for figure in ("f1", "exact"))
            lines.append(f"| {name} | {method} | " + " | ".join(shown) + f" | {test} | {exact} | {times} |")
    return "\n".join(lines)


def _cell(results: Sequence[Mapping[str, Any]]) -> str:
    text = spread(result["dev"] for result in results)
    if results[0]["iterations"] is None:
        return text
    return text + f" ({statistics.fmean(result['iterations'] for result in results):.0f})"


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
                label: str | None = f"from {start}"
                for result in results:
                    cell = (result["treebank"], result["states"], result["method"])
                    if cell == (name, size, method) and result["trace"]:
                        steps, scores = zip(*result["trace"], strict=True)
                        panel.plot(steps, scores, color=colour, marker=".", markersize=3, linewidth=1, label=label)
                        label = None  # one entry of the legend for all seeds
            panel.set_title(f"{name}, m = {size}", fontsize=9)
            if column == 0:
                panel.set_ylabel("dev F1")
            if row == len(names) - 1:
                panel.set_xlabel("EM iterations")
    axes[0][0].legend(frameon=False, fontsize=8)
    return figure


def read_results(path: Path | None) -> list[dict[str, Any]]:
    """Return what earlier runs have measured."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--states", nargs="+", type=int, default=[8, 16, 24])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=USUAL)
    parser.add_argument("--records", action="store_true", help="write results as records, and use those that are there")
    parser.add_argument("--trees", type=int, help="train on this number of trees, evenly spaced")
    parser.add_argument("--threads", type=int, default=1, help="for training and parsing")
    parser.add_argument("--results", type=Path, help="append each result here, and use those that are there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell later than that")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    require(treebanks=options.directory, packages="matplotlib" if options.picture else "")
    results = read_results(options.results)
    began = time.monotonic()
    names: list[str] = []
    cells = [
        (method, m, seed)
        for m in (*options.states, None)
        for method in options.methods
        for seed in options.seeds
        if (m is None) == (method == "split-merge")
    ]
    for directory in options.directory:
        name = directory.name if options.trees is None else f"{directory.name}-{options.trees}"
        names.append(name)
        mine = [result for result in results if result["treebank"] == name]
        done = {(result["method"], result["states"], result["seed"]) for result in mine}
        if options.records:
            for result in mine:
                write_record(directory, options.trees, result)
            measured = read_records(
                _records.read(), name, digest(directory), [cell for cell in cells if cell not in done]
            )
            done |= {(result["method"], result["states"], result["seed"]) for result in measured}
            results += measured
        wanted = [cell for cell in cells if cell not in done]
        if not wanted:
            continue
        treebank = Treebank(directory, options.threads, time.process_time, options.trees)
        for method, states, seed in wanted:
            if time.monotonic() - began > 60 * options.minutes:
                break
            results.append(measure(treebank, method, states, seed))
            print(_line(results[-1]), file=sys.stderr, flush=True)
            if options.records:
                write_record(directory, options.trees, results[-1])
            if options.results:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    chosen = {
        "treebank": names,
        "seed": options.seeds,
        "method": options.methods,
        "states": [*options.states, None],
    }
    shown = [result for result in results if all(result[key] in values for key, values in chosen.items())]
    if not shown:
        raise SystemExit("nothing was measured")
    text = table(shown, options.states)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    if options.picture:
        save_picture(options.picture, lambda: draw(shown))


def _line(result: Mapping[str, Any]) -> str:
    return (
        f"{result['treebank']} {result['method']} {result['states'] or ''} seed {result['seed']}: "
        f"dev {_cell([result])}, test {result['test']['f1']:.2f}, {result['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
