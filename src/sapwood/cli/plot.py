"""`sapwood plot`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import UsageError
from sapwood.plots.curves import XAxis
from sapwood.plots.files import draw_files
from sapwood.plots.pictures import check_matplotlib, picture_format

# Name of the journal of an annotation project.
JOURNAL = "journal.jsonl"


@click.command("plot", short_help="Plot training curves, or the singular values of a model.")
@click.argument("files", nargs=-1, required=True, metavar="FILE [FILE]...")
@click.option("-o", "--output", help="Output file (.svg, .png or .pdf).")
@click.option(
    "--x",
    type=ChoiceParam(["step", "seconds"]),
    default="step",
    help="Horizontal axis: iterations or seconds of training.",
)
@click.option("--title", default="", show_default=False, help="Title of the plot.")
@click.option("--json", "as_json", is_flag=True, help="Print the plotted data as JSON; -o is then optional.")
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], output: str | None, x: XAxis, title: str, as_json: bool
) -> None:
    """Plot the training curves of logs: log-likelihood and, if measured, F1.

    Several logs, and the members of an ensemble, share the axes. For a model trained by spectral learning, plot the
    singular values of its most frequent symbols; for the journal of an annotation project, the trees accepted over time
    and the corrections of each.

    \b
    Examples:
      sapwood plot train.jsonl -o curves.svg
      sapwood plot small.jsonl large.jsonl --x seconds -o curves.png
      sapwood plot train.jsonl --json
      sapwood plot model.sapwood -o spectra.svg
      sapwood plot sagas/journal.jsonl -o progress.svg

    Drawing needs Matplotlib: pip install matplotlib.
    """
    if output is None and not as_json:
        raise UsageError("name an output file with -o (curves.svg, .png or .pdf), or print the numbers with --json")
    if output is None:
        common.refuse_given(context, ["title"], "requires -o")
    else:
        picture_format(output)
        check_matplotlib()
    common.check_inputs(*files)
    common.refuse_replacing({"-o": output}, files)
    if Path(files[0]).name == JOURNAL and len(files) == 1:
        common.refuse_given(context, ["x"], "is for training curves")
        from sapwood.annotation.progress import draw_progress, read_progress

        found = read_progress(files[0])
        if output is not None:
            draw_progress(found, output, title=title)
        drawn = found.to_dict()
    else:
        drawn = draw_files(files, output, x=x, title=title)
    if as_json:
        common.print_json(drawn)
