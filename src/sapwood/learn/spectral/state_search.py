"""Numbers of states for each symbol by search (Narayan and Cohen 2016, "Optimizing spectral learning for parsing").

How many states a symbol is worth depends on the others', and singular values do not tell. So what a setting, a number
of states for each symbol, is worth is measured on held-out trees, and symbols are gone through one after the other: in
each of the best settings so far the symbol is moved to the next smaller and to the next larger number on a ladder, and
the best of all are kept. It goes on moving the symbol as long as that helps, then the next symbol's turn comes. Moments
are computed once, with the most states, and truncated (`Statistics.truncated`), so that a measurement costs little more
than parsing.

Which settings are measured depends on nothing but scores. So these are all that an interrupted run has to keep: one
that goes on takes the same steps, and measures only what is not in its list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import UsageError
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.progress import Progress, Silent
from sapwood.schema import Column, Schema
from sapwood.shapes import Array, Int, Int64

# Numbers of states that are tried.
LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class _Metadata(TypedDict):
    key: str
    step: int
    measured: int


SCORES = Schema(
    kind="search-checkpoint",
    version=1,
    title="checkpoint of a search",
    remedy="copy it again",
    columns=(Column("scores", "float64", "measurements"),),
    metadata=_Metadata,
)


class Scores:
    """What settings were worth, in the order in which they were measured.

    Parameters
    ----------
    measure
        Measures a setting, given its number among all and the symbol that it was made for (None: the first setting).
    path
        A file to keep the scores in, and to take them from; None: none.
    key
        What they depend on.
    """

    def __init__(
        self,
        measure: Callable[[Int64[Array, "symbols"], int, int | None], float],
        path: str | Path | None = None,
        key: Mapping[str, Any] | None = None,
    ) -> None:
        self._measure = measure
        self._file = None if path is None else Checkpoint(path, key or {}, SCORES, data="trees")
        loaded = None if self._file is None else self._file.load()
        self._list: list[float] = [] if loaded is None else loaded[0]["scores"].tolist()
        self._known: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._list)

    def of(self, states: Int64[Array, "symbols"], symbol: int | None = None) -> float:
        """Return what a setting is worth, which is measured if it is not known."""
        key = states.tobytes()
        if key not in self._known:
            number = len(self._known)
            if number == len(self._list):
                score = self._measure(states, number, symbol)
                if not math.isfinite(score):
                    raise UsageError(f"numbers of states are searched by finite scores; dev gives {score}")
                self._list.append(score)
                self._keep()
            self._known[key] = self._list[number]
        return self._known[key]

    def _keep(self) -> None:
        if self._file is not None:
            count = len(self._list)
            self._file.save({"scores": np.array(self._list)}, {"step": count, "measured": count})


def search_states(
    scores: Scores,
    start: Int[Array, "symbols"],
    most: Int[Array, "symbols"],
    symbols: Sequence[int],
    *,
    beam: int = 1,
    progress: Progress | None = None,
) -> Int64[Array, "symbols"]:
    """Return the numbers of states that are worth most.

    Parameters
    ----------
    scores
        What settings are worth; of those that are worth the same the one with fewer states is better.
    start
        The first setting.
    most
        The most states of each symbol.
    symbols
        The symbols whose numbers change, in the order of their turns.
    beam
        How many settings are kept.
    progress
        What to report to.

    Examples
    --------
    >>> right = np.array([1, 6, 3])
    >>> scores = Scores(lambda states, *_: -float(np.abs(states - right).sum()))
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
    """Return the setting itself, and those with the symbol one rung lower and higher."""
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
    """Return different settings, the best first."""
    different = {states.tobytes(): (score, states) for score, states in settings}
    return sorted(different.values(), key=lambda one: (-one[0], int(one[1].sum()), one[1].tolist()))
