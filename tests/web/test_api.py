"""The API: the same as the library, as described, and a clear answer to everything else."""

from __future__ import annotations

import gzip
import json
import math
import re
import socket
import time
from pathlib import Path

import pytest

import sapwood
from helpers.browser import serving
from helpers.client import Client
from helpers.made_treebank import made_treebank
from sapwood.cli.main import main
from sapwood.web.service import Limits, Service

WORDS = ["She", "saw", "the", "man", "with", "the", "telescope", "."]
HEAD = b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def parser():
    return sapwood.Parser(marginals=True, alternatives=3)


def test_parses_are_those_of_the_library(client, parser):
    text = "She saw the man with the telescope. Did you? 😀"
    status, found = client.post("/api/parse", {"text": text, "marginals": True, "alternatives": 3})
    assert status == 200
    assert found["results"] == [result.to_dict() for result in parser.parse_text(text)]
    status, found = client.post("/api/parse", {"sentences": [WORDS, [], ["Go"]]})
    plain = sapwood.Parser()
    assert found["results"] == [plain.parse_one(words).to_dict() for words in (WORDS, [], ["Go"])]


def test_constraints(client):
    plain = sapwood.Parser()
    sentence = {"tokens": [["She", "PRP"], "saw", ["the", None], *WORDS[3:]], "absent": [[2, 7, None]]}
    status, found = client.post("/api/parse", {"sentences": [sentence]})
    assert found["results"][0]["tree"] == str(plain.parse_one(WORDS, phrases=[(2, 7, None, True)]).tree)
    status, found = client.post("/api/parse", {"sentences": [{"tokens": WORDS, "phrases": [[0, 3, "NP"]]}]})
    assert (0, 3, "NP") in sapwood.Tree.parse(found["results"][0]["tree"]).spans()
    impossible = {"tokens": WORDS, "phrases": [[0, 2, "NP"], [1, 3, "NP"]]}
    status, found = client.post("/api/parse", {"sentences": [impossible, WORDS]})
    assert status == 200
    assert [result["status"] for result in found["results"]] == ["no parse", "parsed"]
    assert found["results"][0]["tree"] is None


def test_k_best_marginals_and_samples(client):
    plain = sapwood.Parser()
    _, found = client.post("/api/k-best", {"sentences": [WORDS], "count": 4})
    assert found["results"][0]["alternatives"] == [
        {"tree": str(tree), "log_probability": score} for tree, score in plain.k_best(WORDS, 4)
    ]
    _, found = client.post("/api/marginals", {"sentences": [WORDS], "least": 0.1})
    expected = plain.posteriors(WORDS, least=0.1)
    assert [tuple(item[:3]) for item in found["results"][0]["marginals"]] == [item[:3] for item in expected]
    _, found = client.post("/api/sample", {"sentences": [WORDS], "count": 3, "seed": 7})
    assert found["results"][0]["trees"] == [str(tree) for tree in plain.sample(WORDS, 3, random_state=7)]


def test_evaluate(client):
    gold = "(ROOT (S (NP (PRP She)) (VP (VBD slept)) (. .)))"
    other = "(ROOT (S (NP (PRP She)) (ADJP (VBD slept)) (. .)))"
    status, found = client.post("/api/evaluate", {"gold": gold, "predicted": other, "sentences": True})
    assert status == 200
    assert math.isclose(found["f1"], 200 / 3)
    assert found["sentence_scores"][0]["matched"] == 2
    _, found = client.post("/api/evaluate", {"gold": gold})
    assert found["f1"] == 100
    assert "sentence_scores" not in found
    for body, status, message in (
        ({"gold": gold, "predicted": gold + other}, 422, "must line up"),
        ({"gold": gold, "predicted": "(A b)"}, 422, "no sentence has the words"),
        ({"gold": "((("}, 422, ""),
        ({"gold": ""}, 422, "no trees"),
        ({"gold": gold, "predicted": other, "gold_tags": True}, 400, "gold_tags"),
        ({"gold": gold, "confidence": 1}, 400, "less than 1"),
        ({"gold": gold, "resamples": 10**9}, 400, "at most"),
        ({"gold": gold * 51}, 413, "up to 50 sentences or trees"),
    ):
        found, value = client.post("/api/evaluate", body)
        assert found == status, value
        assert message in value["error"]


