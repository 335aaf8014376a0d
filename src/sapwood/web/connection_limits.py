"""Connection limits: how many a client may have, and how slowly and how much it may send and read.

uvicorn bounds neither the time in which the head of a request (its first line and its headers) must arrive nor, with
httptools, its size, nor the number of requests that a client may send before it has read the first answer (pipelining),
nor the time in which answers must be read. A client that sends or reads a byte now and then on many connections would
shut out all others (Slowloris).

So each connection is a `LimitedConnection` in front of uvicorn's, to which it passes events on. Both talk through the
interfaces of asyncio alone: a protocol, and its transport. `LimitedRequests`, the outermost layer of the application,
says when requests begin and end.

A client address may have a number of connections, and the server as a whole. Beyond that, a new connection takes the
place of the oldest one that only waits: for a request to arrive, or for its answer to be read. If there is none, all of
them are at work, and the new connection is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sapwood.web.messages import Error, encode

# The head of a request must arrive within this many seconds and have at most this many bytes.
HEAD_SECONDS = 10.0
MOST_HEAD = 1 << 16
# In every period of this many seconds, a client must take at least this many bytes of an answer, or all that is left.
WRITE_SECONDS = 10.0
LEAST_READ = 1 << 14
# Size of the kernel's buffer for a connection, which must be small in comparison with what clients read in a period:
# the kernel reports progress only when a third of it is free.
_KERNEL_BUFFER = 1 << 16
# Bytes that are passed on at once: further requests in them are read before the first is answered, later ones after.
_SLICE = 1 << 10
# Maximum number of bytes of further requests that wait for the answer to an earlier one on the same connection.
MOST_PIPELINED = 1 << 13
TOO_LARGE_HEAD = f"the head of a request may have up to {MOST_HEAD} bytes"
# Bytes without a request in them: the largest head, and as much of a body as uvicorn takes before it begins.
_MOST_UNCLAIMED = 3 * MOST_HEAD
# Extension of the scope of a request: a future that is done when the connection is lost.
LOST = "sapwood.connection_lost"


class OpenConnections:
    """The open connections of a server, by client address, the oldest first.

    Parameters
    ----------
    most
        Maximum number of connections.
    most_per_client
        Maximum number of connections of one client address.
    """

    def __init__(self, most: int, most_per_client: int) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._by_client: dict[str, dict[Any, None]] = {}
        # By address and port, as the scope of a request has them.
        self.by_peer: dict[tuple[str, int], LimitedConnection] = {}

    def admit(self, connection: Any, client: str) -> HTTPStatus | None:
        """Add a connection, in place of another one if need be; returns a status if it is refused."""
        own = self._by_client.setdefault(client, {})
        if len(own) >= self._most_per_client and not self._drop_one(own):
            return HTTPStatus.TOO_MANY_REQUESTS
        if len(self) >= self._most and not any(
            # Those with the most connections lose one first.
            self._drop_one(some)
            for some in sorted(self._by_client.values(), key=len, reverse=True)
        ):
            return HTTPStatus.SERVICE_UNAVAILABLE
        own[connection] = None
        self._by_client[client] = own
        return None

    def remove(self, connection: Any, client: str) -> None:
        """Remove a connection, if it is there."""
        own = self._by_client.get(client, {})
        own.pop(connection, None)
        if not own:
            self._by_client.pop(client, None)

    def __len__(self) -> int:
        return sum(map(len, self._by_client.values()))

    def _drop_one(self, some: dict[Any, None]) -> bool:
        found = next((connection for connection in some if connection.only_waits()), None)
        if found is not None:
            del some[found]
            found.drop()
        return found is not None


class LimitedConnection(asyncio.Protocol):
    """A connection, in front of the protocol that reads its requests.

    Parameters
    ----------
    inner
        The protocol.
    connections
        All connections of the server.
    """

    def __init__(self, inner: asyncio.Protocol, connections: OpenConnections) -> None:
        self._inner, self._connections = inner, connections
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._client, self._peer = "", ("", 0)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Bytes that were not read at the last look, and the number of requests at that time.
        self._unread = (0, 0)
        # Bytes not yet passed on, whether the protocol wants any, and those it has since the last request.
        self._held, self._wanted, self._unclaimed = bytearray(), True, 0
        self._admitted, self._writable = False, True
        # Requests so far, those that are being answered, and whether the body of one is still to come.
        self._requests, self._active, self._body_comes = 0, 0, False
        # Whether the protocol has no request left that it has read: the next one begins soon after the last has ended.
        self._idle = True
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: Any) -> None:
        """Pass the connection on if there is room for it."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client = client_network(peer)
        if (status := self._connections.admit(self, self._client)) is not None:
            what = "this address" if status == HTTPStatus.TOO_MANY_REQUESTS else "the server"
            self._refuse(status, f"{what} has too many connections; close some, or try again later")
            return
        self._admitted = True
        if isinstance(peer, tuple):
            self._peer = (str(peer[0]), int(peer[1]))
            self._connections.by_peer[self._peer] = self
        limit_kernel_buffer(transport)
        self._inner.connection_made(cast(asyncio.Transport, _Gate(transport, self._want, self.lost)))
        self._set_timer("look", WRITE_SECONDS, self._look_at_answer)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, as far as the protocol wants them."""
        if self._transport.is_closing():
            return
        if self._active == 0 and "head" not in self._timers:
            self._await_head()
        self._held += data
        self._pass_on()
        self._check_waiting()

    def eof_received(self) -> bool | None:
        """Pass the end of the client's bytes on."""
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        """Pass on that the client is slow to read."""
        self._writable = False
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client has read."""
        self._writable = True
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the connection on, also to the requests that are being answered."""
        for timer in self._timers.values():
            timer.cancel()
        self._connections.remove(self, self._client)
        self._held.clear()
        if not self.lost.done():
            self.lost.set_result(None)
        if self._connections.by_peer.get(self._peer) is self:
            del self._connections.by_peer[self._peer]
        if self._admitted:
            self._inner.connection_lost(exc)

    def only_waits(self) -> bool:
        """Return whether nothing is being computed for this client."""
        return not self._writable or not self._active or self._body_comes

    def drop(self) -> None:
        """Close the connection at once; an orderly end would wait until the client has read its answers."""
        if (found := self._transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def begin(self, *, with_body: bool) -> None:
        """Note that a request has begun, whose body may be still to come."""
        self._requests += 1
        self._active += 1
        self._unclaimed, self._body_comes, self._idle = 0, with_body, False
        self._cancel_timer("head")
        self._loop.call_soon(self._pass_on)
        self._check_waiting()

    def has_body(self) -> None:
        """Note that the whole body of the request has come."""
        self._body_comes = False
        self._check_waiting()

    def end(self) -> None:
        """Note that a request has been answered."""
        self._active -= 1
        self._unclaimed, self._body_comes = 0, False
        self._loop.call_soon(self._rest, self._requests)

    def _check_waiting(self) -> None:
        """Close the connection if too many further requests wait; to answer them all would take too long."""
        if self._active and not self._body_comes and len(self._held) > MOST_PIPELINED:
            self.drop()

    def _rest(self, requests: int) -> None:
        """Pass bytes on again if no further request has begun, be it answered already or not."""
        if not self._active and self._requests == requests:
            self._idle = True
            self._pass_on()

    def _want(self, wanted: bool) -> None:
        self._wanted = wanted
        if wanted:
            self._loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._held and self._wanted and (self._idle or self._body_comes):
            if self._transport.is_closing():
                return
            part = bytes(self._held[:_SLICE])
            del self._held[:_SLICE]
            self._inner.data_received(part)
            if not self._active:
                self._unclaimed += len(part)
                if self._unclaimed > _MOST_UNCLAIMED:
                    self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_LARGE_HEAD)
        if not self._transport.is_closing():
            if self._held:
                self._transport.pause_reading()
            elif not self._transport.is_reading():
                self._transport.resume_reading()

    def _look_at_answer(self) -> None:
        """Close the connection if the client does not read its answer."""
        size = self._transport.get_write_buffer_size()
        before, request = self._unread
        if before and request == self._requests and size > max(0, before - LEAST_READ):
            self.drop()
            return
        self._unread = (size, self._requests)
        self._set_timer("look", WRITE_SECONDS, self._look_at_answer)

    def _await_head(self) -> None:
        late = "the head of the request did not arrive in time"
        self._set_timer("head", HEAD_SECONDS, lambda: self._refuse(HTTPStatus.REQUEST_TIMEOUT, late))

    def _set_timer(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self._cancel_timer(name)
        self._timers[name] = self._loop.call_later(seconds, call)

    def _cancel_timer(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._cancel_timer("head")
        if self._transport.is_closing():
            return
        body = encode(Error(message))
        head = (
            f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()


class _Gate:
    """A transport, whose protocol asks this connection for bytes instead of the network, and may write to the end."""

    def __init__(self, transport: Any, want: Callable[[bool], None], lost: asyncio.Future[None]) -> None:
        self._transport, self._want, self._lost = transport, want, lost

    def write(self, data: bytes) -> None:
        """Write bytes, unless nobody is there to read them."""
        if not self._lost.done():
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Pass no further bytes on."""
        self._want(False)

    def resume_reading(self) -> None:
        """Pass bytes on again."""
        self._want(True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedRequests:
    """ASGI middleware that tells connections when requests begin and end, and refuses heads that are too large."""

    def __init__(self, app: ASGIApp, connections: OpenConnections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        connection = self._connections.by_peer.get(scope.get("client", ())) if scope["type"] == "http" else None
        if connection is None:
            await self._app(scope, receive, send)
            return
        names = dict(scope["headers"])

        started = complete = False

        async def read() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                connection.has_body()
            return message

        async def answer(message: Message) -> None:
            nonlocal started, complete
            started = True
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        connection.begin(with_body=names.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in names)
        scope.setdefault("extensions", {})[LOST] = connection.lost
        try:
            await self._app(scope, read, answer)
        finally:
            if connection.lost.done() and not complete:
                # uvicorn expects an answer to all but the last request that it has read.
                with contextlib.suppress(RuntimeError):
                    if not started:
                        await send({"type": "http.response.start", "status": 503, "headers": []})
                    await send({"type": "http.response.body"})
            connection.end()


def limited_protocol(inner: Callable[..., Any], connections: OpenConnections) -> Callable[..., LimitedConnection]:
    """Return a factory of connections, for a server whose protocol is `inner`."""
    return lambda **settings: LimitedConnection(inner(**settings), connections)


def head_size(scope: Scope) -> int:
    """Return the number of bytes in the head of a request, about."""
    fields = sum(len(name) + len(value) for name, value in scope["headers"])
    return fields + len(scope.get("raw_path") or b"") + len(scope["query_string"])


def limit_kernel_buffer(transport: Any) -> None:
    """Limit what the kernel keeps of answers that a client has not read."""
    if (found := transport.get_extra_info("socket")) is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)


def client_network(peer: Any) -> str:
    """Return the address of a client; of IPv6 addresses, the network (/64), all of which a client may have."""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except (TypeError, IndexError, ValueError):
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
