"""The treebank, language models and logs in the API: the same as in the library."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import pytest

import sapwood
from helpers.browser import serving
from helpers.client import Client
from helpers.made_treebank import made_treebank
from sapwood.evaluate.brackets import Scorer
from sapwood.evaluate.error_types import Confusion, count_confusions
from sapwood.lm import count_text
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.runtime.log import TrainingLog
from sapwood.treebank.counts import count_matches
from sapwood.treebank.keys import KeyExpression
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.web.api.treebank import SearchRequest, _search, pattern_of_words
from sapwood.web.application import describe_service
from sapwood.web.service import Service
from sapwood.web.treebank import ServedTreebank


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A treebank, a language model and a log."""
    folder = tmp_path_factory.mktemp("served")
    trees = made_treebank()
    (folder / "gold.mrg").write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    (folder / "text.txt").write_text("the dog barks\nthe cat sleeps\na dog sleeps\na cat barks\n" * 20)
    AggregateMarkov(states=2, random_state=1).fit(count_text(folder / "text.txt", order=2)).save(folder / "words.lm")
    with TrainingLog(folder / "train.jsonl") as log:
        log.write("start", step=0, method="em", trees=40)
        for step in range(1, 6):
            log.write("iteration", step=step, cycle=1, iteration=step, log_likelihood=-100.0 + step, states=8)
        log.write("dev", step=5, cycle=1, f1=81.5)
    return folder


@pytest.fixture(scope="module")
def served(files):
    service = Service.load(
        ["en", str(files / "words.lm")],
        treebank=str(files / "gold.mrg"),
        logs=[str(files / "train.jsonl"), str(files / "later.jsonl")],
    )
    with serving(service) as address:
        yield Client(address, describe_service(service))


def test_trees_are_listed(served, files):
    trees = list(sapwood.read_trees(files / "gold.mrg"))
    status, found = served.get("/api/trees?start=3&count=2")
    assert (status, found["total"]) == (200, len(trees))
    assert [one["tree"] for one in found["trees"]] == [str(tree) for tree in trees[3:5]]
    assert served.get("/api/trees?start=1000")[1]["trees"] == []
    assert served.get("/api/trees?start=x")[0] == 400


def test_search_is_that_of_the_library(served, files):
    table = TreeTable.from_trees(list(sapwood.read_trees(files / "gold.mrg")))
    status, found = served.post("/api/search", {"pattern": "NP << NN", "count": 5, "start": 1})
    assert status == 200
    counted = Searcher("NP << NN").count(table)
    assert (found["matches"], found["matching_trees"], found["trees"]) == counted
    by_tree: dict[int, list[int]] = {}
    for match in Searcher("NP << NN").matches(table):
        by_tree.setdefault(match.tree, []).append(match.place.node)
    assert [(one["number"] - 1, one["nodes"]) for one in found["results"]] == list(by_tree.items())[1:6]
    status, found = served.post("/api/search", {"pattern": "NP < ("})
    assert status == 422
    assert "column" in found["error"]
    assert served.post("/api/search", {"pattern": "  "})[0] == 400


def test_counts_lead_to_their_trees(served, files):
    table = TreeTable.from_trees(list(sapwood.read_trees(files / "gold.mrg")))
    searcher = Searcher("NP=x < /^N/=y")
    expected = count_matches(searcher, [("gold.mrg", table)], [KeyExpression.parse("word:y")])
    status, found = served.post("/api/counts", {"pattern": "NP=x < /^N/=y", "keys": ["word:y"], "count": 3})
    assert (status, found["matches"], found["values"]) == (200, expected.total, len(expected.counts))
    rows = [[*row["values"], row["count"], row["share"], row["per_thousand"]] for row in found["rows"]]
    assert rows == expected.table(3).rows
    for word, count, *_ in rows:
        request = {"pattern": "NP=x < /^N/=y", "key": "word:y", "value": word, "count": 100}
        status, found = served.post("/api/search", request)
        assert (status, found["matches"]) == (200, count)
        assert all(word in one["words"] for one in found["results"])
    assert served.post("/api/search", {"pattern": "NP", "key": "word", "value": "zebra"})[1]["matches"] == 0
    status, found = served.post("/api/counts", {"pattern": "NP", "keys": ["head", "parent"]})
    assert (status, len(found["rows"][0]["values"])) == (200, 2)
    for keys in (["colour"], ["label:x"], [], ["label"] * 3):
        assert served.post("/api/counts", {"pattern": "NP", "keys": keys})[0] in (400, 422), keys


def test_rewriting_is_previewed(served, files):
    trees = list(sapwood.read_trees(files / "gold.mrg"))
    rules = "% nouns\nNN=x\nrelabel x N\n"
    expected = [
        (number, str(old), str(new))
        for number, (old, new) in enumerate(zip(trees, sapwood.rewrite(trees, rules), strict=True), 1)
        if old != new
    ]
    status, found = served.post("/api/rewrite", {"rules": rules, "start": 1, "count": 4})
    assert (status, found["changed"], found["trees"]) == (200, len(expected), len(trees))
    assert [(one["number"], one["before"], one["after"]) for one in found["results"]] == expected[1:5]
    assert found["rules"] == [{"line": 2, "rewrites": sum(tree.tags().count("NN") for tree in trees)}]
    status, found = served.post("/api/rewrite", {"rules": "NP=x\nprune x"})
    assert status == 422
    assert "changes the words" in found["error"]
    assert served.post("/api/rewrite", {"rules": "NP=x <# __=y !> Q\ncreateSubtree Q x", "count": 1})[0] == 200


