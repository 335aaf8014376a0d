"""Reading of treebanks as tables, shared by the commands that search and rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from sapwood.cli.options import common
from sapwood.cli.options.output import note_learned_heads
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of
from sapwood.trees.formats.registry import BadTrees, InputFormat
from sapwood.trees.heads.learned import ENOUGH_TREES, LEARNED, fit_heads
from sapwood.trees.heads.rules import HeadRules, count_labels
from sapwood.trees.search.table import TreeTable, read_tables
from sapwood.trees.search.unseen import UnseenLabels


class HasHeads(Protocol):
    """What uses head rules."""

    heads: HeadRules


def read_files(
    paths: Sequence[str],
    input_format: InputFormat,
    skip_bad: bool,
    progress: Progress,
    doing: str,
    unseen: UnseenLabels | None = None,
) -> Iterator[tuple[str, TreeTable]]:
    """Yield the trees of all files, as tables.

    At the end of each file, report the number of skipped trees; at the end of all, the labels that no tree has.
    """
    with progress.stage(doing, unit="trees") as stage:
        for path in paths:
            bad = BadTrees() if skip_bad else None
            for table in read_tables(path, format=input_format, on_bad=bad, gaps=common.gaps_option()):
                if unseen is not None:
                    unseen.add(table)
                yield path, table
                stage.step(len(table))
            if bad is not None and bad.count:
                progress.note(bad.report())
    for message in [] if unseen is None else unseen.messages():
        progress.note(message)


def fit_heads_to(
    user: HasHeads, tables: Iterator[tuple[str, TreeTable]], progress: Progress
) -> Iterator[tuple[str, TreeTable]]:
    """Give a searcher or rewriter head rules that fit the first trees, or are learned from them; return all trees."""
    first = list(islice(tables, 1))
    for path, table in first:
        trees = [table.tree(number) for number in range(min(len(table), ENOUGH_TREES))]
        user.heads = fit_heads(trees)
        if user.heads.name == LEARNED:
            note_learned_heads(count_labels(trees)[0], name_of(path), f"its first {len(trees):,} trees", progress)
    return chain(first, tables)
