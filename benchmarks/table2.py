"""Table 2 of Cohen and Collins (2014) on the Brown corpus: perplexity by method and number of states.

    python benchmarks/table2.py BROWN.txt[.gz] [--states 2 4 ..] [--quick] [--markdown F] [--json F] [--picture F]

The corpus is one sentence a line, split as the paper splits it (see `_brown`). The first half of dev chooses the number
of iterations and all weights of mixtures; figures are for its second half, and the test column for the number of states
that is best on the first half. Words seen once in training are `<unk>`, which is not predicted. `smoothed` are
Dirichlet priors on the states of words and on the words of states (`--prior`, `--word-prior`; both chosen on the first
half of dev); the paper's rows have none.

Pivot's concave problem is solved in the rows *converged*, as the paper has it (to 1e-6 of the objective, or to `--most`
iterations), and left where the first half of dev is best in the rows *stopped*, which is another algorithm. `pivot+em`
does one iteration of it, *from converged* solves it.

Seconds are wall clock, for the whole of learning with all measurements on dev. Numbers in brackets are iterations to
the best: of EM, behind those of the concave problem of pivot; for stepwise EM, which changes the parameters 16 times in
each, passes over the counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from _brown import DEV, TRAIN, Split, brown_split
from _requirements import require
from sapwood.lm.counts.counts import count_text
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.lm.latent.mixed_order import MixedOrderMarkov
from sapwood.lm.mixture import Mixture
from sapwood.lm.ngram.kneser_ney import KneserNey
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = (2, 4, 8, 16, 32, 128, 256)
# Second half of dev by number of states, and test.
PAPER: dict[str, tuple[dict[int, int], int]] = {
    "em": (dict(zip(STATES, (737, 599, 488, 468, 430, 388, 365), strict=True)), 364),
    "pivot, converged": (dict(zip(STATES, (852, 718, 605, 559, 537, 426, 597), strict=True)), 560),
    "pivot+em": (dict(zip(STATES, (758, 582, 502, 425, 374, 310, 327), strict=True)), 357),
}
PAPER_NGRAMS = {"bi-KN": (408, 415), "tri-KN": (386, 394)}
# Of stepwise EM.
BATCHES = 16
EDGES = (3, 10, 30, 100, 300, 1000, 3000, 10000)


class Study:
    """The corpus, and what was measured on it."""

    def __init__(self, path: Path, threads: int, train: int, dev: int) -> None:
        self.split: Split = brown_split(path, train=train, dev=dev)
        self.threads = threads
        size, train = len(self.split.vocabulary), self.split.train
        ones = np.ones(len(train) - 1, np.int64)
        self.bigrams = scipy.sparse.csr_array(scipy.sparse.coo_array((ones, (train[:-1], train[1:])), (size, size)))
        self.found: list[dict[str, Any]] = []
        self.best: dict[str, tuple[float, Any]] = {}
        self.converged: dict[int, Any] = {}

    def measure(self, row: str, learn: Callable[[], Any], **labels: Any) -> Any:
        """Learn a model, note its figures, and keep it if it is the row's best on the first half of dev."""
        began = time.perf_counter()
        model = learn()
        seconds = time.perf_counter() - began
        split = self.split
        info = getattr(model, "info", {})
        figures = {
            "row": row,
            **labels,
            "dev_first": model.perplexity(split.dev_first),
            "dev": model.evaluate(split.dev_second).perplexity,
            "test": model.perplexity(split.test),
            "iterations": info.get("iterations"),
            "pivot_iterations": info.get("pivot_iterations"),
            "seconds": seconds,
        }
        self.found.append(figures)
        if row not in self.best or figures["dev_first"] < self.best[row][0]:
            self.best[row] = figures["dev_first"], model
        text = ", ".join(f"{name} {value:.1f}" for name, value in figures.items() if isinstance(value, float))
        print(f"{row} {labels or ''}: {text}", file=sys.stderr, flush=True)
        return model

    def latent(self, row: str, states: int, **settings: Any) -> None:
        """Measure one cell of the table."""
        converged = settings.pop("converged", False)
        learner = AggregateMarkov(states=states, threads=self.threads, **settings)
        words, dev = self.split.vocabulary, self.split.dev_first

        def learn() -> Any:
            if not converged:
                return learner.fit(self.bigrams, vocabulary=words, dev=dev)
            # Without held-out text the concave problem is solved to the tolerance.
            if states not in self.converged:
                pivot = replace(learner, method="pivot")
                self.converged[states] = pivot.fit(self.bigrams, vocabulary=words)
            model = self.converged[states]
            if learner.method == "pivot":
                return model
            em = replace(learner, method="em", states=model.given.shape[1])
            found = em.fit(self.bigrams, vocabulary=words, dev=dev, init=model)
            return replace(found, info={**found.info, "pivot_iterations": model.info["pivot_iterations"]})

        self.measure(row, learn, states=states)

    def ngrams(self, order: int) -> Any:
        """Measure the Kneser-Ney baselines; returns the best model."""
        with tempfile.TemporaryDirectory() as folder:
            paths = self.split.write(folder, stream=True)
            counts = count_text(paths["train"], order=order, min_count=2, boundaries="stream")
        if counts.vocabulary != self.split.vocabulary:
            raise SystemExit("the counts have other words than the split")
        for number, name in ((2, "bi-KN"), (3, "tri-KN"), (4, "4-KN")):
            if number <= order:
                for modified in (False, True):
                    learner = KneserNey(order=number, modified=modified)
                    self.measure(name + (", modified" if modified else ""), lambda learner=learner: learner.fit(counts))
        return self.best["tri-KN, modified"][1]

    def combined(self, states: int, lags: int, settings: dict[str, Any]) -> None:
        """Measure the mixtures."""
        split = self.split
        latent = [self.best[f"{name}, smoothed"][1] for name in ("em", "pivot+em", "stepwise em")]
        mixed = self.measure(
            "mixed order",
            lambda: MixedOrderMarkov(lags=lags, states=states, threads=self.threads, **settings).fit(
                split.train, split.vocabulary, dev=split.dev_first
            ),
            states=states,
            lags=lags,
        )
        trigrams = self.best["tri-KN, modified"][1]
        best = min(latent, key=lambda model: model.info["dev_perplexity"])
        sets = {
            "best latent + tri-KN": [best, trigrams],
            "all latent + tri-KN": [*latent, mixed, trigrams],
        }
        for name, models in sets.items():
            self.measure(name, lambda models=models: Mixture.fit(models, split.dev_first, edges=EDGES))

    def markdown(self, states: list[int]) -> str:
        """Return the tables."""
        lines = [
            f"| method | {' | '.join(f'm = {m}' for m in states)} | test |",
            "|---|" + "---|" * (len(states) + 1),
        ]
        rows = dict.fromkeys(cell["row"] for cell in self.found if "states" in cell and "lags" not in cell)
        for row in rows:
            cells = {cell["states"]: cell for cell in self.found if cell["row"] == row}
            if row in PAPER:
                paper, test = PAPER[row]
                lines.append(f"| {row}, paper | {' | '.join(str(paper.get(m, '')) for m in states)} | {test} |")
            shown = [f"{cells[m]['dev']:.0f} ({_iterations(cells[m])})" if m in cells else "" for m in states]
            best = min(cells.values(), key=lambda cell: cell["dev_first"])
            lines.append(f"| {row} | {' | '.join(shown)} | {best['test']:.0f} (m = {best['states']}) |")
        lines += ["", "| model | dev | test | paper: dev | test |", "|---|---|---|---|---|"]
        for cell in self.found:
            if "states" not in cell or "lags" in cell:
                paper_dev, paper_test = PAPER_NGRAMS.get(cell["row"], ("", ""))
                lines.append(f"| {cell['row']} | {cell['dev']:.1f} | {cell['test']:.1f} | {paper_dev} | {paper_test} |")
        lines += ["", f"| seconds | {' | '.join(f'm = {m}' for m in states)} |", "|---|" + "---|" * len(states)]
        for row in rows:
            cells = {cell["states"]: cell for cell in self.found if cell["row"] == row}
            seconds = [f"{cells[m]['seconds']:.1f}" if m in cells else "" for m in states]
            lines.append(f"| {row} | {' | '.join(seconds)} |")
        return "\n".join(lines) + "\n"

    def draw(self, path: Path) -> None:
        """Draw perplexity by number of states, the paper's with broken lines."""
        save_picture(path, self._figure)

    def _figure(self) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        rows = dict.fromkeys(cell["row"] for cell in self.found if "states" in cell and "lags" not in cell)
        methods = list(dict.fromkeys(row.removesuffix(", smoothed") for row in rows))
        for row in rows:
            colour = COLOURS[methods.index(row.removesuffix(", smoothed")) % len(COLOURS)]
            cells = [cell for cell in self.found if cell["row"] == row]
            x = [cell["states"] for cell in cells]
            filled = "white" if row.endswith("smoothed") else colour
            axes.plot(
                x, [cell["dev"] for cell in cells], "o-", color=colour, markerfacecolor=filled, markersize=4, label=row
            )
            if row in PAPER:
                paper = {m: value for m, value in PAPER[row][0].items() if m in x}
                axes.plot(list(paper), list(paper.values()), "--", color=colour, linewidth=1, label=f"{row}, paper")
        for name, style in (("tri-KN, modified", ":"), ("all latent + tri-KN", "-.")):
            cells = [cell for cell in self.found if cell["row"] == name]
            if cells:
                axes.axhline(cells[0]["dev"], color="#404040", linewidth=1, linestyle=style, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(list(STATES), [str(m) for m in STATES])
        axes.set_yticks([250, 300, 400, 500, 600, 800], ["250", "300", "400", "500", "600", "800"])
        axes.minorticks_off()
        axes.set_xlabel("states")
        axes.set_ylabel("perplexity, second half of dev")
        axes.legend(fontsize=7, ncols=2, frameon=False)
        return figure


def _iterations(cell: dict[str, Any]) -> str:
    return f"{cell['pivot_iterations']}+{cell['iterations']}" if cell["pivot_iterations"] else str(cell["iterations"])


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--states", type=int, nargs="+", default=list(STATES))
    parser.add_argument("--quick", action="store_true", help="up to 32 states, no mixtures of many")
    parser.add_argument("--prior", type=float, default=3.0)
    parser.add_argument("--word-prior", type=float, default=100.0)
    parser.add_argument(
        "--anchor-shrinkage", type=float, default=500.0, help="how much rare words are held back among anchors"
    )
    parser.add_argument("--most", type=int, default=200, help="the most iterations of the concave problem")
    parser.add_argument("--rows", nargs="+", help="these alone, and no other models")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train", type=int, default=TRAIN, help="tokens to train on, the first ones")
    parser.add_argument("--dev", type=int, default=DEV, help="tokens for development, the next ones")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    require(files=[options.corpus], packages="matplotlib" if options.picture else "")
    states = [m for m in options.states if m <= 32 or not options.quick]
    study = Study(options.corpus, options.threads, options.train, options.dev)
    smoothed = {"prior": options.prior, "word_prior": options.word_prior}
    if not options.rows:
        study.ngrams(3 if options.quick else 4)
    for suffix, settings in (("", {"prior": 0.0, "word_prior": 0.0}), (", smoothed", smoothed)):
        anchors = {**settings, "anchor_shrinkage": options.anchor_shrinkage}
        rows: dict[str, dict[str, Any]] = {
            "em": {"method": "em", **settings},
            "pivot, converged": {"method": "pivot", "converged": True, "pivot_iterations": options.most, **anchors},
            "pivot, stopped": {"method": "pivot", "pivot_iterations": options.most, **anchors},
            "pivot+em": {"method": "pivot+em", **anchors},
            "pivot+em, from converged": {
                "method": "pivot+em",
                "converged": True,
                "pivot_iterations": options.most,
                **anchors,
            },
        }
        for row, own in rows.items():
            if (options.rows and row + suffix not in options.rows) or (suffix and "converged" in own):
                continue
            for m in states:
                study.latent(row + suffix, m, **own)
        if options.rows:
            continue
        for m in states:
            study.latent("stepwise em" + suffix, m, stepwise_batches=BATCHES, **settings)
    if not options.rows:
        study.combined(max(states), 2 if options.quick else 3, smoothed)
    table = study.markdown(states)
    print(table)
    if options.markdown:
        options.markdown.write_text(table, "utf-8")
    if options.json:
        options.json.write_text(json.dumps(study.found, indent=1), "utf-8")
    if options.picture:
        study.draw(options.picture)


if __name__ == "__main__":
    main()
