"""`sapwood search`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from sapwood.cli.options import common
from sapwood.cli.options.output import check_tree_output, to_option, tree_output
from sapwood.cli.options.types import ABOVE_ZERO, NATURAL, POSITIVE
from sapwood.cli.treebank.reading import fit_heads_to, read_files
from sapwood.cli.treebank.tables import check_table_output, write_table
from sapwood.errors import UsageError
from sapwood.runtime.shards import Shard
from sapwood.storage.files import STANDARD_STREAM, is_regular, name_of, open_output
from sapwood.treebank.counts import count_matches
from sapwood.treebank.hits import Hit, draw_sample, find_hits, hit_lines
from sapwood.treebank.keys import parse_keys
from sapwood.trees import HeadRules
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.search.macros import read_macros
from sapwood.trees.search.patterns import parse_pattern
from sapwood.trees.search.searcher import PatternMatch, Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.search.unseen import UnseenLabels

# Plural and singular.
_MATCHES, _TREES = ("matches", "match"), ("trees", "tree")
# Formats whose files can be joined.
_JOINED = ("brackets", "discbracket", "pretty", "tokens", "tagged")


@click.command("search", short_help="Search treebanks with tree patterns.")
@click.argument("pattern")
@click.argument("treebank", nargs=-1)
@click.option("--subtrees", is_flag=True, help="Print matching subtrees instead of whole trees.")
@click.option("--count", "only_count", is_flag=True, help="Print the number of matching nodes and trees.")
@click.option(
    "--count-by",
    multiple=True,
    metavar="KEY",
    help="Print a table of the matches by label, word, parent ... of the node, or KEY:NAME of a named one. Repeatable.",
)
@click.option("--cross", is_flag=True, help="Print counts by two keys as a cross table.")
@click.option("--against", multiple=True, help="Treebank to compare the counts with. Repeatable.")
@click.option("-n", "--line-number", is_flag=True, help="Print file and line number before each tree.")
@click.option("-v", "--invert-match", "--invert", is_flag=True, help="Print the trees without a match.")
@click.option("--context", "around", type=NATURAL, default=0, help="Print the words of N trees before and after each.")
@click.option("--random", "sample", type=POSITIVE, help="Print a random sample of N trees or subtrees.")
@common.seed_option
@click.option("--limit", type=POSITIVE, help="Stop after N trees, subtrees or rows. [default: no limit]")
@click.option("--macros", help="File of macros: lines @ NAME PATTERN; that @NAME stands for.")
@to_option
@click.option("-o", "--output", help="Output file; of counts: text, .csv, .tsv, .parquet, .svg, .png or .pdf.")
@click.option(
    "--heads", help="Head rules for head relations such as <#: english, icelandic or a file. [default: by the labels]"
)
@click.option("--timeout", type=ABOVE_ZERO, help="Time limit of the search in seconds. [default: no limit]")
@common.format_option
@common.skip_bad_option
@common.shard_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    pattern: str,
    treebank: tuple[str, ...],
    subtrees: bool,
    only_count: bool,
    count_by: tuple[str, ...],
    cross: bool,
    against: tuple[str, ...],
    line_number: bool,
    invert_match: bool,
    around: int,
    sample: int | None,
    seed: int,
    limit: int | None,
    macros: str | None,
    output_format: str,
    output: str | None,
    heads: str | None,
    timeout: float | None,
    input_format: InputFormat,
    skip_bad: bool,
    shard: Shard | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the trees of TREEBANK files (default: standard input) that match PATTERN.

    Patterns follow TGrep2 and Tregex: NP < PP is a noun phrase with a child PP, NP << PP one with a descendant PP. See
    docs/tree-search.md for all relations and keys.

    With --json, each line is an object: file, tree (its number), line (its last line), text (the tree) and matches,
    each with label, start, end (in words), node (in the order of Tree.nodes) and names.

    With --shard 3/8, a process searches the third of eight parts of the files. The outputs, joined in order, are those
    of one run; count what they hold with another search.

    \b
    Examples:
      sapwood search "NP < PP" train.mrg
      sapwood search "@NP < (NN < dog) $.. VP" train.mrg dev.mrg --subtrees
      sapwood search "/^IP/ << (CP-REL !<< /^VB/)" icepahc.mrg.gz --count
      sapwood search "PP=p < IN=i" train.mrg --count-by word:i --count-by parent -o counts.csv
      sapwood search "SBARQ" parsed/*.mrg.gz --shard 3/8 -o hits3.mrg
    """
    _check_options(context)
    if is_regular(pattern) and any(path != STANDARD_STREAM and not Path(path).exists() for path in treebank):
        raise UsageError(f"{pattern} is a file; the pattern comes before the treebank: sapwood search PATTERN TREEBANK")
    if not count_by:
        check_tree_output(output, output_format, ", or give --count-by KEY for a table of counts")
    paths = list(treebank) or [STANDARD_STREAM]
    inputs = [*paths, *against, common.head_file(heads), macros]
    common.check_inputs(*inputs)
    common.refuse_replacing({"-o": output}, inputs)
    parsed = parse_pattern(pattern, {} if macros is None else read_macros(macros))
    searcher = Searcher(parsed, heads=None if heads is None else HeadRules.named(heads), timeout=timeout)
    keys = parse_keys(count_by, parsed.names)
    # A label that no tree of a shard has may be in others.
    unseen, progress = None if shard else UnseenLabels(parsed), common.make_progress(quiet)
    if shard is not None:
        if heads is None and "#" in parsed.text:
            raise UsageError("each shard would choose head rules by its own trees: name them with --heads")
        paths = [str(path) for path in shard.files(paths)]
    tables = read_files(paths, input_format, skip_bad, progress, "searching", unseen, counted=bool(count_by))
    by_head = any(key.key in ("head", "head-tag") for key in keys)
    if heads is None and ("#" in parsed.text or output_format == "conllu" or by_head):
        tables = fit_heads_to(searcher, tables, progress)
    if keys:
        check_table_output(output, as_json)
        counts = count_matches(searcher, _named(tables), keys)
        if against:
            others = read_files(against, input_format, skip_bad, progress, "searching")
            table = counts.against(count_matches(searcher, _named(others), keys), most=limit)
        else:
            table = counts.crossed(limit) if cross else counts.table(limit)
        write_table(table, output, as_json=as_json, title=pattern)
        return
    if only_count:
        total = _count(searcher, (table for _, table in tables))
        with open_output(output) as stream:
            stream.write(_format_counts(total, invert_match, as_json))
        return
    hits: Iterable[Hit] = find_hits(searcher, tables, subtrees=subtrees, invert=invert_match)
    hits = islice(hits, limit) if sample is None else draw_sample(hits, sample, seed)
    with tree_output(output, None if as_json else output_format, searcher.heads) as writer:
        if output_format == "brackets" and not (as_json or around):
            for line in hit_lines(hits, line_number):
                writer.line(line)
            return
        for hit in hits:
            before, after = hit.context(around)
            if as_json:
                tree = hit.tree()
                matches = [_described(match) for match in hit.matches()]
                value = {**hit.place, "text": str(tree), "words": tree.words(), "matches": matches}
                value |= {"before": before, "after": after} if around else {}
                writer.line(json.dumps(value, ensure_ascii=False))
                continue
            for words in before:
                writer.line(f"# {words}")
            writer.tree(hit.tree(), f"{hit.place['file']}:{hit.place['line']}: " if line_number else "")
            for words in after:
                writer.line(f"# {words}")


