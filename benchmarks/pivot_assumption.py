"""How well pivot learning finds the parameters of a grammar, and what happens when the pivot assumption is broken.

    python benchmarks/pivot_assumption.py [--trees 100 1000 10000] [--epsilon 0 0.1] [--grammars 5] [--json] [-o P.svg]

Random L-PCFGs that satisfy the assumption of Cohen and Collins (2014), three states a symbol, are learned from by
figure 1 as it stands (`sapwood.research.pivot_algorithm`): one inside and one outside feature, no smoothing. States are
matched to the true ones (`match_grammars`), and the error is the mean total variation distance between a true state's
distribution, of its rules with the children's states or of its words, and the one that was learned: 0 if they are the
same, 1 if they have nothing in common. Figures are medians over grammars, one treebank each.

*Against M*: treebanks of M trees. *Against epsilon*: with probability epsilon a pivot is replaced by that of any state
of its symbol, and at the place of an outside pivot there is any state, so a feature that should belong to one state
occurs in all. With endless data (`learn_pivot`) the error is due to this alone. *Against alpha*: pivots that
belong to their state as they should but are rare in it, alpha being the least probability of an inside pivot.

Pivot learning writes zeros where a pivot excludes a state, and EM never changes a zero. So before EM goes on from
there, each state's distributions are drawn towards the mean of its symbol's by a part of `SOFT`, and children's states
towards all being alike by as much. Of 0.02 and 0.1, the latter did better where pivots leak; where they are rare, ten
iterations do not undo it. EM from one random start is there for comparison, and it need not have ended when it stops.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _axes import fitted_slope, set_axes
from _requirements import require
from _samples import UNSMOOTHED, draw
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.em import EM
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.research import match_grammars
from sapwood.research.pivot_algorithm import learn_from_statistics, observed_statistics
from sapwood.research.pivot_grammars import learn_pivot, random_pivot_grammar
from sapwood.trees.corpus import Corpus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = 3
SOFT = 0.1
# Iterations of EM from the pivot grammar, and from random ones.
SHORT, LONG = 10, 50
PIVOT, REFINED, RANDOM_SHORT, RANDOM, ENDLESS = (
    "pivot",
    f"pivot and {SHORT} iterations of EM",
    f"EM from a random start, {SHORT} iterations",
    f"EM from a random start, {LONG} iterations",
    "pivot, endless data",
)
METHODS = (PIVOT, REFINED, RANDOM_SHORT, RANDOM)
# Slopes are fitted from here on.
ENOUGH = 300
_NOTE = "#6b6b6b"


def known_grammar(seed: int, epsilon: float = 0.0, alpha: float = 0.3) -> TensorGrammar:
    """Return a grammar to be found; the same seed gives the same one but for what leaks."""
    return random_pivot_grammar(
        np.random.default_rng(seed), interminals=2, preterminals=2, words=8, states=(STATES, STATES), alpha=alpha,
        beta=min(0.1, alpha / 3), epsilon=epsilon,
    )  # fmt: skip


def error(truth: TensorGrammar, found: TensorGrammar) -> float:
    """Return the mean total variation distance of a state's distribution."""
    match = match_grammars(truth, found)
    return (match.rules.total + match.words.total) / (2 * int(truth.states.sum()))


def learn(corpus: Corpus) -> TensorGrammar:
    """Learn by figure 1."""
    return learn_from_statistics(observed_statistics(corpus), corpus.words, STATES)


def softened(grammar: TensorGrammar, part: float = SOFT) -> TensorGrammar:
    """Return the grammar without zeros that pivots have caused."""
    tensors = []
    for rule in range(len(grammar.rules)):
        tensor = grammar.tensor(rule)
        for axis in range(3):
            tensor = (1 - part) * tensor + part * tensor.mean(axis=axis, keepdims=True)
        tensors.append(tensor.ravel())
    old = grammar.emissions
    by_entry = np.split(old.values, old.value_offsets[1:-1])
    values = [(1 - part) * row + part * row.mean() for row in by_entry]
    root = [(1 - part) * row + part * row.mean() for row in np.split(grammar.root, grammar.state_offsets[1:-1])]
    return replace(
        grammar,
        tensors=np.concatenate(tensors),
        root=np.concatenate(root),
        emissions=replace(old, values=np.concatenate(values)),
    ).validate()


def run_em(corpus: Corpus, iterations: int, seed: int, init: TensorGrammar | None = None) -> TensorGrammar:
    """Run EM for the maximum likelihood, nothing smoothed."""
    return EM(
        states=STATES, iterations=iterations, init=init, min_support=1, unaries="collapsed", rare_threshold=0,
        lexical=UNSMOOTHED,
        random_state=seed,
    ).fit(corpus)  # fmt: skip


def errors(truth: TensorGrammar, corpus: Corpus, seed: int) -> dict[str, float]:
    """Return the errors of all methods on one treebank."""
    found = learn(corpus)
    grammars: dict[str, Callable[[], TensorGrammar]] = {
        PIVOT: lambda: found,
        REFINED: lambda: run_em(corpus, SHORT, seed, softened(found)),
        RANDOM_SHORT: lambda: run_em(corpus, SHORT, seed),
        RANDOM: lambda: run_em(corpus, LONG, seed),
    }
    return {name: error(truth, make()) for name, make in grammars.items()}


