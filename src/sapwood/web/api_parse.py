"""Parsing: trees, alternatives, marginals, samples, formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from sapwood.errors import NoParse, UsageError
from sapwood.inference.constraints import Phrase
from sapwood.inference.parser import Parser
from sapwood.trees.brackets import parse_trees
from sapwood.trees.formats import OUTPUT_FORMATS, format_as
from sapwood.trees.tree import Tree
from sapwood.web.endpoints import GRAMMAR, Endpoint, Request, at_once
from sapwood.web.schemas import (
    FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    PROBABILITY,
    TEXT,
    BadRequest,
    either,
    listing,
    record,
    row,
    whole,
)
from sapwood.web.work import Plan

# Nobody has more; what a service allows is checked where it is known.
_WORDS = 2000
# Nodes of trees times their levels, in one request.
_MOST_WORK = 10_000_000
_LONGEST = 1000
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
                "loosened",
                "coarse",
                "fallback",
                "too long",
                "out of memory",
                "timed out",
                "empty",
                "no parse",
            ],
            "description": "As `sapwood parse` has it; `no parse`: no tree has the phrases that it must have.",
        },
    },
    {
        "offsets": listing(listing(whole(), minItems=2, maxItems=2)),
        "marginals": listing(MARGINAL),
        "alternatives": listing(DERIVATION),
    },
)
RESULTS = record({"results": listing(RESULT)})


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request about sentences, or about plain text, with further options."""
    more = {"model": GRAMMAR, **options}
    return either(
        record({"sentences": listing(SENTENCE)}, more),
        record({"text": TEXT}, more),
    )


class Given(NamedTuple):
    """A sentence of a request: tokens, what must hold of its phrases, and where it stands in a text."""

    tokens: list[Any]
    phrases: list[Phrase]
    offsets: list[tuple[int, int]] | None


def read_sentences(request: Request, parser: Parser) -> list[Given]:
    """Return the sentences of a request; raises `BadRequest` if there are too many."""
    most = request.service.limits.sentences
    found: list[Given] = []
    if "text" in request.body:
        for pieces in parser.tokenise(request.body["text"]):
            # What is known of words is kept at hand: they must not be of any length.
            for piece in pieces:
                if len(piece.word) > _LONGEST:
                    place = f"characters {piece.start} to {piece.end}"
                    raise BadRequest(f"the text has a word of more than {_LONGEST} characters: {place}")
            found.append(Given([piece.word for piece in pieces], [], [(piece.start, piece.end) for piece in pieces]))
            if len(found) > most:
                raise BadRequest(f"the text has more than {most} sentences; send it in parts")
        return found
    if len(request.body["sentences"]) > most:
        raise BadRequest(f"a request may have up to {most} sentences, not {len(request.body['sentences'])}")
    for sentence in request.body["sentences"]:
        given = sentence if isinstance(sentence, dict) else {"tokens": sentence}
        tokens = [token if isinstance(token, str) else (token[0], token[1]) for token in given["tokens"]]
        phrases = [Phrase(*phrase) for phrase in given.get("phrases", ())]
        phrases += [Phrase(start, end, label, True) for start, end, label in given.get("absent", ())]
        found.append(Given(tokens, phrases, None))
    return found


def _each(
    call: Callable[[Parser, Given], Any],
    settings: Callable[[Request], dict[str, Any]] = lambda request: {},  # noqa: ARG005
) -> Callable[[Request], Plan]:
    """Return the plan that does something with every sentence, each in what time is left."""

    def plan(request: Request) -> Plan:
        limits = request.service.limits
        parser = request.service.grammar(request.body.get("model")).parser
        given = read_sentences(request, parser)
        asked = settings(request)

        def step(number: int, sentence: Given) -> Any:
            seconds = min(request.job.remaining, limits.sentence_seconds)
            try:
                return call(parser.adapted(timeout=seconds, **asked), sentence)
            except UsageError as error:
                raise UsageError(f"sentence {number}: {error}") from error

        steps = [partial(step, number, sentence) for number, sentence in enumerate(given, 1)]
        return Plan(steps, lambda results: {"results": results})

    return plan


def _parse(parser: Parser, given: Given) -> dict[str, Any]:
    try:
        result = parser.parse_one(given.tokens, phrases=given.phrases).to_dict()
    except NoParse:
        words = [token if isinstance(token, str) else token[0] for token in given.tokens]
        return {"words": words, "tree": None, "log_probability": None, "status": "no parse"}
    if given.offsets is not None:
        result = {"words": result.pop("words"), "offsets": [list(place) for place in given.offsets], **result}
    return result


def _words_of(given: Given, parser: Parser) -> list[str]:
    """Return the words of a sentence that all parses are asked of, so it must not be too long."""
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
    """Return the plan of a call that takes values of the request before parser and sentence."""

    def plan(request: Request) -> Plan:
        values = {**defaults, **{name: request.body[name] for name in names if name in request.body}}
        if values.get("count", 0) > request.service.limits.trees:
            raise BadRequest(f"up to {request.service.limits.trees} trees of a sentence can be asked for")
        return _each(partial(call, *(values[name] for name in names)))(request)

    return plan


def read_trees(request: Request, what: str) -> list[Tree]:
    """Return the trees, in brackets, of a member of a request; raises `BadRequest` if they are too many or too deep."""
    most = request.service.limits.sentences
    found: list[Tree] = []
    work = 0
    for tree in parse_trees(request.body[what], source=what):
        found.append(tree)
        if len(found) > most:
            raise BadRequest(f"a request may have up to {most} trees; send them in parts")
        # What is indented by levels takes as much as both together.
        work += tree.depth() * sum(1 for _ in tree.nodes())
        if work > _MOST_WORK:
            raise BadRequest(f"{what}: trees of so many nodes and levels are too large; send them in parts, or flatter")
    return found


def _format(request: Request) -> dict[str, str]:
    trees = read_trees(request, "trees")
    return {"text": "\n".join(format_as(tree, request.body["to"], n) for n, tree in enumerate(trees, 1))}


def _options(request: Request) -> dict[str, Any]:
    count = request.body.get("alternatives", 0)
    if count > request.service.limits.trees:
        raise BadRequest(f"up to {request.service.limits.trees} trees of a sentence can be asked for, not {count}")
    return {"marginals": request.body.get("marginals", False), "alternatives": count}


COUNT = whole(1, 1000)
ENDPOINTS = [
    Endpoint(
        "POST",
        "/api/parse",
        "Parse sentences or plain text: what `sapwood parse --json` prints, for each sentence.",
        RESULTS,
        _each(_parse, _options),
        _asked({"marginals": FLAG, "alternatives": whole(0, 1000)}),
    ),
    Endpoint(
        "POST",
        "/api/k-best",
        "Return the best trees of each sentence, with their log probabilities.",
        record({"results": listing(record({"words": listing(TEXT), "alternatives": listing(DERIVATION)}))}),
        _with_count(_k_best, "count", count=10),
        _asked({"count": COUNT}),
    ),
    Endpoint(
        "POST",
        "/api/marginals",
        "Return all phrases and tags that the parses of each sentence have, with their posterior probabilities.",
        record({"results": listing(record({"words": listing(TEXT), "marginals": listing(MARGINAL)}))}),
        _with_count(_marginals, "least", least=0.01),
        _asked({"least": PROBABILITY}),
    ),
    Endpoint(
        "POST",
        "/api/sample",
        "Draw trees from the posterior over the parses of each sentence.",
        record({"results": listing(record({"words": listing(TEXT), "trees": listing(TEXT)}))}),
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
