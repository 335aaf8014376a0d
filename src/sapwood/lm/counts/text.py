"""Text as sequences of word ids.

Words are separated by ASCII white space and control characters; lines end with a line feed. With the boundaries
`"sentence"` each line is a sentence, `<s> w1 .. wn </s>`; a literal `<s>` or `</s>` in the text also ends a sentence,
and lines without words are skipped. With `"stream"` line ends mean nothing, and all files are one long sequence. `.gz`,
`.bz2`, `.xz` and `.zst` files are decompressed, `-` is standard input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import LifoQueue
from typing import TypeAlias, get_args

import numpy as np

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.lm.counts.vocabulary import BEGIN, END, SPECIAL, UNKNOWN, Vocabulary
from sapwood.lm.counts.word_table import FIRST_WORD, LONGEST_WORD, NotText, WordTable
from sapwood.lm.registry import Boundaries
from sapwood.runtime.executor import Threads
from sapwood.storage.files import COMPRESSED, is_regular, name_of, open_binary
from sapwood.storage.shapes import Array, Int32, UInt8

Sources: TypeAlias = str | Path | Sequence[str | Path]
# The table that numbered some words, and the numbers.
Numbered: TypeAlias = tuple[int, Int32[Array, "_"]]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PIECE = 4 << 20
_UNKNOWN_WORDS = 1 << 20


def source_list(sources: Sources) -> list[str | Path]:
    """Return the sources as a list; a single path is a list of one."""
    return [sources] if isinstance(sources, str | Path) else list(sources)


def check_boundaries(boundaries: str) -> None:
    """Raise a `UsageError` unless `boundaries` is one of the two kinds."""
    if boundaries not in get_args(Boundaries):
        raise UsageError(f'boundaries are "sentence" or "stream", not {boundaries!r}')


def total_size(sources: Sources) -> int | None:
    """Return the number of bytes of text to read, or None if it is not known in advance."""
    paths = source_list(sources)
    if any(not is_regular(path) or str(path).endswith(COMPRESSED) for path in paths):
        return None
    return sum(Path(path).stat().st_size for path in paths)


@dataclass(frozen=True)
class Piece:
    """Some bytes of a text, cut between words.

    Attributes
    ----------
    source
        The file's name.
    text
        The bytes, the last one a separator.
    column
        Number of preceding bytes on the same line.
    last
        Whether the file ends here.
    """

    source: str
    text: UInt8[Array, "bytes"]
    column: int
    last: bool


def read_pieces(sources: Sources, size: int = _PIECE) -> Iterator[Piece]:
    """Yield the bytes of the files in pieces of about `size`, cut between words."""
    for source in source_list(sources):
        with open_binary(source) as stream:
            yield from cut_pieces(iter(lambda stream=stream: stream.read(size), b""), name_of(source))  # type: ignore[misc]


def cut_pieces(chunks: Iterable[bytes], name: str, *, within: bool = False) -> Iterator[Piece]:
    """Yield the bytes of one file, given in chunks, in pieces cut between words.

    With `within` they do not start at the beginning of the file, where there may be a byte order mark.
    """
    column, rest, started = 0, b"", within
    for more in chain(chunks, [b""]):
        data = rest + more
        if not started and more and len(data) < len(_BYTE_ORDER_MARK):
            rest = data
            continue
        if not started:
            data, started = data.removeprefix(_BYTE_ORDER_MARK), True
        cut = _last_separator(data) + 1
        # An endless word is passed on to the tokeniser, which rejects it.
        if not more or (cut == 0 and len(data) > LONGEST_WORD):
            yield Piece(name, _letters(data + b"\n"), column, True)
            break
        if cut:
            yield Piece(name, _letters(data[:cut]), column, False)
            line_end = data.rfind(b"\n", 0, cut)
            column = cut - line_end - 1 if line_end >= 0 else column + cut
        rest = data[cut:]


def _letters(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def _last_separator(data: bytes) -> int:
    """Return the position of the last byte up to 32, or -1."""
    size = 64
    while True:
        found = np.flatnonzero(_letters(data[-size:]) <= 32)
        if len(found):
            return max(0, len(data) - size) + int(found[-1])
        if size >= len(data):
            return -1
        size *= 16


def tokenise(pieces: Iterable[Piece], tables: Sequence[WordTable], lines: bool) -> Iterator[Numbered]:
    """Yield for each piece the index of the table used and the numbers that it gives the words.

    Each table is used by one thread at a time, and there are as many threads as tables. With `lines` the numbers
    include line ends and the ends of files.
    """
    free: LifoQueue[int] = LifoQueue()
    for number in reversed(range(len(tables))):
        free.put(number)
    under_way: deque[Piece] = deque()

    def remember() -> Iterator[Piece]:
        for piece in pieces:
            under_way.append(piece)
            yield piece

    def work(piece: Piece) -> tuple[int, np.ndarray, int]:
        number = free.get()
        try:
            return (number, *tables[number].tokenise(piece.text, lines))
        finally:
            free.put(number)

    done = 0
    try:
        for number, numbers, ends in Threads(len(tables)).map(work, remember()):
            piece = under_way.popleft()
            done = 0 if piece.last else done + ends
            yield number, numbers
    except NotText as error:
        piece = under_way[0]
        column = error.column + (0 if error.lines else piece.column)
        place = f"{piece.source}:{done + error.lines + 1}:{column}"
        raise InputError(f"{place}: {error.problem}") from None


def renumber(
    pieces: Iterable[Numbered], ids_of: Sequence[Int32[Array, "_"]], boundaries: Boundaries, threads: int = 1
) -> Iterator[Int32[Array, "_"]]:
    """Yield the ids of the words that `tokenise` numbered.

    `ids_of[table]` has the id of each of a table's numbers, and -1 for sentence ends.
    """
    begin, end = (BEGIN, END) if boundaries == "sentence" else (-1, -1)

    def with_state() -> Iterator[tuple[int, np.ndarray, bool]]:
        is_open = False
        for table, numbers in pieces:
            yield table, numbers, is_open
            if len(numbers):
                is_open = bool(ids_of[table][numbers[-1]] >= 0)

    def work(item: tuple[int, np.ndarray, bool]) -> np.ndarray:
        table, numbers, is_open = item
        # At worst every other number is a boundary: a word with the marks around it takes three ids.
        ids = np.empty(3 * ((len(numbers) + 1) // 2) + 1 if boundaries == "sentence" else len(numbers), np.int32)
        return ids[: kernels.renumber_words(numbers, ids_of[table], is_open, begin, end, ids)].copy()

    yield from Threads(threads).map(work, with_state())


def special_ids(boundaries: Boundaries) -> list[int]:
    """Return the ids of a table's first numbers: the line end, `<unk>`, `<s>`, `</s>`."""
    return [-1, UNKNOWN, -1, -1] if boundaries == "sentence" else [-1, UNKNOWN, BEGIN, END]


