"""What one core of the machine can do, to compare with."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def best_time(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest time of a few calls, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def matrix_product_speed(size: int = 512) -> float:
    """Return the floating-point operations a second, in thousand millions, of a float32 product on one core."""
    square = np.random.default_rng(0).random((size, size), dtype=np.float32)
    return 2 * size**3 / best_time(lambda: square @ square, 20) / 1e9


def copy_speed(size: int = 1 << 26) -> float:
    """Return the bytes a second, in thousand millions, that copying an array reads and writes."""
    source = np.zeros(size, np.uint8)
    target = np.empty_like(source)
    return 2 * size / best_time(lambda: np.copyto(target, source), 10) / 1e9


def reference_seconds() -> float:
    """Return the processor seconds of a fixed NumPy workload, the best of five.

    Products, sorting, scattered reads and sums: what figures of different machines are divided by.
    """
    rng = np.random.default_rng(0)
    square = rng.random((384, 384), dtype=np.float32)
    values = rng.random(200_000)
    places = rng.integers(0, len(values), 800_000)
    columns = rng.random((1_000, 1_000))

    def work() -> None:
        for _ in range(12):
            square @ square
        np.sort(values)
        values[places].sum()
        np.cumsum(columns, axis=0)

    times = []
    for _ in range(5):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
