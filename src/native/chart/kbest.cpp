// A derivation is a tree below a node. A node's derivations are made in the order of their scores, and only when
// derivations above need them: each edge combines the best derivations of its children first.
//
// With hidden states a derivation has a vector, its inside probability `I(a)` for each state `a` of its node. Let `B(a)`
// be the sum over all derivations of the node. The score is the logarithm of
//
//     w = max over a of I(a) / B(a),
//
// the largest probability of the derivation, given a state of its node. It has three properties.
//
// 1. An edge whose own score, that of all its derivations together, is `u` gives derivations with a score of at most
//    `u` plus those of the children. So candidates are scored in the order of these bounds, and only if none that is
//    already scored is better.
// 2. A tree below a root `v` has at most the probability of all trees with this root, times `w`.
// 3. A tree that has the derivation at node `v` has at most the posterior of `v`, times `w`, and at most the posterior
//    of each of its edges. So, given k known trees, whatever cannot belong to a better one is skipped everywhere.
//
// With one state for each symbol, `w` is the conditional probability of the derivation, and all bounds are attained.
#include "chart/kbest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <tuple>

namespace sapwood {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();
// Bounds are compared with this tolerance: vectors may be in single precision.
constexpr double tolerance = 1e-3;

// The edges of each node, and the group of each edge.
struct Incoming {
    std::vector<Index> offsets;
    std::vector<int32_t> edges, group_of_edge;

    explicit Incoming(const Forest &f) : offsets(f.n_nodes() + 1, 0), edges(f.n_edges()), group_of_edge(f.n_edges()) {
        for (Index group = 0; group < f.n_groups(); ++group)
            offsets[f.group_parent[group] + 1] += f.group_offsets[group + 1] - f.group_offsets[group];
        for (Index v = 0; v < f.n_nodes(); ++v) offsets[v + 1] += offsets[v];
        std::vector<Index> next(offsets.begin(), offsets.end() - 1);
        for (Index group = 0; group < f.n_groups(); ++group)
            for (Index e = f.group_offsets[group]; e < f.group_offsets[group + 1]; ++e) {
                edges[next[f.group_parent[group]]++] = static_cast<int32_t>(e);
                group_of_edge[e] = static_cast<int32_t>(group);
            }
    }
};

struct Derivation {
    int32_t node, edge;   // -1: a leaf
    int32_t left, right;  // derivations of the children
    double score;
};

// A tree as the edges of its nodes in preorder; leaves are -1 - node.
using Edges = std::vector<int32_t>;

struct LimitReached {};
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

Vector<const double> view_of(const std::vector<double> &values) { return {values.data(), {static_cast<Index>(values.size())}}; }

// Order trees by their scores, the best first, and keep possible ones, at most `count`.
void sort_trees(KBest &found, std::size_t count) {
    std::vector<std::size_t> order(found.trees.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return found.scores[x] > found.scores[y]; });
    KBest sorted{{}, {}, found.bound};
    for (const std::size_t x : order) {
        if (found.scores[x] == impossible) break;
        if (sorted.trees.size() < count) {
            sorted.trees.push_back(std::move(found.trees[x]));
            sorted.scores.push_back(found.scores[x]);
        } else {
            sorted.bound = std::max(sorted.bound, found.scores[x]);
        }
    }
    found = std::move(sorted);
}

// Scores that are sums over edges, leaves and the root.
struct EdgeScorer {
    Vector<const double> leaf_score, edge_score, root_score;

    double leaf(int32_t node) { return leaf_score[node]; }
    double bound(Index edge) { return edge_score[edge]; }
    double combine(Index edge, const Derivation &left, const Derivation &right, int32_t, int32_t) {
        return edge_score[edge] + left.score + right.score;
    }
    double floor(Index) const { return impossible; }
    double root_bound(Index node) { return root_score[node]; }
    double root(const Derivation &top, int32_t) { return top.score + root_score[top.node]; }
    std::size_t bytes() const { return 0; }
};

