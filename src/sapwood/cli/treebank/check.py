"""`sapwood check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import NATURAL, POSITIVE, ChoiceParam
from sapwood.errors import InputError, UsageError, listed
from sapwood.evaluate.consistency import CHECKS, Check, Source, check_consistency
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.registry import BadTrees, InputFormat, locate_trees
from sapwood.trees.normalise import Normaliser

if TYPE_CHECKING:
    from sapwood.trees.tree import Tree


@click.command("check", short_help="Find probable annotation errors in a treebank.")
@click.argument("treebank", nargs=-1, required=True)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Also list trees that this model finds improbable; repeat for the product of several. Choose one that was "
    "not trained on TREEBANK.",
)
@click.option(
    "--only",
    "checks",
    type=ChoiceParam(CHECKS),
    multiple=True,
    help="Run only this check. Repeatable. [default: all; trees only with -m]",
)
@click.option(
    "--context", "context_words", type=POSITIVE, default=1, help="Words of context that must agree on each side."
)
@click.option("--rare", type=POSITIVE, default=1, help="List rules and labels that occur at most N times.")
@click.option("--limit", type=NATURAL, default=20, help="List at most N findings of each check; 0 lists all.")
@click.option("--no-normalise", is_flag=True, help="Do not normalise trees: function tags count.")
@common.threads_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    treebank: tuple[str, ...],
    models: tuple[str, ...],
    checks: tuple[Check, ...],
    context_words: int,
    rare: int,
    limit: int,
    no_normalise: bool,
    threads: int | None,
    normaliser: Normaliser,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find probable annotation errors in TREEBANK files, with file and line.

    variations: the same words in the same context with different labels, or as a phrase in one place only (variation
    n-grams), longest context first. rules: rules that occur once, those without similar rules first; similar rules
    differ only in repeated children. labels: labels and tags that occur once, with a frequent label that they resemble.
    trees: with -m, the trees in which the model expects the most errors, with their least probable phrases.

    \b
    Examples:
      sapwood check mine.mrg
      sapwood check mine.mrg --only variations --context 2 --limit 100
      sapwood check mine.mrg --only trees -m model.sapwood
      sapwood check mine.mrg --no-normalise --json
    """
    if models:
        taken = (*common.NORMALISER_OPTIONS, "no_normalise")
        common.refuse_given(context, taken, "cannot be used with -m: trees are normalised as the model's were")
    else:
        common.refuse_given(context, ["threads"], "requires -m")
        if "trees" in checks:
            raise UsageError("--only trees requires a model that judges them (-m)")
    if no_normalise:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "cannot be used with --no-normalise")
    common.check_inputs(*treebank)
    progress = common.make_progress(quiet)
    report = check_consistency(
        _located(treebank, input_format, skip_bad, progress),
        checks=checks or None,
        normaliser=None if no_normalise else normaliser,
        parser=common.load_parser(models, threads=common.default_threads(threads)) if models else None,
        context=context_words,
        rare=rare,
        progress=progress,
    )
    if not report.sources:
        raise InputError(f"{listed([name_of(path) for path in treebank], most=3)}: no trees to check")
    if as_json:
        common.print_json(report.to_dict(limit or None))
    else:
        click.echo(report.format(limit or None))


def _located(
    paths: Sequence[str], input_format: InputFormat, skip_bad: bool, progress: Progress
) -> Iterator[tuple[Tree, Source]]:
    """Yield the trees of all files with their places; at the end of each file, report the number of skipped trees."""
    for path in paths:
        bad = BadTrees() if skip_bad else None
        name = name_of(path)
        found = locate_trees(read_lines(path), source=name, format=input_format, on_bad=bad, gaps=common.gaps_option())
        for number, (tree, line) in enumerate(found, 1):
            yield tree, Source(name, number, line)
        if bad is not None and bad.count:
            progress.note(bad.report())
