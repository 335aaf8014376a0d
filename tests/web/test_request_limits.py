"""Limits on requests: size and time, whatever is sent."""

from __future__ import annotations

import json
import random
import time

import pytest

from helpers.browser import serving
from helpers.client import Client
from sapwood.errors import TimedOut
from sapwood.inference.parser import Parser
from sapwood.trees.formats.registry import OUTPUT_FORMATS
from sapwood.web.api.parse import ParsingRequest, flat_result
from sapwood.web.api.sentences import RequestSize, read_sentences
from sapwood.web.endpoints import Request, endpoints_of
from sapwood.web.scheduler import RequestJob
from sapwood.web.service import Limits, Service

# Small limits, one per kind; the sentences of the requests below are within the others.
LIMITS = Limits(characters=3000, total_words=500, sentences=100)


@pytest.fixture(scope="module")
def service():
    return Service.load(limits=LIMITS)


@pytest.fixture(scope="module")
def small(service):
    with serving(service) as address:
        yield Client(address)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("parse", {"text": "a" * 3001}, "up to 3000 characters (the server's --max-characters)"),
        ("parse", {"sentences": [["a" * 900] * 4]}, "up to 3000 characters (the server's --max-characters)"),
        ("format", {"trees": "(S (N a)) " * 50 + " " * 2600, "to": "svg"}, "up to 3000 characters"),
        ("evaluate", {"gold": "(S (N a))", "predicted": "(S (N a))" + " " * 3000}, "up to 3000 characters"),
        ("parse", {"text": "a " * 501}, "up to 500 words (the server's --max-total-words)"),
        ("k-best", {"sentences": [["a"] * 10] * 51}, "up to 500 words (the server's --max-total-words)"),
        ("format", {"trees": "(S " + "(N a)" * 501 + ")", "to": "latex"}, "up to 500 words"),
        ("parse", {"text": "Go. " * 101}, "up to 100 sentences or trees (the server's --max-sentences)"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_size_of_a_request(small, path, body, message):
    status, found = small.post(f"/api/{path}", body)
    assert status == 413
    assert message in found["error"]
    assert "send it in parts" in found["error"]


def test_requests_within_the_limits(small):
    assert small.post("/api/parse", {"text": "a " * 500})[1]["results"][0]["status"] == "too long"
    assert small.post("/api/format", {"trees": "(S " + "(N a)" * 500 + ")", "to": "svg"})[0] == 200


def make_request(service: Service, seconds: float, **body) -> Request:
    return Request(service, ParsingRequest(**body), make_job(seconds))


def make_job(seconds: float) -> RequestJob:
    return RequestJob(lambda job: None, seconds, lambda result, error: None)


def test_text_in_pieces_is_tokenised_as_a_whole(monkeypatch):
    """The time is checked between pieces; where they end makes no difference."""
    service = Service.load()
    rng = random.Random(4)
    parts = ["It is late. ", "Mr. Moss, 3 p.m.", "\n\n", " ", "“Go!” ", "can't ", "http://a.b/c ", "。", "x" * 30]
    text = "".join(rng.choice(parts) for _ in range(400))
    parser = service.grammar().parser
    whole = [[token.word for token in tokens] for tokens in parser.tokenise(text)]
    for piece in (1, 7, 4096):
        monkeypatch.setattr("sapwood.web.api.sentences._PIECE", piece)
        found = read_sentences(make_request(service, 60.0, text=text), parser)
        assert [given.tokens for given in found] == whole


def test_time_is_checked_while_text_is_tokenised(monkeypatch):
    """A text of a single sentence, too."""
    service = Service.load()
    pieces = []
    add = RequestSize.add
    monkeypatch.setattr(RequestSize, "add", lambda self, **more: (pieces.append(more), add(self, **more))[1])
    request = make_request(service, 60.0, text="a " * 20_000)
    read_sentences(request, service.grammar().parser)
    assert pieces.count({}) == 10
    request.job.deadline = 0.0
    with pytest.raises(TimedOut, match="takes longer than its time limit"):
        read_sentences(request, service.grammar().parser)


def test_no_sentence_is_parsed_when_the_time_is_over(monkeypatch):
    """Even an attempt takes time: a thousand of them took minutes. The rest gets flat trees, in linear time."""
    service = Service.load()
    endpoints = {endpoint.path: endpoint for endpoint in endpoints_of(service)}
    monkeypatch.setattr(Parser, "_attempts", lambda *given: pytest.fail("an attempt"))
    body = {"sentences": [["a"] * 200] * 200 + [["a"] * 251, []]}
    job = make_job(60.0)
    plan = endpoints["/api/parse"].prepare(service, json.dumps(body).encode(), job)
    job.deadline = 0.0
    found = json.loads(plan.finish([step() for step in plan.steps]))["results"]
    assert [result["status"] for result in found] == ["timed out"] * 200 + ["too long", "empty"]
    assert found[0]["tree"].count("a)") == 200
    # What needs more than a tree cannot be answered.
    for path, body in (
        ("/api/parse", {"sentences": [{"tokens": ["a", "b"], "phrases": [[0, 1, "NP"]]}] * 2}),
        ("/api/k-best", {"sentences": [["a"]] * 2}),
        ("/api/marginals", {"sentences": [["a"]] * 2}),
        ("/api/sample", {"sentences": [["a"]] * 2}),
        ("/api/format", {"trees": "(S (N a))", "to": "svg"}),
    ):
        job = make_job(60.0)
        plan = endpoints[path].prepare(service, json.dumps(body).encode(), job)
        job.deadline = 0.0
        with pytest.raises(TimedOut, match="takes longer than its time limit"):
            [step() for step in plan.steps]
    job = make_job(60.0)
    plan = endpoints["/api/evaluate"].prepare(service, b'{"gold": "%b"}' % (b"(S (N a) (N b)) " * 20), job)
    job.deadline = 0.0
    assert json.loads(plan.finish([step() for step in plan.steps]))["failed"] == 20


def test_the_largest_requests_end_in_time():
    """The largest texts that are permitted, of many long sentences and of one, end soon after the time limit."""
    with serving(Service.load(limits=Limits(seconds=1.0))) as address:
        client = Client(address)
        for text in (("a " * 240 + ".\n\n") * 200, "ab " * 49_000, '"' * 49_000):
            began = time.monotonic()
            assert client.post("/api/parse", {"text": text})[0] in (200, 422)
            assert time.monotonic() - began < 8


def seconds_of(call) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def test_long_flat_trees_take_linear_time(service):
    """Tokenising, the flat tree, its JSON, and every output format; four times as much may take eight times as long."""
    parser = service.grammar().parser
    format_trees = next(one for one in endpoints_of(Service.load()) if one.path == "/api/format")
    wide = Service.load()

    def formatted(to: str, count: int):
        body = {"trees": "(S " + "(N a)" * count + ")", "to": to}
        plan = format_trees.prepare(wide, json.dumps(body).encode(), make_job(60.0))
        return lambda: plan.finish([step() for step in plan.steps])

    calls = {f"format {to}": lambda count, to=to: formatted(to, count) for to in OUTPUT_FORMATS}
    calls["tokenise"] = lambda count: lambda: list(parser.tokenise('a "b" ' * count))
    calls["flat"] = lambda count: lambda: json.dumps(flat_result(parser, ["a", "b"] * count).to_dict())
    for name, make in calls.items():
        short, long = seconds_of(make(2500)), seconds_of(make(10_000))
        assert long < 8 * short + 0.05, (name, short, long)
