"""NEGRA export format, versions 3 and 4: reading and writing.

One line per word, `word [lemma] tag morph edge parent`, and one per phrase, `#500 [lemma] label morph
edge parent` (the lemma in version 4 only), between `#BOS n` and `#EOS n`. Columns are separated by
spaces or tabs; pairs of columns after the parent are secondary edges, which are ignored, as are
`%%` comments and the tables `#BOT ... #EOT`. Without a `#FORMAT` line the version of a sentence
follows from its number of columns (odd: 3, even: 4). A line whose first column is `#` and a number
from 500 up is a phrase; any other first column is a word. Reserved characters are written as codes
(`sapwood.trees.formats.escapes`), and so is the first character of a word that would be read as a mark.
Parent 0 is the root: the tree gets a node `ROOT` over all nodes attached there, even if there is only one, except after
`#BOS n %% without ROOT`. Trees with another root are written with this comment, so they are the same when read again.

Phrases may have gaps (`sapwood.trees.formats.gaps`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from sapwood.errors import TreeFormatError
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.brackets import OnBad
from sapwood.trees.formats.discontinuous import NOTHING, VIRTUAL_ROOTS, WITHOUT_ROOT, Graph, Row
from sapwood.trees.formats.escapes import Codes, code
from sapwood.trees.formats.gaps import Gaps, check_gaps, positions
from sapwood.trees.tree import Tree

_FIRST_NODE = 500

_CODES = Codes(r" \t\r\n")
_BLANKS = re.compile(r"[ \t]+")
_NODE = re.compile(r"#([0-9]{3,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")


class _Sentence(Graph):
    """The rows between `#BOS` and `#EOS`."""

    def __init__(self, number: int, line: int, source: str) -> None:
        super().__init__(f"sentence {number}", line, source)
        self.number = number
        self.version = 0

    def add(self, line: str, number: int, version: int) -> None:
        """Read one line of the sentence."""
        columns = _BLANKS.split(line)
        for index in range(5, len(columns)):
            if columns[index].startswith("%%"):
                del columns[index:]
                break
        count = len(columns)
        version = version or self.version or (3 if count % 2 else 4)
        self.version = version
        wanted = version + 2
        if count < wanted:
            raise self.error(f"{count} column(s), format {version} has at least {wanted}", number, line)
        if (count - wanted) % 2:
            problem = f"{count} columns, format {version} has {wanted} and two more for each secondary edge"
            raise self.error(problem, number, line)
        for number_column in range(wanted - 1, count, 2):
            if not _NUMBER.fullmatch(columns[number_column]):
                raise self.error(f"the parent {columns[number_column]!r} is not a number", number, line)
        parent = int(columns[wanted - 1])
        row = Row(_CODES.read(columns[0]), _CODES.read(columns[version - 2]), columns[wanted - 2], parent, number)
        node = _NODE.fullmatch(columns[0])
        if node is None or int(node[1]) < _FIRST_NODE:
            self.words.append(row)
        elif int(node[1]) in self.phrases:
            first = self.phrases[int(node[1])].line
            raise self.error(f"node {columns[0]} is already on line {first}", number, line)
        else:
            self.phrases[int(node[1])] = row


class _Reader:
    """Fed one line at a time; `feed` returns a tree when a sentence is complete."""

    def __init__(self, source: str, on_bad: OnBad | None, functions: bool, gaps: Gaps) -> None:
        self.source = source
        self.on_bad = on_bad
        self.functions = functions
        self.gaps = gaps
        self.version = 0
        self.sentence: _Sentence | None = None
        self.table_line = 0
        self.skipping = False
        self.problems: list[TreeFormatError] = []

    def feed(self, number: int, line: str) -> Tree | None:
        line = line.strip(" \t\r\n")
        tree = None
        if line and not line.startswith("%%"):
            try:
                tree = self._feed(number, line)
            except TreeFormatError as error:
                self._bad(error)
            self.report()
        return tree

    def _feed(self, number: int, line: str) -> Tree | None:
        keyword = _BLANKS.split(line, maxsplit=1)[0]
        if keyword == "#BOS":
            self._begin(number, line)
        elif keyword == "#EOS":
            return self._end(number, line)
        elif self.sentence is not None:
            self.sentence.add(line, number, self.version)
        elif not self.skipping:
            self._between(keyword, number, line)
        return None

    def _begin(self, number: int, line: str) -> None:
        unfinished, table_line = self.sentence, self.table_line
        columns = _BLANKS.split(line)
        self.skipping, self.table_line = False, 0
        self.sentence = None
        bad_number = len(columns) < 2 or not _NUMBER.fullmatch(columns[1])
        if not bad_number:
            self.sentence = _Sentence(int(columns[1]), number, self.source)
            self.sentence.without_root = line.partition("%%")[2].strip(" \t") == WITHOUT_ROOT
        if unfinished is not None:
            self.problems.append(unfinished.error("no #EOS before the next #BOS", number, line))
        if table_line:
            self.problems.append(self._error("#BOT without #EOT before the first sentence", table_line))
        if bad_number:
            raise self._error("#BOS without a sentence number", number, line)

    def _end(self, number: int, line: str) -> Tree | None:
        sentence, self.sentence = self.sentence, None
        if sentence is None:
            if self.skipping:
                self.skipping = False
                return None
            raise self._error("#EOS without #BOS", number, line)
        columns = _BLANKS.split(line)
        try:
            if len(columns) < 2 or not _NUMBER.fullmatch(columns[1]) or int(columns[1]) != sentence.number:
                raise sentence.error(f"expected #EOS {sentence.number}", number, line)
            return sentence.tree(self.gaps, self.functions)
        except TreeFormatError as error:
            # The sentence has ended: nothing is left to skip.
            self.problems.append(error)
        return None

    def _between(self, keyword: str, number: int, line: str) -> None:
        if self.table_line:
            if keyword == "#EOT":
                self.table_line = 0
        elif keyword == "#BOT":
            self.table_line = number
        elif keyword == "#FORMAT":
            version = line[len("#FORMAT") :].strip()
            if version not in ("3", "4"):
                raise self._error("only the export formats 3 and 4 can be read", number, line)
            self.version = int(version)
        else:
            raise self._error("text outside #BOS and #EOS", number, line)

    def finish(self) -> None:
        if self.sentence is not None:
            self._bad(self.sentence.error("the file ends before its #EOS", self.sentence.line))
        elif self.table_line:
            self._bad(self._error("#BOT without #EOT", self.table_line))
        self.report()

    def report(self) -> None:
        """Pass the problems found to `on_bad`, or raise the first."""
        while self.problems:
            problem = self.problems.pop(0)
            if self.on_bad is None:
                raise problem
            self.on_bad(problem)

    def _error(self, problem: str, line: int, text: str = "") -> TreeFormatError:
        return TreeFormatError(problem, source=self.source, line=line, text=text)

    def _bad(self, error: TreeFormatError) -> None:
        """Record an error and skip the rest of the sentence."""
        self.problems.append(error)
        self.sentence = None
        self.skipping = True


def parse_export(
    text: str | Iterable[tuple[int, str]],
    *,
    source: str,
    on_bad: OnBad | None = None,
    functions: bool = False,
    gaps: Gaps = "keep",
) -> Iterator[Tree]:
    """Yield the trees of a string, or of numbered lines as they arrive; see `read_export`."""
    check_gaps(gaps)
    return _parse(text, _Reader(source, on_bad, functions, gaps))


def _parse(text: str | Iterable[tuple[int, str]], reader: _Reader) -> Iterator[Tree]:
    for number, line in enumerate(text.split("\n"), 1) if isinstance(text, str) else text:
        tree = reader.feed(number, line)
        if tree is not None:
            yield tree
    reader.finish()


def read_export(
    path: str | Path,
    *,
    on_bad: OnBad | None = None,
    functions: bool = False,
    gaps: Gaps = "keep",
) -> Iterator[Tree]:
    """Yield the trees of an export file (`-` for standard input, `.gz` allowed), streaming.

    Parameters
    ----------
    path
        The file.
    on_bad
        Receives the `TreeFormatError` of a malformed sentence, which is then skipped. Without it the
        error is raised.
    functions
        Append the edge label to the label of phrases and tags (`NP` with edge `SB` is `NP-SB`),
        except the empty edge label `--`.
    gaps
        Treatment of phrases with gaps: `"keep"` keeps them, `"close"` closes them as described in
        `sapwood.trees.formats.discontinuous`, `"split"` splits them (`sapwood.trees.formats.gaps.split_gaps`), and
        `"error"` refuses the sentence.
    """
    return parse_export(read_lines(path), source=name_of(path), on_bad=on_bad, functions=functions, gaps=gaps)


def format_export(tree: Tree, number: int) -> str:
    """Return the tree as sentence `number` in export format 3, `#BOS` to `#EOS`, ending in a line feed.

    Phrases are numbered from 500, children before their parents. A root labelled `ROOT`, `TOP`,
    `VROOT` or nothing is the root 0 of the format; any other root is a node below it, and a comment
    says so. Labels go into the label column as they are; lemma, morphology and edges are empty (`--`).
    """
    postorder: list[Tree] = []
    tree.fold(lambda node, _: postorder.append(node))
    places = iter(positions(tree))
    virtual_root = tree.word is None and tree.label in VIRTUAL_ROOTS
    lines = [f"#BOS {number}" + ("" if virtual_root else f" %% {WITHOUT_ROOT}"), *[""] * len(tree)]
    phrases: list[str] = []
    # For each finished subtree still without a parent: the index of its line, and which of the two lists holds it.
    waiting: list[tuple[list[str], int]] = []
    for node in postorder:
        if node.word is not None:
            line = next(places) + 1
            lines[line] = f"{_written(node.word)}\t{_CODES.write(node.label)}\t{NOTHING}\t{NOTHING}\t"
            waiting.append((lines, line))
            continue
        virtual = node is tree and virtual_root
        own = 0 if virtual else _FIRST_NODE + len(phrases)
        count = len(node.children)
        for column, index in waiting[-count:]:
            column[index] += str(own)
        del waiting[-count:]
        if not virtual:
            phrases.append(f"#{own}\t{_CODES.write(node.label)}\t{NOTHING}\t{NOTHING}\t")
            waiting.append((phrases, len(phrases) - 1))
    for column, index in waiting:
        column[index] += "0"
    return "\n".join([*lines, *phrases, f"#EOS {number}", ""])


def write_export(trees: Iterable[Tree], stream: IO[str], *, start: int = 1) -> None:
    """Write the trees in export format 3, numbered from `start`."""
    stream.write("#FORMAT 3\n")
    for number, tree in enumerate(trees, start):
        stream.write(format_export(tree, number))


def _written(word: str) -> str:
    """Return a word encoded as the first column of a line."""
    node = _NODE.fullmatch(word)
    is_mark = word in ("#BOS", "#EOS") or word.startswith("%%") or (node and int(node[1]) >= _FIRST_NODE)
    return code(word[0]) + _CODES.write(word[1:]) if is_mark else _CODES.write(word)
