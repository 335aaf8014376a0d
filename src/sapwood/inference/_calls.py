"""What workers are asked for with a parser: functions that can be sent to where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.inference.parser import Parser
    from sapwood.inference.result import ParseResult
    from sapwood.inference.words import Sentence
    from sapwood.trees.tokenise import Token

T = TypeVar("T")
# Sentences in the first part that is sent elsewhere, and in the largest.
_LEAST, _MOST = 16, 128


def make(kind: type[Parser], grammars: list[TensorGrammar], settings: dict[str, Any]) -> Parser:
    """Return a parser with settings."""
    return kind(grammars, **settings)


def parse_one(parser: Parser, sentence: Sentence) -> ParseResult:
    """Parse a sentence."""
    return parser.parse_one(sentence)


def parse_tokens(parser: Parser, tokens: Sequence[Token]) -> ParseResult:
    """Parse a sentence, and say where its words stand."""
    found = parser.parse_one([token.word for token in tokens])
    return replace(found, offsets=[(token.start, token.end) for token in tokens])


def parts(sentences: Iterable[T]) -> Iterator[list[T]]:
    """Cut sentences into parts that are worth sending elsewhere: small ones first, so that all have something to do."""
    rest = iter(sentences)
    for number in count():
        part = list(islice(rest, min(_LEAST << number // 4, _MOST)))
        if not part:
            return
        yield part


def parse_part(call: Callable[[Parser, T], ParseResult], parser: Parser, sentences: list[T]) -> list[ParseResult]:
    """Parse the sentences of a part, each by a call."""
    return [call(parser, sentence) for sentence in sentences]
