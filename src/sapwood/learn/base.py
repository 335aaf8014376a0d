"""`Learner`: what every way of learning a grammar has in common.

A learner is its settings, and nothing else: a frozen dataclass. `fit` takes a corpus and returns the grammar, not the
learner: one learner can be fitted to many corpora, at the same time if need be, and nothing that was learned hides in
it. A grammar remembers the settings it was learned with.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sapwood.errors import UsageError
from sapwood.evaluate.held_out import Dev, Evaluate, HeldOut
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.forecast import Forecast
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.settings import Declared, other
from sapwood.learn.sources import Source
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


@dataclass(frozen=True, kw_only=True, repr=False)
class Learner(Declared, ABC):
    """Settings of a method, and the method itself: a corpus in, a grammar out.

    A learner of your own is a frozen dataclass with keyword-only fields made by `sapwood.learn.settings`, a `method` to
    be known by and a `_learn`; `sapwood.testing.check_learner` tells whether it keeps the contract.

    Parameters
    ----------
    lexical
        How rare and unknown words are treated.
    threads
        How many threads of this process work on the corpus.
    workers
        Where passes over the corpus run instead: a `sapwood.run.cluster.Cluster`. Results depend on neither.
    """

    # The name of the method on the command line.
    method: ClassVar[str]
    # How trees are best prepared for it: hidden states find out for themselves what ancestors and siblings say.
    preparation: ClassVar[TreeTransform] = TreeTransform()
    # Whether it can learn from forests beside trees.
    takes_forests: ClassVar[bool] = False

    lexical: LexicalSettings = other(LexicalSettings(), "How rare and unknown words are treated.", LexicalSettings)

    @property
    def called(self) -> str:
        """The name of the method."""
        return self.method

    @classmethod
    def prepare(
        cls, trees: Iterable[Tree], *, normaliser: Normaliser | None = None, progress: Progress | None = None
    ) -> Corpus:
        """Return the trees as this method likes them best: cleaned, and transformed by `preparation`."""
        normaliser = normaliser or Normaliser()
        transform = dataclasses.replace(cls.preparation, root=normaliser.root)
        return Corpus.from_trees(trees, normaliser=normaliser, transform=transform, progress=progress)

    def fit(
        self,
        corpus: Corpus,
        *,
        also: Sequence[Source] = (),
        dev: Dev | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        checkpoint: str | Path | None = None,
    ) -> TensorGrammar:
        """Learn, and return the grammar.

        Parameters
        ----------
        corpus
            The trees; `prepare` makes them from a treebank's.
        also
            What else to learn from: forests of sentences without trees, or with some brackets only
            (`sapwood.learn.sources`). Methods that are not EM leave trees to it (`sapwood.learn.teaching`).
        dev
            Trees that were not trained on, to choose the best grammar by; or a function that returns the figures of a
            grammar, `f1` among them. Methods with nothing to choose leave it alone.
        progress, log
            What to report to.
        checkpoint
            A file to keep the state of training in. If it is there, training goes on from it, to the same result.
            Methods that have no iterations to go on with leave it alone.
        """
        if not isinstance(corpus, Corpus):
            raise UsageError(f"fit takes a Corpus, not {type(corpus).__name__}: {type(self).__name__}().prepare(trees)")
        if checkpoint is not None and any(
            isinstance(value, list) and "<lambda>" in value for value in self.settings().values()
        ):
            raise UsageError(
                "a feature without a name cannot be told from another when training goes on from a checkpoint; "
                "define it with def, or as a Feature with a name"
            )
        evaluate = dev if dev is None or callable(dev) else HeldOut(dev, corpus, workers=self.where)
        if also and not self.takes_forests:
            raise UsageError(f"{self.method} learns from whole trees, not from forests; give it the best tree of each")
        if also:
            return self._learn_also(corpus, also, evaluate, progress or Silent(), log or NoLog(), checkpoint)
        return self._learn(corpus, evaluate, progress or Silent(), log or NoLog(), checkpoint)

    def forecast(self, corpus: Corpus, dev: Evaluate | None = None) -> Forecast | None:
        """Return what `fit` will take, about; None if that is not known."""
        return None

    def _learn_also(
        self,
        corpus: Corpus,
        also: Sequence[Source],
        dev: Evaluate | None,
        progress: Progress,
        log: Log,
        checkpoint: str | Path | None,
    ) -> TensorGrammar:
        """Return the grammar of trees and forests, if the learner takes them; arguments as for `fit`."""
        raise NotImplementedError

    @abstractmethod
    def _learn(
        self, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, checkpoint: str | Path | None
    ) -> TensorGrammar:
        """Return the grammar; arguments as for `fit`."""
