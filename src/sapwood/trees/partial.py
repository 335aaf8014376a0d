r"""Partial brackets: sentences whose trees are only partly known.

They are ordinary brackets (`sapwood.trees.formats.brackets`) in which parts may be missing:

    (S (NP (DT the) (NN dog)) (VP barked (_ at (NP (_ it)))) .)

- A bare word, `barked`, has an unknown tag, and so has a word below `_`: `(_ it)`. (A label over a single word is its
  tag, so a phrase over one word with an unknown tag is written `(NP (_ it))`.)
- `(_ ...)` is a phrase with an unknown label.
- A phrase with nothing unknown below it, `(NP (DT the) (NN dog))`, is *whole*: it has these phrases and no others. Any
  other phrase may have more than is shown.

So a line with nothing unknown is a tree, and `(_ the dog barked)` is a plain sentence. In memory a partial tree is a
`Tree` with the label `_` wherever something is unknown, together with the positions of its brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sapwood.errors import TreeFormatError
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.brackets import TOKENS, BracketReader, OnBad, escape_label, unescape_label
from sapwood.trees.formats.gaps import require_no_gaps
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree, from_preorder

UNKNOWN = "_"


class Bracket(NamedTuple):
    """A bracket over words `start .. end - 1`, and its position in the file."""

    start: int
    end: int
    label: str
    line: int
    column: int


@dataclass(frozen=True)
class PartialTree:
    """A tree that is partly unknown.

    Attributes
    ----------
    tree
        The tree, with the label `_` where something is unknown.
    source
        The name of its file.
    brackets
        Positions of its phrases and tags in the file, in preorder.

    Examples
    --------
    >>> partial = PartialTree.parse("(S (NP (DT the) (NN dog)) barked)")
    >>> print(partial.tree)
    (S (NP (DT the) (NN dog)) (_ barked))
    >>> print(partial)
    (S (NP (DT the) (NN dog)) barked)
    >>> partial.is_whole
    False
    """

    tree: Tree
    source: str = field(default="<string>", compare=False)
    brackets: tuple[Bracket, ...] = field(default=(), compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """True if nothing is unknown."""
        return all(node.label != UNKNOWN for node in self.tree.nodes())

    @property
    def line(self) -> int:
        """First line of the tree in its file, 0 if it is not from a file."""
        return self.brackets[0].line if self.brackets else 0

    def __str__(self) -> str:
        """Return the tree on one line, as written in files."""
        return format_partial(self.tree)

    @classmethod
    def parse(cls, text: str) -> PartialTree:
        """Read one partial tree from a string."""
        found = list(parse_partial(text, source="<string>"))
        if len(found) != 1:
            raise TreeFormatError(
                f"expected one partial tree, found {len(found)}", source="<string>", line=1, text=text
            )
        return found[0]

    @classmethod
    def plain(cls, words: Iterable[str]) -> PartialTree:
        """Return a sentence with nothing known but its words."""
        return cls(Tree(UNKNOWN, [Tree(UNKNOWN, word=word) for word in words]))

    def normalised(self, normaliser: Normaliser) -> PartialTree | None:
        """Return the normalised partial tree with its remaining brackets; None if nothing is left."""
        # Words carry their positions, so that the remaining ones can be found again.
        place = iter(range(len(self.tree)))
        events = [
            (node.label, None if node.word is None else _Word(node.word, next(place)), len(node.children))
            for node in self.tree.nodes()
        ]
        clean = normaliser(from_preorder(events))
        if clean is None:
            return None
        left = [word.place for word in clean.words() if isinstance(word, _Word)]
        before = [sum(number < bound for number in left) for bound in range(len(self.tree) + 1)]
        brackets = tuple(
            bracket._replace(start=before[bracket.start], end=before[bracket.end])
            for bracket in self.brackets
            if before[bracket.start] < before[bracket.end]
        )
        plain = [(node.label, node.word and str(node.word), len(node.children)) for node in clean.nodes()]
        return PartialTree(from_preorder(plain), self.source, brackets)

    def error(self, problem: str, start: int, end: int, label: str | None = None) -> TreeFormatError:
        """Return an error about words `start .. end - 1`, at their bracket with that label if there is one."""
        same = [bracket for bracket in self.brackets if (bracket.start, bracket.end) == (start, end)]
        named = [bracket for bracket in same if label is not None and bracket.label.startswith(label)] or same
        line, column = (named[0].line, named[0].column) if named else (self.line, 0)
        text = " ".join(self.tree.words()[start:end])
        return TreeFormatError(problem, source=self.source, line=line, column=column, text=text)


class _Word(str):
    """A word with its position in the sentence."""

    __slots__ = ("place",)
    place: int

    def __new__(cls, word: str, place: int) -> _Word:
        made = super().__new__(cls, word)
        made.place = place
        return made


class _Reader(BracketReader):
    """Reader of brackets with bare words."""

    def __init__(self, source: str, on_bad: OnBad | None) -> None:
        super().__init__(source, on_bad)
        self.found: list[PartialTree] = []
        # Brackets and bare words of the open tree in the order in which they begin, and its number of words.
        self.brackets: list[Bracket] = []
        self.open: list[int] = []
        self.words = 0

    def _read(self, number: int, line: str, start: int) -> None:
        complete, stack = len(self.found), self.stack
        for match in self.tokens(line, start):
            token, column = match.group(), match.start() + 1
            if token == "(":
                if not stack:
                    self.brackets, self.open, self.words = [], [], 0
                elif stack[-1][2]:
                    self._bare(stack[-1])
                stack.append(([], [], [], number, column))
                self.open.append(len(self.brackets))
                self.brackets.append(Bracket(self.words, -1, "", number, column))
            elif token == ")":
                if not stack:
                    del self.found[complete:]
                    raise self._error("a closing bracket without an opening one", number, match, line)
                tree = self._close(line)
                if stack:
                    stack[-1][1].append(tree)
                else:
                    self.found.append(PartialTree(tree, self.source, tuple(self.brackets)))
            elif not stack:
                raise self._error("text outside any bracket", number, match, line)
            else:
                label, children, words, _, _ = stack[-1]
                if not label and not children and not words:
                    label.append(token)
                    continue
                if words:
                    self._bare(stack[-1])
                words.append(token)
                self.brackets.append(Bracket(self.words, self.words + 1, UNKNOWN, number, column))
                self.words += 1
                if children:
                    self._bare(stack[-1])

    def _bare(self, frame: tuple[list[str], list[Tree], list[str], int, int]) -> None:
        """Turn the frame's word into a bare one: with siblings, the label above it is not its tag."""
        _, children, words, _, _ = frame
        children.append(Tree(UNKNOWN, word=TOKENS.read(words.pop())))

    def _close(self, line: str) -> Tree:
        label, children, words, opened, column = self.stack.pop()
        name = unescape_label(label[0]) if label else ""
        if words:
            tree = Tree(name, word=TOKENS.read(words[0]))
            self.brackets.pop()  # the word's: its tag has one
        elif children:
            tree = Tree(name, children)
        else:
            what = f"the label {label[0]!r} has no word or subtree below it" if label else "an empty tree ()"
            raise TreeFormatError(what, source=self.source, line=opened, column=column, text=line.strip())
        at = self.open.pop()
        self.brackets[at] = self.brackets[at]._replace(end=self.words, label=name)
        return tree


