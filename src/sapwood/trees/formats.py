"""Reading and writing trees in any format sapwood knows, and sentences in lines.

Other packages can add formats: objects with `read(lines, source)`, which yields the trees of numbered lines, or
`write(tree, number)`, which returns a tree as text, or both, as entry points of the group `sapwood.formats`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from sapwood.errors import InputError, TreeFormatError, UsageError, listed
from sapwood.files import name_of, read_lines
from sapwood.run.plugins import named
from sapwood.trees.brackets import (
    SLASH_TAGS,
    TOKENS,
    OnBad,
    escape_label,
    format_pretty,
    format_tree,
    parse_trees,
    unescape_label,
)
from sapwood.trees.codes import code
from sapwood.trees.dependencies import format_conllu
from sapwood.trees.discbracket import format_discbracket, parse_discbracket
from sapwood.trees.export import format_export, parse_export
from sapwood.trees.heads import HeadRules
from sapwood.trees.latex import LATEX_FOOTER, format_latex, latex_header
from sapwood.trees.svg import format_svg
from sapwood.trees.tiger import TIGER_FOOTER, TIGER_HEADER, format_tiger, is_tiger, parse_tiger
from sapwood.trees.tree import Tree

T = TypeVar("T")
GROUP = "sapwood.formats"
# Names of formats that trees are read from: one of `INPUT_FORMATS`, or what another package adds.
InputFormat: TypeAlias = str
Lines: TypeAlias = Iterable[tuple[int, str]]
_EXPORT_STARTS = ("#FORMAT", "#BOT", "#BOS", "%%")
# As in brackets, tokens stand apart by ASCII white space alone.
_TOKEN = re.compile(r"\S+", re.ASCII)


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
        `brackets`, `export` (NEGRA), `tiger` (TIGER XML), `auto` to tell these three by the first line;
        `discbracket`, or what another package adds.
    on_bad
        Called with each malformed tree, which is then skipped; without it, and in formats of other packages, the first
        one raises `TreeFormatError`.
    """
    return _reader(format, on_bad)(read_lines(path), source=name_of(path))


def locate_trees(
    lines: Lines, *, source: str, format: InputFormat = "auto", on_bad: OnBad | None = None
) -> Iterator[tuple[Tree, int]]:
    """Yield the trees of numbered lines, each with the number of the line that it ends on.

    The parameters are those of `read_trees`.
    """
    last = 0

    def watched() -> Iterator[tuple[int, str]]:
        nonlocal last
        for line in lines:
            last = line[0]
            yield line

    for tree in _reader(format, on_bad)(watched(), source=source):
        yield tree, last


def _reader(format: InputFormat, on_bad: OnBad | None) -> Callable[..., Iterator[Tree]]:
    own: dict[str, Callable[..., Iterator[Tree]]] = {
        name: partial(read, on_bad=on_bad) for name, read in _READERS.items()
    }
    return _find(format, own, "read", "input format")


def detect_format(lines: Lines) -> Literal["brackets", "export", "tiger"]:
    """Return the format of numbered lines, going by the first that is not blank."""
    first = next((text for _, text in lines if text.strip()), "")
    if first.startswith(_EXPORT_STARTS):
        return "export"
    return "tiger" if is_tiger(first) else "brackets"


def _read_any(lines: Lines, *, source: str, on_bad: OnBad | None = None) -> Iterator[Tree]:
    lines = iter(lines)
    seen = []
    for line in lines:
        seen.append(line)
        if line[1].strip():
            break
    return _READERS[detect_format(seen)](chain(seen, lines), source=source, on_bad=on_bad)


def format_as(tree: Tree, format: str, number: int = 1, *, heads: HeadRules | None = None) -> str:
    """Return a tree in an output format, without the final line end.

    `number` counts sentences, and `heads` are the rules for `conllu`, those of English if there are none.
    """
    if format == "conllu":
        return format_conllu(tree, number, heads)
    return _find(format, _WRITERS, "write", "output format")(tree, number)


def file_header(format: str) -> str:
    """Return what stands in a file of that output format before its trees."""
    return _HEADERS.get(format, "")


def file_footer(format: str) -> str:
    """Return what stands in a file of that output format behind its trees."""
    return _FOOTERS.get(format, "")


def _tokens(tree: Tree, _: int) -> str:
    return _line(TOKENS.write(word) for word in tree.words())


