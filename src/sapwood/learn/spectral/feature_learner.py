"""Base class of learners that use features of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapwood.learn.lpcfg.em_learner import LatentLearner
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.spectral.feature_matrices import Chosen
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes, project_nodes
from sapwood.runtime.params import integer, number, opaque
from sapwood.runtime.progress import Progress
from sapwood.storage.shapes import Array, Int, Int64

# Settings shared with projections.
_OF_PROJECTION = ("inside", "outside", "kappa", "tolerance")


@dataclass(frozen=True, kw_only=True, repr=False)
class FeatureLearner(LatentLearner):
    """Base class of learners that identify states by features inside and outside of nodes.

    Parameters
    ----------
    states
        Maximum number of states of each symbol: one number for all, or by name (others get one).
    inside, outside
        Features: the name of a set, or names of features and functions (see `learn.spectral.features`).
    min_feature_count
        Features seen less often with a symbol are dropped.
    kappa
        Scaling of features: the larger, the less rare features count.
    tolerance
        Singular values below this fraction of a symbol's largest are cut off, with their states.
    min_support
        A symbol gets at most one state per N occurrences.
    """

    states: int | Mapping[str, int] = integer(
        16, "Maximum number of hidden states per symbol: N, or by symbol, such as NP=24,VP=16,8.", low=1, by_symbol=True
    )
    inside: Chosen = opaque("rich", "Inside features.", str, Sequence)
    outside: Chosen = opaque("rich", "Outside features.", str, Sequence)
    min_feature_count: int = integer(2, "Drop features seen fewer than N times with a symbol.", low=1)
    kappa: float = number(5.0, "Pseudo-count that scales down rare features.")
    tolerance: float = number(0.03, "Drop singular values below this share of the largest.", above=0, below=1)
    min_support: int = integer(30, "Minimum occurrences of a symbol per state.", low=1)

    def _expected_states(self, problem: LPCFGProblem) -> tuple[Int64[Array, "symbols"], Int64[Array, "symbols"]]:
        wanted = self._wanted(problem)
        return wanted, wanted

    def _wanted(self, problem: LPCFGProblem) -> Int64[Array, "symbols"]:
        """Return the maximum number of states of each symbol."""
        return problem.wanted_states(self.states, self.min_support)

    def _project_nodes(
        self, table: NodeTable, states: Int[Array, "symbols"], progress: Progress, **others: Any
    ) -> ProjectedNodes:
        """Return the vectors of all nodes; `others` are additional settings of `project_nodes`."""
        ours = {name: getattr(self, name) for name in _OF_PROJECTION} | {"least": self.min_feature_count}
        return project_nodes(
            table, states, seed=self.random_state, workers=self.executor, progress=progress, **ours | others
        )
