"""Merging of n-gram counts: those of several texts, or of all shards of one.

The vocabulary is the union. Each file's n-grams are sorted by its own ids, so those that begin with a word are
neighbours. They are merged in ranges of first words that fit into memory, while the files stay on disk. Counts of all
shards of a text have the same bytes when merged as counts of the text in one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sapwood.errors import UsageError
from sapwood.lm.counts.counts import Counts
from sapwood.lm.counts.external_sort import Store, Table, empty, group
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Int32, Int64

# Rows that are read at a time, and bytes that merging takes for each number of an n-gram.
_ROWS, _BYTES = 1 << 22, 32


def merge_counts(
    parts: Sequence[Counts],
    *,
    min_count: int = 1,
    max_words: int | None = None,
    memory: int = 4 << 30,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Counts:
    """Return the counts of several texts together.

    The vocabulary is the union, so a word missing from one of them counts there as `<unk>`. In a stream the n-grams
    across the seam of two texts are not counted, while those across two shards of a text are.

    Parameters
    ----------
    parts
        Counts of the same order and boundaries; of shards, all.
    min_count, max_words
        Words seen less often in total, and all but the most frequent, become `<unk>`.
    memory, folder
        As for `count_text`.
    progress
        Progress display.
    """
    _check(parts)
    if len(parts) == 1:
        return replace(parts[0], shard=None).cut(min_count, max_words)
    seen: dict[str, int] = {}
    for part in parts:
        for word, count in zip(part.vocabulary.words, part.vocabulary.counts.tolist(), strict=True):
            seen[word] = seen.get(word, 0) + count
    vocabulary = Vocabulary.from_counts(seen, min_count=min_count, max_words=max_words)
    del seen
    ids = [vocabulary.encode(part.vocabulary.words) for part in parts]
    order = parts[0].order
    tables = []
    with (progress or Silent()).stage("merging", order, "orders") as stage:
        for k in range(1, order + 1):
            tables.append(_merged([part.table(k) for part in parts], ids, len(vocabulary), memory, folder))
            stage.step()
    return Counts(order, vocabulary, parts[0].boundaries, sum(part.tokens for part in parts), tables)


def _check(parts: Sequence[Counts]) -> None:
    """Refuse counts that do not belong together, and shards of which some are missing."""
    first = parts[0]
    for other in parts[1:]:
        if (first.order, first.boundaries) != (other.order, other.boundaries):
            raise UsageError(
                f"counts can be merged if order and boundaries are the same, not {first.order} and {first.boundaries} "
                f"with {other.order} and {other.boundaries}"
            )
    shards = [part.shard for part in parts if part.shard is not None]
    for text in dict.fromkeys((shard["sources"], shard["count"]) for shard in shards):
        found = sorted(shard["index"] for shard in shards if (shard["sources"], shard["count"]) == text)
        for index in range(1, text[1] + 1):
            if found.count(index) != 1:
                problem = "is missing" if index not in found else "is given twice"
                raise UsageError(
                    f"shard {index}/{text[1]} of a text {problem}; give the counts of each shard once, all made of the "
                    "same files"
                )


def _merged(
    tables: Sequence[Table],
    ids: Sequence[Int32[Array, "_"]],
    size: int,
    memory: int,
    folder: str | Path | None,
) -> Table:
    """Merge tables of n-grams, given the new ids of their words."""
    k = tables[0][0].shape[1]
    # Where the n-grams with a first word begin in a table; and the words of a table by their new ids.
    begins = [_begins(ngrams, len(new)) for (ngrams, _), new in zip(tables, ids, strict=True)]
    by_id = [np.argsort(new, kind="stable") for new in ids]
    rows = np.zeros(size, np.int64)
    for begin, new in zip(begins, ids, strict=True):
        np.add.at(rows, new, np.diff(begin))
    cumulated = np.concatenate([[0], np.cumsum(rows)])
    most = max(1, memory // 2 // (_BYTES * (k + 1)))
    kept, counted, total, first = Store(memory // 4, folder), Store(memory // 4, folder), 0, 0
    blocks = 0
    while first < size:
        last = max(first + 1, int(np.searchsorted(cumulated, cumulated[first] + most, "right")) - 1)
        chosen = [
            _rows(begin, order[np.searchsorted(new, first, sorter=order) : np.searchsorted(new, last, sorter=order)])
            for begin, order, new in zip(begins, by_id, ids, strict=True)
        ]
        ngrams = np.concatenate(
            [new[np.asarray(table[0])[places]] for table, new, places in zip(tables, ids, chosen, strict=True)]
        )
        counts = np.concatenate([table[1][places] for table, places in zip(tables, chosen, strict=True)])
        if len(ngrams):
            ngrams, counts = group(ngrams, counts, size)
            kept.append(ngrams)
            counted.append(counts)
            blocks, total = blocks + 1, total + len(counts)
        first = last
    in_file = total * (4 * k + 8) > memory // 2
    result = empty((total, k), np.int32, in_file, folder), empty((total,), np.int64, in_file, folder)
    place = 0
    for number in range(blocks):
        ngrams, counts = kept.get(number, drop=True), counted.get(number, drop=True)
        result[0][place : place + len(counts)], result[1][place : place + len(counts)] = ngrams, counts
        place += len(counts)
    kept.close()
    counted.close()
    return result


def _begins(ngrams: Int32[Array, "ngrams k"], words: int) -> Int64[Array, "begins"]:
    """Return for each first word the number of its first n-gram."""
    found = np.zeros(words + 1, np.int64)
    for begin in range(0, len(ngrams), _ROWS):
        found[1:] += np.bincount(ngrams[begin : begin + _ROWS, 0], minlength=words)
    return np.cumsum(found)


def _rows(begins: Int64[Array, "begins"], words: Int64[Array, "some"]) -> Int64[Array, "rows"]:
    """Return the numbers of the n-grams that begin with one of these words."""
    sizes = begins[words + 1] - begins[words]
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins[words] - (ends - sizes), sizes)
