"""CoNLL-U: reader and writer of words, tags and heads, and dependencies of trees by head rules.

A sentence is a block of lines with ten tab-separated columns, ended by a blank line; lines with `#` are comments. The
columns used here are the number, the word, the universal tag (the fourth), the language-specific tag (the fifth) and
the head. Multiword tokens (`3-4`) are skipped, as their words have lines of their own, and so are empty nodes (`5.1`).

The head of a phrase is the head of its head child (`sapwood.trees.heads.rules`); the heads of its other children depend
on it. The root of a sentence is the head of the whole tree. A dependency has the label of the highest phrase that the
word is the head of, with its function tags (`NP-SBJ`) if the tree has them, or the word's tag if it heads none. These
are labels of constituents, not the relations of Universal Dependencies, which cannot be derived from trees alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sapwood.errors import InputError
from sapwood.storage.files import name_of, read_lines, whole_number
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.heads.rules import HeadRules, head_positions
from sapwood.trees.tree import Tree

_COLUMNS = 10


class ConlluSentence(NamedTuple):
    """A sentence of a CoNLL-U file.

    Attributes
    ----------
    words
        The words.
    tags
        Their tags: language-specific ones, or universal ones where there are none (`_`).
    heads
        The head of each word, counted from 0; -1 for the root. None if the head of any word is missing (`_`).
    line
        The line of the first word.
    """

    words: list[str]
    tags: list[str]
    heads: list[int] | None
    line: int


def read_conllu(path: str | Path) -> Iterator[ConlluSentence]:
    """Yield the sentences of a CoNLL-U file (`-` is standard input, `.gz` allowed) as they are read."""
    return parse_conllu(read_lines(path), source=name_of(path))


def parse_conllu(lines: Iterable[tuple[int, str]], *, source: str = "<string>") -> Iterator[ConlluSentence]:
    """Yield the sentences of numbered lines.

    >>> text = ["1\\tOh\\t_\\t_\\tUH\\t_\\t0\\troot\\t_\\t_", ""]
    >>> next(parse_conllu(enumerate(text, 1)))
    ConlluSentence(words=['Oh'], tags=['UH'], heads=[-1], line=1)
    """
    rows: list[tuple[int, list[str]]] = []
    for number, line in lines:
        line = line.rstrip("\r\n")
        if not line.strip():
            if rows:
                yield _sentence(rows, source)
            rows = []
        elif not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != _COLUMNS:
                raise InputError(
                    f"{source}:{number}: a word of CoNLL-U has {_COLUMNS} columns separated by tabs, this line has "
                    f"{len(columns)}"
                )
            if "-" not in columns[0] and "." not in columns[0]:
                rows.append((number, columns))
    if rows:
        yield _sentence(rows, source)


def _sentence(rows: list[tuple[int, list[str]]], source: str) -> ConlluSentence:
    heads: list[int] = []
    for place, (number, columns) in enumerate(rows, 1):
        if whole_number(columns[0]) != place:
            raise InputError(f"{source}:{number}: expected word {place} of its sentence, found {columns[0]!r}")
        if not columns[1].strip():
            raise InputError(f"{source}:{number}: the word is empty")
        if columns[6] != "_":
            head = whole_number(columns[6])
            if head is None or head > len(rows) or head == place:
                raise InputError(
                    f"{source}:{number}: the head of a word is the number of another one of its sentence, or 0, "
                    f"not {columns[6]!r}"
                )
            heads.append(head - 1)
    words = [columns[1] for _, columns in rows]
    tags = [columns[4] if columns[4] != "_" else columns[3] for _, columns in rows]
    return ConlluSentence(words, tags, heads if len(heads) == len(rows) else None, rows[0][0])


def format_heads(
    words: list[str], tags: list[str], heads: list[int], labels: list[str] | None = None, number: int = 1
) -> str:
    """Return a sentence with heads (counted from 0, -1 for the root) in CoNLL-U, and the blank line that ends it.

    Tags go into the column of language-specific ones.
    """
    shown = [" ".join(word.split()) or "_" for word in words]
    labels = labels or ["root" if head < 0 else "dep" for head in heads]
    lines = [f"# sent_id = {number}", "# text = " + " ".join(shown)]
    for place, (word, tag, head, label) in enumerate(zip(shown, tags, heads, labels, strict=True), 1):
        lines.append(
            "\t".join([str(place), word, "_", "_", " ".join(tag.split()) or "_", "_", str(head + 1), label, "_", "_"])
        )
    return "\n".join(lines) + "\n"


class Dependency(NamedTuple):
    """A word's head, counted from 1 (0: none, the word is the root), and the label of the dependency."""

    head: int
    label: str


def dependencies(tree: Tree, rules: HeadRules | None = None) -> list[Dependency]:
    """Return the head of each word, by the given rules, or else by rules that fit the labels of the tree (`fit_heads`).

    Examples
    --------
    >>> tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")
    >>> dependencies(tree)
    [Dependency(head=2, label='DT'), Dependency(head=3, label='NP'), Dependency(head=0, label='root'), ...]
    """
    nodes = list(tree.nodes())
    heads = head_positions(tree, rules or fit_heads([tree]))
    found: dict[int, Dependency] = {heads[0]: Dependency(0, "root")}
    # Top down, the first node that a word heads is the highest; its parent's head is the word's head.
    parents: list[int] = []
    waiting = [-1]
    for node in nodes:
        above = waiting.pop()
        waiting.extend([len(parents)] * len(node.children))
        parents.append(above)
    for number, node in enumerate(nodes):
        above = parents[number]
        if above >= 0 and heads[number] != heads[above]:
            found[heads[number]] = Dependency(heads[above] + 1, node.label)
    return [found[position] for position in sorted(found)]


def format_conllu(tree: Tree, number: int = 1, rules: HeadRules | None = None) -> str:
    """Return a tree's words, tags and dependencies in CoNLL-U, with the blank line that ends a sentence.

    Tags go into the column of language-specific ones (XPOS); lemmas, universal tags and features are unknown (`_`).
    """
    words = tree.words()
    lines = [f"# sent_id = {number}", "# text = " + " ".join(map(_column, words))]
    for place, (word, tag, found) in enumerate(zip(words, tree.tags(), dependencies(tree, rules), strict=True), 1):
        known = [str(place), _column(word), "_", "_", _column(tag), "_", str(found.head), _column(found.label)]
        lines.append("\t".join([*known, "_", "_"]))
    return "\n".join(lines) + "\n"


def _column(text: str) -> str:
    """Return the text made valid for a column: not empty, without tabs and line ends."""
    return " ".join(text.split()) or "_"
