"""Unmixing and EM on many random models (Hsu, Kakade and Liang 2012, section 5).

    python benchmarks/unmixing_study.py [--models 20] [--concentration 1 0.3] [--lengths 3] [--results FILE]

Models are drawn at random, all distributions from Dirichlet distributions of these concentrations, and sentences from
each, the same number of each length. Their parameters are estimated

- as in the paper: by the base algorithm alone (`refine=False`), where there is one,
- by unmixing: the base algorithm, a few random starts, and a weighted fit of all moments,
- by unmixing, and EM from where it ended,
- by EM from ten random starts, of which the most probable end counts (not with `--without-em`).

Given are quantiles over models of the largest error of any parameter, states matched; how often the log-likelihood of
unmixing + EM is no lower than that of EM (by 0.01, on all sentences together), and how often the error is no larger;
processor seconds; and how often unmixing warned that the sentences do not tell the parameters. Rows are appended to the
file of results one by one, and not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _requirements import require
from sapwood.errors import SapwoodError
from sapwood.identifiability import MODELS, Sentences, fit_em, make_model, unmix
from sapwood.runtime.progress import Bars, track
from unmixing import error

METHODS = ("base algorithm", "unmixing", "unmixing + EM", "EM, best of 10")
# Log-likelihoods that differ by less are the same: EM ends where an iteration gains less than 1e-9 for each sentence.
SAME = 0.01


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Return errors, log-likelihoods and times of all methods on one random model."""
    model = make_model(task["model"], task["words"], task["states"])
    truth = model.random(np.random.default_rng([task["seed"], 0]), task["concentration"])
    rng, lengths = np.random.default_rng([task["seed"], 1]), task["lengths"]
    groups = [model.sample(truth, length, task["sentences"] // len(lengths), rng).words for length in lengths]
    sentences: Any = groups[0] if len(groups) == 1 else [row for group in groups for row in group.tolist()]
    row: dict[str, Any] = {**task, "errors": {}, "likelihoods": {}, "seconds": {}}

    def note(method: str, found: Any, began: float, likelihood: float | None = None) -> None:
        row["seconds"][method] = time.process_time() - began
        row["errors"][method] = error(found, truth)
        row["likelihoods"][method] = likelihood

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        try:
            base = unmix(model, Sentences(sentences, model.words), refine=False)
            note("base algorithm", base.parameters, began)
        except SapwoodError:
            pass  # there is none, or none of its candidates is finite
        began = time.process_time()
        found = unmix(model, Sentences(sentences, model.words))
        note("unmixing", found.parameters, began)
    assert found.evidence is not None
    row |= {"base": found.base, "largest_standard_error": min(found.evidence.largest_error, 1e9)}
    row |= {"warned": len(found.evidence.warnings), "fits": found.evidence.fits}
    if not task["without_em"]:
        polished = fit_em(model, sentences, start=found.parameters, iterations=400)
        note("unmixing + EM", polished.parameters, began, polished.log_likelihoods[-1])
        began = time.process_time()
        best = fit_em(model, sentences, restarts=task["restarts"], iterations=400)
        note("EM, best of 10", best.parameters, began, best.log_likelihoods[-1])
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return a summary as Markdown: a table for each concentration."""
    lines = []
    for concentration in dict.fromkeys(row["concentration"] for row in rows):
        chosen = [row for row in rows if row["concentration"] == concentration]
        lines += [f"Concentration {concentration:g}, {len(chosen)} models:", ""]
        lines += ["| | 10 % | median | 90 % | errors below 0.1 | seconds |", "|---|---:|---:|---:|---:|---:|"]
        for method in METHODS:
            errors = [row["errors"][method] for row in chosen if method in row["errors"]]
            if errors:
                quantiles = "".join(f" {value:.3f} |" for value in np.quantile(errors, [0.1, 0.5, 0.9]))
                seconds = np.median([row["seconds"][method] for row in chosen if method in row["seconds"]])
                few = sum(value < 0.1 for value in errors)
                lines.append(f"| {method} |{quantiles} {few} | {seconds:.2f} |")
        lines.append("")
        told = [row for row in chosen if not row["warned"]]
        lines.append(f"Unmixing warned on {len(chosen) - len(told)} of {len(chosen)} models.")
        for words, group in (("with", [row for row in chosen if row["warned"]]), ("without", told)):
            if group:
                median = np.median([row["errors"]["unmixing"] for row in group])
                lines.append(f"Its median error {words} a warning is {median:.3f}.")
        both = [row for row in chosen if "EM, best of 10" in row["errors"]]
        if both:
            gains = [row["likelihoods"]["unmixing + EM"] - row["likelihoods"]["EM, best of 10"] for row in both]
            nearer = sum(row["errors"]["unmixing + EM"] <= row["errors"]["EM, best of 10"] for row in both)
            part = np.median([row["seconds"]["unmixing + EM"] / row["seconds"]["EM, best of 10"] for row in both])
            lines.append(
                f"Unmixing + EM is at least as probable as EM on {sum(gain >= -SAME for gain in gains)} of "
                f"{len(both)} models, nearer to the truth on {nearer}, in {part:.3f} of the time (median)."
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Unmixing and EM on many random models.")
    parser.add_argument("--model", choices=MODELS, default="pcfg-ie")
    parser.add_argument("--words", type=int, default=6)
    parser.add_argument("--states", type=int, default=3, help="0 for models without hidden states")
    parser.add_argument("--lengths", type=int, nargs="+", default=[3])
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--concentration", type=float, nargs="+", default=[1.0, 0.3])
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=10, help="of EM")
    parser.add_argument("--without-em", action="store_true")
    parser.add_argument("--results", type=Path, help="append rows here, and take those that are there")
    arguments = parser.parse_args()
    require(outputs=[arguments.results])
    options = {name: value for name, value in vars(arguments).items() if name not in ("results", "models")}
    options["states"] = options["states"] or None
    tasks = [
        {**options, "concentration": concentration, "seed": seed}
        for concentration in arguments.concentration
        for seed in range(arguments.models)
    ]
    known: list[dict[str, Any]] = []
    if arguments.results and arguments.results.exists():
        known = [json.loads(line) for line in arguments.results.read_text(encoding="utf-8").splitlines()]
    rows = []
    for task in track(tasks, Bars(), "models", len(tasks)):
        row = next((row for row in known if all(row[name] == value for name, value in task.items())), None)
        if row is None:
            row = measure(task)
            if arguments.results:
                with arguments.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        rows.append(row)
    print(table(rows))


if __name__ == "__main__":
    main()
