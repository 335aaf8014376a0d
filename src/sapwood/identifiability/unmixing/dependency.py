"""Unmixing of dependency models: `A`, or `Al` and `Ar`, from moments of words and pairs of words.

**dep-i, dep-ie.** Given a tree, the mean of a word is a product of argument matrices and `pi`, one factor for each step
from the root, `v_n = A_n ... A_1 pi`. Means of words of several lengths are mixtures of few such vectors, and those in
the row space are known. The moment of a pair is `A_up diag(v_n) A_down^T`, with the products along the paths from the
lowest word above both. If one of the two *is* that word, this is linear in a product of matrices, because `v_n` is
known. So all moments of pairs are linear equations for the products `A_w` and, as unknowns of their own, the
`A_up diag(v_n) A_down^T` with two paths; constraints on the sums of rows and columns are added. Two consecutive
lengths, such as 3 and 4, determine the `A` of `dep-ie`. For `dep-i` it takes lengths 1 to 3 (two words) or 1 to 4
(three words). The rank shows whether they do. The paper has no algorithm for these models.

**dep-ies** (section 5.3 of Hsu, Kakade and Liang 2012). All `v_n` are `pi`, and less is known. Sentences of lengths 2
and 3 determine `A^2 + A`, and so the eigenvectors of `A`. Each eigenvalue `s` of `A^2 + A` has two roots
`(-1 +- sqrt(1 + 4 s)) / 2`, and both can be right; all moments together decide. With lengths up to 5 or more the mixing
matrix has full rank, and `A diag(pi)` is itself a weighted sum of moments (`method="linear"`): simpler than the paper's
algorithm, but the sum has large weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.simplices import Distributions
from sapwood.identifiability.mixing import Key, Path, argument_paths, dependency_mixing
from sapwood.identifiability.models.zoo import DepIESModel, DepIModel
from sapwood.identifiability.moments import MomentSource
from sapwood.identifiability.unmixing.constituency import Compounds

Method = Literal["quadratic", "linear"]
# Longest sentences used for linear equations, by the number of argument matrices, and maximum number of unknowns.
_LONGEST = {1: 5, 2: 5}
_MOST_UNKNOWNS = 2500
_SMALL = 1e-10


def solve_arguments(model: DepIModel, source: MomentSource, lengths: Sequence[int]) -> dict[str, Distributions] | None:
    """Return the parameters of `dep-i` or `dep-ie` by linear equations, None if these lengths do not determine them.

    They sum to one, but some may be negative. Equations are weighted by the number of sentences only.
    """
    names = list(dict.fromkeys(model.arguments))
    used = [length for length in lengths if length <= _LONGEST[len(names)]]
    while used:
        system = _Equations(model, source, used)
        if len(system.unknown) * model.words**2 <= _MOST_UNKNOWNS:
            return system.solve(names)
        used = used[:-1]
    return None


class _Equations:
    """Linear equations for products of argument matrices."""

    def __init__(self, model: DepIModel, source: MomentSource, lengths: Sequence[int]) -> None:
        self.words = model.words
        total = sum(source.precision(length) for length in lengths)
        means: list[tuple[float, Counter[Path], np.ndarray]] = []
        self.moments: list[tuple[float, Counter[tuple[Path, Path, Path]], np.ndarray]] = []
        for length in lengths:
            trees, words, pairs = argument_paths(length, model.arguments)
            joint = source.joint(length, np.ones(model.words))
            weight = float(np.sqrt(source.precision(length) / total)) / trees
            means += [(weight, row, trees * joint((i,), None)) for i, row in enumerate(words)]
            self.moments += [(weight, row, trees * joint(place, None)) for place, row in pairs.items()]
        self.known = self._means(means)
        # Each unknown matrix has a number: a product along one path, or a matrix for two paths and their start.
        self.unknown: dict[tuple[Path, ...], int] = {}
        for _, row, _ in self.moments:
            for key in row:
                self.unknown.setdefault(self._name(key)[0], len(self.unknown))

    @staticmethod
    def _means(rows: list[tuple[float, Counter[Path], np.ndarray]]) -> dict[Path, np.ndarray]:
        """Return the mean of the word at the end of each path for which it is determined."""
        paths = sorted({path for _, row, _ in rows for path in row})
        matrix = np.array([[weight * row[path] for path in paths] for weight, row, _ in rows])
        values = np.array([weight * mean for weight, _, mean in rows])
        left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
        count = int(np.sum(sizes > _SMALL * sizes[0]))
        solved = right[:count].T @ ((left[:, :count].T @ values) / sizes[:count, None])
        inside = np.sum(right[:count] ** 2, axis=0) > 1 - 1e-9
        return {path: solved[number] for number, path in enumerate(paths) if inside[number]}

    def _name(self, key: tuple[Path, Path, Path]) -> tuple[tuple[Path, ...], bool, np.ndarray | None]:
        """Return the unknown in a pair's moment, whether it is transposed, and the scale of its columns."""
        above, up, down = key
        if not down and above in self.known:
            return (up,), False, self.known[above]
        if not up and above in self.known:
            return (down,), True, self.known[above]
        return ((above, up, down), False, None) if up >= down else ((above, down, up), True, None)

    def solve(self, names: Sequence[str]) -> dict[str, Distributions] | None:
        """Return `pi` and the matrices of one step, if they are determined."""
        d, steps = self.words, [(name,) for name in names]
        if () not in self.known or any((step,) not in self.unknown for step in steps):
            return None
        blocks: list[np.ndarray] = []
        values: list[np.ndarray] = []

        def empty(rows: int) -> np.ndarray:
            blocks.append(np.zeros((rows, len(self.unknown), d, d)))
            return blocks[-1]

        every = np.arange(d)
        for weight, row, moment in self.moments:
            block = empty(d * d).reshape(d, d, len(self.unknown), d, d)
            values.append(weight * moment.reshape(-1))
            for key, count in row.items():
                name, crossed, scale = self._name(key)
                # Element (a, b) of the moment, or (b, a), is element (a, b) of the unknown times column b's scale.
                for b in range(d):
                    i, j = (b, every) if crossed else (every, b)
                    block[i, j, self.unknown[name], every, b] += weight * count * (1.0 if scale is None else scale[b])
        for name, number in self.unknown.items():
            self._sums(name, number, empty, values)
        matrix = np.concatenate([block.reshape(len(block), -1) for block in blocks])
        left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
        count = int(np.sum(sizes > _SMALL * sizes[0]))
        inside = (np.sum(right[:count] ** 2, axis=0) > 1 - 1e-8).reshape(-1, d, d)
        if not all(inside[self.unknown[(step,)]].all() for step in steps):
            return None
        solved = right[:count].T @ ((left[:, :count].T @ np.concatenate(values)) / sizes[:count])
        products = solved.reshape(-1, d, d)
        return {"pi": self.known[()], **{name: products[self.unknown[((name,),)]] for name in names}}

    def _sums(
        self,
        name: tuple[Path, ...],
        number: int,
        empty: Callable[[int], np.ndarray],
        values: list[np.ndarray],
    ) -> None:
        """Add the known sums of rows and columns of an unknown."""
        d, known = self.words, self.known
        if len(name) == 1:  # a product: its columns sum to one, and it maps known means to known means
            for a in range(d):
                empty(1)[0, number, :, a] = 1
            values.append(np.ones(d))
            for above, mean in known.items():
                if above + name[0] in known:
                    block = empty(d)
                    block[np.arange(d), number, np.arange(d)] = mean
                    values.append(known[above + name[0]])
            return
        above, up, down = name
        for axis, path in enumerate((above + up, above + down)):
            if path in known:
                block = empty(d)
                for a in range(d):
                    if axis == 0:
                        block[a, number, a, :] = 1
                    else:
                        block[a, number, :, a] = 1
                values.append(known[path])


