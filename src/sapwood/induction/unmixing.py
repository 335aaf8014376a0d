"""Unmixing: the parameters of a parsing model from moments of sentences (Hsu, Kakade and Liang 2012, section 5).

Moments are mixtures of compound parameters (`sapwood.induction.mixing`). Where a compound parameter is in the row space
of the mixing matrix, a weighted sum of moments gives it as if all sentences had the same tree; then matrices are
decomposed as for models with one tree. This *base algorithm* needs no start and has no local maxima, but it looks at
few of the moments, and inverts matrices. So it is a start: candidates that it gives are compared by all tables of
moments, and the best of them fitted to these, optimally weighted (`sapwood.induction.tables`), which also tells how
far the result can be trusted (`sapwood.induction.evidence`).

    pcfg-ie        compounds of three words, from any lengths that determine one     sapwood.induction.compounds
    dep-i, dep-ie  linear equations, from means and pairs of words                   sapwood.induction.arguments
    dep-ies        A^2 + A and its roots; or linear                                  sapwood.induction.arguments
    all others     none: the fit begins at random places, and the best end counts

The last also holds where there are too few lengths, or fewer words than states. For `pcfg-i` no compound of three words
is determined by any lengths up to 6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from sapwood.errors import SapwoodError, UsageError
from sapwood.induction.arguments import Method, solve_arguments, solve_stationary
from sapwood.induction.compounds import constituent_candidates, known_depths
from sapwood.induction.evidence import Evidence, weigh
from sapwood.induction.model import Model
from sapwood.induction.models import DepIESModel, DepIModel, PCFGIEModel, StoppingPCFG
from sapwood.induction.moments import Population, Sentences, Source
from sapwood.induction.simplices import Distributions, inwards
from sapwood.induction.tables import TableFit, Tables, fit_tables, match_tables
from sapwood.run.progress import Progress, Silent

__all__ = ["Population", "Sentences", "UncertainAnswer", "Unmixed", "project_to_simplex", "unmix"]

# How many candidates are fitted, for how many steps before half of them are dropped, and for how many at the end.
_FINALISTS, _FIRST_STEPS, _STEPS = 3, 15, 100
# How often random starts are drawn, if what was found does not fit: then it is often a local maximum.
_ROUNDS = 3


class UncertainAnswer(UserWarning):
    """The sentences do not determine the parameters well, or the model does not fit them."""


@dataclass(frozen=True, eq=False)
class Unmixed:
    """The answer of `unmix`.

    Attributes
    ----------
    parameters
        The estimate.
    start
        What the base algorithm alone gives (the best candidate, projected to the probabilities), if there is one.
    base
        Which base algorithm it was: `compounds`, `linear`, `quadratic`; or `search`, where there is none.
    lengths
        Of the sentences that parameters were fitted to.
    evidence
        Standard errors, goodness of fit and warnings; None for exact moments.
    """

    parameters: dict[str, Distributions]
    start: dict[str, Distributions] | None
    base: str
    lengths: tuple[int, ...]
    evidence: Evidence | None

    def describe(self) -> str:
        """Return how good the answer is, in words."""
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


def unmix(
    model: Model,
    source: Source,
    *,
    lengths: Sequence[int] | None = None,
    method: Method | None = None,
    refine: bool = True,
    tries: int = 30,
    restarts: int = 5,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Unmixed:
    """Return the parameters of a model from its moments, with what they are worth.

    Parameters
    ----------
    model
        Any model. For `pcfg-ie`, `dep-i`, `dep-ie` and `dep-ies` there are base algorithms.
    source
        Exact moments (`Population`), or those of a sample (`Sentences`).
    lengths
        Lengths of sentences to use; all that the source has, if not given.
    method
        For `dep-ies`: whether to solve for `A` by way of `A^2 + A` (`"quadratic"`, if not given), or directly
        (`"linear"`).
    refine
        Whether to fit what the base algorithm gives to all moments. If not, this is an error where there is none.
    tries
        For `pcfg-ie`: how many random `tau` to take candidates from.
    restarts
        The fit begins at the three best candidates and at so many random places; all but the best are dropped on the
        way. (At twice as many random places, where there is no base algorithm.)
    random_state
        Their seed.
    progress
        What to report to.

    Warns
    -----
    UncertainAnswer
        If there are too few sentences, if they do not determine the parameters, or if the model does not fit them.

    Examples
    --------
    >>> from sapwood.induction.models import make_model
    >>> model = make_model("dep-ies", words=3)
    >>> truth = {"A": np.array([[0.6, 0.1, 0.3], [0.3, 0.1, 0.6], [0.1, 0.8, 0.1]])}
    >>> unmix(model, Population(model, truth, [2, 3])).parameters["A"].round(6)
    array([[0.6, 0.1, 0.3],
           [0.3, 0.1, 0.6],
           [0.1, 0.8, 0.1]])
    """
    used = list(source.lengths) if lengths is None else sorted(set(lengths))
    if missing := set(used) - set(source.lengths):
        raise UsageError(f"there are no moments of sentences of length {', '.join(map(str, sorted(missing)))}")
    if method is not None and (not isinstance(model, DepIESModel) or method not in get_args(Method)):
        raise UsageError(f"method is one of {', '.join(get_args(Method))}, and for dep-ies only")
    if tries < 1 or restarts < 0:
        raise UsageError("tries must be at least 1, and restarts at least 0")
    rng = np.random.default_rng(random_state)
    tables = Tables(model, source, used)
    base, found = _candidates(model, source, used, method or "quadratic", tries, rng, needed=not refine)
    candidates = [{name: project_to_simplex(array) for name, array in each.items()} for each in found]
    start = None
    if candidates:
        candidates = _ranked(model, source, tables, candidates)
        start = candidates[0]
    elif base != "search":
        raise SapwoodError("no parameters fit these moments: too few sentences, too many states, or a singular T or O")
    evidence = None
    if not refine:
        assert start is not None
        parameters = start
        evidence = weigh(tables, source, parameters) if isinstance(source, Sentences) else None
    else:
        with (progress or Silent()).stage("fit", None, "steps") as stage:
            parameters, evidence = _fitted(tables, source, candidates[:_FINALISTS], restarts, rng, stage.step)
        if source.exact:
            parameters = _exactly(tables, start, parameters)
    for text in evidence.warnings if evidence is not None else ():
        warnings.warn(text, UncertainAnswer, stacklevel=2)
    return Unmixed(parameters, start, base, tuple(tables.lengths), evidence)


def _candidates(
    model: Model,
    source: Source,
    lengths: Sequence[int],
    method: Method,
    tries: int,
    rng: np.random.Generator,
    *,
    needed: bool,
) -> tuple[str, list[dict[str, np.ndarray]]]:
    """Return the name of the base algorithm and what it gives."""
    if isinstance(model, PCFGIEModel) and not isinstance(model, StoppingPCFG):
        if needed or (model.words >= model.states and known_depths(lengths)):
            return "compounds", list(constituent_candidates(model, source, lengths, tries, rng))
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
    model: Model, source: Source, tables: Tables, candidates: list[dict[str, np.ndarray]]
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
    source: Source,
    starts: Sequence[dict[str, np.ndarray]],
    restarts: int,
    rng: np.random.Generator,
    report: Callable[..., None],
) -> tuple[dict[str, np.ndarray], Evidence | None]:
    """Return the best fit from some starts and random ones, with as many random ones again while it is no fit."""
    if not starts:
        restarts = max(2 * restarts, 1)
    best = _race(tables, [*starts, *(tables.model.random(rng) for _ in range(restarts))], report)
    if not isinstance(source, Sentences):
        return best.parameters, None
    evidence = weigh(tables, source, best.parameters)
    for _ in range(_ROUNDS - 1 if restarts else 0):
        if evidence.fits:
            break
        other = _race(tables, [tables.model.random(rng) for _ in range(restarts)], report)
        if other.score > best.score:
            best, evidence = other, weigh(tables, source, other.parameters)
    return best.parameters, evidence


def _race(tables: Tables, starts: Sequence[dict[str, np.ndarray]], report: Callable[..., None]) -> TableFit:
    """Fit from all starts for a few steps, go on with the better half, and so on until one is left."""
    fits = [TableFit(each, 0.0, 0) for each in starts]
    while len(fits) > 1:
        fits = [fit_tables(tables, each.parameters, steps=_FIRST_STEPS, report=report) for each in fits]
        fits = sorted(fits, key=lambda fit: -fit.score)[: len(fits) // 2]
    return fit_tables(tables, fits[0].parameters, steps=_STEPS, report=report)


def _exactly(
    tables: Tables, start: dict[str, np.ndarray] | None, fitted: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what matches exact tables best, from either place, each column projected to the probabilities."""
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
