"""Line ends of plain text: boundaries of sentences, or white space inside them.

The four ways to read lines are

    sentences    every line is one sentence: one line in, one line out, blank lines included
    paragraphs   every line is a paragraph of one or more sentences
    free         lines are wrapped: a line end is white space, and a blank line ends a paragraph
    auto         paragraphs, or free where the lines are wrapped (the default)

For `auto`, a block of lines up to a blank line is wrapped if its longest line has at least 20 characters and

- at two thirds of its line ends, the next word would not have fitted into the longest line, and at a quarter of the
  line ends so far the sentence goes on; or
- at a third of them, the next word would not have fitted, and at half of them the sentence goes on.

A sentence goes on if its line does not end in a stop and the next one begins with a lower-case letter, or with anything
if the block has no capital letters.

The first 64 lines of a block decide for all of it, so that text can be read as it arrives.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise, takewhile
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from sapwood.errors import UsageError
from sapwood.trees.tokenise.penn import Token, blanked

Lines = Literal["auto", "sentences", "paragraphs", "free"]
LINES: Final[tuple[Lines, ...]] = get_args(Lines)
Tokeniser: TypeAlias = Callable[[str | Iterable[str]], Iterator[list[Token]]]
# Lines of a block to look at, and the least width of wrapped text in characters.
_LOOK: Final = 64
_WIDTH: Final = 20
_LINE = re.compile(r"(?:\r\n|[\n\f\r\x85\u2028\u2029])")
_CLOSING: Final = "\"'”’»›)]}」』）】》〉"
_OPENING: Final = "\"'“‘„«‹([{`「『（【《〈-–—*•"
_STOPS: Final = ".!?…:;。！？｡．।॥؟۔።"
_LINE_ENDS: Final = ("\n", "\f", "\r", "\x85", "\u2028", "\u2029")


class TextBlock(NamedTuple):
    """A part of a text that holds whole sentences: its offset, and its pieces, to be read before the next block."""

    begin: int
    pieces: Iterable[str]


def tokenise_lines(cut: Tokeniser, text: str | Iterable[str], lines: Lines = "auto") -> Iterator[list[Token]]:
    """Yield the tokens of each sentence of a text, with their offsets.

    Parameters
    ----------
    cut
        Tokeniser that treats line ends as white space.
    text
        The text, or an iterable over pieces of it.
    lines
        The way to read lines; see the module docstring.

    Examples
    --------
    >>> from sapwood.trees.tokenise.sentences import tokenise_text
    >>> text = "Breaking news today\\nIt rained. Dogs\\n"
    >>> [" ".join(token.word for token in sentence) for sentence in tokenise_text(text, lines="sentences")]
    ['Breaking news today', 'It rained . Dogs']
    """
    if lines == "sentences":
        for begin, line in _split_lines(text, newlines_only=True):
            yield list(chain.from_iterable(_moved(cut([line]), begin)))
        return
    for begin, pieces in text_blocks(text, lines):
        yield from _moved(cut(pieces), begin)


def tokenise_texts(cut: Tokeniser, items: Iterable[str], lines: Lines = "auto") -> Iterator[list[Token]]:
    """Yield the tokens of each sentence of several texts, with their offsets in all items joined.

    An item that ends in a line break, such as a line of a file, continues with the next item; any other item ends a
    text, and no sentence goes on after it.

    Examples
    --------
    >>> from sapwood.trees.tokenise.sentences import cut_sentences
    >>> items = ["She left", "Prices\\n", "rose"]
    >>> [" ".join(token.word for token in sentence) for sentence in tokenise_texts(cut_sentences, items, "free")]
    ['She left', 'Prices rose']
    """
    begin = 0
    rest = enumerate(items)
    for first in rest:
        text = _OneText(chain([first], rest))
        pieces = iter(text)
        yield from _moved(tokenise_lines(cut, pieces, lines), begin)
        for _ in pieces:  # what the tokeniser left unread
            pass
        if lines == "sentences" and not text.size:
            yield []
        begin += text.size


class _OneText:
    """Items up to the first that does not end in a line break, and the number of characters read."""

    def __init__(self, items: Iterator[tuple[int, object]]) -> None:
        self.items, self.size = items, 0

    def __iter__(self) -> Iterator[str]:
        for index, item in self.items:
            if not isinstance(item, str):
                raise UsageError(_not_text(index, item))
            self.size += len(item)
            yield item
            if not item.endswith(_LINE_ENDS):
                return


def _not_text(index: int, item: object) -> str:
    """Return the message about an item that is not a string."""
    if isinstance(item, bytes):
        return f"item {index} of the text is bytes; decode it: `item.decode('utf-8')`"
    if item is None or type(item).__name__ in ("float", "NAType", "NaTType"):
        return f"item {index} of the text is missing ({item!r}); drop it or replace it by an empty string"
    return f"item {index} of the text is {type(item).__name__}, not a string"


def text_blocks(text: str | Iterable[str], lines: Lines = "auto") -> Iterator[TextBlock]:
    """Yield the parts of a text that no sentence crosses; with `sentences`, its lines."""
    if lines not in LINES:
        raise UsageError(f"lines must be one of {', '.join(LINES)}, not {lines!r}")
    if lines == "free":
        yield TextBlock(0, [text] if isinstance(text, str) else text)
    elif lines == "auto":
        yield from _detected(_split_lines(text))
    else:
        for begin, line in _split_lines(text, newlines_only=lines == "sentences"):
            if lines == "sentences" or line.strip():
                yield TextBlock(begin, [line])


def _moved(sentences: Iterator[list[Token]], begin: int) -> Iterator[list[Token]]:
    """Yield sentences with their offsets in the whole text."""
    if not begin:
        return sentences
    return ([Token(begin + start, begin + end, word) for start, end, word in tokens] for tokens in sentences)


def _split_lines(text: str | Iterable[str], *, newlines_only: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text, with their ends and offsets; all line ends of Unicode count unless `newlines_only`."""
    begin, held = 0, [""]
    for piece in [text] if isinstance(text, str) else text:
        if held[-1].endswith("\r"):
            # It may be half a line end.
            piece = held.pop() + piece
        at = 0
        for found in re.finditer("\n", piece) if newlines_only else _LINE.finditer(piece):
            if found.end() == len(piece) and found[0] == "\r":
                break
            line = "".join([*held, piece[at : found.end()]])
            yield begin, line
            begin, at, held = begin + len(line), found.end(), []
        held.append(piece[at:])
    if rest := "".join(held):
        yield begin, rest


