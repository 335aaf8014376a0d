"""`Recipe`: the grammars, CRF and span scorer that a training run learns.

Several grammars form an ensemble: the same learner with different seeds, or different learners. They must have the same
symbols, rules and words, as all methods with hidden states give for the same trees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from sapwood.encoders.encoder import Encoder
from sapwood.errors import UsageError
from sapwood.learn.base import Learner
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.pivot import PivotEM
from sapwood.learn.registry import make_learner, with_settings
from sapwood.learn.semi_supervised.learner import PartialTrees, SemiSupervised, UnlabelledText
from sapwood.learn.spectral import Spectral, StateClustering
from sapwood.runtime.params import params_of
from sapwood.trees.lexicon.word_classes import WordClasses

# Number of grammars, or their methods.
Members: TypeAlias = int | Sequence[str | Learner]
Part = TypeVar("Part", ForestCRFTrainer, SpanScorerTrainer)

# Recommended methods for treebanks of fewer trees than the first number, and for others; with fewer than the second, no
# components are learned on top.
FEW, TINY = 2000, 50
_FEW = (PivotEM(states=8), Spectral(), StateClustering(states=8, iterations=10))
_MANY = (SplitMerge(),)
# With more trees than this, components would take many times as long as the grammar: the CRF is trained on one part of
# them, as large as a fold up to this size, and the span scorer gets fewer epochs, for about this many trees in total.
LARGE = 20_000
_SEEN, _LEAST_PASSES = 360_000, 2
# Several grammars take long to train anyway, so they get a larger span scorer, if there are enough trees.
_LARGER = SpanScorerTrainer(hidden=192, span_hidden=192, epochs=20)
# With a pretrained encoder, the input of the span scorer is larger and, for few trees, its weight (docs/encoders.md).
_ENCODER_EMBEDDING, _ENCODER_WEIGHT = 256, 0.6


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run learns.

    Attributes
    ----------
    learners
        One for each grammar, each with its own seed.
    crf, span_scorer
        Components on top of the grammars.
    encoder
        Pretrained encoder, whose vectors are input of the span scorer.
    """

    learners: tuple[Learner, ...]
    crf: ForestCRFTrainer | None = None
    span_scorer: SpanScorerTrainer | None = None
    encoder: Encoder | None = None

    def __post_init__(self) -> None:
        if not self.learners:
            raise UsageError("an ensemble needs at least one member")
        if self.encoder is not None and self.span_scorer is None:
            raise UsageError("an encoder requires a span scorer, which uses its vectors")

    @property
    def seed(self) -> int:
        """Seed of everything besides the grammars."""
        return int(getattr(self.learners[0], "random_state", 0))

    @property
    def method(self) -> str:
        """Methods of the grammars, without duplicates."""
        return ", ".join(dict.fromkeys(learner.method for learner in self.learners))

    def settings(self) -> dict[str, Any]:
        """Return everything besides the trees that determines the result, as JSON values."""
        settings: dict[str, Any] = {**self.learners[0].settings(), "ensemble": len(self.learners)}
        if len({learner.method for learner in self.learners}) > 1:
            settings["members"] = [{"method": one.method, **one.settings()} for one in self.learners]
        for name, part in (("layer", self.crf), ("network", self.span_scorer)):
            if part is not None:
                settings[name] = self.settings_of(part)
        return settings

    def settings_of(self, part: ForestCRFTrainer | SpanScorerTrainer) -> dict[str, Any]:
        """Return the settings of a component, with the encoder of a span scorer."""
        if self.encoder is None or not isinstance(part, SpanScorerTrainer):
            return part.settings()
        encoder = {"name": self.encoder.name, "digest": self.encoder.digest}
        return {**part.settings(encoder=True), "encoder": encoder}


def first_learner(
    method: str | Learner | None = None, *, ensemble: Members | None = None, seed: int | None = None, **settings: Any
) -> Learner:
    """Return the first learner of the recipe for these arguments, which are those of `train`, before trees are read.

    The number of trees decides on a recommended recipe. Here it is unknown, but trees are prepared in the same way for
    all of them, with the same seed and executor. Settings that no recipe takes raise a `UsageError`.

    >>> first_learner("em", states=2)
    EM(states=2)
    """
    settings = _with_seed(method, ensemble, seed, settings)
    if method is None and (ensemble is None or isinstance(ensemble, int)):
        n_trees = 0 if set(settings) <= _settings_of(*_FEW) else FEW
        return recommended(n_trees, ensemble=ensemble, **settings).learners[0]
    return Recipe(_seeded(_named_learners(method, ensemble, settings))).learners[0]


