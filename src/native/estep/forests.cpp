// Inside, outside and expected counts on forests: sentences of which a set of trees is known and not the one.
//
// A forest is a packed set of trees. A node is a symbol over a span; it has groups, one for each rule, with an edge for
// each way to divide the span: a pair of nodes, or one node below a unary step. An edge may have a factor of its own, by
// which all its trees are multiplied. A tree is the forest in which each node has one edge, and then everything here is
// what `trees.cpp` finds, to rounding.
//
// Nodes of a shard are numbered leaves first (by preterminal and word), then inner nodes, children before parents. Inside
// vectors are scaled as those of trees, a power of two for each node. Outside vectors are divided by the probability of
// the sentence and multiplied by their node's power: inside times outside is the posterior itself.
#include <limits>
#include <vector>

#include "core/module.hpp"
#include "estep/trees.hpp"

namespace sapwood {
namespace {

// The exponent of a vector of zeros.
constexpr int32_t none = std::numeric_limits<int32_t>::min() / 4;
constexpr Index highest = 120;  // a power of two that single precision has, too

// A shard (`inference/estep/forests.py`).
struct ForestShard {
    Vector<const int32_t> symbol;  // (nodes)
    Index n_leaves;
    Vector<const int64_t> pairs, pair_nodes;         // leaves pair_nodes[q] .. pair_nodes[q + 1] - 1 are of pair pairs[q]
    Vector<const int64_t> node_groups;               // inner node i has groups node_groups[i] .. node_groups[i + 1] - 1
    Vector<const int32_t> group_rule, group_parent;  // (groups); a parent is a node
    Vector<const int64_t> group_edges;               // group g has edges group_edges[g] .. group_edges[g + 1] - 1
    Matrix<const int32_t> children;                  // (edges, 2): nodes; -1 behind the child of a unary step
    Vector<const float> factor;                      // (edges)
    Vector<const int32_t> rules;                     // groups of rule rules[s] are
    Vector<const int64_t> rule_groups, members;      // members[rule_groups[s] .. rule_groups[s + 1] - 1]
    Vector<const int32_t> roots;                     // sentence t has roots roots[root_offsets[t] ..], each with its factor
    Vector<const int64_t> root_offsets;
    Vector<const float> root_factor;

    static constexpr auto fields() {
        using S = ForestShard;
        return std::tuple{field("symbol", &S::symbol),
                          field("n_leaves", &S::n_leaves),
                          field("pairs", &S::pairs),
                          field("pair_nodes", &S::pair_nodes),
                          field("node_groups", &S::node_groups),
                          field("group_rule", &S::group_rule),
                          field("group_parent", &S::group_parent),
                          field("group_edges", &S::group_edges),
                          field("children", &S::children),
                          field("factor", &S::factor),
                          field("rules", &S::rules),
                          field("rule_groups", &S::rule_groups),
                          field("members", &S::members),
                          field("roots", &S::roots),
                          field("root_offsets", &S::root_offsets),
                          field("root_factor", &S::root_factor)};
    }

