"""Figure 2 of Hsu, Kakade and Liang (2012): which parsing models are locally identifiable, and from which moments.

    python benchmarks/figure2.py [--most-words 8] [--longest 9] [--results FILE.jsonl] [-o PICTURE.svg]

For all models, moments, numbers of words d and of states k from 2 to 8 and lengths L from 2 to 9, the rank of the
Jacobian of the moments is computed at a random point of a prime field (`sapwood.identifiability.identify`), which the
true rank is never below. The paper has d >= k, and phi_all for L from 3 to 5; d < k (its appendix B) and phi_all for
all L come along. Moments with eta are taken with `e_1`, as in the paper, and with a random vector.

**Two readings.** Taken by its definition, `123e1` is one matrix. Section 5.2 uses more under the same name: the slices
of three words in all orders, and with `eta = 1` the pairs. The columns `123e1+` and `***e1+` have these, of the first
three words and of any.

**Certificates.** A rank that reaches a bound that cannot be passed is proved: the number of parameters; that of
moments; k (k - 1) less than that of parameters for `pcfg`; d k for one matrix of moments of hidden states; and what
three slices of three words can be (see `bound` and `three_slices`). More moments never have a lower rank, so what
follows from fewer is not computed again. All other ranks are computed twice, modulo two primes. The file of results
says of each rank which of these holds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _requirements import require
from sapwood.identifiability import Model, ModelMoments, make_model
from sapwood.identifiability.algebra.autodiff import Tensor, constant
from sapwood.identifiability.algebra.fields import PRIMES
from sapwood.identifiability.identify import exact_rank
from sapwood.plots.pictures import COLOURS, save_picture
from sapwood.runtime.progress import Bars, track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = ("pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie", "dep-ies")
# What to call each observation function, its name in the library, and eta.
COLUMNS: dict[str, tuple[str, Any]] = {
    "12": ("12", 1),
    "**": ("**", 1),
    "123e1": ("123eta", 1),
    "123": ("123", 1),
    "***e1": ("***eta", 1),
    "123e1+": ("first three", 1),
    "***e1+": ("** ***eta", 1),
    "***": ("***", 1),
    "all": ("all", 1),
    "123eta": ("123eta", "random"),
    "***eta": ("***eta", "random"),
}
# Those of the paper; the others have a random eta.
PRINTED = ("12", "**", "123e1", "123", "***e1", "***", "all")
# What each of the paper's columns with a slice is, if one reads it kindly.
KIND = {"123e1": "123e1+", "***e1": "***e1+"}
# Those that have no moments but what the others have too.
LESS: dict[str, tuple[str, ...]] = {
    "**": ("12",),
    "123": ("12", "123e1", "123eta", "123e1+"),
    "123e1+": ("12", "123e1"),
    "***e1+": ("***e1", "**", "123e1+"),
    "***e1": ("123e1",),
    "***eta": ("123eta", "**"),
    "***": ("**", "123", "***e1", "***e1+", "***eta"),
    "all": ("***",),
}


@dataclass(frozen=True)
class Cell:
    """An answer, with its certificate: the rank modulo primes, and what proves that it is no higher, if anything."""

    model: str
    moments: str
    words: int
    states: int | None
    length: int
    parameters: int
    rank: int
    primes: tuple[int, ...]
    proof: str

    @property
    def identifiable(self) -> bool:
        """Whether the rank is full."""
        return self.rank == self.parameters

    @property
    def size(self) -> tuple[int, int]:
        """Words and states."""
        return self.words, self.states or 0


class FirstThree(ModelMoments):
    """All pairs of the first three words, and their slices in all orders."""

    def __init__(self, model: Model, length: int) -> None:
        super().__init__(model, ["**", "***eta"], [length])

    def functionals(self, parameters: Mapping[str, Tensor], rng: np.random.Generator, count: int) -> Tensor:
        """Return random linear combinations of all moments: no word from the fourth on is looked at."""
        field = next(iter(parameters.values())).field
        parts = []
        for observation in self.observations(field, rng):
            marks, coefficient, weights = observation.functionals(field, rng, count)
            weights[:, 1:, 3:] = 0
            parts.append(self.model.expectation(parameters, constant(field, weights), marks)[:, coefficient])
        return parts[0] + parts[1]


def paper(cell: Cell) -> bool | None:
    """Return what figure 2 says of a cell, None if nothing.

    Of its three merged cells, "Yes iff L >= 3" is read as standing under all columns from `123e1` on (under `**` for
    dep-i, under all for dep-ie and dep-ies).
    """
    if cell.states is not None and cell.words < cell.states:
        return None
    if cell.moments not in PRINTED and cell.moments not in KIND.values():
        return None
    if cell.moments == "all":
        return False if cell.model == "pcfg" and 3 <= cell.length <= 5 else None
    if cell.model == "pcfg":
        return False
    if cell.model in ("pcfg-i", "pcfg-ie"):
        least = {"12": 99, "**": 4}.get(cell.moments, 3)
    elif cell.model == "dep-i":
        least = {"12": 99}.get(cell.moments, 3)
    else:
        least = 3
    return cell.length >= least


_MATRIX = "no. One d x d matrix O N O^T has at most d k dimensions, whatever N is, because states can be mixed"
_SLICES = "but with L = 3 only for k = 2: for more states {} dimensions are lost. With an eta without zeros it is true"
EXPLANATIONS = {
    ("pcfg-i", "123e1"): f"{_MATRIX}, and the model has d k + 2 k^2 - 2 k - 1 parameters.",
    ("pcfg-ie", "123e1"): f"{_MATRIX}, and the model has d k + k^2 - k - 1 parameters.",
    ("dep-i", "123e1"): "no: these are d^2 numbers, and the model has 2 d^2 - d - 1 parameters.",
    ("pcfg-i", "***e1"): _SLICES.format("k - 2") + " (where two indices are the same, phi_** is in it).",
    ("pcfg-ie", "***e1"): _SLICES.format("(k - 2)(k + 1) / 2") + " (where two indices are the same, phi_** is in it).",
    ("dep-ies", "12"): "also for d = 2 and L = 2: a stationary chain of two words is reversible, A diag(pi) symmetric.",
    ("dep-ies", "**"): "as for 12: also for d = 2 and L = 2.",
    ("dep-ies", "***e1"): "as for 12: also for d = 2 and L = 2.",
    ("dep-ies", "***"): "as for 12: also for d = 2 and L = 2.",
}


def bound(name: str, column: str, size: tuple[int, int | None, int], moments: ModelMoments) -> tuple[int, str]:
    """Return a rank that is certainly not exceeded for so many words and states and this length, and why."""
    words, states, length = size
    parameters = moments.model.n_parameters
    found = [(parameters, "parameters"), (moments.size, "moments")]
    if states is not None and column in ("12", "123e1", "123eta"):
        # One matrix O N O^T, in which states can be mixed; the elements of that of phi_12 sum to one.
        found.append((words * states - (column == "12"), "one matrix"))
    elif column in ("1", "12", "123", "all"):
        found.append((moments.size - 1, "moments"))
    if states is not None and column == "***e1" and length == 3:
        found.append((three_slices(name, words, states), "three slices"))
    if name == "pcfg":
        assert states is not None
        found.append((parameters - states * (states - 1), "mixed states"))
    return min(found)


def three_slices(name: str, words: int, states: int) -> int:
    """Return how many dimensions the moments `***e1` of sentences of three words can have at most.

    All of them are sums of elements of three slices: the matrices of two of the words, where the third is `e_1`. Their
    columns and rows are in the space of O's columns, which has k (d - k) dimensions to be chosen in; in its basis they
    are matrices X, Y, Z of k x k, for words (1, 2), (1, 3) and (2, 3). With `b` the first word in this basis, the cells
    that two slices share say `X b = Y b`, `X^T b = Z b` and `Y^T b = Z^T b`, which are 3 k - 1 equations that do not
    follow from each other (`b^T X b` is in all three). So k (d - k) + 3 k^2 - (3 k - 1) dimensions are left. Sentences
    of `pcfg-ie` are as probable backwards: X is the transpose of Z and Y symmetric, and `X b = Y b` are k equations,
    which leaves k (d - k) + k^2 + k (k + 1) / 2 - k.
    """
    k = min(words, states)
    if name == "pcfg-ie":
        return k * (words - k) + k * k + k * (k + 1) // 2 - k
    return k * (words - k) + 3 * k * k - (3 * k - 1)


def answers(task: tuple[str, int, int | None, int]) -> list[Cell]:
    """Return the answers for all moments, from few to many."""
    name, words, states, length = task
    model = make_model(name, words, states)
    found: dict[str, Cell] = {}
    for column in ("12", "123e1", "123eta", "**", "123e1+", "123", "***e1", "***e1+", "***eta", "***", "all"):
        function, eta = COLUMNS[column]
        if column.startswith("123") and length < 3:
            continue
        if function == "first three":
            moments: ModelMoments = FirstThree(model, length)
        else:
            moments = ModelMoments(model, function.split(), [length], eta)
        most, why = bound(name, column, (words, states, length), moments)
        known = max((found[less].rank for less in LESS.get(column, ()) if less in found), default=0)
        if known == most:
            primes: list[int] = []
            why = f"{why}, and fewer moments"
        else:
            primes = [PRIMES[0]]
            known = exact_rank(moments, primes[0])
            if known < most:
                primes.append(PRIMES[1])
                known = max(known, exact_rank(moments, primes[1]))
        proof = why if known == most else ""
        found[column] = Cell(name, column, words, states, length, model.n_parameters, known, tuple(primes), proof)
    return list(found.values())


def study(most_words: int, longest: int, workers: int, path: Path | None = None) -> list[Cell]:
    """Return all answers, the largest problems first; with a path, those in the file, to which the others are added."""
    tasks = [
        (name, words, states, length)
        for name in MODELS
        for words in range(2, most_words + 1)
        for states in (range(2, most_words + 1) if name.startswith("pcfg") else [None])
        for length in range(2, longest + 1)
    ]
    tasks.sort(key=lambda task: -(make_model(*task[:3]).n_parameters ** 2) * task[3])
    found = {task: cells for task, cells in read(path).items() if task in set(tasks)}
    left = [task for task in tasks if task not in found]
    with ProcessPoolExecutor(workers) as pool:
        for task, cells in zip(left, track(pool.map(answers, left), Bars(), "ranks", len(left)), strict=True):
            found[task] = cells
            if path is not None:
                rows = [{**asdict(cell), "identifiable": cell.identifiable, "paper": paper(cell)} for cell in cells]
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows) + "\n")
    return [cell for task in tasks for cell in found[task]]


def read(path: Path | None) -> dict[tuple[str, int, int | None, int], list[Cell]]:
    """Return the answers in a file: a line has those of one model and size."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []:
        rows = json.loads(line)
        cells = [
            Cell(**{field.name: row[field.name] for field in fields(Cell)} | {"primes": tuple(row["primes"])})
            for row in rows
        ]
        first = cells[0]
        found[first.model, first.words, first.states, first.length] = cells
    return found


