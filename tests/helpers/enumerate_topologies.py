"""Every topology, every sentence: what the dynamic programs must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

import numpy as np

Nested = int | tuple["Nested", "Nested"]


@cache
def binary_trees(begin: int, end: int) -> tuple[Nested, ...]:
    """Return all binary trees over words, as nested pairs of positions."""
    if end - begin == 1:
        return (begin,)
    return tuple(
        (left, right)
        for split in range(begin + 1, end)
        for left in binary_trees(begin, split)
        for right in binary_trees(split, end)
    )


def leaves_of(tree: Nested) -> list[int]:
    return [tree] if isinstance(tree, int) else leaves_of(tree[0]) + leaves_of(tree[1])


def spans_of(tree: Nested) -> list[tuple[int, int]]:
    """Return the spans of nodes with two children."""
    if isinstance(tree, int):
        return []
    leaves = leaves_of(tree)
    return sorted([(leaves[0], leaves[-1] + 1), *spans_of(tree[0]), *spans_of(tree[1])])


@cache
def projective_trees(length: int) -> tuple[tuple[int, ...], ...]:
    """Return the heads of all trees in which what is below any word is an unbroken span."""
    found = []
    for heads in product(range(-1, length), repeat=length):
        if heads.count(-1) != 1:
            continue
        below: list[set[int]] = [set() for _ in range(length)]
        for word in range(length):
            above, steps = word, 0
            while above >= 0 and steps <= length:
                below[above].add(word)
                above, steps = heads[above], steps + 1
            if steps > length:
                break
        else:
            if all(max(words) - min(words) + 1 == len(words) for words in below):
                found.append(heads)
    return tuple(found)


def constituency_weights(name: str, p: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return root, `B[a, b, c]` and lexical weights, from the definitions of the models."""
    states = len(p["pi"])
    if name == "pcfg":
        binary = np.asarray(p["B"]).reshape(states, states, states)
    elif name == "pcfg-i":
        binary = np.einsum("ac,bc->abc", p["T1"], p["T2"])
    else:
        binary = np.einsum("ac,bc->abc", p["T"], p["T"])
    words = p["O"]
    if name == "pcfg-ies":
        stop, go = p["S"]
        return p["pi"], binary * go, words * stop
    return p["pi"], binary, words


def dependency_weights(name: str, p: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return root, left and right weights, from the definitions of the models."""
    if name == "dep-i":
        return p["pi"], p["Al"], p["Ar"]
    if name == "dep-ie":
        return p["pi"], p["A"], p["A"]
    values, vectors = np.linalg.eig(p["A"])
    stationary = np.real(vectors[:, np.argmin(abs(values - 1))])
    return stationary / stationary.sum(), p["A"], p["A"]


def joint(name: str, parameters: Mapping[str, np.ndarray], length: int) -> dict[object, np.ndarray]:
    """Return, for each topology, its probability together with that of each sentence, `(words,) * length`."""
    if name.startswith("dep"):
        root, left, right = dependency_weights(name, parameters)
        found = {}
        for heads in projective_trees(length):
            sentences = np.zeros((len(root),) * length)
            for sentence in product(range(len(root)), repeat=length):
                probability = 1.0
                for word, head in enumerate(heads):
                    if head < 0:
                        probability *= root[sentence[word]]
                    else:
                        side = left if word < head else right
                        probability *= side[sentence[word], sentence[head]]
                sentences[sentence] = probability
            found[heads] = sentences
    else:
        root, binary, lexical = constituency_weights(name, parameters)

        def inside(tree: Nested) -> np.ndarray:
            """Return the probability of the words below a node given its state, states last."""
            if isinstance(tree, int):
                return lexical
            left, right = inside(tree[0]), inside(tree[1])
            return np.tensordot(np.tensordot(left, binary, (-1, 0)).swapaxes(-2, -1), right, (-1, -1)).transpose(
                *range(left.ndim - 1), *range(left.ndim, left.ndim + right.ndim - 1), left.ndim - 1
            )

        found = {tuple(spans_of(tree)): inside(tree) @ root for tree in binary_trees(0, length)}
    total = sum(sentences.sum() for sentences in found.values())
    return {topology: sentences / total for topology, sentences in found.items()}


def sentences_of(words: int, length: int) -> Iterator[tuple[int, ...]]:
    return product(range(words), repeat=length)


def observed(name: str, sentence: tuple[int, ...], words: int, eta: np.ndarray) -> np.ndarray:
    """Return what an observation function says of a sentence, by its definition in the paper."""
    x = np.eye(words)[list(sentence)]
    length = len(sentence)
    if name == "1":
        return x[0]
    if name == "12":
        return np.einsum("a,b->ab", x[0], x[1])
    if name == "123":
        return np.einsum("a,b,c->abc", x[0], x[1], x[2])
    if name == "123eta":
        return np.einsum("a,b->ab", x[0], x[1]) * (eta @ x[2])
    if name == "**":
        return np.einsum("ia,jb->ijab", x, x)
    if name == "***":
        return np.einsum("ia,jb,lc->ijlabc", x, x, x)
    if name == "***eta":
        return np.einsum("ia,jb,l->ijlab", x, x, x @ eta)
    found = np.ones(())
    for position in range(length):
        found = np.multiply.outer(found, x[position])
    return found
