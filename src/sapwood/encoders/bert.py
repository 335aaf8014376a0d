"""Encoders of the BERT family: from the weights of a safetensors file to a graph for ONNX Runtime.

The embedding of a piece is the sum of the vectors of the piece, its position and its segment. It is computed here, so
that the graph needs no vocabulary. The graph has the layers up to the wanted one, each of self-attention and a
feed-forward layer with layer normalisation after both (Devlin et al. 2019). Products with weights are in single
precision, or of integers of eight bits: weights of seven, with a scale for each column, so that no processor overflows;
inputs are scaled by their range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.encoders.onnx_format import GraphBuilder
from sapwood.errors import InputError
from sapwood.storage.files import explained
from sapwood.storage.json_values import json_problem
from sapwood.storage.shapes import Array, Float32, Int64

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# Names of the sizes in `config.json`.
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
# Largest magnitude of a weight of seven bits.
_LARGEST = 63


@dataclass(frozen=True)
class BertConfig:
    """Sizes of an encoder.

    Attributes
    ----------
    size
        Size of the vectors.
    layers, heads, positions
        Number of layers, of attention heads, and of positions, which limits the length of the input.
    epsilon
        Added to variances in layer normalisation.
    """

    size: int
    layers: int
    heads: int
    positions: int
    epsilon: float

    @classmethod
    def read(cls, folder: Path) -> BertConfig:
        """Read `config.json`."""
        path = folder / CONFIG
        with explained(path):
            content = path.read_bytes()
        try:
            told = json.loads(content)
            sizes = [told[name] for name in _SIZES]
            epsilon = float(told.get("layer_norm_eps", 1e-12))
            problem = json_problem(told) or ("" if 0 < epsilon < 1 else "layer_norm_eps must be between 0 and 1")
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            problem = f"{error}"
        if problem:
            raise InputError(f"{path}: not the configuration of a BERT-like encoder: {problem}")
        if told.get("hidden_act", "gelu") != "gelu" or told.get("position_embedding_type", "absolute") != "absolute":
            raise InputError(
                f"{path}: only BERT-like encoders with gelu and absolute positions can be read from safetensors; "
                "export this one to model.onnx"
            )
        if not all(type(size) is int and 0 < size < 1 << 20 for size in sizes) or sizes[0] % sizes[2]:
            raise InputError(f"{path}: {', '.join(_SIZES)} must be positive integers, heads a divisor of the size")
        return cls(size=sizes[0], layers=sizes[1], heads=sizes[2], positions=sizes[3], epsilon=epsilon)


class Bert:
    """Weights of an encoder, read as they are needed.

    Parameters
    ----------
    folder
        Folder with `model.safetensors` and `config.json`.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.config = folder / WEIGHTS, BertConfig.read(folder)

    @cached_property
    def _prefix(self) -> str:
        """What precedes the names of weights: `bert.` in files of models with a head."""
        names = self._keys
        found = [name for name in names if name.endswith("embeddings.word_embeddings.weight")]
        if len(found) != 1:
            raise InputError(f"{self.path}: not the weights of a BERT-like encoder; export it to model.onnx")
        return found[0].removesuffix("embeddings.word_embeddings.weight")

    @cached_property
    def _keys(self) -> list[str]:
        with self._opened() as stored:
            return list(stored.keys())

    def _opened(self) -> Any:
        from safetensors import SafetensorError, safe_open

        with explained(self.path):
            try:
                return safe_open(self.path, "numpy")
            except SafetensorError as error:
                raise InputError(f"{self.path}: not a safetensors file: {error}; download it again") from error

    def _read(self, names: Sequence[str]) -> list[Float32[Array, "..."]]:
        with self._opened() as stored:
            try:
                found = [np.asarray(stored.get_tensor(self._prefix + name), np.float32) for name in names]
            except Exception as error:
                raise InputError(f"{self.path}: not the weights of a BERT-like encoder: {error}") from error
        for name, values in zip(names, found, strict=True):
            if not np.isfinite(values).all():
                raise InputError(f"{self.path}: {name} has numbers that are not finite; download it again")
        return found

    def _check(self, name: str, values: Float32[Array, "..."], *sizes: int) -> None:
        """Raise an `InputError` if weights do not have these sizes."""
        if values.shape != sizes:
            raise InputError(f"{self.path}: {name} has the shape {list(values.shape)}; by {CONFIG} it is {list(sizes)}")

    @cached_property
    def _tables(self) -> list[Float32[Array, "..."]]:
        names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        found = self._read([f"embeddings.{name}.weight" for name in names])
        for name, values, least in zip(names, found, (1, self.config.positions, 1), strict=True):
            rows = len(values) if values.ndim else 0
            self._check(name, values, max(rows, least), self.config.size)
        return found

    def embed(self, pieces: Int64[Array, "pieces"]) -> Float32[Array, "1 pieces size"]:
        """Return the input of the graph: the sums of the embeddings of pieces."""
        words, positions, segments = self._tables
        if len(pieces) > len(positions) or (len(pieces) and not 0 <= pieces.min() <= pieces.max() < len(words)):
            raise InputError(f"{self.path}: its tokenizer is not the one of its weights: it has other pieces")
        return (words[pieces] + positions[: len(pieces)] + segments[0])[None]

    def graph(self, layers: Sequence[int], *, int8: bool) -> bytes:
        """Return a model whose outputs are these layers, of which 0 is the embeddings."""
        builder = _BertGraph(self.config, int8=int8)
        last, outputs = max(layers), {}
        first = self._read([f"embeddings.LayerNorm.{part}" for part in ("weight", "bias")])
        for values in first:
            self._check("embeddings.LayerNorm", values, self.config.size)
        x = builder.norm("input", *first)
        outputs[0] = x
        for layer in range(last):
            names = [name for name in self._keys if name.startswith(f"{self._prefix}encoder.layer.{layer}.")]
            own = [re.sub(rf"^{re.escape(self._prefix)}encoder\.layer\.\d+\.", "", name) for name in names]
            weights = self._read([name.removeprefix(self._prefix) for name in names])
            parts = dict(zip(own, weights, strict=True))
            self._check_layer(layer, parts)
            x = builder.layer(x, f"{layer}", parts)
            outputs[layer + 1] = x
        return builder.builder.model([outputs[layer] for layer in layers])

    def _check_layer(self, layer: int, parts: dict[str, Float32[Array, "..."]]) -> None:
        """Raise an `InputError` if the weights of a layer do not fit each other and the configuration."""
        size = self.config.size
        bias = parts.get("intermediate.dense.bias")
        hidden = len(bias) if bias is not None and bias.ndim else 0
        shapes = {
            **{f"attention.{one}": (size, size) for one in ("self.query", "self.key", "self.value", "output.dense")},
            **dict.fromkeys(("attention.output.LayerNorm", "output.LayerNorm"), (size,)),
            "intermediate.dense": (max(hidden, 1), size),
            "output.dense": (size, max(hidden, 1)),
        }
        for name, shape in shapes.items():
            for part, wanted in (("weight", shape), ("bias", shape[:1])):
                if (values := parts.get(f"{name}.{part}")) is None:
                    raise InputError(
                        f"{self.path}: layer {layer} has no {name}.{part}; export the encoder to model.onnx"
                    )
                self._check(f"{name}.{part} of layer {layer}", values, *wanted)


