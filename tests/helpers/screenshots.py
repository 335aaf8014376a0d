"""Pictures of every page, light and dark, wide and narrow: `python tests/helpers/screenshots.py DIRECTORY`.

With `--docs` those of the documentation are made: `python tests/helpers/screenshots.py --docs docs/pictures`; with
`--annotator` those of the annotator.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

import sapwood
from helpers.browser import WHY_NOT, annotating, browsing, resize, serving
from helpers.made_treebank import TEXT, made_treebank
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.annotation.session import AnnotationSession
from sapwood.learn.pivot import Pivot
from sapwood.learn.spectral import Spectral
from sapwood.lm import count_text
from sapwood.lm.latent.aggregate import AggregateMarkov
from sapwood.runtime.log import TrainingLog
from sapwood.trees.corpus import Corpus
from sapwood.web.service import Service

SENTENCE = "She saw the man with the telescope."
LONG = (
    "The council, which had met three times since the flood, decided on Thursday to close the road beside the river "
    "because engineers who had tested the old bridge said that nobody could be sure how long it would stand, although "
    "many people in the village asked for a ferry, a new crossing or at least a bus to the station on the other side."
)
CHOOSE_TWO = "for (const n of [1, 2]) document.querySelectorAll('.cards > .card[data-state] button')[n].click()"
LOOK = "const asked = document.querySelector('#asked'); asked.value = 'the'; asked.form.requestSubmit()"
# Name, path, what to wait for, and what to do then.
PAGES: list[tuple[str, str, str, str]] = [
    ("parse", "parse#" + quote(json.dumps({"text": SENTENCE, "count": 3})), ".cards .node", ""),
    ("states", "states#symbol=VBD%2Ftag", ".card[data-state]", ""),
    ("compare", "states#symbol=NP", ".card[data-state]", CHOOSE_TWO),
    ("anchors", "states#model=pivot&symbol=NP", ".anchors li", ""),
    ("spectrum", "states#model=spectral&symbol=NP", "svg.plot .dot", ""),
    ("long", "parse#" + quote(json.dumps({"text": LONG, "count": 3})), ".cards .node", ""),
    ("search", "treebank#pattern=NP+%3C+PP", ".card .matched", ""),
    ("mistakes", "treebank#tab=mistakes", ".pairs .wrong", ""),
    ("words", "words", "#topics .card", LOOK),
    ("training", "training", "svg.plot .curve", ""),
]
SHOWN = {"parse": (1200, 880), "states": (1200, 900), "search": (1200, 760), "mistakes": (1200, 820)}


def make_service(folder: Path) -> Service:
    """Return a service with something of each kind."""
    (folder / "gold.mrg").write_text("".join(f"{tree}\n" for tree in made_treebank()), encoding="utf-8")
    lines = [line.strip() for line in TEXT.replace("\n", " ").split(".")]
    (folder / "text.txt").write_text("\n".join(lines * 5) + "\n")
    AggregateMarkov(states=6).fit(count_text(folder / "text.txt", order=2)).save(folder / "words.lm")
    write_log(folder / "train.jsonl")
    corpus = Corpus.from_trees(made_treebank())
    Pivot(states=4, min_support=3, min_feature_count=1).fit(corpus).save(folder / "pivot.sapwood")
    Spectral(states=6).fit(corpus).save(folder / "spectral.sapwood")
    return Service.load(
        ["en", *(str(folder / name) for name in ("pivot.sapwood", "spectral.sapwood", "words.lm"))],
        treebank=str(folder / "gold.mrg"),
        logs=[str(folder / "train.jsonl")],
    )


def write_log(path: Path) -> None:
    """Write the log of a training as it is by default: grammars, a network and a layer."""
    settings = {"layer": {"epochs": 6}, "network": {"epochs": 12}}
    with TrainingLog(path) as log:
        log.write("start", step=0, method="split-merge", trees=9000, settings=settings)
        step = 0
        for member in range(2):
            for cycle in range(1, 5):
                for iteration in range(1, 11):
                    step += 1
                    value = -1e6 + 9e4 * (cycle - 0.6**iteration) + 4e3 * member
                    labels = {"member": member, "cycle": cycle, "phase": "split", "iteration": iteration}
                    log.write("iteration", step=step, **labels, log_likelihood=value, states=60 * 2**cycle)
                log.write("dev", step=step, member=member, cycle=cycle, f1=70 + 14 * (1 - 0.5**cycle) + 0.6 * member)
        for epoch in range(1, 13):
            losses = {"loss": 0.2 + 1.6 * 0.75**epoch, "tag_loss": 0.1 + 0.9 * 0.7**epoch}
            log.write("network", step=epoch, epoch=epoch, **losses)
        for epoch in range(1, 5):
            log.write("layer", step=epoch, epoch=epoch, loss=0.6 + 0.8 * 0.5**epoch)


def show(driver: Any, address: str, page: tuple[str, str, str, str]) -> None:
    """Open a page and wait until it is there."""
    _, path, selector, action = page
    driver.get("about:blank")
    driver.get(address + path)
    end = time.monotonic() + 30
    while not driver.execute_script("return document.querySelector(arguments[0])", selector):
        if time.monotonic() > end:
            sys.exit(f"{path}: {selector} does not come")
        time.sleep(0.1)
    if action:
        driver.execute_script(action)
    time.sleep(1.0)


TO_ANNOTATE = [
    "She saw the old man with the telescope in the garden .",
    "The engineers who tested the bridge said that nobody could be sure how long it would stand .",
    "Birds sing in the old garden .",
    LONG.replace(",", " ,").replace(".", " ."),
]


def picture_annotator(folder: Path) -> None:
    """Make the pictures of the annotator: a tree, a label that is chosen, and what a correction repairs."""
    with tempfile.TemporaryDirectory() as place:
        settings = ProjectSettings(model="en")
        Project.create(f"{place}/letters", sentences=[text.split() for text in TO_ANNOTATE], settings=settings)
        session = AnnotationSession(Project(f"{place}/letters", annotator="Anna"), sapwood.Parser())
        session.queue.join()
        with annotating(session) as address, browsing() as driver:
            resize(driver, 1200, 960)

            def take(name: str) -> None:
                time.sleep(0.8)
                driver.save_screenshot(str(folder / f"annotate-{name}.png"))
                shrink(folder / f"annotate-{name}.png")

            driver.get(f"{address}#1")
            time.sleep(1.5)
            take("tree")
            words = [driver.find_element(By.CSS_SELECTOR, f'[data-at="{at}"]') for at in (2, 7)]
            ActionChains(driver).click_and_hold(words[0]).move_to_element(words[1]).release().perform()
            ActionChains(driver).send_keys("m").perform()
            time.sleep(0.3)
            ActionChains(driver).send_keys("noun").perform()
            take("label")
            ActionChains(driver).send_keys(Keys.ENTER).perform()
            take("corrected")
        session.close()


def shrink(path: Path) -> None:
    """Write a picture with fewer colours."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(200, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--docs", action="store_true", help="those of the documentation alone")
    parser.add_argument("--only", nargs="*", choices=[page[0] for page in PAGES], help="these pages alone")
    parser.add_argument("--annotator", action="store_true", help="those of the annotator alone")
    options = parser.parse_args()
    if options.annotator:
        picture_annotator(options.directory)
        return
    pages = [page for page in PAGES if not options.only or page[0] in options.only]
    if WHY_NOT:
        sys.exit(WHY_NOT)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serving(make_service(Path(folder))) as address:
        for dark in (False,) if options.docs else (False, True):
            with browsing(dark=dark) as driver:
                for page in pages:
                    for width in (1200,) if options.docs else (1400, 400):
                        if options.docs and page[0] not in SHOWN:
                            continue
                        resize(driver, width, SHOWN[page[0]][1] if options.docs else 1000)
                        show(driver, address, page)
                        if not options.docs:
                            height = driver.execute_script("return document.documentElement.scrollHeight")
                            resize(driver, width, min(height, 4000))
                            time.sleep(0.3)
                        name = f"explorer-{page[0]}" if options.docs else f"{page[0]}-{width}{'-dark' if dark else ''}"
                        driver.save_screenshot(str(options.directory / f"{name}.png"))
                        print(options.directory / f"{name}.png", flush=True)


if __name__ == "__main__":
    main()
