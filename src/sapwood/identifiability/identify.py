"""Local identifiability of models from their moments (Hsu, Kakade and Liang 2012, section 4).

Moments are a map `mu` from n free parameters to many numbers. If its Jacobian has rank n at a random point, then (by
Theorem 1 there) almost every point is the only one near it with its moments, and apart from exceptions only finitely
many others anywhere have the same: the model is *locally identifiable*. If the rank is n - r, the parameters with the
same moments as a point form a surface of dimension r around it, and no amount of data can distinguish them.

The rank is computed in two ways.

- **In a prime field**, at a random point, without rounding. The Jacobian is that of n random linear combinations of the
  moments (`Observation.functionals`). A rank modulo p is never higher than the true one, so one run *proves* a yes.
  *No* is wrong if the point, the combinations or the prime were unlucky. For a prime that does not divide all minors,
  the probability of this is at most `(rank + 1) * degree / p` (Schwartz and Zippel), and several primes are tried.
- **In float64**, by singular values of the Jacobian of all different moments. These also show how close the model is to
  being unidentifiable at that point, but where they end is a matter of judgement: see `gap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.fields import PRIMES, PrimeField
from sapwood.identifiability.algebra.simplices import (
    Block,
    count_free,
    random_parameters,
    random_point,
    to_tensors,
    whole_direction,
)
from sapwood.identifiability.models.base import Model
from sapwood.identifiability.moment_maps import CHUNK, Eta, ModelMoments, MomentMap, rows_of
from sapwood.storage.shapes import Array, Bool, Float

# Number of random points to try before concluding that moments divide by zero.
_ATTEMPTS = 5
# Number of combinations of moments to compute at once.
_ROWS = 128
# More parameters or longer sentences would take hours, or all memory.
_MOST_PARAMETERS, _LONGEST = 3000, 60


@dataclass(frozen=True)
class Certificate:
    """The rank in prime fields.

    Attributes
    ----------
    rank
        The highest rank found. The true rank is not lower.
    primes
        The primes that were tried, each at a random point of its own.
    error
        A bound on the probability that the true rank is higher; 0 if it cannot be, None if no bound is known.
    """

    rank: int
    primes: tuple[int, ...]
    error: float | None


@dataclass(frozen=True, eq=False)
class NumericalRank:
    """The rank by singular values.

    Attributes
    ----------
    rank
        Number of singular values above `tolerance`.
    singular_values
        Singular values of the Jacobian at a random point in decreasing order, one for each parameter.
    tolerance
        The largest singular value times the larger side of the Jacobian times the precision of float64.
    gap
        The smallest counted singular value divided by the largest that is not counted (or by the precision of the
        largest, if that is more). Far above 1 the rank is clear; near 1 it is not.
    """

    rank: int
    singular_values: Float[Array, "parameters"]
    tolerance: float
    gap: float


@dataclass(frozen=True, eq=False)
class Movement:
    """Movements of a block of parameters that leave all moments unchanged.

    Attributes
    ----------
    block
        Its name.
    free
        Number of its coordinates.
    dimensions
        Number of independent directions in which it can move, together with other blocks.
    alone
        Number of directions in which it can move by itself, all other blocks fixed.
    moving
        Whether each element can move.
    """

    block: str
    free: int
    dimensions: int
    alone: int
    moving: Bool[Array, "outcomes conditions"]

    def __str__(self) -> str:
        if not self.dimensions:
            return f"{self.block} is determined"
        text = f"{self.block} can move in {self.dimensions} of {self.free} dimensions"
        if self.alone:
            text += f", in {'all' if self.alone == self.dimensions else self.alone} of them by itself"
        fixed = np.flatnonzero(~self.moving.any(axis=0)) + 1
        if len(fixed):
            text += f"; its column{'s' * (len(fixed) > 1)} {', '.join(map(str, fixed))} cannot"
        rows = np.flatnonzero(~self.moving.any(axis=1)) + 1
        if len(rows):
            text += f"; its row{'s' * (len(rows) > 1)} {', '.join(map(str, rows))} cannot"
        return text


@dataclass(frozen=True, eq=False)
class Identifiability:
    """The result of `check_identifiability`.

    Attributes
    ----------
    identifiable
        Whether the model is locally identifiable.
    rank, parameters
        The rank of the Jacobian, and the number of free parameters.
    moments
        Number of different observed moments, if known.
    certificate
        The exact rank; None for moments that are only known as floats.
    numerical
        The rank by singular values; None unless requested.
    movements
        Free movements by block; empty without a certificate.
    """

    identifiable: bool
    rank: int
    parameters: int
    moments: int | None
    certificate: Certificate | None
    numerical: NumericalRank | None
    movements: tuple[Movement, ...]

    @property
    def deficiency(self) -> int:
        """The dimension of the set of parameters with the same moments, around almost every point."""
        return self.parameters - self.rank

    def describe(self) -> str:
        """Return the answer in words."""
        answer = "identifiable: almost every point is the only one near it with its moments"
        if not self.identifiable:
            answer = f"not identifiable: near almost every point, a set of dimension {self.deficiency} has its moments"
        lines = [answer, f"parameters   {self.parameters}", f"rank         {self.rank}"]
        if self.moments is not None:
            fewer = ", fewer than parameters" if self.moments < self.parameters else ""
            lines.append(f"moments      {self.moments:,}{fewer}")
        if self.certificate is not None:
            lines.append(f"certificate  {_in_words(self.certificate, self.parameters)}")
        if self.numerical is not None:
            number = self.numerical
            lines.append(f"numerically  rank {number.rank}, gap {number.gap:.1e} between singular values")
            if number.rank != self.rank:
                lines.append("             (not the exact rank: these singular values are too uneven for float64)")
        if not self.identifiable:
            lines += [f"  {movement}" for movement in self.movements]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        proof, number = self.certificate, self.numerical
        found: dict[str, Any] = {
            "identifiable": self.identifiable,
            "rank": self.rank,
            "parameters": self.parameters,
            "deficiency": self.deficiency,
            "moments_observed": self.moments,
            "certificate": None if proof is None else {**vars(proof), "primes": list(proof.primes)},
            "numerical": None,
            "directions": [
                {**vars(movement), "moving": movement.moving.tolist(), "words": str(movement)}
                for movement in self.movements
            ],
        }
        if number is not None:
            found["numerical"] = {**vars(number), "singular_values": number.singular_values.tolist()}
            found["gap"] = number.gap
        return found


def _in_words(certificate: Certificate, parameters: int) -> str:
    primes = " and ".join(map(str, certificate.primes))
    text = f"rank {certificate.rank} modulo {primes}"
    if certificate.rank == parameters:
        return f"{text}, which proves it"
    return text if certificate.error is None else f"{text}; wrong with a probability of at most {certificate.error:.0e}"


def check_identifiability(
    model: Model | MomentMap,
    moments: str | Sequence[str] = "***",
    length: int | Sequence[int] = 3,
    *,
    eta: Eta = 1,
    trials: int = 2,
    numerical: bool = True,
    random_state: int = 0,
) -> Identifiability:
    """Check whether moments determine a model's parameters, locally and up to exceptions.

    Parameters
    ----------
    model
        A model, or any other map from parameters to moments (then `moments`, `length` and `eta` are ignored).
    moments
        One or more names of observation functions.
    length
        One or more lengths of sentences, all of which are observed.
    eta
        See `ModelMoments`.
    trials
        Number of primes to try before answering no. A yes needs one.
    numerical
        Whether to compute singular values as well.
    random_state
        Seed of the random points and combinations.

    Examples
    --------
    >>> from sapwood.identifiability.models.zoo import make_model
    >>> found = check_identifiability(make_model("dep-ie", words=3), "12", length=2)
    >>> found.identifiable, found.rank, found.parameters, found.deficiency
    (False, 5, 8, 3)
    >>> check_identifiability(make_model("dep-ie", words=3), "12", length=3).identifiable
    True
    """
    if isinstance(model, Model):
        names = [moments] if isinstance(moments, str) else moments
        lengths = [length] if isinstance(length, int) else length
        model = ModelMoments(model, names, lengths, eta)
    if trials < 1:
        raise UsageError(f"trials must be at least 1, not {trials}")
    certificate, movements = _certify(model, min(trials, len(PRIMES)), random_state) if model.exact else (None, ())
    measured = _measure(model, random_state) if numerical or certificate is None else None
    rank = certificate.rank if certificate is not None else measured.rank if measured is not None else 0
    parameters = count_free(model.blocks)
    return Identifiability(rank == parameters, rank, parameters, model.size, certificate, measured, movements)


def check_size(model: Model, length: int) -> None:
    """Raise a `UsageError` if the model or the sentences are so large that it would take hours, or all memory."""
    if model.n_parameters > _MOST_PARAMETERS or length > _LONGEST:
        raise UsageError(
            f"{model.name} with these numbers has {model.n_parameters:,} parameters; identify takes up to "
            f"{_MOST_PARAMETERS:,}, and sentences of up to {_LONGEST} words"
        )


def exact_rank(model: MomentMap, prime: int = PRIMES[0], random_state: int = 0) -> int:
    """Return the rank of the Jacobian at a random point of a prime field."""
    field = PrimeField(prime)
    return field.rank(_exact_jacobian(model, field, random_state))


def _exact_jacobian(model: MomentMap, field: PrimeField, random_state: int) -> np.ndarray:
    """Return the Jacobian of random combinations of moments, one for each parameter, `(n, n)`."""
    for attempt in range(_ATTEMPTS):
        rng = np.random.default_rng([random_state, field.prime, attempt])
        tensors = to_tensors(model.blocks, random_point(model.blocks, field, rng), field)
        sizes = np.diff([*range(0, count_free(model.blocks), _ROWS), count_free(model.blocks)])
        drawn = model.drawn(field, rng)
        try:
            parts = [rows_of(model.blocks, tensors, drawn.functionals(tensors, rng, int(size))) for size in sizes]
        except ZeroDivisionError:  # once in a prime, or always
            continue
        return np.concatenate([np.zeros((0, count_free(model.blocks))), *parts])
    raise UsageError("these moments divide by zero wherever they are computed")


def _certify(model: MomentMap, trials: int, random_state: int) -> tuple[Certificate, tuple[Movement, ...]]:
    parameters = count_free(model.blocks)
    best, tried = -1, []
    movements: tuple[Movement, ...] = ()
    for prime in PRIMES[:trials]:
        field = PrimeField(prime)
        basis = field.null_space(_exact_jacobian(model, field, random_state))
        tried.append(prime)
        if parameters - basis.shape[1] > best:
            best, movements = parameters - basis.shape[1], _movements(model.blocks, basis, field)
        if best == parameters:
            return Certificate(best, tuple(tried), 0.0), movements
    error = None
    if model.degree is not None:
        error = float(np.prod([min(1.0, (best + 1) * model.degree / prime) for prime in tried]))
    return Certificate(best, tuple(tried), error), movements


def _movements(blocks: Sequence[Block], basis: np.ndarray, field: PrimeField) -> tuple[Movement, ...]:
    """Return the movements of each block along the directions that change no moment, given as columns."""
    whole = whole_direction(blocks, basis, field)
    found, begin = [], 0
    for block in blocks:
        here = np.zeros(len(basis), bool)
        here[begin : begin + block.free] = True
        alone = basis.shape[1] - field.rank(basis[~here])
        moving = (whole[block.name] != 0).any(axis=2)
        found.append(Movement(block.name, block.free, field.rank(basis[here]), alone, moving))
        begin += block.free
    return tuple(found)


def _measure(model: MomentMap, random_state: int) -> NumericalRank:
    """Return the rank by singular values, from one triangular factor of all rows."""
    rng = np.random.default_rng([random_state, 0])
    parameters = count_free(model.blocks)
    triangle: np.ndarray = np.zeros((0, parameters))
    rows = 0
    for part in model.jacobian(random_parameters(model.blocks, rng), rng):
        triangle, rows = np.concatenate([triangle, part]), rows + len(part)
        if len(triangle) > max(2 * parameters, CHUNK):
            triangle = np.asarray(np.linalg.qr(triangle, mode="r"))
    values = np.zeros(parameters)
    found = np.linalg.svd(triangle, compute_uv=False)[:parameters]
    values[: len(found)] = found
    largest = float(values.max(initial=0.0))
    tolerance = largest * max(rows, parameters) * float(np.finfo(float).eps)
    rank = int(np.sum(values > tolerance))
    smallest = float(values[rank - 1]) if rank else 0.0
    rest = max(float(values[rank]) if rank < parameters else 0.0, largest * float(np.finfo(float).eps))
    return NumericalRank(rank, values, tolerance, smallest / rest if rest else 1.0)
