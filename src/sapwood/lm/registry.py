"""Names, settings and defaults of the training methods of language models.

Implementations are not imported here, so that the command can list methods and settings without loading them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sapwood.errors import UsageError
from sapwood.runtime.params import HasExecutor, HasParams, choice, integer, number

LatentMethod = Literal["em", "pivot", "pivot+em"]
Precision = Literal["single", "double"]
Method = Literal["em", "pivot", "pivot+em", "mixed-order", "kn", "mkn", "mix"]
Boundaries = Literal["sentence", "stream"]
LONGEST_ORDER = 8
# Upper bound of pseudo-counts and noise, well within single precision.
_LARGEST = 1e9
# Default order of n-grams, and default minimum count of a word of a text.
DEFAULT_ORDER, DEFAULT_MIN_COUNT = 3, 2


@dataclass(frozen=True, kw_only=True, repr=False)
class LatentParams(HasExecutor):
    """Settings of `AggregateMarkov`, which describes them."""

    states: int = integer(128, "Number of hidden states.", low=1)
    method: LatentMethod = choice("em", "Method.", get_args(LatentMethod))
    iterations: int = integer(100, "Maximum iterations of EM, or of pivot's concave problem.", low=1)
    patience: int = integer(3, "Stop after N iterations without improvement on --dev.", low=1)
    prior: float = number(3.0, "Dirichlet pseudo-count for p(state | word).", high=_LARGEST)
    word_prior: float = number(100.0, "Pseudo-count of the unigram distribution in p(word | state).", high=_LARGEST)
    noise: float = number(0.1, "Noise of the random initialisation around uniform.", high=_LARGEST)
    stepwise_batches: int = integer(
        1, "Updates per iteration of stepwise EM; more pays off for very large counts.", low=1
    )
    stepwise_power: float = number(
        0.6, "Decay exponent of the step size of stepwise EM, above 0.5 and at most 1.", above=0.5, high=1
    )
    anchor_shrinkage: float = number(500.0, "Pseudo-count that scales down rare words as anchors.", high=_LARGEST)
    anchor_count: float = number(30.0, "Minimum count of an anchor word.", high=_LARGEST)
    pivot_iterations: int | None = integer(
        None, "Maximum iterations of the concave problem in pivot+em and mix.", low=1, optional=True
    )
    tolerance: float = number(1e-6, "Without --dev, stop when the relative gain of an iteration is below this.", high=1)
    precision: Precision = choice("single", "Floating-point precision.", get_args(Precision))
    random_state: int = integer(0, "Random seed.")


@dataclass(frozen=True, kw_only=True, repr=False)
class _LagParams(HasParams):
    lags: int = integer(3, "Number of preceding words to condition on.", low=1, high=16)
    joint_iterations: int = integer(5, "Maximum joint iterations of EM for all lags.")
    mixing_prior: float = number(5.0, "Pseudo-count of the overall rate in the mixing weights of each word.")


@dataclass(frozen=True, kw_only=True, repr=False)
class MixedOrderParams(LatentParams, _LagParams):
    """Settings of `MixedOrderMarkov`, which describes them; its own come before those of its lags."""


_LATENT = ("states", "iterations", "prior", "patience", "tolerance")
_EM = (*_LATENT, "word_prior", "noise", "stepwise_batches", "stepwise_power")
_ANCHORS = ("anchor_count", "anchor_shrinkage")
# Settings of each method, in the order of the documentation.
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
    """Return the default method: the best one, `mix`, or without held-out text `mkn`."""
    return "mix" if has_dev else "mkn"


def check_method(method: Method, settings: Mapping[str, Any], has_dev: bool) -> None:
    """Raise a `UsageError` if the method is unknown, or if settings do not apply to it, are invalid or missing."""
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
    for name in settings:
        if name not in METHODS[method]:
            users = [other for other, names in METHODS.items() if name in names]
            known = sorted({name for names in METHODS.values() for name in names})
            remedy = (
                f"requires method {', '.join(users)}" if users else f"is not a setting; there are {', '.join(known)}"
            )
            raise UsageError(f"{name} {remedy}; this is method {method}")
    MixedOrderParams(**{name: value for name, value in settings.items() if name != "order"})
    if method == "mix" and not has_dev:
        raise UsageError("method mix needs dev, which determines the weights of its members; without dev, use mkn")
