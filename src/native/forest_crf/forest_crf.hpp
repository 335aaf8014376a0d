// Forest CRF: log-linear scores of trees by their words, next to the posteriors of the grammar.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "chart/fine/fine.hpp"
#include "chart/grammar.hpp"
#include "core/memory.hpp"

namespace sapwood {

// What each column of a sentence's word table (n, columns) has: numbers that stand for the word (or its class, if it is
// rare), its longest frequent ending, its shape, itself in lower case, its last 1 to 5 and first 1 to 3 characters, and its
// classes in plain text, a coarse and a fine one.
enum WordColumn {
    word_column,
    ending_column,
    shape_column,
    lower_column,
    endings_from,
    beginnings_from = endings_from + 5,
    class_column = beginnings_from + 3,
    fine_class_column,
    word_columns
};

// Kinds of features that can be left out.
enum FeatureGroup : uint32_t {
    of_words = 1,
    of_endings = 2,
    of_tags = 4,
    of_spelling = 8,
    of_lengths = 16,
    of_rules = 32,
    of_splits = 64,
    of_pairs = 128,
    of_posteriors = 256,
    of_classes = 512
};

// What numbers beside the features are multiplied by: logarithms of the grammar's posteriors, of edges, of the nodes above
// them, of leaves and of the root, as means over the members of an ensemble and as products; and what another scorer says
// of inner nodes and of leaves.
enum DenseWeight {
    edge_weight,
    parent_weight,
    leaf_weight,
    root_weight,
    posterior_kinds,
    other_inner = 2 * posterior_kinds,
    other_leaf,
    dense_weights
};

// One coarse grammar's S symbols and R rules. Keys are hashes of names, so that features are the same whatever the numbers
// of symbols are.
struct CRFSymbols {
    Index n_interminals;
    std::vector<uint64_t> symbol_key, tag_key, rule_key;  // (S), (S), (R)
    std::vector<uint8_t> is_root;                         // (S)
    std::vector<int32_t> column;  // (S): where another scorer has the symbol (over a word: of tags), or -1
};

// Weights of features, which are known by their hashes alone.
struct ForestCRF {
    std::vector<float> weights;  // (2 ** bits)
    int bits;
    uint32_t groups;
    double threshold;  // edges with a smaller posterior are left out before
    double dense[dense_weights];
    std::shared_ptr<const CRFSymbols> symbols;

    uint32_t place(uint64_t hash) const { return static_cast<uint32_t>(hash >> (64 - bits)); }
};

// A forest whose nodes and edges the CRF scores; logarithms of the grammar's posteriors (of products, where there are
// several grammars), and what another scorer says of the nodes, if there is one.
struct CRFForest {
    Forest forest;
    std::shared_ptr<const CRFSymbols> symbols;
    std::vector<float> mean_nodes, mean_edges, product_nodes, product_edges, others;
    std::vector<int32_t> old_nodes, old_edges;  // their numbers in the forest that it was made from

    // Call `visit(kind, value)` with what the dense weights of a node are multiplied by, as root too; and of an edge.
    template <class Visit> void node_values(Index v, Visit visit) const {
        const bool leaf = forest.node_symbol[v] >= symbols->n_interminals;
        posterior_values(leaf ? leaf_weight : parent_weight, mean_nodes, product_nodes, v, visit);
        if (!others.empty()) visit(leaf ? other_leaf : other_inner, others[v]);
    }
    template <class Visit> void root_values(Index v, Visit visit) const {
        posterior_values(root_weight, mean_nodes, product_nodes, v, visit);
    }
    template <class Visit> void edge_values(Index e, Visit visit) const {
        posterior_values(edge_weight, mean_edges, product_edges, e, visit);
    }
    bool can_be_root(Index v) const {
        return v >= forest.first_root() && v < forest.end_of_roots() && symbols->is_root[forest.node_symbol[v]];
    }

