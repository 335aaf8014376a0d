"""The annotator in a real browser: every action by mouse and by keyboard, and what may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

import sapwood
from helpers import axe
from helpers.browser import WHY_NOT, annotating, resize
from helpers.pages import Page, watched
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.annotation.session import AnnotationSession

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

SENTENCE = "She saw the old man with the telescope in the garden .".split()  # noqa: SIM905
LONG = (
    "The council , which had met three times since the flood , decided on Thursday to close the road beside the river "
    "because engineers who had tested the old bridge said that nobody could be sure how long it would stand , although "
    "many people in the village asked for a ferry , a new crossing or at least a bus to the station on the other side ."
)
SENTENCES = [
    SENTENCE,
    ["They", "slept", "."],
    *(text.split() for text in (LONG, "قرأ الطالب الكتاب الجديد في المكتبة .", "她 看见 了 那 只 狗 。")),
]
NP, PP, VP = "2 11 NP", "5 11 PP", "1 11 VP"


class Desk(Page):
    """The annotator's page, with the project behind it."""

    session: AnnotationSession

    @property
    def tree(self) -> str:
        """The tree that is on disk, or else shown."""
        return str(self.session.project.open(self.number, self.session.proposer).tree)

    @property
    def is_shown(self) -> bool:
        """Whether the page shows what is on disk."""
        project, number = self.session.project, self.number
        there = project.revision(number, project.open(number, self.session.proposer))
        return self.script("return document.querySelector('#tree').dataset.revision") == there

    @property
    def phrases(self) -> tuple[sapwood.Marginal, ...]:
        """The probable phrases of the sentence that is shown."""
        return self.session.proposer.phrases(self.session.project.open(self.number, self.session.proposer))

    @property
    def number(self) -> int:
        return int(self.text("#which").split()[-1])

    @property
    def saved(self) -> str:
        return self.text("#saved")

    def show(self, number: int) -> None:
        self.visit(f"{self.address}#{number}")
        self.wait_for(lambda: self.text("#which") == f"Sentence {number}" and self.count(".node.chosen"))

    def choose(self, key: str, *, mouse: bool = True) -> None:  # type: ignore[override]
        """Choose a node by a click, or by walking to it with the arrow keys."""
        if mouse:
            ActionChains(self.driver, duration=20).move_to_element(
                self.find(f'[data-key="{key}"] .pill')
            ).click().perform()
        else:
            self.script("document.querySelector('.node.chosen').focus()")
            self.keys("HOME")
            for _ in range(200):
                here = self.script("return document.activeElement.dataset.key")
                if here == key:
                    break
                [start, end] = map(int, key.split()[:2])
                [left, right] = map(int, here.split()[:2])
                self.keys("ARROW_DOWN" if left <= start and right >= end else "ARROW_RIGHT")
        self.wait_for(lambda: self.script("return document.querySelector('.node.chosen').dataset.key") == key)

    def select(self, start: int, end: int, *, mouse: bool) -> None:
        """Select words by dragging over them, or by Shift and arrow keys."""
        if mouse:
            first, last = (self.find(f'#words span[data-at="{at}"]') for at in (start, end - 1))
            ActionChains(self.driver, duration=50).click_and_hold(first).move_to_element(last).release().perform()
        else:
            tag = next(one for one in self.script(
                "return [...document.querySelectorAll('.node.tag')].map((one) => one.dataset.key)"
            ) if one.startswith(f"{start} {start + 1} "))  # fmt: skip
            self.choose(tag, mouse=False)
            for _ in range(end - start - 1):
                ActionChains(self.driver, duration=20).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(
                    Keys.SHIFT
                ).perform()
        self.wait_for(lambda: self.count("#words .selected") == end - start)

    def press(self, name: str, key: str, *, mouse: bool) -> None:
        """Use a tool by its button, or by its key."""
        if mouse:
            self.click(f'#tools [data-edit="{name}"]')
        else:
            self.keys(key)

    def label(self, text: str, *, mouse: bool) -> None:
        """Choose a label that is known."""
        self.wait(".menu [role=combobox]")
        self.keys(text)
        self.wait_for(lambda: self.text(".choices [role=option] b") == text)
        if mouse:
            self.click(".choices [role=option]")
        else:
            self.keys("ENTER")
        self.wait_for(lambda: not self.count(".menu"))

    def expect(self, part: str) -> None:
        self.wait_for(lambda: part in self.tree and self.is_shown)

    def drag(self, source: str, target: str, *, adjoin: bool = False) -> None:
        found = [self.driver.find_element(By.CSS_SELECTOR, f'[data-key="{key}"] .pill') for key in (source, target)]
        chain = ActionChains(self.driver, duration=50)
        if adjoin:
            chain.key_down(Keys.ALT)
        chain.click_and_hold(found[0]).move_by_offset(9, 9).move_to_element(found[1]).release()
        if adjoin:
            chain.key_up(Keys.ALT)
        chain.perform()


