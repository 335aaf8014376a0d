"""Input and output formats of trees and of tokenised sentences.

Other packages can add formats as entry points of the group `sapwood.formats`: objects with `read(lines, source)`,
which yields the trees of numbered lines, or `write(tree, number)`, which returns a tree as text, or both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from sapwood.errors import InputError, TreeFormatError, UsageError, listed
from sapwood.runtime.registry import named
from sapwood.storage.files import is_regular, name_of, read_lines
from sapwood.trees.drawing.latex import LATEX_FOOTER, format_latex, latex_header
from sapwood.trees.drawing.svg import format_svg
from sapwood.trees.formats.brackets import (
    SLASH_TAGS,
    TOKENS,
    OnBad,
    escape_label,
    format_pretty,
    format_tree,
    parse_trees,
    unescape_label,
)
from sapwood.trees.formats.conllu import format_conllu
from sapwood.trees.formats.discbracket import (
    format_discbracket,
    is_discbracket,
    is_discbracket_name,
    parse_discbracket,
)
from sapwood.trees.formats.escapes import code
from sapwood.trees.formats.export import format_export, parse_export
from sapwood.trees.formats.gaps import Gaps, check_gaps, join_gaps
from sapwood.trees.formats.tiger import TIGER_FOOTER, TIGER_HEADER, format_tiger, is_tiger, parse_tiger
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.tree import Tree

T = TypeVar("T")
GROUP = "sapwood.formats"
# Name of an input format: one of `INPUT_FORMATS`, or one that another package adds.
InputFormat: TypeAlias = str
Lines: TypeAlias = Iterable[tuple[int, str]]
_EXPORT_STARTS = ("#FORMAT", "#BOT", "#BOS", "%%")
# As in brackets, only ASCII white space separates tokens.
_TOKEN = re.compile(r"\S+", re.ASCII)

_PART = re.compile(r"\([^\s()]*|\)|[^\s()]+")
# Number of lines that show whether a text is a treebank, and the longest to look at.
_SAMPLE_LINES, _SAMPLE = 20, 1 << 16


class BadTrees:
    """Collects the malformed trees that a reader skips; pass it as `on_bad`."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[TreeFormatError] = []

    def __call__(self, error: TreeFormatError) -> None:
        """Count the error, and keep the first few for the report."""
        self.count += 1
        if len(self.first) < 5:
            self.first.append(error)

    def report(self) -> str:
        """Return a summary of the skipped trees."""
        shown = "".join(f"\n  {error}" for error in self.first)
        more = f"\n  ... and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"skipped {self.count} malformed tree(s):{shown}{more}"


def read_trees(
    path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None, gaps: Gaps = "keep"
) -> Iterator[Tree]:
    """Yield the trees of a file (`-` is standard input, `.gz` allowed) as they are read.

    Parameters
    ----------
    path
        The file.
    format
        `brackets`, `export` (NEGRA), `tiger` (TIGER XML), `discbracket`, `auto` to detect one of these four by the
        first line or, for discbracket, also by the ending `.dbr` or `.discbracket`; or a format that another package
        adds.
    on_bad
        Called with the error of each malformed tree, which is then skipped; without it, and in formats of other
        packages, the first one raises `TreeFormatError`.
    gaps
        Treatment of phrases with gaps in `export`, `tiger` and `discbracket`, as for
        `sapwood.trees.formats.export.read_export`; `"join"`, in any format, joins the parts of phrases that were split.
    """
    return _reader(format, on_bad, gaps)(read_lines(path), source=name_of(path))


def locate_trees(
    lines: Lines,
    *,
    source: str,
    format: InputFormat = "auto",
    on_bad: OnBad | None = None,
    gaps: Gaps = "keep",
) -> Iterator[tuple[Tree, int]]:
    """Yield the trees of numbered lines, each with the number of its last line.

    The parameters are those of `read_trees`.
    """
    last = 0

    def watched() -> Iterator[tuple[int, str]]:
        nonlocal last
        for line in lines:
            last = line[0]
            yield line

    for tree in _reader(format, on_bad, gaps)(watched(), source=source):
        yield tree, last


def _reader(format: InputFormat, on_bad: OnBad | None, gaps: Gaps) -> Callable[..., Iterator[Tree]]:
    check_gaps(gaps)
    own: dict[str, Callable[..., Iterator[Tree]]] = {
        name: partial(read, on_bad=on_bad, gaps=gaps) for name, read in _READERS.items()
    }
    return _find(format, own, "read", "input format")


def _read_brackets(lines: Lines, *, source: str, on_bad: OnBad | None = None, gaps: Gaps = "keep") -> Iterator[Tree]:
    """Yield the trees of brackets, which have no gaps, but may have parts to be joined."""
    trees = parse_trees(lines, source=source, on_bad=on_bad)
    return map(join_gaps, trees) if gaps == "join" else trees


def detect_format(lines: Lines, source: str = "") -> Literal["brackets", "export", "tiger", "discbracket"]:
    """Detect the format of numbered lines by the first that is not blank, and by the name of the file."""
    first = next((text for _, text in lines if text.strip()), "")
    if first.startswith(_EXPORT_STARTS):
        return "export"
    if is_tiger(first):
        return "tiger"
    return "discbracket" if is_discbracket_name(source) or is_discbracket(first) else "brackets"


