// Dynamic programs over the packed forest. Edges come in groups, top-down by span; walking them backwards visits every
// child before its parents.
#include "chart/decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sapwood {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

std::vector<int32_t> follow_choices(const Forest &forest, const CoarseGrammar &grammar, const double *best,
                                    const int64_t *choice) {
    Index root = -1;
    for (Index v = forest.first_root(); v < forest.end_of_roots(); ++v)
        if (grammar.root[forest.node_symbol[v]] > 0 && best[v] > impossible && (root < 0 || best[v] > best[root])) root = v;
    std::vector<int32_t> order;
    if (root < 0) return order;
    std::vector<Index> waiting{root};
    while (!waiting.empty()) {
        const Index v = waiting.back();
        waiting.pop_back();
        order.push_back(forest.node_symbol[v]);
        if (choice[v] < 0) continue;
        waiting.push_back(forest.children[2 * choice[v] + 1]);
        waiting.push_back(forest.children[2 * choice[v]]);
    }
    return order;
}

std::vector<int32_t> solve(const Forest &forest, const CoarseGrammar &grammar, DecodeMemory &memory) {
    double *best = memory.best.acquire(forest.n_nodes() + 1);
    int64_t *choice = memory.choice.acquire(forest.n_nodes() + 1);
    best_by_edges(forest, memory.leaf_score.data(), memory.edge_score.data(), memory.gain.data(), best, choice);
    return follow_choices(forest, grammar, best, choice);
}

}  // namespace

void best_by_edges(const Forest &forest, const double *leaf_score, const double *edge_score, const double *gain, double *best,
                   int64_t *choice) {
    std::copy(leaf_score, leaf_score + forest.n_nodes(), best);
    std::fill_n(choice, forest.n_nodes(), int64_t{-1});
    for (Index group = forest.n_groups() - 1; group >= 0; --group) {
        const Index parent = forest.group_parent[group];
        for (Index e = forest.group_offsets[group]; e < forest.group_offsets[group + 1]; ++e) {
            const double value = edge_score[e] + gain[parent] + best[forest.children[2 * e]] + best[forest.children[2 * e + 1]];
            if (value > best[parent]) {
                best[parent] = value;
                choice[parent] = e;
            }
        }
    }
}

void score_phrases(const Forest &forest, const CoarseGrammar &grammar, const double *node_posterior, double *totals,
                   double *leaf_score, double *gain) {
    std::fill_n(totals, grammar.n_labels, 0.0);
    const auto each_label = [&](Index v, auto visit) {
        const int32_t symbol = forest.node_symbol[v];
        for (Index x = grammar.label_offsets[symbol]; x < grammar.label_offsets[symbol + 1]; ++x) visit(grammar.labels[x]);
    };
    for (std::size_t cell = 0; cell + 1 < forest.node_offsets.size(); ++cell) {
        const Index first = forest.node_offsets[cell], end = forest.node_offsets[cell + 1];
        for (Index v = first; v < end; ++v)
            each_label(v, [&](int32_t label) { totals[label] += std::max(node_posterior[v], 0.0); });
        for (Index v = first; v < end; ++v) {
            double score = 0;
            each_label(v, [&](int32_t label) {
                score += std::min(totals[label], 1.0) - (label < grammar.n_phrase_labels ? least_worth : 0.0);
            });
            const bool is_leaf = forest.node_symbol[v] >= grammar.n_interminals;
            leaf_score[v] = is_leaf ? score : impossible;
            gain[v] = is_leaf ? 0.0 : score;
        }
        for (Index v = first; v < end; ++v) each_label(v, [&](int32_t label) { totals[label] = 0; });
    }
}

std::vector<int32_t> best_tree(const Forest &forest, const CoarseGrammar &grammar, Decoder decoder,
                               const double *node_posterior, const double *edge_posterior, DecodeMemory &memory) {
    double *leaf_score = memory.leaf_score.acquire(forest.n_nodes() + 1), *gain = memory.gain.acquire(forest.n_nodes() + 1);
    double *edge_score = memory.edge_score.acquire(forest.n_edges() + 1);
    if (decoder == Decoder::f1) {
        score_phrases(forest, grammar, node_posterior, memory.labels.acquire(grammar.n_labels + 1), leaf_score, gain);
        std::fill_n(edge_score, forest.n_edges(), 0.0);
        return solve(forest, grammar, memory);
    }
    const bool by_logs = decoder == Decoder::max_rule;
    const auto score = [&](double posterior) {
        return by_logs ? std::log(std::max(posterior, 0.0)) : std::max(posterior, 0.0);
    };
    for (Index v = 0; v < forest.n_nodes(); ++v) {
        const bool is_leaf = forest.node_symbol[v] >= grammar.n_interminals;
        leaf_score[v] = is_leaf ? score(node_posterior[v]) : impossible;
        gain[v] = decoder == Decoder::recall ? std::max(node_posterior[v], 0.0) : 0.0;
    }
    for (Index e = 0; e < forest.n_edges(); ++e) edge_score[e] = decoder == Decoder::recall ? 0.0 : score(edge_posterior[e]);
    return solve(forest, grammar, memory);
}

std::vector<int32_t> best_tree_of_logs(const Forest &forest, const CoarseGrammar &grammar, const double *log_nodes,
                                       const double *log_edges, DecodeMemory &memory) {
    double *leaf_score = memory.leaf_score.acquire(forest.n_nodes() + 1), *gain = memory.gain.acquire(forest.n_nodes() + 1);
    double *edge_score = memory.edge_score.acquire(forest.n_edges() + 1);
    for (Index v = 0; v < forest.n_nodes(); ++v) {
        leaf_score[v] = forest.node_symbol[v] >= grammar.n_interminals ? log_nodes[v] : impossible;
        gain[v] = 0;
    }
    std::copy(log_edges, log_edges + forest.n_edges(), edge_score);
    return solve(forest, grammar, memory);
}

}  // namespace sapwood
