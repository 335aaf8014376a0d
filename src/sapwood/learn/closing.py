"""Learning which cells of charts can be closed (`grammar.closing`): logistic regression on a treebank's own spans.

Every span of two words or more of every tree is an example: open if the tree has a node there, intermediate ones of the
binary form included. Weights minimise the logistic loss and a square penalty, by L-BFGS; rare words are known by their
signatures. A phrase that is closed is lost, and a span that is open costs time only, so the limit lies far below even
chances: where of the nodes of trees that were not learned from, by five-fold cross-validation, the part `keep` is
above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.grammar.closing import BITS, Closing
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart import Workspace
from sapwood.inference.compiled import compile_grammar
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent, Stage
from sapwood.shapes import Array, Bool, Float, Float32, Int32, Int64
from sapwood.trees.corpus import Corpus

DEFAULT_KEEP = 0.99
# With fewer trees than this nothing can be said of other trees.
FEWEST = 100
# Of the weights: how far they are drawn to zero, iterations at most, and which are taken for zero.
_PENALTY, _ITERATIONS, _LEAST = 3.0, 40, 0.05
_BITS = 17
_FOLDS = 5
# Words seen so often are kinds of their own. Cells that are learned from at most, and words of a sentence.
_FREQUENT = 5
_MOST_CELLS = 4_000_000
_MOST_WORDS = 100


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of the charts of many sentences: what their features see, and which are open.

    Sentence `s` has the words from `offsets[s]` and the cells from `cell_offsets[s]` on, these in the order of a chart:
    the one over words `i .. j - 1` is at `j (j - 1) / 2 + i`.
    """

    offsets: Int64[Array, "sentence_bounds"]
    cell_offsets: Int64[Array, "sentence_bounds"]
    tags: Int32[Array, "tokens"]
    kinds: Int32[Array, "tokens"]
    open: Bool[Array, "cells"]

    def part(self, chosen: Sequence[int]) -> Cells:
        """Return some of the sentences."""
        words = [slice(*self.offsets[s : s + 2]) for s in chosen]
        cells = [slice(*self.cell_offsets[s : s + 2]) for s in chosen]
        return Cells(
            offsets_of(np.diff(self.offsets)[list(chosen)]),
            offsets_of(np.diff(self.cell_offsets)[list(chosen)]),
            np.concatenate([self.tags[one] for one in words]),
            np.concatenate([self.kinds[one] for one in words]),
            np.concatenate([self.open[one] for one in cells]),
        )

    def scores(self, weights: Float32[Array, "slots"]) -> Float32[Array, "cells"]:
        """Return what the cells score; NaN for words and whole sentences."""
        bits = len(weights).bit_length() - 1
        return kernels.cell_scores(weights, bits, self.offsets, self.cell_offsets, self.tags, self.kinds)

    def loss(self, weights: Float[Array, "slots"], penalty: float = _PENALTY) -> tuple[float, Float[Array, "slots"]]:
        """Return the penalised loss of weights, and its gradient."""
        gradient = penalty * weights
        loss = kernels.closing_loss(
            weights, len(weights).bit_length() - 1, self.offsets, self.cell_offsets, self.tags, self.kinds, self.open,
            gradient,
        )  # fmt: skip
        return loss + penalty * float(weights @ weights) / 2, gradient


@with_one_blas_thread
def learn_closing(
    grammar: TensorGrammar,
    corpus: Corpus,
    *,
    keep: float = DEFAULT_KEEP,
    bits: int = _BITS,
    progress: Progress | None = None,
) -> Closing:
    """Return which cells to close for a grammar.

    Parameters
    ----------
    grammar
        The grammar, whose tags and words are looked at.
    corpus
        Trees, best those that it was trained on, with its binarisation.
    keep
        The part of the nodes of other trees that stays open, about.
    bits
        The logarithm of the number of weights.
    progress
        What to report to.
    """
    if not 0 < keep < 1:
        raise UsageError(f"the part of the nodes to keep open lies between 0 and 1, not {keep}")
    if bits not in BITS:
        raise UsageError(f"bits must be {BITS[0]} to {BITS[-1]}, not {bits}")
    progress = progress or Silent()
    words = np.array(sorted(_frequent(grammar, corpus)), np.int32)
    cells = cells_of(grammar, corpus, Closing(np.zeros(2, np.float32), 0.0, words), progress=progress)
    fold = np.arange(len(cells.offsets) - 1) % min(_FOLDS, len(cells.offsets) - 1)
    scores = []
    with progress.stage("cells to close", total=(int(fold.max()) + 2) * _ITERATIONS, unit="iterations") as stage:
        for number in range(int(fold.max()) + 1):
            own, other = (cells.part(np.flatnonzero(chosen).tolist()) for chosen in (fold != number, fold == number))
            scores.append(other.scores(_fit(own, bits, stage))[other.open])
        weights = _fit(cells, bits, stage)
    found = np.concatenate(scores)
    limit = float(np.quantile(found[~np.isnan(found)], 1 - keep))
    all_scores = cells.scores(weights)
    part = (all_scores < limit).sum() / max((~np.isnan(all_scores)).sum(), 1)
    progress.note(f"closed are {part:.0%} of all spans, and about {1 - keep:.2g} of the phrases of other trees")
    return Closing(weights, limit, words)


