// Features are hashed, not numbered: a template, the symbol or rule that it is about, and what it sees of the words. What
// stands around a position is put together once a sentence (`Around`), so that a feature costs one multiplication and one
// look into the table of weights.
#include "forest_crf/forest_crf.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace sapwood {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();
// What a posterior that is not positive counts as.
constexpr double least = 1e-7;
constexpr uint64_t edge_of_sentence = 0x5bd1e995u;

// Mix a value into a hash.
inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
}

inline uint64_t last_mix(uint64_t key, uint64_t value) { return (key ^ value) * 0xd6e8feb86659fd93ull; }

// Lengths by powers of about the square root of two.
inline uint64_t length_class(Index length) {
    if (length <= 6) return static_cast<uint64_t>(length);
    return length <= 8 ? 7 : length <= 12 ? 8 : length <= 17 ? 9 : length <= 25 ? 10 : length <= 40 ? 11 : 12;
}

inline float log_of(double posterior) { return static_cast<float>(std::log(std::max(posterior, least))); }

// The span (i, j) of a cell.
inline std::pair<Index, Index> span_of(Index cell) {
    Index j = static_cast<Index>((std::sqrt(8.0 * static_cast<double>(cell) + 1) + 1) / 2);
    while (j * (j - 1) / 2 > cell) --j;
    while ((j + 1) * j / 2 <= cell) ++j;
    return {cell - j * (j - 1) / 2, j};
}

// Templates have numbers of their own; each is mixed with what it sees.
class Finder {
  public:
    Finder(const ForestCRF &crf, const CRFForest &small, Matrix<const uint32_t> words, CRFMemory &memory)
        : crf(crf), g(*small.symbols), f(small.forest), small(small), words(words), m(memory), groups(crf.groups) {}

    void run() {
        find_tags();
        find_contexts();
        m.places.clear(), m.bounds.clear();
        for (Index v = 0; v < f.n_nodes(); ++v) node(v);
        for (Index x = 0; x < f.n_groups(); ++x) group(x);
        for (Index x = 0; x < f.n_groups(); ++x)
            for (Index e = f.group_offsets[x]; e < f.group_offsets[x + 1]; ++e) edge(x, e);
        m.bounds.push_back(static_cast<int64_t>(m.places.size()));
    }

  private:
    const ForestCRF &crf;
    const CRFSymbols &g;
    const Forest &f;
    const CRFForest &small;
    Matrix<const uint32_t> words;
    CRFMemory &m;
    const uint32_t groups;
    Index n_left = 0, n_split = 0;  // contexts of a boundary

    bool on(uint32_t wanted) const { return (groups & wanted) == wanted; }
    uint64_t column(Index position, Index column) const {
        return position < 0 || position >= f.n ? edge_of_sentence + (position >= f.n) : words(position, column);
    }
    uint64_t word(Index position) const { return column(position, word_column); }
    uint64_t ending(Index position) const { return column(position, ending_column); }
    uint64_t shape(Index position) const { return column(position, shape_column); }
    uint64_t coarse_class(Index position) const { return column(position, class_column); }
    uint64_t fine_class(Index position) const { return column(position, fine_class_column); }
    uint64_t tag(Index position) const {
        return position < 0 || position >= f.n ? edge_of_sentence + (position >= f.n) : m.tags[position];
    }
    static uint64_t seen(uint64_t number, uint64_t one, uint64_t other = 0, uint64_t third = 0) {
        return mix(mix(mix(number * 0x632be59bd9b4e019ull + 1, one), other), third);
    }
    void add(uint64_t key, uint64_t value) { m.places.push_back(crf.place(last_mix(key, value))); }
    void begin() { m.bounds.push_back(static_cast<int64_t>(m.places.size())); }

    // The best tag of each word by the grammar's posteriors.
    void find_tags() {
        m.tags.assign(f.n, 0);
        for (Index i = 0; i < f.n; ++i) {
            const Index cell = cell_of(i, i + 1);
            double best = impossible;
            for (Index v = f.node_offsets[cell]; v < f.node_offsets[cell + 1]; ++v)
                if (f.node_symbol[v] >= g.n_interminals && small.mean_nodes[v] > best) {
                    best = small.mean_nodes[v];
                    m.tags[i] = g.tag_key[f.node_symbol[v]];
                }
        }
    }

