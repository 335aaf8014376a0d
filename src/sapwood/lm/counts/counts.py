"""N-gram counts: made from text, saved to files and merged.

The text is read once. Each thread numbers the words of its pieces with a table of its own (`word_table`), and the
numbers are kept in memory or in a file. Then the tables are joined, the vocabulary is chosen, and the numbers become
ids, whose n-grams are sorted and counted (`external_sort`). `benchmarks/lm_counts.py` compares this with other engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import scipy.sparse

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.counts.external_sort import Grouping, Store, Table, blocks, group
from sapwood.lm.counts.shards import ShardRecord, TextParts, text_of_shard
from sapwood.lm.counts.text import (
    Piece,
    Sources,
    check_boundaries,
    read_pieces,
    renumber,
    special_ids,
    tokenise,
    total_size,
)
from sapwood.lm.counts.vocabulary import BEGIN, END, MOST_COUNT, SPECIAL, UNKNOWN, VOCABULARY, Vocabulary
from sapwood.lm.counts.word_table import FIRST_WORD, WordTable
from sapwood.lm.registry import LONGEST_ORDER, Boundaries
from sapwood.runtime.context import Execution, RunContext
from sapwood.runtime.progress import Progress
from sapwood.runtime.shards import Shard
from sapwood.storage.arrays import Arrays, content_digest
from sapwood.storage.schema import Column, Schema
from sapwood.storage.shapes import Array, Int32, Int64

_ORDERS = range(1, LONGEST_ORDER + 1)


class _CountMetadata(TypedDict):
    order: int
    boundaries: Boundaries
    tokens: int


class _Metadata(_CountMetadata, total=False):
    shard: ShardRecord


def _columns(k: int) -> tuple[Column, Column]:
    names = f"ngrams_{k}", f"counts_{k}"
    return (
        Column(names[0], "int32", f"entries_{k} {k}", least=0, below="words", rises=True, along=names[0]),
        Column(names[1], "int64", f"entries_{k}", least=0, most=MOST_COUNT, along=names[0]),
    )


COUNTS = Schema(
    kind="counts",
    version=1,
    title="file of counts",
    remedy="count again",
    columns=(*VOCABULARY, *(column for k in _ORDERS for column in _columns(k))),
    metadata=_Metadata,
)


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of all n-grams of orders 1 to `order`.

    Attributes
    ----------
    order
        Order of the longest n-grams.
    vocabulary
        The words; ids in the tables refer to them.
    boundaries
        Whether lines are sentences or line ends mean nothing.
    tokens
        Number of words of the text, without `<s>` and `</s>`.
    tables
        For each order from 1 the n-grams, sorted, and their counts.
    shard
        The shard of a text that was counted, if not all of it.
    """

    order: int
    vocabulary: Vocabulary
    boundaries: Boundaries
    tokens: int
    tables: list[Table] = field(repr=False)
    shard: ShardRecord | None = None

    def table(self, k: int) -> Table:
        """Return the n-grams of order `k`, sorted lexicographically, and their counts."""
        if not 1 <= k <= self.order:
            raise UsageError(f"these counts have n-grams of orders 1 to {self.order}, not {k}")
        return self.tables[k - 1]

    def bigrams(self) -> scipy.sparse.csr_array:
        """Return the bigram counts as a sparse matrix `(V, V)` int64, first words in rows."""
        ngrams, counts = self.table(2)
        size = len(self.vocabulary)
        starts = np.searchsorted(ngrams[:, 0], np.arange(size + 1))
        starts = starts.astype(np.int32 if len(counts) < 2**31 else np.int64)
        return scipy.sparse.csr_array((counts, np.ascontiguousarray(ngrams[:, 1]), starts), (size, size))

    def _content(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = self.vocabulary.arrays()
        for k, (ngrams, counts) in enumerate(self.tables, 1):
            arrays[f"ngrams_{k}"], arrays[f"counts_{k}"] = ngrams, counts
        metadata: dict[str, Any] = {"order": self.order, "boundaries": self.boundaries, "tokens": self.tokens}
        return arrays, metadata if self.shard is None else {**metadata, "shard": self.shard}

    def digest(self) -> str:
        """Return a fingerprint of the content."""
        return content_digest(*self._content())

    def save(self, path: str | Path) -> None:
        """Write the counts to one file."""
        COUNTS.write(path, *self._content())

    @classmethod
    def load(cls, path: str | Path) -> Counts:
        """Read counts that `save` wrote; they are memory-mapped."""
        return COUNTS.read(path, cls._from_content, mmap=True)

    @classmethod
    def _from_content(cls, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> Counts:
        vocabulary, order = Vocabulary.from_arrays(arrays), metadata["order"]
        tables = [(arrays[f"ngrams_{k}"], arrays[f"counts_{k}"]) for k in _ORDERS if f"ngrams_{k}" in arrays]
        if len(tables) != order or f"ngrams_{order}" not in arrays:
            raise ModelError(f"ngrams_{len(tables) + 1}: missing, or one too many for an order of {order}")
        return cls(order, vocabulary, metadata["boundaries"], metadata["tokens"], tables, metadata.get("shard"))

    def cut(self, min_count: int = 1, max_words: int | None = None) -> Counts:
        """Return the counts with words below `min_count`, or beyond the first `max_words`, replaced by `<unk>`."""
        seen, first = self.vocabulary.counts, len(SPECIAL)
        # Words are sorted by falling frequency.
        kept = int((seen[first:] >= min_count).sum())
        size = first + (kept if max_words is None else min(kept, max_words))
        if size == len(seen):
            return self
        shortened = seen[:size].copy()
        shortened[UNKNOWN] += seen[size:].sum()
        tables = [group(np.where(ngrams < size, ngrams, UNKNOWN), numbers, size) for ngrams, numbers in self.tables]
        return replace(self, vocabulary=Vocabulary(self.vocabulary.words[:size], shortened), tables=tables)

    def merge(self, other: Counts) -> Counts:
        """Return the counts of both texts together.

        The vocabulary is the union, so a word missing from one of them counts there as `<unk>`. In a stream the n-grams
        across the seam are not counted.
        """
        from sapwood.lm.counts.merge import merge_counts

        return merge_counts([self, other], min_count=0)

    def most_frequent(self, k: int, number: int) -> list[tuple[str, int]]:
        """Return the most frequent n-grams of order `k` with their counts, ties in order of ids."""
        ngrams, counts = self.table(k)
        best = np.argsort(-counts, kind="stable")[:number]
        return [(" ".join(self.vocabulary.decode(ngrams[place])), int(counts[place])) for place in best]

    def describe(self) -> dict[str, Any]:
        """Return figures: tokens, unknown tokens, sentences, words, and the number of n-grams of each order.

        `seen` has the number of an order's n-grams that were seen once, twice, three and four times.
        """
        orders = [
            {
                "order": k,
                "distinct": len(counts),
                "total": int(counts.sum()),
                "seen": [int((counts == n).sum()) for n in (1, 2, 3, 4)],
            }
            for k, (_, counts) in enumerate(self.tables, 1)
        ]
        return {
            "boundaries": self.boundaries,
            "tokens": self.tokens,
            "unknown": int(self.vocabulary.counts[UNKNOWN]),
            "sentences": int(self.vocabulary.counts[END]) if self.boundaries == "sentence" else None,
            "words": len(self.vocabulary),
            "ngrams": orders,
        }


@dataclass(frozen=True)
class CountSettings:
    """Settings of a count; see `count_text`."""

    order: int
    min_count: int
    max_words: int | None
    boundaries: Boundaries
    memory: int
    folder: str | Path | None

    def __post_init__(self) -> None:
        check_boundaries(self.boundaries)
        if not 1 <= self.order <= LONGEST_ORDER:
            raise UsageError(f"n-grams can have orders 1 to {LONGEST_ORDER}, not {self.order}")
        if self.min_count < 1 or (self.max_words is not None and self.max_words < 0):
            raise UsageError(
                f"min_count is at least 1 and max_words at least 0, not {self.min_count} and {self.max_words}"
            )


def count_text(
    sources: Sources,
    *,
    order: int = 2,
    min_count: int = 1,
    max_words: int | None = None,
    boundaries: Boundaries = "sentence",
    memory: int = 4 << 30,
    folder: str | Path | None = None,
    shard: Shard | None = None,
    **execution: Unpack[Execution],
) -> Counts:
    """Count the words and n-grams of text files.

    Parameters
    ----------
    sources
        A path or several; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed, `-` is standard input. Read once, in order.
    order
        Order of the longest n-grams, 1 to 8.
    min_count, max_words
        Words seen less often than `min_count`, and all but the `max_words` most frequent, become `<unk>`.
    boundaries
        `"sentence"`: each line is `<s> w1 .. wn </s>`; `"stream"`: line ends mean nothing.
    memory
        Approximate number of bytes to use besides the vocabulary, which must fit; the rest goes to temporary files.
    folder
        Folder of the temporary files (default: the system's). They are unnamed and vanish with the process.
    shard
        Count only this shard of the text; `merge_counts` adds the counts of all shards.
    execution
        `threads`: number of threads of this process; `workers`: an executor that counts instead
        (`sapwood.lm.counts.remote`), with the same result; `progress`: progress display.
    """
    settings = CountSettings(order, min_count, max_words, boundaries, memory, folder)
    context = RunContext.of(**execution)
    threads, progress = context.threads, context.progress
    if threads < 1:
        raise UsageError(f"there must be at least one thread, not {threads}")
    if context.workers is not None and not context.workers.is_local:
        if shard is not None:
            raise UsageError("a shard is counted by threads of this process; without it, a cluster counts all shards")
        from sapwood.lm.counts.remote import count_elsewhere

        return count_elsewhere(sources, settings, context.workers, progress)
    if shard is not None:
        return _count_shard(sources, settings, shard, threads, progress)
    return _count_pieces(read_pieces(sources), total_size(sources), settings, threads, progress)


def _count_shard(sources: Sources, settings: CountSettings, shard: Shard, threads: int, progress: Progress) -> Counts:
    """Count a shard of a text: the n-grams that begin in it."""
    if settings.min_count > 1 or settings.max_words is not None:
        raise UsageError("words are rare or frequent in the whole text: cut the vocabulary when shards are merged")
    parts = text_of_shard(sources, shard)
    sizes = [part.size for part in parts.own]
    size = None if None in sizes else sum(size or 0 for size in sizes)
    try:
        ahead = _words_ahead(parts, settings)
        pieces = (piece for part in parts.own for piece in part.pieces())
        counts = _count_pieces(pieces, size, settings, threads, progress, ahead=ahead)
    except InputError:
        # Only reading from the beginning knows the line number.
        for _ in tokenise(read_pieces(sources), [WordTable()], settings.boundaries == "sentence"):
            pass
        raise
    return replace(counts, shard=parts.record(shard))


def _words_ahead(parts: TextParts, settings: CountSettings) -> list[str]:
    """Return the first words after a shard, in which its last n-grams end, if line ends mean nothing."""
    table, found = WordTable(), list[str]()
    wanted = settings.order - 1 if settings.boundaries == "stream" else 0
    pieces = (piece for part in parts.following for piece in part.pieces())
    while len(found) < wanted and (piece := next(pieces, None)) is not None:
        found += table.words(table.tokenise(piece.text, False)[0][:wanted])
    return found[:wanted]


def _count_pieces(
    pieces: Iterable[Piece],
    size: int | None,
    settings: CountSettings,
    threads: int,
    progress: Progress,
    *,
    ahead: Sequence[str] | None = None,
) -> Counts:
    """Count a text, or with the words ahead of it a shard of one, whose words are all kept."""
    order, boundaries, memory, folder = settings.order, settings.boundaries, settings.memory, settings.folder
    tables = [WordTable() for _ in range(threads)]
    spool = Store(memory // 4, folder)
    used: list[int] = []
    with progress.stage("reading", size, "bytes") as stage:

        def reported() -> Iterator[Piece]:
            for piece in pieces:
                stage.step(len(piece.text))
                yield piece

        for table, numbers in tokenise(reported(), tables, boundaries == "sentence"):
            used.append(table)
            spool.append(numbers)
    merged = tables[0]
    numbers_of = [np.arange(len(merged)), *(merged.add_table(table) for table in tables[1:])]
    least = settings.min_count if ahead is None else 0
    after = merged.tokenise(np.frombuffer("\n".join([*(ahead or ()), ""]).encode(), np.uint8), False)[0]
    seen = merged.counts[: len(merged)]
    np.subtract.at(seen, after, 1)
    vocabulary, ids, tokens = choose_words(merged, seen, boundaries, least, settings.max_words)
    ids_of, next_ids = [ids[each] for each in numbers_of], ids[after]
    del tables, merged
    grouping = Grouping(
        vocabulary.counts,
        order=order,
        sentences=boundaries == "sentence",
        threads=threads,
        memory=memory,
        folder=folder,
    )
    numbered = ((table, spool.get(x, drop=True)) for x, table in enumerate(used))
    with progress.stage("counting", int(vocabulary.counts.sum()), "tokens") as stage:
        for ids in blocks(renumber(numbered, ids_of, boundaries, threads), grouping.block):
            grouping.add(ids)
            stage.step(len(ids))
        spool.close()
        grouped = grouping.tables(next_ids)
    return from_tables(order, vocabulary, boundaries, tokens, grouped)


def from_tables(order: int, vocabulary: Vocabulary, boundaries: Boundaries, tokens: int, tables: list[Table]) -> Counts:
    """Return counts of all orders; those of the vocabulary become the words' own."""
    # The number of sentences is only known once lines without words are gone.
    words, totals = tables[0]
    vocabulary.counts[:] = 0
    vocabulary.counts[words[:, 0]] = totals
    return Counts(order, vocabulary, boundaries, tokens, tables)


def choose_words(
    merged: WordTable,
    counts: Int64[Array, "numbers"],
    boundaries: Boundaries,
    min_count: int,
    max_words: int | None,
) -> tuple[Vocabulary, Int32[Array, "numbers"], int]:
    """Choose words of a table by their counts; return the vocabulary, ids of its numbers, and number of tokens."""
    special = special_ids(boundaries)
    sentences = int(counts[: len(special)][np.array(special) == -1].sum())
    tokens = int(counts.sum()) - sentences
    candidates = FIRST_WORD + np.flatnonzero(counts[FIRST_WORD:] >= min_count)
    if max_words is not None and len(candidates) > max_words:
        least = np.sort(counts[candidates])[len(candidates) - max_words] if max_words else counts.max() + 1
        candidates = candidates[counts[candidates] >= least]
    spelled = merged.words(candidates)
    by_word = np.array(sorted(range(len(spelled)), key=spelled.__getitem__), np.int64)
    chosen = by_word[np.argsort(-counts[candidates[by_word]], kind="stable")][:max_words]
    words = candidates[chosen]
    ids_of = np.zeros(len(merged), np.int32)
    ids_of[: len(special)] = special
    ids_of[words] = len(SPECIAL) + np.arange(len(words))
    seen = np.zeros(len(SPECIAL) + len(words), np.int64)
    np.add.at(seen, ids_of[ids_of >= 0], counts[ids_of >= 0])
    if boundaries == "sentence":
        seen[[BEGIN, END]] = sentences
    vocabulary = Vocabulary([*SPECIAL, *(spelled[x] for x in chosen)], seen)
    return vocabulary, ids_of, tokens
