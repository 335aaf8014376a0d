"""Treebank endpoints: trees, search, and comparison with the parses of a model."""

from __future__ import annotations

import re
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from sapwood.evaluate.error_types import Confusion
from sapwood.treebank.counts import count_matches, having_value
from sapwood.treebank.keys import parse_keys
from sapwood.treebank.rewriting.rewriter import Rewriter
from sapwood.treebank.rewriting.rules import RewriteRules
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.searcher import MatchedNodes, Searcher
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


class PatternRequest(Message, kw_only=True):
    """A pattern or, with `words`, words in a row."""

    pattern: Annotated[str, Meta(max_length=2000)]
    words: bool = False


class SearchRequest(PatternRequest, kw_only=True):
    """A pattern or words; with `key`, only the matches whose key has that value, as in a table of counts."""

    start: Annotated[int, Meta(ge=0, le=10**9)] = 0
    count: Annotated[int, Meta(ge=1, le=100)] = 20
    key: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET
    value: Annotated[str, Meta(max_length=10_000)] | UnsetType = UNSET


class CountRequest(PatternRequest, kw_only=True):
    """A pattern or words, one or two keys to count by, and the number of rows."""

    keys: Annotated[list[Annotated[str, Meta(max_length=500)]], Meta(min_length=1, max_length=2)]
    count: Annotated[int, Meta(ge=1, le=1000)] = 100


class RewriteRequest(Page, kw_only=True):
    """Rules, and the part of the changed trees to return."""

    rules: Annotated[str, Meta(max_length=20_000)]
    allow_word_changes: bool = False


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


class CountRow(Message):
    """The values of the keys, how often they occur, as a share and per thousand words."""

    values: list[str]
    count: Positive
    share: float
    per_thousand: float


class CountAnswer(Message):
    """Matches by keys, the most frequent first."""

    pattern: str
    keys: list[str]
    matches: Natural
    values: Annotated[int, Meta(ge=0, description="Number of rows in all.")]
    rows: list[CountRow]


class RewrittenTree(Message):
    """A tree that rules change, before and after."""

    number: Positive
    words_before: list[str]
    words: list[str]
    before: str
    after: str


class RuleUse(Message):
    """How often a rule was applied; `line` is where it begins."""

    line: Positive
    rewrites: Natural


class RewriteAnswer(Message):
    """What rules would change in the treebank."""

    changed: Natural
    trees: Natural
    rules: list[RuleUse]
    results: list[RewrittenTree]


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
    found = [NumberedTree(number + 1, tree.words(), gold.table.format_tree(tree)) for number, tree in trees]
    return TreesAnswer(len(gold), found)


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


def _searcher(request: Request[Any], by_heads: bool = False) -> Searcher:
    """Return the searcher of a request with a pattern."""
    gold, body = _gold(request), request.body
    pattern = pattern_of_words(body.pattern, any_case=True) if body.words else body.pattern
    if not pattern.strip():
        raise BadRequest("the pattern is empty")
    heads = _heads(gold) if by_heads or "#" in pattern else None
    return Searcher(pattern, heads=heads, timeout=request.job.remaining)


def _heads(gold: ServedTreebank) -> HeadRules:
    """Return head rules that fit the treebank: finding them takes a moment, and few patterns need them."""
    heads: HeadRules = gold.once(("heads",), lambda: fit_heads(list(gold.trees(_FOR_HEADS))))
    return heads


def _needs_heads(keys: list[str]) -> bool:
    return any(key.startswith("head") for key in keys)


def _search(request: Request[SearchRequest]) -> SearchAnswer:
    gold, body = _gold(request), request.body
    keys = [] if isinstance(body.key, UnsetType) else [body.key]
    searcher = _searcher(request, _needs_heads(keys))
    expressions = parse_keys(keys, searcher.pattern.names)
    found: list[MatchingTree] = []
    matches = trees = 0
    for block in searcher.blocks(gold.table):
        if expressions:
            block = having_value(searcher, gold.table, block, expressions[0], given(body.value) or "", gold.name)
        numbers, firsts = np.unique(gold.table.trees_of_nodes[block.nodes], return_index=True)
        bounds = [*firsts.tolist(), len(block.nodes)]
        for place in range(max(body.start - trees, 0), min(body.start + body.count - trees, len(numbers))):
            number, chosen = int(numbers[place]), slice(*bounds[place : place + 2])
            part = MatchedNodes(block.nodes[chosen], block.names[chosen])
            nodes = [match.place.node for match in searcher.described(gold.table, part)]
            tree = gold.table.tree(number)
            found.append(MatchingTree(number + 1, tree.words(), gold.table.format_tree(tree), nodes))
        trees += len(numbers)
        matches += len(block.nodes)
    unseen = UnseenLabels(searcher.pattern)
    if not matches and not body.words:
        unseen.add(gold.table)
    return SearchAnswer(
        pattern=searcher.pattern.text,
        matches=matches,
        matching_trees=trees,
        trees=len(gold),
        results=found,
        remarks=[] if matches or body.words else unseen.messages(),
    )


def _counts(request: Request[CountRequest]) -> CountAnswer:
    gold, body = _gold(request), request.body
    searcher = _searcher(request, _needs_heads(body.keys))
    keys = parse_keys(body.keys, searcher.pattern.names)
    counted = count_matches(searcher, [(gold.name, gold.table)], keys)
    rows = counted.table(body.count).rows
    size = len(keys)
    return CountAnswer(
        pattern=searcher.pattern.text,
        keys=body.keys,
        matches=counted.total,
        values=len(counted.counts),
        rows=[CountRow(row[:size], *row[size : size + 3]) for row in rows],
    )


def _rewritten(request: Request[RewriteRequest]) -> RewriteAnswer:
    gold, body = _gold(request), request.body
    rules = RewriteRules.parse(body.rules)
    heads = _heads(gold) if any("#" in rule.pattern.text for rule in rules.rules) else None
    rewriter = Rewriter(rules, heads=heads, allow_word_changes=body.allow_word_changes, timeout=request.job.remaining)
    changed = 0
    uses = np.zeros(len(rules.rules), dtype=np.int64)
    results: list[RewrittenTree] = []
    for part in rewriter.tables(gold.table, source=gold.name):
        uses += part.uses
        touched = np.flatnonzero(part.rewrites)
        for number in touched[max(body.start - changed, 0) : max(body.start + body.count - changed, 0)].tolist():
            before, after = part.before.tree(number), part.after.tree(number)
            place = part.before.first + number + 1
            results.append(RewrittenTree(place, before.words(), after.words(), str(before), str(after)))
        changed += len(touched)
    return RewriteAnswer(
        changed=changed,
        trees=len(gold),
        rules=[RuleUse(rule.line, count) for rule, count in zip(rules.rules, uses.tolist(), strict=True)],
        results=results,
    )


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
        "POST",
        "/api/counts",
        "Count the matches of a pattern in the treebank by keys (as `sapwood search --count-by` does).",
        at_once(_counts),
        CountAnswer,
        CountRequest,
    ),
    Endpoint(
        "POST",
        "/api/rewrite",
        "Return the trees that rules would change (as `sapwood rewrite --check` does); the treebank stays as it is.",
        at_once(_rewritten),
        RewriteAnswer,
        RewriteRequest,
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