def _check_options(context: click.Context) -> None:
    """Refuse options that cannot be combined."""
    given = context.params
    if given["as_json"]:
        common.refuse_given(
            context, ["output_format", "line_number"], "cannot be used with --json, which includes all of it"
        )
    if given["count_by"]:
        common.refuse_given(
            context,
            ["subtrees", "only_count", "line_number", "invert_match", "around", "sample", "output_format"],
            "cannot be used with --count-by",
        )
    else:
        common.refuse_given(context, ["cross", "against"], "requires --count-by")
    if given["cross"] and (len(given["count_by"]) != 2 or given["against"]):
        raise UsageError("--cross requires two keys: --count-by KEY --count-by KEY, without --against")
    if given["only_count"]:
        common.refuse_given(
            context,
            ["subtrees", "line_number", "limit", "around", "sample", "output_format"],
            "cannot be used with --count",
        )
    if given["invert_match"]:
        common.refuse_given(
            context, ["subtrees"], "cannot be used with -v: trees without a match have no matching subtrees"
        )
    if given["sample"] is None:
        common.refuse_given(context, ["seed"], "requires --random")
    else:
        common.refuse_given(context, ["limit"], "cannot be used with --random, which has a number of its own")
    if given["shard"] is not None:
        reason = "cannot be used with --shard, whose outputs are joined; search these without it"
        common.refuse_given(context, ["only_count", "count_by", "sample", "limit"], reason)
        if given["output_format"] not in _JOINED and not given["as_json"]:
            raise UsageError(f"--to {given['output_format']} numbers all trees; with --shard, use {', '.join(_JOINED)}")
    if given["around"] and not given["as_json"] and given["output_format"] not in ("brackets", "pretty"):
        raise UsageError("--context requires brackets, --to pretty or --json")


def _named(tables: Iterable[tuple[str, TreeTable]]) -> Iterator[tuple[str, TreeTable]]:
    """Yield tables with the names of their files."""
    return ((name_of(path), table) for path, table in tables)


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
        return f"no match in {matching:,} of {trees:,} {_TREES[trees == 1]}\n"
    return f"{matches:,} {_MATCHES[matches == 1]} in {matching:,} of {trees:,} {_TREES[trees == 1]}\n"


def _described(match: PatternMatch) -> dict[str, Any]:
    """Return a match as a JSON value."""
    return {**match.place._asdict(), "names": {name: place._asdict() for name, place in match.names.items()}}