@pytest.fixture(scope="module")
def english() -> sapwood.Parser:
    return sapwood.Parser()


@pytest.fixture
def desk(driver: Any, tmp_path: Path, english: sapwood.Parser) -> Iterator[Desk]:
    Project.create(tmp_path / "mine", sentences=SENTENCES, settings=ProjectSettings(retrain_after=0))
    session = AnnotationSession(Project(tmp_path / "mine", annotator="Anna"), english)
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    with annotating(session) as address, watched(driver, address) as page:
        page.__class__ = Desk
        assert isinstance(page, Desk)
        page.session = session
        page.show(1)
        yield page
        page.driver.get("about:blank")
    session.close()


@pytest.mark.parametrize("mouse", [True, False], ids=["mouse", "keyboard"])
class TestEveryAction:
    def test_make_a_phrase(self, desk: Desk, mouse: bool) -> None:
        desk.select(2, 8, mouse=mouse)
        desk.press("Phrase", "m", mouse=mouse)
        desk.label("NP", mouse=mouse)
        # One correction repairs the rest: the garden was in this noun phrase.
        desk.expect("(NP (NP (DT the) (JJ old) (NN man)) (PP (IN with) (NP (DT the) (NN telescope)))) (PP (IN in)")
        assert "NP over the old man with the telescope" in desk.saved
        assert desk.count('.confirmed[data-key="2 8 NP"]') == 1

    def test_make_a_phrase_over_a_node(self, desk: Desk, mouse: bool) -> None:
        desk.choose(VP, mouse=mouse)
        desk.press("Phrase", "m", mouse=mouse)
        desk.label("S", mouse=mouse)
        desk.expect("(S (VP (VBD saw)")

    def test_a_new_label(self, desk: Desk, mouse: bool) -> None:
        desk.choose(NP, mouse=mouse)
        desk.press("Label", "l", mouse=mouse)
        desk.wait(".menu [role=combobox]")
        desk.keys("NÝTT")
        if mouse:
            desk.click("#new-label")
        else:
            desk.keys("ENTER")
        desk.wait_for(lambda: "No tree and no model has the label NÝTT" in desk.text(".menu"))
        if mouse:
            desk.click(".menu .main")
        else:
            desk.keys("ENTER")
        desk.expect("(NÝTT (NP")
        # From now on it is known.
        desk.choose("0 1 NP", mouse=mouse)
        desk.press("Label", "l", mouse=mouse)
        desk.label("NÝTT", mouse=mouse)
        desk.expect("(NÝTT (PRP She))")

    def test_relabel_and_retag(self, desk: Desk, mouse: bool) -> None:
        desk.choose("1 2 VBD tag", mouse=mouse)
        desk.press("Label", "l", mouse=mouse)
        desk.label("VBP", mouse=mouse)
        desk.expect("(VBP saw)")
        desk.choose(PP, mouse=mouse)
        if mouse:
            desk.press("Label", "l", mouse=True)
        else:
            desk.keys("ENTER")
        desk.label("PRN", mouse=mouse)
        desk.expect("(PRN (IN with)")

    def test_remove(self, desk: Desk, mouse: bool) -> None:
        desk.choose(NP, mouse=mouse)
        desk.press("Remove", "x", mouse=mouse)
        desk.wait_for(lambda: not desk.count(f'[data-key="{NP}"]'))
        desk.expect("(VP (VBD saw) (NP")
        assert "(2, 11" not in str(desk.session.project.state(1).tree.spans())

    def test_move(self, desk: Desk, mouse: bool) -> None:
        if mouse:
            desk.drag(PP, VP)
        else:
            desk.choose(PP, mouse=False)
            desk.keys("v")
            desk.wait(".node.moving")
            desk.keys("ARROW_UP")
            desk.keys("ARROW_UP")
            desk.keys("v")
        desk.expect("(VP (VBD saw) (NP (DT the) (JJ old) (NN man)) (PP (IN with)")

    def test_raise_lower_and_adjoin(self, desk: Desk, mouse: bool) -> None:
        desk.choose(PP, mouse=mouse)
        desk.press("Raise", "r", mouse=mouse)
        desk.expect("(VP (VBD saw) (NP (DT the) (JJ old) (NN man)) (PP (IN with)")
        desk.choose(PP, mouse=mouse)
        desk.press("Lower", "b", mouse=mouse)
        desk.expect("man) (PP (IN with)")
        assert (2, 5, "NP") not in desk.session.project.state(1).tree.spans()
        desk.press("undo", "z", mouse=mouse)
        desk.wait_for(lambda: desk.count('[data-key="2 5 NP"]'))
        if mouse:
            desk.drag(PP, "2 5 NP", adjoin=True)
        else:
            desk.choose(PP, mouse=False)
            desk.press("Adjoin", "j", mouse=False)
        desk.expect("(NP (NP (DT the) (JJ old) (NN man)) (PP (IN with)")
        desk.choose("0 1 NP", mouse=mouse)
        desk.press("Lower right", "B", mouse=mouse)
        desk.expect("(VP (NP (PRP She)) (VBD saw)")

    def test_confirm_and_take_back(self, desk: Desk, mouse: bool) -> None:
        desk.choose(NP, mouse=mouse)
        desk.press("Confirm", "c", mouse=mouse)
        desk.wait(f'.confirmed[data-key="{NP}"]')
        assert desk.count(".confirmed") == 16
        desk.press("Confirm", "c", mouse=mouse)
        desk.wait_for(lambda: not desk.count(".confirmed"))

    def test_unsure_and_notes(self, desk: Desk, mouse: bool) -> None:
        desk.choose(NP, mouse=mouse)
        desk.press("Unsure", "u", mouse=mouse)
        desk.wait(f'.unsure[data-key="{NP}"]')
        desk.press("Note", "n", mouse=mouse)
        desk.wait(".menu textarea")
        desk.keys("Where is the garden?")
        if mouse:
            desk.click(".menu .main")
        else:
            desk.keys("ENTER", control=True)
        desk.wait_for(lambda: desk.text("#note") == "Note: Where is the garden?")
        assert desk.session.queue.numbers("doubts") == [1]

    def test_tokens(self, desk: Desk, mouse: bool) -> None:
        for text, expected in (("looked at", ["She", "looked", "at", "the"]), ("gazed", ["She", "gazed", "at", "the"])):
            desk.choose(next(key for key in self.tags(desk) if key.startswith("1 2 ")), mouse=mouse)
            desk.press("Word", "t", mouse=mouse)
            desk.wait("#spelling")
            desk.keys(text)
            if mouse:
                desk.click(".menu .main")
            else:
                desk.keys("ENTER")
            desk.wait_for(lambda expected=expected: desk.session.project.words(1)[:4] == expected)
        desk.wait_for(lambda: desk.text("#words").startswith("Shegazedat"))
        desk.choose(next(key for key in self.tags(desk) if key.startswith("1 2 ")), mouse=mouse)
        desk.press("Word", "t", mouse=mouse)
        desk.wait("#join")
        if mouse:
            desk.click("#join")
        else:
            for _ in range(2):
                desk.keys("TAB")
            desk.keys("ENTER")
        desk.wait_for(lambda: desk.session.project.words(1)[:3] == ["She", "gazedat", "the"])

    @staticmethod
    def tags(desk: Desk) -> list[str]:
        return desk.script("return [...document.querySelectorAll('.node.tag')].map((one) => one.dataset.key)")

    def test_other_trees(self, desk: Desk, mouse: bool) -> None:
        before = desk.tree
        best = desk.session.alternatives(1, 6)
        desk.press("Others", "a", mouse=mouse)
        desk.wait(".menu [data-digit='2']")
        if mouse:
            desk.click(".menu [data-digit='2']")
        else:
            desk.keys("2")
        desk.wait_for(lambda: desk.tree == str(best[1]))
        assert desk.tree != before

    def test_doubts_and_walking(self, desk: Desk, mouse: bool) -> None:
        first = desk.script("return document.querySelector('.node.chosen').dataset.key")
        probable = {(one.start, one.end, one.label): one.probability for one in desk.phrases}
        start, end, label = first.removesuffix(" tag").split()
        assert probable[int(start), int(end), label] < 0.9
        desk.press("Doubt", "d", mouse=mouse)
        desk.wait_for(lambda: desk.script("return document.querySelector('.node.chosen').dataset.key") != first)
        if mouse:
            desk.click('#queue [data-number="2"]')
        else:
            order = [
                int(one.get_attribute("data-number"))
                for one in desk.driver.find_elements(By.CSS_SELECTOR, "#queue button")
            ]
            for _ in range(abs(order.index(2) - order.index(1))):
                desk.keys("]" if order.index(2) > order.index(1) else "[")
        desk.wait_for(lambda: desk.number == 2)

    def test_accept_and_skip(self, desk: Desk, mouse: bool) -> None:
        if mouse:
            desk.click("#accept")
        else:
            desk.keys("ENTER", control=True)
        desk.wait_for(lambda: desk.number != 1)
        assert desk.session.project.status(1) == "done"
        desk.wait_for(lambda: desk.text("#progress").startswith("1 of 5 accepted"))
        number = desk.number
        desk.press("Skip", "s", mouse=mouse)
        desk.wait_for(lambda: desk.number not in (1, number))
        assert desk.session.project.status(number) == "skipped"
        assert desk.count("#queue .dot.done") == desk.count("#queue .dot.skipped") == 1

    def test_undo_to_the_start(self, desk: Desk, mouse: bool) -> None:
        start = desk.tree
        desk.choose(PP, mouse=mouse)
        desk.press("Raise", "r", mouse=mouse)
        desk.wait_for(lambda: "raised" in desk.saved)
        desk.choose("0 1 NP", mouse=mouse)
        desk.press("Remove", "x", mouse=mouse)
        desk.wait_for(lambda: "removed" in desk.saved)
        desk.press("Unsure", "u", mouse=mouse)
        desk.wait_for(lambda: "unsure" in desk.saved)
        end = desk.session.project.state(1)
        for _ in range(3):
            project = desk.session.project
            before = project.revision(1, project.state(1))
            desk.press("undo", "z", mouse=mouse)
            desk.wait_for(lambda: before != project.revision(1, project.state(1)) and desk.is_shown)  # noqa: B023
        desk.wait_for(lambda: desk.count('[data-edit="undo"]:disabled'))
        assert desk.tree == start
        assert not any(desk.session.project.state(1).marks)
        for _ in range(3):
            if mouse:
                desk.press("redo", "y", mouse=True)
            else:
                desk.keys("y", control=True)
        desk.wait_for(lambda: desk.session.project.state(1) == end)
        desk.wait_for(lambda: desk.count('[data-edit="redo"]:disabled'))


