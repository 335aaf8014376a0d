"""Mixing matrices: frequencies of compound parameters among all trees (Hsu, Kakade and Liang 2012, section 5.1).

Given its topology, a moment is a product of parameter matrices that only depends on how the observed words are
connected in the tree. These products are the *compound parameters* `Psi_p`, and a moment is a mixture of them,
`mu_o = sum over p of M[o, p] Psi_p`, with `M[o, p]` the fraction of all trees in which the words of `o` are connected
as in `p`. `M` depends on neither words nor parameters. It is computed by dynamic programming over widths, for trees
with one, two and three marked words.

**pcfg-ie.** `o = (L, i, j, l)`, `i < j`, for `E[x_i (x) x_j (eta^T x_l)]`. Two of the three words have a common node
that the third, `lone`, is not under. `p = (lone, above, between, alone, first, second)`: `above` steps lead from the
root to the node that is common to all three, `alone` from there to the lone word, `between` from there to the lower
node, and `first` and `second` from that one to the other two words, in the order of `i`, `j`, `l`.

**dep-ies.** `o = (L, i, j)`, `i < j`, for `E[x_i (x) x_j]`. `p = (up, down)`: the lowest word above both (or one of
them) is `up` steps above word `i` and `down` steps above `j`, and the moment is `A^up diag(pi) (A^down)^T`: the words
above do not matter, because `pi` is stationary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Float

Key = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixing matrix.

    Attributes
    ----------
    observations, compounds
        Keys of its rows and columns.
    matrix
        `M[o, p]`.
    """

    observations: tuple[Key, ...]
    compounds: tuple[Key, ...]
    matrix: Float[Array, "observations compounds"]

    def weights(
        self, wanted: Sequence[Mapping[Key, float]], precision: Float[Array, "observations"] | None = None
    ) -> Float[Array, "wanted observations"]:
        """Return weights of observations whose sums are combinations of compound parameters.

        These are the weights with the least variance, if observations are independent and their variances are one
        divided by `precision`. By default that is 1, and the weights are those of the pseudo-inverse.

        Raises
        ------
        UsageError
            If there are none, because a combination is not in the row space of the matrix.
        """
        targets = np.zeros((len(self.compounds), len(wanted)))
        for column, combination in enumerate(wanted):
            for compound, factor in combination.items():
                if compound not in self.compounds:
                    raise UsageError(f"no tree of these lengths has the compound parameter {compound}")
                targets[self.compounds.index(compound), column] = factor
        scale = np.ones(len(self.matrix)) if precision is None else np.sqrt(precision / precision.max())
        found, *_ = np.linalg.lstsq((self.matrix * scale[:, None]).T, targets, rcond=1e-11)
        found = found * scale[:, None]
        if not np.allclose(self.matrix.T @ found, targets, rtol=0, atol=1e-8):
            raise UsageError("moments of sentences of these lengths do not determine what is wanted; add other lengths")
        return found.T

    def determined(self) -> tuple[Key, ...]:
        """Return the compound parameters in the row space: moments determine each of them alone."""
        _, values, rows = np.linalg.svd(self.matrix, full_matrices=False)
        basis = rows[values > 1e-11 * values.max(initial=0.0)]
        inside = np.sum(basis**2, axis=0) > 1 - 1e-9
        return tuple(key for key, known in zip(self.compounds, inside, strict=True) if known)

    def with_transposes(self) -> Mixing:
        """Return the matrix for all observations and then for their transposes.

        Transposed, a moment is a mixture of the compound parameters with their first two words swapped.
        """

        def crossed(key: Key) -> Key:
            if len(key) == 2:
                return key[::-1]
            lone, above, between, alone, first, second = key
            return (2, above, between, alone, second, first) if lone == 2 else (1 - lone, *key[1:])

        order = [self.compounds.index(crossed(key)) for key in self.compounds]
        matrix = np.concatenate([self.matrix, self.matrix[:, order]])
        return Mixing(self.observations * 2, self.compounds, matrix)


def constituency_mixing(lengths: Sequence[int]) -> Mixing:
    """Return the mixing matrix of `pcfg-ie` for sentences of these lengths, each at least 3."""
    counts = _Constituents(max(lengths))
    rows: dict[Key, Counter[Key]] = {}
    for length in lengths:
        for positions in combinations(range(length), 3):
            structures = counts.three[length, positions]
            for other in range(3):  # which of the three positions is l
                roles = [which for which in range(3) if which != other] + [other]
                i, j, last = (positions[role] for role in roles)
                row: Counter[Key] = Counter()
                for (lone, above, between, alone, first, second), count in structures.items():
                    # From sentence order to the order i, j, l.
                    depth = dict(zip([word for word in range(3) if word != lone], (first, second), strict=True))
                    rest = [depth[role] for role in roles if role != lone]
                    row[(roles.index(lone), above, between, alone, *rest)] += count
                rows[length, i, j, last] = row
    return _matrix(rows, counts.trees)


