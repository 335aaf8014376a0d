"""Consistency of a treebank: places that are probably annotation errors.

- **Variations**: the same words in the same context with different analyses (`sapwood.evaluate.variation`).
- **Rules seen once**. Many are right, since the tail of rules is long; most suspicious are those of frequent labels
  that have no relative. Relatives of a rule are the same but for repetitions of a child: `NP -> DT JJ NN` of
  `NP -> DT JJ JJ NN`.
- **Labels seen once**, with the most similar frequent label.
- **Improbable trees**, if there is a parser: trees in which it expects many wrong phrases, by their posteriors. It
  should not be trained on the same trees, which it would find probable.

All of these take time linear in the treebank (the parser's time apart, which is that of parsing).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sapwood.evaluate.variation import Occurrence, Variation, find_variations
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.shapes import Array, Int64
from sapwood.trees.formats.gaps import split_gaps
from sapwood.trees.normalise import Normaliser
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from sapwood.inference.parser import Parser

Check: TypeAlias = Literal["variations", "rules", "labels", "trees"]
CHECKS: tuple[Check, ...] = ("variations", "rules", "labels", "trees")
# Labels that occur this many times as often as a rare one may be what was meant.
_FREQUENT = 10
# Expected errors below which a tree is not listed, and phrases to name of each tree.
_LEAST_ERRORS, _PHRASES = 0.5, 3
# Frequent labels that a rare one is compared with, rare labels that are compared, and the longest of either.
_CANDIDATES, _LONGEST_LABEL = 200, 40
# Phrases that are more probable are not named.
_SURE = 0.9
# Words to show of a phrase.
_SHOWN_WORDS = 12


class Source(NamedTuple):
    """Where a tree comes from: its file, its number in the file from 1, and its last line."""

    file: str
    number: int
    line: int


@dataclass(frozen=True)
class RareRule:
    """A rule that is seen once, or rarely.

    Attributes
    ----------
    label, children
        Labels of the parent and of its children.
    count
        How often the rule is used.
    uses
        How often the label of the parent is used.
    relatives
        How often rules are used that are the same but for repetitions of children.
    places
        The phrases.
    """

    label: str
    children: tuple[str, ...]
    count: int
    uses: int
    relatives: int
    places: tuple[Occurrence, ...]


@dataclass(frozen=True)
class RareLabel:
    """A label or tag that is seen once, or rarely, with the most similar frequent one, if any is similar."""

    kind: Literal["phrase", "tag"]
    label: str
    count: int
    similar: str | None
    places: tuple[Occurrence, ...]


class DoubtfulPhrase(NamedTuple):
    """Phrase or tag of a tree, and its posterior."""

    start: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True)
class ImprobableTree:
    """A tree that a parser finds improbable.

    Attributes
    ----------
    tree
        Its number, from 0.
    expected_errors
        Expected number of its phrases and tags that are wrong.
    phrases
        Its least probable phrases and tags.
    """

    tree: int
    expected_errors: float
    phrases: tuple[DoubtfulPhrase, ...]


@dataclass(frozen=True)
class ConsistencyReport:
    """Result of `check_consistency`; every list begins with what is most probably an error.

    Attributes
    ----------
    table
        The trees that were checked, as normalised.
    sources
        Where each comes from.
    checks
        The checks that were done.
    variations, rules, labels, trees
        What they found.
    """

    table: TreeTable = field(repr=False)
    sources: Sequence[Source] = field(repr=False)
    checks: tuple[Check, ...]
    variations: list[Variation] = field(default_factory=list)
    rules: list[RareRule] = field(default_factory=list)
    labels: list[RareLabel] = field(default_factory=list)
    trees: list[ImprobableTree] = field(default_factory=list)

    def words(self, place: Occurrence) -> list[str]:
        """Return the words of a place."""
        first = int(self.table.words_before[self.table.begins[place.tree]])
        nodes = self._word_nodes[first + place.start : first + place.end]
        return [self.table.spellings[symbol] for symbol in self.table.symbols[nodes].tolist()]

    @cached_property
    def _word_nodes(self) -> Int64[Array, "words"]:
        return np.flatnonzero(self.table.symbols >= self.table.n_labels)

    def _text(self, place: Occurrence) -> str:
        """Return the words of a place; of many only the first and the last."""
        if place.end - place.start <= _SHOWN_WORDS:
            return " ".join(self.words(place))
        half = _SHOWN_WORDS // 2
        ends = place._replace(end=place.start + half), place._replace(start=place.end - half)
        return " ... ".join(" ".join(self.words(part)) for part in ends)

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return everything, or the first `limit` of each list, as JSON values."""
        found: dict[str, Any] = {"sentences": len(self.table)}
        for check in self.checks:
            every = getattr(self, check)
            found[check] = {"number": len(every), "first": [self._value(one) for one in every[:limit]]}
        return found

    def _value(self, one: Variation | RareRule | RareLabel | ImprobableTree) -> dict[str, Any]:
        if isinstance(one, Variation):
            return {
                "kind": one.kind,
                "words": list(one.words),
                "left": list(one.left),
                "right": list(one.right),
                "analyses": [
                    {"label": label, "count": count, "places": [self._place(place) for place in one.places[label]]}
                    for label, count in one.counts.items()
                ],
            }
        if isinstance(one, ImprobableTree):
            source = self.sources[one.tree]
            return {
                **source._asdict(),
                "expected_errors": round(one.expected_errors, 3),
                "phrases": [
                    {**phrase._asdict(), "probability": round(phrase.probability, 6)} for phrase in one.phrases
                ],
            }
        places = [self._place(place) for place in one.places]
        if isinstance(one, RareLabel):
            return {
                "kind": one.kind, "label": one.label, "count": one.count, "similar": one.similar, "places": places,
            }  # fmt: skip
        return {
            "label": one.label, "children": list(one.children), "count": one.count, "uses": one.uses,
            "relatives": one.relatives, "places": places,
        }  # fmt: skip

    def _place(self, place: Occurrence) -> dict[str, Any]:
        return {**self.sources[place.tree]._asdict(), "start": place.start, "end": place.end}

    def format(self, limit: int | None = None) -> str:
        """Return the first `limit` of each list as lines for the terminal, each with file and line."""
        parts = []
        for check in self.checks:
            every = getattr(self, check)
            shown = every[:limit]
            title = f"{_TITLES[check]}: {len(every):,}"
            if len(shown) < len(every):
                title += f", the first {len(shown):,}"
            parts.append("\n".join([title, *(line for one in shown for line in self._lines(one))]))
        return "\n\n".join(parts)

    def _lines(self, one: Variation | RareRule | RareLabel | ImprobableTree) -> Iterator[str]:
        if isinstance(one, Variation):
            place = next(found for places in one.places.values() for found in places)
            yield f"  {_edge(one.left, first=True)} «{self._text(place)}» {_edge(one.right, first=False)}"
            for label, count in one.counts.items():
                name = "no phrase" if label is None else label
                yield f"    {name} {count:,}: {', '.join(self._shown(place) for place in one.places[label])}"
        elif isinstance(one, ImprobableTree):
            yield f"  {self._source(one.tree)}: {one.expected_errors:.1f} errors expected"
            for phrase in one.phrases:
                place = Occurrence(one.tree, phrase.start, phrase.end)
                yield f"    {phrase.label} {phrase.probability:.2g}: {self._text(place)}"
        else:
            for place in one.places:
                yield f"  {self._source(place.tree)}: {_described(one)}: {self._text(place)}"

    def _source(self, tree: int) -> str:
        return f"{self.sources[tree].file}:{self.sources[tree].line}"

    def _shown(self, place: Occurrence) -> str:
        return f"{self._source(place.tree)} (words {place.start + 1}-{place.end})"


