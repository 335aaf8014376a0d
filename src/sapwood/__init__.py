"""sapwood: latent-variable grammars, from a treebank to fast parses with honest probabilities.

>>> import sapwood
>>> corpus = sapwood.Corpus.from_trees([sapwood.Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")])
>>> grammar = sapwood.PCFG().fit(corpus)
>>> for result in sapwood.Parser(grammar).parse([["dogs", "sleep"]]):
...     print(result.tree)
(ROOT (S (NP (N dogs)) (VP (V sleep))))

Names are imported on first use, so `import sapwood` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sapwood._version import __version__

if TYPE_CHECKING:
    from sapwood.automata import TreeAutomaton
    from sapwood.automata import truncate as truncate
    from sapwood.evaluate import EvaluationResult
    from sapwood.evaluate import Scorer as Scorer
    from sapwood.evaluate import score_tree as score_tree
    from sapwood.evaluate.dev_set import evaluate_parser
    from sapwood.grammar import TensorGrammar
    from sapwood.induction.run import induce
    from sapwood.inference import Marginal as Marginal
    from sapwood.inference import ParsedPhrase as ParsedPhrase
    from sapwood.inference import Parser, ParseResult
    from sapwood.interop.pandas import to_pandas as to_pandas
    from sapwood.learn import EM, PCFG, Learner, Pivot, Spectral, SplitMerge
    from sapwood.learn import PivotEM as PivotEM
    from sapwood.learn import StateClustering as StateClustering
    from sapwood.loading import load
    from sapwood.model import ParserModel
    from sapwood.model.installed import default_model_path as default_model_path
    from sapwood.numerics import decompose as decompose
    from sapwood.pipeline.compress import compress
    from sapwood.pipeline.train import train
    from sapwood.runtime.progress import Bars as Bars
    from sapwood.treebank.rewriting.rewriter import rewrite
    from sapwood.treebank.rewriting.rules import RewriteRules as RewriteRules
    from sapwood.trees import Corpus, Tree
    from sapwood.trees import HeadRules as HeadRules
    from sapwood.trees import Lexicon as Lexicon
    from sapwood.trees import Normaliser as Normaliser
    from sapwood.trees import TreeTransform as TreeTransform
    from sapwood.trees.formats.labels import explain
    from sapwood.trees.formats.registry import read_trees
    from sapwood.trees.tokenise.penn import tokenise as tokenise
    from sapwood.trees.tokenise.sentences import split_sentences as split_sentences
    from sapwood.trees.tokenise.sentences import tokenise_text as tokenise_text

# Modules of the names. Those that are not in `__all__` are not for the first page; their packages have them, too.
_HOMES = {
    "automata": ("TreeAutomaton", "truncate"),
    "evaluate": ("EvaluationResult", "Scorer", "score_tree"),
    "evaluate.dev_set": ("evaluate_parser",),
    "grammar": ("TensorGrammar",),
    "induction.run": ("induce",),
    "interop.pandas": ("to_pandas",),
    "inference": ("Marginal", "ParseResult", "Parser", "ParsedPhrase"),
    "learn": ("EM", "Learner", "PCFG", "Pivot", "PivotEM", "Spectral", "SplitMerge", "StateClustering"),
    "loading": ("load",),
    "model": ("ParserModel",),
    "model.installed": ("default_model_path",),
    "numerics": ("decompose",),
    "pipeline.compress": ("compress",),
    "pipeline.train": ("train",),
    "runtime.progress": ("Bars",),
    "treebank": ("RewriteRules", "rewrite"),
    "trees": ("Corpus", "HeadRules", "Lexicon", "Normaliser", "Tree", "TreeTransform"),
    "trees.formats.labels": ("explain",),
    "trees.formats.registry": ("read_trees",),
    "trees.tokenise.penn": ("tokenise",),
    "trees.tokenise.sentences": ("split_sentences", "tokenise_text"),
}

__all__ = [
    "EM",
    "PCFG",
    "Corpus",
    "EvaluationResult",
    "Learner",
    "ParseResult",
    "Parser",
    "ParserModel",
    "Pivot",
    "Spectral",
    "SplitMerge",
    "TensorGrammar",
    "Tree",
    "TreeAutomaton",
    "__version__",
    "compress",
    "evaluate_parser",
    "explain",
    "induce",
    "load",
    "read_trees",
    "rewrite",
    "train",
]

# Packages, available as `sapwood.lm` and so on without an explicit import.
_PACKAGES = (
    "annotation",
    "automata",
    "encoders",
    "evaluate",
    "grammar",
    "identifiability",
    "induction",
    "inference",
    "interop",
    "learn",
    "lm",
    "model",
    "numerics",
    "pipeline",
    "plots",
    "treebank",
    "trees",
    "web",
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"sapwood.{name}")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"sapwood.{module}"), name)
    raise AttributeError(f"module 'sapwood' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
