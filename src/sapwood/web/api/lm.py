"""Language-model endpoints: next words, similar words, and hidden states."""

from __future__ import annotations

from typing import Any

from sapwood.lm.io import latent_part
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.web.endpoints import LANGUAGE_MODEL, Endpoint, Request, at_once
from sapwood.web.schemas import FLAG, NUMBER, PROBABILITY, TEXT, listing, record, whole

WORD = {"type": "string", "minLength": 1, "maxLength": 1000}
TOP = whole(1, 200)


def _latent(request: Request) -> LatentBigram:
    return latent_part(request.service.language_model(request.body.get("model")).model)


def _pairs(found: list[tuple[str, float]], name: str) -> list[dict[str, Any]]:
    return [{"word": word, name: value} for word, value in found]


def _next(request: Request) -> dict[str, Any]:
    model = request.service.language_model(request.body.get("model")).model
    words = request.body["context"]
    found = model.next_words(words, request.body.get("top", 12))
    return {
        "context": words,
        "unknown": [word for word in words if word not in model.vocabulary],
        "next": _pairs(found, "probability"),
    }


def _topics(request: Request) -> dict[str, Any]:
    topics = _latent(request).topics(request.body.get("top", 12), by=request.body.get("by", "lift"))
    return {
        "states": [
            {
                "state": topic.state,
                "probability": topic.probability,
                "words": _pairs(topic.words, "value"),
                "contexts": _pairs(topic.contexts, "value"),
            }
            for topic in topics[: request.body.get("states", 64)]
        ]
    }


def _word(request: Request) -> dict[str, Any]:
    model, word, top = _latent(request), request.body["word"], request.body.get("top", 12)
    if word not in model.vocabulary:
        return {"word": word, "known": False, "count": 0, "profile": [], "nearest": []}
    number = model.vocabulary.index[word]
    row = model.given[number]
    order = sorted(range(len(row)), key=lambda state: -row[state])[:top]
    return {
        "word": word,
        "known": True,
        "count": int(model.vocabulary.counts[number]),
        "profile": [{"state": state, "probability": float(row[state])} for state in order],
        "nearest": _pairs(model.nearest(word, top), "likeness"),
    }


def _row(name: str) -> dict[str, Any]:
    return listing(record({"word": TEXT, name: NUMBER}))


ENDPOINTS = [
    Endpoint(
        "POST",
        "/api/lm/next",
        "Suggest the next word: the output of `sapwood lm next --json`.",
        record({"context": listing(TEXT), "unknown": listing(TEXT), "next": _row("probability")}),
        at_once(_next),
        record({"context": listing(WORD, maxItems=1000)}, {"model": LANGUAGE_MODEL, "top": TOP}),
    ),
    Endpoint(
        "GET",
        "/api/lm/topics",
        "Return the hidden states of a language model, most frequent first, with their words and preceding words.",
        record(
            {
                "states": listing(
                    record({"state": whole(), "probability": NUMBER, "words": _row("value"), "contexts": _row("value")})
                )
            }
        ),
        at_once(_topics),
        record(
            {},
            {
                "model": LANGUAGE_MODEL,
                "top": TOP,
                "states": whole(1, 1000),
                "by": {"type": "string", "enum": ["probability", "lift"]},
            },
        ),
    ),
    Endpoint(
        "POST",
        "/api/lm/word",
        "Return the hidden states that a word leads to, and the words with the most similar states.",
        record(
            {
                "word": TEXT,
                "known": FLAG,
                "count": whole(),
                "profile": listing(record({"state": whole(), "probability": PROBABILITY})),
                "nearest": _row("likeness"),
            }
        ),
        at_once(_word),
        record({"word": WORD}, {"model": LANGUAGE_MODEL, "top": TOP}),
    ),
]
