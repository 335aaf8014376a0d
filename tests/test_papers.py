"""docs/papers.md is true: what it names exists, the papers' numbers all have rows, and what is cited has an entry."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "papers.md"
PAPERS = REPOSITORY / ".." / "shared" / "papers"

# The text of each paper, how the heading of its table begins, and how many numbered things are known to be in it: if
# fewer are found, it is the search that no longer works.
TEXTS = {
    "cohen-2014-spectral-lpcfg-long.txt": ("Cohen, Stratos, Collins, Foster and Ungar (2014)", 53),
    "cohen-2012-spectral-lpcfg.txt": ("Cohen, Stratos, Collins, Foster and Ungar (2012)", 26),
    "cohen-collins-2014-pivot-lpcfg.txt": ("Cohen and Collins (2014)", 14),
    "rabusseau-2016-low-rank-wta.txt": ("Rabusseau, Balle and Cohen (2016)", 13),
    "hsu-2012-identifiability-unmixing.txt": ("Hsu, Kakade and Liang (2012)", 10),
}
KINDS = "algorithm|assumption|condition|definition|equation|figure|lemma|proposition|table|theorem"
COLUMNS = ("in the paper", "what it says", "code", "test", "benchmark")
EXCUSES = ("background", "not implemented")

NAME = r"[A-Z][a-zà-ÿ]+(?:-[A-Z][a-zà-ÿ]+)*"
# "Cohen and Collins (2014)", "Petrov et al. 2006", "Balle and Cohen, AISTATS 2016", "Chiang's lazy one (2005)".
CITATION = re.compile(
    rf"(?P<names>{NAME}(?:(?:,| and|, and) {NAME})*)(?: et al\.)?(?:'s [a-z ]+)?"
    r"(?:,? \(|,(?: [A-Z]+)? | )(?P<year>(?:19|20)\d\d)\b(?!\s*[x×])"
)
MONTHS = {
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
}  # fmt: skip

Item = tuple[str, int]


class Row(NamedTuple):
    """A row of a table: the line it stands on and its cells."""

    line: int
    cells: tuple[str, ...]

    @property
    def items(self) -> set[Item]:
        """What the row is about: "figures 2 and 3", "equations 5 to 10", several of these after each other."""
        found: set[Item] = set()
        for kind, first, word, second in re.findall(rf"\b({KINDS})s? (\d+)(?: (and|to) (\d+))?", self.cells[0]):
            numbers = [int(first), int(second)] if second else [int(first)]
            if word == "to":
                numbers = list(range(numbers[0], numbers[1] + 1))
            found |= {(kind, number) for number in numbers}
        return found

    @property
    def references(self) -> list[str]:
        """What stands in backticks in the columns of code, tests and benchmarks."""
        return [name for cell in self.cells[2:] for name in re.findall(r"`([^`]+)`", cell)]


class Entry(NamedTuple):
    """An entry of the bibliography."""

    line: int
    short: str
    text: str

    @property
    def authors(self) -> set[str]:
        return set(re.findall(NAME, self.text.split('"')[0]))

    @property
    def year(self) -> str:
        return re.findall(r"\d{4}", self.short)[-1]


def sections(text: str) -> dict[str, list[tuple[int, str]]]:
    """Return the lines below each heading of the second level, with their numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    heading = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            heading = line[3:]
        found.setdefault(heading, []).append((number, line))
    return found


def rows_of(text: str, heading: str) -> list[Row]:
    """Return the rows of the table below the heading that begins like this."""
    names = [name for name in sections(text) if name.startswith(heading)]
    assert len(names) == 1, f"one heading should begin with {heading!r}, not {len(names)}"
    lines = [(number, line) for number, line in sections(text)[names[0]] if line.startswith("|")]
    table = [Row(number, tuple(cell.strip() for cell in line.strip("|").split("|"))) for number, line in lines]
    assert table[0].cells == COLUMNS, f"papers.md:{table[0].line}: the columns are {', '.join(COLUMNS)}"
    for row in table:
        assert len(row.cells) == len(COLUMNS), f"papers.md:{row.line}: {len(row.cells)} cells, not {len(COLUMNS)}"
    return table[2:]


def entries_of(text: str) -> list[Entry]:
    """Return the entries of the bibliography."""
    found: list[Entry] = []
    for number, line in sections(text)["Bibliography"]:
        start = re.match(r"- \*\*(.+?)\.\*\* ?(.*)", line)
        if start:
            found.append(Entry(number, start[1], start[2]))
        elif found and line.startswith("  "):
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line.strip()}")
    return found


