"""Evaluation endpoint: the scores of `sapwood eval --json` for trees in a request."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from sapwood.evaluate.bootstrap import FIGURES
from sapwood.evaluate.dev_set import score_results, sentence_of
from sapwood.evaluate.evalb_params import PARAMETER_SETS
from sapwood.evaluate.files import refuse_nothing, score_texts
from sapwood.evaluate.result import EvaluationResult
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree
from sapwood.web.api.parse import flat_result, read_trees
from sapwood.web.endpoints import GRAMMAR, Endpoint, Request
from sapwood.web.scheduler import Plan
from sapwood.web.schemas import FLAG, NUMBER, TEXT, BadRequest, listing, record, whole

# Settings of the intervals, all optional.
_RESAMPLING = ("confidence", "resamples", "seed")
_MOST_RESAMPLES = 20_000
_INTERVAL = listing(NUMBER, minItems=2, maxItems=2)
_REPORT = {
    "type": "object",
    "properties": {
        "parameters": TEXT,
        **dict.fromkeys(("sentences", "scored", "failed", "errors", "skipped", "negative"), whole()),
        **dict.fromkeys(FIGURES, NUMBER),
        "intervals": record(
            {
                "confidence": NUMBER,
                "resamples": whole(),
                "seed": whole(),
                **dict.fromkeys(FIGURES, _INTERVAL),
            }
        ),
        "sentence_scores": listing({"type": "object"}),
        "seconds": NUMBER,
    },
    "required": ["parameters", "sentences", *FIGURES, "intervals", "seconds"],
}


def _evaluate(request: Request) -> Plan:
    body, began = request.body, time.monotonic()
    gold = read_trees(request, "gold")
    params = body.get("params", "default")

    def finish(result: EvaluationResult) -> dict[str, Any]:
        refuse_nothing(result, "gold")
        found = result.report(**{name: body[name] for name in _RESAMPLING if name in body})
        more = {"sentence_scores": result.sentence_dicts()} if body.get("sentences", False) else {}
        return {**found, **more, "seconds": round(time.monotonic() - began, 3)}

    if "predicted" in body:
        for name in ("model", "gold_tags"):
            if name in body:
                raise BadRequest(f"the body has {name!r}, which cannot be used with predicted trees")
        read_trees(request, "predicted")
        score = partial(score_texts, body["gold"], body["predicted"], normaliser=Normaliser(), parameters=params)
        return Plan([score], lambda results: finish(results[0]))
    parser = request.service.grammar(body.get("model")).parser
    clean = [tree for tree in map(parser.grammar.normaliser, gold) if tree is not None]
    return Plan(
        [partial(_parsed, request, parser, tree) for tree in clean],
        lambda results: finish(score_results(clean, results, params)),
    )


def _parsed(request: Request, parser: Parser, gold: Tree) -> ParseResult:
    sentence = sentence_of(gold, gold_tags=request.body.get("gold_tags", False))
    if request.job.expired:
        return flat_result(parser, sentence)
    timed = parser.with_options(timeout=min(request.job.remaining, request.service.limits.sentence_seconds))
    return timed.parse_one(sentence, check_tokens=False)


ENDPOINTS = [
    Endpoint(
        "POST",
        "/api/evaluate",
        "Score predicted trees, or the parses of a model, against gold trees, all in brackets: the output of "
        "`sapwood eval --json` and, with `sentences`, the scores of each sentence.",
        _REPORT,
        _evaluate,
        record(
            {"gold": TEXT},
            {
                "predicted": TEXT,
                "model": GRAMMAR,
                "gold_tags": FLAG,
                "params": {"type": "string", "enum": list(PARAMETER_SETS)},
                "confidence": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "resamples": whole(1, _MOST_RESAMPLES),
                "seed": whole(0, 2**32),
                "sentences": FLAG,
            },
        ),
    )
]
