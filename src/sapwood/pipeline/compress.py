"""Compression of a model: fewer states by merging or projection, or a CP decomposition of its rules.

`sapwood.automata` makes each grammar smaller; the cell pruner (`sapwood.learn.components.cell_pruner`) is trained here,
on the merged grammar. The first grammar of an ensemble prunes for all. Real-valued grammars of an ensemble, such as
spectral ones, have no probabilities to merge by, and are projected. A CP decomposition leaves the grammar as it is, and
adds factors that parse in place of its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sapwood.automata.reduce.cp_decomposition import CPFit, decompose_grammar
from sapwood.automata.reduce.state_merging import MergeResult, merge
from sapwood.automata.reduce.truncation import Truncation, truncate
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.components.cell_pruner import DEFAULT_KEEP, FEWEST, fit_cell_pruner
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.corpus import Corpus

Way = Literal["merging", "projection", "cp"]
# Pruning threshold of parsing with a cell pruner, chosen on development data; see docs/minimisation.md.
THRESHOLD_WITH_CELL_PRUNER = 5e-5
# Settings of merging alone.
_OF_MERGING = ("min_probability", "half_precision")


@dataclass(frozen=True, eq=False)
class Compression:
    """Result of a compression.

    Attributes
    ----------
    model
        The smaller model.
    members
        Results for each grammar, with states, losses and distances; none after a CP decomposition.
    decomposition
        The CP decomposition and how it was reached.
    """

    model: ParserModel
    members: Sequence[MergeResult | Truncation]
    decomposition: CPFit | None = None


def compress(model: Sources, corpus: Corpus | None = None, **settings: Any) -> ParserModel:
    """Return a model with fewer states, after merging with a cell pruner; or with a CP decomposition of its rules.

    Parameters
    ----------
    model
        A model, or whatever else `Parser` takes.
    corpus
        The treebank that it was trained on (`sapwood.automata.reduce.truncation.corpus_for`). Merging requires it.
    settings
        Those of `run_compression`.

    Examples
    --------
    >>> from sapwood.learn import EM
    >>> from sapwood.trees import Tree
    >>> text = "(ROOT (S (NP (N dogs)) (VP (V sleep))))", "(ROOT (S (NP (N cats)) (VP (V run))))"
    >>> corpus = EM.prepare([Tree.parse(line) for line in text * 9])
    >>> grammar = EM(states=2, iterations=3).fit(corpus)
    >>> compress(grammar, corpus, states=1)
    <ParserModel: <TensorGrammar: 3 symbols (1 states), 1 rules, 4 words>>
    """
    return run_compression(model, corpus, **settings).model


def run_compression(
    model: Sources,
    corpus: Corpus | None = None,
    *,
    method: Way | None = None,
    cell_recall: float = DEFAULT_KEEP,
    threshold: float | None = THRESHOLD_WITH_CELL_PRUNER,
    progress: Progress | None = None,
    **settings: Any,
) -> Compression:
    """Compress a model, and report on each of its grammars.

    Parameters
    ----------
    model, corpus
        As for `compress`.
    method
        Merging (`sapwood.automata.reduce.state_merging.merge`), projection
        (`sapwood.automata.reduce.truncation.truncate`) or a CP decomposition
        (`sapwood.automata.reduce.cp_decomposition.decompose_grammar`, which takes a `rank`); by default that of
        `default_way`. Merging projects real-valued grammars of an ensemble. Projection makes all weights real-valued,
        and warns of it if they were probabilities. A CP decomposition requires a single grammar without CRF and span
        scorer.
    cell_recall
        Only with merging: approximate share of the phrases of trees whose chart cells the cell pruner keeps
        (`sapwood.learn.components.cell_pruner`). Lower is faster. 1 turns it off, as do fewer than a hundred trees.
    threshold
        Only with merging: default pruning threshold (`Parser`) if there is a cell pruner; it can then be higher than
        usual. None keeps the previous one.
    progress
        Receives progress reports.
    settings
        Further parameters of `merge` or `truncate`. Projection weighs by `corpus` if there is one.
    """
    model = ParserModel.gather(model)
    method = method or default_way(model, corpus is not None)
    if method not in get_args(Way):
        raise UsageError(f"no method {method!r}; choose from {', '.join(get_args(Way))}")
    progress = progress or Silent()
    if method == "cp":
        return _decompose(model, progress, **settings)
    if method == "projection":
        settings = {"weighting": "l2" if corpus is None else "trees", **settings}
        projected = [truncate(grammar, corpus=corpus, progress=progress, **settings) for grammar in model.grammars]
        _note_projection(model, sum(grammar.probabilistic for grammar in model.grammars), progress)
        return Compression(model.with_grammars(one.grammar for one in projected), projected)
    if corpus is None:
        raise UsageError(
            "merging states requires trees: give a corpus, preferably the one that the model was trained on"
        )
    if not 0 < cell_recall <= 1:
        raise UsageError(f"the share of phrases to keep must be above 0 and at most 1, not {cell_recall}")
    if threshold is not None and not 0 <= threshold < 1:
        raise UsageError(f"the threshold of parsing is at least 0 and below 1, not {threshold}")
    if not any(grammar.probabilistic for grammar in model.grammars):
        raise GrammarError("states of a grammar with real-valued weights cannot be merged; choose projection")
    shared = {name: value for name, value in settings.items() if name not in _OF_MERGING}
    members: list[MergeResult | Truncation] = []
    for grammar in model.grammars:
        if grammar.probabilistic:
            members.append(merge(grammar, corpus, progress=progress, **settings))
        else:
            members.append(truncate(grammar, corpus=corpus, weighting="trees", progress=progress, **shared))
    if real := sum(not grammar.probabilistic for grammar in model.grammars):
        progress.note(f"{real} of {len(members)} grammars have real-valued weights and were projected, not merged")
    pruner = None
    if cell_recall < 1:
        if corpus.n_trees >= FEWEST:
            pruner = fit_cell_pruner(members[0].grammar, corpus, keep=cell_recall, progress=progress)
        else:
            progress.note(f"no cell pruner: it requires {FEWEST} trees or more, not {corpus.n_trees}")
    for idx, one in enumerate(members):
        recall = cell_recall if pruner is not None and idx == 0 else 1.0
        members[idx] = replace(one, grammar=_with_recall(one.grammar, recall))
    defaults = model.defaults
    if pruner is not None and threshold is not None:
        defaults = replace(defaults, threshold=threshold)
    smaller = model.with_grammars(one.grammar for one in members)
    return Compression(smaller.replace(cell_pruner=pruner, defaults=defaults), members)


def default_way(model: ParserModel, with_trees: bool) -> Way:
    """Return merging if there are probabilities and trees to merge by, otherwise projection."""
    return "merging" if with_trees and any(grammar.probabilistic for grammar in model.grammars) else "projection"


def _note_projection(model: ParserModel, probabilistic: int, progress: Progress) -> None:
    if probabilistic:
        what = "the grammar" if len(model.grammars) == 1 else f"{probabilistic} of {len(model.grammars)} grammars"
        progress.note(
            f"projection makes the weights of {what} real numbers, which are not probabilities: samples and `viterbi` "
            "are not possible with them. To keep probabilities, merge states: give the training trees (--trees, "
            "`corpus`) and not the method projection"
        )


def _decompose(model: ParserModel, progress: Progress, **settings: Any) -> Compression:
    """Add a CP decomposition of its rules to a model."""
    if settings.get("rank") is None:
        raise UsageError("a CP decomposition needs the number of products, its rank; give --rank (`rank`), such as 80")
    if len(model.grammars) > 1:
        raise GrammarError(
            f"a CP decomposition is for one grammar, and this model has {len(model.grammars)}; train one with "
            "`sapwood train --method`, or choose the method merging"
        )
    if model.crf is not None or model.span_scorer is not None:
        raise GrammarError(
            "a CP decomposition parses without a forest, which the CRF and the span scorer of this model need; train a "
            "model without them (`sapwood train --method`, or --no-crf --no-span-scorer), or choose the method merging"
        )
    cp, found = decompose_grammar(model.grammar, progress=progress, **settings)
    return Compression(model.replace(cp=cp, cell_pruner=None), (), found)


def _with_recall(grammar: TensorGrammar, recall: float) -> TensorGrammar:
    """Return a merged grammar with a note on the share of phrases that the cell pruner keeps."""
    return grammar.with_info(minimised={**grammar.info["minimised"], "open": recall})
