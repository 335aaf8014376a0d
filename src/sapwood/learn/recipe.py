"""`Recipe`: all that a training run learns, the grammars and what stands on top of them.

Several grammars are an ensemble: the same learner from different seeds, or different learners. They go together if they
have the same symbols, rules and words, as all methods with hidden states give them for the same trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.learn.base import Learner
from sapwood.learn.layer import LayerLearner
from sapwood.learn.methods import DEFAULT_METHOD, find_learner, make_learner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.settings import declared

# How many grammars, or of which methods.
Members: TypeAlias = int | Sequence[str | Learner]


@dataclass(frozen=True)
class Recipe:
    """What a training run learns.

    Attributes
    ----------
    learners
        One for each grammar, with the seed of its own.
    layer, network
        What is learned on top of the first grammar.
    """

    learners: tuple[Learner, ...]
    layer: LayerLearner | None = None
    network: NetworkLearner | None = None

    def __post_init__(self) -> None:
        if not self.learners:
            raise UsageError("an ensemble needs at least one member")

    @property
    def first(self) -> Learner:
        """The learner of the first grammar."""
        return self.learners[0]

    @property
    def seed(self) -> int:
        """The seed of everything that is no grammar."""
        return int(getattr(self.first, "random_state", 0))

    @property
    def method(self) -> str:
        """The methods of the grammars, each named once."""
        return ", ".join(dict.fromkeys(learner.method for learner in self.learners))

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees, as JSON values."""
        settings: dict[str, Any] = {**self.first.settings(), "ensemble": len(self.learners)}
        if len({learner.method for learner in self.learners}) > 1:
            settings["members"] = [{"method": one.method, **one.settings()} for one in self.learners]
        for name, part in (("layer", self.layer), ("network", self.network)):
            if part is not None:
                settings[name] = part.settings()
        return settings


def make_recipe(
    method: str | Learner | None = None,
    *,
    ensemble: Members = 1,
    layer: bool | LayerLearner = False,
    network: bool | NetworkLearner = False,
    **settings: Any,
) -> Recipe:
    """Return what `sapwood.train` learns if it is given these arguments.

    >>> make_recipe("em", states=2).learners
    (EM(states=2),)
    >>> make_recipe(ensemble=["em", "spectral", "spectral"], states=2).method
    'em, spectral'
    """
    if isinstance(ensemble, int):
        if ensemble < 1:
            raise UsageError(f"ensemble must be at least 1, not {ensemble}")
        method = DEFAULT_METHOD if method is None else method
        learner = method.replace(**settings) if isinstance(method, Learner) else make_learner(method, **settings)
        kinds = [learner] * ensemble
    else:
        if method is not None:
            raise UsageError("ensemble: names its methods itself; leave out the other one")
        kinds = _of_methods(ensemble, settings)
    return Recipe(
        _seeded(kinds),
        layer=(LayerLearner() if layer else None) if isinstance(layer, bool) else layer,
        network=(NetworkLearner() if network else None) if isinstance(network, bool) else network,
    )


def _of_methods(kinds: Sequence[str | Learner], settings: dict[str, Any]) -> list[Learner]:
    """Return learners by their methods, each with those settings that it has."""
    given = {number: kind for number, kind in enumerate(kinds) if isinstance(kind, Learner)}
    classes = {number: find_learner(kind) for number, kind in enumerate(kinds) if not isinstance(kind, Learner)}
    known = set().union(*(declared(cls) for cls in classes.values()), ("features",))
    if unknown := sorted(set(settings) - known):
        raise UsageError(f"no member of the ensemble has a setting {unknown[0]!r}")
    for number, cls in classes.items():
        has = {*declared(cls), *(["features"] if "inside" in declared(cls) else [])}
        given[number] = make_learner(cls.method, **{name: value for name, value in settings.items() if name in has})
    return [given[number] for number in range(len(kinds))]


def _seeded(kinds: Sequence[Learner]) -> tuple[Learner, ...]:
    """Return learners with seeds of their own.

    The first of each kind is as it would be alone; the seed of each further one follows from its own and from how many
    came before.
    """
    before: Counter[str] = Counter()
    found: list[Learner] = []
    for kind in kinds:
        key = f"{kind.method} {kind.settings()}"
        number = before[key]
        before[key] += 1
        if number and "random_state" not in declared(kind):
            raise UsageError(f"ensemble: {kind.method} gives the same grammar from every seed")
        if number:
            seed = np.random.SeedSequence([int(kind.settings()["random_state"]), number]).generate_state(1)[0]
            kind = kind.replace(random_state=int(seed))
        found.append(kind)
    return tuple(found)
