"""Silver trees: predicted by a parser, and trained on besides gold trees."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.inference.forest.packed import ParseRequest, parse_best
from sapwood.inference.parser import Parser
from sapwood.inference.span_scorer import SpanScorerWarning
from sapwood.learn.semi_supervised.data import corpus_as_is
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.pipeline.record import SILVER
from sapwood.runtime.executor import Executor
from sapwood.runtime.progress import Progress, track
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# Weight of a gold tree next to a silver one (docs/distillation.md).
DEFAULT_GOLD_WEIGHT = 3
# Labels that messages list.
_SHOWN = 5


@dataclass(frozen=True)
class SilverTrees:
    """Trees predicted by a teacher, checked against the gold trees and prepared as they are.

    Attributes
    ----------
    corpus
        The silver trees.
    gold_weight
        Weight of a gold tree; a silver tree has weight 1.
    """

    corpus: Corpus
    gold_weight: int = 1

    def __post_init__(self) -> None:
        if self.gold_weight < 1:
            raise UsageError(f"gold_weight must be at least 1, not {self.gold_weight}")

    @classmethod
    def of(
        cls, trees: Iterable[Tree], gold: Corpus, *, gold_weight: int = 1, progress: Progress | None = None
    ) -> SilverTrees:
        """Prepare trees as the gold trees were.

        Trees with labels that no gold tree has are normalised as the gold trees were, and skipped, with a note, if that
        does not help. An `InputError` is raised if no tree is left.
        """
        known = {label for chain in gold.symbols.chain for label in chain} | {gold.normaliser.root}
        kept: list[Tree] = []
        unknown: Counter[str] = Counter()
        skipped = 0
        for tree in trees:
            # Labels that a parser predicts are final: normalised again they could change.
            clean: Tree | None = tree
            if strange := _labels(tree) - known:
                clean = gold.normaliser(tree)
                strange = set() if clean is None else _labels(clean) - known
            if clean is not None and not strange:
                kept.append(clean)
            skipped += bool(strange)
            unknown.update(strange)
        labels = ", ".join(f"{label} ({count:,})" for label, count in unknown.most_common(_SHOWN))
        if not kept:
            why = (
                f"labels that no gold tree has: {labels}; rename them (`--label-map`)" if unknown else "there are none"
            )
            raise InputError(f"no silver tree can be used: {why}")
        if skipped and progress is not None:
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            progress.note(f"skipped {skipped:,} silver tree(s) with labels that no gold tree has: {labels}{more}")
        silver = corpus_as_is(kept, gold)
        return cls(silver, gold_weight)

    def added_to(self, gold: Corpus) -> Corpus:
        """Return the gold trees, each as often as it weighs, and the silver trees."""
        if self.gold_weight > 1:
            gold = gold.part(np.tile(np.arange(gold.n_trees), self.gold_weight))
        return gold.joined(self.corpus)

    def more_copies(self, n_gold: int) -> int:
        """Return how many more copies of the gold trees make them about a third of all trees.

        >>> from sapwood.trees.corpus import Corpus
        >>> SilverTrees(Corpus.from_trees([Tree.parse("(N dogs)")] * 60), gold_weight=2).more_copies(10)
        1
        """
        return max(0, round(self.corpus.n_trees / (2 * n_gold)) - self.gold_weight)

    @property
    def fingerprint(self) -> str:
        """What the result of a run depends on."""
        return f"{SILVER}{self.corpus.digest()} {self.gold_weight}"


def _labels(tree: Tree) -> set[str]:
    return {node.label for node in tree.nodes()}


@dataclass(frozen=True)
class SilverSource:
    """Where silver trees come from: they are given, or a teacher predicts them for unlabelled sentences.

    Attributes
    ----------
    trees
        The silver trees.
    teacher
        The teacher.
    gold_weight
        Weight of a gold tree.
    """

    trees: Iterable[Tree] | None = None
    teacher: Sources | None = None
    gold_weight: int | None = None

    @property
    def is_empty(self) -> bool:
        """True if there are no silver trees."""
        return self.trees is None and self.teacher is None

    def check(
        self, *, text: bool, text_use: str | None = None, refused: Sequence[str] = (), named: Callable[[str], str] = str
    ) -> None:
        """Refuse combinations that have no meaning.

        Parameters
        ----------
        text, text_use
            True if there is unlabelled text, and its use.
        refused
            Other arguments that were given and cannot be combined with silver trees.
        named
            Spelling of an argument in messages: `--gold-weight` for `gold_weight`.
        """
        if self.is_empty:
            if self.gold_weight is not None:
                raise UsageError(f"{named('gold_weight')} requires {named('silver')} or {named('teacher')}")
            return
        given = named("silver" if self.teacher is None else "teacher")
        if self.trees is not None and self.teacher is not None:
            raise UsageError(f"{named('silver')} cannot be used with {given}, which predicts the silver trees itself")
        if refused:
            raise UsageError(f"{given} cannot be used with {named(refused[0])}")
        if self.teacher is not None and not text:
            raise UsageError(f"{given} requires {named('text')}: the sentences that it parses")
        allowed = (None, "word-classes") if self.teacher is None else (None, "self-training")
        if text_use not in allowed:
            raise UsageError(f"{given} cannot be used with {named('text_use')} {text_use}")
        if self.gold_weight is not None and self.gold_weight < 1:
            raise UsageError(f"{named('gold_weight')} must be at least 1, not {self.gold_weight}")

    def prepare(
        self, gold: Corpus, sentences: Sequence[Sequence[str]], workers: Executor, progress: Progress
    ) -> SilverTrees:
        """Return the silver trees of these sentences, or those that are given."""
        trees = self.trees
        if trees is None:
            assert self.teacher is not None
            if not sentences:
                raise InputError("the text has no sentence for the teacher to parse")
            teacher = ParserModel.gather(self.teacher)
            trees = predict_trees(teacher, sentences, workers, progress)
        weight = DEFAULT_GOLD_WEIGHT if self.gold_weight is None else self.gold_weight
        return SilverTrees.of(trees, gold, gold_weight=weight, progress=progress)


def predict_trees(
    model: ParserModel, sentences: Sequence[Sequence[str]], workers: Executor, progress: Progress
) -> list[Tree]:
    """Return the best trees of those sentences that a model has a parse of.

    A model without its encoder is refused: its trees would be worse than they could be.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SpanScorerWarning)
            parser = Parser(model, workers=workers)
    except SpanScorerWarning as warning:
        raise InputError(f"the model that parses the text is not complete: {warning}") from warning
    found = parse_best(parser, map(ParseRequest, sentences))
    shown = track(found, progress, "parsing text", len(sentences), "sentences")
    return [tree for tree in shown if tree is not None]
