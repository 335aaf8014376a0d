"""What a cluster costs: the same work on threads and on processes, what travels, and how far that would scale.

    python benchmarks/cluster.py TREEBANK TEXT --json RESULTS
        [--parts start tasks bytes split-merge all-sent pass network parse count memory] [--workers 1 2 3]
        [--without-threads] [--repeat 3] [--cycles 5] [--sentences 20000] [--tokens 10000000] [--bigrams 3e7]
        [--limit 350e6] [--records]

TREEBANK is a directory with train.mrg; TEXT a text. Each run is a line in RESULTS, and what is there is not run again,
so that the script can be interrupted; without `--parts` it only prints what is there, and the projection. Threads and
clusters take turns, and of several runs the median counts.

Seconds are those of the processors, of this process (with the scheduler in it) and of all workers together, for they
say about the same on a machine that does other things as well; those on the wall are beside them. What workers take to
start is a part of its own and nowhere else. Bytes of results are compared: a difference ends the script.

`split-merge` is a training as it is, in which passes that are over sooner than they are sent stay here; in `all-sent`
none do, and in `pass` single ones with the weights of the last cycle are compared. `network` is the same over sockets,
as between machines, where processes do not see each other's files; so are `bytes` and `count`. `sent` and `received`
are bytes that went from and to this process, `between` what workers got from each other.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from gzip import compress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import _records
import sapwood
from _projection import print_projection
from _requirements import require
from sapwood.inference.batch import parse_files
from sapwood.inference.estep.trees import TreeEStep
from sapwood.lm import AggregateMarkov, Vocabulary, count_text
from sapwood.lm.counts.remote import find_words
from sapwood.lm.counts.shards import cut_shards
from sapwood.lm.io import save_model
from sapwood.runtime.dask import executor as cluster_module
from sapwood.runtime.dask.executor import DaskCluster
from sapwood.runtime.dask.serialise import Serialised
from sapwood.runtime.executor import Executor, Threads
from sapwood.storage.files import read_lines
from sapwood.trees.formats.registry import read_trees

THREADS = 2


def outgoing(dask_worker: Any) -> int:
    """Return the bytes that others have got from a worker."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def most_memory() -> int:
    """Return the most bytes that a process has had in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


class Meter:
    """Measures what workers do: seconds, and bytes that go to and fro."""

    def __init__(self, workers: Executor) -> None:
        self.client = workers._client if isinstance(workers, DaskCluster) else None
        self.figures: dict[str, float] = {}

    def there(self, call: Callable[..., Any]) -> float:
        """Return the sum of what a call returns on all workers."""
        return 0.0 if self.client is None else sum(self.client.run(call).values())

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """Measure what is done in a `with` block."""
        bytes_of = {"sent": 0, "received": 0, "calls": 0}
        if self.client is not None:
            get, gather = self.client.get, self.client.gather

            def counted_get(graph: dict[str, Any], *more: Any, **how: Any) -> Any:
                found = {
                    id(each): each for task in graph.values() for each in flat(task) if isinstance(each, Serialised)
                }
                bytes_of["sent"] += sum(map(sys.getsizeof, found.values()))
                bytes_of["calls"] += len(graph)
                return get(graph, *more, **how)

            def counted_gather(*more: Any, **how: Any) -> Any:
                found = gather(*more, **how)
                bytes_of["received"] += sum(map(sys.getsizeof, found))
                return found

            self.client.get, self.client.gather = counted_get, counted_gather
        began = time.perf_counter(), time.process_time(), self.there(time.process_time), self.there(outgoing)
        try:
            yield self.figures
        finally:
            if self.client is not None:
                del self.client.get, self.client.gather
        self.figures |= {
            "wall": time.perf_counter() - began[0],
            "here": time.process_time() - began[1],
            "there": self.there(time.process_time) - began[2],
            "between": max(0.0, self.there(outgoing) - began[3] - bytes_of["received"]),
            **bytes_of,
        }
        self.figures["seconds"] = self.figures["here"] + self.figures["there"]


def flat(thing: Any) -> Iterator[Any]:
    """Yield the arguments of a task, and what is in lists of them."""
    if hasattr(thing, "args"):
        for each in thing.args:
            yield from flat(each)
    else:
        yield thing


class Results:
    """Figures in a file, one run a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def runs(self, part: str, workers: int) -> list[dict[str, Any]]:
        """Return all runs of a part with so many workers (0: threads)."""
        return [row for row in self.rows if (row["part"], row["workers"]) == (part, workers)]

    def find(self, part: str, workers: int) -> dict[str, Any] | None:
        """Return the run whose seconds are the median, if there is one."""
        runs = sorted(self.runs(part, workers), key=lambda row: row.get("seconds", 0.0))
        return runs[len(runs) // 2] if runs else None

    def median(self, part: str, workers: int, name: str) -> float | None:
        """Return the median of a figure."""
        runs = self.runs(part, workers)
        return float(np.median([row[name] for row in runs])) if runs else None

    def add(self, part: str, workers: int, figures: dict[str, Any]) -> None:
        """Note and print figures."""
        row = {"part": part, "workers": workers, **figures}
        self.rows.append(row)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(
            ", ".join(f"{k} {v:,.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )


def digest(content: bytes) -> str:
    """Return a digest."""
    return hashlib.sha256(content).hexdigest()[:16]


# What is measured.


def start(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What workers have taken before they do anything, and what it takes to make a parser of the included model."""
    del options, folder
    meter = Meter(workers)
    begun, count = meter.there(time.process_time) / workers.count, range(workers.count)
    list(workers.gather(workers.persist(made, count)))
    with meter.measured() as figures:
        list(workers.gather(workers.persist(made, count)))
    return {**figures, "begun": begun, "make": figures["there"] / len(count)}


def made(_: int) -> int:
    """Make a parser."""
    return len(sapwood.Parser().grammars)


def empty(*_: Any) -> int:
    """Do nothing."""
    return 0


def tasks(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Calls that do nothing: many at once, and rounds as of a pass."""
    del options, folder
    list(workers.map(empty, range(100)))
    many, rounds = 1000, 50
    with Meter(workers).measured() as figures:
        list(workers.gather(workers.submit(empty, workers.submit(empty, range(many // 2)))))
    with Meter(workers).measured() as others:
        for _ in range(rounds):
            first = workers.submit(empty, range(workers.count))
            list(workers.gather(workers.submit(empty, [first] * workers.count)))
    calls = 2 * rounds * workers.count
    return {
        **{f"call_{name}": figures[name] / many for name in ("here", "there", "wall")},
        **{f"round_{name}": others[name] / calls for name in ("here", "there", "wall")},
        "seconds": figures["seconds"],
    }


def sent_bytes(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """An array that goes to all workers through sockets, sums that go from one to the next, and one that comes back."""
    del options, folder
    size, count = 5_000_000, 5
    array, own = np.ones(size), workers.persist(np.ones, [size] * workers.count)
    list(workers.map(len, own))
    with Meter(workers).measured() as figures:
        for _ in range(count):
            shared, sums = workers.broadcast(array), None
            for each in own:
                sums = workers.submit(added, [sums], [each], [shared])[0]
            total = next(workers.gather([sums]))
    assert total[0] == 2 * workers.count
    # To the scheduler, to each worker, from one to the next, and back here.
    return {**figures, "hop": figures["seconds"] / (count * array.nbytes * (2 * workers.count + 1))}


def added(before: np.ndarray | None, own: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Return a sum as of a pass: of what there is, and of something that was made from what is shared."""
    return own + shared if before is None else before + own + shared


def treebank(options: argparse.Namespace, *, threads: int = THREADS) -> tuple[sapwood.SplitMerge, Any]:
    """Return a learner and a corpus."""
    trees = list(read_trees(options.treebank / "train.mrg"))[: options.trees]
    learner = sapwood.SplitMerge(cycles=options.cycles, threads=threads)
    return learner, learner.prepare(trees)


def split_merge(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A whole training."""
    learner, corpus = treebank(options)
    with Meter(workers).measured() as figures:
        grammar = learner.replace(workers=workers).fit(corpus)
    grammar.save(folder / "model")
    passes = options.cycles * (learner.iterations + learner.smoothing_iterations + 2)
    return {**figures, "digest": digest((folder / "model").read_bytes()), "passes": passes, "nodes": corpus.n_nodes}


def one_pass(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Some passes of EM with as many weights as a training has in its last cycle."""
    del folder
    learner, corpus = treebank(options)
    problem = learner.problem(corpus)
    rng, weights = np.random.default_rng(0), problem.trees.one_state()
    for _ in range(max(1, options.cycles - 1)):
        enough = (problem.trees.corpus.symbol_counts() >= 4 * weights.states) & problem.splittable()
        weights = problem.trees.split(weights, np.where(enough, 2, 1), 0.01, rng)
    observed = TreeEStep(problem.trees.corpus, workers=workers)
    table, count = weights.lexical[problem.trees._places(weights.states)], 5
    found = observed.expectations(weights, lexical=table)
    with Meter(workers).measured() as figures:
        for _ in range(count):
            found = observed.expectations(weights, lexical=table)
    sizes = {"weights": len(weights.tensors), "shards": observed.n_shards, "nodes": problem.trees.corpus.n_nodes}
    return {**{name: value / count for name, value in figures.items()}, "digest": digest(found.tensors), **sizes}


def parse(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A crawl with the included model."""
    sentences = [" ".join(tree.words()) for tree in read_trees(options.treebank / "train.mrg")][: options.trees]
    lines, files = itertools.cycle(sentences), []
    for number in range(options.files):
        files.append(folder / f"{number:04d}.txt.gz")
        part = itertools.islice(lines, options.sentences // options.files)
        files[-1].write_bytes(compress("".join(f"{line}\n" for line in part).encode(), mtime=0))
    parser = sapwood.Parser(workers=workers)
    with Meter(workers).measured() as figures:
        reports = parse_files(parser, files, folder / "out")
    found, count = "".join(report.output_digest for report in reports), sum(report.sentences for report in reports)
    sizes = {"sentences": count, "files": len(files), "model": sum(each.tensors.nbytes for each in parser.grammars)}
    return {**figures, "digest": digest(found.encode()), **sizes}


def count(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """N-grams up to order 3 of a text, written out as often as it takes."""
    tokens, lines = 0, [line for _, line in read_lines(options.text)]
    with (folder / "text").open("w") as stream:
        for line in itertools.cycle(lines):
            stream.write(line)
            tokens += len(line.split())
            if tokens >= options.tokens:
                break
    with Meter(workers).measured() as figures:
        found = count_text(folder / "text", order=3, threads=workers.threads, workers=workers)
    found.save(folder / "counts")
    if workers.is_local:  # how much of that is to find the words, which is done once more elsewhere
        began = time.process_time()
        list(map(find_words, cut_shards(folder / "text"), itertools.repeat(False)))
        figures["reading"] = time.process_time() - began
    sizes = {"tokens": tokens, "bytes": (folder / "text").stat().st_size, "ngrams": len(found.table(3)[1])}
    return {**figures, "digest": digest((folder / "counts").read_bytes()), **sizes}


def drawn_counts(bigrams: int) -> tuple[scipy.sparse.csr_array, Vocabulary]:
    """Return counts of about so many bigrams of words as frequent as words are."""
    rng, words = np.random.default_rng(0), 50_000
    # The k-th word is as probable as 1 / sqrt(k).
    first, second = ((words * rng.random(int(1.5 * bigrams)) ** 2).astype(np.int64) for _ in range(2))
    pairs = np.sort(first * words + second)  # np.unique takes a minute
    pairs = pairs[np.append(True, np.diff(pairs) > 0)][: int(bigrams)]
    values = 1 + (rng.random(len(pairs)) * 5).astype(np.int64)
    begins = np.searchsorted(pairs, words * np.arange(words + 1)).astype(np.int32)
    matrix = scipy.sparse.csr_array((values, (pairs % words).astype(np.int32), begins), (words, words))
    names = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, words))]
    return matrix, Vocabulary(names, np.ones(words, np.int64))


def memory(workers: Executor, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A language model from more counts than a worker may hold."""
    before = max(workers._client.run(most_memory).values()) if isinstance(workers, DaskCluster) else 0
    matrix, vocabulary = drawn_counts(int(options.bigrams))
    learner = AggregateMarkov(states=16, iterations=2, threads=workers.threads, workers=workers)
    with Meter(workers).measured() as figures:
        save_model(learner.fit(matrix, vocabulary=vocabulary), folder / "model")
    size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    after = max(workers._client.run(most_memory).values()) if isinstance(workers, DaskCluster) else 0
    sizes = {"counts": size, "before": before, "most": after, "bigrams": matrix.nnz, "limit": int(options.limit)}
    return {**figures, "digest": digest((folder / "model").read_bytes()), **sizes}


MEASURES: dict[str, Callable[[Executor, argparse.Namespace, Path], dict[str, Any]]] = {
    "start": start, "tasks": tasks, "bytes": sent_bytes, "split-merge": split_merge, "all-sent": split_merge,
    "pass": one_pass, "network": one_pass, "parse": parse, "count": count, "memory": memory,
}  # fmt: skip
# Those that know no threads, those in which everything is sent, and those over sockets.
ALONE, SENT, NETWORK = (
    ("start", "tasks", "bytes"),
    ("all-sent", "pass", "network", "memory"),
    ("bytes", "network", "count"),
)


def measure(part: str, options: argparse.Namespace, results: Results) -> None:
    """Measure a part on threads, and on clusters, in turn."""
    honest = cluster_module._WORTH_CALLING
    for turn, number in itertools.product(range(options.repeat), (0, *options.workers)):
        if len(results.runs(part, number)) > turn or (number == 0 and (part in ALONE or options.without_threads)):
            continue
        cluster_module._WORTH_CALLING = 0.0 if part in SENT else honest
        with ExitStack() as stack:
            workers: Executor = Threads(THREADS)
            if number:
                limit = {"memory": int(options.limit)} if part == "memory" else {}
                workers = stack.enter_context(DaskCluster(f"local:{number}", threads=THREADS, **limit))
                if part in NETWORK:
                    workers = stack.enter_context(DaskCluster(workers._client.scheduler.address, threads=THREADS))
                    workers._connection.shared = None
                if part not in (*ALONE, "memory"):  # modules are imported here, too
                    list(workers.gather(workers.persist(made, range(number))))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            figures = MEASURES[part](workers, options, Path(folder))
        known = {row.get("digest") for row in results.rows if row["part"] == part}
        if known and figures.get("digest") not in known:
            raise SystemExit(f"{part}: {number} workers give other bytes than before")
        results.add(part, number, figures)
    cluster_module._WORTH_CALLING = honest


def overhead(results: Results) -> None:
    """Print what processes take more than two threads."""
    print("\n| | workers | runs | processor seconds | more | wall | more | sent MB | received MB | between MB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for part in ("split-merge", "all-sent", "pass", "network", "parse", "count", "memory"):
        for number in (0, 1, 2, 3):
            row, runs = results.find(part, number), len(results.runs(part, number))
            if row is None:
                continue
            cells = []
            for name in ("seconds", "wall"):
                value, base = results.median(part, number, name), results.median(part, 0, name)
                more = f"{100 * (value / base - 1):+.0f} %" if number and value and base else ""
                cells += [f"{value:.2f}", more]
            sizes = [f"{row[name] / 1e6:,.1f}" if number else "" for name in ("sent", "received", "between")]
            print(f"| {part} | {number or 'threads'} | {runs} | {' | '.join(cells + sizes)} |")
    for number in (1, 2, 3):
        if (row := results.find("memory", number)) is not None:
            sizes = ", ".join(f"{name} {row[name] / 1e6:,.0f} MB" for name in ("counts", "limit", "before", "most"))
            print(f"memory of each worker, local:{number}: {sizes}")
        if (row := results.find("start", number)) is not None:
            print(f"start, local:{number}: {row['begun']:.2f} s of each worker, {row['make']:.2f} s to make a parser")


def write_records(options: argparse.Namespace, results: Results) -> None:
    """Write the overhead of two processes, in runs that took turns with two threads, to the records."""
    data = _records.digest_files([options.treebank / "train.mrg"])
    for part in options.parts:
        row, base = results.find(part, 2), results.find(part, 0)
        if row is None or base is None:
            continue
        figures = {
            "threads_seconds": base["seconds"],
            "seconds": row["seconds"],
            "overhead": 100 * (row["seconds"] / base["seconds"] - 1),
            "runs": len(results.runs(part, 2)),
            **{f"{name}_mb": row[name] / 1e6 for name in ("sent", "received", "between")},
        }
        name = f"{options.treebank.name}/cluster-{part}"
        command = f"python benchmarks/cluster.py DATA TEXT --json FIGURES --parts {part} --workers 2 --records"
        note = "CPU seconds of all processes; medians of runs that took turns, on a machine with other work"
        _records.add(_records.measured(name, figures, seed=0, command=command, data=data, describes=None, note=note))


def main() -> None:
    """Measure what is asked for, and print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=[], choices=MEASURES)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--without-threads", action="store_true", help="to run beside a run of threads alone")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--trees", type=int, help="of the treebank, at most")
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--bigrams", type=float, default=3e7)
    parser.add_argument("--limit", type=float, default=350e6, help="bytes of a worker, for memory")
    parser.add_argument("--records", action="store_true", help="write the overhead of two processes to the records")
    options = parser.parse_args()
    require(treebanks=[options.treebank], parts=["train"], files=[options.text], packages="distributed")
    results = Results(options.json)
    for part in options.parts:
        measure(part, options, results)
    if options.records:
        write_records(options, results)
    overhead(results)
    print_projection(results.find)


if __name__ == "__main__":
    main()
