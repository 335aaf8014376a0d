"""Inside, outside and expected counts on observed trees, one shard of a corpus at a time.

Nodes of a shard are numbered leaves first (by preterminal and word), then inner nodes by height and, within a height,
by rule. Runs of nodes of one height and rule are *blocks*: their children are done when they begin (inside) or their
parents (outside, in reverse). A node's vector is `vectors[offsets[v]:offsets[v + 1]]`. Inner nodes are also numbered
on their own, from `n_leaves`.

The work is in sums over `y = (b, c)`, runs of `m_b m_c` numbers, for up to four nodes at a time so that a tensor's row
is read once for them. Inner loops run over slices from 0: an index like `base + y` may be negative as far as the
compiler knows, Numba then looks at its sign each time, and the loop is not vectorised.

Every inside vector is scaled by a power of two so that its largest value lies in [1/2, 1); `exponent` keeps it.
Outside vectors are scaled likewise but their exponents are not needed: at every node inside times outside sums to the
tree's probability, so the posterior at a node is that product divided by its own sum. Posteriors of a node
therefore sum to one in single precision too.
"""

# mypy: ignore-errors
from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._coarse_kernels import power_of_two

_FAST = {"reassoc", "contract", "nsz"}
# The smallest exponent whose inverse is still a power of two in double precision.
_LEAST = -1022


@numba.njit(cache=True, nogil=True)
def node_heights(left, right, height):
    """Fill the height of every node, 0 on leaves; children stand behind their parents."""
    for v in range(len(height) - 1, -1, -1):
        height[v] = 0 if left[v] < 0 else 1 + max(height[left[v]], height[right[v]])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _dot(x, y):
    """Return the inner product of two vectors."""
    total = x.dtype.type(0)
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _dot_four(x, y0, y1, y2, y3):
    """Return the inner products of `x` with four vectors."""
    t0 = t1 = t2 = t3 = x.dtype.type(0)
    for i in range(len(x)):
        t0 += x[i] * y0[i]
        t1 += x[i] * y1[i]
        t2 += x[i] * y2[i]
        t3 += x[i] * y3[i]
    return t0, t1, t2, t3


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _add(target, f, x):
    """Add `f x` to the target."""
    for i in range(len(target)):
        target[i] += f * x[i]


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _add_four(target, f0, x0, f1, x1, f2, x2, f3, x3):
    """Add four multiples of vectors to the target."""
    for i in range(len(target)):
        target[i] += f0 * x0[i] + f1 * x1[i] + f2 * x2[i] + f3 * x3[i]


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _outer(left, right, target):
    """Fill the target with the outer product of two vectors."""
    size = len(right)
    for x in range(len(left)):
        row = target[x * size : (x + 1) * size]
        factor = left[x]
        for y in range(size):
            row[y] = factor * right[y]


@numba.njit(cache=True, nogil=True)
def _rescale(source, target):
    """Copy a vector scaled so that its largest absolute value lies in [1/2, 1); returns the exponent taken out."""
    largest = 0.0
    for x in range(len(source)):
        largest = max(largest, abs(source[x]))
    shift = 0
    if largest != 0.0:
        _, shift = math.frexp(largest)
        shift = max(shift, _LEAST)
    scale = power_of_two(-shift)  # a double: what is left of tiny numbers must not overflow in between
    for x in range(len(source)):
        target[x] = source[x] * scale
    return shift


@numba.njit(cache=True, nogil=True)
def place_leaves(pairs, pair_nodes, lexical_offsets, lexical, lexical_exponent, offsets, inside, exponent):
    """Copy the (scaled) lexical vector of each pair to its leaves, nodes `pair_nodes[q] .. pair_nodes[q + 1] - 1`."""
    for q in range(len(pairs)):
        vector = lexical[lexical_offsets[pairs[q]] : lexical_offsets[pairs[q] + 1]]
        for v in range(pair_nodes[q], pair_nodes[q + 1]):
            inside[offsets[v] : offsets[v + 1]] = vector
            exponent[v] = lexical_exponent[pairs[q]]


@numba.njit(cache=True, nogil=True)
def inside_pass(
    n_leaves, block_rule, block_nodes, left, right, offsets, sizes, tensor_offsets, tensors, outer, inside, exponent
):  # fmt: skip
    """Fill `inside` and `exponent (nodes,)` of the inner nodes; leaves are there already.

    Block `k` is inner nodes `block_nodes[k] .. block_nodes[k + 1] - 1`; `sizes (rules, 3)` are `m_a, m_b, m_c`;
    `outer` has room for four times the largest `m_b m_c`.
    """
    for k in range(len(block_rule)):
        rule = block_rule[k]
        m_a, m_b, m_c = sizes[rule, 0], sizes[rule, 1], sizes[rule, 2]
        size = m_b * m_c
        tensor = tensors[tensor_offsets[rule] : tensor_offsets[rule + 1]]
        y0, y1 = outer[:size], outer[size : 2 * size]
        y2, y3 = outer[2 * size : 3 * size], outer[3 * size : 4 * size]
        i, last = block_nodes[k], block_nodes[k + 1]
        while i < last:
            together = 4 if i + 4 <= last else 1
            for j in range(together):
                b, c = offsets[left[i + j]], offsets[right[i + j]]
                _outer(inside[b : b + m_b], inside[c : c + m_c], outer[j * size : (j + 1) * size])
            at = offsets[n_leaves + i]
            # Nodes of a block have the same symbol and their vectors stand one behind the other.
            target = inside[at : at + together * m_a]
            for a in range(m_a):
                row = tensor[a * size : (a + 1) * size]
                if together == 4:
                    t0, t1, t2, t3 = _dot_four(row, y0, y1, y2, y3)
                    target[a] = t0
                    target[m_a + a] = t1
                    target[2 * m_a + a] = t2
                    target[3 * m_a + a] = t3
                else:
                    target[a] = _dot(row, y0)
            for j in range(together):
                vector = target[j * m_a : (j + 1) * m_a]
                below = exponent[left[i + j]] + exponent[right[i + j]]
                exponent[n_leaves + i + j] = below + _rescale(vector, vector)
            i += together


@numba.njit(cache=True, nogil=True)
def tree_likelihoods(roots, symbol, state_offsets, root, offsets, inside, exponent, log_likelihood):
    """Fill the logarithm of each tree's probability; -inf where it is 0 and NaN where it is negative."""
    for t in range(len(roots)):
        v = roots[t]
        total = 0.0
        for x in range(offsets[v + 1] - offsets[v]):
            total += root[state_offsets[symbol[v]] + x] * inside[offsets[v] + x]
        if total > 0:
            log_likelihood[t] = math.log(total) + exponent[v] * math.log(2.0)
        else:
            log_likelihood[t] = -math.inf if total == 0 else math.nan


@numba.njit(cache=True, nogil=True)
def outside_pass(
    n_leaves, block_rule, block_nodes, left, right, roots, symbol, state_offsets, root, log_likelihood, offsets, sizes,
    tensor_offsets, tensors, weight, inside, outside,
):  # fmt: skip
    """Fill `outside`, each vector up to a positive factor; zeros in trees that have no probability.

    `weight` has room for the largest `m_b m_c`.
    """
    for t in range(len(roots)):
        v = roots[t]
        target = outside[offsets[v] : offsets[v + 1]]
        if log_likelihood[t] == -math.inf:
            target[:] = 0
        else:
            _rescale(root[state_offsets[symbol[v]] : state_offsets[symbol[v] + 1]], target)
    for k in range(len(block_rule) - 1, -1, -1):
        rule = block_rule[k]
        m_a, m_b, m_c = sizes[rule, 0], sizes[rule, 1], sizes[rule, 2]
        tensor = tensors[tensor_offsets[rule] : tensor_offsets[rule + 1]]
        meeting = weight[: m_b * m_c]
        for i in range(block_nodes[k], block_nodes[k + 1]):
            a, b, c = offsets[n_leaves + i], offsets[left[i]], offsets[right[i]]
            _contract(tensor, outside[a : a + m_a], meeting)
            left_out, right_out = outside[b : b + m_b], outside[c : c + m_c]
            _hand_down(meeting, inside[b : b + m_b], inside[c : c + m_c], left_out, right_out)
            _rescale(left_out, left_out)
            _rescale(right_out, right_out)


@numba.njit(cache=True, nogil=True)
def _contract(tensor, above, meeting):
    """Fill `meeting (m_b m_c)` with the tensor applied to the parent's vector `above (m_a,)`."""
    size, m_a = len(meeting), len(above)
    meeting[:] = 0
    a = 0
    while a + 4 <= m_a:
        rows = tensor[a * size : (a + 4) * size]
        _add_four(
            meeting, above[a], rows[:size], above[a + 1], rows[size : 2 * size],
            above[a + 2], rows[2 * size : 3 * size], above[a + 3], rows[3 * size : 4 * size],
        )  # fmt: skip
        a += 4
    while a < m_a:
        _add(meeting, above[a], tensor[a * size : (a + 1) * size])
        a += 1


@numba.njit(cache=True, nogil=True)
def _hand_down(meeting, left_in, right_in, left_out, right_out):
    """Fill the children's outside vectors: `meeting (m_b, m_c)` times the other child's inside vector."""
    size = len(right_in)
    right_out[:] = 0
    for x in range(len(left_in)):
        row = meeting[x * size : (x + 1) * size]
        left_out[x] = _dot(row, right_in)
        _add(right_out, left_in[x], row)


