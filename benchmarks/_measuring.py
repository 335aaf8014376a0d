"""Measurements of commands and parsers: processor time, peak memory, and parses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import sapwood


def run_measured(arguments: list[str]) -> dict[str, float]:
    """Run `sapwood` and return its processor seconds, those of the clock, and its peak memory in megabytes."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sapwood", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"sapwood {' '.join(arguments)}: exit code {process.returncode}\n{said}")
    return {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "seconds": time.perf_counter() - began,
        "megabytes": usage.ru_maxrss / 1024,
    }


def read_gold(path: Path, first: int | None = None) -> list[sapwood.Tree]:
    """Return the cleaned trees of a file, or the first of them."""
    trees = [tree for tree in map(sapwood.Normaliser(), sapwood.read_trees(path)) if tree is not None]
    return trees[:first]


def parse_all(parser: sapwood.Parser, sentences: list[list[str]]) -> tuple[float, float, list[sapwood.ParseResult]]:
    """Parse and format everything; returns processor seconds, those of the clock, and the results."""
    start, cpu = time.perf_counter(), time.process_time()
    results = []
    for result in parser.parse(sentences):
        str(result.tree)
        results.append(result)
    return time.process_time() - cpu, time.perf_counter() - start, results
