"""The ordered map: same results in the same order, whoever does the work."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from sapwood.run.parallel import map_in_order


def square(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number * number


WANTED = [number * number for number in range(20)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_order(threads):
    assert list(map_in_order(square, range(20), threads=threads)) == WANTED


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(1)])
def test_any_executor(make):
    with make() as executor:
        assert list(map_in_order(square, range(20), executor=executor)) == WANTED
        assert list(map_in_order(square, range(20), executor=executor, window=3)) == WANTED


def test_items_are_taken_as_needed():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_order(square, items(), threads=2, window=6)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert len(taken) <= 3 + 6
    results.close()


def test_errors_arrive_in_their_place():
    def fail(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    results = map_in_order(fail, range(10), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
