"""Connections that do not wait for ever: uvicorn's protocol, with limits on how a request begins.

uvicorn bounds neither the time in which the head of a request (its first line and its headers) must arrive nor, with
httptools, its size. A client that sends a byte now and then, on many connections, would keep all others out.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

# The head of a request must come within so many seconds, and have so many bytes at most, about: what is read at once,
# up to 256 KB, is looked at as a whole.
HEAD_SECONDS = 10.0
MOST_HEAD = 1 << 16
_REASONS = {408: "Request Timeout", 431: "Request Header Fields Too Large"}


@cache
def guarded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits: that of httptools if it is installed, else that of h11."""
    base: Any
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base

    class Guarded(base):  # type: ignore[misc]
        """A connection."""

        _head = 0
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
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
            super().connection_lost(exc)

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
