"""The client of a server: the same answers as of the library, and patience."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import socket
import threading
from types import SimpleNamespace

import pytest

import sapwood
import sapwood.client
from helpers.browser import serving
from sapwood.client import AsyncClient, Client, ServiceError
from sapwood.errors import UsageError
from sapwood.web.service import Limits, Service

TEXT = "It rained. We left."
SENTENCES = [["It", "rained", "."], ["We", ["left", "VBD"], "."], {"tokens": ["Go", "!"], "absent": [[0, 1, "VP"]]}] * 3


@pytest.fixture(scope="module")
def address():
    with serving(Service.load(token="gr33n", limits=Limits(sentences=5))) as found:
        yield found


def in_order(client: AsyncClient):
    """Return the calls of a blocking client, made by an asynchronous one."""

    class Blocking:
        def __getattr__(self, name):
            def call(*given, **more):
                async def collect():
                    found = getattr(client, name)(*given, **more)
                    return [one async for one in found] if name == "parse_all" else await found

                return runner.run(collect())

            return call

    runner = asyncio.Runner()
    return Blocking(), runner


@pytest.fixture(params=["blocking", "asynchronous"])
def client(request, address):
    if request.param == "blocking":
        with Client(address, token="gr33n") as found:
            yield found
    else:
        one = AsyncClient(address, token="gr33n")
        found, runner = in_order(one)
        yield found
        runner.run(one.close())
        runner.close()


def test_answers_are_those_of_the_library(client):
    parser = sapwood.Parser()
    assert client.parse(TEXT) == [result.to_dict() | {"offsets": [list(place) for place in result.offsets]}
                                  for result in parser.parse_text(TEXT)]  # fmt: skip
    assert client.parse(SENTENCES[:2], alternatives=2)[1]["alternatives"][0]["tree"].startswith("(ROOT (S (NP (PRP We")
    [best] = client.k_best([["It", "rained", "."]], 3)
    assert best["alternatives"] == [
        {"tree": str(tree), "log_probability": score} for tree, score in parser.k_best(["It", "rained", "."], 3)
    ]
    assert client.marginals("Go.", 0.2)[0]["words"] == ["Go", "."]
    assert client.evaluate("(S (N a))", predicted="(S (N a))")["f1"] == 100
    assert client.info()["models"][0]["name"] == "en"
    assert client.ask("/api/states", symbol=0)["symbol"] == 0


def test_any_number_of_sentences(client):
    """More than a request may have, texts among sentences, in order."""
    given = [*SENTENCES, TEXT, *SENTENCES, TEXT, TEXT]
    found = list(client.parse_all(given, batch=4))
    each = [result for one in given for result in client.parse(one if isinstance(one, str) else [one])]
    assert found == each
    assert list(client.parse_all([])) == []
    assert len(list(client.parse_all(iter(SENTENCES), batch=5))) == len(SENTENCES)


def test_refusals(client, address):
    for call, status, message in (
        (lambda: client.parse(TEXT, alternative=1), 400, "did you mean alternatives?"),
        (lambda: client.parse([["a", "NOTAG"], [["a", "NOTAG"]]]), 422, "no tag"),
        (lambda: client.ask("/api/nothing"), 404, "not found"),
    ):
        with pytest.raises(ServiceError, match=message.replace("?", r"\?")) as caught:
            call()
        assert caught.value.status == status
    with Client(address) as stranger, pytest.raises(ServiceError, match="token") as caught:
        stranger.info()
    assert caught.value.status == 401


class Busy(http.server.BaseHTTPRequestHandler):
    """A server that is busy at first."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        outcome = self.server.outcomes.pop(0) if self.server.outcomes else 200
        self.server.asked += 1
        if outcome == "close":
            self.close_connection = True
            return
        body = b"[" if outcome == "rubbish" else json.dumps({"results": [1], "error": "busy"}).encode()
        self.send_response(200 if outcome == "rubbish" else outcome)
        if outcome == 503:
            self.send_header("retry-after", "0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given):
        pass


@pytest.fixture
def busy(monkeypatch):
    """A server whose outcomes can be set, and a list of the seconds that clients have waited."""
    waited = []

    async def wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr(sapwood.client, "time", SimpleNamespace(sleep=waited.append))
    monkeypatch.setattr(sapwood.client, "asyncio", SimpleNamespace(sleep=wait))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        server.outcomes, server.asked, server.waited = [], 0, waited
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def head(*lines: str, body: bytes = b"{}") -> bytes:
    return "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode("latin-1") + body


ODD_ANSWERS = {
    "a list": head("HTTP/1.1 200 OK", body=b"[]"),
    "a number": head("HTTP/1.1 200 OK", body=b"3"),
    "deep": head("HTTP/1.1 200 OK", body=b"[" * 100_000),
    "digits": head("HTTP/1.1 200 OK", body=b"9" * 9000),
    "no results": head("HTTP/1.1 200 OK"),
    "results of another kind": head("HTTP/1.1 200 OK", body=b'{"results": null}'),
    "an error in a list": head("HTTP/1.1 400 no", body=b"[]"),
    "compressed, not really": head("HTTP/1.1 200 OK", "content-encoding: gzip"),
    "no Unicode": head("HTTP/1.1 200 OK", body=b"\xff"),
    "another place": head("HTTP/1.1 302 there", "location: http://localhost:1/"),
    "wait for a superscript": head("HTTP/1.1 503 busy", "retry-after: \xb2"),
    "wait for ever": head("HTTP/1.1 503 busy", "retry-after: " + "9" * 5000),
    "rubbish": b"\0\r\n\r\n",
}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_odd_answers_are_errors(name, kind, monkeypatch):
    """Whatever a server sends, a client raises its own error, and waits for no longer than it says."""
    waited = []

    async def wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr(sapwood.client, "time", SimpleNamespace(sleep=waited.append))
    monkeypatch.setattr(sapwood.client, "asyncio", SimpleNamespace(sleep=wait))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(ODD_ANSWERS[name])

        threading.Thread(target=answer, daemon=True).start()
        one = kind(f"http://127.0.0.1:{server.getsockname()[1]}", retries=1)

        async def ask_asynchronously():
            async with one:
                await one.parse(TEXT)

        def ask():
            with one:
                one.parse(TEXT)

        with pytest.raises(ServiceError, match=r"not that of sapwood serve|\{\}|cannot be reached"):
            ask() if kind is Client else asyncio.run(ask_asynchronously())
    assert all(seconds <= 1.5 * sapwood.client._LONGEST_WAIT + 1 for seconds in waited)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({"url": "http://[::1"}, TEXT),
        ({"url": "http://\0"}, TEXT),
        ({"token": "\xe9"}, TEXT),
        ({}, "\ud800"),
        ({}, [float("nan")]),
        ({}, [object()]),
    ],
)
def test_what_cannot_be_sent_is_wrong_usage(settings, given, kind):
    def send():
        one = kind(**{"url": "http://127.0.0.1:1", "retries": 0, **settings})
        return one.parse(given) if kind is Client else asyncio.run(one.parse(given))

    with pytest.raises(UsageError, match="the request cannot be sent"):
        send()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_busy_servers_are_asked_again(busy, kind):
    def parse():
        one = kind(f"http://127.0.0.1:{busy.server_port}", retries=4)
        if kind is Client:
            with one:
                return one.parse(TEXT)

        async def ask():
            async with one:
                return await one.parse(TEXT)

        return asyncio.run(ask())

    busy.outcomes = [503, "close", 503, 503]
    assert parse() == [1]
    assert busy.asked == 5
    # Longer and longer, and never at the same times.
    assert all(0.05 * 2**n <= seconds <= 0.15 * 2**n for n, seconds in enumerate(busy.waited, 1)), busy.waited
    for outcomes, status, message, asked in (
        ([503] * 9, 503, "busy", 5), (["close"] * 9, 0, "cannot be reached", 5), ([400], 400, "busy", 1),
        (["rubbish"], 200, "not that of sapwood serve", 1),
    ):  # fmt: skip
        busy.outcomes, busy.asked = outcomes, 0
        with pytest.raises(ServiceError, match=message) as caught:
            parse()
        assert (caught.value.status, busy.asked) == (status, asked)