class _BertGraph:
    """Builder of the graph of an encoder."""

    def __init__(self, config: BertConfig, *, int8: bool) -> None:
        self._config, self._int8 = config, int8
        self.builder = GraphBuilder({"input": ("float32", [1, "pieces", config.size])})

    def norm(self, x: str, gain: Float32[Array, "size"], shift: Float32[Array, "size"]) -> str:
        """Add layer normalisation."""
        build, name = self.builder, f"norm-{x}"
        given = [x, build.constant(f"{name}-gain", gain), build.constant(f"{name}-shift", shift)]
        return build.add("LayerNormalization", given, axis=-1, epsilon=self._config.epsilon)

    def linear(self, x: str, name: str, weights: Float32[Array, "out into"], bias: Float32[Array, "out"]) -> str:
        """Add an affine map."""
        build, columns = self.builder, np.ascontiguousarray(weights.T)
        shift = build.constant(f"{name}-bias", bias)
        if not self._int8:
            return build.add("Add", [build.add("MatMul", [x, build.constant(name, columns)]), shift])
        scale = np.maximum(np.abs(columns).max(axis=0), 1e-12).astype(np.float32) / _LARGEST
        whole = np.rint(columns / scale).astype(np.int8)
        given = [x, build.constant(name, whole), build.constant(f"{name}-scale", scale)]
        zero = build.constant(f"{name}-zero", np.zeros(len(scale), np.int8))
        return build.add("DynamicQuantizeMatMul", [*given, zero, shift], contrib=True)

    def layer(self, x: str, name: str, weights: dict[str, Float32[Array, "..."]]) -> str:
        """Add a layer."""

        def of(part: str) -> tuple[Float32[Array, "..."], Float32[Array, "..."]]:
            return weights[f"{part}.weight"], weights[f"{part}.bias"]

        build, part = self.builder, "attention.self"
        # One product for query, key and value.
        joint = [
            np.concatenate(both)
            for both in zip(*(of(f"{part}.{one}") for one in ("query", "key", "value")), strict=True)
        ]
        size = self._config.size
        mixed = self.linear(x, f"{name}-attention", *joint)
        parts = [
            build.add(
                "Slice",
                [
                    mixed,
                    *(build.constant(f"at-{at}", np.array([at], np.int64)) for at in (k * size, (k + 1) * size, 2)),
                ],
            )
            for k in range(3)
        ]
        heads = build.add("MultiHeadAttention", parts, contrib=True, num_heads=self._config.heads)
        attended = self.linear(heads, f"{name}-attended", *of("attention.output.dense"))
        x = self.norm(build.add("Add", [x, attended]), *of("attention.output.LayerNorm"))
        hidden = build.add("Gelu", [self.linear(x, f"{name}-hidden", *of("intermediate.dense"))], contrib=True)
        out = self.linear(hidden, f"{name}-out", *of("output.dense"))
        return self.norm(build.add("Add", [x, out]), *of("output.LayerNorm"))
