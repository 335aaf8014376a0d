"""Trees with gaps in the answers of the service."""

from __future__ import annotations

import pytest

from helpers.browser import serving
from helpers.client import Client
from sapwood import PCFG, Tree
from sapwood.web.application import describe_service
from sapwood.web.service import Service

LINE = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"
PLAIN = "(S (NP (NP John)) (VP (VB is) (JJ rich)))"
ROOTED = f"(ROOT {LINE})"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gaps")
    trees = [Tree.parse(LINE, format="discbracket"), Tree.parse(PLAIN)]
    PCFG().fit(PCFG.prepare(trees)).save(folder / "gaps.sapwood")
    (folder / "gold.dbr").write_text(f"{LINE}\n" * 3, encoding="utf-8")
    service = Service.load(
        [str(folder / "gaps.sapwood")], treebank=str(folder / "gold.dbr"), reading={"format": "discbracket"}, threads=1
    )
    with serving(service) as address:
        yield Client(address, describe_service(service))


def test_parses_say_that_they_have_gaps(served):
    sentences = {"sentences": [["is", "John", "rich"], ["John", "is", "rich"]]}
    status, found = served.post("/api/parse", {**sentences, "marginals": True, "alternatives": 1})
    assert status == 200, found
    first, second = found["results"]
    assert (first["tree"], first["gaps"], first["alternatives"][0]["gaps"]) == (ROOTED, True, True)
    assert [0, 1, "VP*"] in [one[:3] for one in first["marginals"]]
    assert "gaps" not in second
    status, found = served.post("/api/k-best", {**sentences, "count": 1})
    assert [one["alternatives"][0].get("gaps") for one in found["results"]] == [True, None]
    status, found = served.post("/api/sample", {**sentences, "count": 20})
    first, second = found["results"]
    assert first["gaps"] == [tree == ROOTED for tree in first["trees"]]
    assert any(first["gaps"])
    assert "gaps" not in second


def test_the_treebank_is_compared(served):
    assert served.get("/api/trees?start=0&count=1")[1]["trees"][0]["tree"] == LINE
    status, found = served.post("/api/search", {"pattern": "VP < JJ"})
    assert (status, found["results"][0]["tree"]) == (200, LINE)


def test_scores_are_of_gaps_only_where_there_are_some(served):
    status, found = served.post("/api/evaluate", {"gold": PLAIN})
    assert status == 200
    assert "disc_f1" not in found
    # The parser finds a gap where these trees have none.
    status, found = served.post("/api/evaluate", {"gold": "(S (VP (VB is)) (NP John) (JJ rich))"})
    assert (status, found["disc_f1"], found["intervals"]["disc_f1"]) == (200, 0.0, [0.0, 0.0])
