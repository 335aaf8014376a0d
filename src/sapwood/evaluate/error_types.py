"""Kinds of mistakes: a classification of brackets that do not match, and pairs of labels that are confused.

Every bracket without a match belongs to one mistake:

1. *wrong label*: a gold and a predicted bracket over the same span, together one mistake.
2. *wrong unary*: one bracket more, or one less, over a span that both trees have: a link of a unary chain.
3. *wrong span*: a gold and a predicted bracket with the same label that begin or end at the same word, paired by
   smallest difference; together one mistake, as when something is attached too high or too low.
4. *missing*, *spurious*: the remaining gold and predicted brackets.

In confusions, a gold phrase that the predicted tree lacks and a predicted phrase over the same words that the gold tree
lacks are a *confusion* of their labels; so are two different tags of a word. An unpaired gold phrase is *missing*, an
unpaired predicted one *spurious*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal, NamedTuple

from sapwood.trees.formats.gaps import Blocks, phrase_blocks
from sapwood.trees.tree import Tree

Bracket = tuple[int, int, str]
Kind = Literal["phrase", "tag", "missing", "spurious"]

MISTAKES = ("wrong_label", "wrong_unary", "wrong_span", "missing", "spurious")


def count_mistakes(gold: Counter[Bracket], predicted: Counter[Bracket]) -> dict[str, int]:
    """Return the number of mistakes of each kind between the brackets of two trees.

    Examples
    --------
    >>> gold = Counter([(0, 3, "S"), (0, 1, "NP"), (1, 3, "VP"), (2, 3, "NP")])
    >>> count_mistakes(gold, Counter([(0, 3, "S"), (0, 1, "PP"), (1, 2, "VP"), (1, 3, "X"), (1, 3, "Y")]))
    {'wrong_label': 2, 'wrong_unary': 1, 'wrong_span': 0, 'missing': 1, 'spurious': 1}
    """
    found = dict.fromkeys(MISTAKES, 0)
    gold_spans = {bracket[:2] for bracket in gold}
    predicted_spans = {bracket[:2] for bracket in predicted}
    lost: Counter[tuple[int, int]] = Counter()
    gained: Counter[tuple[int, int]] = Counter()
    missing: Counter[Bracket] = Counter()
    spurious: Counter[Bracket] = Counter()
    for differing, others, over_same_span, left in (
        (gold - predicted, predicted_spans, lost, missing),
        (predicted - gold, gold_spans, gained, spurious),
    ):
        for bracket, number in differing.items():
            if bracket[:2] in others:
                over_same_span[bracket[:2]] += number
            else:
                left[bracket] = number
    found["wrong_label"] = (lost & gained).total()
    found["wrong_unary"] = (lost | gained).total() - found["wrong_label"]

    edges: defaultdict[tuple[str, int, int], list[Bracket]] = defaultdict(list)
    for start, end, label in spurious:
        edges[label, 0, start].append((start, end, label))
        edges[label, 1, end].append((start, end, label))
    pairs = [
        (abs(start - other[0]) + abs(end - other[1]), (start, end, label), other)
        for start, end, label in missing
        for other in edges.get((label, 0, start), []) + edges.get((label, 1, end), [])
    ]
    for _, one, other in sorted(pairs):
        number = min(missing[one], spurious[other])
        missing[one] -= number
        spurious[other] -= number
        found["wrong_span"] += number
    found["missing"], found["spurious"] = missing.total(), spurious.total()
    return found


class Confusion(NamedTuple):
    """A kind of difference: the labels in the gold and in the predicted tree, None where a phrase is missing."""

    kind: Kind
    gold: str | None
    predicted: str | None


def count_confusions(gold: Tree, predicted: Tree) -> Counter[Confusion]:
    """Return the counts of confusions between two trees over the same words.

    Examples
    --------
    >>> gold = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    >>> predicted = Tree.parse("(S (ADJP (DT the) (NN dog)) (VBZ barks))")
    >>> for confusion in count_confusions(gold, predicted):
    ...     print(*confusion)
    phrase NP ADJP
    missing VP None
    """
    ours, theirs = Counter(phrase_blocks(gold)), Counter(phrase_blocks(predicted))
    by_blocks: dict[Blocks, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for place, left in enumerate((ours - theirs, theirs - ours)):
        for (blocks, label), number in left.items():
            by_blocks[blocks][place].extend([label] * number)
    found: Counter[Confusion] = Counter()
    for one, other in by_blocks.values():
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
