"""The page that parses, in a real browser."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest

import sapwood
from helpers.browser import WHY_NOT, serving
from helpers.pages import Page
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.web.service import Service

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

WORDS = ["She", "saw", "the", "man", "with", "the", "telescope", "."]
NP = '.node[data-key="2 7 NP"]'


def link(**state: object) -> str:
    return "#" + quote(json.dumps(state))


def tree_of(page: Page) -> str:
    return page.script("return document.querySelector('#brackets').textContent")


@pytest.fixture
def parsed(page: Page) -> Page:
    page.open("parse")
    page.wait(f".sheet {NP}")
    return page


def test_a_sentence_becomes_a_tree(parsed):
    assert tree_of(parsed) == str(next(sapwood.Parser().parse_text("She saw the man with the telescope.")).tree)
    words = "return [...document.querySelector('svg.tree').querySelectorAll('.word')].map(x => x.textContent)"
    # The tree is folded until the page has its width.
    parsed.wait_for(lambda: parsed.script(words) == WORDS)
    parsed.type("#text", "It rained. We stayed.")
    parsed.click("#form .main")
    parsed.wait_for(lambda: "rained" in tree_of(parsed))
    assert parsed.count("#sentences li") == 2
    parsed.click("#sentences li:nth-child(2) button")
    parsed.wait_for(lambda: "stayed" in tree_of(parsed))


def test_labels_are_apart(parsed):
    """No two labels or words of a long sentence overlap, and all of it can be seen."""
    long = " and ".join(["the very extraordinarily long-winded parliamentarian interrupted it"] * 17) + " ."
    assert len(long.split()) >= 120
    parsed.open("parse" + link(text=long, input="tokens", count=1))
    parsed.wait_for(lambda: parsed.count(".tall .node"), 40)
    parsed.click(".tall [aria-label='Open all']")
    parsed.wait_for(lambda: parsed.script("return document.querySelectorAll('svg.tree .word').length") >= 120)
    overlaps = parsed.script("""
        const boxes = [...document.querySelectorAll('svg.tree .pill, svg.tree .word')].map(x => [x, x.getBBox()]);
        let found = 0;
        for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
            const [a, b] = [boxes[i][1], boxes[j][1]];
            if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height) found++;
        }
        return found;""")
    assert overlaps == 0
    before = parsed.script("return document.querySelector('svg.tree > g').getAttribute('transform')")
    parsed.click("[aria-label=Smaller]")
    assert parsed.script("return document.querySelector('svg.tree > g').getAttribute('transform')") != before


def test_hovering_tells_the_probability(parsed):
    parsed.hover(f"{NP} .pill")
    parsed.wait(".tooltip")
    text = parsed.text(".tooltip")
    marginals = sapwood.Parser(marginals=True).parse_one(WORDS).marginals
    probability = next(value for *phrase, value in marginals if phrase == [2, 7, "NP"])
    assert f"{100 * probability:.1f} %" in text
    assert "the man with the telescope" in text


def test_constrained_by_click(parsed):
    parsed.click(f"{NP} .pill")
    parsed.wait(".menu")
    parsed.click_text(".menu button", "No phrase here")
    parsed.wait(".chip.absent")
    parsed.wait_for(lambda: parsed.count(NP) == 0)
    assert "(VP (VBD saw) (NP (DT the) (NN man)) (PP" in tree_of(parsed)
    # The link shows the same again.
    address = parsed.driver.current_url
    parsed.open("states")
    parsed.driver.get(address)
    parsed.wait(".chip.absent")
    assert "(VP (VBD saw) (NP (DT the) (NN man)) (PP" in tree_of(parsed)
    parsed.click(".chip button")
    parsed.wait_for(lambda: parsed.count(NP) > 0)
    # A tag.
    parsed.click('.sheet .node[data-key="1 2 VBD tag"] .pill')
    parsed.wait(".menu")
    parsed.choose(".menu select", "VBP")
    parsed.click_text(".menu button", "Fix this tag")
    parsed.wait_for(lambda: "(VBP saw)" in tree_of(parsed))
    # A cell of the chart, which no phrase of the tree has.
    parsed.click('rect.cell[data-span="0 3"]')
    parsed.wait(".menu")
    parsed.choose(".menu select", "NP")
    parsed.click_text(".menu button", "It is this")
    parsed.wait('.node[data-key="0 3 NP"]')


def test_what_cannot_be_is_said(parsed):
    constraints = [
        {"start": 0, "end": 2, "label": "NP", "kind": "phrase"}, {"start": 1, "end": 3, "label": "NP", "kind": "phrase"}
    ]  # fmt: skip
    parsed.open("parse" + link(text="She saw the man.", constraints=constraints))
    parsed.wait(".warning")
    assert "no parse" in parsed.text(".warning")
    parsed.click(".chip button")
    parsed.wait("svg.tree .node")


def test_best_trees_side_by_side(parsed):
    assert parsed.count(".cards .card") == 3
    parsed.wait(".card .differs, .changes .less")
    assert "NP: the man with the telescope" in parsed.text(".changes .less")
    assert parsed.count(".card .differs") >= 1


def test_phrases_are_closed_and_opened(parsed):
    parsed.double_click(f"{NP} .pill", until=".roof")
    assert parsed.count(".sheet > .tree-frame .word") == 4
    parsed.click("[aria-label='Open all']")
    parsed.wait_for(lambda: parsed.count(".sheet > .tree-frame .word") == 8)


def test_the_keyboard_is_enough(parsed):
    parsed.script("document.querySelector('#text').focus()")
    parsed.keys("a", control=True)
    parsed.keys("We saw her duck .")
    parsed.keys("ENTER", control=True)
    parsed.wait_for(lambda: "duck" in tree_of(parsed))
    for _ in range(30):
        if parsed.script("return document.activeElement.matches('svg.tree .node')"):
            break
        parsed.keys("TAB")
    parsed.keys("ARROW_DOWN")
    parsed.keys("ARROW_DOWN")
    assert parsed.script("return document.activeElement.dataset.key") == "0 1 NP"
    parsed.keys("ARROW_RIGHT")
    assert parsed.script("return document.activeElement.getAttribute('aria-label')").startswith(
        "VP over “saw her duck”"
    )
    parsed.keys("SPACE")
    assert parsed.count(".roof") == 1
    parsed.keys("SPACE")
    parsed.keys("ENTER")
    parsed.wait(".menu")
    assert parsed.script("return document.querySelector('.menu').contains(document.activeElement)")
    parsed.keys("ESCAPE")
    assert parsed.count(".menu") == 0
    assert parsed.script("return document.activeElement.dataset.key") == "1 4 VP"
    parsed.keys("ENTER")
    parsed.keys("TAB")
    parsed.keys("TAB")
    parsed.keys("ENTER")
    parsed.wait(".chip.absent")


def test_other_scripts_and_emoji(parsed):
    words = ["رأى", "הכלב", "😀👩‍👩‍👧", "ßtraße", "(", "<b>", "a\u0301"]
    parsed.open("parse" + link(text=" ".join(words), input="tokens"))
    parsed.wait_for(lambda: "ßtraße" in tree_of(parsed))
    shown = parsed.script(
        "return [...document.querySelector('svg.tree').querySelectorAll('.word')].map(x => x.textContent)"
    )
    assert shown == words
    parsed.open("parse" + link(text="رأى الرجل القط", input="tokens"))
    parsed.wait_for(lambda: "رأى" in tree_of(parsed))
    places = parsed.script(
        "return [...document.querySelector('svg.tree').querySelectorAll('.word')].map(x => +x.getAttribute('x'))"
    )
    assert places == sorted(places, reverse=True)


def test_a_tree_is_taken_away(parsed):
    copied = {}
    for what in ("Brackets", "SVG", "JSON", "Link"):
        parsed.script("navigator.clipboard.writeText = async (text) => { window.taken = text; }")
        parsed.click("#take")
        parsed.wait(".menu")
        parsed.click_text(".menu button", what)
        parsed.wait_for(lambda: parsed.script("return window.taken"))
        copied[what] = parsed.script("const text = window.taken; window.taken = null; return text")
    assert copied["Brackets"] == tree_of(parsed)
    assert copied["SVG"].startswith("<svg")
    assert "telescope" in copied["SVG"]
    assert "var(" not in copied["SVG"]
    assert json.loads(copied["JSON"])["tree"] == tree_of(parsed)
    assert copied["Link"] == parsed.driver.current_url
    found = parsed.async_script("""
        const done = arguments[0], make = URL.createObjectURL;
        URL.createObjectURL = (blob) => (blob.type === "image/png" && done([blob.type, blob.size]), make(blob));
        HTMLAnchorElement.prototype.click = () => {};
        document.querySelector("#take").click();
        [...document.querySelectorAll(".menu button")].find((b) => b.textContent === "PNG file").click();""")
    assert found[0] == "image/png"
    assert found[1] > 5000


def test_a_model_without_parses(page, tmp_path):
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "N", "V"): 1.0}, words={("N", "dogs"): 1.0, ("V", "run"): 1.0}
    )
    grammar.save(tmp_path / "small.sapwood")
    with serving(Service.load([str(tmp_path / "small.sapwood")])) as address:
        page.visit(address + "parse" + link(text="dogs dogs dogs run run", input="tokens"))
        page.wait("#status")
        assert "flat tree" in page.text("#status")
        page.visit(address + "parse" + link(text="dogs run", input="tokens", count=2))
        page.wait_for(lambda: page.text("#status") == "parsed")


def test_the_server_goes_away(page):
    with serving(Service.load()) as address:
        page.visit(address)
        page.wait(NP)
        page.wait("#brackets")
    page.click("#form .main")
    page.wait("#message:not([hidden])")
    assert "does not respond" in page.text("#message")
    assert all(entry["source"] == "network" for entry in page.complaints())


def test_a_token_is_asked_for(page):
    with serving(Service.load(token="gr33n")) as address:
        page.visit(address)
        page.wait(".menu input")
        page.type(".menu input", "gr33n")
        page.keys("ENTER")
        page.wait(NP)
        assert all(entry["source"] == "network" for entry in page.complaints())


def test_light_and_dark(parsed):
    before = parsed.script("return getComputedStyle(document.body.parentElement).backgroundColor")
    parsed.click("header button")
    assert parsed.script("return getComputedStyle(document.body.parentElement).backgroundColor") != before
    parsed.click("header button")


def test_nothing_is_wider_than_a_telephone(parsed):
    parsed.narrow()
    time.sleep(0.2)
    assert parsed.script("return document.documentElement.scrollWidth") <= 400
