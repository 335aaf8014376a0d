"""`sapwood search`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import click
import numpy as np

from sapwood.cli import _common as common
from sapwood.cli._output import to_option, tree_output
from sapwood.files import STANDARD_STREAM, name_of, open_output
from sapwood.trees import HeadRules
from sapwood.trees.formats import BadTrees, InputFormat
from sapwood.trees.search import Match, Searcher
from sapwood.trees.table import TreeTable, read_tables


@click.command("search", short_help="Find trees by a pattern.")
@click.argument("pattern")
@click.argument("treebank", nargs=-1)
@click.option("--subtrees", is_flag=True, help="Print the part of each tree that matches, not the whole tree.")
@click.option("--count", "only_count", is_flag=True, help="Print how many nodes match, and how many trees.")
@click.option("-n", "--line-number", is_flag=True, help="Print file and line before each tree.")
@click.option("-v", "--invert-match", is_flag=True, help="Print the trees in which nothing matches.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many trees, or subtrees. [default: no limit]")
@to_option
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option("--heads", help="Head rules for <# and its like: english, icelandic or a file. [default: english]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which the search is given up. [default: no limit]",
)
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
    """Print the trees of TREEBANK files (default: standard input) that have a node as PATTERN describes.

    Patterns are as in TGrep2 and Tregex: NP < PP is a noun phrase with a child PP, NP << PP one with a PP
    anywhere below it. The page docs/tree-search.md has all relations.

    With --json each line is an object: file, tree (its number), line (where it ends), text (brackets) and matches, each
    with label, start, end (in words), node (in the order of Tree.nodes) and names.

    \b
    Examples:
      sapwood search "NP < PP" train.mrg
      sapwood search "@NP < (NN < dog) $.. VP" train.mrg dev.mrg --subtrees
      sapwood search "/^IP/ << (CP-REL !<< /^VB/)" icepahc.mrg.gz --count
    """
    if as_json:
        common.refuse_given(context, ["output_format", "line_number"], "does not go with --json, which has all of it")
    if only_count:
        common.refuse_given(context, ["subtrees", "line_number", "limit", "output_format"], "does not go with --count")
    if invert_match:
        common.refuse_given(context, ["subtrees"], "does not go with -v: what does not match has no part that does")
    paths = list(treebank) or [STANDARD_STREAM]
    common.check_inputs(*paths, common.head_file(heads))
    common.refuse_replacing({"-o": output}, [*paths, common.head_file(heads)])
    searcher = Searcher(pattern, heads=None if heads is None else HeadRules.named(heads), timeout=timeout)
    progress = common.make_progress(quiet)

    def tables() -> Iterator[tuple[str, TreeTable]]:
        with progress.stage("searching", unit="trees") as stage:
            for path in paths:
                bad = BadTrees() if skip_bad else None
                for table in read_tables(path, format=input_format, on_bad=bad):
                    yield path, table
                    stage.step(len(table))
                if bad is not None and bad.count:
                    progress.note(bad.report())

    if only_count:
        counts = [searcher.count(table) for _, table in tables()]
        matches, matching, trees = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
        if invert_match:
            matching = trees - matching
        with open_output(output) as stream:
            if as_json:
                stream.write(json.dumps({"matches": matches, "matching_trees": matching, "trees": trees}) + "\n")
            elif invert_match:
                stream.write(f"no match in {matching:,} of {trees:,} trees\n")
            else:
                stream.write(f"{matches:,} matches in {matching:,} of {trees:,} trees\n")
        return
    with tree_output(output, None if as_json else output_format, searcher.heads) as writer:
        found = (
            (path, table, number, matches)
            for path, table in tables()
            for number, matches in _by_tree(searcher, table, invert_match)
        )
        written = 0
        for path, table, number, matches in found:
            tree = table.tree(number)
            place = {"file": name_of(path), "tree": table.first + number + 1, "line": int(table.lines[number])}
            if subtrees:
                nodes = list(tree.nodes())
                parts = [(nodes[match.place.node], [match]) for match in matches]
            else:
                parts = [(tree, matches)]
            for part, shown in parts:
                written += 1
                if as_json:
                    value = {**place, "text": str(part), "matches": [_described(match) for match in shown]}
                    writer.line(json.dumps(value, ensure_ascii=False))
                else:
                    writer.tree(part, f"{place['file']}:{place['line']}: " if line_number else "")
                if written == limit:
                    return


def _by_tree(searcher: Searcher, table: TreeTable, invert: bool) -> Iterator[tuple[int, list[Match]]]:
    """Yield the numbers of trees in the table with what matches in them, or of those in which nothing does."""
    if invert:
        without = np.ones(len(table), dtype=bool)
        without[table.trees_of_nodes[searcher.nodes(table)]] = False
        yield from ((number, []) for number in np.flatnonzero(without).tolist())
        return
    for number, matches in groupby(searcher.matches(table), key=lambda match: match.tree):
        yield number - table.first, list(matches)


def _described(match: Match) -> dict[str, Any]:
    """Return a match as JSON has it."""
    return {**match.place._asdict(), "names": {name: place._asdict() for name, place in match.names.items()}}
