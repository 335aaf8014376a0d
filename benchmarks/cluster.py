"""What a cluster costs: the same work on threads and on processes, what travels, and how far that would scale.

    python benchmarks/cluster.py TREEBANK TEXT --json RESULTS [--parts tasks split-merge pass parse count memory kills]
        [--workers 1 2 3] [--cycles 4] [--sentences 20000] [--tokens 1000000] [--bigrams 4e7] [--kills 10]

TREEBANK is a directory with train.mrg; TEXT a text. Each figure is a line in RESULTS, and what is there is not measured
again, so that the script can be interrupted; without `--parts` it only prints what is there, and the projection.

Seconds are those of the processors, of this process (with the scheduler in it) and of all workers together, for they
say the same on a machine that does other things as well; those on the wall are beside them. `travelled` is what workers
got from each other, `sent` and `received` what went from and to this process. Bytes of results are compared: a
difference ends the script.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import sapwood
from sapwood.inference.observed import ObservedTrees
from sapwood.inference.parse_files import parse_files
from sapwood.lm import AggregateMarkov, Vocabulary, count_text
from sapwood.lm.models import save_model
from sapwood.run import cluster as cluster_module
from sapwood.run.cluster import Cluster
from sapwood.run.workers import Threads, Workers
from sapwood.trees.formats import read_trees

PARTS = ("tasks", "split-merge", "pass", "parse", "count", "memory", "kills")
# Of the projection: bytes a second between machines, and sentences of a file.
NETWORK, FILE = 1e9, 20_000


def traffic(dask_worker: Any) -> int:
    """Return the bytes that others have got from a worker."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def most_memory() -> int:
    """Return the most bytes that a process has had in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


class Meter:
    """Measures what workers do: seconds, and bytes that go to and fro."""

    def __init__(self, workers: Workers) -> None:
        self.workers, self.figures = workers, dict[str, float]()

    def _there(self, call: Callable[..., Any]) -> float:
        return 0.0 if isinstance(self.workers, Threads) else sum(self.workers._client.run(call).values())

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """Measure what is done in a `with` block."""
        sent, received = [0], [0]
        honest = cluster_module.Sealed.__init__, Cluster._gathered

        def sealed(this: Any, value: Any) -> None:
            honest[0](this, value)
            sent[0] += sys.getsizeof(this)

        def gathered(this: Any, futures: Any) -> Any:
            before = sent[0]
            found = honest[1](this, futures)
            received[0] += sent[0] - before  # what arrives is sealed once more
            sent[0] = before
            return found

        began = time.perf_counter(), time.process_time(), self._there(time.process_time), self._there(traffic)
        cluster_module.Sealed.__init__, Cluster._gathered = sealed, gathered  # type: ignore[method-assign]
        try:
            yield self.figures
        finally:
            cluster_module.Sealed.__init__, Cluster._gathered = honest  # type: ignore[method-assign]
        self.figures |= {
            "wall": time.perf_counter() - began[0],
            "here": time.process_time() - began[1],
            "there": self._there(time.process_time) - began[2],
            "travelled": max(0.0, self._there(traffic) - began[3] - received[0]),
            "sent": sent[0],
            "received": received[0],
        }
        self.figures["seconds"] = self.figures["here"] + self.figures["there"]


class Results:
    """Figures in a file, one a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def find(self, part: str, workers: object = None) -> dict[str, Any] | None:
        """Return the figures of a part with so many workers (0: threads), if they are there."""
        return next((row for row in self.rows if (row["part"], row["workers"]) == (part, workers)), None)

    def add(self, part: str, workers: object, **figures: Any) -> None:
        """Note and print figures."""
        row = {"part": part, "workers": workers, **figures}
        self.rows.append(row)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(shown(row), flush=True)


def shown(row: dict[str, Any]) -> str:
    """Return figures as a line."""
    figures = ", ".join(
        f"{name} {value:,.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
    )
    return figures


def digest(path: Path) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# What is measured.


def empty(_: int) -> int:
    """Do nothing."""
    return 0


