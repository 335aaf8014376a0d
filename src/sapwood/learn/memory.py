"""Memory that training needs, estimated from counts of the corpus, and a warning if the machine has less.

With `E` weights of rules (the sum of `m_a m_b m_c` over rules) and `V` numbers in the vectors of all nodes, EM holds

    16 E + 8 min(V, 2^24) bytes:  old and new weights in single precision, sums in double, vectors of some shards.

A grammar of collapsed trees has about four times as many weights, `F`, and is held next to the `E` weights that it is
made of; compiled for parsing, it is held a second time. Finished grammars wait compressed (`CompressedGrammar`). A CRF
keeps the forests that it is trained on. The constants are measured: see docs/performance.md.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.runtime.progress import Progress
from sapwood.storage.shapes import Array, Shaped
from sapwood.trees.corpus import Corpus

_FOLDED = 4.0
# The most numbers in vectors that are held at once, inside and outside.
_HELD = 1 << 24
# Bytes: of the program; of each node while a grammar is learned, and while a layer is; of forests for each word and
# rule, since more rules leave more edges.
PROGRAM, _NODE, LAYER_NODE, FOREST = 200e6, 300.0, 100.0, 0.27
# Size of a grammar, packed and laid out for parsing, for each byte of its weights.
PACKED, LAID_OUT = 0.05, 1.8
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of a training.

    Attributes
    ----------
    peak
        The most memory at one time, in bytes.
    grammar
        Bytes of the weights of the grammar that is learned.
    """

    peak: float
    grammar: float = 0.0


def estimate_memory(
    problem: LPCFGProblem,
    states: Shaped[Array, "symbols"],
    *,
    em_states: Shaped[Array, "symbols"] | None = None,
    measured: bool = False,
) -> MemoryEstimate:
    """Return the memory of learning a grammar.

    Parameters
    ----------
    states
        States of each symbol in the grammar, not necessarily whole numbers.
    em_states
        The most states of each symbol during EM; None without EM.
    measured
        Whether grammars are measured on held-out trees.
    """
    corpus = problem.trees.corpus
    weights = _rule_weights(corpus, states)
    made = weights if problem.unfolded is None else _FOLDED * weights
    peak = 4 * weights + (8 if measured else 4) * made
    if em_states is not None:
        vectors = float(em_states @ problem.trees.symbol_counts())
        peak = max(peak, 16 * _rule_weights(corpus, em_states) + 8 * min(vectors, _HELD))
    return MemoryEstimate(PROGRAM + _NODE * corpus.n_nodes + peak, 4 * made)


def _rule_weights(corpus: Corpus, states: Shaped[Array, "symbols"]) -> float:
    return float(np.asarray(states, float)[corpus.rules].prod(axis=1).sum())


def available_memory() -> float:
    """Return how many bytes this process may use: free memory of the machine within the limit of its container."""
    limits = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                limits.append(float(rest.split()[0]) * 1024)
    if not limits:  # not Linux
        with contextlib.suppress(AttributeError, OSError, ValueError):
            limits.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # no limit, or none of this kind
            limits.append(float(Path(path).read_text()))
    return min(limits, default=np.inf)


def warn_about_memory(name: str, estimate: MemoryEstimate | None, progress: Progress) -> None:
    """Note that there is less memory than needed, if so."""
    if estimate is not None and estimate.peak > (available := available_memory()):
        progress.note(
            f"{name}: needs about {estimate.peak / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB are available; "
            "fewer states or trees need less"
        )
