// Outside values of the coarse grammar, and the forest of what is worth keeping.
#include <algorithm>

#include "chart/coarse/pass.hpp"

namespace sapwood {

template <class Real> void CoarsePass<Real>::outside(double total) {
    Real *value = m.value.acquire(n_symbols), *here = m.here.acquire(n_symbols);
    int32_t *chosen = m.chosen.acquire(g.n_rules + 1);
    const Real least_part = static_cast<Real>(minor_share * threshold);
    const Real *part = m.part.data();
    const int32_t *part_rule = m.part_rule.data();
    n_groups = n_edges = 0;
    std::fill(value, value + n_symbols, Real(0));
    std::fill(here, here + n_symbols, Real(0));
    for (Index a = 0; a < n_starting[0]; ++a)
        if (holds(end_set(0, a), n)) outside_start[start_run(0, a) + n] = static_cast<Real>(g.root[starting[a]] / total);
    for (Index j = n; j > 1; --j) {
        if (m.budget) m.budget->check_time();
        for (Index i = 0; i < j - 1; ++i) {
            const Index visited = cell_of(0, j) + j - 1 - i, first = part_offsets[visited], last = part_offsets[visited + 1];
            if (first == last) continue;
            Real most = 0;
            for (Index a = 0; a < n_starting[i]; ++a)
                if (holds(end_set(i, a), j)) {
                    const int32_t s = starting[i * n_symbols + a];
                    const Index at = start_run(i, a) + j;
                    value[s] = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                    here[s] = value[s] * by_start[at];
                    most = std::max(most, here[s]);
                }
            if (most <= least_part) continue;
            // The same splits count as in the inside pass.
            const int64_t reference = scale_splits(i, j), shift = reference - exponent[cell_of(i, j)];
            Index n_chosen = 0;  // without branches, which could not be foreseen
            for (Index x = first; x < last; ++x) {
                chosen[n_chosen] = part_rule[x];
                n_chosen += here[g.rule_parent[part_rule[x]]] * part[x] > least_part;
            }
            const double scale = power_of_two(shift);
            for (Index x = 0; x < n_chosen; ++x) {
                const int32_t r = chosen[x];
                expand(i, j, r, static_cast<Real>(value[g.rule_parent[r]] * g.rule_weight[r] * scale));
            }
        }
    }
}

template <class Real> void CoarsePass<Real>::expand(Index i, Index j, int32_t r, Real weight) {
    const Index a = start_slot[i * n_symbols + g.rule_left[r]], at = end_slot[j * n_symbols + g.rule_right[r]];
    const Index left = start_run(i, a), right = end_run(j, at);
    const uint64_t *left_set = end_set(i, a), *right_set = start_set(j, at);
    int32_t *split = m.split.grow(n_edges + n + 1, n_edges);
    const Index before = n_edges;
    for (Index w = 0; w < n_words; ++w)
        for (uint64_t both = left_set[w] & right_set[w]; both; both &= both - 1) {
            const Index k = 64 * w + lowest_bit(both);
            const Real left_value = by_start[left + k], right_value = by_end[right + k], scaled = weight * factor[k];
            outside_start[left + k] += scaled * right_value;
            outside_end[right + k] += scaled * left_value;
            split[n_edges] = static_cast<int32_t>(k);
            n_edges += static_cast<double>(scaled * right_value) * left_value > threshold;
        }
    if (n_edges == before) return;
    m.group_cell.grow(n_groups + 1, n_groups)[n_groups] = i << 32 | j;
    m.group_rule.grow(n_groups + 1, n_groups)[n_groups] = r;
    m.edge_offsets.grow(n_groups + 2, n_groups)[n_groups] = before;
    ++n_groups;
}

template <class Real> void CoarsePass<Real>::number_nodes(Forest &forest) {
    const double enough = threshold * (1 - 1e-4);
    int32_t *number = m.node_number.acquire(static_cast<std::size_t>(n_cells) * n_symbols);
    forest.n = n;
    forest.node_offsets.resize(n_cells + 1);
    forest.node_symbol.clear();
    forest.node_cell.clear();
    for (Index j = 1; j <= n; ++j)
        for (Index i = 0; i < j; ++i) {
            const Index cell = cell_of(i, j);
            forest.node_offsets[cell] = forest.n_nodes();
            for (Index a = 0; a < n_starting[i]; ++a) {
                const Index at = start_run(i, a) + j;
                number[at] = -1;
                if (!holds(end_set(i, a), j)) continue;
                const int32_t s = starting[i * n_symbols + a];
                const Real value = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                if (static_cast<double>(value) * by_start[at] > enough) {
                    number[at] = static_cast<int32_t>(forest.n_nodes());
                    forest.node_symbol.push_back(s);
                    forest.node_cell.push_back(static_cast<int32_t>(cell));
                }
            }
        }
    forest.node_offsets[n_cells] = forest.n_nodes();
}

template <class Real> void CoarsePass<Real>::link_edges(Forest &forest) {
    forest.group_parent.clear();
    forest.group_rule.clear();
    forest.group_offsets.assign(1, 0);
    forest.children.clear();
    if (n_groups) m.edge_offsets[n_groups] = n_edges;
    for (Index group = 0; group < n_groups; ++group) {
        const Index i = m.group_cell[group] >> 32, j = m.group_cell[group] & 0xffffffff;
        const int32_t r = m.group_rule[group], parent = node(i, j, g.rule_parent[r]);
        if (parent < 0) continue;
        for (Index e = m.edge_offsets[group]; e < m.edge_offsets[group + 1]; ++e) {
            const Index k = m.split[e];
            const int32_t left = node(i, k, g.rule_left[r]), right = node(k, j, g.rule_right[r]);
            if (left < 0 || right < 0) continue;
            forest.children.push_back(left);
            forest.children.push_back(right);
        }
        if (forest.n_edges() == forest.group_offsets.back()) continue;
        forest.group_parent.push_back(parent);
        forest.group_rule.push_back(r);
        forest.group_offsets.push_back(forest.n_edges());
    }
}

template void CoarsePass<float>::outside(double);
template void CoarsePass<double>::outside(double);
template void CoarsePass<float>::number_nodes(Forest &);
template void CoarsePass<double>::number_nodes(Forest &);
template void CoarsePass<float>::link_edges(Forest &);
template void CoarsePass<double>::link_edges(Forest &);

}  // namespace sapwood