def summary(cells: Sequence[Cell]) -> str:
    """Return for which lengths and sizes the answer is yes."""
    sizes = sorted({cell.size for cell in cells})
    by_length: dict[int, set[tuple[int, int]]] = {}
    for cell in cells:
        by_length.setdefault(cell.length, set())
        if cell.identifiable:
            by_length[cell.length].add(cell.size)
    if not any(by_length.values()):
        return "no"
    parts = []
    lengths = sorted(by_length)
    whole = [length for length in lengths if len(by_length[length]) == len(sizes)]
    if whole and whole == list(range(whole[0], lengths[-1] + 1)):
        parts.append("yes" if whole[0] == 2 else f"yes iff L >= {whole[0]}")
    else:
        parts += [f"L = {length}" for length in whole]
    for length in lengths:
        some = by_length[length]
        if some and len(some) < len(sizes):
            parts.append(f"L = {length} and {_condition(some, sizes)}")
    return ", or ".join(parts)


def _condition(some: set[tuple[int, int]], sizes: list[tuple[int, int]]) -> str:
    for text, subset in (
        ("d = 2", {(d, k) for d, k in sizes if d == 2}),
        ("k = 2", {(d, k) for d, k in sizes if k == 2}),
    ):
        if some == subset:
            return text
    return "(d, k) in " + ", ".join(f"({d}, {k})" for d, k in sorted(some))