def test_words_in_a_row(served, files):
    words = next(sapwood.read_trees(files / "gold.mrg")).words()
    status, found = served.post("/api/search", {"pattern": " ".join(words[:2]).upper(), "words": True})
    assert status == 200
    expected = sum(
        any([word.lower() for word in tree.words()[at : at + 2]] == [word.lower() for word in words[:2]]
            for at in range(len(tree)))
        for tree in sapwood.read_trees(files / "gold.mrg")
    )  # fmt: skip
    assert found["matching_trees"] == expected > 0
    assert pattern_of_words("a.c (b)") == "/^a\\.c$/ !< __ . (/^\\(b\\)$/ !< __)"
    assert served.post("/api/search", {"pattern": ".*", "words": True})[1]["matches"] == 0


def test_mistakes_are_those_of_the_parser(served, files):
    end = time.monotonic() + 60
    while not (found := served.get("/api/mistakes?count=100")[1])["complete"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    parser, scorer = sapwood.Parser(), Scorer()
    expected: Counter[Confusion] = Counter()
    wrong = {}
    for number, tree in enumerate(sapwood.read_trees(files / "gold.mrg"), 1):
        gold = parser.grammar.normaliser(tree)
        parsed = parser.parse_one(gold.words()).tree
        scorer.add(gold, parsed)
        confusions = count_confusions(gold, parsed)
        expected += confusions
        if confusions:
            wrong[number] = (str(gold), str(parsed))
    assert found["f1"] == pytest.approx(scorer.result().f1)
    assert {one["number"]: (one["gold"], one["predicted"]) for one in found["worst"]} == wrong
    assert [one["f1"] for one in found["worst"]] == sorted(one["f1"] for one in found["worst"])
    for one in found["confusions"]:
        assert expected[Confusion(one["kind"], one["gold"], one["predicted"])] == one["count"]
    assert wrong
    first = found["confusions"][0]
    query = "&".join(f"{key}={first[key]}" for key in ("kind", "gold", "predicted") if first[key] is not None)
    chosen = served.get(f"/api/mistakes?{query}&count=100")[1]
    assert 0 < chosen["wrong_trees"] <= found["wrong_trees"]


def test_states_with_examples(served):
    symbols = served.get("/api/symbols")[1]["symbols"]
    noun = next(one for one in symbols if one["name"] == "NN" and one["preterminal"])
    status, found = served.get(f"/api/states?symbol={noun['number']}&top=3")
    assert status == 200
    assert len(found["states"]) == noun["states"]
    assert all(len(state["words"]) <= 3 for state in found["states"])
    assert sum(len(state["examples"]) for state in found["states"]) > 0
    assert len(found["levels"]) == 3
    assert served.get("/api/states?symbol=999999")[0] == 400
    assert served.get("/api/states")[0] == 400


def test_language_models(served, files):
    model = sapwood.load(files / "words.lm")
    _, found = served.post("/api/lm/next", {"context": ["the"], "top": 2})
    assert [(one["word"], one["probability"]) for one in found["next"]] == model.next_words(["the"], 2)
    _, found = served.post("/api/lm/word", {"word": "dog", "top": 2})
    assert [(one["word"], one["likeness"]) for one in found["nearest"]] == model.nearest("dog", 2)
    assert sum(one["probability"] for one in found["profile"]) == pytest.approx(1)
    assert not served.post("/api/lm/word", {"word": "zebra"})[1]["known"]
    assert len(served.get("/api/lm/topics?by=probability")[1]["states"]) == 2


def test_training_logs_grow(served, files):
    status, found = served.get("/api/training?log=0")
    assert (status, found["state"]) == (200, "running")
    assert found["curves"][0]["log_likelihood"]["y"] == [-99.0, -98.0, -97.0, -96.0, -95.0]
    assert served.get("/api/training?log=1")[1]["state"] == "waiting"
    with TrainingLog(files / "later.jsonl") as log:
        log.write("start", step=0, method="em")
        log.write("iteration", step=1, log_likelihood=-5.0)
        assert served.get("/api/training?log=1")[1]["state"] == "running"
        log.write("end", step=1)
    assert served.get("/api/training?log=1")[1]["state"] == "finished"
    assert served.get("/api/training?log=2")[0] == 400


def test_confusions_by_hand():
    gold = sapwood.Tree.parse("(S (NP (NP (A a))) (VP (B b)) (C c))")
    same = count_confusions(gold, gold)
    assert not same
    other = sapwood.Tree.parse("(S (NP (A a)) (X (D b) (C c)))")
    assert count_confusions(gold, other) == {
        Confusion("missing", "NP", None): 1,
        Confusion("missing", "VP", None): 1,
        Confusion("spurious", None, "X"): 1,
        Confusion("tag", "B", "D"): 1,
    }


def test_head_relations_are_by_rules_that_fit_the_treebank(monkeypatch):
    trees = ["(S (sn (np Juan)) (gv (vm ve)))", "(S (gv (vm llueve)))", "(S (sn (np Ana)) (gv (vm cae)))"]
    gold = ServedTreebank("gold.mrg", TreeTable.from_trees(map(sapwood.Tree.parse, trees)))
    monkeypatch.setattr("sapwood.web.api.treebank._gold", lambda request: gold)
    request = SimpleNamespace(body=SearchRequest(pattern="S <# gv"), job=SimpleNamespace(remaining=60))
    assert _search(request).matches == 3
