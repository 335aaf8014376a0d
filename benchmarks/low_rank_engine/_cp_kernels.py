"""Compiled loops of nonnegative decompositions into products: one factor, the other two being held.

The problem falls apart into one for each row of the factor, convex, over `b >= 0` of length `R`:

    f(b) = sum over r of b(r)  -  sum over entries e of x(e) log m(e),      m(e) = sum over r of products(e, r) b(r)

where the entries `e` are those of the row and `products(e, r)` comes from the other two factors, whose columns sum to
one. Its gradient is `1 - ratios`, `ratios(r) = sum over e of products(e, r) x(e) / m(e)`, and `b` sums to the row's
total at the minimum. Products are formed once for each row and used for all its steps.
"""

# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

# Reductions may be reordered, which is what lets them use vectors; infinities and NaNs keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}
# What `update` does with each row.
CHECK, MULTIPLY, QUASI_NEWTON = 0, 1, 2
# Of a row's total: weights below are as good as zero; what zeros that should not be are first raised by, and last.
_ZERO, _RAISE, _LEAST_RAISE = 1e-10, 1e-2, 1e-9
# Of a row's total: smaller weights become zero, so that products of factors never underflow.
_FLUSH = 1e-80
# Quasi-Newton: differences remembered, weights taken as being at their bound, decrease asked for, halvings of a step.
_MEMORY = 3
_BOUND = 1e-8
_DECREASE = 1e-4
_HALVINGS = 12
# Multiplying never raises the objective; by how much rounding may make it seem to, relative to it and the row's total.
_ROUNDING = 1e-14


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def entry_values(places, parent, left, right):
    """Return the values of a sum of products at the places, `(entries,)`."""
    result = np.empty(len(places))
    for entry in range(len(places)):
        i, j, k = places[entry]
        total = 0.0
        for r in range(parent.shape[1]):
            total += parent[i, r] * left[j, r] * right[k, r]
        result[entry] = total
    return result


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _form_products(first, second, one, two, products):
    for entry in range(len(first)):
        a, b = one[first[entry]], two[second[entry]]
        for r in range(len(a)):
            products[entry, r] = a[r] * b[r]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _evaluate(products, values, row, model):
    """Set `model`, `m`, and return the row's objective, infinite where the model is zero and the data are not."""
    result = 0.0
    for r in range(len(row)):
        result += row[r]
    for entry in range(len(values)):
        total = 0.0
        for r in range(len(row)):
            total += products[entry, r] * row[r]
        model[entry] = total
        result -= values[entry] * np.log(total)
    return result


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _set_ratios(products, values, model, ratios):
    ratios[:] = 0.0
    for entry in range(len(values)):
        ratio = values[entry] / model[entry]
        for r in range(len(ratios)):
            ratios[r] += ratio * products[entry, r]


@njit(cache=True, nogil=True, error_model="numpy")
def _violation(row, ratios, total):
    """How far the row is from a minimum: the largest `|min(b / total, 1 - ratios)|`."""
    result = 0.0
    for r in range(len(row)):
        result = max(result, abs(min(row[r] / total, 1.0 - ratios[r])))
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _raise_zeros(products, values, row, model, ratios, total, objective, before):
    """Raise weights that are zero and should not be, as far as this lowers the objective; return it.

    Multiplying leaves them at zero, and next to the bound a quasi-Newton step is badly scaled.
    """
    found = False
    for r in range(len(row)):
        found = found or (ratios[r] > 1.0 and row[r] < _ZERO * total)
    if not found:
        return objective
    before[:] = row
    size = _RAISE
    while size >= _LEAST_RAISE:
        for r in range(len(row)):
            if ratios[r] > 1.0 and before[r] < _ZERO * total:
                row[r] = before[r] + size * total
        now = _evaluate(products, values, row, model)
        if now < objective:
            _set_ratios(products, values, model, ratios)
            return now
        size *= 0.1
    row[:] = before
    return _evaluate(products, values, row, model)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(row, ratios, total):
    for r in range(len(row)):
        weight = row[r] * ratios[r]
        row[r] = weight if weight > _FLUSH * total else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_row(products, values, row, model, ratios, total, objective, inner, tolerance, before):
    """Take up to `inner` multiplicative steps; return the objective."""
    before[:] = row
    for step in range(inner):
        if step and _violation(row, ratios, total) <= tolerance:
            break
        _multiply(row, ratios, total)
        now = _evaluate(products, values, row, model)
        if now == np.inf:
            break
        _set_ratios(products, values, model, ratios)
    if not now <= objective + _ROUNDING * (abs(objective) + total):  # something has underflown
        row[:] = before
        return _evaluate(products, values, row, model)
    return now


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _dot(a, b, free):
    total = 0.0
    for r in range(len(a)):
        if free[r]:
            total += a[r] * b[r]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _direction(row, ratios, total, steps, changes, used, newest, free, direction):
    """Set the direction of the next step, by L-BFGS among the weights that are not held at their bound.

    Where nothing is remembered it is that of the multiplicative step, `b * ratios - b`.
    """
    rank = len(row)
    curvature = np.zeros(_MEMORY)
    share = np.zeros(_MEMORY)
    for r in range(rank):
        free[r] = row[r] > _BOUND * total or ratios[r] > 1.0
        direction[r] = ratios[r] - 1.0 if free[r] else 0.0
    for back in range(used):
        at = (newest - back) % _MEMORY
        product = _dot(steps[at], changes[at], free)
        if product > 0:
            curvature[at] = 1.0 / product
            share[at] = _dot(steps[at], direction, free) / product
            for r in range(rank):
                direction[r] -= share[at] * changes[at, r]
    for r in range(rank):
        direction[r] *= max(row[r], 1e-2 * total / (rank * max(1.0, ratios[r])))
    for back in range(used - 1, -1, -1):
        at = (newest - back) % _MEMORY
        if curvature[at] > 0:
            factor = share[at] - curvature[at] * _dot(changes[at], direction, free)
            for r in range(rank):
                direction[r] += factor * steps[at, r]
    for r in range(rank):
        if not free[r]:
            direction[r] = -row[r]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _search(products, values, row, model, ratios, total, objective, before, direction):
    """Step from `before` along the direction, bent at the bounds, halving it until it lowers the objective enough.

    Return the new objective; the old one if no step would do, and then `row` is unchanged.
    """
    size = 1.0
    for _ in range(_HALVINGS):
        slope = 0.0
        for r in range(len(row)):
            weight = before[r] + size * direction[r]
            row[r] = weight if weight > _FLUSH * total else 0.0
            slope += (1.0 - ratios[r]) * (row[r] - before[r])
        if slope < 0:
            now = _evaluate(products, values, row, model)
            if now <= objective + _DECREASE * slope:
                return now
        size *= 0.5
    row[:] = before
    return objective