    // What stands around each boundary between words, seen from the right (a span's beginning), from the left (its end), and
    // from both (a split).
    void find_contexts() {
        m.left.clear(), m.right.clear(), m.split.clear();
        for (Index at = 0; at <= f.n; ++at) {
            boundary(m.left, 0, at - 1, at, at + 1);
            boundary(m.right, 16, at, at - 1, at - 2);
            n_left = static_cast<Index>(m.left.size()) / (at + 1);
            splits(at - 1, at);
            n_split = static_cast<Index>(m.split.size()) / (at + 1);
        }
    }
    void boundary(std::vector<uint64_t> &found, uint64_t number, Index outer, Index inner, Index further) {
        if (on(of_words)) {
            found.push_back(seen(number + 1, word(inner)));
            found.push_back(seen(number + 2, word(outer)));
        }
        if (on(of_endings)) {
            found.push_back(seen(number + 3, ending(inner)));
            found.push_back(seen(number + 4, ending(outer)));
        }
        if (on(of_tags)) {
            found.push_back(seen(number + 5, tag(inner)));
            found.push_back(seen(number + 6, tag(outer)));
        }
        if (on(of_tags | of_pairs)) {
            found.push_back(seen(number + 7, tag(inner), tag(outer)));
            found.push_back(seen(number + 8, tag(inner), tag(further)));
        }
        if (on(of_endings | of_pairs)) found.push_back(seen(number + 9, ending(inner), ending(outer)));
        if (on(of_endings | of_tags | of_pairs)) found.push_back(seen(number + 10, tag(inner), ending(outer)));
        if (on(of_classes)) {
            found.push_back(seen(number + 11, fine_class(inner)));
            found.push_back(seen(number + 12, fine_class(outer)));
            if (on(of_pairs)) found.push_back(seen(number + 13, coarse_class(inner), coarse_class(outer)));
        }
    }
    void splits(Index before, Index after) {
        if (!on(of_splits)) return;
        if (on(of_words)) {
            m.split.push_back(seen(32, word(before)));
            m.split.push_back(seen(33, word(after)));
        }
        if (on(of_endings)) {
            m.split.push_back(seen(34, ending(before)));
            m.split.push_back(seen(35, ending(after)));
        }
        if (on(of_tags | of_pairs)) m.split.push_back(seen(36, tag(before), tag(after)));
        if (on(of_endings | of_pairs)) m.split.push_back(seen(37, ending(before), ending(after)));
        if (on(of_classes)) {
            m.split.push_back(seen(38, fine_class(before)));
            m.split.push_back(seen(39, fine_class(after)));
        }
    }

    void node(Index v) {
        begin();
        const auto [i, j] = span_of(f.node_cell[v]);
        const bool leaf = f.node_symbol[v] >= g.n_interminals;
        const uint64_t key = g.symbol_key[f.node_symbol[v]];
        if (on(of_posteriors))
            add(key, seen(48, static_cast<uint64_t>(static_cast<int64_t>(std::floor(-small.mean_nodes[v] * 2)))));
        if (leaf) return word_features(key, i);
        for (Index x = 0; x < n_left; ++x) add(key, m.left[i * n_left + x]);
        for (Index x = 0; x < n_left; ++x) add(key, m.right[j * n_left + x]);
        const uint64_t length = length_class(j - i);
        if (on(of_lengths)) {
            add(key, seen(49, length));
            if (on(of_tags)) add(key, seen(50, length, tag(i)));
            if (on(of_endings)) {
                add(key, seen(51, length, ending(i)));
                add(key, seen(52, length, ending(j - 1)));
            }
        }
        if (on(of_pairs | of_tags)) {
            add(key, seen(53, tag(i), tag(j - 1)));
            add(key, seen(54, tag(i - 1), tag(j)));
            if (j - i <= 4) {
                uint64_t all = 55;
                for (Index x = i; x < j; ++x) all = mix(all, tag(x));
                add(key, all);
            }
        }
        if (on(of_pairs | of_endings)) {
            add(key, seen(56, ending(i), ending(j - 1)));
            add(key, seen(57, ending(i - 1), ending(j)));
        }
        if (on(of_spelling)) {  // runs of shapes
            uint64_t all = 58, last = 0;
            for (Index x = i; x < j; ++x) {
                if (shape(x) != last) all = mix(all, shape(x));
                last = shape(x);
            }
            add(key, all);
        }
    }

    // A tag, with the phrases that begin and end with it.
    void word_features(uint64_t key, Index i) {
        if (on(of_words)) {
            add(key, seen(64, word(i)));
            add(key, seen(65, word(i - 1)));
            add(key, seen(66, word(i + 1)));
            if (on(of_pairs)) {
                add(key, seen(67, word(i), word(i - 1)));
                add(key, seen(68, word(i), word(i + 1)));
            }
        }
        if (on(of_tags)) {
            add(key, seen(69, tag(i - 1)));
            add(key, seen(70, tag(i + 1)));
            if (on(of_pairs)) {
                add(key, seen(71, tag(i - 1), tag(i + 1)));
                add(key, seen(72, tag(i - 1), tag(i - 2)));
                add(key, seen(73, tag(i + 1), tag(i + 2)));
                add(key, seen(74, word(i), tag(i - 1)));
                add(key, seen(75, word(i), tag(i + 1)));
            }
        }
        if (on(of_endings)) {
            add(key, seen(76, ending(i - 1)));
            add(key, seen(77, ending(i + 1)));
        }
        if (on(of_spelling)) {
            add(key, seen(78, shape(i)));
            for (Index x = lower_column; x < class_column; ++x) add(key, seen(80 + x, words(i, x)));
            add(key, seen(79, shape(i), i == 0));
        }
        if (on(of_classes)) {
            for (Index x = -1; x <= 1; ++x) {
                add(key, seen(121 + x, coarse_class(i + x)));
                add(key, seen(124 + x, fine_class(i + x)));
            }
            add(key, seen(126, shape(i), fine_class(i)));
        }
    }

