"""`Learner`: base class of all learners.

A learner is its settings and nothing else: a frozen dataclass. `fit` takes a corpus and returns the grammar, not the
learner: one learner can be fitted to many corpora, even concurrently, and no fitted state hides in it. A grammar
records the settings it was learned with.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import Dev, DevSet, Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.memory import MemoryEstimate
from sapwood.learn.semi_supervised.forests import WeightedForests
from sapwood.runtime.context import RunContext
from sapwood.runtime.log import Log
from sapwood.runtime.params import HasExecutor, opaque
from sapwood.runtime.progress import Progress
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


@dataclass(frozen=True, kw_only=True, repr=False)
class Learner(HasExecutor, ABC):
    """Settings of a method and the method itself: takes a corpus, returns a grammar.

    To write your own learner, define a frozen dataclass with keyword-only fields made by `sapwood.runtime.params`, a
    `method` name and a `_learn`; `sapwood.testing.check_learner` checks the contract.

    Parameters
    ----------
    lexical
        Treatment of rare and unknown words.
    threads
        Threads of this process.
    workers
        Executor that processes the corpus instead: a `sapwood.runtime.dask.executor.DaskCluster`. Results depend on
        neither.
    """

    # Name of the method on the command line.
    method: ClassVar[str]
    # Default preparation of trees: hidden states replace annotation with ancestors and siblings.
    preparation: ClassVar[TreeTransform] = TreeTransform()
    # True if it can learn from forests besides trees.
    takes_forests: ClassVar[bool] = False

    lexical: LexicalSettings = opaque(LexicalSettings(), "Treatment of rare and unknown words.", LexicalSettings)

    @property
    def display_name(self) -> str:
        """Name of the method."""
        return self.method

    @classmethod
    def prepare(
        cls, trees: Iterable[Tree], *, normaliser: Normaliser | None = None, progress: Progress | None = None
    ) -> Corpus:
        """Return the trees as this method needs them: cleaned, and transformed by `preparation`."""
        normaliser = normaliser or Normaliser()
        transform = dataclasses.replace(cls.preparation, root=normaliser.root)
        return Corpus.from_trees(trees, normaliser=normaliser, transform=transform, progress=progress)

    def fit(
        self,
        corpus: Corpus,
        *,
        also: Sequence[WeightedForests] = (),
        dev: Dev | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        checkpoint: str | Path | None = None,
    ) -> TensorGrammar:
        """Fit to a corpus, and return the grammar.

        Parameters
        ----------
        corpus
            The trees; `prepare` makes them from treebank trees.
        also
            Additional training data: forests of sentences without trees, or with partial brackets
            (`sapwood.learn.semi_supervised.forests`). Methods other than EM get trees of them instead
            (`sapwood.learn.semi_supervised.learner`).
        dev
            Held-out trees for choosing the best grammar; or a function that returns the scores of a grammar, `f1` among
            them. Ignored by methods that make no such choice.
        progress, log
            Receive progress reports and log lines.
        checkpoint
            A file that keeps the state of training. If it exists, training resumes from it, with the same result.
            Ignored by methods without iterations.
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
        evaluate = dev if dev is None or callable(dev) else DevSet(dev, corpus, workers=self.executor)
        if also and not self.takes_forests:
            raise UsageError(f"{self.method} learns from whole trees, not from forests; give it the best tree of each")
        run = RunContext.of(
            threads=self.threads, workers=self.workers, progress=progress, log=log, checkpoint=checkpoint
        )
        if also:
            return self._learn_also(corpus, also, evaluate, run)
        return self._learn(corpus, evaluate, run)

    def estimate_memory(self, corpus: Corpus, dev: Evaluate | None = None) -> MemoryEstimate | None:
        """Return an estimate of the memory of `fit`; None if there is none."""
        return None

    def _learn_also(
        self, corpus: Corpus, also: Sequence[WeightedForests], dev: Evaluate | None, run: RunContext
    ) -> TensorGrammar:
        """Return the grammar of trees and forests, if the learner supports forests; arguments as for `_learn`."""
        raise NotImplementedError

    @abstractmethod
    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        """Return the grammar; `corpus` and `dev` as for `fit`, `run` has its other arguments."""
