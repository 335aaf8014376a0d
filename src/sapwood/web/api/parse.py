"""Parsing endpoints: trees, alternatives, marginals, samples, formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, UnsetType

from sapwood.errors import NoParse, UsageError
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult, Status
from sapwood.trees.formats.registry import OUTPUT_FORMATS, format_as
from sapwood.trees.heads.learned import fit_heads
from sapwood.web.api.sentences import GivenSentence, SentencesRequest, read_sentences, read_trees, words_of
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import BadRequest, Message, Natural, Probability, Seed, given
from sapwood.web.scheduler import Plan
from sapwood.web.service import GrammarName

Count: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
R = TypeVar("R", bound=SentencesRequest)
OutputFormat: TypeAlias = Literal[OUTPUT_FORMATS]  # type: ignore[valid-type]


Alternatives: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]


class ParsingRequest(SentencesRequest):
    """Sentences to parse."""

    marginals: bool = False
    alternatives: Alternatives = 0


class ParsingOptions(Message):
    """How to parse the lines of a stream."""

    model: GrammarName | UnsetType = UNSET
    marginals: bool = False
    alternatives: Alternatives = 0


class KBestRequest(SentencesRequest):
    """Sentences whose best trees are requested."""

    count: Count = 10


class MarginalsRequest(SentencesRequest):
    """Sentences whose phrases are requested: those of at least this probability."""

    least: Probability = 0.01


class SampleRequest(SentencesRequest):
    """Sentences whose trees are sampled."""

    count: Count = 10
    seed: Seed = 0


class FormatRequest(Message):
    """Trees in brackets, and another format."""

    trees: str
    to: OutputFormat


Marginals: TypeAlias = Annotated[
    list[tuple[int, int, str, float]], Meta(description="Start, end, label and probability of each phrase.")
]
Warnings: TypeAlias = Annotated[
    list[str], Meta(description="Remarks on the sentences, such as words that are not tokens.")
]
NumberOrNull: TypeAlias = float | None
Gaps: TypeAlias = Annotated[bool | UnsetType, Meta(description="True for a tree with gaps, which is in discbracket.")]


class ScoredTree(Message):
    """A tree, and the logarithm of its probability."""

    tree: str
    log_probability: float
    gaps: Gaps = UNSET


class ParsedSentence(Message, kw_only=True):
    """The parse of a sentence, as `sapwood parse --json` prints it."""

    words: list[str]
    offsets: list[tuple[Natural, Natural]] | UnsetType = UNSET
    tree: str | None
    gaps: Gaps = UNSET
    log_probability: NumberOrNull
    status: Annotated[
        Literal[Status, "no parse"],
        Meta(description="As in `sapwood parse`; `no parse`: no tree satisfies the constraints."),
    ]
    marginals: Marginals | UnsetType = UNSET
    alternatives: list[ScoredTree] | UnsetType = UNSET


class ParseAnswer(Message):
    """A parse of each sentence."""

    results: list[ParsedSentence]
    warnings: Warnings | UnsetType = UNSET


class BestTrees(Message):
    """The best trees of a sentence."""

    words: list[str]
    alternatives: list[ScoredTree]


class KBestAnswer(Message):
    """The best trees of each sentence."""

    results: list[BestTrees]
    warnings: Warnings | UnsetType = UNSET


class SentenceMarginals(Message):
    """The phrases of a sentence."""

    words: list[str]
    marginals: Marginals


class MarginalsAnswer(Message):
    """The phrases of each sentence."""

    results: list[SentenceMarginals]
    warnings: Warnings | UnsetType = UNSET


class SampledTrees(Message):
    """Trees of a sentence."""

    words: list[str]
    trees: list[str]
    gaps: Annotated[list[bool] | UnsetType, Meta(description="Which trees have gaps and are in discbracket.")] = UNSET


class SampleAnswer(Message):
    """Trees of each sentence."""

    results: list[SampledTrees]
    warnings: Warnings | UnsetType = UNSET


class FormatAnswer(Message):
    """Trees in the format."""

    text: str


def flat_result(parser: Parser, sentence: Sequence[Any]) -> ParseResult:
    """Return the flat tree of a sentence for which no time is left: even to try to parse it would take some."""
    flat = parser.with_options(max_words=0).parse_one(sentence, check_tokens=False)
    late = flat.status == "too long" and len(flat.words) <= parser.max_words
    return replace(flat, status="timed out") if late else flat


def _refuse_expired(request: Request[Any], parser: Parser, sentence: GivenSentence) -> Any:  # noqa: ARG001
    request.job.check_time()


def _each(
    answer: type,
    call: Callable[[Request[R], Parser, GivenSentence], Any],
    trees: Callable[[R], int] = lambda body: 0,  # noqa: ARG005
    expired: Callable[[Request[R], Parser, GivenSentence], Any] = _refuse_expired,
) -> Callable[[Request[R]], Plan]:
    """Return the plan that processes every sentence within the remaining time.

    Parameters
    ----------
    answer
        Type of the answer.
    call
        Returns the result of a sentence.
    trees
        Number of trees per sentence that a request asks for.
    expired
        Answers a sentence whose turn comes after the time limit; by default with an error.
    """

    def plan(request: Request[R]) -> Plan:
        limits, body = request.service.limits, request.body
        if (count := trees(body)) > limits.trees:
            raise BadRequest(f"at most {limits.trees} trees can be requested per sentence, not {count}")
        parser = request.service.grammar(given(body.model)).parser
        sentences = read_sentences(request, parser)

        def step(number: int, sentence: GivenSentence) -> Any:
            seconds = min(request.job.remaining, limits.sentence_seconds)
            try:
                if request.job.expired:
                    result = expired(request, parser, sentence)
                else:
                    result = call(request, parser.with_options(timeout=seconds), sentence)
            except UsageError as error:
                raise UsageError(f"sentence {number}: {error}") from error
            request.service.metrics.count_sentence(getattr(result, "status", None))
            return result

        steps = [partial(step, number, sentence) for number, sentence in enumerate(sentences, 1)]
        warnings = {} if body.sentences is UNSET else _warnings(parser, sentences)
        return Plan(steps, lambda results: answer(results=results, **warnings))

    return plan


def _warnings(parser: Parser, sentences: Sequence[GivenSentence]) -> dict[str, list[str]]:
    """Return the warning that sentences look like plain text, if they do."""
    words = ([token for token in one.tokens if isinstance(token, str)] for one in sentences)
    finding = parser.attached_punctuation().finding(words)
    return {"warnings": [f"{finding}; send it as text, which is tokenised"]} if finding else {}


def _parse(request: Request[ParsingRequest], parser: Parser, sentence: GivenSentence) -> ParsedSentence:
    options = {"marginals": request.body.marginals, "alternatives": request.body.alternatives}
    try:
        parsed = parser.with_options(**options).parse_one(sentence.tokens, phrases=sentence.phrases, check_tokens=False)
    except NoParse:
        return ParsedSentence(words=words_of(sentence), tree=None, log_probability=None, status="no parse")
    return _parsed(parsed, sentence)


def _parse_expired(request: Request[ParsingRequest], parser: Parser, sentence: GivenSentence) -> ParsedSentence:
    if sentence.phrases:
        request.job.check_time()
    return _parsed(flat_result(parser, sentence.tokens), sentence)


def _parsed(parsed: ParseResult, sentence: GivenSentence) -> ParsedSentence:
    offsets = UNSET if sentence.offsets is None else sentence.offsets
    return ParsedSentence(**parsed.to_dict(), offsets=offsets)


def _words_of_forest(sentence: GivenSentence, parser: Parser) -> list[str]:
    """Return the words of a sentence whose whole forest is requested; raises `UsageError` if it is too long."""
    if len(sentence.tokens) > parser.max_words:
        raise UsageError(f"{len(sentence.tokens)} words are too many; up to {parser.max_words} can be parsed here")
    return words_of(sentence)


def _marginals(request: Request[MarginalsRequest], parser: Parser, sentence: GivenSentence) -> SentenceMarginals:
    words = _words_of_forest(sentence, parser)
    found = parser.posteriors(sentence.tokens, phrases=sentence.phrases, least=request.body.least)
    return SentenceMarginals(words, [(one.start, one.end, one.label, round(one.probability, 6)) for one in found])


def _k_best(request: Request[KBestRequest], parser: Parser, sentence: GivenSentence) -> BestTrees:
    words = _words_of_forest(sentence, parser)
    found = parser.k_best(sentence.tokens, request.body.count, phrases=sentence.phrases)
    return BestTrees(words, [ScoredTree(str(tree), score, tree.has_gaps or UNSET) for tree, score in found])


def _sample(request: Request[SampleRequest], parser: Parser, sentence: GivenSentence) -> SampledTrees:
    words, body = _words_of_forest(sentence, parser), request.body
    drawn = parser.sample(sentence.tokens, body.count, random_state=body.seed, phrases=sentence.phrases)
    gaps = [tree.has_gaps for tree in drawn]
    return SampledTrees(words, [str(tree) for tree in drawn], gaps if any(gaps) else UNSET)


def _format(request: Request[FormatRequest]) -> FormatAnswer:
    texts: list[str] = []
    trees = read_trees(request, request.body.trees, "trees")
    heads = fit_heads(trees) if request.body.to == "conllu" and trees else None
    for number, tree in enumerate(trees, 1):
        request.job.check_time()
        texts.append(format_as(tree, request.body.to, number, heads=heads))
    return FormatAnswer("\n".join(texts))


plan_parses = _each(ParseAnswer, _parse, lambda body: body.alternatives, _parse_expired)
ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint(
        "POST",
        "/api/parse",
        "Parse sentences or raw text: the output of `sapwood parse --json` for each sentence.",
        plan_parses,
        ParseAnswer,
        ParsingRequest,
    ),
    Endpoint(
        "POST",
        "/api/k-best",
        "Return the best trees of each sentence, with their log probabilities.",
        _each(KBestAnswer, _k_best, lambda body: body.count),
        KBestAnswer,
        KBestRequest,
    ),
    Endpoint(
        "POST",
        "/api/marginals",
        "Return all phrases and tags in the parses of each sentence, with their posterior probabilities.",
        _each(MarginalsAnswer, _marginals),
        MarginalsAnswer,
        MarginalsRequest,
    ),
    Endpoint(
        "POST",
        "/api/sample",
        "Draw trees from the posterior over the parses of each sentence.",
        _each(SampleAnswer, _sample, lambda body: body.count),
        SampleAnswer,
        SampleRequest,
    ),
    Endpoint(
        "POST", "/api/format", "Write trees, given in brackets, in another format.",
        at_once(_format), FormatAnswer, FormatRequest,
    ),
]  # fmt: skip
