"""Splits of a treebank."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sapwood.errors import InputError, UsageError
from sapwood.pipeline.split import assign_parts, split_treebank
from sapwood.trees.tree import Tree


def trees(count: int, name: str = "w") -> list[Tree]:
    return [Tree("S", [Tree("A", word=f"{name}{number}")]) for number in range(count)]


@given(st.integers(3, 60), st.integers(0, 5), st.sampled_from([0, 1, 0.1, 0.25]), st.sampled_from([0, 1, 0.1, 0.3]))
def test_single_trees_give_the_sizes_asked_for(count, seed, dev, test):
    [parts] = assign_parts([count], dev=dev, test=test, seed=seed)
    wanted = {name: 0 if not size else max(1, round(size * count) if isinstance(size, float) else size)
              for name, size in (("dev", dev), ("test", test))}  # fmt: skip
    assert {name: parts.count(name) for name in wanted} == wanted
    assert parts.count("train") == count - sum(wanted.values())
    assert assign_parts([count], dev=dev, test=test, seed=seed) == [parts]


@given(st.lists(st.integers(1, 9), min_size=12, max_size=40), st.integers(0, 5))
def test_documents_stay_whole(sizes, seed):
    share = 1.5 * max(sizes) / sum(sizes)
    assume(4 * share < 1)
    parts = assign_parts(sizes, dev=share, test=share, seed=seed)
    assert [len(places) for places in parts] == sizes
    assert all(len(set(places)) == 1 for places in parts)
    for name in ("dev", "test"):
        found = sum(places.count(name) for places in parts)
        # There are documents left that are smaller than the part, so at most half of one is missing or left over.
        assert abs(found - round(share * sum(sizes))) <= max(sizes) / 2


def test_another_seed_gives_another_split():
    assert assign_parts([50], seed=0) != assign_parts([50], seed=1)


def test_every_tree_is_as_likely_as_any_other():
    times = [0] * 10
    for seed in range(2000):
        [parts] = assign_parts([10], dev=1, test=0, seed=seed)
        times[parts.index("dev")] += 1
    # Five standard deviations of a binomial distribution.
    assert all(abs(count - 200) < 5 * (2000 * 0.1 * 0.9) ** 0.5 for count in times)


def test_the_same_seed_gives_the_same_bytes_on_any_machine(tmp_path: Path):
    split_treebank([trees(100)], tmp_path, seed=3)
    digest = hashlib.sha256(b"".join((tmp_path / f"{name}.mrg").read_bytes() for name in ("train", "dev", "test")))
    assert digest.hexdigest()[:16] == "68b787f80e2f449e"


def test_parts_hold_every_tree_once_and_in_order(tmp_path: Path):
    found = split_treebank([trees(30, "a"), trees(30, "b")], tmp_path / "new", whole_documents=False)
    lines = {name: Path(part.path).read_text().splitlines() for name, part in found.items()}
    given_lines = [str(tree) for tree in (*trees(30, "a"), *trees(30, "b"))]
    assert sorted(line for part in lines.values() for line in part) == sorted(given_lines)
    assert all(part == sorted(part, key=given_lines.index) for part in lines.values())
    assert {name: part.trees for name, part in found.items()} == {"train": 48, "dev": 6, "test": 6}


def test_files_are_never_replaced_and_failures_leave_none(tmp_path: Path):
    (tmp_path / "test.mrg").write_text("mine")
    with pytest.raises(UsageError, match=r"test\.mrg: exists already"):
        split_treebank([trees(20)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test.mrg"]
    (tmp_path / "test.mrg").unlink()
    with pytest.raises(UsageError, match="leave none for training"):
        split_treebank([trees(20)], tmp_path, dev=10, test=10)
    with pytest.raises(InputError, match="no trees"):
        split_treebank([[]], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([10], {"dev": -1}, "negative"),
        ([10], {"dev": 1.5}, "below 1"),
        ([100, 100, 100], {"dev": 5, "test": 0}, "no document is small enough"),
        ([10, 10], {"dev": 0.45, "test": 0.45}, "no document is left for training"),
    ],
)
def test_impossible_splits_are_refused(sizes, options, message):
    with pytest.raises(UsageError, match=message):
        assign_parts(sizes, **options)
