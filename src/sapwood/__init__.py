"""sapwood: latent-variable grammars, from a treebank to fast parses with honest probabilities.

>>> import sapwood
>>> corpus = sapwood.Corpus.from_trees([sapwood.Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")])
>>> grammar = sapwood.PCFG().fit(corpus)
>>> for result in sapwood.Parser(grammar).parse([["dogs", "sleep"]]):
...     print(result.tree)
(ROOT (S (NP (N dogs)) (VP (V sleep))))

Names are imported when they are first used, so `import sapwood` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sapwood._version import __version__

if TYPE_CHECKING:
    from sapwood.anchors import decompose
    from sapwood.automata import TreeAutomaton, minimise
    from sapwood.evaluate import EvaluationResult, Scorer, score_tree
    from sapwood.evaluate.held_out import evaluate_parser
    from sapwood.grammar import TensorGrammar
    from sapwood.induction.run import induce
    from sapwood.inference import Marginal, Parser, ParseResult
    from sapwood.learn import EM, PCFG, Cluster, Learner, Pivot, PivotEM, Spectral, SplitMerge
    from sapwood.learn.run import train
    from sapwood.loading import load
    from sapwood.models import default_model_path
    from sapwood.run.progress import Bars
    from sapwood.trees import Corpus, HeadRules, Lexicon, Normaliser, Tree, TreeTransform
    from sapwood.trees.formats import read_trees
    from sapwood.trees.sentences import split_sentences, tokenise_text
    from sapwood.trees.tokenise import tokenise

_HOMES = {
    "Bars": "sapwood.run.progress",
    "Cluster": "sapwood.learn",
    "Corpus": "sapwood.trees",
    "EM": "sapwood.learn",
    "EvaluationResult": "sapwood.evaluate",
    "HeadRules": "sapwood.trees",
    "Learner": "sapwood.learn",
    "Lexicon": "sapwood.trees",
    "Marginal": "sapwood.inference",
    "Normaliser": "sapwood.trees",
    "PCFG": "sapwood.learn",
    "ParseResult": "sapwood.inference",
    "Parser": "sapwood.inference",
    "Pivot": "sapwood.learn",
    "PivotEM": "sapwood.learn",
    "Scorer": "sapwood.evaluate",
    "Spectral": "sapwood.learn",
    "SplitMerge": "sapwood.learn",
    "TensorGrammar": "sapwood.grammar",
    "Tree": "sapwood.trees",
    "TreeAutomaton": "sapwood.automata",
    "TreeTransform": "sapwood.trees",
    "decompose": "sapwood.anchors",
    "default_model_path": "sapwood.models",
    "evaluate_parser": "sapwood.evaluate.held_out",
    "induce": "sapwood.induction.run",
    "load": "sapwood.loading",
    "minimise": "sapwood.automata",
    "read_trees": "sapwood.trees.formats",
    "score_tree": "sapwood.evaluate",
    "split_sentences": "sapwood.trees.sentences",
    "tokenise": "sapwood.trees.tokenise",
    "train": "sapwood.learn.run",
    "tokenise_text": "sapwood.trees.sentences",
}

__all__ = [
    "EM",
    "PCFG",
    "Bars",
    "Cluster",
    "Corpus",
    "EvaluationResult",
    "HeadRules",
    "Learner",
    "Lexicon",
    "Marginal",
    "Normaliser",
    "ParseResult",
    "Parser",
    "Pivot",
    "PivotEM",
    "Scorer",
    "Spectral",
    "SplitMerge",
    "TensorGrammar",
    "Tree",
    "TreeAutomaton",
    "TreeTransform",
    "__version__",
    "decompose",
    "default_model_path",
    "evaluate_parser",
    "induce",
    "load",
    "minimise",
    "read_trees",
    "score_tree",
    "split_sentences",
    "tokenise",
    "tokenise_text",
    "train",
]

# Rooms, which are there as `sapwood.lm` and so on without being imported by name.
_ROOMS = (
    "anchors",
    "automata",
    "evaluate",
    "grammar",
    "induction",
    "inference",
    "interop",
    "learn",
    "lm",
    "models",
    "plots",
    "trees",
    "web",
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"sapwood.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'sapwood' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