def test_a_selected_word_is_what_actions_concern(desk: Desk) -> None:
    """Not the node that was chosen before, which is no longer seen to be chosen."""
    desk.choose(PP)
    desk.select(1, 2, mouse=True)
    assert desk.script("return document.querySelector('.node.chosen').dataset.key") == "1 2 VBD tag"
    desk.keys("x")
    desk.wait_for(lambda: "Choose a phrase in the tree" in desk.text("#message"))
    assert desk.session.project.status(1) == "new"
    desk.keys("l")
    desk.label("VBP", mouse=False)
    desk.expect("(VBP saw)")
    # Several words are not a node.
    desk.choose(PP)
    desk.select(2, 5, mouse=True)
    before = desk.tree
    for key in ("l", "x", "u", "r", "v", "t"):
        desk.keys(key)
        desk.wait_for(lambda: "Several words are selected" in desk.text("#message"))
        assert not desk.count(".menu")
    assert desk.tree == before
    desk.keys("ESCAPE")
    desk.wait(".node.chosen")


def test_typed_labels_are_matched_by_their_beginnings(desk: Desk) -> None:
    desk.choose(PP)
    desk.keys("l")
    desk.wait(".menu [role=combobox]")
    # Nothing begins with it; what mentions it is listed, but not chosen.
    desk.keys("adver")
    desk.wait_for(lambda: desk.count(".choices [role=option]") and not desk.count(".choices [aria-selected=true]"))
    desk.keys("ENTER")
    desk.wait_for(lambda: "has the label adver" in desk.text(".menu"))
    desk.keys("ESCAPE")
    desk.keys("l")
    desk.wait(".menu [role=combobox]")
    desk.keys("relative w")
    desk.wait_for(lambda: desk.text(".choices [role=option] b") == "WHNP")
    desk.keys("ENTER")
    desk.wait_for(lambda: "arrow keys" in desk.text(".menu"))
    desk.keys("ARROW_DOWN")
    desk.keys("ENTER")
    desk.expect("(WHNP ")
    desk.keys("l")
    desk.wait(".menu [role=combobox]")
    desk.keys("adjp")
    desk.wait_for(lambda: desk.text(".choices [aria-selected=true] b") == "ADJP")
    desk.keys("ENTER")
    desk.expect("(ADJP ")