    void group(Index number) {
        begin();
        if (!on(of_rules)) return;
        const auto [i, j] = span_of(f.node_cell[f.group_parent[number]]);
        const uint64_t key = g.rule_key[f.group_rule[number]];
        add(key, 96);
        if (on(of_words)) {
            add(key, seen(97, word(i)));
            add(key, seen(98, word(j - 1)));
        }
        if (on(of_endings)) {
            add(key, seen(99, ending(i)));
            add(key, seen(100, ending(j - 1)));
        }
        if (on(of_tags)) {
            add(key, seen(101, tag(i - 1)));
            add(key, seen(102, tag(j)));
        }
        if (on(of_lengths)) add(key, seen(103, length_class(j - i)));
    }

    void edge(Index number, Index e) {
        begin();
        const Index parent = f.group_parent[number];
        const auto [i, j] = span_of(f.node_cell[parent]);
        const Index k = span_of(f.node_cell[f.children[2 * e]]).second;
        const uint64_t label = g.symbol_key[f.node_symbol[parent]] + 1, rule = g.rule_key[f.group_rule[number]] + 1;
        for (Index x = 0; x < n_split; ++x) add(label, m.split[k * n_split + x]);
        if (on(of_lengths)) add(label, seen(112, length_class(k - i), length_class(j - k)));
        if (!on(of_rules)) return;
        for (Index x = 0; x < n_split; ++x) add(rule, m.split[k * n_split + x]);
        if (on(of_lengths)) add(rule, seen(113, length_class(k - i), length_class(j - k)));
        if (on(of_pairs | of_tags)) {
            add(rule, seen(114, tag(i), tag(k)));
            add(rule, seen(115, tag(k - 1), tag(j - 1)));
        }
        if (on(of_pairs | of_endings)) {
            add(rule, seen(116, ending(i), ending(k)));
            add(rule, seen(117, ending(k - 1), ending(j - 1)));
        }
    }
};

}  // namespace

void find_features(const ForestCRF &crf, const CRFForest &small, Matrix<const uint32_t> words, CRFMemory &memory) {
    Finder(crf, small, words, memory).run();
}

void select_edges(const ForestCRF &crf, const Forest &forest, const GrammarPosteriors &p, const SentenceView &sentence,
                  FineMemory<double> &filter, CRFForest &small) {
    double *edges = filter.edge_posterior.acquire(forest.n_edges() + 1);
    if (edges != p.edges) std::copy_n(p.edges, forest.n_edges(), edges);
    small.symbols = crf.symbols;
    small.old_nodes.clear(), small.old_edges.clear();
    const bool some = filter_forest(forest, crf.symbols->n_interminals, crf.threshold, filter, small.forest);
    if (!some) small.forest = forest;
    for (Index v = 0; v < forest.n_nodes(); ++v)
        if (!some || filter.reached[v]) small.old_nodes.push_back(static_cast<int32_t>(v));
    for (Index e = 0; e < forest.n_edges(); ++e)
        if (!some || filter.kept[e]) small.old_edges.push_back(static_cast<int32_t>(e));
    for (auto *values : {&small.mean_nodes, &small.mean_edges, &small.product_nodes, &small.product_edges, &small.others})
        values->clear();
    for (const int32_t v : small.old_nodes) small.mean_nodes.push_back(log_of(p.nodes[v]));
    for (const int32_t e : small.old_edges) small.mean_edges.push_back(log_of(p.edges[e]));
    if (sentence.tags.shape[0] > 0)
        for (Index v = 0; v < small.forest.n_nodes(); ++v) {
            const int32_t symbol = small.forest.node_symbol[v], column = crf.symbols->column[symbol];
            const Index cell = small.forest.node_cell[v];
            const bool leaf = symbol >= crf.symbols->n_interminals;
            small.others.push_back(column < 0 ? 0.0f
                                   : leaf     ? sentence.tags(span_of(cell).first, column)
                                              : sentence.spans(cell, column));
        }
    if (!p.log_nodes) return;
    const double share = 1.0 / static_cast<double>(p.members), floor = std::log(least);
    const auto mean = [&](double sum) { return static_cast<float>(std::max(sum * share, floor)); };
    for (const int32_t v : small.old_nodes) small.product_nodes.push_back(mean(p.log_nodes[v]));
    for (const int32_t e : small.old_edges) small.product_edges.push_back(mean(p.log_edges[e]));
}

