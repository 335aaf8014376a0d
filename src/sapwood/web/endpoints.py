"""Endpoints under `/api`: one table, from which requests are decoded, answered and documented."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sapwood.web.connection_limits import LOST, client_network
from sapwood.web.messages import BadRequest, NoContent, convert, decode, encode
from sapwood.web.scheduler import Busy, Plan, RequestJob, WorkerPool
from sapwood.web.service import Limits, ServedLanguageModel, Service

LOG = logging.getLogger("sapwood.web")
# Time limit for a body to arrive, in seconds.
BODY_SECONDS = 10.0
JSON = "application/json"
# Size of the smallest answers that are compressed, and the first bytes of compressed ones.
LEAST_SQUEEZED = 1 << 10
_GZIP = b"\x1f\x8b"
_CLOSE = {"connection": "close"}
B = TypeVar("B")


class Resources(Protocol):
    """What endpoints need of the application that has them."""

    @property
    def limits(self) -> Limits:
        """Limits on requests."""

    @property
    def crew(self) -> WorkerPool:
        """The threads that work on requests."""


@dataclass(frozen=True)
class Request(Generic[B]):
    """A request that fits the description of its endpoint.

    Attributes
    ----------
    service
        The resources of the application.
    body
        The decoded body or query.
    job
        The work, with its time limit.
    """

    service: Any
    body: B
    job: RequestJob


@dataclass(frozen=True)
class Endpoint(Generic[B]):
    """An endpoint of the API.

    Attributes
    ----------
    method, path
        HTTP method and path.
    summary
        Description in one sentence.
    plan
        Returns the work for a request.
    answer
        Type of the answer.
    body
        Type of the body or, for `GET`, of the query, whose values are strings and integers.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    plan: Callable[[Request[B]], Plan]
    answer: type
    body: type[B] = NoContent  # type: ignore[assignment]

    def read(self, sent: bytes) -> B:
        """Return the request in a body, or for `GET` in a query."""
        return decode(sent, self.body) if self.method == "POST" else convert(parameters(sent), self.body)

    def prepare(self, service: Any, sent: bytes, job: RequestJob) -> Plan:
        """Decode a request and return its work, whose result is the answer in bytes."""
        plan = self.plan(Request(service, self.read(sent), job))
        return Plan(plan.steps, lambda results: encode(plan.finish(results)))


def at_once(answer: Callable[[Request[B]], Any]) -> Callable[[Request[B]], Plan]:
    """Return a plan with a single step."""
    return lambda request: Plan([lambda: answer(request)], lambda results: results[0])


def route(endpoint: Endpoint[Any], service: Resources, *, log_texts: bool = False) -> Route:
    """Return the route that answers an endpoint's requests with the resources of an application."""
    return Route(endpoint.path, _Answering(endpoint, service, log_texts), methods=[endpoint.method])


class _Answering:
    """ASGI application of one endpoint; `sapwood.web.application` answers the errors that it raises.

    Bodies are decoded by the workers, since this thread serves all other clients.
    """

    def __init__(self, endpoint: Endpoint[Any], service: Resources, log_texts: bool) -> None:
        self._endpoint, self._service, self._log_texts = endpoint, service, log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, service = self._endpoint, self._service
        request = HTTPRequest(scope, receive)
        sent = await read_body(request, service.limits.body) if endpoint.method == "POST" else scope["query_string"]

        squeezed = "gzip" in request.headers.get("accept-encoding", "")

        def prepare(job: RequestJob) -> Plan:
            plan = endpoint.prepare(service, sent, job)
            return Plan(plan.steps, lambda results: _squeezed(plan.finish(results))) if squeezed else plan

        async with until_lost(request) as lost:
            try:
                client = client_network(scope.get("client"))
                answer = await service.crew.run(prepare, service.limits.seconds, lost, client)
            except asyncio.CancelledError:  # after the grace period of the server's shutdown
                raise Busy("the server is about to stop") from None
        if self._log_texts and endpoint.method == "POST":
            shown, who = sent.decode("utf-8", "backslashreplace"), request.client.host if request.client else "-"
            LOG.info("%s %s", who, shown, extra={"fields": {"client": who, "text": shown}})
        headers = {"vary": "accept-encoding"}
        if answer.startswith(_GZIP):
            headers["content-encoding"] = "gzip"
        await Response(answer, headers=headers, media_type=JSON)(scope, receive, send)


def _squeezed(answer: bytes) -> bytes:
    return gzip.compress(answer, 5, mtime=0) if len(answer) >= LEAST_SQUEEZED else answer


async def read_body(request: HTTPRequest, most: int, kinds: tuple[str, ...] = (JSON,)) -> bytes:
    """Return the body of a request; raises `HTTPException` if its type or size is wrong or it arrives late."""
    check_type(request, *kinds)
    too_large = HTTPException(413, f"the body may have up to {most} bytes", _CLOSE)
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length[:18]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, "the body did not arrive in time", _CLOSE) from None
    return bytes(body)


def check_type(request: HTTPRequest, *kinds: str) -> str:
    """Return the type of a body; raises `HTTPException` if it is none of these."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise HTTPException(415, f"the body must be {' or '.join(kinds)}, and say so in Content-Type")
    return kind


@contextlib.asynccontextmanager
async def until_lost(request: HTTPRequest, *, read: bool = True) -> AsyncIterator[asyncio.Future[Any] | None]:
    """Yield a future that is done when the client of a request has gone.

    Where the server does not say so, None unless the request has been read.
    """
    lost: asyncio.Future[Any] | None = request.scope.get("extensions", {}).get(LOST)
    if lost is not None or not read:
        yield lost
        return
    watch = asyncio.ensure_future(_watch(request.receive))
    try:
        yield watch
    finally:
        watch.cancel()


async def _watch(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def parameters(query: bytes) -> dict[str, str]:
    """Return the values of a query; raises `BadRequest` if they are not valid text."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise BadRequest("the query is not well formed") from None
    if len(dict(pairs)) < len(pairs):
        raise BadRequest("the query repeats a parameter")
    return dict(pairs)


def endpoints_of(service: Service) -> list[Endpoint[Any]]:
    """Return the endpoints of a service; treebanks, language models and logs have some only if they are served."""
    from sapwood.web.api import evaluate, info, parse, states

    found = [*info.ENDPOINTS, *parse.ENDPOINTS, *evaluate.ENDPOINTS, *states.ENDPOINTS]
    if service.gold is not None:
        from sapwood.web.api import treebank

        found += treebank.ENDPOINTS
    if any(isinstance(model, ServedLanguageModel) for model in service.models):
        from sapwood.web.api import lm

        found += lm.ENDPOINTS
    if service.logs:
        from sapwood.web.api import training

        found += training.ENDPOINTS
    return found
