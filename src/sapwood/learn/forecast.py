"""How much memory and time training with hidden states will take, about, from counts of the corpus alone.

With `E` weights of rules (the sum of `m_a m_b m_c` over rules), `W` products (the same sum over nodes) and `V` numbers
in the vectors of all nodes, an iteration takes time in proportion to each, and holds

    16 E + 8 min(V, 2^24) bytes:  old and new weights in single precision, sums in double, vectors of some shards.

A grammar of collapsed trees has about four times as many weights (`_FOLDED`), `F`, and is held beside the `E` weights
that it is made of; to be parsed with it is laid out a second time. The constants are measured: see docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.inference.observations import pass_seconds
from sapwood.learn.problem import LatentProblem
from sapwood.shapes import Array, Float, Float64, Shaped

_FOLDED = 4.0
# Bytes: of the program, of each node of the corpus.
PROGRAM, _NODE = 200e6, 300.0
# The most numbers in vectors that are held at once, inside and outside.
_HELD = 1 << 24
# Seconds of one core: for each weight of a grammar that is made, and each word that is parsed with it; for each node
# whose features are looked at.
_MADE, _PARSED, _FEATURES = 30e-9, 0.15e-3, 12e-6
# Shorter runs are not worth a word.
_WORTH_SAYING = 5.0


@dataclass(frozen=True, eq=False)
class Phase:
    """A part of a run in which symbols have the same numbers of states.

    Attributes
    ----------
    states
        The states of each symbol, not necessarily whole numbers.
    iterations
        Iterations of EM.
    looks
        How many grammars are made to be measured on held-out trees, if there are any.
    features
        How much is done with features of nodes beforehand, if what spectral learning does is 1.
    """

    states: Shaped[Array, "symbols"]
    iterations: int = 0
    looks: int = 1
    features: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Attributes
    ----------
    memory
        The most memory at one time, in bytes.
    seconds
        Time.
    measuring
        The part of it in which grammars are measured on held-out trees.
    grammar
        Bytes of the weights of the grammar that is learned.
    """

    memory: float
    seconds: float
    measuring: float = 0.0
    grammar: float = 0.0

    @property
    def worth_saying(self) -> bool:
        """Whether it takes more than a few seconds."""
        return self.seconds > _WORTH_SAYING

    def __str__(self) -> str:
        minutes = f"{self.seconds:.0f} s" if self.seconds < 100 else f"{self.seconds / 60:.0f} min"
        return (
            f"will take about {minutes} and {self.memory / 1e9:.1f} GB (on a machine like that of docs/performance.md)"
        )


def forecast(problem: LatentProblem, phases: Sequence[Phase], *, dev_words: int = 0) -> Forecast:
    """Return what a run of these phases will take, about; `dev_words` are parsed with each grammar looked at."""
    corpus, workers = problem.trees.corpus, problem.workers.count
    counts = problem.trees.rule_counts()
    memory = alone = shared = measured = made = 0.0
    for phase in phases:
        states = np.asarray(phase.states, float)
        sizes = states[corpus.rules].prod(axis=1)
        weights, numbers = float(sizes.sum()), float(states @ problem.trees.symbol_counts())
        made = weights if problem.unfolded is None else _FOLDED * weights
        last = int(phase is phases[-1])
        grammars = phase.looks if dev_words else last
        shared += phase.iterations * pass_seconds(float(sizes @ counts), weights, numbers)
        shared += phase.features * _FEATURES * corpus.n_nodes
        measured += grammars * _PARSED * dev_words / workers + (grammars - last) * _MADE * made
        alone += last * _MADE * made
        if phase.iterations:
            memory = max(memory, 16 * weights + 8 * min(numbers, _HELD))
        if grammars:
            memory = max(memory, 4 * weights + (8 if dev_words else 4) * made)
    memory += PROGRAM + _NODE * corpus.n_nodes
    return Forecast(memory, alone + shared / workers + measured, measured, 4 * made)


def kept_splits(
    counts: Shaped[Array, "symbols"], states: Float[Array, "symbols"], part: float
) -> Float64[Array, "symbols"]:
    """Return how many splits of each symbol's states merging leaves, if it leaves this part of all.

    It undoes those that make the least difference, and so, about, of rare states: what is left of a symbol's splits is
    taken to be in proportion to how often its states occur, up to all of them.
    """
    often = np.divide(counts, states, out=np.zeros(len(states)), where=states > 0)
    least = often[often > 0].min(initial=np.inf)
    low, high = 0.0, 1 / least
    for _ in range(50):
        middle = (low + high) / 2
        enough = states @ np.minimum(1, middle * often) > part * states.sum()
        low, high = (low, middle) if enough else (middle, high)
    return states * np.minimum(1, high * often)
