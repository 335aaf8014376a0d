// A node is a coarse symbol over a span. Its vector holds the states of all fine symbols that project to the coarse one.
// A group is a coarse rule at a parent node with its edges, one for each split: pairs of child nodes.
//
// For each pair of child states in use the edges are summed first and the weights applied once, so that the work does
// not grow with the number of splits.
#include "chart/fine/fine.hpp"

#include <algorithm>
#include <cmath>

#include "core/scaling.hpp"
#include "core/simd.hpp"

namespace sapwood {
namespace {

constexpr int64_t no_exponent = -(int64_t{1} << 38);
constexpr uint8_t unknown = 2;
// How many groups ahead weights are fetched.
constexpr Index ahead = 3;

template <class Real> class FinePass {
  public:
    FinePass(const FineGrammar<Real> &grammar, const Forest &forest, FineMemory<Real> &memory)
        : g(grammar), f(forest), budget(memory.budget), offsets(memory.offsets.acquire(forest.n_nodes() + 1)),
          exponent(memory.exponent.acquire(forest.n * (forest.n + 1) / 2)), factor(memory.factor.acquire(forest.n_edges() + 1)),
          posterior(memory.edge_posterior.acquire(forest.n_edges() + 1)), worth(memory.alive.acquire(forest.n_nodes() + 1)) {
        offsets[0] = 0;
        for (Index v = 0; v < f.n_nodes(); ++v) offsets[v + 1] = offsets[v] + size_of(f.node_symbol[v]);
        inside = memory.inside.acquire(offsets[f.n_nodes()] + 1);
        outside = memory.outside.acquire(offsets[f.n_nodes()] + 1);
        meeting = memory.meeting.acquire(g.widest);
        parent_vector = memory.parent.acquire(g.longest);
        std::fill_n(inside, offsets[f.n_nodes()], Real(0));
        std::fill_n(outside, offsets[f.n_nodes()], Real(0));
        std::fill_n(exponent, f.n * (f.n + 1) / 2, no_exponent);
        std::fill_n(posterior, f.n_edges(), 0.0);
    }

    void place_leaves(const std::vector<const Leaf *> &leaves, std::size_t number) {
        for (Index i = 0; i < f.n; ++i) {
            const Index cell = cell_of(i, i + 1);
            const Leaf &leaf = *leaves[i];
            const Row<Real> &row = leaf.rows<Real>().at(number);
            for (Index v = f.node_offsets[cell]; v < f.node_offsets[cell + 1]; ++v) {
                const auto found = std::lower_bound(leaf.symbols.begin(), leaf.symbols.end(), f.node_symbol[v]);
                if (found == leaf.symbols.end() || *found != f.node_symbol[v]) continue;
                const Index x = found - leaf.symbols.begin();
                std::copy(row.values.data() + row.offsets[x], row.values.data() + row.offsets[x + 1], inside + offsets[v]);
            }
            exponent[cell] = rescale(cell, 0);
        }
    }

    void fill_inside() {
        for (Index last = f.n_groups(); last > 0;) {
            // Groups of one cell stand together: [first, last).
            const Index cell = cell_of_group(last - 1);
            Index first = last - 1;
            if (budget) budget->check_time();
            while (first > 0 && cell_of_group(first - 1) == cell) --first;
            int64_t reference = no_exponent;
            for (Index e = f.group_offsets[first]; e < f.group_offsets[last]; ++e) reference = std::max(reference, below(e));
            if (reference > no_exponent / 2) {
                for (Index e = f.group_offsets[first]; e < f.group_offsets[last]; ++e)
                    factor[e] = scale_of(below(e) - reference);
                for (Index group = first; group < last; ++group) {
                    if (group >= ahead) prefetch(group - ahead);
                    inside_group(group);
                }
                exponent[cell] = rescale(cell, reference);
            }
            last = first;
        }
    }

    // Set the roots' outside vectors; returns the scaled probability of the sentence.
    double start_outside() {
        double total = 0;
        const auto weights_of = [&](Index v) { return g.root.data() + g.symbol_offsets[f.node_symbol[v]]; };
        for (Index v = f.first_root(); v < f.end_of_roots(); ++v)
            for (Index x = 0; x < g.vector_sizes[f.node_symbol[v]]; ++x)
                total += static_cast<double>(inside[offsets[v] + x]) * weights_of(v)[x];
        for (Index v = f.first_root(); v < f.end_of_roots(); ++v)
            for (Index x = 0; x < g.vector_sizes[f.node_symbol[v]]; ++x)
                outside[offsets[v] + x] = static_cast<Real>(weights_of(v)[x] / total);
        return total;
    }

    void fill_outside(double negligible) {
        std::fill_n(worth, f.n_nodes(), unknown);
        for (Index group = 0; group < f.n_groups(); ++group) {
            const Index parent = f.group_parent[group];
            if (budget && group % 256 == 0) budget->check_time();
            const int64_t above = exponent[f.node_cell[parent]];
            // (A node's outside vector is whole before its first group.)
            if (worth[parent] == unknown) worth[parent] = above != no_exponent && mass_of(parent) > negligible;
            if (!worth[parent]) continue;
            for (Index e = f.group_offsets[group]; e < f.group_offsets[group + 1]; ++e) factor[e] = scale_of(below(e) - above);
            if (group + ahead < f.n_groups()) prefetch(group + ahead);
            outside_group(group);
        }
    }

    void node_posteriors(double *found) const {
        for (Index v = 0; v < f.n_nodes(); ++v) {
            double total = 0;
#pragma omp simd reduction(+ : total)
            for (Index x = offsets[v]; x < offsets[v + 1]; ++x) total += static_cast<double>(inside[x]) * outside[x];
            found[v] = total;
        }
    }

  private:
    const FineGrammar<Real> &g;
    const Forest &f;
    const Budget *budget;
    int64_t *offsets, *exponent;
    Real *factor, *inside, *outside, *meeting, *parent_vector;
    double *posterior;
    uint8_t *worth;  // whether a node is to be expanded

    // In a grammar with up to four states all vectors have four.
    Index size_of(int32_t symbol) const { return g.small.empty() ? g.vector_sizes[symbol] : 4; }
    Index cell_of_group(Index group) const { return f.node_cell[f.group_parent[group]]; }
    int64_t below(Index e) const {
        return exponent[f.node_cell[f.children[2 * e]]] + exponent[f.node_cell[f.children[2 * e + 1]]];
    }
    // A power of two that single precision has, too.
    static Real scale_of(int64_t shift) { return static_cast<Real>(power_of_two(std::min<int64_t>(shift, 120))); }
    Index left_of(Index e) const { return offsets[f.children[2 * e]]; }
    Index right_of(Index e) const { return offsets[f.children[2 * e + 1]]; }

    // A node's posterior, or what it would be if weights had no sign.
    double mass_of(Index node) const {
        double mass = 0;
#pragma omp simd reduction(+ : mass)
        for (Index x = offsets[node]; x < offsets[node + 1]; ++x) mass += std::abs(inside[x] * outside[x]);
        return mass;
    }

    // Bring the largest absolute value of a cell's vectors into [1/2, 1); returns the cell's exponent.
    int64_t rescale(Index cell, int64_t reference) {
        const Index first = offsets[f.node_offsets[cell]], last = offsets[f.node_offsets[cell + 1]];
        Real largest = 0;
#pragma omp simd reduction(max : largest)
        for (Index x = first; x < last; ++x) largest = std::max(largest, std::abs(inside[x]));
        if (largest == 0) return no_exponent;
        const int shift = binary_exponent(largest);
        const double scale = power_of_two(-shift);  // in double precision: it may be beyond single
        for (Index x = first; x < last; ++x) inside[x] = static_cast<Real>(inside[x] * scale);
        return reference + shift;
    }

    // Ask for the weights of a group's rule, wherever they are: they are needed a few groups later.
    void prefetch(Index group) const {
#if defined(__GNUC__)
        const int32_t r = f.group_rule[group];
        const auto fetch = [](const void *first, Index bytes) {
            for (Index x = 0; x < bytes; x += 64) __builtin_prefetch(static_cast<const char *>(first) + x);
        };
        if (!g.small.empty()) fetch(g.small.data() + 64 * r, 64 * sizeof(Real));
        else if (g.row_offsets[r] < g.row_offsets[r + 1]) {
            const RowTensor &t = g.rows[g.row_offsets[r]];
            fetch(g.row_pairs.data() + t.first_pair, std::min<Index>(t.n_pairs * sizeof(PlacePair), 256));
            fetch(g.row_weights.data() + t.by_pair, std::min<Index>(t.n_pairs * row_width(t.m_a) * sizeof(Real), 1024));
        }
#endif
    }

    void inside_group(Index group) {
        const Index first = f.group_offsets[group], last = f.group_offsets[group + 1];
        const int32_t r = f.group_rule[group];
        Real *target = inside + offsets[f.group_parent[group]];
        if (!g.small.empty()) return inside_small(first, last, g.small.data() + 64 * r, target);
        for (Index p = g.pair_offsets[r]; p < g.pair_offsets[r + 1]; ++p) {
            const StatePair pair = g.pairs[p];
            Real total = 0;
            for (Index e = first; e < last; ++e)
                total += factor[e] * inside[left_of(e) + pair.left] * inside[right_of(e) + pair.right];
            if (total == 0) continue;
            for (Index x = pair.first; x < g.pairs[p + 1].first; ++x) target[g.weights[x].parent] += g.weights[x].value * total;
        }
        for (Index t = g.row_offsets[r]; t < g.row_offsets[r + 1]; ++t) inside_rows(first, last, g.rows[t], target);
        for (Index d = g.dense_offsets[r]; d < g.dense_offsets[r + 1]; ++d) inside_dense(first, last, g.dense[d], target);
    }

    void outside_group(Index group) {
        const Index first = f.group_offsets[group], last = f.group_offsets[group + 1];
        const int32_t r = f.group_rule[group];
        const Real *source = outside + offsets[f.group_parent[group]];
        if (!g.small.empty()) return outside_small(first, last, g.small.data() + 64 * r, source);
        for (Index p = g.pair_offsets[r]; p < g.pair_offsets[r + 1]; ++p) {
            const StatePair pair = g.pairs[p];
            Real total = 0;
            for (Index x = pair.first; x < g.pairs[p + 1].first; ++x) total += g.weights[x].value * source[g.weights[x].parent];
            if (total == 0) continue;
            for (Index e = first; e < last; ++e) {
                const Index left = left_of(e) + pair.left, right = right_of(e) + pair.right;
                const Real scaled = total * factor[e], for_left = scaled * inside[right];
                posterior[e] += static_cast<double>(for_left) * inside[left];
                outside[right] += scaled * inside[left];
                outside[left] += for_left;
            }
        }
        for (Index t = g.row_offsets[r]; t < g.row_offsets[r + 1]; ++t) outside_rows(first, last, g.rows[t], source);
        for (Index d = g.dense_offsets[r]; d < g.dense_offsets[r + 1]; ++d) outside_dense(first, last, g.dense[d], source);
    }

    void inside_rows(Index first, Index last, const RowTensor &t, Real *target) {
        const PlacePair *pairs = g.row_pairs.data() + t.first_pair;
        Real *__restrict met = meeting;
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e), *right = inside + right_of(e), scale = factor[e];
            if (e == first)
                for (Index p = 0; p < t.n_pairs; ++p) met[p] = scale * left[pairs[p].left] * right[pairs[p].right];
            else
                for (Index p = 0; p < t.n_pairs; ++p) met[p] += scale * left[pairs[p].left] * right[pairs[p].right];
        }
        const Index width = row_width(t.m_a);
        std::copy_n(target + t.place_a, t.m_a, parent_vector);
        std::fill_n(parent_vector + t.m_a, width - t.m_a, Real(0));
        add_rows(parent_vector, met, g.row_weights.data() + t.by_pair, t.n_pairs, width);
        std::copy_n(parent_vector, t.m_a, target + t.place_a);
    }

