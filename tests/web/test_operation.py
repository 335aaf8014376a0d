"""What those need who run the service: probes, logs, names, and models that are broken."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from jsonschema import Draft202012Validator

from helpers.browser import serving
from helpers.client import Client
from sapwood.web.application import describe_service
from sapwood.web.messages import encode
from sapwood.web.server import JSONFormatter, LineFormatter
from sapwood.web.service import Limits, ServedParser, Service


@pytest.fixture(scope="module")
def service():
    return Service.load()


def test_probes_need_no_token(service, caplog):
    guarded = Service(service.models, token="gr33n")
    with serving(guarded) as address, caplog.at_level(logging.INFO):
        client = Client(address)
        assert client.ask("GET", "/api/info")[0] == 401
        for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
            code, headers, body = client.ask("GET", path)
            assert (code, json.loads(body)) == (200, {"status": status})
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert client.ask("HEAD", path)[::2] == (200, b"")
        assert client.ask("POST", "/readyz")[0] == 405
        assert client.ask("GET", "/healthz", Host="evil.example")[0] == 400
    # An orchestrator asks every few seconds, for ever: only what is wrong is logged.
    assert "GET /api/info 401" in caplog.text
    assert "POST /readyz 405" in caplog.text
    assert "z 200" not in caplog.text


def test_readiness(service):
    """Ready is a service whose models are loaded, until it stops; it lives as long as it answers."""
    one = Service(service.models)
    with serving(one) as address:
        client = Client(address)
        assert client.ask("GET", "/readyz")[0] == 200
        one.close()
        code, _, body = client.ask("GET", "/readyz")
        assert code == 503
        assert "not ready" in json.loads(body)["error"]
        assert client.ask("GET", "/healthz")[0] == 200
    assert not Service([]).ready


def test_probes_are_described(service):
    described = describe_service(Service(service.models, token="gr33n"))
    for path, answer in (("/healthz", {"status": "ok"}), ("/readyz", {"status": "ready"})):
        operation = described["paths"][path]["get"]
        assert operation["security"] == []
        Draft202012Validator(operation["responses"]["200"]["content"]["application/json"]["schema"]).validate(answer)


def test_the_image_asks_the_probe():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^HEALTHCHECK .*127\.0\.0\.1:8000/healthz'", text, re.MULTILINE)


def test_names_are_those_that_the_user_gave(service, tmp_path):
    assert [model.name for model in Service.load(["en"]).models] == ["en"]
    assert [model.name for model in Service.load(["default"]).models] == ["default"]
    assert [model.name for model in service.models] == ["en"]
    path = tmp_path / "my model.sapwood"
    service.models[0].parser.model.save(path)
    assert [model.name for model in Service.load([str(path)]).models] == ["my model"]


def test_names_that_are_not_text(service):
    """File names are bytes; what is not UTF-8 must not break the description of all."""
    from sapwood.web.service import _name_of

    name = _name_of("folder/caf\udce9.sapwood")
    assert name == "caf\\udce9"
    assert json.loads(encode({"label": "\udce9"})) == {"label": "\udce9"}
    served = ServedParser(name, service.models[0].parser)
    assert name in encode(describe_service(Service([served]))).decode().replace("\\\\", "\\")


class Broken(ServedParser):
    """A model that cannot be described, or whose description is not JSON."""

    def describe(self):
        if self.name == "raises":
            raise KeyError("kind")
        return {"name": self.name, "states": float("nan") if self.name == "not a number" else object()}


@pytest.mark.parametrize("name", ["raises", "not a number", "an object"])
def test_a_broken_model_leaves_the_others_alone(service, name, caplog):
    good = service.models[0]
    with serving(Service([good, Broken(name, good.parser)])) as address:
        client = Client(address)
        for _ in range(2):
            code, info = client.get("/api/info")
            assert code == 200
            assert info["models"][0] == good.describe()
            assert info["models"][1] == {
                "name": name,
                "kind": "grammar",
                "method": "unknown",
                "labels": [],
                "tags": [],
                "example": {"text": "", "input": "text"},
                "error": "the model cannot be described; see the server's log",
            }
    assert caplog.text.count(f"{name}: the model cannot be described") == 1


def run_server(*options: str) -> list[str]:
    """Return the log of a server that is asked for its description, and for a path with a line end."""
    command = [sys.executable, "-m", "sapwood", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with urllib.request.urlopen(f"{address}api/info"):
            pass
        Client(address).ask("GET", "/a%0Ab")
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
    return errors.splitlines()


def test_log_lines_have_date_and_client():
    first, second = run_server()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} 127\.0\.0\.1 GET /api/info 200 \d+ bytes \d+ ms", first
    )
    assert " 127.0.0.1 GET /a\\nb 404 " in second


def test_log_lines_as_json():
    lines = [json.loads(line) for line in run_server("--log-format", "json")]
    assert [line["path"] for line in lines] == ["/api/info", "/a\\nb"]
    assert set(lines[0]) == {"time", "level", "client", "method", "path", "request", "status", "bytes", "milliseconds"}
    assert (lines[0]["client"], lines[0]["method"], lines[0]["status"]) == ("127.0.0.1", "GET", 200)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", lines[0]["time"])


def test_texts_of_clients_do_not_begin_log_lines():
    """What a client sends is on one line of the log, with --log-texts as well, and cannot control a terminal."""
    formatter = LineFormatter("%(asctime)s %(message)s")
    forged = "a\n2026-01-01T00:00:00+0000 127.0.0.1 GET /api/info 200\r\x1b[31m\u2028\u202eé"
    record = logging.LogRecord("sapwood.web", logging.INFO, "", 0, "%s %s", ("127.0.0.1", forged), None)
    line = formatter.format(record)
    assert line.isprintable()
    assert "a\\n2026" in line
    assert line.endswith("\\r\\x1b[31m\\u2028\\u202eé")
    try:
        raise ValueError("a")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "\nTraceback (most recent call last):\n" in formatter.format(record)


def test_errors_as_json():
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "it failed: %s", ("x",), sys.exc_info())
    line = JSONFormatter().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["message"]) == ("error", "it failed: x")
    assert "ValueError: a\nb" in found["traceback"]


def test_work_in_progress_at_the_end(service, caplog):
    """A request that takes longer than the end of the server is answered, and leaves no traceback."""
    body = json.dumps({"sentences": [["time", "flies", "like", "an"] * 50] * 240, "alternatives": 50}).encode()
    head = (
        b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    one = Service(service.models, limits=Limits(drain=1))
    with serving(one) as address, caplog.at_level(logging.WARNING):
        host, port = Client(address).place.split(":")
        connection = socket.create_connection((host, int(port)), timeout=20)
        connection.sendall(head % len(body) + body)
        time.sleep(0.3)
    with connection:
        assert b" 503 " in connection.recv(1000).splitlines()[0]
    assert "Traceback" not in caplog.text