// Scores of derivations under a mixture of grammars with states, as described above.
template <class Real> class GrammarScorer {
  public:
    GrammarScorer(const Forest &forest, const Incoming &incoming, const std::vector<MemberChart<Real>> &members,
                  const LogPosteriors &posteriors)
        : f(forest), incoming(incoming), members(members), posteriors(posteriors), offsets(f.n_nodes() + 1, 0),
          edge_bound(f.n_edges(), std::numeric_limits<double>::quiet_NaN()) {
        for (Index v = 0; v < f.n_nodes(); ++v) {
            offsets[v + 1] = offsets[v];
            for (const auto &m : members) offsets[v + 1] += m.offsets[v + 1] - m.offsets[v];
        }
        inside.reserve(offsets[f.n_nodes()]);
        Index widest = 1;
        for (Index v = 0; v < f.n_nodes(); ++v) {
            for (const auto &m : members)
                for (Index x = m.offsets[v]; x < m.offsets[v + 1]; ++x)
                    inside.push_back(std::max(0.0, static_cast<double>(m.inside[x])));
            widest = std::max(widest, offsets[v + 1] - offsets[v]);
        }
        scratch.resize(widest);
    }

    // From now on, skip whatever cannot belong to a tree that is more probable than this.
    void set_least(double log_probability) { least = log_probability - posteriors.sentence - tolerance; }

    double leaf(int32_t node) {
        const auto *first = inside.data() + offsets[node], *last = inside.data() + offsets[node + 1];
        if (std::none_of(first, last, [](double value) { return value > 0; })) return impossible;
        vectors.push_back(-1 - offsets[node]);
        return 0;
    }
    // The score of all derivations of an edge together.
    double bound(Index edge) {
        double &known = edge_bound[edge];
        if (std::isnan(known)) {
            const bool useless = posteriors.edges[edge] < least;
            known = useless ? impossible
                            : apply(edge, inside.data() + offsets[f.children[2 * edge]],
                                    inside.data() + offsets[f.children[2 * edge + 1]]);
        }
        return known;
    }
    double combine(Index edge, const Derivation &left, const Derivation &right, int32_t left_id, int32_t right_id) {
        const double own = apply(edge, vector_of(left_id), vector_of(right_id));
        if (own == impossible) return impossible;
        const Index parent = f.group_parent[incoming.group_of_edge[edge]];
        vectors.push_back(static_cast<Index>(values.size()));
        values.insert(values.end(), scratch.begin(), scratch.begin() + (offsets[parent + 1] - offsets[parent]));
        return own + left.score + right.score;
    }
    double floor(Index node) const { return least - posteriors.nodes[node]; }
    double root_bound(Index node) { return root_weight(node, inside.data() + offsets[node]); }
    double root(const Derivation &top, int32_t id) { return top.score + root_weight(top.node, vector_of(id)); }
    std::size_t bytes() const { return values.capacity() * sizeof(double); }

  private:
    const Forest &f;
    const Incoming &incoming;
    const std::vector<MemberChart<Real>> &members;
    const LogPosteriors &posteriors;
    double least = impossible;
    std::vector<Index> offsets;  // (nodes + 1): the vectors of all members, one behind the other
    std::vector<double> inside;  // sums over all derivations
    std::vector<Index> vectors;  // of derivations: places in `values`, or -1 - places in `inside` for leaves
    std::vector<double> values;  // inside probabilities of derivations, so that the largest ratio to `inside` is 1
    std::vector<double> scratch, edge_bound;

    const double *vector_of(int32_t id) const {
        return vectors[id] < 0 ? inside.data() + (-1 - vectors[id]) : values.data() + vectors[id];
    }

    // Fill `scratch` with the edge's vector, given those of its children; returns its score, less those of the children.
    double apply(Index edge, const double *left, const double *right) {
        const Index group = incoming.group_of_edge[edge];
        const Index parent = f.group_parent[group], b = f.children[2 * edge], c = f.children[2 * edge + 1];
        const Index size = offsets[parent + 1] - offsets[parent];
        std::fill_n(scratch.begin(), size, 0.0);
        double *target = scratch.data();
        for (const auto &m : members) {
            add_rule(*m.grammar, f.group_rule[group], left, right, target);
            const int64_t shift = m.exponent[f.node_cell[b]] + m.exponent[f.node_cell[c]] - m.exponent[f.node_cell[parent]];
            const int power = static_cast<int>(std::clamp<int64_t>(shift, -4000, 4000));
            const Index width = m.offsets[parent + 1] - m.offsets[parent];
            for (Index a = 0; a < width; ++a)
                if (target[a] > 0) target[a] = std::ldexp(target[a], power);
            target += width;
            left += m.offsets[b + 1] - m.offsets[b];
            right += m.offsets[c + 1] - m.offsets[c];
        }
        const double *all = inside.data() + offsets[parent];
        double largest = 0;
        for (Index a = 0; a < size; ++a) {
            if (!(all[a] > 0)) scratch[a] = 0;
            else largest = std::max(largest, scratch[a] / all[a]);
        }
        if (!(largest > 0) || !std::isfinite(largest)) return impossible;
        for (Index a = 0; a < size; ++a) scratch[a] /= largest;
        return std::log(largest);
    }

    static void add_rule(const FineGrammar<Real> &g, int32_t r, const double *left, const double *right, double *target) {
        if (!g.small.empty()) {
            const Real *tensor = g.small.data() + 64 * r;
            for (int y = 0; y < 64; ++y)
                if (tensor[y] > 0) target[y % 4] += tensor[y] * left[y / 16] * right[y / 4 % 4];
            return;
        }
        g.for_each_weight(r, [&](Index a, Index b, Index c, Real weight) { target[a] += weight * (left[b] * right[c]); });
        for (Index d = g.dense_offsets[r]; d < g.dense_offsets[r + 1]; ++d) {
            const DenseTensor<Real> &t = g.dense[d];
            const Real *weight = t.values;
            for (int32_t a = 0; a < t.m_a; ++a) {
                double total = 0;
                for (int32_t y = 0; y < t.m_b; ++y, weight += t.m_c) {
                    double row = 0;
                    for (int32_t z = 0; z < t.m_c; ++z) row += weight[z] * right[t.place_c + z];
                    total += row * left[t.place_b + y];
                }
                target[t.place_a + a] += total;
            }
        }
    }

    // The logarithm of the probability of a root with this vector.
    double root_weight(Index node, const double *vector) const {
        double sum = 0, reference = impossible;
        std::vector<double> logs;
        for (const auto &m : members) {
            const Index width = m.offsets[node + 1] - m.offsets[node];
            const Real *weight = m.grammar->root.data() + m.grammar->symbol_offsets[f.node_symbol[node]];
            double total = 0;
            for (Index a = 0; a < width; ++a) total += weight[a] * vector[a];
            vector += width;
            if (!(total > 0)) continue;
            const double exponent = static_cast<double>(m.exponent[f.top()]);
            logs.push_back(std::log(total) + exponent * std::numbers::ln2);
            reference = std::max(reference, logs.back());
        }
        if (logs.empty()) return impossible;
        for (const double value : logs) sum += std::exp(value - reference);
        return reference + std::log(sum);
    }
};

