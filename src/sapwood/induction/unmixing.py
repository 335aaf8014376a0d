"""Unmixing: parameters of `pcfg-ie` and `dep-ies` from moments, without iterations (Hsu, Kakade and Liang, section 5).

Moments are mixtures of compound parameters (`sapwood.induction.mixing`). Where a compound parameter is in the row space
of the mixing matrix, a weighted sum of moments gives it as if all sentences had the same tree; then matrices are
decomposed as for models with one tree.

**pcfg-ie** (5.2). With `A = O T`, two compound parameters are known for any `eta`: those of three words in which the
first word is the lone one, and the last,

    Psi_eta = A diag(pi) T^T diag(A^T eta) A^T,     Phi_eta = A diag(T diag(pi) A^T eta) A^T.

Both `Psi_1`, `Psi_tau` (as in the paper) and `Phi_1`, `Phi_tau` (symmetric, so that eigenvalues are real whatever the
noise) give the columns of `A` by `decompose`, and the rest is solved for. Of the results for many random `tau` the one
is taken whose own compound parameters are closest to the measured ones. Besides each moment its transpose is used,
which is a mixture of the same compound parameters. Exact moments are matched once more by Gauss-Newton steps: where `T`
or `O` are nearly singular, inverting them has cost many digits.

**dep-ies** (5.3). From sentences of lengths 2 and 3, `A^2 + A` is known, and so are the eigenvectors of `A`. Of each
eigenvalue `s` of `A^2 + A` there are two roots `(-1 +- sqrt(1 + 4 s)) / 2`, and both can be right; all moments together
decide. From lengths up to 5 or more the mixing matrix has full rank, and `A diag(pi)` is itself a weighted sum of
moments (`method="linear"`): simpler than what the paper has, but the sum has large weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from sapwood.errors import SapwoodError, UsageError
from sapwood.induction.mixing import Key, Mixing, constituency_mixing, dependency_mixing
from sapwood.induction.model import Model
from sapwood.induction.models import DepIESModel, PCFGIEModel, StoppingPCFG
from sapwood.induction.moment_maps import ModelMoments
from sapwood.induction.moments import Joint, Population, Sentences, Source, exact_joint
from sapwood.induction.simplices import Distributions, Parameters
from sapwood.shapes import Array, Float

__all__ = ["Compounds", "Population", "Sentences", "decompose", "match_moments", "project_to_simplex", "unmix"]

Method = Literal["quadratic", "linear"]
# Weights below this part of the largest are zero but for rounding.
_NOTHING = 1e-10
# The compound parameters of three words of pcfg-ie: the first word is the lone one, or the last.
_FIRST_ALONE: Key = (0, 0, 1, 1, 1, 1)
_LAST_ALONE: Key = (2, 0, 1, 1, 1, 1)
# How many random vectors candidates are compared by.
_COMPARED = 6


def unmix(
    model: Model,
    source: Source,
    *,
    lengths: Sequence[int] | None = None,
    method: Method = "quadratic",
    tries: int = 30,
    random_state: int = 0,
) -> dict[str, Distributions]:
    """Return the parameters of a model from its moments, each column projected to the probabilities.

    Parameters
    ----------
    model
        `pcfg-ie` or `dep-ies`.
    source
        Exact moments (`Population`), or those of a sample (`Sentences`).
    lengths
        Lengths of sentences to use; all that the source has, if not given. `pcfg-ie` needs 3, `dep-ies` 2 and 3 (or,
        by the linear method, five lengths or more).
    method
        For `dep-ies`: whether to solve for `A` by way of `A^2 + A`, or directly.
    tries
        For `pcfg-ie`: how many random `tau` to choose from.
    random_state
        Their seed.

    Examples
    --------
    >>> from sapwood.induction.models import make_model
    >>> model = make_model("dep-ies", words=3)
    >>> truth = {"A": np.array([[0.6, 0.1, 0.3], [0.3, 0.1, 0.6], [0.1, 0.8, 0.1]])}
    >>> unmix(model, Population(model, truth, [2, 3]))["A"].round(6)
    array([[0.6, 0.1, 0.3],
           [0.3, 0.1, 0.6],
           [0.1, 0.8, 0.1]])
    """
    used = list(source.lengths) if lengths is None else sorted(set(lengths))
    if missing := set(used) - set(source.lengths):
        raise UsageError(f"there are no moments of sentences of length {', '.join(map(str, sorted(missing)))}")
    if isinstance(model, PCFGIEModel) and not isinstance(model, StoppingPCFG):
        found = _unmix_constituents(model, source, used, tries, random_state)
        if source.exact:
            target = source.joint(3, np.ones(model.words))((0, 1, 2), None)
            near = {name: project_to_simplex(array) for name, array in found.items()}
            found = match_moments(model, near, target, "123", 3)
    elif isinstance(model, DepIESModel):
        if method not in get_args(Method):
            raise UsageError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
        found = _unmix_dependencies(model, source, used, method)
    else:
        raise UsageError(f"unmixing is known for pcfg-ie and dep-ies, not for {model.name}")
    return {name: project_to_simplex(array) for name, array in found.items()}


class Compounds:
    """Combinations of compound parameters, as weighted sums of moments and their transposes.

    Parameters
    ----------
    mixing
        The mixing matrix of the lengths to use.
    wanted
        The combinations.
    source
        Where moments come from.
    """

    def __init__(self, mixing: Mixing, wanted: Sequence[Mapping[Key, float]], source: Source) -> None:
        precision = np.array([source.precision(observation[0]) for observation in mixing.observations])
        weights = mixing.with_transposes().weights(wanted, np.tile(precision, 2))
        self.source = source
        self.observations = mixing.observations
        self.straight, self.crossed = np.split(weights, 2, axis=1)
        self.used = np.abs(weights).reshape(len(wanted), 2, -1).max((0, 1)) > _NOTHING * np.abs(weights).max()

    def __call__(self, eta: np.ndarray) -> np.ndarray:
        """Return the combinations, `(wanted, words, words)`."""
        found = np.zeros((len(self.straight), len(eta), len(eta)))
        joints: dict[int, Joint] = {}
        for number in np.flatnonzero(self.used):
            length, i, j, *other = self.observations[number]
            if length not in joints:
                joints[length] = self.source.joint(length, eta)
            moment = joints[length]((i, j), other[0] if other else None)
            found += self.straight[:, number, None, None] * moment + self.crossed[:, number, None, None] * moment.T
        return found


def decompose(
    x: Float[Array, "words words"], y: Float[Array, "words words"], rank: int
) -> Float[Array, "words rank"] | None:
    """Return `M_1` from `X = M_1 M_2^T` and `Y = M_1 D M_2^T`, up to order and scale of its columns (Lemma 1).

    Both are of this rank; if both are symmetric, so is what is decomposed. None if eigenvalues are not real, which
    noise can do.
    """
    if np.array_equal(x, x.T) and np.array_equal(y, y.T):
        values, basis = np.linalg.eigh(x)
        largest = np.argsort(-values)[:rank]
        if values[largest[-1]] > 0:
            root = np.sqrt(values[largest])
            white = basis[:, largest] / root
            return np.asarray((basis[:, largest] * root) @ np.linalg.eigh(white.T @ y @ white)[1])
    left, _, right = np.linalg.svd(x)
    left, right = left[:, :rank], right[:rank].T
    found, vectors = np.linalg.eig(left.T @ y @ right @ np.linalg.inv(left.T @ x @ right))
    if np.iscomplexobj(found) and np.abs(found.imag).max() > 1e-6 * np.abs(found).max():
        return None
    return np.asarray(left @ vectors.real)


def _unmix_constituents(
    model: PCFGIEModel, source: Source, lengths: Sequence[int], tries: int, random_state: int
) -> dict[str, np.ndarray]:
    if 3 not in lengths:
        raise UsageError("pcfg-ie is unmixed from sentences of length 3, with others or alone")
    if model.words < model.states:
        raise UsageError("unmixing pcfg-ie takes at least as many words as states")
    mixing = constituency_mixing([length for length in lengths if length >= 3])
    ways = np.random.default_rng(random_state).standard_normal((max(tries, _COMPARED), model.words))
    etas = [np.ones(model.words), *ways]
    compounds = Compounds(mixing, [{_FIRST_ALONE: 1.0}, {_LAST_ALONE: 1.0}], source)
    pairs = [compounds(eta) for eta in etas]
    psi, phi = [pair[0] for pair in pairs], [(pair[1] + pair[1].T) / 2 for pair in pairs]
    best, least = None, np.inf
    for number in range(1, len(etas)):
        for columns in (
            decompose(psi[0].T, psi[number].T, model.states),
            decompose(phi[0], phi[number], model.states),
        ):
            with np.errstate(all="ignore"):
                candidate = None if columns is None else _solve(columns, psi[0])
            if candidate is None:
                continue
            nearest = {name: project_to_simplex(array) for name, array in candidate.items()}
            distance = _distance(nearest, etas[: _COMPARED + 1], psi, phi)
            if distance < least:
                best, least = candidate, distance
    if best is None:
        raise SapwoodError("no parameters fit these moments: too few sentences, too many states, or a singular T or O")
    return best


def _solve(columns: np.ndarray, psi: np.ndarray) -> dict[str, np.ndarray] | None:
    """Return the parameters, given the columns of `A` up to scale, and `Psi_1`."""
    emitted = columns / columns.sum(0)
    if not np.all(np.isfinite(emitted)):
        return None
    back = np.linalg.pinv(emitted)
    pi = back @ psi.sum(1)
    children = back @ psi.T @ back.T / pi
    if not np.all(np.isfinite(children)) or np.linalg.cond(children) > 1e14:
        return None
    return {"pi": pi, "T": children, "O": emitted @ np.linalg.inv(children)}


def _distance(
    parameters: Parameters, etas: Sequence[np.ndarray], psi: Sequence[np.ndarray], phi: Sequence[np.ndarray]
) -> float:
    """Return how far a model's compound parameters are from the measured ones."""
    pi, children = parameters["pi"], parameters["T"]
    emitted, total = parameters["O"] @ children, 0.0
    for eta, measured, other in zip(etas, psi, phi, strict=False):
        mean = eta @ emitted
        total += float(np.sum((emitted * pi @ children.T * mean @ emitted.T - measured) ** 2))
        total += float(np.sum((emitted * (children @ (pi * mean)) @ emitted.T - other) ** 2))
    return total if np.isfinite(total) else np.inf


