"""Distributed counting of text by shards, with the same counts as on one machine.

A shard is a range of a file that ends with a line, or a whole compressed file. Workers read all shards twice. First
they find the words: those of all shards, merged here, make the vocabulary. Then they count n-grams; where lines mean
nothing, n-grams that begin in one shard end in the next, whose first words are looked up before. Each shard's n-grams
are sorted by bucket (`external_sort`), and each bucket of all shards is merged on some worker. Dask spills to disk if
workers run out of memory. Counts are integers, so the order of summation does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np

from sapwood.errors import InputError
from sapwood.lm.counts.counts import Counts, CountSettings, choose_words, from_tables
from sapwood.lm.counts.external_sort import Bucket, Grouping, blocks, merge_buckets
from sapwood.lm.counts.shards import TextShard, cut_shards
from sapwood.lm.counts.text import Sources, encode_pieces, read_pieces, tokenise
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.counts.word_table import NotText, WordTable
from sapwood.lm.registry import Boundaries
from sapwood.runtime.executor import Executor, Handle
from sapwood.runtime.progress import Progress, track
from sapwood.storage.shapes import Array, Int32, Int64, UInt8

# Bytes for counting a shard besides its text, and for a merged span of buckets.
_MEMORY, _SPAN = 1 << 28, 1 << 28


@dataclass(frozen=True, eq=False)
class ShardWords:
    """The words of a shard, each ended by a line feed, their counts, and a digest of the shard's bytes.

    `special` has the counts of line ends, `<unk>`, `<s>` and `</s>`.
    """

    letters: UInt8[Array, "letters"]
    counts: Int64[Array, "words"]
    special: Int64[Array, "4"]
    digest: str


@dataclass(frozen=True, eq=False)
class CountPlan:
    """Settings for counting that all shards share."""

    vocabulary: Vocabulary
    boundaries: Boundaries
    order: int
    spans: list[tuple[int, int]]


def count_elsewhere(sources: Sources, settings: CountSettings, workers: Executor, progress: Progress) -> Counts:
    """Count as `count_text` does, on other machines."""
    order, boundaries = settings.order, settings.boundaries
    shards = cut_shards(sources)
    for path in sorted({shard.path for shard in shards}):
        workers.check_visible(path)
    lines = boundaries == "sentence"
    merged, totals, digests = WordTable(), np.zeros(0, np.int64), []
    try:
        for found in track(workers.map(find_words, shards, repeat(lines)), progress, "reading", len(shards), "shards"):
            totals = _with_words(merged, totals, found)
            digests.append(found.digest)
    except NotText:
        # Only a count from the beginning knows the line number.
        for _ in tokenise(read_pieces(sources), [WordTable()], lines):
            pass
        raise
    vocabulary, _, tokens = choose_words(merged, totals, boundaries, settings.min_count, settings.max_words)
    grouping = _grouping(vocabulary, order, boundaries, settings.memory, settings.folder)
    buckets = grouping.n_buckets
    size = tokens * (4 * order + 8)
    edges = np.unique(np.linspace(0, buckets, 1 + min(buckets, max(2 * workers.count, size // _SPAN))).astype(int))
    spans = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    plan = workers.broadcast(CountPlan(vocabulary, boundaries, order, spans))
    heads = [np.zeros(0, np.int32)] * len(shards)
    if not lines and order > 1:
        heads = list(workers.map(first_ids, shards, repeat(plan)))
    ahead = [_following(heads[number + 1 :], order - 1) for number in range(len(shards))]
    counted = workers.submit(count_shard, shards, digests, ahead, repeat(plan))
    merged_spans: list[Handle] = []
    for number in range(len(spans)):
        parts = workers.submit(one_span, counted, repeat(number))
        merged_spans += workers.submit(merge_span, [parts])
    counted.clear()
    results = track(workers.gather(merged_spans), progress, "counting", len(spans), "parts")
    grouping.absorb(bucket for span in results for bucket in span)
    return from_tables(order, vocabulary, boundaries, tokens, grouping.tables())


def _with_words(merged: WordTable, totals: np.ndarray, found: ShardWords) -> np.ndarray:
    """Add a shard's words to the table, and return the updated counts."""
    table = WordTable(max(1 << 10, 2 * len(found.counts)), max(1 << 14, 2 * len(found.letters)))
    if len(found.counts):
        table.add_letters(found.letters)
    numbers = merged.add_table(table)
    totals = np.concatenate([totals, np.zeros(len(merged) - len(totals), np.int64)])
    totals[numbers] += np.concatenate([found.special, found.counts])
    return totals


def _following(heads: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the first ids of the following shards."""
    found: list[np.ndarray] = []
    for head in heads:
        if sum(map(len, found)) >= size:
            break
        found.append(head)
    return np.concatenate([np.zeros(0, np.int32), *found])[:size]


def _grouping(
    vocabulary: Vocabulary, order: int, boundaries: Boundaries, memory: int, folder: str | Path | None = None
) -> Grouping:
    # Buckets are those of a block of the same size everywhere.
    sentences = boundaries == "sentence"
    return Grouping(
        vocabulary.counts, order=order, sentences=sentences, threads=1, memory=memory, folder=folder, block=_MEMORY
    )


# On workers.


def find_words(shard: TextShard, lines: bool) -> ShardWords:
    """Return the words of a shard."""
    table, digest = WordTable(), hashlib.sha256()

    def noted() -> Iterator[bytes]:
        for chunk in shard.chunks():
            digest.update(chunk)
            yield chunk

    for piece in shard.cut(noted()):
        table.tokenise(piece.text, lines)
    counts = table.counts[: len(table)]
    return ShardWords(table.letters(), counts[4:], counts[:4], digest.hexdigest())


def first_ids(shard: TextShard, plan: CountPlan) -> Int32[Array, "_"]:
    """Return the first ids of a shard, as far as an n-gram that begins before it can reach."""
    found: list[np.ndarray] = []
    for ids in encode_pieces(shard.pieces(), plan.vocabulary, plan.boundaries):
        found.append(ids)
        if sum(map(len, found)) >= plan.order - 1:
            break
    return np.concatenate([np.zeros(0, np.int32), *found])[: plan.order - 1]


def count_shard(shard: TextShard, digest: str, ahead: Int32[Array, "_"], plan: CountPlan) -> list[list[Bucket]]:
    """Return the n-grams that begin in a shard, by span of buckets."""
    seen = hashlib.sha256()

    def noted() -> Iterator[bytes]:
        for chunk in shard.chunks():
            seen.update(chunk)
            yield chunk

    grouping = _grouping(plan.vocabulary, plan.order, plan.boundaries, _MEMORY)
    for ids in blocks(encode_pieces(shard.cut(noted()), plan.vocabulary, plan.boundaries), grouping.block):
        grouping.add(ids)
    if seen.hexdigest() != digest:
        raise InputError(f"{shard.path}: has changed while it was being counted; count again")
    buckets = grouping.buckets(ahead)
    if not buckets:
        buckets = grouping.no_buckets()
    return [buckets[first:last] for first, last in plan.spans]


def one_span(counted: list[list[Bucket]], number: int) -> list[Bucket]:
    """Return one of the spans of `count_shard`."""
    return counted[number]


def merge_span(parts: Sequence[list[Bucket]]) -> list[Bucket]:
    """Merge a span of buckets over all shards."""
    return [merge_buckets(each) for each in zip(*parts, strict=True)]
