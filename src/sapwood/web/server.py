"""Running the application: sockets, signals, and an address to look at."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable
from typing import Any

from sapwood.errors import InputError, UsageError
from sapwood.web.application import LOG, Application
from sapwood.web.service import Service

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 is any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
            stack.pop_all()
    except OSError as error:
        raise InputError(
            f"{host}:{port}: cannot listen there: {error.strerror or error}; give another --host or --port"
        ) from None
    return listening


def is_loopback(listening: socket.socket) -> bool:
    """Return whether a socket can be reached from this machine alone."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def address_of(listening: socket.socket) -> str:
    """Return the address to type into a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def make_server(service: Service, listening: socket.socket, *, log_texts: bool = False) -> Any:
    """Return a uvicorn server for a service; raises `UsageError` if uvicorn is not installed."""
    try:
        import uvicorn
    except ImportError:
        raise UsageError("the explorer needs uvicorn; install it with: pip install uvicorn httptools") from None
    from sapwood.web.guarded import MOST_HEAD, guarded_protocol

    hosts = _LOOPBACK_NAMES if is_loopback(listening) else None
    application = Application(service, hosts=hosts, log_texts=log_texts)
    settings = uvicorn.Config(
        application,
        http=guarded_protocol(),
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        limit_concurrency=service.limits.connections,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MOST_HEAD,
    )
    return uvicorn.Server(settings)


def serve(
    service: Service,
    listening: socket.socket,
    *,
    log_texts: bool = False,
    started: Callable[[str], None] = lambda address: None,  # noqa: ARG005
) -> None:
    """Serve until interrupted; `started` is called with the address when the first request can come."""
    server = make_server(service, listening, log_texts=log_texts)
    try:
        started(address_of(listening))
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn passes on when all is closed
            server.run(sockets=[listening])
    finally:
        service.close()
        listening.close()


def log_to_stderr() -> None:
    """Write what happens to standard error, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
