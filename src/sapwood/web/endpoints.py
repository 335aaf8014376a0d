"""What can be asked for under `/api`: one table, from which requests are checked, answered and described."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sapwood.web.schemas import BadRequest, Schema, check, record
from sapwood.web.service import Grammar, LanguageModel, Service
from sapwood.web.work import Job, Plan

# Where a model can be named: a service has the names of its own there.
GRAMMAR: Schema = {"type": "string", "description": "A name that /api/info lists; the first grammar if none."}
LANGUAGE_MODEL: Schema = {
    "type": "string",
    "description": "A name that /api/info lists; the first of its kind if none.",
}


@dataclass(frozen=True)
class Request:
    """A request whose body, or query, fits its endpoint's schema."""

    service: Service
    body: Mapping[str, Any]
    job: Job


@dataclass(frozen=True)
class Endpoint:
    """One thing that can be asked for.

    Attributes
    ----------
    method, path
        How.
    summary
        What it does, in a sentence.
    response
        What the answer holds.
    plan
        Returns the work for a request.
    body
        What the request holds; of `GET` its query, whose values are strings and integers.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    response: Schema
    plan: Callable[[Request], Plan]
    body: Schema = field(default_factory=lambda: record({}))

    def prepare(self, service: Service, body: Mapping[str, Any], job: Job) -> Plan:
        """Check a request and return its work, whose result is the answer in bytes."""
        check(body, self.body, "the body" if self.method == "POST" else "the query")
        plan = self.plan(Request(service, body, job))
        return Plan(plan.steps, lambda results: to_bytes(plan.finish(results)))

    def read_query(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of a query, numbers where the schema has them."""
        found: dict[str, Any] = {}
        for name, text in query.items():
            kind = self.body["properties"].get(name, {}).get("type")
            if kind == "integer":
                if not (text.isascii() and text.isdigit() and len(text) <= 9):
                    raise BadRequest(f"the query's {name} must be a whole number, not {text[:40]!r}")
                found[name] = int(text)
            else:
                found[name] = text
        return found


def to_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def at_once(answer: Callable[[Request], Any]) -> Callable[[Request], Plan]:
    """Return the plan of work that is one step."""
    return lambda request: Plan([lambda: answer(request)], lambda results: results[0])


def endpoints_of(service: Service) -> list[Endpoint]:
    """Return all endpoints that a service has: of treebanks, language models and logs only if there are any."""
    from sapwood.web import api_evaluate, api_parse, api_states

    info = Endpoint(
        "GET",
        "/api/info",
        "Say what is served: models, treebank, limits.",
        {"type": "object"},
        at_once(lambda request: request.service.describe()),
    )
    found = [info, *api_parse.ENDPOINTS, *api_evaluate.ENDPOINTS, *api_states.ENDPOINTS]
    if service.gold is not None:
        from sapwood.web import api_treebank

        found += api_treebank.ENDPOINTS
    if any(isinstance(model, LanguageModel) for model in service.models):
        from sapwood.web import api_words

        found += api_words.ENDPOINTS
    if service.logs:
        from sapwood.web import api_training

        found += api_training.ENDPOINTS
    names = {
        id(schema): [model.name for model in service.models if isinstance(model, kind)]
        for schema, kind in ((GRAMMAR, Grammar), (LANGUAGE_MODEL, LanguageModel))
    }
    return [replace(endpoint, body=_with_names(endpoint.body, names)) for endpoint in found]


def _with_names(schema: Any, names: Mapping[int, list[str]]) -> Any:
    """Return a schema that has the names of models where they can be named."""
    if isinstance(schema, list):
        return [_with_names(one, names) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    if id(schema) in names:
        return {**schema, "enum": names[id(schema)]}
    return {key: _with_names(value, names) for key, value in schema.items()}
