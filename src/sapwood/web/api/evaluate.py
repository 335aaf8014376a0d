"""Evaluation endpoint: the scores of `sapwood eval --json` for trees in a request."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, defstruct

from sapwood.evaluate.bootstrap import FIGURES
from sapwood.evaluate.dev_set import score_results, sentence_of
from sapwood.evaluate.evalb_params import PARAMETER_SETS
from sapwood.evaluate.files import refuse_nothing, score_texts
from sapwood.evaluate.result import EvaluationResult
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree
from sapwood.web.api.parse import flat_result
from sapwood.web.api.sentences import read_trees
from sapwood.web.endpoints import Endpoint, Request
from sapwood.web.messages import Message, Natural, Schema, Seed, given
from sapwood.web.scheduler import Plan
from sapwood.web.service import GrammarName

_MOST_RESAMPLES = 20_000
ParameterSet: TypeAlias = Literal[tuple(PARAMETER_SETS)]  # type: ignore[valid-type]


class EvaluateRequest(Message):
    """Gold trees in brackets, and trees to score; without these, the gold sentences are parsed."""

    gold: str
    predicted: str | UnsetType = UNSET
    model: GrammarName | UnsetType = UNSET
    gold_tags: bool | UnsetType = UNSET
    params: ParameterSet = "default"
    confidence: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Meta(ge=1, le=_MOST_RESAMPLES)] = 10_000
    seed: Seed = 0
    sentences: bool = False
    also: ClassVar[Schema] = {
        "not": {"anyOf": [{"required": ["predicted", other]} for other in ("model", "gold_tags")]}
    }

    def __post_init__(self) -> None:
        for name in ("model", "gold_tags"):
            if self.predicted is not UNSET and getattr(self, name) is not UNSET:
                raise ValueError(f"{name} cannot be used with predicted trees")


# Fields by the names of the figures, some of which are only for trees with gaps; the report has further ones.
_GAP_FIGURES = tuple(name for name in FIGURES if name.startswith("disc_"))
_ALWAYS = tuple(name for name in FIGURES if name not in _GAP_FIGURES)
Intervals = defstruct(
    "Intervals",
    [
        ("confidence", float),
        ("resamples", int),
        ("seed", int),
        *((name, tuple[float, float]) for name in _ALWAYS),
        *((name, tuple[float, float] | UnsetType, UNSET) for name in _GAP_FIGURES),
    ],
    forbid_unknown_fields=True,
)
Scores = defstruct(
    "Scores",
    [
        ("parameters", str),
        ("seconds", float),
        ("intervals", Intervals),
        *((name, Natural) for name in ("sentences", "scored", "failed", "errors", "skipped", "negative")),
        *((name, float) for name in _ALWAYS),
        *((name, float | UnsetType, UNSET) for name in _GAP_FIGURES),
        ("sentence_scores", list[dict[str, Any]] | UnsetType, UNSET),
    ],
)


def _evaluate(request: Request[EvaluateRequest]) -> Plan:
    body, began = request.body, time.monotonic()
    gold = read_trees(request, body.gold, "gold")

    def finish(result: EvaluationResult) -> dict[str, Any]:
        refuse_nothing(result, "gold")
        found = result.report(confidence=body.confidence, resamples=body.resamples, seed=body.seed)
        more = {"sentence_scores": result.sentence_dicts()} if body.sentences else {}
        return {**found, **more, "seconds": round(time.monotonic() - began, 3)}

    if isinstance(body.predicted, str):
        read_trees(request, body.predicted, "predicted")
        score = partial(score_texts, body.gold, body.predicted, normaliser=Normaliser(), parameters=body.params)
        return Plan([score], lambda results: finish(results[0]))
    parser = request.service.grammar(given(body.model)).parser
    clean = [tree for tree in map(parser.grammar.normaliser, gold) if tree is not None]
    return Plan(
        [partial(_parsed, request, parser, tree) for tree in clean],
        lambda results: finish(score_results(clean, results, body.params)),
    )


def _parsed(request: Request[EvaluateRequest], parser: Parser, gold: Tree) -> ParseResult:
    sentence = sentence_of(gold, gold_tags=given(request.body.gold_tags) or False)
    if request.job.expired:
        result = flat_result(parser, sentence)
    else:
        timed = parser.with_options(timeout=min(request.job.remaining, request.service.limits.sentence_seconds))
        result = timed.parse_one(sentence, check_tokens=False)
    request.service.metrics.count_sentence(result.status)
    return result


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint(
        "POST",
        "/api/evaluate",
        "Score predicted trees, or the parses of a model, against gold trees, all in brackets: the output of "
        "`sapwood eval --json` and, with `sentences`, the scores of each sentence.",
        _evaluate,
        Scores,
        EvaluateRequest,
    )
]
