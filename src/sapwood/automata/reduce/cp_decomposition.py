"""CP decomposition: a nonnegative tensor of rules as a sum of few products, for parsing with fewer multiplications.

Cohen, Satta and Collins (2013) replace the tensor of a grammar's rule weights by a nonnegative sum of `R` products,

    T(i, j, k)  ~  sum over r of parent(i, r) left(j, r) right(k, r)

that minimises the generalised Kullback-Leibler divergence `sum of T log(T / M) - T + M` of the model `M`, by the
algorithms that Chi and Kolda (2012) call alternating Poisson regression. Each factor in turn is improved while the
other two are held, which is a convex problem for each of its rows:

- `mu`: a few multiplicative updates, and zeros that should not be are raised first;
- `pqn`: a few projected quasi-Newton steps, a limited-memory BFGS for each row (Hansen, Plantenga and Kolda 2015). The
  metric it starts from is that in which the steepest descent is the multiplicative update.

The whole problem is not convex: where it ends depends on where it begins. Only nonzero entries are visited, so an
iteration costs as much as entries times `R`. Rows are independent of each other, and threads share them: results do not
depend on their number. `decompose_grammar` decomposes all rules of a grammar together, with the states of all symbols
along each axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Unpack, get_args

import numpy as np

from sapwood import kernels
from sapwood.automata.tensors import ProductTensor, SparseTensor
from sapwood.errors import GrammarError, SapwoodError, UsageError
from sapwood.grammar.emissions import run_offsets
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.model.cp_decomposition import CPDecomposition
from sapwood.runtime.context import Execution, RunContext
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Stage
from sapwood.storage.shapes import Array, Float64

Method = Literal["mu", "pqn"]
# What `kernels.update_factor` does with each row (`src/native/automata/cp_decomposition.cpp`).
CHECK, MULTIPLY, QUASI_NEWTON = 0, 1, 2
_STEPS = {"mu": MULTIPLY, "pqn": QUASI_NEWTON}
# Steps for each row and iteration; in the first one of `pqn`, when the other factors are still random, only a few.
_INNER, _FIRST_INNER = 10, 2
# Weights may not be further apart than this, or products of factors could underflow.
_RANGE = 1e60
# By how much rounding may make the divergence seem to rise, relative to the sum of the tensor's weights.
_ROUNDING = 1e-9
# The two other axes, in order.
_OTHERS = ((1, 2), (0, 2), (0, 1))


@dataclass(frozen=True, eq=False)
class CPFit:
    """A sum of products and how it was reached.

    Attributes
    ----------
    tensor
        The sum. The columns of `left` and `right` sum to one, and products are in order of decreasing weight.
    divergence
        Generalised Kullback-Leibler divergence of it from the data.
    divergences
        `(iterations,)`: the divergence after each iteration; it never rises.
    iterations
        Passes over the three factors.
    converged
        Whether the violation is no more than the tolerance.
    violation
        How far it is from a stationary point: the largest `|min(b / s, d)|` over the weights `b` of all factors, where
        `s` is the sum of the tensor's weights in the factor's row and `d` the derivative by `b`, when the other two
        factors have columns that sum to one. Multiples of the tensor have the same.
    """

    tensor: ProductTensor
    divergence: float
    divergences: Float64[Array, "iterations"]
    iterations: int
    converged: bool
    violation: float


@dataclass(frozen=True, eq=False)
class _Mode:
    """The entries as seen from one axis: those of a row together, and their places along the other two axes."""

    offsets: np.ndarray
    first: np.ndarray
    second: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, tensor: SparseTensor, axis: int) -> _Mode:
        order = np.argsort(tensor.places[:, axis], kind="stable")
        places = tensor.places[order]
        first, second = (np.ascontiguousarray(places[:, other]) for other in _OTHERS[axis])
        return cls(run_offsets(places[:, axis], tensor.shape[axis]), first, second, tensor.values[order])

    @property
    def filled(self) -> np.ndarray:
        """Which rows have entries."""
        return np.diff(self.offsets) > 0

    def parts(self, count: int) -> list[tuple[int, int]]:
        """Divide the rows into runs with about as many entries each."""
        goals = self.offsets[-1] * np.arange(1, count) // count
        ends = [0, *np.searchsorted(self.offsets, goals).tolist(), len(self.offsets) - 1]
        return [(begin, end) for begin, end in pairwise(ends) if begin < end]


def decompose(
    tensor: SparseTensor | Float64[Array, "n_a n_b n_c"],
    rank: int,
    *,
    method: Method = "pqn",
    iterations: int = 200,
    tolerance: float = 1e-4,
    restarts: int = 1,
    random_state: int = 0,
    **execution: Unpack[Execution],
) -> CPFit:
    """Return a nonnegative sum of `rank` products near to a nonnegative tensor.

    Parameters
    ----------
    tensor
        Weights, none negative, shape `(n_a, n_b, n_c)`.
    rank
        Number of products `R`. More than the tensor needs do no harm but take their time.
    method
        `mu` or `pqn`, see the module's text.
    iterations
        The most passes over the three factors.
    tolerance
        Stop when the violation (see `CPFit`) is no more than this.
    restarts
        Random starts; the one that ends with the least divergence is returned.
    random_state
        Seed of the random starts.
    execution
        `threads` and `progress`, as for `sapwood.runtime.context.RunContext`. The result is the same for any number of
        threads.

    Examples
    --------
    >>> tensor = np.einsum("ir,jr,kr->ijk", *np.random.default_rng(1).random((3, 4, 2)))
    >>> result = decompose(tensor, rank=2, restarts=3)
    >>> result.tensor.rank, round(result.divergence, 4)
    (2, 0.0)
    """
    for name, value in {"rank": rank, "iterations": iterations, "restarts": restarts}.items():
        if value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if method not in get_args(Method):
        raise UsageError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
    if not 0 <= tolerance < math.inf:
        raise UsageError(f"tolerance must be 0 or more, not {tolerance}")
    data = _checked(tensor)
    if not len(data.values):
        return _nothing(data, rank)
    # The divergence of multiples is the multiple of the divergence, so work can be done at a known scale: a power of
    # two, which rounds nothing.
    scale = 2.0 ** (math.frexp(data.values.max())[1] - 1)
    unit = SparseTensor(data.shape, data.places, data.values / scale)
    modes = [_Mode.of(unit, axis) for axis in range(3)]
    best = None
    run = RunContext.of(**execution)
    with run.progress.stage("decomposing", iterations * restarts, "iterations") as stage:
        for restart in range(restarts):
            rng = np.random.default_rng([random_state, restart])
            descent = _Descent(modes, rank, rng, run.threads).run(method, iterations, tolerance, stage)
            if best is None or descent.divergences[-1] < best.divergences[-1]:
                best = descent
    assert best is not None
    return CPFit(
        best.product(scale), divergence(unit, best.product(1.0)) * scale, np.array(best.divergences) * scale,
        len(best.divergences), best.violation <= tolerance, best.violation,
    )  # fmt: skip


def divergence(tensor: SparseTensor | Float64[Array, "n_a n_b n_c"], model: ProductTensor) -> float:
    """Return the generalised Kullback-Leibler divergence of a nonnegative sum of products from a nonnegative tensor.

    It is infinite if the model is zero where the tensor is not.
    """
    data = _checked(tensor)
    if data.shape != model.shape:
        raise UsageError(f"the tensor has shape {data.shape}, the model {model.shape}")
    factors = (model.parent, model.left, model.right)
    if any(not np.isfinite(factor).all() or (factor < 0).any() for factor in factors):
        raise UsageError("the divergence is defined for models with finite factors that are not negative")
    values = kernels.product_values(data.places, *(np.ascontiguousarray(factor, float) for factor in factors))
    if not (values > 0).all():
        return math.inf
    excess = np.prod([factor.sum(axis=0) for factor in factors], axis=0).sum() - data.values.sum()
    return max(0.0, float((data.values * np.log(data.values / values)).sum() + excess))


class _Descent:
    """Factors with columns that sum to one, the products' weights, and how the divergence fell."""

    def __init__(self, modes: list[_Mode], rank: int, rng: np.random.Generator, threads: int = 1) -> None:
        self.modes, self.threads = modes, Threads(threads)
        values = modes[0].values
        self.total = float(values.sum())
        self.constant = float((values * np.log(values)).sum() - self.total)
        self.factors = [mode.filled[:, None] * (0.1 + rng.random((len(mode.filled), rank))) for mode in modes]
        self.factors = [factor / factor.sum(axis=0) for factor in self.factors]
        self.weights = np.full(rank, self.total / rank)
        self.divergences: list[float] = []
        self.violation = math.inf

    def run(self, method: Method, iterations: int, tolerance: float, stage: Stage) -> _Descent:
        """Improve the factors in turn until they are stationary, or as often as said."""
        for iteration in range(iterations):
            inner = _FIRST_INNER if method == "pqn" and iteration == 0 else _INNER
            worst = 0.0
            for axis in range(3):
                reached, violation = self._update(axis, _STEPS[method], inner, tolerance)
                worst = max(worst, violation)
                last = self.divergences[-1] if self.divergences else math.inf
                if not reached <= last + _ROUNDING * self.total:
                    raise SapwoodError(
                        f"iteration {iteration + 1}: the divergence rose from {last} to {reached}, which it cannot do: "
                        "this is an error in sapwood or in the machine"
                    )
            self.divergences.append(min(reached, last))
            stage.step(divergence=f"{reached / self.total:.6f}")
            if worst <= tolerance:  # and so nothing was changed
                self.violation = worst
                return self
        self.violation = max(self._update(axis, CHECK, 0, 0.0)[1] for axis in range(3))
        return self

    def product(self, scale: float) -> ProductTensor:
        """Return the products times a number, the heaviest first."""
        order = np.argsort(-self.weights, kind="stable")
        parent, left, right = (np.ascontiguousarray(factor[:, order]) for factor in self.factors)
        return ProductTensor(parent * (self.weights[order] * scale), left, right)

    def _update(self, axis: int, method: int, inner: int, tolerance: float) -> tuple[float, float]:
        """Improve one factor; return the divergence then, and the violation before."""
        mode = self.modes[axis]
        one, two = (self.factors[other] for other in _OTHERS[axis])
        rows = self.factors[axis] * self.weights
        objectives, violations = np.empty(len(rows)), np.empty(len(rows))

        def update(part: tuple[int, int]) -> None:
            kernels.update_factor(mode, one, two, rows, *part, method, inner, tolerance, objectives, violations)

        for _ in self.threads.map(update, mode.parts(self.threads.count)):
            pass
        objective, violation = float(objectives.sum()), float(violations.max())
        if method != CHECK:
            self.weights = rows.sum(axis=0)
            # A product of weight zero keeps its direction: it may come back when another factor is improved.
            alive = self.weights > 0
            self.factors[axis][:, alive] = rows[:, alive] / self.weights[alive]
        return max(0.0, objective + self.constant), violation


