"""Load on `sapwood serve`: many clients at once, sentences of mixed lengths, one a request or `--batch` of them.

    python benchmarks/serve.py ../shared/data/gum/test.mrg --clients 200 --seconds 120

Clients send the sentences of a treebank in random order, each waiting for its answer before it sends the next; one
that is told to come back (503) waits for as long as it was told. Before and after that `sapwood parse` parses such
sentences with the same number of threads. It prints requests by status, latencies beside the parser's own time for a
sentence, the most memory that the server took, and sentences per second of wall and of CPU time of both. Clients run on
the same cores as the server, so by wall time it has less of the machine than `sapwood parse`; by CPU time it has not.
Where other work comes and goes, even CPU time does: with `--rounds 8 --seconds 5` the two take turns, and the median of
the shares counts.
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
from typing import Any

import _records
from _requirements import require
from sapwood.inference.parser import Parser
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser

Figures = dict[str, Any]
_SPEEDS = ("per_second", "per_cpu_second")


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


async def client(port: int, bodies: Sequence[bytes], end: float, seed: int, seen: list[tuple[int, float]]) -> None:
    """Send one request after the other over one connection, noting status and seconds of each."""
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
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


async def load(port: int, process: int, bodies: Sequence[bytes], clients: int, seconds: float) -> Figures:
    """Return what all clients have seen."""
    seen: list[tuple[int, float]] = []
    end = time.perf_counter() + seconds
    most = 0

    async def watch() -> None:
        nonlocal most
        while time.perf_counter() < end:
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
def serving(bodies: Sequence[bytes], threads: int, queue: int, workers: int) -> Iterator[tuple[int, int]]:
    """Start a server, warm it and stop it in the end; yields its port and its process."""
    command = [sys.executable, "-m", "sapwood", "serve", "-q", "--port", "0", "--threads", str(threads)]
    command += ["--queue", str(queue), "--workers", str(workers)]
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
    parser.add_argument("--rounds", type=int, default=1, help="how often, in turns with `sapwood parse`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="processes of the server, each with --threads")
    parser.add_argument("--queue", type=int, default=128)
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
    parsed, served = [parse(some, options.threads)], []
    with serving(bodies, options.threads, options.queue, options.workers) as (port, process):
        for _ in range(options.rounds):
            figures = asyncio.run(load(port, process, bodies, options.clients, options.seconds))
            for figure in _SPEEDS:  # of sentences, about: the last batch may be smaller
                figures[figure] *= len(sentences) / len(bodies)
            served.append(figures)
            parsed.append(parse(some, options.threads))
    found: Figures = {"serve": served, "parse": parsed, "own": own_times(some[:1000])}
    for figure in _SPEEDS:
        # Each round beside what was parsed before and after it.
        around = [(one[figure] + other[figure]) / 2 for one, other in pairwise(parsed)]
        shares = [one[figure] / other for one, other in zip(served, around, strict=True)]
        found[f"{figure}_shares"], found[f"{figure}_share"] = shares, statistics.median(shares)
    print(json.dumps(found, indent=1))
    if options.records:
        write_record(options, found)


def write_record(options: argparse.Namespace, found: Figures) -> None:
    """Write the figures as a record: sums and medians of all rounds."""
    served, name = found["serve"], f"service/{options.workers}x{options.threads}-{options.clients}-clients"
    statuses = sum((Counter(one["statuses"]) for one in served), Counter[int]())
    figures = {
        "answered": statuses[200],
        "busy": statuses[503],
        "failed": statuses.total() - statuses[200] - statuses[503] + sum(one["broken"] for one in served),
        **{f"parse_{figure}": statistics.median(one[figure] for one in found["parse"]) for figure in _SPEEDS},
        **{f"{figure}_share": found[f"{figure}_share"] for figure in _SPEEDS},
        **{figure: statistics.median(one[figure] for one in served) for figure in (*_SPEEDS, "p50_ms", "p99_ms")},
        "memory_mb": max(one["memory_mb"] for one in served),
    }
    command = (
        f"python benchmarks/serve.py DATA/{Path(options.treebank).parent.name}/{Path(options.treebank).name} "
        f"--clients {options.clients} --seconds {options.seconds:g} --rounds {options.rounds} "
        f"--threads {options.threads} --workers {options.workers} --parsed {options.parsed} --records"
    )
    data = _records.digest_files([Path(options.treebank)])
    _records.add(_records.measured(name, figures, seed=0, command=command, data=data, describes=None))


if __name__ == "__main__":
    main()