def _tagged(tree: Tree, _: int) -> str:
    pairs = ((TOKENS.write(node.word or ""), escape_label(node.label, SLASH_TAGS)) for node in tree.preterminals())
    return _line(f"{word}/{tag}" for word, tag in pairs)


def _line(tokens: Iterable[str]) -> str:
    line = " ".join(tokens)
    # At the beginning of a file it would be taken for a byte order mark.
    return code(line[0]) + line[1:] if line.startswith("\ufeff") else line


_READERS: dict[str, Callable[..., Iterator[Tree]]] = {
    "auto": _read_any,
    "brackets": parse_trees,
    "export": parse_export,
    "tiger": parse_tiger,
    "discbracket": parse_discbracket,
}
_WRITERS: dict[str, Callable[[Tree, int], str]] = {
    "brackets": lambda tree, _: format_tree(tree),
    "pretty": lambda tree, _: format_pretty(tree),
    "export": lambda tree, number: format_export(tree, number).rstrip("\n"),
    "tiger": lambda tree, number: format_tiger(tree, number).rstrip("\n"),
    "discbracket": lambda tree, _: format_discbracket(tree),
    "tokens": _tokens,
    "tagged": _tagged,
    "draw": lambda tree, _: tree.draw() + "\n",
    "conllu": format_conllu,
    "svg": lambda tree, _: format_svg(tree).rstrip("\n"),
    "latex": lambda tree, _: format_latex(tree) + "\n",
    "qtree": lambda tree, _: format_latex(tree, "qtree") + "\n",
}
_HEADERS = {
    "export": "#FORMAT 3\n",
    "tiger": TIGER_HEADER,
    "latex": latex_header("forest"),
    "qtree": latex_header("qtree"),
}
_FOOTERS = {"tiger": TIGER_FOOTER, "latex": LATEX_FOOTER, "qtree": LATEX_FOOTER}
# What is told of a line that cannot be read.
BadLine: TypeAlias = Callable[[InputError], object]
INPUT_FORMATS, OUTPUT_FORMATS = tuple(_READERS), tuple(_WRITERS)


def _find(
    name: str, own: Mapping[str, Callable[..., T]], what: Literal["read", "write"], kind: str
) -> Callable[..., T]:
    """Return what reads or writes a format, of sapwood's own or of another package."""
    if name in own:
        return own[name]
    found = getattr(named(name, own, GROUP, kind), what, None)
    if found is None:
        raise UsageError(f"the format {name!r} has no `{what}`, so it is no {kind}")
    return found


def read_tokens(path: str | Path, on_bad: BadLine | None = None) -> Iterator[list[str]]:
    """Yield the tokens of each line of a file, as the output format `tokens` writes them; none for a blank line.

    A line that cannot be read raises an `InputError` that names it; or, with `on_bad`, that is told, and it is blank.
    """
    return parse_tokens(read_lines(path, on_bad))


def parse_tokens(lines: Lines) -> Iterator[list[str]]:
    """Yield the tokens of each of numbered lines."""
    for _, line in lines:
        yield [TOKENS.read(token) for token in _TOKEN.findall(line)]


def read_tagged(
    path: str | Path, tags: Collection[str] | None = None, on_bad: BadLine | None = None
) -> Iterator[list[tuple[str, str]]]:
    """Yield the `(word, tag)` pairs of each line of a file, as the output format `tagged` writes them.

    Tags that are not among `tags`, if those are given, raise an `InputError` that names the line; or, with `on_bad`,
    that is told, and the line is blank.
    """
    return parse_tagged(read_lines(path, on_bad), source=name_of(path), tags=tags, on_bad=on_bad)


def parse_tagged(
    lines: Lines, *, source: str, tags: Collection[str] | None = None, on_bad: BadLine | None = None
) -> Iterator[list[tuple[str, str]]]:
    """Yield the `(word, tag)` pairs of each of numbered lines; see `read_tagged`."""
    for number, line in lines:
        try:
            pairs = _pairs(line, tags, f"{source}:{number}")
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)
            pairs = []
        yield pairs


def _pairs(line: str, tags: Collection[str] | None, place: str) -> list[tuple[str, str]]:
    pairs = []
    for token in _TOKEN.findall(line):
        word, _, tag = token.rpartition("/")
        if not word or not tag:
            raise InputError(f"{place}: expected word/TAG, found {token!r}")
        tag = unescape_label(tag)
        if tags is not None and tag not in tags:
            raise InputError(f"{place}: the model has no tag {tag!r}; it has: {listed(sorted(tags))}")
        pairs.append((TOKENS.read(word), tag))
    return pairs
