"""Agreement of two annotators on the same sentences, and what they disagree on.

F1 counts brackets, without the root label and with all words; neither annotator is gold, and it is the same both ways.
**Kappa** corrects
agreement for chance (Cohen 1960): `(p - e) / (1 - e)`, where `p` is the share of units with the same category, and `e`
that share if each annotator had assigned categories at random, as often as they did.

- *Spans*: the units are all spans of two words or more of each sentence, the categories the chains of labels over a
  span, or none. Most spans are no phrase for anybody, so chance agreement is high, and kappa low next to F1.
- *Labels*: the units are the spans that are phrases for both.
- *Tags*: the units are words.

Spans of all sentences are never enumerated: those without a phrase are counted as the rest.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sapwood.errors import InputError
from sapwood.evaluate.error_types import Confusion
from sapwood.evaluate.evalb_params import PARAMETER_SETS
from sapwood.evaluate.files import place_of_first_alone
from sapwood.evaluate.result import LabelScore
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.runtime.tables import format_table
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.gaps import Gaps, split_gaps
from sapwood.trees.formats.registry import InputFormat, locate_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tree import Tree, from_preorder

Span: TypeAlias = tuple[int, int]
# Labels of roots, which are not annotated.
_ROOTS = PARAMETER_SETS["default"].deleted_phrases
_SHOWN_WORDS = 12
_SHOWN_CONFUSIONS = 10
# Labels of chains whose common labels are found in quadratic time.
_LONGEST_CHAIN = 20


class Kappa(NamedTuple):
    """Observed agreement, agreement by chance, and Cohen's kappa; 1 if chance agreement is perfect."""

    observed: float
    expected: float
    units: int

    @property
    def kappa(self) -> float:
        """Agreement beyond chance."""
        return 1.0 if self.expected >= 1.0 else (self.observed - self.expected) / (1.0 - self.expected)


class Disagreement(NamedTuple):
    """Words `start .. end - 1` that two annotators analyse differently, as `a` and as `b`.

    Of phrases these are chains of labels from the top down, empty if the words are no phrase; of tags, the tag.
    """

    start: int
    end: int
    is_tag: bool
    a: tuple[str, ...]
    b: tuple[str, ...]


@dataclass(frozen=True)
class DisputedSentence:
    """A sentence on which two annotators disagree.

    Attributes
    ----------
    number
        Its number, from 1.
    places
        Where the two trees are.
    a, b
        The trees.
    disagreements
        In the order of words, longer phrases first.
    """

    number: int
    places: tuple[str, str]
    a: Tree
    b: Tree
    disagreements: list[Disagreement]

    def agreed(self) -> PartialTree:
        """Return what both annotators have, as a partial tree that a parser can complete."""
        return agreed_part(self.a, self.b)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "sentence": self.number,
            "places": list(self.places),
            "a": str(self.a),
            "b": str(self.b),
            "agreed": str(self.agreed()),
            "disagreements": [one._asdict() | {"a": list(one.a), "b": list(one.b)} for one in self.disagreements],
        }

    def format(self) -> str:
        """Return the disagreements side by side."""
        words = self.a.words()
        rows = [["", "A", "B"]]
        texts = [""]
        for one in self.disagreements:
            rows.append([f"words {one.start + 1}-{one.end}", *("/".join(side) or "-" for side in (one.a, one.b))])
            span = words[one.start : one.end]
            half = _SHOWN_WORDS // 2
            texts.append(" ".join(span if len(span) <= _SHOWN_WORDS else [*span[:half], "...", *span[-half:]]))
        return f"{self.places[0]}, {self.places[1]}\n{format_table(rows, texts)}"