    void outside_rows(Index first, Index last, const RowTensor &t, const Real *source) {
        const PlacePair *pairs = g.row_pairs.data() + t.first_pair;
        const Index width = row_width(t.n_pairs);
        Real *given = meeting;
        std::fill_n(given, width, Real(0));
        add_rows(given, source + t.place_a, g.row_weights.data() + t.by_parent, t.m_a, width);
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e), *right = inside + right_of(e), scale = factor[e];
            Real *left_out = outside + left_of(e), *right_out = outside + right_of(e);
            double total = posterior[e];
            for (Index p = 0; p < t.n_pairs;) {
                const int32_t b = pairs[p].left;
                const Real value = left[b];
                Real sum = left_out[b];
                do {
                    const int32_t c = pairs[p].right;
                    const Real scaled = given[p] * scale, for_left = scaled * right[c];
                    total += static_cast<double>(for_left) * value;
                    right_out[c] += scaled * value;
                    sum += for_left;
                } while (++p < t.n_pairs && pairs[p].left == b);
                left_out[b] = sum;
            }
            posterior[e] = total;
        }
    }

    // Four states each: sum the outer products of all edges, then apply the tensor (4, 4, 4), parents last.
    void inside_small(Index first, Index last, const Real *__restrict tensor, Real *__restrict target) {
        Real met[16] = {};
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e), *right = inside + right_of(e);
            for (int b = 0; b < 4; ++b) {
                const Real value = factor[e] * left[b];
                for (int c = 0; c < 4; ++c) met[4 * b + c] += value * right[c];
            }
        }
        Real sum[4] = {target[0], target[1], target[2], target[3]};
        for (int y = 0; y < 16; ++y)
            for (int a = 0; a < 4; ++a) sum[a] += met[y] * tensor[4 * y + a];
        for (int a = 0; a < 4; ++a) target[a] = sum[a];
    }

    void outside_small(Index first, Index last, const Real *__restrict tensor, const Real *source) {
        Real given[16];
        for (int y = 0; y < 16; ++y) {
            given[y] = 0;
            for (int a = 0; a < 4; ++a) given[y] += source[a] * tensor[4 * y + a];
        }
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e), *right = inside + right_of(e);
            Real *left_out = outside + left_of(e), *right_out = outside + right_of(e);
            Real to_right[4] = {};
            double total = 0;
            for (int b = 0; b < 4; ++b) {
                Real partial = 0;
                for (int c = 0; c < 4; ++c) partial += given[4 * b + c] * right[c];
                for (int c = 0; c < 4; ++c) to_right[c] += given[4 * b + c] * left[b];
                left_out[b] += factor[e] * partial;
                total += static_cast<double>(partial) * left[b];
            }
            for (int c = 0; c < 4; ++c) right_out[c] += factor[e] * to_right[c];
            posterior[e] += factor[e] * total;
        }
    }

    void inside_dense(Index first, Index last, const DenseTensor<Real> &t, Real *target) {
        const Index size = static_cast<Index>(t.m_b) * t.m_c;
        Real *__restrict met = meeting;
        std::fill_n(met, size, Real(0));
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e) + t.place_b, *right = inside + right_of(e) + t.place_c;
            for (Index x = 0; x < t.m_b; ++x) {
                const Real value = factor[e] * left[x];
#pragma omp simd
                for (Index z = 0; z < t.m_c; ++z) met[x * t.m_c + z] += value * right[z];
            }
        }
        for (Index x = 0; x < t.m_a; ++x) {
            const Real *row = t.values + x * size;
            Real total = 0;
#pragma omp simd reduction(+ : total)
            for (Index z = 0; z < size; ++z) total += row[z] * met[z];
            target[t.place_a + x] += total;
        }
    }

    void outside_dense(Index first, Index last, const DenseTensor<Real> &t, const Real *source) {
        const Index size = static_cast<Index>(t.m_b) * t.m_c;
        Real *__restrict given = meeting;
        std::fill_n(given, size, Real(0));
        for (Index x = 0; x < t.m_a; ++x) {
            const Real value = source[t.place_a + x];
            const Real *row = t.values + x * size;
#pragma omp simd
            for (Index z = 0; z < size; ++z) given[z] += value * row[z];
        }
        for (Index e = first; e < last; ++e) {
            const Real *left = inside + left_of(e) + t.place_b, *right = inside + right_of(e) + t.place_c;
            Real *left_out = outside + left_of(e) + t.place_b, *right_out = outside + right_of(e) + t.place_c;
            double total = 0;
            for (Index x = 0; x < t.m_b; ++x) {
                const Real *row = given + x * t.m_c;
                const Real scaled = factor[e] * left[x];
                Real partial = 0;
#pragma omp simd reduction(+ : partial)
                for (Index z = 0; z < t.m_c; ++z) partial += row[z] * right[z];
#pragma omp simd
                for (Index z = 0; z < t.m_c; ++z) right_out[z] += scaled * row[z];
                partial *= factor[e];
                left_out[x] += partial;
                total += static_cast<double>(partial) * left[x];
            }
            posterior[e] += total;
        }
    }
};

}  // namespace

