// k-best trees of a forest, lazily (Huang and Chiang 2005, "Better k-best parsing").
#pragma once

#include <vector>

#include "chart/grammar.hpp"
#include "core/memory.hpp"

namespace sapwood {

// Trees as the nodes of the forest in preorder, 2 n - 1 each, the best first, with their scores. No other tree of the
// forest scores more than `bound`.
struct KBest {
    std::vector<std::vector<int32_t>> trees;
    std::vector<double> scores;
    double bound;
};

// The chart of one grammar of a mixture: vectors of the forest's nodes and exponents of the cells, as `fine_chart` gives
// them. Probabilities under the mixture are sums over its grammars.
template <class Real> struct MemberChart {
    const FineGrammar<Real> *grammar;
    Vector<const int64_t> offsets;
    Vector<const Real> inside;
    Vector<const int64_t> exponent;
};

// Logarithms of the posteriors of a forest's nodes and edges, and of the probability of the sentence.
struct LogPosteriors {
    Vector<const double> nodes, edges;
    double sentence;
};

// Return the trees with the largest sums of the scores of their edges, leaves and root. The list is exact.
KBest k_best_by_scores(const Forest &forest, Index n_interminals, Vector<const double> leaf_score,
                       Vector<const double> edge_score, Vector<const double> root_score, std::size_t count,
                       const Budget &budget);

// Return the most probable trees under a mixture of grammars, summed over states. Scores are logarithms of probabilities.
// The list is exact if the last score reaches the bound, which it does unless more than `limit` partial trees had to be
// scored.
template <class Real>
KBest k_best_of_grammars(const Forest &forest, Index n_interminals, const std::vector<MemberChart<Real>> &members,
                         const LogPosteriors &posteriors, std::size_t count, std::size_t limit, const Budget &budget);

}  // namespace sapwood
