"""Rule network: probabilities of rules and words computed from embeddings of symbols (Kim, Dyer and Rush 2019).

Each distribution of a symbol is `softmax(f(embedding) outcomes + bias)`, where `f` is a linear map and two residual
layers `x + relu(relu(x U) V)`, one `f` each for roots, left children, right children and words. Symbols share strength
through `f` and the vectors of the outcomes. The gradient of the likelihood by the logits is `counts - total
probability` for expected counts, so nothing but this small network needs backpropagation.
"""

from __future__ import annotations

import numpy as np

from sapwood.induction.models.simple_pcfg import SimplePCFGRules, product
from sapwood.storage.shapes import Array, Float32, Float64, Int64

Parameters = dict[str, np.ndarray]
_LAYERS = 2
HEADS = ("root", "left", "right", "word")
# Embeddings of the conditions of each distribution.
_CONDITIONS = {"root": "start", "left": "nonterminal", "right": "nonterminal", "word": "preterminal"}


def initial_parameters(
    nonterminals: int,
    preterminals: int,
    embedding: int,
    frequency: Float64[Array, "terminals"],
    rng: np.random.Generator,
) -> Parameters:
    """Return random parameters.

    Parameters
    ----------
    nonterminals, preterminals, embedding
        Numbers of symbols, and of dimensions.
    frequency
        Count of each terminal: words have the logarithm of their relative frequency as a bias.
    rng
        Random numbers.
    """
    children = nonterminals + preterminals
    sizes = {"root": nonterminals, "left": children, "right": children, "word": len(frequency)}
    found: Parameters = {}
    for name, rows in (("start", 1), ("nonterminal", nonterminals), ("preterminal", preterminals)):
        found[name] = rng.normal(size=(rows, embedding))
    for head in HEADS:
        for layer in ("in", *(f"{part}{number}" for number in range(_LAYERS) for part in "uv")):
            bound = np.sqrt(6.0 / (2 * embedding))
            found[f"{head}.{layer}"] = rng.uniform(-bound, bound, (embedding, embedding))
            found[f"{head}.{layer}.bias"] = np.zeros(embedding)
        found[f"{head}.out"] = rng.normal(size=(embedding, sizes[head])) / np.sqrt(embedding)
        found[f"{head}.out.bias"] = np.zeros(sizes[head])
    found["word.out.bias"] += np.log((frequency + 0.5) / (frequency + 0.5).sum())
    return {name: array.astype(np.float32) for name, array in found.items()}


class RuleNetwork:
    """Network with its parameters.

    Attributes
    ----------
    parameters
        Arrays by name, as `initial_parameters` makes them.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._inputs: dict[str, list[np.ndarray]] = {}
        self._rules: SimplePCFGRules | None = None

    def rules(self) -> SimplePCFGRules:
        """Return all probabilities."""
        found = {head: self._softmax(head) for head in HEADS}
        found["root"] = found["root"][0]
        self._rules = SimplePCFGRules(**found)
        return self._rules

    def gradients(self, counts: SimplePCFGRules, words: Int64[Array, "words"]) -> Parameters:
        """Return the gradients of the expected log-likelihood, `sum counts log(probability)`.

        Parameters
        ----------
        counts
            Expected counts under the last `rules`; those of words are of the given ones alone.
        words
            Which words these are.
        """
        assert self._rules is not None
        found = {name: np.zeros_like(self.parameters[name]) for name in _CONDITIONS.values()}
        for head in HEADS:
            own, probability = np.atleast_2d(getattr(counts, head)), np.atleast_2d(getattr(self._rules, head))
            by_logit = -own.sum(axis=1, keepdims=True) * probability
            if head == "word":
                by_logit[:, words] += own
            else:
                by_logit += own
            found[_CONDITIONS[head]] += self._backward(head, by_logit, found)
        return found

    def _softmax(self, head: str) -> Float32[Array, "conditions outcomes"]:
        own = self.parameters
        x = product(own[_CONDITIONS[head]], own[f"{head}.in"]) + own[f"{head}.in.bias"]
        inputs = [x]
        for number in range(_LAYERS):
            hidden = np.maximum(product(x, own[f"{head}.u{number}"]) + own[f"{head}.u{number}.bias"], 0)
            change = np.maximum(product(hidden, own[f"{head}.v{number}"]) + own[f"{head}.v{number}.bias"], 0)
            x = x + change
            inputs += [hidden, change, x]
        self._inputs[head] = inputs
        logits = product(x, own[f"{head}.out"])
        logits += own[f"{head}.out.bias"]
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits

    def _backward(self, head: str, by_output: np.ndarray, found: Parameters) -> Float32[Array, "conditions embedding"]:
        """Add the gradients of a head to `found`, and return those of its conditions."""
        own, inputs = self.parameters, self._inputs[head]

        def through(name: str, x: np.ndarray, by_y: np.ndarray) -> np.ndarray:
            found[name] = product(x, by_y, left=True)
            found[f"{name}.bias"] = by_y.sum(axis=0)
            return product(by_y, own[name], right=True)

        by_x = through(f"{head}.out", inputs[-1], by_output)
        for number in reversed(range(_LAYERS)):
            before, hidden, change = inputs[3 * number : 3 * number + 3]
            by_hidden = through(f"{head}.v{number}", hidden, by_x * (change > 0))
            by_x = by_x + through(f"{head}.u{number}", before, by_hidden * (hidden > 0))
        return through(f"{head}.in", own[_CONDITIONS[head]], by_x)


class Adam:
    """Adam (Kingma and Ba 2015), with a limit of the gradient's norm.

    Attributes
    ----------
    mean, square
        Moving averages of the gradients and of their squares.
    steps
        Number of steps taken.
    """

    def __init__(
        self, parameters: Parameters, learning_rate: float, *, betas: tuple[float, float], clip: float
    ) -> None:
        self._parameters, self._rate, self._betas, self._clip = parameters, learning_rate, betas, clip
        self.mean = {name: np.zeros_like(array) for name, array in parameters.items()}
        self.square = {name: np.zeros_like(array) for name, array in parameters.items()}
        self.steps = 0

    def ascend(self, gradients: Parameters, share: float = 1.0) -> float:
        """Take a step in the direction of the gradients, with a share of the learning rate; return their norm."""
        self.steps += 1
        beta, gamma = self._betas
        norm = float(np.sqrt(sum(float(np.square(one).sum(dtype=np.float64)) for one in gradients.values())))
        factor = np.float32(min(1.0, self._clip / max(norm, 1e-30)))
        first, second = 1 - beta**self.steps, 1 - gamma**self.steps
        rate = np.float32(self._rate * share * np.sqrt(second) / first)
        floor = np.float32(1e-8 * np.sqrt(second))
        for name, array in self._parameters.items():
            gradient = gradients[name] * factor
            mean, square = self.mean[name], self.square[name]
            mean *= np.float32(beta)
            mean += np.float32(1 - beta) * gradient
            square *= np.float32(gamma)
            np.multiply(gradient, gradient, out=gradient)
            gradient *= np.float32(1 - gamma)
            square += gradient
            np.sqrt(square, out=gradient)
            gradient += floor
            np.divide(mean, gradient, out=gradient)
            gradient *= rate
            array += gradient
        return norm
