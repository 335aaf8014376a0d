"""`sapwood rewrite`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

import click
import numpy as np

from sapwood.cli.options import common
from sapwood.cli.options.output import check_tree_output, terminal_width, to_option, tree_output
from sapwood.cli.options.types import ABOVE_ZERO, POSITIVE
from sapwood.cli.treebank.reading import fit_heads_to, read_files
from sapwood.runtime.executor import Executor, Threads
from sapwood.runtime.progress import Progress
from sapwood.storage.files import STANDARD_STREAM, name_of, open_output
from sapwood.storage.shapes import Array, Int64
from sapwood.treebank.rewriting.difference import side_by_side
from sapwood.treebank.rewriting.rewriter import Rewriter, RewrittenTrees
from sapwood.treebank.rewriting.rules import RewriteRules
from sapwood.trees import HeadRules
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.search.table import TreeTable

_WIDTH = 100


@click.command("rewrite", short_help="Rewrite trees by rules: patterns and operations.")
@click.argument("rules")
@click.argument("treebank", nargs=-1)
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option("--check", is_flag=True, help="Print the trees that would change, before and after, and write nothing.")
@click.option("--limit", type=POSITIVE, help="Print at most N trees with --check. [default: no limit]")
@click.option("--allow-word-changes", is_flag=True, help="Allow rules to change, add, remove or reorder words.")
@click.option(
    "--max-rewrites",
    type=POSITIVE,
    help="Stop with an error after N rewrites by one rule in one tree. [default: 1,000 plus 10 per node]",
)
@to_option
@click.option(
    "--heads",
    help="Head rules for head relations such as <#: english, icelandic or a file. [default: those that fit the labels]",
)
@click.option("--timeout", type=ABOVE_ZERO, help="Time limit of rewriting in seconds. [default: no limit]")
@common.threads_option
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    rules: str,
    treebank: tuple[str, ...],
    output: str | None,
    check: bool,
    limit: int | None,
    allow_word_changes: bool,
    max_rewrites: int | None,
    output_format: str,
    heads: str | None,
    timeout: float | None,
    threads: int | None,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Rewrite the trees of TREEBANK files (default: standard input) by the rules in the file RULES.

    A rule is a pattern as in `sapwood search`, then operations on its named nodes, one per line, as in Tsurgeon:
    relabel, delete, prune, excise, insert, move, replace, createSubtree, adjoin, coindex, split, join. Each rule is
    applied until it no longer matches. A rule that changes words is an error without --allow-word-changes. See
    docs/rewriting.md.

    --check --json prints one object per line: file, tree (its number), line, before and after (brackets).

    \b
    Examples:
      sapwood rewrite rules.txt train.mrg --check --limit 10
      sapwood rewrite rules.txt train.mrg -o new.mrg
    """
    if check:
        common.refuse_given(context, ["output_format", "output"], "cannot be used with --check, which writes nothing")
    else:
        common.refuse_given(context, ["limit", "as_json"], "requires --check")
    paths = list(treebank) or [STANDARD_STREAM]
    inputs = [*paths, rules, common.head_file(heads)]
    common.check_inputs(*inputs)
    common.refuse_replacing({"-o": output}, inputs)
    rewriter = Rewriter(
        RewriteRules.read(rules),
        heads=None if heads is None else HeadRules.named(heads),
        allow_word_changes=allow_word_changes,
        max_rewrites=max_rewrites,
        timeout=timeout,
    )
    check_tree_output(output, output_format)
    progress = common.make_progress(quiet)
    tables = read_files(paths, input_format, skip_bad, progress, "rewriting")
    patterns = [rule.pattern for rule in rewriter.rules.rules]
    if heads is None and (output_format == "conllu" or any("#" in pattern.text for pattern in patterns)):
        tables = fit_heads_to(rewriter, tables, progress)
    done = _rewritten(rewriter, tables, Threads(common.default_threads(threads)))
    if check:
        with open_output(None) as stream:
            _check(done, rewriter, stream, limit, as_json, progress)
    elif output_format == "brackets":
        with open_output(output) as stream:
            _report(_write_brackets(done, stream, common.was_given(context, "output_format")), rewriter, progress)
    else:
        with tree_output(output, output_format, rewriter.heads) as writer:

            def written() -> Iterator[RewrittenTrees]:
                for _, part in done:
                    for number in range(len(part.after)):
                        writer.tree(part.after.tree(number))
                    yield part

            _report(written(), rewriter, progress)


def _rewritten(
    rewriter: Rewriter, tables: Iterator[tuple[str, TreeTable]], workers: Executor
) -> Iterator[tuple[str, RewrittenTrees]]:
    """Yield all trees after rewriting, with the names of their files."""
    for path, table in tables:
        for done in rewriter.tables(table, workers=workers, source=name_of(path)):
            yield name_of(path), done


def _write_brackets(
    done: Iterator[tuple[str, RewrittenTrees]], stream: IO[str], only_brackets: bool
) -> Iterator[RewrittenTrees]:
    """Write trees in brackets, or, unless these are asked for, in discbracket if some have gaps, and yield them."""
    for _, part in done:
        if only_brackets or part.after.positions is None:
            stream.write(part.after.to_brackets().decode("utf-8"))
        else:
            trees = map(part.after.tree, range(len(part.after)))
            stream.writelines(f"{part.after.format_tree(tree)}\n" for tree in trees)
        yield part


def _check(
    done: Iterator[tuple[str, RewrittenTrees]],
    rewriter: Rewriter,
    stream: IO[str],
    limit: int | None,
    as_json: bool,
    progress: Progress,
) -> None:
    """Print the trees that change, before and after."""
    width = terminal_width() or _WIDTH
    changed = shown = trees = 0
    uses = np.zeros(len(rewriter.rules.rules), dtype=np.int64)
    for name, part in done:
        trees += len(part.before)
        uses += part.uses
        for number in part.changed():
            changed += 1
            if limit is not None and shown >= limit:
                continue
            shown += 1
            before, after = part.before.tree(number), part.after.tree(number)
            place, line = part.before.first + number + 1, int(part.before.lines[number])
            if as_json:
                value = {"file": name, "tree": place, "line": line, "before": str(before), "after": str(after)}
                stream.write(json.dumps(value, ensure_ascii=False) + "\n")
                continue
            stream.write(f"{name}:{line}: tree {place}\n")
            stream.writelines(f"{text}\n" for text in side_by_side(before, after, width=width))
            stream.write("\n")
    if not as_json:
        stream.write(f"{changed:,} of {trees:,} trees would change\n")
    _note_uses(rewriter, uses, progress)


def _report(done: Iterator[RewrittenTrees], rewriter: Rewriter, progress: Progress) -> None:
    """Consume trees as they are written; report how many were rewritten, and how often each rule was applied."""
    trees = rewritten = 0
    uses = np.zeros(len(rewriter.rules.rules), dtype=np.int64)
    for part in done:
        trees += len(part.after)
        rewritten += int(np.count_nonzero(part.rewrites))
        uses += part.uses
    progress.note(f"rewrote {rewritten:,} of {trees:,} trees")
    _note_uses(rewriter, uses, progress)


def _note_uses(rewriter: Rewriter, uses: Int64[Array, "rules"], progress: Progress) -> None:
    for rule, count in zip(rewriter.rules.rules, uses.tolist(), strict=True):
        place = f"{rewriter.rules.source}:{rule.line}"
        progress.note(f"{place}: {count:,} rewrites" if count else f"{place}: the pattern matches no tree")
