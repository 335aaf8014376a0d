"""Shards of text counted by separate processes, and their counts merged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from helpers.lm_twins import count_slowly, write
from sapwood.errors import InputError, UsageError
from sapwood.lm import Counts, count_text
from sapwood.lm.counts import merge
from sapwood.lm.counts.load import read_counts
from sapwood.lm.counts.merge import merge_counts
from sapwood.lm.counts.shards import text_of_shard
from sapwood.runtime.shards import Shard


def text_files(folder: Path) -> list[Path]:
    rng = np.random.default_rng(7)
    lines = [f"w{rng.geometric(0.1)} <s> x{' ' * (n % 3)}\n" * (n % 4) for n in range(60)]
    texts = ["\ufeffa b\n\ufeffa b c\n" + "".join(lines), "", "one\n", "no line end but <unk> and </s>"]
    paths = write(folder, *texts)
    packed = folder / "t.gz"
    packed.write_bytes(gzip.compress(b"packed a b\n" * 7))
    return [*paths[:2], packed, *paths[2:]]


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
@pytest.mark.parametrize(("order", "min_count", "max_words"), [(1, 1, None), (2, 2, None), (4, 1, 5), (5, 3, None)])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_merged_shards_are_the_file_of_one_run(tmp_path, boundaries, order, min_count, max_words, count):
    paths = text_files(tmp_path)
    cut = {"min_count": min_count, "max_words": max_words}
    count_text(paths, order=order, boundaries=boundaries, **cut).save(tmp_path / "whole")
    parts = []
    for index in range(count, 0, -1):
        part = count_text(paths, order=order, boundaries=boundaries, shard=Shard(index, count), threads=2)
        part.save(tmp_path / f"{index}.counts")
        parts.append(tmp_path / f"{index}.counts")
    for memory in (0, 1 << 30):
        read_counts(parts, memory=memory, **cut).save(tmp_path / "merged")
        assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()


def test_shards_are_lines_of_the_text(tmp_path):
    paths = text_files(tmp_path)
    whole = [b"".join(part.chunks()) for part in text_of_shard(paths, Shard(1, 1)).own]
    for count in (1, 2, 5, 300):
        shards = [text_of_shard(paths, Shard(index, count)) for index in range(1, count + 1)]
        contents = [b"".join(b"".join(part.chunks()) for part in shard.own) for shard in shards]
        assert b"".join(contents) == b"".join(whole)
        assert all(part.endswith(b"\n") for part in [part for part in contents if part][:-1])
        for number, shard in enumerate(shards):
            after = b"".join(b"".join(part.chunks()) for part in shard.following)
            assert after == b"".join(contents[number + 1 :])
    sizes = [len(b"".join(part.chunks())) for index in (1, 2) for part in text_of_shard(paths[:1], Shard(index, 2)).own]
    assert abs(sizes[0] - sizes[1]) < 0.2 * sum(sizes)


def test_counts_that_do_not_belong_together_are_refused(tmp_path):
    paths = text_files(tmp_path)
    parts = [count_text(paths, shard=Shard(index, 3)) for index in (1, 2, 3)]
    with pytest.raises(UsageError, match=r"shard 2/3 of a text is missing"):
        merge_counts([parts[0], parts[2]])
    with pytest.raises(UsageError, match=r"shard 1/3 of a text is given twice"):
        merge_counts([*parts, parts[0]])
    with pytest.raises(UsageError, match=r"is missing"):  # of another text
        merge_counts([*parts[:2], count_text(paths[:1], shard=Shard(3, 3))])
    with pytest.raises(UsageError, match=r"is missing"):
        read_counts([saved(parts[0], tmp_path)])
    with pytest.raises(UsageError, match=r"order and boundaries are the same"):
        merge_counts([parts[0], count_text(paths, order=3)])
    with pytest.raises(UsageError, match=r"cut the vocabulary when shards are merged"):
        count_text(paths, min_count=2, shard=Shard(1, 3))
    with pytest.raises(UsageError, match=r"<stdin>: shards of a stream"):
        count_text("-", shard=Shard(1, 3))


def saved(counts: Counts, folder: Path) -> Path:
    counts.save(folder / "part.counts")
    return folder / "part.counts"


def test_bad_text_is_named_by_its_line(tmp_path):
    (tmp_path / "t").write_bytes(b"good line\n" * 10 + b"bad \xff\n" + b"good\n" * 9)
    with pytest.raises(InputError, match=r"t:11:5: not valid UTF-8"):
        count_text(tmp_path / "t", shard=Shard(2, 2))


def test_merging_reads_files_in_ranges_of_words(tmp_path, monkeypatch):
    paths = write(tmp_path, "a b c a\nb b a\n" * 3, "c d a b\n<s> x\n")
    texts = [path.read_text() for path in paths]
    blocks = []
    group = merge.group
    monkeypatch.setattr(merge, "_ROWS", 2)
    monkeypatch.setattr(merge, "group", lambda *arguments: blocks.append(len(arguments[0])) or group(*arguments))
    counts = merge_counts([count_text(path, order=3) for path in paths], memory=2 * 32 * 4 * 5, folder=tmp_path)
    vocabulary, tables, _ = count_slowly(texts, order=3)
    assert counts.vocabulary.words == vocabulary.words
    for k, table in enumerate(tables, 1):
        ngrams, numbers = counts.table(k)
        assert dict(zip(map(tuple, ngrams.tolist()), numbers.tolist(), strict=True)) == dict(table)
    assert len(blocks) > 6
    assert sorted(tmp_path.iterdir()) == paths