def test_a_click_on_a_tool_leaves_the_focus_in_the_tree(desk: Desk) -> None:
    desk.choose(PP)
    desk.press("Raise", "r", mouse=True)
    desk.wait_for(lambda: "raised" in desk.saved)
    assert desk.script("return document.activeElement.classList.contains('node')")
    desk.keys("ARROW_UP")
    desk.wait_for(lambda: desk.script("return document.querySelector('.node.chosen').dataset.key") == VP)
    desk.click("[aria-label='Larger']")
    assert desk.script("return document.activeElement.dataset.key") == VP
    # Somebody who walks to a button with the keyboard stays on it.
    desk.script("document.querySelector('#tools [data-edit=Unsure]').focus()")
    desk.keys("ENTER")
    desk.wait_for(lambda: desk.saved == "saved: unsure")
    assert desk.script("return document.activeElement.dataset.edit") == "Unsure"


def test_undo_takes_back_what_was_just_accepted(desk: Desk) -> None:
    desk.keys("ENTER", control=True)
    desk.wait_for(lambda: desk.number != 1 and "sentence 1 accepted" in desk.saved)
    desk.keys("z")
    desk.wait_for(lambda: desk.number == 1 and "no longer accepted" in desk.saved)
    assert desk.session.project.status(1) == "new"
    # After another action it is that which is taken back.
    desk.keys("ENTER", control=True)
    desk.wait_for(lambda: desk.number != 1 and "sentence 1 accepted" in desk.saved)
    number = desk.number
    desk.keys("u")
    desk.wait(".unsure")
    desk.keys("z")
    desk.wait_for(lambda: desk.number == number and not desk.count(".unsure"))
    assert desk.session.project.status(1) == "done"


