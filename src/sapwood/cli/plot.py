"""`sapwood plot`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import is_regular, name_of
from sapwood.plots.curves import draw_curves, make_curves
from sapwood.plots.pictures import check_matplotlib, picture_format
from sapwood.plots.spectra import draw_spectra, most_frequent
from sapwood.run.log import read_log
from sapwood.storage import read_header


@click.command("plot", short_help="Draw training curves, or the singular values of a model.")
@click.argument("files", nargs=-1, required=True, metavar="FILE [FILE]...")
@click.option("-o", "--output", help="The picture: a name that ends in .svg, .png or .pdf.")
@click.option(
    "--x",
    type=click.Choice(["step", "seconds"]),
    default="step",
    show_default=True,
    help="What to draw against: iterations, or the time since training began.",
)
@click.option("--title", default="", help="What to write above the picture.")
@click.option("--json", "as_json", is_flag=True, help="Print what is drawn as JSON; then -o may be left out.")
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], output: str | None, x: Any, title: str, as_json: bool
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

    Drawing needs Matplotlib: pip install 'sapwood[plot]'.
    """
    if output is None and not as_json:
        raise UsageError("name the picture with -o (curves.svg, .png or .pdf), or ask for the numbers with --json")
    if output is None:
        common.refuse_given(context, ["title"], "goes with -o")
    else:
        picture_format(output)
        check_matplotlib()
    common.check_inputs(*files)
    if output is not None:
        common.check_output(output)
        for path in files:
            if is_regular(path) and is_regular(output) and Path(path).samefile(output):
                raise UsageError(f"-o {output}: is one of the input files; the picture would replace it")
    kinds = {path: _kind_of(path) for path in files}
    for path, kind in kinds.items():
        if kind not in _PICTURES:
            raise UsageError(f"{path}: there is nothing to draw for this kind of file ({kind}) yet; name training logs")
    if len(set(kinds.values())) > 1:
        raise UsageError("files of different kinds cannot be drawn in one picture; draw them one by one")
    _PICTURES[kinds[files[0]]](list(kinds), output, x, title, as_json)


def _kind_of(path: str) -> str:
    """Return what a file is: a log, or what its header says."""
    if not is_regular(path):
        return "log"  # standard input and pipes can be read only once
    try:
        return str(read_header(path).get("kind"))
    except ModelError:
        # Not one of ours; unless its name says that it should be.
        if path.endswith(".sapwood"):
            raise
        return "log"


def _plot_logs(files: Sequence[str], output: str | None, x: Any, title: str, as_json: bool) -> None:
    logs = {name_of(path): read_log(path) for path in files}
    curves = make_curves(logs, x=x)
    if output is not None:
        draw_curves(logs, output, x=x, title=title)
    if as_json:
        common.print_json({"x": x, "curves": [curve.to_dict() for curve in curves]})


def _plot_model(files: Sequence[str], output: str | None, _x: Any, title: str, as_json: bool) -> None:
    if len(files) > 1:
        raise UsageError("singular values are drawn for one model at a time")
    info = read_header(files[0])["metadata"].get("info", {})
    try:
        records = most_frequent(info.get("spectral", {}).get("symbols", []))
    except InputError as error:
        raise InputError(f"{files[0]}: {error}") from error
    if output is not None:
        draw_spectra(records, output, title=title)
    if as_json:
        common.print_json({"symbols": list(records)})


# What to do with files of each kind.
_PICTURES: dict[str, Callable[[Sequence[str], str | None, Any, str, bool], None]] = {
    "log": _plot_logs,
    "model": _plot_model,
}
