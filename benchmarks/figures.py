"""Figures on the pages: rendered from the records of benchmarks, so that a page cannot contradict a measurement.

    python benchmarks/figures.py stale               what is out of date: records, pages, decisions
    python benchmarks/figures.py render              fill in the pages
    python benchmarks/figures.py run ID [ID ...]     measure records again (or `run --stale`); --data FOLDER

A block of a page has a template in a comment, and then the text that `render` makes of it:

    <!-- figures
    F1 is {gum/default test_f1}, in {gum/default train_cpu_s:range} CPU seconds.
    -->
    F1 is 86.6 ± 0.1, in 331-369 CPU seconds.
    <!-- /figures -->

`{ID FIGURE}` is the mean over the seeds, with the standard deviation if it is an F1. After a colon, `mean` or `range`
and a Python format such as `.2f` change that. `{A / B}` divides two figures, or a number and a figure;
`{ID seeds}` is the number of seeds. A field that ends in `?` is empty if the record does not have the figure.
`{decisions}` is a table of the defaults that rest on less than three seeds, or on a test set. Times of different
processors are not averaged: they are those of the processor that has the most records.

`stale` exits with 1 if there is something to do. `run` runs the commands of records that are stale or imported, and
with --again of all that are named. Each run is written when it ends, so an interrupted `run` can be repeated.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import _records
from _records import REPOSITORY, Record
from _requirements import require

BLOCK = re.compile(
    r"(?P<open><!-- figures\n(?P<template>.*?)\n-->\n)(?P<text>.*?)(?P<close><!-- /figures -->)", re.DOTALL
)
FIELD = re.compile(r"\{([^{}\n]+)\}")
# By the end of a figure's name: its format, and whether a standard deviation is given.
FORMATS = {
    "seeds": (".0f", False),
    "gain_f1": ("+.1f", False),
    "f1": (".1f", True),
    "f1_max_rule": (".1f", True),
    "_s": (",.0f", False),
}
TIME = re.compile(r"_(s|ms)(_|$)")
SEEDS_OF_A_DECISION = 3


class FigureError(Exception):
    """A template asks for something that the records do not have."""


class MissingFigureError(FigureError):
    """A record does not have a figure."""


@dataclass(frozen=True)
class Figure:
    """A measured figure: its mean, and what is known of its spread over seeds."""

    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


class Figures:
    """The figures of all records, by id and name."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._processors = Counter(map(processor_of, self.records))

    def get(self, name: str, figure: str) -> Figure:
        """Return a figure over all seeds that have it."""
        ours = [one for one in self.records if one["id"] == name]
        if ours and figure == "seeds":
            return Figure(len({seed for one in ours for seed in one["seeds"]}))
        having = [one for one in ours if figure in one["figures"]]
        if TIME.search(figure) and having:
            usual = max(map(processor_of, having), key=lambda name: (self._processors[name], name))
            having = [one for one in having if processor_of(one) == usual]
        values = [one["figures"][figure] for one in having]
        if not values:
            if not ours:
                raise FigureError(f"no record {name}")
            known = sorted({key for one in ours for key in one["figures"]})
            raise MissingFigureError(f"{name} has no {figure}, but {', '.join(known)}")
        summaries = [value for value in values if isinstance(value, dict)]
        if summaries and len(values) > 1:
            raise FigureError(f"{figure} of {name}: a mean over seeds and figures of single seeds do not go together")
        if summaries:
            value = summaries[0]
            return Figure(
                value.get("mean", statistics.mean(value.values())), **{k: v for k, v in value.items() if k != "mean"}
            )
        sd = statistics.stdev(values) if len(values) > 1 else None
        return Figure(statistics.mean(values), sd, min(values), max(values))

    def show(self, field: str) -> str:
        """Return what stands for a field of a template."""
        if field == "decisions":
            return decisions_table(self.records)
        if field.endswith("?"):
            try:
                return self.show(field[:-1])
            except MissingFigureError:
                return ""
        expression, _, style = field.partition(":")
        parts = [part.split() for part in expression.split(" / ")]
        usual, spread = next(
            (value for end, value in FORMATS.items() if len(parts) == 1 and parts[0][-1].endswith(end)), (".1f", False)
        )
        words = style.split()
        form = next((word for word in words if word not in ("mean", "range")), usual)
        if len(parts) == 2:
            return format(self._value(parts[0]) / self._value(parts[1]), form)
        if len(parts[0]) != 2:
            raise FigureError(f"{{{field}}} is not an id and a figure")
        figure = self.get(*parts[0])
        if "range" in words and figure.low is not None and figure.high is not None:
            ends = dict.fromkeys(format(end, form) for end in (figure.low, figure.high))
            return "-".join(ends)
        if spread and figure.sd is not None and "mean" not in words:
            return f"{figure.mean:{form}} ± {figure.sd:{form}}"
        return format(figure.mean, form)

    def _value(self, words: Sequence[str]) -> float:
        return float(words[0]) if len(words) == 1 else self.get(words[0], words[1]).mean


def processor_of(record: Record) -> str:
    """Return the processor that a record was measured on."""
    return record["machine"].partition(",")[0]


def pages() -> list[Path]:
    """Return the pages that have blocks."""
    candidates = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    return [page for page in candidates if BLOCK.search(page.read_text(encoding="utf-8"))]


