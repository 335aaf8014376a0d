"""Taggers: grammars of right-branching trees (`sapwood.trees.sequences`), trained by any learner.

Hidden states are then those of a hidden Markov model whose words have tags. Learners without hidden states get phrases
labelled with their first tag, and learn the HMM whose states are the tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sapwood.errors import InputError
from sapwood.evaluate.dev_set import DevSet
from sapwood.learn.base import Learner
from sapwood.runtime.progress import Progress
from sapwood.trees.corpus import Corpus
from sapwood.trees.sequences import SEQUENCES, labelled_by_tags, sequence_trees
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


def tagged_corpus(
    learner: Learner, sequences: Iterable[Sequence[tuple[str, str]]], *, progress: Progress | None = None
) -> Corpus:
    """Return sequences of `(word, tag)` as a learner needs them, skipping empty ones.

    Examples
    --------
    >>> from sapwood import EM, PCFG, Parser
    >>> sequences = [[("rain", "N"), ("fell", "V")], [("rain", "V"), ("again", "R")]] * 5
    >>> grammar = PCFG().fit(tagged_corpus(PCFG(), sequences))
    >>> Parser(grammar).parse_one(["rain", "fell"]).tree.tags()
    ['N', 'V']
    """
    trees = _trees(learner, sequences)
    return Corpus.from_trees(trees, normaliser=SEQUENCES, transform=TreeTransform(), progress=progress)


def held_out_sequences(learner: Learner, sequences: Iterable[Sequence[tuple[str, str]]], corpus: Corpus) -> DevSet:
    """Return held-out sequences for choosing the tagger with the highest tagging accuracy."""
    trees = list(_trees(learner, sequences))
    if not trees:
        raise InputError("no sequences to measure taggers on")
    return DevSet(trees, corpus, workers=learner.executor, goal="tags")


def _trees(learner: Learner, sequences: Iterable[Sequence[tuple[str, str]]]) -> Iterator[Tree]:
    trees = sequence_trees(sequences)
    return map(labelled_by_tags, trees) if learner.preparation.vertical > 1 else trees