def summary(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    """Return the median, the least and the greatest error of each method over grammars."""
    return {
        name: [float(fold([row[name] for row in rows])) for fold in (np.median, np.min, np.max)] for name in rows[0]
    }


def study(
    trees: Sequence[int], leaks: Sequence[float], alphas: Sequence[float], grammars: int, fixed: int
) -> dict[str, Any]:
    """Measure everything and return it as JSON values."""
    by_trees = []
    for count in trees:
        found = [errors(known_grammar(seed), draw(known_grammar(seed), count, seed), seed) for seed in range(grammars)]
        by_trees.append(summary(found))
    by_leak = []
    for epsilon in leaks:
        found = []
        for seed in range(grammars):
            truth = known_grammar(seed, epsilon)
            row = errors(truth, draw(truth, fixed, 1000 + seed), seed)
            found.append({ENDLESS: error(truth, learn_pivot(truth)), **row})
        by_leak.append(summary(found))
    by_alpha = []
    for alpha in alphas:
        truths = [known_grammar(seed, alpha=alpha) for seed in range(grammars)]
        found = [errors(truth, draw(truth, fixed, 1000 + seed), seed) for seed, truth in enumerate(truths)]
        by_alpha.append(summary(found))
    points = [(count, row[PIVOT][0]) for count, row in zip(trees, by_trees, strict=True)]
    return {
        "grammars": grammars,
        "trees": list(trees),
        "by_trees": by_trees,
        "slope": fitted_slope(points, ENOUGH),
        "fixed": fixed,
        "epsilon": list(leaks),
        "by_epsilon": by_leak,
        "alpha": list(alphas),
        "by_alpha": by_alpha,
    }


def tables(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"Mean total variation distance of states' distributions, medians of {results['grammars']} grammars.",
        "",
        *_table("trees", [f"{count:,}" for count in results["trees"]], results["by_trees"]),
        "",
        f"Slope of pivot, from {ENOUGH} trees on: {results['slope']:.2f}.",
        "",
        f"Leaking pivots, {results['fixed']:,} trees:",
        "",
        *_table("epsilon", [f"{leak:g}" for leak in results["epsilon"]], results["by_epsilon"]),
        "",
        f"Rare pivots, {results['fixed']:,} trees:",
        "",
        *_table("alpha", [f"{alpha:g}" for alpha in results["alpha"]], results["by_alpha"]),
    ]
    return "\n".join(lines)


def _table(title: str, names: Sequence[str], rows: Sequence[dict[str, list[float]]]) -> list[str]:
    if not rows:
        return []
    methods = list(rows[0])
    return [
        f"| {title} | {' | '.join(methods)} |",
        "|---:|" + "---:|" * len(methods),
        *(
            f"| {name} | " + " | ".join(f"{row[method][0]:.4f}" for method in methods) + " |"
            for name, row in zip(names, rows, strict=True)
        ),
    ]


def figure_of(results: dict[str, Any]) -> Figure:
    """Return errors by M on the left, by epsilon on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    looks = {name: {"color": colour} for name, colour in zip(METHODS, COLOURS, strict=False)}
    looks[ENDLESS] = {"color": _NOTE, "linestyle": (0, (2, 2))}
    lines: dict[str, Any] = {}
    # Zero has no place on a logarithmic axis.
    leaks = [(leak, row) for leak, row in zip(results["epsilon"], results["by_epsilon"], strict=True) if leak > 0]
    for name, look in looks.items():
        for panel, points in (
            (left, list(zip(results["trees"], results["by_trees"], strict=True))),
            (right, leaks),
        ):
            ours = [(x, *row[name]) for x, row in points if name in row]
            if not ours:
                continue
            x, middle, least, most = zip(*ours, strict=True)
            panel.fill_between(x, least, most, color=look["color"], alpha=0.12, linewidth=0)
            (lines[name],) = panel.plot(x, middle, marker="o", markersize=3.5, linewidth=1.5, **look)
    set_axes(left, right)
    left.set_xlabel("trees")
    left.set_ylabel("error of a state's distribution")
    right.set_xlabel(f"epsilon: how much pivots leak; {results['fixed']:,} trees")
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=3, frameon=False, handlelength=2.4
    )
    return figure


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description="How well pivot learning finds parameters, with and without pivots.")
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000, 30_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.0, 0.003, 0.01, 0.03, 0.1, 0.3])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.5, 0.3, 0.1, 0.03])
    parser.add_argument("--grammars", type=int, default=5)
    parser.add_argument("--fixed", type=int, default=10_000, help="trees when epsilon or alpha is changed")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("-o", "--output", type=Path, help="write a picture here (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    require(packages="matplotlib" if arguments.output else "")
    results = study(
        sorted(arguments.trees), sorted(arguments.epsilon), arguments.alpha, arguments.grammars, arguments.fixed
    )
    print(json.dumps(results, indent=2) if arguments.json else tables(results))
    if arguments.output:
        save_picture(arguments.output, lambda: figure_of(results))


if __name__ == "__main__":
    main()
