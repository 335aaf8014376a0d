"""Learning without trees: what each model finds in a treebank's sentences, beside what costs nothing to know.

    python benchmarks/without_trees.py DIRECTORY [DIRECTORY ...] [--from tags words] [--lengths 10 40] [--seeds 0 1 2]
        [--sentences N] [--results FILE.jsonl] [--minutes M] [--markdown FILE] [--picture FILE.svg]

All trees of a directory (*.mrg, *.mrg.gz) are taken for what they are without brackets: their sentences, punctuation
left out by its tags. A model is learned from the sentences of up to 10 words, or from those of up to 40, and scored on
these same sentences: nothing of the trees is used before. Where there are more than `--sentences` to learn from, or
more than `--most` to score, evenly spaced ones are taken.
So it is done in the literature since Klein and Manning (2002). The figures are theirs, too: F1 of spans without labels
over all sentences together, the whole sentence counted, single words not (`sapwood.evaluate.unlabelled`); the stricter
ones are in the results file. Heads are by our head rules, for English or, of icepahc, for Icelandic.

Settings are the defaults of `sapwood induce` but for lengths. Where chance plays a part each seed is run, and tables
have the mean and the standard deviation. Seconds are the processor's, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _requirements import require
from sapwood.evaluate.unlabelled import UnlabelledResult
from sapwood.induction.em_model import Iteration
from sapwood.induction.evaluation import Gold, score_baselines, score_model
from sapwood.induction.learners import make_inducer
from sapwood.induction.text import Text, make_text, read_sentences
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.runtime.executor import LOCAL
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Lengths of the stages, by the longest sentences.
STAGES = {10: (10,), 40: (10, 15, 20, 40)}
# Model and settings by row; whether seeds make a difference; the longest sentences that it is learned from.
Row = tuple[str, dict[str, Any], bool]
MODELS: dict[str, Row] = {
    "pcfg": ("pcfg", {}, True),
    "pcfg-i": ("pcfg-i", {}, True),
    "pcfg-ie": ("pcfg-ie", {}, True),
    "dep-i": ("dep-i", {}, True),
    "dep-ie": ("dep-ie", {}, True),
    "dep-ies": ("dep-ies", {}, True),
    "ccm": ("ccm", {}, False),
    "dmv, p = 1": ("dmv", {"distance_power": 1.0}, False),
    "dmv, random start": ("dmv", {"start": "random"}, True),
    "dmv": ("dmv", {}, False),
    "dmv+ccm": ("dmv+ccm", {}, False),
    "tensor-pcfg, random start": ("tensor-pcfg", {"start": "random"}, True),
    "tensor-pcfg, right start": ("tensor-pcfg", {"start": "right"}, True),
    "tensor-pcfg, ccm start": ("tensor-pcfg", {"start": "ccm"}, True),
    "tensor-pcfg": ("tensor-pcfg", {}, True),
}
# Of sentences of up to 40 words: the best of those above, and what was learned from short ones alone.
LONG = ("ccm", "dmv", "dmv+ccm", "tensor-pcfg")
SHORT_ONLY = ("ccm", "dmv+ccm")
BASELINES = (
    "left-branching",
    "right-branching",
    "balanced",
    "random trees",
    "heads before",
    "heads behind",
    "random heads",
)
# Head rules of treebanks that are not English.
HEADS = {"icepahc": "icelandic"}
KEYS = ("treebank", "row", "source", "longest", "seed")
FIGURES = ("f1", "precision", "recall", "proper_f1", "sentence_f1", "directed", "undirected")
# What tables are made of, and what Klein and Manning (2004) have for the whole Wall Street Journal, 7,422 sentences.
TITLES = {"f1": "F1", "directed": "directed accuracy"}
PUBLISHED = {
    (10, "f1"): {
        "left-branching": 28.7,
        "right-branching": 61.7,
        "random trees": 34.7,
        "ccm": 71.9,
        "dmv": 52.1,
        "dmv+ccm": 77.6,
    },
    (10, "directed"): {
        "heads before": 24.0,
        "heads behind": 33.6,
        "random heads": 30.1,
        "dmv": 43.2,
        "dmv+ccm": 47.5,
    },
}
# Those that were written down from memory, and not found again in a table of a later paper; tables mark them.
FROM_MEMORY = {
    (10, "f1"): {"dmv"},
    (10, "directed"): {"heads before", "heads behind", "random heads", "dmv", "dmv+ccm"},
}
DRAWN = ("left-branching", "random trees", "right-branching", "pcfg", "ccm", "dmv", "dmv+ccm", "tensor-pcfg")


class Treebank:
    """The sentences of a directory, and what is right for them."""

    def __init__(self, directory: Path, sentences: int, most: int) -> None:
        self.name, self._sentences, self._most = directory.name, sentences, most
        files = sorted([*directory.glob("*.mrg"), *directory.glob("*.mrg.gz")])
        rules = HeadRules.named(HEADS.get(directory.name, "english"))
        self.trees = [tree for path in files for tree in read_sentences(path) if isinstance(tree, Tree)]
        self.gold = [one for tree in self.trees if (one := Gold.of_tree(tree, rules)) is not None]

    @cached_property
    def tagged(self) -> Text:
        """The sentences as tags."""
        return make_text([one.tokens for one in self.gold], tags=True)

    @cached_property
    def _worded(self) -> tuple[Text, float]:
        began = time.process_time()
        return make_text(self.trees), time.process_time() - began

    def text(self, source: str, longest: int) -> Text:
        """Return what is learned from: tags, or classes of the words (found with punctuation, from all sentences)."""
        whole = self.tagged if source == "tags" else self._worded[0]
        part = whole.up_to(longest)
        step = -(-part.n_sentences // self._sentences)
        return part.part(np.arange(0, part.n_sentences, step))

    def reading(self, source: str) -> float:
        """Return the seconds that classes took."""
        return 0.0 if source == "tags" else self._worded[1]

    def scored(self, longest: int) -> list[Gold]:
        """Return the sentences to score: all that are learned from, or evenly spaced ones of these."""
        rows = [one for one in self.gold if len(one.tokens) <= longest]
        rows = rows[:: -(-len(rows) // self._sentences)]
        return rows[:: -(-len(rows) // self._most)]


def figures_of(result: UnlabelledResult) -> dict[str, Any]:
    """Return the figures, and the interval of the first."""
    first = "f1" if result.has_spans else "directed"
    low, high = result.interval(first, resamples=1000)
    return {"sentences": result.sentences, "interval": [low, high]} | {
        name: getattr(result, name) for name in result.figures
    }


def measure(treebank: Treebank, row: str, source: str, longest: int, seed: int) -> dict[str, Any]:
    """Learn a model and score it."""
    found = {"treebank": treebank.name, "row": row, "source": source, "longest": longest, "seed": seed}
    gold = treebank.scored(longest)
    if row in BASELINES:
        heads = "heads" in row
        result = score_baselines(gold, heads=heads, random_state=seed)[row]
        return found | {"seconds": 0.0, **figures_of(result)}
    name, settings, _ = MODELS[row]
    lengths = STAGES[10] if row in SHORT_ONLY else STAGES.get(longest, (longest,))
    text = treebank.text(source, longest)
    began = time.process_time()
    model = make_inducer(name, **settings, lengths=lengths, random_state=seed).fit(text)
    seconds = time.process_time() - began
    result = score_model(model, gold, tags=source == "tags")
    more = {"log_likelihood": model.info.get("log_likelihood"), "iterations": model.info.get("iterations")}
    more |= {"learned_from": text.n_sentences, "classes_seconds": treebank.reading(source)}
    return found | {"seconds": seconds, **more, **figures_of(result)}


def speed(treebank: Treebank, longest: int) -> dict[str, Any]:
    """Return the processor's seconds of one iteration over all sentences: ten states, and heads."""
    from sapwood.induction.models.dmv import DMVProblem
    from sapwood.induction.models.pcfg import PCFGProblem
    from sapwood.induction.models.tensor_pcfg import TensorPCFGProblem

    shared = (treebank.tagged, (longest,), LOCAL, "smoothed")
    problems = {
        "tensor-pcfg, 10 states": TensorPCFGProblem(
            *shared, states=10, rank=20, prior=0.1, odds=None, warmup=0, warmup_decay=0
        ),
        "pcfg, 10 states": PCFGProblem(*shared, states=10, prior=0.1),
        "dmv": DMVProblem(*shared, start="harmonic", power=2.0, prior=0.1),
    }
    part = treebank.tagged.up_to(longest)
    found: dict[str, Any] = {"treebank": treebank.name, "row": "speed", "longest": longest, "source": "tags", "seed": 0}
    found |= {"sentences": part.n_sentences, "words": len(part.word), "terminals": len(part.terminals)}
    for name, problem in problems.items():
        theta = problem.distributions(problem.begin(np.random.default_rng(0)))
        problem.shards(0)
        began = time.process_time()
        problem.expect(theta, Iteration(0, 0, 0))
        found[name] = time.process_time() - began
    return found