def match_moments(
    model: Model, parameters: Parameters, target: Float[Array, "..."], name: str, length: int, *, steps: int = 20
) -> dict[str, Distributions]:
    """Return parameters whose moments are closer to a target, by Gauss-Newton steps (the derivatives are exact).

    Parameters
    ----------
    model, parameters
        Where to begin.
    target
        What `exact_joint` should give for the first words, as `12`, `123` or `all`, `(words, ...)`.
    name, length
        Of the moments.
    steps
        At most so many.
    """
    source = ModelMoments(model, [name], [length])
    positions = tuple(range(target.ndim))
    chart, rng = model.chart(parameters), np.random.default_rng(0)

    def residual(at: np.ndarray) -> np.ndarray:
        found = exact_joint(model, model.parameters(at), length, np.ones(model.words))(positions, None)
        return (found - target).reshape(-1)

    error = residual(chart)
    for _ in range(steps):
        rows = np.concatenate(list(source.jacobian(model.parameters(chart), rng)))
        way, *_ = np.linalg.lstsq(rows, -error, rcond=None)
        step = 1.0
        while step > 1e-3:
            moved = residual(chart + step * way)
            if np.linalg.norm(moved) < np.linalg.norm(error):
                break
            step /= 2
        else:
            break
        chart, error = chart + step * way, moved
    return model.parameters(chart)


