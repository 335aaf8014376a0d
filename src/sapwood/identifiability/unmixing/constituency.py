"""Unmixing of `pcfg-ie`: products of parameters from mixtures of them, and parameters from the products.

With `A = O T`, two kinds of compound parameters of three words are known for any `eta` (section 5.2 of Hsu, Kakade and
Liang 2012), in which the first word is the lone one, or the last, and `b` steps lead from one branching to the other:

    Psi_b(eta) = A diag(pi) (T^b)^T diag(A^T eta) A^T,     Phi_b(eta) = A diag(T^b diag(pi) A^T eta) A^T.

`b` is 1 if there are sentences of length 3, as in the paper; from lengths 4 and 5 it is 3, from 5, 6 and 7 it is 5. For
lengths up to 7 no other compound of three words is in the row space of the mixing matrix, nor is any mixture of
compounds that share their last factors. Each `b` comes with weights of moments of the least variance, and is used if
its noise, times the condition number of `Psi_b(1)`, is not far above that of the best.

The columns of `A` come from `Psi` at 1 and at a random `tau` by `decompose` (as in the paper), from `Phi` in the same
way (symmetric, so that eigenvalues are real despite noise), and from `Phi` at all unit vectors jointly, by the rotation
that makes all of them as diagonal as possible (`diagonalise`). The remaining parameters are solved for. All of these
are candidates; the moments decide between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.simplices import Distributions
from sapwood.identifiability.mixing import Key, Mixing, constituency_mixing
from sapwood.identifiability.models.zoo import PCFGIEModel
from sapwood.identifiability.moments import Joint, MomentSource
from sapwood.storage.shapes import Array, Float

# Smaller weights, relative to the largest, are zero up to rounding.
_NOTHING = 1e-10
# Longer sentences have further compounds, but with weights too large to be useful.
_LONGEST = 7
# Noise that a compound may have, relative to the best.
_NOISIER = 10.0
# Maximum number of choices of roots of T^b.
_BRANCHES = 27


class Compounds:
    """Combinations of compound parameters, as weighted sums of moments and their transposes.

    Parameters
    ----------
    mixing
        The mixing matrix of the lengths to use.
    wanted
        The combinations.
    source
        Source of moments.
    """

    def __init__(self, mixing: Mixing, wanted: Sequence[Mapping[Key, float]], source: MomentSource) -> None:
        precision = np.array([source.precision(observation[0]) for observation in mixing.observations])
        weights = mixing.with_transposes().weights(wanted, np.tile(precision, 2))
        self.source = source
        self.observations = mixing.observations
        self.straight, self.crossed = np.split(weights, 2, axis=1)
        self.used = np.abs(weights).reshape(len(wanted), 2, -1).max((0, 1)) > _NOTHING * np.abs(weights).max()
        self.noise = np.sqrt(np.sum(weights**2 / np.tile(precision, 2), axis=1))

    def __call__(self, eta: Float[Array, "words"]) -> Float[Array, "wanted words words"]:
        """Return the combinations."""
        found = np.zeros((len(self.straight), len(eta), len(eta)))
        joints: dict[int, Joint] = {}
        for number in np.flatnonzero(self.used):
            length, i, j, *other = self.observations[number]
            if length not in joints:
                joints[length] = self.source.joint(length, eta)
            moment = joints[length]((i, j), other[0] if other else None)
            found += self.straight[:, number, None, None] * moment + self.crossed[:, number, None, None] * moment.T
        return found


def constituent_candidates(
    model: PCFGIEModel, source: MomentSource, lengths: Sequence[int], tries: int, rng: np.random.Generator
) -> Iterator[dict[str, Distributions]]:
    """Yield parameters of a `pcfg-ie` that its compound parameters suggest; they may not be probabilities.

    Parameters
    ----------
    model
        The model.
    source
        Source of moments.
    lengths
        Lengths of sentences to use.
    tries
        Number of random `tau` for each compound.
    rng
        Generator of `tau`.
    """
    if model.words < model.states:
        raise UsageError("unmixing pcfg-ie takes at least as many words as states")
    depths = known_depths(lengths)
    if not depths:
        raise UsageError("pcfg-ie is unmixed from sentences of length 3, of lengths 4 and 5, or of 5, 6 and 7")
    mixing = constituency_mixing(_useful(lengths))
    found = []
    for depth in depths:
        compounds = Compounds(mixing, [{(0, 0, depth, 1, 1, 1): 1.0}, {(2, 0, depth, 1, 1, 1): 1.0}], source)
        slices = np.array([compounds(eta) for eta in np.eye(model.words)])
        psi, phi = slices[:, 0], (slices[:, 1] + slices[:, 1].swapaxes(1, 2)) / 2
        values = np.linalg.svd(psi.sum(0), compute_uv=False)
        condition = values[0] / max(values[model.states - 1], 1e-300)
        found.append((float(compounds.noise[0] * condition), depth, psi, phi))
    best = min(noise for noise, *_ in found)
    for noise, depth, psi, phi in sorted(found, key=lambda each: each[:2]):
        if noise > _NOISIER * best:
            continue
        for columns in _columns(psi, phi, model.states, rng.standard_normal((tries, model.words))):
            with np.errstate(all="ignore"):
                yield from _solutions(columns, psi.sum(0), depth)


def known_depths(lengths: Sequence[int]) -> list[int]:
    """Return the `b` whose compound parameters sentences of these lengths determine.

    Examples
    --------
    >>> known_depths([3]), known_depths([4, 5]), known_depths([4]), known_depths([3, 4, 5, 6, 7])
    ([1], [3], [], [1, 3, 5])
    """
    used = _useful(lengths)
    if not used:
        return []
    keys = constituency_mixing(used).with_transposes().determined()
    return [depth for depth in range(1, max(used)) if (0, 0, depth, 1, 1, 1) in keys]


def _useful(lengths: Sequence[int]) -> list[int]:
    used = sorted({length for length in lengths if length >= 3})
    return [length for length in used if length <= max(_LONGEST, used[0] + 1)]


def _columns(psi: np.ndarray, phi: np.ndarray, states: int, ways: np.ndarray) -> Iterator[np.ndarray]:
    """Yield candidates for the columns of `A`, up to scale, from slices of both compounds, `(eta, words, words)`."""
    whole = phi.sum(0)
    values, basis = np.linalg.eigh(whole)
    largest = np.argsort(-values)[:states]
    if values[largest[-1]] > 0:
        root = np.sqrt(values[largest])
        white = basis[:, largest] / root
        yield (basis[:, largest] * root) @ diagonalise(white.T @ phi @ white)
    for way in ways:
        for x, y in ((psi.sum(0).T, np.tensordot(way, psi, 1).T), (whole, np.tensordot(way, phi, 1))):
            columns = decompose(x, y, states)
            if columns is not None:
                yield columns


def decompose(
    x: Float[Array, "words words"], y: Float[Array, "words words"], rank: int
) -> Float[Array, "words rank"] | None:
    """Return `M_1` from `X = M_1 M_2^T` and `Y = M_1 D M_2^T`, up to order and scale of its columns (Lemma 1).

    Both are of this rank; if both are symmetric, so is the decomposition. None if eigenvalues are not real, which noise
    can cause.
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
    middle = left.T @ x @ right
    if not np.linalg.cond(middle) < 1e15:
        return None
    found, vectors = np.linalg.eig(left.T @ y @ right @ np.linalg.inv(middle))
    if np.iscomplexobj(found) and np.abs(found.imag).max() > 1e-6 * np.abs(found).max():
        return None
    return np.asarray(left @ vectors.real)


