"""First look: pages say what they are, open with examples that fit, and show trees and lists whole."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from helpers import axe
from helpers.browser import WHY_NOT, resize, serving
from helpers.made_treebank import TEXT
from helpers.pages import Page, watched
from helpers.screenshots import LONG, PAGES, make_service
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.lm import KneserNey, count_text
from sapwood.web.service import Service

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

SWAHILI = {"mbwa": "N", "paka": "N", "sana": "R", "analala": "V", "anakula": "V", ".": "P"}
SPANISH = [
    "(sentence (sn (spec.ms (da0ms0 El)) (grup.nom.ms (ncms000 perro))) (grup.verb (vmip3s0 ladra)) (fp .))",
    "(sentence (sn (spec.fs (da0fs0 La)) (grup.nom.fs (ncfs000 casa))) (grup.verb (vmip3s0 arde)) (fp .))",
    "(sentence (sn (grup.nom (np0000 Ana) (sp (prep (sps00 de)) (sn (np0000 Lugo))))) (grup.verb (vmip3s0 ríe)))",
]
# The number of a tree's texts, of those that are not inside its frame, and its scale.
OUTSIDE = r"""
const frame = arguments[0], box = frame.getBoundingClientRect();
const boxes = [...frame.querySelectorAll('svg.tree text')].map((one) => one.getBoundingClientRect());
const out = boxes.filter((one) => one.left < box.left || one.right > box.right
    || one.top < box.top || one.bottom > box.bottom);
const scale = +frame.querySelector('svg.tree > g').getAttribute('transform').match(/scale\((.*)\)/)[1];
return [boxes.length, out.length, scale];
"""


def link(**state: object) -> str:
    return "parse#" + quote(json.dumps(state))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(make_service(tmp_path_factory.mktemp("everything"))) as address:
        yield address


@pytest.fixture
def shown(driver, served):
    with watched(driver, served) as found:
        yield found


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A service of a small model of another language, a Spanish treebank and an n-gram model."""
    folder = tmp_path_factory.mktemp("others")
    words = {(tag, word): 1.0 / list(SWAHILI.values()).count(tag) for word, tag in SWAHILI.items()}
    rules = {("S", "A", "B"): 1.0, ("A", "N", "R"): 1.0, ("B", "V", "P"): 1.0}
    TensorGrammar.from_parts(root={"S": 1.0}, rules=rules, words=words).save(folder / "sw.sapwood")
    (folder / "es.mrg").write_text("".join(f"{tree}\n" for tree in SPANISH), encoding="utf-8")
    (folder / "text").write_text("the dog barks\nthe cat sleeps\n" * 9)
    KneserNey(order=2).fit(count_text(folder / "text", order=2)).save(folder / "words.lm")
    models = ["sw.sapwood", "words.lm"]
    service = Service.load(
        [*(str(folder / name) for name in models), "en"], treebank=str(folder / "es.mrg"), logs=[str(folder / "log")]
    )
    with serving(service) as address:
        yield address


@pytest.fixture
def other(driver, others):
    with watched(driver, others) as found:
        yield found


def value(page: Page, selector: str) -> str:
    return page.script("return document.querySelector(arguments[0]).value", selector)


def test_it_opens_with_a_sentence_of_the_model(other):
    other.open("parse")
    other.wait(".tall .node")
    words = value(other, "#text").removesuffix(".").split()
    assert len(words) == 3
    assert set(words) <= set(SWAHILI)
    assert other.text("#status") == "parsed"
    # Each model has its own.
    other.choose("#model", "en")
    other.click("#form .main")
    other.wait_for(lambda: "She" in other.text("#brackets"))
    assert value(other, "#text") == "She saw the man with the telescope."
    other.type("#text", "It rained.")
    other.choose("#model", "sw")
    other.click("#form .main")
    other.wait_for(lambda: "rained" in other.text("#brackets"))


def test_links_keep_their_own_sentence(other):
    other.open(link(text="paka sana anakula .", input="tokens"))
    other.wait(".tall .node")
    assert value(other, "#text") == "paka sana anakula ."


def test_patterns_have_the_labels_of_the_treebank(other):
    other.open("treebank")
    other.wait("#patterns button")
    patterns = other.script("return [...document.querySelectorAll('#patterns button')].map((one) => one.textContent)")
    assert len(patterns) >= 3
    assert any("sn" in pattern for pattern in patterns)
    relations = other.text("details table")
    assert "sn" in relations
    assert "NP" not in relations + str(patterns) + other.script("return document.querySelector('#pattern').placeholder")
    for number, pattern in enumerate(patterns, 1):
        other.click(f"#patterns button:nth-of-type({number})")
        other.wait_for(lambda pattern=pattern: value(other, "#pattern") == pattern)
        other.wait(".card .matched")


def test_labels_that_no_tree_has_are_named(other):
    other.open("treebank#pattern=NP+%3C+sn")
    other.wait("#found .warning")
    assert "no tree has the label or word 'NP'" in other.text("#found .warning")


def test_tooltips_explain_labels(other, shown):
    other.open("treebank")
    other.wait(".card .node")
    other.hover('.card .node[data-key="0 2 sn"] .pill')
    other.wait(".tooltip")
    assert "noun phrase" in other.text(".tooltip")
    shown.open("parse")
    shown.wait(".tall .node")
    shown.hover('.tall .node[data-key="1 2 VBD tag"] .pill')
    shown.wait(".tooltip")
    assert "verb, past tense" in shown.text(".tooltip")


