"""Sampling of sentences and their trees, many at a time.

Trees are drawn top-down: a node of some width and state is divided among its children in proportion to the total weight
of everything that can be below them (which depends on widths and states only, because no word is known yet). All nodes
of one width in all sentences are drawn at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.tree import Tree


@dataclass(frozen=True, eq=False)
class ConstituencySample:
    """Sentences with binary trees.

    Attributes
    ----------
    words, leaves
        The words, and the states above them.
    begin, end, states
        The nodes with two children. In a binary tree each boundary between words is the split of one node, so nodes are
        numbered by it: node `m - 1` spans `begin` to `end` and is split at `m`.
    """

    words: Int[Array, "sentences length"]
    leaves: Int[Array, "sentences length"]
    begin: Int[Array, "sentences length-1"]
    end: Int[Array, "sentences length-1"]
    states: Int[Array, "sentences length-1"]

    def topology(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return the spans of the nodes with two children of one tree, in order."""
        return tuple(sorted(zip(self.begin[index].tolist(), self.end[index].tolist(), strict=True)))

    def tree(self, index: int) -> Tree:
        """Return one tree; its labels and words are the numbers of states and words, from 0."""
        begin, end, states = (array[index].tolist() for array in (self.begin, self.end, self.states))
        made: dict[tuple[int, int], Tree] = {
            (i, i + 1): Tree(str(state), word=str(word))
            for i, (state, word) in enumerate(zip(self.leaves[index], self.words[index], strict=True))
        }
        for node in sorted(range(len(begin)), key=lambda node: end[node] - begin[node]):
            children = [made[begin[node], node + 1], made[node + 1, end[node]]]
            made[begin[node], end[node]] = Tree(str(states[node]), children)
        return made[0, self.words.shape[1]]


@dataclass(frozen=True, eq=False)
class DependencySample:
    """Sentences with dependency trees.

    Attributes
    ----------
    words, heads
        The words, and the position of each one's head, -1 for the root.
    """

    words: Int[Array, "sentences length"]
    heads: Int[Array, "sentences length"]

    def topology(self, index: int) -> tuple[int, ...]:
        """Return the heads of one tree."""
        return tuple(self.heads[index].tolist())


def sample_constituents(
    root: Float[Array, "states"],
    binary: Float[Array, "states states states"],
    lexical: Float[Array, "words states"],
    length: int,
    count: int,
    rng: np.random.Generator,
) -> ConstituencySample:
    """Draw sentences of a length from weights of trees; `B[a, b, c]` is the weight of children `a`, `b` of `c`."""
    # The total weight of all trees of each width below each state, and the share of each split.
    mass, divided = [lexical.sum(0)], [np.zeros((len(root), 0))]
    for width in range(2, length + 1):
        parts = np.stack(
            [binary * mass[left - 1][:, None, None] * mass[width - left - 1][:, None] for left in range(1, width)]
        )
        mass.append(parts.sum((0, 1, 2)))
        divided.append(parts.reshape(-1, len(root)).T)
    words, leaves = np.zeros((count, length), np.int64), np.zeros((count, length), np.int64)
    begin, end, states = (np.zeros((count, length - 1), np.int64) for _ in range(3))
    first = _draw(root[None] * mass[-1], np.zeros(count, np.int64), rng)
    # By width: sentence, first word and state of nodes still to be split.
    waiting: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(length)]
    waiting[-1].append((np.arange(count), np.zeros(count, np.int64), first))
    for width in range(length, 1, -1):
        sentence, start, state = _joined(waiting[width - 1])
        choice = _draw(divided[width - 1], state, rng)
        left, a, b = np.unravel_index(choice, (width - 1, len(root), len(root)))
        left = left + 1
        node = start + left - 1
        begin[sentence, node], end[sentence, node], states[sentence, node] = start, start + width, state
        for small in range(1, width):
            here = left == small
            waiting[small - 1].append((sentence[here], start[here], a[here]))
            waiting[width - small - 1].append((sentence[here], start[here] + small, b[here]))
    sentence, start, state = _joined(waiting[0])
    leaves[sentence, start] = state
    words[sentence, start] = _draw(lexical.T, state, rng)
    return ConstituencySample(words, leaves, begin, end, states)


def sample_dependencies(
    root: Float[Array, "words"],
    left: Float[Array, "words words"],
    right: Float[Array, "words words"],
    length: int,
    count: int,
    rng: np.random.Generator,
) -> DependencySample:
    """Draw sentences of a length with projective trees, all equally probable; `A[argument, head]` for each side."""
    # The number of trees of each width, and of halves by the number of words next to their head.
    halves, trees = [1.0], [0.0]
    for width in range(1, length + 1):
        trees.append(sum(halves[head] * halves[width - 1 - head] for head in range(width)))
        halves.append(sum(halves[width - last] * trees[last] for last in range(1, width + 1)))
    words, heads = np.zeros((count, length), np.int64), np.full((count, length), -1)
    # Trees: sentence, first word, head's position and word, side (0: root). Halves: sentence, head, its side.
    waiting: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(length + 1)]
    half: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(length)]
    zero = np.zeros(count, np.int64)
    waiting[length].append((np.arange(count), zero, zero - 1, zero, zero))
    given = np.concatenate([root[None], left.T, right.T])
    for width in range(length, 0, -1):
        sentence, start, above, word, side = _joined(waiting[width])
        weights = np.array([[halves[head] * halves[width - 1 - head] for head in range(width)]])
        offset = _draw(weights, np.zeros(len(sentence), np.int64), rng)
        position = start + offset
        heads[sentence, position] = above
        words[sentence, position] = _draw(given, np.where(side == 0, 0, 1 + word + (side > 0) * len(root)), rng)
        for size in range(1, width):
            here = offset == size
            half[size].append((sentence[here], position[here], position[here] * 0 - 1))
            here = width - 1 - offset == size
            half[size].append((sentence[here], position[here], position[here] * 0 + 1))
        size = width - 1
        if not size:
            break
        sentence, position, side = _joined(half[size])
        weights = np.array([[halves[size - last] * trees[last] for last in range(1, size + 1)]])
        choice = _draw(weights, np.zeros(len(sentence), np.int64), rng) + 1
        for last in range(1, size + 1):
            here = choice == last
            chosen, head, way = sentence[here], position[here], side[here]
            waiting[last].append(
                (chosen, np.where(way > 0, head + size - last + 1, head - size), head, words[chosen, head], way)
            )
            if last < size:
                half[size - last].append((chosen, head, way))
    return DependencySample(words, heads)


def _joined(parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _draw(weights: np.ndarray, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw an outcome for each of `which` from that row of `weights`, `(conditions, outcomes)`."""
    totals = np.cumsum(weights, axis=1)
    totals /= totals[:, -1:]
    totals[:, -1] = 1
    stairs = (totals + np.arange(len(weights))[:, None]).reshape(-1)
    places = np.searchsorted(stairs, which + rng.random(len(which)), side="right")
    return np.minimum(places - which * weights.shape[1], weights.shape[1] - 1)
