"""Tables of moments, predictions of a model for them, and the parameters that fit them best.

Sentences of length L are summarised by the tables of all their triples of positions (of all words, if there are fewer
than three): `m[x_i, x_j, x_l]` is the fraction of sentences in each cell. A model's parameters predict them,
`mu(theta)`, with exact derivatives, and `fit_tables` finds the parameters under which the tables are most probable,

    maximise  sum over tables t of  w_t n_t  sum over cells c of  m_c log mu_c(theta),

by Gauss-Newton steps: cells are weighted by `w_t n_t / mu_c`, one divided by their variance, as in an optimally
weighted method of moments (also known as Fisher scoring). Up to length 3 a table is a sufficient statistic, so the
estimate is as good as maximum likelihood. The tables of longer sentences overlap, and `w_t = L / (3 C(L, 3))`: as if a
sentence had L / 3 triples that do not. The estimate is then a little less efficient than maximum likelihood, but takes
`L^3 d^3` cells, not `d^L`. Parameters are logarithms up to a constant, so no step leaves the simplex. Steps are damped
as in Levenberg-Marquardt, by the divisor that EM uses, so that the shortest steps are those of EM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import constant, gradients
from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.algebra.simplices import Distributions, Parameters, chart_gradient, inwards, to_tensors
from sapwood.identifiability.models.base import Model
from sapwood.identifiability.moments import MomentSource
from sapwood.storage.shapes import Array, Float, Int

# Maximum number of cells in total, beyond which longer sentences are skipped, and number of cells to compute at once.
_MOST_CELLS = 20_000
_ROWS = 2048
# No step multiplies a parameter by more than e^2, or divides it.
_LONGEST_STEP, _MOST_DAMPING = 2.0, 1e8
# No cell is less probable than this, so that weights are finite.
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Table:
    """The joint distribution of the words at some positions of sentences of a length.

    Attributes
    ----------
    length, positions
        Length of the sentences, and positions of the words.
    sentences
        Number of sentences; 1 if the table is exact.
    balance
        Weight of an overlapping table.
    cells
        Its range among all cells.
    """

    length: int
    positions: tuple[int, ...]
    sentences: float
    balance: float
    cells: slice


class Tables:
    """The tables of a source, the shortest lengths first, as many as the cell limit allows.

    Parameters
    ----------
    model
        The model that predicts them.
    source
        Source of moments.
    lengths
        Lengths to use.
    most
        Maximum number of cells.
    """

    def __init__(self, model: Model, source: MomentSource, lengths: Sequence[int], most: int = _MOST_CELLS) -> None:
        self.model = model
        self.parts: list[Table] = []
        measured, end = [], 0
        for length in sorted(lengths):
            order = min(3, length)
            if end and end + comb(length, order) * model.words**order > most:
                break
            joint = source.joint(length, np.ones(model.words))
            balance = length / (order * comb(length, order))
            for positions in combinations(range(length), order):
                values = joint(positions, None).reshape(-1)
                cells = slice(end, end + values.size)
                self.parts.append(Table(length, positions, source.precision(length), balance, cells))
                measured.append(values)
                end = cells.stop
        if not measured:
            raise UsageError("there are no sentences to learn from")
        self.measured = np.concatenate(measured)
        self.weights = np.concatenate(
            [np.full(p.cells.stop - p.cells.start, p.balance * p.sentences) for p in self.parts]
        )

    @property
    def lengths(self) -> list[int]:
        """The lengths that are used."""
        return list(dict.fromkeys(part.length for part in self.parts))

    def predicted(self, parameters: Parameters) -> Float[Array, "cells"]:
        """Return the model's predictions of all cells."""
        return self._evaluate(parameters, slopes=False)[0]

    def slopes(
        self, parameters: Parameters
    ) -> tuple[Float[Array, "cells"], list[Float[Array, "cells outcomes conditions"]]]:
        """Return the model's predictions of all cells, and their derivatives by all elements of each block."""
        return self._evaluate(parameters, slopes=True)

    def _evaluate(self, parameters: Parameters, *, slopes: bool) -> tuple[np.ndarray, list[np.ndarray]]:
        model, field = self.model, Reals()
        tensors = to_tensors(model.blocks, parameters, tracked=slopes)
        values = np.empty(len(self.measured))
        found = [np.empty((len(values), *tensor.shape[1:])) for tensor in tensors.values() if slopes]
        for length in self.lengths:
            parts = [part for part in self.parts if part.length == length]
            begin, end = parts[0].cells.start, parts[-1].cells.stop
            for first in range(begin, end, _ROWS):
                rows = np.arange(first, min(end, first + _ROWS))
                result = model.expectation(tensors, constant(field, self._words(parts, rows)))[:, 0]
                values[rows] = result.value
                if slopes:
                    for array, part in zip(found, gradients(result, list(tensors.values())), strict=True):
                        array[rows] = part
        return values, found

    def _words(self, parts: Sequence[Table], rows: np.ndarray) -> np.ndarray:
        """Return the weights of words for which a chart computes these cells, `(cells, 1, positions, words)`."""
        words, size = self.model.words, parts[0].cells.stop - parts[0].cells.start
        which, cell = np.divmod(rows - parts[0].cells.start, size)
        order = len(parts[0].positions)
        positions = np.array([part.positions for part in parts])[which]
        found = np.ones((len(rows), 1, parts[0].length, words))
        for axis in range(order):
            word = cell // words ** (order - 1 - axis) % words
            found[np.arange(len(rows)), 0, positions[:, axis]] = np.eye(words)[word]
        return found

    def places(self, rows: Int[Array, "sentences length"], part: Table) -> Int[Array, "sentences"]:
        """Return the cell of a table for each of some sentences."""
        shape = (self.model.words,) * len(part.positions)
        return part.cells.start + np.ravel_multi_index(tuple(rows[:, place] for place in part.positions), shape)

    def score(self, predicted: Float[Array, "cells"]) -> float:
        """Return the weighted log-likelihood of the tables."""
        seen = self.measured > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(np.sum((self.weights * self.measured)[seen] * np.log(predicted[seen])))
        return value if np.isfinite(value) else -np.inf