def rendered(text: str, figures: Figures, name: str = "page") -> str:
    """Return a page with its blocks filled in; an error names the line of the template."""

    def fill(block: re.Match[str]) -> str:
        def show(field: re.Match[str]) -> str:
            try:
                return figures.show(field[1])
            except FigureError as error:
                before = text[: block.start("template")] + block["template"][: field.start()]
                raise FigureError(f"{name}:{before.count(chr(10)) + 1}: {error}") from error

        # A table needs an empty line before and after it.
        return f"{block['open']}\n{FIELD.sub(show, block['template'])}\n\n{block['close']}"

    return BLOCK.sub(fill, text)


def stale_pages(figures: Figures) -> Iterator[str]:
    """Yield the first line of each page that differs from the records."""
    for page in pages():
        old = page.read_text(encoding="utf-8")
        try:
            new = rendered(old, figures, page.name)
        except FigureError as error:
            yield str(error)
            continue
        for number, (one, other) in enumerate(zip(old.splitlines(), new.splitlines(), strict=False), 1):
            if one != other:
                yield f"{page.name}:{number}: the records say: {other.strip()!r}"
                break
        else:
            if old != new:
                yield f"{page.name}: the records say something else"


def stale_records(records: Iterable[Record]) -> Iterator[str]:
    """Yield the records that describe defaults as they were before a change."""
    for one in records:
        if _records.is_stale(one):
            yield f"{one['id']}, seeds {one['seeds']}: a default has changed since it was measured ({one['date']})"


def weak_decisions(records: Iterable[Record]) -> list[tuple[str, Record, str]]:
    """Return defaults that were chosen by fewer than three seeds or on a test set, the record, and the reason."""
    found = []
    for one in records:
        for default, part in one.get("decides", {}).items():
            seeds = len(one["seeds"])
            reasons = [f"{seeds} seed{'s' * (seeds > 1)}"] if seeds < SEEDS_OF_A_DECISION else []
            reasons += ["test figures had been seen"] if part != "dev" else []
            if reasons:
                found.append((default, one, ", ".join(reasons)))
    return sorted(found, key=lambda one: (one[0], one[1]["id"]))


def decisions_table(records: Iterable[Record]) -> str:
    """Return the table of weak decisions."""
    rows = [f"| {default} | `{one['id']}` | {reason} |" for default, one, reason in weak_decisions(records)]
    return "\n".join(["| default | record | rests on |", "|---|---|---|", *rows])


def run(ids: Iterable[str], records: Sequence[Record], data: Path, *, again: bool = False) -> int:
    """Run the commands of records that are stale or imported, or of all; returns the number of those that failed."""
    failed, done = 0, set()
    for name in ids:
        ours = [one for one in records if one["id"] == name]
        if not ours:
            print(f"{name} is not a record; `stale --all` lists them", file=sys.stderr)
            failed += 1
        for one in ours:
            if not again and not one.get("source") and not _records.is_stale(one):
                print(f"{name}, seeds {one['seeds']}: up to date; --again measures it again")
            elif one["command"] is None:
                print(f"{name} has no command: {one.get('source')}", file=sys.stderr)
                failed += 1
            elif one["command"] not in done:
                done.add(one["command"])
                failed += not _run_command(one["command"], data, again)
    return failed


def _run_command(command: str, data: Path, again: bool) -> bool:
    words = [word.replace("DATA/", f"{data}/") for word in shlex.split(command)]
    if again and "benchmarks/accuracy.py" in words:
        words.append("--again")
    print(f"$ {shlex.join(words)}", flush=True)
    words[0] = sys.executable if words[0] == "python" else words[0]
    return subprocess.run(words, cwd=REPOSITORY, check=False).returncode == 0


def main() -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("stale", help="list what is out of date")
    listing.add_argument("--all", action="store_true", help="list all records, with their origin")
    commands.add_parser("render", help="fill in the pages")
    running = commands.add_parser("run", help="measure again")
    running.add_argument("ids", nargs="*", metavar="ID")
    running.add_argument("--stale", action="store_true", help="all records of changed defaults")
    running.add_argument("--again", action="store_true", help="also records that are up to date")
    running.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data", help="folder of treebanks")
    options = parser.parse_args()
    records = _records.read()
    figures = Figures(records)
    if options.command == "render":
        for page in pages():
            old = page.read_text(encoding="utf-8")
            new = rendered(old, figures, page.name)
            if new != old:
                page.write_text(new, encoding="utf-8")
                print(f"{page.relative_to(REPOSITORY)}: updated")
        return 0
    if options.command == "run":
        require(files=[options.data])
        ids = [*options.ids, *(one["id"] for one in records if options.stale and _records.is_stale(one))]
        failed = run(dict.fromkeys(ids), records, options.data.resolve(), again=options.again)
        print("`python benchmarks/figures.py render` fills in the pages")
        return int(failed > 0)
    if options.all:
        for one in records:
            origin = f"imported: {one['source']}" if one.get("source") else f"measured at {one['commit']}"
            print(f"{one['id']}, seeds {one['seeds']}, {one['date']}, {origin}")
    problems = [*stale_records(records), *stale_pages(figures)]
    print(*problems, sep="\n", end="\n" if problems else "")
    for default, one, reason in weak_decisions(records):
        print(f"weak: {default}: {one['id']}: {reason}")
    return int(bool(problems))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FigureError, ValueError) as error:
        sys.exit(f"figures.py: {error}")
