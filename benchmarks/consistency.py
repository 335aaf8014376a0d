"""How fast spectral learning approaches the grammar that its trees come from (Cohen et al., long paper, Theorem 3).

    python benchmarks/consistency.py [--trees 100 1000 10000] [--repetitions 7] [--json] [-o PICTURE.svg]

Treebanks of M trees are drawn from a small L-PCFG with two states a symbol, and learned from in both schemes of
`Spectral`: from all nodes, and from one node of each tree, the latter being what the theorem is about. The error of a
result is the sum of `|p_hat(tree) - p(tree)|` over *all* trees of a few words; another is the greatest error of a
marginal `mu(a, i, j)` in short sentences. Figures are medians over treebanks; the slope is that of log error against
log M by least squares, about -1/2 if the theorem's rate is right. Beside the learner stand the frequencies of whole
trees, and what the errors tend to with one state a symbol, and with picked nodes that are not weighted by the size of
their tree (both computed from the grammar, by `learn_spectral`).

Then sigma, the smallest of the m-th singular values of all `Omega^a`, is changed at a fixed M in two ways. *Blurred
features*: each value of a feature stays with probability `rho`, and is else drawn anew from all values of the symbol;
the grammar is the same, and features say less about states, which is what sigma is there to measure. *States alike*:
the distributions of a symbol's two states are drawn towards their mean. Sigma falls then too, but so does what there
is to learn, and errors need not grow.

**Without smoothing.** Features are the rule or word of a node, and the rule above it with the side on which the node
hangs, so `population(depth=1)` has the same `Omega^a`, whose sigma is meant here (the learner also scales features by
how rare they are, and has its projections from the sample, not from the true `Omega^a` as in the theorem). Rules are
not smoothed (`backoff=0`), singular values not cut, no word is rare or leans on its signature, nor on its tag's usual
division among states (`UNSMOOTHED`). What cannot be switched off is the share of unknown words, one in
as many as the treebank has: each known word is too improbable by this part, which goes with 1 / M, and rounding to
float32, a part of 1e-7. Neither shows here.

**The bound.** `M_a >= 128 m^2 log(2 m R / delta) / (((1 + eps)^(1 / (2 N + 1)) - 1)^2 Lambda^2 sigma^4)` for all `a`
gives relative errors of at most `eps` on all trees of `N` nodes, with probability `1 - delta`. We put in the median
measured `eps` (so `delta` is 1/2), take the `2 N + 1` of the paper's formula for the index of a root, and say how many
times our M is asked for. `Lambda` is the smallest absolute value of any element of `c^1`, `d^inf`, `D` and
`(Sigma^a)^{-1}`. Word for word that is always 0 if there is more than one state, because singular vectors of `Omega^a`
make `Sigma^a` diagonal, and nothing is asserted; we leave those zeros out.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _axes import ROUND_NUMBERS, fitted_slope, set_axes
from _comparison import SENTENCE, STATES, WORDS, Bound, Comparison, Errors, smallest_singular_value
from _requirements import require
from _samples import UNSMOOTHED, draw
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.spectral.features import Feature
from sapwood.learn.spectral.learner import Scheme, Spectral
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.research.exact_moments import TreePopulation, learn_spectral, population
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES: tuple[Scheme, ...] = ("all", "one")
NAMES = {"all": "all nodes", "one": "one node a tree"}
# Slopes are fitted from here on: before, rules and words are missing.
ENOUGH = 1000
_NOTE = "#6b6b6b"


def known_grammar(contrast: float = 1.0, power: float = 3.0) -> TensorGrammar:
    """Return the grammar to be found: 11 rules, 4 symbols, 3 words, trees of about 5 nodes.

    The weights of a random grammar are raised to a power, which makes states differ more, and then the distributions of
    a symbol's states drawn together by `contrast`: with 1 they stay, with 0 they would be the same.
    """
    rng = np.random.default_rng(102)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(STATES, STATES), density=0.4)

    def draw_together(rows: np.ndarray) -> np.ndarray:
        """Take `(states, ...)` weights."""
        return contrast * rows + (1 - contrast) * rows.mean(axis=0)

    names, words = grammar.symbols, grammar.lexicon.words
    rules: dict[tuple[str, str, str], np.ndarray] = {}
    emissions: dict[tuple[str, str], np.ndarray] = {}
    for a, name in enumerate(names):
        if a < grammar.n_interminals:
            ours = np.flatnonzero(grammar.rules[:, 0] == a).tolist()
            tensors = [grammar.tensor(rule) ** power for rule in ours]
            total = sum(tensor.sum(axis=(1, 2)) for tensor in tensors)[:, None, None]
            for rule, tensor in zip(ours, tensors, strict=True):
                _, b, c = grammar.rules[rule]
                rules[name, names[b], names[c]] = draw_together(tensor / total)
        else:
            rows = np.stack([grammar.lexical_vector(a, word) for word in words], axis=1) ** power
            rows = draw_together(rows / rows.sum(axis=1, keepdims=True))
            emissions.update({(name, word): rows[:, x] for x, word in enumerate(words)})
    root = {name: grammar.root_vector(a) for a, name in enumerate(names) if grammar.root_vector(a).any()}
    return TensorGrammar.from_parts(root=root, rules=rules, words=emissions)


def blurred(table: NodeTable, values: np.ndarray, rho: float, seed: list[int]) -> np.ndarray:
    """Return a feature's values, each with probability `1 - rho` replaced by any value of the same symbol."""
    rng, symbol = np.random.default_rng(seed), table.corpus.symbol
    found = values.copy()
    for a in range(len(table.corpus.symbols)):
        nodes = np.flatnonzero((symbol == a) & (rng.random(len(values)) >= rho))
        found[nodes] = rng.choice(np.unique(values[symbol == a]), size=len(nodes))
    return found