def _checked(tensor: SparseTensor | np.ndarray) -> SparseTensor:
    """Return the tensor's entries that are not zero, or say why it has no such decomposition."""
    if isinstance(tensor, np.ndarray):
        if tensor.ndim != 3 or tensor.dtype.kind not in "biuf":
            raise UsageError(f"a tensor has three axes and real weights, not {tensor.ndim} axes of {tensor.dtype}")
        tensor = SparseTensor.from_dense(tensor)
    if 0 in tensor.shape:
        raise UsageError(f"a tensor of shape {tensor.shape} has no entries to decompose")
    if not np.isfinite(tensor.values).all():
        raise UsageError("the tensor has weights that are infinite or not numbers: these must be replaced first")
    if (tensor.values < 0).any():
        raise UsageError(
            f"the tensor has negative weights (the lowest is {tensor.values.min():g}); a nonnegative decomposition is "
            "for grammars and automata whose weights are not negative, such as probabilities"
        )
    tensor = SparseTensor.from_entries(tensor.shape, tensor.places, tensor.values)
    if len(tensor.values) and tensor.values.max() / _RANGE > tensor.values.min():
        raise UsageError(
            f"the tensor's weights are from {tensor.values.min():g} to {tensor.values.max():g}, too far apart; "
            "make the smallest zero"
        )
    return tensor


