// Inside, outside and expected counts on observed trees, one shard of a corpus at a time.
//
// Nodes of a shard are numbered leaves first (by preterminal and word), then inner nodes by height and, within a height,
// by rule. Runs of nodes of one height and rule are *blocks*: their children are done when they begin (inside) or their
// parents (outside, in reverse). A node's vector is `vectors[offsets[v]:offsets[v + 1]]`. Inner nodes are also numbered
// on their own, from `n_leaves`.
//
// The work is in sums over `y = (b, c)`, runs of `m_b m_c` numbers, for up to four nodes at a time so that a tensor's row
// is read once for them.
//
// Every inside vector is scaled by a power of two so that its largest value lies in [1/2, 1); `exponent` keeps it.
// Outside vectors are scaled likewise but their exponents are not needed: at every node inside times outside sums to the
// tree's probability, so the posterior at a node is that product divided by its own sum. Posteriors of a node
// therefore sum to one in single precision too.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/module.hpp"
#include "estep/trees.hpp"

namespace sapwood {
namespace {

// A shard (`inference/estep/_shard_estep.py`).
struct Shard {
    Vector<const int32_t> symbol;  // (nodes)
    Index n_leaves;
    Vector<const int64_t> pairs, pair_nodes;  // leaves pair_nodes[q] .. pair_nodes[q + 1] - 1 are of pair pairs[q]
    Vector<const int32_t> left, right;        // (inner nodes): their children
    Vector<const int32_t> block_rule;         // block k is inner nodes block_nodes[k] .. block_nodes[k + 1] - 1
    Vector<const int64_t> block_nodes;
    Vector<const int32_t> rules;                // inner nodes of rule rules[s] are
    Vector<const int64_t> rule_nodes, members;  // members[rule_nodes[s] .. rule_nodes[s + 1] - 1]
    Vector<const int32_t> roots;                // (trees)

    static constexpr auto fields() {
        return std::tuple{field("symbol", &Shard::symbol),
                          field("n_leaves", &Shard::n_leaves),
                          field("pairs", &Shard::pairs),
                          field("pair_nodes", &Shard::pair_nodes),
                          field("left", &Shard::left),
                          field("right", &Shard::right),
                          field("block_rule", &Shard::block_rule),
                          field("block_nodes", &Shard::block_nodes),
                          field("rules", &Shard::rules),
                          field("rule_nodes", &Shard::rule_nodes),
                          field("members", &Shard::members),
                          field("roots", &Shard::roots)};
    }

