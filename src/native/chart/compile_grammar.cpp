// Laying grammars and words out for the passes.
#include "chart/compile_grammar.hpp"

#include <algorithm>
#include <cmath>

namespace sapwood {
namespace {

// Tensors with fewer zeros than this share are taken whole, if they have this many weights.
constexpr double mostly_zero = 0.75;
constexpr Index worth_it = 64;
// Others are rows if each pair of children has weights of this share of the parent's states, of which there must be some.
constexpr double mostly_used = 0.25;
constexpr int32_t worth_rows = 4;

template <class Real> class Layout {
  public:
    Layout(const FineArrays<Real> &arrays, double least, FineGrammar<Real> &grammar) : in(arrays), least(least), g(grammar) {}

    void run() {
        g.vector_sizes = copied(in.vector_sizes);
        g.symbol_offsets = copied(in.symbol_offsets);
        g.root = copied(in.root);
        const Index n_rules = in.fine_offsets.size() - 1;
        g.pair_offsets.assign(1, 0);
        g.row_offsets.assign(1, 0);
        g.dense_offsets.assign(1, 0);
        if (std::all_of(g.vector_sizes.begin(), g.vector_sizes.end(), [](int64_t size) { return size <= 4; }) &&
            std::any_of(g.vector_sizes.begin(), g.vector_sizes.end(), [](int64_t size) { return size > 1; }))
            return fill_small(n_rules);
        sum_parents(n_rules);
        for (Index r = 0; r < n_rules; ++r) {
            for (Index f = in.fine_offsets[r]; f < in.fine_offsets[r + 1]; ++f) add_tensor(f, totals_of(r, f));
            g.pair_offsets.push_back(static_cast<int64_t>(g.pairs.size()));
            g.row_offsets.push_back(static_cast<int64_t>(g.rows.size()));
            g.dense_offsets.push_back(static_cast<int64_t>(g.dense.size()));
        }
        g.pairs.push_back({0, 0, static_cast<int64_t>(g.weights.size())});
        g.weights.shrink_to_fit();
        g.pairs.shrink_to_fit();
        g.row_pairs.shrink_to_fit();
        g.row_weights.shrink_to_fit();
    }

  private:
    const FineArrays<Real> &in;
    const double least;
    FineGrammar<Real> &g;
    std::vector<Index> used;
    std::vector<double> totals;  // over all states, by coarse symbol: what each has in all

    // What the parent states of a fine rule have in all, or would if weights had no sign.
    double *totals_of(Index r, Index f) { return totals.data() + g.symbol_offsets[in.rule_parent[r]] + in.fine_places(f, 0); }

    void sum_parents(Index n_rules) {
        totals.assign(g.symbol_offsets.back(), 0.0);
        for (Index r = 0; r < n_rules; ++r)
            for (Index f = in.fine_offsets[r]; f < in.fine_offsets[r + 1]; ++f) {
                const Real *weight = in.tensors.data + in.tensor_offsets[f];
                const Index size = static_cast<Index>(in.fine_states(f, 1)) * in.fine_states(f, 2);
                for (int32_t a = 0; a < in.fine_states(f, 0); ++a)
                    for (Index y = 0; y < size; ++y) totals_of(r, f)[a] += std::abs(*weight++);
            }
    }

    void add_tensor(Index f, const double *total) {
        const int32_t m_a = in.fine_states(f, 0), m_b = in.fine_states(f, 1), m_c = in.fine_states(f, 2);
        const int32_t place_a = in.fine_places(f, 0), place_b = in.fine_places(f, 1), place_c = in.fine_places(f, 2);
        const Index size = static_cast<Index>(m_b) * m_c, whole = m_a * size;
        const Real *tensor = in.tensors.data + in.tensor_offsets[f];
        const auto counts = [&](int32_t a, Real weight) { return std::abs(weight) > least * total[a]; };
        Index kept = 0;
        for (int32_t a = 0; a < m_a; ++a)
            for (Index y = 0; y < size; ++y) kept += counts(a, tensor[a * size + y]);
        if (whole >= worth_it && static_cast<double>(kept) > (1 - mostly_zero) * static_cast<double>(whole)) {
            g.dense.push_back({place_a, place_b, place_c, m_a, m_b, m_c, tensor});
            g.widest = std::max(g.widest, size);
            return;
        }
        used.clear();  // the pairs of children that have weights
        for (Index y = 0; y < size; ++y) {
            int32_t a = 0;
            while (a < m_a && !counts(a, tensor[a * size + y])) ++a;
            if (a < m_a) used.push_back(y);
        }
        const auto n_pairs = static_cast<int32_t>(used.size());
        if (m_a >= worth_rows && static_cast<double>(kept) >= mostly_used * m_a * n_pairs && kept > 0) {
            const auto at = static_cast<int64_t>(g.row_weights.size());
            const Index by_pair = n_pairs * row_width(m_a), by_parent = m_a * row_width(n_pairs);
            g.rows.push_back({place_a, m_a, n_pairs, static_cast<int64_t>(g.row_pairs.size()), at, at + by_pair});
            g.row_weights.resize(at + by_pair + by_parent);
            for (Index p = 0; p < n_pairs; ++p) {
                const Index y = used[p];
                g.row_pairs.push_back({static_cast<int32_t>(place_b + y / m_c), static_cast<int32_t>(place_c + y % m_c)});
                for (int32_t a = 0; a < m_a; ++a) {
                    const Real weight = tensor[a * size + y];
                    if (!counts(a, weight)) continue;
                    g.row_weights[at + p * row_width(m_a) + a] = weight;
                    g.row_weights[at + by_pair + a * row_width(n_pairs) + p] = weight;
                }
            }
            g.n_in_rows += kept;
            g.widest = std::max(g.widest, row_width(n_pairs));
            g.longest = std::max(g.longest, row_width(m_a));
            return;
        }
        for (const Index y : used) {
            g.pairs.push_back({static_cast<int32_t>(place_b + y / m_c), static_cast<int32_t>(place_c + y % m_c),
                               static_cast<int64_t>(g.weights.size())});
            for (int32_t a = 0; a < m_a; ++a)
                if (counts(a, tensor[a * size + y])) g.weights.push_back({place_a + a, tensor[a * size + y]});
        }
    }

    void fill_small(Index n_rules) {
        g.small.assign(64 * n_rules, Real(0));
        for (Index r = 0; r < n_rules; ++r)
            for (Index f = in.fine_offsets[r]; f < in.fine_offsets[r + 1]; ++f) {
                const Real *weight = in.tensors.data + in.tensor_offsets[f];
                for (int32_t a = 0; a < in.fine_states(f, 0); ++a)
                    for (int32_t b = 0; b < in.fine_states(f, 1); ++b)
                        for (int32_t c = 0; c < in.fine_states(f, 2); ++c)
                            g.small[64 * r + 16 * (in.fine_places(f, 1) + b) + 4 * (in.fine_places(f, 2) + c) +
                                    in.fine_places(f, 0) + a] += *weight++;
            }
    }
};

}  // namespace

template <class Real> std::shared_ptr<FineGrammar<Real>> compile_fine(const FineArrays<Real> &arrays, double least) {
    auto grammar = std::make_shared<FineGrammar<Real>>();
    Layout<Real>(arrays, least, *grammar).run();
    return grammar;
}

template <class Real>
void project_tensors(Matrix<const int64_t> places, Matrix<const int64_t> sizes, Vector<const int64_t> offsets,
                     Vector<const Real> tensors, Vector<const int64_t> groups, Vector<const double> shares,
                     Matrix<const int64_t> new_sizes, Vector<const int64_t> new_offsets, Vector<double> result) {
    for (Index r = 0; r < places.shape[0]; ++r) {
        const int64_t *parent = groups.data + places(r, 0), *left = groups.data + places(r, 1),
                      *right = groups.data + places(r, 2);
        const Index m_b = sizes(r, 1), m_c = sizes(r, 2), n_b = new_sizes(r, 1), n_c = new_sizes(r, 2);
        for (Index a = 0; a < sizes(r, 0); ++a)
            for (Index b = 0; b < m_b; ++b) {
                if (parent[a] < 0 || left[b] < 0) continue;
                double *target = result.data + new_offsets[r] + (parent[a] * n_b + left[b]) * n_c;
                const Real *source = tensors.data + offsets[r] + (a * m_b + b) * m_c;
                for (Index c = 0; c < m_c; ++c)
                    if (right[c] >= 0) target[right[c]] += shares[places(r, 0) + a] * source[c];
            }
    }
}

template void project_tensors(Matrix<const int64_t>, Matrix<const int64_t>, Vector<const int64_t>, Vector<const float>,
                              Vector<const int64_t>, Vector<const double>, Matrix<const int64_t>, Vector<const int64_t>,
                              Vector<double>);
template void project_tensors(Matrix<const int64_t>, Matrix<const int64_t>, Vector<const int64_t>, Vector<const double>,
                              Vector<const int64_t>, Vector<const double>, Matrix<const int64_t>, Vector<const int64_t>,
                              Vector<double>);
template std::shared_ptr<FineGrammar<float>> compile_fine(const FineArrays<float> &, double);
template std::shared_ptr<FineGrammar<double>> compile_fine(const FineArrays<double> &, double);

}  // namespace sapwood