def tables(cells: Sequence[Cell]) -> str:
    """Return the figure, what differs from the paper, and the table for d < k, as Markdown."""
    regime = [cell for cell in cells if cell.states is None or cell.words >= cell.states]
    lines = ["| |" + "".join(f" {column} |" for column in COLUMNS), "|---|" + "---|" * len(COLUMNS)]
    for name in MODELS:
        row = [summary([c for c in regime if c.model == name and c.moments == column]) for column in COLUMNS]
        lines.append(f"| {name} |" + "".join(f" {text} |" for text in row))
    compared = [cell for cell in cells if paper(cell) is not None and cell.moments in PRINTED]
    wrong = [cell for cell in compared if paper(cell) != cell.identifiable]
    kindly = [cell for cell in cells if paper(cell) is not None and cell.moments not in KIND]
    still = [cell for cell in kindly if paper(cell) != cell.identifiable]
    agree = f"Of {len(compared):,} answers of the figure {len(compared) - len(wrong):,} hold by its definitions,"
    agree += f" and {len(kindly) - len(still):,} of {len(kindly):,} if slices are read as section 5.2 uses them."
    proved = f"Of all {len(cells):,} ranks {sum(bool(cell.proof) for cell in cells):,} are proved,"
    proved += f" and {sum(bool(cell.proof) for cell in wrong):,} of the {len(wrong):,} that contradict it."
    lines += ["", f"{agree} {proved} What does not hold:", ""]
    for name in MODELS:
        for column in PRINTED:
            differing = [c for c in wrong if c.model == name and c.moments == column]
            if differing:
                why = EXPLANATIONS.get((name, column), "not explained")
                unproved = sum(not cell.proof for cell in differing)
                marked = f", {unproved} not proved" if unproved else ""
                kind = KIND.get(column)
                holds = (
                    ""
                    if kind is None or any((c.model, c.moments) == (name, kind) for c in still)
                    else " Kindly read: true."
                )
                lines.append(f"- {name}, {column} ({len(differing)}{marked}): {why}{holds}")
    few = [cell for cell in cells if cell.states is not None and cell.words < cell.states]
    if few:
        lines += [
            "",
            "Fewer words than states: the length from which on the model is identifiable (- if not by the longest):",
            "",
        ]
        pairs = sorted({cell.size for cell in few})
        lines += ["| |" + "".join(f" {d}, {k} |" for d, k in pairs), "|---|" + "---:|" * len(pairs)]
        for name in ("pcfg-i", "pcfg-ie"):
            for column in COLUMNS:
                row = [
                    _least([c for c in few if (c.model, c.moments, c.size) == (name, column, size)]) for size in pairs
                ]
                if any(text != "-" for text in row):
                    lines.append(f"| {name}, {column} |" + "".join(f" {text} |" for text in row))
    return "\n".join(lines)


