"""Evaluation on held-out trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sapwood.errors import ClusterError, InputError, UsageError
from sapwood.evaluate.brackets import Scorer
from sapwood.evaluate.calibration import Reliability
from sapwood.evaluate.evalb_params import EvalbParameters
from sapwood.evaluate.result import EvaluationResult, percent
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import held_out_trees
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.runtime.executor import LOCAL, Executor, Threads
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree, checked_trees

# Scores of a grammar, such as `f1` or `log_likelihood`; each learner names the one that it selects by.
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
        The parser. Trees are normalised like the training trees of its grammar.
    trees
        The gold trees.
    parameters
        Scoring parameters: see `get_parameters`.
    gold_tags
        Give the gold part-of-speech tags to the parser.
    reliability
        Collects the probabilities of phrases, if the parser computes `marginals`.
    progress
        Receives progress reports.

    Examples
    --------
    >>> from sapwood import PCFG, Parser, Tree
    >>> trees = [Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")]
    >>> evaluate_parser(Parser(PCFG().fit(PCFG.prepare(trees))), trees).f1
    100.0
    """
    if not isinstance(parser, Parser):
        raise UsageError(f"parser is a `Parser`, not {type(parser).__name__}; make one with `sapwood.Parser(path)`")
    clean = [tree for tree in map(parser.grammar.normaliser, checked_trees(trees)) if tree is not None]
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
    results = track(parser.parse(sentences, check_tokens=False), progress, "parsing", len(trees), "sentences")
    return score_results(trees, results, parameters, reliability)


def sentence_of(tree: Tree, *, gold_tags: bool = False) -> list[str] | list[tuple[str, str]]:
    """Return the parser input for a gold tree: its words, or its words with their tags."""
    return list(zip(tree.words(), tree.tags(), strict=True)) if gold_tags else tree.words()


def score_results(
    trees: Iterable[Tree],
    results: Iterable[ParseResult],
    parameters: EvalbParameters | str = "default",
    reliability: Reliability | None = None,
) -> EvaluationResult:
    """Score a parser's results against gold trees that were normalised like its training trees."""
    scorer = Scorer(parameters)
    failed = negative = 0
    for tree, result in zip(trees, results, strict=True):
        scorer.add(tree, result.tree)
        failed += result.failed
        negative += result.status in ("parsed", "relaxed") and result.log_probability is None
        if reliability is not None and result.marginals is not None:
            reliability.add(tree, result.marginals[: -len(result.words)])  # tags come last
    return replace(scorer.result(), failed=failed, negative=negative)


class DevSet:
    """Held-out treebank for evaluation during training; a function from grammars to scores.

    Parameters
    ----------
    trees
        The trees; they are read once.
    corpus
        The training corpus: held-out trees are cleaned and transformed in the same way.
    workers
        Executor that parses the sentences.
    goal
        Score that replaces F1 as the selection criterion of learners: `f1`, or `tags`, for trees whose brackets are
        always correct.
    """

    def __init__(
        self,
        trees: Iterable[Tree],
        corpus: Corpus,
        *,
        workers: Executor = LOCAL,
        goal: Literal["f1", "tags"] = "f1",
    ) -> None:
        self.trees = [clean for clean in map(corpus.normaliser, checked_trees(trees)) if clean is not None]
        self.observed = Corpus.from_trees(self.trees, normaliser=corpus.normaliser, transform=corpus.transform)
        self.workers, self.goal = workers, goal
        # Resumed training must be evaluated on the same trees.
        self.digest = self.observed.digest()
        self._last: list[tuple[TensorGrammar, EvaluationResult]] = []

    def __getstate__(self) -> dict[str, Any]:
        # In another process, it parses there.
        return {**vars(self), "workers": LOCAL, "_last": []}

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        """Return the parsing scores of a grammar, and the log-likelihood of the trees."""
        result = self._measured(grammar)
        # Keep the best result so far, which `score` may ask for again.
        self._last = [max([*self._last, (grammar, result)], key=lambda pair: self._value(pair[1]))]
        figures = {"f1": result.f1, "exact": result.exact, "tags": result.tag_accuracy}
        try:
            trees = held_out_trees(grammar, self.observed, workers=self.workers)
        except InputError:  # the grammar derives none of these trees
            return {**figures, "log_likelihood": float("-inf")}
        figures["log_likelihood"] = trees.log_likelihood
        if not grammar.probabilistic:  # per cent with a negative weight
            figures["negative_sentences"] = percent(result.negative, result.sentences)
            figures["negative_trees"] = percent(trees.negative, trees.built)
        return figures

    def _value(self, result: EvaluationResult) -> float:
        return result.f1 if self.goal == "f1" else result.tag_accuracy

    def score(self, model: Sources, progress: Progress | None = None) -> EvaluationResult:
        """Return the scores of a finished model.

        If workers are lost, this process takes over.
        """
        model = ParserModel.gather(model)
        for known, result in self._last:
            if len(model.grammars) == 1 and known.tensors is model.grammar.tensors and not model.components:
                return result
        progress = progress or Silent()
        try:
            return self._measured(model, progress)
        except ClusterError as error:
            progress.note(f"{error}; evaluating locally")
            return self._measured(model, progress, Threads(self.workers.threads))

    def _measured(
        self,
        model: Sources,
        progress: Progress | None = None,
        workers: Executor | None = None,
    ) -> EvaluationResult:
        parser = Parser(model, workers=workers or self.workers)
        return _score(parser, self.trees, "default", False, progress or Silent())