def _unmix_dependencies(
    model: DepIESModel, source: Source, lengths: Sequence[int], method: Method
) -> dict[str, np.ndarray]:
    mixing = dependency_mixing([length for length in lengths if length >= 2])
    ones = np.ones(model.words)
    parts = [
        (source.joint(length, ones)((i,), None), source.precision(length)) for length in lengths for i in range(length)
    ]
    pi = np.average([part for part, _ in parts], axis=0, weights=[precision for _, precision in parts])
    if np.any(pi <= 0):
        raise UsageError("some words are in none of the sentences; leave them out of the model")
    if method == "linear":
        return {"A": Compounds(mixing, [{(1, 0): 1.0}], source)(ones)[0] / pi}
    wanted: list[Mapping[Key, float]] = [{(1, 0): 1.0, (2, 0): 1.0}, {(1, 0): 1.0, (0, 1): 1.0}]
    square, symmetric = Compounds(mixing, wanted, source)(ones)
    roots = _Roots(square / pi)
    chosen = roots.near(symmetric, pi)
    joints = {length: source.joint(length, ones) for length in {length for length, *_ in mixing.observations}}
    measured = np.array([joints[length]((i, j), None) for length, i, j in mixing.observations])
    weights = np.array([source.precision(length) for length, *_ in mixing.observations])

    def misfit(choice: np.ndarray) -> float:
        """Return how far the moments of a choice are from the measured ones."""
        powers = [np.eye(model.words)]
        for _ in range(max(max(key) for key in mixing.compounds)):
            powers.append(powers[-1] @ roots.matrix(choice))
        compounds = np.array([powers[up] * pi @ powers[down].T for up, down in mixing.compounds])
        return float(np.sum(weights[:, None, None] * (np.tensordot(mixing.matrix, compounds, 1) - measured) ** 2))

    return {"A": roots.matrix(roots.improve(chosen, misfit))}