template <class Real>
double fine_pass(const FineGrammar<Real> &grammar, const std::vector<const Leaf *> &leaves, std::size_t row,
                 const Forest &forest, double negligible, FineMemory<Real> &memory) {
    FinePass<Real> pass(grammar, forest, memory);
    pass.place_leaves(leaves, row);
    pass.fill_inside();
    const double total = pass.start_outside();
    if (total == 0 || !std::isfinite(total)) return 0;
    pass.fill_outside(negligible);
    pass.node_posteriors(memory.node_posterior.acquire(forest.n_nodes() + 1));
    return total;
}

template <class Real>
bool filter_forest(const Forest &forest, Index n_interminals, double threshold, FineMemory<Real> &memory, Forest &smaller) {
    const Index n_nodes = forest.n_nodes(), n_groups = forest.n_groups(), n_edges = forest.n_edges();
    const double *posterior = memory.edge_posterior.data();
    uint8_t *alive = memory.alive.acquire(n_nodes + 1), *reached = memory.reached.acquire(n_nodes + 1);
    uint8_t *kept = memory.kept.acquire(n_edges + 1);
    int32_t *number = memory.number.acquire(n_nodes + 1);
    for (Index v = 0; v < n_nodes; ++v) alive[v] = forest.node_symbol[v] >= n_interminals;
    for (Index group = n_groups - 1; group >= 0; --group)  // bottom-up
        for (Index e = forest.group_offsets[group]; e < forest.group_offsets[group + 1]; ++e) {
            kept[e] = std::abs(posterior[e]) >= threshold && alive[forest.children[2 * e]] && alive[forest.children[2 * e + 1]];
            alive[forest.group_parent[group]] |= kept[e];
        }
    for (Index v = 0; v < n_nodes; ++v) reached[v] = v >= forest.first_root() && v < forest.end_of_roots() && alive[v];
    for (Index group = 0; group < n_groups; ++group)
        for (Index e = forest.group_offsets[group]; e < forest.group_offsets[group + 1]; ++e) {
            kept[e] &= reached[forest.group_parent[group]];
            reached[forest.children[2 * e]] |= kept[e];
            reached[forest.children[2 * e + 1]] |= kept[e];
        }
    if (std::none_of(reached + forest.first_root(), reached + forest.end_of_roots(), [](uint8_t is) { return is; }))
        return false;
    smaller.n = forest.n;
    smaller.node_offsets.resize(forest.node_offsets.size());
    smaller.node_symbol.clear(), smaller.node_cell.clear(), smaller.group_parent.clear(), smaller.group_rule.clear();
    smaller.group_offsets.assign(1, 0);
    smaller.children.clear();
    for (std::size_t cell = 0; cell + 1 < forest.node_offsets.size(); ++cell) {
        smaller.node_offsets[cell] = smaller.n_nodes();
        for (Index v = forest.node_offsets[cell]; v < forest.node_offsets[cell + 1]; ++v)
            if (reached[v]) {
                number[v] = static_cast<int32_t>(smaller.n_nodes());
                smaller.node_symbol.push_back(forest.node_symbol[v]);
                smaller.node_cell.push_back(forest.node_cell[v]);
            }
    }
    smaller.node_offsets.back() = smaller.n_nodes();
    for (Index group = 0; group < n_groups; ++group) {
        for (Index e = forest.group_offsets[group]; e < forest.group_offsets[group + 1]; ++e)
            if (kept[e]) {
                smaller.children.push_back(number[forest.children[2 * e]]);
                smaller.children.push_back(number[forest.children[2 * e + 1]]);
            }
        if (smaller.n_edges() == smaller.group_offsets.back()) continue;
        smaller.group_parent.push_back(number[forest.group_parent[group]]);
        smaller.group_rule.push_back(forest.group_rule[group]);
        smaller.group_offsets.push_back(smaller.n_edges());
    }
    return true;
}

template double fine_pass(const FineGrammar<float> &, const std::vector<const Leaf *> &, std::size_t, const Forest &, double,
                          FineMemory<float> &);
template double fine_pass(const FineGrammar<double> &, const std::vector<const Leaf *> &, std::size_t, const Forest &, double,
                          FineMemory<double> &);
template bool filter_forest(const Forest &, Index, double, FineMemory<float> &, Forest &);
template bool filter_forest(const Forest &, Index, double, FineMemory<double> &, Forest &);

}  // namespace sapwood
