"""Sentence splitting: running text to sentences and tokens with their offsets.

Line ends are boundaries or white space, depending on `lines` (`sapwood.trees.tokenise.lines`). Otherwise, a sentence
ends at a blank line, at the end of the text, at `。！？`, and at `.`, `!`, `?` or `...` with any closing
quotes and brackets after it, when white space and a possible sentence start follow: not a lower-case letter, nor a
digit after `...`. A full stop after an abbreviation, an initial or the number of a list item does not end a sentence,
unless the abbreviation is one that may end a sentence and a word follows that usually begins one.

Text may come in pieces, such as the lines of a file. The cuts between pieces have no effect, and the sentences of a
paragraph are found as soon as its blank line, or much more text, has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from sapwood.trees.tokenise.lines import Lines, text_blocks, tokenise_lines
from sapwood.trees.tokenise.penn import LEADING, NUMBERED, OTHER, Token, blanked, find_tokens, known, words_of

# Words that, capitalised after an abbreviation, begin a new sentence.
_STARTERS: Final = words_of("""
    A After All Also Although An And Another Are As At Because Before Both But By Can Did Do Does Each
    Even For From Had Has Have He Her Here His How However I If In Instead Is It Its Just Like Many
    Meanwhile Most My No Nobody Nor Not Nothing Now On Once One Only Or Other Others Our Perhaps She
    Since So Some Still Such That The Their Then There These They This Those Though Thus To Today Under
    Until Was We Were What When Where Whether Which While Who Why Will With Yet You Your
