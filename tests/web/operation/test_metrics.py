"""Metrics: what the server did, in the text format of Prometheus."""

from __future__ import annotations

import math
import os
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.browser import serving
from helpers.client import Client
from sapwood.web.operation.metrics import BUCKETS, Metrics, memory_of
from sapwood.web.service import Service


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Return all values by name and labels, read by the parser of the format."""
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
    }


def test_requests_sentences_and_models_are_counted():
    service = Service.load()
    with serving(service) as address:
        client = Client(address)
        assert client.post("/api/parse", {"text": "It rained. We left. A " + "a " * 251 + "."})[0] == 200
        assert client.post("/api/k-best", {"text": "It rained."})[0] == 200
        assert client.post("/api/parse", {"txt": ""})[0] == 400
        impossible = {"tokens": ["a", "b", "c"], "phrases": [[0, 2, "NP"], [1, 3, "NP"]]}
        assert client.post("/api/parse", {"sentences": [impossible]})[0] == 200
        assert client.post("/api/evaluate", {"gold": "(S (N a))"})[0] == 200
        for path in ("/", "/a", "/b"):
            client.ask("GET", path)
        end = time.monotonic() + 20
        while service.crew.jobs and time.monotonic() < end:  # the last answer is sent before its job is forgotten
            time.sleep(0.01)
        status, headers, body = client.ask("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = samples(body)
    assert found["sapwood_requests_total", "/api/parse", "200"] == 2
    assert found["sapwood_requests_total", "/api/parse", "400"] == 1
    assert found["sapwood_requests_total", "other", "404"] == 2
    assert found["sapwood_request_seconds_count", "/api/parse"] == 3
    assert found["sapwood_request_seconds_bucket", "+Inf", "/api/parse"] == 3
    assert 0 < found["sapwood_request_seconds_sum", "/api/parse"] < 60
    assert found["sapwood_sentences_total",] == 6
    statuses = {key[1]: value for key, value in found.items() if key[0] == "sapwood_parses_total"}
    assert (statuses["too long"], statuses["no parse"], sum(statuses.values())) == (1, 1, 5)
    assert found["sapwood_queue",] == 0
    assert [key[2:] for key in found if key[0] == "sapwood_model_info"] == [("grammar", "en")]


def test_metrics_need_the_token_if_there_is_one():
    service = Service(Service.load().models, token="gr33n")
    with serving(service) as address:
        client = Client(address)
        assert client.ask("GET", "/metrics")[0] == 401
        assert client.ask("GET", "/metrics", Authorization="Bearer gr33n")[0] == 200


def test_rows_are_added():
    """Any process shows the counts of all; buckets are those of the numbers."""
    metrics = Metrics(["/a"], 3)
    times = [0.001, 0.005, 0.0051, 0.3, 29.0, 31.0, 1e9]
    for number, seconds in enumerate(times):
        metrics.use_row(number % 3)
        metrics.count_request("/a", 200, seconds)
        metrics.count_request("/elsewhere", 299, seconds)
        metrics.count_sentence("parsed")
        metrics.set_queue(number)
    found = samples(metrics.text())
    for limit in (*BUCKETS, math.inf):
        label = "+Inf" if math.isinf(limit) else str(limit)
        assert found["sapwood_request_seconds_bucket", label, "/a"] == sum(one <= limit for one in times)
    assert found["sapwood_requests_total", "other", "other"] == len(times)
    assert found["sapwood_queue",] == 4 + 5 + 6
    assert found["sapwood_sentences_total",] == len(times)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="this system does not say")  # noqa: PTH110
def test_memory():
    assert 1e7 < memory_of(os.getpid()) < 1e11
    assert memory_of(0) == 0
