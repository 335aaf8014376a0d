"""Derivatives: against differences in float64, and exactly against interpolation modulo a prime."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.identifiability.algebra.autodiff import Tensor, concatenate, constant, gradients
from sapwood.identifiability.algebra.fields import PrimeField, Reals
from sapwood.identifiability.algebra.simplices import chart_gradient, from_chart, to_tensors
from sapwood.identifiability.models.inside import Marks, convolve, outer
from sapwood.identifiability.models.zoo import MODELS, make_model

STEP = 1e-6


def differences(function, values: list[np.ndarray]) -> list[np.ndarray]:
    """Return derivatives of `(batch,)` values with respect to shared arrays, by central differences."""
    found = []
    for index, value in enumerate(values):
        gradient = np.zeros((len(function(values)), *value.shape[1:]))
        for place in np.ndindex(value.shape[1:]):
            ends = []
            for sign in (1, -1):
                moved = [other.copy() for other in values]
                moved[index][(0, *place)] += sign * STEP
                ends.append(function(moved))
            gradient[(slice(None), *place)] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(gradient)
    return found


def program(a: Tensor, b: Tensor, rows: np.ndarray) -> Tensor:
    """Return something that uses every operation, and tensors more than once."""
    data = constant(a.field, rows)  # (batch, 3, 3)
    product = (data @ a) * b.transpose() + a.reshape(9).reshape(3, 3)
    parts = concatenate([product[:, :2], product[:, 1:] - a.transpose()[:, 1:]], axis=1)
    inverse = (a + constant(a.field, 3 * np.eye(3)[None])).inverse()
    whole = parts.sum(1) * (inverse @ b).sum(1) * parts[:, 0]
    total = whole.sum(1).times(2, 3)
    return total * (b * b).sum(1).sum(1).reciprocal()


def inputs(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.random((1, 3, 3)) for _ in range(2)], rng.normal(size=(4, 3, 3))


def test_every_operation() -> None:
    values, rows = inputs(0)

    def function(arrays: list[np.ndarray]) -> np.ndarray:
        return program(*(Tensor(Reals(), array) for array in arrays), rows).value

    tensors = [Tensor(Reals(), array) for array in values]
    found = gradients(program(*tensors, rows), tensors)
    for got, wanted in zip(found, differences(function, values), strict=True):
        assert got.shape == (4, 3, 3)
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_sums_over_rows() -> None:
    values, rows = inputs(1)
    tensors = [Tensor(Reals(), array) for array in values]
    each = gradients(program(*tensors, rows), tensors)
    total = gradients(program(*tensors, rows), tensors, rows=False)
    for one, many in zip(total, each, strict=True):
        assert one.shape == (1, 3, 3)
        np.testing.assert_allclose(one[0], many.sum(0), rtol=1e-12)


def test_what_was_not_used_has_no_derivative() -> None:
    a, b = (Tensor(Reals(), np.ones((1, 2))) for _ in range(2))
    both = gradients((a * constant(Reals(), np.ones((3, 2)))).sum(1), [a, b])
    np.testing.assert_array_equal(both[0], np.ones((3, 2)))
    np.testing.assert_array_equal(both[1], np.zeros((3, 2)))


def test_constants_keep_no_history() -> None:
    a = constant(Reals(), np.ones((1, 2)))
    assert (a * a + a).parents == ()


@pytest.mark.parametrize("marks", [Marks(), Marks(2), Marks(2, 1)], ids=["none", "one", "two"])
@pytest.mark.parametrize("join", [convolve, outer])
def test_products_of_polynomials(marks: Marks, join) -> None:
    rng = np.random.default_rng(marks.size)
    values = [rng.normal(size=(1, marks.size, 2, 3)) for _ in range(4)]
    rows = constant(Reals(), rng.normal(size=(3, marks.size, 2, 9 if join is outer else 3)))

    def result(tensors: list[Tensor]) -> Tensor:
        return (join(tensors[:2], tensors[2:], marks) * rows).sum(1).sum(1).sum(1)

    tensors = [Tensor(Reals(), value) for value in values]
    wanted = np.zeros((1, marks.size, 2, 3, 3))
    for left, right in zip(values[:2], values[2:], strict=True):
        for i, one in enumerate(marks.exponents):
            for j, other in enumerate(marks.exponents):
                total = tuple(a + b for a, b in zip(one, other, strict=True))
                if total in marks.exponents:
                    part = left[:, i, :, :, None] * right[:, j, :, None, :]
                    wanted[:, marks.exponents.index(total)] += part
    found = join(tensors[:2], tensors[2:], marks).value
    if join is convolve:
        np.testing.assert_allclose(found, np.diagonal(wanted, axis1=3, axis2=4), rtol=1e-12)
    else:
        np.testing.assert_allclose(found, wanted.reshape(1, marks.size, 2, 9), rtol=1e-12)

    def function(arrays: list[np.ndarray]) -> np.ndarray:
        return result([Tensor(Reals(), array) for array in arrays]).value

    for got, there in zip(gradients(result(tensors), tensors), differences(function, values), strict=True):
        np.testing.assert_allclose(got, there, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_of_models(name: str) -> None:
    rng = np.random.default_rng(7)
    model = make_model(name, 3, None if name.startswith("dep") else 2)
    chart = model.chart(model.random(rng))
    marks = Marks(2)
    weights = constant(Reals(), rng.normal(size=(3, marks.size, 4, 3)))

    def function(values: list[np.ndarray]) -> np.ndarray:
        tensors = to_tensors(model.blocks, from_chart(model.blocks, values[0][0]))
        return model.expectation(tensors, weights, marks).value[:, 2]

    tensors = to_tensors(model.blocks, from_chart(model.blocks, chart))
    found = gradients(model.expectation(tensors, weights, marks)[:, 2], list(tensors.values()))
    wanted = differences(function, [chart[None]])[0]
    np.testing.assert_allclose(chart_gradient(model.blocks, found, Reals()), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["pcfg", "pcfg-i", "dep-ie"])
def test_derivatives_modulo_a_prime_are_exact(name: str) -> None:
    """A polynomial of degree D is known at D + 1 points; so is its derivative, without rounding."""
    field, rng = PrimeField(), np.random.default_rng(0)
    p = field.prime
    model = make_model(name, 2, None if name.startswith("dep") else 2)
    marks = Marks(1)
    weights = constant(field, field.random(rng, (2, marks.size, 3, 2)))
    point, way = (field.random(rng, (model.n_parameters,)) for _ in range(2))

    def value(step: int) -> np.ndarray:
        moved = field.reduce(point + field.reduce(step * way))
        tensors = to_tensors(model.blocks, from_chart(model.blocks, moved, field), field)
        return model.expectation(tensors, weights, marks)[:, 1].value

    tensors = to_tensors(model.blocks, from_chart(model.blocks, point, field), field)
    jacobian = chart_gradient(
        model.blocks, gradients(model.expectation(tensors, weights, marks)[:, 1], list(tensors.values())), field
    )
    found = field.matmul(jacobian, way[:, None])[:, 0]
    degree = model.degree(3)
    values = [value(step) for step in range(degree + 1)]
    for row in range(2):
        # The derivative at 0 of Lagrange's polynomials.
        wanted = 0
        for i in range(degree + 1):
            others = [j for j in range(degree + 1) if j != i]
            below = 1
            for j in others:
                below = below * (i - j) % p
            above = 0
            for skipped in others:
                term = 1
                for j in others:
                    if j != skipped:
                        term = term * -j % p
                above += term
            wanted += int(values[i][row]) * above * pow(below, -1, p)
        assert (int(found[row]) - wanted) % p == 0


@pytest.mark.parametrize("name", MODELS)
def test_the_same_program_in_both_fields(name: str) -> None:
    """With small fractions for parameters, the float result times a common denominator is the exact one."""
    field, rng = PrimeField(), np.random.default_rng(2)
    model = make_model(name, 2, None if name.startswith("dep") else 2)
    parts = {block.name: rng.integers(1, 4, (block.outcomes, block.columns)) for block in model.blocks}
    floats = {block.name: (parts[block.name] / parts[block.name].sum(0)).reshape(block.shape) for block in model.blocks}
    exact = {
        name_: np.array(
            [[field.number(int(x), int(s)) for x, s in zip(row, array.sum(0), strict=True)] for row in array]
        )
        for name_, array in parts.items()
    }
    for sentence in ([0, 1], [1, 1, 0]):
        weights = np.eye(2)[sentence][None, None]
        real = model.expectation(to_tensors(model.blocks, floats), constant(Reals(), weights)).value[0, 0]
        modular = model.expectation(to_tensors(model.blocks, exact, field), constant(field, weights)).value[0, 0]
        # The fraction behind the float: the one with the smallest denominator near it.
        from fractions import Fraction

        fraction = Fraction(real).limit_denominator(50_000_000)
        assert abs(float(fraction) - real) < 1e-15
        assert field.number(fraction.numerator, fraction.denominator) == modular
