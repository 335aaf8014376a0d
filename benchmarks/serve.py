"""Load on `sapwood serve`: many clients at once, sentences of mixed lengths, one a request or `--batch` of them.

    python benchmarks/serve.py ../shared/data/gum/test.mrg --setups 1x2 1x1 2x1 --clients 200 --seconds 120

Clients send the sentences of a treebank in random order, each waiting for its answer before it sends the next; one
that is told to come back (503) waits for a second. A setup is a number of processes and of threads of each. Before and
after each load `sapwood parse` parses such sentences with as many threads. It prints requests by status, latencies, the
parser's own time for a sentence, the most memory that the server took, and sentences per second of wall and of CPU time
of both. Clients run on the same cores as the server, so by wall time it has less of the machine than `sapwood parse`;
by CPU time it has not. Latencies and sentences per second of wall time mean nothing while other work runs on the
machine, and even CPU time then varies: with `--rounds 8 --requests 3000` the setups and `sapwood parse` take turns, and
medians count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import _records
from _requirements import require
from sapwood.inference.parser import Parser
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser

Figures = dict[str, Any]
# Requests at a time, by default that of the server.
_QUEUE = 128
_SPEEDS = ("per_second", "per_cpu_second")


class End(NamedTuple):
    """When a load ends: at a time, or at a number of requests."""

    time: float
    requests: int | None

    def reached(self, seen: Sequence[object]) -> bool:
        """Return whether the load is over."""
        return time.perf_counter() >= self.time if self.requests is None else len(seen) >= self.requests


class Setup(NamedTuple):
    """Processes of a server, and threads of each."""

    workers: int
    threads: int

    def __str__(self) -> str:
        return f"{self.workers}x{self.threads}"


def read_setup(text: str) -> Setup:
    """Return the setup in an argument."""
    if (found := re.fullmatch(r"([1-9][0-9]?)x([1-9][0-9]?)", text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not processes x threads, such as 2x1")
    return Setup(int(found[1]), int(found[2]))


def read_sentences(path: str, longest: int) -> list[list[str]]:
    """Return the sentences of a treebank that are not too long."""
    clean = filter(None, map(Normaliser(), read_trees(path)))
    return [words for tree in clean if len(words := tree.words()) <= longest]


def batched(sentences: Sequence[list[str]], size: int) -> Iterator[Sequence[list[str]]]:
    """Yield so many sentences at a time."""
    return (sentences[first : first + size] for first in range(0, len(sentences), size))


def family(process: int) -> list[int]:
    """Return a process and its children, those of a server with `--workers`."""
    return [process, *map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def memory_of(process: int) -> int:
    """Return the bytes that a process and its children hold now; what they share counts once."""
    texts = (Path(f"/proc/{one}/smaps_rollup").read_text() for one in family(process))
    return sum(1024 * int(found[1]) for text in texts if (found := re.search(r"Pss:\s+(\d+) kB", text)))


def cpu_of(process: int) -> float:
    """Return the CPU seconds that a process and its children have taken."""
    rows = (Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in family(process))
    return sum(int(row[11]) + int(row[12]) for row in rows) / os.sysconf("SC_CLK_TCK")


async def client(port: int, bodies: Sequence[bytes], end: End, seed: int, seen: list[tuple[int, float]]) -> None:
    """Send one request after the other over one connection, noting status and seconds of each."""
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not end.reached(seen):
        body = rng.choice(bodies)
        began = time.perf_counter()
        writer.write(
            b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        answer = await reader.readexactly(int(length[1]) if length else 0)
        seen.append((status, time.perf_counter() - began))
        if status == 503:
            await asyncio.sleep(1.0)
        elif status != 200:
            print(status, answer[:200], file=sys.stderr)
    writer.close()


async def load(
    port: int, process: int, bodies: Sequence[bytes], clients: int, seconds: float, requests: int | None = None
) -> Figures:
    """Return what all clients have seen in this time, or until there were so many requests."""
    seen: list[tuple[int, float]] = []
    end = End(time.perf_counter() + seconds, requests)
    most = 0

    async def watch() -> None:
        nonlocal most
        while not end.reached(seen):
            most = max(most, memory_of(process))
            await asyncio.sleep(0.2)

    before, began = cpu_of(process), time.perf_counter()
    work = (client(port, bodies, end, seed, seen) for seed in range(clients))
    errors = await asyncio.gather(watch(), *work, return_exceptions=True)
    wall, cpu = time.perf_counter() - began, cpu_of(process) - before
    done = sorted(taken for status, taken in seen if status == 200)
    return {
        "statuses": dict(Counter(status for status, _ in seen)),
        "broken": sum(isinstance(error, Exception) for error in errors),
        "answered": len(done),
        "per_second": len(done) / wall,
        "per_cpu_second": len(done) / max(cpu, 1e-9),
        "p50_ms": 1000 * done[len(done) // 2],
        "p99_ms": 1000 * done[len(done) * 99 // 100],
        "memory_mb": most / 2**20,
    }


@contextlib.contextmanager
def serving(bodies: Sequence[bytes], setup: Setup, queue: int) -> Iterator[tuple[int, int]]:
    """Start a server, warm it and stop it in the end; yields its port and its process."""
    command = [sys.executable, "-m", "sapwood", "serve", "-q", "--port", "0", "--threads", str(setup.threads)]
    command += ["--queue", str(queue), "--workers", str(setup.workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = re.search(r":(\d+)/", server.stdout.readline())
        assert port is not None
        try:
            asyncio.run(load(int(port[1]), server.pid, bodies, 2, 3.0))
            yield int(port[1]), server.pid
        finally:
            server.terminate()


def parse(sentences: Sequence[Sequence[str]], threads: int) -> Figures:
    """Parse sentences with `sapwood parse`; the time of starting it is taken off."""

    def run(some: Sequence[Sequence[str]]) -> tuple[float, float]:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write("".join(" ".join(words) + "\n" for words in some))
            file.flush()
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "sapwood", "parse", file.name, "-q", "--json", "--threads", str(threads)],
                stdout=subprocess.DEVNULL,
                check=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return time.perf_counter() - began, cpu

    start = run(sentences[:1])
    whole = run(sentences)
    number = len(sentences) - 1
    wall, cpu = (max(whole[part] - start[part], 1e-9) for part in (0, 1))
    return {"parsed": number, "per_second": number / wall, "per_cpu_second": number / cpu}


def own_times(sentences: Sequence[Sequence[str]]) -> Figures:
    """Return the CPU time that the parser takes for a sentence, one at a time and with nothing around it."""
    parser = Parser()
    seconds = []
    for words in sentences:
        began = time.thread_time()
        parser.parse_one(words)
        seconds.append(time.thread_time() - began)
    done = sorted(seconds[len(seconds) // 4 :])  # the first ones warm it
    return {f"p{part}_ms": 1000 * done[len(done) * part // 100] for part in (50, 99)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--requests", type=int, help="end after so many requests instead, however long they take")
    parser.add_argument("--rounds", type=int, default=1, help="how often, in turns with `sapwood parse`")
    parser.add_argument(
        "--setups", nargs="+", default=["1x2"], type=read_setup, metavar="PxT", help="processes x threads of each"
    )
    parser.add_argument("--queue", type=int, default=_QUEUE)
    parser.add_argument("--batch", type=int, default=1, help="sentences of a request")
    parser.add_argument("--words", type=int, default=120, help="longer sentences are left out")
    parser.add_argument("--parsed", type=int, default=5000, help="sentences for `sapwood parse`")
    parser.add_argument("--records", action="store_true", help="write the figures as a record")
    options = parser.parse_args(arguments)
    require(files=[options.treebank], packages="uvicorn httptools starlette msgspec")
    sentences = read_sentences(options.treebank, options.words)
    rng = random.Random(0)
    mixed = rng.sample(sentences, len(sentences))
    bodies = [json.dumps({"sentences": list(batch)}).encode() for batch in batched(mixed, options.batch)]
    some = [rng.choice(sentences) for _ in range(options.parsed)]
    parsed = {setup: [parse(some, setup.workers * setup.threads)] for setup in options.setups}
    served: dict[Setup, list[Figures]] = {setup: [] for setup in options.setups}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(bodies, setup, options.queue)) for setup in options.setups]
        for _ in range(options.rounds):
            for setup, (port, process) in zip(options.setups, servers, strict=True):
                figures = asyncio.run(load(port, process, bodies, options.clients, options.seconds, options.requests))
                for figure in _SPEEDS:  # of sentences, about: the last batch may be smaller
                    figures[figure] *= len(sentences) / len(bodies)
                served[setup].append(figures)
                parsed[setup].append(parse(some, setup.workers * setup.threads))
    own = own_times(some[:1000])
    for setup in options.setups:
        found: Figures = {"serve": served[setup], "parse": parsed[setup], "own": own}
        for figure in _SPEEDS:
            # Each round beside what was parsed before and after it.
            around = [(one[figure] + other[figure]) / 2 for one, other in pairwise(parsed[setup])]
            shares = [one[figure] / other for one, other in zip(served[setup], around, strict=True)]
            found[f"{figure}_shares"], found[f"{figure}_share"] = shares, statistics.median(shares)
        print(json.dumps({"setup": str(setup), **found}, indent=1))
        if options.records:
            write_record(options, setup, found)


def write_record(options: argparse.Namespace, setup: Setup, found: Figures) -> None:
    """Write the figures as a record: sums and medians of all rounds."""
    served, name = found["serve"], f"service/{setup}-{options.clients}-clients"
    if options.queue != _QUEUE:
        name += f"-queue-{options.queue}"
    statuses = sum((Counter(one["statuses"]) for one in served), Counter[int]())
    figures = {
        "answered": statuses[200],
        "busy": statuses[503],
        "failed": statuses.total() - statuses[200] - statuses[503] + sum(one["broken"] for one in served),
        "cpu_ms": 1000 / statistics.median(one["per_cpu_second"] for one in served),
        "parse_cpu_ms": 1000 / statistics.median(one["per_cpu_second"] for one in found["parse"]),
        "per_cpu_second_share": found["per_cpu_second_share"],
        **{f"own_{figure}": found["own"][figure] for figure in ("p50_ms", "p99_ms")},
        "memory_mb": max(one["memory_mb"] for one in served),
    }
    if options.requests is None:  # otherwise the machine is busy, and the clock says nothing
        for figure in ("per_second", "p50_ms", "p99_ms"):
            figures[figure] = statistics.median(one[figure] for one in served)
        figures["parse_per_second"] = statistics.median(one["per_second"] for one in found["parse"])
        figures["per_second_share"] = found["per_second_share"]
    command = (
        f"python benchmarks/serve.py DATA/{Path(options.treebank).parent.name}/{Path(options.treebank).name} "
        f"--setups {' '.join(map(str, options.setups))} --clients {options.clients} "
        f"{f'--seconds {options.seconds:g}' if options.requests is None else f'--requests {options.requests}'} "
        f"--queue {options.queue} --rounds {options.rounds} --parsed {options.parsed} --records"
    )
    data = _records.digest_files([Path(options.treebank)])
    _records.add(_records.measured(name, figures, seed=0, command=command, data=data, describes=None))


if __name__ == "__main__":
    main()
