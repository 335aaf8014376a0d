"""Shards: parts of a sequence, and of a list of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import UsageError
from sapwood.runtime.shards import Shard


@given(st.integers(0, 1000), st.integers(1, 50))
def test_parts_are_neighbours_of_about_the_same_size(size: int, count: int) -> None:
    parts = [Shard(index, count).part(size) for index in range(1, count + 1)]
    assert [place for part in parts for place in part] == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("sizes", [[5, 5, 5, 5], [100, 1, 1, 1, 1, 1], [0, 0, 0], [1, 2, 3, 4, 5, 6, 7]])
def test_each_file_is_in_one_shard(tmp_path: Path, sizes: list[int]) -> None:
    paths = [tmp_path / str(number) for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(b"x" * size)
    for count in range(1, len(sizes) + 1):
        shards = [Shard(index, count).files(paths) for index in range(1, count + 1)]
        assert [path for shard in shards for path in shard] == paths
        # No shard has more than its share and a file.
        totals = [sum(sizes[int(Path(path).name)] for path in shard) for shard in shards]
        assert max(totals) <= sum(sizes) / count + max(sizes)


def test_a_file_belongs_where_its_middle_is(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path, size in zip(paths, (1, 10, 4), strict=True):
        path.write_bytes(b"x" * size)
    assert Shard(1, 2).files(paths) == paths[:2]
    paths[0].write_bytes(b"x" * 6)
    assert Shard(1, 2).files(paths) == paths[:1]


def test_what_is_no_shard(tmp_path: Path) -> None:
    assert Shard.parse("3/8") == Shard(3, 8)
    assert (str(Shard(3, 12)), Shard(3, 12).label) == ("3/12", "03-of-12")
    for text in ("0/3", "4/3", "1/0", "3", "1/2/3", "-1/3", "a/b", "1/1000000000", "", "١/٢"):
        with pytest.raises(UsageError, match="shard"):
            Shard.parse(text)
    (tmp_path / "a").write_text("a\n")
    with pytest.raises(UsageError, match=r"use at most 1 shards"):
        Shard(1, 2).files([tmp_path / "a"])
    with pytest.raises(UsageError, match=r"<stdin>: shards of a stream"):
        Shard(1, 1).files(["-"])
