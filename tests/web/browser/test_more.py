"""All kinds of models and logs in a browser: numbers that agree, keys that reach everything, text that is legible."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

import sapwood
from helpers.browser import WHY_NOT, serving
from helpers.client import Client
from helpers.pages import watched
from helpers.screenshots import PAGES, make_service
from sapwood.cli.main import main
from sapwood.grammar.state_profiles import state_anchors

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

TEXT = "She saw the man with the telescope."


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    with serving(make_service(folder)) as address:
        found = Client(address)
        found.folder = folder
        yield found


@pytest.fixture
def shown(driver, served):
    with watched(driver, served.address) as found:
        yield found


def printed(capsys, *options: str, text: str = TEXT) -> dict:
    """Return what the command prints of a text."""
    main.main(["parse", "-s", text, "--json", "-q", *options], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def percent(value: float) -> str:
    """Return a probability as the pages have it."""
    number = 100 * value
    return f"{round(number) if number >= 99.95 or number == 0 else f'{number:.{3 if number < 0.1 else 1}f}'} %"


def test_numbers_are_those_of_the_command(shown, capsys):
    """What is told of each phrase, the shares of the best trees, and the cells of the chart."""
    expected = printed(capsys, "--marginals", "--alternatives", "3")
    shown.open("parse#" + quote(json.dumps({"text": TEXT, "count": 3})))
    shown.wait(".cards .node")
    assert shown.text("#brackets") == expected["tree"]
    told = shown.script("""
        return [...document.querySelector('.tree-frame.tall').querySelectorAll('.node')].map(
            (node) => [node.dataset.key, node.getAttribute('aria-label')])""")
    marginals = {f"{start} {end} {label}": value for start, end, label, value in expected["marginals"]}
    seen = 0
    for key, label in told:
        value = marginals.get(key.removesuffix(" tag"))
        if value is not None:
            assert label.endswith(f", probability {percent(value)}"), (key, label)
            seen += 1
    assert seen == len(marginals) > 12
    shares = shown.script("return [...document.querySelectorAll('.cards .badge')].map((badge) => badge.textContent)")
    whole = expected["log_probability"]
    assert shares == [percent(math.exp(one["log_probability"] - whole)) for one in expected["alternatives"]]
    # The most probable phrase of every cell of the chart, by the library.
    best: dict[str, tuple[float, str]] = {}
    for start, end, label, value in sapwood.Parser().posteriors(expected["words"], least=0.01):
        best[f"{start} {end}"] = max(best.get(f"{start} {end}", (0.0, "")), (value, label))
    cells = shown.script("""
        return [...document.querySelectorAll('rect.cell')].map(
            (cell) => [cell.dataset.span, cell.getAttribute('class'), cell.getAttribute('aria-label')])""")
    assert len(cells) == 8 * 9 / 2
    for span, names, label in cells:
        if span in best:
            assert f"p{math.floor(10 * best[span][0] + 0.5)}" in names.split(), span
            assert f"  {percent(best[span][0])}" in label
        else:
            assert "none" in names.split()


def test_constraints_are_those_of_the_library(shown):
    words = [*TEXT[:-1].split(), "."]
    constraints = [{"start": 2, "end": 7, "label": None, "kind": "absent"},
                   {"start": 1, "end": 2, "label": "VBP", "kind": "tag"}]  # fmt: skip
    shown.open("parse#" + quote(json.dumps({"text": TEXT, "constraints": constraints, "count": 2})))
    shown.wait(".cards .node")
    parser = sapwood.Parser(alternatives=2)
    tokens = [(word, "VBP") if word == "saw" else word for word in words]
    result = parser.parse_one(tokens, phrases=[(2, 7, None, True)])
    assert shown.text("#brackets") == str(result.tree)
    assert "(VBP saw)" in shown.text("#brackets")
    assert shown.count(".chip") == 2


def test_the_chart_by_keyboard(shown):
    shown.open("parse")
    shown.wait("rect.cell")
    for _ in range(80):
        if shown.script("return document.activeElement.matches('rect.cell')"):
            break
        shown.keys("TAB")
    here = "return document.activeElement.dataset.span"
    assert shown.script(here) == "0 8"
    for _ in range(5):
        shown.keys("ARROW_LEFT")
    assert shown.script(here) == "0 3"
    shown.wait(".tooltip")
    shown.keys("ARROW_UP")  # there is nothing
    assert shown.script(here) == "0 3"
    shown.keys("ENTER")
    shown.wait(".menu")
    shown.keys("ESCAPE")
    assert shown.script(here) == "0 3"
    shown.keys("ENTER")
    shown.wait(".menu")
    shown.choose(".menu select", "NP")
    shown.keys("TAB")
    shown.keys("ENTER")
    shown.wait('.node[data-key="0 3 NP"]')


def test_latex_is_copied(shown):
    shown.open("parse")
    shown.wait(".tree-frame.tall .node")
    for what, begins in (("LaTeX (forest)", r"\begin{forest}"), ("LaTeX (qtree)", r"\Tree")):
        shown.script("window.taken = null; navigator.clipboard.writeText = async (text) => { window.taken = text; }")
        shown.click("#take")
        shown.wait(".menu")
        shown.click_text(".menu button", what)
        shown.wait_for(lambda: shown.script("return window.taken"))
        text = shown.script("return window.taken")
        assert begins in text
        assert "telescope" in text


def test_anchors_are_shown(shown, served):
    grammar = sapwood.load(served.folder / "pivot.sapwood").grammar
    symbol = list(grammar.symbols).index("NP")
    anchors = state_anchors(grammar, symbol)
    assert len(anchors) > 1
    shown.open("states#model=pivot&symbol=NP")
    shown.wait(".anchors li")
    rows = shown.script("""
        return [...document.querySelectorAll('.anchors li')].map((row) => [
            row.querySelector('button').textContent,
            ...[...row.querySelectorAll('.feature')].map(
                (one) => [...one.children].map((part) => part.textContent))])""")
    order = sorted(range(len(anchors)), key=lambda state: -grammar.occupancy[grammar.state_offsets[symbol] + state])
    assert [row[0] for row in rows] == [f"state {state}" for state in order]
    for (_, *features), state in zip(rows, order, strict=True):
        for (kind, value), text in zip(features, anchors[state], strict=True):
            assert f"{kind}: {value}" == text.replace(" -> ", " → ").replace(" < ", " ‹ ")
    shown.click(".anchors li:nth-child(2) button")
    shown.wait_for(lambda: shown.script("return document.activeElement.id") == f"name-{order[1]}")


def test_singular_values_are_shown(shown, served):
    record = next(
        one for one in sapwood.load(served.folder / "spectral.sapwood").info["spectral"]["symbols"]
        if one["symbol"] == "NP"
    )  # fmt: skip
    shown.open("states#model=spectral&symbol=NP")
    shown.wait("svg.plot .dot")
    assert shown.count("svg.plot .dot") == len(record["singular_values"])
    assert shown.count("svg.plot .dot:not(.off)") == record["states"]
    assert shown.count(".card[data-state]") == 0
    heights = shown.script(
        "return [...document.querySelectorAll('svg.plot .dot')].map((dot) => +dot.getAttribute('cy'))"
    )
    values = record["singular_values"]
    drop = [math.log(values[0] / value) for value in values]
    for height, fall in zip(heights, drop, strict=True):
        assert height - heights[0] == pytest.approx((heights[-1] - heights[0]) * fall / drop[-1], abs=0.1)


def test_splits_lead_to_their_states(shown):
    shown.open("states#model=en&symbol=VBD%2Ftag")
    shown.wait("svg.splits .leaf")
    states = shown.count(".card[data-state]")
    assert shown.count("svg.splits .leaf") == states > 4
    shown.script("document.querySelectorAll('svg.splits .leaf')[3].focus()")
    shown.keys("ENTER")
    shown.wait_for(lambda: shown.script("return document.activeElement.id") == "name-3")


def test_layers_and_networks_are_drawn(shown):
    shown.open("training")
    shown.wait("svg.plot .curve")
    titles = shown.script("return [...document.querySelectorAll('.plot-sheet h2')].map((title) => title.textContent)")
    assert titles == [
        "Log-likelihood", "F1 on the development set", "Loss of the span scorer", "Loss of the CRF",
    ]  # fmt: skip
    curves = shown.script(
        "return [...document.querySelectorAll('.plot-sheet')].map((one) => one.querySelectorAll('.curve').length)"
    )
    assert curves == [2, 2, 2, 1]
    assert "layer, epoch 4 of 6" in shown.text("#content")
    shown.choose("#content select", "seconds")
    shown.wait_for(lambda: shown.text(".plot-sheet .unit") == "seconds")


def test_links_show_the_same_again(shown):
    shown.open("treebank#tab=mistakes")
    shown.wait_for(lambda: "trees parsed" in shown.text("#progress"), 40)
    shown.click(".confusions button:nth-child(2)")
    shown.wait(".confusions [aria-pressed=true]")
    shown.wait(".pairs .card")
    address, chosen = shown.driver.current_url, shown.text(".confusions [aria-pressed=true]")
    shown.visit(address)
    shown.wait(".confusions [aria-pressed=true]")
    assert shown.text(".confusions [aria-pressed=true]") == chosen
    shown.open("words")
    shown.wait("#next button")
    shown.type("#asked", "the")
    shown.keys("ENTER")
    shown.wait("#word .words button")
    before = shown.text("#word")
    shown.visit(shown.driver.current_url)
    shown.wait("#word .words button")
    assert shown.text("#word") == before


def test_the_server_goes_away_while_it_works(page):
    command = [sys.executable, "-m", "sapwood", "serve", "--port", "0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://\S+/", server.stdout.readline())[0]
            page.visit(address)
            page.wait(".tree-frame .node")
            long = " ".join(["time flies like an arrow , and fruit flies like a banana"] * 15)
            page.script("document.querySelector('#text').value = arguments[0]", "\n".join([long] * 200))
            page.choose("#count", "20")
            page.script("document.querySelector('[value=tokens]').click()")
            page.click("#form .main")
            page.wait("#form.busy")
        finally:
            server.send_signal(signal.SIGKILL)
    page.wait("#message:not([hidden])")
    assert "does not respond" in page.text("#message")
    assert page.count("#form.busy") == 0
    assert page.count(".tree-frame .node") > 0  # what was there stays
    assert all(entry["source"] == "network" for entry in page.complaints())


LEGIBLE = (Path(__file__).parent / "legible.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_legible(shown, theme):
    """Contrast of at least 4.5 (WCAG, level AA) for all text of all pages."""
    for _, path, selector, _ in PAGES:
        shown.open(path)
        shown.script("document.documentElement.dataset.theme = arguments[0]", theme)
        shown.wait_for(lambda selector=selector: shown.count(selector), 40)
        assert shown.script(LEGIBLE) == [], path
    shown.script("document.querySelector('main').insertAdjacentHTML('beforeend', '<p id=poor>poor</p>')")
    poor = {"light": "#888", "dark": "#555"}[theme]
    shown.script("document.querySelector('#poor').style.color = arguments[0]", poor)
    assert len(shown.script(LEGIBLE)) == 1


@pytest.mark.parametrize(
    "path", ["states#model=pivot&symbol=NP", "states#model=spectral&symbol=NP", "training", "words"]
)
def test_more_pages_fit_a_telephone(shown, path):
    shown.narrow()
    shown.open(path)
    shown.wait(".sheet")
    shown.wait("h2")
    assert shown.script("return document.documentElement.scrollWidth") <= 400
