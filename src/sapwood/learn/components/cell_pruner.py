"""Cell pruning: logistic regression that decides which chart cells to prune (`sapwood.model.cell_pruner`).

Every span of two or more words of every tree is an example, positive if the tree has a node there, including
intermediate nodes of binarisation. L-BFGS minimises the logistic loss with an L2 penalty; rare words are represented by
their signatures. A pruned phrase is lost, while a useless cell only costs time, so the threshold is far below even
odds: by five-fold cross-validation, a share `keep` of the nodes of held-out trees scores above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from sapwood import kernels
from sapwood.errors import InputError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.compiled import Leaf, compile_grammar
from sapwood.inference.chart.posteriors import Workspace
from sapwood.model.cell_pruner import BITS, CellPruner
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.progress import Progress, Silent, Stage
from sapwood.storage.shapes import Array, Bool, Float, Float32, Int32, Int64
from sapwood.trees.corpus import Corpus

DEFAULT_KEEP = 0.99
# With fewer trees than this, cross-validation is meaningless.
FEWEST = 100
# L2 penalty, maximum number of iterations, and the size below which weights are set to zero.
_PENALTY, _ITERATIONS, _LEAST = 3.0, 40, 0.05
_BITS = 17
_FOLDS = 5
# Words seen this often have features of their own. Limits on training cells and on words per sentence.
_FREQUENT = 5
_MOST_CELLS = 4_000_000
_MOST_WORDS = 100


@dataclass(frozen=True, eq=False)
class CellData:
    """Chart cells of many sentences: their features, and whether each holds a node of the tree.

    Sentence `s` has the words from `offsets[s]` and the cells from `cell_offsets[s]` on, in chart order: the cell over
    words `i .. j - 1` is at `j (j - 1) / 2 + i`.
    """

    offsets: Int64[Array, "sentence_bounds"]
    cell_offsets: Int64[Array, "sentence_bounds"]
    tags: Int32[Array, "tokens"]
    kinds: Int32[Array, "tokens"]
    open: Bool[Array, "cells"]

    def part(self, chosen: Sequence[int]) -> CellData:
        """Return a subset of the sentences."""
        words = [slice(*self.offsets[s : s + 2]) for s in chosen]
        cells = [slice(*self.cell_offsets[s : s + 2]) for s in chosen]
        return CellData(
            offsets_of(np.diff(self.offsets)[list(chosen)]),
            offsets_of(np.diff(self.cell_offsets)[list(chosen)]),
            np.concatenate([self.tags[one] for one in words]),
            np.concatenate([self.kinds[one] for one in words]),
            np.concatenate([self.open[one] for one in cells]),
        )

    def scores(self, weights: Float32[Array, "slots"]) -> Float32[Array, "cells"]:
        """Return the scores of the cells; NaN for single words and whole sentences."""
        bits = len(weights).bit_length() - 1
        return kernels.cell_pruner_scores(weights, bits, self.offsets, self.cell_offsets, self.tags, self.kinds)

    def loss(self, weights: Float[Array, "slots"], penalty: float = _PENALTY) -> tuple[float, Float[Array, "slots"]]:
        """Return the penalised loss of the weights and its gradient."""
        gradient = penalty * weights
        loss = kernels.cell_pruner_loss(
            weights, len(weights).bit_length() - 1, self.offsets, self.cell_offsets, self.tags, self.kinds, self.open,
            gradient,
        )  # fmt: skip
        return loss + penalty * float(weights @ weights) / 2, gradient


@with_one_blas_thread
def fit_cell_pruner(
    grammar: TensorGrammar,
    corpus: Corpus,
    *,
    keep: float = DEFAULT_KEEP,
    bits: int = _BITS,
    progress: Progress | None = None,
) -> CellPruner:
    """Train a cell pruner for a grammar.

    Parameters
    ----------
    grammar
        The grammar, which defines tags and words.
    corpus
        Trees, preferably its training trees, with its binarisation.
    keep
        Approximate share of the nodes of held-out trees that are kept.
    bits
        Log2 of the number of weights.
    progress
        Receives progress reports.
    """
    if not 0 < keep < 1:
        raise UsageError(f"keep must be between 0 and 1, not {keep}")
    if bits not in BITS:
        raise UsageError(f"bits must be {BITS[0]} to {BITS[-1]}, not {bits}")
    progress = progress or Silent()
    words = np.array(sorted(_frequent(grammar, corpus)), np.int32)
    cells = cells_of(grammar, corpus, CellPruner(np.zeros(2, np.float32), 0.0, words), progress=progress)
    fold = np.arange(len(cells.offsets) - 1) % min(_FOLDS, len(cells.offsets) - 1)
    scores = []
    with progress.stage("cell pruner", total=(int(fold.max()) + 2) * _ITERATIONS, unit="iterations") as stage:
        for number in range(int(fold.max()) + 1):
            own, other = (cells.part(np.flatnonzero(chosen).tolist()) for chosen in (fold != number, fold == number))
            scores.append(other.scores(_fit(own, bits, stage))[other.open])
        weights = _fit(cells, bits, stage)
    found = np.concatenate(scores)
    limit = float(np.quantile(found[~np.isnan(found)], 1 - keep))
    all_scores = cells.scores(weights)
    part = (all_scores < limit).sum() / max((~np.isnan(all_scores)).sum(), 1)
    progress.note(
        f"the cell pruner skips {part:.0%} of all spans, and about {1 - keep:.2g} of the phrases of unseen trees"
    )
    return CellPruner(weights, limit, words)


def cells_of(
    grammar: TensorGrammar, corpus: Corpus, pruner: CellPruner, *, progress: Progress | None = None
) -> CellData:
    """Return the cells of a corpus, subsampled if there are too many, with the features of a cell pruner."""
    lexicon, kinds = grammar.lexicon, pruner.word_ids(grammar.lexicon)
    compiled, workspace = compile_grammar(grammar, np.float32), Workspace()
    leaves: dict[int, Leaf] = {}
    chosen = _chosen(corpus)
    tags, seen = [], []
    opened = []
    with (progress or Silent()).stage("cells", total=len(chosen), unit="trees") as stage:
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
    return CellData(
        offsets_of(np.array([len(one) for one in tags])),
        offsets_of(np.array([len(one) for one in opened])),
        np.concatenate(tags),
        np.concatenate(seen),
        np.concatenate(opened),
    )


def _fit(cells: CellData, bits: int, stage: Stage) -> np.ndarray:
    """Return the best weights, in storage precision."""
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
    """Return the training trees: all of three or more words, or evenly spaced ones if there are too many."""
    sizes = (corpus.end - corpus.start)[corpus.roots].astype(np.int64)
    fitting = np.flatnonzero((sizes >= 3) & (sizes <= _MOST_WORDS))
    if len(fitting) < FEWEST:
        raise InputError(
            f"a cell pruner needs at least {FEWEST} training trees of three to {_MOST_WORDS} words, not {len(fitting)}"
        )
    total = int((sizes[fitting] * (sizes[fitting] + 1) // 2).sum())
    return fitting[:: -(-total // _MOST_CELLS)].tolist()