def test_why_nothing_can_be_learned_yet(desk: Desk) -> None:
    assert desk.text("#learn") == "Learn from 0 new trees"
    desk.wait_for(lambda: "Needs 4 more accepted trees" in desk.text("#learning"))
    desk.keys("ENTER", control=True)
    desk.wait_for(lambda: desk.text("#learn") == "Learn from 1 new tree")
    assert "Needs 3 more accepted trees" in desk.text("#learning")


def test_a_long_tree_that_is_opened_whole_can_be_read(desk: Desk) -> None:
    desk.show(3)
    desk.wait(".fold-note")
    assert "double-click" in desk.text(".fold-note")
    desk.click("[aria-label='Open all']")
    desk.wait_for(lambda: not desk.count(".fold-note"))
    heights = desk.script(
        "return [...document.querySelectorAll('svg.tree .pill')].map((p) => p.getBoundingClientRect().height)"
    )
    assert min(heights) >= 17


def test_what_cannot_be_done_is_said(desk: Desk) -> None:
    desk.choose("0 12 S")
    desk.keys("x")
    desk.wait_for(lambda: desk.session.project.status(1) == "begun")
    desk.show(2)
    desk.keys("HOME")
    desk.keys("x")
    desk.wait_for(lambda: "root cannot be removed" in desk.text("#message"))
    assert desk.session.project.status(2) == "new"
    assert len(desk.complaints()) == 1


def test_two_windows(desk: Desk) -> None:
    driver = desk.driver
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    try:
        desk.show(1)
        desk.wait_for(lambda: "open in another window" in desk.text("#message"))
        desk.choose(PP)
        desk.keys("r")
        desk.wait_for(lambda: "raised" in desk.saved)
        there = desk.tree
        driver.switch_to.window(first)
        desk.choose(NP)
        desk.keys("x")
        desk.wait_for(lambda: "changed elsewhere by Anna" in desk.text("#message"))
        # What was done there is shown, and nothing was done here.
        assert desk.tree == there
        desk.wait_for(lambda: not desk.count(f'[data-key="{NP}"]'))
        assert desk.session.project.last_change(1)[0] == "Anna"
        desk.choose("0 1 NP")
        desk.keys("c")
        desk.wait_for(lambda: "confirmed" in desk.saved)
    finally:
        for handle in driver.window_handles:
            if handle != first:
                driver.switch_to.window(handle)
                driver.close()
        driver.switch_to.window(first)