def blurred_features(rho: float, seed: int) -> tuple[Feature, Feature]:
    """Return the features of the set "simple", blurred."""

    def expansion(table: NodeTable) -> np.ndarray:
        corpus = table.corpus
        return blurred(table, np.where(table.is_leaf, corpus.word, corpus.rule).astype(np.int64), rho, [seed, 0])

    def attachment(table: NodeTable) -> np.ndarray:
        return blurred(table, table.attachment, rho, [seed, 1])

    return Feature("blurred-expansion", "inside", expansion), Feature("blurred-attachment", "outside", attachment)


def blurred_sigma(source: TreePopulation, rho: float) -> float:
    """Return sigma with blurred features."""
    values = []
    for a in range(len(source.counts)):
        inside, outside, gamma = source.given_state(a)
        inside, outside = (rho * given + (1 - rho) / len(given) for given in (inside, outside))
        values.append(np.linalg.svd((inside * gamma) @ outside.T, compute_uv=False)[STATES - 1])
    return float(min(values))


def learn(corpus: Corpus, nodes: Scheme, seed: int, rho: float = 1.0) -> TensorGrammar:
    """Learn two states a symbol without any smoothing."""
    inside, outside = blurred_features(rho, seed)
    return Spectral(
        states=STATES, inside=[inside], outside=[outside], min_feature_count=1, backoff=0, tolerance=1e-9,
        min_support=1, nodes=nodes,
        unaries="collapsed", rare_threshold=0, lexical=UNSMOOTHED, random_state=seed,
    ).fit(corpus)  # fmt: skip


def median(errors: list[Errors], kind: Literal["trees", "marginal"] = "trees") -> float:
    """Return the median over repetitions."""
    return float(np.median([getattr(error, kind) for error in errors]))


def frequency_error(comparison: Comparison, trees: int, rng: np.random.Generator) -> float:
    """Return the error of the frequencies of whole trees in a treebank."""
    true = np.concatenate(comparison.probabilities)
    rest = max(1 - true.sum(), 0.0)
    counts = rng.multinomial(trees, np.append(true, rest) / (true.sum() + rest))
    return float(np.abs(counts[:-1] / trees - true).sum())


def first_trees(corpus: Corpus, count: int) -> Corpus:
    """Return the treebank of the first trees."""
    end = int(corpus.offsets[count])
    # Symbols and words that are not in them would be counted as seen.
    symbols, symbol = np.unique(corpus.symbol[:end], return_inverse=True)
    words, word = np.unique(corpus.word[:end], return_inverse=True)
    return Corpus.from_columns(
        [corpus.symbols[a] for a in symbols.tolist()],
        int((symbols < corpus.n_interminals).sum()),
        [corpus.words[x] for x in words.tolist() if x >= 0],
        symbol.astype(np.int32),
        (word - int((words < 0).any())).astype(np.int32),
        corpus.offsets[: count + 1],
        corpus.normaliser,
        corpus.transform,
    )


