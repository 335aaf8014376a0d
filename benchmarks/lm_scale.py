"""How learning latent bigram models scales: seconds an iteration of EM, and for pivots, up to a billion words.

    python benchmarks/lm_scale.py [--tokens 1e6 1e7 1e8 1.3e9] [--states 256] [--brown FILE] [--json F] [--picture F]

Counts are drawn from a known latent bigram model with the shape of the New York Times text of Cohen and Collins (2014):
235,223 words, as frequent as a rank law with the right tail makes them (the rarest would be seen 20 times in 1.3 G
words), and 256 states so sharp that the model's own perplexity is about the paper's 265. How many distinct bigrams that
gives is in the table.

An iteration computes 6 m floating point operations for each distinct bigram (a product and two sums of m numbers), and
touches 4 rows of m floats, of which it writes two: the speeds in the table are nominal, by these numbers. They stand
beside what the machine can do: copying large arrays, and products of matrices that stay in cache. On a machine that
does other things as well, seconds of the processor (all threads together) say more than those on the wall.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from _brown import brown_split
from _requirements import require
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.runtime.blas import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS, STATES = 235_223, 256
# Shapes of the gamma variables that states of words, and words of states, are made of.
SHARP_STATES, SHARP_WORDS = 0.0075, 0.01
PARTS = 64


class Truth:
    """A model to draw counts from."""

    def __init__(self, words: int, states: int, seed: int, threads: int) -> None:
        rng = np.random.default_rng(seed)
        rank = np.arange(words)
        share = 1 / ((rank + 2.7) * (1 + rank / 5000) ** 0.89)
        self.share = share / share.sum()
        self.seed, self.threads = seed, threads
        prior = rng.dirichlet(np.ones(states))
        shape = np.maximum(SHARP_STATES * states * prior, 1e-3).astype(np.float32)
        self.r = rng.standard_gamma(shape, (words, states), np.float32) + np.float32(1e-6)
        self.r /= self.r.sum(axis=1, keepdims=True)
        s = rng.standard_gamma(SHARP_WORDS, (words, states), np.float32) + np.float32(1e-4)
        s *= (self.share[:, None] / s.mean(axis=1, keepdims=True)).astype(np.float32)
        self.s = s / s.sum(axis=0, dtype=np.float64).astype(np.float32)
        self._sums = np.empty((states, words))
        self._each(lambda h: np.cumsum(self.s[:, h], dtype=np.float64, out=self._sums[h]), states)

    def _each(self, call: Callable[[int], Any], count: int) -> list[Any]:
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(call, range(count)))

    def draw(self, tokens: int) -> scipy.sparse.csr_array:
        """Return counts of so many bigrams."""
        words = len(self.share)
        totals = np.random.default_rng([self.seed, tokens]).multinomial(tokens, self.share)
        edges = np.searchsorted(np.cumsum(totals), np.linspace(0, tokens, PARTS + 1)[1:-1])
        bounds = np.unique(np.concatenate([[0], edges, [words]]))

        def part(number: int) -> scipy.sparse.csr_array:
            rows = np.arange(bounds[number], bounds[number + 1])
            rng = np.random.Generator(np.random.SFC64([self.seed, tokens, number]))
            shares = self.r[rows].astype(np.float64)
            by_state = rng.multinomial(totals[rows], shares / shares.sum(axis=1, keepdims=True))
            columns = [self._words(state, seen, rng) for state, seen in enumerate(by_state.sum(axis=0).tolist())]
            # Words of a state are drawn in one go, and dealt out to the rows in their order.
            from_rows = np.concatenate([np.repeat(rows - rows[0], seen) for seen in by_state.T])
            found = np.unique(from_rows * words + np.concatenate(columns), return_counts=True)
            places = np.divmod(found[0], words)
            return scipy.sparse.csr_array((found[1].astype(np.int32), places), (len(rows), words))

        return scipy.sparse.vstack(self._each(part, len(bounds) - 1), format="csr")

    def _words(self, state: int, number: int, rng: np.random.Generator) -> np.ndarray:
        """Draw so many words that a state says."""
        sums = self._sums[state]
        return np.minimum(np.searchsorted(sums, rng.random(number) * sums[-1], "right"), len(sums) - 1)

    def perplexity(self, samples: int = 4000) -> float:
        """Return the perplexity of the model's own words, from a sample."""
        rng = np.random.default_rng([self.seed, 1])
        total = 0.0
        for word in rng.choice(len(self.share), samples, p=self.share).tolist():
            states = self.r[word].astype(np.float64)
            state = int(rng.choice(len(states), p=states / states.sum()))
            total += float(np.log(self.r[word] @ self.s[self._words(state, 1, rng)[0]]))
        return float(np.exp(-total / samples))


def limits(threads: int, size: int) -> dict[str, float]:
    """Measure what the machine can do: GB/s of copying (read and written), Gflop/s of products of matrices."""
    squares = [np.ones((512, 512), np.float32) for _ in range(threads)]
    best = {"copy": 0.0, "flops": 0.0}
    sources = [np.ones(size, np.float32) for _ in range(threads)]
    targets = [np.zeros(size, np.float32) for _ in range(threads)]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            began = time.perf_counter()
            list(pool.map(np.copyto, targets, sources))
            best["copy"] = max(best["copy"], threads * 8 * size / (time.perf_counter() - began) / 1e9)
            began = time.perf_counter()
            list(pool.map(lambda square: square @ square, squares))
            best["flops"] = max(best["flops"], threads * 2 * 512**3 / (time.perf_counter() - began) / 1e9)
    return best


