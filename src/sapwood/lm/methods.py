"""Ways to learn a language model: their names, the settings each has, and which is taken where none is named.

Nothing is imported here, so that the command can say what there is without loading what it takes to do it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict, get_args

from sapwood.errors import UsageError

Method = Literal["em", "pivot", "pivot+em", "mixed-order", "kn", "mkn", "mix"]
Boundaries = Literal["sentence", "stream"]
LONGEST_ORDER = 8
# N-grams of methods that have an order, and how often a word of a text must be seen to be known, where nothing is said.
DEFAULT_ORDER, DEFAULT_MIN_COUNT = 3, 2


class Settings(TypedDict, total=False):
    """Settings of single methods; see `AggregateMarkov` and, of `lags`, `MixedOrderMarkov`.

    `iterations` are those of EM or, of the method `pivot`, of its concave problem.
    """

    states: int
    iterations: int
    prior: float
    word_prior: float
    batches: int
    anchor_count: float
    kappa: float
    pivot_iterations: int | None
    patience: int
    tolerance: float
    noise: float
    step_power: float
    lags: int


_LATENT = ("states", "iterations", "prior", "patience", "tolerance")
_EM = (*_LATENT, "word_prior", "noise", "batches", "step_power")
_ANCHORS = ("anchor_count", "kappa")
# What each method takes, in the order of the documentation.
METHODS: dict[Method, tuple[str, ...]] = {
    "em": _EM,
    "pivot": (*_LATENT, *_ANCHORS),
    "pivot+em": (*_EM, *_ANCHORS, "pivot_iterations"),
    "mixed-order": (*_EM, "lags"),
    "kn": ("order",),
    "mkn": ("order",),
    "mix": (*_EM, *_ANCHORS, "pivot_iterations", "lags", "order"),
}


def default_method(has_dev: bool) -> Method:
    """Return the method to take where none is named: the best one, `mix`, or without held-out text `mkn`."""
    return "mix" if has_dev else "mkn"


def check_method(method: Method, settings: Iterable[str], has_dev: bool) -> None:
    """Raise a `UsageError` if there is no such method, or if settings do not go with it or one is missing."""
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
    for name in settings:
        if name not in METHODS[method]:
            users = [other for other, names in METHODS.items() if name in names]
            known = sorted({name for names in METHODS.values() for name in names})
            remedy = f"goes with method {', '.join(users)}" if users else f"is no setting; there are {', '.join(known)}"
            raise UsageError(f"{name} {remedy}; this is method {method}")
    if method == "mix" and not has_dev:
        raise UsageError("method mix needs dev, from which the weights of its members come; without, there is mkn")
