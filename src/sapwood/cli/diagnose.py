"""`sapwood diagnose`."""

from __future__ import annotations

from typing import Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.aliases import MIN_COUNT
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.types import BETWEEN_0_AND_1, NATURAL, POSITIVE, ChoiceParam
from sapwood.errors import InputError
from sapwood.storage.files import name_of
from sapwood.trees.normalise import Normaliser


@click.command(
    "diagnose", cls=GroupedCommand, aliases=MIN_COUNT, short_help="Estimate how many hidden states a treebank supports."
)
@click.argument("treebank")
@click.option("--states", type=click.IntRange(min=2), default=16, help="Maximum number of states per symbol.")
@click.option(
    "--features", type=ChoiceParam(["simple", "rich"]), default="rich", help="Set of inside and outside features."
)
@click.option("--min-count", type=POSITIVE, default=200, help="Skip symbols that occur fewer than N times.")
@click.option("--resamples", type=click.IntRange(min=2), default=200, help="Number of bootstrap samples.")
@click.option(
    "--confidence", type=BETWEEN_0_AND_1, default=0.95, help="Confidence level of the bounds on singular values."
)
@click.option("--top", type=NATURAL, default=20, help="Number of symbols to describe.")
@common.seed_option
@common.threads_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
def command(
    treebank: str,
    top: int,
    seed: int,
    threads: int | None,
    normaliser: Normaliser,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Estimate how many hidden states TREEBANK supports, and whether it has anchor features for them.

    Singular vectors and anchors are estimated on one half of the trees and tested on the other. For each symbol, report
    the number of states that hold up (Conditions 1 and 2 of spectral learning), with bootstrap bounds, and the
    sharpness and frequency of the anchors of pivot learning. For the treebank, report the constants of theorem 3 of
    spectral learning, and how many nodes it requires for an error of 10 %.

    \b
    Examples:
      sapwood diagnose train.mrg
      sapwood diagnose train.mrg --states 32 --json
    """
    common.check_inputs(treebank)
    progress = common.make_progress(quiet)
    from sapwood.learn.spectral.diagnostics import diagnose
    from sapwood.trees.corpus import Corpus

    trees = list(common.trees_from([treebank], input_format, skip_bad, progress))
    if not trees:
        raise InputError(f"{name_of(treebank)}: no trees in it")
    corpus = Corpus.from_trees(trees, normaliser=normaliser)
    threads = common.default_threads(threads)
    found = diagnose(corpus, random_state=seed, threads=threads, progress=progress, **settings)
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(found.words(top))
