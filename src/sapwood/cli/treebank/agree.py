"""`sapwood agree`."""

from __future__ import annotations

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import NATURAL
from sapwood.evaluate.agreement import compare_annotators
from sapwood.storage.files import open_output
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.normalise import Normaliser


@click.command("agree", short_help="Measure the agreement of two annotators.")
@click.argument("a")
@click.argument("b")
@click.option(
    "--sentences", type=NATURAL, default=5, help="List the disagreements in the first N sentences that differ."
)
@click.option(
    "--agreed", help="Write what both annotators agree on to this file: trees, or partial brackets where they differ."
)
@click.option("--no-normalise", is_flag=True, help="Do not normalise trees: function tags count.")
@common.normaliser_options
@common.format_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    a: str,
    b: str,
    sentences: int,
    agreed: str | None,
    no_normalise: bool,
    normaliser: Normaliser,
    input_format: InputFormat,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare the trees of two annotators, in files A and B with the same sentences in the same order.

    Neither annotator is treated as gold. Prints F1; Cohen's kappa of spans (all spans of two words or more: a label, or
    no phrase), of the labels of spans that both bracket, and of tags; the most frequent differences; and disagreements
    side by side. --agreed writes what both agree on, as trees or partial brackets, for `sapwood train --partial`.

    \b
    Examples:
      sapwood agree anna.mrg ben.mrg
      sapwood agree anna.mrg ben.mrg --sentences 100 --agreed both.mrg
      sapwood agree anna.mrg ben.mrg --no-normalise --json
    """
    if no_normalise:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "cannot be used with --no-normalise")
    common.check_inputs(a, b)
    common.refuse_replacing({"--agreed": agreed}, [a, b])
    cleaned = None if no_normalise else normaliser
    result = compare_annotators(
        a,
        b,
        format=input_format,
        normaliser=cleaned,
        agreed=agreed is not None,
        gaps=common.gaps_option(),
        progress=common.make_progress(quiet),
    )
    if agreed is not None:
        with open_output(agreed) as stream:
            stream.writelines(f"{tree}\n" for tree in result.agreed)
    if as_json:
        common.print_json(result.to_dict(sentences))
    else:
        click.echo(result.format(sentences))
