"""TIGER XML: reading and writing.

A sentence is a graph: `<t id= word= pos=>` for its words, `<nt id= cat=>` for phrases with an `<edge idref= label=>` to
each child, and `<graph root=>`. Everything else (the head, lemmas, morphology, secondary edges, matches) is ignored. A
root node `VROOT` is the whole sentence; it becomes a node `ROOT` over all nodes that are attached to it, or to nothing.
Trees with another root are written with the comment `<!-- without ROOT -->`, so they are the same when read again.
Phrases may have gaps (`sapwood.trees.formats.gaps`).

The XML is untrusted. It is read as it arrives, by a parser that knows the five predefined entities and character
references, refuses all declarations of a document type (entities, defaults of attributes), refuses any other entity,
and never opens another file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any
from xml.parsers import expat

from sapwood.errors import TreeFormatError
from sapwood.trees.formats.brackets import OnBad
from sapwood.trees.formats.discontinuous import NOTHING, VIRTUAL_ROOTS, WITHOUT_ROOT, Graph, Row
from sapwood.trees.formats.escapes import Codes
from sapwood.trees.formats.gaps import Gaps, check_gaps, positions
from sapwood.trees.tree import Tree

TIGER_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<corpus id="sapwood">
<head/>
<body>
"""
TIGER_FOOTER = "</body>\n</corpus>\n"
_START = re.compile(r"\s*<(?:\?xml|!--|!DOCTYPE|corpus|subcorpus)\b", re.IGNORECASE)
# References to entities other than the five that are predefined.
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);|#)[^\s&;<>\"']+;")
_TOPS = ("corpus", "subcorpus")
# Not allowed in XML, even as a character reference.
_CODES = Codes("\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\ufffe\uffff")
# White space in attributes would become spaces.
_KEPT = str.maketrans(
    {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", '"': "&quot;", "\x85": "&#133;", "\u2028": "&#8232;"}
)


def is_tiger(line: str) -> bool:
    """Return whether a file that begins with this line looks like TIGER XML."""
    return _START.match(line) is not None


class _Sentence(Graph):
    """A sentence being read: nodes by name, and the parent of each."""

    def __init__(self, name: str, line: int, source: str) -> None:
        super().__init__(f"sentence {name}", line, source)
        self.root = ""
        self.numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.parents: dict[str, tuple[str, str]] = {}
        # Name, text and label of each word, and label of each phrase, with their lines.
        self.terminals: list[tuple[str, str, str, int]] = []
        self.nonterminals: dict[str, tuple[str, int]] = {}
        self.open = ""

    def shown(self, number: int) -> str:
        """Return the name of a phrase."""
        return self.names.get(number, "VROOT")

    def add(self, kind: str, attributes: Mapping[str, str], line: int) -> None:
        """Add an element of the graph."""

        def get(name: str) -> str:
            if name not in attributes:
                raise self.error(f"<{kind}> without {name!r}", line)
            return _CODES.read(attributes[name])

        if kind == "graph":
            self.root = attributes.get("root", "")
        elif kind in ("t", "nt"):
            name = get("id")
            if name in self.numbers:
                raise self.error(f"the node {name!r} occurs twice", line)
            self.numbers[name] = len(self.numbers) + 1
            self.names[self.numbers[name]] = name
            if kind == "t":
                self.terminals.append((name, get("word"), get("pos"), line))
            else:
                self.nonterminals[name] = (get("cat"), line)
                self.open = name
        elif kind == "edge":
            child = get("idref")
            if not self.open:
                raise self.error("<edge> outside <nt>", line)
            if child in self.parents:
                raise self.error(f"the node {child!r} has two parents", line)
            self.parents[child] = (self.open, attributes.get("label", NOTHING))

    def finish(self) -> None:
        """Build the graph from the elements read."""
        for child, (parent, _) in self.parents.items():
            if child not in self.numbers:
                raise self.error(f"an edge leads from {parent!r} to {child!r}, which is not a node", self.line)
        whole = self.root if self.nonterminals.get(self.root, (None,))[0] in VIRTUAL_ROOTS else None

        def parent_of(name: str) -> tuple[str, int]:
            parent, edge = self.parents.get(name, ("", NOTHING))
            return edge, 0 if not parent or parent == whole else self.numbers[parent]

        for name, text, label, line in self.terminals:
            edge, number = parent_of(name)
            self.words.append(Row(text, label, edge, number, line))
        for name, (label, line) in self.nonterminals.items():
            if name != whole:
                edge, number = parent_of(name)
                self.phrases[self.numbers[name]] = Row(name, label, edge, number, line)


class _Reader:
    """Reader fed one line at a time; collects trees and problems."""

    def __init__(self, source: str, functions: bool, gaps: Gaps) -> None:
        self.source, self.functions, self.gaps = source, functions, gaps
        self.found: list[Tree | TreeFormatError] = []
        self.sentence: _Sentence | None = None
        self.skipping = False
        self.depth = 0
        self.count = 0
        self.first_line: int | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CommentHandler = self._comment
        self.parser.StartDoctypeDeclHandler = self._check_doctype
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.AttlistDeclHandler = self._refuse_entity
        self.parser.SkippedEntityHandler = self._refuse_entity
        self.parser.ExternalEntityRefHandler = self._refuse_entity
        self.has_doctype = False

    @property
    def line(self) -> int:
        """The current line."""
        return (self.first_line or 1) + self.parser.CurrentLineNumber - 1

    def feed(self, number: int, line: str, is_last: bool = False) -> None:
        """Read the next line; malformed XML raises `TreeFormatError`."""
        if self.first_line is None:
            self.first_line = number
        # In a document type that is elsewhere any entity could be declared, and in attributes expat drops such ones.
        self.has_doctype = self.has_doctype or "<!DOCTYPE" in line
        if self.has_doctype and (found := _ENTITY.search(line)):
            raise self._declares(number, found.start() + 1)
        try:
            self.parser.Parse(line, is_last)
        except expat.ExpatError as error:
            problem = f"not well-formed XML: {expat.ErrorString(error.code)}"
            place = (self.first_line or 1) + error.lineno - 1
            raise TreeFormatError(problem, source=self.source, line=place, column=error.offset + 1) from None
        except UnicodeEncodeError:
            raise TreeFormatError("not well-formed XML: half a character", source=self.source, line=number) from None

    def _check_doctype(self, _name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        if has_declarations:
            raise self._declares(self.line)

    def _refuse_entity(self, *_: Any) -> int:
        raise self._declares(self.line)

    def _declares(self, line: int, column: int = 0) -> TreeFormatError:
        problem = (
            "it declares or uses entities of its own, or declares attributes, and neither is read; put what they "
            "stand for in their places, and remove the declarations"
        )
        return TreeFormatError(problem, source=self.source, line=line, column=column)

    def _start(self, kind: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == 1 and kind not in _TOPS:
            raise TreeFormatError(f"<{kind}> where TIGER XML has <corpus>", source=self.source, line=self.line)
        if kind == "subcorpus" and "external" in attributes:
            problem = "it refers to another file, which is not read; name that one"
            raise TreeFormatError(problem, source=self.source, line=self.line)
        if kind == "s":
            self.count += 1
            self.sentence = _Sentence(attributes.get("id", str(self.count)), self.line, self.source)
            self.skipping = False
        elif self.sentence is not None and not self.skipping:
            try:
                self.sentence.add(kind, attributes, self.line)
            except TreeFormatError as error:
                self.found.append(error)
                self.skipping = True

    def _comment(self, text: str) -> None:
        if self.sentence is not None and text.strip() == WITHOUT_ROOT:
            self.sentence.without_root = True

    def _end(self, kind: str) -> None:
        self.depth -= 1
        if kind == "nt" and self.sentence is not None:
            self.sentence.open = ""
        if kind != "s" or self.sentence is None:
            return
        sentence, self.sentence = self.sentence, None
        if not self.skipping:
            try:
                sentence.finish()
                self.found.append(sentence.tree(self.gaps, self.functions))
            except TreeFormatError as error:
                self.found.append(error)


def parse_tiger(
    text: str | Iterable[tuple[int, str]],
    *,
    source: str,
    on_bad: OnBad | None = None,
    functions: bool = False,
    gaps: Gaps = "keep",
) -> Iterator[Tree]:
    """Yield the trees of a string, or of numbered lines as they arrive.

    Parameters
    ----------
    text
        The file.
    source
        Its name in errors.
    on_bad
        Receives the `TreeFormatError` of a malformed sentence, which is then skipped, and that of malformed XML, where
        reading ends. Without it the error is raised.
    functions, gaps
        As for `sapwood.trees.formats.export.read_export`.
    """
    check_gaps(gaps)
    return _parse(text, _Reader(source, functions, gaps), on_bad)


def _parse(text: str | Iterable[tuple[int, str]], reader: _Reader, on_bad: OnBad | None) -> Iterator[Tree]:
    lines = enumerate(text.splitlines(keepends=True), 1) if isinstance(text, str) else iter(text)
    number = 1
    while True:
        found = next(lines, None)
        try:
            number = number if found is None else found[0]
            reader.feed(number, "" if found is None else found[1], is_last=found is None)
        except TreeFormatError as error:
            yield from _delivered(reader.found, on_bad)
            if on_bad is None:
                raise
            on_bad(error)
            return
        yield from _delivered(reader.found, on_bad)
        if found is None:
            return


def _delivered(found: list[Tree | TreeFormatError], on_bad: OnBad | None) -> Iterator[Tree]:
    """Yield the trees found, and pass problems to `on_bad`, or raise the first."""
    every = found.copy()
    found.clear()
    for one in every:
        if isinstance(one, Tree):
            yield one
        elif on_bad is None:
            raise one
        else:
            on_bad(one)


def format_tiger(tree: Tree, number: int = 1) -> str:
    """Return the tree as sentence `number` of TIGER XML, `<s>` to `</s>`, ending in a line feed.

    Phrases are numbered from 500, or after the last word if there are more, children before their parents. A root
    labelled `ROOT`, `TOP`, `VROOT` or nothing is `VROOT`; a comment marks trees with any other. Edges have no labels
    (`--`).
    """
    postorder: list[Tree] = []
    tree.fold(lambda node, _: postorder.append(node))
    places = iter(positions(tree))
    words = [""] * len(tree)
    phrases: list[str] = []
    first = max(500, len(tree) + 1)
    virtual_root = tree.word is None and tree.label in VIRTUAL_ROOTS
    # For each finished subtree still without a parent: its name.
    waiting: list[str] = []
    for node in postorder:
        if node.word is not None:
            place = next(places)
            name = f"s{number}_{place + 1}"
            words[place] = f'<t id="{name}" word="{_attribute(node.word)}" pos="{_attribute(node.label)}"/>'
        else:
            virtual = node is tree and virtual_root
            name = f"s{number}_VROOT" if virtual else f"s{number}_{first + len(phrases)}"
            label = "VROOT" if virtual else _attribute(node.label)
            children = waiting[-len(node.children) :]
            del waiting[-len(node.children) :]
            edges = "".join(f'<edge label="{NOTHING}" idref="{child}"/>' for child in children)
            phrases.append(f'<nt id="{name}" cat="{label}">{edges}</nt>')
        waiting.append(name)
    parts = ["<terminals>", *words, "</terminals>", "<nonterminals>", *phrases, "</nonterminals>"]
    start = f'<s id="s{number}">' + ("" if virtual_root else f"<!-- {WITHOUT_ROOT} -->")
    return "\n".join([start, f'<graph root="{waiting[0]}">', *parts, "</graph>", "</s>", ""])


def _attribute(text: str) -> str:
    return escape(_CODES.write(text), quote=False).translate(_KEPT)