    [[gnu::noinline]] void check() const {
        check_shape("right", right, left.size());
        check_shape("symbol", symbol, n_leaves + left.size());
        check_shape("pair_nodes", pair_nodes, pairs.size() + 1);
        check_shape("block_nodes", block_nodes, block_rule.size() + 1);
        check_shape("rule_nodes", rule_nodes, rules.size() + 1);
    }
};

// Raise ValueError if the arrays that a pass reads do not fit together.
template <class T>
[[gnu::noinline]] void check_arrays(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors,
                                    bool with_outside = true) {
    shard.check();
    weights.check();
    vectors.check(shard.symbol.size(), with_outside);
}

// Fill the height of every node, 0 on leaves; children stand behind their parents.
void node_heights(Vector<const int32_t> left, Vector<const int32_t> right, Vector<int32_t> height) {
    check_shape("left", left, height.size());
    check_shape("right", right, height.size());
    for (Index v = height.size() - 1; v >= 0; --v)
        height[v] = left[v] < 0 ? 0 : 1 + std::max(height[left[v]], height[right[v]]);
}

// Fill the logarithm of each tree's probability; -inf where it is 0 and NaN where it is negative.
template <class T>
void tree_likelihoods(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors,
                      Vector<double> log_likelihoods) {
    for (Index t = 0; t < shard.roots.size(); ++t) {
        const Index v = shard.roots[t];
        const double *root = weights.root.data + weights.state_offsets[shard.symbol[v]];
        double total = 0;
        for (Index x = 0; x < vectors.size(v); ++x) total += root[x] * vectors.in(v)[x];
        if (total > 0) log_likelihoods[t] = std::log(total) + vectors.exponent[v] * std::log(2.0);
        else log_likelihoods[t] = total == 0 ? -std::numeric_limits<double>::infinity() : std::nan("");
    }
}

// Fill `outers` (up to 4, m_b m_c) with the outer products of the children's inside vectors of `count` inner nodes.
template <class T, class Nodes>
void outer_products(const Shard &shard, const Vectors<T> &vectors, Nodes inner_node, Index count, Index m_b, Index m_c,
                    T *outers) {
    for (Index j = 0; j < count; ++j) {
        const Index i = inner_node(j);
        outer(vectors.in(shard.left[i]), m_b, vectors.in(shard.right[i]), m_c, outers + j * m_b * m_c);
    }
}

// Fill `inside` and `exponent` of all nodes, and the trees' log-likelihoods.
template <class T>
void inside_pass(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> log_likelihoods) {
    check_arrays(shard, weights, vectors, false);
    check_shape("log_likelihoods", log_likelihoods, shard.roots.size());
    place_leaves(shard, weights, vectors);
    const Index widest = weights.widest();
    std::vector<T> outers(4 * widest * widest);
    for (Index k = 0; k < shard.block_rule.size(); ++k) {
        const Index rule = shard.block_rule[k];
        const Index m_a = weights.states(rule, 0), m_b = weights.states(rule, 1), m_c = weights.states(rule, 2);
        const Index size = m_b * m_c;
        const T *tensor = weights.tensor(rule);
        Index together = 1;
        for (Index i = shard.block_nodes[k]; i < shard.block_nodes[k + 1]; i += together) {
            together = i + 4 <= shard.block_nodes[k + 1] ? 4 : 1;
            outer_products(shard, vectors, [&](Index j) { return i + j; }, together, m_b, m_c, outers.data());
            // Nodes of a block have the same symbol and their vectors stand one behind the other.
            T *target = vectors.in(shard.n_leaves + i);
            for (Index a = 0; a < m_a; ++a) {
                T totals[4];
                if (together == 4) dot_four(tensor + a * size, outers.data(), size, totals);
                else totals[0] = dot(tensor + a * size, outers.data(), size);
                for (Index j = 0; j < together; ++j) target[j * m_a + a] = totals[j];
            }
            for (Index j = 0; j < together; ++j) {
                T *vector = target + j * m_a;
                const int below = vectors.exponent[shard.left[i + j]] + vectors.exponent[shard.right[i + j]];
                vectors.exponent[shard.n_leaves + i + j] = below + rescale(vector, vector, m_a);
            }
        }
    }
    tree_likelihoods(shard, weights, vectors, log_likelihoods);
}

// Fill the children's outside vectors: `meeting` (m_b, m_c) times the other child's inside vector.
template <class T>
void hand_down(const T *meeting, const T *left_in, Index m_b, const T *right_in, Index m_c, T *left_out, T *right_out) {
    std::fill_n(right_out, m_c, T(0));
    for (Index x = 0; x < m_b; ++x) {
        left_out[x] = dot(meeting + x * m_c, right_in, m_c);
        axpy(right_out, left_in[x], meeting + x * m_c, m_c);
    }
    rescale(left_out, left_out, m_b);
    rescale(right_out, right_out, m_c);
}

// Fill `outside`, each vector up to a positive factor; zeros in trees that have no probability.
template <class T>
void outside_pass(const Shard &shard, const Weights<T> &weights, Vector<const double> log_likelihoods,
                  const Vectors<T> &vectors) {
    check_arrays(shard, weights, vectors);
    check_shape("log_likelihoods", log_likelihoods, shard.roots.size());
    for (Index t = 0; t < shard.roots.size(); ++t) {
        const Index v = shard.roots[t];
        if (log_likelihoods[t] == -std::numeric_limits<double>::infinity()) std::fill_n(vectors.out(v), vectors.size(v), T(0));
        else rescale(weights.root.data + weights.state_offsets[shard.symbol[v]], vectors.out(v), vectors.size(v));
    }
    const Index widest = weights.widest();
    std::vector<T> meeting(widest * widest);
    for (Index k = shard.block_rule.size() - 1; k >= 0; --k) {
        const Index rule = shard.block_rule[k];
        const Index m_a = weights.states(rule, 0), m_b = weights.states(rule, 1), m_c = weights.states(rule, 2);
        for (Index i = shard.block_nodes[k]; i < shard.block_nodes[k + 1]; ++i) {
            const Index b = shard.left[i], c = shard.right[i];
            contract(weights.tensor(rule), vectors.out(shard.n_leaves + i), m_a, meeting.data(), m_b * m_c);
            hand_down(meeting.data(), vectors.in(b), m_b, vectors.in(c), m_c, vectors.out(b), vectors.out(c));
        }
    }
}

// Inside times outside of a node: its tree's probability, as far as vectors keep it.
template <class T> double tree_weight(const Vectors<T> &vectors, Index node) {
    const T *inside = vectors.in(node), *outside = vectors.out(node);
    double total = 0;
    for (Index x = 0; x < vectors.size(node); ++x) total += static_cast<double>(inside[x]) * outside[x];
    return total;
}

// Add inside times outside of a node, divided by its sum, to the target.
template <class T> void add_posterior(const Vectors<T> &vectors, Index node, double *target) {
    const T *inside = vectors.in(node), *outside = vectors.out(node);
    const double total = tree_weight(vectors, node);
    if (total == 0) return;
    for (Index x = 0; x < vectors.size(node); ++x) target[x] += static_cast<double>(inside[x]) * outside[x] / total;
}

// Fill `share` (m_a) with the outside vector of an inner node divided by its tree's probability, as far as vectors
// keep it; no factor exceeds `most`.
template <class T>
void share_of(const Shard &shard, const Vectors<T> &vectors, Index inner_node, T *share, Index stride) {
    const double most = sizeof(T) == 4 ? 0x1p120 : 0x1p1000;
    const Index v = shard.n_leaves + inner_node, b = shard.left[inner_node], c = shard.right[inner_node];
    const double total = tree_weight(vectors, v);
    double factor = total == 0 ? 0 : 1 / total;
    // The children's vectors are scaled otherwise than the parent's.
    factor *= power_of_two(static_cast<Index>(vectors.exponent[b]) + vectors.exponent[c] - vectors.exponent[v]);
    factor = std::clamp(factor, -most, most);
    for (Index a = 0; a < vectors.size(v); ++a) share[a * stride] = static_cast<T>(factor * vectors.out(v)[a]);
}

// Add to `expected` (laid out as the tensors) for the rules `first .. last - 1`.
//
// That is the sum of `outside (x) left inside (x) right inside` over the nodes of a rule, each divided by its tree's
// probability: times the rule's tensor these are expected counts. A shard's sum is made apart and then added, so that
// it does not matter which rules are done together.
template <class T>
void expected_rules(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Index first, Index last,
                    Vector<double> expected) {
    check_arrays(shard, weights, vectors);
    weights.check_rules(first, last, expected.size());
    const Index widest = weights.widest();
    std::vector<T> outers(4 * widest * widest), shares(4 * widest);
    std::vector<double> sums;
    const int32_t *rules = shard.rules.data;
    for (Index s = std::lower_bound(rules, rules + shard.rules.size(), first) - rules;
         s < shard.rules.size() && rules[s] < last; ++s) {
        const Index rule = rules[s];
        const Index m_a = weights.states(rule, 0), m_b = weights.states(rule, 1), m_c = weights.states(rule, 2);
        const Index size = m_b * m_c;
        sums.assign(m_a * size, 0.0);
        Index together = 1;
        for (Index k = shard.rule_nodes[s]; k < shard.rule_nodes[s + 1]; k += together) {
            together = k + 4 <= shard.rule_nodes[s + 1] ? 4 : 1;
            const auto member = [&](Index j) { return shard.members[k + j]; };
            outer_products(shard, vectors, member, together, m_b, m_c, outers.data());
            for (Index j = 0; j < together; ++j) share_of(shard, vectors, member(j), shares.data() + j, together);
            for (Index a = 0; a < m_a; ++a) {
                if (together == 4) axpy_four(sums.data() + a * size, shares.data() + 4 * a, outers.data(), size);
                else axpy(sums.data() + a * size, static_cast<double>(shares[a]), outers.data(), size);
            }
        }
        axpy(expected.data + weights.tensor_offsets[rule], 1.0, sums.data(), m_a * size);
    }
}

// Add the posteriors of the inner nodes to `occupancy` (states), rule by rule.
template <class T>
void expected_inner(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> occupancy) {
    check_arrays(shard, weights, vectors);
    check_shape("occupancy", occupancy, weights.n_states());
    for (Index k = 0; k < shard.members.size(); ++k) {
        const Index v = shard.n_leaves + shard.members[k];
        add_posterior(vectors, v, occupancy.data + weights.state_offsets[shard.symbol[v]]);
    }
}

// Add the leaves' posteriors to `expected[slots[q]:]` of pair `q`, given zeroed, and to `occupancy` (states).
template <class T>
void expected_leaves(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<const int64_t> slots,
                     Vector<double> expected, Vector<double> occupancy) {
    check_arrays(shard, weights, vectors);
    check_shape("slots", slots, shard.pairs.size() + 1);
    check_shape("expected", expected, slots[shard.pairs.size()]);
    check_shape("occupancy", occupancy, weights.n_states());
    for (Index q = 0; q < shard.pairs.size(); ++q) {
        double *target = expected.data + slots[q];
        for (Index v = shard.pair_nodes[q]; v < shard.pair_nodes[q + 1]; ++v) add_posterior(vectors, v, target);
        double *states = occupancy.data + weights.state_offsets[shard.symbol[shard.pair_nodes[q]]];
        for (Index x = 0; x < slots[q + 1] - slots[q]; ++x) states[x] += target[x];
    }
}

// Add the posteriors of the roots' states to `expected` (states).
template <class T>
void expected_roots(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors, Vector<double> expected) {
    check_arrays(shard, weights, vectors);
    check_shape("expected", expected, weights.n_states());
    for (Index t = 0; t < shard.roots.size(); ++t) {
        const Index v = shard.roots[t];
        add_posterior(vectors, v, expected.data + weights.state_offsets[shard.symbol[v]]);
    }
}

// Add each slot's values to the place in `total` that `offsets[numbers[slot]]` gives.
void add_slots(Vector<const int64_t> numbers, Vector<const int64_t> slots, Vector<const double> values,
               Vector<const int64_t> offsets, Vector<double> total) {
    check_shape("slots", slots, numbers.size() + 1);
    check_shape("values", values, slots[numbers.size()]);
    if (offsets.size() == 0) check_shape("offsets", offsets, 1);
    check_shape("total", total, offsets[offsets.size() - 1]);
    for (Index s = 0; s < numbers.size(); ++s)
        axpy(total.data + offsets[numbers[s]], 1.0, values.data + slots[s], slots[s + 1] - slots[s]);
}

template <class T> void bind_passes(nb::module_ &module) {
    module.def("inside_pass", &inside_pass<T>, "shard"_a, "weights"_a, "vectors"_a, "log_likelihoods"_a, unlocked());
    module.def("outside_pass", &outside_pass<T>, "shard"_a, "weights"_a, "log_likelihoods"_a, "vectors"_a, unlocked());
    module.def("expected_rules", &expected_rules<T>, "shard"_a, "weights"_a, "vectors"_a, "first"_a, "last"_a, "expected"_a,
               unlocked());
    module.def("expected_inner", &expected_inner<T>, "shard"_a, "weights"_a, "vectors"_a, "occupancy"_a, unlocked());
    module.def("expected_leaves", &expected_leaves<T>, "shard"_a, "weights"_a, "vectors"_a, "slots"_a, "expected"_a,
               "occupancy"_a, unlocked());
    module.def("expected_roots", &expected_roots<T>, "shard"_a, "weights"_a, "vectors"_a, "expected"_a, unlocked());
}

}  // namespace

void bind_tree_estep(nb::module_ &module) {
    module.def("node_heights", &node_heights, "left"_a, "right"_a, "height"_a, unlocked());
    bind_passes<float>(module);
    bind_passes<double>(module);
    module.def("add_slots", &add_slots, "numbers"_a, "slots"_a, "values"_a, "offsets"_a, "total"_a, unlocked());
}

}  // namespace sapwood
