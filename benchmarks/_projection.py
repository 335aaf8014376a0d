"""How long large things would take on many workers, by a model of work, calls and bytes.

    seconds = work / workers + calls * c + (bytes through one place, one after the other) / B + steps * l

- *work* is what it takes on threads, all cores together;
- `c` is what a call costs the scheduler, which does one thing at a time, and `c'` what it costs a worker;
- `B` is the network, 1 GB/s; on one machine each byte costs `h` seconds of processors a hop instead, from this process
  and back, and `h'` from one worker to another;
- `l` is how long a step of a chain takes beside what travels: a call waits for its arguments and its turn.

The same terms without division by workers are seconds of processors, which can be measured here, whatever else the
machine does, and however many workers share a core: the model is compared with those of one, two and three workers.
Its constants come from threads, from calls that do nothing and from an array that is sent around, not from the rows
that it is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Bytes a second between machines, seconds of a step, and sentences of a file.
NETWORK, STEP, FILE = 1e9, 0.01, 20_000
# Of the program: nodes of a shard, shards whose sums are made one after the other, parts of rules that go from one run
# to the next; bytes of a shard of text and of a span of n-grams.
SHARD, TOGETHER, WAYS, TEXT, SPAN = 1 << 16, 64, 4, 1 << 26, 1 << 28
Row = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """What something costs, by the terms of the model.

    Attributes
    ----------
    work
        Seconds of processors that are shared out.
    each
        Seconds of every worker.
    calls
        How many.
    serial
        Bytes that go through one place, one after the other.
    hops, between
        Bytes times the processes that hand them on: from here and back, and from one worker to another.
    steps
        Calls that wait for each other.
    """

    work: float
    each: float = 0.0
    calls: float = 0.0
    serial: float = 0.0
    hops: float = 0.0
    between: float = 0.0
    steps: float = 0.0

    def seconds(self, workers: float, call: float) -> float:
        """Return how long it takes on machines with a network between them."""
        return self.work / workers + self.each + self.calls * call + self.serial / NETWORK + self.steps * STEP

    def processors(self, workers: float, call: float, hop: float, between: float) -> float:
        """Return the seconds of all processors, on one machine."""
        sent = self.hops * hop + self.between * between
        return self.work + workers * self.each + self.calls * call + sent


def parsing(sentences: float, files: float, row: Row, make: float) -> Callable[[float], Cost]:
    """Return what parsing takes: a call a file, and a parser made on each worker."""
    work = sentences * row["seconds"] / row["sentences"]
    return lambda w: Cost(
        work, make, files, row["model"] * (1 + math.log2(w)) + 500 * files, row["model"] * 2 + 1000 * files,
        row["model"] * (w - 1),
    )  # fmt: skip


def counting(tokens: float, row: Row) -> Callable[[float], Cost]:
    """Return what counting takes: words are found first, and each shard's n-grams go to whoever merges a span of them.

    At the rates of the text that was counted, and so too much: the longer a text, the fewer of its n-grams are new.
    """
    share = tokens / row["tokens"]
    work, shards = share * (row["seconds"] + row["reading"]), math.ceil(share * row["bytes"] / TEXT)
    # An n-gram of each order, with its count; most of a text's are of the highest.
    size = share * row["ngrams"] * (3 * 4 + 8) * 1.5

    def cost(w: float) -> Cost:
        spans = min(max(2 * w, tokens * 20 / SPAN), 1024)
        # What is counted where it is merged need not be sent.
        return Cost(work, 0, shards * (2 + spans) + spans, size + size / w, size, size * (1 - 1 / min(w, shards)))

    return cost


def em_pass(nodes: float, row: Row) -> Callable[[float], Cost]:
    """Return what a pass of EM takes: weights to all, sums from run to run, and back here."""
    weights, shards = row["weights"], nodes / SHARD
    work = nodes * row["seconds"] / row["nodes"]

    def cost(w: float) -> Cost:
        blocks = math.ceil(shards / TOGETHER)
        runs = max(min(w, shards), blocks) + (blocks - 1 if w > 1 else 0)
        ways = WAYS if runs > 1 else 1
        chain = runs / blocks
        # Of each part of the rules a block's sums go through its runs, while others follow close behind.
        steps = chain + ways - 1
        serial = 4 * weights * (1 + math.log2(w)) + 8 * weights / ways * (steps + blocks - 1) + 8 * weights
        hops, between = 4 * weights * 2 + 8 * weights, 4 * weights * (w - 1) + 8 * weights * (runs - 1)
        calls = 1 + runs * (1 + ways) + (blocks - 1) * ways
        return Cost(work, 0, calls, serial, hops, between, steps + blocks + 2)

    return cost


def shown(seconds: float) -> str:
    """Return a time."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{seconds:.1f} s"


