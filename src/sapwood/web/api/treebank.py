"""Treebank endpoints: trees, search, and comparison with the parses of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from sapwood.evaluate.error_types import Confusion
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.search.searcher import PatternMatch, Searcher
from sapwood.trees.search.unseen import UnseenLabels
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import BadRequest, Message, Natural, Positive, given
from sapwood.web.service import GrammarName
from sapwood.web.treebank import ParseDiff, ServedTreebank

# Trees that select the head rules.
_FOR_HEADS = 1000
_SPECIAL = re.compile(r"([^\w\s])", re.ASCII)
Label: TypeAlias = Annotated[str, Meta(max_length=200)]


class Page(Message):
    """A part of a list: how many of its items, from where."""

    start: Annotated[int, Meta(ge=0, le=10**9)] = 0
    count: Annotated[int, Meta(ge=1, le=100)] = 20


class SearchRequest(Page, kw_only=True):
    """A pattern or, with `words`, words in a row."""

    pattern: Annotated[str, Meta(max_length=2000)]
    words: bool = False


class MistakesRequest(Page):
    """A model, and a confusion whose trees are requested."""

    count: Annotated[int, Meta(ge=1, le=100)] = 10
    model: GrammarName | UnsetType = UNSET
    kind: Literal["phrase", "tag", "missing", "spurious"] | UnsetType = UNSET
    gold: Label | UnsetType = UNSET
    predicted: Label | UnsetType = UNSET


class NumberedTree(Message):
    """A tree of the treebank."""

    number: Positive
    words: list[str]
    tree: str


class TreesAnswer(Message):
    """Trees of the treebank."""

    total: Natural
    trees: list[NumberedTree]


class MatchingTree(NumberedTree):
    """A tree with matches, and the numbers of the nodes that match."""

    nodes: list[Natural]


class SearchAnswer(Message):
    """Matches of a pattern."""

    pattern: str
    matches: Natural
    matching_trees: Natural
    trees: Natural
    results: list[MatchingTree]
    remarks: Annotated[list[str], Meta(description="Labels and words of the pattern that no tree has.")]


class ConfusionCount(Message):
    """How often one label was predicted in place of another."""

    kind: str
    gold: str | None
    predicted: str | None
    count: Positive


class WrongTree(Message):
    """A tree, and its parse, which differs."""

    number: Positive
    words: list[str]
    gold: str
    predicted: str
    f1: float
    mistakes: Natural


class MistakesAnswer(Message):
    """Scores and mistakes of a model, as far as the treebank has been parsed."""

    done: Natural
    total: Natural
    complete: bool
    f1: float | None
    precision: float | None
    recall: float | None
    exact: float | None
    tag_accuracy: float | None
    wrong_trees: Natural
    confusions: list[ConfusionCount]
    worst: list[WrongTree]


def _gold(request: Request[Any]) -> ServedTreebank:
    gold: ServedTreebank | None = request.service.gold
    if gold is None:
        raise BadRequest("there is no treebank; start the server with --treebank FILE")
    return gold


def _trees(request: Request[Page]) -> TreesAnswer:
    gold, start = _gold(request), request.body.start
    numbers = range(len(gold))[start : start + request.body.count]
    trees = ((number, gold.table.tree(number)) for number in numbers)
    return TreesAnswer(len(gold), [NumberedTree(number + 1, tree.words(), str(tree)) for number, tree in trees])


def pattern_of_words(text: str, *, any_case: bool = False) -> str:
    """Return the pattern that finds consecutive words.

    >>> pattern_of_words("the dog")
    '/^the$/ !< __ . (/^dog$/ !< __)'
    """
    case = "i" if any_case else ""
    parts = [f"/^{_SPECIAL.sub(_escaped, word)}$/{case} !< __" for word in text.split()]
    pattern = parts.pop() if parts else ""
    while parts:
        pattern = f"{parts.pop()} . ({pattern})"
    return pattern


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[1]


def _search(request: Request[SearchRequest]) -> SearchAnswer:
    gold, body = _gold(request), request.body
    pattern = pattern_of_words(body.pattern, any_case=True) if body.words else body.pattern
    if not pattern.strip():
        raise BadRequest("the pattern is empty")
    found: list[MatchingTree] = []
    matches = 0
    trees = 0
    # Head rules that fit the treebank take a moment to find, and few patterns need them.
    heads = gold.once(("heads",), lambda: fit_heads(list(gold.trees(_FOR_HEADS)))) if "#" in pattern else None
    searcher = Searcher(pattern, heads=heads, timeout=request.job.remaining)
    for number, nodes in _by_tree(searcher.matches(gold.table)):
        if body.start <= trees < body.start + body.count:
            tree = gold.table.tree(number)
            found.append(MatchingTree(number + 1, tree.words(), str(tree), nodes))
        trees += 1
        matches += len(nodes)
    unseen = UnseenLabels(searcher.pattern)
    if not matches and not body.words:
        unseen.add(gold.table)
    return SearchAnswer(
        pattern=pattern,
        matches=matches,
        matching_trees=trees,
        trees=len(gold),
        results=found,
        remarks=[] if matches or body.words else unseen.messages(),
    )


def _by_tree(matches: Iterator[PatternMatch]) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of each tree with matches, and its matching nodes; a word stands for its tag."""
    number, nodes = -1, list[int]()
    for match in matches:
        if match.tree != number and nodes:
            yield number, nodes
            nodes = []
        number = match.tree
        nodes.append(match.place.node)
    if nodes:
        yield number, nodes


