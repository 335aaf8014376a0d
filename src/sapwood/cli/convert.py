"""`sapwood convert`."""

from __future__ import annotations

from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import UsageError
from sapwood.files import open_output
from sapwood.trees.formats import OUTPUT_FORMATS, format_as


@click.command("convert")
@click.argument("file", default="-")
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option(
    "--to",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    default="brackets",
    show_default=True,
    help="Format of the output; tokens prints the words, tagged word/TAG.",
)
@click.option(
    "--normalise", is_flag=True, help="Clean the trees: function tags, empty elements, repeated unaries, root."
)
@click.option(
    "--binarise",
    "direction",
    type=click.Choice(["right", "left", "head"]),
    help="Normalise, collapse unary chains and binarise: the trees that a grammar sees.",
)
@click.option("-v", "--vertical", type=click.IntRange(min=1), default=1, show_default=True, help="With --binarise.")
@click.option("-h", "--horizontal", type=click.IntRange(min=0), default=1, show_default=True, help="With --binarise.")
@click.option("--invert", is_flag=True, help="Undo --binarise.")
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.quiet_option
def command(
    file: str,
    output: str | None,
    output_format: Any,
    normalise: bool,
    direction: Any,
    vertical: int,
    horizontal: int,
    invert: bool,
    function_tags: str,
    keep_empties: bool,
    keep_repeated: bool,
    input_format: Any,
    skip_bad: bool,
    quiet: bool,
) -> None:
    """Convert the trees of FILE (default: standard input) to another format or form.

    \b
    Examples:
      sapwood convert train.mrg --to tokens > train.txt
      sapwood convert negra.export --normalise -o negra.mrg
      sapwood convert train.mrg --binarise right -h 1 | sapwood convert --invert
    """
    from sapwood.trees import TreeTransform

    if invert and (normalise or direction):
        raise UsageError("--invert undoes --binarise; it does not go with --binarise or --normalise")
    if output is not None and output != "-":
        common.check_output(output)
    progress = common.make_progress(quiet)
    normaliser = common.make_normaliser(function_tags, keep_empties, keep_repeated)
    transform = TreeTransform(vertical, horizontal, direction or "right", root=normaliser.root)
    written = dropped = 0
    with open_output(output) as stream, progress.stage("converting", unit="trees") as stage:
        if output_format == "export":
            stream.write("#FORMAT 3\n")
        for tree in common.trees_from([file], input_format, skip_bad, progress):
            stage.step()
            if normalise or direction:
                clean = normaliser(tree)
                if clean is None:
                    dropped += 1
                    continue
                tree = transform(clean) if direction else clean
            elif invert:
                tree = transform.invert(tree)
            written += 1
            stream.write(format_as(tree, output_format, written) + "\n")
    if dropped:
        progress.note(f"left out {dropped} tree(s) of which normalising left nothing")
