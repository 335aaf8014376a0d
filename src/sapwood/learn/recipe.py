"""`Recipe`: all that a training run learns, the grammars and what stands on top of them.

Several grammars are an ensemble: the same learner from different seeds, or different learners. They go together if they
have the same symbols, rules and words, as all methods with hidden states give them for the same trees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from sapwood.errors import UsageError
from sapwood.learn.base import Learner
from sapwood.learn.layer import LayerLearner
from sapwood.learn.methods import make_learner, with_settings
from sapwood.learn.network import NetworkLearner
from sapwood.learn.pivot import PivotEM
from sapwood.learn.settings import declared
from sapwood.learn.spectral import Cluster, Spectral
from sapwood.learn.split_merge import SplitMerge
from sapwood.trees.word_classes import WordClasses

# How many grammars, or of which methods.
Members: TypeAlias = int | Sequence[str | Learner]
Part = TypeVar("Part", LayerLearner, NetworkLearner)

# What is recommended for treebanks of fewer trees than the first number, and for others; with fewer than the second,
# nothing is learned on top.
FEW, TINY = 2000, 50
_FEW = (PivotEM(states=8), Spectral(), Cluster(states=8, iterations=10))
_MANY = (SplitMerge(),)
# With more trees than this, what is learned on top would take many times as long as the grammar: the layer is learned
# from one part of them, as large as a fold but no larger than this, and the network makes fewer passes, so that it sees
# about so many trees in all.
LARGE = 20_000
_SEEN, _LEAST_PASSES = 360_000, 2
# Whoever waits for several grammars can wait for a larger network, if there are trees enough for it.
_LARGER = NetworkLearner(half=192, inner=192, epochs=20)


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
    ensemble: Members | None = None,
    layer: bool | LayerLearner | None = None,
    network: bool | NetworkLearner | None = None,
    classes: WordClasses | None = None,
    n_trees: int | None = None,
    **settings: Any,
) -> Recipe:
    """Return what `sapwood.train` learns if it is given these arguments.

    Parameters
    ----------
    n_trees
        The size of the treebank, by which to choose if neither a method nor an ensemble is given. As long as it is not
        known, what may be chosen stands for it: trees are prepared in the same way for all.
    method, ensemble, layer, network, classes, settings
        As for `train`.

    Examples
    --------
    >>> make_recipe("em", states=2).learners
    (EM(states=2),)
    >>> make_recipe(ensemble=["em", "spectral", "spectral"], states=2).method
    'em, spectral'
    >>> make_recipe(n_trees=50_000).method
    'split-merge'
    """
    if isinstance(ensemble, int) and ensemble < 1:
        raise UsageError(f"ensemble must be at least 1, not {ensemble}")
    if method is None and (ensemble is None or isinstance(ensemble, int)):
        if n_trees is None:
            n_trees = 0 if set(settings) <= _settings_of(*_FEW) else FEW
        wanted = recommended(n_trees, ensemble=ensemble, **settings)
        kinds = list(wanted.learners)
        layer, network = (wanted.layer if layer is None else layer), (wanted.network if network is None else network)
    elif method is not None and (ensemble is None or isinstance(ensemble, int)):
        learner = method.replace(**settings) if isinstance(method, Learner) else make_learner(method, **settings)
        kinds = [learner] * (ensemble or 1)
    else:
        assert ensemble is not None
        assert not isinstance(ensemble, int)
        if method is not None:
            raise UsageError("ensemble: names its methods itself; leave out the other one")
        kinds = _of_methods(ensemble, settings)
    if classes is not None:
        kinds = [kind.replace(lexical=replace(kind.lexical, classes=classes)) for kind in kinds]
    usual = usual_network(n_trees, several=len(kinds) > 1)
    return Recipe(_seeded(kinds), layer=_made(layer, usual_layer(n_trees)), network=_made(network, usual))


def recommended(n_trees: int, *, ensemble: int | None = None, **settings: Any) -> Recipe:
    """Return what is best for a treebank of this size, by our own study (docs/learning.md, `benchmarks/sizes.py`).

    Small treebanks get grammars of different learners with few states, large ones split-merge.

    Parameters
    ----------
    n_trees
        How many trees there are.
    ensemble
        How many grammars to learn: more accurate, and slower.
    settings
        Settings that those learners take which have them, instead of the recommended ones.
    """
    kinds: tuple[Learner, ...] = _FEW if n_trees < FEW else _MANY
    if ensemble is not None:
        kinds = tuple(kinds[number % len(kinds)] for number in range(ensemble))
    if unknown := sorted(set(settings) - _settings_of(*kinds)):
        raise UsageError(
            f"{unknown[0]}: is no setting of what is learned from {n_trees} trees if no method is named "
            f"({', '.join(kind.method for kind in kinds)}); name the method that you mean"
        )
    learners = _of_methods(kinds, settings)
    if n_trees < TINY:
        return Recipe(_seeded(learners))
    # Grammars of one method and several seeds are much alike: a layer learned from one of them does for all.
    alike = len(learners) > 1 and len({one.method for one in learners}) == 1
    layer = replace(usual_layer(n_trees), members=1 if alike else None)
    return Recipe(_seeded(learners), layer=layer, network=usual_network(n_trees, several=len(learners) > 1))


def is_few(n_trees: int) -> bool:
    """Return whether trees are so few that a model of them should read text, and enough for one that can."""
    return TINY <= n_trees < FEW


def usual_layer(n_trees: int | None = None) -> LayerLearner:
    """Return what learns a layer from so many trees.

    >>> usual_layer(50_000)
    LayerLearner(folds=4, held_out=12500, ...)
    """
    if n_trees is None or n_trees <= LARGE:
        return LayerLearner()
    return LayerLearner(held_out=min(n_trees // LayerLearner.folds, LARGE))


def usual_network(n_trees: int | None = None, *, several: bool = False) -> NetworkLearner:
    """Return what learns a network from so many trees: fewer passes over many, a larger one beside several grammars.

    >>> usual_network(50_000).epochs, usual_network(5_000).half, usual_network(5_000, several=True).half
    (8, 128, 192)
    """
    if n_trees is None or n_trees < FEW:
        return NetworkLearner()
    if n_trees <= LARGE:
        return _LARGER if several else NetworkLearner()
    return NetworkLearner(epochs=min(NetworkLearner.epochs, max(_LEAST_PASSES, math.ceil(_SEEN / n_trees))))


def _settings_of(*learners: Learner) -> set[str]:
    """Return the settings that at least one of them has; `features` stands for those of both sides."""
    names = set().union(*map(declared, learners))
    return names | {"features"} if "inside" in names else names


def _made(given: bool | Part | None, usual: Part) -> Part | None:
    """Return a part of a recipe that may be given as whether it is wanted."""
    if given is None or isinstance(given, bool):
        return usual if given else None
    return given


def _of_methods(kinds: Sequence[str | Learner], settings: dict[str, Any]) -> list[Learner]:
    """Return learners, each with those settings that it has."""
    learners = [kind if isinstance(kind, Learner) else make_learner(kind) for kind in kinds]
    if unknown := sorted(set(settings) - _settings_of(*learners)):
        raise UsageError(f"no member of the ensemble has a setting {unknown[0]!r}")
    return [
        with_settings(one, {name: value for name, value in settings.items() if name in _settings_of(one)})
        for one in learners
    ]


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