def _detected(lines: Iterator[tuple[int, str]]) -> Iterator[TextBlock]:
    """Yield blocks of wrapped lines, and all other lines one by one."""
    wrapping = _Wrapping()
    for first in lines:
        if not _is_text(first):
            continue
        rest: Iterator[tuple[int, str]] = takewhile(_is_text, lines)
        seen = [first, *islice(rest, _LOOK - 1)]
        if len(seen) < _LOOK:
            rest = iter(())
        if wrapping.holds([line for _, line in seen]):
            yield TextBlock(first[0], (line for _, line in chain(seen, rest)))
            for _ in rest:
                pass
        else:
            for begin, line in chain(seen, rest):
                yield TextBlock(begin, [line])


def _is_text(line: tuple[int, str]) -> bool:
    """Return whether a line is not blank."""
    return bool(blanked(line[1]).strip())


class _Wrapping:
    """Evidence that the lines of a text are wrapped: line ends so far, and those inside of sentences."""

    def __init__(self) -> None:
        self.breaks = self.continued = 0

    def holds(self, lines: list[str]) -> bool:
        """Return whether a block of lines is wrapped."""
        texts = [line.rstrip() for line in lines]
        longest = max(map(len, texts))
        if len(texts) < 2 or longest < _WIDTH:
            return False
        has_case = any(letter.isupper() for text in texts for letter in text)
        breaks, full, continued = len(texts) - 1, 0, 0
        for text, following in pairwise(texts):
            word = following.split(maxsplit=1)[0]
            # Scripts without spaces can be broken anywhere.
            reach = 1 if unicodedata.east_asian_width(word[0]) == "W" else len(word)
            full += len(text) + 1 + reach > longest
            initial = (following.strip().lstrip(_OPENING) or following)[0]
            if (text.rstrip(_CLOSING) or text)[-1] not in _STOPS:
                continued += initial.islower() or not has_case
        self.breaks += breaks
        self.continued += continued
        if 3 * full >= 2 * breaks:
            return 4 * self.continued >= self.breaks
        return 3 * full >= breaks and 2 * continued >= breaks
