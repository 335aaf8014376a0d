"""Parsing endpoints: trees, alternatives, marginals, samples, formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sapwood.errors import NoParse, UsageError
from sapwood.inference.constraints import Phrase
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.trees.formats.brackets import parse_trees
from sapwood.trees.formats.registry import OUTPUT_FORMATS, format_as
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.tokenise.lines import LINES
from sapwood.trees.tree import Tree
from sapwood.web.endpoints import GRAMMAR, Endpoint, Request, at_once
from sapwood.web.scheduler import Plan
from sapwood.web.schemas import (
    FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    PROBABILITY,
    TEXT,
    BadRequest,
    RequestTooLarge,
    either,
    listing,
    record,
    row,
    whole,
)

# An upper bound; the limits of the service are checked later.
_WORDS = 2000
# Maximum number of nodes times levels in one request.
_MOST_WORK = 10_000_000
_LONGEST = 1000
# Number of characters to tokenise between two looks at the time.
_PIECE = 4096
_LINES = "The lines of the text, as in `sapwood parse --lines`: by default `auto`."
WORD = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
TOKEN = either(WORD, row(WORD, MAYBE_TEXT))
PHRASE = row(whole(0, _WORDS), whole(1, _WORDS), MAYBE_TEXT)
SENTENCE = either(
    listing(TOKEN, maxItems=_WORDS),
    record(
        {"tokens": listing(TOKEN, maxItems=_WORDS)},
        {"phrases": listing(PHRASE, maxItems=500), "absent": listing(PHRASE, maxItems=500)},
    ),
)
MARGINAL = {**listing(either(NUMBER, TEXT), minItems=4, maxItems=4), "description": "Start, end, label, probability."}
DERIVATION = record({"tree": TEXT, "log_probability": NUMBER})
RESULT = record(
    {
        "words": listing(TEXT),
        "tree": MAYBE_TEXT,
        "log_probability": MAYBE_NUMBER,
        "status": {
            "type": "string",
            "enum": [
                "parsed",
                "relaxed",
                "coarse",
                "flat",
                "too long",
                "out of memory",
                "timed out",
                "empty",
                "no parse",
            ],
            "description": "As in `sapwood parse`; `no parse`: no tree satisfies the constraints.",
        },
    },
    {
        "offsets": listing(listing(whole(), minItems=2, maxItems=2)),
        "marginals": listing(MARGINAL),
        "alternatives": listing(DERIVATION),
    },
)
WARNINGS = {
    "warnings": {**listing(TEXT), "description": "Remarks on the sentences, such as words that are not tokens."}
}
RESULTS = record({"results": listing(RESULT)}, WARNINGS)


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request with sentences or raw text, and further options."""
    more = {"model": GRAMMAR, **options}
    return either(
        record({"sentences": listing(SENTENCE)}, more),
        record({"text": TEXT}, {**more, "lines": {"type": "string", "enum": list(LINES), "description": _LINES}}),
    )


class Given(NamedTuple):
    """A sentence of a request: tokens, constraints on its phrases, and its offsets in a text."""

    tokens: list[Any]
    phrases: list[Phrase]
    offsets: list[tuple[int, int]] | None


class RequestSize:
    """Size of a request so far; beyond a limit of the service on its size or time, adding to it fails."""

    def __init__(self, request: Request) -> None:
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


def read_sentences(request: Request, parser: Parser) -> list[Given]:
    """Return the sentences of a request; raises `RequestTooLarge` if they are too many, or too long in all."""
    size = RequestSize(request)
    found: list[Given] = []
    if "text" in request.body:
        text = request.body["text"]
        size.add(characters=len(text))
        for pieces in parser.tokenise(_read_text(text, size), lines=request.body.get("lines")):
            size.add(words=len(pieces), sentences=1)
            # Words are cached, so their length must be bounded.
            for piece in pieces:
                if len(piece.word) > _LONGEST:
                    place = f"characters {piece.start} to {piece.end}"
                    raise BadRequest(f"the text has a word of more than {_LONGEST} characters: {place}")
            found.append(Given([piece.word for piece in pieces], [], [(piece.start, piece.end) for piece in pieces]))
        return found
    size.add(sentences=len(request.body["sentences"]))
    for sentence in request.body["sentences"]:
        given = sentence if isinstance(sentence, dict) else {"tokens": sentence}
        tokens = [token if isinstance(token, str) else (token[0], token[1]) for token in given["tokens"]]
        size.add(
            characters=sum(len(token if isinstance(token, str) else token[0]) for token in tokens), words=len(tokens)
        )
        phrases = [Phrase(*phrase) for phrase in given.get("phrases", ())]
        phrases += [Phrase(start, end, label, True) for start, end, label in given.get("absent", ())]
        found.append(Given(tokens, phrases, None))
    return found


