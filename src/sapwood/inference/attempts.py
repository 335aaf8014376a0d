"""What to try for a sentence, one after the other, until there is a parse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sapwood.inference.chart import Workspace
from sapwood.inference.compiled import Leaf
from sapwood.inference.constraints import Phrase
from sapwood.inference.product import Ensemble
from sapwood.inference.result import Status

# How much lower the threshold is at the second attempt, how low at the third, and the longest sentences to get them:
# beyond, their charts would take too much memory.
_LOOSER = 1e-3
_LOOSE_WORDS = 150
_HARDLY = 1e-15
_EXACT_WORDS = 60
# How unlikely it is for a word to be used as an unknown one, when nothing else helps.
_UNLIKELY = 1e-3


class Attempt(NamedTuple):
    """Grammars, the words' lexical weights, a threshold, and whether cells may be closed."""

    status: Status
    ensemble: Ensemble
    leaves: list[Leaf]
    threshold: float
    close: bool = False

    def settings(self, workspace: Workspace | None, phrases: Sequence[Phrase], words: list[str]) -> dict[str, Any]:
        """Return what the ensemble is to be told beside the leaves."""
        shared = {"workspace": workspace, "phrases": phrases, "words": words}
        return {"threshold": self.threshold, "close": self.close, **shared}


def attempts(
    ensemble: Ensemble, coarse: Callable[[], Ensemble], leaves: list[Leaf], threshold: float
) -> Iterator[Attempt]:
    """Yield what to try in turn; the `coarse` grammar is asked for only if nothing else has helped."""
    yield Attempt("parsed", ensemble, leaves, threshold, close=True)
    if threshold > 0:
        if ensemble.joint.kinds is not None or ensemble.closing:  # cells were closed
            yield Attempt("loosened", ensemble, leaves, threshold)
        if len(leaves) <= _LOOSE_WORDS:
            yield Attempt("loosened", ensemble, leaves, threshold * _LOOSER)
        if len(leaves) <= _EXACT_WORDS:
            yield Attempt("loosened", ensemble, leaves, _HARDLY)
    # As a last resort any word may also be what an unknown word can be, if it must.
    rows = np.tile(ensemble.unknown_row, (len(leaves), 1))
    for row, leaf in zip(rows, leaves, strict=True):
        row *= 0.0 if leaf.fixed else _UNLIKELY * leaf.values.max(initial=0.0)
        row[leaf.symbols] += leaf.values
    first = ensemble.joint.coarse.n_interminals
    last = coarse()
    yield Attempt("coarse", last, [last.leaf([row[first:]]) for row in rows], threshold)
