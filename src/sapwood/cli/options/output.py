"""Output of trees, shared by commands: the option `--to`, and the header and footer of each format."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import UsageError, listed
from sapwood.runtime.progress import Progress
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM, open_output
from sapwood.trees.drawing.terminal import draw_to_fit
from sapwood.trees.formats.discbracket import is_discbracket_name
from sapwood.trees.formats.registry import GROUP, OUTPUT_FORMATS, file_footer, file_header, format_as
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.tree import Tree

_PNG = "png"
# Image formats: one picture of all trees, written at the end.
PICTURES = ("svg", _PNG)
# Extensions of tables.
_TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".ods")
# Maximum number of trees in one picture.
_MOST = 1000

to_option = click.option(
    "--to", "output_format", type=ChoiceParam((*OUTPUT_FORMATS, _PNG), GROUP), default="brackets", help="Output format."
)


def read_heads(context: click.Context, heads: str | None, output_format: str) -> HeadRules | None:
    """Return the head rules named by an option, for dependencies and phrases only."""
    if heads is not None and output_format != "conllu" and context.params.get("phrases") is None:
        extra = " or --phrases" if "phrases" in context.params else ""
        common.refuse_given(context, ["heads"], f"requires --to conllu{extra}")
    return None if heads is None else HeadRules.named(heads)


heads_option = click.option(
    "--heads",
    help="Head rules for --to conllu and --phrases: english, icelandic or a file. [default: by the labels]",
)


def note_learned_heads(phrases: Mapping[str, float], name: str, trees: str, progress: Progress) -> None:
    """Note that no built-in head rules fit labels, given with their counts, and which trees rules are learned from."""
    labels = listed(sorted(phrases, key=lambda label: -phrases[label])[:4])
    progress.note(
        f"{name}: no built-in head rules fit its labels ({labels}, ...); heads are by rules learned from {trees}: "
        "give others with --heads FILE, or choose with --heads english or icelandic"
    )


def terminal_width() -> int | None:
    """Return the width of the terminal that shows standard output; None if it goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class TreeWriter:
    """Writer of trees in a format, or of plain lines."""

    def __init__(self, stream: IO[str] | None, format: str, heads: HeadRules | None = None) -> None:
        self._stream = stream
        self._heads = heads
        self._format = format
        self._number = 0
        self.waiting: list[Tree] = []
        self._width = terminal_width() if stream is sys.stdout else None

    def tree(self, tree: Tree | None, before: str = "") -> None:
        """Write a tree after a prefix; None is a blank line, or nothing in formats without lines."""
        self._number += 1
        if self._format in PICTURES:
            if tree is not None:
                self.waiting.append(tree)
            if len(self.waiting) > _MOST:
                raise UsageError(f"a picture can show at most {_MOST:,} trees; select fewer")
        elif tree is None:
            self.line("")
        elif self._format == "draw":
            self.line(before + draw_to_fit(tree, self._width) + "\n")
        else:
            self.line(before + format_as(tree, self._format, self._number, heads=self._heads))

    def line(self, text: str) -> None:
        """Write a line and flush it."""
        assert self._stream is not None
        self._stream.write(text + "\n")
        self._stream.flush()


def check_tree_output(path: str | None, format: str, remedy: str = "") -> None:
    """Raise a `UsageError` if a file of trees in a built-in format has a name that ends as other files do.

    `remedy` is added to the message about names of tables.
    """
    if path is None or format not in OUTPUT_FORMATS:
        return
    name = Path(path)
    ending = Path(name.stem if name.suffix in COMPRESSED else name).suffix.lower()
    if ending in _TABLES:
        raise UsageError(f"-o {path}: trees in {format} are not a table; end the name in .mrg or .txt{remedy}")
    if is_discbracket_name(path) and format != "discbracket":
        raise UsageError(
            f"-o {path}: a file of that name is read as discbracket, not {format}: add --to discbracket, or end the "
            "name in .mrg or .txt"
        )
    if ending[1:] in (*PICTURES, "pdf") and ending[1:] != format:
        raise UsageError(
            f"-o {path}: trees in {format} are not a picture: add --to svg or --to png with a name to match, or end "
            "the name in .mrg or .txt"
        )


@contextlib.contextmanager
def tree_output(path: str | None, format: str | None, heads: HeadRules | None = None) -> Iterator[TreeWriter]:
    """Open an output (by default standard output) for trees in a format or, without one, for lines of text.

    `heads` are the head rules for dependencies.
    """
    check_tree_output(path, format or "")
    if format == _PNG:
        if path is None or path == STANDARD_STREAM or not path.endswith(".png"):
            raise UsageError("--to png requires -o and a name that ends in .png")
        from sapwood.plots.pictures import check_matplotlib
        from sapwood.plots.trees import draw_trees

        check_matplotlib()
        writer = TreeWriter(None, format)
        yield writer
        draw_trees(writer.waiting, path)
        return
    with open_output(path) as stream:
        writer = TreeWriter(stream, format or "brackets", heads)
        stream.write(file_header(format or ""))
        yield writer
        if format == "svg":
            from sapwood.trees.drawing.svg import format_svg

            stream.write(format_svg(writer.waiting))
        stream.write(file_footer(format or ""))