def solve_stationary(
    model: DepIESModel, source: MomentSource, lengths: Sequence[int], method: Method
) -> dict[str, Distributions]:
    """Return the parameters of `dep-ies`, via `A^2 + A` or directly."""
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
        """Return the distance of the moments of a choice from the measured ones."""
        powers = [np.eye(model.words)]
        for _ in range(max(max(key) for key in mixing.compounds)):
            powers.append(powers[-1] @ roots.matrix(choice))
        compounds = np.array([powers[up] * pi @ powers[down].T for up, down in mixing.compounds])
        return float(np.sum(weights[:, None, None] * (np.tensordot(mixing.matrix, compounds, 1) - measured) ** 2))

    return {"A": roots.matrix(roots.improve(chosen, misfit))}


class _Roots:
    """The matrices `A` with a given `A^2 + A`: one for each choice of a root for each eigenvalue.

    Eigenvalues are real, or conjugate pairs, for which the same root is chosen; one eigenvalue of `A` is 1.
    """

    def __init__(self, square: np.ndarray) -> None:
        found, self.vectors = np.linalg.eig(square.astype(complex))
        self.rows = np.linalg.inv(self.vectors)
        root = np.sqrt(1 + 4 * found)
        self.both = np.array([(-1 + root) / 2, (-1 - root) / 2])
        # The conjugate of each eigenvalue (itself, if it is real).
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
        """Return a choice that fits at least as well as any change of one eigenvalue and its conjugate."""
        least, changed = misfit(choice), True
        while changed:
            changed = False
            for number in np.flatnonzero(np.arange(len(choice)) != self.known):
                other = choice.copy()
                other[[number, self.partner[number]]] = 1 - choice[number]
                if (value := misfit(other)) < least:
                    choice, least, changed = other, value, True
        return choice
