"""The ASGI application: pages, the API, and what keeps both safe.

Pages are files of the package, read once and found by name in a table: no path that a client sends is ever opened.
Every answer says that nothing may be loaded from elsewhere and that no script or style may stand in a page itself.
The API takes `application/json` alone, which other sites cannot send without being asked first (and nobody is allowed);
on the loopback address requests must name that host, so that no other name can be made to lead here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from sapwood.errors import SapwoodError
from sapwood.web.endpoints import Endpoint, endpoints_of, to_bytes
from sapwood.web.openapi import describe
from sapwood.web.schemas import BadRequest, read_json
from sapwood.web.service import Service
from sapwood.web.work import Busy, Job, Plan, Unwanted

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LOG = logging.getLogger("sapwood.web")
# Seconds in which a body must arrive.
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
    """What is sent back."""

    status: int
    body: bytes
    kind: str = _JSON
    more: Headers = []  # noqa: RUF012


class Failure(Exception):
    """A request that is refused before anything is done for it."""

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
        What is served.
    hosts
        Names by which clients may call the server, without ports; None: any.
    log_texts
        Whether the log has the bodies of requests, too.
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
        """Answer one request, or begin and end the service."""
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
            if scope["path"].startswith("/api/") and (scope["method"], scope["path"]) in self._endpoints:
                endpoint = self._endpoints[scope["method"], scope["path"]]
                self._check_token(headers)
                text = await self._read(endpoint, headers, receive)
                answer = await self._work(endpoint, scope, text, receive)
            else:
                answer = self._page_of(scope, headers)
        except Failure as failure:
            answer = failure.answer
        except _Gone:
            LOG.info("%s %s: the client has gone", scope["method"], _shown_path(scope))
            return
        await self._send(scope, answer, send)
        milliseconds = 1000 * (time.perf_counter() - began)
        LOG.info(
            "%s %s %d %d bytes %.0f ms",
            scope["method"],
            _shown_path(scope),
            answer.status,
            len(answer.body),
            milliseconds,
        )
        if self._log_texts and text:
            LOG.info("%s", text.decode("utf-8", "backslashreplace"))

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
        # A name of somebody else's that leads here, two names, or none: no browser at this machine sends that.
        found = _HOST.fullmatch(given[0].decode("latin-1").lower()) if len(given) == 1 else None
        if found is None or found[1] not in self._hosts:
            raise Failure(400, "this server is not of that name; call it as it says when it starts")

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self.service.token is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        # Digests are of one length, so that not even that can be told by how long this takes.
        same = hmac.compare_digest(_digest(given.strip()), _digest(self.service.token.encode()))
        if scheme.lower() != b"bearer" or not same:
            raise Failure(401, "the token is missing or wrong; send Authorization: Bearer TOKEN", (
                b"www-authenticate", b"Bearer"
            ))  # fmt: skip

    async def _read(self, endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body, if it is of the right kind and size and comes in time."""
        if endpoint.method == "POST":
            kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            if kind != _JSON:
                raise Failure(415, f"the body must be {_JSON}, and say so in Content-Type")
        most = self.service.limits.body
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:18]) > most:
            raise Failure(413, f"the body may have up to {most} bytes", (b"connection", b"close"))
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
                        raise Failure(413, f"the body may have up to {most} bytes", (b"connection", b"close"))
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Failure(408, "the body did not arrive in time", (b"connection", b"close")) from None

    async def _work(self, endpoint: Endpoint, scope: Scope, text: bytes, receive: Receive) -> Answer:
        """Have the work done, unless the client goes away before it is.

        Bodies are read where the work is done: this thread has all other clients to see to.
        """

        def prepare(job: Job) -> Plan:
            body = read_json(text) if endpoint.method == "POST" else endpoint.read_query(_query(scope))
            return endpoint.prepare(self.service, body, job)

        gone = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            return Answer(200, await self.service.crew.run(prepare, self.service.limits.seconds, gone))
        except Unwanted:
            raise _Gone from None
        except BadRequest as error:
            return _error(400, str(error))
        except Busy as error:
            return _error(503, str(error), (b"retry-after", b"1"))
        except SapwoodError as error:
            return _error(422, str(error))
        except MemoryError:
            return _error(422, "the request needs more memory than there is; send less at a time")
        except Exception:
            LOG.exception("%s: a bug in sapwood; please report it", scope["path"])
            return _error(500, "internal error: a bug in sapwood; its log has more")
        finally:
            gone.cancel()

    def _page_of(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Answer:
        method, path = scope["method"], scope["path"]
        page = self._pages.get(path)
        if page is None and path not in self._paths:
            return _error(404, "there is nothing of that name here; /api/openapi.json lists what there is")
        if page is None or method not in ("GET", "HEAD"):
            allowed = "GET, HEAD" if page is not None else ", ".join(m for m, p in self._endpoints if p == path)
            return _error(405, f"only {allowed} can be done with this", (b"allow", allowed.encode()))
        tag = dict(page.more)[b"etag"]
        if headers.get(b"if-none-match") == tag:
            return page._replace(status=304, body=b"")
        return page


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _query(scope: Scope) -> dict[str, str]:
    """Return the query's values; raises `BadRequest` if they are no text."""
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError:
        raise BadRequest("the query is not well formed") from None
    if len(dict(pairs)) < len(pairs):
        raise BadRequest("the query says one thing twice")
    return dict(pairs)


def _shown_path(scope: Scope) -> str:
    """Return a path as the log has it: on one line, and not too long."""
    return ascii(scope["path"][:100])[1:-1]


def _error(status: int, message: str, *more: tuple[bytes, bytes]) -> Answer:
    return Answer(status, to_bytes({"error": message.encode("utf-8", "replace").decode()}), _JSON, list(more))


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _page(kind: str, body: bytes) -> Answer:
    tag = _digest(body).hex()[:32]
    return Answer(200, body, kind, [(b"etag", f'"{tag}"'.encode())])


def _read_pages() -> dict[str, Answer]:
    """Return the files of the package that are served, by path; `parse.html` is also what stands at the root."""
    pages: dict[str, Answer] = {}
    for file in (resources.files("sapwood.web") / "static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is None:
            continue
        page = _page(kind, file.read_bytes())
        if file.name.endswith(".html"):
            pages[f"/{file.name.removesuffix('.html')}"] = page
        else:
            pages[f"/static/{file.name}"] = page
    if "/parse" in pages:
        pages["/"] = pages["/parse"]
    if "/static/icon.svg" in pages:
        pages["/favicon.ico"] = pages["/static/icon.svg"]
    return pages