def tasks(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:  # noqa: ARG001
    """Calls that do nothing: those that are kept, and those whose results come back."""
    if isinstance(workers, Threads):
        return {}
    list(workers.map(empty, range(100)))
    count = 2000
    began = time.perf_counter(), time.process_time()
    kept = workers.keep(empty, range(count))
    list(workers.map(len, [kept]))
    middle = time.perf_counter(), time.process_time()
    list(workers.map(empty, range(count)))
    ended = time.perf_counter(), time.process_time()
    names = ("kept_wall", "kept_here"), ("mapped_wall", "mapped_here")
    spans = ((began, middle), (middle, ended))
    return {
        name: (b - a) / count for pair, (one, other) in zip(names, spans, strict=True)
        for name, a, b in zip(pair, one, other, strict=True)
    }  # fmt: skip


def split_merge(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A whole training."""
    trees = list(read_trees(options.treebank / "train.mrg"))[: options.trees]
    learner = sapwood.SplitMerge(cycles=options.cycles, threads=workers.threads)
    corpus = learner.prepare(trees)
    if not isinstance(workers, Threads):
        learner = learner.replace(workers=workers)
    with Meter(workers).measured() as figures:
        grammar = learner.fit(corpus)
    grammar.save(folder / "model")
    passes = options.cycles * (learner.iterations + learner.settle + 2)
    return {**figures, "digest": digest(folder / "model"), "passes": passes, "nodes": corpus.n_nodes}


def one_pass(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Some passes of EM with weights as a training has them in its last cycle."""
    trees = list(read_trees(options.treebank / "train.mrg"))[: options.trees]
    learner = sapwood.SplitMerge(cycles=options.cycles, iterations=2, settle=1, threads=2)
    problem = learner.problem(learner.prepare(trees))
    rng, weights = np.random.default_rng(0), problem.trees.one_state()
    for _ in range(options.cycles):
        enough = (problem.trees.corpus.symbol_counts() >= 4 * weights.states) & problem.splittable()
        weights = problem.trees.split(weights, np.where(enough, 2, 1), 0.01, rng)
    observed = ObservedTrees(problem.trees.corpus, workers=workers)
    table = weights.lexical[problem.trees._places(weights.states)]
    count = 3
    observed.expectations(weights, lexical=table)
    with Meter(workers).measured() as figures:
        for _ in range(count):
            found = observed.expectations(weights, lexical=table)
    sums = hashlib.sha256(found.tensors.tobytes()).hexdigest()[:16]
    sizes = {"weights": len(weights.tensors), "shards": observed.n_shards, "nodes": problem.trees.corpus.n_nodes}
    del folder
    return {**{name: value / count for name, value in figures.items()}, "digest": sums, **sizes}


def parse(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A crawl with the included model."""
    sentences = [" ".join(tree.words()) for tree in read_trees(options.treebank / "train.mrg")][: options.trees]
    lines, files = itertools.cycle(sentences), []
    for number in range(options.files):
        files.append(folder / f"{number:04d}.txt.gz")
        part = itertools.islice(lines, options.sentences // options.files)
        files[-1].write_bytes(gzip.compress("".join(f"{line}\n" for line in part).encode(), mtime=0))
    parser = sapwood.Parser(workers=workers)
    with Meter(workers).measured() as figures:
        reports = parse_files(parser, files, folder / "out")
    found = "".join(report.output_digest for report in reports)
    count = sum(report.sentences for report in reports)
    model = sum(grammar.tensors.nbytes for grammar in parser.grammars)
    return {**figures, "digest": hashlib.sha256(found.encode()).hexdigest()[:16], "sentences": count, "model": model}


def count(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """N-grams up to order 3 of a text, written out as often as it takes."""
    from sapwood.files import read_lines

    tokens, lines = 0, [line for _, line in read_lines(options.text)]
    with (folder / "text").open("w") as stream:
        for line in itertools.cycle(lines):
            stream.write(line)
            tokens += len(line.split())
            if tokens >= options.tokens:
                break
    size = (folder / "text").stat().st_size
    with Meter(workers).measured() as figures:
        found = count_text(folder / "text", order=3, threads=workers.threads, workers=workers)
    found.save(folder / "counts")
    sizes = {"tokens": tokens, "bytes": size, "ngrams": len(found.table(3)[1])}
    return {**figures, "digest": digest(folder / "counts"), **sizes}


def drawn_counts(bigrams: int) -> tuple[scipy.sparse.csr_array, Vocabulary]:
    """Return counts of about so many bigrams of words as frequent as words are."""
    rng = np.random.default_rng(0)
    words = 50_000
    chance = 1 / np.arange(1, words + 1) ** 0.5
    pairs = np.unique(np.concatenate([
        rng.choice(words, size, p=chance / chance.sum()) * words + rng.choice(words, size, p=chance / chance.sum())
        for size in [1 << 22] * -(-int(bigrams * 1.1) >> 22)
    ]))  # fmt: skip
    values = 1 + (rng.random(len(pairs)) * 5).astype(np.int64)
    matrix = scipy.sparse.csr_array((values, (pairs // words, pairs % words)), (words, words))
    names = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, words))]
    return matrix, Vocabulary(names, np.ones(words, np.int64))


def memory(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A language model from more counts than a worker may hold."""
    matrix, vocabulary = drawn_counts(int(options.bigrams))
    learner = AggregateMarkov(states=16, iterations=2, threads=workers.threads, workers=workers)
    with Meter(workers).measured() as figures:
        save_model(learner.fit(matrix, vocabulary=vocabulary), folder / "model")
    size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    most = 0 if isinstance(workers, Threads) else max(workers._client.run(most_memory).values())
    return {**figures, "digest": digest(folder / "model"), "counts": size, "most": most, "bigrams": matrix.nnz}


def kills(workers: Workers, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A training whose workers are killed at random moments."""
    trees = list(read_trees(options.treebank / "train.mrg"))[: options.trees]
    learner = sapwood.SplitMerge(cycles=options.cycles, threads=1)
    corpus, killed, over = learner.prepare(trees), [0], threading.Event()
    chance = random.Random(0)

    def kill() -> None:
        while killed[0] < options.kills and not over.wait(chance.uniform(0.5, options.pause)):
            pids = list(workers._client.run(os.getpid, on_error="ignore").values())
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed[0] += 1

    if isinstance(workers, Threads):
        grammar = learner.fit(corpus)
    else:
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        grammar = learner.replace(workers=workers).fit(corpus)
        over.set()
        killer.join()
    grammar.save(folder / "model")
    return {"digest": digest(folder / "model"), "killed": killed[0]}


MEASURES = dict(zip(PARTS, (tasks, split_merge, one_pass, parse, count, memory, kills), strict=True))


def measure(part: str, options: argparse.Namespace, results: Results) -> None:
    """Measure a part on threads, and on clusters."""
    for number in (0, *options.workers):
        if results.find(part, number) is not None:
            continue
        limit = {"memory": options.limit} if part == "memory" else {}
        place = nullcontext(Threads(2)) if number == 0 else Cluster(f"local:{number}", **limit)
        with place as workers, tempfile.TemporaryDirectory() as folder:
            figures = MEASURES[part](workers, options, Path(folder))
        if not figures:
            continue
        known = results.find(part, 0)
        if known is not None and known.get("digest") != figures.get("digest"):
            raise SystemExit(f"{part}: {number} workers give other bytes than threads")
        results.add(part, number, **figures)


# What follows from it.


def overhead(results: Results) -> None:
    """Print what two processes take more than two threads."""
    for part in ("split-merge", "pass", "parse", "count"):
        rows = {number: results.find(part, number) for number in (0, 1, 2, 3)}
        for number, row in rows.items():
            if row is not None and rows[0] is not None and number:
                more = 100 * (row["seconds"] / rows[0]["seconds"] - 1)
                wall = row["wall"] / rows[0]["wall"]
                print(
                    f"{part}: local:{number} takes {more:+.0f} % seconds of processors, {wall:.2f} of the wall's; "
                    f"sent {row['sent'] / 1e6:.1f} MB, received {row['received'] / 1e6:.1f} MB, "
                    f"between workers {row['travelled'] / 1e6:.1f} MB"
                )


def projection(results: Results) -> None:
    """Print how long large things would take on many workers, by a model of work, calls and bytes.

    seconds = work / workers + calls * (seconds of the scheduler for each) + bytes through this process / network
              + bytes that each worker gets / network
    """
    needed = [results.find(*key) for key in (("tasks", 2), ("parse", 2), ("count", 2), ("pass", 2))]
    if any(row is None for row in needed):
        print("the projection needs tasks, parse, count and pass, with two workers")
        return
    calls, parsed, counted, passed = (row for row in needed if row is not None)
    call = calls["kept_here"]
    print(f"\nA call costs the scheduler {1e3 * call:.2f} ms. Seconds (hours for more than 10,000) by workers:\n")
    print("| work | 1 | 2 | 3 | 10 | 100 | 1,000 | stops at |")
    print("|---|---|---|---|---|---|---|---|")
    sentence, word = parsed["there"] / parsed["sentences"], counted["there"] / counted["tokens"]

    def line(name: str, work: float, number: Callable[[int], float], size: Callable[[int], float]) -> None:
        def seconds(workers: int) -> float:
            return work / workers + number(workers) * call + size(workers) / NETWORK

        def cell(workers: int) -> str:
            found = seconds(workers)
            return f"{found:,.1f}" if found < 1e4 else f"{found / 3600:,.0f} h"

        candidates = sorted({int(10 ** (x / 8)) for x in range(41)})
        best = min(candidates, key=seconds)
        # Beyond, twice as many workers gain less than a fifth.
        stop = next((w for w in candidates if seconds(2 * w) > 0.8 * seconds(w)), best)
        print(f"| {name} | {' | '.join(cell(workers) for workers in (1, 2, 3, 10, 100, 1000))} | {stop:,} |")

    line("measured: parse", parsed["there"], lambda _: parsed["sentences"] / 1000, lambda w: w * parsed["model"])
    line("parse 1e9 sentences", 1e9 * sentence, lambda _: 1e9 / FILE, lambda w: np.log2(w + 1) * parsed["model"])
    shards = 1e11 / counted["tokens"] * counted["bytes"] / (1 << 26)
    # At the rates of the text that was counted, and so too much: the longer a text, the fewer n-grams of it are new.
    travel, back = (1e11 * counted[name] / counted["tokens"] for name in ("travelled", "received"))
    line(
        "count 1e11 words, order 3",
        1e11 * word,
        lambda w: shards * (2 + min(2 * w, 1024)),
        lambda w: 2 * travel / w + back,
    )
    size = passed["weights"]

    def of_pass(nodes: float, shards: float) -> tuple[float, Callable[[int], float], Callable[[int], float]]:
        work = passed["there"] / passed["nodes"] * nodes

        def runs(w: int) -> float:
            return max(min(w, shards), shards / 64)

        def parts(w: int) -> float:
            return min(2 * min(runs(w), 64), size / (1 << 17) + 1)

        # Weights to a worker and on to others, sums from run to run (a part at a time), and sums of blocks back.
        def travels(w: int) -> float:
            return 8 * size + 8 * size * (1 + min(runs(w), 64) / parts(w)) + 8 * size * -(-shards // 64)

        return work, lambda w: runs(w) * (2 + parts(w)), travels

    line("measured: one pass of EM", *of_pass(passed["nodes"], passed["shards"]))
    line("one pass of EM, 1e8 nodes", *of_pass(1e8, 1e8 / 65536))
    for number in (1, 2, 3):
        for part in ("parse", "pass"):
            row = results.find(part, number)
            if row is not None:
                print(
                    f"\nmeasured: {part} on {number}: {row['wall']:.1f} s of the wall, {row['there']:.1f} s of workers"
                )


def main() -> None:
    """Measure what is asked for, and print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=[], choices=PARTS)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--trees", type=int, help="of the treebank, at most")
    parser.add_argument("--cycles", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--bigrams", type=float, default=4e7)
    parser.add_argument("--limit", type=int, default=450_000_000, help="bytes of a worker, for memory")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between kills, at most")
    options = parser.parse_args()
    results = Results(options.json)
    for part in options.parts:
        measure(part, options, results)
    overhead(results)
    projection(results)


if __name__ == "__main__":
    main()
