"""The tree with the highest expected number of right phrases, whether or not a grammar can build it.

Goodman's (1996) labelled recall, over any trees with given phrases: from the posteriors of phrases, a dynamic programme
chooses the spans that do not cross each other or a given phrase, with the greatest sum of `posterior - 1/2`. So it
chooses no phrase that is more probably wrong than right, as each costs an action to remove. Labels over the same span
are all of those with a posterior above one half, in the order in which the grammar has them.

Posteriors may be mixed with the present tree, so that only phrases change about which the parser is sure. On gum/dev,
with parsers of 500 trees, that saves actions where the grammar cannot build what is confirmed
(`benchmarks/annotation.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from sapwood.annotation.state import nest
from sapwood.inference.result import Marginal
from sapwood.trees.partial import UNKNOWN
from sapwood.trees.tree import Tree

Span = tuple[int, int]
# What a phrase costs that is chosen, and the weight of the present tree against the posteriors.
_PRICE, _INERTIA = 0.5, 0.3


def expected_tree(
    words: Sequence[str],
    phrases: Iterable[Marginal],
    *,
    required: Mapping[Span, str],
    present: Collection[tuple[int, int, str]] = (),
    tags: Collection[str],
    root: str,
    above: Collection[tuple[str, str]] = (),
) -> Tree:
    """Return the tree.

    Parameters
    ----------
    words
        The sentence.
    phrases
        Posteriors of phrases and tags.
    required
        Spans that are phrases, with the label to give them if no label is probable.
    present
        Phrases and tags of the present tree, which the new one is to resemble.
    tags
        Labels that are tags if they are over one word.
    root
        Label at the top.
    above
        Pairs of labels of which the first is over the second where they have the same words.
    """
    n = len(words)
    inertia = _INERTIA if present else 0.0
    mixed = {(start, end, label): (1.0 - inertia) * probability for start, end, label, probability in phrases}
    for phrase in present:
        mixed[phrase] = mixed.get(phrase, 0.0) + inertia
    best_tag: list[tuple[float, str]] = [(0.0, "")] * n
    labels: dict[Span, list[tuple[float, str]]] = {}
    for (start, end, label), probability in sorted(mixed.items()):
        if end - start == 1 and label in tags:
            best_tag[start] = max(best_tag[start], (probability, label))
        elif (start, end) != (0, n) or label != root:
            labels.setdefault((start, end), []).append((probability, label))
    gains = np.zeros((n + 1, n + 1))
    for (start, end), found in labels.items():
        gains[start, end] = sum(max(probability - _PRICE, 0.0) for probability, _ in found)
    for start, end in required:
        gains[start, end] += n + 1.0  # more than all others together
    nodes: list[tuple[int, int, int, str, str | None]] = [(0, -n, -1, root, None)]
    order = frozenset(above)
    for start, end in _best_spans(gains):
        chain = [label for probability, label in labels.get((start, end), ()) if probability > _PRICE]
        if not chain and (start, end) in required:
            chain = [max(labels.get((start, end), [(0.0, required[start, end])]))[1]]
        ordered = sorted(chain, key=lambda label: (sum((other, label) in order for other in chain), label))
        nodes += ((start, -end, place, label, None) for place, label in enumerate(ordered))
    lowest = 1 + max(map(len, labels.values()), default=0)
    nodes += ((at, -at - 1, lowest, best_tag[at][1] or UNKNOWN, word) for at, word in enumerate(words))
    nodes.sort(key=lambda node: node[:3])
    return nest([(node[0], -node[1]) for node in nodes], [node[3] for node in nodes], [node[4] for node in nodes])


def _best_spans(gains: np.ndarray) -> list[Span]:
    """Return the spans with a gain of the best binary tree."""
    n = len(gains) - 1
    best = np.zeros_like(gains)
    split = np.zeros(gains.shape, np.int64)
    for width in range(1, n + 1):
        for start in range(n - width + 1):
            end = start + width
            best[start, end] = gains[start, end]
            if width > 1:
                sums = best[start, start + 1 : end] + best[start + 1 : end, end]
                at = int(np.argmax(sums))
                split[start, end] = start + 1 + at
                best[start, end] += sums[at]
    found: list[Span] = []
    stack = [(0, n)]
    while stack:
        start, end = stack.pop()
        if gains[start, end] > 0:
            found.append((start, end))
        if end - start > 1:
            middle = int(split[start, end])
            stack += [(start, middle), (middle, end)]
    return found
