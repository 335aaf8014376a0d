"""Writing trees, for all commands that do: the option `--to`, and what each format needs around its trees."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from typing import IO

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.files import STANDARD_STREAM, open_output
from sapwood.trees.draw import draw_to_fit
from sapwood.trees.formats import GROUP, OUTPUT_FORMATS, file_footer, file_header, format_as
from sapwood.trees.heads import HeadRules
from sapwood.trees.tree import Tree

_PNG = "png"
# Formats of a picture with all trees in it, which is written when the last one is known.
PICTURES = ("svg", _PNG)
# More trees than anybody looks at in one picture.
_MOST = 1000

to_option = click.option(
    "--to",
    "output_format",
    type=Choice((*OUTPUT_FORMATS, _PNG), GROUP),
    default="brackets",
    show_default=True,
    help="Format of the output.",
)


def read_heads(context: click.Context, heads: str | None, output_format: str) -> HeadRules | None:
    """Return the head rules that an option names, which are for dependencies alone."""
    if heads is not None and output_format != "conllu":
        common.refuse_given(context, ["heads"], "goes with --to conllu")
    return None if heads is None else HeadRules.named(heads)


heads_option = click.option(
    "--heads", help="With --to conllu: head rules, english, icelandic or a file. [default: english]"
)


class TreeWriter:
    """Writes trees in a format, or lines as they are."""

    def __init__(self, stream: IO[str] | None, format: str, heads: HeadRules | None = None) -> None:
        self._stream = stream
        self._heads = heads
        self._format = format
        self._number = 0
        self.waiting: list[Tree] = []
        on_terminal = stream is not None and stream is sys.stdout and stream.isatty()
        self._width = shutil.get_terminal_size().columns if on_terminal else None

    def tree(self, tree: Tree | None, before: str = "") -> None:
        """Write a tree, behind some text; None is a blank line, or nothing in formats that are no lines."""
        self._number += 1
        if self._format in PICTURES:
            if tree is not None:
                self.waiting.append(tree)
            if len(self.waiting) > _MOST:
                raise UsageError(f"a picture of more than {_MOST:,} trees helps nobody; choose some of them")
        elif tree is None:
            self.line("")
        elif self._format == "draw":
            self.line(before + draw_to_fit(tree, self._width) + "\n")
        else:
            self.line(before + format_as(tree, self._format, self._number, heads=self._heads))

    def line(self, text: str) -> None:
        """Write a line, and let whoever reads it have it."""
        assert self._stream is not None
        self._stream.write(text + "\n")
        self._stream.flush()


@contextlib.contextmanager
def tree_output(path: str | None, format: str | None, heads: HeadRules | None = None) -> Iterator[TreeWriter]:
    """Open an output, standard output without a path, for trees in that format or, without one, for lines of text.

    `heads` are the rules for dependencies.
    """
    if format == _PNG:
        if path is None or path == STANDARD_STREAM or not path.endswith(".png"):
            raise UsageError("--to png goes with -o and a name that ends in .png")
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
            from sapwood.trees.svg import format_svg

            stream.write(format_svg(writer.waiting))
        stream.write(file_footer(format or ""))