template <class Scorer> class LazySearch {
  public:
    LazySearch(const Forest &forest, const Incoming &incoming, Index n_interminals, Scorer &scorer, std::size_t limit,
               const Budget &budget)
        : f(forest), incoming(incoming), n_interminals(n_interminals), scorer(scorer), limit(limit), budget(budget),
          nodes(forest.n_nodes()) {}

    KBest run(std::size_t count) {
        KBest result{{}, {}, impossible};
        std::vector<RootCandidate> waiting;
        std::vector<Scored> ready;
        const auto offer = [&](Index node, std::size_t rank) {
            if (!has(node, rank)) return;
            const double weight = scorer.root_bound(node);
            if (weight == impossible) return;
            waiting.push_back({score(node, rank) + weight, node, rank});
            std::push_heap(waiting.begin(), waiting.end());
        };
        double in_hand = impossible;  // the bound of what is being made
        try {
            in_hand = std::numeric_limits<double>::infinity();
            for (Index v = f.first_root(); v < f.end_of_roots(); ++v) offer(v, 0);
            in_hand = impossible;
            while (result.trees.size() < count) {
                if (!ready.empty() && (waiting.empty() || ready.front().score >= waiting.front().bound)) {
                    take(ready, result);
                } else if (!waiting.empty()) {
                    const RootCandidate best = waiting.front();
                    std::pop_heap(waiting.begin(), waiting.end());
                    waiting.pop_back();
                    const int32_t id = nodes[best.node].done[best.rank];
                    const double exact = scorer.root(derivations[id], id);
                    if (exact > impossible) {
                        ready.push_back({exact, id});
                        std::push_heap(ready.begin(), ready.end());
                    }
                    in_hand = best.bound;
                    offer(best.node, best.rank + 1);
                    in_hand = impossible;
                } else {
                    break;
                }
            }
        } catch (const LimitReached &) {
        }
        const double unseen = std::max(in_hand, waiting.empty() ? impossible : waiting.front().bound);
        while (result.trees.size() < count && !ready.empty()) take(ready, result);
        result.bound = std::max(unseen, ready.empty() ? impossible : ready.front().score);
        return result;
    }

    // The score of a tree.
    double score_tree(const Edges &tree) {
        std::vector<int32_t> stack;  // derivations of finished subtrees; from the right, parents come behind their children
        for (auto x = tree.rbegin(); x != tree.rend(); ++x) {
            if (*x < 0) {
                const double value = scorer.leaf(-1 - *x);
                if (value == impossible) return impossible;
                stack.push_back(add(-1 - *x, -1, -1, -1, value));
                continue;
            }
            const int32_t left = stack.back(), right = stack[stack.size() - 2];
            stack.resize(stack.size() - 2);
            const double value = scorer.combine(*x, derivations[left], derivations[right], left, right);
            if (value == impossible) return impossible;
            stack.push_back(add(f.group_parent[incoming.group_of_edge[*x]], *x, left, right, value));
        }
        return scorer.root(derivations[stack.back()], stack.back());
    }

    std::vector<Edges> edges_of_trees;  // of what `run` returned

    // How many derivations were scored.
    std::size_t size() const { return derivations.size(); }
    void set_limit(std::size_t derivations) { limit = derivations; }

  private:
    struct Candidate {
        double bound;
        int32_t edge, left, right;  // ranks of the children's derivations
        bool operator<(const Candidate &other) const {
            return std::tie(bound, other.edge, other.left, other.right) < std::tie(other.bound, edge, left, right);
        }
    };
    struct Scored {
        double score;
        int32_t id;
        bool operator<(const Scored &other) const { return std::tie(score, other.id) < std::tie(other.score, id); }
    };
    struct RootCandidate {
        double bound;
        Index node;
        std::size_t rank;
        bool operator<(const RootCandidate &other) const {
            return std::tie(bound, other.node, other.rank) < std::tie(other.bound, node, rank);
        }
    };
    struct Node {
        std::vector<Candidate> waiting;  // a heap of derivations that are not scored yet
        std::vector<Scored> ready;       // a heap of those that are
        std::vector<int32_t> done;       // derivations in order
        bool begun = false;
    };

    const Forest &f;
    const Incoming &incoming;
    const Index n_interminals;
    Scorer &scorer;
    std::size_t limit;
    const Budget &budget;
    std::vector<Node> nodes;
    std::vector<Derivation> derivations;

    double score(Index node, std::size_t rank) const { return derivations[nodes[node].done[rank]].score; }

    // Return whether a node has a derivation of this rank; derivations are made on demand.
    bool has(Index v, std::size_t rank) {
        Node &node = nodes[v];
        if (!node.begun) begin(v);
        while (node.done.size() <= rank) {
            if (!node.ready.empty() && (node.waiting.empty() || node.ready.front().score >= node.waiting.front().bound)) {
                node.done.push_back(node.ready.front().id);
                std::pop_heap(node.ready.begin(), node.ready.end());
                node.ready.pop_back();
            } else if (!node.waiting.empty()) {
                const Candidate best = node.waiting.front();
                std::pop_heap(node.waiting.begin(), node.waiting.end());
                node.waiting.pop_back();
                make(v, best);
                offer(v, best.edge, best.left, best.right + 1);
                if (best.right == 0) offer(v, best.edge, best.left + 1, 0);
            } else {
                return false;
            }
        }
        return true;
    }

    void begin(Index v) {
        nodes[v].begun = true;
        if (f.node_symbol[v] >= n_interminals) {
            const double value = scorer.leaf(static_cast<int32_t>(v));
            if (value > impossible) nodes[v].done.push_back(add(v, -1, -1, -1, value));
            return;
        }
        for (Index x = incoming.offsets[v]; x < incoming.offsets[v + 1]; ++x) offer(v, incoming.edges[x], 0, 0);
    }

    void offer(Index v, int32_t edge, int32_t left, int32_t right) {
        const double own = scorer.bound(edge);
        if (own == impossible) return;
        const Index b = f.children[2 * edge], c = f.children[2 * edge + 1];
        if (!has(b, left) || !has(c, right)) return;
        const double bound = own + score(b, left) + score(c, right);
        if (!(bound > impossible) || bound < scorer.floor(v)) return;
        Node &node = nodes[v];
        node.waiting.push_back({bound, edge, left, right});
        std::push_heap(node.waiting.begin(), node.waiting.end());
    }

    void make(Index v, const Candidate &c) {
        if (derivations.size() >= limit) throw LimitReached();
        if (derivations.size() % 64 == 0) {
            budget.check_time();
            budget.check_room(scorer.bytes() + derivations.capacity() * sizeof(Derivation));
        }
        const int32_t left = nodes[f.children[2 * c.edge]].done[c.left],
                      right = nodes[f.children[2 * c.edge + 1]].done[c.right];
        const double value = scorer.combine(c.edge, derivations[left], derivations[right], left, right);
        if (!(value > impossible)) return;
        const int32_t id = add(v, c.edge, left, right, value);
        nodes[v].ready.push_back({value, id});
        std::push_heap(nodes[v].ready.begin(), nodes[v].ready.end());
    }

    int32_t add(Index v, int32_t edge, int32_t left, int32_t right, double value) {
        derivations.push_back({static_cast<int32_t>(v), edge, left, right, value});
        return static_cast<int32_t>(derivations.size()) - 1;
    }

    // Move the best tree to the result.
    void take(std::vector<Scored> &ready, KBest &result) {
        std::vector<int32_t> tree, stack{ready.front().id};
        Edges edges;
        while (!stack.empty()) {
            const Derivation &d = derivations[stack.back()];
            stack.pop_back();
            tree.push_back(d.node);
            edges.push_back(d.edge < 0 ? -1 - d.node : d.edge);
            if (d.edge >= 0) {
                stack.push_back(d.right);
                stack.push_back(d.left);
            }
        }
        result.trees.push_back(std::move(tree));
        result.scores.push_back(ready.front().score);
        edges_of_trees.push_back(std::move(edges));
        std::pop_heap(ready.begin(), ready.end());
        ready.pop_back();
    }
};

}  // namespace