def study(trees: list[int], repetitions: int, blurs: list[float], contrasts: list[float], fixed: int) -> dict[str, Any]:
    """Measure everything and return it as JSON values."""
    truth = known_grammar()
    comparison = Comparison(truth)
    found: dict[Scheme, list[list[Errors]]] = {scheme: [[] for _ in trees] for scheme in SCHEMES}
    frequencies: list[list[float]] = [[] for _ in trees]
    for repetition in range(repetitions):
        whole = draw(truth, max(trees), repetition)
        rng = np.random.default_rng([repetition, 1])
        for place, count in enumerate(trees):
            corpus = first_trees(whole, count)
            for scheme in SCHEMES:
                found[scheme][place].append(comparison.errors(learn(corpus, scheme, repetition)))
            frequencies[place].append(frequency_error(comparison, count, rng))
    schemes: dict[str, Any] = {}
    for scheme, rows in found.items():
        middle = {kind: [median(row, kind) for row in rows] for kind in ("trees", "marginal")}
        schemes[scheme] = {
            **middle,
            "least": [min(error.trees for error in row) for row in rows],
            "most": [max(error.trees for error in row) for row in rows],
            "slope": fitted_slope(list(zip(trees, middle["trees"], strict=True)), ENOUGH),
            "marginal_slope": fitted_slope(list(zip(trees, middle["marginal"], strict=True)), ENOUGH),
        }
    relative = [np.median([error.relative for error in row], axis=0).tolist() for row in found["one"]]
    whole_trees = [float(np.median(row)) for row in frequencies]
    slope = fitted_slope(list(zip(trees, whole_trees, strict=True)), ENOUGH)
    limits = {
        "one state": learn_spectral(truth, 1, depth=1),
        "one node, not weighted": learn_spectral(truth, depth=1, scheme="one node"),
        "all nodes": learn_spectral(truth, depth=1),
    }
    bound = Bound.of(truth)
    return {
        "mass": float(sum(row.sum() for row in comparison.probabilities)),
        "compared": int(sum(len(row) for row in comparison.probabilities)),
        "repetitions": repetitions,
        "trees": trees,
        "schemes": schemes,
        "frequencies": {"trees": whole_trees, "slope": slope},
        "limits": {name: vars(comparison.errors(grammar)) for name, grammar in limits.items()},
        "bound": {
            **vars(bound),
            "rows": [
                {"nodes": 2 * n - 1, "trees": count, "error": row[n - 1], "asked": bound.trees(2 * n - 1, row[n - 1])}
                for count, row in zip(trees, relative, strict=True)
                for n in range(1, 4)
                if count >= ENOUGH
            ],
        },
        "blurred": {"trees": fixed, "rows": study_blurred(truth, blurs, fixed, repetitions)},
        "alike": {"trees": fixed, "rows": [study_alike(contrast, fixed, repetitions) for contrast in contrasts]},
    }


def study_blurred(truth: TensorGrammar, blurs: list[float], trees: int, repetitions: int) -> list[dict[str, Any]]:
    """Measure the errors with features that say less and less."""
    comparison, source = Comparison(truth), population(truth, depth=1)
    corpora = [draw(truth, trees, 1000 + repetition) for repetition in range(repetitions)]
    rows: list[dict[str, Any]] = []
    for rho in blurs:
        rows.append({"rho": rho, "sigma": blurred_sigma(source, rho)})
        for scheme in SCHEMES:
            found = [comparison.errors(learn(corpus, scheme, seed, rho)) for seed, corpus in enumerate(corpora)]
            rows[-1][scheme] = median(found)
    return rows


def study_alike(contrast: float, trees: int, repetitions: int) -> dict[str, Any]:
    """Measure the errors with a grammar whose states are more alike."""
    truth = known_grammar(contrast)
    comparison = Comparison(truth)
    corpora = [draw(truth, trees, 1000 + repetition) for repetition in range(repetitions)]
    row: dict[str, Any] = {"contrast": contrast, "sigma": smallest_singular_value(population(truth, depth=1))}
    for scheme in SCHEMES:
        row[scheme] = median([comparison.errors(learn(corpus, scheme, seed)) for seed, corpus in enumerate(corpora)])
    row["one state"] = comparison.errors(learn_spectral(truth, 1, depth=1)).trees
    return row