@dataclass(frozen=True)
class AgreementResult:
    """Result of `measure_agreement`.

    Attributes
    ----------
    sentences, equal
        Number of sentences, and of those with the same tree.
    brackets
        Brackets of A (`gold`) and B (`predicted`), and those that match.
    unlabelled
        The same without labels.
    spans, labels, tags
        Kappas.
    confusions
        Number of differences of each kind; A is `gold`.
    disputed
        The sentences that have differences, in order.
    agreed
        What both annotators have of each sentence, if it was requested.
    """

    sentences: int
    equal: int
    brackets: LabelScore
    unlabelled: LabelScore
    spans: Kappa
    labels: Kappa
    tags: Kappa
    confusions: Counter[Confusion]
    disputed: list[DisputedSentence] = field(repr=False)
    agreed: list[PartialTree] = field(default_factory=list, repr=False)

    @property
    def f1(self) -> float:
        """F1 of labelled brackets, in per cent."""
        return self.brackets.f1

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return everything, with `limit` of the disputed sentences, as JSON values."""
        return {
            "sentences": self.sentences,
            "equal": self.equal,
            "f1": self.f1,
            "unlabelled_f1": self.unlabelled.f1,
            "brackets": {"a": self.brackets.gold, "b": self.brackets.predicted, "both": self.brackets.matched},
            **{
                f"kappa_{name}": {"kappa": one.kappa, **one._asdict()}
                for name, one in (("spans", self.spans), ("labels", self.labels), ("tags", self.tags))
            },
            "confusions": [
                {"kind": one.kind, "a": one.gold, "b": one.predicted, "count": count}
                for one, count in self.confusions.most_common()
            ],
            "disputed": {"number": len(self.disputed), "first": [one.to_dict() for one in self.disputed[:limit]]},
        }

    def format(self, limit: int | None = None) -> str:
        """Return the figures, the most frequent differences, and `limit` disputed sentences, for the terminal."""
        rows = [["", "A and B"]]
        rows += [["sentences", f"{self.sentences:,}"], ["the same tree", f"{self.equal:,}"]]
        rows += [["F1", f"{self.f1:.2f}"], ["unlabelled F1", f"{self.unlabelled.f1:.2f}"]]
        rows += [
            [f"kappa of {name}", f"{one.kappa:.3f}"]
            for name, one in (("spans", self.spans), ("labels", self.labels), ("tags", self.tags))
        ]
        parts = [format_table(rows)]
        if self.confusions:
            table = [["difference", "A", "B", "number"]]
            table += [
                [_NAMES[one.kind], one.gold or "-", one.predicted or "-", f"{count:,}"]
                for one, count in sorted(self.confusions.items(), key=lambda item: (-item[1], _sortable(item[0])))
            ][:_SHOWN_CONFUSIONS]
            parts.append(format_table(table))
        parts += [one.format() for one in self.disputed[:limit]]
        if limit is not None and len(self.disputed) > limit > 0:
            parts.append(f"... and {len(self.disputed) - limit:,} more sentences")
        return "\n\n".join(parts)


_NAMES = {"phrase": "label", "tag": "tag", "missing": "only A", "spurious": "only B"}


def _sortable(one: Confusion) -> tuple[str, str, str]:
    return one.kind, one.gold or "", one.predicted or ""


def measure_agreement(
    pairs: Iterable[tuple[Tree, Tree, tuple[str, str]]],
    *,
    agreed: bool = False,
    total: int | None = None,
    progress: Progress | None = None,
) -> AgreementResult:
    """Measure how far two annotators agree.

    Parameters
    ----------
    pairs
        The two trees of each sentence, over the same words, and their places for messages.
    agreed
        Also return what both annotators have.
    total
        Number of pairs, for the progress bar.
    progress
        Receives progress reports.

    Examples
    --------
    >>> a = Tree.parse("(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NNS men)) (PP (IN in) (NP (NN town))))))")
    >>> b = Tree.parse("(S (NP (PRP I)) (VP (VBD saw) (NP (NNS men)) (PP (IN in) (NP (NN town)))))")
    >>> result = measure_agreement([(a, b, ("a.mrg:1", "b.mrg:1"))])
    >>> round(result.f1, 1), round(result.spans.kappa, 2)
    (92.3, 0.82)
    >>> result.disputed[0].disagreements
    [Disagreement(start=2, end=5, is_tag=False, a=('NP',), b=())]
    """
    sentences = equal = 0
    brackets, unlabelled = [0, 0, 0], [0, 0, 0]
    spans, labels, tags = _Categories(), _Categories(), _Categories()
    confusions: Counter[Confusion] = Counter()
    disputed: list[DisputedSentence] = []
    shared: list[PartialTree] = []
    for a, b, places in track(pairs, progress or Silent(), "comparing", total, "trees"):
        if a.words() != b.words():
            raise InputError(_different_words(a, b, places))
        sentences += 1
        ours, theirs = _chains(a), _chains(b)
        sides = [Counter((span, label) for span, chain in side.items() for label in chain) for side in (ours, theirs)]
        bare = [Counter(span for span, _ in side.elements()) for side in sides]
        for counts, (one, other) in ((brackets, sides), (unlabelled, bare)):
            for place, counted in enumerate((one, other, one & other)):  # type: ignore[operator]
                counts[place] += counted.total()
        size = len(a)
        seen = 0
        for span in ours.keys() | theirs.keys():
            pair = ours.get(span, ()), theirs.get(span, ())
            if all(pair):
                labels.add(*pair)
            if span[1] - span[0] > 1:
                spans.add(*pair)
                seen += 1
        spans.add((), (), size * (size - 1) // 2 - seen)
        for tag, other_tag in zip(a.tags(), b.tags(), strict=True):
            tags.add((tag,), (other_tag,))
        differences = list(_differences(a, b, ours, theirs))
        if differences:
            confusions.update(_confusions(differences))
            disputed.append(DisputedSentence(sentences, places, a, b, differences))
        else:
            equal += 1
        if agreed:
            shared.append(agreed_part(a, b) if differences else PartialTree(a))
    return AgreementResult(
        sentences, equal, LabelScore(*brackets), LabelScore(*unlabelled), spans.kappa(), labels.kappa(), tags.kappa(),
        confusions, disputed, shared,
    )  # fmt: skip


def compare_annotators(
    a: str,
    b: str,
    *,
    format: InputFormat = "auto",
    normaliser: Normaliser | None = None,
    agreed: bool = False,
    gaps: Gaps = "keep",
    progress: Progress | None = None,
) -> AgreementResult:
    """Measure the agreement of two files of trees over the same sentences, in the same order.

    Parameters
    ----------
    a, b
        The files.
    format
        Format of both files.
    normaliser
        Cleans trees before they are compared; None: no cleaning.
    gaps
        Treatment of phrases with gaps, as for `sapwood.read_trees`.
    agreed, progress
        As for `measure_agreement`.
    """
    sides = [list(locate_trees(read_lines(path), source=name_of(path), format=format, gaps=gaps)) for path in (a, b)]
    names = [name_of(path) for path in (a, b)]
    if len(sides[0]) != len(sides[1]):
        alone = place_of_first_alone(*zip(names, sides, strict=True))
        raise InputError(
            f"{names[0]} has {len(sides[0])} trees, {names[1]} has {len(sides[1])}; both need the same sentences in "
            f"the same order; the first tree without a partner ends on {alone}"
        )
    if not sides[0]:
        raise InputError(f"{names[0]}: no trees to compare")

    def pairs() -> Iterator[tuple[Tree, Tree, tuple[str, str]]]:
        for (one, line), (other, other_line) in zip(*sides, strict=True):
            left, right = (tree if normaliser is None else normaliser(tree) for tree in (one, other))
            places = (f"{names[0]}:{line}", f"{names[1]}:{other_line}")
            if left is not None and right is not None:
                yield left, right, places
            elif left is not right:
                raise InputError(
                    f"{places[left is not None]}: the tree has no words, and the one in the other file has"
                )

    return measure_agreement(pairs(), agreed=agreed, total=len(sides[0]), progress=progress)


class _Categories:
    """Counts of pairs of categories."""

    def __init__(self) -> None:
        self.a: Counter[tuple[str, ...]] = Counter()
        self.b: Counter[tuple[str, ...]] = Counter()
        self.same = 0

    def add(self, a: tuple[str, ...], b: tuple[str, ...], number: int = 1) -> None:
        self.a[a] += number
        self.b[b] += number
        self.same += number * (a == b)

    def kappa(self) -> Kappa:
        units = self.a.total()
        if not units:
            return Kappa(1.0, 1.0, 0)
        expected = sum(count * self.b[category] for category, count in self.a.items())
        return Kappa(self.same / units, expected / units**2, units)


def _chains(tree: Tree, roots: Collection[str] = _ROOTS) -> dict[Span, tuple[str, ...]]:
    """Return the labels over each span that is a phrase, from the top down, without the root label.

    Of a phrase with gaps, these are the spans of its parts.
    """
    found: dict[Span, list[str]] = {}
    for number, (start, end, label) in enumerate((split_gaps(tree) if tree.is_placed else tree).spans()):
        if number or label not in roots:
            found.setdefault((start, end), []).append(label)
    return {span: tuple(chain) for span, chain in found.items()}


def _differences(
    a: Tree, b: Tree, ours: dict[Span, tuple[str, ...]], theirs: dict[Span, tuple[str, ...]]
) -> Iterator[Disagreement]:
    different = [span for span in ours.keys() | theirs.keys() if ours.get(span) != theirs.get(span)]
    found = [Disagreement(*span, False, ours.get(span, ()), theirs.get(span, ())) for span in different]
    for place, (tag, other) in enumerate(zip(a.tags(), b.tags(), strict=True)):
        if tag != other:
            found.append(Disagreement(place, place + 1, True, (tag,), (other,)))
    yield from sorted(found, key=lambda one: (one.start, -one.end, one.is_tag))


def _confusions(differences: Iterable[Disagreement]) -> Iterator[Confusion]:
    for one in differences:
        if one.is_tag:
            yield Confusion("tag", one.a[0], one.b[0])
            continue
        left, right = Counter(one.a), Counter(one.b)
        only_a, only_b = list((left - right).elements()), list((right - left).elements())
        for pair in zip(only_a, only_b, strict=False):
            yield Confusion("phrase", *pair)
        for label in only_a[len(only_b) :]:
            yield Confusion("missing", label, None)
        for label in only_b[len(only_a) :]:
            yield Confusion("spurious", None, label)


def _different_words(a: Tree, b: Tree, places: tuple[str, str]) -> str:
    ours, theirs = a.words(), b.words()
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        if one != other:
            return f"{places[0]}: word {number} is {one!r}, and {other!r} in {places[1]}; both need the same sentences"
    return (
        f"{places[0]}: the sentence has {len(ours)} words, and {len(theirs)} in {places[1]}; "
        "both need the same sentences"
    )


def agreed_part(a: Tree, b: Tree) -> PartialTree:
    """Return the phrases and tags that two trees over the same words share, as a partial tree.

    A phrase in which the trees differ must not count as complete, so a word right below it loses its tag, unless one
    of its words has none already (`sapwood.trees.partial`).

    Examples
    --------
    >>> a = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP it))))")
    >>> b = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP$ it))))")
    >>> print(agreed_part(a, b))
    (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (_ it))))
    """
    ours, theirs = _chains(a, ()), _chains(b, ())
    words = a.words()
    tags = [tag if tag == other else UNKNOWN for tag, other in zip(a.tags(), b.tags(), strict=True)]
    gaps: list[Span] = []
    kept: dict[Span, tuple[str, ...]] = {}
    for span in ours.keys() | theirs.keys():
        pair = ours.get(span, ()), theirs.get(span, ())
        shared = _common(*pair)
        if pair[0] != pair[1]:
            gaps.append(span)
        if shared:
            kept[span] = shared
    around = _phrases_around(list(kept), len(words))
    unknown = [place for place, tag in enumerate(tags) if tag == UNKNOWN]
    for start, end in sorted(gaps, key=lambda gap: (gap[1] - gap[0], gap)):
        next_one = bisect_left(unknown, start)
        if next_one == len(unknown) or unknown[next_one] >= end:
            # A word that is in few phrases: these count as incomplete, too.
            place = min(range(start, end), key=lambda place: (around[place], place))
            unknown.insert(next_one, place)
            tags[place] = UNKNOWN
    events: list[tuple[int, int, int, str, str | None]] = []
    for (start, end), chain in kept.items():
        events += [(start, -end, number, label, None) for number, label in enumerate(chain)]
    if (0, len(words)) not in kept and (ours or theirs):
        events.append((0, -len(words), -1, UNKNOWN, None))
    lowest = max(map(len, kept.values()), default=0)
    for place, word in enumerate(words):
        events.append((place, -place - 1, lowest + 1, tags[place], word))
    return PartialTree(_nested(sorted(events, key=lambda event: event[:3])))


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels that two chains share in the same order, but of long chains only those at both ends."""
    top = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    rest, other = a[top:], b[top:]
    below = zip(reversed(rest), reversed(other), strict=False)
    bottom = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], below))
    head, tail = a[:top], a[len(a) - bottom :]
    rest, other = rest[: len(rest) - bottom], other[: len(other) - bottom]
    if max(len(rest), len(other)) > _LONGEST_CHAIN:
        return head + tail
    best: dict[tuple[int, int], tuple[str, ...]] = {}
    for i in range(len(rest) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            if rest[i] == other[j]:
                best[i, j] = (rest[i], *best.get((i + 1, j + 1), ()))
            else:
                best[i, j] = max(best.get((i + 1, j), ()), best.get((i, j + 1), ()), key=len)
    return head + best.get((0, 0), ()) + tail


def _phrases_around(spans: list[Span], size: int) -> list[int]:
    """Return how many phrases each word is in."""
    change = [0] * (size + 1)
    for start, end in spans:
        change[start] += 1
        change[end] -= 1
    total, found = 0, []
    for one in change[:size]:
        total += one
        found.append(total)
    return found


def _nested(events: list[tuple[int, int, int, str, str | None]]) -> Tree:
    """Return the tree of nodes in preorder, which their spans nest."""
    arity = [0] * len(events)
    opened: list[int] = []
    for number, (start, _, _, _, word) in enumerate(events):
        while opened and -events[opened[-1]][1] <= start:
            opened.pop()
        if opened:
            arity[opened[-1]] += 1
        if word is None:
            opened.append(number)
    return from_preorder([(label, word, count) for (_, _, _, label, word), count in zip(events, arity, strict=True)])
