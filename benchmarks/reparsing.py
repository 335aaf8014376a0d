"""Time of a correction in `sapwood annotate`: the edit, the parse of the rest, its probabilities, and the journal.

    python benchmarks/reparsing.py DATA/gum/dev.mrg [--words 36 44] [--sentences 150] [--model en] [--records]
    python benchmarks/reparsing.py DATA/gum/dev.mrg --pages 1000 [--records]

A person who reads from the top corrects the first phrase of the gold tree that is missing, up to `--corrections` times.
It prints percentiles of milliseconds per correction. With `--pages`, Chromium opens that many sentences one after
the other instead, and edits each; it prints the heap of the page, collected, after a tenth of them and after all.

With `--records` figures are also written to benchmarks/results.jsonl: `gum/reparsing`, `gum/annotation-page`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import _records
from _requirements import require
from sapwood.annotation.editing import EditError
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.annotation.session import AnnotationSession
from sapwood.inference.parser import Parser
from sapwood.model.installed import find_model
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.tree import Tree

Figures = dict[str, float]


def correct(session: AnnotationSession, number: int, gold: Tree, most: int) -> list[tuple[float, float]]:
    """Make the first missing phrase of a gold tree, several times; returns milliseconds of CPU and wall of each."""
    found = []
    view = session.open(number)
    for start, end, label in gold.spans()[1:]:
        if len(found) == most:
            break
        if (start, end, label) in view.annotation.tree.spans():
            continue
        begin, began = time.process_time(), time.perf_counter()
        try:
            arguments = {"start": start, "end": end, "label": label}
            view = session.act(number, view.revision, "make", arguments)
        except EditError:
            continue
        found.append((1000 * (time.process_time() - begin), 1000 * (time.perf_counter() - began)))
    return found


def measure_time(session: AnnotationSession, trees: list[Tree], most: int) -> Figures:
    """Return percentiles of the time of a correction."""
    session.queue.join()
    times = [one for number, tree in enumerate(trees, 1) for one in correct(session, number, tree, most)]
    if not times:
        sys.exit("there was nothing to correct")
    middle, high, highest = np.percentile(times, [50, 95, 100], axis=0).tolist()
    figures = {"corrections": len(times), "median_cpu_ms": middle[0], "p95_cpu_ms": high[0], "most_cpu_ms": highest[0]}
    return {**figures, "median_wall_ms": middle[1], "p95_wall_ms": high[1]}


def measure_memory(session: AnnotationSession, pages: int) -> Figures:
    """Return the heap of the page in MB, after a tenth of the sentences and after all."""
    sys.path.insert(0, str(_records.REPOSITORY / "tests"))
    from helpers.browser import annotating, browsing

    found: Figures = {}
    with annotating(session) as address, browsing() as driver:
        driver.get(address)
        for number in range(1, pages + 1):
            driver.execute_script("location.hash = arguments[0]", str(number))
            end = time.monotonic() + 30
            title = "return document.querySelector('#which').textContent"
            while driver.execute_script(title) != f"Sentence {number}" and time.monotonic() < end:
                time.sleep(0.01)
            driver.execute_script("dispatchEvent(new KeyboardEvent('keydown', {key: 'u'}))")
            if number in (pages // 10, pages):
                driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
                metrics = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
                found[f"heap_mb_{'all' if number == pages else 'tenth'}"] = metrics["usedSize"] / 1e6
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--words", type=int, nargs=2, default=(36, 44), help="least and most words of a sentence")
    parser.add_argument("--sentences", type=int, default=150)
    parser.add_argument("--corrections", type=int, default=5)
    parser.add_argument("--model", default="en")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    require(files=[options.trees])
    model = Parser(find_model(options.model))
    clean = [tree for tree in map(model.grammar.normaliser, read_trees(options.trees)) if tree is not None]
    if options.pages:
        trees = [clean[number % len(clean)] for number in range(options.pages)]
    else:
        least, most = options.words
        trees = [tree for tree in clean if least <= len(tree) <= most][: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        settings = ProjectSettings(retrain_after=0)
        Project.create(folder, sentences=[tree.words() for tree in trees], settings=settings)
        session = AnnotationSession(Project(folder), model)
        figures = (
            measure_memory(session, options.pages)
            if options.pages
            else measure_time(session, trees, options.corrections)
        )
        session.close()
    for name, value in figures.items():
        print(f"{name}  {value:.1f}")
    if options.records:
        name = f"{options.trees.parent.name}/{'annotation-page' if options.pages else 'reparsing'}"
        more: dict[str, Any] = {"data": _records.digest_files([options.trees]), "describes": None}
        pages = f" --pages {options.pages}" if options.pages else ""
        command = f"benchmarks/reparsing.py DATA/{options.trees.parent.name}/{options.trees.name}{pages} --records"
        _records.add(_records.measured(name, figures, seed=0, command=f"python {command}", **more))


if __name__ == "__main__":
    main()
