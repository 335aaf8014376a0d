"""Sentences and trees in requests: their messages, their limits, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from sapwood.inference.constraints import Phrase
from sapwood.inference.parser import Parser
from sapwood.trees.formats.brackets import parse_trees
from sapwood.trees.tokenise.lines import Lines
from sapwood.trees.tree import Tree
from sapwood.web.endpoints import Request
from sapwood.web.messages import ArrayMessage, BadRequest, Message, RequestTooLarge, Schema, given
from sapwood.web.service import GrammarName

# An upper bound; the limits of the service are checked later.
_WORDS = 2000
# Maximum number of nodes times levels in one request.
_MOST_WORK = 10_000_000
LONGEST_WORD = 1000
# Number of characters to tokenise between two looks at the time.
_PIECE = 4096

Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_WORD)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=_WORDS)]


# Tuples beside texts with a least length would do, but msgspec 0.22 mixes their limits up.
class Tagged(ArrayMessage):
    """A word with its tag; null: any tag."""

    word: Word
    tag: str | None


class RequiredPhrase(ArrayMessage):
    """Start, end and label of a phrase; null: any label."""

    start: Position
    end: Annotated[int, Meta(ge=1, le=_WORDS)]
    label: str | None


Tokens: TypeAlias = Annotated[list[Word | Tagged], Meta(max_length=_WORDS)]
RequiredPhrases: TypeAlias = Annotated[list[RequiredPhrase], Meta(max_length=500)]


class Constrained(Message):
    """A sentence with phrases that its tree must have, or must not have."""

    tokens: Tokens
    phrases: RequiredPhrases = field(default_factory=list)
    absent: RequiredPhrases = field(default_factory=list)


class SentencesRequest(Message):
    """Sentences, or text that is split into sentences."""

    text: str | UnsetType = UNSET
    sentences: list[Tokens | Constrained] | UnsetType = UNSET
    lines: Annotated[Lines, Meta(description="The lines of the text, as in `sapwood parse --lines`.")] | UnsetType = (
        UNSET
    )
    model: GrammarName | UnsetType = UNSET

    also: ClassVar[Schema] = {
        "oneOf": [{"required": ["text"]}, {"required": ["sentences"]}],
        "dependentRequired": {"lines": ["text"]},
    }

    def __post_init__(self) -> None:
        if (self.text is UNSET) == (self.sentences is UNSET):
            raise ValueError("either text or sentences must be there, and not both")
        if self.text is UNSET and self.lines is not UNSET:
            raise ValueError("lines can be chosen for text only, not for sentences")


class GivenSentence(NamedTuple):
    """A sentence of a request: tokens, constraints on its phrases, and its offsets in a text."""

    tokens: list[Any]
    phrases: list[Phrase]
    offsets: list[tuple[int, int]] | None


def words_of(sentence: GivenSentence) -> list[str]:
    """Return the words of a sentence, without tags."""
    return [token if isinstance(token, str) else token[0] for token in sentence.tokens]


class RequestSize:
    """Size of a request so far; beyond a limit of the service on its size or time, adding to it fails."""

    def __init__(self, request: Request[Any]) -> None:
        self._limits, self._job = request.service.limits, request.job
        self.characters = self.words = self.sentences = 0

    def add(self, *, characters: int = 0, words: int = 0, sentences: int = 0) -> None:
        """Count more of the request; raises `RequestTooLarge` or `TimedOut`."""
        self._job.check_time()
        self.characters += characters
        self.words += words
        self.sentences += sentences
        limits = self._limits
        for found, most, what, option in (
            (self.characters, limits.characters, "characters", "--max-characters"),
            (self.words, limits.total_words, "words", "--max-total-words"),
            (self.sentences, limits.sentences, "sentences or trees", "--max-sentences"),
        ):
            if found > most:
                raise RequestTooLarge(
                    f"a request may have up to {most} {what} (the server's {option}); send it in parts"
                )


def _read_text(text: str, size: RequestSize) -> Iterator[str]:
    """Yield a text in pieces, so that the time is checked while it is tokenised."""
    for start in range(0, len(text), _PIECE):
        size.add()
        yield text[start : start + _PIECE]


def read_sentences(request: Request[Any], parser: Parser) -> list[GivenSentence]:
    """Return the sentences of a request; raises `RequestTooLarge` if they are too many, or too long in all."""
    size = RequestSize(request)
    found: list[GivenSentence] = []
    if isinstance(text := request.body.text, str):
        size.add(characters=len(text))
        for pieces in parser.tokenise_pieces(_read_text(text, size), lines=given(request.body.lines)):
            size.add(words=len(pieces), sentences=1)
            # Words are cached, so their length must be bounded.
            for piece in pieces:
                if len(piece.word) > LONGEST_WORD:
                    place = f"characters {piece.start} to {piece.end}"
                    raise BadRequest(f"the text has a word of more than {LONGEST_WORD} characters: {place}")
            found.append(
                GivenSentence([piece.word for piece in pieces], [], [(piece.start, piece.end) for piece in pieces])
            )
        return found
    sentences = given(request.body.sentences) or []
    size.add(sentences=len(sentences))
    for sentence in sentences:
        one = sentence if isinstance(sentence, Constrained) else Constrained(sentence)
        tokens = [token if isinstance(token, str) else (token.word, token.tag) for token in one.tokens]
        size.add(
            characters=sum(len(token if isinstance(token, str) else token[0]) for token in tokens), words=len(tokens)
        )
        phrases = [Phrase(phrase.start, phrase.end, phrase.label) for phrase in one.phrases]
        phrases += [Phrase(phrase.start, phrase.end, phrase.label, True) for phrase in one.absent]
        found.append(GivenSentence(tokens, phrases, None))
    return found


def read_trees(request: Request[Any], text: str, what: str) -> list[Tree]:
    """Return the bracketed trees in a text (`what`); raises `RequestTooLarge` if they are too many or too deep."""
    size = RequestSize(request)
    found: list[Tree] = []
    work = 0
    size.add(characters=len(text))
    for tree in parse_trees(text, source=what):
        found.append(tree)
        size.add(words=len(tree.words()), sentences=1)
        # The size of indented output grows with nodes times levels.
        work += tree.depth() * sum(1 for _ in tree.nodes())
        if work > _MOST_WORK:
            raise RequestTooLarge(f"{what}: the trees have too many nodes and levels; send them in parts")
    return found