""")

# Number of characters without a blank line to collect before splitting them into sentences.
_MUCH: Final = 1 << 16
_RUN = re.compile(r"\S+")
_LINE_END = re.compile(r"\r\n|[\n\f\r\x85\u2028]")
_STOP = re.compile(
    r"""
    (?P<stop> (?<![.!?…])[.!?…]++ | [।॥؟۔።]++ | [。！？｡．]++ )
    (?P<close> ["'”’»›)\]}」』）】》〉]*+ )
    (?: (?=(?P<space>[ ])) | $ | (?<=[。！？｡．"'”’」』）】》〉]) )
    """,
    re.VERBOSE,
)
_OPENING = re.compile(r"[\"'“‘„«‹(\[{`「『（【《〈]*")
_LAST_WORD = re.compile(r"[^\s\"'“‘„«(\[{`]*$")
_LEAST_OF_SENTENCE = re.compile(r"[(\[]?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*|[^\W\d_]|[ivxIVX]{1,4})")
_LETTERS_AND_STOPS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_WORD = re.compile(r"\w+")
_WIDE_STOPS = "。！？｡．"

# A stretch of text with single spaces for white space, and the offset of each of its characters in the whole text.
_Stretch = tuple[str, list[int]]


def split_sentences(text: str, *, lines: Lines = "auto") -> list[str]:
    """Return the sentences of a text, with white space reduced to single spaces; `lines` as for `tokenise_text`.

    Examples
    --------
    >>> split_sentences("Dr. Moss came at 3 p.m. She left at 4.30. (Why?) Nobody knows!")
    ['Dr. Moss came at 3 p.m.', 'She left at 4.30.', '(Why?)', 'Nobody knows!']
    """
    if lines == "sentences":
        return [" ".join(blanked("".join(block.pieces)).split()) for block in text_blocks(text, lines)]
    return [sentence for block in text_blocks(text, lines) for sentence, _ in _sentences(block.pieces)]


def tokenise_text(
    text: str | Iterable[str], *, lines: Lines = "auto", rewrite: bool = True, split_hyphens: bool = False
) -> Iterator[list[Token]]:
    """Yield the tokens of each sentence of a text, with their offsets.

    Parameters
    ----------
    text
        The text, or an iterable over pieces of it, such as the lines of an open file, consumed as needed. Offsets are
        counted from the start of the first piece.
    lines
        The way to read line ends: `"sentences"` (every line is one sentence, also a blank one), `"paragraphs"` (a
        sentence ends at the end of its line at the latest), `"free"` (line ends are white space), or `"auto"`:
        `"paragraphs"` unless the lines are wrapped.
    rewrite, split_hyphens
        As for `tokenise`.

    Examples
    --------
    >>> text = "It's late.  Go!"
    >>> for sentence in tokenise_text(text):
    ...     print([(token.word, text[token.start : token.end]) for token in sentence])
    [('It', 'It'), ("'s", "'s"), ('late', 'late'), ('.', '.')]
    [('Go', 'Go'), ('!', '!')]
    """
    cut = partial(cut_sentences, rewrite=rewrite, split_hyphens=split_hyphens)
    return tokenise_lines(cut, text, lines)


def cut_sentences(
    text: str | Iterable[str], *, rewrite: bool = True, split_hyphens: bool = False
) -> Iterator[list[Token]]:
    """Yield the tokens of each sentence of a text whose line ends are white space; see `tokenise_text`."""
    for sentence, places in _sentences([text] if isinstance(text, str) else text):
        yield [
            Token(places[start], places[end - 1] + 1, word)
            for start, end, word in find_tokens(sentence, rewrite=rewrite, split_hyphens=split_hyphens)
        ]


def _sentences(pieces: Iterable[str]) -> Iterator[_Stretch]:
    """Yield the sentences of a text as soon as they are known to be complete."""
    runs: list[str] = []
    places: list[int] = []
    begin, gap, limit = 0, "", _MUCH
    for piece in pieces:
        end = 0
        for run in _RUN.finditer(blanked(piece)):
            gap += piece[end : run.start()]
            if runs and _ends_paragraph(gap):
                yield from _split_paragraph("".join(runs), places)
                runs, places, limit = [], [], _MUCH
            if runs and gap:
                runs.append(" ")
                places.append(begin + run.start() - 1)
            runs.append(run[0])
            places.extend(range(begin + run.start(), begin + run.end()))
            end, gap = run.end(), ""
        gap += piece[end:]
        begin += len(piece)
        if not runs:
            gap = ""
        elif _ends_paragraph(gap):
            yield from _split_paragraph("".join(runs), places)
            runs, places, gap, limit = [], [], "", _MUCH
        elif gap and len(places) > limit:
            *done, (last, places) = _split_paragraph("".join(runs), places)
            yield from done
            runs, limit = [last], max(_MUCH, 2 * len(places))
    yield from _split_paragraph("".join(runs), places)


def _ends_paragraph(gap: str) -> bool:
    """Return whether white space contains a blank line or a Unicode paragraph separator."""
    return "\u2029" in gap or len(_LINE_END.findall(gap)) > 1


def _split_paragraph(text: str, places: list[int]) -> Iterator[_Stretch]:
    start = 0
    for match in _STOP.finditer(text):
        end = match.end()
        if end < len(text) and _ends_sentence(text, start, match):
            yield text[start:end], places[start:end]
            start = end + (match["space"] is not None)
    if start < len(text):
        yield text[start:], places[start:]


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    stop, end = match["stop"], match.end()
    if match["space"] is None:
        # Only the stops of scripts without spaces end a sentence here, and not before a particle.
        return stop[-1] in _WIDE_STOPS and not (
            text[end] in "、，,；;"
            or (stop[-1] == "．" and text[end].isdigit())
            or (match["close"] and "\u3041" <= text[end] <= "\u309f")
        )
    begin = _OPENING.match(text, end + 1)
    at = begin.end() if begin else end + 1
    first = text[at : at + 1]
    if first in ",;:)]}%…-–—.!?" or first.islower():
        return False
    if not set(stop) - set(".…") and stop != ".":
        return first.isalpha()
    if stop != ".":
        return True
    before = text[max(start, match.start() - 40) : match.start()]
    if _LEAST_OF_SENTENCE.fullmatch(text, start, match.start()):
        return False
    found = _LAST_WORD.search(before)
    word = found[0] if found else ""
    if known(word, LEADING):
        return False
    if known(word, NUMBERED) and first.isdigit():
        return False
    if word == "I" and before[:-2].rsplit(" ", 1)[-1][:1].islower():
        return True
    initial = len(word) == 1 and word.isupper()
    if initial or _LETTERS_AND_STOPS.fullmatch(word) or known(word, OTHER):
        following = _WORD.match(text, at)
        if following is None:
            return True
        is_initial = following.end() - at == 1 and text[following.end() : following.end() + 1] == "."
        return following[0] in _STARTERS and not is_initial
    return True
