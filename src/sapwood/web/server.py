"""Server of the application: sockets, signals, and the address to open."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import os
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, cast

from starlette.types import ASGIApp

from sapwood.errors import InputError, UsageError
from sapwood.web.connection_limits import MOST_HEAD, LimitedRequests, OpenConnections, limited_protocol
from sapwood.web.operation.processes import run_processes
from sapwood.web.operation.watch import watching
from sapwood.web.service import Limits, Service

LOG = logging.getLogger("sapwood.web")
LogFormat = Literal["text", "json"]
_TIME = "%Y-%m-%dT%H:%M:%S%z"
# Maximum time for which a working thread keeps the interpreter while the thread of the connections waits for it, which
# happens after every system call: with Python's 5 ms, a few hundred connections a second would be too many.
_SWITCH_SECONDS = 0.0002
# Open files of a server besides its connections, with some to spare.
_OTHER_FILES = 32
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def open_sockets(host: str, port: int, number: int) -> list[socket.socket]:
    """Return listening sockets on one port, one for each process of a server; port 0 picks a free one."""
    if number > 1 and not (hasattr(os, "fork") and hasattr(socket, "SO_REUSEPORT")):
        raise UsageError("this system cannot share a port among processes; leave --workers out")
    first = open_socket(host, port, shared=number > 1)
    return [first, *(open_socket(host, first.getsockname()[1], shared=True) for _ in range(number - 1))]


def open_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening socket; port 0 picks a free one. Several `shared` ones may have the same port."""
    if _files_for(_OTHER_FILES) < _OTHER_FILES:
        raise UsageError(f"a server needs {_OTHER_FILES} open files, and this system allows fewer; raise `ulimit -n`")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind(address)
            listening.listen(1024)
            stack.pop_all()
    except OSError as error:
        raise InputError(
            f"{host}:{port}: cannot listen there: {error.strerror or error}; give another --host or --port"
        ) from None
    return listening


def _files_for(wanted: int) -> int:
    """Return how many files may be open, raising the limit to what is wanted if the system permits it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else soft


def is_loopback(listening: socket.socket) -> bool:
    """Return whether a socket is reachable from this machine only."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def address_of(listening: socket.socket) -> str:
    """Return the URL to open in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def make_server(service: Service, listening: socket.socket, *, log_texts: bool = False, http: str = "auto") -> Any:
    """Return a uvicorn server of a service's explorer."""
    from sapwood.web.application import make_explorer

    application = make_explorer(service, hosts=hosts_of(listening), log_texts=log_texts)
    return make_server_of(application, service.limits, http=http)


def hosts_of(listening: socket.socket) -> Collection[str] | None:
    """Return the host names that clients of a socket may use; None: any."""
    return _LOOPBACK_NAMES if is_loopback(listening) else None


def make_server_of(application: ASGIApp, limits: Limits, *, http: str = "auto") -> Any:
    """Return a uvicorn server of an application, with limits on connections.

    Parameters
    ----------
    application
        The application.
    limits
        Limits, of which those on connections are used.
    http
        uvicorn's protocol: `httptools`, `h11`, or `auto`, the former if it is installed.
    """
    import uvicorn

    # A connection that has no descriptor would never be accepted, however many others only wait.
    most = min(limits.connections, _files_for(limits.connections + _OTHER_FILES) - _OTHER_FILES)
    connections = OpenConnections(most, limits.connections_per_client)
    settings = uvicorn.Config(
        LimitedRequests(application, connections),
        http=http,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=math.ceil(limits.drain),
        h11_max_incomplete_event_size=MOST_HEAD,
    )
    settings.load()
    settings.http_protocol_class = cast(Any, limited_protocol(settings.http_protocol_class, connections))
    return uvicorn.Server(settings)


def serve(
    service: Service,
    sockets: Sequence[socket.socket],
    *,
    log_texts: bool = False,
    watch: bool = False,
    started: Callable[[str], None] = lambda address: None,  # noqa: ARG005
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    service
        The service.
    sockets
        Listening sockets, each of which gets a process of its own.
    log_texts
        Whether to log the bodies of requests.
    watch
        Whether to load models again whose files are replaced.
    started
        Called with the address once connections are accepted.
    """
    _ = service.metrics  # its memory is shared by all processes

    def run(number: int) -> None:
        service.metrics.use_row(number)
        server = make_server(service, sockets[number], log_texts=log_texts)
        with watching(service) if watch else contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[sockets[number]])  # re-raises an interrupt after shutdown

    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        started(address_of(sockets[0]))
        if len(sockets) == 1:
            run(0)
        else:
            sys.stdout.flush()
            run_processes(len(sockets), run)
    finally:
        sys.setswitchinterval(usual)
        service.close()
        for one in sockets:
            one.close()


def log_to_stderr(format: LogFormat = "text") -> None:
    """Log to standard error, one line per event, with date and time and the client's address."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if format == "json" else LineFormatter("%(asctime)s %(message)s", _TIME))
    # uvicorn and asyncio log their errors here as well.
    for logger in (LOG, logging.getLogger("uvicorn"), logging.getLogger("asyncio")):
        logger.addHandler(handler)
        logger.propagate = False
    LOG.setLevel(logging.INFO)


class LineFormatter(logging.Formatter):
    """Formatter of log lines as text: what a client sends cannot begin a line, nor control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of an event, without its traceback."""
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class JSONFormatter(logging.Formatter):
    """Formatter of log lines as JSON objects: time, level, and the fields of the event, or its message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an event."""
        line = {"time": self.formatTime(record, _TIME), "level": record.levelname.lower()}
        line |= getattr(record, "fields", None) or {"message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