def wanted(rows: Sequence[str], sources: Sequence[str], lengths: Sequence[int], seeds: Sequence[int]) -> list[tuple]:
    """Return what is to be measured: row, source, longest, seed."""
    found = []
    for longest in lengths:
        for source in sources:
            for row in rows:
                if row in BASELINES and source != sources[0]:
                    continue
                if row not in BASELINES and longest > 10 and row not in LONG:
                    continue
                if source == "words" and row not in (*BASELINES, *LONG):
                    continue
                chance = "random" in row if row in BASELINES else MODELS[row][2]
                found += [(row, source, longest, seed) for seed in (seeds if chance else seeds[:1])]
    return found


def cell(results: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return a mean and, of several, the standard deviation."""
    values = [result[name] for result in results if name in result]
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def table(results: Sequence[Mapping[str, Any]], longest: int, figure: str) -> str:
    """Return a table of one figure in Markdown, a column for each treebank and source."""
    kept = [one for one in results if one["longest"] == longest and figure in one]
    banks = list(dict.fromkeys(one["treebank"] for one in kept))
    columns = [
        (bank, source)
        for bank in banks
        for source in ("tags", "words")
        if any(one["treebank"] == bank and one["source"] == source and one["row"] in MODELS for one in kept)
    ]
    doubtful = FROM_MEMORY.get((longest, figure), set())
    published = {
        row: f"{value} †" if row in doubtful else f"{value}"
        for row, value in PUBLISHED.get((longest, figure), {}).items()
    }
    heading = [*(f"{bank}, {source}" for bank, source in columns), *(["Penn Treebank, tags"] if published else [])]
    lines = [f"| {TITLES[figure]} | " + " | ".join(heading) + " |", "|---|" + "---:|" * len(heading)]
    for row in (*BASELINES, *MODELS):
        cells = []
        for bank, source in columns:
            own = [one for one in kept if (one["treebank"], one["row"]) == (bank, row)]
            cells.append(cell([one for one in own if row in BASELINES or one["source"] == source], figure))
        if any(cells):
            cells += [published.get(row, "")] if published else []
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
    counts = {bank: next(one["sentences"] for one in kept if one["treebank"] == bank) for bank in banks}
    scored = ", ".join(f"{count:,} of {bank}" for bank, count in counts.items())
    return f"Sentences of up to {longest} words ({scored} scored):\n\n" + "\n".join(lines)


def speed_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the seconds of iterations in Markdown."""
    rows = [result for result in results if result["row"] == "speed"]
    if not rows:
        return ""
    names = [name for name in rows[0] if "," in name or name == "dmv"]
    lines = [
        "| up to 40 words | sentences | words | " + " | ".join(names) + " |",
        "|---|---:|---:|" + "---:|" * len(names),
    ]
    lines += [
        f"| {row['treebank']} | {row['sentences']:,} | {row['words']:,} | "
        + " | ".join(f"{row[n]:.2f}" for n in names)
        + " |"
        for row in rows
    ]
    return "Processor's seconds of an iteration, one thread:\n\n" + "\n".join(lines)


def draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw F1 by model, a panel for each treebank and length."""
    from matplotlib.figure import Figure

    kept = [result for result in results if result["row"] in DRAWN and "f1" in result]
    banks = list(dict.fromkeys(result["treebank"] for result in kept))
    lengths = sorted({result["longest"] for result in kept})
    figure = Figure(figsize=(3.2 * len(banks) + 0.8, 2.4 * len(lengths) + 0.6), layout="constrained")
    axes = figure.subplots(len(lengths), len(banks), squeeze=False, sharey=True)
    for across, bank in enumerate(banks):
        for down, longest in enumerate(lengths):
            panel = axes[down][across]
            shown = [row for row in DRAWN if any(_is(r, bank, row, longest) for r in kept)]
            for offset, source, colour in ((-0.2, "tags", COLOURS[0]), (0.2, "words", COLOURS[4])):
                places, heights = [], []
                for place, row in enumerate(shown):
                    own = [
                        r["f1"] for r in kept if _is(r, bank, row, longest) and r["source"] == source and row in MODELS
                    ]
                    if own:
                        places.append(place + offset)
                        heights.append(statistics.mean(own))
                        panel.plot([place + offset] * len(own), own, ".", color="#000000", markersize=3, zorder=3)
                panel.bar(places, heights, width=0.36, color=colour, label=f"from {source}")
            free = [(place, row) for place, row in enumerate(shown) if row in BASELINES]
            means = [statistics.mean(r["f1"] for r in kept if _is(r, bank, row, longest)) for _, row in free]
            panel.bar([place for place, _ in free], means, width=0.5, color="#9a9a9a", label="without learning")
            if "right-branching" in shown:
                right = means[[row for _, row in free].index("right-branching")]
                panel.axhline(right, color=COLOURS[1], linewidth=1, linestyle="--")
            panel.set_xticks(range(len(shown)), shown, rotation=40, ha="right", fontsize=7)
            panel.set_ylim(0, 100)
            panel.set_title(f"{bank}, up to {longest} words", fontsize=9)
            if across == 0:
                panel.set_ylabel("F1 without labels")
    axes[0][0].legend(frameon=False, fontsize=7, loc="upper left")
    return figure


def _is(result: Mapping[str, Any], bank: str, row: str, longest: int) -> bool:
    return (result["treebank"], result["row"], result["longest"]) == (bank, row, longest)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--from", dest="sources", nargs="+", choices=["tags", "words"], default=["tags", "words"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[10, 40])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", choices=[*BASELINES, *MODELS], default=[*BASELINES, *MODELS])
    parser.add_argument(
        "--sentences", type=int, default=10**9, help="learn from evenly spaced ones where there are more"
    )
    parser.add_argument("--most", type=int, default=4000, help="score evenly spaced sentences where there are more")
    parser.add_argument("--no-speed", action="store_true", help="do not time single iterations")
    parser.add_argument("--results", type=Path, help="append each result here, and use those that are there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing later than that")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    require(treebanks=options.directory, packages="matplotlib" if options.picture else "")
    lines = options.results.read_text("utf-8").splitlines() if options.results and options.results.exists() else []
    found = {tuple(one[key] for key in KEYS): one for one in map(json.loads, lines)}
    results, done = [*found.values()], set(found)
    began = time.monotonic()

    def keep(result: dict[str, Any]) -> None:
        results.append(result)
        shown = {name: round(result[name], 1) for name in (*FIGURES, "seconds") if name in result}
        print(*(result[key] for key in KEYS), shown, file=sys.stderr, flush=True)
        if options.results:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")

    for directory in options.directory:
        asked = wanted(options.rows, options.sources, options.lengths, options.seeds)
        todo = [one for one in asked if (directory.name, *one) not in done]
        if not options.no_speed and (directory.name, "speed", "tags", max(options.lengths), 0) not in done:
            todo.append(("speed", "tags", max(options.lengths), 0))
        if not todo:
            continue
        treebank = Treebank(directory, options.sentences, options.most)
        for row, source, longest, seed in todo:
            if time.monotonic() - began > 60 * options.minutes:
                break
            keep(speed(treebank, longest) if row == "speed" else measure(treebank, row, source, longest, seed))
    names = {directory.name for directory in options.directory}
    shown = [result for result in results if result["treebank"] in names]
    tables = [table(shown, longest, figure) for longest in options.lengths for figure in TITLES]
    text = "\n\n".join([*tables, speed_table(shown)]).rstrip()
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    if options.picture:
        save_picture(options.picture, lambda: draw(shown))


if __name__ == "__main__":
    main()