class Stopwatch:
    """A log that notes when each iteration ended, by the clock on the wall and by that of the processor."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.work: list[float] = []

    def write(self, event: str, **_: object) -> None:
        """Note the time."""
        if event == "iteration":
            self.times.append(time.perf_counter())
            self.work.append(time.process_time())


def measure(counts: scipy.sparse.csr_array, states: int, iterations: int, pivots: bool, threads: int) -> dict[str, Any]:
    """Learn, and return how long it took."""
    size = counts.shape[0]
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, size))])
    settings: dict[str, Any] = {"states": states, "threads": threads, "tolerance": 0.0}
    least = max(30.0, 2e-7 * float(counts.sum()))
    watch, began = Stopwatch(), time.perf_counter()
    AggregateMarkov(iterations=iterations + 1, **settings).fit(counts, vocabulary=vocabulary, log=watch)
    # In the first iteration pages come in.
    seconds = float(np.diff(watch.times).min())
    entries = counts.nnz
    figures: dict[str, Any] = {
        "tokens": int(counts.sum()),
        "bigrams": entries,
        "states": states,
        "begin": watch.times[0] - began - seconds,
        "iteration": seconds,
        "median": float(np.median(np.diff(watch.times))),
        "cpu": float(np.diff(watch.work).min()),
        "gflops": entries * 6 * states / seconds / 1e9,
        "gbytes": entries * 6 * 4 * states / seconds / 1e9,
    }
    if pivots:
        watch, began, work = Stopwatch(), time.perf_counter(), time.process_time()
        AggregateMarkov(method="pivot", pivot_iterations=10, anchor_count=least, **settings).fit(
            counts, vocabulary=vocabulary, log=watch
        )
        figures["pivot"] = time.perf_counter() - began
        figures["pivot_cpu"] = time.process_time() - work
        figures["anchors"] = watch.times[0] - began
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return figures


def figure_of(rows: list[dict[str, Any]]) -> Figure:
    """Draw seconds by tokens."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    lines = (
        ("iteration", "an iteration of EM", COLOURS[0], "o-"),
        ("cpu", "the same, of the processor", COLOURS[0], "o:"),
        ("pivot", "pivots, with 10 iterations for r", COLOURS[1], "o-"),
        ("pivot_cpu", "the same, of the processor", COLOURS[1], "o:"),
    )
    for name, label, colour, style in lines:
        drawn = [row for row in rows if name in row]
        if drawn:
            x, y = [row["tokens"] for row in drawn], [row[name] for row in drawn]
            axes.plot(x, y, style, color=colour, markersize=3.5, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
    axes.set_xlabel("words of text")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=float, nargs="*", default=[1e6, 1e7, 1e8, 1.3e9])
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--no-pivot", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--copied", type=int, default=1 << 26, help="numbers in the arrays that are copied")
    parser.add_argument("--brown", type=Path, help="the Brown corpus, measured as well")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    require(packages="matplotlib" if options.picture else "")
    machine = limits(options.threads, options.copied)
    print(f"{options.threads} threads: copying {machine['copy']:.1f} GB/s, {machine['flops']:.0f} Gflop/s\n")
    columns = (
        "counts", "tokens", "distinct", "begin s", "iteration s", "of the processor", "Gflop/s", "GB/s", "anchors s",
        "pivot s", "of the processor", "peak GB",
    )  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    rows: list[dict[str, Any]] = []

    def show(name: str, row: dict[str, Any]) -> None:
        pivot = f"{row['anchors']:.1f} | {row['pivot']:.1f} | {row['pivot_cpu']:.1f}" if "pivot" in row else " |  | "
        print(
            f"| {name} | {row['tokens']:.3g} | {row['bigrams']:.3g} | {row['begin']:.1f} | {row['iteration']:.3f} | "
            f"{row['cpu']:.3f} | {row['gflops']:.1f} | {row['gbytes']:.1f} | {pivot} | {row['memory']:.1f} |",
            flush=True,
        )
        rows.append({"counts": name, **row})

    if options.brown:
        split = brown_split(options.brown)
        size, train = len(split.vocabulary), split.train
        ones = np.ones(len(train) - 1, np.int64)
        counts = scipy.sparse.csr_array(scipy.sparse.coo_array((ones, (train[:-1], train[1:])), (size, size)))
        show("Brown", measure(counts, options.states, 10, not options.no_pivot, options.threads))
    if options.tokens:
        truth = Truth(options.words, options.states, 0, options.threads)
        print(f"the model's own perplexity: {truth.perplexity():.0f}", file=sys.stderr, flush=True)
        for tokens in options.tokens:
            began = time.perf_counter()
            counts = truth.draw(int(tokens))
            print(f"drawn in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            show("drawn", measure(counts, options.states, options.iterations, not options.no_pivot, options.threads))
            del counts
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), "utf-8")
    if options.picture:
        save_picture(options.picture, lambda: figure_of([row for row in rows if row["counts"] == "drawn"]))


if __name__ == "__main__":
    main()
