"""Several processes of one server: they share port, memory and counts, are replaced, and end in order."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from helpers.client import Client

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, and ports that are shared")


@contextlib.contextmanager
def server(*options: str):
    """Start a server; yields it, a client, and the list to which its log goes."""
    command = [sys.executable, "-m", "sapwood", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        log: list[str] = []
        reading = threading.Thread(target=lambda: log.extend(process.stderr))
        reading.start()
        try:
            yield process, Client(re.search(r"http://\S+", process.stdout.readline())[0]), log
        finally:
            process.terminate()
            process.wait(60)
            reading.join(10)


def children(process: subprocess.Popen) -> set[int]:
    return set(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))


def wait_until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def test_processes_share_port_memory_and_counts_and_are_replaced():
    with server("--workers", "2") as (process, client, log):
        wait_until(lambda: len(children(process)) == 2)
        for _ in range(12):
            status, found = client.post("/api/parse", {"text": "It rained."})
            assert (status, found["results"][0]["status"]) == (200, "parsed")
        counts = client.ask("GET", "/metrics")[2]
        assert b"sapwood_sentences_total 12.0" in counts
        assert counts.count(b"sapwood_memory_bytes{") == 2
        before = children(process)
        for child in before:
            text = Path(f"/proc/{child}/smaps_rollup").read_text()
            sizes = {name: int(size) for name, size in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}
            assert sizes["Shared_Clean"] + sizes["Shared_Dirty"] > 0.6 * sizes["Rss"], sizes
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(children(process) - before) == 1)
        for _ in range(6):
            assert client.post("/api/parse", {"text": "It rained."})[0] == 200
        assert b"sapwood_sentences_total 18.0" in client.ask("GET", "/metrics")[2]
        process.terminate()
        process.wait(60)
    assert process.returncode == 0
    assert sum("another takes its place" in line for line in log) == 1
    assert "Traceback" not in "".join(log)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_requests_end_before_the_server_does(workers):
    """SIGTERM: no further connections, but answers to all requests that have begun."""
    body = {"sentences": [["time", "flies", "like", "an"] * 25] * 12, "alternatives": 20}
    with server("--workers", workers, "--log-format", "json") as (process, client, log):
        answers: list[tuple[int, dict]] = []

        def ask() -> None:
            answers.append(client.post("/api/parse", body, X_Request_Id="slow"))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: b"sapwood_queue 3.0" in client.ask("GET", "/metrics")[2])
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        process.wait(60)
        with pytest.raises(OSError):
            client.ask("GET", "/healthz")
    assert [(status, len(found["results"])) for status, found in answers] == [(200, 12)] * 3
    lines = [json.loads(line) for line in log]
    assert [line["request"] for line in lines if line.get("path") == "/api/parse"] == ["slow"] * 3
    assert "Traceback" not in "".join(log)


def test_processes_that_cannot_start_end_the_server():
    script = (
        "import logging; logging.basicConfig()\n"
        "from sapwood.web.operation.processes import run_processes\n"
        "run_processes(2, lambda number: 1 // 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "the server stops" in done.stderr
    assert 5 <= done.stderr.count("ZeroDivisionError") <= 7