def encode_text(
    sources: Sources, vocabulary: Vocabulary, boundaries: Boundaries = "sentence"
) -> Iterator[Int32[Array, "_"]]:
    """Yield the text as arrays of ids, a piece at a time.

    With `"sentence"` each piece has whole sentences, each with its `<s>` and `</s>`; with `"stream"` the concatenated
    pieces are the sequence.
    """
    return encode_pieces(read_pieces(sources), vocabulary, boundaries)


def encode_pieces(
    pieces: Iterable[Piece], vocabulary: Vocabulary, boundaries: Boundaries
) -> Iterator[Int32[Array, "_"]]:
    """Yield pieces of text as `encode_text` does."""
    check_boundaries(boundaries)
    if "" in vocabulary.index:
        raise UsageError("a vocabulary has an empty word, which no text can have")
    table = WordTable()
    table.add_all(vocabulary.words[len(SPECIAL) :])
    known = len(table)
    ids_of = np.arange(-1, len(vocabulary), dtype=np.int32)
    ids_of[:FIRST_WORD] = special_ids(boundaries)

    def numbered() -> Iterator[Numbered]:
        for _, numbers in tokenise(pieces, [table], boundaries == "sentence"):
            yield 0, np.where(numbers < known, numbers, 1 + UNKNOWN)
            if len(table) > known + _UNKNOWN_WORDS:
                table.forget(known)

    held: list[np.ndarray] = []
    for ids in renumber(numbered(), [ids_of], boundaries):
        ends = np.flatnonzero(ids == END) if boundaries == "sentence" else np.array([len(ids) - 1])
        if len(ends) and ends[-1] >= 0:
            cut = int(ends[-1]) + 1
            yield np.concatenate([*held, ids[:cut]])
            held = []
            ids = ids[cut:]
        held.append(ids)


def encode_sentences(sentences: Iterable[Iterable[str]], vocabulary: Vocabulary) -> Int32[Array, "tokens"]:
    """Return tokenised sentences as one array of ids, each sentence with its `<s>` and `</s>`."""
    pieces = [np.concatenate([[BEGIN], vocabulary.encode(tokens), [END]]) for tokens in sentences]
    return np.concatenate(pieces).astype(np.int32) if pieces else np.zeros(0, np.int32)