def numbered(text: str) -> set[Item]:
    """Return what a paper numbers: what begins a line as "Figure 3", and what stands in brackets behind an equation."""
    found = {
        (kind.lower(), int(number))
        for kind, number in re.findall(rf"^[-*#\s]*({KINDS})s? (\d+)\b(?!\.\d)", text, re.MULTILINE | re.IGNORECASE)
    }
    for line in text.splitlines():
        equation = re.search(r"(?:^|[^.\w])\((\d{1,2})\)(?:\s*\\end\{\w+\})?\s*\$*\s*$|\\tag\{(\d+)\}", line)
        if equation:
            found.add(("equation", int(equation[1] or equation[2])))
    return found


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the functions and classes of a file, and the methods of its classes as `Class::method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return frozenset(found)


def source_of(reference: str) -> Path | None:
    """Return the file that a reference is about, None if there is none."""
    if not reference.startswith(("sapwood.", "oracles.")):
        path = REPOSITORY / reference.partition("::")[0]
        return path if path.is_file() else None
    parts = reference.split(".")
    for end in range(len(parts), 0, -1):
        stem = REPOSITORY / ("tests" if parts[0] == "oracles" else "src") / Path(*parts[:end])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


def problem_of(reference: str) -> str:
    """Return what is wrong with a reference, nothing if nothing is."""
    if reference.startswith(("sapwood.", "oracles.")):
        return problem_of_name(reference)
    if not re.match(r"(tests|benchmarks|docs|src)/", reference):
        return f"what is {reference!r}?"
    path = source_of(reference)
    if path is None:
        return f"there is no file {reference.partition('::')[0]}"
    name = reference.partition("::")[2]
    if name and name not in defined(path):
        return f"{path.relative_to(REPOSITORY)} has no {name}"
    if name and not name.rpartition("::")[2].startswith("test_"):
        return f"{reference} is no test"
    return ""


def problem_of_name(reference: str) -> str:
    """Return why a dotted name cannot be imported, nothing if it can."""
    parts = reference.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            fields = getattr(value, "__annotations__", {})
            if not hasattr(value, part) and part not in fields:
                return f"{reference}: there is no {part}"
            value = getattr(value, part, None)
        return ""
    return f"{reference}: there is no such module"


def citations(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the surnames and the year of each citation in a text."""
    text = re.sub(r"\n\s*(?:#|>)? *", " ", text)
    for match in CITATION.finditer(text):
        names = re.findall(NAME, match["names"])
        if not MONTHS.intersection(names):
            yield names, match["year"]


def uncited(text: str, entries: list[Entry]) -> list[str]:
    """Return the citations of a text that no entry answers to."""
    return [
        f"{', '.join(names)} {year}"
        for names, year in citations(text)
        if not any(entry.year == year and entry.authors.issuperset(names) for entry in entries)
    ]


def read() -> str:
    return PAGE.read_text(encoding="utf-8")


every_paper = pytest.mark.parametrize("name", TEXTS)


@every_paper
def test_everything_named_exists(name: str) -> None:
    rows = rows_of(read(), TEXTS[name][0])
    problems = [(row.line, problem_of(reference)) for row in rows for reference in row.references]
    assert not [f"papers.md:{line}: {problem}" for line, problem in problems if problem]


@every_paper
def test_rows_without_references_say_why(name: str) -> None:
    for row in rows_of(read(), TEXTS[name][0]):
        assert row.references or any(excuse in row.cells[2] for excuse in EXCUSES), (
            f"papers.md:{row.line}: says nothing"
        )
        assert row.cells[1], f"papers.md:{row.line}: does not say what it is"


@every_paper
def test_columns_have_what_belongs_there(name: str) -> None:
    for row in rows_of(read(), TEXTS[name][0]):
        for cell, prefix in zip(row.cells[2:], (("sapwood.", "oracles."), "tests/", "benchmarks/"), strict=True):
            for reference in re.findall(r"`([^`]+)`", cell):
                assert reference.startswith(prefix), f"papers.md:{row.line}: {reference} is in the wrong column"


def test_code_is_not_that_of_the_tests():
    """The column of code leads to what readers can import: the product, or `sapwood.research`."""
    rows = [row for heading, _ in TEXTS.values() for row in rows_of(read(), heading)]
    assert len(rows) > 80
    for row in rows:
        found = re.findall(r"`(?:oracles|helpers|tests)\b[^`]*`", row.cells[COLUMNS.index("code")])
        assert not found, f"papers.md:{row.line}: {', '.join(found)}"


@every_paper
def test_every_number_of_the_papers_has_a_row(name: str) -> None:
    if not PAPERS.is_dir():
        pytest.skip("the papers in ../shared/papers are not here")
    heading, least = TEXTS[name]
    wanted = numbered((PAPERS / name).read_text(encoding="utf-8"))
    assert len(wanted) >= least
    listed = [item for row in rows_of(read(), heading) for item in row.items]
    assert len(listed) == len(set(listed)), f"twice: {sorted(item for item in set(listed) if listed.count(item) > 1)}"
    assert set(listed) == wanted


def test_entries_name_places_that_mention_them() -> None:
    entries = entries_of(read())
    assert len({entry.short for entry in entries}) == len(entries) > 30
    for entry in entries:
        place = f"papers.md:{entry.line}: {entry.short}"
        first = re.match(NAME, entry.short)
        assert first is not None, place
        assert first[0] in entry.authors, f"{place}: the names of the authors come behind the short form"
        used = re.findall(r"`([^`]+)`", entry.text.partition("Used in:")[2])
        assert used, f"{place}: where is it used?"
        for reference in used:
            assert not problem_of(reference), f"{place}: {problem_of(reference)}"
            path = source_of(reference)
            assert path is not None
            assert first[0] in path.read_text(encoding="utf-8"), f"{place}: {reference} does not mention {first[0]}"


def cited_in() -> list[Path]:
    """Return all files that may cite something."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    pages += sorted((REPOSITORY / "src").rglob("*.md"))
    code = [path for room in ("src", "benchmarks", "tests") for path in sorted((REPOSITORY / room).rglob("*.py"))]
    return [*pages, *(path for path in code if path != Path(__file__).resolve())]


def test_what_is_cited_has_an_entry() -> None:
    entries = entries_of(read())
    missing = {
        str(path.relative_to(REPOSITORY)): found
        for path in cited_in()
        if (found := uncited(path.read_text(encoding="utf-8"), entries))
    }
    assert not missing, "these want an entry in the bibliography of docs/papers.md"
    assert sum(len(list(citations(path.read_text(encoding="utf-8")))) for path in cited_in()) > 60


class TestTheChecks:
    """What finds mistakes must itself be found out when it stops finding them."""

    @pytest.mark.parametrize(
        ("reference", "problem"),
        [
            ("sapwood.automata.gram.gram_matrices", ""),
            ("sapwood.grammar.tensor_grammar.TensorGrammar.conjugate", ""),
            ("sapwood.grammar.tensor_grammar.TensorGrammar.states", ""),
            ("sapwood.automata.gramm.gram_matrices", "there is no gramm"),
            ("sapwood.automata.gram.gram_matrix", "there is no gram_matrix"),
            ("sapwood.grammar.tensor_grammar.TensorGrammar.conjugated", "there is no conjugated"),
            ("tests/theorems/test_spectral.py::test_theorem_2", ""),
            ("tests/theorems/test_spectral.py::test_theorem_20", "has no test_theorem_20"),
            ("tests/theorems/test_identifiability.py::TestPCFGs::test_why", ""),
            ("tests/theorems/test_identifiability.py::TestPCFGs::test_how", "has no TestPCFGs::test_how"),
            ("tests/theorems/test_identifiability.py::TestPCFGs", "is no test"),
            ("tests/theorems/test_spectral_learning.py", "there is no file"),
            ("benchmarks/table1.py", ""),
            ("benchmarks/table9.py", "there is no file"),
            ("table1.py", "what is"),
        ],
    )
    def test_references(self, reference: str, problem: str) -> None:
        found = problem_of(reference)
        assert problem in found
        assert bool(found) == bool(problem)

    def test_numbers_of_papers(self) -> None:
        text = "**Lemma 7** Let\nas Lemma 8 says\n- Figure 3: x\nTheorem 4.3 (page 4)\n"
        text += "$$a = b \\quad (1)$$\n(2)\n $x$ \\tag{5}\nsee f(3)\nArora (2013)\n$$c (11) \\end{aligned}$$\n"
        expected = {("lemma", 7), ("figure", 3), *(("equation", number) for number in (1, 2, 5, 11))}
        assert numbered(text) == expected

    def test_numbers_of_rows(self) -> None:
        row = Row(1, ("figures 2 and 4, equations 5 to 8", "", "", "", ""))
        assert row.items == {("figure", 2), ("figure", 4), *(("equation", number) for number in (5, 6, 7, 8))}

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("as by Cohen and Collins (2014), section 5", ["Cohen", "Collins"]),
            ("(Petrov et al. 2006)", ["Petrov"]),
            ("(Rabusseau, Balle and\n    Cohen, AISTATS 2016)", ["Rabusseau", "Balle", "Cohen"]),
            ("the search is Huang and Chiang's lazy one (2005)", ["Huang", "Chiang"]),
            ("`x` (Arora et al., 2013)", ["Arora"]),
            ("in November 2026", None),
            ("range(2000)", None),
        ],
    )
    def test_citations(self, text: str, names: list[str] | None) -> None:
        assert [found for found, _ in citations(text)] == ([names] if names else [])

    def test_missing_entries_are_found(self) -> None:
        entries = entries_of(
            '## Bibliography\n\n- **Eisner (1996).** Jason M. Eisner: "Three\n  models". Used in: x.\n'
        )
        assert [entry.text for entry in entries] == ['Jason M. Eisner: "Three models". Used in: x.']
        assert uncited("Eisner (1996) and Eisner (2000), Goodman 1996", entries) == ["Eisner 2000", "Goodman 1996"]
