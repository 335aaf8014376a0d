"""Standard errors, goodness of fit and warnings for estimates from tables of moments.

With derivatives `J` of the cells and their weights `W` (`sapwood.identifiability.moment_tables`), an estimate is off by
about `(J^T W J)^-1 J^T W (m - mu)`, and its covariance is `D^-1 V D^-1` with `D = J^T W J`, the information, and `V`,
the covariance of `J^T W m`. That is a sum of one vector for each sentence, so `V` is the sum of their squares, and
overlapping tables cause no difficulty. Up to length 3 `V` is `D`, and this is the inverse of the information.

The misfit `Q = sum of W (m - mu)^2` would have a chi-square distribution if tables did not overlap. Since they do, it
is approximated by a multiple of one, whose mean and variance are also sums over sentences and pairs of sentences
(Satterthwaite; a sample of pairs is enough).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special

from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.algebra.simplices import (
    Distributions,
    Parameters,
    chart_gradient,
    inwards,
    whole_direction,
)
from sapwood.identifiability.moment_tables import Tables
from sapwood.identifiability.moments import Sentences
from sapwood.storage.shapes import Array, Float

# Sentences of each length whose pairs estimate the variance of the misfit.
_COMPARED = 400
# Probabilities with a larger standard error count as unknown, as do parameters of directions with less information,
# relative to the largest.
_UNKNOWN = 0.25
_NO_INFORMATION = 1e-12
# Probability with which a correct model may fit worse.
_RARE = 1e-3
# Minimum number of sentences per parameter for asymptotic errors to be meaningful.
_FEW = 10


@dataclass(frozen=True, eq=False)
class FitDiagnostics:
    """Reliability of an estimate.

    Attributes
    ----------
    sentences
        Number of sentences.
    covariance
        Covariance of the free coordinates (`sapwood.identifiability.algebra.simplices`). Infinite if they are not
        determined.
    standard_errors
        Standard errors of all parameters.
    misfit, expected, degrees
        The weighted sum of squares; its mean if the model is right; and the degrees of freedom of the chi-square
        distribution of which it is then a multiple.
    probability
        Probability of a fit at least as bad, if the model is right.
    warnings
        Reasons not to trust the answer; empty if there are none.
    """

    sentences: int
    covariance: Float[Array, "coordinates coordinates"]
    standard_errors: dict[str, Distributions]
    misfit: float
    expected: float
    degrees: float
    probability: float
    warnings: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        """The largest standard error."""
        return max(float(np.max(array)) for array in self.standard_errors.values())

    @property
    def fits(self) -> bool:
        """Whether the data reject neither the model nor this maximum."""
        return self.probability >= _RARE

    def sentences_for(self, error: float) -> float:
        """Return the approximate number of sentences for which no standard error is larger than this."""
        return self.sentences * (self.largest_error / error) ** 2


def diagnose_fit(tables: Tables, source: Sentences, parameters: Parameters) -> FitDiagnostics:
    """Return the reliability of parameters that fit tables.

    Parameters
    ----------
    tables
        Tables of the source.
    source
        The sentences.
    parameters
        The estimate; elements near zero are raised a little.
    """
    model = tables.model
    inner = {name: inwards(np.asarray(array, float), 1e-4) for name, array in parameters.items()}
    values, slopes = tables.slopes(inner)
    rows = chart_gradient(model.blocks, slopes, Reals())
    weights = tables.weights / values
    information = rows.T @ (weights[:, None] * rows)
    sizes, basis = np.linalg.eigh(information)
    known = sizes > _NO_INFORMATION * sizes.max(initial=0.0)
    inverse = (basis[:, known] / sizes[known]) @ basis[:, known].T
    # For each different sentence: the sum over its tables of the weighted derivatives of its cell.
    vectors, kinds = {}, {}
    square = np.zeros_like(information)
    for length in tables.lengths:
        sentences, counts = source.groups[length]
        parts = [part for part in tables.parts if part.length == length]
        vectors[length] = sum(
            part.balance * rows[place] / values[place, None]
            for part in parts
            for place in [tables.places(sentences, part)]
        )
        kinds[length] = sentences, counts
        square += vectors[length].T @ (counts[:, None] * vectors[length])
    covariance = inverse @ square @ inverse
    whole = whole_direction(model.blocks, np.eye(len(covariance)), Reals())
    errors = {}
    for block in model.blocks:
        moves = whole[block.name]
        variance = np.einsum("acv,vw,acw->ac", moves, covariance, moves)
        lost = np.einsum("acv,vw->acw", moves, basis[:, ~known])
        variance[np.abs(lost).max(axis=2, initial=0.0) > 1e-6] = np.inf
        errors[block.name] = np.sqrt(np.maximum(variance, 0)).reshape(block.shape)
    misfit = float(np.sum(weights * (tables.measured - values) ** 2))
    expected = sum(part.balance * (part.cells.stop - part.cells.start - 1) for part in tables.parts)
    expected -= float(np.trace(inverse @ square))
    variance = _second_moment(tables, kinds, vectors, inverse, values)
    degrees = expected**2 / variance if expected > 0 and variance > 0 else 0.0
    chance = float(scipy.special.chdtrc(degrees, misfit * expected / variance)) if degrees else 1.0
    total = int(sum(source.precision(length) for length in tables.lengths))
    found = FitDiagnostics(total, covariance, errors, misfit, max(expected, 0.0), degrees, chance, ())
    return FitDiagnostics(**{**vars(found), "warnings": _warnings(found, tables)})


def _second_moment(
    tables: Tables,
    kinds: dict[int, tuple[np.ndarray, np.ndarray]],
    vectors: dict[int, np.ndarray],
    inverse: np.ndarray,
    values: np.ndarray,
) -> float:
    """Return half of the misfit's variance: the mean over pairs of sentences of their squared interaction."""
    rng = np.random.default_rng(0)
    drawn = {}
    for length, (sentences, counts) in kinds.items():
        which = rng.choice(len(counts), _COMPARED, p=counts / counts.sum())
        drawn[length] = sentences[which], vectors[length][which], float(counts.sum())
    total = 0.0
    for one, (first, left, here) in drawn.items():
        for two, (second, right, there) in drawn.items():
            acting = -left @ inverse @ right.T
            if one == two:
                for part in (part for part in tables.parts if part.length == one):
                    place, other = tables.places(first, part), tables.places(second, part)
                    acting += part.balance / here * ((place[:, None] == other) / values[place][:, None] - 1)
                np.fill_diagonal(acting, 0.0)  # pairs of different sentences, drawn independently
            pairs = acting.size - (len(acting) if one == two else 0)
            total += here * there * float(np.sum(acting**2)) / pairs
    return total


def _warnings(found: FitDiagnostics, tables: Tables) -> tuple[str, ...]:
    model, said = tables.model, []
    lengths = ", ".join(map(str, tables.lengths))
    least = _FEW * model.n_parameters
    if found.sentences < least:
        said.append(
            f"{found.sentences:,} sentences are few for {model.n_parameters} parameters: these can be anything, and so "
            f"can their standard errors; take at least {least:,}"
        )
    if not np.isfinite(found.largest_error):
        said.append(f"sentences of length {lengths} do not determine all parameters; add other lengths")
    elif found.largest_error > _UNKNOWN:
        said.append(
            f"the largest standard error of a parameter is {found.largest_error:.2g}: these sentences do not tell it; "
            f"for 0.05 it would take about {found.sentences_for(0.05):.0e} of them"
        )
    if not found.fits:
        said.append(
            f"the model does not fit, or this is a local maximum: a misfit of {found.misfit:,.0f}, where "
            f"{found.expected:,.0f} would be usual, has a probability of {found.probability:.0e}"
        )
    return tuple(said)