_TITLES = {
    "variations": "same words, different analyses",
    "rules": "rare rules",
    "labels": "rare labels",
    "trees": "improbable trees",
}


def _described(one: RareRule | RareLabel) -> str:
    if isinstance(one, RareRule):
        return f"{one.label} -> {' '.join(one.children)}"
    perhaps = "" if one.similar is None else f", perhaps {one.similar}"
    return f"{one.kind} {one.label}{perhaps}"


def _edge(words: Sequence[str], *, first: bool) -> str:
    """Return words of context, with boundaries of the sentence as `<s>` and `</s>`."""
    boundary = "<s>" if first else "</s>"
    return " ".join(word or boundary for word in words)


def check_consistency(
    trees: Iterable[tuple[Tree, Source]],
    *,
    checks: Iterable[Check] | None = None,
    normaliser: Normaliser | None = None,
    parser: Parser | None = None,
    context: int = 1,
    rare: int = 1,
    progress: Progress | None = None,
) -> ConsistencyReport:
    """Look for annotation errors in a treebank.

    Parameters
    ----------
    trees
        The trees, and where each comes from.
    checks
        The checks to do, of `CHECKS`. Default: all; improbable trees only with a parser.
    normaliser
        Cleans the trees first; None: no cleaning. The parser's own is used if there is a parser.
    parser
        The parser that judges trees, not trained on them.
    context
        Number of words that must agree on each side of a variation.
    rare
        Report rules and labels that occur at most this many times.
    progress
        Receives progress reports.

    Examples
    --------
    >>> lines = ["(S (NP (NN time)) (VP (VBZ flies)))", "(S (NP (NN fish)) (VPP (VBZ swims)))"] + 10 * [
    ...     "(S (NP (NN rain)) (VP (VBZ falls)))"
    ... ]
    >>> trees = [(Tree.parse(line), Source("some.mrg", number, number)) for number, line in enumerate(lines, 1)]
    >>> print(check_consistency(trees, checks=["labels"]).format())
    rare labels: 1
      some.mrg:2: phrase VPP, perhaps VP: swims
    """
    watcher = progress or Silent()
    wanted = tuple(check for check in CHECKS if check != "trees" or parser is not None)
    if checks is not None:
        chosen = set(checks)
        wanted = tuple(check for check in CHECKS if check in chosen)
    clean = parser.grammar.normaliser if parser is not None else normaliser
    sources: list[Source] = []

    def cleaned() -> Iterator[Tree]:
        for tree, source in track(trees, watcher, "reading", unit="trees"):
            found = tree if clean is None else clean(tree)
            if found is not None:
                sources.append(source)
                # Phrases with gaps are checked by their parts.
                yield split_gaps(found) if found.is_placed else found

    table = TreeTable.from_trees(cleaned())
    report = ConsistencyReport(table, sources, wanted)
    if "variations" in wanted:
        with watcher.stage("comparing the same words"):
            report.variations.extend(find_variations(table, context=context))
    if "rules" in wanted:
        report.rules.extend(rare_rules(table, rare))
    if "labels" in wanted:
        report.labels.extend(rare_labels(table, rare))
    if "trees" in wanted and parser is not None:
        report.trees.extend(improbable_trees(table, parser, watcher))
    return report


