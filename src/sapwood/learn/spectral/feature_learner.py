"""What learners from features of nodes have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sapwood.learn.forecast import Phase
from sapwood.learn.latent_learner import LatentLearner
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import integer, number, other
from sapwood.learn.spectral.matrices import Chosen
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes, project_nodes
from sapwood.run.progress import Progress
from sapwood.shapes import Array, Int, Int64

# Settings that projections have, too.
_OF_PROJECTION = ("inside", "outside", "least", "kappa", "tolerance")


@dataclass(frozen=True, kw_only=True, repr=False)
class FeatureLearner(LatentLearner):
    """A learner that tells states apart by features inside and outside of nodes.

    Parameters
    ----------
    states
        The most states of each symbol: one number for all, or by name (others get one).
    inside, outside
        Features: the name of a set, or names of features and functions (see `learn.spectral.features`).
    least
        Features seen less often with a symbol are dropped.
    kappa
        Scaling of features: the larger, the less rare features count.
    tolerance
        Singular values below this part of a symbol's largest are cut off, with the states they would give.
    support
        A symbol gets no more than one state for so many occurrences.
    """

    states: int | Mapping[str, int] = integer(16, "The most hidden states of each symbol.", low=1)
    inside: Chosen = other("rich", "Features inside of nodes.", str, Sequence)
    outside: Chosen = other("rich", "Features outside of nodes.", str, Sequence)
    least: int = integer(2, "Features seen less often with a symbol are dropped.", low=1)
    kappa: float = number(5.0, "How much rare features are held back.")
    tolerance: float = number(
        0.03, "The part of the largest singular value below which others are cut.", above=0, below=1
    )
    support: int = integer(30, "Occurrences that a symbol must have for each state.", low=1)

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        return [replace(phase, states=self._wanted(problem), features=1.0) for phase in super()._phases(problem)]

    def _wanted(self, problem: LatentProblem) -> Int64[Array, "symbols"]:
        """Return the most states that each symbol may have."""
        return problem.wanted_states(self.states, self.support)

    def _project_nodes(
        self, table: NodeTable, states: Int[Array, "symbols"], progress: Progress, **others: Any
    ) -> ProjectedNodes:
        """Return the vectors of all nodes; `others` are settings of `project_nodes` that are not those of all."""
        ours = {name: getattr(self, name) for name in _OF_PROJECTION}
        return project_nodes(
            table, states, seed=self.random_state, workers=self.where, progress=progress, **ours | others
        )
