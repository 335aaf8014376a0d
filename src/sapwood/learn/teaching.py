"""Learning from more than trees: partly bracketed sentences, and plain text.

A grammar of the trees alone, the *teacher*, reads the other sentences: those with some brackets as these allow, plain
ones as it likes. What it leaves of their trees are forests (`sapwood.inference.forests`), and the learner is fitted
again to trees and forests together (`sapwood.learn.sources`). Its hidden states are learned anew, so that the second
grammar is not bound to the first one's mistakes: trees that do not agree with the treebank and with the rest of the
text lose their weight in EM. In each further round the grammar of the round before is the teacher.

Learners that cannot take forests are given the best tree of each sentence, as self-training has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.lessons import KeptTeacher, Lessons
from sapwood.learn.recipe import Recipe
from sapwood.learn.settings import choice, declared, defaults, integer, number, other
from sapwood.learn.split_merge import SplitMerge
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress
from sapwood.storage import content_digest, pack_strings
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats import read_tokens
from sapwood.trees.partial import PartialTree

TextUse = Literal["auto", "forests", "best"]


@dataclass(frozen=True, eq=False, repr=False)
class PlainText:
    """Sentences without trees, as tokens.

    Examples
    --------
    >>> PlainText([["dogs", "sleep"], ["cats", "sleep", "too"]])
    <PlainText: 2 sentences, 5 words>
    """

    sentences: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if any(isinstance(sentence, str) for sentence in self.sentences):
            raise UsageError("text is sentences of words, [['dogs', 'sleep']]; `sapwood.tokenise_text` makes them")
        kept = tuple(tuple(sentence) for sentence in self.sentences if len(sentence))
        object.__setattr__(self, "sentences", kept)

    @classmethod
    def read(cls, *paths: str | Path) -> PlainText:
        """Read files with one sentence a line, tokens separated by blanks."""
        return cls([sentence for path in paths for sentence in read_tokens(path)])

    def __repr__(self) -> str:
        words = sum(map(len, self.sentences))
        return f"<PlainText: {len(self.sentences):,} sentences, {words:,} words>"

    @cached_property
    def _digest(self) -> str:
        words = pack_strings([word for sentence in self.sentences for word in sentence])
        return content_digest({"words": words, "lengths": np.array([*map(len, self.sentences)], np.int64)}, {})

    def digest(self) -> str:
        """Return a fingerprint of the content."""
        return self._digest


@dataclass(frozen=True, eq=False, repr=False)
class PartialTrees:
    """Trees of which some is not known."""

    trees: Sequence[PartialTree]

    def __repr__(self) -> str:
        return f"<PartialTrees: {len(self.trees):,}>"

    @cached_property
    def _digest(self) -> str:
        return content_digest({"trees": pack_strings([str(tree) for tree in self.trees])}, {})

    def digest(self) -> str:
        """Return a fingerprint of the content."""
        return self._digest


@dataclass(frozen=True, kw_only=True, repr=False)
class Taught(Learner):
    """A learner that is given more than trees.

    Parameters
    ----------
    student
        The learner, and the teacher of the first round.
    partial
        Partly bracketed sentences. Those in which nothing is unknown are trees; the teacher learns from them as well.
    text
        Plain sentences.
    partial_weight, text_weight
        How much each of these sentences counts, where a tree counts 1.
    text_use
        `forests`: all trees that the teacher leaves of a sentence; `best`: its best one. With `auto` forests, if the
        learner can take them.
    trust
        How far the teacher's probabilities count in forests beside those of the grammar that is learned: see
        `sapwood.learn.sources`.
    rounds
        How often the sentences are read and learned from.
    least
        Edges to which the teacher gives less are left out of forests.
    longest
        Plain sentences with more words are left out.
    random_state, threads, workers
        Those of the student, whatever it was made with.
    teacher_state
        The seed of teachers. Grammars that had the same teachers know the same rules and words, and parse together.

    Examples
    --------
    >>> from sapwood import EM, Tree
    >>> corpus = EM.prepare([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> text = PlainText([["dogs", "bark"], ["cats", "sleep"]])
    >>> grammar = Taught(student=EM(states=1, iterations=3), text=text).fit(corpus)
    >>> grammar.lexicon.words
    ['dogs', 'sleep', 'bark', 'cats']
    """

    student: Learner = other(SplitMerge(), "The learner.", Learner)
    partial: PartialTrees | None = other(None, "Partly bracketed sentences.", PartialTrees)
    text: PlainText | None = other(None, "Plain sentences.", PlainText)
    partial_weight: float = number(1.0, "How much a partly bracketed sentence counts.", above=0, below=1e6)
    text_weight: float = number(0.3, "How much a plain sentence counts.", above=0, below=1e6)
    text_use: TextUse = choice(
        "auto", "What to learn from: all trees that are left of a sentence, or the best.", get_args(TextUse)
    )
    trust: float = number(0.0, "How far the teacher's probabilities count in forests.", below=100)
    rounds: int = integer(2, "How often sentences are read and learned from.", low=1)
    least: float = number(0.01, "Less probable edges are left out of forests.", below=1)
    longest: int = integer(100, "Longer plain sentences are left out.", low=1)
    random_state: int = integer(0, "Seed of every random choice.")
    teacher_state: int = integer(0, "The same for teachers.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text_use == "forests" and not self.student.takes_forests:
            raise UsageError(f"text_use: {self.student.method} cannot take forests, only the best trees")
        for name in ("partial_weight", "text_weight"):
            if not self.with_forests and getattr(self, name) != defaults(type(self))[name]:
                raise UsageError(f"{name}: goes with forests; the best trees count like others")
        given: dict[str, Any] = {"threads": self.threads, "workers": self.workers}
        if "random_state" in declared(self.student):
            given["random_state"] = self.random_state
        object.__setattr__(self, "student", self.student.replace(**given))

    @classmethod
    def of(cls, student: Learner, **settings: Any) -> Taught:
        """Return the learner of a student, with its threads, workers and seed."""
        seed = getattr(student, "random_state", 0)
        given = {"random_state": seed, "teacher_state": seed, **settings}
        return cls(student=student, threads=student.threads, workers=student.workers, **given)

    @property
    def method(self) -> str:  # type: ignore[override]
        """The student's."""
        return self.student.method

    @property
    def with_forests(self) -> bool:
        """Whether all trees that are left of a sentence are learned from, not the best one."""
        return self.text_use == "forests" or (self.text_use == "auto" and self.student.takes_forests)

    def settings(self) -> dict[str, Any]:
        """Return the student's settings, and those of teaching, as JSON values."""
        own = super().settings()
        for name in ("student", "lexical", "random_state"):
            del own[name]
        return {**self.student.settings(), "teaching": own}

    def _learn(
        self, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, checkpoint: str | Path | None
    ) -> TensorGrammar:
        lessons = Lessons(
            corpus,
            () if self.partial is None else self.partial.trees,
            () if self.text is None else self.text.sentences,
            weights=(self.partial_weight, self.text_weight) if self.with_forests else None,
            trust=self.trust,
            least=self.least,
            longest=self.longest,
            workers=self.where,
            progress=progress,
        )
        held_out = dev is not None and getattr(dev, "digest", True)
        kept = KeptTeacher(checkpoint, {**self.settings(), "corpus": corpus.digest(), "dev": held_out})
        done, teacher = kept.load()
        teaching = self.student
        if "random_state" in declared(teaching):
            teaching = teaching.replace(random_state=self.teacher_state)
        # Round 0 is that of the trees alone.
        for turn in range(done, self.rounds + 1):
            last = turn == self.rounds
            trees, also = lessons.given() if teacher is None else lessons.taught(teacher)
            if not last:
                progress.note("a teacher from the trees" if teacher is None else f"a teacher from round {turn}")
            teacher = (self.student if last else teaching).fit(
                trees,
                also=also,
                dev=dev,
                progress=progress,
                log=log if last else NoLog(),
                checkpoint=checkpoint if last else kept.run,
            )
            if not last:
                kept.save(turn + 1, teacher)
        assert teacher is not None
        kept.clear()
        training = {**teacher.info["training"], "trees": corpus.n_trees, "words": corpus.n_words}
        training |= {"digest": corpus.digest(), **lessons.counts}
        return teacher.with_info(settings=self.settings(), training=training)


def taught(recipe: Recipe, partial: PartialTrees | None, text: PlainText | None, **settings: Any) -> Recipe:
    """Return a recipe whose learners are given more than trees, as `Taught` has it; one teacher is everybody's."""
    if len({learner.method for learner in recipe.learners}) > 1:
        raise UsageError("learners of different methods cannot share a teacher: name one method")
    given = {"teacher_state": recipe.seed, **settings}
    learners = tuple(Taught.of(learner, partial=partial, text=text, **given) for learner in recipe.learners)
    return replace(recipe, learners=learners)