def rare_rules(table: TreeTable, most: int = 1) -> list[RareRule]:
    """Return the rules that are used at most `most` times, the most suspicious first.

    These are rules without relatives, of the most frequent labels.
    """
    if not len(table):
        return []
    is_word = table.symbols >= table.n_labels
    is_tag = np.zeros(len(table.symbols), bool)
    is_tag[table.parents[is_word]] = True
    spell = table.spellings
    below = np.flatnonzero((table.parents >= 0) & ~is_word)
    below = below[np.argsort(table.parents[below], kind="stable")]
    rules: Counter[tuple[int, ...]] = Counter()
    nodes: dict[tuple[int, ...], list[int]] = {}
    symbols, parents = table.symbols.tolist(), table.parents[below].tolist()
    for parent, children in groupby(zip(parents, below.tolist(), strict=True), key=lambda pair: pair[0]):
        rule = (symbols[parent], *(symbols[child] for _, child in children))
        rules[rule] += 1
        if rules[rule] <= most:
            nodes.setdefault(rule, []).append(parent)
        else:
            nodes.pop(rule, None)
    uses: Counter[int] = Counter()
    relatives: Counter[tuple[int, ...]] = Counter()
    for rule, count in rules.items():
        uses[rule[0]] += count
        relatives[_without_repetitions(rule)] += count
    found = [
        RareRule(
            label=spell[rule[0]],
            children=tuple(spell[child] for child in rule[1:]),
            count=len(where),
            uses=uses[rule[0]],
            relatives=relatives[_without_repetitions(rule)] - rules[rule],
            places=tuple(_place(table, node) for node in where),
        )
        for rule, where in nodes.items()
    ]
    return sorted(found, key=lambda one: (one.count, one.relatives, -one.uses, one.label, one.children))


