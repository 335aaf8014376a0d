// Choosing a tree from the posteriors of a forest.
#pragma once

#include <vector>

#include "inference/grammar.hpp"
#include "inference/memory.hpp"

namespace sapwood {

struct DecodeMemory {
    Buffer<double> best, leaf_score, edge_score, gain;
    Buffer<int64_t> choice;

    template <class Visit> void each(Visit visit) {
        for (auto *b : {&best, &leaf_score, &edge_score, &gain}) visit(*b);
        visit(choice);
    }
};

// How trees are scored: `max_rule` by the product of rule posteriors, `max_rule_sum` by their sum, `recall` by the sum of
// the nodes' posteriors.
enum class Decoder { max_rule, max_rule_sum, recall };

// Fill each node's best total score and chosen edge (-1 for leaves and dead ends). A derivation scores the sum of its
// edges' `edge_score`, its inner nodes' `gain` and its leaves' `leaf_score` (-inf for nodes that are no leaves).
void best_by_edges(const Forest &forest, const double *leaf_score, const double *edge_score, const double *gain,
                   double *best, int64_t *choice);

// Return the symbols of the best tree's nodes in preorder; empty if there is none.
std::vector<int32_t> best_tree(const Forest &forest, const CoarseGrammar &grammar, Decoder decoder,
                               const double *node_posterior, const double *edge_posterior, DecodeMemory &memory);

// The same where logarithms of posteriors are given.
std::vector<int32_t> best_tree_of_logs(const Forest &forest, const CoarseGrammar &grammar, const double *log_nodes,
                                       const double *log_edges, DecodeMemory &memory);

}  // namespace sapwood
