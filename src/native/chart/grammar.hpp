// Grammars as the parser sees them, and the words of a sentence.
#pragma once

#include <memory>
#include <vector>

#include "cell_pruner/features.hpp"
#include "core/views.hpp"

namespace sapwood {

template <class T> std::vector<T> copied(Vector<const T> values) {
    return std::vector<T>(values.data, values.data + values.size());
}

// The one-state grammar that prunes first. S symbols, the leaves' (preterminals) being the last; R rules, by pairs of
// children, and P pairs by left child; T tags and one more, the sentence's end on either side.
struct CoarseGrammar {
    Index n_symbols, n_interminals, n_rules, n_tags;
    std::vector<int32_t> rule_parent, rule_left, rule_right;  // (R)
    std::vector<double> rule_weight;                          // (R)
    std::vector<float> rule_weight_single;                    // (R)
    std::vector<int64_t> pair_offsets;                        // (S + 1): a left child's pairs
    std::vector<int32_t> pair_right;                          // (P)
    std::vector<int64_t> pair_rule_offsets;                   // (P + 1): a pair's rules
    std::vector<double> root, prior;                          // (S)

    // What pairs are worth: the largest weight times prior of their rules, the largest of all being 1. Symbols that
    // begin many pairs have a row (others -1) in a table (D, S) of them.
    Index n_dense;
    std::vector<float> pair_merit;      // (P)
    std::vector<int32_t> dense_row;     // (S)
    std::vector<float> dense_merit;     // (S, D): by right child
    std::vector<int32_t> pair_of_code;  // (D S + P): the pair of row d and right child c at d S + c, pair p at D S + p

    // Which tags stand next to each symbol (`sapwood.inference.chart.boundary_model`).
    std::vector<int32_t> tag;         // (S), -1 for interminals
    std::vector<double> tag_share;    // (S)
    std::vector<float> left, right;   // (T + 1, S)
    std::vector<double> transitions;  // (T + 1, T + 1)

    // What each symbol stands for: numbers of labels, those of tags behind all others.
    Index n_labels, n_phrase_labels;
    std::vector<int64_t> label_offsets;  // (S + 1)
    std::vector<int32_t> labels;

    std::shared_ptr<const CellPruner> cell_pruner;  // which cells are closed, null if none is