def test_search_order_and_export(desk: Desk) -> None:
    desk.choose(NP)
    desk.keys("c")
    desk.wait(".confirmed")
    desk.type("#pattern", "NP < PP")
    desk.keys("ENTER")
    desk.wait_for(lambda: desk.count("#queue button") == 1)
    desk.type("#pattern", "((")
    desk.keys("ENTER")
    desk.wait_for(lambda: not desk.script("return document.querySelector('#message').hidden"))
    assert len(desk.complaints()) == 1
    desk.type("#pattern", "")
    desk.keys("ENTER")
    desk.wait_for(lambda: desk.count("#queue button") == 5)
    for order, number in (("file", 1), ("doubts", None)):
        Page.choose(desk, "#order", order)
        desk.wait_for(lambda number=number: (desk.text("#queue li").strip()[:12] == "No sentence") == (number is None))


def test_long_sentences_fit(desk: Desk) -> None:
    """All that is open of a sentence of 60 words is seen, at a legible size."""
    assert len(LONG.split()) >= 60
    for width in (1400, 1024, 768):
        resize(desk.driver, width, 900)
        desk.show(3)
        frame, boxes = desk.script("""
            const at = (one) => { const box = one.getBoundingClientRect(); return [box.left, box.right, box.height]; };
            const pills = [...document.querySelectorAll('svg.tree .pill')];
            return [at(document.querySelector('.tree-frame')), pills.map(at)];
        """)
        assert all(left >= frame[0] and right <= frame[1] for left, right, _ in boxes)
        assert min(height for *_, height in boxes) >= 13
        assert desk.script("return document.documentElement.scrollWidth <= innerWidth")


def test_right_to_left_and_chinese(desk: Desk) -> None:
    desk.show(4)
    xs = desk.script(
        "return [...document.querySelectorAll('svg.tree .word')].map((one) => Number(one.getAttribute('x')))"
    )
    assert xs == sorted(xs, reverse=True)
    # Shift and the left arrow go on, as the words do.
    tags = TestEveryAction.tags(desk)
    desk.choose(next(key for key in tags if key.startswith("0 1 ")))
    ActionChains(desk.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
    desk.wait_for(lambda: desk.count("#words .selected") == 2)
    desk.keys("m")
    desk.label("NP", mouse=False)
    desk.wait_for(lambda: (0, 2, "NP") in desk.session.project.state(4).tree.spans())
    desk.show(5)
    assert desk.text("#words") == "".join(SENTENCES[4])


@pytest.mark.skipif(bool(axe.WHY_NOT), reason=axe.WHY_NOT or "axe-core is there")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(desk: Desk, theme: str) -> None:
    desk.script("localStorage.setItem('sapwood-theme', arguments[0])", theme)
    try:
        desk.show(1)
        desk.keys("c")
        desk.wait(".confirmed")
        assert axe.findings(desk.driver) == []
        for key in ("l", "a", "t", "n", "?"):
            desk.keys(key)
            desk.wait(".menu")
            assert axe.findings(desk.driver) == [], key
            desk.keys("ESCAPE")
            desk.wait_for(lambda: not desk.count(".menu"))
        desk.keys("ENTER", control=True)
        desk.wait_for(lambda: desk.number != 1)
        assert axe.findings(desk.driver) == []
    finally:
        desk.script("localStorage.removeItem('sapwood-theme')")


def test_a_text_of_a_stranger_is_only_text(desk: Desk, tmp_path: Path, driver: Any) -> None:
    """Labels, words, notes and names are never taken for markup."""
    evil = "<img/src=x/onerror=alert(1)>"
    Project.create(tmp_path / "evil", sentences=[[evil, "b"]])
    with Project(tmp_path / "evil", annotator=evil) as project:
        session = AnnotationSession(project)
        view = session.open(1)
        view = session.act(1, view.revision, "make", {"start": 0, "end": 1, "label": evil})
        session.act(1, view.revision, "note", {"text": evil})
        with annotating(session) as address:
            driver.get(f"{address}#1")
            desk.wait_for(lambda: evil in desk.text("#note"))
            assert desk.count("img") == 1  # the icon
            driver.get("about:blank")
        session.learning.close()


def test_the_answers_fit_their_description(desk: Desk) -> None:
    from helpers.client import Client
    from sapwood.web.api.annotator import AnnotationService, describe_annotator

    client = Client(desk.address, describe_annotator(AnnotationService(desk.session)))
    _, answer = client.post("/api/annotate/open", {"number": 1})
    assert answer["words"] == SENTENCE
    for path in ("project", "queue", "export"):
        client.get(f"/api/annotate/{path}")
    _, found = client.post("/api/annotate/act", {"number": 1, "revision": answer["revision"], "edit": "accept"})
    assert found["status"] == "done"