def _refuse_expired(request: Request, parser: Parser, given: Given) -> Any:  # noqa: ARG001
    request.job.check_time()


def flat_result(parser: Parser, sentence: Sequence[Any]) -> ParseResult:
    """Return the flat tree of a sentence for which no time is left: even to try to parse it would take some."""
    flat = parser.with_options(max_words=0).parse_one(sentence, check_tokens=False)
    late = flat.status == "too long" and len(flat.words) <= parser.max_words
    return replace(flat, status="timed out") if late else flat


def _each(
    call: Callable[[Parser, Given], Any],
    settings: Callable[[Request], dict[str, Any]] = lambda request: {},  # noqa: ARG005
    expired: Callable[[Request, Parser, Given], Any] = _refuse_expired,
) -> Callable[[Request], Plan]:
    """Return the plan that processes every sentence within the remaining time.

    `expired` answers a sentence whose turn comes after that; by default it is an error.
    """

    def plan(request: Request) -> Plan:
        limits = request.service.limits
        parser = request.service.grammar(request.body.get("model")).parser
        given = read_sentences(request, parser)
        asked = settings(request)

        def step(number: int, sentence: Given) -> Any:
            if request.job.expired:
                return expired(request, parser, sentence)
            seconds = min(request.job.remaining, limits.sentence_seconds)
            try:
                return call(parser.with_options(timeout=seconds, **asked), sentence)
            except UsageError as error:
                raise UsageError(f"sentence {number}: {error}") from error

        steps = [partial(step, number, sentence) for number, sentence in enumerate(given, 1)]
        warnings = _warnings(parser, given) if "sentences" in request.body else {}
        return Plan(steps, lambda results: {"results": results, **warnings})

    return plan


def _warnings(parser: Parser, sentences: Sequence[Given]) -> dict[str, list[str]]:
    """Return the warning that sentences look like plain text, if they do."""
    words = ([token for token in given.tokens if isinstance(token, str)] for given in sentences)
    finding = parser.attached_punctuation().finding(words)
    return {"warnings": [f"{finding}; send it as text, which is tokenised"]} if finding else {}


def _parse(parser: Parser, given: Given) -> dict[str, Any]:
    try:
        return _with_offsets(parser.parse_one(given.tokens, phrases=given.phrases, check_tokens=False), given)
    except NoParse:
        words = [token if isinstance(token, str) else token[0] for token in given.tokens]
        return {"words": words, "tree": None, "log_probability": None, "status": "no parse"}


def _parse_expired(request: Request, parser: Parser, given: Given) -> dict[str, Any]:
    if given.phrases:
        request.job.check_time()
    return _with_offsets(flat_result(parser, given.tokens), given)


def _with_offsets(parsed: ParseResult, given: Given) -> dict[str, Any]:
    result = parsed.to_dict()
    if given.offsets is not None:
        result = {"words": result.pop("words"), "offsets": [list(place) for place in given.offsets], **result}
    return result


def _words_of(given: Given, parser: Parser) -> list[str]:
    """Return the words of a sentence whose whole forest is requested; raises `UsageError` if it is too long."""
    if len(given.tokens) > parser.max_words:
        raise UsageError(f"{len(given.tokens)} words are too many; up to {parser.max_words} can be parsed here")
    return [token if isinstance(token, str) else token[0] for token in given.tokens]


def _marginals(least: float, parser: Parser, given: Given) -> dict[str, Any]:
    words = _words_of(given, parser)
    found = parser.posteriors(given.tokens, phrases=given.phrases, least=least)
    return {"words": words, "marginals": [[*item[:3], round(item[3], 6)] for item in found]}