def _nothing(data: SparseTensor, rank: int) -> CPFit:
    """Return the decomposition of a tensor of zeros."""
    parent, left, right = (np.full((size, rank), 1.0 / size) for size in data.shape)
    return CPFit(ProductTensor(0.0 * parent, left, right), 0.0, np.zeros(0), 0, True, 0.0)


def decompose_grammar(
    grammar: TensorGrammar,
    rank: int,
    *,
    method: Method = "pqn",
    iterations: int = 200,
    restarts: int = 1,
    random_state: int = 0,
    **execution: Unpack[Execution],
) -> tuple[CPDecomposition, CPFit]:
    """Decompose the rules of a grammar without negative weights; return the component of a model, and its history.

    See `decompose` for the parameters.
    """
    if (grammar.tensors < 0).any():
        raise GrammarError(
            "the grammar has negative rule weights, and a nonnegative CP decomposition is for those that are not: "
            "choose a probabilistic grammar, or `--method projection` to reduce this one"
        )
    found = decompose(
        rule_tensor(grammar), rank, method=method, iterations=iterations, restarts=restarts,
        random_state=random_state, **execution,
    )  # fmt: skip
    factors = (found.tensor.parent, found.tensor.left, found.tensor.right)
    return CPDecomposition(*(factor.astype(np.float32) for factor in factors)), found


def rule_tensor(grammar: TensorGrammar) -> SparseTensor:
    """Return the tensor of all rules, with the states of all symbols along each axis."""
    offsets, n = grammar.state_offsets, int(grammar.state_offsets[-1])
    places, values = [np.zeros((0, 3), np.int64)], [np.zeros(0)]
    for rule, symbols in enumerate(grammar.rules):
        tensor = grammar.tensor(rule)
        where = np.argwhere(tensor)
        places.append(where + offsets[symbols])
        values.append(tensor[tuple(where.T)].astype(float))
    return SparseTensor.from_entries((n, n, n), np.concatenate(places), np.concatenate(values))
