"""Streams: a sentence or text per line, and its parses as soon as they are there."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

import sapwood
from helpers.browser import serving
from helpers.client import Client
from sapwood.web.service import Limits, Service

HEAD = b"POST /api/parse-lines%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n%b\r\n\r\n"
LIMITS = Limits(body=5000, words=60)


@pytest.fixture(scope="module")
def service():
    return Service.load(limits=LIMITS)


@pytest.fixture(scope="module")
def served(service):
    with serving(service) as address:
        yield Client(address)


def parse(served: Client, text: str, query: str = "") -> list[dict]:
    status, headers, body = served.ask(
        "POST", f"/api/parse-lines{query}", text.encode(), Content_Type="application/x-ndjson"
    )
    assert (status, headers["content-type"]) == (200, "application/x-ndjson"), body
    assert headers["x-content-type-options"] == "nosniff"
    return [json.loads(line) for line in body.splitlines()]


def test_lines_are_parsed_as_by_the_library(served):
    lines = ["It rained. We left.", ["She", ["slept", "VBD"], "."], {"tokens": ["Go"], "phrases": [[0, 1, "VP"]]}] * 20
    text = "\n\n".join(json.dumps(line) for line in lines)
    found = parse(served, text, "?alternatives=2&marginals=true")
    parser = sapwood.Parser(alternatives=2, marginals=True)
    expected = []
    for number, line in enumerate(lines):
        if isinstance(line, str):
            results = list(parser.parse_text(line))
        elif isinstance(line, list):
            results = [parser.parse_one([tuple(one) if isinstance(one, list) else one for one in line])]
        else:
            results = [parser.parse_one(line["tokens"], phrases=[(0, 1, "VP")])]
        expected += [{**json.loads(json.dumps(result.to_dict())), "line": 2 * number + 1} for result in results]
    assert found == expected


def test_a_stream_may_be_larger_than_a_request(served):
    lines = ['"It rained."'] * 600
    found = parse(served, "\n".join(lines))
    assert [one["line"] for one in found] == list(range(1, 601))
    assert {one["status"] for one in found} == {"parsed"}


def test_what_is_wrong_concerns_its_line(served):
    lines = ['"It rained."', "{", '["a", 1]', '{"token": ["a"]}', '[["a", "NOTAG"]]', "1", '"\\ud800"', '"Go."']
    found = parse(served, "\n".join(lines))
    assert [one["line"] for one in found] == list(range(1, 9))
    errors = [one.get("error", "") for one in found]
    assert [bool(error) for error in errors] == [False, *[True] * 6, False]
    parts = (
        "is not JSON",
        "line[1] must be a string or an array, not 1",
        "mean tokens?",
        "no tag",
        "must be",
        "surrogate",
    )
    for error, part in zip(errors[1:7], parts, strict=True):
        assert part in error
    long = parse(served, '"Go."\n"' + "a " * 3000 + '"\n"Go."')
    assert [one["line"] for one in long] == [1, 2]
    assert "a line may have up to 5000 bytes" in long[1]["error"]


def test_wrong_requests(served):
    for query, headers, status, message in (
        ("", {"Content_Type": "application/json"}, 415, "application/x-ndjson"),
        ("?alternatives=x", {}, 400, "the query.alternatives must be an integer"),
        ("?model=none", {}, 400, "available: en"),
        ("?txt=1", {}, 400, "the query has no field txt"),
    ):
        given = {"Content_Type": "application/x-ndjson", **headers}
        code, _, body = served.ask("POST", f"/api/parse-lines{query}", b'"a"', **given)
        assert code == status
        assert message in json.loads(body)["error"]


@pytest.fixture
def connection(served):
    host, port = served.place.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as made:
        yield made


def read_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


def chunk(line: bytes) -> bytes:
    return b"%x\r\n%b\n\r\n" % (len(line) + 1, line)


def test_parses_come_while_lines_are_sent(connection):
    connection.sendall(HEAD % (b"", b"Transfer-Encoding: chunked"))
    for number in range(1, 6):
        connection.sendall(chunk(b'"It rained."'))
        assert b'"parsed"' in read_until(connection, b'"line":%d' % number)
    connection.sendall(b"0\r\n\r\n")
    assert read_until(connection, b"0\r\n\r\n").endswith(b"0\r\n\r\n")


def test_clients_that_wait_for_permission_to_send(connection):
    connection.sendall(HEAD % (b"", b"Transfer-Encoding: chunked\r\nExpect: 100-continue"))
    assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100 Continue")
    connection.sendall(chunk(b'"It rained."') + b"0\r\n\r\n")
    assert b'"line":1' in read_until(connection, b"0\r\n\r\n")


def test_lines_that_do_not_come(connection, monkeypatch):
    monkeypatch.setattr("sapwood.web.api.stream.BODY_SECONDS", 0.3)
    connection.sendall(HEAD % (b"", b"Transfer-Encoding: chunked") + chunk(b'"It rained."'))
    assert b'"line":2,"error":"the next line did not arrive in time"' in read_until(connection, b"0\r\n\r\n")


def test_clients_that_leave_and_queues_that_are_full(service, connection, served):
    connection.sendall(HEAD % (b"?alternatives=20", b"Transfer-Encoding: chunked"))
    sentence = json.dumps(["time", "flies", "like"] * 19).encode()
    end = time.monotonic() + 20

    def send() -> None:
        with contextlib.suppress(OSError):
            for _ in range(300):
                connection.sendall(chunk(sentence))

    thread = threading.Thread(target=send)
    thread.start()
    while service.crew.jobs < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert service.crew.jobs <= 2 * service.threads + 2
    assert served.post("/api/parse", {"text": "Yes."})[0] == 200
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    thread.join(20)
    while service.crew.jobs:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stream_waits_for_room_in_the_queue(service):
    one = Service(service.models, limits=Limits(queue=1))
    with serving(one) as address:
        found = parse(Client(address), "\n".join(['"It rained."'] * 30))
    assert [result["status"] for result in found] == ["parsed"] * 30