def _least(cells: Sequence[Cell]) -> str:
    """Return the length from which on all answers are yes."""
    last = "-"
    for cell in sorted(cells, key=lambda cell: -cell.length):
        if not cell.identifiable:
            break
        last = str(cell.length)
    return last


def figure_of(cells: Sequence[Cell]) -> Figure:
    """Return a panel for each model and observation function: lengths from left to right, sizes from top to bottom."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    hidden = [name for name in MODELS if name.startswith("pcfg")]
    columns = PRINTED
    sizes = {
        name: sorted({cell.size for cell in cells if cell.model == name}, key=lambda size: (size[0] < size[1], size))
        for name in MODELS
    }
    lengths = sorted({cell.length for cell in cells})
    figure = Figure(figsize=(8, 9.5), layout="constrained")
    ratios = [3 if name in hidden else 1 for name in MODELS]
    panels = figure.subplots(len(MODELS), len(columns), squeeze=False, height_ratios=ratios)
    colours = {"no": "#d9d9d9", "yes": COLOURS[2], "no, not yes": COLOURS[1], "yes, not no": COLOURS[4]}
    for row, name in enumerate(MODELS):
        for column, moments in enumerate(columns):
            panel = panels[row, column]
            values = [[""] * len(lengths) for _ in sizes[name]]
            for cell in cells:
                if (cell.model, cell.moments) == (name, moments):
                    true, said = cell.identifiable, paper(cell)
                    kind = "yes" if true else "no"
                    if said is not None and said != true:
                        kind = "yes, not no" if true else "no, not yes"
                    values[sizes[name].index(cell.size)][lengths.index(cell.length)] = kind
            for (x, y, width, height), kind in _areas(values):
                if kind:
                    look: dict[str, Any] = {"color": colours[kind], "linewidth": 0, "clip_on": False}
                    panel.add_patch(Rectangle((x - 0.5, y - 0.5), width, height, **look))
            panel.set_xlim(-0.5, len(lengths) - 0.5)
            panel.set_ylim(len(sizes[name]) - 0.5, -0.5)
            panel.grid(visible=False)
            panel.tick_params(length=2, width=0.6, labelsize=7)
            bottom = name in (hidden[-1], MODELS[-1])
            panel.set_xticks([0, len(lengths) - 1] if bottom else [], [lengths[0], lengths[-1]] if bottom else [])
            first = sum(d >= k for d, k in sizes[name])
            ticks = [0, first - 1, len(sizes[name]) - 1] if name in hidden else [0, len(sizes[name]) - 1]
            labels = [f"{d}, {k}" if k else str(d) for d, k in (sizes[name][tick] for tick in ticks)]
            panel.set_yticks(ticks if column == 0 else [], labels if column == 0 else [])
            if name in hidden and first < len(sizes[name]):
                panel.axhline(first - 0.5, color="#404040", linewidth=0.6)
            if row == 0:
                panel.set_title(moments, fontsize=9)
        panels[row, 0].set_ylabel(name)
    figure.supxlabel(
        "length. Green: identifiable; grey: not; red: not, though the paper says so; yellow: identifiable, though the "
        "paper says not.\nRows: words, states (below the line there are fewer words than states)",
        fontsize=8,
    )
    return figure


def _areas(values: list[list[str]]) -> Iterator[tuple[tuple[int, int, int, int], str]]:
    """Yield rectangles of equal values: column, row, width, height."""
    y = 0
    for row, rows in groupby(values):
        height, x = len(list(rows)), 0
        for value, run in groupby(row):
            width = len(list(run))
            yield (x, y, width, height), value
            x += width
        y += height


def main() -> None:
    """Compute, print, draw."""
    parser = argparse.ArgumentParser(description="Figure 2: which parsing models are identifiable from which moments.")
    parser.add_argument("--most-words", type=int, default=8)
    parser.add_argument("--longest", type=int, default=9)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, help="append all ranks here, and go on from those that are there")
    parser.add_argument("-o", "--output", type=Path, help="write a picture here (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    require(packages="matplotlib" if arguments.output else "")
    began = time.perf_counter()
    cells = study(arguments.most_words, arguments.longest, arguments.workers, arguments.results)
    print(tables(cells))
    spent = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    seconds = (
        f"{time.perf_counter() - began:.0f} s with {arguments.workers} processes ({spent:.0f} s of processor time)"
    )
    print(f"\n{len(cells):,} answers in {seconds}.")
    if arguments.output:
        save_picture(arguments.output, lambda: figure_of(cells))


if __name__ == "__main__":
    main()
