"""The treebank PCFG: one state per symbol, rule probabilities by relative frequency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.lexical import LexicalModel
from sapwood.learn.lpcfg.problem import build_grammar
from sapwood.runtime.context import RunContext
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform


@dataclass(frozen=True, kw_only=True, repr=False)
class PCFG(Learner):
    """Learner of a treebank PCFG.

    Without hidden states, symbols must be annotated with their context: trees are prepared with `vertical=2`,
    `horizontal=1` and annotated tags.

    Parameters
    ----------
    lexical
        Treatment of rare and unknown words.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 3)
    >>> PCFG().fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "pcfg"
    preparation: ClassVar[TreeTransform] = TreeTransform(vertical=2, horizontal=1, annotate_tags=True)

    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        with run.progress.stage("counting", total=2, unit="steps") as stage:
            counts = corpus.rule_counts().astype(float)
            symbol_counts = corpus.symbol_counts().astype(float)
            stage.step()
            emissions = LexicalModel(corpus, self.lexical).emissions()
            stage.step()
        return build_grammar(
            corpus,
            self.lexical,
            emissions,
            {"method": self.method, "settings": self.settings()},
            states=np.ones(len(corpus.symbols), np.int32),
            rules=corpus.rules,
            tensors=counts / symbol_counts[corpus.rules[:, 0]],
            root=corpus.root_counts() / corpus.n_trees,
            probabilistic=True,
            occupancy=symbol_counts,
            rule_counts=counts,
        ).validate()