def _k_best(count: int, parser: Parser, given: Given) -> dict[str, Any]:
    words = _words_of(given, parser)
    found = parser.k_best(given.tokens, count, phrases=given.phrases)
    return {
        "words": words,
        "alternatives": [{"tree": str(tree), "log_probability": score} for tree, score in found],
    }


def _sample(count: int, seed: int, parser: Parser, given: Given) -> dict[str, Any]:
    words = _words_of(given, parser)
    drawn = parser.sample(given.tokens, count, random_state=seed, phrases=given.phrases)
    return {"words": words, "trees": [str(tree) for tree in drawn]}


def _with_count(call: Callable[..., Any], *names: str, **defaults: Any) -> Callable[[Request], Plan]:
    """Return the plan of a function whose first arguments are values of the request."""

    def plan(request: Request) -> Plan:
        values = {**defaults, **{name: request.body[name] for name in names if name in request.body}}
        if values.get("count", 0) > request.service.limits.trees:
            raise BadRequest(f"at most {request.service.limits.trees} trees can be requested per sentence")
        return _each(partial(call, *(values[name] for name in names)))(request)

    return plan


def read_trees(request: Request, what: str) -> list[Tree]:
    """Return the bracketed trees in a field of a request; raises `RequestTooLarge` if they are too many or too deep."""
    size = RequestSize(request)
    found: list[Tree] = []
    work = 0
    size.add(characters=len(request.body[what]))
    for tree in parse_trees(request.body[what], source=what):
        found.append(tree)
        size.add(words=len(tree.words()), sentences=1)
        # The size of indented output grows with nodes times levels.
        work += tree.depth() * sum(1 for _ in tree.nodes())
        if work > _MOST_WORK:
            raise RequestTooLarge(f"{what}: the trees have too many nodes and levels; send them in parts")
    return found


def _format(request: Request) -> dict[str, str]:
    texts: list[str] = []
    trees = read_trees(request, "trees")
    heads = fit_heads(trees) if request.body["to"] == "conllu" and trees else None
    for number, tree in enumerate(trees, 1):
        request.job.check_time()
        texts.append(format_as(tree, request.body["to"], number, heads=heads))
    return {"text": "\n".join(texts)}


def _options(request: Request) -> dict[str, Any]:
    count = request.body.get("alternatives", 0)
    if count > request.service.limits.trees:
        raise BadRequest(f"at most {request.service.limits.trees} trees can be requested per sentence, not {count}")
    return {"marginals": request.body.get("marginals", False), "alternatives": count}


COUNT = whole(1, 1000)
ENDPOINTS = [
    Endpoint(
        "POST",
        "/api/parse",
        "Parse sentences or raw text: the output of `sapwood parse --json` for each sentence.",
        RESULTS,
        _each(_parse, _options, _parse_expired),
        _asked({"marginals": FLAG, "alternatives": whole(0, 1000)}),
    ),
    Endpoint(
        "POST",
        "/api/k-best",
        "Return the best trees of each sentence, with their log probabilities.",
        record({"results": listing(record({"words": listing(TEXT), "alternatives": listing(DERIVATION)}))}, WARNINGS),
        _with_count(_k_best, "count", count=10),
        _asked({"count": COUNT}),
    ),
    Endpoint(
        "POST",
        "/api/marginals",
        "Return all phrases and tags in the parses of each sentence, with their posterior probabilities.",
        record({"results": listing(record({"words": listing(TEXT), "marginals": listing(MARGINAL)}))}, WARNINGS),
        _with_count(_marginals, "least", least=0.01),
        _asked({"least": PROBABILITY}),
    ),
    Endpoint(
        "POST",
        "/api/sample",
        "Draw trees from the posterior over the parses of each sentence.",
        record({"results": listing(record({"words": listing(TEXT), "trees": listing(TEXT)}))}, WARNINGS),
        _with_count(_sample, "count", "seed", count=10, seed=0),
        _asked({"count": COUNT, "seed": whole(0, 2**32)}),
    ),
    Endpoint(
        "POST",
        "/api/format",
        "Write trees, given in brackets, in another format.",
        record({"text": TEXT}),
        at_once(_format),
        record({"trees": TEXT, "to": {"type": "string", "enum": list(OUTPUT_FORMATS)}}),
    ),
]