def _without_repetitions(rule: tuple[int, ...]) -> tuple[int, ...]:
    return (rule[0], *(child for child, _ in groupby(rule[1:])))


def rare_labels(table: TreeTable, most: int = 1) -> list[RareLabel]:
    """Return the labels of phrases and the tags that are used at most `most` times."""
    if not len(table):
        return []
    is_word = table.symbols >= table.n_labels
    is_tag = np.zeros(len(table.symbols), bool)
    is_tag[table.parents[is_word]] = True
    found: list[RareLabel] = []
    kinds: tuple[tuple[Literal["phrase", "tag"], Any], ...] = (("phrase", ~is_word & ~is_tag), ("tag", is_tag))
    for kind, mask in kinds:
        nodes = np.flatnonzero(mask)
        nodes = nodes[np.argsort(table.symbols[nodes], kind="stable")]
        counts = np.bincount(table.symbols[nodes], minlength=table.n_labels)
        first = np.concatenate([[0], np.cumsum(counts)]).tolist()
        frequent = np.argsort(-counts, kind="stable")[:_CANDIDATES]
        rare = np.flatnonzero((counts > 0) & (counts <= most)).tolist()
        for number, symbol in enumerate(rare):
            label, count = table.spellings[symbol], int(counts[symbol])
            meant = [table.spellings[other] for other in frequent.tolist() if counts[other] >= _FREQUENT * count]
            similar = [] if number >= _CANDIDATES else _similar(label, meant)
            places = tuple(_place(table, node) for node in nodes[first[symbol] : first[symbol + 1]].tolist())
            found.append(RareLabel(kind, label, count, similar[0] if similar else None, places))
    return sorted(found, key=lambda one: (one.count, one.similar is None, one.kind, one.label))


def _similar(label: str, labels: list[str]) -> list[str]:
    """Return the most similar label, if one is similar at all and all are short."""
    short = [one for one in labels if len(one) <= _LONGEST_LABEL]
    return difflib.get_close_matches(label, short, n=1, cutoff=0.75) if len(label) <= _LONGEST_LABEL else []


def _place(table: TreeTable, node: int) -> Occurrence:
    tree = int(np.searchsorted(table.begins, node, side="right")) - 1
    first = table.words_before[table.begins[tree]]
    start, end = table.words_before[node] - first, table.words_before[table.ends[node]] - first
    return Occurrence(tree, int(start), int(end))


def improbable_trees(table: TreeTable, parser: Parser, progress: Progress | None = None) -> list[ImprobableTree]:
    """Return the trees in which the parser expects at least half an error, the most errors per word first."""
    trees = (table.tree(number) for number in range(len(table)))
    found = []
    sizes = []
    judged = track(parser.map(doubtful_phrases, trees), progress or Silent(), "parsing", len(table), "trees")
    for number, (size, errors, phrases) in enumerate(judged):
        if errors >= _LEAST_ERRORS:
            found.append(ImprobableTree(number, errors, tuple(phrases)))
            sizes.append(size)
    order = sorted(range(len(found)), key=lambda place: (-found[place].expected_errors / sizes[place], place))
    return [found[place] for place in order]


def doubtful_phrases(parser: Parser, tree: Tree) -> tuple[int, float, list[DoubtfulPhrase]]:
    """Return the number of words of a tree, the expected number of wrong phrases and tags, and the least probable."""
    words = tree.words()
    posterior = {(one.start, one.end, one.label): one.probability for one in parser.posteriors(words)}
    root = parser.grammar.transform.root
    keys = [span for number, span in enumerate(tree.spans()) if number or span[2] != root]
    keys += [(place, place + 1, tag) for place, tag in enumerate(tree.tags())]
    judged = [DoubtfulPhrase(*key, min(posterior.get(key, 0.0), 1.0)) for key in keys]
    errors = sum(1.0 - one.probability for one in judged)
    doubtful = sorted(judged, key=lambda one: (one.probability, one.start, -one.end))
    return len(words), errors, [one for one in doubtful[:_PHRASES] if one.probability < _SURE]