def make_recipe(
    method: str | Learner | None = None,
    *,
    ensemble: Members | None = None,
    crf: bool | ForestCRFTrainer | None = None,
    span_scorer: bool | SpanScorerTrainer | None = None,
    encoder: Encoder | None = None,
    classes: WordClasses | None = None,
    n_trees: int | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Recipe:
    """Return the recipe of `sapwood.train` for these arguments.

    Parameters
    ----------
    n_trees
        Size of the treebank, which decides if neither a method nor an ensemble of methods is given.
    classes
        Word classes for the lexicon of every grammar.
    method, ensemble, crf, span_scorer, encoder, seed, settings
        As for `train`. An encoder needs a span scorer, which is trained unless `span_scorer` is False.

    Examples
    --------
    >>> make_recipe("em", states=2).learners
    (EM(states=2),)
    >>> make_recipe(ensemble=["em", "spectral", "spectral"], states=2).method
    'em, spectral'
    >>> make_recipe(n_trees=50_000).method
    'split-merge'
    """
    settings = _with_seed(method, ensemble, seed, settings)
    if encoder is not None and span_scorer is None:
        span_scorer = True
    if method is None and (ensemble is None or isinstance(ensemble, int)):
        if n_trees is None:
            raise UsageError("the recommended recipe depends on the number of trees; give n_trees, or name a method")
        wanted = recommended(n_trees, ensemble=ensemble, **settings)
        kinds = list(wanted.learners)
        crf = wanted.crf if crf is None else crf
        span_scorer = wanted.span_scorer if span_scorer is None else span_scorer
    else:
        kinds = _named_learners(method, ensemble, settings)
    if classes is not None:
        kinds = [kind.replace(lexical=replace(kind.lexical, classes=classes)) for kind in kinds]
    usual = default_span_scorer(n_trees, several=len(kinds) > 1, encoder=encoder is not None)
    return Recipe(
        _seeded(kinds),
        crf=_made(crf, default_crf(n_trees)),
        span_scorer=_made(span_scorer, usual),
        encoder=encoder,
    )


def recommended(n_trees: int, *, ensemble: int | None = None, **settings: Any) -> Recipe:
    """Return the best recipe for a treebank of this size (docs/default-methods.md, `benchmarks/sizes.py`).

    Small treebanks get grammars of different learners with few states, large ones split-merge.

    Parameters
    ----------
    n_trees
        Number of trees.
    ensemble
        Number of grammars: more accurate, and slower.
    settings
        Settings that override the recommended ones, for the learners that have them.
    """
    kinds: tuple[Learner, ...] = _FEW if n_trees < FEW else _MANY
    if ensemble is not None:
        kinds = tuple(kinds[number % len(kinds)] for number in range(ensemble))
    if unknown := sorted(set(settings) - _settings_of(*kinds)):
        raise UsageError(
            f"{unknown[0]}: is not a setting of the default recipe for {n_trees} trees "
            f"({', '.join(kind.method for kind in kinds)}); name the method that you mean"
        )
    learners = _of_methods(kinds, settings)
    if n_trees < TINY:
        return Recipe(_seeded(learners))
    # Grammars of one method and several seeds are much alike: a CRF trained on one of them does for all.
    alike = len(learners) > 1 and len({one.method for one in learners}) == 1
    crf = replace(default_crf(n_trees), members=1 if alike else None)
    return Recipe(_seeded(learners), crf=crf, span_scorer=default_span_scorer(n_trees, several=len(learners) > 1))


def with_unlabelled(
    recipe: Recipe, partial: PartialTrees | None, text: UnlabelledText | None, **settings: Any
) -> Recipe:
    """Return a recipe whose learners are wrapped in `SemiSupervised` and share one teacher."""
    if len({learner.method for learner in recipe.learners}) > 1:
        raise UsageError("learners of different methods cannot share a teacher: name one method")
    given = {"teacher_seed": recipe.seed, **settings}
    learners = tuple(SemiSupervised.of(learner, partial=partial, text=text, **given) for learner in recipe.learners)
    return replace(recipe, learners=learners)


def should_self_train(n_trees: int) -> bool:
    """Return True if trees are few enough for self-training to help, and enough for a useful first model."""
    return TINY <= n_trees < FEW


def default_crf(n_trees: int | None = None) -> ForestCRFTrainer:
    """Return the default trainer of a CRF for `n_trees` trees.

    >>> default_crf(50_000)
    ForestCRFTrainer(held_out=12500)
    """
    if n_trees is None or n_trees <= LARGE:
        return ForestCRFTrainer()
    return ForestCRFTrainer(held_out=min(n_trees // ForestCRFTrainer.folds, LARGE))


def default_span_scorer(
    n_trees: int | None = None, *, several: bool = False, encoder: bool = False
) -> SpanScorerTrainer:
    """Return the default trainer of a span scorer: fewer epochs for many trees, larger with several grammars.

    With an encoder and few trees, the scores weigh more: they are much better than those of the grammar.

    >>> default_span_scorer(50_000).epochs
    8
    >>> default_span_scorer(5_000).hidden, default_span_scorer(5_000, several=True).hidden
    (128, 192)
    >>> default_span_scorer(500).weight, default_span_scorer(500, encoder=True).weight
    (0.2, 0.6)
    """
    if encoder:
        usual = replace(default_span_scorer(n_trees, several=several), embedding=_ENCODER_EMBEDDING)
        return replace(usual, weight=_ENCODER_WEIGHT) if n_trees is None or n_trees < FEW else usual
    if n_trees is None or n_trees < FEW:
        return SpanScorerTrainer()
    if n_trees <= LARGE:
        return _LARGER if several else SpanScorerTrainer()
    return SpanScorerTrainer(epochs=min(SpanScorerTrainer.epochs, max(_LEAST_PASSES, math.ceil(_SEEN / n_trees))))


def _with_seed(
    method: str | Learner | None, ensemble: Members | None, seed: int | None, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings with the seed, if a learner has one; check the number of members first."""
    if isinstance(ensemble, int) and ensemble < 1:
        raise UsageError(f"ensemble must be at least 1, not {ensemble}")
    if seed is not None and "random_state" in _settings_of(*_unset(method, ensemble)):
        return {"random_state": seed, **settings}
    return settings


def _named_learners(method: str | Learner | None, ensemble: Members | None, settings: dict[str, Any]) -> list[Learner]:
    """Return the learners of a method, or of an ensemble of methods, all with the seed that they are given."""
    if ensemble is not None and not isinstance(ensemble, int):
        if method is not None:
            raise UsageError("ensemble: names its methods itself; omit method")
        return _of_methods(ensemble, settings)
    assert method is not None
    learner = method.replace(**settings) if isinstance(method, Learner) else make_learner(method, **settings)
    return [learner] * (ensemble or 1)


def _unset(method: str | Learner | None, ensemble: Members | None) -> Sequence[Learner]:
    """Return the learners of a recipe without the given settings."""
    given = [method] if ensemble is None or isinstance(ensemble, int) else ensemble
    if given == [None]:
        return (*_FEW, *_MANY)
    return [one if isinstance(one, Learner) else make_learner(one) for one in given if one is not None]


def _settings_of(*learners: Learner) -> set[str]:
    """Return the settings that at least one learner has; `features` stands for those of both sides."""
    names = set().union(*map(params_of, learners))
    return names | {"features"} if "inside" in names else names


def _made(given: bool | Part | None, usual: Part) -> Part | None:
    """Return a part of a recipe, which may be given as a boolean."""
    if given is None or isinstance(given, bool):
        return usual if given else None
    return given


def _of_methods(kinds: Sequence[str | Learner], settings: dict[str, Any]) -> list[Learner]:
    """Return learners, each with the settings it has."""
    learners = [kind if isinstance(kind, Learner) else make_learner(kind) for kind in kinds]
    if unknown := sorted(set(settings) - _settings_of(*learners)):
        raise UsageError(f"no member of the ensemble has a setting {unknown[0]!r}")
    return [
        with_settings(one, {name: value for name, value in settings.items() if name in _settings_of(one)})
        for one in learners
    ]


def _seeded(kinds: Sequence[Learner]) -> tuple[Learner, ...]:
    """Return learners with distinct seeds.

    The first of each kind keeps its seed; the seed of each further one derives from its own and the number before it.
    """
    before: Counter[str] = Counter()
    found: list[Learner] = []
    for kind in kinds:
        key = f"{kind.method} {kind.settings()}"
        number = before[key]
        before[key] += 1
        if number and "random_state" not in params_of(kind):
            raise UsageError(f"ensemble: {kind.method} gives the same grammar from every seed")
        if number:
            seed = np.random.SeedSequence([int(kind.settings()["random_state"]), number]).generate_state(1)[0]
            kind = kind.replace(random_state=int(seed))
        found.append(kind)
    return tuple(found)