def _comparison(request: Request[MistakesRequest]) -> ParseDiff:
    gold = _gold(request)
    model = request.service.grammar(given(request.body.model))
    return gold.once(("comparison", model.name), lambda: ParseDiff(gold, model.parser, request.service.crew))


def _mistakes(request: Request[MistakesRequest]) -> MistakesAnswer:
    body, comparison = request.body, _comparison(request)
    chosen = None
    if not isinstance(body.kind, UnsetType):
        chosen = Confusion(body.kind, given(body.gold) or None, given(body.predicted) or None)
    if comparison.problem is not None:
        raise comparison.problem
    worst = comparison.worst(chosen)
    done = len(comparison.done) + comparison.skipped
    summary = comparison.summary() if comparison.done else None
    return MistakesAnswer(
        done=done,
        total=comparison.total,
        complete=done >= comparison.total,
        f1=None if summary is None else summary.f1,
        precision=None if summary is None else summary.precision,
        recall=None if summary is None else summary.recall,
        exact=None if summary is None else summary.exact,
        tag_accuracy=None if summary is None else summary.tag_accuracy,
        wrong_trees=len(worst),
        confusions=[ConfusionCount(*confusion, number) for confusion, number in islice(comparison.confusions(), 60)],
        worst=[
            WrongTree(
                one.number + 1,
                one.gold.words(),
                str(one.gold),
                str(one.predicted),
                one.score.f1 if one.score.gold else 100.0,
                one.confusions.total(),
            )
            for one in worst[body.start : body.start + body.count]
        ],
    )


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint("GET", "/api/trees", "Return trees of the treebank.", at_once(_trees), TreesAnswer, Page),
    Endpoint(
        "POST",
        "/api/search",
        "Search the treebank for a pattern (as `sapwood search` does) or, with `words`, for words in a row.",
        at_once(_search),
        SearchAnswer,
        SearchRequest,
    ),
    Endpoint(
        "GET",
        "/api/mistakes",
        "Compare a model's parses with the treebank: scores, confusions, worst trees. Parsing starts with the first "
        "request; `done` of `total` is its progress.",
        at_once(_mistakes),
        MistakesAnswer,
        MistakesRequest,
    ),
]