KBest k_best_by_scores(const Forest &forest, Index n_interminals, Vector<const double> leaf_score,
                       Vector<const double> edge_score, Vector<const double> root_score, std::size_t count,
                       const Budget &budget) {
    const Incoming incoming(forest);
    EdgeScorer scorer{leaf_score, edge_score, root_score};
    return LazySearch(forest, incoming, n_interminals, scorer, unlimited, budget).run(count);
}

template <class Real>
KBest k_best_of_grammars(const Forest &forest, Index n_interminals, const std::vector<MemberChart<Real>> &members,
                         const LogPosteriors &posteriors, std::size_t count, std::size_t limit, const Budget &budget) {
    const Incoming incoming(forest);
    // Without states, the distribution that is closest to the grammars' is the product of the edges' conditional
    // probabilities. Its best trees are candidates.
    std::vector<double> edge_score(forest.n_edges()),
        root_score(posteriors.nodes.data, posteriors.nodes.data + forest.n_nodes());
    const std::vector<double> leaf_score(forest.n_nodes(), 0.0);
    for (Index e = 0; e < forest.n_edges(); ++e) {
        const double parent = posteriors.nodes[forest.group_parent[incoming.group_of_edge[e]]];
        edge_score[e] = parent > impossible ? posteriors.edges[e] - parent : impossible;
    }
    EdgeScorer conditional{view_of(leaf_score), view_of(edge_score), view_of(root_score)};
    LazySearch first(forest, incoming, n_interminals, conditional, unlimited, budget);
    const std::size_t enough = 2 * count + 10;
    KBest candidates = first.run(enough);
    const bool all = candidates.trees.size() < enough;

    GrammarScorer<Real> scorer(forest, incoming, members, posteriors);
    LazySearch search(forest, incoming, n_interminals, scorer, unlimited, budget);
    for (std::size_t x = 0; x < candidates.trees.size(); ++x) candidates.scores[x] = search.score_tree(first.edges_of_trees[x]);
    candidates.bound = impossible;
    sort_trees(candidates, count);
    if (all) return candidates;
    // What is skipped from now on is less probable than the last of k candidates.
    const double skipped = candidates.trees.size() == count ? candidates.scores.back() : impossible;
    if (skipped > impossible) scorer.set_least(skipped);
    search.set_limit(search.size() + limit);
    KBest found = search.run(count);
    // If the search ended early, candidates may be better than its trees.
    const double unseen = found.bound;
    for (std::size_t x = 0; x < candidates.trees.size(); ++x) {
        if (std::find(found.trees.begin(), found.trees.end(), candidates.trees[x]) != found.trees.end()) continue;
        found.trees.push_back(std::move(candidates.trees[x]));
        found.scores.push_back(candidates.scores[x]);
    }
    found.bound = std::max({unseen, candidates.bound, skipped});
    sort_trees(found, count);
    return found;
}

template KBest k_best_of_grammars(const Forest &, Index, const std::vector<MemberChart<float>> &, const LogPosteriors &,
                                  std::size_t, std::size_t, const Budget &);
template KBest k_best_of_grammars(const Forest &, Index, const std::vector<MemberChart<double>> &, const LogPosteriors &,
                                  std::size_t, std::size_t, const Budget &);

}  // namespace sapwood
