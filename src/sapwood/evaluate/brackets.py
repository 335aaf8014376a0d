"""Bracket scores by the rules of EVALB.

A pair of trees is compared as follows:

1. Words whose *tag* is a deleted label are removed from each tree by that tree's own tags. The remaining words must
   be the same, else the sentence is an *error* and does not count. (If the numbers of words differ, a quotation mark
   `'`, `"` or `/` that one tree deletes and the other keeps, under two different tags of `quote_labels`, is restored
   first.) A predicted tree with no words left is *skipped*.
2. A *bracket* is a phrase (not a tag) with its span over the remaining words; empty phrases and phrases with a deleted
   label do not count.
3. Brackets match when span and label agree. Equal brackets, as in NP over NP, are matched one to one: two against one
   is one match. *Unlabeled* scores compare spans only, over the same brackets.
4. A predicted bracket that crosses any gold bracket is one *crossing*.
5. A sentence is *exact* when all gold and predicted brackets match, even if there are none; tags are ignored. Tags are
   scored over the remaining words.
6. Trees may have gaps. The bracket of a phrase whose remaining words are not adjacent has the set of these words
   instead of a span. *Discontinuous* scores are over these brackets alone, as in disco-dop; crossings and kinds of
   mistakes are counted over the others.
7. The *length* of a sentence is the number of gold words whose tags are not among `delete_labels_for_length`,
   punctuation included.

Differences from EVALB: labels are compared unchanged (EVALB cuts phrase labels at the first `-` or `=`; normalise the
trees first); equality of labels and of words is transitive; a quotation mark is restored at most once (EVALB may do so
twice in a row of several); lengths are unlimited; and a sentence without a prediction is *failed*: it has no predicted
brackets, so it lowers recall, tag accuracy and exact matches instead of being ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from sapwood.errors import InputError
from sapwood.evaluate.error_types import Bracket, count_mistakes
from sapwood.evaluate.evalb_params import PARAMETER_SETS, UNLABELED, EvalbParameters, get_parameters
from sapwood.evaluate.result import PRF, EvaluationResult, LabelScore
from sapwood.trees.formats.gaps import Blocks, node_blocks, positions
from sapwood.trees.tree import Tree

_QUOTE_WORDS = frozenset({"'", '"', "/"})


@dataclass(frozen=True)
class SentenceScore(PRF):
    """Counts of one sentence, all zero except `length` when it is skipped or in error.

    `gold` and `predicted` are the numbers of brackets, the same for labeled and unlabelled scores. `matched` respects
    the parameter `labeled`; `unlabelled_matched` compares spans only. `disc_gold`, `disc_predicted` and `disc_matched`
    are the same numbers for phrases with gaps alone. `labels` has the counts `(gold, predicted,
    matched)` of each label, and `mistakes` the number of each kind (see `sapwood.evaluate.error_types`).
    """

    status: Literal["ok", "failed", "skipped", "error"]
    length: int
    message: str = ""
    words: int = 0
    correct_tags: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    unlabelled_matched: int = 0
    disc_gold: int = 0
    disc_predicted: int = 0
    disc_matched: int = 0
    crossing: int = 0
    labels: Mapping[str, tuple[int, int, int]] = field(default_factory=dict, repr=False)
    mistakes: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def scored(self) -> bool:
        """True if the sentence counts."""
        return self.status in ("ok", "failed")

    @property
    def exact(self) -> bool:
        """True if the sentence was parsed and all brackets match."""
        return self.status == "ok" and self.gold == self.predicted == self.matched


def score_tree(
    gold: Tree, predicted: Tree | None, parameters: EvalbParameters = PARAMETER_SETS["default"]
) -> SentenceScore:
    """Compare a predicted tree (None: the parser failed) with the gold one.

    Examples
    --------
    >>> gold = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    >>> score = score_tree(gold, Tree.parse("(S (NP (DT the)) (VP (NN dog) (VBZ barks)))"))
    >>> score.matched, score.gold, score.predicted, score.crossing
    (1, 3, 3, 1)
    """
    dropped = _dropped(gold, parameters) if parameters.by_gold else None
    left = _flatten(gold, parameters, dropped=dropped)
    if predicted is None:
        right = _Flat([], [], [], 0, [])
    else:
        if dropped is not None and len(predicted) != len(gold):
            problem = f"length mismatch: {len(gold)} gold words, {len(predicted)} predicted"
            return SentenceScore("error", left.length, problem)
        right = _flatten(predicted, parameters, dropped=dropped)
        if not right.words:
            return SentenceScore("skipped", left.length, "the predicted tree has no words that count")
        if len(left.words) != len(right.words) and parameters.quote_labels:
            keep_gold, keep_predicted = _misquoted(left, right, parameters)
            left = _flatten(gold, parameters, keep_gold)
            right = _flatten(predicted, parameters, keep_predicted)
        problem = _difference(left.words, right.words, parameters)
        if problem:
            return SentenceScore("error", left.length, problem)

    if parameters.disc_only:
        left, right = left._replace(brackets=[]), right._replace(brackets=[])
    gold_brackets, predicted_brackets = Counter(left.brackets), Counter(right.brackets)
    matched = gold_brackets & predicted_brackets
    gold_spans = Counter([bracket[:2] for bracket in left.brackets])
    predicted_spans = Counter([bracket[:2] for bracket in right.brackets])
    score = SentenceScore(
        status="ok" if predicted is not None else "failed",
        length=left.length,
        words=len(left.words),
        correct_tags=_count_equal(left.tags, right.tags, parameters.label_names),
        gold=len(left.brackets),
        predicted=len(right.brackets),
        matched=matched.total(),
        unlabelled_matched=(gold_spans & predicted_spans).total(),
        crossing=_count_crossing(gold_spans, predicted_spans),
        labels=_by_label(
            [label for _, _, label in left.brackets],
            [label for _, _, label in right.brackets],
            [label for _, _, label in matched.elements()],
        ),
        mistakes=count_mistakes(gold_brackets, predicted_brackets),
    )
    return _with_gaps(score, left.gaps, right.gaps) if left.gaps or right.gaps else score


def _with_gaps(
    score: SentenceScore, gold: Sequence[tuple[Blocks, str]], predicted: Sequence[tuple[Blocks, str]]
) -> SentenceScore:
    """Return the score with the brackets of phrases with gaps added."""
    matched = Counter(gold) & Counter(predicted)
    blocks = Counter([one for one, _ in gold]) & Counter([one for one, _ in predicted])
    labels = _by_label(*([label for _, label in part] for part in (gold, predicted, list(matched.elements()))))
    nothing = (0, 0, 0)
    for label, counts in score.labels.items():
        gap_counts = labels.get(label, nothing)
        labels[label] = (counts[0] + gap_counts[0], counts[1] + gap_counts[1], counts[2] + gap_counts[2])
    return replace(
        score,
        gold=score.gold + len(gold),
        predicted=score.predicted + len(predicted),
        matched=score.matched + matched.total(),
        unlabelled_matched=score.unlabelled_matched + blocks.total(),
        disc_gold=len(gold),
        disc_predicted=len(predicted),
        disc_matched=matched.total(),
        labels=labels,
    )


class Scorer:
    """Accumulator of sentence scores, with the given `parameters` (see `get_parameters`).

    `scores` holds the score of each sentence in the order of addition, to compare two parsers sentence by sentence.
    """

    def __init__(self, parameters: EvalbParameters | str = "default") -> None:
        self.parameters = get_parameters(parameters) if isinstance(parameters, str) else parameters
        self.scores: list[SentenceScore] = []
        self._texts: list[str] = []
        self._errors = 0

    def add(self, gold: Tree, predicted: Tree | None, place: str = "") -> SentenceScore:
        """Score a sentence and return its score; None for `predicted` counts as a failure to parse.

        `place` names the source of the trees in messages.

        Raises
        ------
        InputError
            If more sentences are in error than the parameter `max_error` allows.
        """
        score = score_tree(gold, predicted, self.parameters)
        if place and score.status == "error":
            score = replace(score, message=f"{score.message} ({place})")
        self.scores.append(score)
        self._texts.append(" ".join(gold.words()))
        if score.status == "error":
            self._errors += 1
            limit = self.parameters.max_error
            if limit is not None and self._errors > limit:
                raise InputError(
                    f"sentence {len(self.scores)}: {score.message}; more errors than the {limit} that "
                    f"MAX_ERROR of the parameters {self.parameters.name!r} allows: check that the gold and "
                    "the predicted trees are of the same sentences in the same order"
                )
        return score

    def result(self) -> EvaluationResult:
        """Return the scores over all sentences added so far."""
        labels: dict[str, list[int]] = {}
        for score in self.scores:
            for label, counts in score.labels.items():
                sums = labels.setdefault(label, [0, 0, 0])
                for index, count in enumerate(counts):
                    sums[index] += count
        return EvaluationResult.of_scores(
            self.scores,
            self.parameters,
            {label: LabelScore(*sums) for label, sums in labels.items()},
            self._texts,
        )


def counted_brackets(
    tree: Tree, parameters: EvalbParameters = PARAMETER_SETS["default"]
) -> tuple[list[str], list[Bracket]]:
    """Return the words of a tree that count, and its brackets over them as `(start, end, label)`.

    Examples
    --------
    >>> counted_brackets(Tree.parse("(TOP (S (NP (NN dogs)) (VP (VBP sleep) (-NONE- *))))"))
    (['dogs', 'sleep'], [(0, 1, 'NP'), (1, 2, 'VP'), (0, 2, 'S')])
    """
    flat = _flatten(tree, parameters)
    return flat.words, flat.brackets


def _dropped(gold: Tree, parameters: EvalbParameters) -> frozenset[int]:
    """Return the positions of the words that do not count, judging by the gold tree alone."""
    dropped = {
        place
        for place, node in enumerate(gold.preterminals())
        if node.label in parameters.delete_labels or node.word in parameters.delete_words
    }
    if parameters.delete_root_tags:
        below = {id(child) for child in gold.children if child.word is not None}
        dropped.update(place for place, node in enumerate(gold.preterminals()) if id(node) in below)
    return frozenset(dropped)


class _Flat(NamedTuple):
    """A tree, flattened for scoring.

    `brackets` has `(start, end, label)`, children before parents. `quotes` has `(number of words kept before it, tag,
    number of words before it)` for each potentially misquoted word. `gaps` has the brackets of phrases with gaps.
    """

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]
    length: int
    quotes: list[tuple[int, str, int]]
    gaps: Sequence[tuple[Blocks, str]] = ()


def _flatten(
    tree: Tree,
    parameters: EvalbParameters,
    keep: frozenset[int] = frozenset(),
    dropped: frozenset[int] | None = None,
) -> _Flat:
    """Delete words and brackets that do not count, except the words with indices in `keep`.

    With `dropped`, words with these indices are deleted, whatever their tags.
    """
    if dropped is not None or tree.is_placed:
        return _flatten_gaps(tree, parameters, keep, dropped)
    deleted_tags, deleted_phrases = parameters.delete_labels, parameters.deleted_phrases
    not_in_length, quote_labels = parameters.delete_labels_for_length, parameters.quote_labels
    names, labeled = parameters.label_names, parameters.labeled
    words: list[str] = []
    tags: list[str] = []
    brackets: list[Bracket] = []
    quotes: list[tuple[int, str, int]] = []
    length = seen = 0
    # A frame is (node, -1) before its children are visited and (node, start) after.
    stack = [(tree, -1)]
    while stack:
        node, start = stack.pop()
        label, word = node.label, node.word
        if word is not None:
            if label not in not_in_length:
                length += 1
            if label in quote_labels and word in _QUOTE_WORDS:
                quotes.append((len(words), label, seen))
            if label not in deleted_tags or seen in keep:
                words.append(word)
                tags.append(label)
            seen += 1
        elif start < 0:
            stack.append((node, len(words)))
            stack.extend([(child, -1) for child in reversed(node.children)])
        elif start < len(words) and label not in deleted_phrases:
            brackets.append((start, len(words), names.get(label, label) if labeled else UNLABELED))
    return _Flat(words, tags, brackets, length, quotes)


def _flatten_gaps(
    tree: Tree, parameters: EvalbParameters, keep: frozenset[int], dropped: frozenset[int] | None
) -> _Flat:
    """Do what `_flatten` does, for a tree with gaps."""
    names, labeled = parameters.label_names, parameters.labeled
    flat = _Flat([], [], [], 0, [], [])
    length = 0
    numbers: dict[int, int] = {}
    for place, leaf in enumerate(tree.preterminals()):
        label, word = leaf.label, str(leaf.word)
        length += label not in parameters.delete_labels_for_length
        if label in parameters.quote_labels and word in _QUOTE_WORDS:
            flat.quotes.append((len(flat.words), label, place))
        if place in dropped if dropped is not None else label in parameters.delete_labels and place not in keep:
            continue
        numbers[place] = len(flat.words)
        flat.words.append(word)
        flat.tags.append(label)
    places = positions(tree)
    first = min(places)
    blocks_of = node_blocks(tree, [numbers.get(place - first) for place in places])
    gaps: list[tuple[Blocks, str]] = []
    for node, blocks in zip(tree.nodes(), blocks_of, strict=True):
        if node.word is not None or not blocks or node.label in parameters.deleted_phrases:
            continue
        label = names.get(node.label, node.label) if labeled else UNLABELED
        if len(blocks) == 1:
            flat.brackets.append((*blocks[0], label))
        else:
            gaps.append((blocks, label))
    return flat._replace(length=length, gaps=gaps)


def _misquoted(gold: _Flat, predicted: _Flat, parameters: EvalbParameters) -> tuple[frozenset[int], frozenset[int]]:
    """Return the indices of the gold and of the predicted words to keep although their tags are deleted.

    These are the quotation marks at the same position in both trees that only one of them deletes. A restored word
    shifts later words of its tree by one position.
    """
    deleted = parameters.delete_labels
    keep_gold: set[int] = set()
    keep_predicted: set[int] = set()
    for place, tag, number in predicted.quotes:
        place += len(keep_predicted)
        for gold_place, gold_tag, gold_number in gold.quotes:
            moved = sum(1 for kept in keep_gold if kept < gold_number)
            if gold_place + moved != place or (gold_tag in deleted) == (tag in deleted):
                continue
            if gold_tag in deleted:
                keep_gold.add(gold_number)
            else:
                keep_predicted.add(number)
            break
    return frozenset(keep_gold), frozenset(keep_predicted)


def _difference(gold: list[str], predicted: list[str], parameters: EvalbParameters) -> str:
    """Return a description of the difference between the words of the two trees, empty if there is none."""
    if len(gold) != len(predicted):
        return f"length mismatch: {len(gold)} gold words, {len(predicted)} predicted, after deletion"
    if gold != predicted:
        names = parameters.word_names
        for number, (a, b) in enumerate(zip(gold, predicted, strict=True), 1):
            if names.get(a, a) != names.get(b, b):
                return f"words mismatch: word {number} after deletion is {a!r} in gold, {b!r} in the prediction"
    return ""


def _count_equal(gold: list[str], predicted: list[str], names: Mapping[str, str]) -> int:
    return sum(1 for a, b in zip(gold, predicted, strict=False) if a == b or names.get(a, a) == names.get(b, b))


def _by_label(gold: Sequence[str], predicted: Sequence[str], matched: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    in_gold, in_predicted, in_both = Counter(gold), Counter(predicted), Counter(matched)
    return {label: (in_gold[label], in_predicted[label], in_both[label]) for label in in_gold | in_predicted}


def _count_crossing(gold: Counter[tuple[int, int]], predicted: Counter[tuple[int, int]]) -> int:
    """Return the number of predicted brackets that cross a gold bracket, in one sweep over the sentence.

    The gold brackets around the boundary at `start` are nested, so the innermost one ends first: the span `start, end`
    crosses one of them exactly when the innermost ends before `end`. Likewise it crosses one at `end` exactly when the
    innermost there begins after `start`.
    """
    strangers = [(span, count) for span, count in predicted.items() if span not in gold]
    if not strangers:
        return 0
    size = max(end for (_, end), _ in strangers)
    innermost = [(-1, size)] * (size + 1)
    # Unopened gold spans; the last one begins first and, among ties, is the longest.
    waiting = sorted(gold, key=lambda span: (-span[0], span[1]))
    around: list[tuple[int, int]] = []
    for boundary in range(1, size + 1):
        while waiting and waiting[-1][0] < boundary:
            around.append(waiting.pop())
        while around and around[-1][1] <= boundary:
            around.pop()
        if around:
            innermost[boundary] = around[-1]
    return sum(count for (start, end), count in strangers if innermost[start][1] < end or innermost[end][0] > start)
