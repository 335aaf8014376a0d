"""Head rules learned from trees, for treebanks whose labels no table fits.

The model of a phrase draws the label of its head child, and those of all others independently, given its own label:
P(head | phrase) times the product of P(dependent | phrase). EM estimates both from bare trees. Phrases of one child
show which labels can be heads; labels that also occur next to other heads are dependents. Two priors of X-bar theory
favour words over phrases as heads, and children with the label of the phrase (Sangati and Zuidema 2009 compare
unsupervised head finders). Punctuation is never a head if there is another child.

The result is a table in the format of `sapwood.trees.heads.rules`: the candidates of each label by their odds of being
a head, each with the side on which it has fewer sisters.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sapwood.trees.heads.rules import DEFAULT_LABEL, HeadRules, count_labels, without_decoration
from sapwood.trees.punctuation import is_punctuation
from sapwood.trees.tree import Tree

# Source of learned rules, where tables have their name.
LEARNED: Final = "learned"
# Trees that suffice.
ENOUGH_TREES: Final = 2000
_ITERATIONS: Final = 8
# Log odds of words, and of children with the phrase's own label, as heads; chosen on GUM and IcePaHC.
_WORD, _SAME = 2.0, 0.5
# Pseudo-counts of each label as a head and as a dependent.
_AS_HEAD, _AS_DEPENDENT = 0.1, 1.0

_Kids = tuple[str, ...]
_Phrases = Counter[tuple[str, _Kids]]
_Pairs = Mapping[tuple[str, str], float]


def learn_heads(trees: Iterable[Tree]) -> HeadRules:
    """Return head rules learned from trees.

    Examples
    --------
    >>> trees = ["(S (sn (da la) (nc casa)) (gv (vm cae)))", "(S (sn (np Juan)) (gv (vm ve) (sn (nc casas))))"]
    >>> rules = learn_heads(map(Tree.parse, trees))
    >>> rules.head_index("sn", ["da", "nc"]), rules.head_index("gv", ["vm", "sn"])
    (1, 0)
    """
    return HeadRules.parse(learn_head_table(trees), source=LEARNED)


def fit_heads(trees: Sequence[Tree]) -> HeadRules:
    """Return the built-in head rules that fit the labels of trees, or else rules learned from them."""
    return HeadRules.fitting(*count_labels(trees)) or learn_heads(trees)


def learn_head_table(trees: Iterable[Tree]) -> str:
    """Return a table of head rules learned from trees."""
    phrases, words, marks = _count(trees)
    odds, side = _odds(phrases, words), _sides(phrases)
    candidates: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (phrase, label), value in odds.items():
        candidates[phrase].append((-value, label))
    lines: list[str] = []
    for phrase, labels in sorted(candidates.items()):
        begin = ""
        for _, label in sorted(labels):
            before, begin = begin, f"{phrase} {'left' if side[phrase, label] > 0 else 'right'} "
            if begin == before:
                lines[-1] += f" {label}"
            else:
                lines.append(begin + label)
    lines.append(" ".join([DEFAULT_LABEL, *(["leftexcept", *sorted(marks)] if marks else ["left"])]))
    return "\n".join(lines) + "\n"


def _count(trees: Iterable[Tree]) -> tuple[_Phrases, set[str], set[str]]:
    """Return the phrases with their children other than punctuation, the tags of words, and those of punctuation."""
    phrases: _Phrases = Counter()
    words: set[str] = set()
    marks: set[str] = set()
    for tree in trees:
        for node in tree.nodes():
            if node.word is not None:
                (marks if is_punctuation(node.word) else words).add(without_decoration(node.label))
                continue
            kids = tuple(
                without_decoration(kid.label)
                for kid in node.children
                if kid.word is None or not is_punctuation(kid.word)
            )
            label = without_decoration(node.label)
            if (
                kids
                and all(map(_can_be_written, kids))
                and _can_be_written(label)
                and label not in (DEFAULT_LABEL, "#")
            ):
                phrases[label, kids] += 1
    return phrases, words, {mark for mark in marks - words if _can_be_written(mark)}


def _odds(phrases: _Phrases, words: set[str]) -> _Pairs:
    """Return the odds that a child of a phrase is its head, by their labels, as estimated by EM."""
    size = len({kid for _, kids in phrases for kid in kids})
    pairs = {(label, kid) for label, kids in phrases for kid in kids}
    prior = {(label, kid): math.exp(_WORD * (kid in words) + _SAME * (kid == label)) for label, kid in pairs}
    odds = prior
    # Sorted, so that sums do not depend on the order of the trees.
    counts = sorted(phrases.items())
    for _ in range(_ITERATIONS):
        head, dependent = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], float](float)
        heads, dependents = defaultdict[str, float](float), defaultdict[str, float](float)
        for (label, kids), count in counts:
            shares = [odds[label, kid] for kid in kids]
            total = sum(shares)
            heads[label] += count
            dependents[label] += count * (len(kids) - 1)
            for kid, share in zip(kids, shares, strict=True):
                head[label, kid] += count * share / total
                dependent[label, kid] += count * (1 - share / total)
        odds = {
            (label, kid): prior[label, kid]
            * (head[label, kid] + _AS_HEAD) / (heads[label] + _AS_HEAD * size)
            * (dependents[label] + _AS_DEPENDENT * size) / (dependent[label, kid] + _AS_DEPENDENT)
            for label, kid in sorted(pairs)
        }  # fmt: skip
    return odds


def _sides(phrases: _Phrases) -> _Pairs:
    """Return how many more sisters follow than precede a child of a phrase, by their labels."""
    side: Counter[tuple[str, str]] = Counter()
    for (label, kids), count in phrases.items():
        for place, kid in enumerate(kids):
            if kids.count(kid) == 1:
                side[label, kid] += count * (len(kids) - 1 - 2 * place)
    return side


def _can_be_written(label: str) -> bool:
    """Return whether a label is one column of a table, of characters that a file can hold."""
    return label.isprintable() and label.split() == [label]