def dependency_mixing(lengths: Sequence[int]) -> Mixing:
    """Return the mixing matrix of `dep-ies` for sentences of these lengths, each at least 2."""
    counts = _Dependencies(max(lengths))
    rows: dict[Key, Counter[Key]] = {
        (length, i, j): counts.two_in_tree[length, i, j]
        for length in lengths
        for i, j in combinations(range(length), 2)
    }
    return _matrix(rows, counts.trees)


Path = tuple[str, ...]


def argument_paths(
    length: int, sides: tuple[str, str]
) -> tuple[int, list[Counter[Path]], dict[tuple[int, int], Counter[tuple[Path, Path, Path]]]]:
    """Return how words are connected in all projective trees of a length, step by step.

    A step goes to the left or to the right, and has one of two names (which may be the same). Unlike mixing matrices
    this enumerates the trees, so it is for short sentences.

    Returns
    -------
    trees, words, pairs
        The number of trees; for each word, how often each path leads to it from the root; for each pair `i < j`, how
        often there are these paths from the root to the lowest word above both (or one of them), from there to `i`,
        and from there to `j`.
    """
    trees = list(_projective(0, length))
    words: list[Counter[Path]] = [Counter() for _ in range(length)]
    pairs: dict[tuple[int, int], Counter[tuple[Path, Path, Path]]] = {}
    for heads in trees:
        ways = []
        for word in range(length):
            way = [word]
            while (above := heads[way[-1]]) >= 0:
                way.append(above)
            ways.append(way)

        def path(way: list[int], top: int) -> Path:
            steps = way[: way.index(top) + 1][::-1]
            return tuple(sides[argument > head] for head, argument in pairwise(steps))

        for word, way in enumerate(ways):
            words[word][path(way, way[-1])] += 1
        for i, j in combinations(range(length), 2):
            top = next(word for word in ways[i] if word in ways[j])
            key = path(ways[top], ways[top][-1]), path(ways[i], top), path(ways[j], top)
            pairs.setdefault((i, j), Counter())[key] += 1
    return len(trees), words, pairs


def _projective(begin: int, end: int) -> Iterator[dict[int, int]]:
    """Yield all projective trees over some words: each word's head, -1 for the root."""
    for root in range(begin, end):
        for left in _arguments(begin, root, root):
            for right in _arguments(root + 1, end, root):
                yield {root: -1, **left, **right}


def _arguments(begin: int, end: int, head: int) -> Iterator[dict[int, int]]:
    """Yield all ways to divide these words into one or more trees below a head."""
    if begin == end:
        yield {}
    for cut in range(begin + 1, end + 1):
        for first in _projective(begin, cut):
            below = {word: head if above < 0 else above for word, above in first.items()}
            for rest in _arguments(cut, end, head):
                yield {**below, **rest}


def _matrix(rows: dict[Key, Counter[Key]], trees: Sequence[int]) -> Mixing:
    compounds = sorted({compound for row in rows.values() for compound in row})
    index = {compound: number for number, compound in enumerate(compounds)}
    matrix = np.zeros((len(rows), len(compounds)))
    for number, (observation, row) in enumerate(rows.items()):
        for compound, count in row.items():
            matrix[number, index[compound]] = count / trees[observation[0]]
    return Mixing(tuple(rows), tuple(compounds), matrix)


