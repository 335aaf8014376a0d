"""`sapwood plot`."""

from __future__ import annotations

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.plots.curves import XAxis
from sapwood.plots.files import draw_files
from sapwood.plots.pictures import check_matplotlib, picture_format


@click.command("plot", short_help="Draw training curves, or the singular values of a model.")
@click.argument("files", nargs=-1, required=True, metavar="FILE [FILE]...")
@click.option("-o", "--output", help="The picture: a name that ends in .svg, .png or .pdf.")
@click.option(
    "--x",
    type=Choice(["step", "seconds"]),
    default="step",
    show_default=True,
    help="What to draw against: iterations, or the time since training began.",
)
@click.option("--title", default="", help="What to write above the picture.")
@click.option("--json", "as_json", is_flag=True, help="Print what is drawn as JSON; then -o may be left out.")
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], output: str | None, x: XAxis, title: str, as_json: bool
) -> None:
    """Draw the training curves in logs: log-likelihood, and F1 if it was measured.

    Several logs, and the members of an ensemble, are drawn over each other. Of a model made by spectral learning, the
    singular values of its most frequent symbols are drawn.

    \b
    Examples:
      sapwood plot train.jsonl -o curves.svg
      sapwood plot small.jsonl large.jsonl --x seconds -o curves.png
      sapwood plot train.jsonl --json
      sapwood plot model.sapwood -o spectra.svg

    Drawing needs Matplotlib: pip install matplotlib.
    """
    if output is None and not as_json:
        raise UsageError("name the picture with -o (curves.svg, .png or .pdf), or ask for the numbers with --json")
    if output is None:
        common.refuse_given(context, ["title"], "goes with -o")
    else:
        picture_format(output)
        check_matplotlib()
    common.check_inputs(*files)
    common.refuse_replacing({"-o": output}, files)
    drawn = draw_files(files, output, x=x, title=title)
    if as_json:
        common.print_json(drawn)