@pytest.mark.parametrize(("width", "least"), [(1400, 0.59), (800, 0.5), (400, 0.35)])
def test_long_trees_open_whole(shown, width, least):
    assert len(LONG.split()) >= 60
    resize(shown.driver, width, 1000)
    shown.open(link(text=LONG, count=2))
    shown.wait(".cards .node")
    shown.wait(".tall.folded .node")
    for selector in (".tall", ".cards .tree-frame"):
        texts, outside, scale = shown.script(OUTSIDE, shown.find(selector))
        assert texts > 8, selector
        assert outside == 0, selector
        assert scale >= least, selector
    # All words are there, and a click brings more of them.
    before = shown.count(".tall .word")
    assert before < 60
    shown.click(".tall .node.phrase:has(.roof) .roof")
    shown.wait_for(lambda: shown.count(".tall .word") > before)
    assert shown.count(".menu") == 0
    shown.click(".tall [aria-label='Open all']")
    shown.wait_for(lambda: shown.count(".tall .word") >= 60)
    assert shown.script(OUTSIDE, shown.find(".tall"))[1] == 0
    shown.click(".tall [aria-label='Fold to fit']")
    shown.wait_for(lambda: shown.count(".tall .word") == before)


def test_phrases_of_cards_open_by_a_click(shown):
    shown.open(link(text=LONG, count=2))
    shown.wait(".cards .folded .node")
    before = shown.count(".cards .word")
    shown.click(".cards .folded .node.phrase:has(.roof) .pill")
    shown.wait_for(lambda: shown.count(".cards .word") > before)


def test_what_matches_is_seen_in_folded_trees(shown):
    shown.open("treebank#pattern=" + quote('NP < (NN < "fountain")'))
    shown.wait(".card .matched")
    resize(shown.driver, 420, 1000)
    shown.wait(".card.long .folded .matched")
    assert shown.script(OUTSIDE, shown.find(".card.long .tree-frame"))[1] == 0


def test_many_sentences_are_a_list(shown):
    sentences = [f"We saw {number} dogs." for number in range(2, 42)]
    shown.open(link(text=" ".join(sentences), count=1))
    shown.wait("#sentences li")
    assert shown.count("#sentences ol > li > button") == len(sentences)
    assert shown.count("[role=tab]") == 0
    tops = shown.script("return [...document.querySelectorAll('#sentences li')].map((one) => one.offsetTop)")
    assert tops == sorted(set(tops))
    assert shown.text("#which") == "Sentence 1 of 40"
    shown.click("#sentences li:nth-child(30) button")
    shown.wait_for(lambda: "31" in shown.text("#brackets"))
    shown.click("[aria-label='Next sentence']")
    shown.wait_for(lambda: "32" in shown.text("#brackets"))
    assert shown.text("#sentences [aria-current]").startswith("31")
    # The list is where it was.
    assert shown.script("return document.querySelector('#sentences ol').scrollTop") > 0
    shown.visit(shown.driver.current_url)
    shown.wait_for(lambda: shown.text("#which") == "Sentence 31 of 40")
    shown.type("#text", "One sentence.")
    shown.click("#form .main")
    shown.wait_for(lambda: shown.count("#sentences[hidden]") == 1)


def test_nothing_is_null(other, shown):
    empty = "return document.body.innerText.match(/\\b(null|undefined|NaN|\\[object)\\b/g) ?? []"
    for page, selector in (("words", "#next li"), ("states", ".card"), ("training", "#state"), ("parse", ".node")):
        other.open(page)
        other.wait(selector)
        assert other.script(empty) == [], page
    for name, path, selector, _ in PAGES:
        shown.open(path)
        shown.wait_for(lambda selector=selector: shown.count(selector), 40)
        assert shown.script(empty) == [], name


@pytest.mark.parametrize("page", ["parse", "states", "treebank", "words", "training"])
def test_a_line_says_what_a_page_is(shown, page):
    shown.open(page)
    shown.wait("nav.pages a")
    title, line = (shown.find(f".intro {tag}") for tag in ("h1", "p"))
    assert title.text == shown.text("nav.pages [aria-current]")
    assert len(line.text.split()) > 9
    assert line.size["height"] > 10


@pytest.mark.skipif(bool(axe.WHY_NOT), reason=axe.WHY_NOT or "there is axe-core")
@pytest.mark.parametrize("page", [page for page in PAGES if page[0] != "long"], ids=lambda page: page[0])
def test_pages_are_accessible(shown, page):
    name, path, selector, action = page
    shown.driver.set_script_timeout(200)
    shown.open(path)
    shown.wait_for(lambda: shown.count(selector), 40)
    if action:
        shown.script(action)
        shown.wait({"compare": "#comparison", "words": "#word .words"}[name])
    assert axe.findings(shown.driver) == []


@pytest.mark.skipif(bool(axe.WHY_NOT), reason=axe.WHY_NOT or "there is axe-core")
def test_menus_and_lists_are_accessible(shown):
    """What opens on a click, several sentences, and findings where there is something to find."""
    shown.driver.set_script_timeout(200)
    shown.open(link(text=" ".join(TEXT.split()[:20]), count=1))
    shown.wait("#sentences li")
    shown.click(".tall .node.tag .pill")
    shown.wait(".menu")
    assert axe.findings(shown.driver) == []
    shown.script(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button><img src=/static/icon.svg>')"
    )
    assert len(axe.findings(shown.driver)) == 2
