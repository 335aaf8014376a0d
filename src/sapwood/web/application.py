"""Applications on Starlette: what every application of sapwood has around its routes, and the explorer's routes.

`make_application` puts routes behind the same middleware, from the outside: request ids, logs and answers to errors;
security headers; checks of host and token. The content security policy forbids external resources and inline scripts
and styles. The API accepts only `application/json`, which other sites cannot send without a preflight request (always
refused). On the loopback address, requests must name that host, which prevents DNS rebinding.

    application = make_application([*explorer_routes(service), Mount("/mine", routes=[...])], hosts={"localhost"})
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sapwood.errors import SapwoodError
from sapwood.web.api.stream import PATH, describe_stream, stream_route
from sapwood.web.connection_limits import MOST_HEAD, TOO_LARGE_HEAD, head_size
from sapwood.web.endpoints import JSON, endpoints_of, route
from sapwood.web.messages import BadRequest, Error, RequestTooLarge, encode
from sapwood.web.openapi import DESCRIPTION, PROBES, describe
from sapwood.web.operation.metrics import Metrics
from sapwood.web.pages import Pages, explorer_pages
from sapwood.web.scheduler import Busy, ClientGone
from sapwood.web.service import Service

LOG = logging.getLogger("sapwood.web")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d+)?")
_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFETY = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# Messages of errors that are raised by routes, in place of Starlette's.
_MESSAGES = {404: f"not found; {DESCRIPTION} lists all endpoints"}


def make_application(
    routes: Sequence[BaseRoute],
    *,
    hosts: Collection[str] | None = None,
    token: str | None = None,
    metrics: Metrics | None = None,
    stop: Callable[[], None] = lambda: None,
) -> Starlette:
    """Return an application with these routes behind the middleware of all applications.

    Parameters
    ----------
    routes
        Its routes, the first that matches first.
    hosts
        Host names that clients may use, without ports; None: any.
    token
        Token that clients must send for paths under `/api/`, except the API's description, and for `/metrics`.
    metrics
        Where to count requests; `/metrics` shows what was counted.
    stop
        Called when the server stops.
    """

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
        yield
        stop()

    middleware = [Middleware(_Logged, metrics=metrics), Middleware(_Protected, hosts=hosts, token=token)]
    handlers = dict.fromkeys((HTTPException, SapwoodError, MemoryError), _answer_error)
    if metrics is not None:
        routes = [Route("/metrics", _metrics_page(metrics)), *routes]
    application = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers=handlers,
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    return application


def make_explorer(service: Service, *, hosts: Collection[str] | None = None, log_texts: bool = False) -> Starlette:
    """Return the explorer of a service; with `log_texts`, the bodies of requests are logged, too."""
    return make_application(
        explorer_routes(service, log_texts=log_texts),
        hosts=hosts,
        token=service.token,
        metrics=service.metrics,
        stop=service.close,
    )


def explorer_routes(service: Service, *, log_texts: bool = False) -> list[BaseRoute]:
    """Return the explorer's routes: the API and its description, probes, and pages."""
    endpoints = endpoints_of(service)
    pages = explorer_pages()
    pages[DESCRIPTION] = (JSON, encode(describe_service(service)))
    return [
        *(route(endpoint, service, log_texts=log_texts) for endpoint in endpoints),
        stream_route(service),
        *(Route(path, _probe(service, path)) for path in PROBES),
        Pages(pages),
    ]


def describe_service(service: Service) -> dict[str, Any]:
    """Return the description of a service's API."""
    return describe(
        endpoints_of(service),
        names=service.names,
        token=service.token is not None,
        also={PATH: describe_stream()},
    )