void score_forest(const ForestCRF &crf, const CRFForest &small, Matrix<const uint32_t> words, CRFMemory &m) {
    const Forest &f = small.forest;
    find_features(crf, small, words, m);
    const Index n_nodes = f.n_nodes(), n_groups = f.n_groups(), n_edges = f.n_edges(), n_units = n_nodes + n_groups + n_edges;
    double *unit = m.unit_score.acquire(n_units + 1), *edge = m.edge_score.acquire(n_edges + 1);
    double *leaf = m.leaf_score.acquire(n_nodes + 1), *root = m.root_score.acquire(n_nodes + 1);
    for (Index u = 0; u < n_units; ++u) {
        double total = 0;
        for (Index x = m.bounds[u]; x < m.bounds[u + 1]; ++x) total += crf.weights[m.places[x]];
        unit[u] = total;
    }
    for (Index v = 0; v < n_nodes; ++v) {
        small.node_values(v, [&](int kind, double value) { unit[v] += crf.dense[kind] * value; });
        leaf[v] = f.node_symbol[v] >= small.symbols->n_interminals ? unit[v] : impossible;
        root[v] = small.can_be_root(v) ? 0.0 : impossible;
        small.root_values(v, [&](int kind, double value) { root[v] += crf.dense[kind] * value; });
    }
    for (Index group = 0; group < n_groups; ++group)
        for (Index e = f.group_offsets[group]; e < f.group_offsets[group + 1]; ++e) {
            edge[e] = unit[f.group_parent[group]] + unit[n_nodes + group] + unit[n_nodes + n_groups + e];
            small.edge_values(e, [&](int kind, double value) { edge[e] += crf.dense[kind] * value; });
        }
}

double run_crf(const ForestCRF &crf, const Forest &forest, const GrammarPosteriors &posteriors, const SentenceView &sentence,
               FineMemory<double> &filter, CRFMemory &m) {
    select_edges(crf, forest, posteriors, sentence, filter, m.small);
    score_forest(crf, m.small, sentence.words, m);
    const Forest &f = m.small.forest;
    return sum_forest(f, m.edge_score.data(), m.leaf_score.data(), m.root_score.data(), m.inside.acquire(f.n_nodes() + 1),
                      m.node_marginal.acquire(f.n_nodes() + 1), m.edge_marginal.acquire(f.n_edges() + 1));
}

double sum_forest(const Forest &f, const double *edge_score, const double *leaf_score, const double *root_score, double *inside,
                  double *node_marginal, double *edge_marginal) {
    const auto add = [](double one, double other) {
        if (one < other) std::swap(one, other);
        return other == impossible ? one : one + std::log1p(std::exp(other - one));
    };
    std::copy_n(leaf_score, f.n_nodes(), inside);
    for (Index g = f.n_groups() - 1; g >= 0; --g) {
        double &target = inside[f.group_parent[g]];
        for (Index e = f.group_offsets[g]; e < f.group_offsets[g + 1]; ++e)
            target = add(target, edge_score[e] + inside[f.children[2 * e]] + inside[f.children[2 * e + 1]]);
    }
    double total = impossible;
    for (Index v = f.first_root(); v < f.end_of_roots(); ++v) total = add(total, inside[v] + root_score[v]);
    std::fill_n(node_marginal, f.n_nodes(), 0.0);
    std::fill_n(edge_marginal, f.n_edges(), 0.0);
    if (total == impossible) return total;
    // Marginals by shares, top-down: a node's is that of all edges and the root above it.
    for (Index v = f.first_root(); v < f.end_of_roots(); ++v) {
        if (inside[v] > impossible && root_score[v] > impossible)
            node_marginal[v] = std::exp(inside[v] + root_score[v] - total);
    }
    for (Index g = 0; g < f.n_groups(); ++g) {
        const Index parent = f.group_parent[g];
        for (Index e = f.group_offsets[g]; e < f.group_offsets[g + 1]; ++e) {
            const int32_t left = f.children[2 * e], right = f.children[2 * e + 1];
            const double score = edge_score[e] + inside[left] + inside[right];
            const double share = node_marginal[parent] > 0 && score > impossible ? std::exp(score - inside[parent]) : 0.0;
            edge_marginal[e] = node_marginal[parent] * share;
            node_marginal[left] += edge_marginal[e];
            node_marginal[right] += edge_marginal[e];
        }
    }
    return total;
}

}  // namespace sapwood
