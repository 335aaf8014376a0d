"""The description of the service in OpenAPI's terms, made from the table of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sapwood._version import __version__
from sapwood.web.endpoints import Endpoint
from sapwood.web.schemas import TEXT, record

_ERRORS = {
    "400": "The request is not what is described here.",
    "401": "The token is missing or wrong.",
    "404": "There is nothing of that name.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The request is well formed, but cannot be done: no parse under the constraints, malformed trees.",
    "503": "Too many requests are waiting; `Retry-After` says when to come back.",
}


def describe(endpoints: Iterable[Endpoint], *, token: bool) -> dict[str, Any]:
    """Return the description of these endpoints; `token` says whether clients must know one."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sapwood",
            "version": __version__,
            "description": "Parse sentences, and look into grammars and treebanks.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": record({"error": TEXT})},
            **({"securitySchemes": schemes} if token else {}),
        },
        **({"security": [{"bearer": []}]} if token else {}),
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{endpoint.path.removeprefix('/api/').replace('/', '_')}",
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "The answer.", "content": _json(endpoint.response)},
            **{
                code: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}
                for code, text in _ERRORS.items()
            },
        },
    }
    if endpoint.method == "POST":
        found["requestBody"] = {"required": True, "content": _json(endpoint.body)}
    else:
        required = endpoint.body["required"]
        found["parameters"] = [
            {"name": name, "in": "query", "required": name in required, "schema": dict(schema)}
            for name, schema in endpoint.body["properties"].items()
        ]
    return found


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
