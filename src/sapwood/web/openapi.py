"""OpenAPI description of the service, generated from the table of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sapwood._version import __version__
from sapwood.web.endpoints import Endpoint
from sapwood.web.schemas import TEXT, record

_ERRORS = {
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


def describe(endpoints: Iterable[Endpoint], *, token: bool) -> dict[str, Any]:
    """Return the description of these endpoints; `token` is whether clients must send one."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    for path, status in PROBES.items():
        paths[path] = {"get": _probe(path, status)}
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sapwood",
            "version": __version__,
            "description": "Parse sentences, and explore grammars and treebanks.",
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


def _probe(path: str, status: str) -> dict[str, Any]:
    found = record({"status": {"type": "string", "enum": [status]}})
    errors = {"400": "Unknown host name.", **({"503": "Not ready."} if path == "/readyz" else {})}
    return {
        "operationId": f"get_{path[1:]}",
        "summary": _PROBE_SUMMARIES[path],
        "security": [],
        "responses": {
            "200": {"description": "The answer.", "content": _json(found)},
            **{
                code: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}
                for code, text in errors.items()
            },
        },
    }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
