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
