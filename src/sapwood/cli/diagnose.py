"""`sapwood diagnose`."""

from __future__ import annotations

from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import InputError
from sapwood.files import name_of
from sapwood.trees.normalise import Normaliser


@click.command("diagnose", short_help="Tell what hidden states a treebank can carry.")
@click.argument("treebank")
@click.option(
    "--states", type=click.IntRange(min=2), default=16, show_default=True, help="The most states to look for."
)
@click.option(
    "--features",
    type=Choice(["simple", "rich"]),
    default="rich",
    show_default=True,
    help="What is looked at inside and outside of nodes.",
)
@click.option(
    "--least",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Symbols that occur less often are left out.",
)
@click.option(
    "--resamples", type=click.IntRange(min=2), default=200, show_default=True, help="Samples of the bootstrap."
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="How sure the bounds of singular values are.",
)
@click.option("--top", type=click.IntRange(min=0), default=20, show_default=True, help="How many symbols to describe.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of halves and samples.")
@common.threads_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
def command(
    treebank: str,
    states: int,
    features: str,
    least: int,
    resamples: int,
    confidence: float,
    top: int,
    seed: int,
    threads: int | None,
    normaliser: Normaliser,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tell what hidden states the trees of TREEBANK can carry, and whether features stand for them.

    Singular vectors and anchors are found on one half of the trees and looked at on the other. For each symbol it says
    how many states hold there (Conditions 1 and 2 of spectral learning), with bounds by the bootstrap, and how sharp
    and how frequent the anchors of pivot learning are.

    \b
    Examples:
      sapwood diagnose train.mrg
      sapwood diagnose train.mrg --states 32 --json
    """
    common.check_inputs(treebank)
    progress = common.make_progress(quiet)
    from sapwood.learn.diagnosis import diagnose
    from sapwood.trees.corpus import Corpus

    trees = list(common.trees_from([treebank], input_format, skip_bad, progress))
    if not trees:
        raise InputError(f"{name_of(treebank)}: no trees in it")
    found = diagnose(
        Corpus.from_trees(trees, normaliser=normaliser), states=states, features=features, least=least,
        resamples=resamples, confidence=confidence, random_state=seed, threads=common.default_threads(threads),
        progress=progress,
    )  # fmt: skip
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(found.words(top))
