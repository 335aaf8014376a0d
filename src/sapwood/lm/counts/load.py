"""Reading of text files and count files: merged counts, and ids of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.counts.counts import Counts, count_text
from sapwood.lm.counts.merge import merge_counts
from sapwood.lm.counts.shards import text_of_shard
from sapwood.lm.counts.text import Sources, encode_text, source_list
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.io import held, kind_of
from sapwood.lm.registry import Boundaries
from sapwood.runtime.context import Execution
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.runtime.shards import Shard
from sapwood.storage.files import name_of
from sapwood.storage.shapes import Array, Int32


def read_counts(
    sources: Sources,
    *,
    order: int | None = None,
    default_order: int = 2,
    min_count: int = 1,
    max_words: int | None = None,
    boundaries: Boundaries | None = None,
    memory: int = 4 << 30,
    shard: Shard | None = None,
    **execution: Unpack[Execution],
) -> Counts:
    """Count texts, read count files, and merge all of them.

    Parameters
    ----------
    sources
        Texts and count files in any order.
    order, boundaries
        By default those of the count files; for texts alone `default_order`, and sentences.
    min_count, max_words
        Words seen less often in total, and all but the most frequent, become `<unk>`.
    memory, shard, execution
        As for `count_text`.
    """
    paths = source_list(sources)
    kinds = [(path, kind_of(path)) for path in paths]
    for path, kind in kinds:
        if kind is not None and kind != "counts":
            raise ModelError(f"{path}: holds {held(kind)}, neither text nor counts")
    parts = [Counts.load(path) for path, kind in kinds if kind is not None]
    texts = [path for path, kind in kinds if kind is None]
    if shard is not None:
        if parts:
            raise UsageError("a shard is a part of texts: merge files of counts with all shards when these are done")
        return count_text(
            texts,
            order=order if order is not None else default_order,
            min_count=min_count,
            max_words=max_words,
            boundaries=boundaries or "sentence",
            memory=memory,
            shard=shard,
            **execution,
        )
    if parts:
        order = order if order is not None else parts[0].order
        boundaries = boundaries or parts[0].boundaries
        if {part.boundaries for part in parts} != {boundaries}:
            found = " and ".join(sorted({part.boundaries for part in parts}))
            raise UsageError(f"the counts were made with boundaries {found}, not {boundaries}")
        if order > (most := min(part.order for part in parts)):
            raise UsageError(f"these counts have n-grams of orders up to {most}; order {order} needs longer ones")
        parts = [dataclasses.replace(part, order=order, tables=part.tables[:order]) for part in parts]
    if texts:
        parts.append(
            count_text(
                texts,
                order=order if order is not None else default_order,
                # A word that is rare in one part may be frequent in another.
                min_count=1 if parts else min_count,
                max_words=None if parts else max_words,
                boundaries=boundaries or "sentence",
                memory=memory,
                **execution,
            )
        )
    return _with_words(paths, merge_counts(parts, min_count=min_count, max_words=max_words, memory=memory))


def merge_files(
    paths: Sequence[str | Path],
    *,
    min_count: int = 1,
    max_words: int | None = None,
    memory: int = 4 << 30,
    progress: Progress | None = None,
) -> Counts:
    """Read files of counts and merge them; see `merge_counts`."""
    for path in paths:
        if (kind := kind_of(path)) != "counts":
            remedy = "count it first: sapwood lm count" if kind is None else "name files of counts"
            raise InputError(f"{path}: holds {'no counts' if kind is None else held(kind)}; {remedy}")
    parts = [Counts.load(path) for path in paths]
    counts = merge_counts(parts, min_count=min_count, max_words=max_words, memory=memory, progress=progress)
    return _with_words(paths, counts)


def _with_words(paths: Sequence[str | Path], counts: Counts) -> Counts:
    if not counts.tokens:
        raise InputError(f"{', '.join(map(name_of, paths))}: no words in it")
    return counts


def counted_before(
    path: str | Path, sources: Sources, shard: Shard, *, order: int = 2, boundaries: Boundaries = "sentence"
) -> bool:
    """Return True if a file has the counts of this shard of the texts, and the texts have not changed since."""
    if kind_of(path) != "counts":
        return False
    counts = Counts.load(path)
    if (counts.order, counts.boundaries) != (order, boundaries):
        return False
    return counts.shard == text_of_shard(sources, shard).record(shard)


def read_ids(sources: Sources, vocabulary: Vocabulary, boundaries: Boundaries) -> Iterator[Int32[Array, "_"]]:
    """Yield the ids of texts as `encode_text` does, but reject sapwood's own files."""
    for path in source_list(sources):
        if (kind := kind_of(path)) is not None:
            raise ModelError(f"{path}: holds {held(kind)}, not text")
    return encode_text(sources, vocabulary, boundaries)


def read_whole(sources: Sources, counts: Counts, progress: Progress | None = None) -> Int32[Array, "tokens"]:
    """Return texts as one array of ids in the vocabulary of counts."""
    pieces = read_ids(sources, counts.vocabulary, counts.boundaries)
    arrays = list(track(pieces, progress or Silent(), "reading", unit="pieces"))
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
