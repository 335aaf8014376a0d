"""Treebank endpoints: trees, search, and comparison with the parses of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sapwood.evaluate.error_types import Confusion
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.search.searcher import PatternMatch, Searcher
from sapwood.trees.search.unseen import UnseenLabels
from sapwood.web.endpoints import GRAMMAR, Endpoint, Request, at_once
from sapwood.web.schemas import (
    FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    BadRequest,
    listing,
    record,
    whole,
)
from sapwood.web.treebank import ParseDiff, ServedTreebank

# Trees that select the head rules.
_FOR_HEADS = 1000
_SPECIAL = re.compile(r"([^\w\s])", re.ASCII)
LABEL = {"type": "string", "maxLength": 200}
SOME = {"start": whole(0, 10**9), "count": whole(1, 100)}
TREE = record({"number": whole(1), "words": listing(TEXT), "tree": TEXT})
FOUND = record({**TREE["properties"], "nodes": listing(whole())})
FIGURES = ("f1", "precision", "recall", "exact", "tag_accuracy")


def _gold(request: Request) -> ServedTreebank:
    gold = request.service.gold
    if gold is None:
        raise BadRequest("there is no treebank; start the server with --treebank FILE")
    return gold


def _plain(gold: ServedTreebank, number: int) -> dict[str, Any]:
    tree = gold.table.tree(number)
    return {"number": number + 1, "words": tree.words(), "tree": str(tree)}


def _trees(request: Request) -> dict[str, Any]:
    gold = _gold(request)
    start, count = request.body.get("start", 0), request.body.get("count", 20)
    numbers = range(len(gold))[start : start + count]
    return {"total": len(gold), "trees": [_plain(gold, number) for number in numbers]}


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


def _search(request: Request) -> dict[str, Any]:
    gold, body = _gold(request), request.body
    pattern = body["pattern"]
    if body.get("words", False):
        pattern = pattern_of_words(pattern, any_case=True)
    if not pattern.strip():
        raise BadRequest("the pattern is empty")
    start, count = body.get("start", 0), body.get("count", 20)
    found: list[tuple[int, list[int]]] = []
    matches = 0
    trees = 0
    # Head rules that fit the treebank take a moment to find, and few patterns need them.
    heads = gold.once("heads", lambda: fit_heads(list(gold.trees(_FOR_HEADS)))) if "#" in pattern else None
    searcher = Searcher(pattern, heads=heads, timeout=request.job.remaining)
    for number, nodes in _by_tree(searcher.matches(gold.table)):
        if start <= trees < start + count:
            found.append((number, nodes))
        trees += 1
        matches += len(nodes)
    unseen = UnseenLabels(searcher.pattern)
    if not matches and not body.get("words", False):
        unseen.add(gold.table)
    return {
        "pattern": pattern,
        "matches": matches,
        "matching_trees": trees,
        "trees": len(gold),
        "results": [{**_plain(gold, number), "nodes": nodes} for number, nodes in found],
        "remarks": [] if matches or body.get("words", False) else unseen.messages(),
    }


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


def _comparison(request: Request) -> ParseDiff:
    gold = _gold(request)
    model = request.service.grammar(request.body.get("model"))
    return gold.once(("comparison", model.name), lambda: ParseDiff(gold, model.parser, request.service.crew))


def _mistakes(request: Request) -> dict[str, Any]:
    body, comparison = request.body, _comparison(request)
    chosen = None
    if "kind" in body:
        chosen = Confusion(body["kind"], body.get("gold") or None, body.get("predicted") or None)
    if comparison.problem is not None:
        raise comparison.problem
    start, count = body.get("start", 0), body.get("count", 10)
    worst = comparison.worst(chosen)
    summary = comparison.summary()
    done = len(comparison.done) + comparison.skipped
    return {
        "done": done,
        "total": comparison.total,
        "complete": done >= comparison.total,
        **{name: getattr(summary, name) if comparison.done else None for name in FIGURES},
        "wrong_trees": len(worst),
        "confusions": [
            {**confusion._asdict(), "count": number} for confusion, number in islice(comparison.confusions(), 60)
        ],
        "worst": [
            {
                "number": one.number + 1,
                "words": one.gold.words(),
                "gold": str(one.gold),
                "predicted": str(one.predicted),
                "f1": one.score.f1 if one.score.gold else 100.0,
                "mistakes": one.confusions.total(),
            }
            for one in worst[start : start + count]
        ],
    }


CONFUSION = record({"kind": TEXT, "gold": MAYBE_TEXT, "predicted": MAYBE_TEXT, "count": whole(1)})
WRONG = record(
    {"number": whole(1), "words": listing(TEXT), "gold": TEXT, "predicted": TEXT, "f1": NUMBER, "mistakes": whole()}
)
ENDPOINTS = [
    Endpoint(
        "GET",
        "/api/trees",
        "Return trees of the treebank.",
        record({"total": whole(), "trees": listing(TREE)}),
        at_once(_trees),
        record({}, SOME),
    ),
    Endpoint(
        "POST",
        "/api/search",
        "Search the treebank for a pattern (as `sapwood search` does) or, with `words`, for words in a row.",
        record(
            {
                "pattern": TEXT,
                "matches": whole(),
                "matching_trees": whole(),
                "trees": whole(),
                "results": listing(FOUND),
                "remarks": {**listing(TEXT), "description": "Labels and words of the pattern that no tree has."},
            }
        ),
        at_once(_search),
        record({"pattern": {"type": "string", "maxLength": 2000}}, {"words": FLAG, **SOME}),
    ),
    Endpoint(
        "GET",
        "/api/mistakes",
        "Compare a model's parses with the treebank: scores, confusions, worst trees. Parsing starts with the first "
        "request; `done` of `total` is its progress.",
        record(
            {
                "done": whole(),
                "total": whole(),
                "complete": FLAG,
                **dict.fromkeys(FIGURES, MAYBE_NUMBER),
                "wrong_trees": whole(),
                "confusions": listing(CONFUSION),
                "worst": listing(WRONG),
            }
        ),
        at_once(_mistakes),
        record(
            {},
            {
                "model": GRAMMAR,
                "kind": {"type": "string", "enum": ["phrase", "tag", "missing", "spurious"]},
                "gold": LABEL,
                "predicted": LABEL,
                **SOME,
            },
        ),
    ),
]
