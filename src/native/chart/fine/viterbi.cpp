#include "chart/fine/viterbi.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sapwood {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

// For each place in the nodes' vectors the best log weight, and the edge and the children's places that give it.
struct Best {
    std::vector<double> score;
    std::vector<Index> left, right;

    explicit Best(Index size) : score(size, impossible), left(size, -1), right(size, -1) {}

    void offer(Index place, double value, Index b, Index c) {
        if (value > score[place]) score[place] = value, left[place] = b, right[place] = c;
    }
};

template <class Real>
void offer_group(const FineGrammar<Real> &g, const Forest &f, Index group, Vector<const int64_t> offsets, Best &best) {
    const int32_t r = f.group_rule[group];
    const Index parent = offsets[f.group_parent[group]];
    for (Index e = f.group_offsets[group]; e < f.group_offsets[group + 1]; ++e) {
        const Index left = offsets[f.children[2 * e]], right = offsets[f.children[2 * e + 1]];
        const auto offer = [&](Index a, Index b, Index c, Real weight) {
            const double below = best.score[left + b] + best.score[right + c];
            if (weight > 0 && below > impossible)
                best.offer(parent + a, std::log(static_cast<double>(weight)) + below, left + b, right + c);
        };
        if (!g.small.empty()) {
            const Real *tensor = g.small.data() + 64 * r;
            for (int y = 0; y < 64; ++y)
                if (tensor[y] > 0) offer(y % 4, y / 16, y / 4 % 4, tensor[y]);
            continue;
        }
        g.for_each_weight(r, offer);
        for (Index d = g.dense_offsets[r]; d < g.dense_offsets[r + 1]; ++d) {
            const DenseTensor<Real> &t = g.dense[d];
            const Real *weight = t.values;
            for (int32_t a = 0; a < t.m_a; ++a)
                for (int32_t b = 0; b < t.m_b; ++b)
                    for (int32_t c = 0; c < t.m_c; ++c) offer(t.place_a + a, t.place_b + b, t.place_c + c, *weight++);
        }
    }
}

}  // namespace

template <class Real>
std::pair<Array<int64_t>, Array<bool>> viterbi(const FineGrammar<Real> &g, const Forest &f, Index n_interminals,
                                               Vector<const int64_t> offsets, Vector<const Real> inside) {
    Best best(offsets[f.n_nodes()]);
    std::vector<Index> meaning(offsets[f.n_nodes()]);
    for (Index v = 0; v < f.n_nodes(); ++v)
        for (Index x = offsets[v]; x < offsets[v + 1]; ++x) {
            meaning[x] = g.symbol_offsets[f.node_symbol[v]] + x - offsets[v];
            if (f.node_symbol[v] >= n_interminals && inside[x] > 0) best.score[x] = std::log(static_cast<double>(inside[x]));
        }
    for (Index group = f.n_groups() - 1; group >= 0; --group) offer_group(g, f, group, offsets, best);
    Index root = -1;
    double most = impossible;
    for (Index x = offsets[f.first_root()]; x < offsets[f.end_of_roots()]; ++x) {
        const Real weight = g.root[meaning[x]];
        const double score = weight > 0 ? best.score[x] + std::log(static_cast<double>(weight)) : impossible;
        if (score > most) most = score, root = x;
    }
    std::vector<int64_t> order;
    std::vector<bool> leaf;
    std::vector<Index> waiting;
    if (root >= 0) waiting.push_back(root);
    while (!waiting.empty()) {
        const Index x = waiting.back();
        waiting.pop_back();
        order.push_back(meaning[x]);
        leaf.push_back(best.left[x] < 0);
        if (best.left[x] < 0) continue;
        waiting.push_back(best.right[x]);
        waiting.push_back(best.left[x]);
    }
    Array<bool> leaves(static_cast<Index>(leaf.size()));
    std::copy(leaf.begin(), leaf.end(), leaves.data.get());
    return {to_array(order), std::move(leaves)};
}

template std::pair<Array<int64_t>, Array<bool>> viterbi(const FineGrammar<float> &, const Forest &, Index,
                                                        Vector<const int64_t>, Vector<const float>);
template std::pair<Array<int64_t>, Array<bool>> viterbi(const FineGrammar<double> &, const Forest &, Index,
                                                        Vector<const int64_t>, Vector<const double>);

}  // namespace sapwood
