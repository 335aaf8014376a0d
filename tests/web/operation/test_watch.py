"""Replaced model files are served without a dropped request, and broken ones are not."""

from __future__ import annotations

import shutil
import threading

import pytest

import sapwood
from helpers.browser import serving
from helpers.client import Client
from helpers.made_treebank import made_treebank
from sapwood.lm import count_text
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.trees.tree import Tree
from sapwood.web.operation.watch import ModelWatch, watching
from sapwood.web.service import Service


@pytest.fixture
def models(tmp_path):
    """Two models that give a sentence different trees, and the path that is served."""
    for name in ("X", "Y"):
        sapwood.train([Tree.parse(f"(S ({name} (N a)))")] * 3, method="pcfg").save(tmp_path / f"{name}.sapwood")
    shutil.copy(tmp_path / "X.sapwood", tmp_path / "served.sapwood")
    return tmp_path


def put(models, name: str) -> None:
    """Replace the served file, as a deployment does."""
    shutil.copy(models / f"{name}.sapwood", models / "new")
    (models / "new").rename(models / "served.sapwood")


def test_no_request_is_dropped(models):
    (models / "gold.mrg").write_text("(S (X (N a)))\n(S (Y (N a)))\n")
    service = Service.load([str(models / "served.sapwood")], treebank=str(models / "gold.mrg"))
    watch, end, found = ModelWatch(service), threading.Event(), []

    def ask(client: Client) -> None:
        while not end.is_set():
            status, answer = client.post("/api/parse", {"sentences": [["a"]] * 5})
            found.append((status, *{result["tree"] for result in answer.get("results", ())}))

    with serving(service) as address:
        client = Client(address)
        labels = [client.get("/api/info")[1]["models"][0]["labels"]]
        assert client.get("/api/mistakes")[0] == 200
        threads = [threading.Thread(target=ask, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(6):
            put(models, "YX"[number % 2])
            assert watch.look() == []  # it might still be written
            assert watch.look() == ["served"]
            assert watch.look() == []
            labels.append(client.get("/api/info")[1]["models"][0]["labels"])
        end.set()
        for thread in threads:
            thread.join(30)
        assert b"sapwood_model_info" in client.ask("GET", "/metrics")[2]
    assert ["X" in one for one in labels] == [True, False] * 3 + [True]
    # Within a request, one model parses all sentences.
    assert set(found) <= {(200, "(ROOT (S (X (N a))))"), (200, "(ROOT (S (Y (N a))))")}
    assert len(found) > 4


def test_broken_and_missing_files_leave_the_earlier_model(models, caplog):
    service = Service.load([str(models / "served.sapwood")])
    watch, parser = ModelWatch(service), service.grammar().parser
    path = models / "served.sapwood"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert [watch.look() for _ in range(3)] == [[], [], []]
    assert caplog.text.count("the earlier model stays") == 1
    path.unlink()
    assert [watch.look() for _ in range(3)] == [[], [], []]
    (models / "text").write_text("a b\n" * 20)
    AggregateMarkov(states=2).fit(count_text(models / "text", order=2)).save(path)
    assert [watch.look() for _ in range(2)] == [[], []]
    assert "is now a language model; restart the server" in caplog.text
    assert service.grammar().parser is parser
    put(models, "Y")
    assert [watch.look() for _ in range(2)] == [[], ["served"]]
    assert service.grammar().parser is not parser


def test_a_file_that_was_replaced_before_the_first_look_is_loaded_at_it(models):
    """A process that takes the place of another one has the models of its parent, which are those of the start."""
    service = Service.load([str(models / "served.sapwood")])
    put(models, "Y")
    with watching(service):
        assert str(service.grammar().parser.parse_one(["a"]).tree) == "(ROOT (S (Y (N a))))"
    assert ModelWatch(Service.load([str(models / "served.sapwood")])).look() == []


def test_what_was_computed_with_the_earlier_model_is_forgotten(tmp_path):
    (tmp_path / "gold.mrg").write_text("".join(f"{tree}\n" for tree in made_treebank()[:3]))
    service = Service.load(treebank=str(tmp_path / "gold.mrg"))
    gold = service.gold
    gold.once(("comparison", "en"), lambda: 1)
    gold.once(("comparison", "other"), lambda: 2)
    gold.describe()
    service.reload("en")
    assert gold.once(("comparison", "en"), lambda: 3) == 3
    assert gold.once(("comparison", "other"), lambda: 4) == 2