class _Constituents:
    """Numbers of binary trees by width, with one, two or three marked words.

    `one[w, (p,)]` counts by the depth of word `p`; `two[w, (p, q)]` by the depth of their common node and theirs below
    it; `three[w, (p, q, r)]` by `(lone, above, between, alone, first, second)`, words numbered 0, 1, 2 in their order.
    """

    def __init__(self, longest: int) -> None:
        self.trees = [0, 1]
        self.one: dict[tuple[int, Key], Counter[Key]] = {(1, (0,)): Counter({(0,): 1})}
        self.two: dict[tuple[int, Key], Counter[Key]] = {}
        self.three: dict[tuple[int, Key], Counter[Key]] = {}
        for width in range(2, longest + 1):
            self.trees.append(sum(self.trees[left] * self.trees[width - left] for left in range(1, width)))
            for size, table in ((1, self.one), (2, self.two), (3, self.three)):
                for positions in combinations(range(width), size):
                    found: Counter[Key] = Counter()
                    for split in range(1, width):
                        self._add(found, table, width, positions, split)
                    table[width, positions] = found

    def _add(
        self,
        found: Counter[Key],
        table: dict[tuple[int, Key], Counter[Key]],
        width: int,
        positions: Key,
        split: int,
    ) -> None:
        """Add the trees whose root is split here."""
        left = tuple(position for position in positions if position < split)
        right = tuple(position - split for position in positions if position >= split)
        if not left or not right:
            # All on one side: one step further from the root.
            side, others = (split, width - split) if left else (width - split, split)
            depth = 1 if len(positions) == 3 else 0
            for key, count in table[side, left or right].items():
                deeper = tuple(value + 1 if place == depth else value for place, value in enumerate(key))
                found[deeper] += count * self.trees[others]
        elif len(positions) == 2:
            for (first,), count in self.one[split, left].items():
                for (second,), other in self.one[width - split, right].items():
                    found[0, first + 1, second + 1] += count * other
        else:
            lone = 0 if len(left) == 1 else 2
            single, pair = (left, right) if lone == 0 else (right, left)
            widths = (split, width - split) if lone == 0 else (width - split, split)
            for (alone,), count in self.one[widths[0], single].items():
                for (between, first, second), other in self.two[widths[1], pair].items():
                    found[lone, 0, between + 1, alone + 1, first, second] += count * other


class _Dependencies:
    """Numbers of projective trees by width, with one or two marked words.

    A right half is a head and the `u` words after it, numbered from 1; left halves are their mirror images. `one`
    counts by the depth of the word below the tree's root or the half's head, `two` by the steps from the lowest word
    above both.
    """

    def __init__(self, longest: int) -> None:
        self.trees, self.halves = [0], [1]
        self.one_in_tree: dict[Key, Counter[int]] = {}
        self.one_in_half: dict[Key, Counter[int]] = {(0, 0): Counter({0: 1})}
        self.two_in_tree: dict[Key, Counter[Key]] = {}
        self.two_in_half: dict[Key, Counter[Key]] = {}
        for width in range(1, longest + 1):
            self.trees.append(sum(self.halves[head] * self.halves[width - 1 - head] for head in range(width)))
            for p in range(width):
                self.one_in_tree[width, p] = self._one_in_tree(width, p)
            for p, q in combinations(range(width), 2):
                self.two_in_tree[width, p, q] = self._two_in_tree(width, p, q)
            self.halves.append(sum(self.halves[width - last] * self.trees[last] for last in range(1, width + 1)))
            for p in range(width + 1):
                self.one_in_half[width, p] = self._one_in_half(width, p)
            for p, q in combinations(range(width + 1), 2):
                self.two_in_half[width, p, q] = self._two_in_half(width, p, q)

    def _one_in_tree(self, width: int, p: int) -> Counter[int]:
        found: Counter[int] = Counter()
        for head in range(width):
            size = head if p < head else width - 1 - head
            for depth, count in self.one_in_half[size, abs(p - head)].items():
                found[depth] += count * self.halves[width - 1 - size]
        return found

    def _one_in_half(self, size: int, p: int) -> Counter[int]:
        found: Counter[int] = Counter()
        if p == 0:
            found[0] = self.halves[size]
            return found
        for last in range(1, size + 1):  # the width of the last argument's tree
            rest = size - last
            if p <= rest:
                for depth, count in self.one_in_half[rest, p].items():
                    found[depth] += count * self.trees[last]
            else:
                for depth, count in self.one_in_tree[last, p - rest - 1].items():
                    found[depth + 1] += count * self.halves[rest]
        return found

    def _two_in_tree(self, width: int, p: int, q: int) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for head in range(width):
            left, right = head, width - 1 - head
            if p >= head:
                for key, count in self.two_in_half[right, p - head, q - head].items():
                    found[key] += count * self.halves[left]
            elif q <= head:  # mirrored
                for (up, down), count in self.two_in_half[left, head - q, head - p].items():
                    found[down, up] += count * self.halves[right]
            else:
                for up, count in self.one_in_half[left, head - p].items():
                    for down, other in self.one_in_half[right, q - head].items():
                        found[up, down] += count * other
        return found

    def _two_in_half(self, size: int, p: int, q: int) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for last in range(1, size + 1):
            rest = size - last
            if q <= rest:
                for key, count in self.two_in_half[rest, p, q].items():
                    found[key] += count * self.trees[last]
            elif p > rest:
                for key, count in self.two_in_tree[last, p - rest - 1, q - rest - 1].items():
                    found[key] += count * self.halves[rest]
            else:
                for up, count in self.one_in_half[rest, p].items():
                    for down, other in self.one_in_tree[last, q - rest - 1].items():
                        found[up, down + 1] += count * other
        return found
