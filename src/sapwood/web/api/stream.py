"""Streaming endpoint: a sentence or text per line, and its parses as soon as they are there.

Both the request and the answer are NDJSON: one JSON value per line. Each line is a request of its own to the threads,
with the limits of one, so a stream may be as long as it likes. Only a few lines of it are worked on at a time, and no
more is read meanwhile. A line that cannot be parsed gets an error, and the others are parsed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeAlias, cast

import msgspec
from msgspec import Meta
from msgspec.structs import asdict
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sapwood.errors import SapwoodError
from sapwood.web.api.parse import ParsedSentence, ParsingOptions, ParsingRequest, plan_parses
from sapwood.web.api.sentences import Constrained, Tokens
from sapwood.web.connection_limits import client_network
from sapwood.web.endpoints import BODY_SECONDS, Request, check_type, parameters, until_lost
from sapwood.web.messages import Message, Positive, convert, decode, encode, given
from sapwood.web.openapi import ERRORS, query_parameters, responses
from sapwood.web.scheduler import Busy, ClientGone, Plan, RequestJob
from sapwood.web.service import Service

PATH = "/api/parse-lines"
NDJSON = "application/x-ndjson"
# Seconds until a line is tried again for which there was no room in the queue.
_RETRY_SECONDS = 0.1
Line: TypeAlias = str | Tokens | Constrained


class LineParse(ParsedSentence, kw_only=True):
    """The parse of a sentence, and the line that it is from."""

    line: Annotated[int, Meta(ge=1, description="Number of the line of the request.")]


class LineError(Message):
    """Why a line has no parses."""

    line: Positive
    error: str


def stream_route(service: Service) -> Route:
    """Return the route of the endpoint."""
    return Route(PATH, _Streaming(service), methods=["POST"])


class _Streaming:
    """ASGI application of the endpoint."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPRequest(scope, receive)
        check_type(request, NDJSON)
        options = convert(parameters(scope["query_string"]), ParsingOptions)
        self._service.grammar(given(options.model))
        client = client_network(scope.get("client"))
        # A few lines at work keep the threads busy; their order is that of the lines.
        works: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(2 * self._service.threads)

        async def read(lost: asyncio.Future[Any] | None) -> None:
            number = 0
            try:
                async for line in _lines(request, self._service.limits.body):
                    number += 1
                    if line.strip():
                        work = self._parses(number, line, options, client, lost)
                        await works.put(asyncio.create_task(work))
            except (TimeoutError, SapwoodError) as error:
                reason = str(error) or "the next line did not arrive in time"
                await works.put(asyncio.create_task(_error(number + 1, reason)))
            await works.put(None)

        async with until_lost(request, read=False) as lost:
            reading = asyncio.create_task(read(lost))
            try:
                # The server sends `100 Continue` when reading begins, and only before the head of the answer.
                await asyncio.sleep(0)
                headers = [(b"content-type", NDJSON.encode()), (b"x-accel-buffering", b"no")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                while (work := await _first(works, reading)) is not None:
                    await send({"type": "http.response.body", "body": await work, "more_body": True})
                await send({"type": "http.response.body"})
            finally:
                reading.cancel()
                while not works.empty():
                    if (left := works.get_nowait()) is not None:
                        left.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientDisconnect):
                    await reading

    async def _parses(
        self, number: int, line: bytes, options: ParsingOptions, client: str, lost: asyncio.Future[Any] | None
    ) -> bytes:
        """Return the lines of the answer for a line."""

        def prepare(job: RequestJob) -> Plan:
            value: Line = decode(line, cast(Any, Line), "the line")
            body = {"text": value} if isinstance(value, str) else {"sentences": [value]}
            plan = plan_parses(Request(self._service, ParsingRequest(**body, **asdict(options)), job))
            return Plan(plan.steps, lambda results: _written(plan.finish(results).results, number))

        while True:
            try:
                found: bytes = await self._service.crew.run(prepare, self._service.limits.seconds, lost, client)
                return found
            except Busy:
                await asyncio.sleep(_RETRY_SECONDS)
            except ClientGone:
                raise ClientDisconnect from None
            except SapwoodError as error:
                return await _error(number, str(error))


async def _first(works: asyncio.Queue[asyncio.Task[bytes] | None], reading: asyncio.Task[None]) -> Any:
    """Return the first work of a queue, or raise the error of what fills it."""
    getting = asyncio.create_task(works.get())
    await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
    if not getting.done() and reading.exception() is not None:
        getting.cancel()
        await reading
    return await getting


def _written(results: list[ParsedSentence], number: int) -> bytes:
    return b"".join(encode(LineParse(line=number, **asdict(result))) + b"\n" for result in results)


async def _error(number: int, message: str) -> bytes:
    return encode(LineError(number, message)) + b"\n"


async def _lines(request: HTTPRequest, most: int) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they arrive; raises `TimeoutError` or `SapwoodError` if one is late or too long."""
    rest = bytearray()
    parts = aiter(request.stream())
    while True:
        async with asyncio.timeout(BODY_SECONDS):
            part = await anext(parts, None)
        if part is None:
            break
        lines = part.split(b"\n")
        for number, line in enumerate(lines, 1):
            rest += line
            if len(rest) > most:
                raise SapwoodError(f"a line may have up to {most} bytes")
            if number < len(lines):
                yield bytes(rest)
                rest.clear()
    if rest:
        yield bytes(rest)


def describe_stream() -> dict[str, Any]:
    """Return the description of the endpoint for OpenAPI, which knows no streams of JSON."""
    options = msgspec.json.schema_components([ParsingOptions], ref_template="{name}")[1]["ParsingOptions"]
    sentences = "Per line: a text, an array of tokens, or an object with tokens and constraints."
    parses = "Per line: a result as of /api/parse with the number of its line, or the number of a line and an error."
    return {
        "post": {
            "operationId": "post_parse_lines",
            "summary": "Parse a stream: a sentence or text per line, and its parses as soon as they are there.",
            "parameters": query_parameters(options),
            "requestBody": {"required": True, "content": {NDJSON: {"schema": _text(sentences)}}},
            "responses": responses(_text(parses), ERRORS, NDJSON),
        }
    }


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}
