"""How fast unmixing finds parameters, and where EM ends (Hsu, Kakade and Liang 2012, section 5).

    python benchmarks/unmixing.py [--sentences 1000 10000 100000] [--repetitions 5] [--json FILE] [-o PICTURE.svg]

Sentences are drawn from two known models, `pcfg-ie` with 6 words and 3 states (length 3) and `dep-ies` with 6 words
(lengths 2 and 3), and their parameters estimated

- by unmixing,
- by EM from a random start,
- by EM from ten random starts (dep-ies, where all end alike: three), of which the most probable end counts,
- by EM that starts where unmixing ended,
- by EM that starts at the truth: the nearest maximum of the likelihood, if EM has iterations enough to reach it.

The error is the largest difference of any parameter, for the best order of states; given are medians over samples (of
one start: over all random starts of all samples). The slope is that of log error against log number of sentences: -1/2
if all is well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _axes import fitted_slope, set_axes
from _requirements import require
from sapwood.errors import SapwoodError
from sapwood.identifiability import make_model
from sapwood.identifiability.algebra.simplices import Parameters
from sapwood.identifiability.em import fit_em
from sapwood.identifiability.models.base import Model
from sapwood.identifiability.unmixing.unmix import Sentences, UncertainAnswer, unmix
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.runtime.progress import Bars, track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("unmixing", "EM, one start", "EM, best start", "unmixing + EM", "EM from the truth")
MODELS = ("pcfg-ie", "dep-ies")
STARTS = {"pcfg-ie": 10, "dep-ies": 3}
ITERATIONS = {"pcfg-ie": 400, "dep-ies": 200}
# Slopes are fitted from here on.
ENOUGH = 10_000


def known(name: str) -> tuple[Model, dict[str, np.ndarray]]:
    """Return a model and the parameters to be found."""
    if name == "dep-ies":
        model = make_model("dep-ies", 6)
        return model, model.random(np.random.default_rng(6))
    words = np.full((6, 3), 0.025)
    for state in range(3):
        words[2 * state : 2 * state + 2, state] = 0.5, 0.4
    children = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    return make_model("pcfg-ie", 6, 3), {"pi": np.array([0.5, 0.3, 0.2]), "T": children, "O": words / words.sum(0)}


def draw(model: Model, truth: Parameters, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return sentences, an array for each length."""
    if model.states is not None:
        return [model.sample(truth, 3, count, rng).words]
    return [model.sample(truth, length, count // 2, rng).words for length in (2, 3)]


def error(found: Parameters, truth: Parameters) -> float:
    """Return the largest difference, for the best order of states."""
    if "O" not in truth:
        return max(float(np.abs(found[name] - truth[name]).max()) for name in truth)

    def ordered(name: str, order: tuple[int, ...]) -> np.ndarray:
        """Return a block with its states in this order: its columns, and those rows that are neither words nor ends."""
        array = found[name] if name in ("O", "S") else found[name][list(order)]
        return array if array.ndim == 1 else array[:, list(order)]

    return min(
        max(float(np.abs(ordered(name, order) - truth[name]).max()) for name in truth)
        for order in permutations(range(len(truth["pi"])))
    )


def measure(task: tuple[str, int, int, int]) -> dict[str, Any]:
    """Return the errors and times of all methods on one sample: of a model, so many sentences, a seed, iterations."""
    name, count, seed, iterations = task
    model, truth = known(name)
    groups = draw(model, truth, count, np.random.default_rng([seed, count]))
    sentences: Any = groups[0] if len(groups) == 1 else [row for group in groups for row in group.tolist()]
    row: dict[str, Any] = {"model": name, "sentences": count, "seed": seed, "errors": {}, "seconds": {}}

    def note(method: str, found: Parameters, began: float) -> None:
        row["errors"][method] = error(found, truth)
        row["seconds"][method] = time.process_time() - began

    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertainAnswer)
            start = unmix(model, Sentences(sentences, model.words)).parameters
    except SapwoodError:  # too few sentences
        start = model.random(np.random.default_rng(seed))
    note("unmixing", start, began)
    options: dict[str, Any] = {"iterations": iterations, "tolerance": 1e-9}
    began = time.process_time()
    note("unmixing + EM", fit_em(model, sentences, start=start, **options).parameters, began)
    began = time.process_time()
    runs = [fit_em(model, sentences, random_state=1000 * seed + number, **options) for number in range(STARTS[name])]
    best = max(runs, key=lambda run: run.log_likelihoods[-1])
    note("EM, best start", best.parameters, began)
    began = time.process_time()
    note("EM, one start", runs[0].parameters, began)
    row["seconds"]["EM, one start"] = row["seconds"]["EM, best start"] / STARTS[name]
    began = time.process_time()
    note("EM from the truth", fit_em(model, sentences, start=truth, **options).parameters, began)
    row["single"] = [error(run.parameters, truth) for run in runs]
    return row


def tables(rows: list[dict[str, Any]]) -> str:
    """Return the medians as Markdown."""
    lines = []
    for name in MODELS:
        chosen = [row for row in rows if row["model"] == name]
        counts = sorted({row["sentences"] for row in chosen})
        lines += [f"{name}:", "", "| sentences |" + "".join(f" {method} |" for method in METHODS)]
        lines.append("|---:|" + "---:|" * len(METHODS))
        for count in counts:
            medians = [median(chosen, count, method) for method in METHODS]
            lines.append(f"| {count:,} |" + "".join(f" {value:.4f} |" for value in medians))
        slopes = [slope(chosen, counts, method) for method in METHODS]
        lines.append("| slope |" + "".join(f" {value:.2f} |" for value in slopes))
        last = [row for row in chosen if row["sentences"] == counts[-1]]
        times = [float(np.median([row["seconds"][method] for row in last])) for method in METHODS]
        lines.append(f"| seconds at {counts[-1]:,} |" + "".join(f" {value:.1f} |" for value in times))
        lost = np.mean([value > 0.1 for row in last for value in row["single"]])
        lines += [
            "",
            f"At {counts[-1]:,} sentences {100 * lost:.0f} % of EM's random starts end with an error over 0.1.",
            "",
        ]
    return "\n".join(lines).rstrip()


def errors(rows: list[dict[str, Any]], count: int, method: str) -> list[float]:
    """Return the errors of a method: one for each sample, or for each random start."""
    chosen = [row for row in rows if row["sentences"] == count]
    if method == "EM, one start":
        return [value for row in chosen for value in row["single"]]
    return [row["errors"][method] for row in chosen]


def median(rows: list[dict[str, Any]], count: int, method: str) -> float:
    """Return the median error of a method."""
    return float(np.median(errors(rows, count, method)))


def slope(rows: list[dict[str, Any]], counts: list[int], method: str) -> float:
    """Return the slope of log error against log number of sentences."""
    return fitted_slope([(count, median(rows, count, method)) for count in counts], ENOUGH)


def figure_of(rows: list[dict[str, Any]]) -> Figure:
    """Return error against the number of sentences, a panel for each model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    panels = figure.subplots(1, len(MODELS), sharey=True)
    lines = []
    for panel, name in zip(panels, MODELS, strict=True):
        chosen = [row for row in rows if row["model"] == name]
        counts = sorted({row["sentences"] for row in chosen})
        lines = []
        for method, colour in zip(METHODS, (*COLOURS[:4], "#9a9a9a"), strict=True):
            found = np.array([errors(chosen, count, method) for count in counts])
            style = (0, (2, 2)) if method == METHODS[-1] else "solid"
            look: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3.5, "linewidth": 1.5}
            lines += panel.plot(counts, np.median(found, axis=1), linestyle=style, **look)
            if method != METHODS[-1]:
                panel.fill_between(counts, found.min(1), found.max(1), color=colour, alpha=0.12, linewidth=0)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("sentences")
    set_axes(*panels)
    panels[0].set_ylabel("largest error of a parameter")
    figure.legend(lines, METHODS, loc="outside lower center", ncols=len(METHODS), frameon=False, handlelength=2)
    return figure


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description="Unmixing and EM: parameter errors by the number of sentences.")
    parser.add_argument(
        "--sentences", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--iterations", type=int, help=f"of EM, at the most; by default {ITERATIONS}")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write all errors here")
    parser.add_argument("-o", "--output", type=Path, help="write a picture here (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    require(packages="matplotlib" if arguments.output else "")
    tasks = [
        (name, count, seed, arguments.iterations or ITERATIONS[name])
        for count in sorted(arguments.sentences, reverse=True)
        for name in MODELS
        for seed in range(arguments.repetitions)
    ]
    with ProcessPoolExecutor(arguments.workers) as pool:
        rows = list(track(pool.map(measure, tasks), Bars(), "samples", len(tasks)))
    print(tables(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows) + "\n", encoding="utf-8")
    if arguments.output:
        save_picture(arguments.output, lambda: figure_of(rows))


if __name__ == "__main__":
    main()
