"""Endpoints under `/api`: one table, from which requests are validated, answered and documented."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sapwood.web.scheduler import Plan, RequestJob
from sapwood.web.schemas import BadRequest, Schema, check, record
from sapwood.web.service import ServedLanguageModel, ServedParser, Service

# Names of models; a service lists its own here.
GRAMMAR: Schema = {"type": "string", "description": "A name from /api/info; by default, the first grammar."}
LANGUAGE_MODEL: Schema = {
    "type": "string",
    "description": "A name from /api/info; by default, the first of its kind.",
}


@dataclass(frozen=True)
class Request:
    """A request whose body or query fits the schema of its endpoint."""

    service: Service
    body: Mapping[str, Any]
    job: RequestJob


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of the API.

    Attributes
    ----------
    method, path
        HTTP method and path.
    summary
        Description in one sentence.
    response
        Schema of the response.
    plan
        Returns the work for a request.
    body
        Schema of the request body or, for `GET`, of the query, whose values are strings and integers.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    response: Schema
    plan: Callable[[Request], Plan]
    body: Schema = field(default_factory=lambda: record({}))

    def prepare(self, service: Service, body: Mapping[str, Any], job: RequestJob) -> Plan:
        """Validate a request and return its work, whose result is the response in bytes."""
        check(body, self.body, "the body" if self.method == "POST" else "the query")
        plan = self.plan(Request(service, body, job))
        return Plan(plan.steps, lambda results: to_bytes(plan.finish(results)))

    def read_query(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of a query, converted to numbers where the schema requires it."""
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
    """Return a value as JSON bytes; half of a surrogate pair, which a model's label may have, is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def at_once(answer: Callable[[Request], Any]) -> Callable[[Request], Plan]:
    """Return a plan with a single step."""
    return lambda request: Plan([lambda: answer(request)], lambda results: results[0])


def endpoints_of(service: Service) -> list[Endpoint]:
    """Return the endpoints of a service; treebanks, language models and logs have some only if they are served."""
    from sapwood.web.api import evaluate as api_evaluate
    from sapwood.web.api import parse as api_parse
    from sapwood.web.api import states as api_states

    info = Endpoint(
        "GET",
        "/api/info",
        "Describe the service: models, treebank, limits.",
        {"type": "object"},
        at_once(lambda request: request.service.describe()),
    )
    found = [info, *api_parse.ENDPOINTS, *api_evaluate.ENDPOINTS, *api_states.ENDPOINTS]
    if service.gold is not None:
        from sapwood.web.api import treebank as api_treebank

        found += api_treebank.ENDPOINTS
    if any(isinstance(model, ServedLanguageModel) for model in service.models):
        from sapwood.web.api import lm as api_words

        found += api_words.ENDPOINTS
    if service.logs:
        from sapwood.web.api import training as api_training

        found += api_training.ENDPOINTS
    names = {
        id(schema): [model.name for model in service.models if isinstance(model, kind)]
        for schema, kind in ((GRAMMAR, ServedParser), (LANGUAGE_MODEL, ServedLanguageModel))
    }
    return [replace(endpoint, body=_with_names(endpoint.body, names)) for endpoint in found]


def _with_names(schema: Any, names: Mapping[int, list[str]]) -> Any:
    """Return a schema with the names of the served models filled in."""
    if isinstance(schema, list):
        return [_with_names(one, names) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    if id(schema) in names:
        return {**schema, "enum": names[id(schema)]}
    return {key: _with_names(value, names) for key, value in schema.items()}