@dataclass(frozen=True, eq=False)
class TableFit:
    """Result of `fit_tables`.

    Attributes
    ----------
    parameters
        The parameters.
    score
        Their weighted log-likelihood.
    steps
        Number of steps.
    """

    parameters: dict[str, Distributions]
    score: float
    steps: int


def fit_tables(
    tables: Tables,
    start: Parameters,
    *,
    steps: int = 100,
    tolerance: float = 1e-3,
    report: Callable[..., None] | None = None,
) -> TableFit:
    """Return the parameters that fit tables best, near a start.

    Parameters
    ----------
    tables
        The measured tables.
    start
        Initial parameters; zeros are moved inwards.
    steps
        Maximum number of steps.
    tolerance
        Stop when a step gains less than this in weighted log-likelihood (of the whole sample), three times in a row.
    report
        Called after each step.
    """
    blocks = tables.model.blocks
    here = {name: inwards(np.asarray(array, float), 1e-6) for name, array in start.items()}
    values, slopes = tables.slopes(here)
    score, damping, poor, taken = tables.score(values), 1.0, 0, 0
    while taken < steps and poor < 3:
        taken += 1
        flat = [here[block.name].reshape(block.outcomes, block.columns) for block in blocks]
        way, square, scale = _equations(tables, values, slopes, flat)
        gained = 0.0
        while damping < _MOST_DAMPING:
            step = np.clip(np.linalg.solve(square + damping * np.diag(scale), way), -_LONGEST_STEP, _LONGEST_STEP)
            moved, begin = {}, 0
            for block, each in zip(blocks, flat, strict=True):
                raw = each * np.exp(step[begin : begin + each.size].reshape(each.shape))
                raw = np.maximum(raw / raw.sum(0), 1e-9)
                moved[block.name] = (raw / raw.sum(0)).reshape(block.shape)
                begin += each.size
            there, turned = tables.slopes(moved)
            gained = tables.score(there) - score
            if gained > 0:
                # A gain close to the prediction: damp less. Far below it: damp more.
                promised = float(step @ way - step @ square @ step / 2)
                damping *= 2 if gained < 0.25 * promised else 1 / 3 if gained > 0.75 * promised else 1
                damping = max(damping, 1e-9)
                here, score, values, slopes = moved, score + gained, there, turned
                break
            damping *= 3
        if report is not None:
            report(score=round(score, 3))
        if gained <= 0:
            break
        poor = poor + 1 if gained < tolerance else 0
    return TableFit(here, score, taken)


def _equations(
    tables: Tables, values: np.ndarray, slopes: list[np.ndarray], flat: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradient with respect to logarithms, the information, and the divisor that EM would use.

    The divisor is the use of each distribution times its elements: damping by it turns a step towards one of EM.
    """
    rows = np.concatenate(
        [
            (each * (slope - np.sum(each * slope, axis=1, keepdims=True))).reshape(len(values), -1)
            for each, slope in zip(flat, slopes, strict=True)
        ],
        axis=1,
    )
    weights = tables.weights / np.maximum(values, _LEAST)
    way, square = rows.T @ (weights * (tables.measured - values)), rows.T @ (weights[:, None] * rows)
    scale = np.concatenate(
        [
            (each * np.sum(each * np.tensordot(weights * tables.measured, slope, 1), axis=0)).reshape(-1)
            for each, slope in zip(flat, slopes, strict=True)
        ]
    )
    return way, square, np.maximum(scale, 1e-9 * scale.max())


def match_tables(tables: Tables, start: Parameters, *, steps: int = 20) -> dict[str, Distributions]:
    """Return parameters whose tables are closer to exact ones, by Gauss-Newton steps without weights or bounds.

    Parameters
    ----------
    tables
        The tables to match; they limit the precision of the parameters.
    start
        Initial parameters.
    steps
        Maximum number of steps.
    """
    model = tables.model
    chart = model.chart(start)
    error = tables.predicted(start) - tables.measured
    for _ in range(steps):
        _, slopes = tables.slopes(model.parameters(chart))
        rows = chart_gradient(model.blocks, slopes, Reals())
        way, *_ = np.linalg.lstsq(rows, -error, rcond=None)
        step = 1.0
        while step > 1e-3:
            moved = tables.predicted(model.parameters(chart + step * way)) - tables.measured
            if np.linalg.norm(moved) < np.linalg.norm(error):
                break
            step /= 2
        else:
            break
        chart, error = chart + step * way, moved
    return model.parameters(chart)
