"""Workers: same results in the same order, whoever does the work."""

from __future__ import annotations

import time

import numpy as np
import pytest

from helpers.elsewhere import Elsewhere
from sapwood.errors import InputError, UsageError
from sapwood.runtime.dask.array_store import FileColumns, MemoryRows
from sapwood.runtime.executor import Threads, in_tree


def square(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number * number


def add(one: int, other: int) -> int:
    return one + other


def joined(total: str, number: int) -> str:
    return f"{total} {number}"


WANTED = [number * number for number in range(20)]
PLACES = [Threads(1), Threads(2), Threads(5), Elsewhere(1), Elsewhere(3)]


@pytest.mark.parametrize("workers", PLACES, ids=repr)
def test_order(workers):
    assert list(workers.map(square, range(20))) == WANTED
    assert list(workers.map(square, range(20), ahead=3)) == WANTED
    assert list(workers.map(add, range(4), [5, 6])) == [5, 7]


@pytest.mark.parametrize("workers", PLACES, ids=repr)
def test_what_is_kept_can_be_used_again(workers):
    kept = workers.submit(square, range(5))
    shared = workers.broadcast(100)
    assert list(workers.map(add, kept, [shared] * 5)) == [100, 101, 104, 109, 116]
    assert list(workers.map(sum, [kept])) == [30]
    assert workers.reduce(joined, "so", square, range(4)) == "so 0 1 4 9"


def test_items_are_taken_as_needed():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    results = Threads(2).map(square, items(), ahead=6)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert len(taken) <= 3 + 6
    results.close()


def test_errors_arrive_in_their_place():
    def fail(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    results = Threads(2).map(fail, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)


def test_there_is_a_thread_at_least():
    with pytest.raises(UsageError, match="threads must be at least 1, not 0"):
        Threads(0)


def test_columns_in_files_are_checked(tmp_path):
    arrays = {"a": np.arange(10), "b": np.arange(20.0).reshape(10, 2)}
    written = FileColumns.write(tmp_path / "columns", arrays)
    part, same = written.part(3, 7), MemoryRows(arrays).part(3, 7)
    for name, values in same.load().items():
        assert np.array_equal(part.load()[name], values)
    changed = np.load(tmp_path / "columns" / "a.npy")
    changed[5] = 0
    np.save(tmp_path / "columns" / "a.npy", changed)
    assert written.part(0, 3).load()["a"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"columns: rows 3 to 7 are not what was written"):
        part.load()
    (tmp_path / "columns" / "a.npy").unlink()
    with pytest.raises(InputError, match=r"a\.npy: no such file"):
        part.load()


@pytest.mark.parametrize("number", [*range(1, 34), 100])
def test_a_tree_joins_neighbours_level_by_level(number: int) -> None:
    level = [str(place) for place in range(number)]
    expected = list(level)
    while len(expected) > 1:
        pairs = [expected[place : place + 2] for place in range(0, len(expected), 2)]
        expected = [f"({''.join(pair)})" if len(pair) == 2 else pair[0] for pair in pairs]
    assert in_tree(lambda one, other: f"({one}{other})", iter(level)) == expected[0]
