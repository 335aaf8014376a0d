"""Connection limits: uvicorn's protocol with limits on the connections of a client, on heads, and on unread answers.

uvicorn bounds neither the time in which the head of a request (its first line and its headers) must arrive nor, with
httptools, its size, nor the number of requests that a client may send before it has read the first answer (pipelining),
nor the time in which answers must be read. A client that sends or reads a byte now and then on many connections would
shut out all others (Slowloris).

A client address may have a number of connections, and the server as a whole. Beyond that, a new connection takes the
place of the oldest one that only waits: for a request to arrive, or for its answer to be read. If there is none, all of
them are at work, and the new connection is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import struct
from typing import Any

# The head of a request must arrive within this many seconds and have at most about this many bytes: each read, of up
# to 256 KB, is checked as a whole.
HEAD_SECONDS = 10.0
MOST_HEAD = 1 << 16
# In every period of this many seconds, a client must take at least this many bytes of an answer, or all that is left.
WRITE_SECONDS = 10.0
LEAST_READ = 1 << 14
# Size of the kernel's buffer for a connection, which must be small in comparison with what clients read in a period:
# the kernel reports progress only when a third of it is free.
_KERNEL_BUFFER = 1 << 16
# Maximum number of requests that wait for the answers to earlier ones on the same connection.
MOST_PIPELINED = 16
_REASONS = {408: "Request Timeout", 429: "Too Many Requests", 431: "Request Header Fields Too Large"}


class _Flood(Exception):
    """A client has sent too many requests at once."""


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

    def admit(self, connection: Any, client: str) -> bool:
        """Add a connection, in place of another one if need be; returns whether there was room."""
        own = self._by_client.setdefault(client, {})
        room = len(own) < self._most_per_client or self._drop_one(own)
        if room and len(self) + 1 >= self._most:
            # Those with the most connections lose one first; at the limit itself, uvicorn answers with 503.
            any(self._drop_one(some) for some in sorted(self._by_client.values(), key=len, reverse=True))
        if room:
            own[connection] = None
            self._by_client[client] = own
        return room

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


def guarded_protocol(most: int = 1000, most_per_client: int = 256) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits, for one server: that of httptools if it is installed, else of h11.

    Parameters
    ----------
    most, most_per_client
        Maximum number of connections, and of those of one client address.
    """
    base: Any
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base
    others = OpenConnections(most, most_per_client)

    class Guarded(base):  # type: ignore[misc]
        """A connection."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self._client = ""
            self._head = 0
            self._timer: asyncio.TimerHandle | None = None
            # Bytes that were not read at the last look, and the request at that time.
            self._unread: tuple[int, Any] = (0, None)
            self._look: asyncio.TimerHandle | None = None
            # Requests without a complete answer; httptools' protocol itself knows only the latest.
            self._cycles: list[Any] = []
            self._flooded = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._client = client_network(transport.get_extra_info("peername"))
            if not others.admit(self, self._client):
                self._refuse(429, "this address has too many connections; close some, or try again later")
                return
            limit_kernel_buffer(transport)
            self._look = self.loop.call_later(WRITE_SECONDS, self._look_at_answer)
            self._wait()

        def on_headers_complete(self) -> None:  # of httptools; h11 takes one request at a time
            if len(self.pipeline) >= MOST_PIPELINED:
                self._flooded = True
                raise _Flood  # the parser stops: thousands of requests can be in one read
            super().on_headers_complete()
            self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
            self._cycles.append(self.cycle)

        def send_400_response(self, msg: str) -> None:
            if not self._flooded:
                super().send_400_response(msg)

        def data_received(self, data: bytes) -> None:
            if self._flooded or self.transport.is_closing():
                return
            super().data_received(data)
            if self._flooded:
                self.drop()
                return
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
                return
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._refuse(431, f"the head of a request may have up to {MOST_HEAD} bytes")
            elif self._timer is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            if self._look is not None:
                self._look.cancel()
            others.remove(self, self._client)
            # Without this, earlier requests would be answered into the void, with an error for each.
            for cycle in self._cycles:
                cycle.disconnected = True
                cycle.message_event.set()
            self._cycles.clear()
            super().connection_lost(exc)

        def only_waits(self) -> bool:
            """Return whether nothing is being computed for this client."""
            cycles = self._cycles or ([] if self.cycle is None else [self.cycle])
            return self.flow.write_paused or all(cycle.response_complete or cycle.more_body for cycle in cycles)

        def drop(self) -> None:
            """Close the connection at once; an orderly end would wait until the client has read its answers."""
            self.connections.discard(self)
            if (found := self.transport.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def _look_at_answer(self) -> None:
            """Close the connection if the client does not read its answer."""
            size = self.transport.get_write_buffer_size()
            before, cycle = self._unread
            if before and cycle is self.cycle and size > max(0, before - LEAST_READ):
                self.drop()
                return
            self._unread = (size, self.cycle)
            self._look = self.loop.call_later(WRITE_SECONDS, self._look_at_answer)

        def _wait(self) -> None:
            late = "the head of the request did not arrive in time"
            self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, 408, late)

        def _stop(self) -> None:
            self._head = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _refuse(self, status: int, message: str) -> None:
            self._stop()
            if self.transport.is_closing():
                return
            body = json.dumps({"error": message}).encode()
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Guarded


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