def tables(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    schemes, limits, bound = results["schemes"], results["limits"], results["bound"]
    both = [schemes[scheme] for scheme in SCHEMES]
    columns = [both[0]["trees"], both[1]["trees"], results["frequencies"]["trees"]]
    columns += [row["marginal"] for row in both]
    slopes = [both[0]["slope"], both[1]["slope"], results["frequencies"]["slope"]]
    slopes += [row["marginal_slope"] for row in both]
    rows = results["blurred"]["rows"]
    by_sigma = [fitted_slope([(row["sigma"], row[scheme]) for row in rows]) for scheme in SCHEMES]
    about = (
        f"Sum of absolute errors over all {results['compared']:,} trees of up to {WORDS} words, which have "
        f"{100 * results['mass']:.1f} % of the probability; greatest error of a marginal in sentences of {SENTENCE} "
        f"words. Medians of {results['repetitions']} treebanks."
    )
    theorem = (
        f"Theorem 3, one node a tree: sigma = {bound['sigma']:.4f}, Lambda = {bound['smallest']:.2g} (0 as printed), "
        f"R = {bound['rules']}, m = {STATES}, delta = 1/2; the rarest symbol is picked from "
        f"{100 * bound['rarest']:.0f} % of the trees."
    )
    lines = [
        about,
        "",
        "| M | all nodes | one node a tree | tree frequencies | marginal, all nodes | marginal, one node |",
        "|---:|---:|---:|---:|---:|---:|",
        *(_row(f"{count:,}", values) for count, *values in zip(results["trees"], *columns, strict=True)),
        _row("slope", slopes, ".2f"),
        "",
        "With endless data:",
        "",
        "| | trees | marginal |",
        "|---|---:|---:|",
        *(_row(name, [errors["trees"], errors["marginal"]]) for name, errors in limits.items()),
        "",
        f"Blurred features, M = {results['blurred']['trees']:,}:",
        "",
        "| rho | sigma | all nodes | one node a tree |",
        "|---:|---:|---:|---:|",
        *(_row(f"{r['rho']:g}", [r["sigma"], r["all"], r["one"]]) for r in rows),
        "| slope | | " + " | ".join(f"{value:.2f}" for value in by_sigma) + " |",
        "",
        f"States alike, M = {results['alike']['trees']:,}:",
        "",
        "| contrast | sigma | all nodes | one node a tree | one state, endless data |",
        "|---:|---:|---:|---:|---:|",
        *(
            _row(f"{r['contrast']:g}", [r["sigma"], r["all"], r["one"], r["one state"]])
            for r in results["alike"]["rows"]
        ),
        "",
        theorem,
        "",
        "| N | M | greatest relative error | M by the theorem | times ours |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {r['nodes']} | {r['trees']:,} | {r['error']:.3f} | {r['asked']:.0e} | {r['asked'] / r['trees']:.0e} |"
            for r in bound["rows"]
        ),
    ]
    return "\n".join(lines)


def _row(name: str, values: list[float], form: str = ".4f") -> str:
    return " | ".join([f"| {name}", *(format(value, form) for value in values)]) + " |"


def figure_of(results: dict[str, Any]) -> Figure:
    """Return errors by M on the left, by sigma on the right."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator

    figure = Figure(figsize=(8, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    trees, rows = results["trees"], results["blurred"]["rows"]
    lines, names = [], []
    for scheme, colour in zip(SCHEMES, COLOURS, strict=False):
        row = results["schemes"][scheme]
        look: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3.5, "linewidth": 1.5}
        left.fill_between(trees, row["least"], row["most"], color=colour, alpha=0.15, linewidth=0)
        lines += left.plot(trees, row["trees"], **look)
        names.append(f"{NAMES[scheme]}: slope {row['slope']:.2f}".replace("-", "\u2212"))
        right.plot([one["sigma"] for one in rows], [one[scheme] for one in rows], **look)
    lines += left.plot(trees, results["frequencies"]["trees"], color=_NOTE, linewidth=1, linestyle=(0, (2, 2)))
    names.append("frequencies of whole trees")
    left.plot(trees, [results["limits"]["one state"]["trees"]] * len(trees), color=_NOTE, linewidth=0.8)
    left.plot(trees, [results["limits"]["one node, not weighted"]["trees"]] * len(trees), color=_NOTE, linewidth=0.8)
    for name, above in (("one state", -1), ("one node, not weighted", 1)):
        left.annotate(
            f"limit of {name}", (trees[-1], results["limits"][name]["trees"]), (0, 3 * above),
            textcoords="offset points", ha="right", va="bottom" if above > 0 else "top", fontsize=8, color=_NOTE,
        )  # fmt: skip
    set_axes(left, right)
    right.xaxis.set_major_locator(FixedLocator(ROUND_NUMBERS))
    left.set_xlabel("trees")
    left.set_ylabel("sum of errors of tree probabilities")
    right.set_xlabel(f"sigma, by blurring features; {results['blurred']['trees']:,} trees")
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), frameon=False, handlelength=2.4)
    return figure


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description="How fast spectral learning approaches the grammar behind its trees.")
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000, 30_000, 100_000])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--contrast", type=float, nargs="+", default=[1.0, 0.7, 0.5, 0.35, 0.25])
    parser.add_argument("--rho", type=float, nargs="+", default=[1.0, 0.8, 0.65, 0.5, 0.35, 0.25])
    parser.add_argument("--fixed", type=int, default=20_000, help="trees when sigma is changed")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("-o", "--output", type=Path, help="write a picture here (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    require(packages="matplotlib" if arguments.output else "")
    results = study(sorted(arguments.trees), arguments.repetitions, arguments.rho, arguments.contrast, arguments.fixed)
    print(json.dumps(results, indent=2) if arguments.json else tables(results))
    if arguments.output:
        save_picture(arguments.output, lambda: figure_of(results))


if __name__ == "__main__":
    main()
