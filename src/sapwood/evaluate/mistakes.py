"""What kinds of mistakes there are where predicted brackets differ from gold ones.

Every bracket that does not match belongs to one mistake:

1. *wrong label*: a gold and a predicted bracket over the same span, which are one mistake together.
2. *wrong unary*: one bracket more, or one less, over a span that both trees have: a link of a unary chain.
3. *wrong span*: a gold and a predicted bracket with the same label that begin or end at the same word, the most
   alike first; together they are one mistake, as where something is attached too high or too low.
4. *missing* gold brackets and *spurious* predicted ones: those that are left.
"""

from __future__ import annotations

from collections import Counter, defaultdict

Bracket = tuple[int, int, str]

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
