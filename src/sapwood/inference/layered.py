"""A discriminative layer over a forest (`grammar.layer`): from a grammar's posteriors to better ones.

The grammar leaves a forest with a posterior probability for each node and edge. Of its trees `q(tree)`, the product over
the edges of posterior / the parent's posterior, is the distribution without hidden states that is nearest to the
grammar's. The layer multiplies the logarithms by weights of its own and adds weights of features that see the words:

    score(tree) = sum over edges of  a log p(edge) + b log p(parent) + w . f(edge)  +  the same for leaves and the root

and p(tree | sentence) is proportional to exp(score): a conditional random field over the forest (Finkel, Kleeman and
Manning 2008; Hall, Durrett and Klein 2014 for the features). Sums over its trees take one pass each way, and what comes
out, marginals of nodes and edges, is what decoders need to know: they take it as they take a grammar's posteriors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sapwood import kernels
from sapwood.grammar.layer import Layer
from sapwood.inference.chart import Forest, Posteriors, Workspace
from sapwood.inference.compiled import CompiledGrammar
from sapwood.shapes import Array, Float64, UInt32, UInt64

_ODD = np.uint64(0x9E3779B97F4A7C15)


def native_layer(layer: Layer, compiled: CompiledGrammar) -> Any:
    """Return the layer as the kernels have it, for the symbols and rules of a coarse grammar."""
    symbols, tags = symbol_keys(compiled)
    with np.errstate(over="ignore"):
        rules = symbols[compiled.rule_parent]
        for child in (symbols[compiled.rule_left], symbols[compiled.rule_right]):
            rules = (rules ^ child) * _ODD
            rules ^= rules >> np.uint64(29)
    column = np.full(len(symbols), -1, np.int32)
    shared = kernels.layer_symbols(symbols, tags, rules, compiled.coarse.root, column, compiled.coarse.n_interminals)
    return kernels.layer(layer.weights(), layer.dense, layer.threshold, layer.mask, shared)


def symbol_keys(compiled: CompiledGrammar) -> tuple[UInt64[Array, "coarse"], UInt64[Array, "coarse"]]:
    """Return hashes of the coarse symbols' names, and of the tags of those above words.

    Numbers of symbols differ between grammars of different trees; their names do not.
    """
    coarse = compiled.coarse
    names = [f"{'t' if s >= coarse.n_interminals else 'n'}{name}" for s, name in enumerate(coarse.symbols)]
    return _keys(names), _keys([f"tag {tag}" for tag in coarse.symbols.tags])


def _keys(names: Sequence[str]) -> np.ndarray:
    texts = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.array([int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts], np.uint64)
