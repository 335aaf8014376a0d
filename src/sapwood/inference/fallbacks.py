"""Fallbacks for sentences without a parse: less pruning, then the coarse grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sapwood.inference.chart.compiled import Leaf
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.constraints import Requirement
from sapwood.inference.ensemble import Ensemble
from sapwood.inference.result import Status

# Factor of the threshold at the second attempt, threshold at the third, and the maximum sentence length of each: charts
# of longer sentences would take too much memory.
_LOOSER = 1e-3
_LOOSE_WORDS = 150
_MIN_THRESHOLD = 1e-15
_EXACT_WORDS = 60
# Probability that a known word is treated as an unknown one, as a last resort.
_UNLIKELY = 1e-3


class Attempt(NamedTuple):
    """Grammars, lexical weights of the words, pruning threshold, and whether cells may be pruned."""

    status: Status
    ensemble: Ensemble
    leaves: list[Leaf]
    threshold: float
    prune_cells: bool = False

    def settings(self, workspace: Workspace | None, phrases: Sequence[Requirement], words: list[str]) -> dict[str, Any]:
        """Return the arguments of the ensemble other than the leaves."""
        shared = {"workspace": workspace, "phrases": phrases, "words": words}
        return {"threshold": self.threshold, "prune_cells": self.prune_cells, **shared}


def attempts(
    ensemble: Ensemble, coarse: Callable[[], Ensemble], leaves: list[Leaf], threshold: float
) -> Iterator[Attempt]:
    """Yield attempts in turn; `coarse` is called only if all others have failed."""
    yield Attempt("parsed", ensemble, leaves, threshold, prune_cells=True)
    if threshold > 0:
        if ensemble.joint.word_ids is not None or ensemble.prune_below:  # cells were pruned
            yield Attempt("relaxed", ensemble, leaves, threshold)
        if len(leaves) <= _LOOSE_WORDS:
            yield Attempt("relaxed", ensemble, leaves, threshold * _LOOSER)
        if len(leaves) <= _EXACT_WORDS:
            yield Attempt("relaxed", ensemble, leaves, _MIN_THRESHOLD)
    # As a last resort any word may also have the tags of an unknown word.
    rows = np.tile(ensemble.unknown_row, (len(leaves), 1))
    for row, leaf in zip(rows, leaves, strict=True):
        row *= 0.0 if leaf.fixed else _UNLIKELY * leaf.values.max(initial=0.0)
        row[leaf.symbols] += leaf.values
    first = ensemble.joint.coarse.n_interminals
    last = coarse()
    yield Attempt("coarse", last, [last.leaf([row[first:]]) for row in rows], threshold)
