"""Markup in labels, words, notes, file names and requests is shown as text in a browser, and nothing of it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest

import sapwood
from helpers.browser import WHY_NOT, serving
from helpers.client import Client
from helpers.pages import watched
from sapwood.learn.pivot import Pivot
from sapwood.lm import count_text
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.runtime.log import TrainingLog
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree
from sapwood.web.service import Service

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

# Each would set `window.broken` if it became markup or code; file names have no slash.
IMAGE = "<img src=x onerror='window.broken=1'>"
ATTACKS = [
    IMAGE,
    "<script>window.broken=2</script>",
    "\"><svg onload='window.broken=3'>",
    "');window.broken=4;('",
    "${window.broken=5}{{constructor.constructor('window.broken=6')()}}",
    "javascript:window.broken=7",
    "</title></style></textarea></svg><iframe srcdoc='<script>top.broken=8</script>'>",
    "<a href=javascript:window.broken=9>x",
    "__proto__",
]
# Tokens have no spaces, and labels neither functions (`-`) nor indices (`=`).
WORDS = [attack.replace(" ", "/") for attack in ATTACKS]
LABELS = ["<marquee>", "<script>Object.assign(window,{broken:10})</script>", "\"'><marquee>", "{{broken}}"]


def hostile_trees() -> list[Tree]:
    """Return trees whose labels, tags and words are attacks."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(60):
        words = rng.integers(len(WORDS), size=4)
        leaves = [Tree(f"{LABELS[word % 2]}{word}", word=WORDS[word]) for word in words]
        pair = [Tree(LABELS[1 + int(rng.integers(2))], leaves[begin : begin + 2]) for begin in (0, 2)]
        found.append(Tree("ROOT", [Tree(LABELS[0], pair)]))
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    trees = hostile_trees()
    name = IMAGE.replace("/", "")
    (folder / f"{name}.mrg").write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    (folder / "text").write_text(" ".join(WORDS * 9) + "\n", encoding="utf-8")
    AggregateMarkov(states=2).fit(count_text(folder / "text", order=2)).save(folder / f"{name}.lm")
    with TrainingLog(folder / f"{name}.jsonl") as log:
        log.write("start", step=0, method=IMAGE, trees=1, settings={IMAGE: {IMAGE: IMAGE}})
        for step in range(1, 4):
            log.write("iteration", step=step, log_likelihood=-9.0 / step, states=2, **{IMAGE: IMAGE}, phase=IMAGE)
            log.write(IMAGE, step=step, loss=1.0)
    Pivot(states=2, min_support=1, min_feature_count=1).fit(Corpus.from_trees(trees)).save(folder / "pivot.sapwood")
    model = sapwood.train(trees, method="em", states=2, min_support=1, random_state=1)
    noted = model.replace(
        grammars=[replace(grammar, info={**grammar.info, "method": IMAGE}) for grammar in model.grammars]
    )
    noted.save(folder / f"{name}.sapwood")
    service = Service.load(
        [str(folder / one) for one in (f"{name}.sapwood", "pivot.sapwood", f"{name}.lm")],
        treebank=str(folder / f"{name}.mrg"),
        logs=[str(folder / f"{name}.jsonl")],
    )
    with serving(service) as address:
        yield Client(address)


def asked(**values: object) -> str:
    return quote(json.dumps(values))


PAGES = {
    "parse": ("parse#" + asked(text=" ".join(WORDS[:4]), input="tokens", count=3), ".cards .node"),
    "parse by an unknown model": ("parse#" + asked(text="a b", model=IMAGE + "x", count=IMAGE), "#text, textarea"),
    "parse with constraints": (
        "parse#"
        + asked(text="a b c", constraints=[{"start": 0, "end": 2, "label": LABELS[0], "kind": IMAGE}], count=2),
        "#text, textarea",
    ),
    "states": ("states#symbol=" + quote(LABELS[0]), ".card[data-state]"),
    "states of an unknown symbol": ("states#symbol=" + quote(IMAGE + "?") + "&model=" + quote(ATTACKS[1]), "main"),
    "anchors": ("states#model=pivot&symbol=" + quote(LABELS[0]), ".card[data-state]"),
    "search": ("treebank#pattern=" + quote("__ < __"), ".card .matched"),
    "search for nonsense": ("treebank#pattern=" + quote(IMAGE), "main"),
    "one value": ("treebank#key=words&value=" + quote(IMAGE) + "&pattern=" + quote("__"), "#group"),
    "counts by words": ("treebank#key=words&pattern=" + quote("__"), "table"),
    "counts by label": ("treebank#key=label&pattern=" + quote("__"), "table"),
    "rewriting": ("treebank#tab=rewrite", "textarea"),
    "mistakes": ("treebank#tab=mistakes", ".pairs"),
    "words": ("words", "#topics .card"),
    "training": ("training", "svg.plot"),
}


@pytest.mark.parametrize("name", PAGES)
def test_markup_is_text(name, driver, served):
    path, selector = PAGES[name]
    # A content security policy that stops what became markup complains on the console: that is a failure, too.
    with watched(driver, served.address) as page:
        page.open(path)
        page.wait(selector)
        page.wait_for(lambda: page.script("return document.readyState") == "complete")
        # Menus, titles and tooltips show names as well.
        page.script("""
            for (const one of document.querySelectorAll('.node, [title], rect.cell, svg.plot *, select, .badge')) {
                for (const kind of ['mouseover', 'mouseenter', 'focus', 'pointerenter']) {
                    one.dispatchEvent(new Event(kind, {bubbles: true}));
                }
            }""")
        for element in (
            "img:not([src$='icon.svg'])",
            "iframe",
            "marquee",
            "svg[onload]",
            "a[href^=javascript]",
            "script:not([src])",
            "[onerror]",
        ):
            assert page.count(element) == 0, element
        assert page.script("return window.broken") is None
        assert page.script("return ({}).broken") is None
        # What is refused is on the console, too.
        assert not [one for one in page.complaints() if "api/" not in one["message"] or "Policy" in one["message"]]


def test_the_attacks_are_on_the_pages(driver, served):
    """As text: otherwise the test above would prove nothing."""
    with watched(driver, served.address) as page:
        for name in ("parse", "states", "search", "words", "training"):
            path, selector = PAGES[name]
            page.open(path)
            page.wait(selector)
            shown = page.script(
                "return document.documentElement.textContent + [...document.querySelectorAll('option, [title]')].map("
                "(one) => one.textContent + one.title).join('')"
            )
            assert "<marquee>" in shown or "onerror='window.broken=1'" in shown, name
