"""Rewrite rules: syntax and parser.

A rule is a tree pattern (`sapwood.trees.search.patterns`) over one or more lines, then operations on its named nodes,
one per line, in the notation of Tsurgeon:

    % noun phrases in noun phrases
    NP=outer < (NP=inner !$ __)

    excise inner inner
    relabel outer /^NP$/N-BAR/

Lines that begin with % or # are comments, blank lines separate nothing. A line is an operation if its first word is
one; any other line after an operation begins the next rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sapwood.errors import InputError, listed
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.search.patterns import Pattern, parse_pattern
from sapwood.trees.search.regex import PatternError, Regex

MOST_RULES = 1000
_MOST_NODES = 1000

# The operations, with their arguments for messages.
USAGE = {
    "relabel": "relabel NAME LABEL, or relabel NAME /regex/replacement/",
    "delete": "delete NAME...",
    "prune": "prune NAME...",
    "excise": "excise NAME, or excise TOP BOTTOM",
    "insert": "insert TREE|NAME PLACE, where PLACE is $+ NAME, $- NAME, >1 NAME or >-1 NAME",
    "move": "move NAME PLACE, where PLACE is $+ NAME, $- NAME, >1 NAME or >-1 NAME",
    "replace": "replace NAME TREE|NAME...",
    "createSubtree": "createSubtree LABEL FIRST, or createSubtree LABEL FIRST LAST",
    "adjoin": "adjoin TREE NAME, where TREE has a node (LABEL@)",
    "adjoinH": "adjoinH TREE NAME, where TREE has a node (LABEL@)",
    "adjoinF": "adjoinF TREE NAME, where TREE has a node (LABEL@)",
    "coindex": "coindex NAME NAME...",
    "split": "split NAME /regex/ TAG TAG..., with a group of the regular expression for each tag",
    "join": "join NAME NAME, or join NAME NAME TAG",
}
_OPERATION = re.compile(rf"({'|'.join(USAGE)})(?=\s|$)")
_PLACE = re.compile(r"\$\+|\$-|>(-?\d{1,6})")
_WORD = re.compile(r'[^\s()/"]+')
_NAME = re.compile(r"\w+\Z")
_NODE = re.compile(r"(.+?)(?:=(\w+))?(@)?", re.DOTALL)
_PIECE = re.compile(r"=\{(\w+)\}|%\{(\w+)\}")
_GROUP = re.compile(r"\$(\d{1,2})")


class RuleError(InputError):
    """A malformed rule, or one that cannot be applied, with its place."""


@dataclass(frozen=True)
class Template:
    """A label or word to be filled in: constants, labels of named nodes (`={x}`), values of variables (`%{v}`)."""

    # Pairs of "text", "name" or "variable", and the text or name.
    pieces: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Split a text at its references."""
        pieces: list[tuple[str, str]] = []
        at = 0
        for found in _PIECE.finditer(text):
            pieces.append(("text", text[at : found.start()]))
            pieces.append(("name", found[1]) if found[1] else ("variable", found[2]))
            at = found.end()
        pieces.append(("text", text[at:]))
        return cls(tuple(piece for piece in pieces if piece[1]))


class TreeNode(NamedTuple):
    """A node of a rule's tree; all of them, in preorder, are the tree."""

    text: Template
    is_word: bool
    children: int
    name: str | None
    is_foot: bool


