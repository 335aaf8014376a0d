"""Tokenisers by name: plain text to sentences and tokens.

A tokeniser takes a text, or pieces of one, and yields the tokens of each sentence with their offsets. For it, line ends
are white space; `sapwood.trees.tokenise.lines` makes them boundaries. A model stores the name of its tokeniser, never
code. Names are

    penn         conventions of English treebanks; usable for other languages with spaces (the default)
    blanks       white space separates words, and line ends separate sentences: for text that is already tokenised
    characters   every character is a word: for treebanks of characters in scripts without spaces
    spacy:de     spaCy's tokeniser and sentence splitter for a language (requires spaCy)

and those that other packages add as entry points of the group `sapwood.tokenisers`: functions that take the part of the
name after the colon, or an empty string, and return a tokeniser. In Python, any function that returns the sentences of
a text as lists of words will do (`from_function`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from sapwood.errors import InputError, UsageError, shortened
from sapwood.runtime.registry import named
from sapwood.trees.tokenise.lines import Tokeniser
from sapwood.trees.tokenise.penn import Token
from sapwood.trees.tokenise.sentences import cut_sentences, split_sentences

GROUP = "sapwood.tokenisers"
PENN = "penn"
# Result of a custom tokeniser for a text: for each sentence its words, or tokens with their offsets.
Sentences: TypeAlias = Iterable[Sequence[str | Token]]
_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\n\r\x85\u2028\u2029]+")


def find_tokeniser(name: str, style: Mapping[str, Any] | None = None) -> Tokeniser:
    """Return the tokeniser of that name; `style` holds the arguments of `cut_sentences` for `penn`.

    Examples
    --------
    >>> cut = find_tokeniser("blanks")
    >>> [[token.word for token in sentence] for sentence in cut("It 's late .\\nGo !")]
    [['It', "'s", 'late', '.'], ['Go', '!']]
    """
    kind, _, argument = name.partition(":")
    style = style or {}
    rewrite, split_hyphens = bool(style.get("rewrite", True)), bool(style.get("split_hyphens", False))
    own: dict[str, Callable[[str], Tokeniser]] = {
        PENN: lambda _: partial(cut_sentences, rewrite=rewrite, split_hyphens=split_hyphens),
        "blanks": lambda _: _blanks,
        "characters": lambda _: _characters,
        # In a higher layer: found by name, like third-party plugins.
        "spacy": lambda language: importlib.import_module("sapwood.interop.spacy_tokens").make_tokeniser(language),
    }
    if kind in own and kind != "spacy" and argument:
        raise UsageError(f"the tokeniser {kind!r} takes nothing behind a colon: {name!r}")
    return named(kind, own, GROUP, "tokeniser")(argument)


def from_function(function: Callable[[str], Sentences]) -> Tokeniser:
    """Make a tokeniser from a function that returns the sentences of a text as lists of words, or of tokens.

    Words must occur in the text in the same order, so that their offsets can be found. A function that changes their
    spelling must return tokens.

    Examples
    --------
    >>> cut = from_function(lambda text: [line.split() for line in text.splitlines()])
    >>> next(cut("Ég  les"))
    [Token(start=0, end=2, word='Ég'), Token(start=4, end=7, word='les')]
    """
    return partial(_by_function, function)


def _by_function(function: Callable[[str], Sentences], text: str | Iterable[str]) -> Iterator[list[Token]]:
    whole = text if isinstance(text, str) else "".join(text)
    at = 0
    for sentence in function(whole):
        tokens = []
        for word in sentence:
            if isinstance(word, Token):
                tokens.append(word)
                continue
            begin = whole.find(word, at) if isinstance(word, str) and word else -1
            if begin < 0:
                raise InputError(
                    f"the tokeniser returned {shortened(str(word))!r}, which is not in the text behind place {at}; "
                    "return tokens with their places instead"
                )
            at = begin + len(word)
            tokens.append(Token(begin, at, word))
        yield tokens


def _blanks(text: str | Iterable[str]) -> Iterator[list[Token]]:
    for begin, line in _lines(text):
        yield [Token(begin + found.start(), begin + found.end(), found[0]) for found in _WORD.finditer(line)]


def _characters(text: str | Iterable[str]) -> Iterator[list[Token]]:
    whole = text if isinstance(text, str) else "".join(text)
    at = 0
    for sentence in split_sentences(whole, lines="free"):
        tokens = []
        for character in sentence:
            if character.isspace():
                continue
            at = whole.index(character, at)
            tokens.append(Token(at, at + 1, character))
            at += 1
        yield tokens


def _lines(text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not blank, with their offsets."""
    begin = 0
    held = ""
    for piece in [text] if isinstance(text, str) else text:
        held += piece
        ends = [found.end() for found in re.finditer(r"\r\n|[\n\r\x85\u2028\u2029]", held)]
        if not ends:
            continue
        done, held = held[: ends[-1]], held[ends[-1] :]
        for found in _LINE.finditer(done):
            if found[0].strip():
                yield begin + found.start(), found[0]
        begin += len(done)
    if held.strip():
        yield begin, held
