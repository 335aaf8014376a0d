"""Discbracket: brackets with numbered words, so that branches may cross; reading and writing.

One tree per line, `(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))`: each word is preceded by its position in the
sentence, from 0. Parentheses in words are `#LRB#` and `#RRB#`; other reserved characters are written as codes
(`sapwood.trees.formats.escapes`), and so is a `#` that would begin one of these. Phrases may have gaps
(`sapwood.trees.formats.gaps`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sapwood.errors import TreeFormatError
from sapwood.storage.files import COMPRESSED
from sapwood.trees.formats.brackets import OnBad, escape_label, unescape_label
from sapwood.trees.formats.discontinuous import NOTHING, ROOT, VIRTUAL_ROOTS, Graph, Row
from sapwood.trees.formats.escapes import Codes, code
from sapwood.trees.formats.gaps import Gaps, check_gaps, positions
from sapwood.trees.tree import Tree

# As in brackets, only ASCII white space separates tokens.
_TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)
_CODES = Codes(r"\s")
_PLACE = re.compile(r"([0-9]{1,9})=(.+)", re.DOTALL)
_LEAF = re.compile(r"\([^\s()]+\s+([^\s()]+)\s*\)", re.ASCII)
# Extensions of files in discbracket.
_ENDINGS = (".dbr", ".discbracket")
_BRACKETS = {"(": "#LRB#", ")": "#RRB#"}
_NAMES = {name: bracket for bracket, name in _BRACKETS.items()}
_TO_WRITE = re.compile(r"[()]|#(?=[LR]RB#)")
_TO_READ = re.compile(r"#[LR]RB#")


def is_discbracket(line: str) -> bool:
    """True if a line is a tree whose words are all preceded by their positions.

    >>> is_discbracket("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"), is_discbracket("(S (VB 0=is) (NP John))")
    (True, False)
    """
    # Nearly all other lines have another first word, and may be as long as a treebank.
    first = _LEAF.search(line)
    if first is None or not _PLACE.fullmatch(first[1]):
        return False
    try:
        return next(_parse([(1, line)], "", None, "keep"), None) is not None
    except TreeFormatError:
        return False


def is_discbracket_name(name: str | Path) -> bool:
    """True if a file name ends in `.dbr` or `.discbracket`, compressed or not.

    >>> is_discbracket_name("alpino/dev.dbr.gz"), is_discbracket_name("dev.mrg")
    (True, False)
    """
    path = Path(name)
    return Path(path.stem if path.suffix in COMPRESSED else path).suffix.lower() in _ENDINGS


def parse_discbracket(
    text: str | Iterable[tuple[int, str]],
    *,
    source: str,
    on_bad: OnBad | None = None,
    gaps: Gaps = "keep",
) -> Iterator[Tree]:
    r"""Yield the trees of a string, or of numbered lines as they arrive.

    The parameters are those of `sapwood.trees.formats.export.read_export`.

    >>> line = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"
    >>> print(*parse_discbracket(line, source="<string>"))
    (S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))
    >>> print(*parse_discbracket(line, source="<string>", gaps="close"))
    (S (VP (VB is)) (NP John) (JJ rich))
    """
    check_gaps(gaps)
    return _parse(text, source, on_bad, gaps)


def _parse(text: str | Iterable[tuple[int, str]], source: str, on_bad: OnBad | None, gaps: Gaps) -> Iterator[Tree]:
    for number, line in enumerate(text.split("\n"), 1) if isinstance(text, str) else text:
        if not _TOKEN.search(line):
            continue
        try:
            yield _tree(_raw_tree(line, number, source), number, source, gaps)
        except TreeFormatError as error:
            if on_bad is None:
                raise
            on_bad(error)


def _raw_tree(text: str, line: int, source: str) -> Tree:
    """Return the tree of a line with words as written."""
    # Label, children and word of each open bracket.
    stack: list[tuple[list[str], list[Tree], list[str]]] = []
    for match in _TOKEN.finditer(text):
        token, problem = match[0], ""
        labels, children, words = stack[-1] if stack else ([], [], [])
        if token == "(":
            if words or (stack and not labels):
                problem = "a bracket where a label belongs, or behind a word"
            stack.append(([], [], []))
        elif not stack:
            problem = "text outside brackets"
        elif token == ")":
            if not labels or not (children or words):
                problem = "a bracket without a label, or with nothing in it"
            else:
                stack.pop()
                tree = Tree(labels[0], children, word=words[0] if words else None)
                if not stack:
                    if rest := _TOKEN.search(text, match.end()):
                        raise _wrong("more behind the tree; there is one a line", source, line, text, rest.start())
                    return tree
                stack[-1][1].append(tree)
        elif not labels:
            labels.append(unescape_label(token))
        elif children or words:
            problem = "a word that is not alone below its tag"
        else:
            words.append(token)
        if problem:
            raise _wrong(problem, source, line, text, match.start())
    raise _wrong("the tree is not closed", source, line, text, 0)


def _wrong(problem: str, source: str, line: int, text: str, at: int) -> TreeFormatError:
    return TreeFormatError(problem, source=source, line=line, column=at + 1, text=text[at:].strip())


class _Sentence(Graph):
    def shown(self, number: int) -> str:
        return f"{self.phrases[number].label}"


def _tree(raw: Tree, line: int, source: str, gaps: Gaps) -> Tree:
    """Return the tree with its words in sentence order."""
    graph = _Sentence("tree", line, source)
    is_root = raw.word is None and raw.label in VIRTUAL_ROOTS
    words: dict[int, Row] = {}
    # Nodes with the numbers of their parents, by number.
    waiting = [(raw, 0)]
    number = -1 if is_root else 0
    while waiting:
        node, parent = waiting.pop()
        if node.word is not None:
            match = _PLACE.fullmatch(node.word)
            if match is None:
                raise graph.error("a word is its place in the sentence, '=' and itself, as in 0=the", line, node.word)
            if int(match[1]) in words:
                raise graph.error(f"two words at the place {match[1]}", line, node.word)
            text = _CODES.read(_TO_READ.sub(lambda found: _NAMES[found[0]], match[2]))
            words[int(match[1])] = Row(text, node.label, NOTHING, parent, line)
            continue
        number += 1
        if number:
            graph.phrases[number] = Row(node.label, node.label, NOTHING, parent, line)
        waiting.extend((child, number) for child in reversed(node.children))
    if words.keys() != set(range(len(words))):
        missing = min(set(range(len(words))) - words.keys())
        raise graph.error(f"no word at the place {missing}", line)
    graph.words = [words[place] for place in range(len(words))]
    found = graph.tree(gaps, functions=False)
    return Tree(raw.label, found.children) if is_root else found.children[0]


def format_discbracket(tree: Tree) -> str:
    """Return a tree on one line; a root without a label is `ROOT`.

    >>> format_discbracket(Tree.parse("(NP (DT the) (NN -LRB-))"))
    '(NP (DT 0=the) (NN 1=#LRB#))'
    """
    pieces: list[str] = []
    places = iter(positions(tree))
    # Nodes to be written, and closing brackets.
    stack: list[Tree | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            pieces.append(")")
            continue
        label = ROOT if node is tree and not node.label else escape_label(node.label)
        pieces.append(f" ({label}")
        if node.word is not None:
            pieces.append(f" {next(places)}={_written(node.word)})")
        else:
            stack += [None, *reversed(node.children)]
    return "".join(pieces).removeprefix(" ")


def _written(word: str) -> str:
    return _TO_WRITE.sub(lambda found: _BRACKETS.get(found[0]) or code(found[0]), _CODES.write(word))
