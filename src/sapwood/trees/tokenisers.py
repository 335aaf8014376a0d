"""Ways to cut plain text into sentences and tokens, by name.

A tokeniser takes a text, or pieces of one, and yields the tokens of each sentence with their places. A model stores the
name of the one that it goes with, never code. Names are

    penn         as the treebanks of English have it, and as far as that goes, other languages with blanks (the default)
    blanks       words stand apart by white space, and sentences by line ends: text that has been cut up before
    characters   every character is a word: for treebanks of characters in scripts without blanks
    spacy:de     the tokeniser of spaCy for a language, with its sentence ends (needs spaCy)

and what other packages add as entry points of the group `sapwood.tokenisers`: functions that are given what stands
behind the colon of the name, or an empty string, and return a tokeniser. In Python any function will do that
returns, for a text, its sentences as lists of words (`from_function`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from sapwood.errors import InputError, UsageError, shortened
from sapwood.run.plugins import named
from sapwood.trees.sentences import split_sentences, tokenise_text
from sapwood.trees.tokenise import Token

GROUP = "sapwood.tokenisers"
PENN = "penn"
Tokeniser: TypeAlias = Callable[[str | Iterable[str]], Iterator[list[Token]]]
# What a tokeniser of one's own returns for a text: for each sentence its words, or tokens with their places.
Sentences: TypeAlias = Iterable[Sequence[str | Token]]
_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\n\r\x85\u2028\u2029]+")


def find_tokeniser(name: str, style: Mapping[str, Any] | None = None) -> Tokeniser:
    """Return the tokeniser of that name; `style` has the arguments of `tokenise_text` for `penn`.

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
        PENN: lambda _: partial(tokenise_text, rewrite=rewrite, split_hyphens=split_hyphens),
        "blanks": lambda _: _blanks,
        "characters": lambda _: _characters,
        # In a room above: found by its name, as the plugins of others are.
        "spacy": lambda language: importlib.import_module("sapwood.interop.spacy_tokens").make_tokeniser(language),
    }
    if kind in own and kind != "spacy" and argument:
        raise UsageError(f"the tokeniser {kind!r} takes nothing behind a colon: {name!r}")
    return named(kind, own, GROUP, "tokeniser")(argument)


def from_function(function: Callable[[str], Sentences]) -> Tokeniser:
    """Return a tokeniser of a function that returns the sentences of a text as lists of words, or of tokens.

    Words must be in the text, in their order; only then their places are known. A function that spells them in another
    way returns tokens.

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
    for sentence in split_sentences(whole):
        tokens = []
        for character in sentence:
            if character.isspace():
                continue
            at = whole.index(character, at)
            tokens.append(Token(at, at + 1, character))
            at += 1
        yield tokens


def _lines(text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not blank, and where they begin."""
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