def diagonalise(matrices: Float[Array, "matrices n n"], sweeps: int = 50) -> Float[Array, "n n"]:
    """Return the rotation `V` for which all `V^T M V` are as close to diagonal as possible, by Jacobi rotations.

    Parameters
    ----------
    matrices
        Symmetric.
    sweeps
        Maximum number of rounds over all pairs of axes.
    """
    size = matrices.shape[1]
    rotation, work = np.eye(size), matrices.copy()
    for _ in range(sweeps):
        largest = 0.0
        for p in range(size - 1):
            for q in range(p + 1, size):
                # The angle for which the sum of squares of the elements at (p, q) is least (Cardoso and Souloumiac).
                half, off = (work[:, p, p] - work[:, q, q]) / 2, work[:, p, q]
                angle = 0.25 * np.arctan2(2 * np.sum(half * off), np.sum(half**2) - np.sum(off**2))
                if abs(angle) < 1e-14:
                    continue
                largest = max(largest, abs(angle))
                turn = np.eye(size)
                turn[[p, q], [p, q]] = np.cos(angle)
                turn[p, q], turn[q, p] = -np.sin(angle), np.sin(angle)
                work, rotation = turn.T @ work @ turn, rotation @ turn
        if largest < 1e-12:
            break
    return rotation


def _solutions(columns: np.ndarray, psi: np.ndarray, depth: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield parameters for each root of `T^b`, given the columns of `A` up to scale, and `Psi_b(1)`."""
    emitted = columns / columns.sum(0)
    if not np.all(np.isfinite(emitted)):
        return
    back = np.linalg.pinv(emitted)
    pi = back @ psi.sum(1)
    power = back @ psi.T @ back.T / pi
    if not np.all(np.isfinite(power)) or np.linalg.cond(power) > 1e14:
        return
    for children in roots_of(power, depth):
        yield {"pi": pi, "T": children, "O": emitted @ np.linalg.inv(children)}


def roots_of(power: Float[Array, "n n"], depth: int) -> Iterator[Float[Array, "n n"]]:
    """Yield real matrices with this power, `depth` odd: one for each choice of roots of complex eigenvalues."""
    if depth == 1:
        yield power
        return
    values, vectors = np.linalg.eig(power.astype(complex))
    rows = np.linalg.inv(vectors)
    sizes = np.abs(values) ** (1 / depth)
    upper = np.flatnonzero(values.imag > 1e-12 * np.abs(values))
    for number, turns in enumerate(product(range(depth), repeat=len(upper))):
        if number == _BRANCHES:
            return
        found = np.sign(values.real) * sizes.astype(complex)
        for place, turn in zip(upper, turns, strict=True):
            partner = int(np.argmin(np.abs(values - values[place].conjugate())))
            found[place] = sizes[place] * np.exp(1j * (np.angle(values[place]) + 2 * np.pi * turn) / depth)
            found[partner] = found[place].conjugate()
        yield np.asarray(((vectors * found) @ rows).real)
