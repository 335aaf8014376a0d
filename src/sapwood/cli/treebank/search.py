"""`sapwood search`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import click
import numpy as np

from sapwood.cli.options import common
from sapwood.cli.options.output import to_option, tree_output
from sapwood.cli.options.types import ABOVE_ZERO, POSITIVE
from sapwood.cli.treebank.reading import fit_heads_to, read_files
from sapwood.storage.files import STANDARD_STREAM, name_of, open_output
from sapwood.trees import HeadRules, Tree
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.search.searcher import PatternMatch, Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.search.unseen import UnseenLabels


@click.command("search", short_help="Search treebanks with tree patterns.")
@click.argument("pattern")
@click.argument("treebank", nargs=-1)
@click.option("--subtrees", is_flag=True, help="Print matching subtrees instead of whole trees.")
@click.option("--count", "only_count", is_flag=True, help="Print the number of matching nodes and trees.")
@click.option("-n", "--line-number", is_flag=True, help="Print file and line number before each tree.")
@click.option("-v", "--invert-match", is_flag=True, help="Print the trees without a match.")
@click.option("--limit", type=POSITIVE, help="Stop after N trees or subtrees. [default: no limit]")
@to_option
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option(
    "--heads", help="Head rules for head relations such as <#: english, icelandic or a file. [default: by the labels]"
)
@click.option("--timeout", type=ABOVE_ZERO, help="Time limit of the search in seconds. [default: no limit]")
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    pattern: str,
    treebank: tuple[str, ...],
    subtrees: bool,
    only_count: bool,
    line_number: bool,
    invert_match: bool,
    limit: int | None,
    output_format: str,
    output: str | None,
    heads: str | None,
    timeout: float | None,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the trees of TREEBANK files (default: standard input) that match PATTERN.

    Patterns follow TGrep2 and Tregex: NP < PP is a noun phrase with a child PP, NP << PP one with a descendant PP. See
    docs/tree-search.md for all relations.

    With --json, each line is an object: file, tree (its number), line (its last line), text (the tree) and matches,
    each with label, start, end (in words), node (in the order of Tree.nodes) and names.

    \b
    Examples:
      sapwood search "NP < PP" train.mrg
      sapwood search "@NP < (NN < dog) $.. VP" train.mrg dev.mrg --subtrees
      sapwood search "/^IP/ << (CP-REL !<< /^VB/)" icepahc.mrg.gz --count
    """
    _check_options(context)
    paths = list(treebank) or [STANDARD_STREAM]
    common.check_inputs(*paths, common.head_file(heads))
    common.refuse_replacing({"-o": output}, [*paths, common.head_file(heads)])
    searcher = Searcher(pattern, heads=None if heads is None else HeadRules.named(heads), timeout=timeout)
    unseen, progress = UnseenLabels(searcher.pattern), common.make_progress(quiet)
    tables = read_files(paths, input_format, skip_bad, progress, "searching", unseen)
    if heads is None and ("#" in pattern or output_format == "conllu"):
        tables = fit_heads_to(searcher, tables, progress)
    if only_count:
        counts = _count(searcher, (table for _, table in tables))
        with open_output(output) as stream:
            stream.write(_format_counts(counts, invert_match, as_json))
        return
    with tree_output(output, None if as_json else output_format, searcher.heads) as writer:
        found = islice(_found(searcher, tables, subtrees=subtrees, invert=invert_match), limit)
        for place, tree, matches in found:
            if as_json:
                value = {**place, "text": str(tree), "matches": [_described(match) for match in matches]}
                writer.line(json.dumps(value, ensure_ascii=False))
            else:
                writer.tree(tree, f"{place['file']}:{place['line']}: " if line_number else "")


def _check_options(context: click.Context) -> None:
    """Refuse options that cannot be combined."""
    given = context.params
    if given["as_json"]:
        common.refuse_given(
            context, ["output_format", "line_number"], "cannot be used with --json, which includes all of it"
        )
    if given["only_count"]:
        common.refuse_given(
            context, ["subtrees", "line_number", "limit", "output_format"], "cannot be used with --count"
        )
    if given["invert_match"]:
        common.refuse_given(
            context, ["subtrees"], "cannot be used with -v: trees without a match have no matching subtrees"
        )


def _count(searcher: Searcher, tables: Iterable[TreeTable]) -> tuple[int, int, int]:
    """Return the numbers of matches, matching trees and trees."""
    total = np.zeros(3, dtype=np.int64)
    for table in tables:
        total += searcher.count(table)
    matches, matching, trees = total.tolist()
    return matches, matching, trees


def _format_counts(counts: tuple[int, int, int], invert: bool, as_json: bool) -> str:
    """Return the counts as a line; with `invert`, the matching trees are those without a match."""
    matches, matching, trees = counts
    if invert:
        matching = trees - matching
    if as_json:
        return json.dumps({"matches": matches, "matching_trees": matching, "trees": trees}) + "\n"
    if invert:
        return f"no match in {matching:,} of {trees:,} trees\n"
    return f"{matches:,} matches in {matching:,} of {trees:,} trees\n"


def _found(
    searcher: Searcher, tables: Iterable[tuple[str, TreeTable]], *, subtrees: bool, invert: bool
) -> Iterator[tuple[dict[str, Any], Tree, list[PatternMatch]]]:
    """Yield the matching trees or subtrees, each with its place in the files and its matches."""
    for path, table in tables:
        for number, matches in _by_tree(searcher, table, invert):
            tree = table.tree(number)
            place = {"file": name_of(path), "tree": table.first + number + 1, "line": int(table.lines[number])}
            if subtrees:
                nodes = list(tree.nodes())
                yield from ((place, nodes[match.place.node], [match]) for match in matches)
            else:
                yield place, tree, matches


def _by_tree(searcher: Searcher, table: TreeTable, invert: bool) -> Iterator[tuple[int, list[PatternMatch]]]:
    """Yield the numbers of matching trees with their matches, or with `invert` of trees without a match."""
    if invert:
        without = np.ones(len(table), dtype=bool)
        without[table.trees_of_nodes[searcher.nodes(table)]] = False
        yield from ((number, []) for number in np.flatnonzero(without).tolist())
        return
    for number, matches in groupby(searcher.matches(table), key=lambda match: match.tree):
        yield number - table.first, list(matches)


def _described(match: PatternMatch) -> dict[str, Any]:
    """Return a match as a JSON value."""
    return {**match.place._asdict(), "names": {name: place._asdict() for name, place in match.names.items()}}
