"""Reading of treebanks as tables, shared by the commands that search and rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

import numpy as np

from sapwood.cli.options import common
from sapwood.cli.options.output import note_learned_heads
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of
from sapwood.trees.formats.registry import BadTrees, InputFormat
from sapwood.trees.heads.learned import ENOUGH_TREES, LEARNED, fit_heads
from sapwood.trees.heads.rules import HeadRules, count_labels
from sapwood.trees.normalise import is_empty
from sapwood.trees.search.table import TreeTable, read_tables
from sapwood.trees.search.unseen import UnseenLabels

# The command that removes empty elements and keeps function tags.
_NORMALISE = "`sapwood convert --normalise --function-tags indices TREEBANK`"


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
    *,
    counted: bool = False,
) -> Iterator[tuple[str, TreeTable]]:
    """Yield the trees of all files, as tables.

    At the end of each file, report the number of skipped trees; at the end of all, the labels that no tree has and,
    if words are `counted`, the number of empty elements among them.
    """
    empties = 0
    with progress.stage(doing, unit="trees") as stage:
        for path in paths:
            bad = BadTrees() if skip_bad else None
            for table in read_tables(path, format=input_format, on_bad=bad, gaps=common.gaps_option()):
                if unseen is not None:
                    unseen.add(table)
                if counted:
                    empties += _count_empties(table)
                yield path, table
                stage.step(len(table))
            if bad is not None and bad.count:
                progress.note(bad.report())
    for message in [] if unseen is None else unseen.messages():
        progress.note(message)
    if empties:
        count = "1 empty element counts" if empties == 1 else f"{empties:,} empty elements count"
        progress.note(f"{count} as words; to leave them out, count the output of {_NORMALISE}")


def _count_empties(table: TreeTable) -> int:
    """Return the number of leaves that are traces, zero words and other empty elements."""
    spellings, first = table.spellings, table.n_labels
    suspect = np.array([one == "0" or one.startswith("*") for one in spellings], bool)
    suspect[:first] = False
    marked = np.array([one == "-NONE-" for one in spellings], bool)
    words = np.flatnonzero(table.symbols >= first)
    tags = table.symbols[table.parents[words]]
    chosen = suspect[table.symbols[words]] | marked[tags]
    pairs = zip(tags[chosen].tolist(), table.symbols[words[chosen]].tolist(), strict=True)
    return sum(is_empty(spellings[tag], spellings[word]) for tag, word in pairs)


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