def parse_partial(
    text: str | Iterable[tuple[int, str]], *, source: str, on_bad: OnBad | None = None
) -> Iterator[PartialTree]:
    """Yield the partial trees of a string, or of numbered lines as they arrive; `on_bad` as for `parse_trees`."""
    reader = _Reader(source, on_bad)
    for number, line in enumerate(text.split("\n"), 1) if isinstance(text, str) else text:
        reader.feed(number, line)
        yield from reader.found
        reader.found.clear()
    reader.finish()
    yield from reader.found


def read_partial(path: str | Path, *, on_bad: OnBad | None = None) -> Iterator[PartialTree]:
    """Yield the partial trees of a file (`-` for standard input, `.gz` allowed), streaming."""
    return parse_partial(read_lines(path), source=name_of(path), on_bad=on_bad)


def format_partial(tree: Tree) -> str:
    """Return a partial tree on one line; words without a tag are bare unless they are the only child."""
    require_no_gaps(tree, "partial brackets")
    pieces: list[str] = []
    # The stack holds trees to open, with whether they have siblings, and, as None, brackets to close.
    stack: list[tuple[Tree, bool] | None] = [(tree, False)]
    while stack:
        top = stack.pop()
        if top is None:
            pieces.append(")")
            continue
        node, siblings = top
        if node.word is not None:
            word = TOKENS.write(node.word)
            pieces.append(f" {word}" if siblings and node.label == UNKNOWN else f" ({escape_label(node.label)} {word})")
        else:
            pieces.append(f" ({escape_label(node.label) if node.label else ''}")
            stack.append(None)
            several = len(node.children) > 1
            # A word after a bracket without a label would be read as the label.
            first = node.label != ""
            stack.extend(
                (child, several and (first or place > 0)) for place, child in reversed(list(enumerate(node.children)))
            )
    return "".join(pieces)[1:]