def cells_of(grammar: TensorGrammar, corpus: Corpus, closing: Closing, *, progress: Progress | None = None) -> Cells:
    """Return the cells of a corpus' sentences, or of some if there are too many, as a closing's features see them."""
    lexicon, kinds = grammar.lexicon, closing.kinds(grammar.lexicon)
    compiled, workspace = compile_grammar(grammar, np.float32), Workspace()
    leaves: dict[int, object] = {}
    chosen = _chosen(corpus)
    tags, seen = [], []
    opened = []
    with (progress or Silent()).stage("cells of trees", total=len(chosen), unit="trees") as stage:
        for tree in chosen:
            terminals = lexicon.terminals(corpus.sentence(tree))
            for terminal in set(terminals.tolist()) - leaves.keys():
                leaves[terminal] = compiled.leaf(grammar.emissions.row(terminal))
            sentence = [leaves[terminal] for terminal in terminals.tolist()]
            tags.append(kernels.best_tags(compiled.native_coarse, sentence, workspace.native))
            seen.append(kinds[terminals])
            n = len(terminals)
            nodes = slice(*corpus.offsets[tree : tree + 2])
            first = corpus.start[nodes.start]
            start, end = (column[nodes].astype(np.int64) - first for column in (corpus.start, corpus.end))
            own = np.zeros(n * (n + 1) // 2, bool)
            own[end * (end - 1) // 2 + start] = True
            opened.append(own)
            stage.step()
    return Cells(
        offsets_of(np.array([len(one) for one in tags])),
        offsets_of(np.array([len(one) for one in opened])),
        np.concatenate(tags),
        np.concatenate(seen),
        np.concatenate(opened),
    )


def _fit(cells: Cells, bits: int, stage: Stage) -> np.ndarray:
    """Return the best weights, in the precision in which they are stored."""
    done = 0

    def note(_: np.ndarray) -> None:
        nonlocal done
        done += 1
        stage.step()

    start, options = np.zeros(1 << bits), {"maxiter": _ITERATIONS}
    found: Any = scipy.optimize.minimize(  # type: ignore[call-overload]
        cells.loss, start, jac=True, method="L-BFGS-B", callback=note, options=options
    )
    stage.step(_ITERATIONS - done)
    return np.where(np.abs(found.x) >= _LEAST, found.x, 0).astype(np.float16).astype(np.float32)


def _frequent(grammar: TensorGrammar, corpus: Corpus) -> set[int]:
    """Return the terminals of frequent words."""
    counts = np.bincount(corpus.word[corpus.word >= 0], minlength=len(corpus.words))
    frequent = (grammar.lexicon.terminal(corpus.words[word], False) for word in np.flatnonzero(counts >= _FREQUENT))
    return {terminal for terminal in frequent if terminal < grammar.lexicon.n_words}


def _chosen(corpus: Corpus) -> list[int]:
    """Return the trees to learn from: all of three words or more, or evenly spread ones if that would be too much."""
    sizes = (corpus.end - corpus.start)[corpus.roots].astype(np.int64)
    fitting = np.flatnonzero((sizes >= 3) & (sizes <= _MOST_WORDS))
    if len(fitting) < FEWEST:
        raise InputError(
            f"which cells to close is learned from {FEWEST} trees or more of three to {_MOST_WORDS} words, not from "
            f"{len(fitting)}"
        )
    total = int((sizes[fitting] * (sizes[fitting] + 1) // 2).sum())
    return fitting[:: -(-total // _MOST_CELLS)].tolist()
