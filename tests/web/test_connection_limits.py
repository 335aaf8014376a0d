"""Limits on connections: clients that do not read, send too much at once, or come in great numbers."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import struct
import sys
import threading
import time

import pytest

from helpers.browser import serving
from helpers.client import Client
from sapwood.web import connection_limits
from sapwood.web.connection_limits import OpenConnections, client_network
from sapwood.web.scheduler import Plan, RequestJob
from sapwood.web.service import Limits, Service

GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
PARSE = b"POST /api/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
BODY = b'{"trees": "(S ' + b"(N a)" * 6_000 + b')", "to": "svg"}'
# A request whose answer has 1.3 MB.
LARGE = PARSE % (b"format", len(BODY), BODY)


# Elsewhere, the state of a connection cannot be asked for, and the loopback network has one address.
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs TCP_INFO, and 127.0.0.2")


@pytest.fixture(scope="module")
def service():
    """A service with a single model, which the tests below share."""
    return Service.load()


@pytest.fixture(params=["httptools", "h11"])
def protocol(request):
    """Both of uvicorn's protocols."""
    return request.param


def renewed(service: Service, **limits) -> Service:
    """Return a service with other limits that shares the models; its workers are its own."""
    return Service(service.models, limits=Limits(**limits))


@pytest.fixture
def connect():
    """A function that opens a connection and sends something; they are closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(client: Client, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
            host, port = client.place.split(":")
            connection = stack.enter_context(socket.socket())
            connection.settimeout(10)
            # Little that has arrived without having been read is kept here.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((source, 0))
            connection.connect((host, int(port)))
            with contextlib.suppress(OSError):
                connection.sendall(data)
            return connection

        yield make


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has ended a connection, without reading from it."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # established


def wait_until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


@linux_only
def test_answers_that_are_not_read(service, monkeypatch, connect, protocol):
    """A client that reads nothing is closed; one that reads slowly gets all of its answer."""
    monkeypatch.setattr(connection_limits, "WRITE_SECONDS", 0.5)
    with serving(renewed(service), http=protocol) as address:
        client = Client(address)
        deaf, slow, last = (
            connect(client, LARGE),
            connect(client, LARGE),
            connect(client, LARGE.replace(b"1.1", b"1.0")),
        )
        size, end = 0, time.monotonic() + 60
        while b"</svg>" not in (part := slow.recv(1 << 16)):
            assert part
            size += len(part)
            assert time.monotonic() < end
            time.sleep(0.002)
        assert size > 1_200_000
        wait_until(lambda: is_closed(deaf) and is_closed(last))
        # A connection without an answer to read stays, up to the limits on heads and idle time.
        assert not is_closed(slow)


@linux_only
def test_a_thousand_bad_clients_leave_room_for_good_ones(service, connect):
    """Whatever they do: nothing, half a head, half a body, answers unread; from the same address, too."""
    limits = {"connections": 120, "connections_per_client": 100}
    kinds = [b"", b"GET / HTT", PARSE[:-4] % (b"parse", 100), GET % b"/static/js/parse.js"]
    with serving(renewed(service, **limits)) as address:
        client = Client(address)
        bad = []
        for number in range(1005):
            bad.append(connect(client, kinds[number % len(kinds)]))
            if number % 100 == 50:
                assert client.ask("GET", "/")[0] == 200
                assert client.post("/api/parse", {"text": "Yes."})[0] == 200
        # They hold a hundred places at most; addresses without any have room.
        wait_until(lambda: 90 < sum(not is_closed(connection) for connection in bad) <= 100)
        others = [connect(client, GET % b"/healthz", f"127.0.0.{number}") for number in range(2, 12)]
        for connection in others:
            assert b" 200 " in connection.recv(1000).splitlines()[0]


@linux_only
def test_bad_clients_of_many_addresses(service, connect):
    """At the limit of the server as a whole, those that wait lose their places, too."""
    with serving(renewed(service, connections=50)) as address:
        client = Client(address)
        for number in range(1, 201):
            connect(client, b"GET / HTT", f"127.0.1.{number}")
        for _ in range(5):
            assert client.ask("GET", "/")[0] == 200


class Connection:
    """A connection that is at work, or only waits."""

    def __init__(self, busy: bool = False) -> None:
        self.busy, self.open = busy, True

    def only_waits(self) -> bool:
        return not self.busy

    def drop(self) -> None:
        self.open = False


def test_connections_at_work_keep_their_places():
    known = OpenConnections(9, 3)
    first, second, third = Connection(busy=True), Connection(), Connection()
    for one in (first, second, third):
        assert known.admit(one, "a") is None
    fourth, fifth = Connection(busy=True), Connection(busy=True)
    assert known.admit(fourth, "a") is None
    assert [one.open for one in (first, second, third, fourth)] == [True, False, True, True]
    assert known.admit(fifth, "a") is None
    assert not third.open
    assert known.admit(Connection(), "a") == 429
    for number in range(5):
        assert known.admit(Connection(busy=True), f"b{number}") is None
    idle = Connection()
    assert known.admit(idle, "c") is None
    assert len(known) == 9
    assert known.admit(Connection(busy=True), "d") is None
    assert not idle.open
    assert known.admit(Connection(), "e") == 503
    known.remove(first, "a")
    known.remove(first, "a")
    assert known.admit(Connection(), "a") is None


def test_addresses_of_clients():
    assert client_network(("10.1.2.3", 80)) == "10.1.2.3"
    assert client_network(("::ffff:10.1.2.3", 80, 0, 0)) == "10.1.2.3"
    assert (
        client_network(("2001:db8::1", 80, 0, 0))
        == client_network(("2001:db8::ffff:2%eth0", 1, 0, 0))
        == "2001:db8::/64"
    )
    assert client_network(("2001:db8:0:1::1", 80, 0, 0)) != client_network(("2001:db8::1", 80, 0, 0))
    assert client_network(None) == client_network("") == ""


@linux_only
def test_an_address_whose_connections_are_all_at_work(service, connect):
    with serving(renewed(service, connections_per_client=3)) as address:
        client = Client(address)
        body = b'{"sentences": [' + b",".join([b'["time", "flies", "like"]'] * 900) + b'], "alternatives": 50}'
        busy = [connect(client, PARSE % (b"parse", len(body), body)) for _ in range(3)]
        time.sleep(0.3)
        assert client.ask("GET", "/")[0] == 429
        with connect(client, GET % b"/", "127.0.0.2") as other:
            assert b" 200 " in other.recv(1000).splitlines()[0]
        for connection in busy:
            connection.close()
        wait_until(lambda: client.ask("GET", "/")[0] == 200)


def test_pipelined_requests(service, connect, protocol):
    """All are answered in order, whatever their sizes and those of the bodies between them."""
    texts = ["Yes. " * number for number in (1, 100, 2, 1, 200, 3)]
    with serving(renewed(service), http=protocol) as address:
        client = Client(address)
        bodies = [json.dumps({"text": text}).encode() for text in texts]
        sent = b"".join(PARSE % (b"parse", len(body), body) + GET % b"/healthz" * 10 for body in bodies)
        with connect(client, sent) as connection:
            found = b""
            while found.count(b'{"status":"ok"}') < 10 * len(texts):
                part = connection.recv(65536)
                assert part
                found += part
    assert [part.count(b'"offsets"') for part in found.split(b"\r\n\r\n{")[1::11]] == [1, 100, 2, 1, 200, 3]


def test_floods_of_pipelined_requests(service, caplog, connect):
    one = renewed(service)
    with serving(one) as address, caplog.at_level(logging.WARNING):
        client = Client(address)
        body = b'{"text": "Yes."}'
        for flood in (PARSE % (b"parse", len(body), body), GET % b"/"):
            for _ in range(3):
                connection = connect(client, flood * 1000)
                found = b""
                with contextlib.suppress(ConnectionError):
                    while found.count(b" 200 OK") < 1000 and (part := connection.recv(65536)):
                        found += part
                assert found.count(b" 200 OK") < 100
                connection.close()
        assert client.post("/api/parse", {"text": "Yes."})[0] == 200
        wait_until(lambda: one.crew.jobs == 0)
    assert caplog.text == ""


def test_pipelined_requests_are_read_as_they_are_answered(service, monkeypatch, connect):
    """Few are parsed before the first is answered, and never many more than answered."""
    protocol = pytest.importorskip("uvicorn.protocols.http.httptools_impl").HttpToolsProtocol
    parsed, note = [], protocol.on_headers_complete
    answered, end, ahead = [], protocol.on_response_complete, [0]

    def parse(self) -> None:
        parsed.append(1)
        ahead[0] = max(ahead[0], len(parsed) - len(answered))
        note(self)

    monkeypatch.setattr(protocol, "on_headers_complete", parse)
    monkeypatch.setattr(protocol, "on_response_complete", lambda self: (answered.append(1), end(self))[1])
    one, go = renewed(service), threading.Event()
    for _ in range(one.threads):
        one.crew.submit(RequestJob(lambda job: Plan([lambda: go.wait(20)], list), 60.0, lambda *given: None))
    try:
        with serving(one) as address:
            body = b'{"text": "Yes."}'
            connection = connect(Client(address), PARSE % (b"parse", len(body), body) + (GET % b"/healthz") * 180)
            wait_until(lambda: one.crew.jobs == 3)
            time.sleep(0.2)
            assert 0 < len(parsed) < 40
            go.set()
            found = b""
            while found.count(b'{"status":"ok"}') < 180:
                part = connection.recv(65536)
                assert part
                found += part
            assert len(parsed) == len(answered) == 181
            assert ahead[0] < 40
    finally:
        go.set()


def test_clients_that_leave_in_the_middle_of_an_answer(service, caplog, capfd, connect, protocol):
    """Nothing but a line that the client has gone; no traceback, from uvicorn neither."""
    one, rng = renewed(service), random.Random(3)
    parse = PARSE % (b"parse", 16, b'{"text": "Yes."}')
    with serving(one, http=protocol) as address, caplog.at_level(logging.WARNING):
        client = Client(address)
        for number in range(80):
            sent = [LARGE, parse * 5, LARGE + parse * 3, (GET % b"/static/js/parse.js") * 4][number % 4]
            connection = connect(client, sent)
            time.sleep(rng.choice([0.0, 0.001, 0.01, 0.05]))
            if number % 3:
                with contextlib.suppress(OSError):
                    connection.settimeout(0.05)
                    connection.recv(rng.choice([1, 1000, 100_000]))
            if number % 2:  # reset instead of an orderly end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert client.post("/api/parse", {"text": "Yes."})[0] == 200
        wait_until(lambda: one.crew.jobs == 0)
    assert [record.getMessage() for record in caplog.records] == []
    assert "Traceback" not in capfd.readouterr().err
