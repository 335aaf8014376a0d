"""An encoder of the BERT family in plain NumPy, in double precision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np


def hidden_states(
    weights: Mapping[str, np.ndarray], pieces: Sequence[int], heads: int, epsilon: float
) -> list[np.ndarray]:
    """Return the vectors of pieces in each layer, of which 0 is the embeddings."""
    w = {name: values.astype(float) for name, values in weights.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        spread = np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
        return (x - x.mean(axis=1, keepdims=True)) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    tables = [w[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    x = norm(
        np.array([tables[0][p] + tables[1][k] + tables[2][0] for k, p in enumerate(pieces)]), "embeddings.LayerNorm"
    )
    found, layer = [x], 0
    while f"encoder.layer.{layer}.output.dense.weight" in w:
        at = f"encoder.layer.{layer}"
        query, key, value = (linear(x, f"{at}.attention.self.{name}") for name in ("query", "key", "value"))
        mixed, size = np.zeros_like(x), x.shape[1] // heads
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            for place in range(len(x)):
                shares = np.exp(query[place, own] @ key[:, own].T / math.sqrt(size))
                mixed[place, own] = shares / shares.sum() @ value[:, own]
        x = norm(x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        inner = linear(x, f"{at}.intermediate.dense")
        inner = np.array([[0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in inner])
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        found.append(x)
        layer += 1
    return found
