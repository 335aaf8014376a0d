"""Reading and writing trees in any format sapwood knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from sapwood.errors import TreeFormatError, UsageError
from sapwood.files import name_of, read_lines
from sapwood.trees.brackets import OnBad, escape, format_pretty, format_tree, parse_trees
from sapwood.trees.export import format_export, parse_export
from sapwood.trees.tree import Tree

InputFormat = Literal["auto", "brackets", "export"]
OutputFormat = Literal["brackets", "pretty", "export", "tokens", "tagged", "draw"]
INPUT_FORMATS: tuple[str, ...] = get_args(InputFormat)
OUTPUT_FORMATS: tuple[str, ...] = get_args(OutputFormat)
_EXPORT_STARTS = ("#FORMAT", "#BOT", "#BOS", "%%")


class BadTrees:
    """Collects the malformed trees that a reader skips; pass it as `on_bad`."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[TreeFormatError] = []

    def __call__(self, error: TreeFormatError) -> None:
        """Count one more, and keep the first few for the report."""
        self.count += 1
        if len(self.first) < 5:
            self.first.append(error)

    def report(self) -> str:
        """Return what was skipped, in words."""
        shown = "".join(f"\n  {error}" for error in self.first)
        more = f"\n  ... and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"skipped {self.count} malformed tree(s):{shown}{more}"


def read_trees(path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None) -> Iterator[Tree]:
    """Yield the trees of a file (`-` is standard input, `.gz` allowed) as they are read.

    Parameters
    ----------
    path
        The file.
    format
        `brackets`, `export` (NEGRA), or `auto` to tell by the first line.
    on_bad
        Called with each malformed tree, which is then skipped; without it the first one raises `TreeFormatError`.
    """
    lines: Iterable[tuple[int, str]] = read_lines(path)
    if format == "auto":
        lines = iter(lines)
        seen = []
        for line in lines:
            seen.append(line)
            if line[1].strip():
                break
        format = detect_format(seen)
        lines = chain(seen, lines)
    if format == "export":
        return parse_export(lines, source=name_of(path), on_bad=on_bad)
    if format == "brackets":
        return parse_trees(lines, source=name_of(path), on_bad=on_bad)
    raise UsageError(f"no input format {format!r}; choose from {', '.join(INPUT_FORMATS)}")


def detect_format(lines: Iterable[tuple[int, str]]) -> Literal["brackets", "export"]:
    """Return the format of numbered lines, going by the first that is not blank."""
    first = next((text for _, text in lines if text.strip()), "")
    return "export" if first.startswith(_EXPORT_STARTS) else "brackets"


def format_as(tree: Tree, format: OutputFormat, number: int = 1) -> str:
    """Return a tree in an output format, without the final line end; `number` counts sentences (for `export`)."""
    if format == "brackets":
        return format_tree(tree)
    if format == "pretty":
        return format_pretty(tree)
    if format == "tokens":
        return " ".join(escape(word) for word in tree.words())
    if format == "tagged":
        return " ".join(f"{escape(node.word or '')}/{escape(node.label)}" for node in tree.preterminals())
    if format == "draw":
        return tree.draw() + "\n"
    if format == "export":
        return format_export(tree, number).rstrip("\n")
    raise UsageError(f"no output format {format!r}; choose from {', '.join(OUTPUT_FORMATS)}")