@njit(cache=True, nogil=True, error_model="numpy")
def _quasi_newton_row(
    products, values, row, model, ratios, total, objective, inner, tolerance, before, direction, free, steps, changes
):
    """Take up to `inner` projected quasi-Newton steps; return the objective."""
    used, newest = 0, -1
    for step in range(inner):
        if step and _violation(row, ratios, total) <= tolerance:
            break
        before[:] = row
        _direction(row, ratios, total, steps, changes, used, newest, free, direction)
        now = _search(products, values, row, model, ratios, total, objective, before, direction)
        if not now < objective:
            # What is remembered misleads, or there is less to be gained than rounding shows.
            used = 0
            _multiply(row, ratios, total)
            now = _evaluate(products, values, row, model)
            if not now <= objective + _ROUNDING * (abs(objective) + total):
                row[:] = before
                return _evaluate(products, values, row, model)
        objective = now
        newest = (newest + 1) % _MEMORY
        for r in range(len(row)):
            steps[newest, r] = row[r] - before[r]
            changes[newest, r] = ratios[r]
        _set_ratios(products, values, model, ratios)
        for r in range(len(row)):
            changes[newest, r] -= ratios[r]
        used = min(used + 1, _MEMORY)
    return objective


@njit(cache=True, nogil=True, error_model="numpy")
def update(offsets, first, second, values, one, two, rows, method, inner, tolerance):
    """Lower the objective of every row; return its sum over rows, and the largest violation before.

    Parameters
    ----------
    offsets
        `(n + 1,)`: where the entries of each row begin.
    first, second
        `(entries,)`: their places along the other two axes.
    values
        `(entries,)`: their values, above zero.
    one, two
        `(n', R)`, `(n'', R)`: the factors of the other two axes, columns summing to one.
    rows
        `(n, R)`: the factor to be changed; those without entries are not looked at, and should be zero.
    method, inner, tolerance
        `CHECK` changes nothing; the others take up to `inner` steps for each row whose violation is above `tolerance`.
    """
    rank = rows.shape[1]
    most = 0
    for i in range(len(offsets) - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    products = np.empty((most, rank))
    model = np.empty(most)
    ratios, before, direction = np.empty(rank), np.empty(rank), np.empty(rank)
    free = np.empty(rank, np.bool_)
    steps, changes = np.empty((_MEMORY, rank)), np.empty((_MEMORY, rank))
    result, worst = 0.0, 0.0
    for i in range(len(offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        if start == end:
            continue
        row, x = rows[i], values[start:end]
        total = x.sum()
        _form_products(first[start:end], second[start:end], one, two, products)
        objective = _evaluate(products, x, row, model)
        _set_ratios(products, x, model, ratios)
        violation = _violation(row, ratios, total)
        worst = max(worst, violation)
        if method != CHECK and violation > tolerance:
            objective = _raise_zeros(products, x, row, model, ratios, total, objective, before)
            if method == MULTIPLY:
                objective = _multiply_row(
                    products, x, row, model, ratios, total, objective, inner, tolerance, before
                )  # fmt: skip
            else:
                objective = _quasi_newton_row(
                    products, x, row, model, ratios, total, objective, inner, tolerance, before, direction, free,
                    steps, changes,
                )  # fmt: skip
            # The best multiple of the row is the one that sums to the total.
            row *= total / row.sum()
            objective = _evaluate(products, x, row, model)
        result += objective
    return result, worst