class _Roots:
    """The matrices `A` with a given `A^2 + A`: one for each choice of a root for each eigenvalue.

    Eigenvalues are real, or pairs of conjugate numbers, for which the same root is chosen; and one of `A` is 1.
    """

    def __init__(self, square: np.ndarray) -> None:
        found, self.vectors = np.linalg.eig(square.astype(complex))
        self.rows = np.linalg.inv(self.vectors)
        root = np.sqrt(1 + 4 * found)
        self.both = np.array([(-1 + root) / 2, (-1 - root) / 2])
        # Which eigenvalue is each one's conjugate (itself, if it is real).
        self.partner = np.array([int(np.argmin(np.abs(found - value.conjugate()))) for value in found])
        self.known = int(np.argmin(np.abs(found - 2)))

    def matrix(self, choice: np.ndarray) -> np.ndarray:
        """Return `A`, given 0 or 1 for each eigenvalue."""
        values = self.both[choice, np.arange(len(choice))]
        return np.asarray(((self.vectors * values) @ self.rows).real)

    def near(self, symmetric: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """Return the choice that `A diag(pi) + diag(pi) A^T` suggests: it is linear in the eigenvalues of `A`."""
        parts = [np.outer(self.vectors[:, i], self.rows[i] * pi) for i in range(len(pi))]
        equations = np.array([(part + part.T).reshape(-1) for part in parts]).T
        values, *_ = np.linalg.lstsq(equations, symmetric.reshape(-1).astype(complex), rcond=None)
        choice = np.argmin(np.abs(self.both - values), axis=0)
        choice[[self.known, self.partner[self.known]]] = 0
        return np.where(np.arange(len(pi)) <= self.partner, choice, choice[self.partner])

    def improve(self, choice: np.ndarray, misfit: Callable[[np.ndarray], float]) -> np.ndarray:
        """Return a choice that no change for a single eigenvalue, with its conjugate, makes fit better."""
        least, changed = misfit(choice), True
        while changed:
            changed = False
            for number in np.flatnonzero(np.arange(len(choice)) != self.known):
                other = choice.copy()
                other[[number, self.partner[number]]] = 1 - choice[number]
                if (value := misfit(other)) < least:
                    choice, least, changed = other, value, True
        return choice


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
