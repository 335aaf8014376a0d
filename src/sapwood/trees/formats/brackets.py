r"""Penn-style brackets: reading and writing.

The reader accepts any number of trees on a line, a tree over any number of lines, an outer pair without
a label (its label becomes `""`), and, between trees, blank lines, lines that begin with `#` or
`*x*` and `/* ... */` comments as in CorpusSearch and `.psd` files.

Only ASCII white space separates tokens: a no-break space is part of a word. Characters that a token cannot
hold are written as codes (`sapwood.trees.formats.escapes`), `(` and `)` as `-LRB-` and `-RRB-`. A *label* that is
exactly `-LRB-` or `-RRB-` is the Penn tag of that name and is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sapwood.errors import TreeFormatError
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.escapes import Codes, code
from sapwood.trees.formats.gaps import require_no_gaps
from sapwood.trees.tree import Tree

_TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)
_BETWEEN = re.compile(r"\s*(?:(/\*)|#[^\n]*|\*x\*[^\n]*)", re.ASCII)
# When skipping, a tree with more lines than this counts as unclosed at the next unindented bracket.
_MOST_LINES = 1000
# Limits on what is read again when skipping: a number of characters, and a multiple of those in the file.
_FREE, _TIMES = 100_000, 10

OnBad = Callable[[TreeFormatError], None]


_NAMES = {"(": "LRB", ")": "RRB"}
_PENN_TAGS = ("-LRB-", "-RRB-")
# Tokens, and tags after the slash of word/TAG.
TOKENS, SLASH_TAGS = Codes(r"\s()", _NAMES), Codes(r"\s()/", _NAMES)


def unescape_label(label: str) -> str:
    """Decode a label (the inverse of `escape_label`)."""
    return label if label in _PENN_TAGS else TOKENS.read(label)


def escape_label(label: str, codes: Codes = TOKENS) -> str:
    """Encode a label; one that is a bracket is written by its number, because the Penn tags keep their names."""
    return label if label in _PENN_TAGS else code(label) if label in _NAMES else codes.write(label)


def _phrase_label(label: str) -> str:
    return escape_label(label) if label else ""


class BracketReader:
    """A stack machine fed one line at a time; `trees` collects the complete trees."""

    def __init__(self, source: str, on_bad: OnBad | None) -> None:
        self.source = source
        self.on_bad = on_bad
        # A frame: [label or None while unread, children, word or None, line, column]
        self.stack: list[tuple[list[str], list[Tree], list[str], int, int]] = []
        self.trees: list[Tree] = []
        self.in_comment = False
        self.comment_line = 0
        self.skip_to_next_tree = False
        # With `on_bad`: the lines after the first line of the open tree, to read again if it is malformed.
        self.held: list[tuple[int, str]] = []
        # Characters read for the first time, and again.
        self.first_time = self.again = 0

    def feed(self, number: int, line: str) -> None:
        """Read the next line."""
        if self.on_bad is None:
            self._feed(number, line)
        else:
            self.first_time += len(line)
            self._feed_or_skip([(number, line)])

    def _feed_or_skip(self, lines: list[tuple[int, str]]) -> None:
        """Read lines, the next one last; a malformed tree puts back the lines that belong to later trees."""
        while lines:
            number, line = lines.pop()
            try:
                if len(self.held) >= _MOST_LINES and line.startswith("("):
                    raise self._unclosed(f"before line {number}")
                self._feed(number, line)
            except TreeFormatError as error:
                lines.extend(reversed(self._skip(error, number, line)))
            if not self.stack or self.stack[0][3] == number:
                self.held.clear()
            else:
                self.held.append((number, line))

    def _skip(self, error: TreeFormatError, number: int, line: str) -> list[tuple[int, str]]:
        """Report a malformed tree; return the lines to read again.

        If a line after the tree's first one begins with a bracket, the tree was not closed before the next began:
        the error is there or later, and reading continues at that line. In a file with very many of these, it continues
        at the next line.
        """
        assert self.on_bad is not None
        again: list[tuple[int, str]] = []
        if self.stack and self.stack[0][3] < number:
            later = [*self.held, (number, line)]
            first = next((index for index, (_, text) in enumerate(later) if text.startswith("(")), len(later))
            again = later[first:]
            if self.again > _FREE + _TIMES * self.first_time:  # of a file of unclosed trees, nothing is read again
                again = [one for one in again[-1:] if one[1].startswith("(")]
            self.again += sum(len(text) for _, text in again)
            if again:
                error = self._unclosed(f"before line {again[0][0]}")
        self.on_bad(error)
        self.stack.clear()
        self.held.clear()
        self.skip_to_next_tree = True
        return again

    def _feed(self, number: int, line: str) -> None:
        start = self._begin(number, line)
        if start is not None:
            self._read(number, line, start)

    @staticmethod
    def tokens(line: str, start: int) -> Iterator[re.Match[str]]:
        """Return the tokens of a line: brackets, labels, words."""
        return _TOKEN.finditer(line, start)

    def _begin(self, number: int, line: str) -> int | None:
        """Return where trees begin or continue on a line, after comments; None if there is nothing."""
        start = 0
        if self.skip_to_next_tree:
            # After a bad tree, resume at a line that can begin one: an unindented bracket.
            if not line.startswith("("):
                return None
            self.skip_to_next_tree = False
        while self.in_comment or not self.stack:
            if self.in_comment:
                end = line.find("*/", start)
                if end < 0:
                    return None
                self.in_comment = False
                start = end + 2
                continue
            between = _BETWEEN.match(line, start)
            if between is None:
                break
            if between.group(1):
                self.in_comment, self.comment_line, start = True, number, between.end()
            else:
                return None
        return start

    def _read(self, number: int, line: str, start: int) -> None:
        complete = len(self.trees)
        stack, trees = self.stack, self.trees
        for match in self.tokens(line, start):
            token = match.group()
            if token == "(":
                if stack and stack[-1][2]:
                    raise self._error("a word and a bracket side by side below one label", number, match)
                stack.append(([], [], [], number, match.start() + 1))
            elif token == ")":
                if not stack:
                    del trees[complete:]  # pieces of a single intended tree
                    raise self._error("a closing bracket without an opening one", number, match, line)
                label, children, word, opened, column = stack.pop()
                if word:
                    tree = Tree(unescape_label(label[0]), word=TOKENS.read(word[0]))
                elif children:
                    tree = Tree(unescape_label(label[0]) if label else "", children)
                else:
                    what = f"the label {label[0]!r} has no word or subtree below it" if label else "an empty tree ()"
                    raise TreeFormatError(what, source=self.source, line=opened, column=column, text=line.strip())
                if stack:
                    stack[-1][1].append(tree)
                else:
                    trees.append(tree)
            elif not stack:
                raise self._error("text outside any bracket", number, match, line)
            else:
                label, children, word, _, _ = stack[-1]
                if children:
                    raise self._error("a word and a bracket side by side below one label", number, match)
                if not label:
                    label.append(token)
                elif word:
                    raise self._error(f"two words below one label {label[0]!r}", number, match)
                else:
                    word.append(token)

    def finish(self) -> None:
        """Handle the end of the text."""
        while self.stack:
            error = self._unclosed("before the end of the file")
            if self.on_bad is None:
                raise error
            last = self.held.pop() if self.held else (self.stack[0][3], "")
            self._feed_or_skip(self._skip(error, *last)[::-1])
        if self.in_comment:
            error = TreeFormatError("a comment /* is never closed", source=self.source, line=self.comment_line)
            if self.on_bad is None:
                raise error
            self.on_bad(error)

    def _unclosed(self, where: str) -> TreeFormatError:
        label, _, _, line, column = self.stack[0]
        return TreeFormatError(
            f"{len(self.stack)} bracket(s) not closed {where}, the first one here",
            source=self.source,
            line=line,
            column=column,
            text="(" + (label[0] if label else ""),
        )

    def _error(self, problem: str, number: int, match: re.Match[str], text: str = "") -> TreeFormatError:
        return TreeFormatError(
            problem, source=self.source, line=number, column=match.start() + 1, text=(text or match.group()).strip()
        )


def parse_trees(text: str | Iterable[tuple[int, str]], *, source: str, on_bad: OnBad | None = None) -> Iterator[Tree]:
    """Yield the trees of a string, or of numbered lines as they arrive.

    With `on_bad`, a malformed tree is passed to it and skipped, and reading continues at the next line after
    the tree's first one that begins with a bracket; without it the `TreeFormatError` is raised.
    """
    reader = BracketReader(source, on_bad)
    lines = enumerate(text.split("\n"), 1) if isinstance(text, str) else text
    for number, line in lines:
        reader.feed(number, line)
        if reader.trees:
            yield from reader.trees
            reader.trees.clear()
    reader.finish()
    yield from reader.trees


def read_brackets(path: str | Path, *, on_bad: OnBad | None = None) -> Iterator[Tree]:
    """Yield the trees of a bracket file (`-` for standard input, `.gz` allowed), streaming."""
    return parse_trees(read_lines(path), source=name_of(path), on_bad=on_bad)


def format_tree(tree: Tree) -> str:
    """Return the tree on one line, in Penn brackets; an `InputError` if it has gaps."""
    require_no_gaps(tree, "brackets")
    pieces: list[str] = []
    # The stack holds trees to open and, as None, brackets to close.
    stack: list[Tree | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            pieces.append(")")
        elif node.word is not None:
            pieces.append(f" ({escape_label(node.label)} {TOKENS.write(node.word)})")
        else:
            pieces.append(f" ({_phrase_label(node.label)}")
            stack.append(None)
            stack.extend(reversed(node.children))
    return "".join(pieces)[1:]


def format_pretty(tree: Tree, *, width: int = 100) -> str:
    """Return the tree indented by two spaces per level; subtrees that fit on a line stay on one.

    Levels that begin beyond `width` are not indented further, so that the text grows with the tree.
    """
    require_no_gaps(tree, "brackets")
    lengths: dict[int, int] = {}

    def measure(node: Tree, below: list[int]) -> int:
        if node.word is None:
            size = len(_phrase_label(node.label)) + sum(below) + len(below)
        else:
            size = len(escape_label(node.label)) + 1 + len(TOKENS.write(node.word))
        return lengths.setdefault(id(node), size + 2)

    tree.fold(measure)
    lines: list[str] = []
    # Nodes, their depths, and the number of brackets to close behind them.
    stack: list[tuple[Tree, int, int]] = [(tree, 0, 0)]
    while stack:
        node, depth, closing = stack.pop()
        indent = " " * min(2 * depth, width)
        if node.word is not None or 2 * depth + lengths[id(node)] + closing <= width:
            lines.append(indent + format_tree(node) + ")" * closing)
            continue
        lines.append(f"{indent}({_phrase_label(node.label)}")
        last = len(node.children) - 1
        for index in range(last, -1, -1):
            stack.append((node.children[index], depth + 1, closing + 1 if index == last else 0))
    return "\n".join(lines)