@dataclass(frozen=True)
class Operation:
    """An operation: its kind (a key of `USAGE`), and what it is applied to.

    Attributes
    ----------
    names
        Names of the nodes, in the order of the text.
    labels
        Labels to be filled in.
    items
        Trees, or names of nodes to copy.
    place
        Where to: `$+`, `$-`, or the number of a child, and the name of the node there.
    regex, replacement
        A regular expression, and the replacement for its match.
    """

    kind: str
    line: int
    text: str
    names: tuple[str, ...] = ()
    labels: tuple[Template, ...] = ()
    items: tuple[tuple[TreeNode, ...] | str, ...] = ()
    place: tuple[str | int, str] | None = None
    regex: Regex | None = field(default=None, compare=False)
    replacement: str = ""

    @property
    def adds_words(self) -> bool:
        """Whether the operation can add words, or put several in the place of one."""
        trees = [item for item in self.items if not isinstance(item, str)]
        return self.kind in ("insert", "replace", "split", "join") or any(
            node.is_word for tree in trees for node in tree
        )

    def made_names(self) -> Iterator[str]:
        """Yield the names given to nodes of the operation's trees."""
        for item in self.items:
            if not isinstance(item, str):
                yield from (node.name for node in item if node.name is not None)

    def used_names(self) -> Iterator[str]:
        """Yield the names of nodes that the operation refers to."""
        yield from self.names
        yield from (item for item in self.items if isinstance(item, str))
        if self.place is not None:
            yield self.place[1]
        yield from (name for kind, name in self._pieces() if kind == "name")

    def used_variables(self) -> Iterator[str]:
        """Yield the variables that the operation refers to."""
        return (name for kind, name in self._pieces() if kind == "variable")

    def _pieces(self) -> Iterator[tuple[str, str]]:
        for label in self.labels:
            yield from label.pieces
        for item in self.items:
            if not isinstance(item, str):
                for node in item:
                    yield from node.text.pieces


@dataclass(frozen=True)
class RewriteRule:
    """A pattern and its operations, with the line on which the pattern begins."""

    pattern: Pattern
    operations: tuple[Operation, ...]
    line: int


@dataclass(frozen=True)
class RewriteRules:
    """Rules in the order in which they are applied.

    Parameters
    ----------
    rules
        The rules.
    source
        Name of their file, for messages.

    Examples
    --------
    >>> rules = RewriteRules.parse("NP-SBJ=x\\nrelabel x SBJ")
    >>> rules.rules[0].operations[0].kind
    'relabel'
    """

    rules: tuple[RewriteRule, ...]
    source: str = "<rules>"

    def first_that_adds_words(self) -> Operation | None:
        """Return the first operation that can add words."""
        return next((one for rule in self.rules for one in rule.operations if one.adds_words), None)

    @classmethod
    def read(cls, path: str | Path) -> RewriteRules:
        """Read the rules of a file."""
        return cls._of_lines(read_lines(path), name_of(path))

    @classmethod
    def parse(cls, text: str, *, source: str = "<rules>") -> RewriteRules:
        """Parse rules; a syntax error raises a `RuleError` that names the line."""
        return cls._of_lines(enumerate(text.split("\n"), 1), source)

    @classmethod
    def _of_lines(cls, lines: Iterator[tuple[int, str]] | enumerate[str], source: str) -> RewriteRules:
        rules: list[RewriteRule] = []
        pattern: list[tuple[int, str]] = []
        operations: list[Operation] = []

        def finish() -> None:
            if pattern and not operations:
                raise RuleError(
                    f"{source}:{pattern[0][0]}: a pattern without operations; each is a line that begins with "
                    f"{listed(USAGE)}"
                )
            if pattern:
                rules.append(_rule(pattern, operations, source))
                pattern.clear()
                operations.clear()
            if len(rules) > MOST_RULES:
                raise RuleError(f"{source}: more than {MOST_RULES:,} rules; use several files, one after the other")

        for number, raw in lines:
            line = raw.strip()
            if not line or line[0] in "%#":
                continue
            if pattern and _OPERATION.match(line):
                operations.append(_OperationParser(line, number, source).parse())
                continue
            if operations:
                finish()
            pattern.append((number, line))
        finish()
        if not rules:
            raise RuleError(f"{source}: no rules in it; a rule is a pattern, then operations, one per line")
        return cls(tuple(rules), source)


def _rule(lines: Sequence[tuple[int, str]], operations: Sequence[Operation], source: str) -> RewriteRule:
    """Return a rule, after a check of all names in it."""
    line = lines[0][0]
    try:
        pattern = parse_pattern(" ".join(text for _, text in lines))
    except PatternError as error:
        raise RuleError(f"{source}:{line}: {error}") from error
    known, variables = set(pattern.names), set(pattern.variables)
    for operation in operations:
        place = f"{source}:{operation.line}"
        made = list(operation.made_names())
        for name in made:
            if name in known or made.count(name) > 1:
                raise RuleError(f"{place}: the name {name!r} is given twice: {operation.text!r}")
        for name in operation.used_names():
            if name not in known:
                raise RuleError(
                    f"{place}: no node of the pattern has the name {name!r}; give it as LABEL={name}: "
                    f"{operation.text!r}"
                )
        for variable in operation.used_variables():
            if variable not in variables:
                raise RuleError(f"{place}: the pattern has no variable {variable!r}; give it as /(.*)/#1%{variable}")
        known.update(made)
    return RewriteRule(pattern, tuple(operations), line)


