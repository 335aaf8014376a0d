"""Figures 2 and 3 of Rabusseau, Balle and Cohen (2016) on open data: a treebank PCFG, approximated by fewer weights.

    python benchmarks/low_rank.py DIRECTORY [DIRECTORY ...] [--json FILE] [--pictures DIRECTORY] [--sentences 200]
        [--states 5 10 20 ...] [--ranks 5 10 20 ...] [--methods SVTA CP-pqn ...] [--seeds 10] [--vertical 1]
        [--horizontal 0] [--parsing] [--growth] [--records]

Each directory has train.mrg and test.mrg. The PCFG's automaton over unlabelled binary trees (one state for each symbol)
is approximated by singular value tree automata of fewer states (SVTA, SVTA*) and by CP decompositions of its transition
tensor (multiplicative updates, projected quasi-Newton). Test trees of a shape that the PCFG cannot build are not
compared. Measured are the l2 distance of the functions over all trees,
the perplexity of section 4.2 on the test trees, and unlabelled bracketing by minimum Bayes risk for sentences of up to
10, 20 and 40 words, against the number of weights of the transitions, `k^3` or `3 R n`, and against the processor time
that parsing a sentence takes. The perplexity is decided by the few most probable trees; beside it there are the part of
the test trees that have a positive weight, the part whose weight is right within a factor of two, by length, and the
median error of its logarithm. CP decompositions begin at random: `--seeds` of them are made of each size, and the
tables have their means and standard deviations.

`--parsing` measures the parser instead, on dev.mrg: labelled and unlabelled F1, and CPU milliseconds per sentence, of
the PCFG (pruned, and exact), and with CP decompositions of its rules (`sapwood minimise --method cp`). All use the
decoder `f1`.

`--growth` measures time and memory of the singular value form for more and more annotated grammars instead.

With `--json` each result is written as soon as it is known, and a second run goes on where the first one ended. With
`--records` results are also written to benchmarks/results.jsonl, as `wsj-sample/low-rank-svta-20`, and those of
`--parsing` as `wsj-sample/rules-cp-80`.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import _records
from _requirements import require
from _tree_weights import (
    Agreement,
    BracketCounts,
    SignedLogs,
    agreement,
    bracket_scores,
    log_weights,
    perplexity,
    topology_of,
)
from sapwood.automata import (
    DivergenceError,
    SingularStates,
    TreeAutomaton,
    compare,
    gram_matrices,
    project,
    singular_states,
)
from sapwood.automata.reduce.cp_decomposition import decompose
from sapwood.automata.reduce.truncation import default_states
from sapwood.automata.span_posteriors import SpanParser
from sapwood.automata.tensors import SparseTensor
from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.inference import Parser
from sapwood.learn import PCFG
from sapwood.model.parser_model import ParserModel
from sapwood.pipeline.compress import compress
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.trees import Corpus, TreeTransform
from sapwood.trees.formats.registry import read_trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("SVTA", "SVTA*", "CP-mu", "CP-pqn")
LENGTHS = (10, 20, 40)


class Problem:
    """A treebank's automaton, and its test trees."""

    def __init__(self, directory: Path, transform: TreeTransform, sentences: int) -> None:
        self.name = directory.name
        corpus = Corpus.from_trees(read_trees(directory / "train.mrg"), transform=transform)
        grammar = PCFG().fit(corpus)
        self.automaton = TreeAutomaton.from_grammar(grammar).joined()
        clean = (corpus.normaliser(tree) for tree in read_trees(directory / "test.mrg"))
        binary = [transform(tree) for tree in clean if tree is not None]
        self.trees = [(topology_of(tree), grammar.lexicon.terminals(tree.words())) for tree in binary]
        possible = self.weigh(self.automaton).sign > 0
        if not possible.all():
            count = int((~possible).sum())
            print(f"{self.name}: {count} test trees have no weight and are not compared", file=sys.stderr)
            self.trees = [tree for tree, has_weight in zip(self.trees, possible, strict=True) if has_weight]
        self.weights = self.weigh(self.automaton)
        short = [tree for tree in self.trees if 1 < len(tree[1]) <= max(LENGTHS)]
        step = max(1, len(short) // sentences)
        self.parsed = short[::step][:sentences]

    def weigh(self, automaton: TreeAutomaton) -> SignedLogs:
        """Return the weights of all test trees."""
        return log_weights(automaton.root[0], automaton.transitions[0], automaton.leaves[0], self.trees)

    def brackets(self, automaton: TreeAutomaton) -> tuple[list[float], float]:
        """Return F1 of the best topologies, by the most words of a sentence, and milliseconds a sentence."""
        counts = [BracketCounts() for _ in LENGTHS]
        parse = SpanParser(automaton.root[0], automaton.transitions[0])
        began = time.process_time()
        for gold, words in self.parsed:
            scores = bracket_scores(gold, parse(automaton.leaves[0][words]).best())
            counts = [
                count + scores if len(words) <= most else count for count, most in zip(counts, LENGTHS, strict=True)
            ]
        seconds = time.process_time() - began
        return [count.f1 for count in counts], 1000 * seconds / max(len(self.parsed), 1)

    def agreements(self, weights: SignedLogs) -> list[Agreement]:
        """Return how well the weights of test trees agree with the automaton's, by the most words of a tree."""
        lengths = [len(words) for _, words in self.trees]
        found = []
        for most in LENGTHS:
            short = [place for place, length in enumerate(lengths) if length <= most]
            found.append(agreement(*(SignedLogs(one.sign[short], one.log[short]) for one in (self.weights, weights))))
        return found

    def measure(self, automaton: TreeAutomaton) -> dict[str, Any]:
        """Compare an approximation with the automaton."""
        try:
            close = compare(self.automaton, automaton)
            distance: dict[str, Any] = {"l2": close.l2, "relative": close.relative, "hankel": close.hankel}
        except DivergenceError:
            distance = {"l2": None, "relative": None, "hankel": None}
        weights = self.weigh(automaton)
        found = perplexity(self.weights, weights)
        told = self.agreements(weights)
        brackets, milliseconds = self.brackets(automaton)
        return {
            **distance, "perplexity": found.value, "floored": found.floored, "positive": 100 * told[-1].positive,
            "right": [100 * one.right for one in told],
            "error": told[-1].error if math.isfinite(told[-1].error) else None,
            "brackets": brackets, "ms": milliseconds,
        }  # fmt: skip


def approximations(problem: Problem, options: argparse.Namespace, done: set[tuple[str, int, int]]) -> Any:
    """Yield method, size, seed, number of weights and automaton, and how long it took."""
    automaton = problem.automaton
    n = automaton.n_states
    unweighted: SingularStates | None = None
    for method in (one for one in options.methods if one.startswith("SVTA")):
        for k in options.states:
            if (method, k, 0) in done or k > n:
                continue
            began = time.perf_counter()
            if method == "SVTA":
                found = unweighted = unweighted or singular_states(gram_matrices(automaton))
            else:
                # How near to the border gamma may be depends on the number of states.
                found, gamma = default_states(automaton, partial(_first, k))
                print(f"{problem.name} {method} {k}: gamma {gamma:.3f}", file=sys.stderr)
            yield method, k, 0, k**3, project(automaton, found.truncated(k)), time.perf_counter() - began
    transitions = automaton.transitions[0]
    assert isinstance(transitions, SparseTensor)
    decompositions = [one for one in options.methods if one.startswith("CP")]
    for seed, method, rank in product(range(options.seeds), decompositions, options.ranks):
        if (method, rank, seed) in done:
            continue
        began = time.perf_counter()
        found_tensor = decompose(transitions, rank, method="mu" if method == "CP-mu" else "pqn", random_state=seed)
        smaller = TreeAutomaton.single(automaton.root[0], found_tensor.tensor, automaton.leaves[0], automaton.words)
        yield method, rank, seed, 3 * rank * n, smaller, time.perf_counter() - began


def _first(count: int, states: SingularStates) -> np.ndarray:
    """Return the number of states to keep of each sort."""
    return np.minimum(states.ranks, count)


def write_record(
    options: argparse.Namespace, directory: Path, name: str, seed: int, figures: dict[str, float | None], chosen: str
) -> None:
    """Write a result as a record, with `chosen` options in its command."""
    part = "dev" if options.parsing else "test"
    shape = (("vertical", options.vertical, 1), ("horizontal", options.horizontal, 0))
    others = [f"--{option} {value}" for option, value, usual in shape if value != usual]
    command = " ".join([f"python benchmarks/low_rank.py DATA/{directory.name} {chosen}", *others, "--records"])
    record = _records.measured(
        f"{directory.name}/{name}" + "".join(other.replace("--", "-").replace(" ", "-") for other in others),
        {figure: value for figure, value in figures.items() if value is not None}, seed=seed, command=command,
        data=_records.digest_files([directory / "train.mrg", directory / f"{part}.mrg"]), describes=None,
    )  # fmt: skip
    _records.add(record)


def parsing(options: argparse.Namespace, directory: Path) -> str:
    """Measure labelled parsing with the rules and with CP decompositions; return a Markdown table."""
    transform = TreeTransform(options.vertical, options.horizontal)
    corpus = Corpus.from_trees(read_trees(directory / "train.mrg"), transform=transform)
    model = ParserModel.from_grammars(PCFG().fit(corpus))
    trees = list(read_trees(directory / "dev.mrg"))

    def measure(parser: Parser) -> tuple[float, float, float]:
        began = time.process_time()
        found = evaluate_parser(parser, trees).to_dict()
        return found["unlabelled_f1"], found["f1"], 1000 * (time.process_time() - began) / len(trees)

    rows = [
        "| treebank | rules | rank | seeds | weights | bracketing F1 | F1 | ms | made in CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    entries = int((model.grammar.tensors != 0).sum())

    def keep(name: str, rank: int, seed: int, weights: int, run: tuple[float, ...]) -> None:
        if options.records:
            figures = dict(zip(("dev_unlabelled_f1", "dev_f1", "parse_ms", "made_cpu_s"), run, strict=False))
            chosen = f"--parsing --ranks {rank} --seeds {options.seeds}"
            write_record(options, directory, f"rules-{name}", seed, {"weights": weights, **figures}, chosen)

    for name, threshold in (("PCFG, pruned", None), ("PCFG, exact", 0.0)):
        found = measure(Parser(model, decoder="f1", threshold=threshold))
        keep(name.lower().replace(", ", "-"), options.ranks[0], 0, entries, found)
        figures = [f"{value:.1f}" for value in found]
        rows.append(f"| {directory.name} | {name} | - | - | {entries:,} | {' | '.join(figures)} | - |")
        print(rows[-1], file=sys.stderr, flush=True)
    for rank in options.ranks:
        runs, weights = [], 3 * rank * len(model.grammar.root)
        for seed in range(options.seeds):
            began = time.process_time()
            factored = compress(model, method="cp", rank=rank, random_state=seed)
            seconds = time.process_time() - began
            runs.append((*measure(Parser(factored)), seconds))
            keep(f"cp-{rank}", rank, seed, weights, runs[-1])
        figures = [_spread(values, ".1f") for values in zip(*runs, strict=True)]
        rows.append(f"| {directory.name} | CP | {rank} | {options.seeds} | {weights:,} | {' | '.join(figures)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


def growth(directory: Path) -> list[dict[str, Any]]:
    """Measure the singular value form of grammars with more and more symbols."""
    rows = []
    for vertical, horizontal in ((1, 0), (1, 1), (2, 0)):
        corpus = Corpus.from_trees(read_trees(directory / "train.mrg"), transform=TreeTransform(vertical, horizontal))
        automaton = TreeAutomaton.from_grammar(PCFG().fit(corpus)).joined().without_words()
        transitions = automaton.transitions[0]
        assert isinstance(transitions, SparseTensor)
        began = time.perf_counter(), time.process_time()
        grams = gram_matrices(automaton)
        middle = time.perf_counter()
        found = singular_states(grams)
        project(automaton, found.truncated(min(500, automaton.n_states)))
        rows.append(
            {
                "treebank": directory.name,
                "vertical": vertical,
                "horizontal": horizontal,
                "states": automaton.n_states,
                "rules": len(transitions.values),
                "rank": int(found.ranks[0]),
                "rate": grams.rate,
                "iterations": grams.iterations,
                "gram_seconds": middle - began[0],
                "seconds": time.perf_counter() - began[0],
                "processor_seconds": time.process_time() - began[1],
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        if automaton.n_states > 600:
            break
    return rows


def draw_distances(results: Sequence[dict[str, Any]], names: Sequence[str]) -> Figure:
    """Draw Figure 2, l2 distance and perplexity, and below them the part of the trees that are right."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(3.6 * len(names) + 0.4, 7.6), layout="constrained")
    panels = figure.subplots(3, len(names), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        ours = [result for result in results if result["treebank"] == name]
        original = next(result for result in ours if result["method"] == "PCFG")["perplexity"]
        # No approximation has a lower perplexity than the PCFG itself; what is above it is drawn.
        values: tuple[tuple[str, Any], ...] = (
            ("l2 distance / norm", lambda result: result["relative"]),
            ("perplexity - the PCFG's", lambda result, of=original: max(result["perplexity"] - of, 1e-6)),
            ("trees right within a factor of 2, %", lambda result: result["right"][-1]),
        )
        for row, (label, value) in enumerate(values):
            panel = panels[row, column]
            _curves(panel, ours, value)
            if row < 2:
                panel.set_yscale("log")
                panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            if column == 0:
                panel.set_ylabel(label)
        panels[0, column].set_title(name, loc="left")
        panels[2, column].set_xlabel("weights of the transitions")
    panels[0, 0].legend(frameon=False, fontsize=8)
    return figure


def draw_brackets(results: Sequence[dict[str, Any]], names: Sequence[str]) -> Figure:
    """Draw Figure 3, bracketing by length of sentences, and that of all against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.6 * len(names) + 0.3), layout="constrained")
    panels = figure.subplots(len(names), len(LENGTHS) + 1, squeeze=False, sharey="row")
    for row, name in enumerate(names):
        ours = [result for result in results if result["treebank"] == name]
        original = next(result for result in ours if result["method"] == "PCFG")
        for column, most in enumerate(LENGTHS):
            panel = panels[row, column]
            _curves(panel, ours, lambda result, column=column: result["brackets"][column])
            panel.axhline(original["brackets"][column], color="black", linestyle=":", linewidth=1)
            panel.set_title(f"{name}, up to {most} words", loc="left", fontsize=9)
            if row == len(names) - 1:
                panel.set_xlabel("weights of the transitions")
        last = panels[row, -1]
        _curves(last, ours, lambda result: result["brackets"][-1], along="ms")
        last.plot(original["ms"], original["brackets"][-1], "k*", label="PCFG")
        last.set_title(f"{name}, up to {LENGTHS[-1]} words", loc="left", fontsize=9)
        if row == len(names) - 1:
            last.set_xlabel("processor ms a sentence")
        panels[row, 0].set_ylabel("bracketing F1")
    panels[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _curves(panel: Any, results: Sequence[dict[str, Any]], value: Any, along: str = "weights") -> None:
    """Draw a figure of all methods, means over seeds with bars from the least to the most."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    for number, method in enumerate(METHODS):
        cells = [cell for cell in _cells(results) if cell[0]["method"] == method]
        points = []
        for cell in cells:
            values = [value(result) for result in cell if value(result) is not None]
            if values:
                x = statistics.fmean(result[along] for result in cell)
                points.append((x, statistics.fmean(values), min(values), max(values)))
        if points:
            x, y, low, high = zip(*sorted(points), strict=True)
            bars = [[a - b for a, b in zip(y, low, strict=True)], [a - b for a, b in zip(high, y, strict=True)]]
            panel.errorbar(x, y, bars, fmt="o-", color=COLOURS[number], label=method, markersize=3, elinewidth=0.8)
    panel.set_xscale("log")
    if along == "weights":
        panel.xaxis.set_major_locator(FixedLocator([100, 1_000, 10_000, 100_000]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _cells(results: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the results of all seeds of each method and size together."""
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for result in results:
        cells.setdefault((result["treebank"], result["method"], result["size"]), []).append(result)
    return list(cells.values())


def _spread(values: Sequence[float | None], form: str) -> str:
    """Return the mean, and the standard deviation if there are several."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "not finite"
    mean = format(statistics.fmean(known), form)
    return mean if len(known) == 1 else f"{mean} ± {format(statistics.stdev(known), form)}"


def record_name(method: str, size: int) -> str:
    """Return the name of a result in records.

    >>> record_name("SVTA*", 20)
    'low-rank-svta-star-20'
    """
    name = "low-rank-" + method.lower().replace("*", "-star")
    return name if method == "PCFG" else f"{name}-{size}"


def flat_figures(result: dict[str, Any]) -> dict[str, float | None]:
    """Return the figures of a result, each with a name of its own."""
    figures = {name: result[name] for name in ("weights", "l2", "relative", "perplexity", "positive", "error")}
    for most, right, f1 in zip(LENGTHS, result["right"], result["brackets"], strict=True):
        figures |= {f"right_{most}": right, f"words_{most}_f1": f1}
    return figures | {"parse_ms": result["ms"], "made_s": result["seconds"]}


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return all figures as Markdown: means over seeds, with standard deviations."""
    heads = ("treebank", "method", "k, R", "seeds", "weights", "l2 / norm", "perplexity", "positive %")
    heads += ("right %, <= 10", "<= 20", "<= 40", "median error", "F1 <= 10", "<= 20", "<= 40", "ms", "made in s")
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for cell in _cells(results):
        first = cell[0]
        figures = [
            first["treebank"], first["method"], str(first["size"]), str(len(cell)), f"{first['weights']:,}",
            _spread([result["relative"] for result in cell], ".2g"),
            _spread([result["perplexity"] for result in cell], ".4g"),
            _spread([result["positive"] for result in cell], ".1f"),
            *(_spread([result["right"][at] for result in cell], ".1f") for at in range(len(LENGTHS))),
            _spread([result["error"] for result in cell], ".2g"),
            *(_spread([result["brackets"][at] for result in cell], ".1f") for at in range(len(LENGTHS))),
            _spread([result["ms"] for result in cell], ".1f"),
            _spread([result["seconds"] for result in cell], ".1f"),
        ]  # fmt: skip
        rows.append("| " + " | ".join(figures) + " |")
    return "\n".join(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--states", nargs="+", type=int, default=[5, 10, 15, 20, 30, 40, 50, 60, 80])
    parser.add_argument("--ranks", nargs="+", type=int, default=[5, 10, 20, 40, 80, 160, 320, 640])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, default=1, help="of CP decompositions")
    parser.add_argument("--vertical", type=int, default=1)
    parser.add_argument("--horizontal", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=200, help="test sentences to parse")
    parser.add_argument("--parsing", action="store_true", help="measure the parser, on dev.mrg")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pictures", type=Path, help="directory for low-rank.svg and low-rank-brackets.svg")
    parser.add_argument("--records", action="store_true", help="write results as records")
    options = parser.parse_args()
    parts = ("train",) if options.growth else ("train", "dev") if options.parsing else ("train", "test")
    require(treebanks=options.directory, parts=parts, packages="matplotlib" if options.pictures else "")
    if options.parsing:
        for directory in options.directory:
            print(parsing(options, directory))
        return
    if options.growth:
        for directory in options.directory:
            growth(directory)
        return
    results: list[dict[str, Any]] = (
        json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    )
    for directory in options.directory:
        problem = Problem(directory, TreeTransform(options.vertical, options.horizontal), options.sentences)
        done = {
            (result["method"], result["size"], result["seed"])
            for result in results
            if result["treebank"] == directory.name
        }
        n = problem.automaton.n_states
        original = [] if ("PCFG", n, 0) in done else [("PCFG", n, 0, n**3, problem.automaton, 0.0)]
        for method, size, seed, weights, automaton, seconds in chain(original, approximations(problem, options, done)):
            figures = problem.measure(automaton)
            results.append(
                {
                    "treebank": directory.name, "method": method, "size": size, "seed": seed, "weights": weights,
                    "seconds": seconds, **figures,
                }
            )  # fmt: skip
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
            if options.records:
                chosen = f"--sentences {options.sentences} --methods"
                if method != "PCFG":
                    size_option = "--states" if method.startswith("SVTA") else "--ranks"
                    chosen += f" '{method}' {size_option} {size} --seeds {options.seeds}"
                else:
                    chosen += " SVTA --states 1"
                write_record(options, directory, record_name(method, size), seed, flat_figures(results[-1]), chosen)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    names = [directory.name for directory in options.directory]
    shown = [result for result in results if result["treebank"] in names]
    print(table(shown))
    if options.pictures:
        save_picture(options.pictures / "low-rank.svg", lambda: draw_distances(shown, names))
        save_picture(options.pictures / "low-rank-brackets.svg", lambda: draw_brackets(shown, names))


if __name__ == "__main__":
    main()