def print_projection(find: Callable[[str, int], Row | None]) -> None:
    """Print how the model does on one, two and three workers, and what it says of more."""
    # What a byte costs is clear where there is one worker: with more, Dask chooses what goes where.
    tasks, sent, begun, more = find("tasks", 2), find("bytes", 1), find("start", 2), find("bytes", 3)
    parsed, counted, passed = (find(part, 0) for part in ("parse", "count", "network"))
    if not (tasks and sent and more and begun and parsed and counted and passed):
        print("\nthe projection needs start and tasks with two workers, bytes with one and three, and parse, count and")
        print("network here")
        return
    call, both, hop = tasks["call_here"], tasks["round_here"] + tasks["round_there"], sent["hop"]
    between = (more["seconds"] - sent["seconds"]) / more["between"]
    make = begun["make"]
    print(f"\nA call costs the scheduler {1e3 * call:.2f} ms, and all processors {1e3 * both:.2f} ms in rounds as of a")
    print(f"pass; a byte costs {1e9 * hop:.2f} ns a hop, and {1e9 * between:.2f} ns from one worker to another.\n")
    print("| processor seconds | workers | model | measured | |")
    print("|---|---|---|---|---|")
    models = {
        "parse": parsing(parsed["sentences"], parsed["files"], parsed, make),
        "count": counting(counted["tokens"], counted),
        "network": em_pass(passed["nodes"], passed),
    }
    for part, model in models.items():
        for number in (1, 2, 3):
            if (row := find(part, number)) is not None:
                says = model(number).processors(number, both, hop, between)
                off = 100 * (says / row["seconds"] - 1)
                print(f"| {part} | {number} | {says:.2f} | {row['seconds']:.2f} | {off:+.0f} % |")
    print("\n| | 1 | 10 | 100 | 1,000 | stops at |")
    print("|---|---|---|---|---|---|")
    large = {
        "parse 1e9 sentences": parsing(1e9, 1e9 / FILE, parsed, make),
        "count 1e11 words, order 3": counting(1e11, counted),
        "one pass of EM, 1e8 nodes": em_pass(1e8, passed),
    }
    for name, model in large.items():

        def seconds(workers: float, model: Callable[[float], Cost] = model) -> float:
            return model(workers).seconds(workers, call)

        candidates = sorted({int(10 ** (x / 8)) for x in range(49)})
        # Beyond, twice as many workers gain less than a fifth.
        stop = next((w for w in candidates if seconds(2 * w) > 0.8 * seconds(w)), candidates[-1])
        cells = " | ".join(shown(seconds(workers)) for workers in (1, 10, 100, 1000))
        print(f"| {name} | {cells} | {stop:,} |")
        parts = model(1000.0)
        terms = {
            "work": parts.work / 1000, "each": parts.each, "calls": parts.calls * call,
            "bytes": parts.serial / NETWORK, "steps": parts.steps * STEP,
        }  # fmt: skip
        print(f"| with 1,000 | {', '.join(f'{term} {shown(value)}' for term, value in terms.items())} |||||")
