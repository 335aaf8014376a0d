"""Unmixing: the parameters of a parsing model from moments of sentences (Hsu, Kakade and Liang 2012, section 5).

Moments are mixtures of compound parameters (`sapwood.identifiability.mixing`). Where a compound parameter is in the row
space of the mixing matrix, a weighted sum of moments gives it as if all sentences had the same tree; then matrices are
decomposed as for models with one tree. This *base algorithm* needs no start and has no local maxima, but it uses few of
the moments, and inverts matrices. So it serves as a start: its candidates are compared by all tables of moments, and
the best of them fitted to these, optimally weighted (`sapwood.identifiability.moment_tables`), which also shows how far
the result can be trusted (`sapwood.identifiability.unmixing.fit_diagnostics`).

    pcfg-ie        compounds of three words, from any lengths that determine one (`unmixing.constituency`)
    dep-i, dep-ie  linear equations, from means and pairs of words (`unmixing.dependency`)
    dep-ies        A^2 + A and its roots; or linear (`unmixing.dependency`)
    all others     none: the fit begins at random points, and the best result counts

The last also applies if there are too few lengths, or fewer words than states. For `pcfg-i` no compound of three words
is determined by any lengths up to 6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from sapwood.errors import SapwoodError, UsageError
from sapwood.identifiability.algebra.simplices import Distributions, inwards
from sapwood.identifiability.models.base import Model
from sapwood.identifiability.models.zoo import DepIESModel, DepIModel, PCFGIEModel, StoppingPCFG
from sapwood.identifiability.moment_tables import TableFit, Tables, fit_tables, match_tables
from sapwood.identifiability.moments import MomentSource, Population, Sentences
from sapwood.identifiability.unmixing.constituency import constituent_candidates, known_depths
from sapwood.identifiability.unmixing.dependency import Method, solve_arguments, solve_stationary
from sapwood.identifiability.unmixing.fit_diagnostics import FitDiagnostics, diagnose_fit
from sapwood.runtime.progress import Progress, Silent

__all__ = ["Population", "Sentences", "UncertainAnswer", "Unmixed", "project_to_simplex", "unmix"]

# Number of candidates to fit, steps before half of them are dropped, and steps at the end.
_FINALISTS, _FIRST_STEPS, _STEPS = 3, 15, 100
# Number of draws of random starts if the result does not fit, which often means a local maximum.
_ROUNDS = 3


class UncertainAnswer(UserWarning):
    """The sentences do not determine the parameters well, or the model does not fit them."""


@dataclass(frozen=True, eq=False)
class Unmixed:
    """The result of `unmix`.

    Attributes
    ----------
    parameters
        The estimate.
    start
        The result of the base algorithm alone (the best candidate, projected to the simplex), if there is one.
    base
        The base algorithm: `compounds`, `linear`, `quadratic`; or `search`, if there is none.
    lengths
        Lengths of the sentences that parameters were fitted to.
    evidence
        Standard errors, goodness of fit and warnings; None for exact moments.
    """

    parameters: dict[str, Distributions]
    start: dict[str, Distributions] | None
    base: str
    lengths: tuple[int, ...]
    evidence: FitDiagnostics | None

    def describe(self) -> str:
        """Return a description of the quality of the answer."""
        found = [f"base algorithm  {self.base}", f"lengths         {', '.join(map(str, self.lengths))}"]
        if self.evidence is None:
            return "\n".join([*found, "moments         exact"])
        known = self.evidence
        found += [
            f"sentences       {known.sentences:,}",
            f"misfit          {known.misfit:,.1f}, usual {known.expected:,.1f}, probability {known.probability:.2g}",
            f"largest error   {known.largest_error:.4f} (standard error)",
            *(f"warning         {text}" for text in known.warnings),
        ]
        return "\n".join(found)


@dataclass(frozen=True, kw_only=True)
class UnmixingSettings:
    """Settings of unmixing.

    Attributes
    ----------
    method
        For `dep-ies`: whether to solve for `A` via `A^2 + A` (`"quadratic"`, the default), or directly (`"linear"`).
    refine
        Whether to fit the result of the base algorithm to all moments. False is an error without a base algorithm.
    tries
        For `pcfg-ie`: number of random `tau` that give candidates.
    restarts
        The fit begins at the three best candidates and at this many random points; all but the best are dropped on the
        way. (Twice as many random points without a base algorithm.)
    random_state
        Seed of the random points.
    """

    method: Method | None = None
    refine: bool = True
    tries: int = 30
    restarts: int = 5
    random_state: int = 0

    def check(self, model: Model) -> None:
        """Raise `UsageError` if a setting is invalid for a model."""
        if self.method is not None and (not isinstance(model, DepIESModel) or self.method not in get_args(Method)):
            raise UsageError(f"method is one of {', '.join(get_args(Method))}, and for dep-ies only")
        if self.tries < 1 or self.restarts < 0:
            raise UsageError("tries must be at least 1, and restarts at least 0")


def unmix(
    model: Model,
    source: MomentSource,
    *,
    lengths: Sequence[int] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Unmixed:
    """Estimate the parameters of a model from its moments, with their reliability.

    Parameters
    ----------
    model
        Any model. For `pcfg-ie`, `dep-i`, `dep-ie` and `dep-ies` there are base algorithms.
    source
        Exact moments (`Population`), or those of a sample (`Sentences`).
    lengths
        Lengths of sentences to use; by default all of the source.
    progress
        Progress display.
    settings
        Those of `UnmixingSettings`: `method`, `refine`, `tries`, `restarts` and `random_state`.

    Warns
    -----
    UncertainAnswer
        If there are too few sentences, if they do not determine the parameters, or if the model does not fit them.

    Examples
    --------
    >>> from sapwood.identifiability.models.zoo import make_model
    >>> model = make_model("dep-ies", words=3)
    >>> truth = {"A": np.array([[0.6, 0.1, 0.3], [0.3, 0.1, 0.6], [0.1, 0.8, 0.1]])}
    >>> unmix(model, Population(model, truth, [2, 3])).parameters["A"].round(6)
    array([[0.6, 0.1, 0.3],
           [0.3, 0.1, 0.6],
           [0.1, 0.8, 0.1]])
    """
    chosen = UnmixingSettings(**settings)
    used = list(source.lengths) if lengths is None else sorted(set(lengths))
    if missing := set(used) - set(source.lengths):
        raise UsageError(f"there are no moments of sentences of length {', '.join(map(str, sorted(missing)))}")
    chosen.check(model)
    rng = np.random.default_rng(chosen.random_state)
    tables = Tables(model, source, used)
    base, found = _candidates(model, source, used, chosen, rng)
    candidates = [{name: project_to_simplex(array) for name, array in each.items()} for each in found]
    start = None
    if candidates:
        candidates = _ranked(model, source, tables, candidates)
        start = candidates[0]
    elif base != "search":
        raise SapwoodError("no parameters fit these moments: too few sentences, too many states, or a singular T or O")
    evidence = None
    if not chosen.refine:
        assert start is not None
        parameters = start
        evidence = diagnose_fit(tables, source, parameters) if isinstance(source, Sentences) else None
    else:
        with (progress or Silent()).stage("fit", None, "steps") as stage:
            parameters, evidence = _fitted(tables, source, candidates[:_FINALISTS], chosen.restarts, rng, stage.step)
        if source.exact:
            parameters = _exactly(tables, start, parameters)
    for text in evidence.warnings if evidence is not None else ():
        warnings.warn(text, UncertainAnswer, stacklevel=2)
    return Unmixed(parameters, start, base, tuple(tables.lengths), evidence)


def _candidates(
    model: Model,
    source: MomentSource,
    lengths: Sequence[int],
    settings: UnmixingSettings,
    rng: np.random.Generator,
) -> tuple[str, list[dict[str, np.ndarray]]]:
    """Return the name of the base algorithm and its candidates."""
    method, needed = settings.method or "quadratic", not settings.refine
    if isinstance(model, PCFGIEModel) and not isinstance(model, StoppingPCFG):
        if needed or (model.words >= model.states and known_depths(lengths)):
            return "compounds", list(constituent_candidates(model, source, lengths, settings.tries, rng))
    elif isinstance(model, DepIESModel):
        return method, [solve_stationary(model, source, lengths, method)]
    elif isinstance(model, DepIModel):
        solved = solve_arguments(model, source, lengths)
        if solved is not None:
            return "linear", [solved]
        if needed:
            raise UsageError(
                f"sentences of these lengths do not determine {model.name} by linear equations; add others"
            )
    if needed:
        raise UsageError(f"there is no base algorithm for {model.name}; leave refine on")
    return "search", []


def _ranked(
    model: Model, source: MomentSource, tables: Tables, candidates: list[dict[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
    """Return candidates, those that fit the tables of the shortest sentences best first."""
    if len(candidates) == 1:
        return candidates
    few = Tables(model, source, [min((n for n in tables.lengths if n >= 3), default=tables.lengths[-1])])
    scores = [
        few.score(few.predicted({name: inwards(array, 1e-3) for name, array in each.items()})) for each in candidates
    ]
    return [candidates[number] for number in np.argsort(-np.array(scores), kind="stable")]


def _fitted(
    tables: Tables,
    source: MomentSource,
    starts: Sequence[dict[str, np.ndarray]],
    restarts: int,
    rng: np.random.Generator,
    report: Callable[..., None],
) -> tuple[dict[str, np.ndarray], FitDiagnostics | None]:
    """Return the best fit from some starts and random ones, with as many random ones again while it does not fit."""
    if not starts:
        restarts = max(2 * restarts, 1)
    best = _race(tables, [*starts, *(tables.model.random(rng) for _ in range(restarts))], report)
    if not isinstance(source, Sentences):
        return best.parameters, None
    evidence = diagnose_fit(tables, source, best.parameters)
    for _ in range(_ROUNDS - 1 if restarts else 0):
        if evidence.fits:
            break
        other = _race(tables, [tables.model.random(rng) for _ in range(restarts)], report)
        if other.score > best.score:
            best, evidence = other, diagnose_fit(tables, source, other.parameters)
    return best.parameters, evidence


def _race(tables: Tables, starts: Sequence[dict[str, np.ndarray]], report: Callable[..., None]) -> TableFit:
    """Fit from all starts for a few steps, continue with the better half, and so on until one is left."""
    fits = [TableFit(each, 0.0, 0) for each in starts]
    while len(fits) > 1:
        fits = [fit_tables(tables, each.parameters, steps=_FIRST_STEPS, report=report) for each in fits]
        fits = sorted(fits, key=lambda fit: -fit.score)[: len(fits) // 2]
    return fit_tables(tables, fits[0].parameters, steps=_STEPS, report=report)


def _exactly(
    tables: Tables, start: dict[str, np.ndarray] | None, fitted: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the best match of exact tables from either start, each column projected to the simplex."""
    found = []
    for place in (start, fitted):
        if place is not None:
            matched = match_tables(tables, place)
            found.append({name: project_to_simplex(array) for name, array in matched.items()})
    return min(found, key=lambda each: float(np.sum((tables.predicted(each) - tables.measured) ** 2)))


def project_to_simplex(columns: Distributions) -> Distributions:
    """Return the nearest probability distribution to each column (or to a vector), in Euclidean distance.

    Examples
    --------
    >>> project_to_simplex(np.array([0.5, 0.7, -0.1]))
    array([0.4, 0.6, 0. ])
    """
    table = columns.reshape(len(columns), -1)
    ordered = -np.sort(-table, axis=0)
    surplus = (np.cumsum(ordered, axis=0) - 1) / np.arange(1, len(table) + 1)[:, None]
    last = np.sum(ordered > surplus, axis=0) - 1
    threshold = np.take_along_axis(surplus, last[None], axis=0)
    return np.maximum(table - threshold, 0).reshape(columns.shape)
