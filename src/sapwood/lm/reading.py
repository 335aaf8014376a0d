"""Reading texts and counts, whichever a file has: counts of all of them together, and ids of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import name_of
from sapwood.lm.counts import Counts, count_text
from sapwood.lm.methods import Boundaries
from sapwood.lm.models import held, kind_of
from sapwood.lm.text import Sources, encode_text, source_list
from sapwood.lm.vocabulary import Vocabulary
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import Workers
from sapwood.shapes import Array, Int32


def read_counts(
    sources: Sources,
    *,
    order: int | None = None,
    default_order: int = 2,
    min_count: int = 1,
    max_words: int | None = None,
    boundaries: Boundaries | None = None,
    threads: int = 1,
    workers: Workers | None = None,
    memory: int = 4 << 30,
    progress: Progress | None = None,
) -> Counts:
    """Count texts, read counts files, and merge all of that.

    Parameters
    ----------
    sources
        Texts and counts files in any order.
    order, boundaries
        By default those of the counts files; of texts alone `default_order`, and sentences.
    min_count, max_words
        Words seen less often in all, and all but the most frequent, become `<unk>`.
    threads, workers, memory, progress
        As `count_text` takes them.
    """
    paths = source_list(sources)
    kinds = [(path, kind_of(path)) for path in paths]
    for path, kind in kinds:
        if kind is not None and kind != "counts":
            raise ModelError(f"{path}: holds {held(kind)}, neither text nor counts")
    parts = [Counts.load(path) for path, kind in kinds if kind is not None]
    texts = [path for path, kind in kinds if kind is None]
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
                # What one of several parts has too seldom, another may have more often.
                min_count=1 if parts else min_count,
                max_words=None if parts else max_words,
                boundaries=boundaries or "sentence",
                threads=threads,
                workers=workers,
                memory=memory,
                progress=progress,
            )
        )
    counts = parts[0]
    for part in parts[1:]:
        counts = counts.merge(part)
    counts = counts.cut(min_count, max_words)
    if not counts.tokens:
        raise InputError(f"{', '.join(map(name_of, paths))}: no words in it")
    return counts


def read_ids(sources: Sources, vocabulary: Vocabulary, boundaries: Boundaries) -> Iterator[Int32[Array, "_"]]:
    """Yield the ids of texts as `encode_text` does, but refuse sapwood's own files."""
    for path in source_list(sources):
        if (kind := kind_of(path)) is not None:
            raise ModelError(f"{path}: holds {held(kind)}, not text")
    return encode_text(sources, vocabulary, boundaries)


def read_whole(sources: Sources, counts: Counts, progress: Progress | None = None) -> Int32[Array, "tokens"]:
    """Return texts as one array of ids, as counts see them."""
    pieces = read_ids(sources, counts.vocabulary, counts.boundaries)
    arrays = list(track(pieces, progress or Silent(), "reading", unit="pieces"))
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
