"""Reading CoNLL-U: words, tags and heads, a sentence at a time.

A sentence is lines of ten columns apart by tabs, ended by a blank line; lines with `#` are comments. Columns used here
are the number, the word, the universal tag (the fourth), the tag of the language's own (the fifth) and the head. Words
that stand for several (`3-4`) and empty nodes (`5.1`) are skipped, as what is in them, or what they stand for, has
lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sapwood.errors import InputError
from sapwood.files import name_of, read_lines, whole_number

_COLUMNS = 10


class ConlluSentence(NamedTuple):
    """A sentence of a CoNLL-U file.

    Attributes
    ----------
    words
        The words.
    tags
        Their tags: of the language's own, or universal ones where there are none (`_`).
    heads
        The head of each word, counted from 0; -1 for the root's. None where the file has none (`_`) for some word.
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
                    f"{source}:{number}: a word of CoNLL-U has {_COLUMNS} columns apart by tabs, this line has "
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
    """Return a sentence with heads (counted from 0, -1 for the root's) in CoNLL-U, and the blank line that ends it.

    Tags stand in the column of language-specific ones.
    """
    shown = [" ".join(word.split()) or "_" for word in words]
    labels = labels or ["root" if head < 0 else "dep" for head in heads]
    lines = [f"# sent_id = {number}", "# text = " + " ".join(shown)]
    for place, (word, tag, head, label) in enumerate(zip(shown, tags, heads, labels, strict=True), 1):
        lines.append(
            "\t".join([str(place), word, "_", "_", " ".join(tag.split()) or "_", "_", str(head + 1), label, "_", "_"])
        )
    return "\n".join(lines) + "\n"
