"""What grammars are worth on trees that they were not learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sapwood.errors import ClusterError, InputError
from sapwood.evaluate.brackets import Scorer
from sapwood.evaluate.calibration import Reliability
from sapwood.evaluate.parameters import EvalbParameters
from sapwood.evaluate.result import EvaluationResult, percent
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import held_out_trees
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import HERE, Threads, Workers
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# What a grammar is worth: `f1`, `log_likelihood`, whatever; a learner says which one it goes by.
Evaluate: TypeAlias = Callable[[TensorGrammar], Mapping[str, float]]
Dev: TypeAlias = Evaluate | Iterable[Tree]


def evaluate_parser(
    parser: Parser,
    trees: Iterable[Tree],
    *,
    parameters: EvalbParameters | str = "default",
    gold_tags: bool = False,
    reliability: Reliability | None = None,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Parse the sentences of gold trees and score the parses.

    Parameters
    ----------
    parser
        The parser. Trees are normalised as those were that its grammar was learned from.
    trees
        The gold trees.
    parameters
        What counts: see `get_parameters`.
    gold_tags
        Whether the parser is told the gold part-of-speech tags.
    reliability
        Where to add how probable the parser makes its phrases, if it was asked for `marginals`.
    progress
        What to report to.

    Examples
    --------
    >>> from sapwood import PCFG, Parser, Tree
    >>> trees = [Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")]
    >>> evaluate_parser(Parser(PCFG().fit(PCFG.prepare(trees))), trees).f1
    100.0
    """
    clean = [tree for tree in map(parser.grammar.normaliser, trees) if tree is not None]
    return _score(parser, clean, parameters, gold_tags, progress or Silent(), reliability)


def _score(
    parser: Parser,
    trees: Sequence[Tree],
    parameters: EvalbParameters | str,
    gold_tags: bool,
    progress: Progress,
    reliability: Reliability | None = None,
) -> EvaluationResult:
    sentences = (sentence_of(tree, gold_tags=gold_tags) for tree in trees)
    results = track(parser.parse(sentences), progress, "parsing", len(trees), "sentences")
    return score_results(trees, results, parameters, reliability)


def sentence_of(tree: Tree, *, gold_tags: bool = False) -> list[str] | list[tuple[str, str]]:
    """Return what a parser is asked about a gold tree: its words, or its words with their tags."""
    return list(zip(tree.words(), tree.tags(), strict=True)) if gold_tags else tree.words()


def score_results(
    trees: Iterable[Tree],
    results: Iterable[ParseResult],
    parameters: EvalbParameters | str = "default",
    reliability: Reliability | None = None,
) -> EvaluationResult:
    """Score a parser's results against gold trees that were cleaned as its grammar's were."""
    scorer = Scorer(parameters)
    failed = negative = 0
    for tree, result in zip(trees, results, strict=True):
        scorer.add(tree, result.tree)
        failed += result.failed
        negative += result.status in ("parsed", "loosened") and result.log_probability is None
        if reliability is not None and result.marginals is not None:
            reliability.add(tree, result.marginals[: -len(result.words)])  # tags are the last
    return replace(scorer.result(), failed=failed, negative=negative)


class HeldOut:
    """A treebank to measure grammars on while they are learned; a function from grammars to figures.

    Parameters
    ----------
    trees
        The trees; they are read once.
    corpus
        What is trained on: these trees are cleaned and transformed like those.
    workers
        Where sentences are parsed.
    goal
        The figure that grammars are chosen by where learners go by F1: `f1`, or `tags`, for trees that are right
        whatever their tags.
    """

    def __init__(
        self,
        trees: Iterable[Tree],
        corpus: Corpus,
        *,
        workers: Workers = HERE,
        goal: Literal["f1", "tags"] = "f1",
    ) -> None:
        self.trees = [clean for clean in map(corpus.normaliser, trees) if clean is not None]
        self.observed = Corpus.from_trees(self.trees, normaliser=corpus.normaliser, transform=corpus.transform)
        self.workers, self.goal = workers, goal
        # Training that is resumed must be measured on the same trees.
        self.digest = self.observed.digest()
        self._last: list[tuple[TensorGrammar, EvaluationResult]] = []

    def __getstate__(self) -> dict[str, Any]:
        # Where it is sent, it works on the spot.
        return {**vars(self), "workers": HERE, "_last": []}

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        """Return how well a grammar parses these sentences, and how probable it makes these trees."""
        result = self._measured(grammar)
        # What is kept is what may be asked for again: the best so far.
        self._last = [max([*self._last, (grammar, result)], key=lambda pair: self._value(pair[1]))]
        figures = {"f1": result.f1, "exact": result.exact, "tags": result.tag_accuracy}
        try:
            trees = held_out_trees(grammar, self.observed, workers=self.workers)
        except InputError:  # the grammar can build none of these trees
            return {**figures, "log_likelihood": float("-inf")}
        figures["log_likelihood"] = trees.log_likelihood
        if not grammar.probabilistic:  # how many have no probability, in per cent
            figures["negative_sentences"] = percent(result.negative, result.sentences)
            figures["negative_trees"] = percent(trees.negative, trees.built)
        return figures

    def _value(self, result: EvaluationResult) -> float:
        return result.f1 if self.goal == "f1" else result.tag_accuracy

    def score(self, grammars: Sequence[TensorGrammar], progress: Progress | None = None) -> EvaluationResult:
        """Return the scores of a grammar that is finished, or of the product of several.

        If workers are lost meanwhile it is done here.
        """
        for known, result in self._last:
            if len(grammars) == 1 and known.tensors is grammars[0].tensors and known.layer is grammars[0].layer:
                return result
        progress = progress or Silent()
        try:
            return self._measured(grammars, progress)
        except ClusterError as error:
            progress.note(f"{error}; measuring here")
            return self._measured(grammars, progress, Threads(self.workers.threads))

    def _measured(
        self,
        model: TensorGrammar | Sequence[TensorGrammar],
        progress: Progress | None = None,
        workers: Workers | None = None,
    ) -> EvaluationResult:
        parser = Parser(model, workers=workers or self.workers)
        return _score(parser, self.trees, "default", False, progress or Silent())