@pytest.mark.parametrize("how", ["model", "gold tags", "predicted"])
def test_evaluate_is_what_the_command_prints(client, tmp_path, capsys, how):
    trees = made_treebank()[:12]
    gold = "".join(f"{tree}\n" for tree in trees)
    # One was not parsed, one has other words.
    lines = ["" if n == 3 else "(S (A b))" if n == 5 else str(trees[n]).replace("(VP", "(XP") for n in range(12)]
    (tmp_path / "gold.mrg").write_text(gold)
    (tmp_path / "predicted.mrg").write_text("".join(f"{line}\n" for line in lines))
    options = ["--json", "-q", "--confidence", "0.8", "--resamples", "500", "--seed", "3"]
    body = {"gold": gold, "confidence": 0.8, "resamples": 500, "seed": 3}
    files = [str(tmp_path / "gold.mrg")]
    if how == "predicted":
        files.append(str(tmp_path / "predicted.mrg"))
        body["predicted"] = "\n".join(lines)
    elif how == "gold tags":
        options.append("--gold-tags")
        body["gold_tags"] = True
    main.main(["eval", *files, *options], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    status, found = client.post("/api/evaluate", body)
    assert status == 200
    assert printed.pop("seconds") >= 0
    assert found.pop("seconds") >= 0
    text = json.dumps(printed).replace(str(tmp_path / "gold.mrg"), "gold")
    assert found == json.loads(text.replace(str(tmp_path / "predicted.mrg"), "predicted"))
    assert found["intervals"]["f1"][0] <= found["f1"] <= found["intervals"]["f1"][1]
    assert found["failed"] == (how == "predicted")


def test_trees_are_bounded(client):
    """A megabyte of brackets, indented level by level, would be gigabytes."""
    deep = "(S " * 15_000 + "(N a)" + ")" * 15_000
    for to in ("pretty", "draw", "svg"):
        status, found = client.post("/api/format", {"trees": deep, "to": to})
        assert status == 413
        assert "too many nodes" in found["error"]
    assert client.post("/api/evaluate", {"gold": deep, "predicted": deep})[0] == 413
    assert client.post("/api/evaluate", {"gold": "(S (N a))", "predicted": deep})[0] == 413
    assert client.post("/api/format", {"trees": "(S (N a))" * 51, "to": "pretty"})[0] == 413
    wide = "(S " + "(N a)" * 2000 + ")"
    assert client.post("/api/format", {"trees": wide, "to": "pretty"})[0] == 200


def test_other_formats(client):
    tree = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
    assert client.post("/api/format", {"trees": tree, "to": "tagged"})[1] == {"text": "the/DT dog/NN barks/VBZ"}


def test_heads_of_unknown_labels_are_learned_from_the_trees(client):
    trees = "(S (sn (np Juan)) (gv (vm ve)) (f .)) (S (gv (vm llueve)))"
    rows = client.post("/api/format", {"trees": trees, "to": "conllu"})[1]["text"].splitlines()
    assert [row.split("\t")[6] for row in rows if "\t" in row] == ["2", "0", "2", "0"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b'{"text": NaN}', 400, "NaN"),
        (b'{"text": "\\ud800"}', 400, "surrogate"),
        (b"[" * 100_000, 400, "nested"),
        (b'{"text": ' + b"9" * 5000 + b"}", 400, ""),
        (b'{"sentences": [["a"]], "alternatives": 1e999}', 400, "too large"),
        (b"[]", 400, "object"),
        (b'{"text": 1}', 400, "the body.text must be a string, not 1"),
        (b'{"texts": "a"}', 400, "the body has no field texts; did you mean text?"),
        (b'{"txt": "a"}', 400, "did you mean text?"),
        (b'{"text": "a", "Model": "en"}', 400, "did you mean model?"),
        (b'{"text": "a", "zzz": 1}', 400, "the body has no field zzz; known are: text, sentences, lines, model,"),
        (b'{"sentences": [{"token": ["a"]}]}', 400, "the body.sentences[0] has no field token; did you mean tokens?"),
        (b'{"text": "a", "sentences": []}', 400, ""),
        (b'{"sentences": [["a", 1]]}', 400, "sentences[0][1]"),
        (b'{"sentences": [[""]]}', 400, "at least 1 characters"),
        (b'{"text": "a", "alternatives": true}', 400, "integer"),
        (b'{"text": "a", "alternatives": 21}', 400, "at most 20"),
        (b'{"text": "a", "alternatives": -1}', 400, "at least 0"),
        (b'{"text": "a", "model": "../../etc/passwd"}', 400, "available: en"),
        (b'{"sentences": [[["a", "NOTAG"]]]}', 422, "no tag"),
        (b'{"sentences": [{"tokens": ["a"], "phrases": [[0, 5, "NP"]]}]}', 422, "does not fit"),
        (json.dumps({"sentences": [["a"]] * 51}).encode(), 413, "up to 50 sentences"),
        (json.dumps({"text": "Yes. " * 51}).encode(), 413, "up to 50 sentences"),
        (b'{"text": "It is ' + b"a" * 1001 + b'."}', 400, "characters 6 to 1007"),
        (b'{"text": "' + b"a" * 200_001 + b'"}', 413, "200000 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_requests_get_clear_answers(client, body, status, message):
    found, value = client.post("/api/parse", body)
    assert found == status
    assert message in value["error"]


def test_long_sentences_are_bounded(client):
    words = ["dog"] * 131
    _, found = client.post("/api/parse", {"sentences": [words]})
    assert found["results"][0]["status"] == "too long"
    for path in ("k-best", "marginals", "sample"):
        status, found = client.post(f"/api/{path}", {"sentences": [words]})
        assert status == 422
        assert "131 words are too many" in found["error"]


def test_what_is_not_there(client):
    assert client.ask("GET", "/api/nothing")[0] == 404
    assert client.ask("GET", "/static/../service.py")[0] == 404
    assert client.ask("GET", "/static/%2e%2e/service.py")[0] == 404
    assert client.ask("GET", "/api/parse")[0] == 405
    assert client.ask("DELETE", "/")[0] == 405
    assert client.ask("POST", "/api/parse", b'{"text": "a"}')[0] == 415
    assert client.ask("GET", "/api/info?a=1")[0] == 400
    assert client.ask("GET", "/", Host="evil.example")[0] == 400
    assert client.ask("GET", "/", Host="localhost:99")[0] == 200


def test_headers_of_every_answer(client):
    for method, path in (
        ("GET", "/"),
        ("GET", "/static/js/parse.js"),
        ("GET", "/api/info"),
        ("GET", "/no"),
        ("PUT", "/"),
    ):
        _, headers, _ = client.ask(method, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in {name.lower() for name in headers}
    status, headers, body = client.ask("HEAD", "/")
    assert (status, body) == (200, b"")
    assert client.ask("GET", "/", If_None_Match=headers["etag"])[0] == 304


def test_answers_are_compressed_for_those_who_ask(client):
    for path in ("/", "/static/js/parse.js", "/api/symbols"):
        plain = client.ask("GET", path)
        status, headers, body = client.ask("GET", path, Accept_Encoding="br, gzip")
        assert (status, headers["content-encoding"], headers["vary"]) == (200, "gzip", "accept-encoding")
        assert gzip.decompress(body) == plain[2]
        assert len(body) < len(plain[2])
        assert "content-encoding" not in plain[1]
    assert "content-encoding" not in client.ask("GET", "/healthz", Accept_Encoding="gzip")[1]


def test_requests_have_ids(client):
    first, second = (client.ask("GET", "/healthz")[1]["x-request-id"] for _ in range(2))
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert first != second
    assert client.ask("GET", "/healthz", X_Request_Id="my-1.2")[1]["x-request-id"] == "my-1.2"
    assert client.ask("GET", "/healthz", X_Request_Id="a b")[1]["x-request-id"] not in ("a b", first)


def test_pages_hold_no_scripts_and_name_no_other_hosts():
    from importlib import resources

    static = Path(str(resources.files("sapwood.web") / "static"))
    files = [path for path in static.rglob("*") if path.is_file()]
    assert {"parse.html", "parse.js", "theme.css"} <= {path.name for path in files}
    for file in files:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, file.name
        assert "https://" not in text, file.name
        if file.name.endswith(".html"):
            assert "<script>" not in text
            assert "style=" not in text
            assert not re.search(r"\son\w+=", text)


def test_token():
    with serving(Service.load(token="gr33n")) as address:
        client = Client(address)
        assert client.ask("GET", "/")[0] == 200
        status, headers, _ = client.ask("GET", "/api/info")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert client.ask("GET", "/api/info", Authorization="Bearer green")[0] == 401
        assert client.ask("GET", "/api/info", Authorization="Bearer gr33n")[0] == 200
        assert client.post("/api/parse", {"text": "Yes."})[0] == 401
        assert client.post("/api/parse", {"text": "Yes."}, Authorization="bearer gr33n")[0] == 200


def test_time_is_bounded_and_the_rest_goes_on(client):
    """A request that takes too long gets flat trees for what could not be done; another one is answered meanwhile."""
    limits = Limits(seconds=0.6, sentence_seconds=0.3, words=250)
    with serving(Service.load(limits=limits)) as address:
        other = Client(address)
        words = ["time", "flies", "like", "an", "arrow", ","] * 40
        began = time.monotonic()
        status, found = other.post("/api/parse", {"sentences": [words] * 30, "alternatives": 20})
        assert status == 200
        assert time.monotonic() - began < 10
        assert {result["status"] for result in found["results"]} >= {"timed out"}
        assert len(found["results"]) == 30
        assert other.post("/api/parse", {"sentences": [WORDS]})[1]["results"][0]["status"] == "parsed"


def test_clients_that_go_away_free_their_thread():
    service = Service.load(threads=1, limits=Limits(sentence_seconds=2.0))
    with serving(service) as address:
        client = Client(address)
        body = json.dumps({"sentences": [["time", "flies", "like"] * 60] * 200, "alternatives": 20}).encode()
        host, port = client.place.split(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(HEAD % len(body) + body)
                time.sleep(0.2)
        began = time.monotonic()
        assert client.post("/api/parse", {"sentences": [WORDS]})[0] == 200
        assert time.monotonic() - began < 10
        assert service.crew.jobs <= 1


def test_bodies_that_do_not_come(client, monkeypatch):
    monkeypatch.setattr("sapwood.web.endpoints.BODY_SECONDS", 0.3)
    host, port = client.place.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(HEAD % 10 + b"{")
        assert b" 408 " in connection.recv(1000).splitlines()[0]


def test_logs_have_no_texts_unless_asked(caplog):
    with caplog.at_level("INFO", "sapwood.web"):
        with serving(Service.load()) as address:
            Client(address).post("/api/parse", {"text": "A secret."})
        assert "/api/parse 200" in caplog.text
        assert "secret" not in caplog.text
        with serving(Service.load(), log_texts=True) as address:
            Client(address).post("/api/parse", {"text": "A secret."})
        assert "A secret." in caplog.text


def test_models_have_names_of_their_own(tmp_path):
    grammar = sapwood.load("en")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        grammar.save(tmp_path / folder / "model.sapwood")
    service = Service.load([str(tmp_path / "a" / "model.sapwood"), str(tmp_path / "b" / "model.sapwood"), "en"])
    assert [model.name for model in service.models] == ["model", "model-2", "en"]
    assert service.grammar("model-2") is service.models[1]


def test_plain_text_as_tokens_gets_a_warning(client):
    plain = "It rained, and we left."
    for path in ("parse", "k-best", "marginals", "sample"):
        status, found = client.post(f"/api/{path}", {"sentences": [plain.split()]})
        assert status == 200
        [warning] = found["warnings"]
        assert "'rained,', 'left.'" in warning
        assert "send it as text" in warning
        for body in ({"text": plain}, {"sentences": [WORDS]}):
            assert "warnings" not in client.post(f"/api/{path}", body)[1]