  private:
    template <class Visit>
    static void posterior_values(int kind, const std::vector<float> &mean, const std::vector<float> &product, Index x,
                                 Visit visit) {
        visit(kind, mean[x]);
        if (!product.empty()) visit(posterior_kinds + kind, product[x]);
    }
};

struct CRFMemory {
    CRFForest small;
    Buffer<double> unit_score, inside, node_marginal, edge_marginal, edge_score, leaf_score, root_score;
    std::vector<uint32_t> places;
    std::vector<int64_t> bounds;
    std::vector<uint64_t> left, right, split, tags;  // what stands around positions

    template <class Visit> void for_each_buffer(Visit visit) {
        for (auto *b : {&unit_score, &inside, &node_marginal, &edge_marginal, &edge_score, &leaf_score, &root_score}) visit(*b);
    }
};

// Posteriors of a forest's nodes and edges; the logarithms of products are null for a single grammar.
struct GrammarPosteriors {
    const double *nodes, *edges, *log_nodes, *log_edges;
    Index members;
};

// Those of a forest, as Python has them. Raises ValueError if their sizes are not the forest's.
inline GrammarPosteriors posteriors_of(const Forest &forest, Vector<const double> nodes, Vector<const double> edges,
                                       const std::optional<Vector<const double>> &log_nodes,
                                       const std::optional<Vector<const double>> &log_edges, Index members) {
    check_shape("nodes", nodes, forest.n_nodes());
    check_shape("edges", edges, forest.n_edges());
    if (members > 1 && !(log_nodes && log_edges)) throw nb::value_error("several members, but no log_nodes and log_edges");
    if (log_nodes) check_shape("log_nodes", *log_nodes, forest.n_nodes());
    if (log_edges) check_shape("log_edges", *log_edges, forest.n_edges());
    return {nodes.data, edges.data, log_nodes ? log_nodes->data : nullptr, log_edges ? log_edges->data : nullptr, members};
}

// What a sentence's words look like (n, word_columns), and what another scorer says of symbols over spans of several words
// (cells, columns) and over one (n, columns), which may be empty.
struct SentenceView {
    Matrix<const uint32_t> words;
    Matrix<const float> spans, tags;

    // Raise ValueError if they are not those of n words.
    [[gnu::noinline]] void check(Index n) const {
        check_shape("words", words, n, static_cast<Index>(word_columns));
        if (tags.shape[0] == 0) return;
        check_shape("spans", spans, n * (n + 1) / 2, any_size);
        check_shape("tags", tags, n, any_size);
    }
};

// Leave out what is improbable: fill `small`. `filter` is memory to work in.
void select_edges(const ForestCRF &crf, const Forest &forest, const GrammarPosteriors &posteriors, const SentenceView &sentence,
                  FineMemory<double> &filter, CRFForest &small);

// Fill the features of all units: nodes, groups of edges and edges, numbered in this order. Those of unit `u` are
// `places[bounds[u]] .. places[bounds[u + 1] - 1]`.
void find_features(const ForestCRF &crf, const CRFForest &small, Matrix<const uint32_t> words, CRFMemory &memory);

// Fill `edge_score` (its parent's part included), `leaf_score` (-inf at inner nodes) and `root_score` (-inf where there
// can be no root): a tree scores their sum.
void score_forest(const ForestCRF &crf, const CRFForest &small, Matrix<const uint32_t> words, CRFMemory &memory);

// All of it: the marginals of `memory.small.forest`'s nodes and edges. Returns the logarithm of the total.
double run_crf(const ForestCRF &crf, const Forest &forest, const GrammarPosteriors &posteriors, const SentenceView &sentence,
               FineMemory<double> &filter, CRFMemory &memory);

// Sum over all trees: fill `inside`, `node_marginal` and `edge_marginal`; returns the logarithm of the total, -inf
// if there is no tree.
double sum_forest(const Forest &forest, const double *edge_score, const double *leaf_score, const double *root_score,
                  double *inside, double *node_marginal, double *edge_marginal);

}  // namespace sapwood