def _probe(service: Service, path: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the answer to a probe: whether the server is alive, or ready for requests."""

    async def answer(request: Request) -> Response:  # noqa: ARG001
        if path == "/readyz" and not service.ready:
            return error_answer(503, "not ready: no models are loaded, or the server is about to stop")
        return Response(encode({"status": PROBES[path]}), media_type=JSON)

    return answer


def _metrics_page(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:  # noqa: ARG001
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return answer


def error_answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request that fails."""
    text = message.encode("utf-8", "replace").decode()
    return Response(encode(Error(text)), status, dict(headers or {}), JSON)


async def _answer_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    match error:
        case HTTPException(status_code=405):
            allowed = ", ".join(sorted(Headers(error.headers)["allow"].split(", ")))
            return error_answer(405, f"method not allowed; use {allowed}", {"allow": allowed})
        case HTTPException():
            return error_answer(error.status_code, _MESSAGES.get(error.status_code, error.detail), error.headers)
        case BadRequest():
            return error_answer(400, str(error))
        case RequestTooLarge():
            return error_answer(413, str(error))
        case Busy():
            return error_answer(503, str(error), {"retry-after": "1"})
        case SapwoodError():
            return error_answer(422, str(error))
    return error_answer(422, "the request needs more memory than is available; send less at a time")


class _Logged:
    """Middleware: an id for each request, a line in the log, counts, and an answer even if there is a bug."""

    def __init__(self, app: ASGIApp, metrics: Metrics | None) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.perf_counter(), 0, 0
        given = Headers(scope=scope).get("x-request-id", "")
        identity = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)

        async def answer(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = identity
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except (ClientGone, ClientDisconnect):
            status = 0
        except Exception:
            LOG.exception("%s: a bug in sapwood; please report it", scope["path"])
            if status:
                raise
            failure = error_answer(500, "internal error: a bug in sapwood; see the server's log", _SAFETY)
            await failure(scope, receive, answer)
        if status and self._metrics is not None:
            self._metrics.count_request(scope["path"], status, time.perf_counter() - began)
        if (scope["path"] not in PROBES and scope["path"] != "/metrics") or status != 200:
            _log_request(scope, identity, began, status, size)


def _log_request(scope: Scope, identity: str, began: float, status: int, size: int) -> None:
    """Log a request and its answer; no status: the client has gone."""
    milliseconds = round(1000 * (time.perf_counter() - began))
    fields: dict[str, Any] = {
        "client": client_of(scope), "method": scope["method"], "path": _shown_path(scope), "request": identity,
    }  # fmt: skip
    fields |= {"status": status, "bytes": size} if status else {"gone": True}
    outcome = f"{status} {size} bytes" if status else "the client has gone"
    who = f"{fields['client']} {fields['method']} {fields['path']}"
    LOG.info("%s %s %d ms", who, outcome, milliseconds, extra={"fields": {**fields, "milliseconds": milliseconds}})


def client_of(scope: Scope) -> str:
    """Return the address of a client, without its port."""
    client = scope.get("client")
    return str(client[0]) if client else "-"


def _shown_path(scope: Scope) -> str:
    """Return a path for the log: on one line, and shortened."""
    return ascii(scope["path"][:100])[1:-1]


class _Protected:
    """Middleware: security headers, and checks of host, token and size of the head."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, token: str | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._token = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SAFETY)
                kept = headers.get("content-type", "").startswith(
                    ("text/html", "text/css", "text/javascript", "image/")
                )
                headers.setdefault("cache-control", "no-cache" if kept else "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, answer)

    def _refusal(self, scope: Scope) -> Response | None:
        if head_size(scope) > MOST_HEAD:
            return error_answer(431, TOO_LARGE_HEAD, {"connection": "close"})
        headers = Headers(scope=scope)
        if self._hosts is not None:
            # A foreign name that resolves to this address, two names, or none: no local browser sends that.
            given = headers.getlist("host")
            found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
            if found is None or found[1] not in self._hosts:
                return error_answer(400, "unknown host name; use the address that the server printed when it started")
        if self._token is not None and _needs_token(scope["path"]):
            scheme, _, sent = headers.get("authorization", "").partition(" ")
            # Digests have the same length, so that timing reveals nothing, not even the length.
            same = hmac.compare_digest(_digest(sent.strip().encode("latin-1")), self._token)
            if scheme.lower() != "bearer" or not same:
                message = "the token is missing or wrong; send Authorization: Bearer TOKEN"
                return error_answer(401, message, {"www-authenticate": "Bearer"})
        return None


def _needs_token(path: str) -> bool:
    return (path.startswith("/api/") and path != DESCRIPTION) or path == "/metrics"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
