"""OpenAPI description of the service, generated from the types of requests and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sapwood._version import __version__
from sapwood.web.endpoints import JSON, Endpoint
from sapwood.web.messages import Error, Message, Schema

# Path of the description.
DESCRIPTION = "/api/openapi.json"
# Statuses of errors that all endpoints have.
ERRORS = {
    "400": "The request does not match this description.",
    "401": "The token is missing or wrong.",
    "404": "Not found.",
    "408": "The body did not arrive in time.",
    "413": "The request is too large: its bytes, characters, words, sentences or trees.",
    "415": "The body is not application/json.",
    "422": "The request is valid, but cannot be fulfilled: no parse under the constraints, malformed trees.",
    "503": "Too many requests are waiting; `Retry-After` says when to retry.",
}
# Paths at which an orchestrator asks for the state of the server, and the answer if all is well.
PROBES = {"/healthz": "ok", "/readyz": "ready"}
_PROBE_SUMMARIES = {
    "/healthz": "Return 200 as long as the server answers at all; no token is needed.",
    "/readyz": "Return 200 if all models are loaded, else 503; no token is needed.",
}


def describe(
    endpoints: Iterable[Endpoint[Any]],
    *,
    names: Mapping[str, Sequence[str]],
    token: bool,
    also: Mapping[str, Schema] | None = None,
) -> dict[str, Any]:
    """Return the description of these endpoints.

    Parameters
    ----------
    endpoints
        The endpoints.
    names
        Names of models by kind, which is the format of such parameters.
    token
        Whether clients must send a token.
    also
        Descriptions of further paths.
    """
    every = list(endpoints)
    kinds: list[Any] = [Error, *(one.body for one in every), *(one.answer for one in every)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Message):
            components[kind.__name__] |= kind.also
    answers = schemas[1 + len(every) :]
    paths: dict[str, dict[str, Any]] = {}
    for endpoint, answer in zip(every, answers, strict=True):
        operation = _operation(endpoint, answer, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    paths |= {path: dict(item) for path, item in (also or {}).items()}
    for path, status in PROBES.items():
        paths[path] = {"get": _probe(path, status)}
    schemes = {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}} if token else {}
    found: dict[str, Any] = _with_names({"paths": paths, "components": {"schemas": components, **schemes}}, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sapwood",
            "version": __version__,
            "description": "Parse sentences, and explore grammars and treebanks.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        **found,
        **({"security": [{"bearer": []}]} if token else {}),
    }


def _operation(endpoint: Endpoint[Any], answer: Schema, components: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{endpoint.path.removeprefix('/api/').replace('/', '_')}",
        "summary": endpoint.summary,
        "responses": responses(answer, ERRORS),
    }
    body = endpoint.body.__name__
    if endpoint.method == "POST":
        found["requestBody"] = {"required": True, "content": _json({"$ref": f"#/components/schemas/{body}"})}
    else:
        found["parameters"] = query_parameters(components[body])
    return found


def query_parameters(schema: Schema) -> list[dict[str, Any]]:
    """Return the description of the parameters of a query, from the schema of an object with them."""
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": one}
        for name, one in schema["properties"].items()
    ]


def _probe(path: str, status: str) -> dict[str, Any]:
    answer = {
        "type": "object",
        "properties": {"status": {"type": "string", "enum": [status]}},
        "required": ["status"],
        "additionalProperties": False,
    }
    errors = {"400": "Unknown host name.", **({"503": "Not ready."} if path == "/readyz" else {})}
    return {
        "operationId": f"get_{path[1:]}",
        "summary": _PROBE_SUMMARIES[path],
        "security": [],
        "responses": responses(answer, errors),
    }


def responses(answer: Schema, errors: Mapping[str, str], kind: str = JSON) -> dict[str, Any]:
    """Return the description of responses: an answer of a media type, and errors."""
    error = _json({"$ref": "#/components/schemas/Error"})
    return {
        "200": {"description": "The answer.", "content": {kind: {"schema": answer}}},
        **{code: {"description": text, "content": error} for code, text in errors.items()},
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


def _with_names(schema: Any, names: Mapping[str, Sequence[str]]) -> Any:
    """Return a schema with the names of the served models filled in."""
    if isinstance(schema, list):
        return [_with_names(one, names) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "format" in schema and schema["format"] in names:
        return {**{key: value for key, value in schema.items() if key != "format"}, "enum": names[schema["format"]]}
    return {key: _with_names(value, names) for key, value in schema.items()}
