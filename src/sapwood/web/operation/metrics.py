"""Metrics of a server in the Prometheus text format: requests, latencies, queue, sentences, memory, models.

All processes of a server count in one block of shared memory, a row each, so that any of them can answer for all. It is
allocated before they are forked. Counters therefore outlive the process that has counted.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from sapwood.inference.result import Status

# Upper limits of the latency histogram in seconds; the last one is infinite.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CODES = ("200", "304", "400", "401", "404", "405", "408", "413", "415", "422", "431", "500", "503")
STATUSES = (*get_args(Status), "no parse")
# Where requests to other paths count.
OTHER = "other"


class Metrics(Collector):
    """Counters of a server.

    Parameters
    ----------
    paths
        Paths whose requests are counted one by one.
    processes
        Number of processes of the server.
    """

    def __init__(self, paths: Iterable[str] = (), processes: int = 1) -> None:
        self.paths = (*dict.fromkeys(paths), OTHER)
        keys: list[tuple[Any, ...]] = [("process",), ("queue",), ("sentences",)]
        keys += [("parses", status) for status in STATUSES]
        for path in self.paths:
            keys += [("requests", path, code) for code in (*CODES, OTHER)] + [("seconds", path)]
            keys += [("bucket", path, number) for number in range(len(BUCKETS) + 1)]
        self._columns = {key: column for column, key in enumerate(keys)}
        shared = mmap.mmap(-1, processes * len(keys) * 8)
        self._rows = np.frombuffer(shared, np.float64).reshape(processes, len(keys))
        self._lock = threading.Lock()
        self.models: Sequence[dict[str, str]] = ()
        self.use_row(0)

    def use_row(self, number: int) -> None:
        """Count in this row from now on, as a process does when it begins."""
        self._row = self._rows[number]
        self._set(("process",), os.getpid())
        self._set(("queue",), 0)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        path = path if path in self.paths else OTHER
        code = str(status) if str(status) in CODES else OTHER
        with self._lock:
            self._row[self._columns["requests", path, code]] += 1
            self._row[self._columns["seconds", path]] += seconds
            self._row[self._columns["bucket", path, bisect_left(BUCKETS, seconds)]] += 1

    def count_sentence(self, status: str | None = None) -> None:
        """Count a sentence that was worked on, and the status of its parse, if it has one."""
        with self._lock:
            self._row[self._columns["sentences",]] += 1
            if status is not None:
                self._row[self._columns["parses", status]] += 1

    def set_queue(self, jobs: int) -> None:
        """Note the number of waiting and running requests of this process."""
        self._set(("queue",), jobs)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        sums = dict(zip(self._columns, self._rows.sum(axis=0).tolist(), strict=True))
        requests = CounterMetricFamily("sapwood_requests", "Answered requests.", labels=["path", "status"])
        seconds = HistogramMetricFamily("sapwood_request_seconds", "Time to an answer.", labels=["path"])
        for path in self.paths:
            for code in (*CODES, OTHER):
                if count := sums["requests", path, code]:
                    requests.add_metric([path, code], count)
            counts = np.cumsum([sums["bucket", path, number] for number in range(len(BUCKETS) + 1)]).tolist()
            if counts[-1]:
                limits = (*map(str, BUCKETS), "+Inf")
                seconds.add_metric([path], list(zip(limits, counts, strict=True)), sums["seconds", path])
        yield requests
        yield seconds
        yield CounterMetricFamily("sapwood_sentences", "Sentences of requests.", value=sums["sentences",])
        parses = CounterMetricFamily("sapwood_parses", "Parsed sentences by status.", labels=["status"])
        for status in STATUSES:
            parses.add_metric([status], sums["parses", status])
        yield parses
        yield GaugeMetricFamily("sapwood_queue", "Waiting and running requests.", value=sums["queue",])
        memory = GaugeMetricFamily("sapwood_memory_bytes", "Resident memory of each process.", labels=["process"])
        for row in self._rows[:, self._columns["process",]].tolist():
            if size := memory_of(int(row)):
                memory.add_metric([str(int(row))], size)
        yield memory
        models = InfoMetricFamily("sapwood_model", "Served models.")
        for model in self.models:
            models.add_metric(list(model), model)
        yield models

    def _set(self, key: tuple[Any, ...], value: float) -> None:
        self._row[self._columns[key]] = value


def memory_of(process: int) -> int:
    """Return the bytes that a process holds now; 0 where the system does not say."""
    try:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0
