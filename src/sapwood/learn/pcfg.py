"""The treebank PCFG: one state per symbol, rule probabilities by relative frequency."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lexical import LexicalModel, LexicalSettings
from sapwood.run.progress import Progress, Silent
from sapwood.trees.corpus import Corpus


class PCFG:
    """Reads a PCFG off a corpus.

    Parameters
    ----------
    lexical
        How rare and unknown words are treated.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 3)
    >>> PCFG().fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    def __init__(self, *, lexical: LexicalSettings | None = None) -> None:
        self.lexical = lexical or LexicalSettings()

    def fit(self, corpus: Corpus, *, progress: Progress | None = None) -> TensorGrammar:
        """Return the grammar."""
        with (progress or Silent()).stage("counting", total=2, unit="steps") as stage:
            counts = corpus.rule_counts().astype(float)
            symbol_counts = corpus.symbol_counts().astype(float)
            stage.step()
            emissions = LexicalModel(corpus, self.lexical).emissions()
            stage.step()
        return TensorGrammar(
            symbols=corpus.symbols,
            n_interminals=corpus.n_interminals,
            states=np.ones(len(corpus.symbols), np.int32),
            rules=corpus.rules,
            tensors=counts / symbol_counts[corpus.rules[:, 0]],
            root=corpus.root_counts() / corpus.n_trees,
            emissions=emissions,
            probabilistic=True,
            occupancy=symbol_counts,
            rule_counts=counts,
            normaliser=corpus.normaliser,
            transform=corpus.transform,
            info={
                "method": "pcfg",
                "training": {"trees": corpus.n_trees, "words": corpus.n_words, "digest": corpus.digest()},
                "lexical": asdict(self.lexical),
                "tokeniser": corpus.tokeniser_style(),
            },
        ).validate()
