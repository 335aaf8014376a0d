"""Search for the number of states of each symbol (Narayan and Cohen 2016, "Optimizing spectral learning for parsing").

The best number of states of a symbol depends on the other symbols, and singular values do not reveal it. So each
setting, a number of states for each symbol, is scored on held-out trees by beam search over one symbol at a time: in
each of the best settings so far the symbol is moved to the next smaller and the next larger number on a ladder, and the
best of all settings are kept. This repeats as long as it helps, then the search moves on to the next symbol. Moments
are computed once, with the maximum number of states, and truncated (`Statistics.truncated`), so scoring a setting costs
little more than parsing.

The sequence of settings depends on scores alone, so an interrupted run saves nothing else: on resuming it takes the
same steps, and evaluates only settings that are not in its list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.runtime.checkpoint import Checkpoint, checkpoint_schema
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Int, Int64

# Numbers of states to try.
LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


SCORES = checkpoint_schema(
    "search-checkpoint", Column("scores", "float64", "measurements"), metadata={"step": int, "measured": int}
)


class StateScores:
    """Scores of settings, in order of evaluation.

    Parameters
    ----------
    measure
        Scores a setting, given its index and the symbol that was changed (None for the first setting).
    path
        File to save scores to and to load them from, if any.
    key
        Everything that scores depend on.
    """

    def __init__(
        self,
        measure: Callable[[Int64[Array, "symbols"], int, int | None], float],
        path: str | Path | None = None,
        key: Mapping[str, Any] | None = None,
    ) -> None:
        self._measure = measure
        self._checkpoint: Checkpoint[list[float]] = Checkpoint(
            path,
            key or {},
            SCORES,
            data="trees",
            to_arrays=lambda scores: ({"scores": np.array(scores)}, {"step": len(scores), "measured": len(scores)}),
            from_arrays=lambda arrays, _: arrays["scores"].tolist(),
        )
        self._list = self._checkpoint.load() or []
        self._known: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._list)

    def of(self, states: Int64[Array, "symbols"], symbol: int | None = None) -> float:
        """Return the score of a setting, evaluating it if necessary."""
        key = states.tobytes()
        if key not in self._known:
            number = len(self._known)
            if number == len(self._list):
                score = self._measure(states, number, symbol)
                if not math.isfinite(score):
                    raise UsageError(f"numbers of states are searched by finite scores; dev gives {score}")
                self._list.append(score)
                self._checkpoint.save(self._list)
            self._known[key] = self._list[number]
        return self._known[key]


def search_states(
    scores: StateScores,
    start: Int[Array, "symbols"],
    most: Int[Array, "symbols"],
    symbols: Sequence[int],
    *,
    beam: int = 1,
    progress: Progress | None = None,
) -> Int64[Array, "symbols"]:
    """Return the numbers of states with the highest score.

    Parameters
    ----------
    scores
        Scores of settings; ties go to the setting with fewer states.
    start
        The first setting.
    most
        Maximum number of states of each symbol.
    symbols
        Symbols to search over, in this order.
    beam
        Number of settings to keep.
    progress
        Receives progress reports.

    Examples
    --------
    >>> right = np.array([1, 6, 3])
    >>> scores = StateScores(lambda states, *_: -float(np.abs(states - right).sum()))
    >>> search_states(scores, np.array([4, 4, 4]), np.array([8, 8, 8]), [0, 1, 2]).tolist()
    [1, 6, 3]
    >>> len(scores)
    11
    """
    first = np.array(start, np.int64)
    best = [(scores.of(first), first)]
    with (progress or Silent()).stage("numbers of states", total=len(symbols), unit="symbols") as stage:
        for symbol in symbols:
            before: list[bytes] = []
            while [states.tobytes() for _, states in best] != before:
                before = [states.tobytes() for _, states in best]
                best = _ranked(
                    [
                        (scores.of(other, symbol), other)
                        for _, states in best
                        for other in _moved(states, symbol, int(most[symbol]))
                    ]
                )[:beam]
            stage.step(measured=len(scores), best=f"{best[0][0]:.2f}", states=int(best[0][1].sum()))
    return best[0][1]


def _moved(states: np.ndarray, symbol: int, most: int) -> list[np.ndarray]:
    """Return the setting itself, and those with the symbol one step lower and higher on the ladder."""
    rungs = [*(count for count in LADDER if count < most), most]
    now = int(states[symbol])
    lower, higher = [count for count in rungs if count < now][-1:], [count for count in rungs if count > now][:1]
    found = []
    for count in (now, *lower, *higher):
        other = states.copy()
        other[symbol] = count
        found.append(other)
    return found


def _ranked(settings: list[tuple[float, np.ndarray]]) -> list[tuple[float, np.ndarray]]:
    """Return the distinct settings, best first."""
    different = {states.tobytes(): (score, states) for score, states in settings}
    return sorted(different.values(), key=lambda one: (-one[0], int(one[1].sum()), one[1].tolist()))
