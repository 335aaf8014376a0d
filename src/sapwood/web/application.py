"""ASGI application: pages, the API, and the protection of both.

Pages are files of the package, read once and looked up by name: no path sent by a client is ever opened. The content
security policy forbids external resources and inline scripts and styles. The API accepts only `application/json`, which
other sites cannot send without a preflight request (always refused). On the loopback address, requests must name that
host, which prevents DNS rebinding.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from sapwood.errors import SapwoodError
from sapwood.web.connection_limits import client_network
from sapwood.web.endpoints import Endpoint, endpoints_of, to_bytes
from sapwood.web.openapi import PROBES, describe
from sapwood.web.scheduler import Busy, ClientGone, Plan, RequestJob
from sapwood.web.schemas import BadRequest, RequestTooLarge, read_json
from sapwood.web.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LOG = logging.getLogger("sapwood.web")
# Time limit for a body to arrive, in seconds.
_BODY_SECONDS = 10.0
_JSON = "application/json"
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d+)?")
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFETY: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    kind: str = _JSON
    more: Headers = []  # noqa: RUF012


class HTTPError(Exception):
    """A request that is refused before any work is done."""

    def __init__(self, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.answer = _error(status, message, *more)


class _Gone(Exception):
    """The client has closed the connection."""


class Application:
    """The ASGI application of a service.

    Parameters
    ----------
    service
        Service to expose.
    hosts
        Host names that clients may use, without ports; None: any.
    log_texts
        Whether to log the bodies of requests, too.
    """

    def __init__(self, service: Service, *, hosts: Collection[str] | None = None, log_texts: bool = False) -> None:
        self.service = service
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._log_texts = log_texts
        endpoints = endpoints_of(service)
        self._endpoints = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints}
        self._paths = {endpoint.path for endpoint in endpoints}
        self._pages = _read_pages()
        self.description = describe(endpoints, token=service.token is not None)
        self._pages["/api/openapi.json"] = _page(_JSON, to_bytes(self.description))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or handle the lifespan of the service."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.service.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        text = b""
        try:
            self._check_host([value for name, value in scope["headers"] if name.lower() == b"host"])
            headers = {name.lower(): value for name, value in scope["headers"]}
            if scope["path"] in PROBES:
                answer = self._probe(scope)
            elif scope["path"].startswith("/api/") and (scope["method"], scope["path"]) in self._endpoints:
                endpoint = self._endpoints[scope["method"], scope["path"]]
                self._check_token(headers)
                text = await self._read(endpoint, headers, receive)
                answer = await self._work(endpoint, scope, text, receive)
            else:
                answer = self._page_of(scope, headers)
        except HTTPError as failure:
            answer = failure.answer
        except _Gone:
            _log_request(scope, began)
            return
        await self._send(scope, answer, send)
        if scope["path"] not in PROBES or answer.status != 200:
            _log_request(scope, began, answer)
        if self._log_texts and text:
            shown = text.decode("utf-8", "backslashreplace")
            LOG.info("%s %s", _client(scope), shown, extra={"fields": {"client": _client(scope), "text": shown}})

    async def _send(self, scope: Scope, answer: Answer, send: Send) -> None:
        headers = [
            (b"content-type", answer.kind.encode()),
            (b"content-length", str(len(answer.body)).encode()),
            *([(b"cache-control", b"no-store")] if answer.kind == _JSON else [(b"cache-control", b"no-cache")]),
            *_SAFETY,
            *answer.more,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def _check_host(self, given: list[bytes]) -> None:
        if self._hosts is None:
            return
        # A foreign name that resolves to this address, two names, or none: no local browser sends that.
        found = _HOST.fullmatch(given[0].decode("latin-1").lower()) if len(given) == 1 else None
        if found is None or found[1] not in self._hosts:
            raise HTTPError(400, "unknown host name; use the address that the server printed when it started")

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self.service.token is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        # Digests have the same length, so that timing reveals nothing, not even the length.
        same = hmac.compare_digest(_digest(given.strip()), _digest(self.service.token.encode()))
        if scheme.lower() != b"bearer" or not same:
            raise HTTPError(401, "the token is missing or wrong; send Authorization: Bearer TOKEN", (
                b"www-authenticate", b"Bearer"
            ))  # fmt: skip

    async def _read(self, endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body; raises `HTTPError` if its type or size is wrong or it arrives late."""
        if endpoint.method == "POST":
            kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            if kind != _JSON:
                raise HTTPError(415, f"the body must be {_JSON}, and say so in Content-Type")
        most = self.service.limits.body
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:18]) > most:
            raise HTTPError(413, f"the body may have up to {most} bytes", (b"connection", b"close"))
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise HTTPError(413, f"the body may have up to {most} bytes", (b"connection", b"close"))
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise HTTPError(408, "the body did not arrive in time", (b"connection", b"close")) from None

    async def _work(self, endpoint: Endpoint, scope: Scope, text: bytes, receive: Receive) -> Answer:
        """Run the work, unless the client disconnects first.

        Bodies are decoded by the workers, since this thread serves all other clients.
        """

        def prepare(job: RequestJob) -> Plan:
            body = read_json(text) if endpoint.method == "POST" else endpoint.read_query(_query(scope))
            return endpoint.prepare(self.service, body, job)

        gone = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            client = client_network(scope.get("client"))
            return Answer(200, await self.service.crew.run(prepare, self.service.limits.seconds, gone, client))
        except ClientGone:
            raise _Gone from None
        except asyncio.CancelledError:  # after the grace period of uvicorn's shutdown
            return _error(503, "the server is about to stop")
        except BadRequest as error:
            return _error(400, str(error))
        except RequestTooLarge as error:
            return _error(413, str(error))
        except Busy as error:
            return _error(503, str(error), (b"retry-after", b"1"))
        except SapwoodError as error:
            return _error(422, str(error))
        except MemoryError:
            return _error(422, "the request needs more memory than is available; send less at a time")
        except Exception:
            LOG.exception("%s: a bug in sapwood; please report it", scope["path"])
            return _error(500, "internal error: a bug in sapwood; see the server's log")
        finally:
            gone.cancel()

    def _probe(self, scope: Scope) -> Answer:
        """Answer whether the server is alive, or ready for requests; nobody needs a token to ask."""
        if scope["method"] not in ("GET", "HEAD"):
            return _error(405, "method not allowed; use GET, HEAD", (b"allow", b"GET, HEAD"))
        if scope["path"] == "/readyz" and not self.service.ready:
            return _error(503, "not ready: no models are loaded, or the server is about to stop")
        return Answer(200, to_bytes({"status": PROBES[scope["path"]]}))

    def _page_of(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Answer:
        method, path = scope["method"], scope["path"]
        page = self._pages.get(path)
        if page is None and path not in self._paths:
            return _error(404, "not found; /api/openapi.json lists all endpoints")
        if page is None or method not in ("GET", "HEAD"):
            allowed = "GET, HEAD" if page is not None else ", ".join(m for m, p in self._endpoints if p == path)
            return _error(405, f"method not allowed; use {allowed}", (b"allow", allowed.encode()))
        tag = dict(page.more)[b"etag"]
        if headers.get(b"if-none-match") == tag:
            return page._replace(status=304, body=b"")
        return page


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _query(scope: Scope) -> dict[str, str]:
    """Return the values of the query; raises `BadRequest` if they are not valid text."""
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError:
        raise BadRequest("the query is not well formed") from None
    if len(dict(pairs)) < len(pairs):
        raise BadRequest("the query repeats a parameter")
    return dict(pairs)


def _log_request(scope: Scope, began: float, answer: Answer | None = None) -> None:
    """Log a request and its answer; None: the client has gone."""
    fields: dict[str, Any] = {"client": _client(scope), "method": scope["method"], "path": _shown_path(scope)}
    milliseconds = round(1000 * (time.perf_counter() - began))
    if answer is None:
        outcome = "the client has gone"
        fields |= {"gone": True, "milliseconds": milliseconds}
    else:
        outcome = f"{answer.status} {len(answer.body)} bytes"
        fields |= {"status": answer.status, "bytes": len(answer.body), "milliseconds": milliseconds}
    who = f"{fields['client']} {fields['method']} {fields['path']}"
    LOG.info("%s %s %d ms", who, outcome, milliseconds, extra={"fields": fields})


def _client(scope: Scope) -> str:
    """Return the address of a client, without its port."""
    client = scope.get("client")
    return str(client[0]) if client else "-"


def _shown_path(scope: Scope) -> str:
    """Return a path for the log: on one line, and shortened."""
    return ascii(scope["path"][:100])[1:-1]


def _error(status: int, message: str, *more: tuple[bytes, bytes]) -> Answer:
    return Answer(status, to_bytes({"error": message.encode("utf-8", "replace").decode()}), _JSON, list(more))


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _page(kind: str, body: bytes) -> Answer:
    tag = _digest(body).hex()[:32]
    return Answer(200, body, kind, [(b"etag", f'"{tag}"'.encode())])


def _read_pages() -> dict[str, Answer]:
    """Return the static files by URL path; `parse.html` is also served at the root."""
    pages: dict[str, Answer] = {}
    for path, file in _static_files(resources.files("sapwood.web") / "static"):
        name, _, kind = path.rpartition(".")
        if kind not in _TYPES:
            continue
        pages[f"/{name}" if kind == "html" else f"/static/{path}"] = _page(_TYPES[kind], file.read_bytes())
    if "/parse" in pages:
        pages["/"] = pages["/parse"]
    if "/static/icon.svg" in pages:
        pages["/favicon.ico"] = pages["/static/icon.svg"]
    return pages


def _static_files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files in a folder of the package, and in its sub-folders, with their paths."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _static_files(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry
