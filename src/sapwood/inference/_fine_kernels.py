"""Inside, outside and rule posteriors with state vectors, over the edges that survived pruning.

A *node* is a coarse symbol over a span. Its vector holds the states of all fine symbols that project to the coarse
one, one behind the other, at `vector_offsets[node]`. A *group* is a coarse rule at a parent node with its *edges*, one
for each split: pairs of child nodes. Each coarse rule stands for one or more fine rules, whose vectors' places
within the three nodes are known beforehand (`fine_places`), so nothing is looked up.

Per (parent, fine rule) the edges are summed into one matrix `(m_b, m_c)` first and the rule's tensor is applied
once: the `m^3` work does not grow with the number of splits. Scaling is as in `_coarse_kernels`: stored inside
times stored outside values are posteriors.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._coarse_kernels import power_of_two

_NONE = -(1 << 38)


@numba.njit(cache=True, nogil=True)
def place_leaves(n, node_offsets, node_symbol, vector_offsets, rows, symbol_offsets, inside):
    """Copy the lexical weights of each word, `rows[position]` ordered by coarse symbol, to the nodes above it."""
    for i in range(n):
        cell = (i + 1) * i // 2 + i
        for v in range(node_offsets[cell], node_offsets[cell + 1]):
            source = symbol_offsets[node_symbol[v]]
            for x in range(vector_offsets[v + 1] - vector_offsets[v]):
                inside[vector_offsets[v] + x] = rows[i, source + x]


@numba.njit(cache=True, nogil=True)
def _rescale(first, last, vector_offsets, inside, reference):
    """Bring the largest absolute value of a cell's vectors into [1/2, 1); returns the cell's exponent."""
    largest = 0.0
    for x in range(vector_offsets[first], vector_offsets[last]):
        largest = max(largest, abs(inside[x]))
    if largest == 0.0:
        return _NONE
    _, shift = math.frexp(largest)
    scale = power_of_two(-shift)  # in double precision: it may be beyond single
    for x in range(vector_offsets[first], vector_offsets[last]):
        inside[x] = inside[x] * scale
    return reference + shift


@numba.njit(cache=True, nogil=True)
def fine_inside(
    n, node_offsets, node_cell, vector_offsets, group_parent, group_rule, group_offsets, children, fine_offsets,
    fine_places, fine_states, tensor_offsets, tensors, widest, inside, exponent, factor,
):  # fmt: skip
    """Fill `inside` (leaf vectors are there already, the rest is zero) and `exponent (cells,)`.

    Fine rules of coarse rule `r` are `fine_offsets[r] .. fine_offsets[r + 1] - 1`; `fine_places (rules, 3)` are the
    places of their parent and children within the nodes' vectors, `fine_states (rules, 3)` their numbers of
    states. `factor (edges,)` keeps each edge's scale.
    """
    meeting = np.empty(widest * widest, inside.dtype)
    for cell in range(exponent.shape[0]):
        exponent[cell] = _NONE
    for i in range(n):
        cell = (i + 1) * i // 2 + i
        exponent[cell] = _rescale(node_offsets[cell], node_offsets[cell + 1], vector_offsets, inside, 0)
    last = group_parent.shape[0]
    while last > 0:
        # Groups of one cell stand together: [first, last).
        cell = node_cell[group_parent[last - 1]]
        first = last - 1
        while first > 0 and node_cell[group_parent[first - 1]] == cell:
            first -= 1
        reference = _NONE
        for e in range(group_offsets[first], group_offsets[last]):
            reference = max(reference, exponent[node_cell[children[e, 0]]] + exponent[node_cell[children[e, 1]]])
        if reference > _NONE // 2:
            for e in range(group_offsets[first], group_offsets[last]):
                below = exponent[node_cell[children[e, 0]]] + exponent[node_cell[children[e, 1]]] - reference
                factor[e] = power_of_two(below)
            for g in range(first, last):
                target = vector_offsets[group_parent[g]]
                if widest == 1:
                    _inside_scalars(
                        group_offsets[g], group_offsets[g + 1], fine_offsets[group_rule[g]],
                        fine_offsets[group_rule[g] + 1], children, vector_offsets, factor, fine_places, tensors, inside,
                        target,
                    )  # fmt: skip
                    continue
                for f in range(fine_offsets[group_rule[g]], fine_offsets[group_rule[g] + 1]):
                    m_b, m_c = fine_states[f, 1], fine_states[f, 2]
                    place_b, place_c = fine_places[f, 1], fine_places[f, 2]
                    at = target + fine_places[f, 0]
                    if m_b == 1 and m_c == 1:
                        total = 0.0
                        for e in range(group_offsets[g], group_offsets[g + 1]):
                            left = inside[vector_offsets[children[e, 0]] + place_b]
                            right = inside[vector_offsets[children[e, 1]] + place_c]
                            total += factor[e] * left * right
                        if total != 0.0:
                            for x in range(fine_states[f, 0]):
                                inside[at + x] += tensors[tensor_offsets[f] + x] * total
                    else:
                        _inside_rule(
                            group_offsets[g], group_offsets[g + 1], children, vector_offsets, factor, inside, meeting,
                            tensors, tensor_offsets[f], fine_states[f, 0], m_b, m_c, place_b, place_c, at,
                        )  # fmt: skip
            exponent[cell] = _rescale(node_offsets[cell], node_offsets[cell + 1], vector_offsets, inside, reference)
        last = first


@numba.njit(cache=True, nogil=True, inline="always")
def _inside_scalars(
    first, last, first_rule, last_rule, children, vector_offsets, factor, fine_places, tensors, inside, target
):  # fmt: skip
    """Add what one group contributes, in a grammar of one state per symbol (rule `f` has weight `tensors[f]`)."""
    for e in range(first, last):
        left, right = vector_offsets[children[e, 0]], vector_offsets[children[e, 1]]
        scale = factor[e]
        for f in range(first_rule, last_rule):
            value = scale * inside[left + fine_places[f, 1]] * inside[right + fine_places[f, 2]]
            inside[target + fine_places[f, 0]] += tensors[f] * value


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _inside_rule(
    first, last, children, vector_offsets, factor, inside, meeting, tensors, base, m_a, m_b, m_c, place_b, place_c, at
):  # fmt: skip
    """Sum the outer products of all edges, then apply the tensor: `inside[at:] += T meeting`.

    Loops run over slices from 0: that is what the compiler vectorises.
    """
    size = m_b * m_c
    met = meeting[:size]
    met[:] = 0
    for e in range(first, last):
        left = vector_offsets[children[e, 0]] + place_b
        right = vector_offsets[children[e, 1]] + place_c
        y = inside[right : right + m_c]
        for x in range(m_b):
            value = inside.dtype.type(factor[e]) * inside[left + x]
            row = met[x * m_c : (x + 1) * m_c]
            for z in range(m_c):
                row[z] += value * y[z]
    for x in range(m_a):
        row = tensors[base + x * size : base + (x + 1) * size]
        total = inside.dtype.type(0.0)
        for z in range(size):
            total += row[z] * met[z]
        inside[at + x] += total


@numba.njit(cache=True, nogil=True)
def fine_outside(
    node_cell, vector_offsets, group_parent, group_rule, group_offsets, children, fine_offsets, fine_places,
    fine_states, tensor_offsets, tensors, widest, inside, exponent, outside, factor, negligible, posterior,
):  # fmt: skip
    """Fill `outside` (zero but for the root cell, where it is there already) and `posterior (edges,)`, given zeroed.

    Parents with an absolute posterior of `negligible` or less are not expanded.
    """
    weight = np.empty(widest * widest, inside.dtype)
    for g in range(group_parent.shape[0]):
        parent = group_parent[g]
        above = exponent[node_cell[parent]]
        if above == _NONE:
            continue
        source = vector_offsets[parent]
        mass = 0.0
        for x in range(source, vector_offsets[parent + 1]):
            mass += abs(inside[x] * outside[x])
        if mass <= negligible:
            continue
        for e in range(group_offsets[g], group_offsets[g + 1]):
            below = exponent[node_cell[children[e, 0]]] + exponent[node_cell[children[e, 1]]] - above
            factor[e] = power_of_two(below)
        if widest == 1:
            _outside_scalars(
                group_offsets[g], group_offsets[g + 1], fine_offsets[group_rule[g]], fine_offsets[group_rule[g] + 1],
                children, vector_offsets, factor, fine_places, tensors, inside, outside, source, posterior,
            )  # fmt: skip
            continue
        for f in range(fine_offsets[group_rule[g]], fine_offsets[group_rule[g] + 1]):
            m_a, m_b, m_c = fine_states[f, 0], fine_states[f, 1], fine_states[f, 2]
            at = source + fine_places[f, 0]
            place_b, place_c = fine_places[f, 1], fine_places[f, 2]
            base = tensor_offsets[f]
            if m_b == 1 and m_c == 1:
                total = 0.0
                for x in range(m_a):
                    total += outside[at + x] * tensors[base + x]
                if total != 0.0:
                    for e in range(group_offsets[g], group_offsets[g + 1]):
                        left = vector_offsets[children[e, 0]] + place_b
                        right = vector_offsets[children[e, 1]] + place_c
                        for_left = total * factor[e] * inside[right]
                        posterior[e] += for_left * inside[left]
                        outside[right] += total * factor[e] * inside[left]
                        outside[left] += for_left
            else:
                _outside_rule(
                    group_offsets[g], group_offsets[g + 1], children, vector_offsets, factor, inside, outside, weight,
                    tensors, base, m_a, m_b, m_c, place_b, place_c, at, posterior,
                )  # fmt: skip


@numba.njit(cache=True, nogil=True, inline="always")
def _outside_scalars(
    first, last, first_rule, last_rule, children, vector_offsets, factor, fine_places, tensors, inside, outside, source,
    posterior,
):  # fmt: skip
    """Hand one parent's outside values down through a group, in a grammar of one state per symbol."""
    for e in range(first, last):
        left, right = vector_offsets[children[e, 0]], vector_offsets[children[e, 1]]
        scale = factor[e]
        total = 0.0
        for f in range(first_rule, last_rule):
            weight = scale * outside[source + fine_places[f, 0]] * tensors[f]
            for_left = weight * inside[right + fine_places[f, 2]]
            total += for_left * inside[left + fine_places[f, 1]]
            outside[right + fine_places[f, 2]] += weight * inside[left + fine_places[f, 1]]
            outside[left + fine_places[f, 1]] += for_left
        posterior[e] = total


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _outside_rule(
    first, last, children, vector_offsets, factor, inside, outside, weight, tensors, base, m_a, m_b, m_c, place_b,
    place_c, at, posterior,
):  # fmt: skip
    """Hand one parent's outside vector down through one rule to the children at all splits."""
    size = m_b * m_c
    given = weight[:size]
    given[:] = 0
    for x in range(m_a):
        value = outside[at + x]
        row = tensors[base + x * size : base + (x + 1) * size]
        for z in range(size):
            given[z] += value * row[z]
    for e in range(first, last):
        left = vector_offsets[children[e, 0]] + place_b
        right = vector_offsets[children[e, 1]] + place_c
        scale = inside.dtype.type(factor[e])
        y = inside[right : right + m_c]
        out = outside[right : right + m_c]
        total = 0.0
        for x in range(m_b):
            row = given[x * m_c : (x + 1) * m_c]
            partial = inside.dtype.type(0.0)
            for z in range(m_c):
                partial += row[z] * y[z]
            scaled = scale * inside[left + x]
            for z in range(m_c):
                out[z] += scaled * row[z]
            partial *= scale
            outside[left + x] += partial
            total += partial * inside[left + x]
        posterior[e] += total


