"""Semi-supervised learning from trees, partly bracketed sentences and plain text.

A grammar of the trees alone, the *teacher*, parses the other sentences, within their brackets if they have some. The
trees that it considers likely form forests (`sapwood.inference.forest.packed`), and the learner is fitted again to
trees and forests together (`sapwood.learn.semi_supervised.forests`). Its hidden states are learned from scratch, so the
second grammar is not bound to the mistakes of the first: trees that disagree with the treebank and the rest of the text
lose their weight in EM. In each further round, the grammar of the previous round is the teacher.

Learners that do not support forests get the best tree of each sentence, as in self-training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.semi_supervised.data import SemiSupervisedData, Teacher, TextSettings
from sapwood.runtime.context import RunContext
from sapwood.runtime.log import NoLog
from sapwood.runtime.params import choice, defaults, integer, number, opaque, params_of
from sapwood.storage.arrays import content_digest, pack_strings
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import read_tokens
from sapwood.trees.partial import PartialTree

UnlabelledAs = Literal["auto", "forests", "best"]


@dataclass(frozen=True, eq=False, repr=False)
class UnlabelledText:
    """Sentences without trees, as tokens.

    Examples
    --------
    >>> UnlabelledText([["dogs", "sleep"], ["cats", "sleep", "too"]])
    <UnlabelledText: 2 sentences, 5 words>
    """

    sentences: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if any(isinstance(sentence, str) for sentence in self.sentences):
            raise UsageError("text is sentences of words, [['dogs', 'sleep']]; `sapwood.tokenise_text` makes them")
        kept = tuple(tuple(sentence) for sentence in self.sentences if len(sentence))
        object.__setattr__(self, "sentences", kept)

    @classmethod
    def read(cls, *paths: str | Path) -> UnlabelledText:
        """Read files with one sentence per line, tokens separated by spaces."""
        return cls([sentence for path in paths for sentence in read_tokens(path)])

    def __repr__(self) -> str:
        words = sum(map(len, self.sentences))
        return f"<UnlabelledText: {len(self.sentences):,} sentences, {words:,} words>"

    @cached_property
    def _digest(self) -> str:
        words = pack_strings([word for sentence in self.sentences for word in sentence])
        return content_digest({"words": words, "lengths": np.array([*map(len, self.sentences)], np.int64)}, {})

    def digest(self) -> str:
        """Return a fingerprint of the content."""
        return self._digest


@dataclass(frozen=True, eq=False, repr=False)
class PartialTrees:
    """Partially annotated trees."""

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
class SemiSupervised(Learner):
    """Semi-supervised learner: a base learner, and data other than trees.

    Parameters
    ----------
    base
        The learner, and the teacher of the first round.
    partial
        Partly bracketed sentences. Fully annotated ones are trees; the teacher learns from them as well.
    text
        Plain sentences.
    partial_weight, text_weight
        Weight of each of these sentences, relative to a tree.
    unlabelled_as
        `forests`: all trees that the teacher keeps of a sentence; `best`: the best one. `auto`: forests, if the learner
        supports them.
    teacher_weight
        Weight of the teacher's probabilities in forests, relative to those of the grammar that is learned: see
        `sapwood.learn.semi_supervised.forests`.
    rounds
        Number of rounds of parsing and learning.
    min_posterior
        Edges with a lower posterior under the teacher are pruned from forests.
    max_words
        Plain sentences with more words are skipped.
    random_state, threads, workers
        Override those of the base learner.
    teacher_seed
        Seed of teachers. Grammars with the same teachers share rules and words, and can parse as an ensemble.

    Examples
    --------
    >>> from sapwood import EM, Tree
    >>> corpus = EM.prepare([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> text = UnlabelledText([["dogs", "bark"], ["cats", "sleep"]])
    >>> grammar = SemiSupervised(base=EM(states=1, iterations=3), text=text).fit(corpus)
    >>> grammar.lexicon.words
    ['dogs', 'sleep', 'bark', 'cats']
    """

    base: Learner = opaque(SplitMerge(), "Base learner.", Learner)
    partial: PartialTrees | None = opaque(None, "Partially bracketed sentences.", PartialTrees)
    text: UnlabelledText | None = opaque(None, "Unlabelled sentences.", UnlabelledText)
    partial_weight: float = number(1.0, "Weight of a partially bracketed sentence.", above=0, below=1e6)
    text_weight: float = number(0.3, "Weight of an unlabelled sentence.", above=0, below=1e6)
    unlabelled_as: UnlabelledAs = choice(
        "auto", "Training data from unlabelled text: packed forests or one-best trees.", get_args(UnlabelledAs)
    )
    teacher_weight: float = number(0.0, "Exponent of the teacher's posteriors in the E-step.", below=100)
    rounds: int = integer(2, "Rounds of parsing the sentences and retraining on them.", low=1)
    min_posterior: float = number(0.01, "Posterior below which edges of forests are pruned.", below=1)
    max_words: int = integer(100, "Maximum length of unlabelled sentences in words.", low=1)
    random_state: int = integer(0, "Random seed.")
    teacher_seed: int = integer(0, "Random seed of the teachers.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unlabelled_as == "forests" and not self.base.takes_forests:
            raise UsageError(f"unlabelled_as: {self.base.method} cannot take forests, only the best trees")
        for name in ("partial_weight", "text_weight"):
            if not self.with_forests and getattr(self, name) != defaults(type(self))[name]:
                raise UsageError(f"{name}: requires forests; one-best trees count like gold trees")
        given: dict[str, Any] = {"threads": self.threads, "workers": self.workers}
        if "random_state" in params_of(self.base):
            given["random_state"] = self.random_state
        object.__setattr__(self, "base", self.base.replace(**given))

    @classmethod
    def of(cls, base: Learner, **settings: Any) -> SemiSupervised:
        """Wrap a learner, keeping its threads, workers and seed."""
        seed = getattr(base, "random_state", 0)
        given = {"random_state": seed, "teacher_seed": seed, **settings}
        return cls(base=base, threads=base.threads, workers=base.workers, **given)

    @property
    def method(self) -> str:  # type: ignore[override]
        """Method of the base learner."""
        return self.base.method

    @property
    def with_forests(self) -> bool:
        """True if the base learner is fitted to forests, not to best trees."""
        return self.unlabelled_as == "forests" or (self.unlabelled_as == "auto" and self.base.takes_forests)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the base learner and its own, as JSON values."""
        own = super().settings()
        for name in ("base", "lexical", "random_state"):
            del own[name]
        return {**self.base.settings(), "teaching": own}

    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        weights = (self.partial_weight, self.text_weight) if self.with_forests else None
        lessons = SemiSupervisedData(
            corpus,
            () if self.partial is None else self.partial.trees,
            () if self.text is None else self.text.sentences,
            TextSettings(weights, self.teacher_weight, self.min_posterior, self.max_words),
            workers=self.executor,
            progress=run.progress,
        )
        held_out = dev is not None and getattr(dev, "digest", True)
        own, rounds = (
            None if run.checkpoint is None else Path(f"{run.checkpoint}.{name}") for name in ("teacher", "teacher-run")
        )
        kept = Teacher.checkpoint(own, {**self.settings(), "corpus": corpus.digest(), "dev": held_out})
        taught = kept.load() or Teacher()
        teacher = taught.grammar
        teaching = self.base
        if "random_state" in params_of(teaching):
            teaching = teaching.replace(random_state=self.teacher_seed)
        # Round 0 uses the trees alone.
        for turn in range(taught.rounds, self.rounds + 1):
            last = turn == self.rounds
            trees, also = lessons.labelled() if teacher is None else lessons.with_teacher(teacher)
            if not last:
                run.progress.note(
                    "training a teacher on the trees" if teacher is None else f"training the teacher of round {turn}"
                )
            teacher = (self.base if last else teaching).fit(
                trees,
                also=also,
                dev=dev,
                progress=run.progress,
                log=run.log if last else NoLog(),
                checkpoint=run.checkpoint if last else rounds,
            )
            if not last:
                kept.save(Teacher(turn + 1, teacher))
            for path in (rounds, own if last else None):
                if path is not None:
                    path.unlink(missing_ok=True)
        assert teacher is not None
        training = {**teacher.info.get("training", {}), "trees": corpus.n_trees, "words": corpus.n_words}
        training |= {"digest": corpus.digest(), **lessons.counts}
        return teacher.with_info(settings=self.settings(), training=training)
