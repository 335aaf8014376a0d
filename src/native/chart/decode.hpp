// Choosing a tree from the posteriors of a forest.
#pragma once

#include <vector>

#include "chart/grammar.hpp"
#include "core/memory.hpp"

namespace sapwood {

struct DecodeMemory {
    Buffer<double> best, leaf_score, edge_score, gain, labels;
    Buffer<int64_t> choice;

    template <class Visit> void for_each_buffer(Visit visit) {
        for (auto *b : {&best, &leaf_score, &edge_score, &gain, &labels}) visit(*b);
        visit(choice);
    }
};

// How trees are scored: `max_rule` by the product of rule posteriors, `max_rule_sum` by their sum, `recall` by the sum of
// the nodes' posteriors, `f1` by how many of their phrases are expected to be right (`score_phrases`).
enum class Decoder { max_rule, max_rule_sum, recall, f1 };

// How probable a phrase must be to raise the F1 that is expected: half of what it is then.
constexpr double least_worth = 0.45;

// Fill each node's best total score and chosen edge (-1 for leaves and dead ends). A derivation scores the sum of its
// edges' `edge_score`, its inner nodes' `gain` and its leaves' `leaf_score` (-inf for nodes that are no leaves).
void best_by_edges(const Forest &forest, const double *leaf_score, const double *edge_score, const double *gain, double *best,
                   int64_t *choice);

// Fill what leaves and inner nodes score by the phrases that they stand for: the posterior of each, less `least_worth`. A
// phrase's posterior is the sum over all nodes of its span that stand for it, too. Tags, one for each word, count in full.
// `totals` has room for all labels.
void score_phrases(const Forest &forest, const CoarseGrammar &grammar, const double *node_posterior, double *totals,
                   double *leaf_score, double *gain);

// Return the symbols of the best tree's nodes in preorder; empty if there is none.
std::vector<int32_t> best_tree(const Forest &forest, const CoarseGrammar &grammar, Decoder decoder,
                               const double *node_posterior, const double *edge_posterior, DecodeMemory &memory);

// The same where logarithms of posteriors are given.
std::vector<int32_t> best_tree_of_logs(const Forest &forest, const CoarseGrammar &grammar, const double *log_nodes,
                                       const double *log_edges, DecodeMemory &memory);

}  // namespace sapwood
