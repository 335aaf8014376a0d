"""Registry of learners: built-in methods, and those of installed packages.

A package adds a learner by an entry point in the group `sapwood.learners`, named after the method; its object is a
subclass of `Learner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.errors import UsageError
from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.pivot import Pivot, PivotEM
from sapwood.learn.spectral import Spectral, StateClustering
from sapwood.runtime.registry import named, plugins

GROUP = "sapwood.learners"
# Used unless another method is given.
DEFAULT_METHOD = SplitMerge.method
LEARNERS: Mapping[str, type[Learner]] = {
    cls.method: cls for cls in (SplitMerge, PivotEM, EM, Spectral, StateClustering, Pivot, PCFG)
}


def methods() -> list[str]:
    """Return the names of all methods, built-in ones first."""
    return list(dict.fromkeys([*LEARNERS, *plugins(GROUP)]))


def find_learner(method: str) -> type[Learner]:
    """Return the learner of a method."""
    cls = named(method, LEARNERS, GROUP, "method")
    if not (isinstance(cls, type) and issubclass(cls, Learner)):
        raise UsageError(
            f"{method}: {cls!r} is not a subclass of sapwood.learn.Learner; repair the package that has it"
        )
    return cls


def make_learner(method: str = DEFAULT_METHOD, **settings: Any) -> Learner:
    """Return the learner of a method with these settings; `features` sets those of both sides.

    >>> make_learner("split-merge", cycles=3)
    SplitMerge(cycles=3)
    """
    return with_settings(find_learner(method)(), settings)


def with_settings(learner: Learner, settings: Mapping[str, Any]) -> Learner:
    """Return a learner with other settings; `features` sets those of both sides."""
    changes = dict(settings)
    if "features" in changes:
        changes["inside"] = changes["outside"] = changes.pop("features")
    return learner.replace(**changes)