@numba.njit(cache=True, nogil=True)
def node_posteriors(vector_offsets, inside, outside, posterior):
    """Fill the posterior of each node: inside times outside, summed over its states."""
    for v in range(posterior.shape[0]):
        total = 0.0
        for x in range(vector_offsets[v], vector_offsets[v + 1]):
            total += inside[x] * outside[x]
        posterior[v] = total


@numba.njit(cache=True, nogil=True)
def filter_forest(
    node_offsets, node_cell, node_symbol, is_leaf, group_parent, group_rule, group_offsets, children, posterior,
    threshold, first_root,
):  # fmt: skip
    """Keep the edges whose posterior reaches the threshold, and of those what a whole tree can use.

    Returns the new forest's arrays: node offsets, symbols, cells, group parents, rules, offsets and children. Nodes
    from `first_root` on span the sentence.
    """
    n_nodes, n_groups = node_symbol.shape[0], group_parent.shape[0]
    alive = np.zeros(n_nodes, np.bool_)
    for v in range(n_nodes):
        alive[v] = is_leaf[node_symbol[v]]
    kept = np.zeros(children.shape[0], np.bool_)
    for g in range(n_groups - 1, -1, -1):  # bottom-up
        for e in range(group_offsets[g], group_offsets[g + 1]):
            if posterior[e] >= threshold and alive[children[e, 0]] and alive[children[e, 1]]:
                kept[e] = True
                alive[group_parent[g]] = True
    reached = np.zeros(n_nodes, np.bool_)
    reached[first_root:] = alive[first_root:]
    n_kept, n_kept_groups = 0, 0
    for g in range(n_groups):
        some = False
        for e in range(group_offsets[g], group_offsets[g + 1]):
            kept[e] = kept[e] and reached[group_parent[g]]
            if kept[e]:
                some = True
                n_kept += 1
                reached[children[e, 0]] = True
                reached[children[e, 1]] = True
        n_kept_groups += some
    number = np.empty(n_nodes, np.int32)
    offsets = np.empty_like(node_offsets)
    count, cell = 0, 0
    for v in range(n_nodes):
        while cell <= node_cell[v]:
            offsets[cell] = count
            cell += 1
        number[v] = count
        count += reached[v]
    offsets[cell:] = count
    symbols, cells = np.empty(count, node_symbol.dtype), np.empty(count, node_cell.dtype)
    for v in range(n_nodes):
        if reached[v]:
            symbols[number[v]] = node_symbol[v]
            cells[number[v]] = node_cell[v]
    parents, rules = np.empty(n_kept_groups, group_parent.dtype), np.empty(n_kept_groups, group_rule.dtype)
    edge_offsets, pairs = np.zeros(n_kept_groups + 1, group_offsets.dtype), np.empty((n_kept, 2), children.dtype)
    group, edge = 0, 0
    for g in range(n_groups):
        before = edge
        for e in range(group_offsets[g], group_offsets[g + 1]):
            if kept[e]:
                pairs[edge, 0] = number[children[e, 0]]
                pairs[edge, 1] = number[children[e, 1]]
                edge += 1
        if edge > before:
            parents[group] = number[group_parent[g]]
            rules[group] = group_rule[g]
            group += 1
            edge_offsets[group] = edge
    return offsets, symbols, cells, parents, rules, edge_offsets, pairs


@numba.njit(cache=True, nogil=True)
def project_tensors(places, sizes, offsets, tensors, groups, shares, new_sizes, new_offsets, result):
    """Add rule tensors over finer states to `result`, tensors over groups of them.

    Rule `r` is `sizes[r]` from `offsets[r]`; its symbols' states begin at `places[r]` in `groups`, which has each
    state's number among the new ones of its symbol (negative: left out), and in `shares`, its part of the new one as a
    parent.
    """
    for r in range(places.shape[0]):
        n_b, n_c = new_sizes[r, 1], new_sizes[r, 2]
        for a in range(sizes[r, 0]):
            share = shares[places[r, 0] + a]
            for b in range(sizes[r, 1]):
                if groups[places[r, 0] + a] < 0 or groups[places[r, 1] + b] < 0:
                    continue
                base = new_offsets[r] + (groups[places[r, 0] + a] * n_b + groups[places[r, 1] + b]) * n_c
                at = offsets[r] + (a * sizes[r, 1] + b) * sizes[r, 2]
                for c in range(sizes[r, 2]):
                    if groups[places[r, 2] + c] >= 0:
                        result[base + groups[places[r, 2] + c]] += share * tensors[at + c]