    Index n_inner() const { return node_groups.size() - 1; }
    [[gnu::noinline]] void check() const {
        check_shape("node_groups", node_groups, symbol.size() - n_leaves + 1);
        check_shape("pair_nodes", pair_nodes, pairs.size() + 1);
        check_shape("group_parent", group_parent, group_rule.size());
        check_shape("group_edges", group_edges, group_rule.size() + 1);
        check_shape("children", children, factor.size(), 2);
        check_shape("rule_groups", rule_groups, rules.size() + 1);
        check_shape("root_factor", root_factor, roots.size());
    }
    Index n_sentences() const { return root_offsets.size() - 1; }
};

template <class T> class ForestPass {
  public:
    ForestPass(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors)
        : s(shard), w(weights), v(vectors), meeting(weights.widest() * weights.widest()) {
        shard.check();
        weights.check();
    }

    void inside() {
        place_leaves(s, w, v);
        for (Index node = 0; node < s.n_leaves; ++node)
            if (is_zero(v.in(node), v.size(node))) v.exponent[node] = none;
        for (Index i = 0; i < s.n_inner(); ++i) {
            const Index node = s.n_leaves + i, first = s.node_groups[i], last = s.node_groups[i + 1];
            T *target = v.in(node);
            std::fill_n(target, v.size(node), T(0));
            Index reference = none;
            for (Index e = s.group_edges[first]; e < s.group_edges[last]; ++e) reference = std::max(reference, below(e));
            v.exponent[node] = none;
            if (reference <= none) continue;
            for (Index g = first; g < last; ++g) {
                const Index m_a = v.size(node), size = w.row_size(s.group_rule[g]);
                if (!combine_children(g, reference)) continue;
                const T *tensor = w.tensor(s.group_rule[g]);
                for (Index a = 0; a < m_a; ++a) target[a] += dot(tensor + a * size, meeting.data(), size);
            }
            if (is_zero(target, v.size(node))) continue;
            v.exponent[node] = static_cast<int32_t>(reference + rescale(target, target, v.size(node)));
        }
    }

    // Fill the logarithm of each sentence's probability, -inf where it is 0.
    void likelihoods(Vector<double> logs) const {
        for (Index t = 0; t < s.n_sentences(); ++t) {
            const auto [total, reference] = total_of(t);
            logs[t] = total > 0 ? std::log(total) + static_cast<double>(reference) * std::log(2.0)
                                : -std::numeric_limits<double>::infinity();
        }
    }

    void outside() {
        std::fill_n(v.out(0), v.offsets[s.symbol.size()], T(0));
        for (Index t = 0; t < s.n_sentences(); ++t) {
            const auto [total, reference] = total_of(t);
            if (!(total > 0)) continue;
            for (Index k = s.root_offsets[t]; k < s.root_offsets[t + 1]; ++k) {
                const Index node = s.roots[k];
                if (v.exponent[node] == none) continue;
                const double scale = root_scale(k, reference) / total;
                for (Index x = 0; x < v.size(node); ++x) v.out(node)[x] = static_cast<T>(scale * root_of(node)[x]);
            }
        }
        for (Index i = s.n_inner() - 1; i >= 0; --i) {
            const Index node = s.n_leaves + i;
            if (v.exponent[node] == none || is_zero(v.out(node), v.size(node))) continue;
            for (Index g = s.node_groups[i]; g < s.node_groups[i + 1]; ++g) hand_down(g, node);
        }
    }

    // As for trees (`trees.cpp`): sums of `outside (x) left inside (x) right inside`, made apart and then added.
    void rules(Index from, Index to, Vector<double> expected) {
        std::vector<double> sums;
        const int32_t *rules = s.rules.data;
        for (Index r = std::lower_bound(rules, rules + s.rules.size(), from) - rules; r < s.rules.size() && rules[r] < to;
             ++r) {
            const Index rule = rules[r], m_a = w.states(rule, 0), size = w.row_size(rule);
            sums.assign(m_a * size, 0.0);
            for (Index k = s.rule_groups[r]; k < s.rule_groups[r + 1]; ++k) {
                const Index g = s.members[k], node = s.group_parent[g];
                if (v.exponent[node] == none || is_zero(v.out(node), m_a) || !combine_children(g, v.exponent[node])) continue;
                for (Index a = 0; a < m_a; ++a)
                    axpy(sums.data() + a * size, static_cast<double>(v.out(node)[a]), meeting.data(), size);
            }
            axpy(expected.data + w.tensor_offsets[rule], 1.0, sums.data(), m_a * size);
        }
    }

    void inner(Vector<double> occupancy) const {
        for (Index node = s.n_leaves; node < s.symbol.size(); ++node)
            add_posterior(node, occupancy.data + w.state_offsets[s.symbol[node]]);
    }

    void leaves(Vector<const int64_t> slots, Vector<double> expected, Vector<double> occupancy) const {
        for (Index q = 0; q < s.pairs.size(); ++q) {
            double *target = expected.data + slots[q];
            for (Index node = s.pair_nodes[q]; node < s.pair_nodes[q + 1]; ++node) add_posterior(node, target);
            double *states = occupancy.data + w.state_offsets[s.symbol[s.pair_nodes[q]]];
            for (Index x = 0; x < slots[q + 1] - slots[q]; ++x) states[x] += target[x];
        }
    }

    // A root can stand below a unary step as well, so its outside vector is not asked.
    void roots(Vector<double> expected) const {
        for (Index t = 0; t < s.n_sentences(); ++t) {
            const auto [total, reference] = total_of(t);
            if (!(total > 0)) continue;
            for (Index k = s.root_offsets[t]; k < s.root_offsets[t + 1]; ++k) {
                const Index node = s.roots[k];
                if (v.exponent[node] == none) continue;
                const double scale = root_scale(k, reference) / total;
                double *target = expected.data + w.state_offsets[s.symbol[node]];
                for (Index x = 0; x < v.size(node); ++x) target[x] += scale * root_of(node)[x] * v.in(node)[x];
            }
        }
    }

  private:
    const ForestShard &s;
    const Weights<T> &w;
    const Vectors<T> &v;
    std::vector<T> meeting;

    static bool is_zero(const T *values, Index n) {
        return std::all_of(values, values + n, [](T value) { return value == 0; });
    }
    const double *root_of(Index node) const { return w.root.data + w.state_offsets[s.symbol[node]]; }
    double root_scale(Index k, Index reference) const {
        return s.root_factor[k] * power_of_two(v.exponent[s.roots[k]] - reference);
    }
    // The scaled probability of a sentence, and the exponent that belongs to it.
    std::pair<double, Index> total_of(Index t) const {
        Index reference = none;
        for (Index k = s.root_offsets[t]; k < s.root_offsets[t + 1]; ++k)
            reference = std::max<Index>(reference, v.exponent[s.roots[k]]);
        double total = 0;
        for (Index k = s.root_offsets[t]; k < s.root_offsets[t + 1]; ++k) {
            const Index node = s.roots[k];
            if (v.exponent[node] == none) continue;
            for (Index x = 0; x < v.size(node); ++x) total += root_scale(k, reference) * root_of(node)[x] * v.in(node)[x];
        }
        return {total, reference};
    }
    // The exponent of an edge's children together.
    Index below(Index e) const {
        const int32_t left = s.children(e, 0), right = s.children(e, 1);
        if (v.exponent[left] == none || (right >= 0 && v.exponent[right] == none)) return none;
        return v.exponent[left] + (right >= 0 ? v.exponent[right] : 0);
    }
    T scale_of(Index e, Index above) const {
        const Index sum = below(e);
        return sum == none ? T(0) : static_cast<T>(s.factor[e] * power_of_two(std::min(sum - above, highest)));
    }
    void add_posterior(Index node, double *target) const {
        const T *inside = v.in(node), *outside = v.out(node);
        for (Index x = 0; x < v.size(node); ++x) target[x] += static_cast<double>(inside[x]) * outside[x];
    }

    // Fill `meeting` (m_b m_c) with the sum over a group's edges of the products of the children's inside vectors, as
    // scaled as what stands above; false if it is zero.
    bool combine_children(Index g, Index above) {
        const Index rule = s.group_rule[g], m_b = w.states(rule, 1), m_c = w.states(rule, 2);
        std::fill_n(meeting.data(), m_b * m_c, T(0));
        bool any = false;
        for (Index e = s.group_edges[g]; e < s.group_edges[g + 1]; ++e) {
            const T scale = scale_of(e, above);
            if (scale == 0) continue;
            any = true;
            const T *left = v.in(s.children(e, 0));
            if (s.children(e, 1) < 0) {
                axpy(meeting.data(), scale, left, m_b);
                continue;
            }
            const T *right = v.in(s.children(e, 1));
            for (Index b = 0; b < m_b; ++b) axpy(meeting.data() + b * m_c, scale * left[b], right, m_c);
        }
        return any;
    }

    void hand_down(Index g, Index node) {
        const Index rule = s.group_rule[g], m_b = w.states(rule, 1), m_c = w.states(rule, 2);
        contract(w.tensor(rule), v.out(node), v.size(node), meeting.data(), m_b * m_c);
        for (Index e = s.group_edges[g]; e < s.group_edges[g + 1]; ++e) {
            const T scale = scale_of(e, v.exponent[node]);
            if (scale == 0) continue;
            const int32_t left = s.children(e, 0), right = s.children(e, 1);
            if (right < 0) {
                axpy(v.out(left), scale, meeting.data(), m_b);
                continue;
            }
            for (Index b = 0; b < m_b; ++b) {
                v.out(left)[b] += scale * dot(meeting.data() + b * m_c, v.in(right), m_c);
                axpy(v.out(right), scale * v.in(left)[b], meeting.data() + b * m_c, m_c);
            }
        }
    }
};

template <class T>
void forest_inside(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> logs) {
    vectors.check(shard.symbol.size(), false);
    check_shape("log_likelihoods", logs, shard.n_sentences());
    ForestPass<T> pass(shard, weights, vectors);
    pass.inside();
    pass.likelihoods(logs);
}

template <class T>
void forest_outside(const ForestShard &shard, const Weights<T> &weights, Vector<const double>, const Vectors<T> &vectors) {
    vectors.check(shard.symbol.size());
    ForestPass<T>(shard, weights, vectors).outside();
}

template <class T>
void forest_rules(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Index first, Index last,
                  Vector<double> expected) {
    vectors.check(shard.symbol.size());
    weights.check_rules(first, last, expected.size());
    ForestPass<T>(shard, weights, vectors).rules(first, last, expected);
}

template <class T>
void forest_inner(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> occupancy) {
    vectors.check(shard.symbol.size());
    check_shape("occupancy", occupancy, weights.n_states());
    ForestPass<T>(shard, weights, vectors).inner(occupancy);
}

template <class T>
void forest_leaves(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<const int64_t> slots,
                   Vector<double> expected, Vector<double> occupancy) {
    vectors.check(shard.symbol.size());
    check_shape("slots", slots, shard.pairs.size() + 1);
    check_shape("expected", expected, slots[shard.pairs.size()]);
    check_shape("occupancy", occupancy, weights.n_states());
    ForestPass<T>(shard, weights, vectors).leaves(slots, expected, occupancy);
}

template <class T>
void forest_roots(const ForestShard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> expected) {
    vectors.check(shard.symbol.size());
    check_shape("expected", expected, weights.n_states());
    ForestPass<T>(shard, weights, vectors).roots(expected);
}

// Keep of the edges (parent, left, right or -1), children's before parents', those that a whole tree can use, and of the
// nodes what is left.
void keep_whole(Vector<const bool> leaf, Vector<const bool> root, Matrix<const int32_t> edges, Vector<bool> kept_edges,
                Vector<bool> kept_nodes) {
    std::vector<char> alive(leaf.data, leaf.data + leaf.size());
    const Index n = edges.shape[0];
    for (Index e = 0; e < n; ++e) {
        const int32_t right = edges(e, 2);
        kept_edges[e] = kept_edges[e] && alive[edges(e, 1)] && (right < 0 || alive[right]);
        if (kept_edges[e]) alive[edges(e, 0)] = 1;
    }
    for (Index v = 0; v < leaf.size(); ++v) kept_nodes[v] = root[v] && alive[v];
    for (Index e = n - 1; e >= 0; --e) {
        kept_edges[e] = kept_edges[e] && kept_nodes[edges(e, 0)];
        if (!kept_edges[e]) continue;
        kept_nodes[edges(e, 1)] = true;
        if (edges(e, 2) >= 0) kept_nodes[edges(e, 2)] = true;
    }
}

// Share out the posteriors of nodes, given those of roots, by the edges' shares of their parents: edges come children's
// before parents', and shares become posteriors.
void share_out(Matrix<const int32_t> edges, Vector<double> share, Vector<double> posterior) {
    for (Index e = edges.shape[0] - 1; e >= 0; --e) {
        share[e] *= posterior[edges(e, 0)];
        posterior[edges(e, 1)] += share[e];
        if (edges(e, 2) >= 0) posterior[edges(e, 2)] += share[e];
    }
}

template <class T> void bind_passes(nb::module_ &module) {
    module.def("inside_pass", &forest_inside<T>, "shard"_a, "weights"_a, "vectors"_a, "log_likelihoods"_a, unlocked());
    module.def("outside_pass", &forest_outside<T>, "shard"_a, "weights"_a, "log_likelihoods"_a, "vectors"_a, unlocked());
    module.def("expected_rules", &forest_rules<T>, "shard"_a, "weights"_a, "vectors"_a, "first"_a, "last"_a, "expected"_a,
               unlocked());
    module.def("expected_inner", &forest_inner<T>, "shard"_a, "weights"_a, "vectors"_a, "occupancy"_a, unlocked());
    module.def("expected_leaves", &forest_leaves<T>, "shard"_a, "weights"_a, "vectors"_a, "slots"_a, "expected"_a,
               "occupancy"_a, unlocked());
    module.def("expected_roots", &forest_roots<T>, "shard"_a, "weights"_a, "vectors"_a, "expected"_a, unlocked());
}

}  // namespace

void bind_forest_estep(nb::module_ &module) {
    bind_passes<float>(module);
    bind_passes<double>(module);
    module.def("keep_whole", &keep_whole, "leaf"_a, "root"_a, "edges"_a, "kept_edges"_a, "kept_nodes"_a, unlocked());
    module.def("share_out", &share_out, "edges"_a, "share"_a, "posterior"_a, unlocked());
}

}  // namespace sapwood
