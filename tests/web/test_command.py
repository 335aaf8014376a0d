"""The command: it says where it is, and stops when it is told to."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.cli.main import main
from sapwood.errors import SapwoodError
from sapwood.web.api.parse import ParsingRequest
from sapwood.web.endpoints import endpoints_of
from sapwood.web.messages import BadRequest, NoContent, decode
from sapwood.web.scheduler import RequestJob
from sapwood.web.server import open_socket
from sapwood.web.service import Service


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(how):
    command = [sys.executable, "-m", "sapwood", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        address = re.fullmatch(r"sapwood: serving at (http://127\.0\.0\.1:\d+/) \(end with Ctrl-C\)\n", line)[1]
        with urllib.request.urlopen(f"{address}api/info") as answer:
            assert json.load(answer)["models"][0]["name"] == "en"
        server.send_signal(how)
        _, errors = server.communicate(timeout=30)
    assert server.returncode in (0, -how)
    assert "Traceback" not in errors
    assert "GET /api/info 200" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "nowhere.sapwood"], "nowhere.sapwood"),
        (["--treebank", "nowhere.mrg"], "nowhere.mrg"),
        (["-m", "-"], "standard input"),
        (["-m", ""], "empty"),
        (["--token", " "], "token"),
        (["--host", "256.0.0.1"], "256.0.0.1"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message):
    with pytest.raises(SapwoodError, match=message):
        main.main(["serve", "--port", "0", *arguments], standalone_mode=False)


def test_a_port_that_is_taken():
    with open_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SapwoodError, match=f"127.0.0.1:{port}: cannot listen there"):
            open_socket("127.0.0.1", port)


@contextlib.contextmanager
def limited(most: int):
    """Start a server that may have this many open files."""
    resource = pytest.importorskip("resource", reason="this system has no limits on processes")
    with subprocess.Popen(
        [sys.executable, "-m", "sapwood", "serve", "--port", "0", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    ) as server:
        try:
            yield server
        finally:
            server.kill()


def test_connections_leave_room_for_files():
    """A server that could open no more descriptors would not even refuse a connection."""
    with limited(48) as server, contextlib.ExitStack() as stack:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        for _ in range(100):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            with contextlib.suppress(OSError):
                idle.sendall(b"GET / HTT")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/info", timeout=20) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=30)
    assert errors == ""


def test_too_few_files_for_a_server():
    with limited(20) as server:
        _, errors = server.communicate(timeout=30)
    assert server.returncode == 2
    assert "raise `ulimit -n`" in errors
    assert "Traceback" not in errors


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("text", "sentences", "model", "count", "seed", "gold", "tokens", "phrases", "symbol", "trees", "to", "least")


@pytest.fixture(scope="module")
def service():
    return Service.load()


@examples(200)
@given(st.one_of(JSON, st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4)))
def test_any_json_gets_an_answer_or_a_reason(service, value):
    """What is not as described is refused, and what is can be planned or cannot be done; nothing else happens."""
    for endpoint in endpoints_of(service):
        job = RequestJob(lambda job: None, 60.0, lambda result, error: None)
        with contextlib.suppress(SapwoodError):
            sent = json.dumps(value).encode()
            if endpoint.method == "GET":
                sent = urlencode(
                    {key: str(one) for key, one in value.items()} if isinstance(value, dict) else {}
                ).encode()
            plan = endpoint.prepare(service, sent, job)
            msgspec.json.decode(plan.finish([step() for step in plan.steps]), type=endpoint.answer)


@examples(50)
@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_not(body):
    for kind in (NoContent, ParsingRequest):
        with contextlib.suppress(BadRequest):
            decode(body, kind)