class _OperationParser:
    """Parser of one line."""

    def __init__(self, text: str, line: int, source: str) -> None:
        found = _OPERATION.match(text)
        assert found is not None
        self.kind = found[1]
        self.text, self.line, self.source = text, line, source
        self.at = found.end()
        self.skip()

    def error(self, problem: str) -> RuleError:
        place = f"{self.source}:{self.line}:{self.at + 1}"
        return RuleError(f"{place}: {problem}: {self.text!r}; the operation is written {USAGE[self.kind]}")

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    @property
    def more(self) -> bool:
        return self.at < len(self.text)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def parse(self) -> Operation:
        parts = getattr(self, f"_{self.kind}")()
        if self.more:
            raise self.error("text after the end of the operation")
        return Operation(self.kind, self.line, self.text, **parts)

    # -- arguments

    def word(self, what: str) -> str:
        """Parse a label or word, quoted or not."""
        if self.peek() == '"':
            text, self.at = self.delimited('"')
        else:
            found = _WORD.match(self.text, self.at)
            if found is None:
                raise self.error(f"{what} is missing here")
            text, self.at = found[0], found.end()
        self.skip()
        return text

    def name(self) -> str:
        text = self.word("the name of a node")
        if not _NAME.match(text):
            self.at -= 1
            raise self.error(f"{text!r} is not the name of a node")
        return text

    def names(self) -> tuple[str, ...]:
        found = [self.name()]
        while self.more:
            found.append(self.name())
        return tuple(found)

    def template(self, what: str = "a label") -> Template:
        text = self.word(what)
        if not text:
            raise self.error(f"{what} that is empty")
        return Template.parse(text)

    def delimited(self, sign: str) -> tuple[str, int]:
        """Return the text up to the next delimiter, which a backslash escapes, and the position after that."""
        pieces: list[str] = []
        at = self.at + 1
        while at < len(self.text) and self.text[at] != sign:
            if self.text[at] == "\\" and at + 1 < len(self.text):
                if self.text[at + 1] != sign:
                    pieces.append("\\" if sign == "/" else "")
                at += 1
            pieces.append(self.text[at])
            at += 1
        if at == len(self.text):
            raise self.error(f"a second {sign} is missing")
        return "".join(pieces), at + 1

    def regex(self) -> Regex:
        """Parse a regular expression, up to the slash at its end."""
        begin = self.at + 1
        text, self.at = self.delimited("/")
        try:
            return Regex(text, offset=begin, source=self.text)
        except PatternError as error:
            raise RuleError(f"{self.source}:{self.line}: {error}") from error

    def place(self) -> tuple[str | int, str]:
        found = _PLACE.match(self.text, self.at)
        if found is None:
            raise self.error("a place is missing here")
        number = int(found[1]) if found[1] else 1
        if number == 0:
            raise self.error("children are counted from 1, from the end from -1")
        self.at = found.end()
        self.skip()
        return (number if found[1] else found[0]), self.name()

    def tree(self) -> tuple[TreeNode, ...]:
        """Parse a tree in brackets, with names (LABEL=x) and feet (LABEL@)."""
        # A frame has the number of a node and that of its children so far.
        nodes: list[TreeNode] = []
        open_nodes: list[int] = []
        begin = self.at
        while True:
            sign = self.peek()
            if not sign:
                self.at = begin
                raise self.error("this tree is not closed")
            if len(nodes) >= _MOST_NODES:
                raise self.error(f"the tree has more than {_MOST_NODES:,} nodes")
            if sign == ")":
                self.at += 1
                self.skip()
                node = nodes[open_nodes.pop()]
                if node.children == 0 and not node.is_foot:
                    raise self.error("a node without a word or children")
                if not open_nodes:
                    break
                continue
            if open_nodes:
                above = nodes[open_nodes[-1]]
                if above.is_foot:
                    raise self.error("a foot has no children")
                if above.children and (sign != "(" or (nodes[-1].is_word and open_nodes[-1] == len(nodes) - 2)):
                    raise self.error("a word is alone below its tag")
                nodes[open_nodes[-1]] = above._replace(children=above.children + 1)
            if sign != "(":
                nodes.append(TreeNode(self.template("a word"), True, 0, None, False))
                continue
            self.at += 1
            self.skip()
            quoted = self.peek() == '"'
            label, name, foot = self.word("a label"), None, False
            # A name and the sign of a foot follow labels without quotes.
            if not quoted and (found := _NODE.fullmatch(label)):
                label, name, foot = found[1], found[2], bool(found[3])
            if not label:
                raise self.error("a label that is empty")
            open_nodes.append(len(nodes))
            nodes.append(TreeNode(Template.parse(label), False, 0, name, foot))
        return tuple(nodes)

    def item(self) -> tuple[TreeNode, ...] | str:
        return self.plain_tree() if self.peek() == "(" else self.name()

    def plain_tree(self) -> tuple[TreeNode, ...]:
        begin = self.at
        found = self.tree()
        if any(node.is_foot for node in found):
            self.at = begin
            raise self.error("only trees to adjoin have a foot")
        return found

    # -- operations

    def _relabel(self) -> dict[str, object]:
        name = self.name()
        if self.peek() != "/":
            return {"names": (name,), "labels": (self.template(),)}
        regex = self.regex()
        self.at -= 1
        replacement, self.at = self.delimited("/")
        self.skip()
        groups = [int(found[1]) for found in _GROUP.finditer(replacement)]
        if any(group > regex.groups for group in groups):
            raise self.error(f"the regular expression has {regex.groups} groups, not {max(groups)}")
        return {"names": (name,), "regex": regex, "replacement": replacement}

    def _delete(self) -> dict[str, object]:
        return {"names": self.names()}

    _prune = _delete

    def _coindex(self) -> dict[str, object]:
        names = self.names()
        if len(names) < 2:
            raise self.error("an index connects two nodes or more")
        return {"names": names}

    def _excise(self) -> dict[str, object]:
        top = self.name()
        return {"names": (top, self.name() if self.more else top)}

    def _insert(self) -> dict[str, object]:
        return {"items": (self.item(),), "place": self.place()}

    def _move(self) -> dict[str, object]:
        return {"names": (self.name(),), "place": self.place()}

    def _replace(self) -> dict[str, object]:
        name = self.name()
        items = [self.item()]
        while self.more:
            items.append(self.item())
        return {"names": (name,), "items": tuple(items)}

    def _createSubtree(self) -> dict[str, object]:
        label = self.template()
        first = self.name()
        return {"labels": (label,), "names": (first, self.name() if self.more else first)}

    def _adjoin(self) -> dict[str, object]:
        if self.peek() != "(":
            raise self.error("a tree is missing here")
        begin = self.at
        found = self.tree()
        if sum(node.is_foot for node in found) != 1 or found[0].is_foot:
            self.at = begin
            raise self.error("a tree to adjoin has one foot below its root: (LABEL@)")
        return {"items": (found,), "names": (self.name(),)}

    _adjoinH = _adjoinF = _adjoin

    def _split(self) -> dict[str, object]:
        name = self.name()
        if self.peek() != "/":
            raise self.error("a regular expression is missing here")
        regex = self.regex()
        self.skip()
        labels = [self.template("a tag")]
        while self.more:
            labels.append(self.template("a tag"))
        if len(labels) < 2 or regex.groups != len(labels):
            raise self.error(f"the regular expression has {regex.groups} groups for {len(labels)} tags")
        return {"names": (name,), "regex": regex, "labels": tuple(labels)}

    def _join(self) -> dict[str, object]:
        names = (self.name(), self.name())
        return {"names": names, "labels": (self.template("a tag"),) if self.more else ()}


def expand(replacement: str, groups: Sequence[str | None]) -> str:
    """Return a replacement with the texts of groups in place of $1, $2 ...

    >>> expand("$2-$1", ["ab", "a", "b"])
    'b-a'
    """
    return _GROUP.sub(lambda found: groups[int(found[1])] or "", replacement)
