"""The other pages, in a real browser."""

from __future__ import annotations

import pytest

import sapwood
from helpers.browser import WHY_NOT
from helpers.pages import Page
from web.test_api_treebank import files, served  # noqa: F401

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")


@pytest.fixture
def shown(driver, served):  # noqa: F811
    found = Page(driver, served.address)
    found.complaints()
    yield found
    assert found.complaints() == []


def test_states_are_shown_named_and_compared(shown):
    shown.open("states#symbol=NN%2Ftag")
    shown.wait(".card[data-state]")
    assert shown.text("h2") == "NN"
    assert shown.count(".examples mark") > 0
    assert shown.count("svg.splits circle") > 3
    shown.type(".card[data-state] input.name", "things")
    shown.keys("TAB")
    shown.open("states#symbol=NN%2Ftag")
    shown.wait(".card[data-state]")
    assert shown.script("return document.querySelector('.card input.name').value") == "things"
    shown.click(".card[data-state]:nth-child(1) button")
    shown.click(".card[data-state]:nth-child(2) button")
    shown.wait("#comparison")
    assert "things" in shown.text("#comparison h2")
    shown.click(".list li:nth-child(3) button")
    shown.wait_for(lambda: shown.text("h2") != "NN")


def test_the_treebank_is_searched(shown):
    shown.open("treebank")
    shown.wait(".card .node")
    assert "All trees" in shown.text("#summary")
    shown.type("#pattern", "NP < NN")
    shown.keys("ENTER")
    shown.wait(".card .matched")
    assert "matches in" in shown.text("#summary")
    shown.find("#found .sheet > button").click()
    shown.wait_for(lambda: shown.count(".card") > 12)
    shown.open("treebank#pattern=NP+%3C+NN")
    shown.wait(".card .matched")


def test_counts_lead_to_their_trees(shown):
    shown.open("treebank#pattern=NP+%3C+NN%3Dx")
    shown.wait(".card .matched")
    shown.type("#key", "word:x")
    shown.find("#counting button").click()
    shown.wait("#counts tbody tr")
    value, number = shown.text("#counts tbody button"), shown.text("#counts tbody .number")
    shown.find("#counts tbody button").click()
    shown.wait("#group")
    shown.wait_for(lambda: shown.text("#summary").startswith(f"{number} match"))
    assert value in shown.text("#group")
    assert value in shown.text(".card .sentence")
    shown.find("#group button").click()
    shown.wait_for(lambda: shown.count("#group") == 0)


def test_rewriting_is_previewed(shown):
    shown.open("treebank#tab=rewrite")
    shown.wait("#rules")
    shown.type("#rules", "NN=x\nrelabel x NOUN")
    shown.find("#content form .main").click()
    shown.wait("#rewritten .matched")
    assert "trees change" in shown.text("#summary")
    assert "rule of line 1" in shown.text("#rewritten ul")
    assert shown.complaints() == []


def test_a_wrong_pattern_is_explained(shown):
    shown.open("treebank")
    shown.wait(".card .node")
    shown.type("#pattern", "NP < (")
    shown.keys("ENTER")
    shown.wait("#message:not([hidden])")
    assert "column" in shown.text("#message")
    assert all(entry["source"] == "network" for entry in shown.complaints())


def test_mistakes_are_marked(shown):
    shown.open("treebank#tab=mistakes")
    shown.wait_for(lambda: "trees parsed" in shown.text("#progress"), 40)
    shown.wait(".pairs .wrong")
    assert shown.count(".pairs .card") > 0
    before = shown.text("#worst")
    shown.click(".confusions button")
    shown.wait(".confusions [aria-pressed=true]")
    shown.wait_for(lambda: shown.text("#worst") != before)


def test_words(shown, files):  # noqa: F811
    model = sapwood.load(files / "words.lm")
    shown.open("words")
    shown.wait("#next button")
    shown.type("#context", "the")
    best = model.next_words(["the"], 1)[0][0]
    shown.wait_for(lambda: shown.text("#next button .grow") == best)
    shown.type("#asked", "dog")
    shown.keys("ENTER")
    shown.wait("#word .words button")
    assert shown.text("#word .words button") == model.nearest("dog", 1)[0][0]
    assert shown.count("#topics .card") == 2


def test_training(shown):
    shown.open("training")
    shown.wait("svg.plot .curve")
    assert "81.50" in shown.text("#content")


@pytest.mark.parametrize("path", ["states", "treebank", "treebank#tab=mistakes", "words", "training"])
def test_pages_fit_a_telephone(shown, path):
    shown.narrow()
    shown.open(path)
    shown.wait(".sheet")
    assert shown.script("return document.documentElement.scrollWidth") <= 400
