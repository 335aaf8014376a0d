// The coarse pass from beginning to end: how well symbols fit, inside, outside, forest.
#include <algorithm>
#include <cmath>
#include <limits>

#include "chart/coarse/pass.hpp"

namespace sapwood {
namespace {

// If the grammar makes a sentence less probable than this share of what its contexts let expect, their estimates of
// posteriors are too low.
constexpr double doubtful = 0.01;

}  // namespace

template <class Real> bool CoarsePass<Real>::run(Forest &forest) {
    Scaled expected;
    const bool prunes_cells = constraints.prune_cells && g.cell_pruner && n > 2;
    if (threshold > 0 && !constraints.name_symbols())  // of which the estimates would know nothing
        expected = estimate_merits(g, leaves, prunes_cells, m);
    left_merit = m.left_merit.acquire((n + 1) * n_symbols);
    right_merit = m.right_merit.acquire((n + 1) * n_symbols);
    left_exponent = m.left_exponent.acquire(n + 1);
    right_exponent = m.right_exponent.acquire(n + 1);
    if (!(expected.value > 0)) {
        expected = {};
        for (Index i = 0; i <= n; ++i) {
            std::copy(g.prior.begin(), g.prior.end(), left_merit + i * n_symbols);
            std::fill_n(right_merit + i * n_symbols, n_symbols, Real(1));
            left_exponent[i] = right_exponent[i] = 0;
        }
    }
    if (prunes_cells && expected.value > 0) prune_cells();
    least_exponent = expected.exponent;
    double total = 0;
    for (double assumed = expected.value;;) {
        least = threshold * assumed;
        total = inside();
        ++rounds;
        // If the grammar finds the sentence much less probable than was assumed, too much was left out.
        const int64_t apart = std::min<int64_t>(exponent[n_cells - n] - expected.exponent, 1000);
        const double found = total > 0 ? std::ldexp(total, static_cast<int>(std::max<int64_t>(apart, -100000))) : 0.0;
        if (assumed == 0 || found > doubtful * assumed) break;
        assumed = found;
    }
    if (total == 0) return false;
    outside(total);
    number_nodes(forest);
    // The forest, and what finer versions leave of it.
    if (m.budget) m.budget->charge(m.forest_bytes, 2 * Forest::bytes(n_cells, forest.n_nodes(), n_groups, n_edges));
    link_edges(forest);
    return true;
}

template <class Real> void CoarsePass<Real>::prune_cells() {
    int32_t *kinds = m.kinds.acquire(n);
    for (Index i = 0; i < n; ++i) kinds[i] = leaves[i]->kind;
    float *scores = m.cell_score.acquire(n_cells);
    std::fill_n(scores, n_cells, std::numeric_limits<float>::infinity());
    score_cells(g.cell_pruner->weights.data(), {m.best_tag.data(), kinds, n, g.cell_pruner->bits}, n, scores);
    cell_score = scores;
    limit_of_cells = g.cell_pruner->threshold;
}

template <class Real> void CoarsePass<Real>::list_entries(std::vector<Entry> &entries) const {
    for (Index i = 0; i < n; ++i)
        for (Index a = 0; a < n_starting[i]; ++a)
            for (Index j = i + 1; j <= n; ++j) {
                if (!holds(end_set(i, a), j)) continue;
                const int32_t s = starting[i * n_symbols + a];
                const Index at = start_run(i, a) + j;
                const double value = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                entries.push_back({static_cast<int32_t>(i), static_cast<int32_t>(j), s, by_start[at], exponent[cell_of(i, j)],
                                   value * by_start[at]});
            }
}

template <class Real>
bool coarse_forest(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   const Constraints &constraints, CoarseMemory<Real> &memory, Forest &forest) {
    return CoarsePass<Real>(grammar, leaves, threshold, constraints, memory).run(forest);
}

template <class Real>
int coarse_entries(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   CoarseMemory<Real> &memory, Forest &forest, std::vector<Entry> &entries) {
    const Constraints none{};
    CoarsePass<Real> pass(grammar, leaves, threshold, none, memory);
    if (pass.run(forest)) pass.list_entries(entries);
    return pass.rounds;
}

template int coarse_entries(const CoarseGrammar &, const std::vector<const Leaf *> &, double, CoarseMemory<float> &, Forest &,
                            std::vector<Entry> &);
template bool coarse_forest(const CoarseGrammar &, const std::vector<const Leaf *> &, double, const Constraints &,
                            CoarseMemory<float> &, Forest &);
template bool coarse_forest(const CoarseGrammar &, const std::vector<const Leaf *> &, double, const Constraints &,
                            CoarseMemory<double> &, Forest &);

}  // namespace sapwood