@numba.njit(cache=True, nogil=True)
def expected_rules(
    n_leaves, rules, rule_nodes, members, left, right, symbol, state_offsets, offsets, sizes, inside, exponent, outside,
    most, outer, share, slots, expected, occupancy,
):  # fmt: skip
    """Fill `expected` and add to `occupancy (states,)` for the inner nodes.

    `expected[slots[s]:slots[s + 1]]` becomes the sum of `outside (x) left inside (x) right inside` over the nodes of
    rule `rules[s]`, inner nodes `members[rule_nodes[s]:rule_nodes[s + 1]]`, each divided by its tree's probability:
    times the rule's tensor these are expected counts. No factor exceeds `most`. `outer` is as in `inside_pass`,
    `share (4, m)` has room for the largest `m_a`.
    """
    for s in range(len(rules)):
        m_a, m_b, m_c = sizes[rules[s], 0], sizes[rules[s], 1], sizes[rules[s], 2]
        size = m_b * m_c
        target = expected[slots[s] : slots[s + 1]]
        target[:] = 0
        y0, y1 = outer[:size], outer[size : 2 * size]
        y2, y3 = outer[2 * size : 3 * size], outer[3 * size : 4 * size]
        k, last = rule_nodes[s], rule_nodes[s + 1]
        while k < last:
            together = 4 if k + 4 <= last else 1
            for j in range(together):
                i = members[k + j]
                b, c = offsets[left[i]], offsets[right[i]]
                _outer(inside[b : b + m_b], inside[c : c + m_c], outer[j * size : (j + 1) * size])
                v = n_leaves + i
                ours, theirs = inside[offsets[v] : offsets[v + 1]], outside[offsets[v] : offsets[v + 1]]
                states = occupancy[state_offsets[symbol[v]] : state_offsets[symbol[v] + 1]]
                factor = _add_posterior(ours, theirs, states)
                # The children's vectors are scaled otherwise than the parent's.
                factor *= power_of_two(exponent[left[i]] + exponent[right[i]] - exponent[v])
                factor = min(max(factor, -most), most)
                for a in range(m_a):
                    share[j, a] = factor * theirs[a]
            for a in range(m_a):
                row = target[a * size : (a + 1) * size]
                if together == 4:
                    _add_four(row, share[0, a], y0, share[1, a], y1, share[2, a], y2, share[3, a], y3)
                else:
                    _add(row, share[0, a], y0)
            k += together


@numba.njit(cache=True, nogil=True)
def expected_leaves(
    pairs, pair_nodes, slots, symbol, state_offsets, offsets, inside, outside, expected, occupancy
):  # fmt: skip
    """Add the leaves' posteriors to `expected[slots[q]:]` of pair `q`, given zeroed, and to `occupancy (states,)`."""
    for q in range(len(pairs)):
        target = expected[slots[q] : slots[q + 1]]
        for v in range(pair_nodes[q], pair_nodes[q + 1]):
            _add_posterior(inside[offsets[v] : offsets[v + 1]], outside[offsets[v] : offsets[v + 1]], target)
        symbol_of_pair = symbol[pair_nodes[q]]
        states = occupancy[state_offsets[symbol_of_pair] : state_offsets[symbol_of_pair + 1]]
        for x in range(len(target)):
            states[x] += target[x]


@numba.njit(cache=True, nogil=True)
def expected_roots(roots, symbol, state_offsets, offsets, inside, outside, expected):
    """Add the posteriors of the roots' states to `expected (states,)`."""
    for v in roots:
        target = expected[state_offsets[symbol[v]] : state_offsets[symbol[v] + 1]]
        _add_posterior(inside[offsets[v] : offsets[v + 1]], outside[offsets[v] : offsets[v + 1]], target)


@numba.njit(cache=True, nogil=True)
def _add_posterior(inside, outside, target):
    """Add inside times outside, divided by its sum, to the target; returns the divisor's inverse (0 for 0)."""
    total = 0.0
    for x in range(len(inside)):
        total += np.float64(inside[x]) * outside[x]
    if total == 0.0:
        return 0.0
    for x in range(len(inside)):
        target[x] += np.float64(inside[x]) * outside[x] / total
    return 1 / total


@numba.njit(cache=True, nogil=True)
def add_slots(numbers, slots, values, offsets, total):
    """Add each slot's values to the place in `total` that `offsets[numbers[slot]]` gives."""
    for s in range(len(numbers)):
        _add(total[offsets[numbers[s]] : offsets[numbers[s] + 1]], 1.0, values[slots[s] : slots[s + 1]])
