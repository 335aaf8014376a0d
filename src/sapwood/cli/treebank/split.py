"""`sapwood split`."""

from __future__ import annotations

from typing import Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import Amount, ChoiceParam
from sapwood.pipeline.split import split_paths, split_treebank
from sapwood.storage.files import STANDARD_STREAM
from sapwood.trees.formats.registry import InputFormat


@click.command("split", short_help="Split a treebank into training, dev and test files.")
@click.argument("treebank", nargs=-1)
@click.option("--dev", type=Amount(), default="10%", help="Size of the dev set: a share (10%) or a number of trees.")
@click.option("--test", type=Amount(), default="10%", help="Size of the test set; 0 for none.")
@click.option(
    "--by",
    type=ChoiceParam(["trees", "files"]),
    help="Assign single trees or whole files. [default: files, if several are given]",
)
@click.option(
    "-o", "--output", "folder", default=".", help="Folder of train.mrg, dev.mrg and test.mrg; created if missing."
)
@common.seed_option
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
def command(
    treebank: tuple[str, ...],
    dev: float,
    test: float,
    by: str | None,
    folder: str,
    seed: int,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Split the trees of TREEBANK files (default: standard input) at random into train.mrg, dev.mrg and test.mrg.

    Trees are written as they are, one per line in brackets and in their order, whether the files have one tree per
    line, indented trees, or are compressed. If any has gaps, they are written in discbracket, to train.dbr and so on.
    The same seed gives the same files. Existing files are never replaced.

    Several files count as documents, and each goes into one part as a whole: sentences of one document resemble each
    other, so that a test set from the training documents would be too easy. Sizes are then approximate.

    \b
    Examples:
      sapwood split treebank.mrg --dev 10% --test 10%
      sapwood split treebank.mrg.gz --dev 500 --test 0 --seed 7 -o parts
      sapwood split texts/*.psd --by files
    """
    paths = list(treebank) or [STANDARD_STREAM]
    common.check_inputs(*paths)
    for output in split_paths(folder, dev=dev, test=test).values():
        if output.parent.is_dir():  # else it is created
            common.check_output(output)
    progress = common.make_progress(quiet)
    whole = None if by is None else by == "files"
    with common.naming(paths), progress.stage("reading", len(paths), "files") as stage:
        documents = []
        for path in paths:
            documents.append(list(common.trees_from([path], input_format, skip_bad, progress)))
            stage.step()
        parts = split_treebank(documents, folder, dev=dev, test=test, seed=seed, whole_documents=whole)
    if as_json:
        rows: dict[str, Any] = {part: found._asdict() for part, found in parts.items()}
        common.print_json(rows)
        return
    several = len(paths) > 1
    for part, found in parts.items():
        documents_told = f" from {found.documents:,} of {len(paths):,} files" if several else ""
        click.echo(f"{part:<6} {found.trees:>9,} trees{documents_told}  {found.path}")