    template <class Real> const Real *weights() const {
        if constexpr (std::is_same_v<Real, float>) return rule_weight_single.data();
        else return rule_weight.data();
    }
};

// One weight of a rule tensor: the place of the parent's state in its node's vector.
template <class Real> struct Weight {
    int32_t parent;
    Real value;
};

// Children's places in their nodes' vectors, and where their weights begin.
struct StatePair {
    int32_t left, right;
    int64_t first;
};

// A rule tensor in which many pairs of child states have no weight, and those that have one have weights of many parent
// states: `by_pair` has them as (pairs, parent states), and `by_parent` the other way round, rows in whole vectors of
// `row_width` numbers. Pairs stand in the order of their places.
struct RowTensor {
    int32_t place_a, m_a, n_pairs;
    int64_t first_pair, by_pair, by_parent;
};

struct PlacePair {
    int32_t left, right;
};

constexpr Index row_width(Index size) { return (size + 7) / 8 * 8; }

// A rule tensor (m_a, m_b, m_c) that is better taken whole, and the places of its states in the nodes' vectors.
template <class Real> struct DenseTensor {
    int32_t place_a, place_b, place_c, m_a, m_b, m_c;
    const Real *values;
};

// A grammar with states over the coarse grammar's rules. A node's vector holds the states of all symbols that its
// coarse symbol stands for. Rule tensors are lists of weights by pairs of child states, those of coarse rule r from pair
// `pair_offsets[r]` on; each list ends where the next pair's begins. Others stand in `rows`, or without many zeros in `dense`.
template <class Real> struct FineGrammar {
    std::vector<int64_t> vector_sizes, symbol_offsets;  // (S), (S + 1)
    std::vector<Real> root;                             // over all states, by coarse symbol
    std::vector<int64_t> pair_offsets;                  // (R + 1)
    std::vector<StatePair> pairs;                       // one more than there are
    std::vector<Weight<Real>> weights;
    std::vector<int64_t> row_offsets;  // (R + 1)
    std::vector<RowTensor> rows;
    std::vector<PlacePair> row_pairs;
    std::vector<Real> row_weights;
    std::size_t n_in_rows = 0;           // weights in `rows`
    std::vector<int64_t> dense_offsets;  // (R + 1)
    std::vector<DenseTensor<Real>> dense;
    Index widest = 1, longest = 1;  // the most pairs of a tensor that is not a list, the most parent states of `rows`
    // Call `visit(a, b, c, weight)` for each weight of coarse rule r but those in `dense`, given places in the nodes' vectors.
    template <class Visit> void for_each_weight(Index r, Visit visit) const {
        for (Index p = pair_offsets[r]; p < pair_offsets[r + 1]; ++p)
            for (Index x = pairs[p].first; x < pairs[p + 1].first; ++x)
                visit(weights[x].parent, pairs[p].left, pairs[p].right, weights[x].value);
        for (Index t = row_offsets[r]; t < row_offsets[r + 1]; ++t)
            for (int32_t p = 0; p < rows[t].n_pairs; ++p)
                for (int32_t a = 0; a < rows[t].m_a; ++a) {
                    const PlacePair pair = row_pairs[rows[t].first_pair + p];
                    const Real weight = row_weights[rows[t].by_pair + p * row_width(rows[t].m_a) + a];
                    if (weight != 0) visit(rows[t].place_a + a, pair.left, pair.right, weight);
                }
    }

    // If no vector has more than four states: all tensors as (R, 4, 4, 4), child states first, parents last.
    std::vector<Real> small;
};

// A word's lexical weights: coarse ones by symbol, and under them vectors of the finer grammars (`rows`, one for each):
// those of symbol `symbols[x]` begin at `offsets[x]` of `rows`.
template <class Real> struct Row {
    std::vector<int64_t> offsets;
    std::vector<Real> values;
};

struct Leaf {
    std::vector<int32_t> symbols;
    std::vector<double> values;
    std::vector<Row<float>> single;
    std::vector<Row<double>> precise;
    bool fixed = false;  // whether a given tag must hold
    int32_t kind = 0;    // of the word, as features of cells see it

    template <class Real> const std::vector<Row<Real>> &rows() const {
        if constexpr (std::is_same_v<Real, float>) return single;
        else return precise;
    }
};

// What survives pruning; as `sapwood.inference.chart.chart.Forest`.
struct Forest {
    Index n = 0;
    std::vector<int64_t> node_offsets;
    std::vector<int32_t> node_symbol, node_cell;
    std::vector<int32_t> group_parent, group_rule;
    std::vector<int64_t> group_offsets;
    std::vector<int32_t> children;  // pairs

    Index n_nodes() const { return static_cast<Index>(node_symbol.size()); }
    Index n_groups() const { return static_cast<Index>(group_rule.size()); }
    Index n_edges() const { return static_cast<Index>(children.size()) / 2; }
    Index top() const { return n * (n - 1) / 2; }
    // The nodes over the whole sentence.
    Index first_root() const { return node_offsets[top()]; }
    Index end_of_roots() const { return node_offsets[top() + 1]; }
    // What it takes, vectors having up to twice the room that they need.
    std::size_t bytes() const { return bytes(node_offsets.size(), n_nodes(), n_groups(), n_edges()); }
    static std::size_t bytes(std::size_t cells, std::size_t nodes, std::size_t groups, std::size_t edges) {
        return 2 * (8 * cells + 8 * nodes + 16 * groups + 8 * edges);
    }
};

}  // namespace sapwood
