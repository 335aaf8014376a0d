"""What is taken for what: pairs of labels where a predicted tree differs from the gold one.

Over the same words, a gold phrase that the predicted tree does not have and a predicted one that the gold tree does
not have are a *confusion* of their labels; so are two tags of one word. A gold phrase without such a partner is
*missing*, a predicted one *spurious*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal, NamedTuple

from sapwood.trees.tree import Tree

Kind = Literal["phrase", "tag", "missing", "spurious"]


class Confusion(NamedTuple):
    """A kind of difference: labels in the gold and in the predicted tree, None where there is no phrase."""

    kind: Kind
    gold: str | None
    predicted: str | None


def count_confusions(gold: Tree, predicted: Tree) -> Counter[Confusion]:
    """Return how often each confusion occurs between two trees over the same words.

    Examples
    --------
    >>> gold = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    >>> predicted = Tree.parse("(S (ADJP (DT the) (NN dog)) (VBZ barks))")
    >>> for confusion in count_confusions(gold, predicted):
    ...     print(*confusion)
    phrase NP ADJP
    missing VP None
    """
    ours, theirs = Counter(gold.spans()), Counter(predicted.spans())
    by_span: dict[tuple[int, int], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for place, left in enumerate((ours - theirs, theirs - ours)):
        for (start, end, label), number in left.items():
            by_span[start, end][place].extend([label] * number)
    found: Counter[Confusion] = Counter()
    for one, other in by_span.values():
        pairs = min(len(one), len(other))
        for label, taken in zip(one, other, strict=False):
            found[Confusion("phrase", label, taken)] += 1
        for label in one[pairs:]:
            found[Confusion("missing", label, None)] += 1
        for label in other[pairs:]:
            found[Confusion("spurious", None, label)] += 1
    for tag, taken in zip(gold.tags(), predicted.tags(), strict=True):
        if tag != taken:
            found[Confusion("tag", tag, taken)] += 1
    return found
