"""Defaults that figures describe, and a digest of each: when a default changes, its figures are stale.

Defaults are named by a kind and its arguments, as in `{"kind": "train", "n_trees": 3396}`:

    train          the recipe of `sapwood train` for these arguments of `make_recipe`, and how its models are parsed
    self-training  both recipes for `n_trees` trees and `n_sentences` sentences of text, and how these are sampled
    minimise       the settings of `sapwood minimise`
    induce         the settings of `sapwood induce --model MODEL`
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sapwood import PCFG, Parser, Tree
from sapwood.automata.reduce.state_merging import DEFAULT_BUDGET, merge
from sapwood.induction.learners import make_inducer
from sapwood.pipeline.compress import run_compression
from sapwood.pipeline.recipe import Recipe, make_recipe
from sapwood.pipeline.self_training import SentenceSampler, self_training_recipes

# Settings that results do not depend on, the seed, which records have separately, and where an encoder is, which models
# of defaults have none of.
_NO_DEFAULTS = {"random_state", "threads", "workers", "progress", "encoder"}


def digest_of(defaults: Mapping[str, Any]) -> str:
    """Return a digest of the current values of defaults, which may have the digest of earlier ones."""
    text = json.dumps(values_of(defaults), sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def values_of(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the current values of defaults.

    >>> values_of({"kind": "train", "n_trees": 3396})["recipe"]["settings"]["cycles"]
    5
    """
    arguments = {name: value for name, value in defaults.items() if name not in ("kind", "digest")}
    return _KINDS[defaults["kind"]](**arguments)


def _train(**arguments: Any) -> dict[str, Any]:
    recipe = make_recipe(**arguments)
    components = recipe.crf is not None or recipe.span_scorer is not None
    return {"recipe": _recipe(recipe), "parsing": _parsing(components)}


def _self_training(n_trees: int, n_sentences: int) -> dict[str, Any]:
    recipes = self_training_recipes(make_recipe, n_trees, n_sentences)
    sampler = dataclasses.asdict(SentenceSampler())
    return {"recipes": [_recipe(one) for one in recipes], "sampler": sampler, "parsing": _parsing(True)}


def _minimise() -> dict[str, Any]:
    compression = _signature(run_compression)
    del compression["method"]  # depends on the model
    return {"budget": DEFAULT_BUDGET, **_signature(merge), **compression}


def _induce(model: str) -> dict[str, Any]:
    return _without_seeds(make_inducer(model).settings())


def _recipe(recipe: Recipe) -> dict[str, Any]:
    preparation = [dataclasses.asdict(learner.preparation) for learner in recipe.learners]
    for one in preparation:
        if not one["gaps"]:  # trees are prepared as before there were gaps
            del one["gaps"]
    return {"settings": _without_seeds(recipe.settings()), "methods": recipe.method, "preparation": preparation}


def _without_seeds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_seeds(one) for name, one in value.items() if name not in _NO_DEFAULTS}
    return [_without_seeds(one) for one in value] if isinstance(value, list) else value


@cache
def _parsing(components: bool) -> dict[str, Any]:
    """Return how models are parsed by default: the included one, or a PCFG, which has no components."""
    tree = Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")
    parser = Parser() if components else Parser(PCFG().fit(PCFG.prepare([tree])))
    return {**_signature(Parser), "decoder": parser.decoder, "threshold": parser.threshold}


def _signature(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {
        one.name: one.default
        for one in parameters
        if one.default is not inspect.Parameter.empty and one.name not in _NO_DEFAULTS
    }


_KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "train": _train,
    "self-training": _self_training,
    "minimise": _minimise,
    "induce": _induce,
}