def _read_any(lines: Lines, *, source: str, on_bad: OnBad | None = None, gaps: Gaps = "keep") -> Iterator[Tree]:
    lines = iter(lines)
    seen = []
    for line in lines:
        seen.append(line)
        if line[1].strip():
            break
    return _reader(detect_format(seen, source), on_bad, gaps)(chain(seen, lines), source=source)


def format_as(tree: Tree, format: str, number: int = 1, *, heads: HeadRules | None = None) -> str:
    """Return a tree in an output format, without the final line end.

    `number` is the number of the sentence, and `heads` are the head rules for `conllu` (default: English).
    """
    if format == "conllu":
        return format_conllu(tree, number, heads)
    return _find(format, _WRITERS, "write", "output format")(tree, number)


def file_header(format: str) -> str:
    """Return the text before the trees in a file of that output format."""
    return _HEADERS.get(format, "")


def file_footer(format: str) -> str:
    """Return the text after the trees in a file of that output format."""
    return _FOOTERS.get(format, "")


def _tokens(tree: Tree, _: int) -> str:
    return _line(TOKENS.write(word) for word in tree.words())


def _tagged(tree: Tree, _: int) -> str:
    pairs = ((TOKENS.write(node.word or ""), escape_label(node.label, SLASH_TAGS)) for node in tree.preterminals())
    return _line(f"{word}/{tag}" for word, tag in pairs)


def _line(tokens: Iterable[str]) -> str:
    line = " ".join(tokens)
    # At the beginning of a file this would be read as a byte order mark.
    return code(line[0]) + line[1:] if line.startswith("\ufeff") else line


_READERS: dict[str, Callable[..., Iterator[Tree]]] = {
    "auto": _read_any,
    "brackets": _read_brackets,
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
# Called with the error of a line that cannot be read.
BadLine: TypeAlias = Callable[[InputError], object]
INPUT_FORMATS, OUTPUT_FORMATS = tuple(_READERS), tuple(_WRITERS)


def _find(
    name: str, own: Mapping[str, Callable[..., T]], what: Literal["read", "write"], kind: str
) -> Callable[..., T]:
    """Return the reader or writer of a format, built in or from another package."""
    if name in own:
        return own[name]
    found = getattr(named(name, own, GROUP, kind), what, None)
    if found is None:
        raise UsageError(f"the format {name!r} has no `{what}`, so it is not an {kind}")
    return found


def read_tokens(path: str | Path, on_bad: BadLine | None = None) -> Iterator[list[str]]:
    """Yield the tokens of each line of a file, as the output format `tokens` writes them; none for a blank line.

    A line that cannot be read raises an `InputError` that names it; `on_bad`, if given, gets the error instead, and the
    line counts as blank.
    """
    return parse_tokens(read_lines(path, on_bad))


def is_bracketed(text: str) -> bool:
    """Return whether a text begins with trees in brackets: labels after `(`, and words before `)`.

    Examples
    --------
    >>> is_bracketed("( (S (NP dogs)\\n (VP"), is_bracketed("(see (page 9) for (N) reasons)")
    (True, False)
    """
    parts = _PART.findall(text)
    words = 0
    for place, part in enumerate(parts):
        if part[0] in "()":
            continue
        if place == 0 or parts[place - 1][0] != "(" or parts[place - 1] == "(":
            return False  # a word that has no tag
        if place + 1 < len(parts) and parts[place + 1] != ")":
            return False
        words += 1
    opened = sum(part[0] == "(" for part in parts)
    return text.lstrip()[:1] == "(" and opened > 1 and words > 0


def begins_with_trees(path: str | Path) -> bool:
    """Return whether a file is a treebank in brackets, by its first lines; False unless it is a regular file."""
    if not is_regular(path):
        return False
    lines = takewhile(lambda text: len(text) <= _SAMPLE, (line for _, line in read_lines(path, id)))
    try:
        return is_bracketed("".join(islice(filter(str.strip, lines), _SAMPLE_LINES)))
    except InputError:
        return False  # the reader of the text reports what is wrong with it


def refuse_trees(path: str | Path | None) -> None:
    """Raise an `InputError` if a file that is to be read as text is a treebank in brackets."""
    if path is not None and begins_with_trees(path):
        raise InputError(
            f"{name_of(path)}: trees in brackets, where text is expected; get their words with "
            f"`sapwood convert {name_of(path)} --to tokens`"
        )


def parse_tokens(lines: Lines) -> Iterator[list[str]]:
    """Yield the tokens of each numbered line."""
    for _, line in lines:
        yield [TOKENS.read(token) for token in _TOKEN.findall(line)]


def read_tagged(
    path: str | Path, tags: Collection[str] | None = None, on_bad: BadLine | None = None
) -> Iterator[list[tuple[str, str]]]:
    """Yield the `(word, tag)` pairs of each line of a file, as the output format `tagged` writes them.

    A tag that is not in `tags`, if given, raises an `InputError` that names the line; `on_bad`, if given, gets the
    error instead, and the line counts as blank.
    """
    return parse_tagged(read_lines(path, on_bad), source=name_of(path), tags=tags, on_bad=on_bad)


def parse_tagged(
    lines: Lines, *, source: str, tags: Collection[str] | None = None, on_bad: BadLine | None = None
) -> Iterator[list[tuple[str, str]]]:
    """Yield the `(word, tag)` pairs of each numbered line; see `read_tagged`."""
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
