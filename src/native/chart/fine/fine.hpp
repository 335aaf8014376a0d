// Inside, outside and rule posteriors with state vectors, over the edges that survived pruning.
#pragma once

#include <vector>

#include "chart/grammar.hpp"
#include "core/memory.hpp"

namespace sapwood {

// The vectors of a forest's nodes, `inside` and `outside` from `offsets[node]` on, scaled as in the coarse pass by the
// exponents of their cells; and the posteriors of nodes and edges.
template <class Real> struct FineMemory {
    Buffer<int64_t> offsets, exponent;
    Buffer<Real> inside, outside, meeting, parent;
    Buffer<Real> factor;
    Buffer<double> node_posterior, edge_posterior;
    Buffer<uint8_t> alive, reached, kept;
    Buffer<int32_t> number;
    Budget *budget = nullptr;

    template <class Visit> void for_each_buffer(Visit visit) {
        for (auto *b : {&offsets, &exponent}) visit(*b);
        for (auto *b : {&inside, &outside, &meeting, &parent, &factor}) visit(*b);
        for (auto *b : {&node_posterior, &edge_posterior}) visit(*b);
        for (auto *b : {&alive, &reached, &kept}) visit(*b);
        visit(number);
    }
};

// Run a grammar over a forest, given the words' row number `row`; nodes whose posterior turns out to be `negligible` or
// less are not expanded further. Returns the scaled probability of the sentence, whose exponent is that of the top cell:
// 0 or no number if there is no parse.
template <class Real>
double fine_pass(const FineGrammar<Real> &grammar, const std::vector<const Leaf *> &leaves, std::size_t row,
                 const Forest &forest, double negligible, FineMemory<Real> &memory);

// Keep the edges whose posterior (its absolute value: a real-valued grammar with few states can be wrong about the sign)
// reaches the threshold, and of those what a whole tree can use. Returns false, and leaves `smaller` as it comes, if no
// tree is left.
template <class Real>
bool filter_forest(const Forest &forest, Index n_interminals, double threshold, FineMemory<Real> &memory, Forest &smaller);

}  // namespace sapwood
