"""What nobody should send, byte by byte: clear answers, and the others are served meanwhile."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import struct
import threading
import time

import pytest

import sapwood
from helpers.browser import annotating, serving
from helpers.client import Client
from sapwood.annotation.project import Project
from sapwood.annotation.session import AnnotationSession
from sapwood.inference.parser import Parser
from sapwood.trees.tree import Tree
from sapwood.web.api.annotation import ENDPOINTS
from sapwood.web.service import Limits, Service
from sapwood.web.treebank import ServedTreebank

GET = b"GET %b HTTP/1.1\r\nHost: %b\r\n%b\r\n"
POST = b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"


def send(client: Client, data: bytes, seconds: float = 10) -> bytes:
    """Return what comes back, up to the end of the connection or of an answer's head."""
    host, port = client.place.split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        found = b""
        with contextlib.suppress(OSError):  # refused before all was sent: the answer is there
            connection.sendall(data)
        with contextlib.suppress(OSError):
            while b"\r\n\r\n" not in found and (part := connection.recv(65536)):
                found += part
        return found


def status(client: Client, data: bytes) -> int:
    return int(send(client, data)[9:12])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (GET % (b"/static/../../../../etc/passwd", b"localhost", b""), 404),
        (GET % (b"/static/..%2f..%2fservice.py", b"localhost", b""), 404),
        (GET % (b"/static/css/%00theme.css", b"localhost", b""), 404),
        (GET % (b"//etc/passwd", b"localhost", b""), 404),
        (GET % (b"/", b"evil.example", b""), 400),
        (GET % (b"/", b"localhost.evil.example", b""), 400),
        (GET % (b"/", b"localhost@evil.example", b""), 400),
        (GET % (b"/", b"localhost:evil.example", b""), 400),
        (GET % (b"/", b"[::1].evil.example", b""), 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (GET % (b"/", b"[::1]:80", b""), 200),
        (GET % (b"/", b"LOCALHOST", b""), 200),
        (GET % (b"/", b"localhost", b"X: " + b"a" * 2_000_000 + b"\r\n"), 431),
        (GET % (b"/", b"localhost", b"".join(b"X%d: a\r\n" % n for n in range(100_000))), 431),
        (GET % (b"/" + b"a" * 1_000_000, b"localhost", b""), 431),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: -5\r\n\r\n", 400),
        (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
        (POST + b"Content-Length: 999999999\r\n\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK * 5, 413),
        (POST.replace(b"application/json", b"text/plain") + b"Content-Length: 2\r\n\r\n{}", 415),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (GET % (b"/api/parse", b"localhost", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"), 405),
    ],
    ids=lambda value: str(value)[:60],
)
def test_every_attempt_gets_its_status(client, data, expected):
    assert status(client, data) == expected
    assert client.ask("GET", "/")[0] == 200


def test_other_sites_are_not_let_in(client):
    asked = b"Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
    answer = send(client, b"OPTIONS /api/parse HTTP/1.1\r\nHost: localhost\r\n" + asked + b"\r\n").lower()
    assert b" 405 " in answer.splitlines()[0]
    assert b"access-control" not in answer
    assert b"cross-origin-resource-policy: same-origin" in answer


def test_the_annotator_is_protected_like_the_explorer(tmp_path):
    """Token, host and type of the body are checked on every endpoint, and no path leads into the project or out."""
    project = tmp_path / "project"
    Project.create(project, sentences=[["one", "two"]])
    before = {path.name: path.read_bytes() for path in project.iterdir()}
    session = AnnotationSession(Project(project))
    with annotating(session, token="gr33n") as address:
        client = Client(address)
        assert client.ask("GET", "/")[0] == 200
        know = b"Authorization: Bearer gr33n\r\n"
        for endpoint in ENDPOINTS:
            path = endpoint.path.encode()
            if endpoint.method == "GET":
                assert status(client, GET % (path, b"localhost", b"")) == 401
                assert status(client, GET % (path, b"evil.example", know)) == 400
                continue
            head = POST.replace(b"/api/parse", path) + b"Content-Length: 2\r\n"
            assert status(client, head + b"\r\n{}") == 401
            assert status(client, head.replace(b"localhost", b"evil.example") + know + b"\r\n{}") == 400
            for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"):
                assert status(client, head.replace(b"application/json", kind) + know + b"\r\n{}") == 415
            assert status(client, GET % (path, b"localhost", know)) == 405
        for path in (b"/trees.mrg", b"/static/../../project/journal.jsonl", b"/journal.jsonl", b"/%2e%2e/etc/passwd"):
            assert status(client, GET % (path, b"localhost", know)) == 404
    session.close()
    after = {path.name: path.read_bytes() for path in project.iterdir()}
    assert {name: after[name] for name in before} == before


def test_heads_that_do_not_come(monkeypatch):
    """Clients that send a byte now and then lose their places, at their first request and at later ones."""
    monkeypatch.setattr("sapwood.web.connection_limits.HEAD_SECONDS", 0.5)
    with serving(Service.load(limits=Limits(connections=20))) as address:
        client = Client(address)
        host, port = client.place.split(":")
        slow = [socket.create_connection((host, int(port)), timeout=10) for _ in range(25)]
        for number, connection in enumerate(slow):
            if number % 3:
                with contextlib.suppress(OSError):  # the oldest have lost their places already
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert client.ask("GET", "/")[0] == 200  # in the place of one of them
        for _ in range(20):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"h")
            time.sleep(0.05)
        assert b" 408 " in slow[-2].recv(1000).splitlines()[0]
        for connection in slow:
            connection.close()
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(GET % (b"/api/nothing", b"localhost", b""))
            found = b""
            while b"error" not in found:
                found += connection.recv(10_000)
            connection.sendall(b"GET / HTT")
            time.sleep(0.2)
            connection.sendall(b"P")
            assert b" 408 " in connection.recv(10_000).splitlines()[0]


def test_slow_things_are_made_by_one_thread():
    gold = ServedTreebank("none", [])
    begun, go, found = threading.Event(), threading.Event(), []

    def make():
        begun.set()
        go.wait(10)
        return "made"

    thread = threading.Thread(target=lambda: found.append(gold.soon("key", make)))
    thread.start()
    assert begun.wait(10)
    assert gold.soon("key", make) is None
    assert gold.once("other", lambda: 7) == 7
    go.set()
    thread.join()
    assert found == ["made"]
    assert gold.soon("key", lambda: "again") == "made"
    # What went wrong is tried again.
    with pytest.raises(ZeroDivisionError):
        gold.soon("broken", lambda: 1 // 0)
    assert gold.soon("broken", lambda: 1) == 1


def test_connections_that_are_closed_anywhere(caplog):
    """Closed after any byte, with or without a farewell: no error, no work left behind, and others are served."""
    service = Service.load()
    body = b'{"text": "She saw the man with the telescope. Did you?", "alternatives": 5, "marginals": true}'
    whole = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    rng = random.Random(5)
    with serving(service) as address, caplog.at_level(logging.WARNING):
        client = Client(address)
        host, port = client.place.split(":")
        for number in range(150):
            connection = socket.create_connection((host, int(port)), timeout=10)
            connection.sendall(whole[: rng.randrange(len(whole) + 1)] if number % 3 else whole)
            if number % 2:  # reset instead of an orderly end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert client.post("/api/parse", {"text": "Yes."})[0] == 200
        end = time.monotonic() + 20
        while service.crew.jobs and time.monotonic() < end:
            time.sleep(0.02)
        assert service.crew.jobs == 0
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_nothing_more_is_parsed_for_a_client_that_has_gone(monkeypatch):
    service, parsed = Service.load(), []
    parse_one = Parser.parse_one
    monkeypatch.setattr(Parser, "parse_one", lambda *given, **more: (parsed.append(1), parse_one(*given, **more))[1])
    body = json.dumps({"sentences": [["dogs", "see"] * 30] * 500}).encode()
    with serving(service) as address:
        host, port = Client(address).place.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + 20
            while not parsed and time.monotonic() < end:
                time.sleep(0.005)
        while service.crew.jobs and time.monotonic() < end:
            time.sleep(0.02)
    assert 0 < len(parsed) < 400
    assert service.crew.jobs == 0


def test_one_odd_model_does_not_break_the_others(tmp_path):
    """Labels and words of a model can be anything that fits its schema, even half a surrogate pair."""
    odd = sapwood.train([Tree("ROOT", [Tree("\ud800", [Tree("N\udfff", word="a\ud801")])])] * 3, method="pcfg")
    odd.save(tmp_path / "odd.sapwood")
    sapwood.train([Tree.parse("(ROOT (S (N a)))")] * 3, method="pcfg").save(tmp_path / "even.sapwood")
    service = Service.load([str(tmp_path / f"{name}.sapwood") for name in ("odd", "even")])
    with serving(service) as address:
        client = Client(address)
        status, value = client.get("/api/info")
        assert status == 200
        assert [model["name"] for model in value["models"]] == ["odd", "even"]
        assert value["models"][0]["labels"] == ["\ud800"]
        assert client.get("/api/symbols?model=even")[0] == 200
        assert client.get("/api/symbols?model=odd")[0] == 200
